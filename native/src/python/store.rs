//! `Store`: the rare operations. Reading and sending go through the C table.

use super::error::to_py;
use crate::format::host::Host;
use crate::format::{java, properties};
use crate::store::{self, Content, FlushMode, Message, StoreConfig, TopicSettings};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// A store on disk. Opening recovers it; one process at a time may have it open.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct Store {
    inner: Arc<store::Store>,
}

impl Store {
    pub fn inner(&self) -> &Arc<store::Store> {
        &self.inner
    }

    fn queue(&self, topic: &str, queue_id: u32) -> Option<Arc<store::ConsumeQueue>> {
        self.inner
            .topics()
            .get(topic.as_bytes())?
            .existing_queue(queue_id)
    }
}

fn address(text: &str) -> PyResult<SocketAddr> {
    text.parse()
        .map_err(|_| PyValueError::new_err(format!("{text:?} is not IP:PORT")))
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (root, *, commit_log_dir=None, commit_log_file_size=1 << 30,
        consume_queue_file_size=6_000_000, sync_flush=false, flush_interval_commit_log=500,
        flush_interval_consume_queue=1000, max_message_size=4 << 20,
        store_host="127.0.0.1:10911", check_crc_on_recover=true, in_memory_ratio=40,
        transfer_memory=(262_144, 32), transfer_disk=(65_536, 8), max_filter_bytes=16_000))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        root: PathBuf,
        commit_log_dir: Option<PathBuf>,
        commit_log_file_size: u64,
        consume_queue_file_size: u64,
        sync_flush: bool,
        flush_interval_commit_log: u64,
        flush_interval_consume_queue: u64,
        max_message_size: usize,
        store_host: &str,
        check_crc_on_recover: bool,
        in_memory_ratio: u64,
        transfer_memory: (usize, usize),
        transfer_disk: (usize, usize),
        max_filter_bytes: usize,
    ) -> PyResult<Self> {
        let mut cfg = StoreConfig::new(root);
        if let Some(dir) = commit_log_dir {
            cfg.commit_log_dir = dir;
        }
        cfg.commit_log_file_size = commit_log_file_size;
        cfg.consume_queue_file_size = consume_queue_file_size;
        cfg.flush_mode = if sync_flush {
            FlushMode::Sync
        } else {
            FlushMode::Async
        };
        cfg.flush_interval_commit_log = flush_interval_commit_log;
        cfg.flush_interval_consume_queue = flush_interval_consume_queue;
        cfg.max_message_size = max_message_size;
        cfg.store_host = address(store_host)?;
        cfg.check_crc_on_recover = check_crc_on_recover;
        cfg.in_memory_bytes = cfg.in_memory_bytes / 40 * in_memory_ratio.min(100);
        cfg.transfer_memory = transfer_memory;
        cfg.transfer_disk = transfer_disk;
        cfg.max_filter_bytes = max_filter_bytes;
        let inner = py
            .detach(|| store::Store::open(cfg))
            .map_err(|e| to_py(py, e))?;
        Ok(Store { inner })
    }

    /// Flushes, stops the threads, gives up the lock. OSError if the last flush failed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.inner.close()).map_err(|e| to_py(py, e))
    }

    /// Address for the C table; valid while this object lives.
    fn _ptr(&self) -> usize {
        Arc::as_ptr(&self.inner) as usize
    }

    /// Becomes readable when a flush ended (SYNC_FLUSH) or failed.
    fn event_fd(&self) -> i32 {
        self.inner.flush_state().event_fd()
    }

    /// What lies below this physical offset is on disk.
    fn flushed(&self) -> u64 {
        self.inner.flush_state().flushed()
    }

    /// Why the store stopped acknowledging, None while all is well.
    fn failure(&self) -> Option<String> {
        self.inner.flush_state().failure().map(|e| e.to_string())
    }

    /// Tells the send path of a topic's settings.
    #[pyo3(signature = (topic, *, read_queues, write_queues, multi_tag=false, sendable=true))]
    fn set_topic(
        &self,
        py: Python<'_>,
        topic: &str,
        read_queues: u32,
        write_queues: u32,
        multi_tag: bool,
        sendable: bool,
    ) -> PyResult<()> {
        let entry = self
            .inner
            .topics()
            .topic(topic.as_bytes())
            .map_err(|e| to_py(py, e))?;
        entry.set(Some(TopicSettings {
            read_queues,
            write_queues,
            multi_tag,
            sendable,
        }));
        Ok(())
    }

    /// Makes a topic unknown to the send path; what is stored stays.
    fn forget_topic(&self, topic: &str) {
        if let Some(t) = self.inner.topics().get(topic.as_bytes()) {
            t.set(None);
        }
    }

    /// Stores one message as given (no properties are added). Returns (physical offset, size,
    /// queue offset, store timestamp in ms).
    #[pyo3(signature = (topic, queue_id, body, properties="", *, flag=0, sys_flag=0,
        born_timestamp=0, born_host="127.0.0.1:0", reconsume_times=0,
        prepared_transaction_offset=0))]
    #[allow(clippy::too_many_arguments)]
    fn put(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: u32,
        body: &[u8],
        properties: &str,
        flag: i32,
        sys_flag: i32,
        born_timestamp: i64,
        born_host: &str,
        reconsume_times: i32,
        prepared_transaction_offset: i64,
    ) -> PyResult<(u64, usize, i64, i64)> {
        let born_host = Host::new(address(born_host)?);
        let props = properties.as_bytes();
        let tags_code = properties::find(props, b"TAGS").map_or(0, |t| java::hash(t) as i64);
        let put = || {
            let topic = self.inner.topics().topic(topic.as_bytes())?;
            let message = Message {
                topic: &topic,
                queue_id,
                sys_flag,
                born_timestamp,
                born_host,
                reconsume_times,
                prepared_transaction_offset,
            };
            let content = Content {
                flag,
                body,
                props: [props, b"", b"", b""],
                tags_code,
            };
            self.inner.put()?.append(&message, &content)
        };
        let done = put().map_err(|e| to_py(py, e))?;
        Ok((
            done.phys,
            done.size,
            done.queue_offset,
            done.store_timestamp,
        ))
    }

    /// (min, max) queue offset that consumers may know of; (0, 0) for a queue without messages.
    fn queue_range(&self, topic: &str, queue_id: u32) -> (i64, i64) {
        self.queue(topic, queue_id)
            .map_or((0, 0), |q| (q.min_offset(), self.inner.visible_max(&q)))
    }

    /// Queue offset by store time in ms: the first message at or after it (lower bound) or the
    /// last at or before it (upper bound).
    #[pyo3(signature = (topic, queue_id, timestamp, upper=false))]
    fn offset_by_time(&self, topic: &str, queue_id: u32, timestamp: i64, upper: bool) -> i64 {
        self.queue(topic, queue_id)
            .map_or(0, |q| self.inner.offset_by_time(&q, timestamp, upper))
    }

    /// Store time of the oldest message of a queue, -1 if there is none.
    fn earliest_time(&self, topic: &str, queue_id: u32) -> i64 {
        self.queue(topic, queue_id)
            .map_or(-1, |q| self.inner.earliest_time(&q))
    }

    /// Whether there is a message at this queue offset that is recent enough to count as in memory.
    fn in_memory(&self, topic: &str, queue_id: u32, offset: i64) -> bool {
        let Some(entry) = self.queue(topic, queue_id).and_then(|q| q.entry(offset)) else {
            return false;
        };
        let max = self.inner.log().max_offset();
        max.saturating_sub(entry.phys as u64) <= self.inner.config().in_memory_bytes
    }

    /// A copy of the record that starts at a physical offset, None if none does.
    fn record_at<'py>(&self, py: Python<'py>, offset: u64) -> Option<Bound<'py, PyBytes>> {
        let chunk = self.inner.record_at(offset)?;
        Some(PyBytes::new(py, chunk.segment.bytes(chunk.at, chunk.len)?))
    }

    /// Queues that grew while somebody waited on them: [(topic, queue id)].
    fn take_arrivals(&self) -> Vec<(String, u32)> {
        let confirmed = self.inner.confirm_offset();
        self.inner
            .topics()
            .take_arrivals(confirmed)
            .into_iter()
            .map(|a| {
                (
                    String::from_utf8_lossy(a.topic.name()).into_owned(),
                    a.queue_id,
                )
            })
            .collect()
    }

    /// Every queue that has a folder or was written to: [(topic, queue id, min, max)].
    fn queues(&self) -> Vec<(String, u32, i64, i64)> {
        let mut all: Vec<_> = self
            .inner
            .topics()
            .all()
            .iter()
            .flat_map(|t| {
                let name = String::from_utf8_lossy(t.name()).into_owned();
                t.queues().into_iter().map(move |q| (name.clone(), q))
            })
            .map(|(name, q)| {
                (
                    name,
                    q.queue_id(),
                    q.min_offset(),
                    self.inner.visible_max(&q),
                )
            })
            .collect();
        all.sort();
        all
    }

    /// Figures: minPhyOffset, maxPhyOffset, flushedWhere (offsets), preparedAhead (bytes ready for
    /// the writer), topics, queues (counts).
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let s = self.inner.stats();
        let d = PyDict::new(py);
        d.set_item("minPhyOffset", s.min_phys)?;
        d.set_item("maxPhyOffset", s.max_phys)?;
        d.set_item("flushedWhere", s.flushed)?;
        d.set_item("preparedAhead", s.prepared_ahead)?;
        d.set_item("topics", s.topics)?;
        d.set_item("queues", s.queues)?;
        Ok(d)
    }
}
