//! A simulation that Python holds: it goes on in stretches, is looked at, changed and copied.

use crate::calls::{self, Caller, PATIENCE};
use crate::error::Failure;
use crate::simulate::{Classes, figures, forget_interruption, interrupt, panic_text, steps_at_once};
use crate::{own, own_queue};
use knee_core::Time;
use knee_sim::{Rows, Simulation, Spec};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};

/// A running simulation. One thread at a time uses it.
#[pyclass(name = "Engine", module = "knee", frozen)]
pub struct PyEngine(Mutex<Running>);

/// State of the engine.
struct Running {
    spec: Spec,
    classes: Classes,
    /// None once it has failed or has been finished.
    simulation: Option<Simulation>,
    /// Rows that were observed: samples, links.
    seen: (usize, usize),
}

impl Running {
    fn simulation(&mut self) -> Result<&mut Simulation, Failure> {
        self.simulation.as_mut().ok_or(Failure::Over)
    }

    /// Goes on for a while on the way to `time`; true once all up to then has happened, or the end is reached.
    fn approach(&mut self, time: Time) -> Result<bool, Failure> {
        let steps = steps_at_once(&self.classes);
        let simulation = self.simulation.as_mut().ok_or(Failure::Over)?;
        let mut go = || catch_unwind(AssertUnwindSafe(|| simulation.approach(time, steps)));
        let there = if self.classes.is_empty() { go() } else { Python::attach(|_| go()) };
        let there = there.map_err(|panic| Failure::Panic(panic_text(panic.as_ref())));
        let outcome = there.and_then(|there| self.classes.shared.check(&self.spec).map(|()| there));
        if outcome.is_err() {
            self.simulation = None;
        }
        outcome
    }
}

impl PyEngine {
    fn lock(&self) -> Result<MutexGuard<'_, Running>, Failure> {
        locked(&self.0)
    }
}

/// State that one thread at a time uses.
pub(crate) fn locked<T>(state: &Mutex<T>) -> Result<MutexGuard<'_, T>, Failure> {
    match state.try_lock() {
        Ok(state) => Ok(state),
        Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => Err(Failure::Busy),
    }
}

fn read(spec: &str) -> Result<Spec, Failure> {
    serde_json::from_str(spec).map_err(Failure::Json)
}

/// Interrupts a thread in which a method does not return, from another thread, until it is dropped.
struct Watchman {
    thread: u64,
    over: Arc<AtomicBool>,
    /// Whose method was interrupted, if one was.
    found: Arc<OnceLock<Caller>>,
    /// The line at which it was.
    line: Arc<OnceLock<String>>,
}

impl Watchman {
    /// Watches this thread where classes of Python's run.
    fn of(py: Python<'_>, classes: &Classes) -> PyResult<Option<Self>> {
        (!classes.is_empty()).then(|| Self::new(py, classes)).transpose()
    }

    fn new(py: Python<'_>, classes: &Classes) -> PyResult<Self> {
        let thread: u64 = py.import("threading")?.call_method0("get_ident")?.extract()?;
        let (over, found): (Arc<AtomicBool>, Arc<OnceLock<Caller>>) = Default::default();
        let line = Arc::<OnceLock<String>>::default();
        let watch = {
            let (over, found, shared) = (Arc::clone(&over), Arc::clone(&found), classes.shared.clone());
            let line = Arc::clone(&line);
            let mut lookout = shared.lookout();
            move || {
                while !over.load(Relaxed) {
                    std::thread::sleep(PATIENCE);
                    if let Some(caller) = lookout.look() {
                        let _ = found.set(caller);
                        shared.abandon();
                        // With the interpreter held no call ends meanwhile. One that cannot be interrupted goes on.
                        Python::attach(|py| {
                            if !over.load(Relaxed) {
                                let _ = line.set(calls::line_of(py, thread));
                                let _ = interrupt(py, thread);
                            }
                        });
                        return;
                    }
                }
            }
        };
        std::thread::Builder::new().name("knee watch".into()).spawn(watch).map_err(Failure::Thread)?;
        Ok(Self { thread, over, found, line })
    }

    /// Whose method was interrupted, if one was, and at which line. It may have returned just before: an interruption
    /// that is pending is taken back, so that it does not hit the caller's own code.
    fn found(&self, py: Python<'_>) -> Option<(Caller, String)> {
        let caller = self.found.get().copied()?;
        self.over.store(true, Relaxed);
        let _ = forget_interruption(py, self.thread);
        Some((caller, self.line.get().cloned().unwrap_or_default()))
    }
}

impl Drop for Watchman {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}

#[pymethods]
impl PyEngine {
    /// A specification (JSON) at rest; `own` and `own_queues` are its classes written in Python, as of `simulate`.
    #[new]
    #[pyo3(signature = (spec_json, own=Vec::new(), own_queues=Vec::new(), own_in_flight=1 << 17, own_limit_s=10.0))]
    #[allow(clippy::needless_pass_by_value, reason = "PyO3 makes a list of the argument")]
    fn new(
        py: Python<'_>,
        spec_json: &str,
        own: Vec<(String, Py<PyAny>)>,
        own_queues: Vec<(String, Py<PyAny>)>,
        own_in_flight: u64,
        own_limit_s: f64,
    ) -> PyResult<Self> {
        let spec = read(spec_json)?;
        let shared = calls::Shared::new(own_in_flight, own_limit_s);
        let queues = own_queue::queues(own_queues, &shared);
        let classes = Classes { own: own::algorithms(py, &own, &shared)?, queues, shared };
        let watchman = Watchman::of(py, &classes)?;
        let simulation = Simulation::with_own_queues(&spec, &classes.own, &classes.queues)
            .map_err(|error| Failure::Spec(error.to_string()))?;
        if let Some((caller, line)) = watchman.as_ref().and_then(|watchman| watchman.found(py)) {
            return Err(classes.shared.endless(&spec, caller, line).into());
        }
        Ok(Self(Mutex::new(Running { spec, classes, simulation: Some(simulation), seen: (0, 0) })))
    }

    /// Lets all happen up to this time (ns), with the interpreter free for others unless classes of Python's run.
    fn run_until(&self, py: Python<'_>, time: u64) -> PyResult<()> {
        let mut running = self.lock()?;
        let time = Time::from_nanos(time);
        let running = &mut *running;
        let watchman = Watchman::of(py, &running.classes)?;
        loop {
            let outcome = py.detach(|| running.approach(time));
            if let Some((caller, line)) = watchman.as_ref().and_then(|watchman| watchman.found(py)) {
                running.simulation = None;
                return Err(running.classes.shared.endless(&running.spec, caller, line).into());
            }
            if outcome? {
                return Ok(());
            }
            py.check_signals()?;
        }
    }

    /// The earliest time at which a change can happen, ns.
    fn changeable_from(&self) -> PyResult<u64> {
        Ok(self.lock()?.simulation()?.changeable_from().as_nanos())
    }

    /// The names of the links, reverse directions that queue last.
    #[getter]
    fn link_names(&self) -> PyResult<Vec<String>> {
        Ok(self.lock()?.simulation()?.link_names().map(str::to_owned).collect())
    }

    /// True if the flow at this index has stopped, or all that it had to send is acknowledged.
    fn has_ended(&self, flow: usize) -> PyResult<bool> {
        Ok(self.lock()?.simulation()?.has_ended(flow))
    }

    /// Goes on by a specification (JSON) with further changes and other times at which flows stop. False, with nothing
    /// changed, if only an engine from the start can.
    fn amend(&self, spec_json: &str) -> PyResult<bool> {
        let mut running = self.lock()?;
        let spec = read(spec_json)?;
        let amended = running.simulation()?.amend(&spec).map_err(|error| Failure::Spec(error.to_string()))?;
        if amended {
            running.spec = spec;
        }
        Ok(amended)
    }

    /// An engine that goes on from here by itself. None where a part cannot be copied.
    fn copied(&self) -> PyResult<Option<Self>> {
        let mut running = self.lock()?;
        let Some(simulation) = running.simulation()?.copied() else { return Ok(None) };
        let Running { spec, seen, .. } = &*running;
        let classes = Classes { own: Vec::new(), queues: Vec::new(), shared: calls::Shared::new(0, 0.0) };
        Ok(Some(Self(Mutex::new(Running { spec: spec.clone(), classes, simulation: Some(simulation), seen: *seen }))))
    }

    /// Rows of samples and of links, since the last call, or all.
    fn rows<'py>(&self, py: Python<'py>, from_start: bool) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let mut running = self.lock()?;
        let (samples, links) = if from_start { (0, 0) } else { running.seen };
        let Rows { samples: sampled, links: linked, .. } = running.simulation()?.rows();
        let rows = (
            PyBytes::new(py, bytemuck::cast_slice(&sampled[samples..])),
            PyBytes::new(py, bytemuck::cast_slice(&linked[links..])),
        );
        let seen = (sampled.len(), linked.len());
        if !from_start {
            running.seen = seen;
        }
        Ok(rows)
    }

    /// How many rows of samples and of links have been observed.
    #[getter]
    fn seen(&self) -> PyResult<(usize, usize)> {
        Ok(self.lock()?.seen)
    }

    /// Takes the first `samples` rows of samples and `links` rows of links for observed.
    fn mark_seen(&self, samples: usize, links: usize) -> PyResult<()> {
        let mut running = self.lock()?;
        let rows = running.simulation()?.rows();
        let seen = (samples.min(rows.samples.len()), links.min(rows.links.len()));
        running.seen = seen;
        Ok(())
    }

    /// Figures in JSON and rows, as of `simulate`; the engine is over then.
    fn finish<'py>(&self, py: Python<'py>) -> PyResult<(String, Bound<'py, PyDict>)> {
        let mut running = self.lock()?;
        let simulation = running.simulation.take().ok_or(Failure::Over)?;
        let (figures, rows) = figures(simulation, 1)?;
        Ok((figures, crate::tables(py, &rows)?))
    }
}
