//! Durability: the flushing threads and the barrier that acknowledgements wait for.
//!
//! One thread writes the commit log. With SYNC_FLUSH it is woken by every request and flushes
//! everything appended so far in one go (group commit), then tells the event loop through an
//! eventfd. After a failed flush the state is `failed` for good: the kernel may have dropped the
//! dirty pages, so a second try could succeed without the data being there.
//!
//! A second thread writes queues and the checkpoint, which are rebuilt from the log anyway.

use super::config::FlushMode;
use super::error::{Result, StoreError};
use super::guard::sync_dir;
use super::store_impl::Store;
use crate::format::checkpoint::Checkpoint;
use parking_lot::{Condvar, Mutex};
use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

pub struct FlushState {
    flushed: AtomicU64,
    /// Store time of the last record that is known to be on disk.
    flushed_timestamp: AtomicI64,
    wanted: Mutex<u64>,
    changed: Condvar,
    stop: AtomicBool,
    stop_rest: (Mutex<bool>, Condvar),
    failed: AtomicBool,
    rest_failed: AtomicBool,
    failure: Mutex<Option<StoreError>>,
    event: OwnedFd,
}

impl FlushState {
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
            wanted: Mutex::new(0),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            stop_rest: (Mutex::new(false), Condvar::new()),
            failed: AtomicBool::new(false),
            rest_failed: AtomicBool::new(false),
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
        self.stop_rest.1.notify_one();
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
                if self.config().flush_mode == FlushMode::Async || *wanted <= state.flushed() {
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
                return;
            }
        }
        state.set_flushed(to, timestamp);
        if self.config().flush_mode == FlushMode::Sync {
            state.signal();
        }
    }

    /// The other flusher's work: queues and checkpoint.
    pub(super) fn run_rest_flusher(&self) {
        let interval = Duration::from_millis(self.config().flush_interval_consume_queue.max(1));
        let mut told = false;
        loop {
            {
                let mut stop = self.flush.stop_rest.0.lock();
                if !*stop {
                    self.flush.stop_rest.1.wait_for(&mut stop, interval);
                }
                if *stop {
                    return;
                }
            }
            if let Err(e) = self.flush_rest() {
                if !std::mem::replace(&mut told, true) {
                    log::error!("queues or checkpoint not flushed: {e}");
                }
            }
        }
    }

    pub(super) fn flush_rest(&self) -> Result<()> {
        if self.flush.rest_failed.load(Ordering::Acquire) {
            // The kernel reports lost pages once. The checkpoint stays as it is and so does the
            // abort file, so that the next start enters everything anew from there.
            return Err(StoreError::NotAvailable(
                "an earlier flush of a queue failed".into(),
            ));
        }
        let before = self.put_times.load(Ordering::Relaxed);
        for queue in self.topics.all_queues() {
            if let Err(e) = queue.flush() {
                self.flush.rest_failed.store(true, Ordering::Release);
                return Err(e);
            }
        }
        self.write_checkpoint(before)
    }

    fn write_checkpoint(&self, queue_timestamp: i64) -> Result<()> {
        let point = Checkpoint {
            physic_msg_timestamp: self.flush.flushed_timestamp.load(Ordering::Acquire),
            logics_msg_timestamp: queue_timestamp,
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
