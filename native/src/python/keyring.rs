//! `Keyring`: whose signatures the sessions of a listener verify.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use std::collections::HashMap;
use std::sync::Arc;

/// Access keys with their secret keys; give it to a Listener. Nothing can be read from it.
#[pyclass(frozen, module = "pyrmq._native")]
#[derive(Default)]
pub struct Keyring {
    inner: Arc<pyrmq_broker::Keyring>,
}

impl Keyring {
    pub fn inner(&self) -> &Arc<pyrmq_broker::Keyring> {
        &self.inner
    }
}

#[pymethods]
impl Keyring {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// These access keys and secret keys count from now on, and no others. What was verified and granted
    /// before counts no more. ValueError for a key that cannot be one: nothing is changed then.
    fn replace(&self, keys: HashMap<PyBackedStr, PyBackedStr>) -> PyResult<()> {
        let pairs = keys.iter().map(|(name, secret)| (&**name, &**secret));
        self.inner.replace(pairs).map_err(PyValueError::new_err)
    }

    /// What was verified and granted counts no more: rights have changed.
    fn revoke(&self) {
        self.inner.revoke();
    }

    /// Another number whenever something was replaced or revoked.
    fn generation(&self) -> u64 {
        self.inner.generation()
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }
}
