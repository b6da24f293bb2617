//! Arrivals: queues that somebody watches and that have a new message.

use super::barrier::Barrier;
use super::error::Result;
use super::topics::Topic;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Queue `queue_id` of `topic` has a new entry, of a record that ends at `end` of the log.
pub struct Arrival {
    pub topic: Arc<Topic>,
    pub queue_id: u32,
    pub end: u64,
}

/// Arrivals that were not reported yet, in the order of the log.
pub struct Arrivals {
    barrier: Arc<Barrier>,
    pending: Mutex<VecDeque<Arrival>>,
    any: AtomicBool,
}

impl Arrivals {
    pub fn new(barrier: Arc<Barrier>) -> Self {
        Arrivals {
            barrier,
            pending: Mutex::default(),
            any: AtomicBool::new(false),
        }
    }

    /// Adds the arrival of a queue whose watch was taken.
    pub fn add(&self, arrival: Arrival) {
        self.pending.lock().push_back(arrival);
        self.any.store(true, Ordering::Release);
    }

    /// Whether there are arrivals, confirmed or not.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Takes the arrivals that are confirmed: consumers may see their records.
    pub fn drain(&self) -> Vec<Arrival> {
        let confirmed = self.barrier.confirmed();
        let mut pending = self.pending.lock();
        let ready = pending.iter().take_while(|a| a.end <= confirmed).count();
        let out = pending.drain(..ready).collect();
        self.any.store(!pending.is_empty(), Ordering::Release);
        out
    }

    /// Watches a queue: its next message is reported as an arrival, once. A message that it has
    /// already but that is not confirmed yet is reported when it is.
    pub fn watch(&self, topic: Arc<Topic>, queue_id: u32) -> Result<()> {
        let queue = topic.queue(queue_id)?;
        queue.watch();
        let end = queue.max_phys().max(0) as u64;
        if !self.barrier.is_confirmed(end) && queue.take_watch() {
            self.add(Arrival {
                topic,
                queue_id,
                end,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit_log::CommitLog;
    use crate::config::{FlushMode, StoreConfig};
    use crate::topics::Topics;
    use pyrmq_format::cq_entry::{CqEntry, Entry};

    /// Arrivals, and queue 3 of a topic with one entry, of a record that ends at 100.
    fn one_entry(root: &std::path::Path, mode: FlushMode) -> (Arrivals, Arc<Topic>) {
        let cfg = StoreConfig::new(root);
        let log = Arc::new(CommitLog::open(&cfg).unwrap());
        log.set_max_offset(100);
        let barrier = Arc::new(Barrier::new(mode.into(), log).unwrap());
        let topic = Topics::open(&cfg).unwrap().topic(b"T").unwrap();
        let entry = Entry {
            cq: CqEntry {
                phys: 0,
                size: 100,
                tags_code: 0,
            },
            base: 0,
            count: 1,
            store_time: 0,
        };
        topic.queue(3).unwrap().append(&entry).unwrap();
        (Arrivals::new(barrier), topic)
    }

    fn drained(arrivals: &Arrivals) -> Vec<(u32, u64)> {
        let all = arrivals.drain();
        all.iter().map(|a| (a.queue_id, a.end)).collect()
    }

    #[test]
    fn what_is_not_confirmed_yet_is_reported_when_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (arrivals, topic) = one_entry(dir.path(), FlushMode::Sync);
        arrivals.watch(topic.clone(), 3).unwrap();
        assert!(arrivals.any());
        assert_eq!(drained(&arrivals), []);
        arrivals.barrier.flushed_to(99);
        assert_eq!(drained(&arrivals), []);
        arrivals.barrier.flushed_to(100);
        assert_eq!(drained(&arrivals), [(3, 100)]);
        assert!(!arrivals.any() && !topic.queue(3).unwrap().take_watch());
        // All is confirmed: the next entry is waited for.
        arrivals.watch(topic.clone(), 3).unwrap();
        assert!(!arrivals.any() && topic.queue(3).unwrap().take_watch());
    }

    #[test]
    fn with_async_flush_only_the_next_entry_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (arrivals, topic) = one_entry(dir.path(), FlushMode::Async);
        arrivals.watch(topic.clone(), 3).unwrap();
        assert!(!arrivals.any() && topic.queue(3).unwrap().take_watch());
    }
}
