//! One delay level: its queue, and how far it is delivered.

use pyrmq_format::names;
use pyrmq_store::{ConsumeQueue, Store, Topic};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A record that could not be read so often in a row is given up.
const MAX_FAILURES: u64 = 10;
/// How far store times may be ahead of the clock that is compared with, ms: they stand still where it
/// goes back by less than a second.
const SLACK: i64 = 2_000;
const UNKNOWN: i64 = i64::MIN;

/// Where a message goes when it is due.
pub enum Target {
    Topic(Arc<Topic>),
    /// Its topic was deleted while it waited.
    Deleted,
    /// It can never be delivered.
    Nowhere,
}

/// The target of a message with this REAL_TOPIC and REAL_QID. Not the broker's own books. Other brokers
/// took messages for names that this one takes none for.
pub fn target(store: &Store, real_topic: &[u8], real_queue_id: Option<u32>) -> Target {
    let is_one = names::is_topic(real_topic) || store.topics().get(real_topic).is_some();
    if !is_one || names::is_brokers_own(real_topic) || real_queue_id.is_none() {
        return Target::Nowhere;
    }
    match store.topics().topic(real_topic) {
        Ok(topic) if topic.is_deleted() => Target::Deleted,
        Ok(topic) => Target::Topic(topic),
        Err(_) => Target::Nowhere,
    }
}

pub struct Level {
    pub queue: Arc<ConsumeQueue>,
    /// ms.
    pub delay: i64,
    /// Queue offset of the first message that is not delivered.
    next: AtomicI64,
    /// When that one is due, ms; `UNKNOWN` if nobody has looked.
    due: AtomicI64,
    /// How often in a row its record could not be read.
    failures: AtomicU64,
}

impl Level {
    pub fn new(queue: Arc<ConsumeQueue>, delay: i64, next: i64) -> Self {
        Level {
            queue,
            delay,
            next: AtomicI64::new(next),
            due: AtomicI64::new(UNKNOWN),
            failures: AtomicU64::new(0),
        }
    }

    pub fn next(&self) -> i64 {
        self.next.load(Ordering::Relaxed)
    }

    pub fn has_more(&self) -> bool {
        self.next() < self.queue.max_offset()
    }

    /// How long until it is due, ms; 0 if nobody has looked.
    pub fn due_in(&self, now: i64) -> i64 {
        match self.due.load(Ordering::Relaxed) {
            UNKNOWN => 0,
            due if self.is_due(due, now) => 0,
            due => due - now,
        }
    }

    pub fn set_due(&self, due: i64) {
        self.due.store(due, Ordering::Relaxed);
    }

    /// Continues at a queue offset.
    pub fn go_to(&self, offset: i64) {
        self.next.store(offset, Ordering::Relaxed);
        self.due.store(UNKNOWN, Ordering::Relaxed);
        self.failures.store(0, Ordering::Relaxed);
    }

    /// The next message could not be read: whether to try again.
    pub fn may_retry(&self) -> bool {
        self.failures.fetch_add(1, Ordering::Relaxed) + 1 < MAX_FAILURES
    }

    /// Whether a message is to be delivered whose time is `due`. A time further away than the level's
    /// delay is one of a clock that was set back since: it is due at once. (Store times may be ahead of
    /// the clock a little.) [correctDeliverTimestamp]
    pub fn is_due(&self, due: i64, now: i64) -> bool {
        due <= now || due > now.saturating_add(self.delay + SLACK)
    }
}
