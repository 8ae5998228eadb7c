//! State from before recovery and `probe_rtt`, and the way back where a loss was none (5.5.11, 5.6.4.4).

use super::loss::{Origin, ShortTerm};
use super::{Bbr3, INFINITE, State};
use crate::{CaState, Control, View};

/// State of before a loss.
#[derive(Clone, Debug)]
pub struct Saved {
    /// The last good window, in packets.
    pub prior_cwnd: u32,
    /// The state a loss ended, if it did.
    pub origin: Option<Origin>,
    short_term: ShortTerm,
    inflight_longterm: u64,
    /// The state of the repair of losses, if they are being repaired.
    repairing: Option<CaState>,
}

impl Default for Saved {
    fn default() -> Self {
        let short_term = ShortTerm { bw: 0, inflight: 0 };
        Self { prior_cwnd: 0, origin: None, short_term, inflight_longterm: 0, repairing: None }
    }
}

impl Saved {
    /// Follows loss recovery's state; tells which one this left for none.
    pub const fn enter(&mut self, ca: CaState) -> Option<CaState> {
        let before = self.repairing;
        self.repairing = if matches!(ca, CaState::Recovery | CaState::Loss) { Some(ca) } else { None };
        if self.repairing.is_none() { before } else { None }
    }
}

impl Bbr3 {
    /// Remembers the window; while it is cut already, only a larger one (`SaveCwnd`).
    pub(super) fn save_cwnd(&mut self, cwnd: u32) {
        let cut = self.saved.repairing.is_some() || self.state == State::ProbeRtt;
        self.saved.prior_cwnd = if cut { self.saved.prior_cwnd.max(cwnd) } else { cwnd };
    }

    /// `SaveStateUponLoss`.
    pub(super) fn save_state(&mut self, cwnd: u32) {
        self.save_cwnd(cwnd);
        self.saved.origin = None;
        self.saved.short_term = self.short_term;
        self.saved.inflight_longterm = self.inflight_longterm;
    }

    /// At a timeout Google's kernel bounds what is in flight by the window of before, and searches for a plateau anew.
    pub(super) fn bound_by_timeout(&mut self, control: &Control) {
        self.full_pipe.restart(0);
        if !self.state.is_probing() && self.short_term.inflight == INFINITE {
            self.short_term.inflight = u64::from(control.cwnd.max(self.saved.prior_cwnd));
        }
    }

    /// A loss proved wrong: bounds are at least what they were, and the probe that it ended starts again
    /// (`HandleSpuriousLossDetection`).
    pub(super) fn restore_state(&mut self, view: &View) {
        self.delivery.is_loss_in_round = false;
        self.full_pipe.restart(0);
        self.short_term.bw = self.short_term.bw.max(self.saved.short_term.bw);
        self.short_term.inflight = self.short_term.inflight.max(self.saved.short_term.inflight);
        self.inflight_longterm = self.inflight_longterm.max(self.saved.inflight_longterm);
        if self.tunables.is_kernel() {
            return;
        }
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
