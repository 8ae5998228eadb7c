//! Publishes a controller's state: quinn lends controllers only by their own interface.

use knee_cc::{Control, View};
use knee_core::Time;
use std::sync::{Mutex, PoisonError};

/// The latest state of a controller, and its RTT samples.
#[derive(Debug, Default)]
pub struct Watch(Mutex<Seen>);

/// The state after the latest event.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Window, threshold, pacing rate and phase after the latest event; `None` before the first.
    pub control: Option<Control>,
    /// The algorithm's view of the connection at that event.
    pub view: Option<View>,
    /// RTT samples since they were last taken.
    pub rtts: Vec<Time>,
    /// Events since the start that began persistent congestion (RFC 9002, 7.6).
    pub persistent: u32,
}

impl Watch {
    pub(crate) fn note(&self, control: Control, view: &View, rtt: Option<Time>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (seen.control, seen.view) = (Some(control), Some(*view));
        seen.rtts.extend(rtt);
    }

    pub(crate) fn note_persistent_congestion(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).persistent += 1;
    }

    /// Looks at what was seen; `look` may take RTT samples away.
    pub fn look<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
