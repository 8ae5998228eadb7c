//! What can go wrong, and the Python exceptions it becomes.

use pyo3::PyErr;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use thiserror::Error;

pyo3::create_exception!(_core, SpecError, PyValueError, "The simulator refused its specification.");

/// Why there is no result.
#[derive(Debug, Error)]
pub enum Failure {
    /// The specification is not of the form the engine reads.
    #[error("the specification cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// The engine refused what the specification says.
    #[error("{0}")]
    Spec(String),
    /// The spool file cannot be used.
    #[error("the file for sample rows cannot be written: {0}")]
    Spool(std::io::Error),
    /// The engine broke off: an error in the program.
    #[error("the engine stopped with an internal error: {0}")]
    Panic(String),
    /// Somebody asked to stop.
    #[error("the run was cancelled")]
    Cancelled,
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        let message = failure.to_string();
        match failure {
            Failure::Json(_) | Failure::Spec(_) => SpecError::new_err(message),
            Failure::Spool(_) => PyOSError::new_err(message),
            Failure::Panic(_) | Failure::Cancelled => PyRuntimeError::new_err(message),
        }
    }
}
