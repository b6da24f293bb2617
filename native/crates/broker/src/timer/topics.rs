//! Timer messages by topic: how many wait, came and were delivered, and what delays they asked for.
//! [TimerMetrics, DefaultStoreMetricsManager]

use pyrmq_store::{BOUNDS, Counts, Row};
use rustc_hash::FxHashMap;

/// Topics that are counted apart, at most.
const MAX_TOPICS: usize = 100_000;
/// Of delays, s. [DefaultStoreMetricsManager.getMetricsView]
pub const DELAY_BOUNDS: [u64; BOUNDS] = [60, 600, 3600, 43_200, 86_400, 259_200];

/// What is known of a topic.
#[derive(Default)]
struct Known {
    waiting: i64,
    /// When that changed last, ms.
    changed: i64,
    enqueued: u64,
    dequeued: u64,
    delays: Option<Box<Counts>>,
}

impl Known {
    fn add(&mut self, count: i64, now: i64) {
        // A topic of which nothing waited yet is not shown as one that does.
        if count > 0 || self.changed != 0 {
            self.waiting = (self.waiting + count).max(0);
            self.changed = now;
        }
    }
}

/// What came and went since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    pub topic: Box<[u8]>,
    pub enqueued: u64,
    pub dequeued: u64,
    /// Seconds from the birth of messages to the time they asked for.
    pub delays: Row,
}

/// By topic what waits, and what there was.
#[derive(Default)]
pub struct Topics(FxHashMap<Box<[u8]>, Known>);

impl Topics {
    /// The row of a topic, made if there is room.
    fn row(&mut self, topic: &[u8]) -> Option<&mut Known> {
        if !self.0.contains_key(topic) {
            if self.0.len() >= MAX_TOPICS {
                return None;
            }
            self.0.insert(topic.into(), Known::default());
        }
        self.0.get_mut(topic)
    }

    /// So many more wait.
    pub fn add(&mut self, topic: &[u8], count: i64, now: i64) {
        let is_known = count > 0 || self.0.contains_key(topic);
        if is_known && let Some(row) = self.row(topic) {
            row.add(count, now);
        }
    }

    /// A message came to the wheel, so that so many more wait; `delay`: ms that it asked for, if it did not
    /// come before.
    pub fn enqueued(&mut self, topic: &[u8], count: i64, now: i64, delay: Option<i64>) {
        if let Some(row) = self.row(topic) {
            row.add(count, now);
            row.enqueued += 1;
            if let Some(ms) = delay {
                let delays = row.delays.get_or_insert_default();
                delays.add(&DELAY_BOUNDS, ms.max(0) as u64 / 1000);
            }
        }
    }

    /// A message was delivered.
    pub fn dequeued(&mut self, topic: &[u8]) {
        if let Some(row) = self.row(topic) {
            row.dequeued += 1;
        }
    }

    /// The wheel is empty: whatever was counted is delivered.
    pub fn nothing_waits(&mut self) {
        for row in self.0.values_mut() {
            row.waiting = 0;
        }
    }

    pub fn remove(&mut self, topic: &[u8]) {
        self.0.remove(topic);
    }

    /// Each topic of which something waited, with its count, and when that changed last, ms.
    pub fn rows(&self) -> Vec<(Box<[u8]>, i64, i64)> {
        let rows = self.0.iter().filter(|(_, row)| row.changed != 0);
        rows.map(|(name, row)| (name.clone(), row.waiting, row.changed))
            .collect()
    }

    pub fn totals(&self) -> Vec<Totals> {
        let rows = self.0.iter();
        rows.map(|(topic, row)| Totals {
            topic: topic.clone(),
            enqueued: row.enqueued,
            dequeued: row.dequeued,
            delays: row.delays.as_ref().map_or(Row::default(), |d| d.row()),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_topics_than_may_be() {
        let mut topics = Topics::default();
        for n in 0..MAX_TOPICS as u32 + 1 {
            topics.enqueued(&n.to_be_bytes(), 1, 1, Some(1));
        }
        assert_eq!(topics.rows().len(), MAX_TOPICS);
        topics.remove(&0u32.to_be_bytes());
        topics.add(b"another", 1, 1);
        topics.add(b"one too many", 1, 1);
        topics.enqueued(b"one too many", 1, 1, Some(1));
        assert!(topics.rows().iter().any(|row| *row.0 == *b"another"));
        assert_eq!(topics.totals().len(), MAX_TOPICS);
    }

    #[test]
    fn delays_are_counted_in_whole_seconds() {
        let mut topics = Topics::default();
        topics.enqueued(b"T", -1, 5, None);
        assert!(topics.rows().is_empty(), "nothing waited");
        topics.enqueued(b"T", 1, 5, Some(60_999));
        topics.enqueued(b"T", 1, 5, Some(61_000));
        topics.enqueued(b"T", 1, 6, Some(-1));
        topics.dequeued(b"T");
        let want = Totals {
            topic: (*b"T").into(),
            enqueued: 4,
            dequeued: 1,
            delays: [3, 2, 1, 0, 0, 0, 0, 0, 60 + 61],
        };
        assert_eq!(topics.totals(), [want]);
        assert_eq!(topics.rows(), [((*b"T").into(), 3, 6)]);
    }
}
