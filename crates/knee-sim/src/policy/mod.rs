//! A policy: a window or a rate that is multiplied by a factor once per monitor interval.
//!
//! A [`Pilot`] measures one monitor interval after the other and has the window or the rate. At the end of an interval
//! it has an observation, and takes an action `a`. A [`Network`] gives it inside of the flow ([`Plan::make`]), or an
//! environment of reinforcement learning from outside ([`Steered`]). Both give the same bits, since an interval ends at
//! a time of its own and not at an ACK.
//!
//! - action: `level *= 1 + gain * a` for `a >= 0`, and `level /= 1 - gain * a` for `a < 0` (Aurora's rule: Jay et al.,
//!   "A Deep Reinforcement Learning Perspective on Internet Congestion Control", ICML 2019, Eq. 1)
//! - interval: a time, or a factor times the mean RTT of the interval before
//! - an interval without any ACK or timeout is extended by its own length until there is one
//!
//! The window is in packets and the rate in bit/s of payload. With a window the sender paces at its own rate; with a
//! rate the window is `2 * rate * rtt`, so that a sender without ACKs stops. The window also holds during recovery:
//! only the next action follows from a loss. All numbers are `f64`, summed in a fixed order, and `tanh` is `libm`'s, so
//! that every machine computes the same bits.

mod features;
mod network;
mod pilot;

pub use features::Features;
pub use network::{Layer, Network, PlanError};
pub use pilot::{Figures, Pilot};

use knee_cc::{
    Ack, Congestion, CongestionControl, Control, DynCongestionControl, Entry, Family, Init, Needs, StateChange,
    StateEvent,
};
use knee_core::Time;
use serde::Deserialize;
use std::sync::{Arc, Mutex, PoisonError};

/// The entry of a flow under a policy. It is in no list: without weights there is no policy.
pub static ENTRY: Entry = Entry {
    name: "policy",
    family: Family::Hybrid,
    about: "a window or rate that a small neural network multiplies once per monitor interval",
    source: "ours; the rule of change is Aurora's (ICML 2019, Eq. 1)",
    params: &[],
    phases: &["running"],
    edges: &[],
    min_cwnd: 1,
    needs: Needs { pacing: true, full_control: true, ..Needs::NONE },
    make: |_, init| Steered::new(&Settings::default(), init).control(),
};

/// The quantity that an action changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lever {
    /// The congestion window, packets.
    #[default]
    Window,
    /// The pacing rate, bit/s of payload.
    Rate,
}

/// How long a monitor interval lasts.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Length {
    /// A fixed time, ns.
    Time(u64),
    /// This many mean RTTs of the interval before.
    Rtts(f64),
}

/// How a policy observes and acts.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The quantity that an action changes.
    pub lever: Lever,
    /// Length of a monitor interval.
    pub interval: Length,
    /// How far an action of 1 goes: the level is multiplied by `1 + gain`.
    pub gain: f64,
    /// The numbers that an interval is described by.
    pub features: Features,
    /// How many intervals an observation has, oldest first.
    pub history: usize,
}

impl Default for Settings {
    /// A window that an action at most doubles or halves, once per RTT.
    fn default() -> Self {
        Self { lever: Lever::Window, interval: Length::Rtts(1.0), gain: 1.0, features: Features::Knee, history: 1 }
    }
}

impl Settings {
    /// How many numbers an observation has.
    pub const fn size(&self) -> usize {
        self.history * self.features.names().len()
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// The key, what was found, and what is accepted.
    pub fn check(&self) -> Result<(), PlanError> {
        let fault = |key, found: String, accepted| Err(PlanError { key, found, accepted });
        match self.interval {
            Length::Time(ns) if !(100_000..=10_000_000_000).contains(&ns) => {
                return fault("interval", format!("{ns} ns"), "100 us to 10 s, or 0.1 to 100 RTTs");
            }
            Length::Rtts(rtts) if !(0.1..=100.0).contains(&rtts) => {
                return fault("interval", format!("{rtts} RTTs"), "100 us to 10 s, or 0.1 to 100 RTTs");
            }
            _ => {}
        }
        if !(0.001..=10.0).contains(&self.gain) {
            return fault("gain", self.gain.to_string(), "0.001 to 10");
        }
        if !(1..=64).contains(&self.history) {
            return fault("history", self.history.to_string(), "1 to 64 intervals");
        }
        Ok(())
    }
}

/// A policy: how it observes and acts, and the network that decides.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Observation, action and monitor interval.
    pub settings: Settings,
    /// The network from an observation to an action.
    pub layers: Network,
}

impl Plan {
    /// Checks that the network takes the observation and gives one action.
    ///
    /// # Errors
    /// The key, what was found, and what is accepted.
    pub fn check(&self) -> Result<(), PlanError> {
        self.settings.check()?;
        self.layers.check(self.settings.size())
    }

    /// The congestion control of a flow that follows it.
    pub fn make(self: &Arc<Self>, init: &Init) -> Box<dyn DynCongestionControl> {
        Box::new(Piloted(Policy { plan: Arc::clone(self), pilot: Pilot::new(&self.settings, init) }))
    }
}

/// Events of a flow, as a pilot takes them.
trait Flown: Clone + Send + 'static {
    /// Calls `event` with the pilot, where all intervals that end before `now` have ended.
    fn fly(&mut self, now: Time, event: impl FnOnce(&mut Pilot));
}

/// The congestion control of a flow whose window or rate a pilot has.
#[derive(Clone)]
struct Piloted<T>(T);

impl<T: Flown> CongestionControl for Piloted<T> {
    fn on_ack(&mut self, ack: &Ack, control: &mut Control) {
        self.0.fly(ack.view.now, |pilot| {
            pilot.take(ack);
            pilot.put_in_force(control);
        });
    }

    fn on_congestion(&mut self, congestion: &Congestion, control: &mut Control) {
        control.ssthresh = control.cwnd.max(2);
        self.0.fly(congestion.view.now, |pilot| pilot.hear(congestion.view));
    }

    fn on_state(&mut self, change: &StateChange, control: &mut Control) {
        if matches!(change.event, StateEvent::Start) {
            self.0.fly(change.view.now, |pilot| pilot.put_in_force(control));
        }
    }
}

/// A flow whose actions a network gives.
#[derive(Clone)]
struct Policy {
    plan: Arc<Plan>,
    pilot: Pilot,
}

impl Flown for Policy {
    fn fly(&mut self, now: Time, event: impl FnOnce(&mut Pilot)) {
        let Self { plan, pilot } = self;
        while pilot.is_due(now) {
            pilot.close();
            pilot.act(plan.layers.action(pilot.observation()));
        }
        event(pilot);
    }
}

/// A flow whose actions come from outside. A copy has the same pilot.
#[derive(Clone)]
pub struct Steered(Arc<Mutex<Pilot>>);

impl Steered {
    /// A pilot for a connection that begins.
    pub fn new(settings: &Settings, init: &Init) -> Self {
        Self(Arc::new(Mutex::new(Pilot::new(settings, init))))
    }

    /// The congestion control of its flow.
    pub fn control(&self) -> Box<dyn DynCongestionControl> {
        Box::new(Piloted(self.clone()))
    }

    /// Lets `look` have the pilot.
    pub fn with<T>(&self, look: impl FnOnce(&mut Pilot) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Flown for Steered {
    fn fly(&mut self, now: Time, event: impl FnOnce(&mut Pilot)) {
        self.with(|pilot| {
            // Whoever steers ends an interval at its end; nobody does where the flow goes on unwatched.
            while pilot.is_due(now) {
                pilot.close();
                pilot.act(0.0);
            }
            event(pilot);
        });
    }
}

#[cfg(test)]
mod tests;
