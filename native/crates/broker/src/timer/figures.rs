//! What waits, in numbers: for operators, and for the flow control of sends.

use super::Timers;
use super::topics::Totals;
use std::sync::atomic::Ordering;

/// Figures for operators and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// How long what is to be delivered next is late, ms.
    pub late: i64,
    /// Queue offset of the first message that is not in the wheel, and where the queue ends.
    pub queue_offset: i64,
    pub queue_end: i64,
    /// Messages in the wheel, deletes taken off.
    pub waiting: i64,
    /// Since the start.
    pub enqueued: u64,
    pub dequeued: u64,
    pub lost: u64,
    /// Store time of the message that was enqueued last, and when that was, ms.
    pub stored_at: i64,
    pub enqueued_at: i64,
}

impl Timers {
    pub fn figures(&self, now: i64) -> Figures {
        let seen = &self.seen;
        let wheel = self.wheel.lock();
        let next = wheel.next(seen.read.load(Ordering::Relaxed));
        let due = next.map_or(now, |time| (time + 1) * self.settings.precision);
        Figures {
            late: (now - due).max(0),
            queue_offset: seen.queue_offset.load(Ordering::Relaxed),
            queue_end: self.queue.max_offset(),
            waiting: wheel.waiting(),
            enqueued: seen.enqueued.load(Ordering::Relaxed),
            dequeued: seen.dequeued.load(Ordering::Relaxed),
            lost: seen.lost.load(Ordering::Relaxed),
            stored_at: seen.stored_at.load(Ordering::Relaxed),
            enqueued_at: seen.enqueued_at.load(Ordering::Relaxed),
        }
    }

    /// How many messages wait in the slot of a TIMER_OUT_MS.
    pub fn slot_count(&self, out_ms: i64) -> i64 {
        let slot = self.wheel.lock().get(self.settings.slot(out_ms));
        slot.map_or(0, |slot| slot.count as i64)
    }

    /// How many messages are due within `bounds[0]` seconds from `now`, how many between that and
    /// `bounds[1]`, and so on; the last number is of all behind the last bound. What is late counts to the
    /// first. [TimerMessageStore.calcTimerDistribution]
    pub fn histogram(&self, now: i64, bounds: &[i64]) -> Vec<i64> {
        let mut counts = vec![0; bounds.len() + 1];
        let precision = self.settings.precision;
        let first = self.settings.slot(now);
        let ends: Vec<i64> = bounds
            .iter()
            .map(|&end| first + end.saturating_mul(1000) / precision)
            .collect();
        for slot in self.wheel.lock().slots() {
            let at = ends.partition_point(|&end| end <= slot.time);
            counts[at] += slot.count as i64;
        }
        counts
    }

    /// By topic how many messages wait, and when that changed last, ms.
    pub fn topics(&self) -> Vec<(Box<[u8]>, i64, i64)> {
        self.topics.lock().rows()
    }

    /// What came and went since the start, by topic.
    pub fn totals(&self) -> Vec<Totals> {
        self.topics.lock().totals()
    }

    /// Continues with counts that were kept.
    pub fn set_topics(&self, rows: &[(&[u8], i64, i64)]) {
        let mut topics = self.topics.lock();
        if self.wheel.lock().is_empty() {
            return;
        }
        for &(name, count, at) in rows {
            topics.add(name, count, at);
        }
    }

    /// A topic is no more.
    pub fn forget_topic(&self, name: &[u8]) {
        self.topics.lock().remove(name);
    }
}
