//! Whether the disk takes in time what it is given. [CommitLog.lockTimeMills, isOSPageCacheBusy]
//!
//! A write of the log goes to memory and is done in microseconds, until the disk hangs or its queue
//! is full: then it takes seconds. Signs of that are a flush that takes long, and a write that did.
//! While there are some (`is_slow`), who must not be held up has writes done by another thread. A
//! write that takes longer than osPageCacheBusyTimeOutMills refuses new messages (`check`).

use super::error::{Result, StoreError};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A write that takes longer is a sign that the disk is slow, ms.
const LONG_WRITE: u64 = 100;
/// The same for a flush, which may have much to write.
const LONG_FLUSH: u64 = 1_000;
/// The disk counts as slow for so long behind a long write, ms.
const REMEMBERED: u64 = 5_000;

pub struct Stalls {
    start: Instant,
    timeout: u64,
    /// When the write and the flush began that are under way, in ms since `start`, from 1; 0: none is.
    write: AtomicU64,
    flush: AtomicU64,
    /// Until when the disk counts as slow, ms since `start`.
    slow_until: AtomicU64,
}

impl Stalls {
    /// `timeout`: osPageCacheBusyTimeOutMills.
    pub fn new(timeout: u64) -> Self {
        Stalls {
            start: Instant::now(),
            timeout,
            write: AtomicU64::new(0),
            flush: AtomicU64::new(0),
            slow_until: AtomicU64::new(0),
        }
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_millis() as u64 + 1
    }

    /// How long what began at `since` has taken, ms.
    fn taken(&self, since: &AtomicU64) -> u64 {
        match since.load(Ordering::Relaxed) {
            0 => 0,
            began => self.now().saturating_sub(began),
        }
    }

    /// Does a write of the log. One at a time.
    #[inline]
    pub fn during_write<T>(&self, write: impl FnOnce() -> T) -> T {
        self.write.store(self.now(), Ordering::Relaxed);
        let done = write();
        if self.taken(&self.write) > LONG_WRITE {
            let took = self.taken(&self.write);
            let until = self.now() + REMEMBERED;
            if self.slow_until.swap(until, Ordering::Relaxed) + REMEMBERED < until {
                log::warn!("a write of the commit log took {took} ms: its disk is slow");
            }
        }
        self.write.store(0, Ordering::Relaxed);
        done
    }

    /// Does a flush of the log. One at a time.
    pub fn during_flush<T>(&self, flush: impl FnOnce() -> T) -> T {
        self.flush.store(self.now(), Ordering::Relaxed);
        let done = flush();
        self.flush.store(0, Ordering::Relaxed);
        done
    }

    /// Whether the next write may take long.
    pub fn is_slow(&self) -> bool {
        let slow_until = self.slow_until.load(Ordering::Relaxed);
        slow_until > 0 && self.now() < slow_until
            || self.taken(&self.flush) > LONG_FLUSH
            || self.taken(&self.write) > LONG_WRITE
    }

    /// How long one waits for a write that is under way.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout)
    }

    /// Whether a write is under way that takes longer than one waits for.
    pub fn is_busy(&self) -> bool {
        self.taken(&self.write) > self.timeout
    }

    /// Refuses what would have to wait for such a write.
    pub fn check(&self) -> Result<()> {
        if self.is_busy() {
            return Err(self.busy());
        }
        Ok(())
    }

    #[cold]
    pub fn busy(&self) -> StoreError {
        StoreError::Busy(format!(
            "[PC_SYNCHRONIZED]broker busy, start flow control for a while: a write of the commit log \
             has taken {} ms so far",
            self.taken(&self.write)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;

    #[test]
    fn it_is_slow_while_a_write_takes_long_and_for_a_while_after() {
        let stalls = Stalls::new(150);
        stalls.during_write(|| assert!(!stalls.is_slow()));
        assert!(!stalls.is_slow());
        stalls.during_write(|| {
            sleep(Duration::from_millis(LONG_WRITE + 10));
            assert!(stalls.is_slow() && !stalls.is_busy() && stalls.check().is_ok());
            sleep(Duration::from_millis(100));
            assert!(stalls.is_busy() && stalls.check().is_err());
        });
        assert!(stalls.is_slow() && !stalls.is_busy());
        stalls.slow_until.store(1, Ordering::Relaxed);
        assert!(!stalls.is_slow());
    }

    #[test]
    fn a_long_flush_is_a_sign_and_holds_up_no_message() {
        let stalls = Stalls::new(150);
        stalls.during_flush(|| {
            sleep(Duration::from_millis(200));
            assert!(!stalls.is_slow());
            sleep(Duration::from_millis(LONG_FLUSH));
            assert!(stalls.is_slow() && !stalls.is_busy() && stalls.check().is_ok());
        });
        assert!(!stalls.is_slow());
    }
}
