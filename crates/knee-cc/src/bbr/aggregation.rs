//! How much ACKs come in clumps: the most delivered beyond `bw · time`, over the last 5 to 10 rounds, is added to the
//! window, so that the sender does not stop in the silence between clumps.

use super::{Bbr, UNIT, model::BwSample};
use crate::Ack;
use crate::bandwidth::BW_UNIT;

/// Rounds in each of the two halves of the filter (`bbr_extra_acked_win_rtts`).
const WINDOW_ROUNDS: u32 = 5;
/// Packets after which an epoch ends in any case (`bbr_ack_epoch_acked_reset_thresh`).
const EPOCH_LIMIT: u64 = 1 << 20;
/// The window grows by at most what the bandwidth delivers in this time (`bbr_extra_acked_max_us`).
const MAX_US: u64 = 100_000;

/// The aggregation filter.
#[derive(Clone, Debug, Default)]
pub struct Aggregation {
    /// When the epoch began, us.
    epoch: u64,
    /// Packets delivered in it.
    acked: u64,
    /// The most of the current and of the previous half window.
    extra: [u64; 2],
    /// Index of the current half window in `extra`, 0 or 1.
    index: usize,
    /// Rounds the current one is old.
    rounds: u32,
}

impl Aggregation {
    /// An empty filter.
    pub fn new(now_us: u64) -> Self {
        Self { epoch: now_us, ..Self::default() }
    }

    /// Begins an epoch, after idleness.
    pub const fn restart(&mut self, now_us: u64) {
        self.epoch = now_us;
        self.acked = 0;
    }

    /// The greatest excess of the window, in packets.
    pub fn extra_acked(&self) -> u64 {
        self.extra[0].max(self.extra[1])
    }

    fn begin_round(&mut self) {
        self.rounds += 1;
        if self.rounds >= WINDOW_ROUNDS {
            self.rounds = 0;
            self.index = 1 - self.index;
            self.extra[self.index] = 0;
        }
    }

    /// Takes `delivered` packets at `now_us` in.
    fn update(&mut self, now_us: u64, delivered: u64, bw: u64, cwnd: u64) {
        let mut expected = bw.saturating_mul(now_us.saturating_sub(self.epoch)) / BW_UNIT;
        // Slower than the bandwidth: the clump is over.
        if self.acked <= expected || self.acked + delivered >= EPOCH_LIMIT {
            self.restart(now_us);
            expected = 0;
        }
        self.acked = (self.acked + delivered).min(EPOCH_LIMIT - 1);
        let extra = self.acked.saturating_sub(expected).min(cwnd).min(u64::from(u16::MAX));
        self.extra[self.index] = self.extra[self.index].max(extra);
    }
}

impl Bbr {
    /// `bbr_update_ack_aggregation`.
    pub(super) fn update_aggregation(&mut self, ack: &Ack, sample: &BwSample, cwnd: u32) {
        if self.tunables.extra_acked_gain == 0 || ack.delivered == 0 || sample.bw.is_none() {
            return;
        }
        if self.model.round_start() {
            self.aggregation.begin_round();
        }
        let bw = self.bw();
        self.aggregation.update(self.delivered_at, u64::from(ack.delivered), bw, u64::from(cwnd));
    }

    /// Packets added to the window (`bbr_ack_aggregation_cwnd`): none during startup.
    pub(super) fn aggregation_cwnd(&self) -> u64 {
        if self.is_old() || !self.full_pipe.reached() {
            return 0;
        }
        let cap = self.bw().saturating_mul(MAX_US) / BW_UNIT;
        (self.tunables.extra_acked_gain * self.aggregation.extra_acked() / UNIT).min(cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 packet per ms.
    const BW: u64 = BW_UNIT / 1000;

    #[test]
    fn a_clump_of_30_at_a_packet_per_ms_is_30_beyond_expectation_and_the_next_one_30_ms_later_no_more() {
        let mut aggregation = Aggregation::new(0);
        aggregation.update(10_000, 30, BW, 1000);
        assert_eq!(aggregation.extra_acked(), 30);
        // 30.1 ms later 30 (rounded down) were due, and 30 had come: a new epoch.
        aggregation.update(40_100, 30, BW, 1000);
        assert_eq!((aggregation.epoch, aggregation.extra_acked()), (40_100, 30));
        // 10 ms later: 30 + 30 came, 9 (bw is rounded down) were due.
        aggregation.update(50_100, 30, BW, 1000);
        assert_eq!(aggregation.extra_acked(), 51);
    }

    #[test]
    fn an_excess_is_forgotten_between_5_and_10_rounds_later() {
        let mut aggregation = Aggregation::new(0);
        aggregation.update(10_000, 30, BW, 1000);
        for _ in 0..9 {
            aggregation.begin_round();
        }
        assert_eq!(aggregation.extra_acked(), 30);
        aggregation.begin_round();
        assert_eq!(aggregation.extra_acked(), 0);
    }

    #[test]
    fn the_window_bounds_it() {
        let mut aggregation = Aggregation::new(0);
        aggregation.update(10_000, 30, BW, 20);
        assert_eq!(aggregation.extra_acked(), 20);
    }
}
