//! Controllers written as neqo's trait and as quiche's struct of functions ask, fitted to [`Window`]. Both do what the
//! same controller does that is fitted straight. Their own controllers have no public name: `docs/evaluate-rust.md`.

use knee_evaluate::{Acked, Deployed, Evaluation, InFlight, Lost, Packet, Report, Verdict, Window, window};
use std::time::Duration;

/// Additive increase by a packet per round trip, multiplicative decrease to a half.
#[derive(Clone)]
struct Aimd {
    cwnd: usize,
    mtu: usize,
    /// When the latest reduction began: packets sent before it reduce no more.
    reduced: Option<Duration>,
}

impl Aimd {
    fn new(mtu: u16) -> Self {
        Self { cwnd: 10 * usize::from(mtu), mtu: mtu.into(), reduced: None }
    }

    fn grow(&mut self, bytes: usize) {
        self.cwnd += if self.reduced.is_none() { bytes } else { self.mtu * bytes / self.cwnd };
    }

    fn reduce(&mut self, sent: Duration, now: Duration) -> bool {
        let new = self.reduced.is_none_or(|at| sent > at);
        if new {
            self.reduced = Some(now);
            self.cwnd = (self.cwnd / 2).max(2 * self.mtu);
        }
        new
    }
}

/// Fitted straight.
#[derive(Clone)]
struct Straight {
    aimd: Aimd,
    flight: InFlight<()>,
}

impl Window for Straight {
    fn on_sent(&mut self, now: Duration, bytes: u64) {
        self.flight.on_sent(now, bytes, ());
    }

    fn on_ack(&mut self, ack: &Acked) {
        assert!(ack.now < Duration::from_secs(5) || self.aimd.mtu > 1_200, "the MTU is found");
        if let Some(packet) = self.flight.on_ack(ack) {
            self.aimd.grow(packet.bytes as usize);
        }
    }

    fn on_end_acks(&mut self, now: Duration, in_flight: u64) {
        self.flight.on_end_acks(in_flight);
        // A probe of the MTU may be in flight beside them.
        assert!(now > Duration::ZERO && in_flight - self.flight.bytes() <= 1_500);
    }

    fn on_loss(&mut self, loss: &Lost) {
        let lost: u64 = self.flight.on_loss(loss).iter().map(|packet| packet.bytes).sum();
        // Without packets it is a probe of the MTU.
        assert!(lost == loss.bytes || lost == 0);
        if lost > 0 || loss.bytes == 0 {
            self.aimd.reduce(loss.sent, loss.now);
        }
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.aimd.mtu = mtu.into();
    }

    fn window(&self) -> u64 {
        self.aimd.cwnd as u64
    }
}

/// The methods of neqo's trait `CongestionController`, without its types: packets come in batches, acknowledged ones
/// with the newest first.
trait Neqo: Clone + Send + Sync + 'static {
    fn on_packet_sent(&mut self, packet: &Packet<()>, now: Duration);
    fn on_packets_acked(&mut self, acked: &[Packet<()>], min_rtt: Duration, now: Duration);
    fn on_packets_lost(&mut self, lost: &[Packet<()>], persistent: bool, now: Duration) -> bool;
    fn on_ecn_ce_received(&mut self, largest_acked_sent: Duration, now: Duration) -> bool;
    fn set_mtu(&mut self, mtu: usize);
    fn cwnd(&self) -> usize;
}

#[derive(Clone)]
struct OfNeqo<C> {
    controller: C,
    flight: InFlight<()>,
    /// Packets of the ACK that is being read.
    acked: Vec<Packet<()>>,
    min_rtt: Duration,
}

impl<C: Neqo> Window for OfNeqo<C> {
    fn on_sent(&mut self, now: Duration, bytes: u64) {
        let packet = self.flight.on_sent(now, bytes, ());
        self.controller.on_packet_sent(&packet, now);
    }

    fn on_ack(&mut self, ack: &Acked) {
        self.min_rtt = ack.min_rtt;
        self.acked.extend(self.flight.on_ack(ack));
    }

    fn on_end_acks(&mut self, now: Duration, in_flight: u64) {
        self.acked.reverse();
        self.controller.on_packets_acked(&self.acked, self.min_rtt, now);
        self.acked.clear();
        self.flight.on_end_acks(in_flight);
    }

    fn on_loss(&mut self, loss: &Lost) {
        if loss.bytes == 0 {
            self.controller.on_ecn_ce_received(loss.sent, loss.now);
        } else {
            self.controller.on_packets_lost(&self.flight.on_loss(loss), loss.persistent, loss.now);
        }
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.controller.set_mtu(mtu.into());
    }

    fn window(&self) -> u64 {
        self.controller.cwnd() as u64
    }
}

impl Neqo for Aimd {
    fn on_packet_sent(&mut self, packet: &Packet<()>, now: Duration) {
        assert_eq!(packet.sent, now);
    }

    fn on_packets_acked(&mut self, acked: &[Packet<()>], min_rtt: Duration, now: Duration) {
        assert!(acked.is_sorted_by(|newer, older| newer.number > older.number));
        for packet in acked {
            assert!(now > packet.sent && min_rtt > Duration::ZERO);
            self.grow(packet.bytes as usize);
        }
    }

    fn on_packets_lost(&mut self, lost: &[Packet<()>], _: bool, now: Duration) -> bool {
        assert!(lost.is_sorted_by_key(|packet| packet.number));
        lost.last().is_some_and(|newest| self.reduce(newest.sent, now))
    }

    fn on_ecn_ce_received(&mut self, largest_acked_sent: Duration, now: Duration) -> bool {
        self.reduce(largest_acked_sent, now)
    }

    fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
    }

    fn cwnd(&self) -> usize {
        self.cwnd
    }
}

/// The functions of quiche's `CongestionControlOps`, which change a state that knows the window.
struct Quiche {
    on_packet_sent: fn(&mut Aimd, sent_bytes: usize, bytes_in_flight: usize, now: Duration),
    on_packets_acked: fn(&mut Aimd, bytes_in_flight: usize, acked: &mut Vec<Packet<()>>, now: Duration),
    congestion_event: fn(&mut Aimd, bytes_in_flight: usize, lost: usize, largest_lost: Duration, now: Duration),
}

#[derive(Clone)]
struct OfQuiche {
    ops: &'static Quiche,
    state: Aimd,
    flight: InFlight<()>,
    /// Packets of the ACK that is being read.
    acked: Vec<Packet<()>>,
}

impl OfQuiche {
    fn in_flight(&self) -> usize {
        self.flight.bytes() as usize
    }
}

impl Window for OfQuiche {
    fn on_sent(&mut self, now: Duration, bytes: u64) {
        (self.ops.on_packet_sent)(&mut self.state, bytes as usize, self.flight.bytes() as usize, now);
        self.flight.on_sent(now, bytes, ());
    }

    fn on_ack(&mut self, ack: &Acked) {
        self.acked.extend(self.flight.on_ack(ack));
    }

    fn on_end_acks(&mut self, now: Duration, in_flight: u64) {
        // Packets of this ACK still count as in flight.
        let before = self.in_flight() + self.acked.iter().map(|packet| packet.bytes as usize).sum::<usize>();
        (self.ops.on_packets_acked)(&mut self.state, before, &mut self.acked, now);
        self.flight.on_end_acks(in_flight);
    }

    fn on_loss(&mut self, loss: &Lost) {
        if !self.flight.on_loss(loss).is_empty() || loss.bytes == 0 {
            let in_flight = self.in_flight();
            (self.ops.congestion_event)(&mut self.state, in_flight, loss.bytes as usize, loss.sent, loss.now);
        }
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.state.mtu = mtu.into();
    }

    fn window(&self) -> u64 {
        self.state.cwnd as u64
    }
}

static AIMD: Quiche = Quiche {
    on_packet_sent: |_, sent_bytes, _, _| assert!(sent_bytes > 0),
    on_packets_acked: |aimd, bytes_in_flight, acked, _| {
        assert!(bytes_in_flight >= acked.iter().map(|packet| packet.bytes as usize).sum());
        for packet in acked.drain(..) {
            aimd.grow(packet.bytes as usize);
        }
    },
    congestion_event: |aimd, _, _, largest_lost, now| {
        aimd.reduce(largest_lost, now);
    },
};

fn run(evaluation: Evaluation) -> Report {
    let evaluation = evaluation.named("aimd").only("wired").only("high-loss");
    evaluation.against(Deployed::Reno).seeds(1).run().unwrap()
}

#[test]
#[ignore = "long: make test-system"]
fn controllers_of_other_shapes_give_the_figures_of_one_that_is_fitted_straight() {
    let straight = run(window(|mtu| Straight { aimd: Aimd::new(mtu), flight: InFlight::default() }));
    assert!(straight.with(Verdict::DoesNotRun).next().is_none(), "{straight}");
    let neqo = run(window(|mtu| OfNeqo {
        controller: Aimd::new(mtu),
        flight: InFlight::default(),
        acked: Vec::new(),
        min_rtt: Duration::MAX,
    }));
    let quiche = run(window(|mtu| OfQuiche {
        ops: &AIMD,
        state: Aimd::new(mtu),
        flight: InFlight::default(),
        acked: Vec::new(),
    }));
    assert_eq!(straight.to_string(), neqo.to_string());
    assert_eq!(straight.to_string(), quiche.to_string());
}
