//! NV ("New Vegas"): predicts from the delivery rate the largest window without a queue, and steers to it.
//!
//! Source: Linux's net/ipv4/tcp_nv.c (Lawrence Brakmo, 2016); there is no paper. Meant for data centres where all
//! flows run it.
//!
//! On each RTT sample outside of loss recovery, with `rtt` its running mean (half old, half new) in microseconds:
//!
//! - rate: `8 · 10^4 · D / rtt` in 100 bit/s, `D` the bytes delivered since the newest packet acknowledged was sent;
//!   the largest since the last decision counts
//! - `min_rtt` is the least mean of the last one to two periods: at random times around `nv_reset_period` the
//!   minimum since the last such time replaces it
//!
//! Once per round trip, with `max_win = max_rate · min_rtt / (8 · 10^4 · mss) + nv_pad` packets:
//!
//! - `cwnd > max_win`, and enough samples: `ssthresh = max_win`, `cwnd -= max(2, 0.3 · (cwnd - max_win))`, no growth
//! - `cwnd <= max_win - 2`, and enough samples: growth is allowed
//! - growth: slow start, then one packet per window, or per `2^n` windows after `n` timeouts
//! - loss: 80 % of the window; no growth until the next decision
//!
//! Departures from Linux: the branches that its constants and its code never reach (growth faster than Reno's,
//! catch-up) are left out; rates are of 64 bits.

use crate::entry::{Entry, Family};
use crate::increase::{CLASSIC_EDGES, CLASSIC_PHASES};
use crate::{
    Ack, CaState, Congestion, CongestionControl, Control, INFINITE_SSTHRESH, Init, Needs, StateChange, StateEvent,
    View, increase,
};
use knee_core::convert::{saturating_u32, saturating_u64};
use knee_core::{Rng, Time, params};

const SOURCE: &str = "Linux net/ipv4/tcp_nv.c";

/// NV's registry entry.
pub const ENTRY: Entry = Entry {
    name: "nv",
    family: Family::DelayBased,
    about: "steers the window to what the measured rate needs, plus a few packets",
    source: SOURCE,
    params: Params::DECLARED,
    phases: CLASSIC_PHASES,
    edges: CLASSIC_EDGES,
    min_cwnd: 1,
    needs: Needs { rate: true, ..Needs::NONE },
    make: |params, init| Box::new(Nv::new(params.into(), init)),
};

params! {
    /// NV's parameters.
    struct Params {
        /// packets allowed in the queue
        nv_pad: u32 = 10, in 2..=10_000, from SOURCE;
        /// lifetime of the RTT minimum in seconds, give or take a quarter
        nv_reset_period: u64 = 5, in 1..=3600, from SOURCE;
        /// without losses the window is not reduced below this
        nv_min_cwnd: u32 = 2, in 2..=10_000, from SOURCE;
        /// known RTT without queue; zero: unknown
        base_rtt: Time = Time::ZERO, in Time::ZERO..=Time::from_secs(1), from "Linux BPF_SOCK_OPS_BASE_RTT: none";
    }
}

/// No growth within this many packets below the largest window (`nv_pad_buffer`).
const PAD_BUFFER: u32 = 2;
/// The excess over the largest window is cut by this share of 128 (`nv_cong_dec_mult`: 30 %).
const DECREASE: u64 = 38;
/// Window after a loss, in 1/1024 (`nv_loss_dec_factor`: 80 %).
const LOSS_FACTOR: u64 = 819;
/// Decisions without congestion after which the growth slowed by a timeout doubles (`nv_cwnd_growth_rate_neg`).
const SPEED_UP_AFTER: u32 = 8;
/// Samples before a decrease (`nv_dec_eval_min_calls`).
const DECREASE_SAMPLES: u8 = 60;
/// Samples before growth is allowed (`nv_inc_eval_min_calls`).
const INCREASE_SAMPLES: u8 = 20;
/// Samples before the first decrease, which ends slow start (`nv_ssthresh_eval_min_calls`).
const SLOW_START_SAMPLES: u8 = 30;
/// Round trips of undecided congestion after which growth stops (`nv_stop_rtt_cnt`).
const STOP_ROUNDS: u8 = 10;
/// Round trips before a decision (`nv_rtt_min_cnt`).
const MIN_ROUNDS: u8 = 2;
/// Least value of `small_window` (`NV_MIN_CWND`).
const SMALL_WINDOW: u8 = 4;
/// Step of `small_window` (`NV_MIN_CWND_GROW`).
const SMALL_WINDOW_STEP: u8 = 2;
/// Greatest value of `small_window` (`NV_TSO_CWND_BOUND` + 1).
const SMALL_WINDOW_MAX: u8 = 81;
/// Slowest growth: one packet per 2^8 windows.
const SLOWEST: u8 = 8;
/// No RTT measured (`NV_INIT_RTT`).
const NO_RTT: u64 = u32::MAX as u64;
/// Bytes per microsecond to 100 bit/s.
const RATE_UNIT: u64 = 80_000;

#[derive(Clone)]
struct NvState {
    rng: Rng,
    /// When `min_rtt_new` takes over.
    min_rtt_reset: Time,
    /// Growth is one packet per 2^this windows (Linux's `cwnd_growth_factor`, negated).
    slowdown: u8,
    /// The window may grow.
    allow_growth: bool,
    /// Measuring starts anew when losses are repaired.
    reset: bool,
    /// Samples since the last decision.
    samples: u8,
    /// Windows up to this may be too small to fill the link, for the sake of batching (Linux's `ca->nv_min_cwnd`).
    small_window: u8,
    /// Round trips since the last decision.
    rounds: u8,
    /// Running mean of the RTT, in microseconds; 0 before the first sample.
    last_rtt: u64,
    /// Minimum of the mean in force, in microseconds.
    min_rtt: u64,
    /// Minimum of the mean since the last reset, in microseconds.
    min_rtt_new: u64,
    /// Largest rate since the last decision, in 100 bit/s.
    max_rate: u64,
    /// The round trip ends with the first ACK beyond this segment.
    round_end: u64,
    /// First unacknowledged segment at the last sample.
    last_una: u64,
    /// Decisions without congestion in a row.
    no_congestion: u32,
}

#[derive(Clone)]
struct Nv {
    params: Params,
    tick: Time,
    state: NvState,
}

/// The largest window in packets without more than `pad` packets in the queue, at `rate` in 100 bit/s and `min_rtt` in
/// microseconds.
pub fn max_window(rate: u64, min_rtt: u64, mss: u64, pad: u32) -> u32 {
    let by_slope = u128::from(rate) * u128::from(min_rtt) / u128::from(RATE_UNIT * mss.max(1));
    saturating_u32(saturating_u64(by_slope)).min(INFINITE_SSTHRESH / 2).saturating_add(pad)
}

/// How many packets a window `excess` packets too large is cut by; for an excess above 2.
pub fn decrease(excess: u32) -> u32 {
    saturating_u32(((u64::from(excess) * DECREASE) >> 7).max(2))
}

/// `ssthresh` after a loss: 80 % of the window.
pub fn after_loss(cwnd: u32) -> u32 {
    saturating_u32(((u64::from(cwnd) * LOSS_FACTOR) >> 10).max(2))
}

impl Nv {
    fn new(params: Params, init: &Init) -> Self {
        let state = NvState {
            rng: init.rng.clone(),
            min_rtt_reset: init.now.floor_to(init.tick).saturating_add(Time::from_secs(2)),
            slowdown: 0,
            allow_growth: true,
            reset: false,
            samples: 0,
            small_window: SMALL_WINDOW,
            rounds: 0,
            last_rtt: 0,
            min_rtt: NO_RTT,
            min_rtt_new: NO_RTT,
            max_rate: 0,
            round_end: 0,
            last_una: 0,
            no_congestion: 0,
        };
        Self { params, tick: init.tick, state }
    }

    /// Averages the RTT and keeps the largest rate. Returns the mean, in microseconds.
    fn sample(&mut self, rtt: u64, delivered: u64, mss: u64) -> u64 {
        let state = &mut self.state;
        let mean = if state.last_rtt > 0 { u64::midpoint(rtt, state.last_rtt) } else { rtt };
        if state.last_rtt == 0 {
            state.min_rtt = mean * 2;
        }
        state.last_rtt = mean;
        let bytes = delivered.saturating_mul(mss);
        state.max_rate = state.max_rate.max(bytes.saturating_mul(RATE_UNIT) / mean.max(1));
        state.samples = state.samples.saturating_add(1);
        mean
    }

    /// Keeps the minimum of the mean RTT, within the bounds of a known base RTT.
    fn update_min_rtt(&mut self, mean: u64, now: Time) {
        let (params, state) = (&self.params, &mut self.state);
        let mean = match params.base_rtt.as_micros() {
            0 => mean,
            // Not below 80 % of it (205/256 in Linux), which makes flows fairer.
            base => mean.clamp((base * 205) >> 8, base),
        };
        state.min_rtt = state.min_rtt.min(mean);
        state.min_rtt_new = state.min_rtt_new.min(mean);
        let now = now.floor_to(self.tick);
        if now >= state.min_rtt_reset {
            state.min_rtt = state.min_rtt_new;
            state.min_rtt_new = NO_RTT;
            // From three to five quarters of the period.
            let interval =
                Time::from_secs(params.nv_reset_period).mul_div(384 + state.rng.below(256), 512).floor_to(self.tick);
            state.min_rtt_reset = now.saturating_add(interval);
            state.small_window = (state.small_window / 2).max(SMALL_WINDOW);
        }
    }

    /// The decision at the end of a round trip, in which `acked` packets were acknowledged since the last sample.
    fn once_per_round(&mut self, view: &View, acked: u64, control: &mut Control) {
        let state = &mut self.state;
        state.round_end = view.snd_nxt;
        state.rounds = state.rounds.saturating_add(1);
        // One ACK per round trip for the whole window: batching hides the rate, the window must be larger.
        if state.samples == 1 && acked + 1 >= u64::from(state.small_window) && state.small_window < SMALL_WINDOW_MAX {
            state.small_window = (state.small_window + SMALL_WINDOW_STEP).min(SMALL_WINDOW_MAX);
            state.round_end = view.snd_nxt + u64::from(state.small_window);
            state.samples = 0;
            state.allow_growth = true;
            return;
        }
        let max_win = max_window(state.max_rate, state.min_rtt, view.mss.into(), self.params.nv_pad);
        if control.cwnd > max_win {
            self.congested(max_win, control);
        } else if control.cwnd <= max_win - PAD_BUFFER {
            if state.samples < INCREASE_SAMPLES {
                return;
            }
            state.allow_growth = true;
            state.no_congestion = state.no_congestion.saturating_add(1);
            if state.slowdown > 0 && state.no_congestion > SPEED_UP_AFTER {
                state.slowdown -= 1;
                state.no_congestion = 0;
            }
            self.decided(control);
        }
    }

    /// The window is above the largest one: cuts it once there are enough samples.
    fn congested(&mut self, max_win: u32, control: &mut Control) {
        let state = &mut self.state;
        if state.rounds < MIN_ROUNDS {
            return;
        }
        if control.ssthresh == INFINITE_SSTHRESH {
            if state.samples < SLOW_START_SAMPLES {
                return;
            }
        } else if state.samples < DECREASE_SAMPLES {
            if state.rounds > STOP_ROUNDS {
                state.allow_growth = false;
            }
            return;
        }
        state.allow_growth = false;
        state.no_congestion = 0;
        control.ssthresh = max_win;
        let excess = control.cwnd - max_win;
        control.cwnd = if excess > 2 { control.cwnd - decrease(excess) } else { max_win };
        self.decided(control);
    }

    /// A decision was made: measures anew.
    fn decided(&mut self, control: &mut Control) {
        self.state.samples = 0;
        self.state.rounds = 0;
        self.state.max_rate = 0;
        control.cwnd = control.cwnd.max(self.params.nv_min_cwnd);
    }

    fn restart(&mut self, view: &View) {
        let state = &mut self.state;
        state.reset = false;
        state.no_congestion = 0;
        state.rounds = 0;
        state.last_rtt = 0;
        state.max_rate = 0;
        state.round_end = view.snd_una;
        state.samples = 0;
        state.last_una = view.snd_una;
    }
}

impl CongestionControl for Nv {
    fn on_measure(&mut self, ack: &Ack, control: &mut Control) {
        let (Some(rtt), CaState::Open | CaState::Disorder) = (ack.rtt, ack.view.ca) else { return };
        let view = ack.view;
        let acked = view.snd_una.saturating_sub(self.state.last_una);
        self.state.last_una = view.snd_una;
        let delivered = view.delivered.saturating_sub(ack.rate.prior_delivered);
        if delivered == 0 {
            return;
        }
        let mean = self.sample(rtt.as_micros().min(NO_RTT), delivered, ack.view.mss.into());
        self.update_min_rtt(mean, view.now);
        if view.snd_una <= self.state.round_end {
            return;
        }
        self.once_per_round(view, acked, control);
        control.phase = increase::classic_phase(control);
    }

    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        if ack.cwnd_limited && self.state.allow_growth {
            let mut rest = ack.delivered;
            if control.in_slow_start() {
                rest = increase::slow_start(control, rest);
            }
            if rest > 0 {
                let per = match self.state.slowdown {
                    0 => control.cwnd.max(4),
                    n => control.cwnd.saturating_mul(1 << n),
                };
                increase::additive_increase(control, per, rest);
            }
        }
        control.phase = increase::classic_phase(control);
    }

    fn on_congestion(&mut self, _: &Congestion, control: &mut Control) {
        control.ssthresh = after_loss(control.cwnd);
    }

    fn on_state(&mut self, change: &StateChange, _: &mut Control) {
        let StateEvent::Entered(ca) = change.event else { return };
        match ca {
            CaState::Open if self.state.reset => self.restart(change.view),
            CaState::Open | CaState::Disorder => {}
            CaState::Cwr | CaState::Recovery | CaState::Loss => {
                self.state.reset = true;
                self.state.allow_growth = false;
                if ca == CaState::Loss {
                    self.state.slowdown = (self.state.slowdown + 1).min(SLOWEST);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn nv() -> Nv {
        let init = testing::init();
        Nv::new(Params::default(), &init)
    }

    /// A state ready to decide, with a window of 100 packets at 40 ms as the largest that needs no queue.
    fn ready(samples: u8) -> Nv {
        let mut cc = nv();
        cc.sample(40_000, 100, 1448);
        cc.state.min_rtt = 40_000;
        cc.state.samples = samples;
        cc.state.rounds = 5;
        cc
    }

    fn decide(cc: &mut Nv, control: Control) -> Control {
        testing::after(control, |c| cc.once_per_round(testing::ack_up_to(500, 600, 40_000).view, 1, c))
    }

    #[test]
    fn the_largest_window_is_what_the_rate_needs_at_the_least_rtt_plus_the_pad() {
        // 100 packets of 1448 bytes per 50 ms: 231 680 · 100 bit/s; at 40 ms that is 80 packets.
        let mut cc = nv();
        cc.sample(50_000, 100, 1448);
        assert_eq!(cc.state.max_rate, 231_680);
        assert_eq!(max_window(231_680, 40_000, 1448, 10), 90);
    }

    #[test]
    fn the_rtt_is_averaged_half_and_half_and_the_first_sample_doubles_as_bound_of_the_minimum() {
        let mut cc = nv();
        assert_eq!(cc.sample(40_000, 10, 1448), 40_000);
        assert_eq!(cc.state.min_rtt, 80_000);
        assert_eq!(cc.sample(50_000, 10, 1448), 45_000);
    }

    #[test]
    fn a_window_above_the_largest_is_cut_by_thirty_percent_of_the_excess() {
        let mut cc = ready(60);
        // 38/128 of 90.
        let after = decide(&mut cc, testing::avoiding(200));
        assert_eq!((after.cwnd, after.ssthresh), (200 - 26, 110));
        assert!(!cc.state.allow_growth);
        assert_eq!((cc.state.samples, cc.state.rounds, cc.state.max_rate), (0, 0, 0));
        // An excess of two is cut whole, one of three by the least step.
        assert_eq!([112, 113].map(|cwnd| decide(&mut ready(60), testing::avoiding(cwnd)).cwnd), [110, 111]);
    }

    #[test]
    fn decisions_wait_for_samples_fewer_to_leave_slow_start_than_to_decrease() {
        let slow_start = Control::initial(200);
        assert_eq!([29, 30].map(|n| decide(&mut ready(n), slow_start).cwnd), [200, 174]);
        assert_eq!([59, 60].map(|n| decide(&mut ready(n), testing::avoiding(200)).cwnd), [200, 174]);
        for (n, allowed) in [(19, false), (20, true)] {
            let mut cc = ready(n);
            cc.state.allow_growth = false;
            decide(&mut cc, testing::avoiding(108));
            assert_eq!(cc.state.allow_growth, allowed);
        }
    }

    #[test]
    fn between_the_pad_and_its_buffer_nothing_changes() {
        let mut cc = ready(100);
        assert_eq!(decide(&mut cc, testing::avoiding(109)), testing::avoiding(109));
        assert_eq!(cc.state.samples, 100);
    }

    #[test]
    fn a_loss_leaves_eighty_percent_and_a_timeout_slows_growth_down() {
        assert_eq!([1000, 3, 1].map(after_loss), [799, 2, 2]);
        let mut cc = nv();
        for _ in 0..12 {
            cc.on_state(
                &testing::change(testing::view(), StateEvent::Entered(CaState::Loss)),
                &mut testing::avoiding(4),
            );
        }
        assert_eq!((cc.state.slowdown, cc.state.allow_growth), (8, false));
        for _ in 0..9 {
            cc.state.samples = 20;
            decide(&mut cc, testing::avoiding(4));
        }
        assert_eq!((cc.state.slowdown, cc.state.allow_growth), (7, true));
        // One packet per 2^7 windows of 4.
        let ack = Ack { delivered: 511, ..testing::ack_up_to(1, 2, 40_000) };
        let after = testing::after(testing::avoiding(4), |c| cc.on_ack(&ack, c));
        assert_eq!((after.cwnd, testing::after(after, |c| cc.on_ack(&Ack { delivered: 1, ..ack }, c)).cwnd), (4, 5));
    }

    #[test]
    fn the_minimum_of_the_rtt_is_replaced_after_a_random_time_around_the_period() {
        let mut cc = nv();
        cc.sample(40_000, 10, 1448);
        cc.update_min_rtt(40_000, Time::from_millis(1_999));
        cc.update_min_rtt(60_000, Time::from_millis(2_000));
        assert_eq!((cc.state.min_rtt, cc.state.min_rtt_new), (40_000, NO_RTT));
        let (from, to) = (Time::from_millis(2_000 + 3_750), Time::from_millis(2_000 + 6_250));
        assert!((from..to).contains(&cc.state.min_rtt_reset), "{}", cc.state.min_rtt_reset);
        cc.update_min_rtt(60_000, to);
        assert_eq!(cc.state.min_rtt, 60_000);
    }
}
