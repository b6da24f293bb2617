//! When the log reached which offset: the last times, for who asks why an answer took so long.

use super::clock::Span;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize};

/// Times that are kept.
const KEPT: usize = 1024;

#[derive(Default)]
struct Mark {
    offset: AtomicU64,
    begun: AtomicI64,
    ended: AtomicI64,
}

/// One thread notes at a time. Who reads meanwhile may get a time of the mark that replaces the one asked for.
pub struct Marks {
    marks: Box<[Mark]>,
    /// How many were noted.
    noted: AtomicUsize,
}

impl Default for Marks {
    fn default() -> Self {
        Marks {
            marks: (0..KEPT).map(|_| Mark::default()).collect(),
            noted: AtomicUsize::new(0),
        }
    }
}

impl Marks {
    /// Within this time the log got as far as `offset`, which is not before those that were noted.
    #[inline]
    pub fn note(&self, offset: u64, span: Span) {
        let noted = self.noted.load(Relaxed);
        let mark = &self.marks[noted % KEPT];
        mark.begun.store(span.begun, Relaxed);
        mark.ended.store(span.ended, Relaxed);
        mark.offset.store(offset, Relaxed);
        self.noted.store(noted + 1, Release);
    }

    /// When the log got as far as `offset`, or the oldest time that is known if that was before it. None if
    /// it has not.
    pub fn of(&self, offset: u64) -> Option<Span> {
        let noted = self.noted.load(Acquire);
        let mut found = None;
        for at in (noted.saturating_sub(KEPT)..noted).rev() {
            let mark = &self.marks[at % KEPT];
            if mark.offset.load(Relaxed) < offset {
                break;
            }
            found = Some(Span {
                begun: mark.begun.load(Relaxed),
                ended: mark.ended.load(Relaxed),
            });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: i64) -> Span {
        Span {
            begun: time - 1,
            ended: time,
        }
    }

    #[test]
    fn the_first_mark_that_reaches_an_offset_is_its_time() {
        let marks = Marks::default();
        assert_eq!(marks.of(0), None);
        for n in 1..=3 {
            marks.note(n * 100, at(n as i64));
        }
        assert_eq!(marks.of(1), Some(at(1)));
        assert_eq!(marks.of(100), Some(at(1)));
        assert_eq!(marks.of(101), Some(at(2)));
        assert_eq!(marks.of(300), Some(at(3)));
        assert_eq!(marks.of(301), None);
    }

    #[test]
    fn what_is_forgotten_has_the_oldest_time_that_is_known() {
        let marks = Marks::default();
        for n in 1..=KEPT as u64 + 10 {
            marks.note(n, at(n as i64));
        }
        assert_eq!(marks.of(5), Some(at(11)));
        assert_eq!(marks.of(11), Some(at(11)));
        assert_eq!(marks.of(12), Some(at(12)));
    }
}
