//! Simulations that are steered from outside, step by step, as environments of reinforcement learning need them.
//!
//! A [`Task`] is a scenario and the part of it that is steered. An [`Episode`] is one run of it. A [`Fleet`] has many
//! episodes side by side, in some threads; an episode that is over is followed by another at the next step.

mod fleet;
mod flow;
mod network;
mod queue;

pub use fleet::{Fleet, FleetError, Next, Observations};
pub use flow::FlowEpisode;
pub use network::{Bounds, NETWORK_RANGES, NetworkEpisode};
pub use queue::{QUEUE_RANGES, QueueEpisode};

use crate::policy::{Figures, Settings};
use crate::{Spec, SpecError};

/// The outcome of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// True if all is done: a finite transfer is complete, or the flow has stopped.
    pub terminated: bool,
    /// True if the scenario's time is up.
    pub truncated: bool,
}

/// One run of a task.
pub trait Episode: Send {
    /// Takes an action, and lets time pass until the next one is due.
    ///
    /// # Errors
    /// If the simulation refuses what the action asks for.
    fn step(&mut self, action: &[f64]) -> Result<Step, SpecError>;

    /// The observation.
    fn observation(&self) -> &[f32];

    /// Figures of the interval that has just passed.
    fn figures(&self) -> Figures;

    /// Current simulated time, s.
    fn now_s(&self) -> f64;

    /// Conditions that the last action has put in force ([`Part::applied`]).
    fn applied(&self) -> Vec<f64>;
}

/// The part of a scenario that is steered.
#[derive(Clone, Debug)]
pub enum Part {
    /// The window or rate of the flow with this index.
    Flow(usize, Settings),
    /// The drop or mark probability of the queue of the link with this index, once per interval of this many ns.
    Queue(usize, u64),
    /// The rate, delay and loss of the link with this index.
    Network(usize, Bounds),
}

impl Part {
    /// How many numbers an observation has.
    pub const fn size(&self) -> usize {
        match self {
            Self::Flow(_, settings) => settings.size(),
            Self::Queue(..) => QUEUE_RANGES.len(),
            Self::Network(..) => NETWORK_RANGES.len(),
        }
    }

    /// How many numbers an action has.
    pub const fn actions(&self) -> usize {
        match self {
            Self::Flow(..) | Self::Queue(..) => 1,
            Self::Network(..) => 3,
        }
    }

    /// How many numbers an action comes to: a flow's window, in packets, or rate, in bit/s; a queue's probability; a
    /// link's rate, bit/s, delay that is added, ns, and loss probability.
    pub const fn applied(&self) -> usize {
        match self {
            Self::Flow(..) | Self::Queue(..) => 1,
            Self::Network(..) => 3,
        }
    }
}

/// The worth of a step: a weighted sum of its figures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reward {
    /// For each bit/s of throughput.
    pub throughput: f64,
    /// For each second of the mean RTT.
    pub rtt: f64,
    /// For each second of queueing delay.
    pub queueing: f64,
    /// For the share of packets lost.
    pub loss: f64,
}

impl Reward {
    /// The reward of a step.
    pub fn of(&self, figures: &Figures) -> f64 {
        self.throughput * figures.throughput_bps
            + self.rtt * figures.rtt_s
            + self.queueing * figures.queueing_s
            + self.loss * figures.loss
    }
}

/// A scenario of which a part is steered.
#[derive(Clone, Debug)]
pub struct Task {
    /// The scenario.
    pub spec: Spec,
    /// The part that is steered.
    pub part: Part,
    /// The worth of a step.
    pub reward: Reward,
}

impl Task {
    /// A run of it with this seed, come to the first moment at which an action is due.
    ///
    /// # Errors
    /// If the specification contradicts itself or names what does not exist.
    pub fn begin(&self, seed: u64) -> Result<Box<dyn Episode>, SpecError> {
        let spec = Spec { seed, ..self.spec.clone() };
        Ok(match &self.part {
            Part::Flow(flow, settings) => Box::new(FlowEpisode::begin(spec, *flow, settings)?),
            Part::Queue(link, interval) => Box::new(QueueEpisode::begin(spec, *link, *interval)?),
            Part::Network(link, bounds) => Box::new(NetworkEpisode::begin(spec, *link, bounds)?),
        })
    }
}
