//! Steered simulations side by side, for `knee.gym`; numbers are handed over in buffers that numpy shares.

use crate::error::Failure;
use knee_sim::Spec;
use knee_sim::policy::{Plan, Settings};
use knee_sim::steered::{
    Bounds, Fleet, FleetError, NETWORK_RANGES, Next, Observations, Part, QUEUE_RANGES, Reward, Task,
};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Deserialize;
use std::sync::{Mutex, MutexGuard, TryLockError};

/// The part that is steered in all scenarios of a fleet.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Steers {
    Flow(Settings),
    Queue { interval_ns: u64 },
    Network(Bounds),
}

/// Arrays of Python's: what a step reads, and what it writes.
struct Buffers {
    actions: PyBuffer<f64>,
    next: PyBuffer<u64>,
    observations: PyBuffer<f32>,
    rewards: PyBuffer<f64>,
    terminated: PyBuffer<u8>,
    truncated: PyBuffer<u8>,
    began: PyBuffer<u8>,
    figures: PyBuffer<f64>,
    times: PyBuffer<f64>,
    applied: PyBuffer<f64>,
}

impl Buffers {
    /// From arrays by name, for `slots` slots.
    fn of(arrays: &Bound<'_, PyDict>, slots: usize, part: &Part) -> PyResult<Self> {
        Ok(Self {
            actions: buffer(arrays, "actions", slots * part.actions())?,
            next: buffer(arrays, "next", slots * 2)?,
            observations: buffer(arrays, "observations", slots * part.size())?,
            rewards: buffer(arrays, "rewards", slots)?,
            terminated: buffer(arrays, "terminated", slots)?,
            truncated: buffer(arrays, "truncated", slots)?,
            began: buffer(arrays, "began", slots)?,
            figures: buffer(arrays, "figures", slots * 5)?,
            times: buffer(arrays, "times", slots)?,
            applied: buffer(arrays, "applied", slots * part.applied())?,
        })
    }

    fn next(&self, py: Python<'_>) -> PyResult<Vec<Next>> {
        let numbers = self.next.to_vec(py)?;
        Ok(numbers.chunks(2).map(|pair| (usize::try_from(pair[0]).unwrap_or(usize::MAX), pair[1])).collect())
    }

    fn write(&self, py: Python<'_>, observed: &Observations) -> PyResult<()> {
        self.observations.copy_from_slice(py, &observed.observations)?;
        self.rewards.copy_from_slice(py, &observed.rewards)?;
        self.terminated.copy_from_slice(py, &observed.terminated)?;
        self.truncated.copy_from_slice(py, &observed.truncated)?;
        self.began.copy_from_slice(py, &observed.began)?;
        self.figures.copy_from_slice(py, &observed.figures)?;
        self.times.copy_from_slice(py, &observed.times)?;
        self.applied.copy_from_slice(py, &observed.applied)
    }
}

/// An array of this many numbers.
fn buffer<T: Element>(arrays: &Bound<'_, PyDict>, name: &str, count: usize) -> PyResult<PyBuffer<T>> {
    let array = arrays.as_any().get_item(name)?;
    let buffer = PyBuffer::get(&array)?;
    if buffer.item_count() == count && buffer.is_c_contiguous() {
        return Ok(buffer);
    }
    Err(PyValueError::new_err(format!("`{name}` has {} numbers; {count} in a row are needed", buffer.item_count())))
}

/// A specification (JSON), the index of the part that is steered, and the weights of the reward.
type Asked = (String, usize, (f64, f64, f64, f64));

/// Steered simulations side by side.
#[pyclass(name = "Fleet", module = "knee", frozen)]
pub struct PyFleet {
    fleet: Mutex<Fleet>,
    buffers: Buffers,
    tasks: usize,
}

impl PyFleet {
    fn lock(&self) -> Result<MutexGuard<'_, Fleet>, Failure> {
        match self.fleet.try_lock() {
            Ok(fleet) => Ok(fleet),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Failure::Busy),
        }
    }

    /// Lets the fleet do something with the interpreter free for others, and writes what it gave.
    fn go(
        &self,
        py: Python<'_>,
        what: impl FnOnce(&mut Fleet, &[Next]) -> Result<Observations, FleetError> + Send,
    ) -> PyResult<()> {
        let next = self.buffers.next(py)?;
        if let Some((wrong, _)) = next.iter().find(|(task, _)| *task >= self.tasks) {
            return Err(PyValueError::new_err(format!("there is no scenario {wrong} of {}", self.tasks)));
        }
        let mut fleet = self.lock()?;
        let fleet = &mut *fleet;
        let observed = py.detach(|| what(fleet, &next)).map_err(failure)?;
        self.buffers.write(py, &observed)
    }
}

#[pymethods]
impl PyFleet {
    /// Slots for scenarios: each is a specification (JSON), the index of the flow that is steered, or of the link whose
    /// queue or conditions are, and the worth of each bit/s of throughput, second of RTT, second of queueing delay, and
    /// of the share lost. `settings` (JSON) are those of the flow, the interval of a queue in ns, or the bounds of an
    /// adversary.
    #[new]
    #[allow(clippy::needless_pass_by_value, reason = "PyO3 makes a list of the argument")]
    fn new(
        tasks: Vec<Asked>,
        settings: &str,
        slots: usize,
        threads: usize,
        arrays: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let steers: Steers = serde_json::from_str(settings).map_err(wrong)?;
        if let Steers::Flow(settings) = &steers {
            settings.check().map_err(wrong)?;
        }
        let part = |index| match steers {
            Steers::Flow(settings) => Part::Flow(index, settings),
            Steers::Queue { interval_ns } => Part::Queue(index, interval_ns),
            Steers::Network(bounds) => Part::Network(index, bounds),
        };
        let made = tasks.iter().map(|(spec, flow, (throughput, rtt, queueing, loss))| {
            let spec: Spec = serde_json::from_str(spec).map_err(Failure::Json)?;
            let (throughput, rtt, queueing, loss) = (*throughput, *rtt, *queueing, *loss);
            Ok::<_, Failure>(Task { spec, part: part(*flow), reward: Reward { throughput, rtt, queueing, loss } })
        });
        let made = made.collect::<Result<Vec<_>, _>>()?;
        if slots == 0 || made.is_empty() {
            return Err(PyValueError::new_err("there is no slot, or no scenario"));
        }
        let buffers = Buffers::of(arrays, slots, &part(0))?;
        let fleet = Fleet::new(made, slots, threads).map_err(failure)?;
        Ok(Self { fleet: Mutex::new(fleet), buffers, tasks: tasks.len() })
    }

    /// Begins an episode in each slot, of the scenario and seed in `next`.
    fn begin(&self, py: Python<'_>) -> PyResult<()> {
        self.go(py, Fleet::begin)
    }

    /// Takes the actions of all slots. A slot whose episode is over begins another, by its row of `next`.
    fn step(&self, py: Python<'_>) -> PyResult<()> {
        let actions = self.buffers.actions.to_vec(py)?;
        self.go(py, move |fleet, next| fleet.step(&actions, next))
    }
}

fn failure(error: FleetError) -> Failure {
    match error {
        FleetError::Spec { .. } => Failure::Spec(error.to_string()),
        FleetError::Panic(text) => Failure::Panic(text),
        FleetError::Thread(error) => Failure::Thread(error),
    }
}

/// Names and ranges of the numbers that a queue is described by.
#[pyfunction]
pub fn queue_features() -> Vec<(&'static str, f32, f32)> {
    QUEUE_RANGES.to_vec()
}

/// Names and ranges of the numbers that a link under an adversary is described by.
#[pyfunction]
pub fn network_features() -> Vec<(&'static str, f32, f32)> {
    NETWORK_RANGES.to_vec()
}

/// A policy as flows follow it.
#[pyclass(name = "Plan", module = "knee", frozen)]
pub struct PyPlan(Plan);

#[pymethods]
impl PyPlan {
    /// Reads and checks a plan in JSON.
    #[new]
    fn new(plan: &str) -> PyResult<Self> {
        let plan: Plan = serde_json::from_str(plan).map_err(wrong)?;
        plan.check().map_err(wrong)?;
        Ok(Self(plan))
    }

    /// How many numbers an observation has.
    #[getter]
    const fn size(&self) -> usize {
        self.0.settings.size()
    }

    /// The action for an observation.
    #[allow(clippy::needless_pass_by_value, reason = "PyO3 makes a list of the argument")]
    fn action(&self, observation: Vec<f32>) -> PyResult<f64> {
        if observation.len() != self.size() {
            let message = format!("the observation has {} numbers; {} are needed", observation.len(), self.size());
            return Err(PyValueError::new_err(message));
        }
        Ok(self.0.layers.action(&observation))
    }
}

/// Names and ranges of the numbers that describe an interval.
#[pyfunction]
pub fn features(settings: &str) -> PyResult<Vec<(&'static str, f32, f32)>> {
    let settings: Settings = serde_json::from_str(settings).map_err(wrong)?;
    settings.check().map_err(wrong)?;
    let (names, ranges) = (settings.features.names(), settings.features.ranges());
    Ok(names.iter().zip(ranges).map(|(name, (least, most))| (*name, *least, *most)).collect())
}

/// Settings and weights are a user's: what is wrong with them is told to whoever gave them.
#[allow(clippy::needless_pass_by_value, reason = "as map_err gives it")]
fn wrong(error: impl std::fmt::Display) -> Failure {
    Failure::Spec(error.to_string())
}
