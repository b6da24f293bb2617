//! Acknowledging what was popped, and changing how long it is invisible.

use super::{Claim, Pops};
use pyrmq_format::pop::{Ack, CheckPoint, Popped};
use pyrmq_store::{PutGuard, Result, StoreError};
use std::borrow::Cow;

/// What a change led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed {
    /// What the log has to be confirmed up to.
    pub log_end: u64,
    /// The pop time of the new check point, ms.
    pub pop_time: i64,
}

/// A new invisible time for one message.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Queue offset of the message.
    pub offset: i64,
    /// From when, ms.
    pub now: i64,
    /// ms
    pub invisible_time: i64,
    /// It comes back without being counted as consumed once more.
    pub suspend: bool,
}

impl Pops {
    /// Acknowledges messages of one check point, ascending by queue offset, in one record. Returns what
    /// the log has to be confirmed up to.
    pub fn ack(
        &self,
        guard: &mut PutGuard<'_>,
        claim: &Claim<'_>,
        offsets: &[i64],
        now: i64,
    ) -> Result<u64> {
        let revive_queue = self.check(claim, now)?;
        self.check_offsets(claim, offsets)?;
        let ack = Ack {
            popped: borrowed(&claim.popped),
            offsets,
        };
        let done = self.append_ack(guard, &ack, claim.revive_time(), revive_queue)?;
        Ok(done.end())
    }

    /// Notes that an orderly group is done with everything of a queue before `next`. RocketMQ keeps that in
    /// the file of offsets alone, which is older than the log after a kill. The record is a check point
    /// of the last message, acknowledged already: nobody revives it, and `popped_to` finds the offset in
    /// it. Returns what the log has to be confirmed up to.
    pub fn done_in_order(
        &self,
        guard: &mut PutGuard<'_>,
        topic: &[u8],
        group: &[u8],
        queue_id: u32,
        next: i64,
        now: i64,
    ) -> Result<u64> {
        if next <= 0 {
            return Err(StoreError::Illegal(format!(
                "no message lies before {next}"
            )));
        }
        let ck = CheckPoint {
            popped: Popped {
                topic: Cow::Borrowed(topic),
                group: Cow::Borrowed(group),
                broker_name: Cow::Borrowed(self.settings.broker_name.as_bytes()),
                queue_id: queue_id as i32,
                start_offset: next - 1,
                pop_time: now,
            },
            invisible_time: 0,
            diffs: &[0],
            bits: 1,
            revive_offset: 0,
            put_again: None,
            suspend: false,
        };
        let revive_queue = queue_id % self.settings.revive_queues;
        Ok(self.append_check_point(guard, &ck, revive_queue)?.end())
    }

    /// Sets a check point for one message, and acknowledges it for the old one: both are stored, the
    /// check point first, so that the message comes back in any case.
    pub fn change(
        &self,
        guard: &mut PutGuard<'_>,
        claim: &Claim<'_>,
        to: Change,
    ) -> Result<Changed> {
        let revive_queue = self.check(claim, to.now)?;
        self.check_offsets(claim, &[to.offset])?;
        self.settings.check_invisible_time(to.invisible_time)?;
        // Never that of the old one, which may be of this message too: its ack would be the new one's.
        let pop_time = to.now.max(claim.popped.pop_time + 1);
        let ck = CheckPoint {
            popped: Popped {
                start_offset: to.offset,
                pop_time,
                ..borrowed(&claim.popped)
            },
            invisible_time: to.invisible_time,
            diffs: &[0],
            bits: 0,
            revive_offset: 0,
            put_again: None,
            suspend: to.suspend,
        };
        let ack = Ack {
            popped: borrowed(&claim.popped),
            offsets: &[to.offset],
        };
        let due = claim.revive_time();
        let log_end = self.append_both(guard, &ck, (&ack, due), revive_queue)?;
        Ok(Changed { log_end, pop_time })
    }
}

/// The same without a copy of its names.
pub(super) fn borrowed<'p>(popped: &'p Popped<'_>) -> Popped<'p> {
    Popped {
        topic: Cow::Borrowed(&popped.topic),
        group: Cow::Borrowed(&popped.group),
        broker_name: Cow::Borrowed(&popped.broker_name),
        ..*popped
    }
}
