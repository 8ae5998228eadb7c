//! LoLa for networks that others use too: on paths whose delay varies by itself or changes for good, and beside flows
//! that fill the buffer.
//!
//! TCP LoLa ([`crate::lola`]) takes every delay above the least RTT for a queue, and gives way to it. Four parts are
//! added, each decided by what the flow sees itself:
//!
//! - **Noise** ([`noise`]): the span of the minimum filter of the RTT is as long as the path's variation asks for.
//! - **Routes** ([`drain`]): if a tailored decrease does not move the delay, twice at the same RTT, there is no queue:
//!   the path has become longer, and `RTT_min` is that RTT.
//! - **Competition**: if the delay falls and a queue stays above `q_target`, twice in a row, others keep it. The flow
//!   is CUBIC then, and drains its part of the queue after losses, when the queue halves, and every two seconds. Flows
//!   that compete with nobody but one another see the same losses, drain together, and return to low delay. If that was
//!   an error, the next reduction without effect ends it, and CUBIC goes on where it was.
//!
//! - **One way** ([`reverse`]): the queue that ACKs meet is not the flow's. It is left out of the RTT where TCP's
//!   timestamps show that more than `2 q_low` of it stand for the longest span of the filter; delays of ACKs that vary,
//!   as over Wi-Fi, are noise as before. As it makes the path longer, slow start leads to the window that the greatest
//!   rate needs there.
//!
//! Slow start ends when the least RTT of the last 16 bursts of ACKs ([`start`]) is `2 q_low` above `RTT_min`, with a
//! tailored decrease: neither a burst of its own nor an aggregate of the path is a queue. Cubic increase is that of
//! CUBIC as in Linux, with its Reno-friendly region. Own queued data are those at the mean RTT, since the rate is the
//! window over that. Rounds, hold and decrease are LoLa's.

mod drain;
#[cfg(test)]
mod kernel;
mod noise;
mod rate;
mod reverse;
mod start;

use crate::cubic::Cubic;
use crate::entry::{Entry, Family, edges};
use crate::filter::WindowedMin;
use crate::lola::equations;
use crate::{
    Ack, CaState, Congestion, CongestionControl, Control, Init, Needs, Signal, StateChange, StateEvent, increase,
};
use drain::{Drain, Effect};
use knee_core::convert::{saturating_u32, saturating_u64, truncated};
use knee_core::{Time, params};
use noise::Filter;
use rate::Rate;
use reverse::Reverse;
use start::Recent;
use std::ops::RangeInclusive;

const PAPER: &str = "LoLa, Section V-A";
/// Range of all times.
const TIMES: RangeInclusive<Time> = Time::from_micros(1)..=Time::from_secs(100);

/// The count of [`Wild::kept`] with which competition begins: two reductions in a row after which others keep a queue.
const KEPT: u32 = 4;
/// Reductions in a row that nothing answers before `RTT_min` is reset.
const SILENT: u32 = 2;
/// RTTs of slow start are of one burst within `q_low` divided by this.
const BURST: u64 = 5;
/// Time from probe to probe while the queue stays.
const PROBE: Time = Time::from_secs(2);
/// Least time between probes that a loss or a falling queue starts.
const GAP: Time = Time::from_secs(1);
/// For this long after it competed, one reduction that others answer is enough.
const MEMORY: Time = Time::from_secs(10);

/// The registry entry of LoLa for networks that others use too.
pub const ENTRY: Entry = Entry {
    name: "lola-wild",
    family: Family::Hybrid,
    about: "LoLa that measures the path's noise, notices a new route, and competes as CUBIC with what fills the buffer",
    source: "ours; the rounds are those of Hock et al., TCP LoLa, IEEE LCN 2017",
    params: Params::DECLARED,
    phases: &[
        "slow_start",
        "cubic_increase",
        "fair_flow_balancing",
        "cwnd_hold",
        "tailored_decrease",
        "competing",
        "probing",
    ],
    edges: edges![Phase:
        SlowStart => CubicIncrease,
        SlowStart => TailoredDecrease,
        CubicIncrease => SlowStart,
        CubicIncrease => FairFlowBalancing,
        CubicIncrease => Competing,
        FairFlowBalancing => SlowStart,
        FairFlowBalancing => CubicIncrease,
        FairFlowBalancing => CwndHold,
        CwndHold => SlowStart,
        CwndHold => CubicIncrease,
        CwndHold => TailoredDecrease,
        TailoredDecrease => SlowStart,
        TailoredDecrease => CubicIncrease,
        TailoredDecrease => Competing,
        Competing => SlowStart,
        Competing => Probing,
        Probing => SlowStart,
        Probing => CubicIncrease,
        Probing => Competing,
    ],
    min_cwnd: 1,
    needs: Needs { pacing: true, ..Needs::NONE },
    make: |params, init| Box::new(Wild::new(params.into(), init)),
};

params! {
    /// The algorithm's parameters.
    struct Params {
        /// queueing delay above which the link counts as full; longer than a packet takes on it
        q_low: Time = Time::from_millis(1), in TIMES, from PAPER;
        /// queueing delay that ends a round
        q_target: Time = Time::from_millis(5), in TIMES, from PAPER;
        /// time for which the window is held before the decrease
        t_sync: Time = Time::from_millis(250), in TIMES, from PAPER;
        /// shortest span of the minimum filter of the RTT; the longest is 16 times as long
        t_measure: Time = Time::from_millis(40), in TIMES, from PAPER;
        /// additional factor of the tailored decrease
        gamma: f64 = 973.0 / 1024.0, in 0.001..=1.0, from PAPER;
        /// steepness of the fair amount of queued data, X = (t/phi)^3
        phi: f64 = 35.0, in 0.01..=10_000.0, from PAPER;
        /// the filter's span follows the path's noise
        adapt: bool = true, from "ours";
        /// reset RTT_min when reductions change no delay
        routes: bool = true, from "ours";
        /// compete as CUBIC where others keep a queue
        compete: bool = true, from "ours";
        /// leave a standing queue that ACKs meet out of the RTT, by TCP's timestamps
        one_way: bool = true, from "RFC 6817, 2.1; ours";
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    SlowStart,
    CubicIncrease,
    FairFlowBalancing,
    CwndHold,
    TailoredDecrease,
    Competing,
    Probing,
}

/// A time in which the flow competed.
#[derive(Clone)]
struct Competition {
    end: Time,
    /// CUBIC and its window, packets, at the end.
    cubic: Cubic,
    cwnd: u32,
}

#[derive(Clone)]
struct Wild {
    params: Params,
    q_low: u64,
    q_target: u64,
    /// In 1/1024.
    gamma: u64,
    mss: u64,
    phase: Phase,
    /// When the phase began.
    since: Time,
    filter: Filter,
    /// RTTs in microseconds, [`u64::MAX`] before the first sample.
    rtt_now: u64,
    rtt_min: u64,
    /// Greatest `rtt_now` since the window is held.
    rtt_hold: u64,
    /// Mean RTT in 1/64 us, over about 64 samples, with the ACKs' queue.
    rtt_mean: u64,
    reverse: Reverse,
    /// Least of the ACKs' queue over the filter's longest span.
    acks: WindowedMin,
    /// The ACKs' queue in the last RTT, us, which the others are without.
    acks_queue: u64,
    /// RTTs of slow start that come within this time are of one burst.
    burst: Time,
    start: Recent,
    /// True if slow start has ended since the start or a timeout.
    known: bool,
    rate: Rate,
    cubic: Cubic,
    /// Until then `Q_delay` does not show the last reduction by a loss or a decrease.
    settled: Time,
    /// Until then `Q_data` does not show the last adjustment.
    adjusted: Time,
    drain: Option<Drain>,
    /// Two more for each reduction after which others kept a queue, one less for each that drained it.
    kept: u32,
    /// Reductions in a row that changed nothing, and the RTT of the first, us.
    silent: (u32, u64),
    /// Greatest queueing delay since the last probe, us, and the window then.
    peak: (u64, u32),
    probed: Time,
    competed: Option<Competition>,
    /// When the last ACK came that delivered something.
    delivered: Time,
}

impl Wild {
    fn new(params: Params, init: &Init) -> Self {
        let q_low = params.q_low.as_micros();
        Self {
            params,
            q_low,
            q_target: params.q_target.as_micros(),
            gamma: truncated((params.gamma * 1024.0).round()).max(1),
            mss: u64::from(init.mss.max(1)),
            phase: Phase::SlowStart,
            since: init.now,
            filter: Filter::new(
                params.t_measure,
                if params.adapt { [q_low * 4 / 5, q_low * 3 / 5] } else { [u64::MAX; 2] },
            ),
            rtt_now: u64::MAX,
            rtt_min: u64::MAX,
            rtt_hold: 0,
            rtt_mean: 0,
            reverse: Reverse::NEW,
            acks: WindowedMin::new(noise::longest(params.t_measure)),
            acks_queue: 0,
            burst: Time::from_micros(q_low / BURST),
            start: Recent::NONE,
            known: false,
            rate: Rate::new(init.now),
            cubic: Cubic::without_hystart(init),
            settled: init.now,
            adjusted: init.now,
            drain: None,
            kept: 0,
            silent: (0, 0),
            peak: (0, 0),
            probed: init.now,
            competed: None,
            delivered: init.now,
        }
    }

    fn q_delay(&self) -> u64 {
        equations::q_delay(self.rtt_now, self.rtt_min)
    }

    /// Eq. 7 at the mean RTT, in the unit of `cwnd`, of a queue of `delay` us.
    fn q_data(&self, cwnd: u64, delay: u64) -> u64 {
        let rtt = (self.rtt_mean / 64).max(self.rtt_now).max(1);
        saturating_u64(u128::from(delay) * u128::from(cwnd) / u128::from(rtt))
    }

    /// How long it takes until the RTT shows a change of the window.
    fn feedback_delay(&self) -> Time {
        let rtt = if self.rtt_now == u64::MAX { 0 } else { self.rtt_now };
        Time::from_micros(rtt.saturating_add(self.acks_queue)).saturating_add(self.filter.span())
    }

    /// The part of an RTT of `rtt` us that is a queue that ACKs meet: all that they wait where some of it stands, and 0
    /// where their delay varies, as over Wi-Fi, since that is noise.
    fn acks_queue(&mut self, now: Time, rtt: u64, tsval: Option<u32>) -> u64 {
        let queue = self.reverse.queue(now, rtt, tsval);
        if self.acks.update(now, queue) > 2 * self.q_low { queue } else { 0 }
    }

    /// Leads slow start to the window of the greatest rate, once the ACKs' queue has made the path longer.
    fn follow_acks(&self, control: &mut Control) {
        let needed = self.rate.carried(self.rtt_min.saturating_add(self.acks_queue));
        if self.acks_queue > 0 && needed > control.cwnd.saturating_add(control.cwnd / 4) {
            control.ssthresh = needed;
        }
    }

    fn tolerance(&self) -> u64 {
        self.q_low.max(self.filter.noise())
    }

    fn enter(&mut self, phase: Phase, now: Time) {
        self.known |= phase != Phase::SlowStart;
        if matches!(self.phase, Phase::FairFlowBalancing | Phase::CwndHold) {
            self.cubic.pause(now.saturating_sub(self.since));
        }
        (self.phase, self.since) = (phase, now);
    }

    fn enter_slow_start(&mut self, now: Time) {
        (self.start, self.drain) = (Recent::NONE, None);
        self.enter(Phase::SlowStart, now);
    }

    /// Section III-A, with the least of the last RTTs.
    fn slow_start(&mut self, ack: &Ack, control: &mut Control) {
        let now = ack.view.now;
        if !ack.cwnd_limited {
            self.start = Recent::NONE;
            return;
        }
        if let Some(rtt) = self.start.least().filter(|rtt| rtt.saturating_sub(self.rtt_min) > 2 * self.q_low) {
            if !self.known {
                return self.tailored_decrease(rtt, now, control);
            }
            // After idle time the cubic function goes on where it was.
            control.ssthresh = control.cwnd;
        }
        if control.in_slow_start() {
            increase::slow_start(control, ack.delivered);
        }
        if !control.in_slow_start() {
            self.enter(Phase::CubicIncrease, now);
        }
    }

    /// Eq. 1 and the watch for a standing queue.
    fn cubic_increase(&mut self, ack: &Ack, control: &mut Control) {
        let now = ack.view.now;
        if now < self.settled || self.rtt_now == u64::MAX || self.q_delay() <= self.q_low {
            if now >= self.settled {
                self.follow_acks(control);
            }
            self.cubic.on_ack(ack, control);
        } else if self.drain.is_none() {
            // A second decrease would hide what the first one did.
            self.enter(Phase::FairFlowBalancing, now);
        }
    }

    /// Fig. 2.
    fn fair_flow_balancing(&mut self, ack: &Ack, control: &mut Control) {
        let now = ack.view.now;
        if self.q_delay() > self.q_target {
            self.rtt_hold = self.rtt_now;
            self.enter(Phase::CwndHold, now);
        } else if self.q_delay() <= self.q_low / 2 {
            self.enter(Phase::CubicIncrease, now);
        } else if ack.cwnd_limited && now >= self.adjusted {
            let age = now.saturating_sub(self.since).saturating_add(self.feedback_delay());
            let cwnd = u64::from(control.cwnd);
            let target = equations::fair_flow_target(age, self.params.phi);
            let missing = target.saturating_sub(self.q_data(cwnd * self.mss, self.q_delay()));
            let packets = saturating_u32((missing / self.mss).min(cwnd));
            if packets > 0 {
                self.adjusted = now.saturating_add(self.feedback_delay());
                control.cwnd = control.cwnd.saturating_add(packets).min(crate::INFINITE_SSTHRESH);
            }
        }
    }

    /// Section III-E.
    fn tailored_decrease(&mut self, rtt: u64, now: Time, control: &mut Control) {
        self.enter(Phase::TailoredDecrease, now);
        self.cubic.begin_epoch(control.cwnd);
        let own = saturating_u32(self.q_data(u64::from(control.cwnd), rtt.saturating_sub(self.rtt_min)));
        self.reduce(control.cwnd.saturating_sub(own), rtt, now, control);
    }

    /// Reduces the window to `left` packets times gamma, and awaits the effect on an RTT of `rtt` us.
    fn reduce(&mut self, left: u32, rtt: u64, now: Time, control: &mut Control) {
        let before = control.cwnd;
        let left = u64::from(left) * self.gamma / 1024;
        control.cwnd = saturating_u32(left.max(2)).min(before);
        control.ssthresh = control.cwnd;
        control.cwnd_cnt = 0;
        let feedback = self.feedback_delay();
        self.settled = now.saturating_add(feedback);
        self.drain = Some(Drain::new(now, [before, control.cwnd], rtt, self.rate.last(), feedback));
    }

    /// Acts on the effect of the last reduction, once it is known.
    fn await_effect(&mut self, now: Time, control: &mut Control) {
        let (tolerance, seen) = (self.tolerance(), [self.rtt_now, self.q_delay()]);
        let Some(drain) = &mut self.drain else { return };
        let effect = drain.effect(now, seen, self.q_target, tolerance);
        let before = drain.before;
        let longer = effect == Effect::Silent && self.params.routes && self.stays_silent(tolerance);
        match effect {
            Effect::Pending => return,
            Effect::Drained => {
                (self.kept, self.silent) = (self.kept.saturating_sub(1), (0, 0));
                if self.phase == Phase::Probing {
                    self.kept = 0;
                    self.competed = Some(Competition { end: now, cubic: self.cubic.clone(), cwnd: before });
                    self.cubic.begin_epoch(control.cwnd);
                    self.enter(Phase::CubicIncrease, now);
                }
            }
            Effect::Silent if longer => {
                self.follow_route(before, control);
                self.enter(Phase::CubicIncrease, now);
            }
            // Once may be chance.
            Effect::Silent if self.params.routes && self.silent.0 == 1 && self.phase != Phase::Probing => {}
            Effect::Silent | Effect::Kept => {
                self.kept = (self.kept + 2).min(KEPT);
                if effect == Effect::Kept {
                    self.silent = (0, 0);
                }
                let enough = if self.competed_lately(now) { 2 } else { KEPT };
                if self.params.compete && (self.phase == Phase::Probing || self.kept >= enough) {
                    control.cwnd = control.cwnd.max(before);
                    control.ssthresh = control.cwnd;
                    self.compete_again(now, control);
                }
            }
        }
        self.drain = None;
    }

    /// Returns true if this reduction without effect makes enough of them at the same RTT.
    const fn stays_silent(&mut self, tolerance: u64) -> bool {
        let (count, first) = self.silent;
        let same = count == 0 || self.rtt_now.abs_diff(first) <= tolerance;
        self.silent = (count + 1, if count > 0 && same { first } else { self.rtt_now });
        same && count + 1 >= SILENT
    }

    /// Takes the RTT for that of a path without a queue. Slow start leads to what the greatest rate needs there.
    fn follow_route(&mut self, before: u32, control: &mut Control) {
        (self.kept, self.silent) = (0, (0, 0));
        self.rtt_min = self.rtt_now;
        control.ssthresh = self.rate.carried(self.rtt_min).max(control.cwnd);
        control.cwnd = control.cwnd.max(before.min(control.ssthresh));
    }

    fn competed_lately(&self, now: Time) -> bool {
        self.competed.as_ref().is_some_and(|competed| now.saturating_sub(competed.end) < MEMORY)
    }

    /// Competes, lately interrupted or for the first time.
    fn compete_again(&mut self, now: Time, control: &mut Control) {
        if self.phase != Phase::Probing {
            self.peak = (0, 0);
            let lately = self.competed_lately(now);
            if let Some(Competition { cubic, cwnd, .. }) = self.competed.take().filter(|_| lately) {
                self.cubic = cubic;
                control.ssthresh = control.ssthresh.max(cwnd);
            }
        }
        self.enter(Phase::Competing, now);
    }

    fn compete(&mut self, ack: &Ack, control: &mut Control) {
        let (now, queue) = (ack.view.now, self.q_delay());
        if queue >= self.peak.0 {
            self.peak = (queue, control.cwnd);
        }
        if now.saturating_sub(self.since) >= PROBE {
            let own = saturating_u32(self.q_data(u64::from(control.cwnd), queue));
            self.probe(control.cwnd.saturating_sub(own), now, control);
        } else if queue < self.peak.0 / 2 && self.may_join(now) {
            self.join(now, control);
        } else {
            self.cubic.on_ack(ack, control);
        }
    }

    fn may_join(&self, now: Time) -> bool {
        now.saturating_sub(self.probed) > GAP
    }

    /// Drains the queue while others seem to. The peak gives the flow's part of the path: the RTT has fallen since.
    fn join(&mut self, now: Time, control: &mut Control) {
        let (queue, cwnd) = self.peak;
        let left = u128::from(cwnd) * u128::from(self.rtt_min) / u128::from(self.rtt_min.saturating_add(queue).max(1));
        let own = saturating_u32(self.q_data(u64::from(control.cwnd), self.q_delay()));
        self.probe(control.cwnd.saturating_sub(own).min(saturating_u32(saturating_u64(left))), now, control);
    }

    fn probe(&mut self, left: u32, now: Time, control: &mut Control) {
        (self.probed, self.peak) = (now, (0, 0));
        self.enter(Phase::Probing, now);
        self.reduce(left, self.rtt_now, now, control);
    }
}

impl CongestionControl for Wild {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        let now = ack.view.now;
        if ack.delivered > 0 {
            self.delivered = now;
        }
        self.cubic.on_measure(ack, control);
        if let Some(rtt) = ack.rtt {
            self.rate.update(ack.view, rtt);
            let whole = rtt.as_micros().max(1);
            let tsval = if self.params.one_way { ack.view.tsval() } else { None };
            self.acks_queue = self.acks_queue(now, whole, tsval);
            let rtt = whole.saturating_sub(self.acks_queue).max(1);
            self.rtt_now = self.filter.update(now, rtt);
            self.rtt_min = self.rtt_min.min(self.rtt_now);
            self.rtt_mean = if self.rtt_mean == 0 { whole * 64 } else { self.rtt_mean - self.rtt_mean / 64 + whole };
            match self.phase {
                Phase::SlowStart => self.start.update(now, rtt, self.burst),
                Phase::CwndHold => self.rtt_hold = self.rtt_hold.max(self.rtt_now),
                _ => {}
            }
        }
        control.phase = self.phase as u8;
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let now = ack.view.now;
        self.mss = u64::from(ack.view.mss.max(1));
        let before = self.phase;
        self.await_effect(now, control);
        if self.phase != before {
            control.phase = self.phase as u8;
            return;
        }
        if !matches!(self.phase, Phase::SlowStart | Phase::Competing) && control.in_slow_start() {
            self.enter_slow_start(now);
        }
        match self.phase {
            Phase::SlowStart => self.slow_start(ack, control),
            Phase::CubicIncrease => self.cubic_increase(ack, control),
            Phase::FairFlowBalancing => self.fair_flow_balancing(ack, control),
            Phase::CwndHold if now.saturating_sub(self.since) >= self.params.t_sync => {
                self.tailored_decrease(self.rtt_hold, now, control);
            }
            Phase::TailoredDecrease => self.enter(Phase::CubicIncrease, now),
            Phase::Competing => self.compete(ack, control),
            Phase::CwndHold | Phase::Probing => {}
        }
        control.phase = self.phase as u8;
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        let now = congestion.view.now;
        let drain = self.drain.take();
        if self.phase == Phase::Probing {
            // A loss counts for the window that the flow competes with, of which the probe has taken a part already.
            let mut competing = *control;
            competing.cwnd = drain.map_or(control.cwnd, |drain| drain.before.max(control.cwnd));
            self.enter(Phase::Competing, now);
            self.cubic.on_congestion(congestion, &mut competing);
            control.ssthresh = competing.ssthresh.min(control.cwnd).max(2);
            return;
        }
        self.cubic.on_congestion(congestion, control);
        if congestion.signal != Signal::Timeout && self.phase != Phase::Competing {
            self.enter(Phase::CubicIncrease, now);
            self.settled = now.saturating_add(self.feedback_delay());
        }
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        let now = change.view.now;
        self.cubic.on_state(change, control);
        match change.event {
            StateEvent::Entered(CaState::Loss) => {
                self.kept = 0;
                self.enter_slow_start(now);
                self.known = false;
            }
            // The reduction is complete only now; its effect shows an RTT later.
            StateEvent::ReductionDone => {
                self.settled = now.saturating_add(self.feedback_delay());
                if self.phase == Phase::Competing && self.may_join(now) {
                    self.join(now, control);
                }
            }
            StateEvent::Restart if now > self.delivered => {
                self.start = Recent::NONE;
                self.rate.restart(change.view);
            }
            _ => {}
        }
        control.phase = self.phase as u8;
    }
}
