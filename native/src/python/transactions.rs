//! `Transactions`: which halves wait, and what is done with them beside the plain path.

use super::error::to_py;
use super::store::Store;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use pyrmq_broker::txn::{self, DueRule, Half, Limits, Pending, Start, Timing};
use std::sync::Arc;

/// The transactions of a store. Opening it reads the half and the op topic from `half_offset`
/// and `op_offset` on (the offsets of CID_RMQ_SYS_TRANS; negative: from their start). Clients store no
/// more halves while `max_pending` wait. Give it to the
/// `Listener`, which settles the plain cases without Python.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct Transactions {
    inner: Arc<txn::Transactions>,
    rebuilt: txn::Rebuilt,
}

/// (queue offset, physical offset, bornTimestamp in ms, store time of the first or last asked copy in
/// ms, immunity in seconds or -1, checks, producer group, real topic).
type Facts = (i64, u64, i64, i64, i32, u16, String, String);

fn facts(offset: i64, p: Pending) -> Facts {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        offset,
        p.phys,
        p.born,
        p.since,
        p.immunity,
        p.checks,
        text(&p.origin.group),
        text(&p.origin.topic),
    )
}

/// What time has done to a half: "young", "due", "exhausted" or "expired". `born`, `since`, `now` and
/// `timeout` (transactionTimeOut), `reserved` (fileReservedTime) in ms; `immunity` in seconds, negative
/// without one; `check_max` is transactionCheckMax.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn half_timing(
    born: i64,
    since: i64,
    immunity: i32,
    checks: u16,
    now: i64,
    timeout: i64,
    check_max: u16,
    reserved: i64,
) -> &'static str {
    let rule = DueRule {
        now,
        timeout,
        check_max,
        reserved,
    };
    match rule.timing(born, since, immunity, checks) {
        Timing::Young => "young",
        Timing::Due => "due",
        Timing::Exhausted => "exhausted",
        Timing::Expired => "expired",
    }
}

impl Transactions {
    pub fn inner(&self) -> &Arc<txn::Transactions> {
        &self.inner
    }
}

#[pymethods]
impl Transactions {
    #[new]
    #[pyo3(signature = (store, *, half_offset=-1, op_offset=-1, max_op_body=4096,
                        max_pending=5_000_000))]
    fn new(
        py: Python<'_>,
        store: PyRef<'_, Store>,
        half_offset: i64,
        op_offset: i64,
        max_op_body: usize,
        max_pending: usize,
    ) -> PyResult<Self> {
        let limits = Limits {
            op_body: max_op_body,
            pending: max_pending,
        };
        let store = store.inner().clone();
        let start = Start {
            half: half_offset,
            op: op_offset,
        };
        let (inner, rebuilt) = py
            .detach(|| {
                let (transactions, rebuilt) = txn::Transactions::open(store, start, limits)?;
                if let Err(e) = transactions.write_owed() {
                    log::error!(path:% = e.path().display(); "op records not written, they are tried again: {e}");
                }
                Ok((transactions, rebuilt))
            })
            .map_err(|e| to_py(py, e))?;
        Ok(Transactions {
            inner: Arc::new(inner),
            rebuilt,
        })
    }

    /// What opening found: pending, halves and ops (places read), ended (dealt with by a
    /// record without op record), replaced (by a later copy), broken (can never be settled).
    fn rebuilt<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let d = PyDict::new(py);
        let r = &self.rebuilt;
        d.set_item("pending", r.pending)?;
        d.set_item("halves", r.halves)?;
        d.set_item("ops", r.ops)?;
        d.set_item("ended", r.ended)?;
        d.set_item("replaced", r.replaced)?;
        d.set_item("broken", r.broken)?;
        Ok(d)
    }

    /// Waiting halves for which `half_timing` gives something else than "young", by offset from `start` up
    /// to `until` (not included): at most `limit`, and of those that are among the next `most`; and the
    /// offset to continue from. `now`, `timeout`, `check_max` and `reserved` as for `half_timing`.
    #[allow(clippy::too_many_arguments)]
    fn due(
        &self,
        now: i64,
        timeout: i64,
        check_max: u16,
        reserved: i64,
        start: i64,
        until: i64,
        limit: usize,
        most: usize,
    ) -> (Vec<Facts>, i64) {
        let rule = DueRule {
            now,
            timeout,
            check_max,
            reserved,
        };
        let (found, next) = self.inner.due(&rule, start..until, limit, most);
        (found.into_iter().map(|(o, p)| facts(o, p)).collect(), next)
    }

    /// Queue offsets of waiting halves below one, in order.
    fn before(&self, offset: i64, limit: usize) -> Vec<i64> {
        self.inner.before(offset, limit)
    }

    /// How many halves wait.
    fn pending(&self) -> usize {
        self.inner.pending()
    }

    /// What is known of the half at a queue offset, None if none waits there.
    fn find(&self, offset: i64) -> Option<Facts> {
        self.inner.find(offset).map(|p| facts(offset, p))
    }

    /// Queue offset of the copy that waits of the transaction whose half (or an older copy) stands
    /// at a physical offset; None if it is settled, or there is none. SystemBusyError while a slow disk
    /// has not taken the copy.
    fn live(&self, py: Python<'_>, phys: u64) -> PyResult<Option<i64>> {
        py.detach(
            || match Half::find(self.inner.store(), txn::HALF_TOPIC, phys)? {
                Some(half) => self.inner.live(&half, half.view().queue_offset),
                None => Ok(None),
            },
        )
        .map_err(|e| to_py(py, e))
    }

    /// What was decided about the transaction whose half (or an older copy) stands at a physical offset:
    /// whether it was committed, None if that is not remembered; and whether all that was settled
    /// since the start is.
    fn decided(&self, py: Python<'_>, phys: u64) -> PyResult<(Option<bool>, bool)> {
        py.detach(
            || match Half::find(self.inner.store(), txn::HALF_TOPIC, phys)? {
                Some(half) => Ok(self.inner.decided(&half)),
                None => Ok((None, false)),
            },
        )
        .map_err(|e| to_py(py, e))
    }

    /// Remembers what was decided about a half that was discarded.
    fn decide_discarded(&self, py: Python<'_>, phys: u64, commit: bool) -> PyResult<()> {
        py.detach(|| {
            if let Some(half) = Half::find(self.inner.store(), txn::HALF_TOPIC, phys)? {
                self.inner.decide_discarded(&half, commit);
            }
            Ok(())
        })
        .map_err(|e| to_py(py, e))
    }

    /// The record of a half, or of a message that was discarded (`discarded`), at a physical offset, also
    /// one that is not flushed yet; None if there is none.
    #[pyo3(signature = (phys, discarded=false))]
    fn record<'py>(
        &self,
        py: Python<'py>,
        phys: u64,
        discarded: bool,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let topic = if discarded {
            txn::CHECK_MAX_TOPIC
        } else {
            txn::HALF_TOPIC
        };
        let half = py
            .detach(|| Half::find(self.inner.store(), topic, phys))
            .map_err(|e| to_py(py, e))?;
        Ok(half.map(|half| PyBytes::new(py, half.bytes())))
    }

    /// Commits or rolls back the waiting half at a queue offset. Returns the physical offset up to
    /// which the log must be durable for it to count.
    fn settle(&self, py: Python<'_>, offset: i64, commit: bool) -> PyResult<u64> {
        py.detach(|| self.inner.settle(offset, commit))
            .map_err(|e| to_py(py, e))
    }

    /// Appends halves again, with `asked` counted as checked once more. Returns for each that still
    /// waited: (old queue offset, new one, physical offset, unique key, its record in its real topic).
    #[allow(clippy::type_complexity)]
    fn renew<'py>(
        &self,
        py: Python<'py>,
        offsets: Vec<i64>,
        asked: bool,
    ) -> PyResult<Vec<(i64, i64, u64, String, Bound<'py, PyBytes>)>> {
        let copies = py
            .detach(|| self.inner.renew(&offsets, asked))
            .map_err(|e| to_py(py, e))?;
        Ok(copies
            .into_iter()
            .map(|c| {
                let key = String::from_utf8_lossy(&c.unique_key).into_owned();
                let record = PyBytes::new(py, &c.record);
                (c.old, c.offset, c.phys, key, record)
            })
            .collect())
    }

    /// Moves a waiting half to TRANS_CHECK_MAX_TIME_TOPIC. Returns its unique key and physical offset
    /// there.
    fn discard(&self, py: Python<'_>, offset: i64) -> PyResult<(String, u64)> {
        let (key, phys) = py
            .detach(|| self.inner.discard(offset))
            .map_err(|e| to_py(py, e))?;
        Ok((String::from_utf8_lossy(&key).into_owned(), phys))
    }

    /// Makes a half of a message that was discarded again. Returns its queue offset and what must be
    /// durable.
    fn resume(&self, py: Python<'_>, phys: u64) -> PyResult<(i64, u64)> {
        py.detach(|| self.inner.resume(phys))
            .map_err(|e| to_py(py, e))
    }

    /// Delivers a message that was discarded. `prepared`: the physical offset of its half. Returns
    /// what must be durable.
    fn deliver_late(&self, py: Python<'_>, phys: u64, prepared: u64) -> PyResult<u64> {
        py.detach(|| self.inner.deliver_late(phys, prepared))
            .map_err(|e| to_py(py, e))
    }

    /// Writes op records that could not be written when their half was settled.
    fn write_owed(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.inner.write_owed())
            .map_err(|e| to_py(py, e))
    }

    /// (half offset, op offset, physical offset): how far all is settled, which holds once the log is
    /// durable up to the third.
    fn progress(&self, py: Python<'_>) -> PyResult<(i64, i64, u64)> {
        let p = py
            .detach(|| self.inner.progress())
            .map_err(|e| to_py(py, e))?;
        Ok((p.half, p.op, p.log_end))
    }

    /// Figures since the start: halves, commits, rollbacks, checks, discarded, lost; and as it is now:
    /// pending, owed (op records to be written), oldestBorn (ms, 0 if none waits).
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let f = py.detach(|| self.inner.figures());
        let d = PyDict::new(py);
        d.set_item("halves", f.halves)?;
        d.set_item("commits", f.commits)?;
        d.set_item("rollbacks", f.rollbacks)?;
        d.set_item("checks", f.checks)?;
        d.set_item("discarded", f.discarded)?;
        d.set_item("lost", f.lost)?;
        d.set_item("pending", f.pending)?;
        d.set_item("owed", f.owed)?;
        d.set_item("oldestBorn", f.oldest_born)?;
        Ok(d)
    }

    /// How many halves wait for each real topic.
    fn pending_by_topic(&self) -> Vec<(String, u64)> {
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        let all = self.inner.pending_by_topic();
        all.iter().map(|(topic, n)| (text(topic), *n)).collect()
    }
}
