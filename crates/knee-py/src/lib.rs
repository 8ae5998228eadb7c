//! Python binding: passes specifications in and results out.

#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss))]

mod calls;
mod conform;
mod engine;
mod error;
mod fleet;
mod listing;
mod network;
mod own;
mod own_queue;
mod simulate;
mod tables;

use knee_sim::Rows;
use mimalloc::MiMalloc;
use pyo3::types::{PyBytes, PyDict, PyDictMethods};
use pyo3::{Bound, PyResult, Python, pymodule};

/// Faster than the system's where thousands of flows come, go and grow (lab/performance.md).
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Rows by their kind, as raw memory.
fn tables<'py>(py: Python<'py>, rows: &Rows) -> PyResult<Bound<'py, PyDict>> {
    let tables: [(&str, &[u8]); 6] = [
        ("samples", bytemuck::cast_slice(&rows.samples)),
        ("links", bytemuck::cast_slice(&rows.links)),
        ("events", bytemuck::cast_slice(&rows.events)),
        ("completions", bytemuck::cast_slice(&rows.completions)),
        ("delays", bytemuck::cast_slice(&rows.delays)),
        ("distributions", bytemuck::cast_slice(&rows.distributions)),
    ];
    let given = PyDict::new(py);
    for (name, table) in tables {
        given.set_item(name, PyBytes::new(py, table))?;
    }
    Ok(given)
}

/// The simulator's core, used by the package `knee`.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::engine::PyEngine;
    use super::error::Failure;
    #[pymodule_export]
    use super::error::{EngineError, SpecError, WriteError};
    #[pymodule_export]
    use super::fleet::{PyFleet, PyPlan, features, network_features, queue_features};
    #[pymodule_export]
    use super::network::PyNetwork;
    #[pymodule_export]
    use super::own::{PyAck, PyControl};
    #[pymodule_export]
    use super::own_queue::{PyContext, PyPacket};
    use super::{calls, conform as vectors, listing, own, own_queue, simulate as driver};
    use knee_scenario::Numbers;
    use pyo3::IntoPyObjectExt;
    use pyo3::prelude::*;
    use pyo3::types::PyDict;
    use std::fs::File;
    use std::path::PathBuf;

    /// Version of the core.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// JSON with all congestion controls (`cc`), queue disciplines (`queues`), models of links (`links`), of their loss
    /// (`losses`) and of their delay (`delays`), the QUIC stack's own controllers (`quic`), receivers (`receivers`) and
    /// kinds of traffic (`traffic`), their parameters and phases.
    #[pyfunction]
    fn registry() -> String {
        listing::registry().to_string()
    }

    /// JSON with the keys of `[quic]` that each preset sets, by its name; times in ns, sizes in bytes.
    #[pyfunction]
    fn quic_presets() -> String {
        listing::quic_presets().to_string()
    }

    /// Keys of `[quic]` that the simulator's endpoints alone have, and not those of QUIC stacks.
    #[pyfunction]
    const fn quic_of_simulator() -> [&'static str; 11] {
        knee_scenario::QUIC_OF_SIMULATOR
    }

    /// The tables of a TOML file as plain data; or what was found, what is accepted, and line and column, both from 1.
    #[pyfunction]
    fn tables<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
        match knee_scenario::tables(text, "") {
            Ok(table) => Ok(super::tables::dict(py, &table)?.into_any()),
            Err(error) => (error.found, error.accepted, (error.line, error.column)).into_bound_py_any(py),
        }
    }

    /// A key that an error names, such as `links[0].rate`, as a file writes it, and line and column there, both from 1;
    /// None where the file does not have it. `sections` are tables of which one has it, if it is not the file's own.
    #[pyfunction]
    #[allow(clippy::needless_pass_by_value, reason = "PyO3 makes a list of the argument")]
    fn placed(file: PathBuf, key: &str, sections: Option<Vec<String>>) -> (String, Option<(usize, usize)>) {
        knee_scenario::placed(&file, key, sections.as_deref())
    }

    /// The numbers in a file that a scenario names, by the kind of file: "trace" (times in ms), "table" (delays in ns),
    /// "file of times" (ns), "distribution of sizes" (bytes and probabilities) or "packet trace" (times in ns, bytes).
    /// The value found and the accepted ones, if it cannot be read.
    #[pyfunction]
    #[allow(clippy::needless_pass_by_value, reason = "PyO3 makes a path of the argument")]
    fn numbers<'py>(py: Python<'py>, kind: &str, file: PathBuf) -> PyResult<Bound<'py, PyAny>> {
        match knee_scenario::numbers(kind, &file) {
            Ok(Numbers::Times(times)) => times.into_bound_py_any(py),
            Ok(Numbers::Sizes(sizes)) => sizes.into_bound_py_any(py),
            Ok(Numbers::Packets(packets)) => packets.into_bound_py_any(py),
            Err(error) => error.into_bound_py_any(py),
        }
    }

    /// The refusal of tables of a scenario (JSON, in base units) that do not fit together: key, what was found and what
    /// is accepted. [`knee_scenario::refusal_of`] has the kinds of tables.
    #[pyfunction]
    fn refusal(what: &str, tables: &str) -> Option<(String, String, String)> {
        knee_scenario::refusal_of(what, tables)
    }

    /// Names of the algorithms that have conformance vectors, and of knee's that implement them.
    #[pyfunction]
    fn conform_known() -> Vec<(String, String)> {
        vectors::known()
    }

    /// Plays the conformance vectors of an algorithm with knee's own, with a program (its command), with a class (its
    /// name and itself), or with what a flow's cc names (that, and its parameters in JSON, tagged with their kinds).
    /// Gives the report in JSON.
    #[pyfunction]
    #[pyo3(signature = (algorithm, command=None, own=None, flow=None))]
    fn conform(
        py: Python<'_>,
        algorithm: &str,
        command: Option<Vec<String>>,
        own: Option<(String, Py<PyAny>)>,
        flow: Option<(String, String)>,
    ) -> PyResult<String> {
        vectors::conform(py, algorithm, command, own, flow)
    }

    /// How long a packet may have to wait at a link of this model (parameters in JSON, tagged with their kinds) and
    /// rate, in bit/s, although no other waits, ns.
    #[pyfunction]
    fn link_access(name: &str, params: &str, rate: u64) -> PyResult<u64> {
        listing::access(name, params, rate).map_err(SpecError::new_err)
    }

    /// The rate that a flow's traffic (JSON) offers on average, bit/s. `None` if it takes what it gets.
    #[pyfunction]
    fn traffic_load(spec: &str) -> PyResult<Option<u64>> {
        listing::traffic_load(spec).map_err(SpecError::new_err)
    }

    /// The mean of a distribution of sizes (JSON), bytes; those beyond its greatest count as that.
    #[pyfunction]
    fn mean_size(spec: &str) -> PyResult<f64> {
        listing::mean_size(spec).map_err(SpecError::new_err)
    }

    /// Runs a specification (JSON) to its end. Gives its figures in JSON, and rows by their kind as raw memory. Sample
    /// rows are written to the file `spool` in blocks, if given.
    /// `progress` is called some 20 times a second with the fraction of simulated time that has passed. `own` are
    /// congestion controls written in Python and `own_queues` queues, by their names in the specification; the former
    /// may have `own_in_flight` packets in flight together, and a method may take `own_limit_s` seconds. The packets at
    /// the senders are written to the file `capture` as pcapng, if given, and what senders do to files in the folder
    /// `qlog`, if given. Up to `threads` threads work at the run, one where classes are written in Python.
    #[pyfunction]
    #[pyo3(signature = (
        spec_json, spool=None, progress=None, own=Vec::new(), capture=None, qlog=None, own_in_flight=1 << 17,
        threads=1, own_limit_s=10.0, own_queues=Vec::new()
    ))]
    #[allow(clippy::too_many_arguments, reason = "they are keyword arguments in Python")]
    #[allow(clippy::needless_pass_by_value, reason = "PyO3 makes a list of the argument")]
    fn simulate<'py>(
        py: Python<'py>,
        spec_json: &str,
        spool: Option<&str>,
        progress: Option<&Bound<'py, PyAny>>,
        own: Vec<(String, Py<PyAny>)>,
        capture: Option<&str>,
        qlog: Option<PathBuf>,
        own_in_flight: u64,
        threads: usize,
        own_limit_s: f64,
        own_queues: Vec<(String, Py<PyAny>)>,
    ) -> PyResult<(String, Bound<'py, PyDict>)> {
        let files = driver::Files {
            spool: spool.map(File::create).transpose().map_err(Failure::Spool)?,
            capture: capture.map(File::create).transpose().map_err(Failure::Capture)?,
            qlog,
        };
        let shared = calls::Shared::new(own_in_flight, own_limit_s);
        let queues = own_queue::queues(own_queues, &shared);
        let classes = driver::Classes { own: own::algorithms(py, &own, &shared)?, queues, shared };
        let look = |fraction| {
            py.check_signals()?;
            progress.map_or(Ok(()), |progress| progress.call1((fraction,)).map(drop))
        };
        let (figures, rows) = driver::run::<PyErr>(spec_json.to_owned(), classes, files, threads, py, look)?;
        Ok((figures, super::tables(py, &rows)?))
    }
}
