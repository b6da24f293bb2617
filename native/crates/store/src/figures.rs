//! Figures of a store since it was opened: how long writes and flushes take, what waits for them.
//!
//! Nothing here reads a clock: the times are those that the store takes in any case. Bounds and times are
//! in µs.

use super::clock::Span;
use super::histogram::Histogram;
use super::marks::Marks;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};

/// Of times, µs. RocketMQ's of putMessageDistributeTime are among them. [StoreStatsService]
pub const TIME_BOUNDS: [u64; 20] = [
    10, 30, 50, 100, 200, 500, 1_000, 3_000, 10_000, 50_000, 100_000, 200_000, 500_000, 1_000_000,
    2_000_000, 3_000_000, 4_000_000, 5_000_000, 10_000_000, 60_000_000,
];
/// Of messages, bytes. [BrokerMetricsManager]
pub const SIZE_BOUNDS: [u64; 6] = [1 << 10, 4 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];

/// What opening the store took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    pub micros: u64,
    /// Records of the log that recovery read, and the bytes of the part that it read.
    pub records: u64,
    pub bytes: u64,
}

pub struct Figures {
    /// Times of writes into the log: one for all that a round has stored.
    pub writes: Histogram,
    /// Times of flushes (fdatasync) of a file of the log.
    pub flushes: Histogram,
    /// Of group commits: from the first write that one carries to the end of its flush.
    pub commits: Histogram,
    /// How long somebody waited for the put lock. Nobody waits for one that is free.
    pub lock_waits: Histogram,
    /// How long answers waited for the barrier, once their records were written.
    pub barrier_waits: Histogram,
    /// From sends to their answers.
    pub puts: Histogram,
    flushed_bytes: AtomicU64,
    /// When the first write ended that no flush carries yet; 0: there is none.
    unflushed_since: AtomicI64,
    last_write: AtomicI64,
    written: Marks,
    flushed: Marks,
    opened: OnceLock<Opened>,
}

impl Default for Figures {
    fn default() -> Self {
        let times = || Histogram::new(&TIME_BOUNDS);
        Figures {
            writes: times(),
            flushes: times(),
            commits: times(),
            lock_waits: times(),
            barrier_waits: times(),
            puts: times(),
            flushed_bytes: AtomicU64::new(0),
            unflushed_since: AtomicI64::new(0),
            last_write: AtomicI64::new(0),
            written: Marks::default(),
            flushed: Marks::default(),
            opened: OnceLock::new(),
        }
    }
}

impl Figures {
    /// The log was written up to `end`. Its writer calls it, under the put lock.
    #[inline]
    pub(super) fn wrote(&self, end: u64, span: Span) {
        self.writes.add_locked(span.micros());
        self.written.note(end, span);
        self.last_write.store(span.ended, Relaxed);
        if self.unflushed_since.load(Relaxed) == 0 {
            self.unflushed_since.store(span.ended, Relaxed);
        }
    }

    /// A flush begins, which carries all that was written. Returns since when that waits.
    pub(super) fn take_unflushed(&self) -> i64 {
        self.unflushed_since.swap(0, Relaxed)
    }

    /// The log was flushed up to `end`. `since`: what `take_unflushed` said before.
    pub(super) fn flushed(&self, bytes: u64, end: u64, since: i64, span: Span) {
        self.flushed_bytes.fetch_add(bytes, Relaxed);
        self.flushed.note(end, span);
        if since > 0 {
            let whole = Span {
                begun: since,
                ended: span.ended,
            };
            self.commits.add(whole.micros(), 1);
        }
    }

    pub fn flushed_bytes(&self) -> u64 {
        self.flushed_bytes.load(Relaxed)
    }

    /// When the last write ended, of `monotonic_us`; 0 before the first one.
    #[inline]
    pub fn last_write(&self) -> i64 {
        self.last_write.load(Relaxed)
    }

    /// When what lies below `offset` was written. The oldest time that is known, if that was long ago.
    pub fn written_at(&self, offset: u64) -> Option<Span> {
        self.written.of(offset)
    }

    /// When it was flushed.
    pub fn flushed_at(&self, offset: u64) -> Option<Span> {
        self.flushed.of(offset)
    }

    pub(super) fn set_opened(&self, opened: Opened) {
        let _ = self.opened.set(opened); // once
    }

    pub fn opened(&self) -> Opened {
        self.opened.get().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(begun: i64, ended: i64) -> Span {
        Span { begun, ended }
    }

    #[test]
    fn a_group_commit_lasts_from_its_first_write_to_the_end_of_its_flush() {
        let figures = Figures::default();
        figures.wrote(100, span(5, 10));
        figures.wrote(200, span(40, 50));
        let since = figures.take_unflushed();
        figures.wrote(300, span(60, 61)); // while it is flushed
        figures.flushed(200, 200, since, span(55, 1010));
        assert_eq!(figures.commits.row()[..3], [1, 1000, 1000]);
        assert_eq!(figures.writes.row()[..3], [3, 16, 10]);
        assert_eq!(figures.flushed_bytes(), 200);
        assert_eq!(figures.last_write(), 61);
        assert_eq!(figures.take_unflushed(), 61);
        figures.flushed(0, 300, 0, span(1020, 1030)); // nothing waited for it
        assert_eq!(figures.commits.count(), 1);
        assert_eq!(figures.written_at(150), Some(span(40, 50)));
        assert_eq!(figures.flushed_at(150), Some(span(55, 1010)));
        assert_eq!(figures.flushed_at(301), None);
    }
}
