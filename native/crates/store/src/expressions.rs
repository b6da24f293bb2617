//! The expressions of a topic's subscriptions, evaluated as its messages are stored.
//! [CommitLogDispatcherCalcBitMap]

use pyrmq_format::filter::bloom;
use pyrmq_format::filter::sql::Program;
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

/// What evaluating takes of the time, for all topics of a store together.
pub struct Share {
    start: Instant,
    /// When what it has taken is no more than its share, nanoseconds from `start`. The holder of the put lock
    /// alone uses it.
    paid_at: AtomicU64,
}

impl Default for Share {
    fn default() -> Self {
        Share {
            start: Instant::now(),
            paid_at: AtomicU64::new(0),
        }
    }
}

impl Share {
    fn paid_at(&self) -> Duration {
        Duration::from_nanos(self.paid_at.load(Ordering::Relaxed))
    }

    fn took(&self, began: Duration, took: Duration) {
        let paid_at = self.paid_at().max(began) + took * SHARE;
        self.paid_at
            .store(paid_at.as_nanos() as u64, Ordering::Relaxed);
    }
}

pub struct Expressions {
    all: Vec<Expression>,
    /// `LONG`, but for tests.
    long: Duration,
}

impl Expressions {
    pub fn new(all: Vec<Expression>) -> Self {
        Expressions { all, long: LONG }
    }

    /// The same, evaluated however long one message takes.
    #[cfg(test)]
    pub fn patient(all: Vec<Expression>) -> Self {
        let long = Duration::MAX;
        Expressions { all, long }
    }

    /// Makes `bitmap` the bits of the expressions that are true of a property string, in `len` bytes. It is
    /// left empty, which says nothing of any of them, where evaluating takes too long.
    pub fn evaluate(&self, share: &Share, properties: &[u8], len: usize, bitmap: &mut Vec<u8>) {
        bitmap.clear();
        let began = share.start.elapsed();
        if share.paid_at() > began + BURST {
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
            took = share.start.elapsed() - began;
        }
        share.took(began, took);
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
            all.evaluate(&Share::default(), properties, 2, &mut bitmap);
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
        let other = Expressions::patient(vec![expression("a > 3", &[1])]);
        let share = Share::default();
        let mut bitmap = vec![7];
        share.took(Duration::ZERO, BURST);
        all.evaluate(&share, b"a\x014\x02", 1, &mut bitmap);
        assert!(bitmap.is_empty());
        other.evaluate(&share, b"a\x014\x02", 1, &mut bitmap);
        assert!(bitmap.is_empty(), "the share is that of all topics");
        let share = Share::default();
        share.took(Duration::ZERO, BURST / 2 / SHARE);
        let before = share.paid_at();
        all.evaluate(&share, b"a\x014\x02", 1, &mut bitmap);
        assert_eq!(bitmap, [1]);
        assert!(share.paid_at() > before);
    }

    #[test]
    fn one_message_that_takes_long_has_no_bits() {
        let all = vec![expression("a > 3", &[0]), expression("a > 5", &[1])];
        let long = Duration::ZERO;
        let all = Expressions { all, long };
        let mut bitmap = vec![7];
        all.evaluate(&Share::default(), b"a\x016\x02", 1, &mut bitmap);
        assert!(bitmap.is_empty(), "the second one was not evaluated");
    }
}
