//! How much of the log topics take, and the files of the log with what retention knows of them.

use super::error::to_py;
use super::store::Store;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

/// A queue: id, queue offset of the first message and the one behind the last, messages, bytes of their
/// records, whether every entry was read.
type OfQueue = (u32, i64, i64, u64, u64, bool);

/// What the queues of a topic take of the log from physical offset `begin` to before `end`: [(queue id,
/// first queue offset, the one behind the last, messages, bytes of records, exact)]. Of a queue with
/// more than `most` entries there, about so many are read, and the rest is estimated. OSError if a queue
/// cannot be read.
#[pyfunction]
pub fn topic_sizes(
    py: Python<'_>,
    store: PyRef<'_, Store>,
    topic: &str,
    begin: u64,
    end: u64,
    most: u64,
) -> PyResult<Vec<OfQueue>> {
    let store = store.inner().clone();
    py.detach(|| {
        let Some(topic) = store.topics().get(topic.as_bytes()) else {
            return Ok(Vec::new());
        };
        let of_queue = |queue: std::sync::Arc<pyrmq_store::ConsumeQueue>| {
            let s = queue.sizes(begin, end, most)?;
            let id = queue.queue_id();
            Ok((id, s.first, s.next, s.messages, s.bytes, s.exact))
        };
        topic.queues().into_iter().map(of_queue).collect()
    })
    .map_err(|e| to_py(py, e))
}

/// The names of all topics that have a queue in the store, also of deleted ones.
#[pyfunction]
pub fn stored_topics(py: Python<'_>, store: PyRef<'_, Store>) -> Vec<String> {
    let store = store.inner().clone();
    py.detach(|| {
        let all = store.topics().all();
        let name =
            |t: &std::sync::Arc<pyrmq_store::Topic>| String::from_utf8_lossy(t.name()).into_owned();
        all.iter().map(name).collect()
    })
}

/// The files of the commit log, oldest first: [(path, physical offset of its first byte, the one behind
/// it, ms since 1970 when it was changed last or None, why retention keeps it in any case or None)].
#[pyfunction]
#[allow(clippy::type_complexity)]
pub fn log_files(
    py: Python<'_>,
    store: PyRef<'_, Store>,
) -> Vec<(PathBuf, u64, u64, Option<i64>, Option<&'static str>)> {
    let store = store.inner().clone();
    py.detach(|| {
        let segments = store.log().segments();
        let last = segments.last().map(|s| s.base());
        let (flushed, indexed) = (store.barrier().flushed(), store.indexed());
        let row = |segment: &std::sync::Arc<pyrmq_store::Segment>| {
            let modified = std::fs::metadata(segment.path()).and_then(|m| m.modified());
            let since = modified
                .ok()
                .and_then(|t| t.duration_since(UNIX_EPOCH).ok());
            let kept = match segment.end() {
                _ if Some(segment.base()) == last => Some("it is the last one"),
                end if end > flushed => Some("it is not flushed"),
                end if end > indexed => Some("it is not indexed"),
                _ => None,
            };
            let changed = since.map(|t| t.as_millis() as i64);
            let path = segment.path().to_path_buf();
            (path, segment.base(), segment.end(), changed, kept)
        };
        segments.iter().map(row).collect()
    })
}

/// How far the log is: the physical offsets of its first byte, of its end, and up to where it is flushed,
/// confirmed and indexed.
#[pyfunction]
pub fn log_bounds(store: PyRef<'_, Store>) -> (u64, u64, u64, u64, u64) {
    let store = store.inner();
    let end = store.log().max_offset();
    let barrier = store.barrier();
    let (flushed, confirmed) = (barrier.flushed(), barrier.confirmed());
    let up_to = |offset: u64| offset.min(end);
    (
        store.log().min_offset(),
        end,
        up_to(flushed),
        up_to(confirmed),
        up_to(store.indexed()),
    )
}
