//! The options of Spark's source, for its part in Python: the table, and the parse of the engine.

use super::error::to_py;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use pyrmq_scan::Offsets;
use pyrmq_scan::options::{self, Query, Value, Wrong};
use serde_json::Value as Json;

/// All options, one dict each: the names of `options::Row`, with `where` and `required` as lists of
/// names of queries.
#[pyfunction]
pub fn scan_option_rows(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for row in options::rows() {
        let dict = PyDict::new(py);
        let queries =
            |of: options::Queries| of.all().map(Query::name).collect::<Vec<&'static str>>();
        dict.set_item("name", row.name)?;
        dict.set_item("where", queries(row.queries))?;
        dict.set_item("default", row.default)?;
        dict.set_item("stream_default", row.stream_default)?;
        dict.set_item("parameter", row.parameter)?;
        dict.set_item("group", row.group)?;
        dict.set_item("required", queries(row.required))?;
        dict.set_item("selects", row.selects)?;
        dict.set_item("secret", row.secret)?;
        dict.set_item("pyspark", row.pyspark)?;
        dict.set_item("doc", row.doc)?;
        list.append(dict)?;
    }
    Ok(list)
}

/// Checked options: values by name (of all that this query takes, None where there is none), and the
/// names of those that were given. ConfigError, or a SegmentError that names a parameter.
#[pyfunction]
#[pyo3(signature = (given, query=None))]
pub fn scan_options<'py>(
    py: Python<'py>,
    given: &Bound<'py, PyDict>,
    query: Option<&str>,
) -> PyResult<(Bound<'py, PyDict>, Vec<&'static str>)> {
    let checked = options::check(&pairs(given)?, query_named(query)?).map_err(|e| to_py(py, e))?;
    let values = PyDict::new(py);
    for (name, value) in &checked.values {
        let value = value.as_ref().map(|value| value_to_py(py, value));
        values.set_item(name, value.transpose()?)?;
    }
    Ok((values, checked.given.into_iter().collect()))
}

/// The value of a text for one option. ValueError, whose text continues "option NAME", or a
/// SegmentError that names a parameter.
#[pyfunction]
pub fn scan_option_value<'py>(
    py: Python<'py>,
    name: &str,
    text: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let row = options::row(name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
    match options::value_of(row, text) {
        Ok(value) => value_to_py(py, &value),
        Err(Wrong::Told(told)) => Err(PyValueError::new_err(told)),
        Err(Wrong::Whole(error)) => Err(to_py(py, error)),
    }
}

/// ConfigError for an option that is there twice with different values.
#[pyfunction]
pub fn scan_check_cases(py: Python<'_>, given: &Bound<'_, PyDict>) -> PyResult<()> {
    options::check_cases(&pairs(given)?).map_err(|e| to_py(py, e))
}

/// Whether a read with options of these names goes through brokers, and not to files.
#[pyfunction]
pub fn scan_through_brokers(py: Python<'_>, names: Vec<String>) -> PyResult<bool> {
    let route = options::route(names.iter().map(String::as_str)).map_err(|e| to_py(py, e))?;
    Ok(route == options::Route::Brokers)
}

/// All columns and their types, in the words of Spark's DDL.
#[pyfunction]
pub fn scan_columns() -> Vec<(&'static str, &'static str)> {
    options::COLUMNS.to_vec()
}

/// The columns of a query: their names, the form of `properties`, and their struct type in Spark's
/// JSON. `schema` is the user's, in the same JSON.
#[pyfunction]
#[pyo3(signature = (given, query=None, schema=None))]
pub fn scan_schema<'py>(
    py: Python<'py>,
    given: &Bound<'py, PyDict>,
    query: Option<&str>,
    schema: Option<&str>,
) -> PyResult<(Bound<'py, PyTuple>, String, String)> {
    let schema: Option<Json> = match schema {
        Some(text) => Some(
            serde_json::from_str(text).map_err(|error| PyValueError::new_err(error.to_string()))?,
        ),
        None => None,
    };
    let found = options::check(&pairs(given)?, query_named(query)?)
        .and_then(|checked| options::columns(&checked, schema.as_ref()))
        .map_err(|error| to_py(py, error))?;
    let names = PyTuple::new(py, &found.names)?;
    Ok((names, found.properties, found.schema.to_string()))
}

fn query_named(name: Option<&str>) -> PyResult<Option<Query>> {
    let wrong = |name: &str| PyValueError::new_err(format!("there is no query {name:?}"));
    name.map(|name| Query::named(name).ok_or_else(|| wrong(name)))
        .transpose()
}

fn pairs(given: &Bound<'_, PyDict>) -> PyResult<Vec<(String, String)>> {
    given
        .iter()
        .map(|(key, value)| Ok((key.extract()?, value.extract()?)))
        .collect()
}

fn value_to_py<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Bool(flag) => flag.into_pyobject(py)?.to_owned().into_any(),
        Value::Int(number) => number.into_pyobject(py)?.into_any(),
        Value::Text(text) => text.into_pyobject(py)?.into_any(),
        Value::Names(names) | Value::Tags(Some(names)) => PyTuple::new(py, names)?.into_any(),
        Value::Tags(None) => py.None().into_bound(py),
        Value::Offsets(Offsets::Earliest) => "earliest".into_pyobject(py)?.into_any(),
        Value::Offsets(Offsets::Latest) => "latest".into_pyobject(py)?.into_any(),
        Value::Offsets(Offsets::Of(offsets)) => offsets.into_pyobject(py)?.into_any(),
        Value::Assign(queues) => {
            let topics = PyDict::new(py);
            for (topic, brokers) in queues {
                let of_topic = PyDict::new(py);
                for (broker, ids) in brokers {
                    of_topic.set_item(broker, PyTuple::new(py, ids)?)?;
                }
                topics.set_item(topic, of_topic)?;
            }
            topics.into_any()
        }
        Value::Times(times) => times_to_py(py, times, 0)?,
        Value::Storage(found) => json_to_py(py, &Json::Object(found.clone()))?,
        Value::Schema(schema) => json_to_py(py, schema)?,
    })
}

/// Times by topic, broker and queue; the queues are numbers.
fn times_to_py<'py>(py: Python<'py>, times: &Json, depth: usize) -> PyResult<Bound<'py, PyAny>> {
    let Json::Object(members) = times else {
        return json_to_py(py, times);
    };
    let dict = PyDict::new(py);
    for (name, inner) in members {
        let inner = times_to_py(py, inner, depth + 1)?;
        match name.parse::<i32>() {
            Ok(queue) if depth == 2 => dict.set_item(queue, inner)?,
            _ => dict.set_item(name, inner)?,
        }
    }
    Ok(dict.into_any())
}

fn json_to_py<'py>(py: Python<'py>, value: &Json) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Json::Null => py.None().into_bound(py),
        Json::Bool(flag) => flag.into_pyobject(py)?.to_owned().into_any(),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.into_pyobject(py)?.into_any(),
            (None, Some(number)) => number.into_pyobject(py)?.into_any(),
            (None, None) => number
                .as_f64()
                .unwrap_or(f64::NAN)
                .into_pyobject(py)?
                .into_any(),
        },
        Json::String(text) => text.into_pyobject(py)?.into_any(),
        Json::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(json_to_py(py, item)?)?;
            }
            list.into_any()
        }
        Json::Object(members) => {
            let dict = PyDict::new(py);
            for (name, item) in members {
                dict.set_item(name, json_to_py(py, item)?)?;
            }
            dict.into_any()
        }
    })
}
