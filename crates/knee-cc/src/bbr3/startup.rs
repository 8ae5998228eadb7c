//! Startup and the search for a plateau of the bandwidth, which also ends `probe_bw_up` (5.3.1).

use super::loss::Origin;
use super::model::Sample;
use super::{Bbr3, State, UNIT};
use crate::{Ack, CaState};

/// Rounds without growth that show a plateau.
const ROUNDS: u32 = 3;

/// The search for a plateau (5.3.1.2).
#[derive(Clone, Debug, Default)]
pub struct FullPipe {
    /// The pipe was full at least once.
    pub reached: bool,
    /// The pipe was full since the search began.
    pub now: bool,
    /// Bandwidth to grow from.
    baseline: u64,
    /// Rounds without growth.
    rounds: u32,
}

impl FullPipe {
    /// Begins a search at a bandwidth (`ResetFullBW`).
    pub const fn restart(&mut self, baseline: u64) {
        self.baseline = baseline;
        self.rounds = 0;
        self.now = false;
    }

    /// Growth by a quarter, which the application did not limit, restarts the count of rounds (`CheckFullBWReached`).
    pub fn update(&mut self, bw: u64, round_start: bool) {
        if self.now {
            return;
        }
        if 4 * bw >= 5 * self.baseline {
            self.restart(bw);
            return;
        }
        self.rounds += u32::from(round_start);
        self.now = self.rounds >= ROUNDS;
        self.reached |= self.now;
    }
}

impl Bbr3 {
    /// `CheckStartupDone`.
    pub(super) fn check_startup_done(&mut self, ack: &Ack, sample: &Sample) {
        self.check_startup_loss(ack, sample);
        if self.state == State::Startup && self.full_pipe.reached {
            self.enter_drain();
        }
    }

    /// Ends startup where a whole round of recovery lost more than the threshold, in several places (5.3.1.3).
    fn check_startup_loss(&mut self, ack: &Ack, sample: &Sample) {
        let round_over = self.delivery.loss_round_start;
        let ranges = if round_over { std::mem::take(&mut self.delivery.ranges_in_round) } else { 0 };
        if self.state == State::Startup
            && ack.view.ca == CaState::Recovery
            && ranges >= self.tunables.params.startup_full_loss_cnt
            && self.is_inflight_too_high(sample)
        {
            self.saved.origin = Some(Origin::Startup);
            self.end_startup();
        }
    }

    /// Startup put too much in flight.
    pub(super) fn end_startup(&mut self) {
        (self.full_pipe.now, self.full_pipe.reached) = (true, true);
        let bdp = if self.tunables.is_kernel() {
            self.inflight(self.model.max_bw(), UNIT)
        } else {
            self.bdp(self.bw(), UNIT)
        };
        self.inflight_longterm = bdp.max(self.delivery.inflight_latest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_rounds_below_125_percent_are_a_plateau_and_growth_starts_the_count_again() {
        let mut pipe = FullPipe::default();
        for bw in [100, 124, 124, 125, 156, 156] {
            pipe.update(bw, true);
            assert!(!pipe.now, "{bw}");
        }
        pipe.update(156, true);
        assert!(pipe.now && pipe.reached);
        pipe.restart(156);
        assert!(!pipe.now && pipe.reached);
    }
}
