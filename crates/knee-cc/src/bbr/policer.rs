//! Token-bucket policers: where two intervals in a row lose over 50/256 of what they deliver and deliver at the same
//! rate, that rate is taken for the policer's and used for 48 rounds.
//!
//! An interval begins and ends with a loss (the bucket is empty then) and lasts 4 to 16 rounds.
//! Flach et al., "An Internet-Wide Analysis of Traffic Policing", SIGCOMM 2016; Linux's `bbr_lt_bw_*`.

use super::UNIT;
use crate::View;
use crate::bandwidth::bandwidth;

/// Rounds of an interval at least; four times as many at most (`bbr_lt_intvl_min_rtts`).
const INTERVAL_ROUNDS: u32 = 4;
/// Lost per delivered packets that make an interval lossy, in 1/256 (`bbr_lt_loss_thresh`).
const LOSS_THRESHOLD: u64 = 50;
/// Two rates this close are the same: relative in 1/256 (`bbr_lt_bw_ratio`).
const BW_RATIO: u64 = UNIT / 8;
/// Two rates this close are the same: absolute in bytes/s (`bbr_lt_bw_diff`, 4 kbit/s).
const BW_DIFF: u64 = 4000 / 8;
/// Rounds the policer's rate is used (`bbr_lt_bw_max_rtts`).
const MAX_ROUNDS: u32 = 48;

/// Input of the detector, from one ACK.
#[derive(Clone, Copy, Debug)]
pub struct LossSample {
    /// When data was last delivered, us.
    pub at: u64,
    /// Packets lost.
    pub lost: u32,
    /// The application limited sending.
    pub app_limited: bool,
    /// A round began with this ACK.
    pub round_start: bool,
    /// The flow is in `probe_bw`.
    pub in_probe_bw: bool,
}

/// The detector's news after an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A policer was found.
    Found,
    /// Its rate was used long enough, the gain cycle begins anew.
    GivenUp,
}

/// The detector.
#[derive(Clone, Debug, Default)]
pub struct Policer {
    /// Rate of the last interval, or the policer's; 0: none.
    bw: u64,
    in_use: bool,
    sampling: bool,
    /// Rounds of the interval, or of the use.
    rounds: u32,
    /// The interval's begin: time in ms, and the connection's counters.
    since_ms: u64,
    delivered: u64,
    lost: u64,
}

impl Policer {
    /// A detector at the start of a connection.
    pub fn new(now_us: u64) -> Self {
        Self { since_ms: now_us / 1000, ..Self::default() }
    }

    /// The policer's bandwidth, while it is used.
    pub const fn bw(&self) -> Option<u64> {
        if self.in_use { Some(self.bw) } else { None }
    }

    /// Forgets everything.
    pub fn reset(&mut self, now_us: u64, view: &View) {
        *self = Self::default();
        self.begin_interval(now_us, view);
    }

    fn begin_interval(&mut self, now_us: u64, view: &View) {
        self.since_ms = now_us / 1000;
        self.delivered = view.delivered;
        self.lost = view.lost;
        self.rounds = 0;
    }

    /// Takes a sample (`bbr_lt_bw_sampling`); `rate_of` tells the bytes/s of a bandwidth.
    pub fn update(&mut self, sample: &LossSample, view: &View, rate_of: impl Fn(u64) -> u64) -> Option<Change> {
        if self.in_use {
            return self.keep_using(sample, view);
        }
        if !self.sampling {
            if sample.lost == 0 {
                return None;
            }
            self.begin_interval(sample.at, view);
            self.sampling = true;
        }
        if sample.app_limited {
            self.reset(sample.at, view);
            return None;
        }
        self.rounds += u32::from(sample.round_start);
        if self.rounds > 4 * INTERVAL_ROUNDS {
            self.reset(sample.at, view);
        } else if self.rounds >= INTERVAL_ROUNDS && sample.lost > 0 && self.is_lossy(view) {
            return self.end_interval(sample.at, view, rate_of);
        }
        None
    }

    fn keep_using(&mut self, sample: &LossSample, view: &View) -> Option<Change> {
        if sample.in_probe_bw && sample.round_start {
            self.rounds += 1;
            if self.rounds >= MAX_ROUNDS {
                self.reset(sample.at, view);
                return Some(Change::GivenUp);
            }
        }
        None
    }

    fn is_lossy(&self, view: &View) -> bool {
        let delivered = view.delivered.saturating_sub(self.delivered);
        let lost = view.lost.saturating_sub(self.lost);
        delivered > 0 && lost.saturating_mul(UNIT) >= LOSS_THRESHOLD.saturating_mul(delivered)
    }

    fn end_interval(&mut self, now_us: u64, view: &View, rate_of: impl Fn(u64) -> u64) -> Option<Change> {
        let span_ms = (now_us / 1000).saturating_sub(self.since_ms);
        if span_ms >= u64::from(u32::MAX) / 1000 {
            self.reset(now_us, view);
            return None;
        }
        // An interval shorter than a millisecond continues.
        let bw = bandwidth(view.delivered.saturating_sub(self.delivered), span_ms * 1000)?;
        let difference = bw.abs_diff(self.bw);
        if self.bw > 0 && (difference * UNIT <= BW_RATIO * self.bw || rate_of(difference) <= BW_DIFF) {
            *self = Self { bw: u64::midpoint(self.bw, bw), in_use: true, rounds: 0, ..self.clone() };
            return Some(Change::Found);
        }
        self.bw = bw;
        self.begin_interval(now_us, view);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// Runs `rounds` rounds of 100 ms with `delivered` and `lost` packets each; the loss comes at their end.
    fn run(policer: &mut Policer, view: &mut View, rounds: u64, delivered: u64, lost: u64) -> Option<Change> {
        let mut change = None;
        for _ in 0..rounds {
            view.now += knee_core::Time::from_millis(100);
            view.delivered += delivered;
            view.lost += lost;
            let at = view.now.as_micros();
            let sample = LossSample { at, lost: lost as u32, app_limited: false, round_start: true, in_probe_bw: true };
            change = change.or(policer.update(&sample, view, |bw| bw));
        }
        change
    }

    #[test]
    fn two_lossy_intervals_of_like_rate_reveal_a_policer_whose_rate_is_their_mean_and_used_for_48_rounds() {
        let (mut policer, mut view) = (Policer::new(0), testing::view());
        // The first loss begins an interval; 4 rounds, its own counted, end it: 300 ms, 300 packets, 90 lost (30 %).
        assert_eq!(run(&mut policer, &mut view, 4, 100, 30), None);
        assert_eq!(policer.bw, bandwidth(300, 300_000).unwrap());
        // The next takes 4 rounds or 400 ms at 10 % more.
        assert_eq!(run(&mut policer, &mut view, 4, 110, 33), Some(Change::Found));
        // 2^24 / 1000 = 16777.2 and 1.1 times that = 18454.9.
        assert_eq!(policer.bw(), Some(u64::midpoint(16_777, 18_454)));
        assert_eq!(run(&mut policer, &mut view, 47, 100, 30), None);
        assert_eq!(run(&mut policer, &mut view, 1, 100, 30), Some(Change::GivenUp));
        assert_eq!(policer.bw(), None);
    }

    #[test]
    fn rates_that_differ_by_more_than_an_eighth_or_losses_below_50_of_256_reveal_none() {
        let (mut policer, mut view) = (Policer::new(0), testing::view());
        run(&mut policer, &mut view, 4, 100, 30);
        assert_eq!(run(&mut policer, &mut view, 4, 113, 30), None);
        let (mut policer, mut view) = (Policer::new(0), testing::view());
        // 19 of 100 is 48.6 of 256.
        assert_eq!(run(&mut policer, &mut view, 40, 100, 19), None);
    }
}
