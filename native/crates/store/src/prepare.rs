//! Space before it is needed: a thread that reserves disk blocks ahead of the writer and makes the
//! next file ready before the current one is full.
//!
//! The window grows with use, from 1 MiB for an idle store to 64 MiB for a busy one, so that a new
//! store starts at once and a small one stays small. With warmMapedFileEnable it is the whole file,
//! and the file that is written and the next one are locked in memory.

use super::commit_log::CommitLog;
use super::error::Result;
use super::segment::{PAGE, Segment};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const MIN_WINDOW: usize = 1 << 20;
const MAX_WINDOW: usize = 64 << 20;
/// Pause after an error, if the writer asks for nothing sooner.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Preparer {
    /// Position in the active file from which the thread should be woken.
    threshold: AtomicUsize,
    stop: AtomicBool,
    wanted: Mutex<bool>,
    changed: Condvar,
    locked: Mutex<Locked>,
}

/// Files that are locked in memory.
#[derive(Default)]
struct Locked {
    files: Vec<Arc<Segment>>,
    /// The system refused it once.
    refused: bool,
}

impl Locked {
    /// Locks `wanted` and unlocks all others.
    fn keep(&mut self, wanted: &[Arc<Segment>]) {
        let is_wanted = |file: &Arc<Segment>| wanted.iter().any(|w| Arc::ptr_eq(w, file));
        for old in self.files.extract_if(.., |file| !is_wanted(file)) {
            let _ = old.lock_in_memory(false); // pages go back to the kernel's care anyway
        }
        for file in wanted {
            if self.refused || self.files.iter().any(|f| Arc::ptr_eq(f, file)) {
                continue;
            }
            match file.lock_in_memory(true) {
                Ok(()) => self.files.push(file.clone()),
                Err(e) => {
                    log::warn!(path:% = e.path().display(); "warmMapedFileEnable: {e}; raise the limit of locked memory");
                    self.refused = true;
                }
            }
        }
    }
}

impl Preparer {
    /// The writer is at `at` of the active file. Wakes the thread when the window runs low.
    #[inline]
    pub fn advance(&self, at: usize) {
        if at >= self.threshold.load(Ordering::Relaxed) {
            // Not again before the thread has set a new one.
            self.threshold.store(usize::MAX, Ordering::Relaxed);
            self.wake();
        }
    }

    pub fn wake(&self) {
        *self.wanted.lock() = true;
        self.changed.notify_one();
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
    }

    /// The thread's work, until `stop`.
    pub fn run(&self, log: &CommitLog, warm: bool) {
        let start = log.max_offset();
        let mut failing = false;
        while !self.stop.load(Ordering::Acquire) {
            match self.prepare(log, (log.max_offset() - start) as usize, warm) {
                Err(e) => {
                    // The writer will meet the same error, if it lasts, and answer with it.
                    if !std::mem::replace(&mut failing, true) {
                        log::warn!(path:% = e.path().display(); "cannot prepare space ahead of the writer, trying again: {e}");
                    }
                    let at = log.segments().last().map_or(0, |s| s.written());
                    self.threshold.store(at + MIN_WINDOW, Ordering::Relaxed);
                }
                Ok(()) if std::mem::take(&mut failing) => {
                    log::info!("space is prepared ahead of the writer again");
                }
                Ok(()) => {}
            }
            let mut wanted = self.wanted.lock();
            while !*wanted {
                if !failing {
                    self.changed.wait(&mut wanted);
                } else if self.changed.wait_for(&mut wanted, RETRY).timed_out() {
                    break;
                }
            }
            *wanted = false;
        }
        self.locked.lock().keep(&[]);
    }

    fn prepare(&self, log: &CommitLog, used: usize, warm: bool) -> Result<()> {
        let size = log.file_size();
        let window = if warm {
            size
        } else {
            let window = used.clamp(MIN_WINDOW, MAX_WINDOW).min(size / 4);
            window.next_multiple_of(PAGE)
        };
        let Some(active) = log.segments().last().cloned() else {
            return Ok(());
        };
        let at = active.written();
        active.reserve((at + window).min(size), log.chunk())?;
        let near_end = at + 2 * window >= size || at >= size / 2;
        if near_end && !log.has_next() && used > 0 {
            log.prepare_next(window.min(size))?;
        }
        if warm {
            let next = log.next_file();
            let wanted: Vec<_> = [Some(active.clone()), next].into_iter().flatten().collect();
            self.locked.lock().keep(&wanted);
        }
        let at = active.written();
        let next = if active.reserved() >= size && log.has_next() {
            usize::MAX // nothing left to do for this file; the roll wakes us
        } else {
            let low = active.reserved().saturating_sub(window / 2).max(at + PAGE);
            // Past the middle of the file a wake-up also makes the next file.
            if at < size / 2 {
                low.min(size / 2)
            } else {
                low
            }
        };
        self.threshold.store(next, Ordering::Relaxed);
        Ok(())
    }
}
