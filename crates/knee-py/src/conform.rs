//! Conformance vectors with algorithms of the registry, controllers of QUIC stacks, programs, and classes in Python.

use crate::calls::Shared;
use crate::error::SpecError;
use crate::own;
use knee_conform::{Implementation, Own, Program, SUITES, Suite, judge, reasons};
use knee_core::{Params, Value};
use knee_net::network;
use knee_net::spec::ParamsSpec;
use knee_sim::OwnMake;
use knee_stacks::noq;
use pyo3::exceptions::PyRuntimeError;
use pyo3::{Py, PyAny, PyErr, PyResult, Python};

/// Packets that a class may have in flight: far more than any vector asks for.
const IN_FLIGHT: u64 = 1 << 17;
/// Seconds that a method may take; nobody watches it here, since Ctrl-C ends it.
const LIMIT_S: f64 = 10.0;

#[allow(clippy::needless_pass_by_value, reason = "as map_err gives it")]
fn refused(error: impl ToString) -> PyErr {
    SpecError::new_err(error.to_string())
}

/// The algorithms that have vectors, and knee's that implement them.
pub fn known() -> Vec<(String, String)> {
    SUITES.iter().map(|suite| (suite.name.into(), suite.own.into())).collect()
}

/// knee's algorithm of a suite.
fn of_knee(suite: &Suite) -> PyResult<Own> {
    let entry = knee_cc::find(suite.own).ok_or_else(|| refused("the registry lacks it"))?;
    let params = suite.param.map(|(name, value)| (name, Value::Choice(value)));
    Ok(Own::new(entry, Params::resolve(entry.params, params).map_err(refused)?))
}

/// The implementation that a flow's `cc` names: an algorithm with its parameters (JSON, tagged with their kinds), or a
/// controller that a QUIC stack brings.
fn of_flow(name: &str, params: &str) -> PyResult<Box<dyn Implementation + Send + Sync>> {
    if let Some(entry) = knee_cc::find(name) {
        let given: ParamsSpec = serde_json::from_str(params).map_err(refused)?;
        return Ok(Box::new(Own::new(entry, network::params(entry.params, &given, name).map_err(refused)?)));
    }
    if let Some(quinn) = knee_quinn::conform::Controllers::named(name) {
        return Ok(Box::new(quinn));
    }
    match noq::conform::Controllers::named(name) {
        Some(noq) => Ok(Box::new(noq)),
        None => Err(refused(format!("there is no congestion control {name}"))),
    }
}

/// A class, as knee's interface has it.
fn of_class(py: Python<'_>, name: &str, class: Py<PyAny>, shared: &Shared) -> PyResult<Own> {
    let made = own::algorithms(py, &[(name.to_owned(), class)], shared)?.pop();
    let Some(knee_sim::Own { entry, make: OwnMake::Algorithm(make), .. }) = made else {
        return Err(PyRuntimeError::new_err("the class was not taken"));
    };
    let none = Params::defaults(entry.params);
    Ok(Own::made_by(name, entry, Box::new(move |init| make(&none, init, 0))))
}

/// The report in JSON.
///
/// # Errors
/// If the algorithm has no vectors, a class raises, or somebody interrupts.
pub fn conform(
    py: Python<'_>,
    algorithm: &str,
    command: Option<Vec<String>>,
    class: Option<(String, Py<PyAny>)>,
    flow: Option<(String, String)>,
) -> PyResult<String> {
    let suite = Suite::find(algorithm).map_err(refused)?;
    let vectors = suite.vectors().map_err(refused)?;
    let play = |implementation: &dyn Implementation, look: &dyn Fn() -> PyResult<()>| {
        judge(&vectors, suite.name, implementation, &reasons(), look)
    };
    let interrupted = || -> PyResult<()> {
        Python::attach(|py| {
            py.check_signals()?;
            Ok(())
        })
    };
    let report = if let Some(command) = command {
        // Others may run while the program is waited for.
        py.detach(|| play(&Program::new(command, suite.name), &interrupted))?
    } else if let Some((name, class)) = class {
        let shared = Shared::new(IN_FLIGHT, LIMIT_S);
        let look = || shared.raised().map_or_else(interrupted, Err);
        let report = play(&of_class(py, &name, class, &shared)?, &look)?;
        look()?;
        report
    } else if let Some((name, params)) = flow {
        let named = of_flow(&name, &params)?;
        py.detach(|| play(&*named, &interrupted))?
    } else {
        let own = of_knee(suite)?;
        py.detach(|| play(&own, &interrupted))?
    };
    serde_json::to_string(&report).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}
