//! Bodies in fastjson's dialect, as Python objects.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use pyrmq_format::json::{self, Value};

/// Parses a body: objects become dicts (integer keys ints, object keys tuples of pairs), the rest
/// what `json` makes of it. ValueError with the place of the first fault.
/// `max_values` bounds how many values it may hold: each becomes an object.
#[pyfunction]
#[pyo3(signature = (text, max_values=json::MAX_VALUES))]
pub fn parse_json(py: Python<'_>, text: &[u8], max_values: usize) -> PyResult<Py<PyAny>> {
    let value = json::parse(text, max_values).map_err(PyValueError::new_err)?;
    Ok(convert(py, &value)?.unbind())
}

/// Where the members of a JSON object stand: key (as `parse_json` has it), first byte of the member,
/// first byte of its value, and the byte behind both. ValueError with the place of the first fault.
#[pyfunction]
pub fn json_members(py: Python<'_>, text: &[u8]) -> PyResult<Py<PyAny>> {
    let list = PyList::empty(py);
    for (key, start, value, end) in json::members(text).map_err(PyValueError::new_err)? {
        list.append((key_of(py, &key)?, start, value, end))?;
    }
    Ok(list.into_any().unbind())
}

fn convert<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(b) => b.into_pyobject(py)?.to_owned().into_any(),
        Value::Int(n) => n.into_pyobject(py)?.into_any(),
        Value::Float(f) => f.into_pyobject(py)?.into_any(),
        Value::Text(s) => s.into_pyobject(py)?.into_any(),
        Value::List(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(convert(py, item)?)?;
            }
            list.into_any()
        }
        Value::Object(members) => {
            let dict = PyDict::new(py);
            for (key, item) in members {
                dict.set_item(key_of(py, key)?, convert(py, item)?)?;
            }
            dict.into_any()
        }
    })
}

/// A hashable form of a key: objects and lists become tuples.
fn key_of<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Object(members) => {
            let pairs = members
                .iter()
                .map(|(k, v)| PyTuple::new(py, [key_of(py, k)?, key_of(py, v)?]))
                .collect::<PyResult<Vec<_>>>()?;
            Ok(PyTuple::new(py, pairs)?.into_any())
        }
        Value::List(items) => {
            let items = items
                .iter()
                .map(|v| key_of(py, v))
                .collect::<PyResult<Vec<_>>>()?;
            Ok(PyTuple::new(py, items)?.into_any())
        }
        plain => convert(py, plain),
    }
}
