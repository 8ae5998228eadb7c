//! Delay-based AIMD: a sawtooth that turns at a queueing delay instead of a loss, and reduces the window by just the
//! queued data.
//!
//! Source: Leith, Shorten, McCullagh, Heffner, Dunn, Baker, "Delay-based AIMD congestion control", PFLDnet 2007; its
//! Algorithm 1. There are two thresholds of the queueing delay: the window stops growing at the raised one, which
//! follows the recent queue, and backs off at the base one. Among themselves flows turn at the base threshold, since
//! their queue is no longer than that. Beside loss-based flows, which keep the queue above it, a flow grows until the
//! raised threshold and backs off once per Delta0.
//!
//! On each ACK, with `tau = sRTT - RTTmin` and `D` the time since the last backoff (the equations are in `equations`):
//!
//! - raised threshold (Eq. 5): `tau0 = (1 - gamma) · base + gamma · (RTTmax - RTTmin)`, where
//!   `RTTmax = max(RTT, RTTmax - a · RTT / cwnd)` for each packet acknowledged (line 3)
//! - increase (lines 18, 19): `cwnd += 2 · (1 - beta) · alpha(D) / cwnd` where `cwnd <= w0` or `tau <= tau0`; alpha is
//!   H-TCP's (Eq. 2) or another
//! - delay backoff (lines 22 to 25): `cwnd = ssthresh = beta · cwnd` where `cwnd > w0`, `tau >= base` and `D > Delta0`;
//!   Delta0 is proportional to RTTmax - RTTmin (Sec. III)
//! - `beta = min(delta · RTTmin / RTT, 0.9)` (Eqs. 3, 4, line 5): the queue just empties; with `delta < 1` RTTs below
//!   RTTmin are sought, which drains a queue that stood from the beginning
//! - slow start (Sec. IV) ends by the delay backoff; above `max_ssthresh` (Eq. 7, renewed where RTT > RTTmax) it grows
//!   by at most `max_ssthresh / 2` per round trip
//! - loss: `beta · cwnd` (Eqs. 1, 6)
//!
//! Eq. 6 prints one threshold, the raised one, for both the increase and the backoff: `backoff_threshold = "raised"`.
//! Flows then hold each other's queue up, since RTTmax remembers the queue that they make themselves.
//!
//! RTTmax is at least the current RTT, so that a lasting queue of `tau` is at most RTTmax - RTTmin, and `tau <= tau0`
//! wherever `tau` is at most the base value: whatever gamma is, growth does not stop below the threshold of the
//! backoff.
//!
//! The defaults make Figs. 6, 7 and 8 alike, but for what the paper prints with each: `tau0` of 50 ms with Fig. 7, and
//! no slow start in Fig. 8. The basic algorithm of Eq. 1 is `gamma = 0`, `hold = false`, `delta0_mode = "fixed"`,
//! `delta0 = 0`, `adaptive_backoff = false`; Fig. 2 is the same with `adaptive_backoff`, `delta = 1` and one of
//! `fixed_backoffs`; Figs. 3 and 4 with `delta = 0.75` and an `rtt_min_initial`.
//!
//! Departures, where the text and Algorithm 1 disagree, or neither can be meant:
//!
//! - Eq. 2 says `min[1, ...]`, which would never exceed 1; it is read as a maximum, as in H-TCP's draft. Its factor
//!   0.5 is kept as the default, though Table I follows only from the draft's 1/4 (`increase = "htcp_draft"`).
//! - line 8 tests `tau = Tmax`, which nothing defines; Sec. IV says where RTT > RTTmax.
//! - line 3 is for each ACK; it is read for each packet acknowledged, so that RTTmax also decays by `a · RTT` per
//!   window where a receiver acknowledges every second packet. Per ACK, the queue on 1 Mbit/s and 40 ms was 556 ms
//!   then, for 50 ms where each packet is acknowledged.
//! - line 12 adds an MSS, in units where the window counts packets; one packet per packet acknowledged is meant.
//! - line 4 takes the last RTT for the queueing delay; Sec. II takes the smoothed one, and so does beta here.
//! - lines 6 and 7 hold slow start for `cwnd <= ssthresh`, though line 24 makes them equal after a backoff; here it is
//!   `cwnd < ssthresh`.
//! - Algorithm 1 leaves out the loss backoff of Eqs. 1 and 6; it is here.
//!
//! Where the paper is silent: Delta0 is a time between two backoffs, so the first one does not wait for it; Sec. IV
//! ends slow start at the threshold alone. sRTT is RFC 6298's mean and starts anew with the first packet sent after a
//! backoff; until that one is acknowledged there is no further backoff. RTTmax does not fall below RTTmin. An ACK never
//! increases the window by more than it acknowledged. Sec. IV estimates `max_ssthresh` in the initial slow start; that
//! of a later one, after a timeout or idle time (RFC 5681, 4.1), may raise it but not lower it: its first windows are
//! bursts that make a queue of less than a quarter, so that Eq. 7 finds too little, and RTTmax decays, so that they
//! exceed it again. Time in which nothing was in flight is not part of an epoch, so that a large alpha does no harm.
//! `gamma`, `decay` and `delta0_factor` have no value in the paper. The first two were chosen by a map of what it
//! promises (docs/algorithms/daimd.md), `delta0_factor` for the share of Fig. 6, and `delta` for Fig. 8's beta of 0.75
//! between RTTs of 250 and 300 ms. That page measures how far the paper's promises hold with them.

use crate::entry::{Entry, Family};
use crate::increase::{CLASSIC_EDGES, CLASSIC_PHASES};
use crate::{Ack, Congestion, CongestionControl, Control, Init, Needs, StateChange, StateEvent, View, increase, reno};
use knee_core::convert::{saturating_u32, saturating_u64};
use knee_core::{Time, choice, params};

#[cfg(test)]
mod epochs;
mod equations;
#[cfg(test)]
mod figures;
#[cfg(test)]
mod kernel;

use equations::{Increase, ONE, alpha, backoff, decayed, max_ssthresh, millionths, scaled, threshold};

const OURS: &str = "no value in the paper; ours";

/// Delay-based AIMD's registry entry.
pub const ENTRY: Entry = Entry {
    name: "daimd",
    family: Family::DelayBased,
    about: "AIMD that backs off at a queueing delay, by just the queued data",
    source: "Leith et al., Delay-based AIMD congestion control, PFLDnet 2007",
    params: Params::DECLARED,
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |params, init| Box::new(Daimd::new(params.into(), init)),
};

choice! {
    /// The factor on a loss.
    enum LossBackoff {
        Beta = "beta",
        Half = "half",
    }
}

choice! {
    /// The threshold that a backoff waits for.
    enum Threshold {
        Base = "base",
        Raised = "raised",
    }
}

choice! {
    /// The rule for Delta0, the least time between delay backoffs.
    enum Delta0 {
        Proportional = "proportional",
        Fixed = "fixed",
    }
}

choice! {
    /// How slow start goes.
    enum SlowStart {
        Limited = "limited",
        Standard = "standard",
        Off = "off",
    }
}

params! {
    /// Delay-based AIMD's parameters.
    struct Params {
        /// base threshold: queueing delay at which to back off
        tau0: Time = Time::from_millis(20), in Time::from_micros(1)..=Time::from_secs(10), from "Figs. 2-4";
        /// no delay backoff at windows up to this
        w0: u32 = 4, in 0..=1 << 20, from OURS;
        /// additive increase alpha
        increase: Increase = Increase::Htcp, from "Sec. II-B, Eq. 2";
        /// scale alpha by 2 (1 - beta)
        scale_increase: bool = true, from "Algorithm 1, line 19";
        /// compute beta from the RTTs; otherwise use the fixed one
        adaptive_backoff: bool = true, from "Eqs. 3, 4";
        /// how far below RTTmin a backoff aims; 1: not at all
        delta: f64 = 0.9, in 0.01..=1.0, from "Eq. 4; Fig. 8";
        /// maximum beta
        beta_max: f64 = 0.9, in 0.01..=1.0, from "Algorithm 1, line 5";
        /// fixed beta
        beta: f64 = 0.5, in 0.01..=0.99, from "Eq. 1 with TCP's value";
        /// number of first backoffs that use the fixed beta even if beta is adaptive
        fixed_backoffs: u64 = 0, in 0..=1 << 30, from "Fig. 2";
        /// factor applied to the window on a loss: beta or one half
        loss_backoff: LossBackoff = LossBackoff::Beta, from "Eq. 6";
        /// weight of RTTmax - RTTmin in the raised threshold; 0: base value (Eq. 5)
        gamma: f64 = 0.75, in 0.0..=1.0, from OURS;
        /// threshold at which to back off: the base value, or the raised one up to which the window grows
        backoff_threshold: Threshold = Threshold::Base, from "Algorithm 1, line 22; Eq. 6";
        /// fixed RTTmin until the first backoff; 0: measured from the start
        rtt_min_initial: Time = Time::ZERO, in Time::ZERO..=Time::from_secs(10), from "Figs. 3, 4";
        /// decay a of RTTmax per round trip, in RTTs
        decay: f64 = 0.1, in 0.0..=1.0, from OURS;
        /// increase only up to the raised threshold
        hold: bool = true, from "Eq. 6, Algorithm 1, line 18";
        /// minimum time between delay backoffs: proportional to RTTmax - RTTmin, or fixed
        delta0_mode: Delta0 = Delta0::Proportional, from "Sec. III";
        /// proportional Delta0 over RTTmax - RTTmin
        delta0_factor: f64 = 20.0, in 0.0..=10_000.0, from OURS;
        /// fixed Delta0
        delta0: Time = Time::from_secs(1), in Time::ZERO..=Time::from_secs(3600), from OURS;
        /// limited by max_ssthresh, standard until the delay backoff, or none as in Fig. 8
        slow_start: SlowStart = SlowStart::Limited, from "Sec. IV";
    }
}

/// Largest window asked for, in packets.
const MAX_CWND: u32 = 1 << 30;

/// Ratios in millionths.
#[derive(Clone)]
struct Scaled {
    delta: u64,
    beta_max: u64,
    beta: u64,
    gamma: u64,
    decay: u64,
    delta0_factor: u64,
}

impl Scaled {
    fn new(params: &Params) -> Self {
        Self {
            delta: millionths(params.delta),
            beta_max: millionths(params.beta_max),
            beta: millionths(params.beta),
            gamma: millionths(params.gamma),
            decay: millionths(params.decay),
            delta0_factor: millionths(params.delta0_factor),
        }
    }
}

#[derive(Clone)]
struct DaimdState {
    /// Least RTT, or the initial value given.
    rtt_min: Time,
    /// Reductions so far.
    backoffs: u64,
    /// Greatest RTT of late; it decays.
    rtt_max: Time,
    /// Smoothed RTT of packets sent since the last backoff.
    srtt: Option<Time>,
    /// While set: no RTT counts until an ACK beyond this segment.
    settling: Option<u64>,
    /// When the window was last reduced, or the connection began; later by the time since in which nothing was in
    /// flight.
    last_backoff: Time,
    /// When data was last delivered.
    delivered: Time,
    /// There was idle time since the first RTT sample.
    resumed: bool,
    /// Window above which slow start is limited, in packets.
    max_ssthresh: u32,
    /// Increase not yet given to the window, in millionths of a packet.
    credit: u64,
}

#[derive(Clone)]
struct Daimd {
    params: Params,
    scaled: Scaled,
    state: DaimdState,
}

impl Daimd {
    fn new(params: Params, init: &Init) -> Self {
        let state = DaimdState {
            rtt_min: if params.rtt_min_initial > Time::ZERO { params.rtt_min_initial } else { Time::MAX },
            backoffs: 0,
            rtt_max: Time::ZERO,
            srtt: None,
            settling: None,
            last_backoff: init.now,
            delivered: init.now,
            resumed: false,
            max_ssthresh: u32::MAX,
            credit: 0,
        };
        Self { scaled: Scaled::new(&params), params, state }
    }

    /// RTTmax - RTTmin, an estimate of the recent queue.
    fn occupancy(&self) -> Time {
        self.state.rtt_max.saturating_sub(self.state.rtt_min)
    }

    /// The raised threshold (Eq. 5).
    fn raised(&self) -> Time {
        threshold(self.params.tau0, self.scaled.gamma, self.occupancy())
    }

    /// Beta as of now, in millionths.
    fn beta(&self) -> u64 {
        match self.state.srtt {
            Some(rtt) if self.params.adaptive_backoff && self.state.backoffs >= self.params.fixed_backoffs => {
                backoff(self.scaled.delta, self.state.rtt_min, rtt, self.scaled.beta_max)
            }
            _ => self.scaled.beta,
        }
    }

    /// Least time between delay backoffs (Sec. III).
    fn delta0(&self) -> Time {
        match self.params.delta0_mode {
            Delta0::Proportional => scaled(self.occupancy(), self.scaled.delta0_factor),
            Delta0::Fixed => self.params.delta0,
        }
    }

    /// True if the flow is to back off on delay now (line 22), at queueing delay `tau`.
    fn backs_off(&self, now: Time, tau: Time, cwnd: u32) -> bool {
        let threshold = match self.params.backoff_threshold {
            Threshold::Raised => self.raised(),
            Threshold::Base => self.params.tau0,
        };
        let since = now.saturating_sub(self.state.last_backoff);
        let waited = self.state.backoffs == 0 || since > self.delta0();
        self.state.settling.is_none() && cwnd > self.params.w0 && tau >= threshold && waited
    }

    /// The window in packets that a reduction by `beta`, in millionths, leaves, at least 2; notes the reduction.
    fn reduced(&mut self, view: &View, cwnd: u32, beta: u64) -> u32 {
        self.state.last_backoff = view.now;
        self.state.backoffs += 1;
        self.state.settling = Some(view.snd_nxt);
        self.state.credit = 0;
        (saturating_u32(u64::from(cwnd) * beta / ONE)).max(2)
    }

    /// Adds `rate` millionths of a packet per round trip for `acked` packets.
    fn add(&mut self, control: &mut Control, rate: u64, acked: u32) {
        let acked = u64::from(acked);
        let gain = u128::from(rate) * u128::from(acked) / u128::from(control.cwnd.max(1));
        self.state.credit += saturating_u64(gain.min(u128::from(acked * ONE)));
        let packets = self.state.credit / ONE;
        self.state.credit %= ONE;
        control.cwnd = control.cwnd.saturating_add(saturating_u32(packets)).min(MAX_CWND);
    }

    fn grow(&mut self, ack: &Ack, tau: Time, control: &mut Control) {
        if control.in_slow_start() {
            if self.params.slow_start == SlowStart::Limited && control.cwnd > self.state.max_ssthresh {
                self.add(control, u64::from(self.state.max_ssthresh) * ONE / 2, ack.delivered);
            } else {
                increase::slow_start(control, ack.delivered);
            }
            return;
        }
        if self.params.hold && control.cwnd > self.params.w0 && tau > self.raised() {
            return;
        }
        let alpha = alpha(self.params.increase, ack.view.now.saturating_sub(self.state.last_backoff), control.cwnd);
        let scale = if self.params.scale_increase { 2 * (ONE - self.beta().min(ONE)) } else { ONE };
        let rate = u128::from(alpha) * u128::from(scale) / u128::from(ONE);
        self.add(control, saturating_u64(rate.min(u128::from(u64::MAX))), ack.delivered);
    }

    /// Sending begins while nothing is in flight. That is no idle time where an ACK of the whole window allows it.
    fn restart(&mut self, now: Time) {
        let state = &mut self.state;
        let idle = now.saturating_sub(state.delivered);
        if idle > Time::ZERO {
            state.last_backoff = state.last_backoff.saturating_add(idle).min(now);
            state.srtt = None;
            // A wait before the first data is no epoch's, and slow start after it is the initial one.
            state.resumed |= state.rtt_max > Time::ZERO;
        }
    }

    /// Takes an RTT sample (Algorithm 1, lines 2 to 4 and 8 to 10).
    fn sample(&mut self, ack: &Ack, rtt: Time, control: &Control) {
        let state = &mut self.state;
        let rtt_max = decayed(state.rtt_max, rtt, control.cwnd, self.scaled.decay, ack.acked);
        let higher = rtt > rtt_max;
        if self.params.rtt_min_initial == Time::ZERO || state.backoffs > 0 {
            state.rtt_min = state.rtt_min.min(rtt);
        }
        state.rtt_max = rtt_max.max(rtt);
        match state.settling {
            Some(until) if ack.view.snd_una <= until => {}
            Some(_) => {
                state.settling = None;
                state.srtt = Some(rtt);
            }
            None => state.srtt = Some(state.srtt.map_or(rtt, |srtt| srtt - srtt / 8 + rtt / 8)),
        }
        if higher && control.in_slow_start() {
            let found = max_ssthresh(control.cwnd, self.raised(), self.occupancy());
            let state = &mut self.state;
            let estimated = state.max_ssthresh < u32::MAX && (state.backoffs > 0 || state.resumed);
            let least = if estimated { state.max_ssthresh } else { 0 };
            state.max_ssthresh = found.map_or(state.max_ssthresh, |found| found.max(least));
        }
    }
}

impl CongestionControl for Daimd {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        if let Some(rtt) = ack.rtt {
            self.sample(ack, rtt, control);
        }
        if ack.delivered > 0 {
            self.state.delivered = ack.view.now;
        }
        control.phase = increase::classic_phase(control);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        let tau = self.state.srtt.map_or(Time::ZERO, |srtt| srtt.saturating_sub(self.state.rtt_min));
        if self.backs_off(ack.view.now, tau, control.cwnd) {
            let beta = self.beta();
            control.cwnd = self.reduced(ack.view, control.cwnd, beta);
            control.ssthresh = control.cwnd;
            control.cwnd_cnt = 0;
        } else if ack.cwnd_limited {
            self.grow(ack, tau, control);
        }
        control.phase = increase::classic_phase(control);
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        let beta = self.beta();
        let window = self.reduced(congestion.view, control.cwnd, beta);
        control.ssthresh = match self.params.loss_backoff {
            LossBackoff::Half => reno::halved(control.cwnd),
            LossBackoff::Beta => window,
        };
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        match change.event {
            StateEvent::Start if self.params.slow_start == SlowStart::Off => control.ssthresh = control.cwnd,
            StateEvent::Restart => self.restart(change.view.now),
            _ => {}
        }
        control.phase = increase::classic_phase(control);
    }
}
