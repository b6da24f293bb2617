//! What a client says of a message that it popped, checked: it costs space in the log, and the time
//! that it names sets a timer.

use super::{Pops, Settings};
use pyrmq_format::pop::{Handle, MAX_MESSAGES, Popped};
use pyrmq_store::{Result, StoreError};
use std::borrow::Cow;

/// So far a pop time may lie ahead of the clock, ms: a clock that was set back is no forgery.
const CLOCK_SLACK: i64 = 600_000;

/// A check point as a client names it.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    pub popped: Popped<'a>,
    /// ms
    pub invisible_time: i64,
    pub revive_queue: i32,
}

impl<'a> Claim<'a> {
    /// What a handle says of a message of `topic` and queue that `group` popped.
    pub fn of(handle: &Handle<'a>, topic: &'a [u8], group: &'a [u8], queue_id: i32) -> Claim<'a> {
        Claim {
            popped: Popped {
                topic: Cow::Borrowed(topic),
                group: Cow::Borrowed(group),
                broker_name: Cow::Borrowed(handle.broker_name),
                queue_id,
                start_offset: handle.start_offset,
                pop_time: handle.pop_time,
            },
            invisible_time: handle.invisible_time,
            revive_queue: handle.revive_queue,
        }
    }

    /// When its messages become visible.
    pub fn revive_time(&self) -> i64 {
        self.popped.pop_time.saturating_add(self.invisible_time)
    }
}

impl Settings {
    /// The time for which messages become invisible.
    pub fn check_invisible_time(&self, time: i64) -> Result<()> {
        if (0..=self.max_invisible_time).contains(&time) {
            return Ok(());
        }
        illegal(format!(
            "invisibleTime {time} ms is not between 0 and {} ms",
            self.max_invisible_time
        ))
    }

    pub fn check_revive_queue(&self, queue: i32) -> Result<u32> {
        match u32::try_from(queue) {
            Ok(id) if id < self.revive_queues => Ok(id),
            _ => illegal(format!(
                "revive queue {queue} of the handle is not below {}",
                self.revive_queues
            )),
        }
    }
}

impl Pops {
    /// Refuses a claim that no pop of this broker can have led to. Returns the revive queue.
    pub fn check(&self, claim: &Claim<'_>, now: i64) -> Result<u32> {
        let (p, settings) = (&claim.popped, &self.settings);
        if *p.broker_name != *settings.broker_name.as_bytes() {
            return illegal(format!(
                "the handle is of broker {:?}, this is {}",
                String::from_utf8_lossy(&p.broker_name[..p.broker_name.len().min(64)]),
                settings.broker_name
            ));
        }
        settings.check_invisible_time(claim.invisible_time)?;
        if p.start_offset < 0 || p.queue_id < 0 {
            return illegal("the handle has a negative queue or offset".into());
        }
        if !(0..=now.saturating_add(CLOCK_SLACK)).contains(&p.pop_time) {
            return illegal(format!(
                "pop time {} of the handle is in the future",
                p.pop_time
            ));
        }
        settings.check_revive_queue(claim.revive_queue)
    }

    /// The same, with offsets that one record can name: of one check point, in order.
    pub fn check_offsets(&self, claim: &Claim<'_>, offsets: &[i64]) -> Result<()> {
        let start = claim.popped.start_offset;
        let reach = start..=start.saturating_add(i32::MAX as i64);
        let ascend = offsets.is_sorted_by(|a, b| a < b);
        let in_reach = offsets.iter().all(|offset| reach.contains(offset));
        if offsets.is_empty() || offsets.len() > MAX_MESSAGES || !ascend || !in_reach {
            return illegal(format!(
                "the offsets of one check point are 1 to {MAX_MESSAGES}, ascending, from {start} on"
            ));
        }
        Ok(())
    }
}

fn illegal<T>(text: String) -> Result<T> {
    Err(StoreError::Illegal(text))
}
