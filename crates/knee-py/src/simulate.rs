//! Runs the engine on its own thread, so that Python stays responsive: it can report progress and interrupt.

use crate::calls::{self, PATIENCE};
use crate::error::Failure;
use knee_capture::{Capture, Simulated};
use knee_net::network::OwnQueue;
use knee_sim::sender_log::open_logs;
use knee_sim::{Output, Own, Rows, Simulation, Spec};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::types::PyAnyMethods;
use pyo3::{Bound, PyAny, PyResult, Python};
use serde::Serialize;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// Steps between two looks at whether to go on: some milliseconds of work.
const STEPS: u64 = 100_000;

/// Steps between two looks where classes are written in Python, which are slower.
const PYTHON_STEPS: u64 = 2_000;

/// How long a cancelled run is waited for. Nobody waits longer: some steps are long where there are a million flows.
const GRACE: Duration = Duration::from_millis(50);

/// State that the engine's thread and its caller share.
#[derive(Default)]
struct RunState {
    /// Simulated time, ns.
    now: AtomicU64,
    /// Simulated time at the end, ns; 0 before the specification is read.
    end: AtomicU64,
    /// The run is to stop.
    cancel: AtomicBool,
    /// Python's identifier of the engine's thread; 0 where it runs nothing of Python's.
    thread: AtomicU64,
}

/// Classes written in Python that a run may use, and what they share.
pub struct Classes {
    /// The congestion controls.
    pub own: Vec<Own>,
    /// The queues.
    pub queues: Vec<OwnQueue>,
    /// Where their exceptions go, and what they may send.
    pub shared: calls::Shared,
}

impl Classes {
    /// Returns true if there is none.
    pub const fn is_empty(&self) -> bool {
        self.own.is_empty() && self.queues.is_empty()
    }
}

/// Where a run writes on the way.
pub struct Files {
    /// Sample rows.
    pub spool: Option<File>,
    /// The packets at the senders, as pcapng.
    pub capture: Option<File>,
    /// The folder of the senders' qlog files.
    pub qlog: Option<PathBuf>,
}

/// The figures of a run, and how it went.
#[derive(Serialize)]
struct Figures<'a> {
    #[serde(flatten)]
    output: &'a Output,
    /// Why it went event by event, unless it went in batches.
    event_by_event: Option<String>,
    /// How many threads worked at it.
    threads: usize,
}

/// The result of a run: [`Figures`] in JSON, and its rows.
pub type Outcome = Result<(String, Rows), Failure>;

/// Runs a specification in JSON to its end, with the interpreter free for others unless classes of Python's take
/// part. Calls `look` some 20 times a second with the fraction of simulated time that has passed; an error of `look`
/// cancels the run.
///
/// The caller is never held up by the engine: a run that has been cancelled and does not end soon is left to itself,
/// and ends at its next look.
///
/// # Errors
/// Those of the engine, of `look`, and of classes written in Python.
pub fn run<E: From<Failure>>(
    spec: String,
    classes: Classes,
    files: Files,
    threads: usize,
    py: Python<'_>,
    mut look: impl FnMut(f64) -> Result<(), E>,
) -> Result<(String, Rows), E> {
    let shared = Arc::new(RunState::default());
    let (give, mut take) = sync_channel(1);
    let (calls, mut lookout) = (classes.shared.clone(), classes.shared.lookout());
    let told = if classes.is_empty() { String::new() } else { spec.clone() };
    let engine = {
        let shared = Arc::clone(&shared);
        move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| drive(&spec, &classes, files, threads, &shared)));
            // Sending fails only if the caller gave up; then nobody needs the outcome.
            let _ = give.send(outcome.unwrap_or_else(|panic| Err(Failure::Panic(panic_text(panic.as_ref())))));
        }
    };
    let engine = thread::Builder::new().name("knee".into()).spawn(engine).map_err(Failure::Thread)?;
    loop {
        if let Some(outcome) = py.detach(|| receive(&mut take, PATIENCE)) {
            py.detach(|| engine.join().ok());
            return Ok(outcome?);
        }
        if let Some(caller) = lookout.look() {
            let spec: Spec = serde_json::from_str(&told).map_err(Failure::Json)?;
            let line = calls::line_of(py, shared.thread.load(Relaxed));
            cancel(py, &shared, &calls, &mut take);
            return Err(calls.endless(&spec, caller, line).into());
        }
        let fraction = shared.now.load(Relaxed) as f64 / shared.end.load(Relaxed).max(1) as f64;
        if let Err(error) = look(fraction.min(1.0)) {
            cancel(py, &shared, &calls, &mut take);
            return Err(error);
        }
    }
}

/// Ends the engine's thread, if it can be ended.
fn cancel(py: Python<'_>, shared: &RunState, calls: &calls::Shared, take: &mut Receiver<Outcome>) {
    shared.cancel.store(true, Relaxed);
    calls.abandon();
    let thread = shared.thread.load(Relaxed);
    if py.detach(|| receive(take, GRACE)).is_none() && thread != 0 {
        // It may be in an endless loop of Python's. Where that cannot be broken the caller's own error matters more.
        let _ = interrupt(py, thread);
        py.detach(|| receive(take, GRACE));
    }
}

/// Waits so long for the outcome; none where it is not there yet. Takes the receiver mutably: a shared one could not
/// leave the interpreter.
fn receive(take: &mut Receiver<Outcome>, patience: Duration) -> Option<Outcome> {
    match take.recv_timeout(patience) {
        Ok(outcome) => Some(outcome),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => Some(Err(Failure::Panic("its thread is gone".into()))),
    }
}

/// Raises KeyboardInterrupt in what another thread runs of Python's.
pub fn interrupt(py: Python<'_>, thread: u64) -> PyResult<()> {
    let exception = py.import("ctypes")?.getattr("py_object")?.call1((py.get_type::<PyKeyboardInterrupt>(),))?;
    set_exception(thread, &exception)
}

/// Takes that back where it has not been raised yet.
pub fn forget_interruption(py: Python<'_>, thread: u64) -> PyResult<()> {
    // None is a null pointer to ctypes.
    set_exception(thread, py.None().bind(py))
}

fn set_exception(thread: u64, exception: &Bound<'_, PyAny>) -> PyResult<()> {
    let ctypes = exception.py().import("ctypes")?;
    let id = ctypes.getattr("c_ulong")?.call1((thread,))?;
    ctypes.getattr("pythonapi")?.call_method1("PyThreadState_SetAsyncExc", (id, exception))?;
    Ok(())
}

fn drive(spec: &str, classes: &Classes, files: Files, threads: usize, shared: &RunState) -> Outcome {
    let spec: Spec = serde_json::from_str(spec).map_err(Failure::Json)?;
    shared.end.store(spec.duration, Relaxed);
    if !classes.is_empty() {
        let thread = Python::attach(|py| py.import("threading")?.call_method0("get_ident")?.extract());
        shared.thread.store(thread.map_err(Failure::Python)?, Relaxed);
    }
    let mut simulation = Simulation::with_own_queues(&spec, &classes.own, &classes.queues)
        .map_err(|error| Failure::Spec(error.to_string()))?;
    if let Some(file) = files.spool {
        simulation.spool(file);
    }
    let labels: Vec<String> = spec.flows.iter().map(|flow| flow.label.clone()).collect();
    let capture = files.capture.map(|file| Capture::new(file, &labels, 0)).transpose().map_err(Failure::Capture)?;
    let capture = capture.map(|capture| Simulated::new(capture, spec.tcp.receive_window));
    if let Some(capture) = &capture {
        simulation.tap(Box::new(capture.clone()));
    }
    let logs = files
        .qlog
        .map(|folder| open_logs(&spec, "sim", |flow| !flow.sends_datagrams(), |name| File::create(folder.join(name))))
        .transpose()
        .map_err(Failure::Qlog)?;
    if let Some(logs) = &logs {
        simulation.log(logs.clone());
    }
    // Python's classes hold the interpreter.
    let threads = simulation.threads(if classes.is_empty() { threads } else { 1 });
    while step(&mut simulation, classes) {
        classes.shared.check(&spec)?;
        if shared.cancel.load(Relaxed) {
            return Err(Failure::Cancelled);
        }
        shared.now.store(simulation.now().as_nanos(), Relaxed);
    }
    classes.shared.check(&spec)?;
    if let Some(capture) = capture {
        capture.finish().map_err(Failure::Capture)?;
    }
    for log in logs.iter().flatten().flatten() {
        log.finish().map_err(Failure::Qlog)?;
    }
    figures(simulation, threads)
}

/// Figures and rows of a simulation at its end, at which `threads` threads worked.
pub fn figures(simulation: Simulation, threads: usize) -> Outcome {
    let event_by_event = simulation.obstacle().map(|obstacle| obstacle.to_string());
    let (output, rows) = simulation.finish().map_err(Failure::Spool)?;
    let figures = Figures { output: &output, event_by_event, threads };
    Ok((serde_json::to_string(&figures).map_err(Failure::Json)?, rows))
}

/// Steps between two looks at whether to go on.
pub const fn steps_at_once(classes: &Classes) -> u64 {
    if classes.is_empty() { STEPS } else { PYTHON_STEPS }
}

/// A stretch of the simulation; with classes in Python the interpreter is held all through a short one.
fn step(simulation: &mut Simulation, classes: &Classes) -> bool {
    let steps = steps_at_once(classes);
    if classes.is_empty() { simulation.step(steps) } else { Python::attach(|_| simulation.step(steps)) }
}

pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
