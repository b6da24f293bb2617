//! Delayed messages: what waits in SCHEDULE_TOPIC_XXXX, delivering it when its time has come, and
//! what consumers send back.
//!
//! Each level has a queue, whose entries are in the order of their times. Delivering one appends it
//! to the topic that it was sent to; how far each level has come is all that is kept
//! (`Progress`). A delivered record says in its preparedTransactionOffset from where in the log it
//! came. So after a kill the records behind the last kept progress tell the rest, and nothing is
//! delivered twice (`restore`). [ScheduleMessageService]

mod back;
#[cfg(test)]
mod delay_tests;
mod deliver;
mod level;
mod restore;

use level::Level;
use parking_lot::Mutex;
use pyrmq_format::delay::SCHEDULE_TOPIC;
use pyrmq_store::{Result, Store, Topic};
use std::sync::Arc;

pub use back::{Destination, Returned};
pub use deliver::Delivered;
pub(crate) use level::{Target, target};
pub use restore::Restored;

/// The delayed messages of one store.
pub struct Delays {
    store: Arc<Store>,
    topic: Arc<Topic>,
    levels: Vec<Level>,
    /// Held while messages are delivered, and to see how far all levels are at one moment.
    delivering: Mutex<()>,
    /// Topics without configuration that messages were delivered to.
    unknown: Mutex<Vec<Box<[u8]>>>,
}

/// How far all levels are, for delayOffset.json.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// By level: queue offset of the first message that is not delivered.
    pub offsets: Vec<i64>,
    /// It holds once the log is on disk up to here, and says all about deliveries before it.
    pub log_end: u64,
}

impl Delays {
    /// Continues from kept progress: `offsets` by level, 0 for levels without one; `log_end` as it
    /// was with them, None where a broker kept none.
    pub fn open(
        store: Arc<Store>,
        offsets: &[i64],
        log_end: Option<u64>,
    ) -> Result<(Self, Restored)> {
        let topic = store.topics().topic(SCHEDULE_TOPIC)?;
        let mut levels = Vec::new();
        for number in 1..=store.config().delay_levels.highest() {
            let queue = topic.queue(number as u32 - 1)?;
            let next = offsets.get(number - 1).copied().unwrap_or(0);
            levels.push(Level::new(
                queue,
                store.config().delay_levels.delay(number),
                next,
            ));
        }
        warn_of_other_levels(&topic, levels.len());
        let restored = restore::restore(&store, &levels, log_end)?;
        let delays = Delays {
            store,
            topic,
            levels,
            delivering: Mutex::new(()),
            unknown: Mutex::default(),
        };
        Ok((delays, restored))
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// How long until something is to be delivered, ms, as far as that is known without reading: 0
    /// if something is due or a level has messages that nobody has looked at, None if none waits.
    pub fn due_in(&self, now: i64) -> Option<i64> {
        let waiting = self.levels.iter().filter(|level| level.has_more());
        waiting.map(|level| level.due_in(now)).min()
    }

    /// How far each level is, at one moment at which the log ends where `Progress` says.
    pub fn progress(&self) -> Result<Progress> {
        let _still = self.delivering.lock();
        self.store.write_staged(|log_end| Progress {
            offsets: self.levels.iter().map(Level::next).collect(),
            log_end,
        })
    }

    /// By level: queue offset of the first message that is not delivered, and where the queue ends.
    pub fn levels(&self) -> Vec<(i64, i64)> {
        let of = |level: &Level| (level.next(), level.queue.max_offset());
        self.levels.iter().map(of).collect()
    }
}

/// Messages may wait in levels that messageDelayLevel had before.
fn warn_of_other_levels(topic: &Topic, levels: usize) {
    for queue in topic.queues() {
        let (level, waiting) = (queue.queue_id() as usize + 1, queue.max_offset());
        if level > levels && waiting > queue.min_offset() {
            log::error!(
                topic:% = queue.topic_name(), queue = queue.queue_id();
                "messages of delay level {level} are not delivered: the highest level of \
                 messageDelayLevel is {levels}. Add the others again if some of them still wait"
            );
        }
    }
}
