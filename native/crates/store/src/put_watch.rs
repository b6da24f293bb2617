//! `PutWatch`: which topics have stored messages since the last look.

use super::store_impl::Store;
use super::topics::Topic;
use std::collections::HashMap;
use std::sync::Arc;

/// A look costs little while nothing is stored, and a walk over all topics else.
#[derive(Default)]
pub struct PutWatch {
    /// Messages that a topic had stored at the last look, by its name.
    seen: HashMap<Box<[u8]>, u64>,
    /// Where the log ended at the last look.
    end: u64,
    /// Whether the topics were walked over after the log had ended there already: what is appended is
    /// counted a moment later.
    settled: bool,
}

impl PutWatch {
    /// From now on what is stored counts.
    pub fn new(store: &Store) -> Self {
        let mut made = Self::default();
        made.grown(store);
        made
    }

    /// The topics that have stored messages since the last look, and how many.
    pub fn grown(&mut self, store: &Store) -> Vec<(Arc<Topic>, u64)> {
        let end = store.log().max_offset();
        let same = end == self.end;
        if same && self.settled {
            return Vec::new();
        }
        (self.end, self.settled) = (end, same);
        let mut grown = Vec::new();
        for topic in store.topics().all() {
            let (now, _) = topic.puts();
            match self.seen.get_mut(topic.name()) {
                Some(before) if *before == now => {}
                Some(before) => {
                    // Fewer: the topic was deleted, and made again.
                    let more = now.checked_sub(*before).unwrap_or(now);
                    *before = now;
                    if more > 0 {
                        grown.push((topic, more));
                    }
                }
                None if now > 0 => {
                    self.seen.insert(topic.name().into(), now);
                    grown.push((topic, now));
                }
                None => {}
            }
        }
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StoreConfig, testing};

    fn put(store: &Store, topic: &[u8], count: usize) {
        let topic = store.topics().topic(topic).unwrap();
        let mut guard = store.put().unwrap();
        for _ in 0..count {
            testing::append(&mut guard, &topic, b"", b"body").unwrap();
        }
    }

    fn grown(watch: &mut PutWatch, store: &Store) -> Vec<(String, u64)> {
        let row = |(topic, more): (Arc<Topic>, u64)| {
            (String::from_utf8(topic.name().to_vec()).unwrap(), more)
        };
        let mut rows: Vec<_> = watch.grown(store).into_iter().map(row).collect();
        rows.sort();
        rows
    }

    #[test]
    fn what_has_grown_since_the_last_look() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = StoreConfig::new(dir.path());
        config.commit_log_file_size = 1 << 20;
        let store = Store::open(config).unwrap();
        put(&store, b"A", 2);
        let mut watch = PutWatch::new(&store);
        assert_eq!(grown(&mut watch, &store), []);
        put(&store, b"A", 1);
        put(&store, b"B", 3);
        let both = [("A".to_string(), 1), ("B".to_string(), 3)];
        assert_eq!(grown(&mut watch, &store), both);
        for _ in 0..3 {
            assert_eq!(grown(&mut watch, &store), []);
        }
        put(&store, b"B", 1);
        assert_eq!(grown(&mut watch, &store), [("B".to_string(), 1)]);
    }

    #[test]
    fn what_is_counted_behind_its_append_is_seen_by_the_next_look() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = StoreConfig::new(dir.path());
        config.commit_log_file_size = 1 << 20;
        let store = Store::open(config).unwrap();
        let mut watch = PutWatch::new(&store);
        put(&store, b"A", 1);
        assert_eq!(grown(&mut watch, &store), [("A".to_string(), 1)]);
        let topic = store.topics().get(b"A").unwrap();
        topic.count_put(1, 100); // as if its append had ended just before that look
        assert_eq!(grown(&mut watch, &store), [("A".to_string(), 1)]);
        assert!(watch.settled);
    }
}
