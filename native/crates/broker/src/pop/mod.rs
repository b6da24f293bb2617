//! POP: messages that are invisible to others for a time, and come back unless they are acknowledged.
//!
//! What was popped and what was acknowledged stands in the log: each is a timer message for the revive
//! topic, in RocketMQ's form, that is delivered there when the invisible time ends. So a crash forgets
//! neither. `take` reads a queue and sets the check point, `acks` appends what consumers say of it,
//! `records` is how both are stored. [PopMessageProcessor, AckMessageProcessor,
//! ChangeInvisibleTimeProcessor]

mod acks;
mod claim;
mod oldest;
mod recode;
mod records;
mod revive;
mod revive_append;
mod revive_before;
mod revive_offsets;
mod revive_round;
mod revive_window;
mod take;
mod totals;

pub use acks::{Change, Changed};
pub use claim::Claim;
pub use revive::{Lag, Progress, Reviver};
pub use revive_offsets::PoppedTo;
pub use revive_round::{Round, Target, Targets};
pub use take::{Ask, CheckPointOf, Taken};
pub use totals::{PairTotals, Records};

use pyrmq_format::pop;
use pyrmq_format::timer::TIMER_TOPIC;
use pyrmq_store::{Result, Store, StoreError, Topic};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use totals::Totals;

/// RocketMQ's `timerMaxDelaySec`, ms: no check point can be due later.
pub const MAX_INVISIBLE_TIME: i64 = 3 * 86_400_000;

/// What one broker's pops have in common.
#[derive(Clone, Debug)]
pub struct Settings {
    pub cluster: String,
    pub broker_name: String,
    /// Queues of the revive topic.
    pub revive_queues: u32,
    /// `timerPrecisionMs`
    pub precision: i64,
    /// Longest time for which messages may be invisible, ms.
    pub max_invisible_time: i64,
}

/// The pops of a store.
pub struct Pops {
    store: Arc<Store>,
    timer_topic: Arc<Topic>,
    revive_topic: Vec<u8>,
    settings: Settings,
    is_direct: AtomicBool,
    totals: Totals,
}

impl Pops {
    pub fn new(store: Arc<Store>, settings: Settings) -> Result<Pops> {
        let wrong = |what: &str| Err(StoreError::Illegal(what.into()));
        if !(1..=pop::ORDER_REVIVE_QUEUE as u32).contains(&settings.revive_queues) {
            return wrong("reviveQueueNum must be 1 to 999");
        }
        if settings.precision <= 0 {
            return wrong("timerPrecisionMs must be above 0");
        }
        if settings.broker_name.is_empty() || settings.broker_name.contains(' ') {
            return wrong("brokerName must not be empty, and POP allows no blanks in it");
        }
        let revive_topic = pop::revive_topic(&settings.cluster);
        store.topics().topic(&revive_topic)?; // its name is checked
        Ok(Pops {
            timer_topic: store.topics().topic(TIMER_TOPIC)?,
            revive_topic,
            settings,
            store,
            is_direct: AtomicBool::new(true),
            totals: Totals::default(),
        })
    }

    /// Whether sessions answer by themselves what consumers say of popped messages; else the broker in
    /// Python hears of all of it.
    pub fn set_direct(&self, direct: bool) {
        self.is_direct.store(direct, Ordering::Relaxed);
    }

    pub fn is_direct(&self) -> bool {
        self.is_direct.load(Ordering::Relaxed)
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What went into the revive topic and came out of it, by topic and group.
    pub fn totals(&self) -> Vec<PairTotals> {
        self.totals.rows()
    }

    pub fn revive_topic(&self) -> &[u8] {
        &self.revive_topic
    }
}

#[cfg(test)]
mod model_tests;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
