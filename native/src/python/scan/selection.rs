//! What is asked for, checked: `Selection` and `ReadOptions` of `pyrmq.segments`, as JSON.

use super::error::{run, to_py};
use super::places::parsed;
use pyo3::prelude::*;
use pyrmq_scan::{ReadOptions, Selection};

/// A selection that does not contradict itself: see engine.pyi.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct SegmentSelection {
    pub chosen: Selection,
}

#[pymethods]
impl SegmentSelection {
    #[new]
    fn new(py: Python<'_>, json: &[u8]) -> PyResult<Self> {
        let chosen: Selection = parsed(json, "a selection")?;
        chosen.check().map_err(|error| to_py(py, error))?;
        Ok(SegmentSelection { chosen })
    }

    /// Whether messages of a topic are asked for.
    fn selects(&self, topic: &str) -> bool {
        self.chosen.selects(topic)
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
    fn new(py: Python<'_>, json: &[u8]) -> PyResult<Self> {
        let form: ReadOptions = parsed(json, "options of a read")?;
        form.check().map_err(|error| to_py(py, error))?;
        Ok(SegmentForm { form })
    }
}
