//! QUIC flows: connections of a real QUIC stack, whose datagrams cross the simulated links.
//!
//! A datagram lies in [`World::datagrams`] while a packet that carries its number goes through the network. The figures are
//! the same as TCP's, as far as a QUIC sender has them: payload counts as it reaches the receiver, what is lost is sent
//! again in other packets, and persistent congestion stands where TCP has timeouts.

use super::non_tcp::{NonTcp, SenderFigures};
use super::world::{Outbox, World};
use knee_cc::{CaState, Control};
use knee_core::{Packet, Time};
use knee_quic::proto::EcnCodepoint;
use knee_quic::{Datagram, Peer, Settings, Stack, Watch};
use knee_tcp::sender::Counters;
use std::sync::Arc;

/// Bytes of the IPv4 and UDP headers.
const HEADERS: u16 = 28;
/// Bytes of stream data that a receiver takes ahead of what is read: it never holds the sender back.
const RECEIVE_WINDOW: u64 = 1 << 30;

/// Both ends of a QUIC flow.
pub(super) struct QuicFlow {
    /// Opens its connection, whose controller `watch` sees.
    stack: Arc<dyn Stack>,
    watch: Arc<Watch>,
    told: Told,
    /// Sender and receiver, from its start on.
    ends: Option<Box<(Peer, Peer)>>,
    /// Datagrams that left the sender, and their bytes as IP packets.
    sent: u64,
    sent_bytes: u64,
    /// Integral of the window over time, packets times ns, when it was last brought up to date, and the window since then.
    cwnd_integral: (u128, Time, u32),
}

/// What a specification says of a QUIC flow.
pub(super) struct Told {
    pub(super) bytes: Option<u64>,
    /// Whether its packets are ECN-capable.
    pub(super) ecn: bool,
    /// Whether they are encrypted.
    pub(super) tls: bool,
    /// Names its random numbers.
    pub(super) seed: u64,
    pub(super) start: Time,
}

impl QuicFlow {
    /// A flow that has not begun, with controllers that `watch` sees.
    pub(super) fn new(stack: Arc<dyn Stack>, watch: Arc<Watch>, told: Told) -> Self {
        let cwnd_integral = (0, told.start, 0);
        Self { stack, watch, told, ends: None, sent: 0, sent_bytes: 0, cwnd_integral }
    }

    /// Datagrams that left the sender.
    pub(super) const fn sent(&self) -> u64 {
        self.sent
    }

    /// The controller's window, threshold and phase; none before its first packet.
    fn control(&self) -> Option<Control> {
        self.watch.look(|seen| seen.control)
    }

    /// Counts the window up to `now`.
    fn note_cwnd(&mut self, now: Time) {
        let (sum, since, cwnd) = self.cwnd_integral;
        let area = u128::from(cwnd) * u128::from(now.saturating_sub(since).as_nanos());
        self.cwnd_integral = (sum + area, now, self.control().map_or(0, |control| control.cwnd));
    }

    /// When its ends have something to do by themselves: sender and receiver.
    pub(super) fn due(&mut self, now: Time) -> (Time, Time) {
        let Some(ends) = &mut self.ends else { return (Time::MAX, Time::MAX) };
        let due = |end: &mut Peer| end.deadline(now).map_or(Time::MAX, |at| at.max(now));
        (due(&mut ends.0), due(&mut ends.1))
    }

    /// No new data from now on.
    pub(super) fn stop(&mut self) {
        if let Some(ends) = &mut self.ends {
            ends.0.stop();
        }
    }

    /// What the figures say of its sender now.
    pub(super) fn figures(&mut self, now: Time) -> SenderFigures {
        self.note_cwnd(now);
        let (control, view) = self.watch.look(|seen| (seen.control, seen.view));
        let persistent = self.watch.look(|seen| seen.persistent);
        let received = self.ends.as_ref().map_or(0, |ends| ends.1.received());
        let stats = self.ends.as_mut().and_then(|ends| ends.0.stats());
        let lost = stats.map_or(0, |stats| stats.lost_packets);
        let in_flight = view.map_or(0, |view| view.in_flight);
        let mtu = stats.map_or(0, |stats| stats.mtu);
        SenderFigures {
            counters: Counters {
                sent: self.sent,
                sent_bytes: self.sent_bytes,
                // QUIC sends the frames of lost packets in new ones (docs/quic.md): their number is that of the lost ones.
                retransmitted: lost,
                lost,
                timeouts: u64::from(persistent),
            },
            delivered_bytes: received,
            new_bytes: received + u64::from(in_flight) * u64::from(mtu),
            outstanding: u64::from(in_flight),
            in_flight,
            srtt: view.map_or(Time::ZERO, |view| view.srtt),
            ca: view.map_or(CaState::Open, |view| view.ca),
            cwnd: Some(control.map_or(0, |control| control.cwnd)),
            phase: control.map_or(0, |control| control.phase),
            pacing_rate_bps: control.and_then(|control| control.pacing_rate).map(knee_core::Rate::as_bps),
            cwnd_integral: self.cwnd_integral.0,
        }
    }
}

impl World {
    /// Flow `i`, if it is one of QUIC.
    fn quic_flow(&mut self, i: u32) -> Option<&mut QuicFlow> {
        match self.non_tcp(i)? {
            NonTcp::Quic(flow) => Some(flow),
            NonTcp::Datagrams(_) => None,
        }
    }

    /// Opens the connection of QUIC flow `i`.
    pub(super) fn start_quic(&mut self, i: u32, out: &mut impl Outbox) {
        let now = self.now;
        let log = self.logs.get(i as usize).cloned().flatten();
        if let Some(flow) = self.quic_flow(i) {
            let Told { bytes, seed, tls, .. } = flow.told;
            let settings = |end, log| Settings {
                receive_window: RECEIVE_WINDOW,
                seed: seed ^ end,
                tls,
                pacing_credit: Time::ZERO,
                log,
            };
            let sender = Peer::connect(&*flow.stack, bytes, &settings(0, log), now);
            flow.ends = Some(Box::new((sender, Peer::receiver(&*flow.stack, &settings(1, None)))));
        }
        self.transmit_quic(i, out);
    }

    /// A packet with a datagram has arrived now: at the receiver, or, if it went against the data, at the sender.
    pub(super) fn on_quic(&mut self, packet: &Packet, out: &mut impl Outbox) {
        let now = self.now;
        let Some(mut datagram) = self.datagrams.try_remove(packet.seq as usize) else { return };
        if packet.has(Packet::CE) {
            datagram.ecn = Some(EcnCodepoint::Ce);
        }
        let to_sender = packet.has(Packet::ACK);
        if !to_sender {
            self.receivers[packet.flow as usize].count(packet);
        }
        if let Some(ends) = self.quic_flow(packet.flow).and_then(|flow| flow.ends.as_mut()) {
            if to_sender { ends.0.receive(now, datagram) } else { ends.1.receive(now, datagram) }
        }
        self.transmit_quic(packet.flow, out);
    }

    /// A packet with a datagram was dropped.
    pub(super) fn drop_quic(&mut self, packet: &Packet) {
        self.datagrams.try_remove(packet.seq as usize);
    }

    /// The timers of QUIC flow `i` may be due.
    pub(super) fn on_quic_timer(&mut self, i: u32, out: &mut impl Outbox) {
        let now = self.now;
        if let Some(ends) = self.quic_flow(i).and_then(|flow| flow.ends.as_mut()) {
            ends.0.fire(now);
            ends.1.fire(now);
        }
        self.transmit_quic(i, out);
    }

    /// What either end of QUIC flow `i` may send leaves, and what has become of the connection is noted.
    fn transmit_quic(&mut self, i: u32, out: &mut impl Outbox) {
        let now = self.now;
        let way = self.network.ways[i as usize];
        let non_tcp = self.non_tcp.get_mut(i as usize).and_then(Option::as_deref_mut);
        let Some(NonTcp::Quic(flow)) = non_tcp else { return };
        flow.note_cwnd(now);
        let Some(ends) = &mut flow.ends else { return };
        let packet = |datagram: &Datagram, ecn: bool, flags| {
            let ect = match datagram.ecn {
                Some(EcnCodepoint::Ect0) if ecn => Packet::ECT,
                Some(EcnCodepoint::Ect1) if ecn => Packet::ECT | Packet::L4S,
                _ => 0,
            };
            let size = datagram.bytes.len() as u16 + HEADERS;
            Packet { enqueued: now, flow: i, size, flags: flags | ect, ..Packet::default() }
        };
        while let Some(datagram) = ends.0.transmit(now) {
            let packet = packet(&datagram, flow.told.ecn, 0);
            flow.sent += 1;
            flow.sent_bytes += u64::from(packet.size);
            out.data(Packet { seq: self.datagrams.insert(without_ecn(datagram, packet)) as u64, ..packet }, 1);
        }
        while let Some(datagram) = ends.1.transmit(now) {
            let packet = packet(&datagram, flow.told.ecn, Packet::ACK);
            out.ack(Packet { seq: self.datagrams.insert(without_ecn(datagram, packet)) as u64, ..packet }, now, &way);
        }
        let finished = ends.0.finished();
        // What was sent may have changed the window, which holds from now on.
        flow.note_cwnd(now);
        let (control, ca, persistent) = flow.watch.look(|seen| {
            for rtt in seen.rtts.drain(..) {
                self.flows[i as usize].book_rtt(Some(rtt));
            }
            (seen.control, seen.view.map_or(CaState::Open, |view| view.ca), seen.persistent)
        });
        if let Some(control) = control {
            self.note_states(i, &control, ca, persistent);
        }
        if finished {
            self.complete_now(i, out);
        }
    }
}

/// The datagram as the packet's ECN field has it.
fn without_ecn(datagram: Datagram, packet: Packet) -> Datagram {
    Datagram { ecn: datagram.ecn.filter(|_| packet.has(Packet::ECT)), ..datagram }
}
