//! States of a sender whose changes are events.

use knee_cc::CaState;

/// State of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct States {
    /// Phase of its algorithm.
    pub phase: u8,
    /// State of loss recovery.
    pub ca: CaState,
    /// Timeouts so far.
    pub timeouts: u32,
}

impl States {
    /// The events that lie between `before` and now; `phases` are the names of the algorithm's phases.
    pub fn events_since(self, before: Self, phases: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
        let phase = phases.get(usize::from(self.phase)).copied().unwrap_or("unnamed");
        let ca = match self.ca {
            CaState::Recovery => Some("recovery"),
            CaState::Cwr => Some("cwr"),
            CaState::Open | CaState::Disorder | CaState::Loss => None,
        };
        let phase = (self.phase != before.phase).then_some(phase);
        let timeout = (self.timeouts != before.timeouts).then_some("timeout");
        let ca = ca.filter(|_| self.ca != before.ca);
        [phase, timeout, ca].into_iter().flatten()
    }
}
