//! Following the log: the thread that enters message keys into the index, and looking keys up.
//!
//! The index is behind the log by a few milliseconds; a clean stop waits for it. It can be deleted
//! at any time and is built anew from the log. What it cannot write (a full disk) it tries again
//! every second; messages are taken meanwhile.

use super::error::Result;
use super::read::Chunk;
use super::resync;
use super::store_impl::Store;
use crate::format::index::{MAX_HITS, key_hash, message_keys, topic_seed};
use crate::format::record::{self, Found, View, sys_flag};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// While messages come, the thread lets them gather for this long.
const GATHER: Duration = Duration::from_millis(2);
/// Pause after an error.
const RETRY: Duration = Duration::from_secs(1);
/// Longest time that a stop waits for the index to catch up.
const LAST_CHANCE: Duration = Duration::from_secs(60);
/// Bytes of log that are read before others get their turn with the position.
const STEP: u64 = 4 << 20;
/// Bytes of records that one query gives at most, or one record: clients take frames of 16 MiB.
const MAX_ANSWER: usize = 15 << 20;
/// Most entries with the same hash that one query looks at.
const MAX_CANDIDATES: usize = 4096;

#[derive(Default)]
pub(super) struct IndexProgress {
    /// Physical offset that the index has reached.
    at: AtomicU64,
    /// The thread sleeps until the log grows.
    idle: AtomicBool,
    stop: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl IndexProgress {
    pub fn at(&self) -> u64 {
        self.at.load(Ordering::Acquire)
    }

    pub fn set(&self, at: u64) {
        self.at.store(at, Ordering::Release);
    }

    /// Called behind every put.
    #[inline]
    pub fn log_grew(&self) {
        // Pairs with the fence in `wait`: either we see the flag, or the thread sees the log.
        fence(Ordering::SeqCst);
        if self.idle.load(Ordering::Relaxed) && self.idle.swap(false, Ordering::AcqRel) {
            let _lock = self.lock.lock();
            self.changed.notify_one();
        }
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let _lock = self.lock.lock();
        self.changed.notify_one();
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn pause(&self, time: Duration) {
        let mut lock = self.lock.lock();
        if !self.is_stopped() {
            self.changed.wait_for(&mut lock, time);
        }
    }

    /// Sleeps until the log grows beyond `seen`.
    fn wait(&self, seen: u64, log_end: impl Fn() -> u64) {
        let mut lock = self.lock.lock();
        self.idle.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if log_end() > seen || self.is_stopped() {
            self.idle.store(false, Ordering::Relaxed);
            return;
        }
        while self.idle.load(Ordering::Acquire) && !self.is_stopped() {
            self.changed.wait(&mut lock);
        }
    }
}

/// What a look-up by key gave.
pub struct QueryResult {
    /// The records, oldest first.
    pub chunks: Vec<Chunk>,
    /// Store time and physical offset of what was indexed last; 0, 0 if nothing was.
    pub last_update: (i64, i64),
}

impl Store {
    /// Physical offset that the index has reached; beyond every log if none is kept.
    pub fn indexed(&self) -> u64 {
        match self.index {
            Some(_) => self.index_progress.at(),
            None => u64::MAX,
        }
    }

    /// Where the index goes on after `recover`; the log ends at `end`.
    pub(super) fn recover_index(&self, clean: bool, finished: i64, end: u64) -> Result<()> {
        let Some(index) = &self.index else {
            return Ok(());
        };
        let min = self.log.min_offset();
        index.recover(clean, finished)?;
        // Not all keys of the last message may be there: it is indexed again.
        let last = index.truncate_phys(end)?;
        let complete = clean && !index.lost_files(); // a clean stop waited for the index
        let at = match last {
            // Behind it are messages without keys, or of a time when no index was kept.
            Some(last) if complete && !index.ends_full() => {
                self.record_at_any(last).map_or(last, |len| last + len)
            }
            Some(last) => last,
            None => min,
        };
        self.index_progress.set(at.max(min));
        Ok(())
    }

    /// Bytes of the record that starts at a physical offset.
    fn record_at_any(&self, phys: u64) -> Option<u64> {
        let (segment, at) = self.log.locate(phys)?;
        match record::read(segment.readable_from(at), false) {
            Found::Record(v) => Some(v.total as u64),
            _ => None,
        }
    }

    /// Deletes index files that only know of deleted messages.
    pub(super) fn trim_index(&self, min: u64) -> Result<usize> {
        self.index.as_ref().map_or(Ok(0), |index| index.trim(min))
    }

    /// The thread's work, until the store stops and the index has caught up.
    pub(super) fn run_indexer(&self) {
        let progress = &self.index_progress;
        let mut told = false;
        let mut last_chance = None;
        loop {
            let limit = self.confirm_offset();
            let done = self.index_some(limit);
            if progress.is_stopped() {
                let until = *last_chance.get_or_insert_with(|| Instant::now() + LAST_CHANCE);
                let end = self.confirm_offset(); // messages may have come since `limit` was read
                if done.is_err() || progress.at() >= end || Instant::now() > until {
                    return;
                }
                continue;
            }
            match done {
                Err(e) => {
                    if !std::mem::replace(&mut told, true) {
                        log::error!("message keys are not indexed, tries go on: {e}");
                    }
                    progress.pause(RETRY);
                }
                Ok(()) if progress.at() < limit => {}
                Ok(()) => {
                    told = false;
                    if self.log.max_offset() == limit {
                        progress.wait(limit, || self.log.max_offset());
                    }
                    progress.pause(GATHER);
                }
            }
        }
    }

    /// Indexes records below `limit`, for a few MiB of log.
    fn index_some(&self, limit: u64) -> Result<()> {
        let Some(index) = &self.index else {
            return Ok(());
        };
        let mut at = self.index_progress.at().max(self.log.min_offset());
        let until = limit.min(at + STEP);
        let mut seed = Seed::default();
        while at < until {
            let Some((segment, start)) = self.log.locate(at) else {
                break;
            };
            let bytes = segment.readable_from(0);
            let mut pos = start;
            while at < until {
                match record::read(bytes.get(pos..).unwrap_or(&[]), false) {
                    Found::Record(v) if at + v.total as u64 <= limit => {
                        let record = &bytes[pos..pos + v.total];
                        if indexes(&v) {
                            let topic = seed.of(&record[v.topic.clone()]);
                            for key in message_keys(&record[v.props.clone()]) {
                                index.put(key_hash(topic, key), at, v.store_timestamp)?;
                            }
                        }
                        pos += v.total;
                        at += v.total as u64;
                    }
                    Found::Record(_) => return Ok(()),
                    Found::Blank => at = segment.end(),
                    Found::Invalid(why) => {
                        log::info!("what stands at {at} is not indexed: {why}");
                        at = match resync::next_record(&segment, pos)? {
                            Some(next) => segment.base() + next.at as u64,
                            None => segment.end(),
                        };
                        pos = (at - segment.base()) as usize;
                    }
                }
                self.index_progress.set(at);
                if at == segment.end() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The newest records with this key (one of KEYS, or the unique key) that were stored between
    /// `begin` and `end` (ms since the epoch, both included), oldest first, at most `max`.
    ///
    /// Times count by whole seconds in an index, rounded down, so a record within a second of
    /// `begin` may be missed. [DefaultMessageStore.queryMessage]
    pub fn query_message(
        &self,
        topic: &[u8],
        key: &[u8],
        max: usize,
        begin: i64,
        end: i64,
    ) -> Result<QueryResult> {
        self.check_readable()?;
        let mut result = QueryResult {
            chunks: Vec::new(),
            last_update: (0, 0),
        };
        let Some(index) = &self.index else {
            return Err(super::StoreError::Illegal(
                "no index is kept: set messageIndexEnable=true".into(),
            ));
        };
        result.last_update = index.last_update();
        let max = max.clamp(1, MAX_HITS);
        let hash = key_hash(topic_seed(topic), key);
        let mut bytes_found = 0;
        // Equal hashes of other keys do not count, so more are looked at than asked for.
        for phys in index.query(hash, MAX_CANDIDATES, begin, end) {
            let Some(chunk) = self.record_at(phys) else {
                continue;
            };
            let Some(bytes) = chunk.segment.bytes(chunk.at, chunk.len) else {
                continue;
            };
            let Found::Record(v) = record::read(bytes, false) else {
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

fn same_place(a: &Chunk, b: &Chunk) -> bool {
    a.segment.base() == b.segment.base() && a.at == b.at
}

/// Which records have their keys in the index. [CommitLogDispatcherBuildIndex]
fn indexes(v: &View) -> bool {
    v.sys_flag & sys_flag::TRANSACTION_MASK != sys_flag::ROLLBACK
}

/// The hash of "topic#", kept as neighbours mostly share the topic.
#[derive(Default)]
struct Seed {
    topic: Vec<u8>,
    seed: i32,
}

impl Seed {
    fn of(&mut self, topic: &[u8]) -> i32 {
        if self.topic != topic {
            self.topic.clear();
            self.topic.extend_from_slice(topic);
            self.seed = topic_seed(topic);
        }
        self.seed
    }
}
