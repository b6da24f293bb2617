//! When a micro-batch is due that waits for messages: minOffsetsPerTrigger and maxTriggerDelay.

use super::error::Result;
use std::time::{Duration, Instant};

/// Holds micro-batches back until there are `least` messages, but none longer than `delay` since the
/// last one that was let go.
///
/// The first one of a query waits for nothing, nor does any of Trigger.AvailableNow: what is there
/// then is all that it may read. [KafkaMicroBatchStream.delayBatch, KafkaSourceProvider]
#[derive(Debug)]
pub struct Pace {
    least: Option<u64>,
    delay: Duration,
    let_go: Option<Instant>,
    pinned: bool,
}

impl Pace {
    pub fn new(least: Option<u64>, delay: Duration) -> Self {
        Pace {
            least,
            delay,
            let_go: None,
            pinned: false,
        }
    }

    /// From now on everything that is there is read.
    pub fn pin(&mut self) {
        self.pinned = true;
    }

    /// Whether to wait. `count(n)` is how many messages there are, counted up to n at least.
    pub fn holds(&mut self, now: Instant, count: impl FnOnce(u64) -> Result<u64>) -> Result<bool> {
        let Some(least) = self.least.filter(|_| !self.pinned) else {
            return Ok(false);
        };
        let late = self
            .let_go
            .is_none_or(|let_go| now.saturating_duration_since(let_go) >= self.delay);
        let wanted = if late { 1 } else { least };
        if count(wanted)? < wanted {
            return Ok(true);
        }
        self.let_go = Some(now);
        Ok(false)
    }
}

/// What Spark asks of one micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// All that there is: Trigger.Once, and where no limit is set.
    #[default]
    All,
    /// The limits of the options.
    Own,
    /// So many messages, and the bytes of the options.
    Rows(u64),
    /// So many bytes, and the messages of the options.
    Bytes(u64),
}

/// The limits of a stream's options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub max_offsets: Option<u64>,
    pub max_bytes: Option<u64>,
}

impl Limits {
    /// Messages and bytes that a micro-batch may have.
    pub fn of(self, limit: Limit) -> (Option<u64>, Option<u64>) {
        match limit {
            Limit::All => (None, None),
            Limit::Own => (self.max_offsets, self.max_bytes),
            Limit::Rows(rows) => (Some(rows), self.max_bytes),
            Limit::Bytes(bytes) => (self.max_offsets, Some(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(pace: &mut Pace, now: Instant, there: u64) -> bool {
        pace.holds(now, |wanted| Ok(there.min(wanted))).unwrap()
    }

    #[test]
    fn without_a_least_nothing_waits_or_is_counted() {
        let mut pace = Pace::new(None, Duration::from_secs(1));
        let held = pace.holds(Instant::now(), |_| panic!("it was counted"));
        assert!(!held.unwrap());
    }

    #[test]
    fn the_first_batch_waits_for_one_message() {
        let now = Instant::now();
        let mut pace = Pace::new(Some(10), Duration::from_secs(900));
        assert!(holds(&mut pace, now, 0));
        assert!(!holds(&mut pace, now, 1));
        assert!(holds(&mut pace, now, 9));
        assert!(!holds(&mut pace, now, 10));
    }

    #[test]
    fn the_delay_lets_less_go() {
        let now = Instant::now();
        let mut pace = Pace::new(Some(10), Duration::from_millis(1000));
        assert!(!holds(&mut pace, now, 1));
        let almost = now + Duration::from_millis(999);
        assert!(holds(&mut pace, almost, 9));
        let late = now + Duration::from_millis(1000);
        assert!(holds(&mut pace, late, 0), "an empty batch waits");
        assert!(!holds(&mut pace, late, 1));
        assert!(holds(&mut pace, late, 9), "the delay counts anew");
    }

    #[test]
    fn pinned_nothing_waits() {
        let now = Instant::now();
        let mut pace = Pace::new(Some(10), Duration::from_secs(900));
        assert!(!holds(&mut pace, now, 1));
        pace.pin();
        assert!(!holds(&mut pace, now, 0));
    }

    #[test]
    fn a_limit_of_spark_takes_the_place_of_the_option() {
        let own = Limits {
            max_offsets: Some(5),
            max_bytes: Some(100),
        };
        assert_eq!(own.of(Limit::All), (None, None));
        assert_eq!(own.of(Limit::Own), (Some(5), Some(100)));
        assert_eq!(own.of(Limit::Rows(7)), (Some(7), Some(100)));
        assert_eq!(own.of(Limit::Bytes(9)), (Some(5), Some(9)));
    }
}
