//! What a `SegmentReader` is asked: where records are, which are wanted, how rows are made of them.

use super::error::scan_to_py;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMemoryView};
use pyrmq_arrow::{
    ALL, BodyForm, Column, DEFAULT, FileSet, LogFile, Open, OpenLocal, PropertiesForm, ReadAt,
    RecordSource, ScanError, Selection, Settings, TopicRule, TopicRules, Verify,
};
use std::io;
use std::sync::Arc;

/// Opens files through a callable of Python's.
struct PyOpen(Py<PyAny>);

/// An open file of Python's, with `read_at`.
pub struct PyFile(pub Py<PyAny>);

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

pub type File = (u64, u64, String);

/// A range of a log in its files: see engine.pyi.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct LogRange {
    pub file_set: FileSet,
    pub start: u64,
    pub end: u64,
    log_end: u64,
    exact: bool,
    local: bool,
}

#[pymethods]
impl LogRange {
    #[new]
    #[pyo3(signature = (files, start, end, *, opener=None, exact=false, log_end=None))]
    fn new(
        files: Vec<File>,
        start: u64,
        end: u64,
        opener: Option<Py<PyAny>>,
        exact: bool,
        log_end: Option<u64>,
    ) -> PyResult<Self> {
        Ok(LogRange {
            local: opener.is_none(),
            file_set: file_set(files, opener)?,
            start,
            end,
            log_end: log_end.unwrap_or(end),
            exact,
        })
    }
}

/// Records of a log at known places: see engine.pyi.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct LogPlaces {
    file_set: FileSet,
    places: Vec<(u64, u32)>,
    local: bool,
}

#[pymethods]
impl LogPlaces {
    #[new]
    #[pyo3(signature = (files, positions, *, opener=None))]
    fn new(
        files: Vec<File>,
        positions: Bound<'_, PyAny>,
        opener: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        Ok(LogPlaces {
            local: opener.is_none(),
            file_set: file_set(files, opener)?,
            places: places_of(&bytes_of(&positions)?)?,
        })
    }
}

/// Records back to back, as in the answer to a pull: see engine.pyi.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct RecordBytes(Vec<u8>);

#[pymethods]
impl RecordBytes {
    #[new]
    fn new(data: Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(RecordBytes(bytes_of(&data)?))
    }
}

/// What a reader reads; `RecordSource` and whether its files are local.
pub fn source_of(source: &Bound<'_, PyAny>) -> PyResult<(RecordSource, bool)> {
    if let Ok(range) = source.cast::<LogRange>() {
        let range = range.get();
        let way = RecordSource::Range {
            file_set: range.file_set.clone(),
            range: (range.start, range.end),
            log_end: range.log_end,
            exact: range.exact,
        };
        return Ok((way, range.local));
    }
    if let Ok(at) = source.cast::<LogPlaces>() {
        let at = at.get();
        let way = RecordSource::Places {
            file_set: at.file_set.clone(),
            places: at.places.clone(),
        };
        return Ok((way, at.local));
    }
    if let Ok(records) = source.cast::<RecordBytes>() {
        return Ok((RecordSource::Records(records.get().0.clone()), true));
    }
    Err(PyTypeError::new_err(
        "the source of a reader is a LogRange, LogPlaces or RecordBytes",
    ))
}

/// What is asked for, by the attributes of an object of Python's (`Wanted` in engine.pyi).
#[derive(FromPyObject, Default)]
pub struct Wanted {
    rule: Option<Py<PyAny>>,
    start_time: Option<i64>,
    end_time: Option<i64>,
    tags: Option<Vec<String>>,
    key: Option<String>,
}

impl From<Wanted> for Selection {
    fn from(wanted: Wanted) -> Selection {
        let mut selection = selection(wanted.rule);
        selection.times = (
            wanted.start_time.unwrap_or(i64::MIN),
            wanted.end_time.unwrap_or(i64::MAX),
        );
        (selection.tags, selection.key) = (wanted.tags, wanted.key);
        selection
    }
}

/// How rows are made, by the attributes of an object of Python's (`ReadForm` in engine.pyi).
#[derive(FromPyObject)]
pub struct ReadForm {
    columns: Vec<String>,
    properties: String,
    decompress: bool,
    verify_crc: String,
    on_corruption: String,
    batch_rows: usize,
    batch_bytes: usize,
    views: bool,
}

impl Default for ReadForm {
    fn default() -> Self {
        ReadForm {
            columns: Vec::new(),
            properties: "map".to_owned(),
            decompress: true,
            verify_crc: "tail".to_owned(),
            on_corruption: "fail".to_owned(),
            batch_rows: 10_000,
            batch_bytes: 1 << 20,
            views: false,
        }
    }
}

impl ReadForm {
    pub fn settings(&self, broker_name: &str) -> PyResult<Settings> {
        let (form, left_out) = match self.properties.as_str() {
            "map" => (PropertiesForm::Map, None),
            "json" => (PropertiesForm::Json, None),
            "raw" => (PropertiesForm::Raw, None),
            "none" => (PropertiesForm::Map, Some(Column::Properties)),
            _ => {
                let text = "properties must be 'map', 'json', 'raw' or 'none'";
                return Err(PyValueError::new_err(text));
            }
        };
        let columns = match self.columns.is_empty() {
            true => {
                let default = ALL[..DEFAULT].iter().copied();
                default.filter(|c| Some(*c) != left_out).collect()
            }
            false => named_columns(&self.columns)?,
        };
        Ok(Settings {
            columns,
            form,
            body: BodyForm::Binary,
            broker: broker_name.to_owned(),
            decompress: self.decompress,
            verify: match self.verify_crc.as_str() {
                "none" => Verify::Nothing,
                "tail" => Verify::Tail,
                "all" => Verify::All,
                _ => {
                    let text = "verify_crc must be 'none', 'tail' or 'all'";
                    return Err(PyValueError::new_err(text));
                }
            },
            skip: skips(&self.on_corruption)?,
            batch_rows: self.batch_rows.min(1 << 24),
            batch_bytes: self.batch_bytes.min(1 << 30),
            views: self.views,
        })
    }
}

pub fn file_set(files: Vec<File>, opener: Option<Py<PyAny>>) -> PyResult<FileSet> {
    let files = files.into_iter();
    let files = files.map(|(base, len, path)| LogFile { base, len, path });
    let open: Arc<dyn Open> = match opener {
        Some(callable) => Arc::new(PyOpen(callable)),
        None => Arc::new(OpenLocal),
    };
    FileSet::new(files.collect(), open).map_err(scan_to_py)
}

pub fn selection(rule: Option<Py<PyAny>>) -> Selection {
    Selection::new(rule.map(|r| Box::new(PyTopicRules(r)) as Box<dyn TopicRules>))
}

/// "fail" or "skip", as bool.
pub fn skips(on_corruption: &str) -> PyResult<bool> {
    match on_corruption {
        "fail" => Ok(false),
        "skip" => Ok(true),
        _ => Err(PyValueError::new_err(
            "on_corruption must be 'fail' or 'skip'",
        )),
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
