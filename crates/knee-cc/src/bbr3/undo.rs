//! What recovery and `probe_rtt` keep of the time before, and the way back where a loss was none (5.5.11, 5.6.4.4).

use super::loss::{Origin, ShortTerm};
use super::{Bbr3, State};
use crate::{CaState, View};

/// State of before a loss.
#[derive(Clone, Debug)]
pub struct Saved {
    /// The last good window, in packets.
    pub prior_cwnd: u32,
    /// The state a loss ended, if it did.
    pub origin: Option<Origin>,
    short_term: ShortTerm,
    inflight_longterm: u64,
    /// Whether losses are being repaired.
    repairing: bool,
}

impl Default for Saved {
    fn default() -> Self {
        let short_term = ShortTerm { bw: 0, inflight: 0 };
        Self { prior_cwnd: 0, origin: None, short_term, inflight_longterm: 0, repairing: false }
    }
}

impl Saved {
    /// Follows loss recovery's state; tells whether this left recovery.
    pub const fn enter(&mut self, ca: CaState) -> bool {
        let before = self.repairing;
        self.repairing = matches!(ca, CaState::Recovery | CaState::Loss);
        before && !self.repairing
    }
}

impl Bbr3 {
    /// Remembers the window; while it is cut already, only a larger one (`SaveCwnd`).
    pub(super) fn save_cwnd(&mut self, cwnd: u32) {
        let cut = self.saved.repairing || self.state == State::ProbeRtt;
        self.saved.prior_cwnd = if cut { self.saved.prior_cwnd.max(cwnd) } else { cwnd };
    }

    /// `SaveStateUponLoss`.
    pub(super) fn save_state(&mut self, cwnd: u32) {
        self.save_cwnd(cwnd);
        self.saved.origin = None;
        self.saved.short_term = self.short_term;
        self.saved.inflight_longterm = self.inflight_longterm;
    }

    /// A loss proved wrong: bounds are at least what they were, and the probe that it ended starts again
    /// (`HandleSpuriousLossDetection`).
    pub(super) fn restore_state(&mut self, view: &View) {
        self.delivery.is_loss_in_round = false;
        self.full_pipe.restart(0);
        self.short_term.bw = self.short_term.bw.max(self.saved.short_term.bw);
        self.short_term.inflight = self.short_term.inflight.max(self.saved.short_term.inflight);
        self.inflight_longterm = self.inflight_longterm.max(self.saved.inflight_longterm);
        match self.saved.origin.take() {
            Some(Origin::Startup) if self.state != State::Startup => {
                self.full_pipe.reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(Origin::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => self.start_refill(view),
            _ => {}
        }
    }
}
