//! A pop consumer: one connection that pops, and acknowledges each message that came. The broker keeps
//! its group's progress. [PopMessageProcessor, AckMessageProcessor, ExtraInfoUtil]

use crate::answer::Answer;
use crate::clock;
use crate::config::{Kind, Role, Target};
use crate::credentials::Credentials;
use crate::delivery::Deliveries;
use crate::frame::Value::{Int, Text};
use crate::frame::{ACK_MESSAGE, POP_MESSAGE, Request};
use crate::plan::{Phase, Shared};
use crate::produce::{Desk, GREETING, greeting};
use crate::slots::Slots;
use crate::stats::{Fault, Of};
use pyrmq_format::properties;
use pyrmq_format::push_int;
use pyrmq_format::record::View;
use std::collections::VecDeque;

const FOUND: i32 = 0;
const NOT_SUPPORTED: i32 = 3;
const NOT_FOUND: i32 = 19;
const POLLING_FULL: i32 = 209;
const POLLING_TIMEOUT: i32 = 210;

/// Stages of a request.
const POPPING: u8 = 0;
const ACKING: u8 = 1;

/// How long a pop waits at the broker, as clients have it.
const POLL_MS: i64 = 15_000;
/// Before a pop that failed is sent again; clients wait a second when the broker holds too many.
const PAUSE: u64 = 100_000_000;
const FULL_PAUSE: u64 = 1_000_000_000;
/// Before a pop that was answered with nothing at once is sent again.
const SHORT_PAUSE: u64 = 10_000_000;
/// Acknowledgements under way for each target, as clients have it (popThresholdForQueue).
const ACKS: usize = 96;
const MOST_ACKS: usize = 4096;

/// A message to acknowledge.
#[derive(Debug, PartialEq, Eq)]
struct Ack {
    target: u32,
    handle: Handle,
}

/// What the broker knows a popped message by.
#[derive(Debug, PartialEq, Eq)]
struct Handle {
    /// extraInfo, which messages have as POP_CK.
    text: String,
    /// 0: the topic itself, 1 and 2: the group's retry topic, in its first and second form.
    retry: u8,
    queue: i32,
    offset: i64,
}

pub struct Popper {
    id: u64,
    role: usize,
    /// Topics at its broker, as indexes of the role's targets, and when each may be popped again.
    walks: Vec<(u32, u64)>,
    /// Walks without a pop under way.
    idle: Vec<usize>,
    /// Acknowledgements that wait for a place.
    acks: VecDeque<Ack>,
    under_way: usize,
    deliveries: Deliveries,
}

impl Popper {
    pub fn new(id: u64, role: usize, targets: Vec<u32>) -> Popper {
        Popper {
            id,
            role,
            idle: (0..targets.len()).collect(),
            walks: targets.into_iter().map(|target| (target, 0)).collect(),
            acks: VecDeque::new(),
            under_way: 0,
            deliveries: Deliveries::default(),
        }
    }

    pub fn places(&self) -> usize {
        self.walks.len() + (self.walks.len() * ACKS).min(MOST_ACKS)
    }

    /// Messages that came and whose acknowledgement is not answered yet.
    pub fn unacknowledged(&self) -> u64 {
        (self.acks.len() + self.under_way) as u64
    }

    pub fn greeting(&self, shared: &Shared, out: &mut Vec<u8>) {
        greeting(shared, None, 2 << 16 | self.id, GREETING, out);
    }

    /// Sends what may be sent; returns when the next is, if that is known.
    pub fn fill(&mut self, desk: &mut Desk, slots: &mut Slots, out: &mut Vec<u8>) -> Option<u64> {
        let role = &desk.shared.roles[self.role].role;
        while let Some(ack) = self.acks.pop_front() {
            let Some((index, opaque)) = slots.take() else {
                self.acks.push_front(ack);
                return None;
            };
            self.under_way += 1;
            let slot = slots.get(index);
            (slot.stage, slot.from, slot.sent) = (ACKING, desk.now, desk.now);
            slot.deadline = desk.now + clock::ns(desk.shared.config.timeout);
            acknowledge(
                desk.shared.config.credentials.as_ref(),
                role,
                &role.targets[ack.target as usize],
                &ack.handle,
                opaque,
                out,
            );
        }
        let may_pop = match desk.shared.phase() {
            Phase::Connect | Phase::End => false,
            Phase::Run | Phase::Drain => !role.held,
            Phase::ReadBack => true,
        };
        if !may_pop {
            return None;
        }
        let mut next = None;
        let mut rest = Vec::new();
        for walk in std::mem::take(&mut self.idle) {
            let (target, not_before) = self.walks[walk];
            if not_before > desk.now {
                next = Some(next.map_or(not_before, |n: u64| n.min(not_before)));
                rest.push(walk);
                continue;
            }
            let Some((index, opaque)) = slots.take() else {
                rest.push(walk);
                continue;
            };
            let slot = slots.get(index);
            (slot.stage, slot.from, slot.sent) = (POPPING, desk.now, desk.now);
            slot.target = walk as u32;
            let wait = clock::ns(desk.shared.config.timeout) + POLL_MS as u64 * 1_000_000;
            slot.deadline = desk.now.saturating_add(wait);
            let signer = desk.shared.config.credentials.as_ref();
            pop(signer, role, &role.targets[target as usize], opaque, out);
        }
        self.idle = rest;
        next
    }

    /// The answer to the request in this slot.
    pub fn answer(&mut self, desk: &mut Desk, slots: &mut Slots, index: usize, answer: &Answer) {
        let slot = *slots.get(index);
        slots.release(index);
        let took = desk.now.saturating_sub(slot.sent);
        if slot.stage == ACKING {
            self.under_way -= 1;
            let measured = desk.shared.measured(slot.from);
            let of = match answer.code {
                0 => Of::Ack,
                _ => Of::Refused,
            };
            desk.stats.latency(of, took, measured);
            if answer.code != 0 {
                let text = || format!("ACK_MESSAGE: {}", answer.remark());
                desk.stats.fault(Fault::Code(answer.code), text);
            }
            return;
        }
        let walk = slot.target as usize;
        self.idle.push(walk);
        let role = &desk.shared.roles[self.role].role;
        let (target, not_before) = &mut self.walks[walk];
        match answer.code {
            FOUND => self.found(desk, role, walk, answer),
            NOT_FOUND | POLLING_TIMEOUT => {
                if took < SHORT_PAUSE {
                    *not_before = desk.now + SHORT_PAUSE;
                }
            }
            NOT_SUPPORTED => {
                *not_before = desk.now + FULL_PAUSE;
                desk.stats
                    .fault(Fault::Code(NOT_SUPPORTED), || answer.remark());
                desk.shared.fail(format!(
                    "the broker at {} answered POP_MESSAGE (code {POP_MESSAGE}) with \
                     REQUEST_CODE_NOT_SUPPORTED (3): it has no POP consumption",
                    role.targets[*target as usize].addr
                ));
            }
            code => {
                let pause = if code == POLLING_FULL {
                    FULL_PAUSE
                } else {
                    PAUSE
                };
                *not_before = desk.now + pause;
                desk.stats.fault(Fault::Code(code), || answer.remark());
            }
        }
    }

    fn found(&mut self, desk: &mut Desk, role: &Role, walk: usize, answer: &Answer) {
        let target = self.walks[walk].0;
        let place = &role.targets[target as usize];
        let starts = Starts::read(answer);
        let (acks, mut unknown) = (&mut self.acks, 0u64);
        self.deliveries
            .records(desk, role, answer.body, |one, view| {
                match handle(role, place, &starts, one, view) {
                    Some(handle) => {
                        let ordered = handle.retry == 0;
                        let queue = u64::from(target) << 32 | u64::from(handle.queue as u32);
                        acks.push_back(Ack { target, handle });
                        ordered.then_some(queue)
                    }
                    None => {
                        unknown += 1;
                        None
                    }
                }
            });
        if unknown > 0 || answer.body.is_empty() {
            self.walks[walk].1 = desk.now + PAUSE;
            let text = || "a pop brought a message without what acknowledges it".into();
            desk.stats.fault(Fault::Protocol, text);
        }
    }

    /// The request in this slot has no answer any more: what it would have brought comes again.
    pub fn gave_up(
        &mut self,
        desk: &mut Desk,
        slots: &mut Slots,
        index: usize,
        fault: Fault,
        why: &str,
    ) {
        let slot = *slots.get(index);
        slots.release(index);
        if slot.stage == ACKING {
            self.under_way -= 1;
            if fault == Fault::Timeout {
                let measured = desk.shared.measured(slot.from);
                let took = desk.now.saturating_sub(slot.sent);
                desk.stats.latency(Of::Ack, took, measured);
            }
        } else {
            self.idle.push(slot.target as usize);
        }
        desk.stats.fault(fault, || why.to_string());
    }
}

fn pop(signer: Option<&Credentials>, role: &Role, target: &Target, opaque: i32, out: &mut Vec<u8>) {
    let invisible = match role.kind {
        Kind::Pop { invisible_ms } => invisible_ms as i64,
        _ => 0,
    };
    let fields = [
        ("consumerGroup", Text(&role.group)),
        ("topic", Text(&target.topic)),
        ("queueId", Int(-1)),
        ("maxMsgNums", Int(role.max_msgs.into())),
        ("invisibleTime", Int(invisible)),
        ("pollTime", Int(POLL_MS)),
        ("bornTime", Int(clock::wall_ms() as i64)),
        // Where the group has no progress: from the first message, or from the last one.
        ("initMode", Int((!role.from_start).into())),
        ("expType", Text(&role.expression)),
        ("exp", Text(&role.subscription)),
        ("order", Text("false")),
    ];
    let request = Request {
        binary: false,
        code: POP_MESSAGE,
        flag: 0,
        fields: &fields,
        signer,
    };
    request.write(opaque, b"", out);
}

fn acknowledge(
    signer: Option<&Credentials>,
    role: &Role,
    target: &Target,
    handle: &Handle,
    opaque: i32,
    out: &mut Vec<u8>,
) {
    let topic = match handle.retry {
        1 => format!("%RETRY%{}_{}", role.group, target.topic),
        2 => format!("%RETRY%{}+{}", role.group, target.topic),
        _ => target.topic.clone(),
    };
    let fields = [
        ("consumerGroup", Text(&role.group)),
        ("topic", Text(&topic)),
        ("queueId", Int(handle.queue.into())),
        ("extraInfo", Text(&handle.text)),
        ("offset", Int(handle.offset)),
    ];
    let request = Request {
        binary: false,
        code: ACK_MESSAGE,
        flag: 0,
        fields: &fields,
        signer,
    };
    request.write(opaque, b"", out);
}

/// What an answer says about all its messages, and where its part of each queue starts.
struct Starts<'a> {
    pop_time: i64,
    invisible: i64,
    revive: i64,
    /// `retry queue offset`, joined by semicolons.
    offsets: &'a [u8],
}

impl<'a> Starts<'a> {
    fn read(answer: &'a Answer) -> Option<Starts<'a>> {
        Some(Starts {
            pop_time: answer.field("popTime")?,
            invisible: answer.field("invisibleTime")?,
            revive: answer.field("reviveQid")?,
            offsets: answer.text("startOffsetInfo").unwrap_or_default(),
        })
    }

    fn of(&self, retry: u8, queue: i32) -> Option<i64> {
        let text = std::str::from_utf8(self.offsets).ok()?;
        text.split(';').find_map(|entry| {
            let mut words = entry.split(' ');
            let (r, q) = (words.next()?.parse::<u8>(), words.next()?.parse::<i32>());
            let offset = words.next()?.parse().ok()?;
            (r == Ok(retry) && q == Ok(queue)).then_some(offset)
        })
    }
}

/// Of a message: its POP_CK, which a broker sets on what comes from a retry topic, or else what clients
/// make of the answer.
fn handle(
    role: &Role,
    target: &Target,
    starts: &Option<Starts>,
    record: &[u8],
    view: &View,
) -> Option<Handle> {
    if let Some(text) = properties::find(&record[view.props.clone()], b"POP_CK") {
        return given(std::str::from_utf8(text).ok()?);
    }
    let starts = starts.as_ref()?;
    let retry = retry_form(&record[view.topic.clone()], role, target)?;
    let (queue, offset) = (view.queue_id, view.queue_offset);
    let mut text = Vec::with_capacity(80);
    let mut word = |n: i64| {
        push_int(&mut text, n);
        text.push(b' ');
    };
    for n in [
        starts.of(retry, queue)?,
        starts.pop_time,
        starts.invisible,
        starts.revive,
        retry.into(),
    ] {
        word(n);
    }
    text.extend_from_slice(target.broker.as_bytes());
    text.push(b' ');
    push_int(&mut text, queue.into());
    text.push(b' ');
    push_int(&mut text, offset);
    Some(Handle {
        text: String::from_utf8(text).ok()?,
        retry,
        queue,
        offset,
    })
}

/// A handle that stands on the message.
fn given(text: &str) -> Option<Handle> {
    let words: Vec<&str> = text.split(' ').collect();
    let [_, _, _, _, retry, _, queue, offset] = words[..] else {
        return None;
    };
    Some(Handle {
        text: text.to_string(),
        retry: retry.parse().ok().filter(|retry| *retry <= 2)?,
        queue: queue.parse().ok()?,
        offset: offset.parse().ok()?,
    })
}

fn retry_form(topic: &[u8], role: &Role, target: &Target) -> Option<u8> {
    if topic == target.topic.as_bytes() {
        return Some(0);
    }
    let rest = topic
        .strip_prefix(b"%RETRY%")?
        .strip_prefix(role.group.as_bytes())?;
    match (rest.split_first()?, target.topic.as_bytes()) {
        ((b'_', name), own) if name == own => Some(1),
        ((b'+', name), own) if name == own => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::role;

    #[test]
    fn a_queue_starts_where_the_answer_says() {
        let starts = Starts {
            pop_time: 1,
            invisible: 2,
            revive: 3,
            offsets: b"0 0 17;1 0 4;0 12 99",
        };
        assert_eq!(starts.of(0, 0), Some(17));
        assert_eq!(starts.of(1, 0), Some(4));
        assert_eq!(starts.of(0, 12), Some(99));
        assert_eq!(starts.of(2, 0), None);
        let none = Starts {
            offsets: b"0 x;;0",
            ..starts
        };
        assert_eq!(none.of(0, 0), None);
    }

    #[test]
    fn a_handle_of_the_broker_is_taken_as_it_is() {
        let text = "7 1700 60000 3 1 broker-a 0 9";
        let want = Handle {
            text: text.into(),
            retry: 1,
            queue: 0,
            offset: 9,
        };
        assert_eq!(given(text), Some(want));
        for bad in [
            "",
            "7 1700 60000 3 1 broker-a 0",
            "7 1 2 3 5 b 0 9",
            "7 1 2 3 1 b x 9",
        ] {
            assert_eq!(given(bad), None);
        }
    }

    #[test]
    fn a_retry_topic_is_that_of_this_group_and_topic() {
        let role = role(Kind::Pop { invisible_ms: 1 });
        let target = crate::testing::target();
        let form = |topic: &str| retry_form(topic.as_bytes(), &role, &target);
        assert_eq!(form("T"), Some(0));
        assert_eq!(form("%RETRY%G_T"), Some(1));
        assert_eq!(form("%RETRY%G+T"), Some(2));
        for other in ["U", "%RETRY%G", "%RETRY%G_U", "%RETRY%H_T", ""] {
            assert_eq!(form(other), None);
        }
    }
}
