//! `Reviver`: messages that were popped and not acknowledged go to the retry topic of their group.

use super::error::to_py;
use super::pops::Pops;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyrmq_broker::pop::{self, PairTotals, Records, Round, Target, Targets};

/// Topic, group, what was stored, messages that were revived, what was read by revive queue.
type PairRow = (String, String, (u64, u64), u64, Vec<(u32, (u64, u64))>);

/// The reviver of a store: see engine.pyi.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct Reviver {
    inner: pop::Reviver,
}

/// What one call of `Reviver.revive` did.
#[pyclass(frozen, get_all, module = "pyrmq._native")]
pub struct Revived {
    read: usize,
    judged: usize,
    missing: usize,
    put_off: usize,
    gone: usize,
    known: usize,
    more: bool,
    revived: Vec<(String, usize, usize)>,
    unknown: Vec<(Py<PyBytes>, Py<PyBytes>)>,
}

impl Revived {
    fn of(py: Python<'_>, round: Round) -> Revived {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let bytes = |name: &[u8]| PyBytes::new(py, name).unbind();
        Revived {
            read: round.read,
            judged: round.judged,
            missing: round.missing,
            put_off: round.put_off,
            gone: round.gone,
            known: round.known,
            more: round.more,
            revived: round
                .revived
                .iter()
                .map(|(topic, &(count, size))| (text(topic), count, size))
                .collect(),
            unknown: round
                .unknown
                .iter()
                .map(|(topic, group)| (bytes(topic), bytes(group)))
                .collect(),
        }
    }
}

#[pymethods]
impl Reviver {
    #[new]
    #[pyo3(signature = (pops, *, next=Vec::new(), drops_after_last=false))]
    fn new(
        py: Python<'_>,
        pops: PyRef<'_, Pops>,
        next: Vec<i64>,
        drops_after_last: bool,
    ) -> PyResult<Self> {
        let pops = pops.inner().clone();
        py.detach(|| pop::Reviver::open(pops, &next, drops_after_last))
            .map(|inner| Reviver { inner })
            .map_err(|e| to_py(py, e))
    }

    fn revive(
        &self,
        py: Python<'_>,
        now: i64,
        timers: Option<i64>,
        most: usize,
        targets: Vec<(Vec<u8>, Vec<u8>, Option<String>)>,
    ) -> PyResult<Revived> {
        let targets: Targets = targets
            .into_iter()
            .map(|(topic, group, target)| {
                let target = match target {
                    Some(target) => Target::Topic(target.into_bytes().into()),
                    None => Target::Gone,
                };
                ((topic.into(), group.into()), target)
            })
            .collect();
        let mut round = py.detach(|| self.inner.revive(now, timers, most, &targets));
        match round.error.take() {
            Some(e) if round.judged == 0 && round.count() == 0 => Err(to_py(py, e)),
            _ => Ok(Revived::of(py, round)),
        }
    }

    fn progress(&self, py: Python<'_>) -> PyResult<(Vec<i64>, u64)> {
        let progress = py
            .detach(|| self.inner.progress())
            .map_err(|e| to_py(py, e))?;
        Ok((progress.next, progress.log_end))
    }

    /// (check points, acks) are stored; by queue they are read: see engine.pyi.
    fn totals(&self) -> Vec<PairRow> {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let of = |r: &Records| (r.check_points, r.acks);
        let row = |t: PairTotals| {
            let read = t.read.iter().map(|(queue, r)| (*queue, of(r))).collect();
            (
                text(&t.topic),
                text(&t.group),
                of(&t.stored),
                t.revived,
                read,
            )
        };
        self.inner.pops().totals().into_iter().map(row).collect()
    }

    fn lags(&self) -> Vec<(i64, i64, usize)> {
        let lags = self.inner.lags();
        lags.iter().map(|l| (l.records, l.ms, l.waiting)).collect()
    }
}

/// A queue of a group, and an offset of it.
type Popped = (Vec<u8>, Vec<u8>, i32, i64);

/// What `popped_to` gives: see engine.pyi.
type FoundPops = (Vec<Popped>, Option<(Popped, i64)>, u64);

/// See engine.pyi.
#[pyfunction]
pub fn popped_to(py: Python<'_>, pops: PyRef<'_, Pops>, start: i64) -> PyResult<FoundPops> {
    let pops = pops.inner().clone();
    let found = py
        .detach(|| pops.popped_to(start))
        .map_err(|e| to_py(py, e))?;
    let row = |(topic, group, queue), offset| (Vec::from(topic), Vec::from(group), queue, offset);
    let all = found.offsets.into_iter().map(|(place, to)| row(place, to));
    let unsure = found.unsure.map(|(place, at, to)| (row(place, to), at));
    Ok((all.collect(), unsure, found.entries))
}
