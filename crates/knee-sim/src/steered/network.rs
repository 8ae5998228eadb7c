//! A link whose rate, loss and delay are steered against the algorithms that use it.

use super::{Episode, Step};
use crate::policy::Figures;
use crate::{Rows, Simulation, Spec, SpecError};
use knee_core::Time;
use knee_core::convert::truncated;
use knee_net::spec::{CapacitySpec, Change, ChangeSpec};
use serde::Deserialize;

/// Name, least and greatest value of each number of an observation: what left over what could have left; mean waiting
/// time of the packets that left, in 10 ms; time that the backlog takes at the link's rate, in 10 ms; what flows sent
/// over what could have left; where the rate, delay and loss in force are within their bounds.
pub const NETWORK_RANGES: [(&str, f32, f32); 7] = [
    ("utilization", 0.0, 1.0),
    ("waiting_10ms", 0.0, 100.0),
    ("backlog_10ms", 0.0, 100.0),
    ("sent", 0.0, 100.0),
    ("rate", 0.0, 1.0),
    ("delay", 0.0, 1.0),
    ("loss", 0.0, 1.0),
];

/// Bounds of an adversary's actions.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Bounds {
    /// Time between two actions, ns.
    pub interval_ns: u64,
    /// Least and greatest rate, over the one that the scenario gives the link.
    pub rate: (f64, f64),
    /// Least and greatest delay that is added to the base RTT of the flows that cross it, ns.
    pub delay_ns: (f64, f64),
    /// Least and greatest loss probability.
    pub loss: (f64, f64),
}

impl Bounds {
    /// The value at `place`, 0 to 1, between the ends of a span. NaN is 0.
    fn at(span: (f64, f64), place: f64) -> f64 {
        span.0 + (span.1 - span.0) * if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) }
    }
}

/// The conditions in force.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Conditions {
    rate_bps: u64,
    delay_ns: u64,
    loss: f64,
}

/// One run with a link that is steered. An action has three numbers, 0 to 1: where rate, delay and loss are to be
/// within their bounds. The figures of a step: the throughput of the link, what it could have carried and did not as
/// the RTT, the mean waiting time of the packets that left, and the loss probability.
pub struct NetworkEpisode {
    simulation: Simulation,
    /// With the changes that are still to happen.
    spec: Spec,
    /// All changes so far.
    changes: Vec<ChangeSpec>,
    link: usize,
    bounds: Bounds,
    /// The link's rate by the scenario, bit/s.
    rate_bps: u64,
    /// The flows that cross it, with their base RTTs.
    flows: Vec<(usize, u64)>,
    conditions: Conditions,
    places: [f64; 3],
    observation: [f32; NETWORK_RANGES.len()],
    figures: Figures,
    /// Rows of samples and of links that were looked at.
    seen: (usize, usize),
}

impl NetworkEpisode {
    /// A run of `spec` that has come to the end of the first interval, in which the link is as the scenario says.
    ///
    /// # Errors
    /// If the specification contradicts itself or names what does not exist, or the link has no rate.
    pub fn begin(mut spec: Spec, link: usize, bounds: &Bounds) -> Result<Self, SpecError> {
        let of = spec.links.get(link).ok_or(SpecError::Empty("link to be steered"))?;
        let CapacitySpec::Rate(rate_bps) = of.capacity else { return Err(SpecError::NoCapacity(of.name.clone())) };
        let conditions = Conditions { rate_bps, delay_ns: 0, loss: of.loss };
        let crosses =
            |(i, flow): (usize, &knee_net::spec::FlowSpec)| flow.path.contains(&link).then_some((i, flow.rtt));
        let flows = spec.flows.iter().enumerate().filter_map(crosses).collect();
        // A row at the end of each interval has its figures.
        spec.interval = bounds.interval_ns.max(1);
        let simulation = Simulation::new(&spec)?;
        let place = |span: (f64, f64), value: f64| {
            if span.1 > span.0 { ((value - span.0) / (span.1 - span.0)).clamp(0.0, 1.0) } else { 0.0 }
        };
        let places = [place(bounds.rate, 1.0), place(bounds.delay_ns, 0.0), place(bounds.loss, conditions.loss)];
        let mut episode = Self {
            simulation,
            changes: spec.changes.clone(),
            spec,
            link,
            bounds: *bounds,
            rate_bps,
            flows,
            conditions,
            places,
            observation: [0.0; NETWORK_RANGES.len()],
            figures: Figures::default(),
            seen: (0, 0),
        };
        episode.pass();
        Ok(episode)
    }

    /// The scenario with all that was done so far; an uninterrupted run of it has the bits of this one.
    pub fn spec(&self) -> Spec {
        Spec { changes: self.changes.clone(), ..self.spec.clone() }
    }

    /// The simulation, which goes on by itself from here.
    pub fn into_simulation(self) -> Simulation {
        self.simulation
    }

    /// Lets an interval pass.
    fn pass(&mut self) -> Step {
        let before = self.simulation.now();
        let running = self.simulation.run_until(before + Time::from_nanos(self.spec.interval));
        let length_s = (self.simulation.now() - before).as_secs_f64();
        let Conditions { rate_bps, loss, .. } = self.conditions;
        let (mut utilization, mut waiting_s, mut backlog, mut sent_bps) = (0.0, 0.0, 0.0, 0.0);
        let Rows { samples, links, .. } = self.simulation.rows();
        for row in links[self.seen.1..].iter().filter(|row| row.link as usize == self.link) {
            utilization = f64::from(row.utilization);
            waiting_s = if row.queue_delay_mean_ms.is_nan() { 0.0 } else { f64::from(row.queue_delay_mean_ms) / 1e3 };
            backlog = row.backlog_bytes as f64;
        }
        for row in &samples[self.seen.0..] {
            let crosses = self.flows.iter().any(|(flow, _)| *flow == row.flow as usize);
            sent_bps += if crosses { f64::from(row.sending_rate_mbps) * 1e6 } else { 0.0 };
        }
        self.seen = (samples.len(), links.len());
        let rate = rate_bps as f64;
        let [place, delay, lost] = self.places;
        let values =
            [utilization, waiting_s / 0.010, 8.0 * backlog / rate / 0.010, sent_bps / rate, place, delay, lost];
        for ((seen, value), (_, least, most)) in self.observation.iter_mut().zip(values).zip(NETWORK_RANGES) {
            #[allow(clippy::cast_possible_truncation, reason = "observations are of single precision")]
            let value = value as f32;
            *seen = value.clamp(least, most);
        }
        self.figures = Figures {
            length_s,
            throughput_bps: utilization * rate,
            rtt_s: 1.0 - utilization,
            queueing_s: waiting_s,
            loss,
        };
        Step { terminated: false, truncated: !running }
    }

    /// Lets the conditions change now.
    fn change(&mut self, to: Conditions) -> Result<(), SpecError> {
        let at = self.simulation.changeable_from().as_nanos();
        let (link, known) = (self.link, self.changes.len());
        let here = [Change::Rate { link, rate: to.rate_bps }, Change::Loss { link, loss: to.loss }];
        let rtts = self.flows.iter().map(|&(flow, rtt)| Change::Rtt { flow, rtt: rtt + to.delay_ns });
        self.changes.extend(here.into_iter().chain(rtts).map(|what| ChangeSpec { at, what }));
        self.spec.changes.retain(|change| change.at >= at);
        self.spec.changes.extend_from_slice(&self.changes[known..]);
        if !self.simulation.amend(&self.spec)? {
            // Only an engine from the start can go on so.
            let now = self.simulation.now();
            self.simulation = Simulation::new(&self.spec())?;
            self.simulation.run_until(now);
        }
        self.conditions = to;
        Ok(())
    }
}

impl Episode for NetworkEpisode {
    fn step(&mut self, action: &[f64]) -> Result<Step, SpecError> {
        let Bounds { rate, delay_ns, loss, .. } = self.bounds;
        for (place, asked) in self.places.iter_mut().zip(action) {
            *place = if asked.is_nan() { 0.0 } else { asked.clamp(0.0, 1.0) };
        }
        let [fast, far, lossy] = self.places;
        self.change(Conditions {
            rate_bps: truncated((Bounds::at(rate, fast) * self.rate_bps as f64).round()).max(1),
            delay_ns: truncated(Bounds::at(delay_ns, far).round()),
            loss: Bounds::at(loss, lossy),
        })?;
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
        let Conditions { rate_bps, delay_ns, loss } = self.conditions;
        vec![rate_bps as f64, delay_ns as f64, loss]
    }
}
