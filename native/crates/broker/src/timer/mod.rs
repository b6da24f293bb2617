//! Timers: messages that wait for a time of their own in rmq_sys_wheel_timer, and their delivery.
//!
//! Each record of that topic's queue becomes a unit of the timer log (`log`) and belongs to a slot of the
//! wheel (`wheel`); `enqueue` does that, in the order of the queue. When a slot is over, `deliver`
//! appends what it has to the topics that it was sent to, in the order of arrival (`chain`), but for
//! what a delete takes back. A time too far away is rolled: its message gets a nearer slot, and is
//! appended to rmq_sys_wheel_timer again when that is over.
//!
//! A delivered record says in its preparedTransactionOffset from where in the log it came. So after a kill the
//! log behind the last kept check point (`check`) tells what was delivered, and nothing is delivered
//! twice (`restore`). Wheel and timer log are made again from the log and the queue where they are
//! damaged (`recover`, `rebuild`). What no clock has reached yet is never delivered: a clock that
//! is set back makes what waits wait longer. [TimerMessageStore]

mod chain;
mod check;
mod deliver;
mod enqueue;
mod fields;
mod figures;
mod keep;
mod log;
#[cfg(test)]
mod model_tests;
mod needed;
mod prepared;
mod rebuild;
mod recover;
#[cfg(test)]
mod recover_tests;
mod restore;
#[cfg(test)]
mod speed_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod timer_tests;
mod topics;
mod wheel;

use self::log::TimerLog;
use chain::Chain;
use parking_lot::Mutex;
use prepared::{Needed, Paths, Prepared};
use pyrmq_format::timer::{SLOTS, TIMER_TOPIC};
use pyrmq_store::{ConsumeQueue, Result, Store, StoreError, Topic};
use rebuild::Rebuild;
use restore::Since;
use rustc_hash::FxHashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use topics::Topics;
use wheel::Wheel;

pub use deliver::Delivered;
pub use figures::Figures;
pub use keep::Progress;
pub use recover::Restored;
pub use topics::{DELAY_BOUNDS, Totals};

/// RocketMQ's keys.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// timerPrecisionMs: the length of a slot.
    pub precision: i64,
    /// timerRollWindowSlot: what is further away is rolled.
    pub roll_window: i64,
    /// mappedFileSizeTimerLog, bytes.
    pub log_file_size: u64,
    /// timerStopEnqueue: what is not in the wheel stays where it is.
    pub stop_enqueue: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            precision: 1000,
            roll_window: 2 * 86_400,
            log_file_size: 100 << 20,
            stop_enqueue: false,
        }
    }
}

/// Slots that RocketMQ keeps free between the roll window and half a round of the wheel.
const BLANK_SLOTS: i64 = 60;
const HALF_ROUND: i64 = SLOTS as i64 / 2;
/// A unit of the timer log has a length and what ends a file behind it; larger files are no log.
const LOG_FILE_SIZES: std::ops::RangeInclusive<u64> = 4096..=1 << 30;
/// Longest slot, ms: an hour.
const MAX_PRECISION: i64 = 3_600_000;

impl Settings {
    /// As RocketMQ takes them: a roll window that is none is the longest one. An error names what cannot be.
    fn checked(mut self) -> Result<Self> {
        let illegal = |text: String| Err(StoreError::Illegal(text));
        if !(1..=MAX_PRECISION).contains(&self.precision) {
            let text = format!(
                "timerPrecisionMs={}: from 1 to {MAX_PRECISION}",
                self.precision
            );
            return illegal(text);
        }
        if !LOG_FILE_SIZES.contains(&self.log_file_size) {
            let text = format!(
                "mappedFileSizeTimerLog={}: from {} to {} bytes",
                self.log_file_size,
                LOG_FILE_SIZES.start(),
                LOG_FILE_SIZES.end()
            );
            return illegal(text);
        }
        let longest = HALF_ROUND - BLANK_SLOTS;
        if !(2..=longest).contains(&self.roll_window) {
            self.roll_window = longest;
        }
        // A unit says how far its time is away in 32 bits.
        self.roll_window = self.roll_window.min(self.farthest());
        Ok(self)
    }

    /// Slots that a unit's time may be away from when it is written.
    fn farthest(&self) -> i64 {
        HALF_ROUND.min(i32::MAX as i64 / self.precision - 1)
    }

    /// The slot of a time.
    fn slot(&self, ms: i64) -> i64 {
        ms.div_euclid(self.precision)
    }
}

/// The timers of one store.
pub struct Timers {
    store: Arc<Store>,
    settings: Settings,
    paths: Paths,
    topic: Arc<Topic>,
    queue: Arc<ConsumeQueue>,
    /// Held while messages are enqueued or delivered. Taken outside of the put lock.
    work: Mutex<Work>,
    /// Held for moments. Taken inside of `work`.
    wheel: Mutex<Wheel>,
    /// What `prepare` found, until `flush` keeps it.
    prepared: Mutex<Option<Prepared>>,
    /// What the check point that is kept needs of the commit log.
    needed: Mutex<Needed>,
    topics: Mutex<Topics>,
    /// Topics without configuration that messages were delivered to.
    unknown: Mutex<Vec<Box<[u8]>>>,
    seen: Seen,
}

struct Work {
    log: TimerLog,
    /// Nothing waits in slots before this one.
    read: i64,
    /// No slot from this one on was ever delivered. A clock that is set back leaves it.
    ended: i64,
    /// Queue offset of the first message that is not in the wheel.
    queue_offset: i64,
    current: Option<Current>,
    /// Messages that were delivered after the check point that was kept and may be in the wheel still.
    delivered: Since,
    /// While all is made again from the queue: what to leave out.
    rebuild: Option<Rebuild>,
    /// Queue offset behind the last message that was rolled: no slot is begun before it is enqueued.
    rolled: i64,
    /// How often in a row the same record could not be read.
    failures: u32,
    /// A slave: up to where of the log its master's progress holds.
    followed: Option<u64>,
    /// DataVersion of timercheck.
    counter: i64,
}

/// The slot that is being delivered.
struct Current {
    chain: Chain,
    /// What deletes of this slot take back, as `deliver::key` says.
    deletes: FxHashSet<u128>,
    /// Where the log ended before the first of it was delivered.
    log_end: u64,
}

/// What may be asked without waiting.
#[derive(Default)]
struct Seen {
    /// The first slot that something may wait in.
    read: AtomicI64,
    queue_offset: AtomicI64,
    enqueued: AtomicU64,
    dequeued: AtomicU64,
    /// Messages that could not be set, or not be read when their time came.
    lost: AtomicU64,
    /// Store time of the message that was enqueued last, and when that was.
    stored_at: AtomicI64,
    enqueued_at: AtomicI64,
}

impl Timers {
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// ms until `deliver` has something to do, as far as the wheel knows; 0: now. None while nothing waits
    /// in it.
    pub fn due_in(&self, now: i64) -> Option<i64> {
        let read = self.seen.read.load(Ordering::Relaxed);
        let time = self.wheel.lock().next(read)?;
        let due = time
            .saturating_add(1)
            .saturating_mul(self.settings.precision);
        Some(due.saturating_sub(now).max(0))
    }

    /// Messages of rmq_sys_wheel_timer that are not in the wheel.
    pub fn behind(&self) -> i64 {
        let offset = self.seen.queue_offset.load(Ordering::Relaxed);
        (self.queue.max_offset() - offset).max(0)
    }

    /// Topics without configuration that messages were delivered to, since the last call.
    pub fn take_unknown(&self) -> Vec<Box<[u8]>> {
        std::mem::take(&mut *self.unknown.lock())
    }

    /// Moves `read`, and tells who asks without waiting.
    fn set_read(&self, work: &mut Work, read: i64) {
        work.read = read;
        let current = work.current.as_ref().map_or(read, |c| c.chain.time);
        self.seen.read.store(read.min(current), Ordering::Relaxed);
    }
}

fn timer_queue(store: &Store) -> Result<(Arc<Topic>, Arc<ConsumeQueue>)> {
    let topic = store.topics().topic(TIMER_TOPIC)?;
    let queue = topic.queue(0)?;
    Ok((topic, queue))
}
