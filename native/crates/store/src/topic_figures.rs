//! Figures of a topic since the store was opened: how large messages were that clients sent, and what became
//! of its transactions.
//!
//! The holder of the put lock alone writes them, so that nothing here is an atomic addition.

use super::figures::SIZE_BOUNDS;
use pyrmq_format::message_type::MessageType;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Bounds of all histograms by topic. RocketMQ's have as many.
pub const BOUNDS: usize = 6;
/// Of the time from the birth of a half to its commit, s. [BrokerMetricsManager]
pub const FINISH_BOUNDS: [u64; BOUNDS] = [5, 60, 600, 3600, 43_200, 86_400];

/// Number of values, how many are in each bucket, their sum.
pub type Row = [u64; BOUNDS + 3];

/// A histogram of one writer at a time. It fills one cache line.
#[derive(Default)]
#[repr(align(64))]
pub struct Counts {
    sum: AtomicU64,
    /// One for each bound, and one for what is above all.
    buckets: [AtomicU64; BOUNDS + 1],
}

fn add(to: &AtomicU64, n: u64) {
    to.store(to.load(Relaxed).wrapping_add(n), Relaxed);
}

impl Counts {
    /// Adds a value. `bounds` rise.
    #[inline]
    pub fn add(&self, bounds: &[u64; BOUNDS], value: u64) {
        let mut at = 0;
        while at < BOUNDS && bounds[at] < value {
            at += 1;
        }
        add(&self.buckets[at], 1);
        add(&self.sum, value);
    }

    pub fn row(&self) -> Row {
        let mut row = [0; BOUNDS + 3];
        for (to, bucket) in row[1..].iter_mut().zip(&self.buckets) {
            *to = bucket.load(Relaxed);
        }
        row[0] = row[1..=BOUNDS + 1].iter().sum();
        row[BOUNDS + 2] = self.sum.load(Relaxed);
        row
    }
}

/// What most topics do not need is made when it is used.
type Later = OnceLock<Box<Counts>>;

#[derive(Default)]
pub struct TopicFigures {
    /// Bytes of records, by type: the average of a batch.
    sizes: [Later; MessageType::ALL.len()],
    finished: Later,
    rollbacks: AtomicU64,
}

impl TopicFigures {
    /// A send of this type stored records of so many bytes.
    #[inline]
    pub fn count_size(&self, kind: MessageType, bytes: usize) {
        let sizes = self.sizes[kind as usize - 1].get_or_init(Box::default);
        sizes.add(&SIZE_BOUNDS, bytes as u64);
    }

    /// By type, where there is something.
    pub fn sizes(&self) -> impl Iterator<Item = (MessageType, Row)> {
        let all = MessageType::ALL.into_iter().zip(&self.sizes);
        all.filter_map(|(kind, sizes)| Some((kind, sizes.get()?.row())))
    }

    /// A half was committed, so many ms after it was born.
    pub fn count_commit(&self, ms: i64) {
        let seconds = ms.max(0) as u64 / 1000;
        let finished = self.finished.get_or_init(Box::default);
        finished.add(&FINISH_BOUNDS, seconds);
    }

    /// A half was rolled back.
    pub fn count_rollback(&self) {
        add(&self.rollbacks, 1);
    }

    /// Seconds until halves were committed, and how many were rolled back; None: there were none.
    pub fn transactions(&self) -> Option<(Row, u64)> {
        let rollbacks = self.rollbacks.load(Relaxed);
        match self.finished.get() {
            Some(finished) => Some((finished.row(), rollbacks)),
            None if rollbacks > 0 => Some((Row::default(), rollbacks)),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_counted_by_type() {
        let figures = TopicFigures::default();
        figures.count_size(MessageType::Normal, 1024);
        figures.count_size(MessageType::Normal, 1025);
        figures.count_size(MessageType::Transaction, 5 << 20);
        let rows: Vec<_> = figures.sizes().collect();
        assert_eq!(
            rows,
            [
                (MessageType::Normal, [2, 1, 1, 0, 0, 0, 0, 0, 2049]),
                (MessageType::Transaction, [1, 0, 0, 0, 0, 0, 0, 1, 5 << 20]),
            ]
        );
    }

    #[test]
    fn commits_are_counted_in_whole_seconds() {
        let figures = TopicFigures::default();
        assert_eq!(figures.transactions(), None);
        figures.count_rollback();
        assert_eq!(figures.transactions(), Some((Row::default(), 1)));
        for ms in [-5, 5999, 6000, 90_000_000] {
            figures.count_commit(ms);
        }
        let finished = [4, 2, 1, 0, 0, 0, 0, 1, 5 + 6 + 90_000];
        assert_eq!(figures.transactions(), Some((finished, 1)));
    }

    #[test]
    fn a_histogram_fills_one_cache_line() {
        assert_eq!(size_of::<Counts>(), 64);
    }
}
