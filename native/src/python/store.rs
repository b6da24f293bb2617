//! `Store`: the rare operations. Reading and sending go through the C table.

use super::error::to_py;
use super::figures;
use super::options::address;
use super::put_watch::PutWatch;
use super::sql::SqlFilter;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use pyrmq_format::cq_entry::Layout;
use pyrmq_format::host::Host;
use pyrmq_format::message_type::MessageType;
use pyrmq_format::{java, names, properties};
use pyrmq_store::{
    Chunk, Content, Expressions, Message, Resident, Row, StoreError, TopicSettings, Wait,
};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;

/// A store on disk. Opening recovers it; one process at a time may have it open.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct Store {
    inner: Arc<pyrmq_store::Store>,
}

impl Store {
    pub fn inner(&self) -> &Arc<pyrmq_store::Store> {
        &self.inner
    }

    fn queue(&self, topic: &str, queue_id: u32) -> Option<Arc<pyrmq_store::ConsumeQueue>> {
        self.inner
            .topics()
            .get(topic.as_bytes())?
            .existing_queue(queue_id)
    }
}

#[pymethods]
impl Store {
    /// The keywords are listed in options.rs.
    #[new]
    #[pyo3(signature = (root, **options))]
    fn new(py: Python<'_>, root: PathBuf, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let cfg = super::options::read(root, options)?;
        let inner = py
            .detach(|| pyrmq_store::Store::open(cfg))
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

    /// Becomes readable when more of the log was confirmed by a flush (SYNC_FLUSH), or when a flush
    /// failed.
    fn event_fd(&self) -> i32 {
        self.inner.barrier().event_fd().as_raw_fd()
    }

    /// The log is confirmed below this physical offset: consumers see it and sends are acknowledged.
    /// With SYNC_FLUSH that is what is on disk, with ASYNC_FLUSH all of it.
    fn confirmed(&self) -> u64 {
        self.inner.barrier().confirmed()
    }

    /// The log is on disk below this physical offset.
    fn flushed(&self) -> u64 {
        self.inner.barrier().flushed()
    }

    /// Moves the clock that store times are of (back if `ms` is negative), for tests of what is due later.
    fn advance_clock(&self, ms: i64) {
        self.inner.advance_clock(ms);
    }

    /// Has a thread write what sessions have staged (`Session.feed` with `more`), where `stall` says that
    /// it may take long. The eventfd is signalled when it is done.
    fn write_later(&self) {
        self.inner.write_later();
    }

    /// Whether something was left to that thread which is not written yet.
    fn writes_later(&self) -> bool {
        self.inner.writes_later()
    }

    /// Why nothing more is confirmed, None while all is well.
    fn failure(&self) -> Option<String> {
        self.inner.barrier().failure().map(|e| e.to_string())
    }

    /// Sets what the send path has to know of a topic. `batch`: `queue.type` is BatchCQ, which counts
    /// while the topic has no queues. `message_type`: the one that sends are checked for.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (topic, *, read_queues, write_queues, multi_tag=false, sendable=true,
        batch=false, message_type=None))]
    fn set_topic(
        &self,
        py: Python<'_>,
        topic: &str,
        read_queues: u32,
        write_queues: u32,
        multi_tag: bool,
        sendable: bool,
        batch: bool,
        message_type: Option<&str>,
    ) -> PyResult<()> {
        let wanted = match message_type {
            Some(name) => Some(MessageType::from_name(name).ok_or_else(|| {
                PyValueError::new_err(format!("{name:?} is no type of messages"))
            })?),
            None => None,
        };
        if batch {
            self.inner.topics().declare_batch(topic.as_bytes());
        }
        let entry = self
            .inner
            .topics()
            .topic(topic.as_bytes())
            .map_err(|e| to_py(py, e))?;
        entry.set_message_type(wanted);
        entry.set(Some(TopicSettings {
            read_queues,
            write_queues,
            multi_tag,
            sendable,
        }));
        Ok(())
    }

    /// Has expressions evaluated for the messages of a topic that follow, each with the bits of the
    /// entries' bitmaps that it sets where it is true; none: no more. The bits of `ended` count up to here
    /// only. Returns (time, physical offset): the messages before were stored up to that time, and below
    /// that offset. None: nothing has changed, as there is no such topic, or the log is being written.
    #[pyo3(signature = (topic, filters, ended=Vec::new()))]
    fn set_expressions(
        &self,
        py: Python<'_>,
        topic: &str,
        filters: Vec<(PyRef<'_, SqlFilter>, Vec<u32>)>,
        ended: Vec<Py<SqlFilter>>,
    ) -> Option<(i64, u64)> {
        let expressions: Vec<_> = filters
            .into_iter()
            .map(|(filter, bits)| filter.expression(bits))
            .collect();
        let expressions = (!expressions.is_empty()).then(|| Expressions::new(expressions));
        py.detach(|| {
            let topic = self.inner.topics().get(topic.as_bytes())?;
            self.inner.set_expressions(&topic, expressions, |offset| {
                ended
                    .iter()
                    .for_each(|filter| filter.get().end_bits(offset));
            })
        })
    }

    /// Makes a topic that is deleted unknown to the send path, and to what delivers delayed messages, until
    /// `set_topic`; what is stored stays. Nothing for a name that no topic can have.
    fn forget_topic(&self, topic: &str) {
        if let Ok(topic) = self.inner.topics().topic(topic.as_bytes()) {
            topic.set_deleted();
        }
    }

    /// Makes a topic unknown to the send path and its messages to readers. Returns by queue the offset
    /// that its next message gets; `hide_messages` has to be told of it after each start.
    fn delete_topic(&self, py: Python<'_>, topic: &str) -> PyResult<Vec<(u32, i64)>> {
        py.detach(|| self.inner.delete_topic(topic.as_bytes()))
            .map_err(|e| to_py(py, e))
    }

    /// Hides the messages of a queue before `offset`.
    fn hide_messages(&self, topic: &str, queue_id: u32, offset: i64) {
        self.inner.hide_messages(topic.as_bytes(), queue_id, offset);
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
        let tags_code = java::tag_code(properties::find(props, b"TAGS"));
        let put = || {
            if !names::is_topic(topic.as_bytes()) {
                let shown: String = topic.chars().take(64).collect();
                return Err(StoreError::Illegal(format!(
                    "topic {shown:?} is not allowed: use at most {} of the characters %|a-zA-Z0-9_-",
                    names::MAX_TOPIC
                )));
            }
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
                props: [props, properties::visible_end(props), b"", b""],
                tags_code,
                count: 1,
            };
            let mut guard = self.inner.put()?;
            let done = guard.append(&message, &content)?;
            guard.write()?;
            Ok(done)
        };
        let done = py.detach(put).map_err(|e| to_py(py, e))?;
        Ok((
            done.phys,
            done.size,
            done.queue_offset,
            done.store_timestamp,
        ))
    }

    /// Has messages refused for this reason (SERVICE_NOT_AVAILABLE); None: no longer.
    #[pyo3(signature = (why))]
    fn refuse_messages(&self, why: Option<String>) {
        self.inner.set_refused(why);
    }

    /// Why messages are refused now, None while they are taken: the disk is full, a flush failed, too
    /// few replicas, or `refuse_messages`. Of a slave's store why its log cannot grow.
    fn refusal(&self) -> Option<String> {
        self.inner.refusal().map(|e| e.to_string())
    }

    /// Whether what is stored is confirmed once it is on disk (SYNC_FLUSH).
    #[getter]
    fn is_sync(&self) -> bool {
        self.inner.is_sync()
    }

    /// (min, max) queue offset that consumers may know of; (0, 0) for a queue without messages.
    fn queue_range(&self, py: Python<'_>, topic: &str, queue_id: u32) -> PyResult<(i64, i64)> {
        let Some(q) = self.queue(topic, queue_id) else {
            return Ok((0, 0));
        };
        let min = q.min_offset(); // first: retention may move it meanwhile
        let max = self.inner.visible_max(&q).map_err(|e| to_py(py, e))?;
        Ok((min, max))
    }

    /// Where a queue ends, with what consumers may not know of yet as too few slaves have it; 0 for a
    /// queue without messages.
    fn queue_end(&self, topic: &str, queue_id: u32) -> i64 {
        self.queue(topic, queue_id).map_or(0, |q| q.max_offset())
    }

    /// Queue offset by store time in ms: the first message at or after it (lower bound) or the
    /// last at or before it (upper bound).
    #[pyo3(signature = (topic, queue_id, timestamp, upper=false))]
    fn offset_by_time(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: u32,
        timestamp: i64,
        upper: bool,
    ) -> PyResult<i64> {
        py.detach(|| {
            self.queue(topic, queue_id)
                .map_or(Ok(0), |q| self.inner.offset_by_time(&q, timestamp, upper))
        })
        .map_err(|e| to_py(py, e))
    }

    /// Store time of the message at a queue offset, -1 if there is none. May read the disk.
    fn store_time(&self, py: Python<'_>, topic: &str, queue_id: u32, offset: i64) -> PyResult<i64> {
        py.detach(|| {
            self.queue(topic, queue_id)
                .map_or(Ok(-1), |q| self.inner.store_time(&q, offset))
        })
        .map_err(|e| to_py(py, e))
    }

    /// Store time of the oldest message of a queue, -1 if there is none.
    fn earliest_time(&self, py: Python<'_>, topic: &str, queue_id: u32) -> PyResult<i64> {
        py.detach(|| {
            self.queue(topic, queue_id)
                .map_or(Ok(-1), |q| self.inner.earliest_time(&q))
        })
        .map_err(|e| to_py(py, e))
    }

    /// Whether there is a message at this queue offset that is recent enough to count as in memory.
    /// Without `wait` None, where the disk would have to be read to tell.
    #[pyo3(signature = (topic, queue_id, offset, wait=true))]
    fn in_memory(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: u32,
        offset: i64,
        wait: bool,
    ) -> PyResult<Option<bool>> {
        let entry = py.detach(|| match self.queue(topic, queue_id) {
            Some(queue) => queue.entry_if(offset, wait.into()),
            None => Ok(None),
        });
        match entry {
            Ok(entry) => Ok(Some(entry.is_some_and(|entry| {
                let max = self.inner.log().max_offset();
                max.saturating_sub(entry.cq.phys as u64) <= self.inner.config().in_memory_bytes
            }))),
            Err(StoreError::Cold) => Ok(None),
            Err(e) => Err(to_py(py, e)),
        }
    }

    /// A copy of the record that starts at a physical offset, None if none does; not for the event
    /// loop, as it may read much.
    fn record_at<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let chunk = py
            .detach(|| self.inner.record_by_offset(offset))
            .map_err(|e| to_py(py, e))?;
        let bytes = chunk.as_ref().and_then(|c| c.segment.bytes(c.at, c.len));
        Ok(bytes.map(|bytes| PyBytes::new(py, bytes)))
    }

    /// Arrivals that are confirmed: queues with a new message that somebody had asked for with
    /// `notify_on_arrival`, as [(topic, queue id)]. Each is given once.
    fn drain_arrivals(&self) -> Vec<(String, u32)> {
        self.inner
            .drain_arrivals()
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
    fn queues(&self, py: Python<'_>) -> PyResult<Vec<(String, u32, i64, i64)>> {
        let all: Vec<_> = self
            .inner
            .topics()
            .all()
            .iter()
            .flat_map(|t| {
                let name = String::from_utf8_lossy(t.name()).into_owned();
                t.queues().into_iter().map(move |q| (name.clone(), q))
            })
            .collect();
        let bounds = |(name, q): (String, Arc<pyrmq_store::ConsumeQueue>)| {
            let min = q.min_offset();
            Ok((name, q.queue_id(), min, self.inner.visible_max(&q)?))
        };
        let all: pyrmq_store::Result<Vec<_>> = all.into_iter().map(bounds).collect();
        let mut all = all.map_err(|e| to_py(py, e))?;
        all.sort();
        Ok(all)
    }

    /// What was stored since the store was opened, by topic: [(topic, messages, bytes of records)].
    /// Topics with nothing are left out.
    fn puts(&self) -> Vec<(String, u64, u64)> {
        let row = |topic: &Arc<pyrmq_store::Topic>| {
            let (messages, bytes) = topic.puts();
            let name = || String::from_utf8_lossy(topic.name()).into_owned();
            (messages > 0).then(|| (name(), messages, bytes))
        };
        self.inner.topics().all().iter().filter_map(row).collect()
    }

    /// Tells which topics store messages from now on.
    fn watch_puts(&self, py: Python<'_>) -> PutWatch {
        py.detach(|| PutWatch::new(&self.inner))
    }

    /// fileReservedTime in ms, from the next pass over old files on.
    fn set_file_reserved_time(&self, ms: u64) {
        self.inner.set_file_reserved_time(ms);
    }

    /// Where the log ends.
    fn log_end(&self) -> u64 {
        self.inner.log().max_offset()
    }

    /// Looks messages up by key or unique key in the index. Returns the records as exported
    /// slices, oldest first: (pointer to segment, address, bytes), and store time and physical
    /// offset of what was indexed last. For engine.pyx, which makes Slices of them.
    #[pyo3(signature = (topic, key, max_num, begin, end))]
    fn _query_message(
        &self,
        py: Python<'_>,
        topic: &str,
        key: &str,
        max_num: usize,
        begin: i64,
        end: i64,
    ) -> PyResult<(Vec<Exported>, i64, i64)> {
        let found = py
            .detach(|| {
                self.inner
                    .query_message(topic.as_bytes(), key.as_bytes(), max_num, begin, end)
            })
            .map_err(|e| to_py(py, e))?;
        let (time, phys) = found.last_update;
        let records = found.chunks.into_iter().map(export).collect();
        Ok((records, time, phys))
    }

    /// The entries of a queue from an offset to the end of its file, exported: (first queue offset,
    /// (pointer to segment, address, bytes)); None where there are none.
    fn _entries(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: u32,
        offset: Option<i64>,
    ) -> PyResult<Option<(i64, Exported)>> {
        let Some(q) = self.queue(topic, queue_id) else {
            return Ok(None);
        };
        let offset = offset.unwrap_or(q.min_offset());
        let max = self.inner.visible_max(&q).map_err(|e| to_py(py, e))?;
        if q.layout() != Layout::Simple || offset >= max {
            return Ok(None);
        }
        py.detach(|| {
            let Some((segment, at, _)) = q.file_from(offset, Wait::ForDisk)? else {
                return Ok(None);
            };
            let room = segment.readable_from(at).len();
            let len = room.min((max - offset) as usize * Layout::Simple.unit());
            Resident::new(Wait::ForDisk).bytes(&segment, at, len)?;
            Ok(Some((offset, export(Chunk { segment, at, len }))))
        })
        .map_err(|e| to_py(py, e))
    }

    /// Physical offset of the first message that one of these consumers has still to read: [(topic, queue
    /// id, next offset)]; the log's end if they have read all. May read the disk.
    fn consumed_to(&self, py: Python<'_>, next: Vec<(String, u32, i64)>) -> PyResult<u64> {
        py.detach(|| {
            let known =
                |(topic, id, offset): &(String, u32, i64)| Some((self.queue(topic, *id)?, *offset));
            let next: Vec<_> = next.iter().filter_map(known).collect();
            self.inner.consumed_to(&next)
        })
        .map_err(|e| to_py(py, e))
    }

    /// Has the kernel give up the log's files in memory that are on disk, indexed and end before
    /// `offset`, each once. Returns how many.
    fn give_up_cache(&self, py: Python<'_>, offset: u64) -> PyResult<usize> {
        py.detach(|| self.inner.give_up_cache(offset))
            .map_err(|e| to_py(py, e))
    }

    /// One round of retention at `now` (ms since the epoch; default: now). Returns how many files
    /// were deleted: {"commitLog", "consumeQueue", "index"}.
    /// `log=False`: only queues and index are brought in line with the log.
    #[pyo3(signature = (now_ms=None, manual=false, log=true))]
    fn clean<'py>(
        &self,
        py: Python<'py>,
        now_ms: Option<i64>,
        manual: bool,
        log: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let now = now_ms.unwrap_or_else(pyrmq_store::now_ms);
        let done = py
            .detach(|| {
                if log {
                    self.inner.clean(now, manual)
                } else {
                    self.inner.clean_queues(now)
                }
            })
            .map_err(|e| to_py(py, e))?;
        let d = PyDict::new(py);
        d.set_item("commitLog", done.log_files)?;
        d.set_item("consumeQueue", done.queue_files)?;
        d.set_item("index", done.index_files)?;
        Ok(d)
    }

    /// How long writes, flushes and what waits for them took since the store was opened: see engine.pyi.
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        figures::of_store(py, &self.inner)
    }

    /// Sizes of the messages that clients sent to a topic: [("NORMAL", [count, buckets…, sum])], bytes of
    /// records, those of a batch by their average. The buckets are those of SIZE_BOUNDS and one above.
    fn message_sizes(&self, topic: &str) -> Vec<(&'static str, Row)> {
        figures::message_sizes(&self.inner, topic)
    }

    /// What became of halves since the store was opened: [(topic, [committed, buckets…, sum], rolled back)].
    /// Seconds from birth to commit, in the buckets of FINISH_BOUNDS and one above.
    fn finished_halves(&self) -> Vec<(String, Row, u64)> {
        figures::finished(&self.inner)
    }

    /// Figures: minPhyOffset, maxPhyOffset, flushedWhere, indexedWhere (offsets), preparedAhead
    /// (bytes ready for the writer), topics, queues, queueFiles, mappedQueueFiles, indexFiles
    /// (counts), exportedSlices (slices of the log that somebody has) and exportedDeletedFiles
    /// (deleted files that they keep), damagedEntries (queue entries that readers left out), diskFull.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let s = py.detach(|| self.inner.stats());
        let d = PyDict::new(py);
        d.set_item("minPhyOffset", s.min_phys)?;
        d.set_item("maxPhyOffset", s.max_phys)?;
        d.set_item("flushedWhere", s.flushed)?;
        d.set_item("indexedWhere", s.indexed)?;
        d.set_item("preparedAhead", s.prepared_ahead)?;
        d.set_item("topics", s.topics)?;
        d.set_item("queues", s.queues)?;
        d.set_item("queueFiles", s.queue_files)?;
        d.set_item("mappedQueueFiles", s.mapped_queue_files)?;
        d.set_item("indexFiles", s.index_files)?;
        d.set_item("exportedSlices", s.exported_slices)?;
        d.set_item("exportedDeletedFiles", s.exported_deleted_files)?;
        d.set_item("damagedEntries", s.damaged_entries)?;
        d.set_item("diskFull", s.disk_full)?;
        Ok(d)
    }
}

/// Pointer to a segment, address in it, bytes.
pub type Exported = (usize, usize, usize);

/// Exports a part of a file; `chunk_release` of the C table takes it back.
pub fn export(chunk: Chunk) -> Exported {
    let address = chunk
        .segment
        .bytes(chunk.at, chunk.len)
        .map_or(0, |b| b.as_ptr() as usize);
    let len = if address == 0 { 0 } else { chunk.len };
    (chunk.segment.export() as usize, address, len)
}
