//! Histograms with fixed bounds, which any thread adds to and reads.
//!
//! Only sums are kept: who wants a rate, or the last minute, takes the difference of two rows.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

pub struct Histogram {
    bounds: &'static [u64],
    sum: AtomicU64,
    max: AtomicU64,
    /// One for each bound, for values up to it that are above the bound before; the last one is for values
    /// above all bounds.
    buckets: Box<[AtomicU64]>,
}

impl Histogram {
    /// `bounds` rise.
    pub fn new(bounds: &'static [u64]) -> Self {
        Histogram {
            bounds,
            sum: AtomicU64::new(0),
            max: AtomicU64::new(0),
            buckets: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    #[inline]
    fn bucket(&self, value: u64) -> &AtomicU64 {
        let mut at = 0;
        while at < self.bounds.len() && self.bounds[at] < value {
            at += 1;
        }
        &self.buckets[at]
    }

    /// Adds `value`, `times` times.
    #[inline]
    pub fn add(&self, value: u64, times: u64) {
        self.bucket(value).fetch_add(times, Relaxed);
        self.sum.fetch_add(value.saturating_mul(times), Relaxed);
        if value > self.max.load(Relaxed) {
            self.max.fetch_max(value, Relaxed);
        }
    }

    /// The same of who holds a lock that all have who add: without atomic additions.
    #[inline]
    pub fn add_locked(&self, value: u64) {
        let add = |to: &AtomicU64, n: u64| to.store(to.load(Relaxed).wrapping_add(n), Relaxed);
        add(self.bucket(value), 1);
        add(&self.sum, value);
        if value > self.max.load(Relaxed) {
            self.max.store(value, Relaxed);
        }
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|b| b.load(Relaxed)).sum()
    }

    pub fn sum(&self) -> u64 {
        self.sum.load(Relaxed)
    }

    /// The largest value; 0 without any.
    pub fn max(&self) -> u64 {
        self.max.load(Relaxed)
    }

    /// Number of values, their sum, the largest, and how many are in each bucket.
    pub fn row(&self) -> Vec<u64> {
        let buckets: Vec<u64> = self.buckets.iter().map(|b| b.load(Relaxed)).collect();
        let mut row = vec![buckets.iter().sum(), self.sum(), self.max()];
        row.extend(buckets);
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: [u64; 3] = [1, 10, 100];

    #[test]
    fn a_value_is_in_the_first_bucket_that_reaches_it() {
        let one_by_one = Histogram::new(&BOUNDS);
        let locked = Histogram::new(&BOUNDS);
        for value in [0, 1, 2, 10, 11, 100, 101, 5000] {
            one_by_one.add(value, 1);
            locked.add_locked(value);
        }
        let row = [8, 5225, 5000, 2, 2, 2, 2];
        assert_eq!(one_by_one.row(), row);
        assert_eq!(locked.row(), row);
    }

    #[test]
    fn many_of_one_value_are_added_at_once() {
        let histogram = Histogram::new(&BOUNDS);
        histogram.add(7, 64);
        assert_eq!(histogram.row(), [64, 448, 7, 0, 64, 0, 0]);
        assert_eq!(
            (histogram.count(), histogram.sum(), histogram.max()),
            (64, 448, 7)
        );
        histogram.add(u64::MAX, 2);
        assert_eq!(histogram.max(), u64::MAX);
        assert_eq!(histogram.count(), 66);
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let histogram = Histogram::new(&BOUNDS);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let histogram = &histogram;
                scope.spawn(move || (0..1000).for_each(|_| histogram.add(thread * 10, 1)));
            }
        });
        assert_eq!(histogram.row(), [4000, 60_000, 30, 1000, 1000, 2000, 0]);
    }
}
