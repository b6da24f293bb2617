//! What POP keeps in the log: check points and acknowledgements, and the topics and handles that
//! belong to them. [PopCheckPoint, AckMsg, BatchAckMsg, PopAckConstants, KeyBuilder, ExtraInfoUtil]
//!
//! A record of the revive topic has a JSON body, as RocketMQ's fastjson writes it, and a tag that
//! says which kind it is. What is read here may come from another broker, or from a damaged log:
//! every number and length is bounded.

use super::json::{JsonResult, Raw, Scanner};
use super::names::RETRY_PREFIX;
use super::{java, parse_i64, properties, push_int};
use std::borrow::Cow;

/// The revive topic of a cluster is this and the cluster's name.
pub const REVIVE_PREFIX: &[u8] = b"rmq_sys_REVIVE_LOG_";
/// The group whose offsets say how far the revive topic is read.
pub const REVIVE_GROUP: &[u8] = b"CID_RMQ_SYS_REVIVE_GROUP";
/// RocketMQ's `reviveQueueNum`.
pub const REVIVE_QUEUES: u32 = 8;
/// What stands for the revive queue of an orderly pop, which has no check point.
pub const ORDER_REVIVE_QUEUE: i32 = 999;
/// A check point is due so much earlier than its acknowledgements, ms. [ackTimeInterval]
pub const CHECK_POINT_AHEAD: i64 = 1000;
/// Most messages of a check point: its bits are an int.
pub const MAX_MESSAGES: usize = 32;
/// Most bytes of a record's body that is read.
pub const MAX_BODY: usize = 64 << 10;
/// Most offsets that are read of one batch of acknowledgements.
pub const MAX_ACKED: usize = 4096;
/// The property with the handle of a message.
pub const POP_CK: &[u8] = b"POP_CK";
/// The property with the time of the first pop.
pub const FIRST_POP_TIME: &[u8] = b"1ST_POP_TIME";

const MAX_NAME: usize = 1024;

/// The revive topic of a cluster.
pub fn revive_topic(cluster: &str) -> Vec<u8> {
    [REVIVE_PREFIX, cluster.as_bytes()].concat()
}

/// Appends the name of the topic to which messages go that a group did not acknowledge.
pub fn push_retry_topic(out: &mut Vec<u8>, topic: &[u8], group: &[u8], v2: bool) {
    out.extend_from_slice(RETRY_PREFIX);
    out.extend_from_slice(group);
    out.push(if v2 { b'+' } else { b'_' });
    out.extend_from_slice(topic);
}

/// Which kind of topic a handle is about, as it says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The topic that was asked for.
    No,
    /// `%RETRY%group_topic`
    V1,
    /// `%RETRY%group+topic`
    V2,
}

impl Retry {
    /// By the name of the topic.
    pub fn of(topic: &[u8]) -> Retry {
        match topic.strip_prefix(RETRY_PREFIX) {
            None => Retry::No,
            Some(rest) if rest.contains(&b'+') => Retry::V2,
            Some(_) => Retry::V1,
        }
    }

    pub fn digit(self) -> u8 {
        b'0' + self as u8
    }

    pub fn read(text: &[u8]) -> Option<Retry> {
        [Retry::No, Retry::V1, Retry::V2]
            .into_iter()
            .find(|r| text == [r.digit()])
    }
}

/// Which kind of record of the revive topic one is, by its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    CheckPoint,
    Ack,
    BatchAck,
}

impl Kind {
    pub fn tag(self) -> &'static [u8] {
        match self {
            Kind::CheckPoint => b"ck",
            Kind::Ack => b"ack",
            Kind::BatchAck => b"bAck",
        }
    }

    pub fn of_tag(tag: &[u8]) -> Option<Kind> {
        [Kind::CheckPoint, Kind::Ack, Kind::BatchAck]
            .into_iter()
            .find(|kind| kind.tag() == tag)
    }

    /// The tag code of its record in the revive topic.
    pub fn tags_code(self) -> i64 {
        java::hash(self.tag()) as i64
    }
}

/// Which check point a record is about: check points that agree in all of it are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Popped<'a> {
    /// The topic that the messages are in, which may be a retry topic.
    pub topic: Cow<'a, [u8]>,
    pub group: Cow<'a, [u8]>,
    pub broker_name: Cow<'a, [u8]>,
    pub queue_id: i32,
    /// Queue offset from which was popped.
    pub start_offset: i64,
    /// When, ms.
    pub pop_time: i64,
}

impl Default for Popped<'_> {
    fn default() -> Self {
        Popped {
            topic: Cow::Borrowed(b""),
            group: Cow::Borrowed(b""),
            broker_name: Cow::Borrowed(b""),
            queue_id: 0,
            start_offset: 0,
            pop_time: 0,
        }
    }
}

impl Popped<'_> {
    fn check(&self) -> JsonResult<()> {
        if self.topic.is_empty() || self.group.is_empty() {
            return Err("no topic or no group".into());
        }
        if self.queue_id < 0 || self.start_offset < 0 || self.pop_time < 0 {
            return Err("a negative queue, offset or time".into());
        }
        Ok(())
    }

    /// `topic@queue@`, `what`, `@group@time@broker@tag`.
    fn push_key(&self, out: &mut Vec<u8>, what: i64, kind: Kind) {
        out.extend_from_slice(&self.topic);
        for n in [self.queue_id as i64, what] {
            out.push(b'@');
            push_int(out, n);
        }
        out.push(b'@');
        out.extend_from_slice(&self.group);
        out.push(b'@');
        push_int(out, self.pop_time);
        out.push(b'@');
        out.extend_from_slice(&self.broker_name);
        out.push(b'@');
        out.extend_from_slice(kind.tag());
    }
}

/// That messages were popped, and until when they are invisible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckPoint<'a> {
    pub popped: Popped<'a>,
    /// ms
    pub invisible_time: i64,
    /// Where each message lies behind the start offset. It has at least one, and they ascend; RocketMQ
    /// wrote none once, for messages in a row: see `read`.
    pub diffs: &'a [i32],
    /// Which of them are acknowledged already.
    pub bits: u32,
    /// Offset of the check point that this one takes the place of; 0 for a new one.
    pub revive_offset: i64,
    /// How often it was put again; None: never.
    pub put_again: Option<u32>,
    /// Its messages come back without being counted as consumed once more. [5.5: suspend]
    pub suspend: bool,
}

impl CheckPoint<'_> {
    /// When its messages become visible again.
    pub fn revive_time(&self) -> i64 {
        self.popped.pop_time.saturating_add(self.invisible_time)
    }

    /// When the check point has to be in the revive topic.
    pub fn due(&self) -> i64 {
        self.revive_time().saturating_sub(CHECK_POINT_AHEAD)
    }

    /// Whether all of its messages are acknowledged already.
    pub fn is_done(&self) -> bool {
        let all = ((1u64 << self.diffs.len()) - 1) as u32;
        self.bits & all == all
    }

    /// The number of the message at a queue offset; None: it has none there.
    pub fn index_of(&self, offset: i64) -> Option<usize> {
        let diff = i32::try_from(offset.checked_sub(self.popped.start_offset)?).ok()?;
        self.diffs.iter().position(|&d| d == diff)
    }

    /// Queue offsets of its messages, with whether each is acknowledged.
    pub fn offsets(&self) -> impl Iterator<Item = (i64, bool)> + '_ {
        let start = self.popped.start_offset;
        let bits = self.bits;
        let all = self.diffs.iter().enumerate();
        all.map(move |(i, &d)| (start.saturating_add(d as i64), bits >> i & 1 == 1))
    }

    /// Appends the body.
    pub fn push_body(&self, out: &mut Vec<u8>) {
        let p = &self.popped;
        out.extend_from_slice(b"{\"bm\":");
        push_int(out, self.bits as i32 as i64);
        out.extend_from_slice(b",\"bn\":");
        push_text(out, &p.broker_name);
        out.extend_from_slice(b",\"c\":");
        push_text(out, &p.group);
        out.extend_from_slice(b",\"d\":");
        push_list(out, self.diffs.iter().map(|&d| d as i64));
        push_member(out, b"it", self.invisible_time);
        push_member(out, b"n", self.diffs.len() as i64);
        push_member(out, b"pt", p.pop_time);
        push_member(out, b"q", p.queue_id as i64);
        push_member(out, b"reviveTime", self.revive_time());
        push_member(out, b"ro", self.revive_offset);
        if let Some(times) = self.put_again {
            out.extend_from_slice(b",\"rp\":\"");
            push_int(out, times as i64);
            out.push(b'"');
        }
        push_member(out, b"so", p.start_offset);
        out.extend_from_slice(match self.suspend {
            true => b",\"sp\":true,\"t\":",
            false => b",\"sp\":false,\"t\":",
        });
        push_text(out, &p.topic);
        out.push(b'}');
    }

    /// Appends TAGS and UNIQ_KEY.
    pub fn push_props(&self, out: &mut Vec<u8>) {
        let start = self.popped.start_offset;
        push_props(out, &self.popped, start, Kind::CheckPoint);
    }

    /// Reads a body; the list of its messages goes to `diffs`. The error says what is wrong.
    pub fn read<'a>(body: &'a [u8], diffs: &'a mut Vec<i32>) -> JsonResult<CheckPoint<'a>> {
        let mut popped = Popped::default();
        let (mut it, mut bits, mut n, mut ro) = (0, 0, 0, 0);
        let (mut put_again, mut suspend) = (None, false);
        diffs.clear();
        members(body, |name, s| {
            match name {
                b"d" => {
                    return list(s, body, MAX_MESSAGES, |n| {
                        diffs.push(i32::try_from(n).map_err(|_| "a message is too far behind")?);
                        Ok(())
                    });
                }
                b"it" => it = number(s, body)?,
                b"bm" => bits = number(s, body)?,
                b"n" => n = number(s, body)?,
                b"ro" => ro = number(s, body)?,
                b"sp" => suspend = s.scalar()?.bytes(body) == b"true",
                b"rp" => {
                    let raw = s.scalar()?;
                    // What is no number counts as the most. [parseRePutTimes]
                    let times = |text| parse_i64(text).and_then(|n| u32::try_from(n).ok());
                    put_again = (!raw.is_null(body))
                        .then(|| times(raw.bytes(body)).unwrap_or(i8::MAX as u32));
                }
                _ => return read_popped(&mut popped, name, s, body),
            }
            Ok(())
        })?;
        popped.check()?;
        if it < 0 {
            return Err("a negative invisible time".into());
        }
        if diffs.is_empty() {
            let n = usize::try_from(n).ok().filter(|n| *n <= MAX_MESSAGES);
            diffs.extend((0..n.ok_or("too many messages")?).map(|i| i as i32));
        }
        if diffs.first().is_some_and(|&d| d < 0) || !diffs.is_sorted_by(|a, b| a < b) {
            return Err("messages that do not ascend".into());
        }
        let bits = i32::try_from(bits).map_err(|_| "more bits than an int has")?;
        Ok(CheckPoint {
            popped,
            invisible_time: it,
            diffs,
            bits: bits as u32,
            revive_offset: ro,
            put_again,
            suspend,
        })
    }
}

/// That messages of a check point are acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    pub popped: Popped<'a>,
    /// Their queue offsets; at least one.
    pub offsets: &'a [i64],
}

impl Ack<'_> {
    pub fn kind(&self) -> Kind {
        match self.offsets {
            [_] => Kind::Ack,
            _ => Kind::BatchAck,
        }
    }

    /// What `ao` says: a batch has none.
    fn single(&self) -> i64 {
        match self.offsets {
            [one] => *one,
            _ => -1,
        }
    }

    /// Appends the body.
    pub fn push_body(&self, out: &mut Vec<u8>) {
        let p = &self.popped;
        out.extend_from_slice(b"{\"ao\":");
        push_int(out, self.single());
        if self.kind() == Kind::BatchAck {
            out.extend_from_slice(b",\"aol\":");
            push_list(out, self.offsets.iter().copied());
        }
        out.extend_from_slice(b",\"bn\":");
        push_text(out, &p.broker_name);
        out.extend_from_slice(b",\"c\":");
        push_text(out, &p.group);
        push_member(out, b"pt", p.pop_time);
        push_member(out, b"q", p.queue_id as i64);
        push_member(out, b"so", p.start_offset);
        out.extend_from_slice(b",\"t\":");
        push_text(out, &p.topic);
        out.push(b'}');
    }

    /// Appends TAGS and UNIQ_KEY. RocketMQ gives a batch the key of an ack at -1 too.
    pub fn push_props(&self, out: &mut Vec<u8>) {
        properties::push(out, b"TAGS", self.kind().tag());
        push_key(out, &self.popped, self.single(), Kind::Ack);
    }

    /// Reads the body of an `ack` or a `bAck`; the offsets go to `offsets`.
    pub fn read<'a>(body: &'a [u8], offsets: &'a mut Vec<i64>) -> JsonResult<Ack<'a>> {
        let mut popped = Popped::default();
        let mut single = -1;
        offsets.clear();
        members(body, |name, s| match name {
            b"aol" | b"ackOffsetList" => list(s, body, MAX_ACKED, |n| {
                offsets.push(n);
                Ok(())
            }),
            b"ao" | b"ackOffset" => {
                single = number(s, body)?;
                Ok(())
            }
            _ => read_popped(&mut popped, name, s, body),
        })?;
        popped.check()?;
        if offsets.is_empty() {
            offsets.push(single);
        }
        if offsets.iter().any(|&offset| offset < 0) {
            return Err("a negative offset".into());
        }
        Ok(Ack { popped, offsets })
    }
}

fn push_props(out: &mut Vec<u8>, popped: &Popped<'_>, what: i64, kind: Kind) {
    properties::push(out, b"TAGS", kind.tag());
    push_key(out, popped, what, kind);
}

fn push_key(out: &mut Vec<u8>, popped: &Popped<'_>, what: i64, kind: Kind) {
    out.extend_from_slice(b"UNIQ_KEY\x01");
    popped.push_key(out, what, kind);
    out.push(2);
}

/// A handle: what a client says of a popped message. [ExtraInfoUtil]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle<'a> {
    pub start_offset: i64,
    pub pop_time: i64,
    pub invisible_time: i64,
    pub revive_queue: i32,
    pub retry: Retry,
    pub broker_name: &'a [u8],
    pub queue_id: i32,
    /// Of the message in its queue; None: the handle has seven fields, as old clients send it.
    pub offset: Option<i64>,
}

impl<'a> Handle<'a> {
    pub fn push(&self, out: &mut Vec<u8>) {
        for n in [self.start_offset, self.pop_time, self.invisible_time] {
            push_int(out, n);
            out.push(b' ');
        }
        push_int(out, self.revive_queue as i64);
        out.extend_from_slice(&[b' ', self.retry.digit(), b' ']);
        out.extend_from_slice(self.broker_name);
        out.push(b' ');
        push_int(out, self.queue_id as i64);
        if let Some(offset) = self.offset {
            out.push(b' ');
            push_int(out, offset);
        }
    }

    /// None for what is no handle. No number is negative.
    pub fn parse(text: &'a [u8]) -> Option<Handle<'a>> {
        let mut fields = text.split(|&b| b == b' ');
        let mut number = || natural(fields.next()?);
        let (start_offset, pop_time, invisible_time) = (number()?, number()?, number()?);
        let revive_queue = i32::try_from(number()?).ok()?;
        let retry = Retry::read(fields.next()?)?;
        let broker_name = fields.next().filter(|name| name.len() <= MAX_NAME)?;
        let queue_id = i32::try_from(natural(fields.next()?)?).ok()?;
        let offset = match fields.next() {
            None => None,
            Some(text) => Some(natural(text)?),
        };
        fields.next().is_none().then_some(Handle {
            start_offset,
            pop_time,
            invisible_time,
            revive_queue,
            retry,
            broker_name,
            queue_id,
            offset,
        })
    }
}

fn natural(text: &[u8]) -> Option<i64> {
    parse_i64(text).filter(|n| *n >= 0 && text[0].is_ascii_digit())
}

/// Walks the members of a body by name.
fn members<'a>(
    body: &'a [u8],
    mut on: impl FnMut(&'a [u8], &mut Scanner<'a>) -> JsonResult<()>,
) -> JsonResult<()> {
    if body.len() > MAX_BODY {
        return Err(format!("{} bytes", body.len()));
    }
    let mut s = Scanner::new(body);
    s.object(|s, key| on(key.bytes(body), s))?;
    s.end()
}

fn read_popped<'a>(
    popped: &mut Popped<'a>,
    name: &[u8],
    s: &mut Scanner<'a>,
    body: &'a [u8],
) -> JsonResult<()> {
    match name {
        b"t" | b"topic" => popped.topic = text(s, body)?,
        b"c" | b"consumerGroup" => popped.group = text(s, body)?,
        b"bn" | b"brokerName" => popped.broker_name = text(s, body)?,
        b"q" | b"queueId" => {
            let id = number(s, body)?;
            popped.queue_id = i32::try_from(id).map_err(|_| "a queue id beyond an int")?;
        }
        b"so" | b"startOffset" => popped.start_offset = number(s, body)?,
        b"pt" | b"popTime" => popped.pop_time = number(s, body)?,
        _ => return s.skip(1),
    }
    Ok(())
}

fn number(s: &mut Scanner<'_>, body: &[u8]) -> JsonResult<i64> {
    let raw = s.scalar()?;
    if raw.is_null(body) {
        return Ok(0);
    }
    parse_i64(raw.bytes(body)).ok_or_else(|| "no number".into())
}

fn text<'a>(s: &mut Scanner<'_>, body: &'a [u8]) -> JsonResult<Cow<'a, [u8]>> {
    let raw: Raw = s.scalar()?;
    if raw.is_null(body) {
        return Ok(Cow::Borrowed(b""));
    }
    if raw.bytes(body).len() > MAX_NAME {
        return Err("a name is too long".into());
    }
    if !raw.escaped {
        return Ok(Cow::Borrowed(raw.bytes(body)));
    }
    let mut out = Vec::new();
    raw.unescape(body, &mut out)?;
    Ok(Cow::Owned(out))
}

/// Walks a list of at most `most` integers; `null` is an empty one.
fn list(
    s: &mut Scanner<'_>,
    body: &[u8],
    most: usize,
    mut on: impl FnMut(i64) -> JsonResult<()>,
) -> JsonResult<()> {
    if s.peek() != Some(b'[') {
        let raw = s.scalar()?;
        return raw.is_null(body).then_some(()).ok_or("no list".into());
    }
    s.expect(b'[')?;
    let mut n = 0;
    while !s.eat(b']') {
        n += 1;
        if n > most {
            return Err(format!("more than {most} offsets"));
        }
        on(number(s, body)?)?;
        if !s.eat(b',') {
            return s.expect(b']');
        }
    }
    Ok(())
}

fn push_member(out: &mut Vec<u8>, name: &[u8], n: i64) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name);
    out.extend_from_slice(b"\":");
    push_int(out, n);
}

fn push_list(out: &mut Vec<u8>, numbers: impl Iterator<Item = i64>) {
    out.push(b'[');
    for (i, n) in numbers.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        push_int(out, n);
    }
    out.push(b']');
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for &b in text {
        match b {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
            0..0x20 => out.extend_from_slice(format!("\\u{b:04x}").as_bytes()),
            _ => out.push(b),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
#[path = "pop_tests.rs"]
mod tests;
