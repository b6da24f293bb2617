//! Errors and notes of segment reads: the classes of `pyrmq.errors`, and lines of the logger
//! `pyrmq.segments`.

use pyo3::exceptions::{PyNotImplementedError, PyOSError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyrmq_scan::{Kind, Level, Notes, Part, Result, SegmentError};

/// Runs the work without the GIL, writes its notes to the log, and raises its error.
pub fn run<T: Send>(py: Python<'_>, work: impl FnOnce(&Notes) -> Result<T> + Send) -> PyResult<T> {
    let notes = Notes::default();
    let found = py.detach(|| work(&notes));
    tell(py, notes.take())?;
    found.map_err(|error| to_py(py, error))
}

/// Writes notes to the log.
pub fn tell(py: Python<'_>, notes: Vec<(Level, String)>) -> PyResult<()> {
    if notes.is_empty() {
        return Ok(());
    }
    let log = py
        .import("logging")?
        .call_method1("getLogger", ("pyrmq.segments",))?;
    let escape = py.import("pyrmq.escape")?.getattr("escape")?;
    for (level, text) in notes {
        let name = match level {
            Level::Info => "info",
            Level::Warning => "warning",
        };
        log.call_method1(name, ("%s", escape.call1((text,))?))?;
    }
    Ok(())
}

/// The error of `pyrmq.errors`, an OSError, or what the caller's own code raised.
pub fn to_py(py: Python<'_>, mut error: SegmentError) -> PyErr {
    if let Some(callers) = error.callers.take() {
        match callers.downcast::<PyErr>() {
            Ok(raised) => return *raised,
            Err(other) => error.callers = Some(other),
        }
    }
    if error.kind == Kind::Io {
        return os_error(py, error);
    }
    made(py, &error).unwrap_or_else(|failed| failed)
}

/// With the hint as a note.
fn os_error(py: Python<'_>, mut error: SegmentError) -> PyErr {
    let hint = error.hint.take();
    let raised = bare_os_error(error);
    if let Some(hint) = hint {
        let note = SegmentError::rendered(&hint, plain);
        // Who was told the error without its note was told the error.
        let _ = raised.value(py).call_method1("add_note", (note,));
    }
    raised
}

fn plain(name: &str, value: Option<&str>) -> String {
    match value {
        Some(value) => format!("{name}={value}"),
        None => name.to_owned(),
    }
}

fn bare_os_error(mut error: SegmentError) -> PyErr {
    let text = error.to_string();
    let Some(source) = error.source.take() else {
        return PyOSError::new_err(text);
    };
    match (source.raw_os_error(), source.downcast::<PyErr>()) {
        (_, Ok(raised)) => raised,
        (Some(errno), Err(source)) => PyOSError::new_err((errno, source.to_string(), error.path)),
        (None, Err(_)) => PyOSError::new_err(text),
    }
}

fn made(py: Python<'_>, error: &SegmentError) -> PyResult<PyErr> {
    let class = py.import("pyrmq.errors")?.getattr(error.kind.class())?;
    if matches!(error.kind, Kind::Config | Kind::Internal) {
        let made = class.call1((error.to_string(),))?;
        if let Some(hint) = &error.hint {
            made.setattr("hint", SegmentError::rendered(hint, plain))?;
        }
        return Ok(PyErr::from_value(made));
    }
    let hint = error.hint.as_deref().map(|hint| parts(py, hint));
    let made = class.call1((parts(py, &error.text)?, hint.transpose()?))?;
    if error.kind == Kind::Damaged {
        made.setattr("next_record", error.next_record)?;
    }
    Ok(PyErr::from_value(made))
}

/// A text as `pyrmq.errors.Text`.
fn parts<'py>(py: Python<'py>, parts: &[Part]) -> PyResult<Bound<'py, PyList>> {
    let parameter = py.import("pyrmq.errors")?.getattr("Parameter")?;
    let list = PyList::empty(py);
    for part in parts {
        match part {
            Part::Text(text) => list.append(text)?,
            Part::Name(name) => list.append(parameter.call1((*name,))?)?,
            Part::Value(name, "true" | "True") => list.append(parameter.call1((*name, true))?)?,
            Part::Value(name, "false" | "False") => {
                list.append(parameter.call1((*name, false))?)?
            }
            Part::Value(name, value) => list.append(parameter.call1((*name, *value))?)?,
            Part::Given(name, value) => list.append(parameter.call1((*name, value))?)?,
        }
    }
    Ok(list)
}

/// What the caller's own code raised, for the engine to judge or to hand on.
pub fn from_py(py: Python<'_>, raised: PyErr) -> SegmentError {
    let value = raised.value(py);
    let text = value.to_string();
    let mut out = SegmentError::new(kind_of(py, &raised), text);
    if out.kind == Kind::Io {
        out.path = value
            .getattr("filename")
            .and_then(|name| name.extract())
            .ok();
    }
    out.callers = Some(Box::new(raised));
    out
}

fn kind_of(py: Python<'_>, raised: &PyErr) -> Kind {
    if raised.is_instance_of::<PyOSError>(py) || raised.is_instance_of::<PyNotImplementedError>(py)
    {
        return Kind::Io;
    }
    let errors = py.import("pyrmq.errors");
    let known = [
        Kind::UnknownTopic,
        Kind::OffsetOutOfRange,
        Kind::Option,
        Kind::Path,
        Kind::Layout,
        Kind::DataLoss,
        Kind::Damaged,
        Kind::Checkpoint,
        Kind::Segment,
    ];
    let is = |kind: &Kind| {
        let class = errors.as_ref().ok()?.getattr(kind.class()).ok()?;
        raised.value(py).is_instance(&class).ok()
    };
    let found = known.into_iter().find(|kind| is(kind) == Some(true));
    found.unwrap_or(Kind::Internal)
}
