//! The indexer: one thread follows the log and puts message keys into the index.
//!
//! The index is behind the log by a few milliseconds; a clean stop waits for it. It can be deleted
//! at any time and is built anew from the log. What it cannot write (a full disk) it tries again
//! every second; messages are taken meanwhile.

use super::barrier::Barrier;
use super::commit_log::CommitLog;
use super::error::{Result, StoreError};
use super::index::{Index, KeyEntry};
use super::index_file::IndexFile;
use super::resident::{Resident, Wait};
use super::resync;
use parking_lot::{Condvar, Mutex};
use pyrmq_format::index::{key_hash, message_keys, topic_seed};
use pyrmq_format::record::{self, Found, View, sys_flag};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// While messages come, the thread lets them gather for this long.
const GATHER: Duration = Duration::from_millis(2);
/// Pause after an error.
const RETRY: Duration = Duration::from_secs(1);
/// After so many attempts the rest of a file that cannot be read is left out.
const GIVEN_UP: u32 = 10;
/// Longest time that a stop waits for the index to catch up.
const LAST_CHANCE: Duration = Duration::from_secs(60);
/// Bytes of log that are read before others get their turn with the position.
const STEP: u64 = 4 << 20;

#[derive(Default)]
struct Progress {
    /// Physical offset that the index has reached.
    at: AtomicU64,
    /// The thread sleeps until the log grows.
    idle: AtomicBool,
    stop: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Progress {
    fn at(&self) -> u64 {
        self.at.load(Ordering::Acquire)
    }

    fn set(&self, at: u64) {
        self.at.store(at, Ordering::Release);
    }

    /// Called behind every put.
    #[inline]
    fn log_grew(&self) {
        // Pairs with the fence in `wait`: either we see the flag, or the thread sees the log.
        fence(Ordering::SeqCst);
        if self.idle.load(Ordering::Relaxed) && self.idle.swap(false, Ordering::AcqRel) {
            let _lock = self.lock.lock();
            self.changed.notify_one();
        }
    }

    fn stop(&self) {
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

pub struct Indexer {
    index: Arc<Index>,
    log: Arc<CommitLog>,
    barrier: Arc<Barrier>,
    progress: Progress,
}

impl Indexer {
    pub fn new(index: Arc<Index>, log: Arc<CommitLog>, barrier: Arc<Barrier>) -> Self {
        Indexer {
            index,
            log,
            barrier,
            progress: Progress::default(),
        }
    }

    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Physical offset that the index has reached.
    pub fn indexed(&self) -> u64 {
        self.progress.at()
    }

    /// Called behind every put.
    #[inline]
    pub fn log_grew(&self) {
        self.progress.log_grew();
    }

    /// Ends `run` once the index has caught up.
    pub fn stop(&self) {
        self.progress.stop();
    }

    /// Where the index continues after a start. `clean`: it was stopped cleanly; `finished`: the
    /// checkpoint's indexMsgTimestamp; `end`: of the log.
    pub fn recover(&self, clean: bool, finished: i64, end: u64) -> Result<()> {
        let min = self.log.min_offset();
        self.index.recover(clean, finished)?;
        // Not all keys of the last message may be there: it is indexed again.
        let last = self.index.truncate_phys(end)?;
        let complete = clean && !self.index.lost_files(); // a clean stop waited for the index
        let at = match last {
            // Behind it are messages without keys, or of a time when no index was kept.
            Some(last) if complete && !self.index.ends_full() => {
                self.record_len(last)?.map_or(last, |len| last + len)
            }
            Some(last) => last,
            None => min,
        };
        self.progress.set(at.max(min));
        Ok(())
    }

    /// Bytes of the record that starts at a physical offset.
    fn record_len(&self, phys: u64) -> Result<Option<u64>> {
        let Some((segment, at)) = self.log.locate(phys) else {
            return Ok(None);
        };
        let bytes = Resident::new(Wait::ForDisk).record(&segment, at)?;
        Ok(match record::read(bytes, false) {
            Found::Record(v) => Some(v.total as u64),
            _ => None,
        })
    }

    /// The thread's work, until the store stops and the index has caught up.
    pub fn run(&self) {
        let progress = &self.progress;
        let mut logged = false;
        let mut seen = 0;
        let mut failures = (0, 0);
        let mut last_chance = None;
        loop {
            let limit = self.barrier.confirmed();
            let done = self.index_some(limit);
            if progress.is_stopped() {
                let until = *last_chance.get_or_insert_with(|| Instant::now() + LAST_CHANCE);
                let end = self.barrier.confirmed(); // messages may have come since `limit` was read
                if done.is_err() || progress.at() >= end || Instant::now() > until {
                    return;
                }
                continue;
            }
            match done {
                Err(e) => {
                    if !std::mem::replace(&mut logged, true) {
                        log::error!(path:% = e.path().display(); "message keys are not indexed, it is tried again: {e}");
                    }
                    failures = if failures.0 == progress.at() {
                        (failures.0, failures.1 + 1)
                    } else {
                        (progress.at(), 1)
                    };
                    if failures.1 >= GIVEN_UP && matches!(&e, StoreError::Io { what: "read", .. }) {
                        self.skip_unreadable(&e);
                    }
                    progress.pause(RETRY);
                }
                Ok(()) if progress.at() < limit => {}
                Ok(()) => {
                    logged = false;
                    // Whoever puts wakes the thread only if nothing came for a while.
                    if seen == limit && self.log.max_offset() == limit {
                        progress.wait(limit, || self.log.max_offset());
                    }
                    seen = limit;
                    progress.pause(GATHER);
                }
            }
        }
    }

    /// Goes on in the next file of the log: retention does not wait for what no disk can read.
    #[cold]
    fn skip_unreadable(&self, e: &StoreError) {
        let at = self.progress.at();
        let next = self.log.next_file_start(at);
        if next <= self.barrier.confirmed() {
            log::error!(path:% = e.path().display(); "keys of the messages from {at} to {next} are not indexed: {e}");
            self.progress.set(next);
        }
    }

    /// Indexes records below `limit`, for a few MiB of log. Never inlined: `make bench-instructions` counts it.
    #[inline(never)]
    fn index_some(&self, limit: u64) -> Result<()> {
        let mut at = self.progress.at().max(self.log.min_offset());
        let until = limit.min(at + STEP);
        let mut seed = Seed::default();
        let mut entries = Entries::of(self, at);
        while at < until {
            let Some((segment, start)) = self.log.locate(at) else {
                break;
            };
            let mut near = Resident::reading_ahead(Wait::ForDisk, STEP as usize);
            let mut pos = start;
            while at < until {
                let bytes = near.record(&segment, pos)?;
                match record::read(bytes, false) {
                    Found::Record(v) if at + v.total as u64 <= limit => {
                        let record = &bytes[..v.total];
                        if indexes(&v) {
                            let topic = seed.of(&record[v.topic.clone()]);
                            for key in message_keys(&record[v.props.clone()]) {
                                entries.add(key_hash(topic, key), at, v.store_timestamp)?;
                            }
                        }
                        pos += v.total;
                        at += v.total as u64;
                    }
                    Found::Record(_) => return entries.put_all(),
                    Found::Blank => at = segment.end(),
                    Found::Invalid(why) => {
                        log::info!(path:% = segment.path().display(); "the record at {at} is not indexed: {why}");
                        // Whatever is found there, a look-up compares it with what it leads to.
                        at = match resync::next_record(&segment, pos, |_, _| Ok(true))? {
                            Some(next) => segment.base() + next as u64,
                            None => segment.end(),
                        };
                        pos = (at - segment.base()) as usize;
                    }
                }
                entries.reached = at;
                if at == segment.end() {
                    break;
                }
            }
        }
        entries.put_all()
    }
}

/// Entries that are put together: by the time that one is put, the processor has fetched its place.
/// Slots lie anywhere in some MiB, so that nearly each of them would be waited for.
struct Entries<'i> {
    indexer: &'i Indexer,
    /// The file that is written, as it was lately: what is fetched is of this one.
    file: Option<Arc<IndexFile>>,
    waiting: Vec<KeyEntry>,
    /// The keys of all records before this physical offset were added.
    reached: u64,
}

/// How many entries wait at most: what a processor can fetch at a time.
const WAITING: usize = 16;

impl<'i> Entries<'i> {
    fn of(indexer: &'i Indexer, at: u64) -> Self {
        Entries {
            indexer,
            file: indexer.index.writer().file(),
            waiting: Vec::with_capacity(WAITING),
            reached: at,
        }
    }

    #[inline]
    fn add(&mut self, key_hash: i32, phys: u64, store_timestamp: i64) -> Result<()> {
        if self.waiting.len() >= WAITING {
            self.put_waiting()?;
        }
        if let Some(file) = &self.file {
            file.prefetch(key_hash);
        }
        self.waiting.push(KeyEntry {
            key_hash,
            phys,
            store_timestamp,
        });
        Ok(())
    }

    /// Puts all of them: what was reached is in the index.
    fn put_all(&mut self) -> Result<()> {
        self.put_waiting()?;
        self.indexer.progress.set(self.reached);
        Ok(())
    }

    /// What cannot be put is tried again, from the first key of its message on.
    fn put_waiting(&mut self) -> Result<()> {
        let mut writer = self.indexer.index.writer();
        for entry in self.waiting.drain(..) {
            if let Err(e) = writer.put(&entry) {
                self.reached = entry.phys;
                return Err(e);
            }
        }
        self.file = writer.file();
        Ok(())
    }
}

impl Drop for Entries<'_> {
    /// What was read before something failed is put all the same.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = self.put_waiting(); // tried again
            self.indexer.progress.set(self.reached);
        }
    }
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

#[cfg(test)]
#[path = "indexer_tests.rs"]
mod tests;
