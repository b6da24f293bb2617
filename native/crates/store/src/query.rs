//! Looking messages up by key, and by the physical offset that a message id states.

use super::error::{Result, StoreError};
use super::index::Index;
use super::read::{Chunk, Reader};
use super::resident::{Resident, Wait};
use super::topics::Topics;
use pyrmq_format::candidate::{self, BLANK_LEN, Start};
use pyrmq_format::index::{MAX_HITS, key_hash, message_keys, topic_seed};
use pyrmq_format::record::{self, Found, View};
use std::sync::Arc;

/// Bytes of records that one query gives at most, or one record: clients take frames of 16 MiB.
const MAX_ANSWER: usize = 15 << 20;
/// Bytes of a file that are read at a time to walk over its records.
const WALKED_AT_ONCE: usize = 1 << 20;
/// Most entries with the same hash that one query examines.
const MAX_CANDIDATES: usize = 4096;

/// What a look-up by key gave.
pub struct QueryResult {
    /// The records, oldest first.
    pub chunks: Vec<Chunk>,
    /// Store time and physical offset of what was indexed last; 0, 0 if nothing was.
    pub last_update: (i64, i64),
}

/// Looks messages up and reads them: in the index, if one is kept, or by where they stand.
pub struct Query {
    index: Option<Arc<Index>>,
    topics: Arc<Topics>,
    reader: Arc<Reader>,
}

impl Query {
    pub fn new(index: Option<Arc<Index>>, topics: Arc<Topics>, reader: Arc<Reader>) -> Self {
        Query {
            index,
            topics,
            reader,
        }
    }

    /// The record that starts at a physical offset which somebody names; None if none does. What
    /// stands there is not believed: a body may hold bytes that say to be a record of this place. The
    /// entry of its queue tells; where that does not lead here, the records of its file from the first
    /// on do, which may take long.
    pub fn by_offset(&self, phys: u64) -> Result<Option<Chunk>> {
        let Some(chunk) = self.reader.local_record_at(phys)? else {
            return Ok(None);
        };
        let Some((bytes, v)) = parts(&chunk) else {
            return Ok(None);
        };
        let topic = &bytes[v.topic.clone()];
        let entry = self.topics.entry(topic, v.queue_id, v.queue_offset)?;
        let leads_here = entry.is_some_and(|e| (e.cq.phys, e.cq.end()) == (v.phys, v.end()));
        Ok((leads_here || starts_record(&chunk)?).then_some(chunk))
    }

    /// The newest records with this key (one of KEYS, or the unique key) that were stored between
    /// `begin` and `end` (ms since the epoch, both included), oldest first, at most `max`.
    ///
    /// Times count by whole seconds in an index, rounded down, so a record within a second of
    /// `begin` may be missed. [DefaultMessageStore.queryMessage]
    pub fn query(
        &self,
        topic: &[u8],
        key: &[u8],
        max: usize,
        begin: i64,
        end: i64,
    ) -> Result<QueryResult> {
        self.reader.check_readable()?;
        let mut result = QueryResult {
            chunks: Vec::new(),
            last_update: (0, 0),
        };
        let Some(index) = &self.index else {
            return Err(StoreError::Illegal(
                "no index is kept: set messageIndexEnable=true".into(),
            ));
        };
        result.last_update = index.last_update()?;
        let max = max.clamp(1, MAX_HITS);
        let hash = key_hash(topic_seed(topic), key);
        let mut bytes_found = 0;
        // Equal hashes of other keys do not count, so more are examined than asked for.
        for phys in index.query(hash, MAX_CANDIDATES, begin, end)? {
            let Some(chunk) = self.reader.record_at(phys)? else {
                continue;
            };
            let Some((bytes, v)) = parts(&chunk) else {
                continue;
            };
            let known = result.chunks.iter().any(|c| same_place(c, &chunk));
            if bytes[v.topic.clone()] == *topic
                && !known
                && message_keys(&bytes[v.props.clone()]).any(|k| k == key)
            {
                bytes_found += chunk.len;
                if bytes_found > MAX_ANSWER && !result.chunks.is_empty() {
                    break;
                }
                result.chunks.push(chunk);
                if result.chunks.len() == max {
                    break;
                }
            }
        }
        result
            .chunks
            .sort_by_key(|c| c.segment.base() + c.at as u64);
        Ok(result)
    }
}

/// The record that a chunk is.
fn parts(chunk: &Chunk) -> Option<(&[u8], View)> {
    let bytes = chunk.segment.bytes(chunk.at, chunk.len)?;
    match record::read(bytes, false) {
        Found::Record(v) => Some((bytes, v)),
        _ => None,
    }
}

/// Whether the records of its file lead to the start of this chunk.
fn starts_record(chunk: &Chunk) -> Result<bool> {
    let size = chunk.segment.written();
    let mut heads = Resident::reading_ahead(Wait::ForDisk, WALKED_AT_ONCE);
    let mut at = 0;
    while at < chunk.at {
        let head = heads.bytes(&chunk.segment, at, BLANK_LEN.min(size - at))?;
        match candidate::start(head.unwrap_or(&[]), (size - at) as u64) {
            Start::Record(total) => at += total,
            _ => return Ok(false),
        }
    }
    Ok(at == chunk.at)
}

fn same_place(a: &Chunk, b: &Chunk) -> bool {
    a.segment.base() == b.segment.base() && a.at == b.at
}
