//! Errors, and the Python exceptions for them.

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::types::PyAnyMethods;
use pyo3::{PyErr, Python};
use thiserror::Error;

pyo3::create_exception!(_core, SpecError, PyValueError, "The simulator rejected its specification.");

pyo3::create_exception!(_core, EngineError, PyRuntimeError, "The simulator stopped with an internal error.");

pyo3::create_exception!(_core, WriteError, PyOSError, "The simulator could not write one of its files.");

/// Why a run has no result.
#[derive(Debug, Error)]
pub enum Failure {
    /// The specification does not have the form that the engine reads.
    #[error("the core cannot read its specification: it is of another version than the package ({0})")]
    Json(#[from] serde_json::Error),
    /// The engine rejected the specification.
    #[error("{0}")]
    Spec(String),
    /// The spool file cannot be used.
    #[error("the file for sample rows cannot be written: {0}")]
    Spool(std::io::Error),
    /// The file for packets cannot be used.
    #[error("the file for packets cannot be written: {0}")]
    Capture(std::io::Error),
    /// The qlog files cannot be used.
    #[error("the qlog files cannot be written: {0}")]
    Qlog(std::io::Error),
    /// The engine stopped: an error in the program.
    #[error("the engine stopped with an internal error: {0}")]
    Panic(String),
    /// A class written in Python raised an exception.
    #[error("{error}, in {place}")]
    Raised {
        /// The method's owner: the congestion control of a flow, or the queue of a link.
        place: String,
        /// The exception.
        error: PyErr,
    },
    /// A method of a class written in Python does not return.
    #[error("{place}, has not returned from a method within {limit_s} s{line}")]
    Endless {
        /// The method's owner.
        place: String,
        /// How long a method may take, s.
        limit_s: f64,
        /// The line that it is at, behind a colon; empty if unknown.
        line: String,
    },
    /// The engine's thread could not be started.
    #[error("no thread could be started: {0}")]
    Thread(std::io::Error),
    /// A call to Python failed.
    #[error("{0}")]
    Python(PyErr),
    /// Another thread uses the simulation, or a class that runs in it does.
    #[error("it is being used already, by another thread or from a class that runs in it; give each thread a clone")]
    Busy,
    /// There is no simulation any more.
    #[error("it has failed before, or its result has been taken")]
    Over,
    /// The caller cancelled the run.
    #[error("the run was cancelled")]
    Cancelled,
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        let message = failure.to_string();
        match failure {
            Failure::Spec(_) => SpecError::new_err(message),
            Failure::Spool(error) => unwritten("The file for sample rows", &error),
            Failure::Capture(error) => unwritten("The file for packets", &error),
            Failure::Qlog(error) => unwritten("A qlog file", &error),
            Failure::Json(_)
            | Failure::Panic(_)
            | Failure::Thread(_)
            | Failure::Cancelled
            | Failure::Busy
            | Failure::Over
            | Failure::Endless { .. } => EngineError::new_err(message),
            Failure::Python(error) => error,
            // The exception itself, with its traceback; a note says where.
            Failure::Raised { place, error } => {
                Python::attach(|py| match error.value(py).call_method1("add_note", (format!("in {place}"),)) {
                    Ok(_) => error,
                    Err(other) => other,
                })
            }
        }
    }
}

/// With the attributes of an `OSError`; the file's name is what the file is for.
fn unwritten(what: &str, error: &std::io::Error) -> PyErr {
    let told = error.to_string();
    let reason = told.split(" (os error").next().unwrap_or_default();
    WriteError::new_err((error.raw_os_error(), reason.to_owned(), what.to_owned()))
}
