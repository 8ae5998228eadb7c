//! Errors.

use std::io;
use thiserror::Error;

/// A failure of an end.
#[derive(Debug, Error)]
pub enum Failure {
    /// The system refused something.
    #[error("{what}: {error}")]
    System {
        /// The operation that failed.
        what: String,
        /// Why not.
        error: io::Error,
    },
    /// The task makes no sense here.
    #[error("{0}")]
    Task(String),
}

/// Names what was tried.
pub fn failed<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Failure {
    move |error| Failure::System { what: what.into(), error: error.into() }
}
