//! Raw segments as Arrow batches: `SegmentReader` and what plans its work.

use super::error::scan_to_py;
use super::read_request::{
    File, LogRange, ReadForm, Wanted, file_set, selection, skips, source_of,
};
use arrow_array::ffi::{FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, SchemaRef};
use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};
use pyrmq_arrow::{
    ALL, Advance, DEFAULT, Reader, Selection, Stats, advance, find_end, first_times,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

type Damaged = (String, u64, u64, u64, String);

/// Where the log of these files ends, and why: see engine.pyi.
#[pyfunction]
#[pyo3(signature = (files, start=None, *, opener=None))]
pub fn segment_end(
    py: Python<'_>,
    files: Vec<File>,
    start: Option<u64>,
    opener: Option<Py<PyAny>>,
) -> PyResult<(u64, String)> {
    let file_set = file_set(files, opener)?;
    py.detach(|| find_end(&file_set, start)).map_err(scan_to_py)
}

/// How far a read of `log` goes within bounds: see engine.pyi.
#[pyfunction]
#[pyo3(signature = (log, rule=None, *, max_rows=None, max_bytes=None, on_corruption="fail"))]
pub fn segment_advance(
    py: Python<'_>,
    log: &LogRange,
    rule: Option<Py<PyAny>>,
    max_rows: Option<u64>,
    max_bytes: Option<u64>,
    on_corruption: &str,
) -> PyResult<(u64, u64)> {
    let mut selection = selection(rule);
    let bounds = Advance {
        max_rows,
        max_bytes,
        skip: skips(on_corruption)?,
    };
    py.detach(|| advance(&log.file_set, (log.start, log.end), &mut selection, bounds))
        .map_err(scan_to_py)
}

/// Of each file the store time and physical offset of its first record, None if it has none.
#[pyfunction]
#[pyo3(signature = (files, *, opener=None))]
pub fn segment_times(
    py: Python<'_>,
    files: Vec<File>,
    opener: Option<Py<PyAny>>,
) -> PyResult<Vec<Option<(i64, u64)>>> {
    let file_set = file_set(files, opener)?;
    py.detach(|| first_times(&file_set)).map_err(scan_to_py)
}

/// Names of all columns, and how many of them are given by default.
pub fn column_names(py: Python<'_>) -> PyResult<(Bound<'_, PyTuple>, Bound<'_, PyTuple>)> {
    let names: Vec<&str> = ALL.iter().map(|c| c.name()).collect();
    Ok((
        PyTuple::new(py, &names[..DEFAULT])?,
        PyTuple::new(py, &names)?,
    ))
}

/// A batch of rows; Arrow's PyCapsule interface.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct Batch(pub RecordBatch);

#[pymethods]
impl Batch {
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema); // a wish that may go unheard
        let (array, mut schema) =
            to_ffi(&StructArray::from(self.0.clone()).to_data()).map_err(arrow_error)?;
        let fields = FFI_ArrowSchema::try_from(self.0.schema().as_ref());
        schema = fields.unwrap_or(schema);
        Ok((
            PyCapsule::new_with_value(py, schema, c"arrow_schema")?,
            PyCapsule::new_with_value(py, array, c"arrow_array")?,
        ))
    }
}

#[pyclass(frozen, module = "pyrmq._native")]
pub struct BatchSchema(pub SchemaRef);

#[pymethods]
impl BatchSchema {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.as_ref()).map_err(arrow_error)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }
}

fn arrow_error(e: ArrowError) -> PyErr {
    PyValueError::new_err(e.to_string())
}

/// A reader that several threads may hold. Its callbacks need the GIL, so nobody waits for it with
/// the GIL held; a callback that uses its own reader gets an error.
pub struct Shared<R> {
    reader: Mutex<R>,
    /// The thread that works with it, by the address of something of its own; 0 if none does.
    owner: AtomicUsize,
}

thread_local! {
    static OWN: u8 = const { 0 };
}

struct Owned<'a>(&'a AtomicUsize);

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl<R: Send> Shared<R> {
    pub fn new(reader: R) -> Self {
        Shared {
            reader: Mutex::new(reader),
            owner: AtomicUsize::new(0),
        }
    }

    pub fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut R) -> T + Send,
    ) -> PyResult<T> {
        let me = OWN.with(|own| std::ptr::from_ref(own) as usize);
        if self.owner.load(Ordering::Relaxed) == me {
            let text = "a reader cannot be used by its own rule or opener";
            return Err(PyRuntimeError::new_err(text));
        }
        Ok(py.detach(|| {
            let mut reader = self.reader.lock();
            self.owner.store(me, Ordering::Relaxed);
            let _owned = Owned(&self.owner);
            work(&mut reader)
        }))
    }
}

/// A part of a log as Arrow batches: see engine.pyi.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct SegmentReader {
    shared: Arc<Shared<Reader>>,
    schema: SchemaRef,
}

#[pymethods]
impl SegmentReader {
    #[new]
    #[pyo3(signature = (source, wanted=None, form=None, *, broker_name=""))]
    fn new(
        source: &Bound<'_, PyAny>,
        wanted: Option<Wanted>,
        form: Option<ReadForm>,
        broker_name: &str,
    ) -> PyResult<Self> {
        let settings = form.unwrap_or_default().settings(broker_name)?;
        let (way, local) = source_of(source)?;
        if settings.views && !local {
            return Err(PyValueError::new_err("views need local files"));
        }
        let wanted = Selection::from(wanted.unwrap_or_default());
        let reader = Reader::new(way, wanted, settings).map_err(scan_to_py)?;
        let schema = reader.schema();
        Ok(SegmentReader {
            shared: Arc::new(Shared::new(reader)),
            schema,
        })
    }

    #[getter]
    fn schema(&self) -> BatchSchema {
        BatchSchema(self.schema.clone())
    }

    /// The next batch, never an empty one; None behind the last.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let batch = self.shared.with(py, Reader::next_batch)?;
        Ok(batch.map_err(scan_to_py)?.map(Batch))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema); // a wish that may go unheard
        let shared = self.shared.clone();
        stream_of(py, self.schema.clone(), move |py| {
            shared.with(py, Reader::next_batch)?.map_err(scan_to_py)
        })
    }

    /// What was read so far, in figures.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        stats_dict(py, self.shared.with(py, |reader| reader.stats())?)
    }

    /// Damaged parts that were left out: (path, byte, physical offset, bytes, why).
    fn damage(&self, py: Python<'_>) -> PyResult<Vec<Damaged>> {
        let damage = self.shared.with(py, |reader| reader.damage().to_vec())?;
        let damage = damage.into_iter();
        Ok(damage
            .map(|d| (d.path, d.at, d.phys, d.bytes, d.why))
            .collect())
    }
}

pub fn stats_dict(py: Python<'_>, stats: Stats) -> PyResult<Bound<'_, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("records", stats.records)?;
    d.set_item("recordBytes", stats.record_bytes)?;
    d.set_item("rows", stats.rows)?;
    d.set_item("damagedParts", stats.damaged_parts)?;
    d.set_item("skippedBytes", stats.skipped_bytes)?;
    Ok(d)
}

/// The rest of a reader, for Arrow's stream interface.
struct Batches<F> {
    schema: SchemaRef,
    next: F,
}

type NextBatch = PyResult<Option<RecordBatch>>;

impl<F: FnMut(Python<'_>) -> NextBatch> Iterator for Batches<F> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        Python::attach(|py| (self.next)(py))
            .map_err(|e| ArrowError::ExternalError(e.to_string().into()))
            .transpose()
    }
}

impl<F: FnMut(Python<'_>) -> NextBatch> RecordBatchReader for Batches<F> {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// The capsule of a stream of what `next` gives.
pub fn stream_of<'py>(
    py: Python<'py>,
    schema: SchemaRef,
    next: impl FnMut(Python<'_>) -> NextBatch + Send + 'static,
) -> PyResult<Bound<'py, PyCapsule>> {
    let stream = FFI_ArrowArrayStream::new(Box::new(Batches { schema, next }));
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}
