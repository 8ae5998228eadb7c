//! Calls of methods written in Python: who is called, which call does not return, and the first exception.

use crate::error::Failure;
use crate::own::Budget;
use knee_sim::Spec;
use pyo3::exceptions::PyRuntimeError;
use pyo3::types::PyAnyMethods;
use pyo3::{PyErr, PyResult, Python};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The object whose method is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The congestion control of the flow with this index.
    Flow(usize),
    /// The queue with this number, of those made for the run.
    Queue(usize),
}

impl Caller {
    const fn number(self) -> usize {
        match self {
            Self::Flow(i) => i << 1,
            Self::Queue(i) => i << 1 | 1,
        }
    }

    const fn of(number: usize) -> Self {
        if number & 1 == 0 { Self::Flow(number >> 1) } else { Self::Queue(number >> 1) }
    }
}

/// State that a run's classes in Python share.
#[derive(Clone)]
pub struct Shared {
    /// The first exception, and whose method raised it.
    raised: Arc<Mutex<Option<(Caller, PyErr)>>>,
    /// Nobody waits for the run any more.
    abandoned: Arc<AtomicBool>,
    /// Packets that congestion controls may have in flight.
    pub budget: Arc<Mutex<Budget>>,
    /// The call that goes on.
    call: Arc<Call>,
    /// The links and the classes of the queues that were made, by their numbers.
    queues: Arc<Mutex<Vec<(String, String)>>>,
    /// How long a method may take, s.
    pub limit_s: f64,
}

impl Shared {
    /// For a run whose congestion controls in Python may have at most `most` packets in flight together, and whose
    /// classes take at most `limit_s` seconds in a method.
    pub fn new(most: u64, limit_s: f64) -> Self {
        Self {
            raised: Arc::default(),
            abandoned: Arc::default(),
            budget: Arc::new(Mutex::new(Budget::new(most))),
            call: Arc::default(),
            queues: Arc::default(),
            limit_s,
        }
    }

    /// Looks at the calls.
    pub fn lookout(&self) -> Lookout {
        let most = (self.limit_s / PATIENCE.as_secs_f64()).max(1.0);
        Lookout { call: Arc::clone(&self.call), count: 0, looks: 0.0, most }
    }

    /// Calls a method.
    ///
    /// # Errors
    /// The exception of the method, or that nobody waits for the run any more.
    pub fn call<T>(&self, caller: Caller, method: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        if self.abandoned.load(Relaxed) {
            return Err(PyRuntimeError::new_err("the run has been given up"));
        }
        self.call.caller.store(caller.number(), Relaxed);
        self.call.count.fetch_add(1, Relaxed);
        let answer = method();
        self.call.count.fetch_add(1, Relaxed);
        answer
    }

    /// A queue of this class is made for a link.
    pub fn queue(&self, link: &str, class: &str) -> Caller {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.push((link.to_owned(), class.to_owned()));
        Caller::Queue(queues.len() - 1)
    }

    /// Calls no method any more: the one that goes on may return after its run has been given up.
    pub fn abandon(&self) {
        self.abandoned.store(true, Relaxed);
    }

    /// Returns true if a method has raised an exception, or the run has been given up.
    pub fn has_failed(&self) -> bool {
        self.abandoned.load(Relaxed) || self.raised.lock().is_ok_and(|raised| raised.is_some())
    }

    /// Keeps the first exception for the caller.
    pub fn fail(&self, caller: Caller, error: PyErr) {
        if let Ok(mut raised) = self.raised.lock() {
            raised.get_or_insert((caller, error));
        }
    }

    /// The first exception of a method, which is forgotten.
    pub fn raised(&self) -> Option<PyErr> {
        let raised = self.raised.lock().ok().and_then(|mut raised| raised.take());
        raised.map(|(_, error)| error)
    }

    /// Fails if a method raised an exception.
    pub fn check(&self, spec: &Spec) -> Result<(), Failure> {
        match self.raised.lock().ok().and_then(|mut raised| raised.take()) {
            Some((caller, error)) => Err(Failure::Raised { place: self.place(spec, caller), error }),
            None => Ok(()),
        }
    }

    /// The error for a method that does not return; `line` is where it is.
    pub fn endless(&self, spec: &Spec, caller: Caller, line: String) -> Failure {
        Failure::Endless { place: self.place(spec, caller), limit_s: self.limit_s, line }
    }

    /// Names the owner of the method, for an error message.
    fn place(&self, spec: &Spec, caller: Caller) -> String {
        let (what, of, class) = match caller {
            Caller::Flow(flow) => ("congestion control", spec.flows[flow].label.clone(), spec.flows[flow].cc.clone()),
            Caller::Queue(number) => {
                let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
                let (link, class) = &queues[number];
                ("queue", link.clone(), class.clone())
            }
        };
        format!("the {what} of {of}, {}", class.trim_start_matches("python:"))
    }
}

/// The line of a class that a thread is at, as [`Failure::Endless`] has it; empty where Python does not say.
pub fn line_of(py: Python<'_>, thread: u64) -> String {
    let found = py.import("knee.own.where").and_then(|module| module.getattr("of_thread")?.call1((thread,))?.extract());
    found.map_or_else(|_| String::new(), |line: String| if line.is_empty() { line } else { format!(": {line}") })
}

/// The call of a method that goes on, if one does.
#[derive(Default)]
struct Call {
    /// Calls begun and ended: odd while one goes on.
    count: AtomicU64,
    caller: AtomicUsize,
}

/// How long to wait between two looks at whether a call goes on.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// Looks at calls, and says which does not return.
pub struct Lookout {
    call: Arc<Call>,
    count: u64,
    /// Looks that found the same call, and how many may. They are counted, and not the time: that passes where the
    /// machine is busy or suspended, too.
    looks: f64,
    most: f64,
}

impl Lookout {
    /// Looks, once in [`PATIENCE`]; gives whose method has not returned within the limit.
    pub fn look(&mut self) -> Option<Caller> {
        let count = self.call.count.load(Relaxed);
        let same = count % 2 == 1 && count == self.count;
        (self.count, self.looks) = (count, if same { self.looks + 1.0 } else { 0.0 });
        (self.looks >= self.most).then(|| Caller::of(self.call.caller.load(Relaxed)))
    }
}
