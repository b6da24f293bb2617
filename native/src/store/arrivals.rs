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
