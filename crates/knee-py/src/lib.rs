//! Python binding: hands specifications in and results out, and knows nothing of networks.

mod error;
mod listing;

use pyo3::pymodule;

/// The simulator's core; `knee` is its Python face.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::error::SpecError;
    use super::listing;
    use pyo3::prelude::*;

    /// Version of the core.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// JSON with all congestion controls (`cc`) and queue disciplines (`queues`), their parameters and phases.
    #[pyfunction]
    fn registry() -> String {
        listing::registry().to_string()
    }
}
