//! What a session does by itself of what consumers say of popped messages.
//!
//! Acknowledgements that come in a row are one record for each check point. They are appended, and answered,
//! when something else comes, or at the end of the feed. Times are those of the store's clock, by which
//! handles were made: that of a feed is another one.

use super::super::access;
use super::super::ack::{self, ACK_MESSAGE, Acks, BATCH_ACK_MESSAGE, CHANGE_INVISIBLE_TIME, Said};
use super::super::frame::Parts;
use super::super::reply::{self, To};
use super::{Feed, Session};
use crate::pop::{Change, Claim, Pops};
use crate::{Refusal, codes};
use pyrmq_format::push_int;

/// Bytes of the names of a topic and a group together.
const MAX_NAMES: usize = 1024;

impl Session {
    /// Whether the acknowledgement is kept, until `flush_acks`; otherwise the broker has to decide.
    pub(super) fn ack(&mut self, feed: &mut Feed<'_, '_>, frame: &[u8], parts: Parts) -> bool {
        let header = &feed.memory.header;
        let to = to(feed, parts);
        let Some(said) = Said::read(header, frame) else {
            return false;
        };
        let Some(pops) = self.pops(feed) else {
            return false;
        };
        let claim = said.claim();
        if !self.may_say(pops, &claim) || !has(pops, &claim, said.offset, true) {
            return false;
        }
        if pops.check_offsets(&claim, &[said.offset]).is_err() || feed.guard().is_none() {
            return false;
        }
        let is_oneway = feed.memory.header.is_oneway();
        let acks = &mut feed.memory.acks;
        acks.add(&claim, said.offset);
        match is_oneway {
            true => self.answered(feed.asked.of(ACK_MESSAGE), codes::SUCCESS, true),
            false => acks.wait(to),
        }
        if feed.memory.acks.is_full() {
            self.flush_acks(feed, ACK_MESSAGE);
        }
        true
    }

    /// Whether all that a batch acknowledges is stored, or refused; otherwise the broker has to decide.
    pub(super) fn batch_ack(
        &mut self,
        feed: &mut Feed<'_, '_>,
        frame: &[u8],
        parts: Parts,
    ) -> bool {
        let Some(pops) = self.pops(feed).filter(|_| feed.guard().is_some()) else {
            return false;
        };
        let own = pops.settings().broker_name.as_bytes();
        let mut acks = std::mem::take(&mut feed.memory.acks);
        let (mut name, mut offsets) = (Vec::new(), Vec::new());
        let body = &frame[parts.header_end..parts.total];
        let broker = ack::batch(body, |entry| {
            let topic = entry.topic(&mut name)?;
            let claim = entry.claim(topic, own)?;
            entry.offsets(&mut offsets)?;
            let is_good = self.may_say(pops, &claim)
                && pops.check_offsets(&claim, &offsets[..1]).is_ok()
                && !acks.is_full();
            // A queue that is not known here may be new: the broker knows.
            let (min, end) = range(pops, &claim)?;
            for offset in &offsets {
                if (min..=end).contains(offset) {
                    acks.add(&claim, *offset);
                }
            }
            is_good.then_some(())
        });
        let is_plain = broker.is_some_and(|broker| broker.is_none_or(|name| name == own));
        match is_plain {
            false => acks.clear(),
            true if !feed.memory.header.is_oneway() => acks.wait(to(feed, parts)),
            true => self.answered(feed.asked.of(BATCH_ACK_MESSAGE), codes::SUCCESS, true),
        }
        feed.memory.acks = acks;
        if is_plain {
            self.flush_acks(feed, BATCH_ACK_MESSAGE);
        }
        is_plain
    }

    /// Whether the change is stored, or refused; otherwise the broker has to decide.
    pub(super) fn change(&mut self, feed: &mut Feed<'_, '_>, frame: &[u8], parts: Parts) -> bool {
        let Some(said) = Said::read(&feed.memory.header, frame) else {
            return false;
        };
        let (Some(pops), Some(invisible_time)) = (self.pops(feed), said.invisible_time) else {
            return false;
        };
        let claim = said.claim();
        let to = to(feed, parts);
        let is_good = self.may_say(pops, &claim)
            && has(pops, &claim, said.offset, false)
            && pops.check_offsets(&claim, &[said.offset]).is_ok()
            && pops.settings().check_invisible_time(invisible_time).is_ok();
        if !is_good {
            return false;
        }
        let now = pops.store().now_ms();
        let Some(guard) = feed.guard() else {
            return false;
        };
        let change = Change {
            offset: said.offset,
            now,
            invisible_time,
            suspend: said.suspend,
        };
        let done = pops.change(guard, &claim, change);
        let asked = feed.asked.of(CHANGE_INVISIBLE_TIME);
        if feed.memory.header.is_oneway() {
            let response = done.map_or_else(|e| Refusal::from(e).code, |_| codes::SUCCESS);
            self.answered(asked, response, true);
            return true;
        }
        let start = feed.out.len();
        let text = |n: i64| {
            let mut text = Vec::with_capacity(20);
            push_int(&mut text, n);
            text
        };
        match done {
            Ok(done) => {
                let queue = text(claim.revive_queue as i64);
                let (time, pop_time) = (text(invisible_time), text(done.pop_time));
                let ext: [(&[u8], &[u8]); 3] = [
                    (b"invisibleTime", &time),
                    (b"popTime", &pop_time),
                    (b"reviveQid", &queue),
                ];
                reply::push(feed.out, to, codes::SUCCESS, None, &ext);
                self.keep_unconfirmed(feed, to, asked, start, done.log_end);
            }
            Err(e) => {
                let Refusal { code, text } = Refusal::from(e);
                reply::push(feed.out, to, code, Some(&text), &[]);
                self.keep_order(feed, to, asked, code, start);
            }
        }
        true
    }

    /// Appends the acknowledgements that are kept, and answers them: requests of this code.
    pub(super) fn flush_acks(&mut self, feed: &mut Feed<'_, '_>, code: i32) {
        if feed.memory.acks.is_empty() {
            return;
        }
        let mut acks = std::mem::take(&mut feed.memory.acks);
        let done = append(feed, &acks);
        let asked = feed.asked.of(code);
        for &to in acks.waiting() {
            let start = feed.out.len();
            match &done {
                Ok(log_end) => {
                    reply::push(feed.out, to, codes::SUCCESS, None, &[]);
                    self.keep_unconfirmed(feed, to, asked, start, *log_end);
                }
                Err(Refusal { code, text }) => {
                    reply::push(feed.out, to, *code, Some(text), &[]);
                    self.keep_order(feed, to, asked, *code, start);
                }
            }
        }
        acks.clear();
        feed.memory.acks = acks;
    }

    /// The pops of this broker, unless somebody has to decide about each of its requests.
    fn pops<'b>(&self, feed: &Feed<'_, 'b>) -> Option<&'b Pops> {
        feed.context?.broker.pops().filter(|pops| pops.is_direct())
    }

    /// Whether a claim can be true, and its sender may make it.
    fn may_say(&mut self, pops: &Pops, claim: &Claim<'_>) -> bool {
        if pops.check(claim, pops.store().now_ms()).is_err() {
            return false;
        }
        let Some(guard) = &mut self.guard else {
            return true;
        };
        let (topic, group) = (&*claim.popped.topic, &*claim.popped.group);
        let mut both = [0; MAX_NAMES];
        let Some(both) = both.get_mut(..topic.len() + 1 + group.len()) else {
            return false;
        };
        let (first, rest) = both.split_at_mut(topic.len());
        first.copy_from_slice(topic);
        rest[0] = access::TOPIC_AND_GROUP;
        rest[1..].copy_from_slice(group);
        guard.allows(access::ACK, both)
    }
}

fn to(feed: &Feed<'_, '_>, parts: Parts) -> To {
    To {
        codec: parts.codec,
        opaque: feed.memory.header.opaque,
    }
}

/// Whether the queue is one that is read and has a message at the offset; `or_end`: or ends there.
fn has(pops: &Pops, claim: &Claim<'_>, offset: i64, or_end: bool) -> bool {
    range(pops, claim).is_some_and(|(min, end)| (min..end + or_end as i64).contains(&offset))
}

/// Where the queue of a claim begins and ends, if it is one that is read.
fn range(pops: &Pops, claim: &Claim<'_>) -> Option<(i64, i64)> {
    let p = &claim.popped;
    let topic = pops.store().topics().get(&p.topic)?;
    let id = u32::try_from(p.queue_id).ok()?;
    let is_read = topic.settings().is_some_and(|s| id < s.read_queues);
    let queue = topic.existing_queue(id).filter(|_| is_read)?;
    Some((queue.min_offset(), queue.max_offset()))
}

/// Returns what the log has to be confirmed up to; 0 if there was nothing to append.
fn append(feed: &mut Feed<'_, '_>, acks: &Acks) -> Result<u64, Refusal> {
    let Some(pops) = feed.context.and_then(|c| c.broker.pops()) else {
        return Ok(0);
    };
    let now = pops.store().now_ms();
    let Some(appender) = &mut feed.appender else {
        return Ok(0);
    };
    let mut end = 0;
    for (claim, offsets) in acks.points(pops.settings().broker_name.as_bytes()) {
        end = pops.ack(appender.guard()?, &claim, offsets, now)?;
    }
    Ok(end)
}

#[cfg(test)]
#[path = "popped_tests.rs"]
mod tests;
