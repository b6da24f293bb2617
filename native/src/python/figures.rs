//! Figures of the engine: how long requests, writes and flushes take.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyrmq_broker::rpc_figures::{self, Fate, Kind, Place, RPC_BOUNDS, Slow};
use pyrmq_broker::timer::DELAY_BOUNDS;
use pyrmq_store::{FINISH_BOUNDS, Row, SIZE_BOUNDS, Store, TIME_BOUNDS};
use std::sync::Arc;

pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<RpcFigures>()?;
    let py = m.py();
    m.add("RPC_BOUNDS_US", PyTuple::new(py, RPC_BOUNDS)?)?;
    m.add("TIME_BOUNDS_US", PyTuple::new(py, TIME_BOUNDS)?)?;
    m.add("SIZE_BOUNDS", PyTuple::new(py, SIZE_BOUNDS)?)?;
    m.add("FINISH_BOUNDS", PyTuple::new(py, FINISH_BOUNDS)?)?;
    m.add("DELAY_BOUNDS", PyTuple::new(py, DELAY_BOUNDS)?)
}

/// How long the requests of a server took. A `Listener` enters what its sessions answer, `record` what
/// Python answers. `slow_ms`: requests that take longer are kept for `take_slow`; 0: none are.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct RpcFigures {
    inner: Arc<rpc_figures::RpcFigures>,
}

impl RpcFigures {
    pub fn inner(&self) -> &Arc<rpc_figures::RpcFigures> {
        &self.inner
    }
}

/// Code and response code, peer, times in µs (queued, processed, written, flushed, replicated), and where its
/// record is (queue, queue offset, physical offset).
type SlowRow = (i32, i32, String, [u64; 5], Option<(i32, i64, u64)>);

fn slow_row(slow: Slow) -> SlowRow {
    let mut peer = Vec::new();
    slow.peer.push_text(&mut peer);
    let place = |place: Place| (place.queue_id, place.queue_offset, place.physical_offset);
    (
        slow.code,
        slow.response,
        String::from_utf8_lossy(&peer).into_owned(),
        [
            slow.queued,
            slow.processed,
            slow.written,
            slow.flushed,
            slow.replicated,
        ],
        slow.place.map(place),
    )
}

#[pymethods]
impl RpcFigures {
    #[new]
    #[pyo3(signature = (slow_ms=0))]
    fn new(slow_ms: u32) -> Self {
        let inner = rpc_figures::RpcFigures::default();
        inner.set_slow_ms(slow_ms);
        RpcFigures {
            inner: Arc::new(inner),
        }
    }

    /// A request was answered within so many µs. `result`: success, oneway, cancelled,
    /// process_request_failed or write_channel_failed.
    fn record(
        &self,
        code: i32,
        response_code: i32,
        long_polling: bool,
        result: &str,
        micros: i64,
    ) -> PyResult<()> {
        let fate = Fate::from_name(result).ok_or_else(|| {
            PyValueError::new_err(format!("result {result:?} is none of RocketMQ's"))
        })?;
        let kind = Kind {
            code,
            response: response_code,
            long_polling,
            fate,
        };
        self.inner.record(kind, micros.max(0) as u64, 1);
        Ok(())
    }

    /// [(code, response code, long polling, result, [count, sum, max, buckets…])], times in µs; the buckets
    /// are those of RPC_BOUNDS_US and one above. The row with code -1 is for codes that got none of their own.
    fn rows(&self) -> Vec<(i32, i32, bool, &'static str, Vec<u64>)> {
        let row = |(kind, row): (Kind, Vec<u64>)| {
            let Kind {
                code,
                response,
                long_polling,
                fate,
            } = kind;
            (code, response, long_polling, fate.name(), row)
        };
        self.inner.rows().into_iter().map(row).collect()
    }

    fn set_slow_ms(&self, ms: u32) {
        self.inner.set_slow_ms(ms);
    }

    /// The slow requests that the engine answered since the last call, and how many more there were:
    /// ([(code, response code, peer, [µs queued, processed, written, flushed, replicated], (queue, queue
    /// offset, physical offset) or None)], left out).
    fn take_slow(&self) -> (Vec<SlowRow>, u64) {
        let taken = self.inner.take_slow();
        let rows = taken.requests.into_iter().map(slow_row).collect();
        (rows, taken.left_out)
    }
}

/// The figures of a store since it was opened, by name.
pub fn of_store<'py>(py: Python<'py>, store: &Store) -> PyResult<Bound<'py, PyDict>> {
    let (figures, stalls, barrier) = (store.figures(), store.stalls(), store.barrier());
    let d = PyDict::new(py);
    for (name, histogram) in [
        ("putLatency", &figures.writes),
        ("flushLatency", &figures.flushes),
        ("commitLatency", &figures.commits),
        ("lockWait", &figures.lock_waits),
        ("barrierWait", &figures.barrier_waits),
        ("sendLatency", &figures.puts),
    ] {
        d.set_item(name, histogram.row())?;
    }
    // What grows more slowly is read first: no lag is negative.
    let (flushed, confirmed, indexed) = (barrier.flushed(), barrier.confirmed(), store.indexed());
    let end = store.log().max_offset();
    let opened = figures.opened();
    for (name, figure) in [
        ("flushedBytes", figures.flushed_bytes()),
        ("flushLagBytes", end.saturating_sub(flushed)),
        ("confirmLagBytes", end.saturating_sub(confirmed)),
        ("dispatchLagBytes", end.saturating_sub(indexed)),
        ("writeStalls", stalls.long_writes()),
        ("busyRefusals", stalls.refused()),
        ("writeUnderWayMs", stalls.write_ms()),
        ("recoveryUs", opened.micros),
        ("recoveredRecords", opened.records),
        ("recoveredBytes", opened.bytes),
    ] {
        d.set_item(name, figure)?;
    }
    Ok(d)
}

/// Sizes of the messages that clients sent to a topic, by type.
pub fn message_sizes(store: &Store, topic: &str) -> Vec<(&'static str, Row)> {
    let topic = store.topics().get(topic.as_bytes());
    let sizes = topic.iter().flat_map(|topic| topic.figures().sizes());
    sizes.map(|(kind, row)| (kind.name(), row)).collect()
}

/// How long halves took to be committed, and how many were rolled back, by topic.
pub fn finished(store: &Store) -> Vec<(String, Row, u64)> {
    let mut rows = Vec::new();
    for topic in store.topics().all() {
        if let Some((row, rollbacks)) = topic.figures().transactions() {
            let name = String::from_utf8_lossy(topic.name()).into_owned();
            rows.push((name, row, rollbacks));
        }
    }
    rows
}
