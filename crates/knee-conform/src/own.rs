//! knee's own algorithms under test, as a sender of theirs calls them.
//!
//! An ACK is one event with a sample of the delivery rate; losses count once per round trip. The window comes down to
//! `ssthresh` at once (RFC 9002, 7.3.2), since the sender's way there, proportional rate reduction, is not the
//! algorithm's.

use crate::subject::{Acked, Event, Implementation, Lost, MSS, Sent, Shown, Start, Subject};
use knee_cc::{
    Ack, CaState, Congestion, Control, DynCongestionControl, Ecn, Entry, INFINITE_SSTHRESH, Init, RateSample, Signal,
    StateChange, StateEvent, Undo, View,
};
use knee_core::convert::{saturating_u32, saturating_u64};
use knee_core::{Bytes, Params, Rate, Rng, Time};

/// The window after a timeout (RFC 9002, 7.6.2), packets.
const MIN_WINDOW: u32 = 2;

/// Makes the algorithm of a connection.
pub type Make = Box<dyn Fn(&Init) -> Box<dyn DynCongestionControl> + Send + Sync>;

/// An algorithm of knee's interface.
pub struct Own {
    name: String,
    entry: &'static Entry,
    params: Params,
    make: Make,
}

impl Own {
    /// An algorithm of the registry, with parameters.
    pub fn new(entry: &'static Entry, params: Params) -> Self {
        let given = params.clone();
        let make = move |init: &Init| (entry.make)(&given, init);
        Self { name: entry.name.into(), entry, params, make: Box::new(make) }
    }

    /// An algorithm that `make` makes, which asks of the sender what `entry` says.
    pub fn made_by(name: &str, entry: &'static Entry, make: Make) -> Self {
        Self { name: name.into(), entry, params: Params::defaults(entry.params), make }
    }

    /// The name in reports.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }
}

impl Implementation for Own {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn connect(&self, start: &Start) -> Result<Box<dyn Subject>, String> {
        let needs = self.entry.needs_with(&self.params);
        let init = Init {
            now: Time::ZERO,
            rtt: start.rtt,
            cwnd: saturating_u32(start.initial_cwnd),
            mss: saturating_u32(MSS),
            tick: Time::ZERO,
            paced: needs.pacing,
            accurate_ecn: needs.ecn != Ecn::Classic,
            tso: false,
            rng: Rng::stream(start.seed, "conform"),
        };
        let mut connection = Running {
            entry: self.entry,
            paced: needs.pacing,
            cc: (self.make)(&init),
            control: Control::initial(init.cwnd),
            view: View { mss: init.mss, srtt: start.rtt, min_rtt: start.rtt, ..View::INITIAL },
            recovery_end: None,
            repaired_after: 0,
            before: None,
            lost_since_ack: 0,
        };
        connection.notice(StateEvent::Start);
        Ok(Box::new(connection))
    }
}

struct Running {
    entry: &'static Entry,
    /// The sender paces.
    paced: bool,
    cc: Box<dyn DynCongestionControl>,
    control: Control,
    view: View,
    /// The number from which on an ACK ends the reduction.
    recovery_end: Option<u64>,
    /// Packets from this number on left after the latest loss was found.
    repaired_after: u64,
    /// Window and threshold before the latest reduction.
    before: Option<(u32, u32)>,
    lost_since_ack: u32,
}

impl Running {
    fn notice(&mut self, event: StateEvent) {
        self.cc.on_state(&StateChange { view: &self.view, event }, &mut self.control);
        self.control.cwnd = self.control.cwnd.max(1);
    }

    fn enter(&mut self, ca: CaState) {
        if self.view.ca != ca {
            self.view.ca = ca;
            self.notice(StateEvent::Entered(ca));
        }
    }

    fn sent(&mut self, sent: &Sent) {
        self.view.app_limited = sent.app_limited;
        if sent.idle {
            self.notice(StateEvent::Restart);
        }
        self.view.in_flight = saturating_u32(sent.in_flight);
        self.view.snd_nxt = sent.first + sent.packets;
        if self.entry.needs.sent {
            let sent = knee_cc::Sent { view: &self.view, packets: saturating_u32(sent.packets), retransmission: false };
            self.cc.on_sent(&sent, &mut self.control);
        }
    }

    fn acked(&mut self, acked: &Acked) {
        let packets = saturating_u32(acked.packets.len() as u64);
        let newest = acked.packets.last().map_or(0, |packet| packet.number);
        let prior_una = self.view.snd_una;
        self.view.delivered += u64::from(packets);
        self.view.in_flight = saturating_u32(acked.in_flight);
        self.view.snd_una = acked.una;
        (self.view.srtt, self.view.min_rtt) = (acked.srtt, acked.min_rtt);
        self.view.app_limited = acked.rate.app_limited || acked.app_limited;
        self.end_recovery(newest);
        let rate = RateSample {
            delivered: saturating_u32(acked.rate.delivered),
            interval: acked.rate.interval,
            prior_delivered: acked.rate.prior_delivered,
            prior_lost: acked.rate.prior_lost,
            tx_in_flight: saturating_u32(acked.rate.tx_in_flight),
            app_limited: acked.rate.app_limited,
            ..RateSample::NONE
        };
        let full_control = self.entry.needs.full_control;
        let ack = Ack {
            view: &self.view,
            rtt: Some(acked.rtt),
            acked: packets,
            delivered: packets,
            lost: std::mem::take(&mut self.lost_since_ack),
            prior_in_flight: saturating_u32(acked.prior_in_flight),
            prior_una,
            part: false,
            cwnd_limited: if full_control { acked.cwnd_limited } else { !acked.app_limited },
            ece: false,
            rate: if self.entry.needs.rate { &rate } else { &RateSample::NONE },
        };
        self.cc.on_measure(&ack, &mut self.control);
        self.control.cwnd = self.control.cwnd.max(1);
        if full_control || self.view.ca == CaState::Open {
            self.cc.on_ack(&ack, &mut self.control);
        }
    }

    /// A reduction ends with an ACK of what left after it began; of an algorithm that keeps its window through it, once
    /// what was lost may have come.
    fn end_recovery(&mut self, newest: u64) {
        let full_control = self.entry.needs.full_control;
        let repaired = !full_control || newest >= self.repaired_after;
        if self.recovery_end.is_some_and(|end| newest >= end) && repaired {
            self.recovery_end = None;
            if !full_control {
                self.notice(StateEvent::ReductionDone);
            }
            self.enter(CaState::Open);
        }
    }

    fn reduce(&mut self, signal: Signal) {
        self.before = Some((self.control.cwnd, self.control.ssthresh));
        self.recovery_end = Some(self.view.snd_nxt);
        self.control.cwnd_cnt = 0;
        self.cc.on_congestion(&Congestion { view: &self.view, signal }, &mut self.control);
        self.control.ssthresh = self.control.ssthresh.max(1);
        match signal {
            Signal::Loss => self.enter(CaState::Recovery),
            Signal::Ecn => self.enter(CaState::Cwr),
            Signal::Timeout => {
                self.notice(StateEvent::Timeout);
                self.control.cwnd = MIN_WINDOW;
                self.enter(CaState::Loss);
            }
        }
        if !self.entry.needs.full_control {
            self.control.cwnd = self.control.cwnd.min(self.control.ssthresh).max(MIN_WINDOW);
        }
    }

    fn lost(&mut self, lost: &Lost) {
        let packets = saturating_u32(lost.packets.len() as u64);
        self.view.lost += u64::from(packets);
        self.view.in_flight = saturating_u32(lost.in_flight);
        self.lost_since_ack += packets;
        self.repaired_after = self.view.snd_nxt;
        let newest = lost.packets.last().map_or(0, |packet| packet.number);
        if lost.persistent {
            self.reduce(Signal::Timeout);
        } else if self.recovery_end.is_none_or(|end| newest >= end) {
            self.reduce(Signal::Loss);
        }
    }

    fn marked(&mut self, packets: u64, newest: u64) {
        self.view.delivered_ce += packets;
        if self.entry.needs.ecn == Ecn::Classic && self.recovery_end.is_none_or(|end| newest >= end) {
            self.reduce(Signal::Ecn);
        }
    }

    fn spurious(&mut self) {
        let Some((prior_cwnd, prior_ssthresh)) = self.before.take() else { return };
        self.cc.on_undo(&Undo { view: &self.view, prior_cwnd }, &mut self.control);
        self.control.ssthresh = self.control.ssthresh.max(prior_ssthresh);
        self.recovery_end = None;
        self.enter(CaState::Open);
    }

    /// The rate of an algorithm that asks for pacing and sets none: Linux's, twice the window per RTT in slow start.
    fn pacing(&self) -> Option<Rate> {
        let Control { cwnd, ssthresh, pacing_rate, .. } = self.control;
        let own = || {
            let percent = if cwnd < ssthresh / 2 { 200 } else { 120 };
            let window = Bytes(saturating_u64(u128::from(cwnd) * u128::from(MSS)));
            (self.view.srtt > Time::ZERO).then(|| Rate::over(window, self.view.srtt).mul_div(percent, 100))
        };
        pacing_rate.or_else(|| self.paced.then(own).flatten())
    }
}

impl Subject for Running {
    fn take(&mut self, now: Time, event: &Event) -> Result<bool, String> {
        self.view.now = now;
        match event {
            Event::Sent(sent) => self.sent(sent),
            Event::Acked(acked) => self.acked(acked),
            Event::Lost(lost) => self.lost(lost),
            Event::Marked(packets) => {
                self.marked(packets.len() as u64, packets.last().map_or(0, |packet| packet.number));
            }
            Event::Spurious => self.spurious(),
        }
        Ok(true)
    }

    fn shown(&mut self) -> Shown {
        let Control { cwnd, ssthresh, .. } = self.control;
        let bytes = |packets: u32| f64::from(packets) * MSS as f64;
        Shown {
            cwnd: bytes(cwnd),
            ssthresh: Some(if ssthresh < INFINITE_SSTHRESH { bytes(ssthresh) } else { f64::INFINITY }),
            pacing: self.pacing().map(|rate| rate.as_bps() as f64 / 8.0),
            phase: self.entry.phases.get(usize::from(self.control.phase)).copied(),
            ..Shown::default()
        }
    }
}
