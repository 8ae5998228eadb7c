//! A queue whose drop or mark probability is steered.

use super::{Episode, Step};
use crate::policy::Figures;
use crate::{Simulation, Spec, SpecError};
use knee_core::Time;
use knee_net::network::OwnQueue;
use knee_net::spec::CapacitySpec;
use knee_queue::steered::{Measured, Steered};

/// The name of the queue in the specification.
const NAME: &str = "steered";

/// Name, least and greatest value of each number of an observation: mean waiting time of the packets that left, in
/// 10 ms; time that the backlog takes at the link's rate, in 10 ms; rates at which bytes arrived and left, over the
/// link's rate; packets dropped and packets marked, over packets arrived; the probability in force.
pub const QUEUE_RANGES: [(&str, f32, f32); 7] = [
    ("waiting_10ms", 0.0, 100.0),
    ("backlog_10ms", 0.0, 100.0),
    ("arrivals", 0.0, 100.0),
    ("departures", 0.0, 10.0),
    ("dropped", 0.0, 1.0),
    ("marked", 0.0, 1.0),
    ("probability", 0.0, 1.0),
];

/// One run with a queue that is steered. An action is a probability. The figures of a step: the throughput of the link,
/// the mean waiting time of the packets that left as the queueing delay, their longest as the RTT, and the share of
/// arrivals that were dropped as the loss.
pub struct QueueEpisode {
    simulation: Simulation,
    steered: Steered,
    interval: Time,
    rate_bps: f64,
    probability: f64,
    observation: [f32; 7],
    figures: Figures,
}

impl QueueEpisode {
    /// A run of `spec` that has come to the end of the first interval (ns), in which nothing is dropped at random.
    ///
    /// # Errors
    /// If the specification contradicts itself or names what does not exist, or the link has no rate.
    pub fn begin(mut spec: Spec, link: usize, interval: u64) -> Result<Self, SpecError> {
        let of = spec.links.get_mut(link).ok_or(SpecError::Empty("link with a queue to be steered"))?;
        let CapacitySpec::Rate(rate) = of.capacity else { return Err(SpecError::NoCapacity(of.name.clone())) };
        of.queue = NAME.into();
        of.queue_params.clear();
        let steered = Steered::default();
        let make = {
            let steered = steered.clone();
            std::sync::Arc::new(move |_: &str, init: &knee_queue::Init| steered.queue(init))
        };
        let own = OwnQueue { name: NAME.into(), make, outside: false };
        let simulation = Simulation::with_own_queues(&spec, &[], &[own])?;
        let interval = Time::from_nanos(interval.max(1));
        let mut episode = Self {
            simulation,
            steered,
            interval,
            rate_bps: rate as f64,
            probability: 0.0,
            observation: [0.0; 7],
            figures: Figures::default(),
        };
        episode.pass();
        Ok(episode)
    }

    /// Lets an interval pass.
    fn pass(&mut self) -> Step {
        let before = self.simulation.now();
        let running = self.simulation.run_until(before + self.interval);
        let length_s = (self.simulation.now() - before).as_secs_f64();
        let measured = self.steered.take();
        let values = self.values(&measured, length_s);
        for ((seen, value), (_, least, most)) in self.observation.iter_mut().zip(values).zip(QUEUE_RANGES) {
            #[allow(clippy::cast_possible_truncation, reason = "observations are of single precision")]
            let value = value as f32;
            *seen = value.clamp(least, most);
        }
        self.figures = Figures {
            length_s,
            throughput_bps: ratio(8.0 * measured.left.1 as f64, length_s),
            rtt_s: measured.longest.as_secs_f64(),
            queueing_s: ratio(measured.waited_ns as f64 / 1e9, measured.left.0 as f64),
            loss: ratio(measured.dropped as f64, measured.arrived.0 as f64).min(1.0),
        };
        Step { terminated: false, truncated: !running }
    }

    fn values(&self, m: &Measured, length_s: f64) -> [f64; 7] {
        let carried = self.rate_bps * length_s / 8.0;
        [
            ratio(m.waited_ns as f64 / 1e7, m.left.0 as f64),
            8.0 * m.held as f64 / self.rate_bps / 0.010,
            ratio(m.arrived.1 as f64, carried),
            ratio(m.left.1 as f64, carried),
            ratio(m.dropped as f64, m.arrived.0 as f64),
            ratio(m.marked as f64, m.arrived.0 as f64),
            self.probability,
        ]
    }
}

/// A quotient, 0 where there is nothing to divide by.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

impl Episode for QueueEpisode {
    fn step(&mut self, action: &[f64]) -> Result<Step, SpecError> {
        self.probability = self.steered.set(action.first().copied().unwrap_or_default());
        Ok(self.pass())
    }

    fn observation(&self) -> &[f32] {
        &self.observation
    }

    fn figures(&self) -> Figures {
        self.figures
    }

    fn now_s(&self) -> f64 {
        self.simulation.now().as_secs_f64()
    }

    fn applied(&self) -> Vec<f64> {
        vec![self.probability]
    }
}
