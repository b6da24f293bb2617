//! The time that records are stored at: the machine's clock, which somebody may set, and which a test
//! may put forward.
//!
//! Store times do not go back by less than a second: where the clock does, they stand still. A clock
//! that was set back further is followed, but first the checkpoint on disk is taken back. It says
//! that records of its time or an older one are on disk, and of those that are stored from here on
//! that would not be true. Until the checkpointer has written it, store times stand still.

use std::sync::atomic::{AtomicI64, Ordering};

/// Milliseconds for which store times stand still.
const HELD: i64 = 1000;
const NONE: i64 = i64::MAX;

pub struct StoreTime {
    clock: fn() -> i64,
    /// Milliseconds that were added to the clock: `advance`.
    ahead: AtomicI64,
    /// The time to which the clock went back: the checkpoint may say no later one.
    wanted: AtomicI64,
    /// The checkpoint on disk says no later time than this one.
    agreed: AtomicI64,
}

impl StoreTime {
    /// `clock`: milliseconds since the epoch.
    pub fn new(clock: fn() -> i64) -> Self {
        StoreTime {
            clock,
            ahead: AtomicI64::new(0),
            wanted: AtomicI64::new(NONE),
            agreed: AtomicI64::new(NONE),
        }
    }

    /// The clock's time, in ms.
    pub fn clock(&self) -> i64 {
        (self.clock)() + self.ahead.load(Ordering::Relaxed)
    }

    /// Moves the clock by so many milliseconds, beside the machine's; back if `ms` is negative.
    pub fn advance(&self, ms: i64) {
        self.ahead.fetch_add(ms, Ordering::Relaxed);
    }

    /// Store time of the next record behind one of time `last`. Only the holder of the put lock asks.
    #[inline]
    pub fn next(&self, last: i64) -> i64 {
        let now = self.clock();
        if now >= last - HELD {
            if self.wanted.load(Ordering::Relaxed) != NONE {
                self.forget();
            }
            return now.max(last);
        }
        self.go_back(now, last)
    }

    #[cold]
    fn forget(&self) {
        self.wanted.store(NONE, Ordering::Release);
        self.agreed.store(NONE, Ordering::Release);
    }

    #[cold]
    fn go_back(&self, now: i64, last: i64) -> i64 {
        let agreed = self.agreed.load(Ordering::Acquire);
        if agreed != NONE && agreed <= now {
            log::warn!(
                "the clock was set back by {} ms: store times follow it, messages before keep theirs",
                last - now
            );
            self.forget();
            return now;
        }
        let wanted = self.wanted.load(Ordering::Relaxed).min(now);
        self.wanted.store(wanted, Ordering::Release);
        last
    }

    /// The latest time that the checkpoint may say; None as long as the clock runs forward.
    pub fn ceiling(&self) -> Option<i64> {
        let wanted = self.wanted.load(Ordering::Acquire);
        (wanted != NONE).then_some(wanted)
    }

    /// A checkpoint that says no later time than `ceiling` is on disk.
    pub fn agree(&self, ceiling: i64) {
        // Not if the clock has run on since: then nobody waits for it.
        if self.ceiling() == Some(ceiling) {
            self.agreed.store(ceiling, Ordering::Release);
        }
    }
}

#[cfg(test)]
#[path = "store_time_tests.rs"]
mod tests;
