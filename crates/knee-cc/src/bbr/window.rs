//! The window: grows to the target by the packets delivered; packet conservation in the first round of recovery.

use super::model::{INIT_CWND, bdp};
use super::probe_rtt::CWND_MIN_TARGET;
use super::{Bbr, Mode};
use crate::{Ack, CaState, Control};
use knee_core::convert::saturating_u32;

/// State that recovery keeps from one ACK to the next.
#[derive(Clone, Debug)]
pub struct Recovery {
    /// State of loss recovery on the previous ACK.
    pub prev_ca: CaState,
    /// The last good window, from before recovery or `probe_rtt`.
    pub prior_cwnd: u32,
    /// This is the first round of recovery: a packet out per packet in.
    pub packet_conservation: bool,
}

impl Default for Recovery {
    fn default() -> Self {
        Self { prev_ca: CaState::Open, prior_cwnd: 0, packet_conservation: false }
    }
}

/// True while losses are being repaired (Linux: the state is at or above `TCP_CA_Recovery`).
const fn repairing(ca: CaState) -> bool {
    matches!(ca, CaState::Recovery | CaState::Loss)
}

impl Recovery {
    /// Remembers the window (`bbr_save_cwnd`): while it is cut already, only a larger one.
    pub fn save_cwnd(&mut self, cwnd: u32, mode: Mode) {
        self.prior_cwnd =
            if repairing(self.prev_ca) || mode == Mode::ProbeRtt { self.prior_cwnd.max(cwnd) } else { cwnd };
    }
}

impl Bbr {
    /// Sets the window on an ACK (`bbr_set_cwnd`).
    pub(super) fn set_cwnd(&mut self, ack: &Ack, bw: u64, control: &mut Control) {
        if ack.delivered > 0 {
            control.cwnd = self.next_cwnd(ack, bw, control.cwnd);
        }
        if self.mode == Mode::ProbeRtt {
            control.cwnd = control.cwnd.min(CWND_MIN_TARGET);
        }
    }

    fn next_cwnd(&mut self, ack: &Ack, bw: u64, cwnd: u32) -> u32 {
        let cwnd = self.recover_or_restore(ack, cwnd);
        if self.recovery.packet_conservation {
            return cwnd.max(ack.view.in_flight.saturating_add(ack.delivered));
        }
        let target = bdp(bw, self.min_rtt.micros(), self.cwnd_gain).saturating_add(self.aggregation_cwnd());
        let target = saturating_u32(self.quantization_budget(target).min(u64::from(u32::MAX)));
        let grown = cwnd.saturating_add(ack.delivered);
        let cwnd = if self.full_pipe.reached() {
            grown.min(target)
        } else if cwnd < target || ack.view.delivered < INIT_CWND {
            grown
        } else {
            cwnd
        };
        cwnd.max(CWND_MIN_TARGET)
    }

    /// Takes losses off the window, enters and leaves recovery (`bbr_set_cwnd_to_recover_or_restore`).
    fn recover_or_restore(&mut self, ack: &Ack, cwnd: u32) -> u32 {
        let (before, now) = (self.recovery.prev_ca, ack.view.ca);
        self.recovery.prev_ca = now;
        let cwnd = if ack.lost > 0 { cwnd.saturating_sub(ack.lost).max(1) } else { cwnd };
        if now == CaState::Recovery && before != CaState::Recovery {
            self.recovery.packet_conservation = true;
            self.model.restart_round(ack.view.delivered);
            return ack.view.in_flight.saturating_add(ack.delivered);
        }
        if repairing(before) && !repairing(now) {
            self.recovery.packet_conservation = false;
            return cwnd.max(self.recovery.prior_cwnd);
        }
        cwnd
    }
}
