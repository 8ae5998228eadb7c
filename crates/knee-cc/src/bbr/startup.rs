//! Startup's end: the pipe is full when the bandwidth has not grown by 25 % in three rounds.

use super::UNIT;

/// Growth that counts, in 1/256 (`bbr_full_bw_thresh`).
const THRESHOLD: u64 = UNIT * 5 / 4;

/// Looks for the plateau.
#[derive(Clone, Debug, Default)]
pub struct FullPipe {
    /// Bandwidth to grow from (`full_bw`).
    baseline: u64,
    /// Rounds without growth (`full_bw_cnt`).
    rounds: u32,
    reached: bool,
}

impl FullPipe {
    /// True once the pipe was full; never false again.
    pub const fn reached(&self) -> bool {
        self.reached
    }

    /// At the begin of a round that the application did not limit (`bbr_check_full_bw_reached`).
    pub fn update(&mut self, max_bw: u64, rounds_needed: u32) {
        if self.reached {
            return;
        }
        if max_bw >= self.baseline.saturating_mul(THRESHOLD) / UNIT {
            (self.baseline, self.rounds) = (max_bw, 0);
            return;
        }
        self.rounds += 1;
        self.reached = self.rounds >= rounds_needed;
    }

    /// After a timeout: the next round counts as growth.
    pub const fn forget_baseline(&mut self) {
        self.baseline = 0;
    }

    /// After a reduction that proved wrong: counts anew.
    pub const fn restart(&mut self) {
        self.baseline = 0;
        self.rounds = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_rounds_below_125_percent_of_the_baseline_fill_the_pipe() {
        let mut pipe = FullPipe::default();
        for bw in [100, 200, 400, 499, 499] {
            pipe.update(bw, 3);
            assert!(!pipe.reached(), "{bw}");
        }
        pipe.update(499, 3);
        assert!(pipe.reached());
    }

    #[test]
    fn growth_by_exactly_25_percent_starts_the_count_again() {
        let mut pipe = FullPipe::default();
        for bw in [400, 499, 499, 500, 500, 500] {
            pipe.update(bw, 3);
        }
        assert!(!pipe.reached());
        pipe.update(500, 3);
        assert!(pipe.reached());
    }
}
