//! The log flusher: one thread writes the commit log to the disk and moves the barrier.
//!
//! With SYNC_FLUSH every request wakes it, and it flushes everything appended so far in one go
//! (group commit). Who serves connections may hold its requests back for a moment and flush by itself
//! (`hold`, `flush_here`): waking a thread and being woken costs about as much as a quick flush.

use super::barrier::Barrier;
use super::clock::{Span, monotonic_us};
use super::commit_log::CommitLog;
use super::config::StoreConfig;
use super::error::{Result, StoreError};
use super::figures::Figures;
use super::gather::Gather;
use super::guard;
use super::segment::Segment;
use super::stalls::Stalls;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// Pause where a file of the log cannot be opened, as no descriptor is left.
const RETRY: Duration = Duration::from_millis(100);
/// How often it is tried at a stop.
const LAST_ATTEMPTS: usize = 20;

#[derive(Default)]
struct Requested {
    /// Somebody asked that the log be flushed up to here.
    to: u64,
    /// The thread sleeps until so much is asked for, or its time is over.
    wake_at: u64,
    /// Requests do not wake the thread.
    held: bool,
}

pub struct LogFlusher {
    log: Arc<CommitLog>,
    barrier: Arc<Barrier>,
    stalls: Arc<Stalls>,
    figures: Arc<Figures>,
    /// Where the abort file is.
    root: PathBuf,
    interval: Duration,
    /// Store timestamp of the last record that is known to be on disk.
    flushed_timestamp: AtomicI64,
    /// The file that was flushed last, and where it starts. Who flushes has it: one at a time.
    open: Mutex<Option<(u64, File)>>,
    /// A file of the log could not be opened by the last attempt.
    waits_to_open: AtomicBool,
    requested: Mutex<Requested>,
    changed: Condvar,
    stop: AtomicBool,
}

impl LogFlusher {
    pub fn new(
        cfg: &StoreConfig,
        log: Arc<CommitLog>,
        barrier: Arc<Barrier>,
        stalls: Arc<Stalls>,
        figures: Arc<Figures>,
    ) -> Self {
        LogFlusher {
            log,
            barrier,
            stalls,
            figures,
            root: cfg.root.clone(),
            interval: Duration::from_millis(cfg.flush_interval_commit_log.max(1)),
            flushed_timestamp: AtomicI64::new(0),
            open: Mutex::new(None),
            waits_to_open: AtomicBool::new(false),
            requested: Mutex::default(),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
        }
    }

    /// Store timestamp of the last record that is known to be on disk, in ms.
    pub fn flushed_timestamp(&self) -> i64 {
        self.flushed_timestamp.load(Ordering::Acquire)
    }

    /// The log is on disk below this physical offset.
    pub fn flushed(&self) -> u64 {
        self.barrier.flushed()
    }

    /// Store timestamp of the newest record of the log, in ms.
    pub fn newest_timestamp(&self) -> i64 {
        self.log.newest_timestamp()
    }

    /// Nothing is said to be flushed of a time behind `time`: the clock was set back.
    pub fn limit(&self, time: i64) {
        self.flushed_timestamp.fetch_min(time, Ordering::AcqRel);
    }

    /// Takes over what recovery has made durable: the log below `end`, whose newest record has
    /// this timestamp. `limit`: see `Barrier::start_at`.
    pub fn start_at(&self, end: u64, limit: Option<u64>, timestamp: i64) {
        self.flushed_timestamp.store(timestamp, Ordering::Release);
        self.barrier.start_at(end, limit);
    }

    /// Asks for everything below `offset` to be flushed; does not wait.
    pub fn request(&self, offset: u64) {
        let mut requested = self.requested.lock();
        if offset > requested.to {
            requested.to = offset;
            if offset >= requested.wake_at && !requested.held {
                self.changed.notify_one();
            }
        }
    }

    /// From now on requests do not wake the thread, until `let_go`. Should that never come, it flushes at
    /// its interval.
    pub fn hold(&self) {
        self.requested.lock().held = true;
    }

    /// What is to be flushed of what was asked for, as physical offsets.
    pub fn asked(&self) -> Range<u64> {
        self.barrier.flushed()..self.requested.lock().to
    }

    /// Has the thread flush what was asked for since `hold`.
    pub fn let_go(&self) {
        let mut requested = self.requested.lock();
        requested.held = false;
        if requested.to > self.barrier.flushed() {
            self.changed.notify_one();
        }
    }

    /// Flushes in this thread. False if that is left to the log's own: it flushes already, or the file
    /// could not be opened.
    pub fn flush_here(&self) -> bool {
        match self.open.try_lock() {
            Some(mut open) => self.flush_with(&mut open),
            None => false,
        }
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.requested.lock().to = u64::MAX;
        self.changed.notify_one();
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// The thread's work, until `stop` or a failed flush.
    pub fn run(&self) {
        let waits_for_requests = self.barrier.policy().flushed;
        let mut gather = Gather::default();
        while !self.is_stopped() {
            {
                let mut requested = self.requested.lock();
                let idle = !waits_for_requests || requested.to <= self.barrier.flushed();
                // Asked under the lock, which `stop` takes before it notifies.
                if idle && !self.is_stopped() {
                    self.changed.wait_for(&mut requested, self.interval);
                } else if !idle {
                    self.wait_for_company(&mut requested, &mut gather);
                }
            }
            if self.barrier.has_failed() {
                return;
            }
            let (from, begun) = (self.barrier.flushed(), Instant::now());
            if self.flush() {
                gather.flushed(self.barrier.flushed() - from, begun.elapsed());
            } else if !self.is_stopped() {
                self.changed.wait_for(&mut self.requested.lock(), RETRY);
            }
        }
    }

    /// Requests came while the last flush was under way.
    fn wait_for_company(&self, requested: &mut MutexGuard<'_, Requested>, gather: &mut Gather) {
        let Some(wait) = gather.wait(requested.to) else {
            return;
        };
        let end = Instant::now() + wait.at_most;
        requested.wake_at = wait.until;
        while requested.to < wait.until
            && !self.is_stopped()
            && !self.changed.wait_until(requested, end).timed_out()
        {}
        requested.wake_at = 0;
        gather.waited(&wait, requested.to);
    }

    /// Writes the log to the disk and moves the barrier. False if a file could not be opened, as no
    /// descriptor was left: then it is to be called again. What is not flushed waits.
    pub fn flush(&self) -> bool {
        self.flush_with(&mut self.open.lock())
    }

    fn flush_with(&self, open: &mut Option<(u64, File)>) -> bool {
        if self.barrier.has_failed() {
            return true; // a second try could succeed without the data being on disk
        }
        // Read before the end offset: records of this time or an older one lie below that end.
        let timestamp = self.log.newest_timestamp();
        let from = self.barrier.flushed();
        let since = self.figures.take_unflushed();
        let begun = monotonic_us();
        let to = self.log.max_offset();
        if to <= from {
            return true;
        }
        for s in self
            .log
            .segments()
            .iter()
            .filter(|s| s.end() > from && s.base() < to)
        {
            match self.sync(s, open) {
                Err(e) if e.is_out_of_descriptors() => {
                    if !self.waits_to_open.swap(true, Ordering::Relaxed) {
                        log::error!(path:% = e.path().display(); "the log is not flushed, it is tried again: {e}");
                    }
                    return false;
                }
                Err(e) => {
                    self.barrier.fail(e);
                    guard::note_failed_flush(&self.root);
                    return true;
                }
                Ok(()) if self.waits_to_open.swap(false, Ordering::Relaxed) => {
                    log::info!("the log is flushed again");
                }
                Ok(()) => {}
            }
        }
        // It goes back where the clock did meanwhile.
        let timestamp = timestamp.min(self.log.newest_timestamp());
        self.flushed_timestamp.store(timestamp, Ordering::Release);
        let span = Span {
            begun,
            ended: monotonic_us(),
        };
        self.figures.flushed(to - from, to, since, span);
        self.barrier.flushed_to(to);
        true
    }

    /// Writes all of it to the disk at a stop, when others give descriptors back if none is left.
    pub fn finish(&self) -> Result<()> {
        for _ in 0..LAST_ATTEMPTS {
            if self.flush() {
                return Ok(());
            }
            std::thread::sleep(RETRY);
        }
        let text = "the log is not flushed, as no descriptor is left to open its file";
        Err(StoreError::NotAvailable(text.into()))
    }

    /// Writes a file of the log to the disk. The one that was flushed last stays open.
    fn sync(&self, segment: &Segment, open: &mut Option<(u64, File)>) -> Result<()> {
        let file = match &*open {
            Some((base, file)) if *base == segment.base() => file,
            _ => &open.insert((segment.base(), segment.open_for_writing()?)).1,
        };
        let (flushed, span) = self.stalls.during_flush(|| file.sync_data());
        flushed.map_err(|e| StoreError::io("flush", segment.path(), &e))?;
        self.figures.flushes.add(span.micros(), 1);
        Ok(())
    }
}

#[cfg(test)]
#[path = "log_flusher_tests.rs"]
mod tests;
