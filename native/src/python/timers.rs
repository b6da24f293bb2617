//! `Timers`: timer messages that wait, and their delivery.

use super::error::to_py;
use super::store::Store;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use pyrmq_broker::timer::{self, Settings};
use pyrmq_format::timer::TimerCheck;
use pyrmq_store::Row;
use std::sync::Arc;

/// The timer messages of a store. Opening it reads wheel, timer log and check point, and the commit log
/// behind the latter; what is damaged is made again. `precision` (timerPrecisionMs) in ms, `roll_window`
/// (timerRollWindowSlot) in slots, `log_file_size` (mappedFileSizeTimerLog) in bytes, `now` is the clock, ms.
/// With `stop_enqueue` (timerStopEnqueue) what is not in the wheel stays where it is.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct Timers {
    inner: Arc<timer::Timers>,
    restored: timer::Restored,
}

impl Timers {
    pub fn inner(&self) -> &Arc<timer::Timers> {
        &self.inner
    }
}

#[pymethods]
impl Timers {
    #[new]
    #[pyo3(signature = (store, *, now, precision=1000, roll_window=172_800, log_file_size=100 << 20,
                        stop_enqueue=false))]
    fn new(
        py: Python<'_>,
        store: PyRef<'_, Store>,
        now: i64,
        precision: i64,
        roll_window: i64,
        log_file_size: u64,
        stop_enqueue: bool,
    ) -> PyResult<Self> {
        let store = store.inner().clone();
        let settings = Settings {
            precision,
            roll_window,
            log_file_size,
            stop_enqueue,
        };
        let (inner, restored) = py
            .detach(|| timer::Timers::open(store, settings, now))
            .map_err(|e| to_py(py, e))?;
        Ok(Timers {
            inner: Arc::new(inner),
            restored,
        })
    }

    /// What opening found: (bytes of the log that were read, messages delivered after the check point was
    /// kept, whether an Apache broker kept it).
    fn restored(&self) -> (u64, u64, bool) {
        let restored = &self.restored;
        (restored.read, restored.delivered, restored.is_foreign)
    }

    /// Puts at most `most` messages into the wheel; `now` is the clock, ms. Returns how many entries of the
    /// queue were dealt with. May read the disk.
    fn enqueue(&self, py: Python<'_>, now: i64, most: usize) -> PyResult<usize> {
        py.detach(|| self.inner.enqueue(now, most))
            .map_err(|e| to_py(py, e))
    }

    /// Messages that are not in the wheel.
    fn behind(&self) -> i64 {
        self.inner.behind()
    }

    /// ms until `deliver` has something to do, 0: now; None while nothing waits in the wheel. Reads nothing.
    fn due_in(&self, now: i64) -> Option<i64> {
        self.inner.due_in(now)
    }

    /// Delivers about `most` messages that are due at `now` (ms), after enqueuing all that is there; may
    /// read the disk. Returns how many units of the wheel were dealt with, and how many messages
    /// delivered. Where not all that is due could be, what failed is raised by the next call that deals
    /// with none.
    fn deliver(&self, py: Python<'_>, now: i64, most: usize) -> PyResult<(usize, usize)> {
        let done = py.detach(|| self.inner.deliver(now, most));
        match done.error {
            Some(e) if done.count == 0 => Err(to_py(py, e)),
            _ => Ok((done.count, done.given)),
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

    /// The check point as it is now, in the form of TIMER_CHECK_POINT, and the physical offset before
    /// which it says all about deliveries.
    fn check_point(&self, py: Python<'_>) -> PyResult<(Py<PyBytes>, u64)> {
        let progress = py
            .detach(|| self.inner.progress())
            .map_err(|e| to_py(py, e))?;
        let bytes = PyBytes::new(py, &progress.fields.encode());
        Ok((bytes.unbind(), progress.log_end))
    }

    /// Takes what `flush` keeps. Returns the physical offset up to which the commit log must be on disk
    /// before.
    fn prepare(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| self.inner.prepare()).map_err(|e| to_py(py, e))
    }

    /// Writes what `prepare` took: timer log, wheel and check point, to the disk.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.inner.flush()).map_err(|e| to_py(py, e))
    }

    /// Deletes files of the timer log whose messages the commit log has no more. Returns how many.
    fn clean(&self, py: Python<'_>) -> PyResult<usize> {
        py.detach(|| self.inner.clean()).map_err(|e| to_py(py, e))
    }

    /// A slave does what its master has done by a check point; False while the log here does not have
    /// all of that. ValueError if `check_point` is none.
    fn follow(&self, py: Python<'_>, now: i64, check_point: &[u8], log_end: u64) -> PyResult<bool> {
        let fields = TimerCheck::read(check_point)
            .filter(|fields| fields.read_ms >= 0 && fields.queue_offset >= 0)
            .ok_or_else(|| PyValueError::new_err("what the master answers is no check point"))?;
        py.detach(|| {
            self.inner
                .follow(now, fields.read_ms, fields.queue_offset, log_end)
        })
        .map_err(|e| to_py(py, e))
    }

    /// How many messages are due within `bounds[0]` seconds from `now` (ms), how many between that and
    /// `bounds[1]`, and so on; the last number is of all behind the last bound.
    fn histogram(&self, py: Python<'_>, now: i64, bounds: Vec<i64>) -> Vec<i64> {
        py.detach(|| self.inner.histogram(now, &bounds))
    }

    /// How many messages wait in the slot of a TIMER_OUT_MS.
    fn slot_count(&self, out_ms: i64) -> i64 {
        self.inner.slot_count(out_ms)
    }

    /// By topic how many messages wait, and when that changed last, ms.
    fn topics(&self) -> Vec<(String, i64, i64)> {
        let rows = self.inner.topics();
        rows.iter()
            .map(|(name, count, at)| (String::from_utf8_lossy(name).into_owned(), *count, *at))
            .collect()
    }

    /// What came and went since the start: [(topic, enqueued, delivered, [count, buckets…, sum])]. The last
    /// is of the seconds from the birth of messages to their time, in the buckets of DELAY_BOUNDS and one above.
    fn totals(&self) -> Vec<(String, u64, u64, Row)> {
        let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let rows = self.inner.totals().into_iter();
        rows.map(|row| (name(&row.topic), row.enqueued, row.dequeued, row.delays))
            .collect()
    }

    /// Continues with counts that were kept, of what waits in the wheel.
    fn set_topics(&self, rows: Vec<(String, i64, i64)>) {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, count, at)| (name.as_bytes(), *count, *at))
            .collect();
        self.inner.set_topics(&rows);
    }

    /// A topic was deleted.
    fn forget_topic(&self, name: &str) {
        self.inner.forget_topic(name.as_bytes());
    }

    /// Figures for operators.
    fn figures<'py>(&self, py: Python<'py>, now: i64) -> PyResult<Bound<'py, PyDict>> {
        let f = self.inner.figures(now);
        let dict = PyDict::new(py);
        dict.set_item("late", f.late)?;
        dict.set_item("queueOffset", f.queue_offset)?;
        dict.set_item("queueEnd", f.queue_end)?;
        dict.set_item("waiting", f.waiting)?;
        dict.set_item("enqueued", f.enqueued)?;
        dict.set_item("dequeued", f.dequeued)?;
        dict.set_item("lost", f.lost)?;
        dict.set_item("storedAt", f.stored_at)?;
        dict.set_item("enqueuedAt", f.enqueued_at)?;
        Ok(dict)
    }
}
