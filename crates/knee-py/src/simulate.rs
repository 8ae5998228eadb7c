//! Runs the engine on a thread of its own, so that Python stays responsive: it hears of progress and can interrupt.

use crate::error::Failure;
use crate::own::Raised;
use knee_capture::{Capture, Simulated};
use knee_sim::{Output, Own, Rows, Simulation, Spec};
use pyo3::Python;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// Events between two looks at whether to go on: some milliseconds of work.
const EVENTS_PER_STEP: u64 = 100_000;

/// The same with algorithms written in Python.
const EVENTS_PER_PYTHON_STEP: u64 = 2_000;

/// How long the caller waits before it looks around: 20 times a second.
const PATIENCE: Duration = Duration::from_millis(50);

/// What the engine's thread and its caller share.
#[derive(Default)]
struct Shared {
    /// Simulated time, ns.
    now: AtomicU64,
    /// Whether to stop.
    cancel: AtomicBool,
}

/// Algorithms written in Python that a run may use, and where their exceptions go.
pub struct Classes {
    /// The algorithms.
    pub own: Vec<Own>,
    /// The first exception.
    pub raised: Raised,
}

/// Where a run writes on the way.
pub struct Files {
    /// Sample rows.
    pub spool: Option<File>,
    /// The packets that leave links, as pcapng.
    pub capture: Option<File>,
}

/// Runs `spec` to its end, with the interpreter free for others unless algorithms are written in Python. Calls `look`
/// some 20 times a second with the fraction of simulated time that has passed; an error of `look` cancels the run.
///
/// # Errors
/// Those of the engine, of `look`, and of algorithms written in Python.
pub fn run<E: From<Failure>>(
    spec: &Spec,
    classes: &Classes,
    files: Files,
    py: Python<'_>,
    mut look: impl FnMut(f64) -> Result<(), E>,
) -> Result<(Output, Rows), E> {
    let shared = Shared::default();
    thread::scope(|scope| {
        let (give, mut take) = sync_channel(1);
        let shared = &shared;
        scope.spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| drive(spec, classes, files, shared)));
            // Nobody listens any more only where the caller gave up: then there is nobody to tell.
            let _ = give.send(outcome.unwrap_or_else(|panic| Err(Failure::Panic(panic_text(panic.as_ref())))));
        });
        loop {
            if let Some(outcome) = py.detach(|| receive(&mut take)) {
                return Ok(outcome?);
            }
            let fraction = shared.now.load(Relaxed) as f64 / spec.duration as f64;
            if let Err(error) = look(fraction.min(1.0)) {
                shared.cancel.store(true, Relaxed);
                return Err(error);
            }
        }
    })
}

type Outcome = Result<(Output, Rows), Failure>;

/// Waits a while for the outcome; none where it is not there yet. Takes the receiver mutably: a shared one
/// could not leave the interpreter.
fn receive(take: &mut Receiver<Outcome>) -> Option<Outcome> {
    match take.recv_timeout(PATIENCE) {
        Ok(outcome) => Some(outcome),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => Some(Err(Failure::Panic("its thread is gone".into()))),
    }
}

fn drive(spec: &Spec, classes: &Classes, files: Files, shared: &Shared) -> Outcome {
    let mut simulation = Simulation::with_own(spec, &classes.own).map_err(|error| Failure::Spec(error.to_string()))?;
    if let Some(file) = files.spool {
        simulation.spool(file);
    }
    let capture = files.capture.map(|file| Capture::new(file, &simulation.link_names(), 0)).transpose();
    let capture = capture.map_err(Failure::Capture)?.map(Simulated::new);
    if let Some(capture) = &capture {
        simulation.tap(Box::new(capture.clone()));
    }
    while step(&mut simulation, classes) {
        check_raised(spec, classes)?;
        if shared.cancel.load(Relaxed) {
            return Err(Failure::Cancelled);
        }
        shared.now.store(simulation.now().as_nanos(), Relaxed);
    }
    check_raised(spec, classes)?;
    if let Some(capture) = capture {
        capture.finish().map_err(Failure::Capture)?;
    }
    simulation.finish().map_err(Failure::Spool)
}

/// Fails if an algorithm written in Python raised an exception.
fn check_raised(spec: &Spec, classes: &Classes) -> Result<(), Failure> {
    match classes.raised.lock().ok().and_then(|mut raised| raised.take()) {
        Some((flow, error)) => Err(Failure::Raised { flow: spec.flows[flow].label.clone(), error }),
        None => Ok(()),
    }
}

/// A stretch of the simulation; with algorithms in Python the interpreter is held all through a short one.
fn step(simulation: &mut Simulation, classes: &Classes) -> bool {
    if classes.own.is_empty() {
        simulation.step(EVENTS_PER_STEP)
    } else {
        Python::attach(|_| simulation.step(EVENTS_PER_PYTHON_STEP))
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
