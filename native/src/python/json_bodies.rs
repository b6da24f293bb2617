//! `JsonBodies`: the bodies of a batch as structs, of those that fit a schema.

use super::arrow::Batch;
use super::encode::import;
use super::scan::error::to_py;
use arrow_array::RecordBatch;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyrmq_arrow::JsonType;
use pyrmq_arrow::json_bodies::{self, Bodies};
use pyrmq_scan::body_form;

#[pyclass(frozen, module = "pyrmq._native")]
pub struct JsonBodies {
    kind: JsonType,
    headed: bool,
}

#[pymethods]
impl JsonBodies {
    /// `schema`: a struct type in JSON, as `body_form::strict` takes it. `headed`: bodies begin with
    /// Confluent's header.
    #[new]
    fn new(py: Python<'_>, schema: &str, headed: bool) -> PyResult<Self> {
        let schema = serde_json::from_str(schema)
            .map_err(|e| PyValueError::new_err(format!("no JSON: {e}")))?;
        let kind = body_form::strict(&schema).map_err(|e| to_py(py, e))?;
        Ok(JsonBodies { kind, headed })
    }

    /// Some bodies of a batch, which has them as its only column, from the row `start` on: a batch
    /// with the column `value`, null for those that do not fit, and the rows of these. Both count
    /// from `start`; the next call begins where the batch ends.
    fn decode(
        &self,
        py: Python<'_>,
        batch: &Bound<'_, PyAny>,
        start: usize,
    ) -> PyResult<(Batch, Vec<u32>)> {
        let batch = import(batch)?;
        let bodies = match batch.columns() {
            [only] => Bodies::of(only.as_ref()),
            _ => None,
        };
        let bodies = bodies.ok_or_else(|| PyValueError::new_err("expected one binary column"))?;
        if start >= bodies.len() {
            return Err(PyValueError::new_err(format!("there is no row {start}")));
        }
        let part = py.detach(|| json_bodies::decode(&self.kind, &bodies, start, self.headed));
        let batch = RecordBatch::try_from_iter_with_nullable([("value", part.values, true)])
            .map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok((Batch(batch), part.unfit))
    }
}
