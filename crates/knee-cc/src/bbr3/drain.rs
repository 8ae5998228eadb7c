//! Drain: half the bandwidth until the queue of startup is gone, for three rounds at most (5.3.2).

use super::{Bbr3, State, UNIT};
use crate::Ack;

/// Rounds after which drain ends also where the queue does not: the bandwidth was overestimated.
const MAX_ROUNDS: u64 = 3;

impl Bbr3 {
    pub(super) fn enter_drain(&mut self) {
        self.state = State::Drain;
        self.probe.drain_start = self.model.round;
    }

    /// `CheckDrainDone`.
    pub(super) fn check_drain_done(&mut self, ack: &Ack) {
        let (in_flight, kernel) = (u64::from(ack.view.in_flight), self.tunables.is_kernel());
        let bw = if kernel { self.model.max_bw() } else { self.bw() };
        let late = !kernel && self.model.round > self.probe.drain_start + MAX_ROUNDS;
        if self.state == State::Drain && (in_flight <= self.inflight(bw, UNIT) || late) {
            self.start_down(ack.view);
        }
    }
}
