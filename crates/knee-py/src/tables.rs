//! TOML files as plain data of Python.

use knee_scenario::{Node, Table, Value};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// A table as a dict, in the order of the file.
pub fn dict<'py>(py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyDict>> {
    let made = PyDict::new(py);
    for key in &table.0 {
        made.set_item(&key.name, object(py, &key.node)?)?;
    }
    Ok(made)
}

fn object<'py>(py: Python<'py>, node: &Node) -> PyResult<Bound<'py, PyAny>> {
    Ok(match &node.value {
        Value::Text(text) => text.into_pyobject(py)?.into_any(),
        Value::Whole(number) => number.into_pyobject(py)?.into_any(),
        Value::Number(number) => number.into_pyobject(py)?.into_any(),
        Value::Bool(is) => is.into_pyobject(py)?.to_owned().into_any(),
        Value::List(list) => {
            let each = list.iter().map(|node| object(py, node)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, each)?.into_any()
        }
        Value::Table(table) => dict(py, table)?.into_any(),
    })
}
