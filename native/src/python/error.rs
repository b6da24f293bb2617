//! One match from the engine's errors to Python's.

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyrmq_store::StoreError;

/// Raises the class of `pyrmq.errors` that fits. The module is imported by name here, as the
/// classes are defined in Python for everyone.
pub fn to_py(py: Python<'_>, e: StoreError) -> PyErr {
    let name = match &e {
        StoreError::Io { errno, .. } if *errno != 0 => {
            let text = e.to_string();
            return PyOSError::new_err((*errno, text));
        }
        StoreError::Io { .. } => return PyOSError::new_err(e.to_string()),
        StoreError::Damaged { .. } => "StoreDamagedError",
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
