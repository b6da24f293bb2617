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
