//! The expressions of a topic's subscriptions, evaluated as its messages are stored.
//! [CommitLogDispatcherCalcBitMap]

use crate::filter::bloom;
use crate::filter::sql::Program;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Evaluating takes no more than one of so many parts of the time: all who send wait meanwhile.
const SHARE: u32 = 10;
/// It may have taken so much of that before its turn, so that a burst of messages is evaluated.
const BURST: Duration = Duration::from_secs(1);
/// One message may take so long.
const LONG: Duration = Duration::from_millis(1);

/// An expression, and the bits that say that it is true.
pub struct Expression {
    pub program: Arc<Program>,
    pub bits: Vec<u32>,
}

pub struct Expressions {
    all: Vec<Expression>,
    start: Instant,
    /// When what evaluating has taken is no more than its share, nanoseconds from `start`. The holder of the
    /// put lock alone uses it.
    paid_at: AtomicU64,
    /// `LONG`, but for tests.
    long: Duration,
}

impl Expressions {
    pub fn new(all: Vec<Expression>) -> Self {
        Expressions {
            all,
            start: Instant::now(),
            paid_at: AtomicU64::new(0),
            long: LONG,
        }
    }

    /// The same, evaluated however long one message takes.
    #[cfg(test)]
    pub fn patient(all: Vec<Expression>) -> Self {
        let long = Duration::MAX;
        Expressions {
            long,
            ..Expressions::new(all)
        }
    }

    /// Makes `bitmap` the bits of the expressions that are true of a property string, in `len` bytes. It is
    /// left empty, which says nothing of any of them, where evaluating takes too long.
    pub fn evaluate(&self, properties: &[u8], len: usize, bitmap: &mut Vec<u8>) {
        bitmap.clear();
        let began = self.start.elapsed();
        let paid_at = Duration::from_nanos(self.paid_at.load(Ordering::Relaxed));
        if paid_at > began + BURST {
            return;
        }
        bitmap.resize(len, 0);
        let mut took = Duration::ZERO;
        for e in &self.all {
            if took > self.long {
                bitmap.clear();
                break;
            }
            if e.program.matches(properties) {
                bloom::set(bitmap, &e.bits);
            }
            took = self.start.elapsed() - began;
        }
        let paid_at = paid_at.max(began) + took * SHARE;
        self.paid_at
            .store(paid_at.as_nanos() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(text: &str, bits: &[u32]) -> Expression {
        Expression {
            program: Arc::new(Program::compile(text).unwrap()),
            bits: bits.to_vec(),
        }
    }

    #[test]
    fn bits_of_what_is_true() {
        let all = vec![expression("a > 3", &[0, 9]), expression("a > 5", &[1, 9])];
        let all = Expressions::patient(all);
        let of = |properties: &[u8]| {
            let mut bitmap = vec![7; 3];
            all.evaluate(properties, 2, &mut bitmap);
            bitmap
        };
        assert_eq!(of(b"a\x014\x02"), [1, 2]);
        assert_eq!(of(b"a\x016\x02"), [3, 2]);
        assert_eq!(of(b"a\x012\x02"), [0, 0]);
        assert_eq!(of(b""), [0, 0]);
    }

    #[test]
    fn nothing_is_said_while_it_has_taken_more_than_its_share() {
        let all = Expressions::patient(vec![expression("a > 3", &[0])]);
        let mut bitmap = vec![7];
        all.paid_at.store(u64::MAX, Ordering::Relaxed);
        all.evaluate(b"a\x014\x02", 1, &mut bitmap);
        assert!(bitmap.is_empty());
        let soon = all.start.elapsed() + BURST / 2;
        all.paid_at.store(soon.as_nanos() as u64, Ordering::Relaxed);
        all.evaluate(b"a\x014\x02", 1, &mut bitmap);
        assert_eq!(bitmap, [1]);
        assert!(all.paid_at.load(Ordering::Relaxed) > soon.as_nanos() as u64);
    }

    #[test]
    fn one_message_that_takes_long_has_no_bits() {
        let all = vec![expression("a > 3", &[0]), expression("a > 5", &[1])];
        let long = Duration::ZERO;
        let all = Expressions {
            long,
            ..Expressions::new(all)
        };
        let mut bitmap = vec![7];
        all.evaluate(b"a\x016\x02", 1, &mut bitmap);
        assert!(bitmap.is_empty(), "the second one was not evaluated");
    }
}
