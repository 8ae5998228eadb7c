//! The factory of a connection's controller: an algorithm, its parameters and a seed.

use crate::Controller;
use crate::watch::Watch;
use knee_cc::{DynCongestionControl, Entry, Init, Needs};
use knee_core::params::{ParamError, Value};
use knee_core::{Params, Rng};
use quinn_proto::congestion::{Controller as QuicController, ControllerFactory};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use thiserror::Error;

/// Why there is no such congestion control.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ControlError {
    /// The registry has no algorithm of this name.
    #[error("no congestion control is called `{0}`; `knee list cc` shows those there are")]
    Unknown(String),
    /// A parameter is not declared or out of range.
    #[error(transparent)]
    Parameter(#[from] ParamError),
}

/// Makes an algorithm that the registry does not have.
pub type Make = Arc<dyn Fn(&Params, &Init) -> Box<dyn DynCongestionControl> + Send + Sync>;

/// A congestion control for QUIC connections: give it to quinn's `TransportConfig::congestion_controller_factory`.
///
/// Each connection has an algorithm and random numbers of its own.
pub struct Control {
    entry: &'static Entry,
    params: Params,
    make: Option<Make>,
    seed: u64,
    connections: AtomicU64,
    watch: Option<Arc<Watch>>,
}

impl Control {
    /// The algorithm `name` with its default parameters.
    ///
    /// # Errors
    /// [`ControlError::Unknown`] if the registry has none of this name.
    pub fn named(name: &str) -> Result<Self, ControlError> {
        Self::with(name, [])
    }

    /// The algorithm `name` with some parameters changed, as in `[("q_target", Value::Time(Time::from_millis(10)))]`.
    ///
    /// # Errors
    /// [`ControlError`] if the registry has none of this name, or it has no such parameter, or the value is out of
    /// range.
    pub fn with<'a>(name: &str, params: impl IntoIterator<Item = (&'a str, Value)>) -> Result<Self, ControlError> {
        let entry = knee_cc::find(name).ok_or_else(|| ControlError::Unknown(name.into()))?;
        let params = Params::resolve(entry.params, params)?;
        Ok(Self::of(entry, params))
    }

    /// The algorithm of `entry` with these parameters.
    pub const fn of(entry: &'static Entry, params: Params) -> Self {
        Self { entry, params, make: None, seed: 1, connections: AtomicU64::new(0), watch: None }
    }

    /// Makes algorithms by `make` instead of the entry's own function.
    #[must_use]
    pub fn made_by(mut self, make: Make) -> Self {
        self.make = Some(make);
        self
    }

    /// Draws random numbers from `seed` (1 by default). The same seed and the same events give the same decisions.
    #[must_use]
    pub const fn seeded(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Lets `watch` see what the controllers of its connections do. One for each connection keeps them apart.
    #[must_use]
    pub fn watched(mut self, watch: Arc<Watch>) -> Self {
        self.watch = Some(watch);
        self
    }

    /// The algorithm.
    pub const fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// The algorithm's needs with these parameters.
    pub(crate) fn needs(&self) -> Needs {
        self.entry.needs_with(&self.params)
    }

    /// The controller of the next connection, whose datagrams have `mtu` bytes.
    pub fn controller(self: &Arc<Self>, now: Instant, mtu: u16) -> Controller {
        let connection = self.connections.fetch_add(1, Ordering::Relaxed);
        let rng = Rng::stream(self.seed, &format!("quic/{connection}"));
        Controller::new(self.clone(), rng, now, mtu, self.watch.clone())
    }

    /// Makes the algorithm of a connection.
    pub(crate) fn algorithm(&self, init: &Init) -> Box<dyn DynCongestionControl> {
        match &self.make {
            Some(make) => make(&self.params, init),
            None => (self.entry.make)(&self.params, init),
        }
    }
}

impl ControllerFactory for Control {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn QuicController> {
        Box::new(self.controller(now, current_mtu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use knee_core::Time;

    #[test]
    fn what_is_not_there_is_refused_by_name() {
        assert_eq!(Control::named("lolla").err().unwrap(), ControlError::Unknown("lolla".into()));
        let unknown = Control::with("lola", [("q_tarket", Value::Time(Time::from_millis(5)))]).err().unwrap();
        assert!(unknown.to_string().contains("q_target"), "{unknown}");
        let refused = Control::with("lola", [("q_target", Value::Ratio(0.5))]).err().unwrap();
        assert!(refused.to_string().contains("q_target"), "{refused}");
    }
}
