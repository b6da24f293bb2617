//! Raw segments as Arrow batches: `SegmentReader` and what plans its work.

use arrow_array::ffi::{FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, SchemaRef};
use parking_lot::Mutex;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyMemoryView, PyTuple};
use pyrmq_arrow::{
    ALL, Advance, Column, DEFAULT, FileSet, LogFile, Open, OpenLocal, PropertiesForm, ReadAt,
    Reader, RecordSource, ScanError, Selection, Settings, TopicRule, TopicRules, Verify, advance,
    find_end, first_times,
};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One match from what reading segments can meet to Python's errors.
fn to_py(e: ScanError) -> PyErr {
    match e {
        ScanError::Damaged { .. } => damaged(&e.to_string()),
        ScanError::Io { path, error } => match error.raw_os_error() {
            Some(errno) => {
                let text = error.to_string();
                PyOSError::new_err((errno, text, path))
            }
            None => match error.downcast::<PyErr>() {
                Ok(raised) => raised,
                Err(error) => PyOSError::new_err(format!("{path}: {error}")),
            },
        },
        ScanError::Illegal(text) => PyValueError::new_err(text),
        ScanError::TopicRules(error) => match error.downcast::<PyErr>() {
            Ok(raised) => *raised,
            Err(error) => PyValueError::new_err(error.to_string()),
        },
    }
}

fn damaged(text: &str) -> PyErr {
    Python::attach(|py| {
        let class = py
            .import("pyrmq.errors")
            .and_then(|m| m.getattr("StoreDamagedError"));
        match class.and_then(|c| c.call1((text,))) {
            Ok(value) => PyErr::from_value(value),
            Err(e) => e,
        }
    })
}

/// Opens files through a callable of Python's.
struct PyOpen(Py<PyAny>);

struct PyFile(Py<PyAny>);

impl Open for PyOpen {
    fn open(&self, path: &str) -> io::Result<Box<dyn ReadAt>> {
        Python::attach(|py| match self.0.call1(py, (path,)) {
            Ok(file) => Ok(Box::new(PyFile(file)) as Box<dyn ReadAt>),
            Err(e) => Err(io::Error::other(e)),
        })
    }
}

impl ReadAt for PyFile {
    fn read_at(&mut self, to: &mut [u8], at: u64) -> io::Result<usize> {
        let mut have = 0;
        while have < to.len() {
            let (want, from) = (to.len() - have, at + have as u64);
            let got = Python::attach(|py| -> PyResult<usize> {
                let bytes = self.0.call_method1(py, "read_at", (want, from))?;
                let bytes = bytes.bind(py).cast::<PyBytes>()?.as_bytes();
                let n = bytes.len().min(want);
                to[have..have + n].copy_from_slice(&bytes[..n]);
                Ok(n)
            });
            match got.map_err(io::Error::other)? {
                0 => break,
                n => have += n,
            }
        }
        Ok(have)
    }
}

/// Asks a callable of Python's about a topic.
struct PyTopicRules(Py<PyAny>);

impl TopicRules for PyTopicRules {
    fn rule_of(&mut self, topic: &str) -> Result<TopicRule, ScanError> {
        Python::attach(|py| -> PyResult<TopicRule> {
            let answer = self.0.call1(py, (topic,))?;
            let answer = answer.bind(py);
            if let Ok(ranges) = answer.cast::<PyDict>() {
                let mut named = rustc_hash::FxHashMap::default();
                for (queue, range) in ranges {
                    named.insert(queue.extract::<i32>()?, range.extract::<(i64, i64)>()?);
                }
                let other = named.remove(&-1);
                return Ok(TopicRule::Queues { named, other });
            }
            Ok(match answer.extract::<bool>()? {
                true => TopicRule::All,
                false => TopicRule::Nothing,
            })
        })
        .map_err(|e| ScanError::TopicRules(Box::new(e)))
    }
}

type File = (u64, u64, String);
type Damaged = (String, u64, u64, u64, String);

fn file_set(files: Vec<File>, opener: Option<Py<PyAny>>) -> PyResult<FileSet> {
    let files = files.into_iter();
    let files = files.map(|(base, len, path)| LogFile { base, len, path });
    let open: Arc<dyn Open> = match opener {
        Some(callable) => Arc::new(PyOpen(callable)),
        None => Arc::new(OpenLocal),
    };
    FileSet::new(files.collect(), open).map_err(to_py)
}

fn selection(rule: Option<Py<PyAny>>) -> Selection {
    Selection::new(rule.map(|r| Box::new(PyTopicRules(r)) as Box<dyn TopicRules>))
}

/// "fail" or "skip", as bool.
fn skips(on_corruption: &str) -> PyResult<bool> {
    match on_corruption {
        "fail" => Ok(false),
        "skip" => Ok(true),
        _ => Err(PyValueError::new_err(
            "on_corruption must be 'fail' or 'skip'",
        )),
    }
}

/// Where the log of these files ends, and why: see engine.pyi.
#[pyfunction]
#[pyo3(signature = (files, start=-1, *, opener=None))]
pub fn segment_end(
    py: Python<'_>,
    files: Vec<File>,
    start: i64,
    opener: Option<Py<PyAny>>,
) -> PyResult<(u64, String)> {
    let file_set = file_set(files, opener)?;
    py.detach(|| find_end(&file_set, u64::try_from(start).ok()))
        .map_err(to_py)
}

/// How far a turn from `start` goes: see engine.pyi.
#[pyfunction]
#[pyo3(signature = (files, start, end, *, opener=None, rule=None, max_rows=-1, max_bytes=-1,
    on_corruption="fail"))]
#[allow(clippy::too_many_arguments)]
pub fn segment_advance(
    py: Python<'_>,
    files: Vec<File>,
    start: u64,
    end: u64,
    opener: Option<Py<PyAny>>,
    rule: Option<Py<PyAny>>,
    max_rows: i64,
    max_bytes: i64,
    on_corruption: &str,
) -> PyResult<(u64, u64)> {
    let file_set = file_set(files, opener)?;
    let mut selection = selection(rule);
    let bounds = Advance {
        max_rows: u64::try_from(max_rows).ok(),
        max_bytes: u64::try_from(max_bytes).ok(),
        skip: skips(on_corruption)?,
    };
    py.detach(|| advance(&file_set, (start, end), &mut selection, bounds))
        .map_err(to_py)
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
    py.detach(|| first_times(&file_set)).map_err(to_py)
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
pub struct Batch(RecordBatch);

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
pub struct BatchSchema(SchemaRef);

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
struct Shared {
    reader: Mutex<Reader>,
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

impl Shared {
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Reader) -> R + Send,
    ) -> PyResult<R> {
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
    shared: Arc<Shared>,
    schema: SchemaRef,
}

#[pymethods]
impl SegmentReader {
    #[new]
    #[pyo3(signature = (files, start, end, *, opener=None, exact=false, log_end=-1, positions=None,
        records=None, columns=None, properties="map", broker_name="", rule=None,
        start_time=i64::MIN, end_time=i64::MAX, tags=None, key=None, decompress=true,
        verify_crc="tail", on_corruption="fail", batch_rows=10_000, batch_bytes=1 << 20,
        views=false))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        files: Vec<File>,
        start: u64,
        end: u64,
        opener: Option<Py<PyAny>>,
        exact: bool,
        log_end: i64,
        positions: Option<Bound<'_, PyAny>>,
        records: Option<Bound<'_, PyAny>>,
        columns: Option<Vec<String>>,
        properties: &str,
        broker_name: &str,
        rule: Option<Py<PyAny>>,
        start_time: i64,
        end_time: i64,
        tags: Option<Vec<String>>,
        key: Option<String>,
        decompress: bool,
        verify_crc: &str,
        on_corruption: &str,
        batch_rows: usize,
        batch_bytes: usize,
        views: bool,
    ) -> PyResult<Self> {
        if views && opener.is_some() {
            return Err(PyValueError::new_err("views need local files"));
        }
        let settings = Settings {
            columns: match columns {
                Some(names) => named_columns(&names)?,
                None => ALL[..DEFAULT].to_vec(),
            },
            form: match properties {
                "map" => PropertiesForm::Map,
                "json" => PropertiesForm::Json,
                "raw" => PropertiesForm::Raw,
                _ => {
                    let text = "properties must be 'map', 'json' or 'raw'";
                    return Err(PyValueError::new_err(text));
                }
            },
            broker: broker_name.to_owned(),
            decompress,
            verify: match verify_crc {
                "none" => Verify::Nothing,
                "tail" => Verify::Tail,
                "all" => Verify::All,
                _ => {
                    let text = "verify_crc must be 'none', 'tail' or 'all'";
                    return Err(PyValueError::new_err(text));
                }
            },
            skip: skips(on_corruption)?,
            batch_rows: batch_rows.min(1 << 24),
            batch_bytes: batch_bytes.min(1 << 30),
            views,
        };
        let ranged = !files.is_empty() || opener.is_some() || exact || (start, end) != (0, 0);
        if records.is_some() && (ranged || log_end != -1) {
            let text = "records come with no files, no range and no opener";
            return Err(PyValueError::new_err(text));
        }
        let way = match (positions, records) {
            (None, None) => RecordSource::Range {
                file_set: file_set(files, opener)?,
                range: (start, end),
                log_end: u64::try_from(log_end).unwrap_or(end),
                exact,
            },
            (Some(places), None) => RecordSource::Places {
                file_set: file_set(files, opener)?,
                places: places_of(&bytes_of(&places)?)?,
            },
            (None, Some(records)) => RecordSource::Records(bytes_of(&records)?),
            _ => {
                let text = "positions and records exclude each other";
                return Err(PyValueError::new_err(text));
            }
        };
        let mut wanted = selection(rule);
        wanted.times = (start_time, end_time);
        (wanted.tags, wanted.key) = (tags, key);
        let reader = Reader::new(way, wanted, settings).map_err(to_py)?;
        let schema = reader.schema();
        let shared = Shared {
            reader: Mutex::new(reader),
            owner: AtomicUsize::new(0),
        };
        Ok(SegmentReader {
            shared: Arc::new(shared),
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
        Ok(batch.map_err(to_py)?.map(Batch))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema); // a wish that may go unheard
        let batches = Batches {
            schema: self.schema.clone(),
            shared: self.shared.clone(),
        };
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// What was read so far, in figures.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.shared.with(py, |reader| reader.stats())?;
        let d = PyDict::new(py);
        d.set_item("records", stats.records)?;
        d.set_item("recordBytes", stats.record_bytes)?;
        d.set_item("rows", stats.rows)?;
        d.set_item("damagedParts", stats.damaged_parts)?;
        d.set_item("skippedBytes", stats.skipped_bytes)?;
        Ok(d)
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

fn named_columns(names: &[String]) -> PyResult<Vec<Column>> {
    let mut columns = Vec::with_capacity(names.len());
    for name in names {
        let column = Column::named(name).ok_or_else(|| {
            let known: Vec<_> = ALL.iter().map(|c| c.name()).collect();
            PyValueError::new_err(format!(
                "no column {name:?}; there are {}",
                known.join(", ")
            ))
        })?;
        if columns.contains(&column) {
            return Err(PyValueError::new_err(format!(
                "column {name} is named twice"
            )));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// A copy of what an object holds that has the buffer protocol.
fn bytes_of(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().to_vec());
    }
    let bytes = PyMemoryView::from(object)?.call_method0("tobytes")?;
    Ok(bytes.cast::<PyBytes>()?.as_bytes().to_vec())
}

/// Pairs of little-endian int64: physical offset, record size.
fn places_of(bytes: &[u8]) -> PyResult<Vec<(u64, u32)>> {
    let (pairs, rest) = bytes.as_chunks::<16>();
    let number = |b: &[u8]| i64::from_le_bytes(b.try_into().expect("8 bytes"));
    let place = |pair: &[u8; 16]| {
        let (phys, size) = (number(&pair[..8]), number(&pair[8..]));
        Some((u64::try_from(phys).ok()?, u32::try_from(size).ok()?))
    };
    let places: Option<Vec<_>> = pairs.iter().map(place).collect();
    match places {
        Some(places) if rest.is_empty() => Ok(places),
        _ => Err(PyValueError::new_err(
            "positions must be pairs of int64: physical offset and record size, neither negative",
        )),
    }
}

/// The rest of a reader, for Arrow's stream interface.
struct Batches {
    schema: SchemaRef,
    shared: Arc<Shared>,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = Python::attach(|py| self.shared.with(py, Reader::next_batch)?.map_err(to_py));
        batch
            .map_err(|e| ArrowError::ExternalError(e.to_string().into()))
            .transpose()
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
