//! ACK_MESSAGE, BATCH_ACK_MESSAGE and CHANGE_MESSAGE_INVISIBLETIME as their frames say it.
//! [AckMessageRequestHeader, BatchAckMessageRequestBody, ChangeInvisibleTimeRequestHeader]
//!
//! What is read here is what is plain. All else, and all that is to be refused, is the broker's in Python.

use super::header::Header;
use super::reply::To;
use crate::pop::Claim;
use pyrmq_format::base64;
use pyrmq_format::json::{JsonResult, Raw, Scanner};
use pyrmq_format::names;
use pyrmq_format::parse_i64;
use pyrmq_format::pop::{self, Handle, MAX_MESSAGES, Retry};
use std::borrow::Cow;

pub const ACK_MESSAGE: i32 = 200_051;
pub const CHANGE_INVISIBLE_TIME: i32 = 200_053;
pub const BATCH_ACK_MESSAGE: i32 = 200_151;

/// Acknowledgements in a row that are kept, at most, before they are appended.
const MAX_KEPT: usize = 1024;
/// Check points among which that of an acknowledgement is looked for.
const RECENT: usize = 8;
/// Entries, bits and bytes of names of a batch that is plain.
const MAX_ENTRIES: usize = 256;
const MAX_BITS: usize = 4096;
const MAX_NAME: usize = 1024;
const MAX_GROUP: usize = 255;

/// What one request says of one message.
pub struct Said<'a> {
    pub topic: &'a [u8],
    pub group: &'a [u8],
    pub queue_id: i32,
    pub offset: i64,
    pub handle: Handle<'a>,
    /// Of a change: the new time, ms.
    pub invisible_time: Option<i64>,
    pub suspend: bool,
}

impl<'a> Said<'a> {
    /// None: it is not plain.
    pub fn read(header: &Header, frame: &'a [u8]) -> Option<Said<'a>> {
        let (mut topic, mut group, mut handle) = (None, None, None);
        let (mut queue_id, mut offset, mut invisible_time) = (None, None, None);
        let mut suspend = false;
        for (name, value) in &header.ext {
            if name.escaped {
                return None;
            }
            let text = || (!value.escaped).then(|| value.bytes(frame));
            match name.bytes(frame) {
                b"topic" => topic = Some(text()?),
                b"consumerGroup" => group = Some(text()?),
                b"queueId" => queue_id = Some(i32::try_from(parse_i64(text()?)?).ok()?),
                b"offset" => offset = Some(parse_i64(text()?)?),
                b"extraInfo" => handle = Some(Handle::parse(text()?)?),
                b"invisibleTime" => invisible_time = Some(parse_i64(text()?)?),
                b"suspend" => suspend = text()? == b"true",
                b"liteTopic" if !text()?.is_empty() => return None,
                _ => {}
            }
        }
        let said = Said {
            topic: topic?,
            group: group?,
            queue_id: queue_id?,
            offset: offset?,
            handle: handle?,
            invisible_time,
            suspend,
        };
        // The handle is of this message, if it says of which it is.
        let handle = &said.handle;
        let is_its = (handle.queue_id, handle.offset) == (said.queue_id, Some(said.offset));
        (is_its && is_group(said.group)).then_some(said)
    }

    pub fn claim(&self) -> Claim<'a> {
        Claim::of(&self.handle, self.topic, self.group, self.queue_id)
    }
}

/// Whether it may be the name of a group.
fn is_group(name: &[u8]) -> bool {
    (1..=MAX_GROUP).contains(&name.len()) && names::is_topic_text(name)
}

/// A check point, and which of its messages are acknowledged.
struct Point {
    /// Where topic and group end in the names; they begin where those of the point before end.
    names: [usize; 3],
    queue_id: i32,
    start_offset: i64,
    pop_time: i64,
    invisible_time: i64,
    revive_queue: i32,
    offsets: [i64; MAX_MESSAGES],
    count: usize,
}

impl Point {
    fn is_of(&self, names: &[u8], claim: &Claim<'_>) -> bool {
        let p = &claim.popped;
        let [start, middle, end] = self.names;
        self.start_offset == p.start_offset
            && self.pop_time == p.pop_time
            && self.queue_id == p.queue_id
            && self.invisible_time == claim.invisible_time
            && self.revive_queue == claim.revive_queue
            && names[start..middle] == *p.topic
            && names[middle..end] == *p.group
    }

    /// Whether it is among its offsets now.
    fn add(&mut self, offset: i64) -> bool {
        let at = match self.offsets[..self.count].binary_search(&offset) {
            Ok(_) => return true,
            Err(at) => at,
        };
        if self.count == MAX_MESSAGES {
            return false;
        }
        self.offsets.copy_within(at..self.count, at + 1);
        self.offsets[at] = offset;
        self.count += 1;
        true
    }
}

/// Acknowledgements that came in a row, by check point, and who waits for an answer.
#[derive(Default)]
pub struct Acks {
    names: Vec<u8>,
    points: Vec<Point>,
    waiting: Vec<To>,
    count: usize,
}

impl Acks {
    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && self.waiting.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.count >= MAX_KEPT || self.waiting.len() >= MAX_KEPT
    }

    pub fn clear(&mut self) {
        self.names.clear();
        self.points.clear();
        self.waiting.clear();
        self.count = 0;
    }

    /// One more message, of a claim that was checked.
    pub fn add(&mut self, claim: &Claim<'_>, offset: i64) {
        self.count += 1;
        let names = &self.names;
        let recent = self.points.iter_mut().rev().take(RECENT);
        for point in recent {
            if point.is_of(names, claim) && point.add(offset) {
                return;
            }
        }
        let start = self.names.len();
        self.names.extend_from_slice(&claim.popped.topic);
        let middle = self.names.len();
        self.names.extend_from_slice(&claim.popped.group);
        let mut offsets = [0; MAX_MESSAGES];
        offsets[0] = offset;
        self.points.push(Point {
            names: [start, middle, self.names.len()],
            queue_id: claim.popped.queue_id,
            start_offset: claim.popped.start_offset,
            pop_time: claim.popped.pop_time,
            invisible_time: claim.invisible_time,
            revive_queue: claim.revive_queue,
            offsets,
            count: 1,
        });
    }

    /// Who is to be answered when all of it is stored.
    pub fn wait(&mut self, to: To) {
        self.waiting.push(to);
    }

    pub fn waiting(&self) -> &[To] {
        &self.waiting
    }

    /// What is acknowledged of each check point, ascending.
    pub fn points<'a>(
        &'a self,
        broker_name: &'a [u8],
    ) -> impl Iterator<Item = (Claim<'a>, &'a [i64])> {
        self.points.iter().map(move |point| {
            let [start, middle, end] = point.names;
            let claim = Claim {
                popped: pop::Popped {
                    topic: Cow::Borrowed(&self.names[start..middle]),
                    group: Cow::Borrowed(&self.names[middle..end]),
                    broker_name: Cow::Borrowed(broker_name),
                    queue_id: point.queue_id,
                    start_offset: point.start_offset,
                    pop_time: point.pop_time,
                },
                invisible_time: point.invisible_time,
                revive_queue: point.revive_queue,
            };
            (claim, &point.offsets[..point.count])
        })
    }
}

/// An entry of a batch.
#[derive(Default)]
pub struct Entry<'a> {
    group: &'a [u8],
    topic: &'a [u8],
    retry: &'a [u8],
    start_offset: i64,
    queue_id: i64,
    revive_queue: i64,
    pop_time: i64,
    invisible_time: i64,
    bits: &'a [u8],
}

impl Entry<'_> {
    /// The topic that its messages are in, made in `name` if it is a retry topic.
    pub fn topic<'n>(&'n self, name: &'n mut Vec<u8>) -> Option<&'n [u8]> {
        let v2 = match Retry::read(self.retry)? {
            Retry::No => return Some(self.topic),
            Retry::V1 => false,
            Retry::V2 => true,
        };
        name.clear();
        pop::push_retry_topic(name, self.topic, self.group, v2);
        Some(name)
    }

    pub fn claim<'n>(&'n self, topic: &'n [u8], broker_name: &'n [u8]) -> Option<Claim<'n>> {
        Some(Claim {
            popped: pop::Popped {
                topic: Cow::Borrowed(topic),
                group: Cow::Borrowed(self.group),
                broker_name: Cow::Borrowed(broker_name),
                queue_id: i32::try_from(self.queue_id).ok()?,
                start_offset: self.start_offset,
                pop_time: self.pop_time,
            },
            invisible_time: self.invisible_time,
            revive_queue: i32::try_from(self.revive_queue).ok()?,
        })
    }

    /// The offsets that its bits stand for go to `offsets`. None: they are not plain.
    pub fn offsets(&self, offsets: &mut Vec<i64>) -> Option<()> {
        offsets.clear();
        let mut bytes = Vec::new();
        decode_base64(self.bits, &mut bytes)?;
        for (at, byte) in bytes.iter().enumerate() {
            for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
                let n = 8 * at as i64 + bit;
                offsets.push(self.start_offset.checked_add(n)?);
            }
        }
        (!offsets.is_empty()).then_some(())
    }
}

/// Calls for each entry of a batch, with the name of the broker that the batch is for, if it names one.
/// None: the body is not plain, or an entry is not to its liking.
pub fn batch<'a>(
    body: &'a [u8],
    mut each: impl FnMut(&Entry<'a>) -> Option<()>,
) -> Option<Option<&'a [u8]>> {
    let (mut broker, mut count) = (None, 0);
    let mut s = Scanner::new(body);
    let read = s.object(|s, key| match key.bytes(body) {
        b"brokerName" => {
            let raw = s.scalar()?;
            broker = (!raw.is_null(body)).then_some(plain(raw, body)?);
            Ok(())
        }
        b"acks" => {
            s.expect(b'[')?;
            loop {
                if s.eat(b']') {
                    return Ok(());
                }
                count += 1;
                if count > MAX_ENTRIES {
                    return Err("too many entries".into());
                }
                let entry = entry(s, body)?;
                each(&entry).ok_or("not plain")?;
                if !s.eat(b',') {
                    return s.expect(b']');
                }
            }
        }
        _ => s.skip(1),
    });
    (read.is_ok() && s.end().is_ok() && count > 0).then_some(broker)
}

fn entry<'a>(s: &mut Scanner<'a>, body: &'a [u8]) -> JsonResult<Entry<'a>> {
    let mut entry = Entry {
        retry: b"0",
        ..Entry::default()
    };
    s.object(|s, key| {
        let name = key.bytes(body);
        let number = |s: &mut Scanner<'a>| -> JsonResult<i64> {
            Ok(parse_i64(s.scalar()?.bytes(body)).ok_or("no number")?)
        };
        match name {
            b"c" | b"consumerGroup" => entry.group = plain(s.scalar()?, body)?,
            b"t" | b"topic" => entry.topic = plain(s.scalar()?, body)?,
            b"r" | b"retry" => entry.retry = plain(s.scalar()?, body)?,
            b"b" | b"bitSet" => entry.bits = plain(s.scalar()?, body)?,
            b"so" | b"startOffset" => entry.start_offset = number(s)?,
            b"q" | b"queueId" => entry.queue_id = number(s)?,
            b"rq" | b"reviveQueueId" => entry.revive_queue = number(s)?,
            b"pt" | b"popTime" => entry.pop_time = number(s)?,
            b"it" | b"invisibleTime" => entry.invisible_time = number(s)?,
            _ => return s.skip(2),
        }
        Ok(())
    })?;
    if !is_group(entry.group) || entry.topic.is_empty() {
        return Err("no group or no topic".into());
    }
    Ok(entry)
}

fn plain(raw: Raw, body: &[u8]) -> JsonResult<&[u8]> {
    let bytes = raw.bytes(body);
    match raw.escaped || bytes.len() > MAX_NAME || raw.is_null(body) {
        true => Err("not plain".into()),
        false => Ok(bytes),
    }
}

/// Decodes Base64 of a set that may be as long as sets are.
fn decode_base64(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    if text.len() / 4 * 24 > MAX_BITS {
        return None;
    }
    base64::decode(text, out)
}

#[cfg(test)]
#[path = "ack_tests.rs"]
mod tests;
