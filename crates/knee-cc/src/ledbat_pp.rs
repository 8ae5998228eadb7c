//! LEDBAT++: background traffic that yields to others, shares fairly with its kind and finds the empty path again.
//!
//! Source: draft-irtf-iccrg-ledbat-plus-plus-06, Sec. 4. With `base` the least RTT of ten minutes, `delay` the least of
//! the last four RTTs less `base`, and W the window in packets:
//!
//! - `gain = 1 / min(16, ceil(2 target / base))`: a flow gains packets no faster than one with an RTT of twice the
//!   target
//! - up to the target `W += gain` in each round trip; above it `W += max(gain - W (delay / target - 1), -W / 2)`
//! - slow start `W += gain · acked`; the first one ends where the delay is above 3/4 of the target
//! - loss: half the window, at least 2 packets
//!
//! Slowdowns show flows the path without a queue, whoever came first:
//!
//! ```text
//!   slow start -- delay > 3/4 target --> avoidance -- 2 RTT --> hold: 2 packets for 2 RTT
//!                                          ^                      |
//!       for 9 times what hold              |                      v
//!       and recover took                   '--- recover: slow start to the window before
//! ```
//!
//! Departures: the RTT is Linux's, in microseconds; the initial window is the sender's unless it is above 2 packets,
//! as the draft has it; a timeout is the sender's, after which slow start goes up to half of the window before.

use crate::entry::{Entry, Family, edges};
use crate::filter::WindowedMin;
use crate::{Ack, CaState, Congestion, CongestionControl, Control, Needs, Signal, StateChange, StateEvent};
use knee_core::convert::truncated_u32;
use knee_core::{Time, params};

/// LEDBAT++'s registry entry.
pub const ENTRY: Entry = Entry {
    name: "ledbat++",
    family: Family::DelayBased,
    about: "background traffic with a gain by RTT, multiplicative decrease and periodic slowdowns",
    source: "draft-irtf-iccrg-ledbat-plus-plus-06",
    params: Params::DECLARED,
    phases: &["slow_start", "avoidance", "slowdown", "recovery_from_slowdown"],
    edges: edges![Phase:
        SlowStart => Avoidance,
        SlowStart => Hold,
        Avoidance => SlowStart,
        Avoidance => Hold,
        Hold => Recover,
        Hold => Avoidance,
        Hold => SlowStart,
        Recover => Avoidance,
        Recover => SlowStart,
    ],
    min_cwnd: 1,
    needs: Needs::NONE,
    make: |params, _| Box::new(LedbatPp::new(Params::from(params))),
};

params! {
    /// LEDBAT++'s parameters.
    struct Params {
        /// queueing delay to hold
        target: Time = Time::from_millis(60), in Time::from_millis(1)..=Time::from_secs(1),
            from "draft-irtf-iccrg-ledbat-plus-plus-06, 4.2";
        /// how strongly the window falls above the target
        decrease: f64 = 1.0, in 0.01..=10.0, from "draft-irtf-iccrg-ledbat-plus-plus-06, 4.2: the constant";
        /// slow down now and then
        slowdowns: bool = true, from "draft-irtf-iccrg-ledbat-plus-plus-06, 4.4";
    }
}

/// Samples of the delay filter.
const FILTER: usize = 4;
/// For how long the base is remembered (RFC 6817, 2.5).
const BASE_HISTORY: Time = Time::from_secs(600);
/// The smallest gain is 1/16.
const LEAST_GAIN: u64 = 16;
/// Packets of the window at the start and in a slowdown.
const LEAST_CWND: u32 = 2;
/// Round trips from slow start to the first slowdown, and of the slowdown.
const SLOWDOWN_RTTS: u64 = 2;
/// Time between slowdowns, as a multiple of what the last took.
const INTERVAL: u64 = 9;

/// The phases, in the order of the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    SlowStart,
    Avoidance,
    Hold,
    Recover,
}

#[derive(Clone)]
struct LedbatPp {
    params: Params,
    phase: Phase,
    /// The first slow start, which a delay ends, is not over.
    is_first: bool,
    base: WindowedMin,
    base_rtt: Time,
    recent: [Time; FILTER],
    samples: usize,
    /// Change not yet given to the window, in packets.
    credit: f64,
    /// When the next slowdown begins, or the phase `Hold` ends.
    next: Time,
    /// When the slowdown began.
    since: Time,
    /// Window before the slowdown, up to which it recovers.
    resume: u32,
}

/// 1 / gain.
fn divisor(target: Time, base: Time) -> u64 {
    (2 * target.as_nanos()).div_ceil(base.as_nanos().max(1)).clamp(1, LEAST_GAIN)
}

/// Packets that a round trip adds to a window of `cwnd` packets.
fn per_rtt(gain: f64, decrease: f64, target: Time, delay: Time, cwnd: u32) -> f64 {
    if delay <= target {
        return gain;
    }
    let (w, excess) = (f64::from(cwnd), delay.as_secs_f64() / target.as_secs_f64() - 1.0);
    (gain - decrease * w * excess).max(-w / 2.0)
}

impl LedbatPp {
    fn new(params: Params) -> Self {
        Self {
            params,
            phase: Phase::SlowStart,
            is_first: true,
            base: WindowedMin::new(BASE_HISTORY),
            base_rtt: Time::MAX,
            recent: [Time::MAX; FILTER],
            samples: 0,
            credit: 0.0,
            next: Time::MAX,
            since: Time::ZERO,
            resume: LEAST_CWND,
        }
    }

    /// Queueing delay; zero before the first sample.
    fn delay(&self) -> Time {
        let least = self.recent.into_iter().min().unwrap_or(Time::MAX);
        if least == Time::MAX { Time::ZERO } else { least.saturating_sub(self.base_rtt) }
    }

    fn gain(&self) -> f64 {
        1.0 / divisor(self.params.target, self.base_rtt) as f64
    }

    /// Adds `change` packets to the window, whole ones as they come together.
    fn grow(&mut self, change: f64, control: &mut Control) {
        self.credit += change;
        let whole = self.credit.trunc();
        self.credit -= whole;
        let cwnd = f64::from(control.cwnd) + whole;
        control.cwnd = truncated_u32(cwnd.max(f64::from(LEAST_CWND)));
    }

    /// A slow start is over; the next slowdown begins after `wait`.
    fn avoid(&mut self, now: Time, wait: Time, control: &mut Control) {
        self.phase = Phase::Avoidance;
        self.is_first = false;
        self.credit = 0.0;
        control.ssthresh = control.ssthresh.min(control.cwnd);
        self.next = if self.params.slowdowns { now.saturating_add(wait) } else { Time::MAX };
    }

    /// Begins a slowdown, or goes on with it, where it is time.
    fn slow_down(&mut self, now: Time, srtt: Time, control: &mut Control) {
        match self.phase {
            Phase::SlowStart | Phase::Avoidance if now >= self.next => {
                // Slow start after a timeout or an idle time was on its way to `ssthresh`.
                let window = if self.phase == Phase::SlowStart { control.ssthresh } else { control.cwnd };
                self.phase = Phase::Hold;
                self.resume = window.max(LEAST_CWND);
                (self.since, self.next) = (now, now.saturating_add(srtt * SLOWDOWN_RTTS));
                control.cwnd = control.cwnd.min(LEAST_CWND);
                self.credit = 0.0;
            }
            Phase::Hold if now >= self.next => {
                self.phase = Phase::Recover;
                control.ssthresh = self.resume;
            }
            _ => {}
        }
    }

    fn start_slowly(&mut self, ack: &Ack, control: &mut Control) {
        let (now, srtt) = (ack.view.now, ack.view.srtt);
        let is_late = self.is_first && self.delay() > self.params.target.mul_div(3, 4);
        if !is_late && ack.cwnd_limited && control.in_slow_start() {
            self.grow(self.gain() * f64::from(ack.delivered), control);
            control.cwnd = control.cwnd.min(control.ssthresh);
        }
        if !is_late && control.in_slow_start() {
            return;
        }
        let wait = match self.phase {
            Phase::Recover => (now - self.since) * INTERVAL,
            // After a timeout what was planned holds.
            _ if self.next < Time::MAX => self.next.saturating_sub(now),
            _ => srtt * SLOWDOWN_RTTS,
        };
        self.avoid(now, wait, control);
    }
}

impl CongestionControl for LedbatPp {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        if let Some(rtt) = ack.rtt {
            self.base_rtt = Time::from_nanos(self.base.update(ack.view.now, rtt.as_nanos()));
            self.recent[self.samples % FILTER] = rtt;
            self.samples += 1;
        }
        control.phase = self.phase as u8;
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        self.slow_down(ack.view.now, ack.view.srtt, control);
        match self.phase {
            Phase::SlowStart | Phase::Recover => self.start_slowly(ack, control),
            Phase::Hold => control.cwnd = control.cwnd.min(LEAST_CWND),
            Phase::Avoidance => {
                let (target, delay) = (self.params.target, self.delay());
                let change = per_rtt(self.gain(), self.params.decrease, target, delay, control.cwnd);
                if change < 0.0 || ack.cwnd_limited {
                    self.grow(change * f64::from(ack.delivered) / f64::from(control.cwnd.max(1)), control);
                }
            }
        }
        control.phase = self.phase as u8;
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        self.credit = 0.0;
        if self.phase == Phase::Hold {
            // The window of the slowdown stays; that before it is what is halved.
            self.resume = (self.resume / 2).max(LEAST_CWND);
            control.ssthresh = if congestion.signal == Signal::Timeout { self.resume } else { LEAST_CWND };
        } else {
            control.ssthresh = (control.cwnd / 2).max(LEAST_CWND);
        }
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        match change.event {
            StateEvent::Start => control.cwnd = control.cwnd.min(LEAST_CWND),
            // RTTs from before an idle time say nothing about the queue, and slow start leads back to the window.
            StateEvent::Restart => {
                self.recent = [Time::MAX; FILTER];
                if self.phase == Phase::Avoidance && control.in_slow_start() {
                    self.phase = Phase::SlowStart;
                }
            }
            StateEvent::Entered(CaState::Loss) => {
                if matches!(self.phase, Phase::Hold | Phase::Recover) {
                    self.next = Time::MAX;
                }
                (self.phase, self.is_first) = (Phase::SlowStart, false);
            }
            _ => {}
        }
        control.phase = self.phase as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, close};

    const MS: Time = Time::from_millis(1);

    /// A window after ACKs of all of it, one each `rtt`, up to `until`: times, phases and windows.
    fn run(cc: &mut LedbatPp, control: &mut Control, from: u64, until: u64, rtt: u64) -> Vec<(u64, Phase, u32)> {
        let mut seen = Vec::new();
        for ms in (from..until).step_by(usize::try_from(rtt).unwrap()) {
            let view = testing::changed(&testing::view_at(MS * ms), |view| view.srtt = MS * rtt);
            let ack = Ack { view, rtt: Some(MS * rtt), delivered: control.cwnd, ..testing::ack(control.cwnd) };
            cc.on_measure(&ack, control);
            cc.on_ack(&ack, control);
            seen.push((ms, cc.phase, control.cwnd));
        }
        seen
    }

    #[test]
    fn the_gain_is_that_of_an_rtt_of_twice_the_target_and_at_least_a_sixteenth() {
        // 4.2: 1 / min(16, ceil(2 target / base)).
        let of = |base| divisor(MS * 60, MS * base);
        assert_eq!([200, 120, 119, 60, 50, 10, 8, 1].map(of), [1, 1, 2, 2, 3, 12, 15, 16]);
    }

    #[test]
    fn above_the_target_the_window_falls_by_its_share_and_at_most_to_half() {
        let change = |delay, cwnd| per_rtt(0.5, 1.0, MS * 60, MS * delay, cwnd);
        assert!([0, 30, 60].map(|delay| change(delay, 100)).iter().all(|by| close(*by, 0.5)));
        // A tenth above the target: a tenth of the window less the gain.
        assert!([(66, -9.5), (90, -49.5), (200, -50.0)].iter().all(|(delay, by)| close(change(*delay, 100), *by)));
    }

    #[test]
    fn a_slowdown_follows_slow_start_after_two_rtts_and_the_next_after_nine_times_as_long_as_it_took() {
        let (mut cc, mut control) = (LedbatPp::new(Params::default()), Control::initial(10));
        cc.on_state(&StateChange { view: &testing::view(), event: StateEvent::Start }, &mut control);
        assert_eq!(control.cwnd, 2, "4.3: at most two packets at the start");
        // An RTT of 120 ms: a gain of 1.
        let seen = run(&mut cc, &mut control, 0, 480, 120);
        assert_eq!(seen.iter().map(|s| s.2).collect::<Vec<_>>(), [4, 8, 16, 32]);
        // 46 ms of queue are more than 3/4 of the target: with the least of four samples.
        let seen = run(&mut cc, &mut control, 480, 480 + 166 * 4, 166);
        assert_eq!(seen.iter().map(|s| s.1).collect::<Vec<_>>()[2..], [Phase::SlowStart, Phase::Avoidance]);
        let window = control.cwnd;
        let seen = run(&mut cc, &mut control, 1200, 40_000, 120);
        let begins: Vec<_> = seen.windows(2).filter(|w| w[0].1 != w[1].1).map(|w| (w[1].0, w[1].1, w[1].2)).collect();
        let (hold, recover, avoid, again) = (begins[0], begins[1], begins[2], begins[3]);
        assert_eq!((hold.1, hold.2), (Phase::Hold, 2));
        assert_eq!((recover.0 - hold.0, recover.1), (240, Phase::Recover));
        assert!(avoid.1 == Phase::Avoidance && avoid.2.abs_diff(window) <= 2, "{avoid:?} {window}");
        // To the next ACK.
        let took = avoid.0 - hold.0;
        assert!(again.1 == Phase::Hold && (again.0 - avoid.0).abs_diff(9 * took) <= 120, "{begins:?}");
    }

    #[test]
    fn slow_start_leads_back_to_the_window_after_an_idle_time() {
        let mut cc = LedbatPp::new(Params::default());
        cc.phase = Phase::Avoidance;
        let mut control = Control { ssthresh: 75, ..Control::initial(10) };
        cc.on_state(&StateChange { view: &testing::view(), event: StateEvent::Restart }, &mut control);
        assert_eq!(cc.phase, Phase::SlowStart);
        // A slowdown on the way there ends at it too.
        cc.next = Time::ZERO;
        cc.slow_down(MS, MS * 100, &mut control);
        assert_eq!((cc.phase, cc.resume, control.cwnd), (Phase::Hold, 75, 2));
    }

    #[test]
    fn a_loss_halves_the_window_and_in_a_slowdown_that_before_it() {
        let mut cc = LedbatPp::new(Params::default());
        let loss = testing::congestion(testing::view(), Signal::Loss);
        let halved = |cc: &mut LedbatPp, cwnd| {
            testing::after(testing::avoiding(cwnd), |control| cc.on_congestion(&loss, control)).ssthresh
        };
        assert_eq!([40, 3].map(|cwnd| halved(&mut cc, cwnd)), [20, 2]);
        (cc.phase, cc.resume) = (Phase::Hold, 40);
        assert_eq!((halved(&mut cc, 2), cc.resume), (2, 20));
    }
}
