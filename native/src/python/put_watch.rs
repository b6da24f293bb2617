//! `PutWatch`: which topics have stored messages since it was asked last.

use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// Of one store; see `Store.watch_puts`.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct PutWatch {
    store: Arc<pyrmq_store::Store>,
    inner: Mutex<pyrmq_store::PutWatch>,
}

impl PutWatch {
    pub fn new(store: &Arc<pyrmq_store::Store>) -> Self {
        let inner = Mutex::new(pyrmq_store::PutWatch::new(store));
        Self {
            store: store.clone(),
            inner,
        }
    }
}

#[pymethods]
impl PutWatch {
    /// The topics that have stored messages since this was called last: [(topic, messages)].
    fn grown(&self, py: Python<'_>) -> Vec<(String, u64)> {
        py.detach(|| {
            // A look that panics leaves numbers, each of which is whole.
            let mut watch = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let row = |(topic, messages): (Arc<pyrmq_store::Topic>, u64)| {
                (String::from_utf8_lossy(topic.name()).into_owned(), messages)
            };
            watch.grown(&self.store).into_iter().map(row).collect()
        })
    }
}
