//! The rows of a task, batch by batch.

use super::error::{tell, to_py};
use crate::python::arrow::{Batch, BatchSchema, Shared, stats_dict, stream_of};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use pyrmq_scan::read::TaskReader;
use std::sync::Arc;

/// The reader of a task: see engine.pyi.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct SplitReader {
    shared: Arc<Shared<TaskReader>>,
    schema: SchemaRef,
}

impl SplitReader {
    pub fn new(reader: TaskReader) -> Self {
        SplitReader {
            schema: reader.schema(),
            shared: Arc::new(Shared::new(reader)),
        }
    }
}

/// The next batch of a reader; its notes are logged.
fn next(py: Python<'_>, shared: &Shared<TaskReader>) -> PyResult<Option<RecordBatch>> {
    let (batch, notes) = shared.with(py, |reader| (reader.next(), reader.notes()))?;
    tell(py, notes)?;
    batch.map_err(|error| to_py(py, error))
}

#[pymethods]
impl SplitReader {
    #[getter]
    fn schema(&self) -> BatchSchema {
        BatchSchema(self.schema.clone())
    }

    /// The next batch, never an empty one; None behind the last.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        Ok(next(py, &self.shared)?.map(Batch))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema); // a wish that may go unheard
        let shared = self.shared.clone();
        stream_of(py, self.schema.clone(), move |py| next(py, &shared))
    }

    /// What was read so far, in figures.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        stats_dict(py, self.shared.with(py, |reader| reader.stats())?)
    }
}

/// `Split.read`: record batches of pyarrow's.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct SplitBatches {
    reader: SplitReader,
    /// `pyarrow.record_batch`.
    made: Py<PyAny>,
}

impl SplitBatches {
    pub fn new(py: Python<'_>, reader: SplitReader) -> PyResult<Self> {
        let need = py.import("pyrmq.segments.filesystem")?.getattr("need")?;
        let arrow = need.call1(("pyarrow", "reading record batches"))?;
        Ok(SplitBatches {
            reader,
            made: arrow.getattr("record_batch")?.unbind(),
        })
    }
}

#[pymethods]
impl SplitBatches {
    fn __iter__(own: PyRef<'_, Self>) -> PyRef<'_, Self> {
        own
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        match next(py, &self.reader.shared)? {
            Some(batch) => Ok(Some(self.made.call1(py, (Batch(batch),))?)),
            None => Ok(None),
        }
    }
}
