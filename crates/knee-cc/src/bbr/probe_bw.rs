//! Probe_bw: eight phases of about a `min_rtt`, one faster than the bandwidth, one slower, six at it.

use super::{Bbr, Mode, UNIT};
use crate::Ack;
use knee_core::convert::index;

/// Pacing gains of the cycle in 1/256 (`bbr_pacing_gain`).
const GAINS: [u64; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// The cycle begins at random anywhere but at 3/4: there is no queue to drain yet (`bbr_cycle_rand`).
const RANDOM_STARTS: u64 = 7;

/// Where in the gain cycle the flow is.
#[derive(Clone, Debug, Default)]
pub struct Cycle {
    index: usize,
    /// When the phase began, us (`cycle_mstamp`).
    since: u64,
}

impl Cycle {
    /// Pacing gain of the phase, in 1/256.
    pub const fn gain(&self) -> u64 {
        GAINS[self.index]
    }

    /// True in the phase that looks for more bandwidth.
    pub const fn is_probing(&self) -> bool {
        self.index == 0
    }

    /// A cycle in phase `index`.
    #[cfg(test)]
    pub fn at(index: usize) -> Self {
        Self { index, since: 0 }
    }

    fn advance(&mut self, now_us: u64) {
        self.index = (self.index + 1) % GAINS.len();
        self.since = now_us;
    }
}

impl Bbr {
    /// Begins gain cycling at a random phase (`bbr_reset_probe_bw_mode`).
    pub(super) fn enter_probe_bw(&mut self) {
        self.mode = Mode::ProbeBw;
        self.cycle.index = GAINS.len() - 1 - index(self.rng.below(RANDOM_STARTS));
        self.cycle.advance(self.delivered_at);
    }

    /// Enters the next phase when it is time.
    pub(super) fn update_cycle(&mut self, ack: &Ack) {
        if self.mode == Mode::ProbeBw && self.is_next_phase(ack) {
            self.cycle.advance(self.delivered_at);
        }
    }

    /// True if the phase is complete (`bbr_is_next_cycle_phase`): at gain 1 a `min_rtt` has passed; above, also, the
    /// target was reached or packets were lost; below, a `min_rtt` has passed or the queue is empty.
    fn is_next_phase(&self, ack: &Ack) -> bool {
        // Without any RTT sample Linux's min_rtt is all ones: no phase is long enough.
        let full_length =
            self.delivered_at.saturating_sub(self.cycle.since) > self.min_rtt.micros().unwrap_or(u64::MAX);
        if self.pacing_gain == UNIT {
            return full_length;
        }
        let in_network = self.in_network_at_departure(ack.view, ack.prior_in_flight);
        let bw = self.model.max_bw();
        if self.pacing_gain > UNIT {
            full_length && (ack.lost > 0 || in_network >= self.inflight(bw, self.pacing_gain))
        } else {
            full_length || in_network <= self.inflight(bw, UNIT)
        }
    }
}
