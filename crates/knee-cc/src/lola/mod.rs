//! TCP LoLa: keeps the queueing delay around a fixed target, whatever the number of flows, and gives all the same rate.
//!
//! Each flow raises the window until a small standing queue shows that the link is full; then all flows grow their own
//! part of that queue along the same function of time, so that the smaller ones catch up; at the target delay all stop,
//! wait for one another and then reduce their windows by what they have queued.
//!
//! Source: M. Hock, F. Neumeister, M. Zitterbart, R. Bless, "TCP LoLa: Congestion Control for Low Latencies and High
//! Throughput", IEEE LCN 2017. The equations stand in [`equations`], the states are those of its Fig. 1:
//!
//! ```text
//! slow start ── RTT_max - RTT_min > 2 Q_low ──> cubic increase <──────────────┐
//!                                                     │ Q_delay > Q_low       │
//!                                            fair flow balancing              │
//!                                                     │ Q_delay > Q_target    │
//!                                                 CWnd hold ── t_sync ──> tailored decrease
//! ```
//!
//! A loss leads to cubic increase as in CUBIC, a timeout to slow start.
//!
//! Points that the paper leaves open, and their answers here:
//!
//! Three forms (parameter `form`): `paper`, the default, is all of the above; `printed` is that without the three
//! answers that depart from the text, so that `t` counts from the entry into the state, the decrease takes `Q_data` at
//! the end of the hold, and no edge leads back from balancing; `program` is what the authors' module is said to do
//! ([`program`]). lab/lola-ablation.md has each item of the paper in each form.

pub(crate) mod equations;
#[cfg(test)]
mod forms;
#[cfg(test)]
mod idle;
#[cfg(test)]
mod kernel;
#[cfg(test)]
mod losses;
pub(crate) mod program;

use crate::cubic::Decrease;
use crate::entry::{Entry, Family, edges};
use crate::filter::WindowedMin;
use crate::{
    Ack, CaState, Congestion, CongestionControl, Control, Init, Needs, Signal, StateChange, StateEvent, cubic_fn,
    increase,
};
use knee_core::convert::{saturating_u32, truncated};
use knee_core::{Time, choice, params};
use program::{Round, Spread};
use std::ops::RangeInclusive;

const PAPER: &str = "LoLa, Section V-A";
/// Range of all times.
const TIMES: RangeInclusive<Time> = Time::from_micros(1)..=Time::from_secs(100);

/// LoLa's registry entry.
pub const ENTRY: Entry = Entry {
    name: "lola",
    family: Family::DelayBased,
    about: "keeps the queueing delay around a fixed target and balances the flows' shares of the queue",
    source: "Hock et al., TCP LoLa, IEEE LCN 2017",
    params: Params::DECLARED,
    phases: &["slow_start", "cubic_increase", "fair_flow_balancing", "cwnd_hold", "tailored_decrease"],
    edges: edges![Phase:
        SlowStart => CubicIncrease,
        SlowStart => TailoredDecrease,
        CubicIncrease => FairFlowBalancing,
        FairFlowBalancing => CubicIncrease,
        FairFlowBalancing => CwndHold,
        CwndHold => TailoredDecrease,
        TailoredDecrease => CubicIncrease,
        CwndHold => CubicIncrease,
        CubicIncrease => SlowStart,
        FairFlowBalancing => SlowStart,
        CwndHold => SlowStart,
        TailoredDecrease => SlowStart,
    ],
    min_cwnd: 1,
    needs: Needs { pacing: true, ..Needs::NONE },
    make: |params, init| Box::new(Lola::new(params.into(), init)),
};

choice! {
    /// The form of the algorithm: all of the paper's, its text as printed, or the authors' program.
    enum Form {
        Paper = "paper",
        Printed = "printed",
        Program = "program",
    }
}

params! {
    /// LoLa's parameters.
    struct Params {
        /// the paper's algorithm with its gaps filled, as printed, or its authors' program
        form: Form = Form::Paper, from "LoLa; the authors' kernel module 1.5";
        /// queueing delay above which the link counts as full; longer than a packet takes on it
        q_low: Time = Time::from_millis(1), in TIMES, from PAPER;
        /// queueing delay that ends a round
        q_target: Time = Time::from_millis(5), in TIMES, from PAPER;
        /// time for which the window is held before the decrease
        t_sync: Time = Time::from_millis(250), in TIMES, from PAPER;
        /// span of the minimum filter of the RTT
        t_measure: Time = Time::from_millis(40), in TIMES, from PAPER;
        /// additional factor of the tailored decrease
        gamma: f64 = 973.0 / 1024.0, in 0.001..=1.0, from PAPER;
        /// steepness of the fair amount of queued data, X = (t/phi)^3
        phi: f64 = 35.0, in 0.01..=10_000.0, from PAPER;
        /// factor C of the cubic function
        c: f64 = 0.4, in 0.001..=100.0, from "LoLa, Eq. 1; CUBIC";
        /// decreases without seeing RTT_min after which it is reset
        min_rtt_resets: u64 = 100, in 1..=1 << 32, from "LoLa, Section IV";
        /// an RTT this close to RTT_min confirms it
        min_rtt_close: Time = Time::from_micros(500), in TIMES, from "ours: half of q_low";
        /// forms paper and printed: slow start sees the filtered RTT
        filter_slow_start: bool = false, from "ours: it sees unfiltered RTTs";
        /// factor applied to the window on a loss
        beta: f64 = 717.0 / 1024.0, in 0.001..=0.999, from "CUBIC as in Linux";
        /// lower CWnd_max if a loss comes at a smaller window
        fast_convergence: bool = true, from "CUBIC as in Linux";
    }
}

/// Parameters that are compared and multiplied as integers; delays in microseconds.
#[derive(Clone, Copy, Debug)]
struct Scaled {
    q_low: u64,
    q_target: u64,
    min_rtt_close: u64,
    gamma: u64,
    /// C in 1/1024, as [`cubic_fn`] takes it.
    c: u64,
    loss: Decrease,
}

impl Scaled {
    fn new(params: &Params) -> Self {
        Self {
            q_low: params.q_low.as_micros(),
            q_target: params.q_target.as_micros(),
            min_rtt_close: params.min_rtt_close.as_micros(),
            gamma: in_1024ths(params.gamma),
            c: in_1024ths(params.c),
            loss: Decrease { beta: saturating_u32(in_1024ths(params.beta)), fast_convergence: params.fast_convergence },
        }
    }
}

/// A ratio as the integer arithmetic takes it.
fn in_1024ths(ratio: f64) -> u64 {
    (truncated((ratio * 1024.0).round())).max(1)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    SlowStart,
    CubicIncrease,
    FairFlowBalancing,
    CwndHold,
    TailoredDecrease,
}

/// The cubic function since the last reduction (Eq. 1).
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    /// When it began; none until the first ACK after the reduction.
    start: Option<Time>,
    /// `CWnd_max` in packets, 0 before the first reduction.
    cwnd_max: u32,
    /// K in 2^-10 s.
    k: u64,
    /// Packets acknowledged per increase by one; none where the function is not above the window.
    count: Option<u32>,
    /// When `count` was computed.
    counted: Time,
}

#[derive(Clone)]
struct Lola {
    params: Params,
    scaled: Scaled,
    mss: u64,
    phase: Phase,
    /// When the phase began.
    since: Time,
    filter: WindowedMin,
    /// RTTs in microseconds, [`u64::MAX`] before the first sample.
    rtt_now: u64,
    rtt_min: u64,
    /// Greatest `rtt_now` since the window is held.
    rtt_hold: u64,
    /// Least and greatest RTT of slow start.
    slow_start_rtt: (u64, u64),
    /// Least and greatest RTT of the round trip, in the form `program`.
    round: Round,
    /// Its increase in fair flow balancing.
    spread: Spread,
    epoch: Epoch,
    /// Until then `Q_delay` does not show the last reduction.
    settled: Time,
    /// Until then `Q_data` does not show the last adjustment.
    adjusted: Time,
    /// Tailored decreases since an RTT close to `rtt_min`.
    unconfirmed: u64,
    /// When the last ACK came that delivered something.
    delivered: Time,
}

impl Lola {
    fn new(params: Params, init: &Init) -> Self {
        Self {
            params,
            scaled: Scaled::new(&params),
            mss: u64::from(init.mss.max(1)),
            phase: Phase::SlowStart,
            since: init.now,
            filter: WindowedMin::new(params.t_measure),
            rtt_now: u64::MAX,
            rtt_min: u64::MAX,
            rtt_hold: u64::MAX,
            slow_start_rtt: (u64::MAX, 0),
            round: Round::NONE,
            spread: Spread::begin(init.now),
            epoch: Epoch::default(),
            settled: init.now,
            adjusted: init.now,
            unconfirmed: 0,
            delivered: init.now,
        }
    }

    fn is_program(&self) -> bool {
        self.params.form == Form::Program
    }

    fn is_printed(&self) -> bool {
        self.params.form == Form::Printed
    }

    fn q_delay(&self) -> u64 {
        equations::q_delay(self.rtt_now, self.rtt_min)
    }

    /// How long it takes until the RTT shows a change of the window.
    fn feedback_delay(&self) -> Time {
        let rtt = if self.rtt_now == u64::MAX { 0 } else { self.rtt_now };
        Time::from_micros(rtt).saturating_add(self.params.t_measure)
    }

    fn enter(&mut self, phase: Phase, now: Time) {
        if self.in_round() {
            let away = now.saturating_sub(self.since);
            self.epoch.start = self.epoch.start.map(|start| start.saturating_add(away));
        }
        self.phase = phase;
        self.since = now;
        self.spread = Spread::begin(now);
    }

    /// True in the phases in which the window does not follow Eq. 1 and comes back to it.
    fn in_round(&self) -> bool {
        matches!(self.phase, Phase::FairFlowBalancing | Phase::CwndHold)
    }

    fn enter_slow_start(&mut self, now: Time) {
        self.forget_slow_start();
        self.enter(Phase::SlowStart, now);
    }

    const fn forget_slow_start(&mut self) {
        self.slow_start_rtt = (u64::MAX, 0);
        self.round = Round::NONE;
    }

    /// Section III-A.
    fn slow_start(&mut self, ack: &Ack, control: &mut Control) {
        let (least, greatest) = self.slow_start_rtt;
        if !ack.cwnd_limited {
            self.forget_slow_start();
        } else if self.is_program() {
            if let Some(rtt) = self.round.queued(self.rtt_min) {
                return self.tailored_decrease(rtt, ack.view.now, control);
            }
            if control.in_slow_start() {
                increase::slow_start(control, ack.delivered);
            }
        } else if greatest.saturating_sub(least) > 2 * self.scaled.q_low {
            control.ssthresh = control.ssthresh.min(control.cwnd);
            if self.epoch.start.is_none() {
                self.epoch.cwnd_max = 0;
            }
        } else if control.in_slow_start() {
            increase::slow_start(control, ack.delivered);
        }
        if !control.in_slow_start() {
            self.enter(Phase::CubicIncrease, ack.view.now);
        }
    }

    /// Eq. 1 and the watch for a standing queue.
    fn cubic_increase(&mut self, ack: &Ack, control: &mut Control) {
        let now = ack.view.now;
        if now >= self.settled && self.rtt_now != u64::MAX {
            self.check_rtt_min();
            if self.q_delay() > self.scaled.q_low {
                self.enter(Phase::FairFlowBalancing, now);
                return;
            }
        }
        if !ack.cwnd_limited {
            return;
        }
        // The function moves by far less than a packet per ACK: once per millisecond will do.
        if self.epoch.start.is_none() || now.saturating_sub(self.epoch.counted) >= Time::from_millis(1) {
            self.follow_cubic(now, control.cwnd);
        }
        if let Some(count) = self.epoch.count {
            increase::additive_increase(control, count, ack.delivered);
        }
    }

    /// Sets the rate of increase by Eq. 1.
    fn follow_cubic(&mut self, now: Time, cwnd: u32) {
        let (scale, epoch) = (self.scaled.c, &mut self.epoch);
        let start = *epoch.start.get_or_insert_with(|| {
            epoch.cwnd_max = epoch.cwnd_max.max(cwnd);
            epoch.k = cubic_fn::k(scale, epoch.cwnd_max - cwnd);
            now
        });
        // One RTT ahead, as CUBIC does: what is acknowledged by then is sent now.
        let ahead = if self.rtt_min == u64::MAX { Time::ZERO } else { Time::from_micros(self.rtt_min) };
        let t = now.saturating_sub(start).saturating_add(ahead);
        let target = cubic_fn::w_cubic(scale, t, epoch.k, epoch.cwnd_max);
        let missing = target.saturating_sub(u64::from(cwnd));
        // At most half a packet per packet, as CUBIC.
        epoch.count = u64::from(cwnd).checked_div(missing).map(|count| saturating_u32(count.max(2)));
        epoch.counted = now;
    }

    /// Fig. 2.
    fn fair_flow_balancing(&mut self, ack: &Ack, control: &mut Control) {
        let now = ack.view.now;
        if self.q_delay() > self.scaled.q_target {
            self.rtt_hold = self.rtt_now;
            self.enter(Phase::CwndHold, now);
        } else if !self.is_printed() && self.q_delay() <= self.scaled.q_low / 2 {
            self.enter(Phase::CubicIncrease, now);
        } else if ack.cwnd_limited {
            let packets = self.increase(now, u64::from(control.cwnd));
            control.cwnd = control.cwnd.saturating_add(packets).min(crate::INFINITE_SSTHRESH);
        } else {
            self.spread = Spread::begin(now);
        }
    }

    /// Packets that fair flow balancing adds to a window of `cwnd`.
    fn increase(&mut self, now: Time, cwnd: u64) -> u32 {
        let program = self.is_program();
        if !program && now < self.adjusted {
            return 0;
        }
        let lead = if self.params.form == Form::Paper { self.feedback_delay() } else { Time::ZERO };
        let age = now.saturating_sub(self.since).saturating_add(lead);
        let target = equations::fair_flow_target(age, self.params.phi);
        let missing = target.saturating_sub(equations::q_data(cwnd * self.mss, self.rtt_now, self.rtt_min));
        if program {
            return saturating_u32(self.spread.due(now, missing, self.mss, self.params.t_measure).min(cwnd));
        }
        let packets = saturating_u32((missing / self.mss).min(cwnd));
        if packets > 0 {
            self.adjusted = now.saturating_add(self.feedback_delay());
        }
        packets
    }

    /// Section III-E, by what is queued at this RTT.
    fn tailored_decrease(&mut self, rtt: u64, now: Time, control: &mut Control) {
        self.enter(Phase::TailoredDecrease, now);
        self.epoch = Epoch { cwnd_max: control.cwnd, ..Epoch::default() };
        let left = equations::tailored_decrease(control.cwnd, rtt, self.rtt_min, self.scaled.gamma);
        control.cwnd = left.min(control.cwnd);
        control.ssthresh = control.cwnd;
        control.cwnd_cnt = 0;
        self.unconfirmed += 1;
        self.settled = now.saturating_add(self.feedback_delay());
    }

    /// Sending begins while nothing is in flight. Idle time began with the ACK that left nothing in flight. Linux's
    /// CUBIC counts from the last transmission, with the wait for that ACK: a flow whose window one ACK covers would
    /// always be idle. A round takes out all of its own time.
    fn restart(&mut self, now: Time) {
        let idle = now.saturating_sub(self.delivered);
        if idle == Time::ZERO {
            return;
        }
        self.forget_slow_start();
        if !self.in_round() {
            self.epoch.start = self.epoch.start.map(|start| start.saturating_add(idle).min(now));
        }
    }

    /// Forgets an `RTT_min` that no longer shows after many tailored decreases (Section IV).
    fn check_rtt_min(&mut self) {
        if self.unconfirmed >= self.params.min_rtt_resets {
            self.rtt_min = self.rtt_now;
            self.unconfirmed = 0;
        }
    }
}

impl CongestionControl for Lola {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        let now = ack.view.now;
        if ack.delivered > 0 {
            self.delivered = now;
        }
        if let Some(rtt) = ack.rtt {
            let rtt = rtt.as_micros().max(1);
            self.rtt_now = self.filter.update(now, rtt);
            self.rtt_min = self.rtt_min.min(self.rtt_now);
            if self.q_delay() <= self.scaled.min_rtt_close {
                self.unconfirmed = 0;
            }
            if self.phase == Phase::CwndHold && !self.is_program() {
                let before = if self.is_printed() { 0 } else { self.rtt_hold };
                self.rtt_hold = before.max(self.rtt_now);
            }
            if self.phase == Phase::SlowStart {
                let (least, greatest) = self.slow_start_rtt;
                let seen = if self.params.filter_slow_start { self.rtt_now } else { rtt };
                self.slow_start_rtt = (least.min(seen), greatest.max(seen));
                self.round.update(ack.view, rtt);
            }
        }
        control.phase = self.phase as u8;
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let now = ack.view.now;
        self.mss = u64::from(ack.view.mss.max(1));
        if self.phase != Phase::SlowStart && control.in_slow_start() {
            self.enter_slow_start(now);
        }
        match self.phase {
            Phase::SlowStart => self.slow_start(ack, control),
            Phase::CubicIncrease => self.cubic_increase(ack, control),
            Phase::FairFlowBalancing => self.fair_flow_balancing(ack, control),
            Phase::CwndHold if now.saturating_sub(self.since) >= self.params.t_sync => {
                self.tailored_decrease(self.rtt_hold, now, control);
            }
            Phase::CwndHold => {}
            Phase::TailoredDecrease => self.enter(Phase::CubicIncrease, now),
        }
        control.phase = self.phase as u8;
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        let now = congestion.view.now;
        let cwnd_max = self.scaled.loss.w_max(control.cwnd, self.epoch.cwnd_max);
        self.epoch = Epoch { cwnd_max, ..Epoch::default() };
        if congestion.signal != Signal::Timeout {
            self.enter(Phase::CubicIncrease, now);
            self.settled = now.saturating_add(self.feedback_delay());
        }
        control.ssthresh = self.scaled.loss.ssthresh(control.cwnd);
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        let now = change.view.now;
        match change.event {
            StateEvent::Entered(CaState::Loss) => {
                self.epoch.start = None;
                self.enter_slow_start(now);
            }
            // The reduction is complete only now; its effect shows an RTT later.
            StateEvent::ReductionDone => self.settled = now.saturating_add(self.feedback_delay()),
            StateEvent::Restart => self.restart(now),
            _ => {}
        }
        control.phase = self.phase as u8;
    }
}
