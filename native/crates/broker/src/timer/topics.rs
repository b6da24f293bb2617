//! How many timer messages wait, by topic. [TimerMetrics]

use rustc_hash::FxHashMap;

/// Topics that are counted apart, at most.
const MAX_TOPICS: usize = 100_000;

/// By topic how many messages wait, and when that changed last. [TimerMetrics]
#[derive(Default)]
pub struct Topics(FxHashMap<Box<[u8]>, (i64, i64)>);

impl Topics {
    pub fn add(&mut self, topic: &[u8], count: i64, now: i64) {
        if let Some(row) = self.0.get_mut(topic) {
            *row = ((row.0 + count).max(0), now);
        } else if count > 0 && self.0.len() < MAX_TOPICS {
            self.0.insert(topic.into(), (count, now));
        }
    }

    /// The wheel is empty: whatever was counted is delivered.
    pub fn nothing_waits(&mut self) {
        for row in self.0.values_mut() {
            row.0 = 0;
        }
    }

    pub fn remove(&mut self, topic: &[u8]) {
        self.0.remove(topic);
    }

    /// Each topic with its count, and when that changed last, ms.
    pub fn rows(&self) -> Vec<(Box<[u8]>, i64, i64)> {
        let rows = self.0.iter();
        rows.map(|(name, &(count, at))| (name.clone(), count, at))
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
            topics.add(&n.to_be_bytes(), 1, 1);
        }
        assert_eq!(topics.rows().len(), MAX_TOPICS);
        topics.remove(&0u32.to_be_bytes());
        topics.add(b"another", 1, 1);
        topics.add(b"one too many", 1, 1);
        assert!(topics.rows().iter().any(|row| *row.0 == *b"another"));
        assert_eq!(topics.rows().len(), MAX_TOPICS);
    }
}
