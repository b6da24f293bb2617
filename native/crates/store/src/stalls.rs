//! Whether the disk takes in time what it is given. [CommitLog.lockTimeMills, isOSPageCacheBusy]
//!
//! A write of the log goes to memory and is done in microseconds, until the disk hangs or its queue
//! is full: then it takes seconds. Signs of that are a flush that takes long, and a write that did.
//! While there are some (`is_slow`), who must not be held up has writes done by another thread. A
//! write that takes longer than osPageCacheBusyTimeOutMills refuses new messages (`check`).

use super::clock::{Span, monotonic_us};
use super::error::{Result, StoreError};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// A write that takes longer is a sign that the disk is slow, µs.
const LONG_WRITE: i64 = 100_000;
/// The same for a flush, which may have much to write.
const LONG_FLUSH: i64 = 1_000_000;
/// The disk counts as slow for so long behind a long write, µs.
const REMEMBERED: i64 = 5_000_000;

pub struct Stalls {
    timeout_ms: u64,
    /// When the write and the flush began that are under way, of `monotonic_us`; 0: none is.
    write: AtomicI64,
    flush: AtomicI64,
    /// Until when the disk counts as slow.
    slow_until: AtomicI64,
    /// Writes that took long, and refusals for want of one that was done.
    long_writes: AtomicU64,
    refused: AtomicU64,
}

impl Stalls {
    /// `timeout`: osPageCacheBusyTimeOutMills.
    pub fn new(timeout: u64) -> Self {
        Stalls {
            timeout_ms: timeout,
            write: AtomicI64::new(0),
            flush: AtomicI64::new(0),
            slow_until: AtomicI64::new(0),
            long_writes: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// How long what began at `since` has taken, µs.
    fn taken(&self, since: &AtomicI64) -> i64 {
        match since.load(Ordering::Relaxed) {
            0 => 0,
            began => monotonic_us() - began,
        }
    }

    /// Does a write of the log, and says when. One at a time.
    #[inline]
    pub fn during_write<T>(&self, write: impl FnOnce() -> T) -> (T, Span) {
        let begun = monotonic_us();
        self.write.store(begun, Ordering::Relaxed);
        let done = write();
        let ended = monotonic_us();
        if ended - begun > LONG_WRITE {
            self.took_long(begun, ended);
        }
        self.write.store(0, Ordering::Relaxed);
        (done, Span { begun, ended })
    }

    #[cold]
    fn took_long(&self, begun: i64, ended: i64) {
        self.long_writes.fetch_add(1, Ordering::Relaxed);
        let until = ended + REMEMBERED;
        if self.slow_until.swap(until, Ordering::Relaxed) + REMEMBERED < until {
            let took = (ended - begun) / 1000;
            log::warn!("a write of the commit log took {took} ms: its disk is slow");
        }
    }

    /// Does a flush of the log, and says when. One at a time.
    pub fn during_flush<T>(&self, flush: impl FnOnce() -> T) -> (T, Span) {
        let begun = monotonic_us();
        self.flush.store(begun, Ordering::Relaxed);
        let done = flush();
        self.flush.store(0, Ordering::Relaxed);
        let ended = monotonic_us();
        (done, Span { begun, ended })
    }

    /// How long the write that is under way has taken, ms; 0: none is. [CommitLog.lockTimeMills]
    pub fn write_ms(&self) -> u64 {
        (self.taken(&self.write) / 1000).max(0) as u64
    }

    /// How many writes took longer than 100 ms.
    pub fn long_writes(&self) -> u64 {
        self.long_writes.load(Ordering::Relaxed)
    }

    /// How often something was refused because a write took too long (SYSTEM_BUSY).
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Whether the next write may take long.
    pub fn is_slow(&self) -> bool {
        let slow_until = self.slow_until.load(Ordering::Relaxed);
        slow_until > 0 && monotonic_us() < slow_until
            || self.taken(&self.flush) > LONG_FLUSH
            || self.taken(&self.write) > LONG_WRITE
    }

    /// How long one waits for a write that is under way.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// Whether a write is under way that takes longer than one waits for.
    pub fn is_busy(&self) -> bool {
        self.write_ms() > self.timeout_ms
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
        self.refused.fetch_add(1, Ordering::Relaxed);
        StoreError::Busy(format!(
            "[PC_SYNCHRONIZED]broker busy, start flow control for a while: a write of the commit log \
             has taken {} ms so far",
            self.write_ms()
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
            sleep(Duration::from_micros(LONG_WRITE as u64 + 10_000));
            assert!(stalls.is_slow() && !stalls.is_busy() && stalls.check().is_ok());
            sleep(Duration::from_millis(100));
            assert!(stalls.is_busy() && stalls.check().is_err());
        });
        assert!(stalls.is_slow() && !stalls.is_busy());
        assert_eq!(
            (stalls.long_writes(), stalls.refused(), stalls.write_ms()),
            (1, 1, 0)
        );
        stalls.slow_until.store(1, Ordering::Relaxed);
        assert!(!stalls.is_slow());
    }

    #[test]
    fn a_long_flush_is_a_sign_and_holds_up_no_message() {
        let stalls = Stalls::new(150);
        stalls.during_flush(|| {
            sleep(Duration::from_millis(200));
            assert!(!stalls.is_slow());
            sleep(Duration::from_micros(LONG_FLUSH as u64));
            assert!(stalls.is_slow() && !stalls.is_busy() && stalls.check().is_ok());
        });
        assert!(!stalls.is_slow());
    }
}
