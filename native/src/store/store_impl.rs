//! `Store`: ties log, topics, flushing and preparation together; opening and closing.

use super::commit_log::CommitLog;
use super::config::{FlushMode, StoreConfig};
use super::error::{Result, StoreError};
use super::flush::FlushState;
use super::guard::{self, StoreLock};
use super::prepare::Preparer;
use super::put::Writer;
use super::topics::Topics;
use crate::format::checkpoint::Checkpoint;
use crate::format::host::Host;
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
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
    closed: AtomicBool,
    lock: Mutex<Option<StoreLock>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
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
}

pub(super) fn now_ms() -> i64 {
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
        let clean = !guard::abort_path(&config.root).exists();
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
            closed: AtomicBool::new(false),
            lock: Mutex::new(Some(lock)),
            threads: Mutex::default(),
            config,
        };
        store.recover(clean)?;
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
        threads.push(spawn("pyrmq-prepare", |s| s.preparer.run(&s.log))?);
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
            queues: topics.iter().map(|t| t.queues().len()).sum(),
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
        self.flush_log();
        let flushed = match self.flush.failure() {
            Some(e) => Err(e),
            None => self.flush_rest(),
        };
        let dropped = self.log.drop_next();
        let result = flushed.and(dropped);
        if result.is_ok() {
            guard::remove_abort(&self.config.root)?;
            guard::sync_dir(&self.config.root)?;
        }
        *self.lock.lock() = None;
        result
    }
}
