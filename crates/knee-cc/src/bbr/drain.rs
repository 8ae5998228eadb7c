//! Drain: paces below the bandwidth until the queue of startup is gone.

use super::{Bbr, Mode, UNIT};
use crate::{Ack, Control};
use knee_core::convert::saturating_u32;

impl Bbr {
    /// From startup to drain when the pipe is full, from drain to `probe_bw` when at most a BDP is in flight
    /// (`bbr_check_drain`). `ssthresh` only records the BDP.
    pub(super) fn check_drain(&mut self, ack: &Ack, control: &mut Control) {
        if self.mode == Mode::Startup && self.full_pipe.reached() {
            self.mode = Mode::Drain;
            control.ssthresh =
                saturating_u32(self.inflight(self.model.max_bw(), UNIT).min(u64::from(crate::INFINITE_SSTHRESH)));
        }
        if self.mode == Mode::Drain
            && self.in_network_at_departure(ack.view, ack.view.in_flight) <= self.inflight(self.model.max_bw(), UNIT)
        {
            self.enter_probe_bw();
        }
    }
}
