//! `Delays`: delayed messages, and what consumers send back.

use super::error::to_py;
use super::store::Store;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyrmq_broker::delay::{self, Destination};
use pyrmq_format::delay::Levels;
use pyrmq_store::StoreError;

/// The delayed messages of a store. `offsets`: by level, the queue offset to continue from, and
/// `log_end` what `progress` said with them: the log is read from there, to find what was delivered
/// afterwards. None: nothing but `offsets` counts.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct Delays {
    inner: delay::Delays,
    restored: delay::Restored,
}

/// A message that a consumer sends back; it keeps its file of the log mapped.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct Returned {
    inner: delay::Returned,
}

/// The delays of `messageDelayLevel`, in ms: level 1 first. ValueError if the text names none.
#[pyfunction]
pub fn delay_levels(text: &str) -> PyResult<Vec<i64>> {
    let levels = Levels::parse(text).map_err(PyValueError::new_err)?;
    Ok((1..=levels.highest())
        .map(|level| levels.delay(level))
        .collect())
}

#[pymethods]
impl Returned {
    /// How often it was sent back before.
    #[getter]
    fn reconsume_times(&self) -> i32 {
        self.inner.reconsume_times()
    }
}

#[pymethods]
impl Delays {
    #[new]
    #[pyo3(signature = (store, *, offsets=Vec::new(), log_end=None))]
    fn new(
        py: Python<'_>,
        store: PyRef<'_, Store>,
        offsets: Vec<i64>,
        log_end: Option<u64>,
    ) -> PyResult<Self> {
        let store = store.inner().clone();
        let (inner, restored) = py
            .detach(|| delay::Delays::open(store, &offsets, log_end))
            .map_err(|e| to_py(py, e))?;
        Ok(Delays { inner, restored })
    }

    /// What opening found in the log: (bytes read, messages delivered after progress was kept).
    fn restored(&self) -> (u64, u64) {
        (self.restored.read, self.restored.delivered)
    }

    /// ms until `deliver` has something to do, 0: now; None while nothing waits. Reads nothing.
    fn due_in(&self, now: i64) -> Option<i64> {
        self.inner.due_in(now)
    }

    /// Delivers about `most` messages that are due at `now` (ms); may read the disk. Returns how many
    /// were dealt with. Where not all that is due could be, what failed is raised by the next call
    /// that deals with none.
    fn deliver(&self, py: Python<'_>, now: i64, most: usize) -> PyResult<usize> {
        let done = py.detach(|| self.inner.deliver(now, most));
        match done.error {
            Some(e) if done.count == 0 => Err(to_py(py, e)),
            _ => Ok(done.count),
        }
    }

    /// Topics without configuration that messages were delivered to, since the last call.
    fn take_unknown(&self) -> Vec<String> {
        let names = self.inner.take_unknown();
        names
            .iter()
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect()
    }

    /// By level the queue offset of the first message that is not delivered, and the physical offset
    /// up to which the log must be on disk for it to count.
    fn progress(&self, py: Python<'_>) -> PyResult<(Vec<i64>, u64)> {
        let progress = py
            .detach(|| self.inner.progress())
            .map_err(|e| to_py(py, e))?;
        Ok((progress.offsets, progress.log_end))
    }

    /// By level: queue offset of the first message that is not delivered, and where its queue ends.
    fn levels(&self) -> Vec<(i64, i64)> {
        self.inner.levels()
    }

    /// The message at a physical offset that a consumer names: (True, it), (True, None) if no record
    /// starts there; (False, None) where only the disk knows and `wait` is False.
    fn find_returned(
        &self,
        py: Python<'_>,
        phys: u64,
        wait: bool,
    ) -> PyResult<(bool, Option<Returned>)> {
        match py.detach(|| self.inner.find_returned(phys, wait.into())) {
            Ok(found) => Ok((true, found.map(|inner| Returned { inner }))),
            Err(StoreError::Cold) => Ok((false, None)),
            Err(e) => Err(to_py(py, e)),
        }
    }

    /// Whether a message has room for the properties that send it to `topic` after a delay; if not it can be
    /// a dead letter only. Raises what `send_back` would raise of it, and stores nothing.
    fn has_room(
        &self,
        py: Python<'_>,
        returned: PyRef<'_, Returned>,
        topic: &str,
        level: i32,
    ) -> PyResult<bool> {
        let to = Destination {
            topic: topic.as_bytes(),
            queue_id: 0,
            level,
        };
        self.inner
            .has_room(&returned.inner, &to)
            .map_err(|e| to_py(py, e))
    }

    /// Stores a message that came back in `topic`, at once (level 0) or after a delay. Returns the
    /// physical offset up to which the log must be confirmed for it to count.
    fn send_back(
        &self,
        py: Python<'_>,
        returned: PyRef<'_, Returned>,
        topic: &str,
        queue_id: u32,
        level: i32,
    ) -> PyResult<u64> {
        let to = Destination {
            topic: topic.as_bytes(),
            queue_id,
            level,
        };
        let returned = &returned.inner;
        py.detach(|| self.inner.send_back(returned, &to))
            .map(|done| done.end())
            .map_err(|e| to_py(py, e))
    }
}
