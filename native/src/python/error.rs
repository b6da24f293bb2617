//! One match from the engine's errors to Python's.

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyrmq_arrow::ScanError;
use pyrmq_store::StoreError;
use std::ffi::OsStr;

/// Raises the class of `pyrmq.errors` that fits. The module is imported by name here, as the
/// classes are defined in Python for everyone.
pub fn to_py(py: Python<'_>, e: StoreError) -> PyErr {
    let name = match &e {
        StoreError::Io { errno, .. } if *errno != 0 => {
            let text = e.to_string();
            return PyOSError::new_err((*errno, text));
        }
        StoreError::Io { .. } => return PyOSError::new_err(e.to_string()),
        StoreError::Damaged { path, .. } => {
            let place = Place {
                path: Some(path.as_os_str()),
                ..Place::default()
            };
            return damaged(py, &e.to_string(), &place);
        }
        StoreError::FileSize {
            path, configured, ..
        } => {
            let place = Place {
                path: Some(path.as_os_str()),
                configured_size: Some(*configured),
                ..Place::default()
            };
            return damaged(py, &e.to_string(), &place);
        }
        StoreError::Locked(_) => "StoreLockedError",
        StoreError::Illegal(_) | StoreError::PropertiesTooLong(_) => "MessageIllegalError",
        StoreError::Busy(_) => "SystemBusyError",
        StoreError::NotAvailable(_)
        | StoreError::Replica
        | StoreError::InSyncReplicasNotEnough { .. }
        | StoreError::Misfit(_)
        | StoreError::Cold => "ServiceNotAvailableError",
    };
    raise(py, name, e.to_string())
}

/// The error of `pyrmq.errors` that is called `name`.
pub fn raise(py: Python<'_>, name: &str, text: String) -> PyErr {
    let class = py.import("pyrmq.errors").and_then(|m| m.getattr(name));
    match class.and_then(|c| c.call1((&text,))) {
        Ok(value) => PyErr::from_value(value),
        Err(_) => PyValueError::new_err(text),
    }
}

/// One match from what reading segments can meet to Python's errors.
pub fn scan_to_py(e: ScanError) -> PyErr {
    match e {
        ScanError::Damaged { next, .. } => Python::attach(|py| {
            let place = Place {
                next_record: next,
                ..Place::default()
            };
            damaged(py, &e.to_string(), &place)
        }),
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

/// What the fields of a `StoreDamagedError` say.
#[derive(Default)]
struct Place<'a> {
    path: Option<&'a OsStr>,
    next_record: Option<u64>,
    configured_size: Option<usize>,
}

fn damaged(py: Python<'_>, text: &str, place: &Place<'_>) -> PyErr {
    let made = || {
        let class = py.import("pyrmq.errors")?.getattr("StoreDamagedError")?;
        let error = class.call1((text,))?;
        error.setattr("path", place.path)?;
        error.setattr("next_record", place.next_record)?;
        error.setattr("configured_size", place.configured_size)?;
        Ok(error)
    };
    match made() {
        Ok(error) => PyErr::from_value(error),
        Err(e) => e,
    }
}
