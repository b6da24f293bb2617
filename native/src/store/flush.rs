//! Durability: the flushing threads and the barrier that acknowledgements wait for.
//!
//! One thread writes the commit log. With SYNC_FLUSH it is woken by every request and flushes
//! everything appended so far in one go (group commit), then tells the event loop through an
//! eventfd. After a failed flush the state is `failed` for good: the kernel may have dropped the
//! dirty pages, so a second try could succeed without the data being there.
//!
//! A second thread writes queues and the checkpoint, which are rebuilt from the log anyway.

use super::config::FlushMode;
use super::consume_queue::ConsumeQueue;
use super::error::{Result, StoreError};
use super::guard::{self, sync_dir};
use super::segment::PAGE;
use super::store_impl::Store;
use crate::format::checkpoint::Checkpoint;
use parking_lot::{Condvar, Mutex};
use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// Up to this many queues with new entries are flushed each time.
const FEW_QUEUES: usize = 256;

pub struct FlushState {
    flushed: AtomicU64,
    /// Store time of the last record that is known to be on disk.
    flushed_timestamp: AtomicI64,
    /// Store time up to which all queue entries are known to be on disk.
    queues_timestamp: AtomicI64,
    wanted: Mutex<u64>,
    changed: Condvar,
    stop: AtomicBool,
    stop_rest: (Mutex<bool>, Condvar),
    failed: AtomicBool,
    /// Why queues or index were not flushed, for good.
    rest_failure: Mutex<Option<StoreError>>,
    failure: Mutex<Option<StoreError>>,
    event: OwnedFd,
}

/// What became of an acknowledgement that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Confirmed,
    Pending,
    FlushTimedOut,
    ReplicationTimedOut,
    NoReplica,
    Failed,
}

impl FlushState {
    pub fn outcome(&self, end: u64, waited_ms: i64, timeout_ms: i64) -> Outcome {
        if end <= self.flushed() {
            Outcome::Confirmed
        } else if self.has_failed() {
            Outcome::Failed
        } else if waited_ms >= timeout_ms {
            Outcome::FlushTimedOut
        } else {
            Outcome::Pending
        }
    }

    pub fn new() -> Result<Self> {
        // SAFETY: a plain system call; the result is checked before it is owned.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(StoreError::io(
                "eventfd",
                "",
                &std::io::Error::last_os_error(),
            ));
        }
        Ok(FlushState {
            flushed: AtomicU64::new(0),
            flushed_timestamp: AtomicI64::new(0),
            queues_timestamp: AtomicI64::new(0),
            wanted: Mutex::new(0),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            stop_rest: (Mutex::new(false), Condvar::new()),
            failed: AtomicBool::new(false),
            rest_failure: Mutex::new(None),
            failure: Mutex::new(None),
            // SAFETY: `fd` is a fresh descriptor that nobody else owns.
            event: unsafe { OwnedFd::from_raw_fd(fd) },
        })
    }

    /// Readable when a flush ended (or failed) since it was last read.
    pub fn event_fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    pub fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    pub(super) fn set_flushed(&self, offset: u64, timestamp: i64) {
        self.flushed.store(offset, Ordering::Release);
        self.flushed_timestamp.store(timestamp, Ordering::Release);
    }

    /// Asks for everything below `offset` to be flushed; does not wait.
    pub fn request(&self, offset: u64) {
        let mut wanted = self.wanted.lock();
        if offset > *wanted {
            *wanted = offset;
            self.changed.notify_one();
        }
    }

    #[inline]
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    pub fn failure(&self) -> Option<StoreError> {
        self.failure.lock().clone()
    }

    pub(super) fn fail(&self, error: StoreError) {
        log::error!("flush failed, the store stops acknowledging: {error}");
        self.failure.lock().get_or_insert(error);
        self.failed.store(true, Ordering::Release);
        self.signal();
    }

    fn signal(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight bytes of a live array are written to our own descriptor. A full counter
        // (EAGAIN) means that the reader has not been there yet, which is as good.
        unsafe { libc::write(self.event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        *self.wanted.lock() = u64::MAX;
        self.changed.notify_one();
        *self.stop_rest.0.lock() = true;
        self.stop_rest.1.notify_all();
    }

    /// Sleeps; true at once when the store stops.
    pub(super) fn wait_for_stop(&self, time: Duration) -> bool {
        let mut stop = self.stop_rest.0.lock();
        if !*stop {
            self.stop_rest.1.wait_for(&mut stop, time);
        }
        *stop
    }
}

impl Store {
    /// The log flusher's work, until the store stops.
    pub(super) fn run_log_flusher(&self) {
        let state = &self.flush;
        let interval = Duration::from_millis(self.config().flush_interval_commit_log.max(1));
        while !state.stop.load(Ordering::Acquire) {
            {
                let mut wanted = state.wanted.lock();
                let idle =
                    self.config().flush_mode == FlushMode::Async || *wanted <= state.flushed();
                // Asked under the lock, which `stop` takes before it notifies.
                if idle && !state.stop.load(Ordering::Acquire) {
                    state.changed.wait_for(&mut wanted, interval);
                }
            }
            if state.has_failed() {
                return;
            }
            self.flush_log();
        }
    }

    /// Writes the log to the disk and moves the barrier.
    pub(super) fn flush_log(&self) {
        let state = &self.flush;
        if state.has_failed() {
            return; // a second try could succeed without the data being there
        }
        // Read before the end offset: what has this time or an older one is below that end.
        let timestamp = self.put_times.load(Ordering::Relaxed);
        let from = state.flushed();
        let to = self.log.max_offset();
        if to <= from {
            return;
        }
        for s in self
            .log
            .segments()
            .iter()
            .filter(|s| s.end() > from && s.base() < to)
        {
            let start = from.saturating_sub(s.base()) as usize;
            let end = (to - s.base()).min(s.size() as u64) as usize;
            // The blank rest of a full file is a hole: only what was written counts.
            if let Err(e) = s.flush(start, end.min(s.reserved())) {
                state.fail(e);
                guard::note_failed_flush(&self.config().root);
                return;
            }
        }
        state.set_flushed(to, timestamp);
        if self.config().flush_mode == FlushMode::Sync {
            state.signal();
        }
    }

    /// The other flusher's work: queues, index and checkpoint.
    pub(super) fn run_rest_flusher(&self) {
        let cfg = self.config();
        let interval = Duration::from_millis(cfg.flush_interval_consume_queue.max(1));
        let thorough = Duration::from_millis(cfg.flush_queue_thorough_interval);
        let mut last_thorough = Instant::now();
        let mut told = false;
        while !self.flush.wait_for_stop(interval) {
            let all = last_thorough.elapsed() >= thorough;
            if all {
                last_thorough = Instant::now();
            }
            if let Err(e) = self.flush_rest(all)
                && !std::mem::replace(&mut told, true)
            {
                log::error!("queues, index or checkpoint not flushed: {e}");
            }
        }
    }

    /// Flushes queues with new entries, full index files, and notes in the checkpoint how far that
    /// got. When very many queues have a few new entries each, those wait, unless `all`: they are
    /// on disk in the log, and the checkpoint does not say otherwise.
    pub(super) fn flush_rest(&self, all: bool) -> Result<()> {
        if let Some(e) = self.flush.rest_failure.lock().clone() {
            // The kernel reports lost pages once. The checkpoint stays as it is and so does the
            // abort file, so that the next start enters everything anew from there.
            return Err(e);
        }
        let done = self
            .flush_queues(all)
            .and_then(|()| self.flush_index(false));
        if let Err(e) = done {
            *self.flush.rest_failure.lock() = Some(e.clone());
            guard::note_failed_flush(&self.config().root);
            return Err(e);
        }
        self.write_checkpoint()
    }

    fn flush_queues(&self, all: bool) -> Result<()> {
        // Read before the list is taken: what has this time or an older one is in it.
        let before = self.put_times.load(Ordering::Relaxed);
        let dirty = self.topics.take_dirty();
        let least = self.config().flush_queue_least_pages * PAGE as u64;
        let all = all || dirty.len() <= FEW_QUEUES;
        let (now, later): (Vec<_>, Vec<_>) = dirty
            .into_iter()
            .partition(|queue| all || queue.unflushed() >= least);
        for queue in later {
            self.topics.note_dirty(queue);
        }
        for queue in &now {
            queue.clear_dirty();
        }
        // Pairs with the one in `entered`: who still saw a mark has its entry seen here.
        fence(Ordering::SeqCst);
        self.flush_all(&now)?;
        if all {
            self.set_queues_flushed(before);
        }
        Ok(())
    }

    /// Flushes these queues: one by one, or when they are many the whole file system at once, as
    /// one sync of everything takes less than thousands of small ones.
    pub(super) fn flush_all(&self, queues: &[Arc<ConsumeQueue>]) -> Result<()> {
        let ends: Vec<_> = queues.iter().filter(|q| q.unflushed() > 0).collect();
        if ends.len() <= FEW_QUEUES || !self.topics.on_one_disk() {
            return ends.into_iter().try_for_each(|queue| queue.flush());
        }
        let ends: Vec<_> = ends.into_iter().map(|q| (q, q.files().end())).collect();
        guard::sync_file_system(&self.config().root.join("consumequeue"))?;
        for (queue, end) in ends {
            queue.set_flushed(end);
        }
        Ok(())
    }

    pub(super) fn set_queues_flushed(&self, timestamp: i64) {
        self.flush
            .queues_timestamp
            .store(timestamp, Ordering::Release);
    }

    /// Writes full index files to the disk, with `all` every one.
    pub(super) fn flush_index(&self, all: bool) -> Result<()> {
        if let Some(index) = &self.index {
            index.flush(all)?;
            self.opened_with.lock().index_msg_timestamp = index.finished_time();
        }
        Ok(())
    }

    /// Where the index was cut back, the checkpoint says so before it grows again: files that are
    /// made anew are not on disk yet.
    pub(super) fn take_back_index_time(&self) -> Result<()> {
        let finished = self.index.as_ref().map_or(0, |i| i.finished_time());
        let said = std::mem::replace(&mut self.opened_with.lock().index_msg_timestamp, finished);
        if self.index.is_some() && finished < said {
            self.write_checkpoint()?;
        }
        Ok(())
    }

    pub(super) fn write_checkpoint(&self) -> Result<()> {
        let point = Checkpoint {
            physic_msg_timestamp: self.flush.flushed_timestamp.load(Ordering::Acquire),
            logics_msg_timestamp: self.flush.queues_timestamp.load(Ordering::Acquire),
            ..*self.opened_with.lock()
        };
        let mut last = self.last_checkpoint.lock();
        if *last == Some(point) {
            return Ok(());
        }
        let path = self.config().root.join("checkpoint");
        let io = |e: std::io::Error| StoreError::io("write", &path, &e);
        let fresh = !path.exists();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io)?;
        file.write_all_at(&point.encode(), 0).map_err(io)?;
        file.sync_data().map_err(io)?;
        if fresh {
            sync_dir(&self.config().root)?;
        }
        *last = Some(point);
        Ok(())
    }
}
