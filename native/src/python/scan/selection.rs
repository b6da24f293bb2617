//! What is asked for, checked: `Selection` and `ReadOptions` of `pyrmq.segments`, as JSON, and the
//! texts that parameters may be given as.

use super::error::{run, to_py};
use super::places::parsed;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyrmq_scan::{Chooser, Offsets, ReadOptions, Result, Selection};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A selection that does not contradict itself: see engine.pyi.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct SegmentSelection {
    pub chosen: Arc<Selection>,
    chooser: Chooser<Arc<Selection>>,
}

#[pymethods]
impl SegmentSelection {
    #[new]
    fn new(py: Python<'_>, json: &str) -> PyResult<Self> {
        let chosen: Arc<Selection> = Arc::new(parsed(json.as_bytes(), "a selection")?);
        let chooser = run(py, |_| {
            chosen.check()?;
            Chooser::new(chosen.clone())
        })?;
        Ok(SegmentSelection { chosen, chooser })
    }

    /// Whether messages of a topic are asked for.
    fn selects(&self, py: Python<'_>, topic: &str) -> PyResult<bool> {
        self.chooser
            .selects(topic)
            .map_err(|error| to_py(py, error))
    }
}

/// How rows are made, checked: see engine.pyi.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct SegmentForm {
    pub form: ReadOptions,
}

#[pymethods]
impl SegmentForm {
    #[new]
    fn new(py: Python<'_>, json: &str) -> PyResult<Self> {
        let form: ReadOptions = parsed(json.as_bytes(), "options of a read")?;
        run(py, |_| form.check())?;
        Ok(SegmentForm { form })
    }
}

/// The name of a parameter as errors have it.
fn parameter(name: &str) -> PyResult<&'static str> {
    let known = ["starting_offsets", "ending_offsets", "assign"];
    let found = known.into_iter().find(|known| *known == name);
    found.ok_or_else(|| {
        PyValueError::new_err(format!("no parameter {name:?} has offsets or queues"))
    })
}

/// `earliest`, `latest`, or offsets by topic, broker and queue: see engine.pyi.
#[pyfunction]
pub fn parse_offsets<'py>(py: Python<'py>, text: &str, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let name = parameter(name)?;
    Ok(match raised(py, pyrmq_scan::parse_offsets(text, name))? {
        Offsets::Earliest => "earliest".into_pyobject(py)?.into_any(),
        Offsets::Latest => "latest".into_pyobject(py)?.into_any(),
        Offsets::Of(found) => found.into_pyobject(py)?.into_any(),
    })
}

/// Queues by topic and broker: see engine.pyi.
#[pyfunction]
pub fn parse_assign(
    py: Python<'_>,
    text: &str,
    name: &str,
) -> PyResult<BTreeMap<String, BTreeMap<String, Vec<i32>>>> {
    raised(py, pyrmq_scan::parse_assign(text, parameter(name)?))
}

/// The tags of an expression; None: all.
#[pyfunction]
pub fn parse_tags(py: Python<'_>, expression: &str) -> PyResult<Option<Vec<String>>> {
    raised(py, pyrmq_scan::parse_tags(expression))
}

/// The topics of a comma list.
#[pyfunction]
pub fn parse_topics(py: Python<'_>, text: &str) -> PyResult<Vec<String>> {
    raised(py, pyrmq_scan::parse_topics(text))
}

/// The error for a topic that is not there; it names those that are near.
#[pyfunction]
pub fn unknown_topic(
    py: Python<'_>,
    topic: &str,
    known: BTreeSet<String>,
    place: &str,
) -> Py<PyAny> {
    let error = pyrmq_scan::unknown_topic(topic, &known, place);
    to_py(py, error).into_value(py).into_any()
}

fn raised<T>(py: Python<'_>, found: Result<T>) -> PyResult<T> {
    found.map_err(|error| to_py(py, error))
}
