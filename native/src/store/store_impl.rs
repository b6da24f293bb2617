//! `Store`: ties log, topics, flushing and preparation together; opening and closing.

use super::commit_log::CommitLog;
use super::config::{FlushMode, StoreConfig};
use super::error::{Result, StoreError};
use super::flush::FlushState;
use super::guard::{self, StoreLock};
use super::index::{Index, IndexConfig};
use super::indexing::IndexProgress;
use super::prepare::Preparer;
use super::put::Writer;
use super::replay::EndedHalf;
use super::topics::Topics;
use crate::format::checkpoint::Checkpoint;
use crate::format::host::Host;
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

pub struct Store {
    config: StoreConfig,
    pub(super) store_host: Host,
    pub(super) log: CommitLog,
    pub(super) topics: Topics,
    pub(super) writer: Mutex<Writer>,
    pub(super) flush: FlushState,
    pub(super) preparer: Preparer,
    /// Store time of the newest record.
    pub(super) put_times: AtomicI64,
    pub(super) last_checkpoint: Mutex<Option<Checkpoint>>,
    /// The checkpoint as it was found: fields that this store does not move are kept.
    pub(super) opened_with: Mutex<Checkpoint>,
    pub(super) index: Option<Index>,
    pub(super) index_progress: IndexProgress,
    /// See `take_ended_halves`.
    pub(super) ended_halves: Mutex<Vec<EndedHalf>>,
    /// One round of retention at a time.
    pub(super) cleaning: Mutex<()>,
    /// Queues and index have been brought in line with a log that starts here.
    pub(super) trimmed_to: AtomicU64,
    pub(super) disk_full: AtomicBool,
    pub(super) damage_told: AtomicBool,
    pub(super) damaged_entries: AtomicU64,
    closed: AtomicBool,
    lock: Mutex<Option<StoreLock>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    indexer: Mutex<Option<JoinHandle<()>>>,
}

/// Figures for operators and tests.
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    pub min_phys: u64,
    pub max_phys: u64,
    pub flushed: u64,
    /// Bytes of the active commit-log file that are reserved and faulted in ahead of the writer.
    pub prepared_ahead: u64,
    pub topics: usize,
    pub queues: usize,
    pub queue_files: usize,
    pub mapped_queue_files: usize,
    /// Physical offset that the index has reached (the log's end if none is kept).
    pub indexed: u64,
    pub index_files: usize,
    /// Buffers of the log that Python holds, and the deleted files they keep.
    pub held_slices: usize,
    pub held_deleted_files: usize,
    pub disk_full: bool,
    /// Queue entries that readers left out as damaged.
    pub damaged_entries: u64,
}

/// Milliseconds since the epoch.
pub fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as i64)
}

impl Store {
    /// Opens or creates the store, recovers it and starts its threads.
    pub fn open(config: StoreConfig) -> Result<Arc<Store>> {
        config.validate()?;
        guard::create_dirs(&config.root)?;
        let lock = StoreLock::take(&config.root)?;
        let last_stop = guard::last_stop(&config.root)?;
        let store = Store {
            store_host: Host::new(config.store_host),
            log: CommitLog::open(&config)?,
            topics: Topics::open(&config)?,
            writer: Mutex::default(),
            flush: FlushState::new()?,
            preparer: Preparer::default(),
            put_times: AtomicI64::new(0),
            last_checkpoint: Mutex::new(None),
            opened_with: Mutex::default(),
            index: open_index(&config)?,
            index_progress: IndexProgress::default(),
            ended_halves: Mutex::default(),
            cleaning: Mutex::new(()),
            trimmed_to: AtomicU64::new(0),
            disk_full: AtomicBool::new(false),
            damage_told: AtomicBool::new(false),
            damaged_entries: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            lock: Mutex::new(Some(lock)),
            threads: Mutex::default(),
            indexer: Mutex::default(),
            config,
        };
        if let Err(e) = store.recover(last_stop) {
            if last_stop == guard::LastStop::Clean {
                let _ = guard::remove_abort(&store.config.root); // nothing was decided
            }
            return Err(e);
        }
        store.take_back_index_time()?;
        guard::write_abort(&store.config.root)?;
        guard::sync_dir(&store.config.root)?;
        let store = Arc::new(store);
        if let Err(e) = store.start_threads() {
            let _ = store.close();
            return Err(e);
        }
        Ok(store)
    }

    fn start_threads(self: &Arc<Self>) -> Result<()> {
        let spawn = |name: &str, work: fn(&Store)| {
            let store = self.clone();
            std::thread::Builder::new()
                .name(name.into())
                .spawn(move || {
                    let done = catch_unwind(AssertUnwindSafe(|| work(&store)));
                    if done.is_err() {
                        let text = "a thread of the store panicked: this is a bug".into();
                        store.flush.fail(StoreError::NotAvailable(text));
                    }
                })
                .map_err(|e| StoreError::io("start thread", name, &e))
        };
        let mut threads = self.threads.lock();
        threads.push(spawn("pyrmq-flush", Store::run_log_flusher)?);
        threads.push(spawn("pyrmq-queues", Store::run_rest_flusher)?);
        threads.push(spawn("pyrmq-prepare", |s| {
            s.preparer.run(&s.log, s.config.warm_mapped_file)
        })?);
        if self.config.retention.interval > 0 {
            threads.push(spawn("pyrmq-clean", Store::run_cleaner)?);
        }
        if self.index.is_some() {
            *self.indexer.lock() = Some(spawn("pyrmq-index", Store::run_indexer)?);
        }
        Ok(())
    }

    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    pub fn log(&self) -> &CommitLog {
        &self.log
    }

    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    pub fn flush_state(&self) -> &FlushState {
        &self.flush
    }

    pub fn store_host(&self) -> &Host {
        &self.store_host
    }

    /// Takes what recovery saw of transactions that were committed or discarded: their halves, from the
    /// last part of the log, which is all that a crash can have left without an op record.
    pub fn take_ended_halves(&self) -> Vec<EndedHalf> {
        std::mem::take(&mut self.ended_halves.lock())
    }

    pub fn is_sync(&self) -> bool {
        self.config.flush_mode == FlushMode::Sync
    }

    /// Consumers see what lies below: with SYNC_FLUSH only what no crash can take back.
    #[inline]
    pub fn confirm_offset(&self) -> u64 {
        if self.is_sync() {
            self.flush.flushed()
        } else {
            self.log.max_offset()
        }
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::NotAvailable("it is closed".into()));
        }
        if self.flush.has_failed() {
            let why = self
                .flush
                .failure()
                .map_or_else(String::new, |e| e.to_string());
            return Err(StoreError::NotAvailable(format!("a flush failed: {why}")));
        }
        if self.disk_full.load(Ordering::Relaxed) {
            return Err(StoreError::NotAvailable(format!(
                "the disk is more than {} % full (diskSpaceWarningLevelRatio): make room or add a \
                 folder to storePathCommitLog",
                self.config.retention.warning_ratio.clamp(35, 90)
            )));
        }
        Ok(())
    }

    pub(super) fn check_readable(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::NotAvailable("it is closed".into()));
        }
        Ok(())
    }

    pub fn stats(&self) -> Stats {
        let topics = self.topics.all();
        let queues = self.topics.all_queues();
        let (held_slices, held_deleted_files) = self.log.held();
        Stats {
            min_phys: self.log.min_offset(),
            max_phys: self.log.max_offset(),
            flushed: self.flush.flushed(),
            prepared_ahead: self
                .log
                .segments()
                .last()
                .map_or(0, |s| s.populated().saturating_sub(s.written()) as u64),
            topics: topics.len(),
            queues: queues.len(),
            queue_files: queues.iter().map(|q| q.files().len()).sum(),
            mapped_queue_files: self.topics.maps().mapped(),
            indexed: self.indexed().min(self.log.max_offset()),
            index_files: self.index.as_ref().map_or(0, Index::len),
            held_slices,
            held_deleted_files,
            disk_full: self.disk_full.load(Ordering::Relaxed),
            damaged_entries: self.damaged_entries.load(Ordering::Relaxed),
        }
    }

    /// Flushes everything and stops; a second call does nothing. The `abort` file goes only when
    /// all of it succeeded.
    pub fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        drop(self.writer.lock()); // a put that is under way ends first
        self.preparer.stop();
        self.flush.stop();
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                log::error!("a thread of the store panicked");
            }
        }
        drop(self.cleaning.lock()); // a round that was asked for ends before the lock file is let go
        self.flush_log();
        self.index_progress.stop();
        if let Some(thread) = self.indexer.lock().take() {
            let _ = thread.join();
        }
        let flushed = match self.flush.failure() {
            Some(e) => Err(e),
            None => self.flush_rest(true).and_then(|()| self.finish_index()),
        };
        let dropped = self.log.drop_next();
        let caught_up = self.indexed() >= self.log.max_offset();
        if !caught_up {
            log::warn!("the index is not complete: the next start completes it");
        }
        let mut result = flushed.and(dropped);
        if result.is_ok() && caught_up {
            let root = &self.config.root;
            result = guard::remove_abort(root).and_then(|()| guard::sync_dir(root));
        }
        *self.lock.lock() = None;
        result
    }

    /// At a clean stop the index has everything and is on disk.
    fn finish_index(&self) -> Result<()> {
        self.flush_index(true)?;
        self.write_checkpoint()
    }
}

fn open_index(config: &StoreConfig) -> Result<Option<Index>> {
    if !config.index_enable {
        return Ok(None);
    }
    Index::open(IndexConfig {
        dir: config.root.join("index"),
        slots: config.index_slots,
        entries: config.index_entries,
    })
    .map(Some)
}
