//! For the tests of phased algorithms: a sender that follows one to the letter, and a bottleneck with a drop-tail queue.
//!
//! Packets are numbered, each is acknowledged by itself, nothing is reordered, so a packet is lost for certain as soon as
//! a later one arrives. Lost data is not sent again, numbers just go on: window, rate and losses are what matters here.

use crate::{Ack, CaState, Congestion, CongestionControl, Control, Entry, Init, RateSample, Sent, Signal};
use crate::{StateChange, StateEvent, View};
use knee_core::packet::{MSS, MTU};
use knee_core::{Bytes, Params, Rate, Rng, Time};
use std::collections::VecDeque;

/// A connection on which nothing has happened.
pub fn view() -> View {
    View {
        now: Time::ZERO,
        srtt: Time::ZERO,
        min_rtt: Time::MAX,
        snd_una: 0,
        snd_nxt: 0,
        in_flight: 0,
        delivered: 0,
        delivered_ce: 0,
        lost: 0,
        ca: CaState::Open,
    }
}

/// What a connection with this handshake RTT starts with.
pub fn init(rtt: Time) -> Init {
    let rng = Rng::stream(1, "test");
    Init { now: Time::ZERO, rtt, cwnd: 10, mss: u32::from(MSS), tick: Time::ZERO, rng }
}

/// An ACK of nothing.
pub fn ack() -> Ack {
    let rate = RateSample {
        delivered: 0,
        delivered_ce: 0,
        interval: None,
        prior_delivered: 0,
        prior_lost: 0,
        tx_in_flight: 0,
        app_limited: false,
        is_retrans: false,
        ack_delayed: false,
    };
    Ack {
        view: view(),
        rtt: None,
        acked: 0,
        delivered: 0,
        lost: 0,
        prior_in_flight: 0,
        prior_una: 0,
        cwnd_limited: true,
        ece: false,
        rate,
    }
}

/// A packet under way.
#[derive(Clone, Copy, Debug)]
struct Flying {
    sent: Time,
    /// When its ACK arrives; `None`: the queue dropped it.
    acked: Option<Time>,
    delivered: u64,
    delivered_at: Time,
    first_sent: Time,
    lost: u64,
    tx_in_flight: u32,
}

/// A path: one link with a queue, a fixed delay, and random loss.
#[derive(Clone, Debug)]
pub struct Path {
    /// Rate of the link.
    pub rate: Rate,
    /// Delay of the path without the link's own.
    pub rtt: Time,
    /// Packets the queue holds, the one on the wire included.
    pub buffer: u64,
    /// Probability of a packet's loss before the queue.
    pub loss: f64,
}

/// A run of one flow.
pub struct Loop {
    /// The algorithm.
    pub cc: Box<dyn CongestionControl>,
    /// What it answered last.
    pub control: Control,
    /// The path; may be changed on the way.
    pub path: Path,
    /// The sender.
    pub view: View,
    /// Transitions of the phase and when they were seen.
    pub phases: Vec<(Time, u8)>,
    /// The largest RTT since this was last set to zero.
    pub rtt_max: Time,
    flying: VecDeque<Flying>,
    wire_free: Time,
    next_send: Time,
    first_sent: Time,
    delivered_at: Time,
    recovery_until: u64,
    rng: Rng,
}

impl Loop {
    /// A flow over `path` with the algorithm's defaults.
    pub fn new(entry: &Entry, path: Path) -> Self {
        let cc = (entry.make)(&Params::defaults(entry.params), &init(path.rtt));
        let rng = Rng::stream(2, "loop");
        let control = Control::initial(10);
        let mut view = view();
        (view.srtt, view.min_rtt) = (path.rtt, path.rtt);
        Self {
            cc,
            control,
            path,
            view,
            phases: vec![(Time::ZERO, 0)],
            rtt_max: Time::ZERO,
            flying: VecDeque::new(),
            wire_free: Time::ZERO,
            next_send: Time::ZERO,
            first_sent: Time::ZERO,
            delivered_at: Time::ZERO,
            recovery_until: 0,
            rng,
        }
    }

    /// Runs until `end`; returns the packets delivered on the way.
    pub fn run_until(&mut self, end: Time) -> u64 {
        let before = self.view.delivered;
        loop {
            let arrival = self.flying.iter().find_map(|p| p.acked).unwrap_or(Time::MAX);
            let may_send = self.view.in_flight < self.control.cwnd;
            let departure = if may_send { self.next_send.max(self.view.now) } else { Time::MAX };
            self.view.now = arrival.min(departure).min(end);
            if self.view.now == end {
                return self.view.delivered - before;
            }
            if departure <= arrival { self.send() } else { self.receive() }
        }
    }

    fn take(&mut self, control: Control) {
        assert!(control.cwnd >= 1 && control.pacing_rate != Some(Rate::ZERO));
        if control.phase != self.control.phase {
            self.phases.push((self.view.now, control.phase));
        }
        self.control = control;
    }

    fn send(&mut self) {
        let now = self.view.now;
        if self.view.in_flight == 0 {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        let wire = self.path.rate.time_for(Bytes(u64::from(MTU)));
        let queued = self.wire_free.saturating_sub(now).as_nanos().div_ceil(wire.as_nanos());
        let dropped = queued >= self.path.buffer || self.rng.chance(self.path.loss);
        if !dropped {
            self.wire_free = self.wire_free.max(now) + wire;
        }
        self.view.in_flight += 1;
        self.view.snd_nxt += 1;
        self.flying.push_back(Flying {
            sent: now,
            acked: (!dropped).then(|| self.wire_free + self.path.rtt),
            delivered: self.view.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            lost: self.view.lost,
            tx_in_flight: self.view.in_flight,
        });
        let sent = Sent { view: self.view, packets: 1, retransmission: false };
        let control = self.cc.on_sent(&sent, self.control);
        self.take(control);
        let rate = self.control.pacing_rate.unwrap_or(Rate::MAX);
        self.next_send = self.next_send.max(now) + rate.time_for(Bytes(u64::from(MSS)));
    }

    fn receive(&mut self) {
        let now = self.view.now;
        let prior_in_flight = self.view.in_flight;
        let index = self.flying.iter().position(|p| p.acked.is_some()).unwrap();
        // Those that were to arrive before it are lost.
        let lost = index as u32;
        self.flying.drain(..index);
        let packet = self.flying.pop_front().unwrap();
        let prior_una = self.view.snd_una;
        self.view.snd_una += u64::from(lost) + 1;
        self.view.in_flight -= lost + 1;
        self.view.delivered += 1;
        self.view.lost += u64::from(lost);
        let rtt = Time::from_micros((now - packet.sent).as_micros());
        self.rtt_max = self.rtt_max.max(rtt);
        self.view.srtt = (self.view.srtt * 7 + rtt) / 8;
        self.view.min_rtt = self.view.min_rtt.min(rtt);
        let interval = (packet.sent - packet.first_sent).max(now - packet.delivered_at);
        (self.first_sent, self.delivered_at) = (packet.sent, now);
        let rate = RateSample {
            delivered: (self.view.delivered - packet.delivered) as u32,
            interval: (interval >= self.view.min_rtt).then_some(interval),
            prior_delivered: packet.delivered,
            prior_lost: packet.lost,
            tx_in_flight: packet.tx_in_flight,
            ..ack().rate
        };
        if self.view.ca == CaState::Recovery && self.view.snd_una > self.recovery_until {
            self.enter(CaState::Open);
        }
        if lost > 0 && self.view.ca == CaState::Open {
            let congestion = Congestion { view: self.view, signal: Signal::Loss };
            self.control.ssthresh = self.cc.on_congestion(&congestion, self.control);
            self.recovery_until = self.view.snd_nxt;
            self.enter(CaState::Recovery);
        }
        let ack = Ack {
            view: self.view,
            rtt: Some(rtt),
            acked: lost + 1,
            delivered: 1,
            lost,
            prior_in_flight,
            prior_una,
            cwnd_limited: self.view.in_flight + 1 >= self.control.cwnd,
            ece: false,
            rate,
        };
        let control = self.cc.on_measure(&ack, self.control);
        self.take(control);
        let control = self.cc.on_ack(&ack, self.control);
        self.take(control);
    }

    fn enter(&mut self, ca: CaState) {
        self.view.ca = ca;
        let change = StateChange { view: self.view, event: StateEvent::Entered(ca) };
        let control = self.cc.on_state(&change, self.control);
        self.take(control);
    }
}
