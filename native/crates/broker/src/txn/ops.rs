//! Op records: which halves are dealt with. [TransactionalMessageBridge.addRemoveTagInTransactionOp]

use pyrmq_format::host::Host;
use pyrmq_format::{java, push_int};
use pyrmq_store::{Appended, Content, Message, PutGuard, Result, Topic, now_ms};
use std::collections::VecDeque;
use std::sync::Arc;

pub const TAG: &[u8] = b"d";
/// The properties that RocketMQ's op messages have.
const PROPS: &[u8] = b"TAGS\x01d\x02WAIT\x01true\x02";
/// Op records that are remembered as one.
const SPAN: i64 = 1024;
/// Most halves that one op record is read to name; RocketMQ's have some hundreds.
pub const MAX_NAMED: usize = 1 << 20;

/// The body that names the first of these offsets, `12,13,`, in at most `max` bytes (but one offset
/// at least), and how many it names.
pub fn body(offsets: &[i64], max: usize) -> (Vec<u8>, usize) {
    let mut out = Vec::with_capacity(max.min(offsets.len() * 11));
    for (i, &offset) in offsets.iter().enumerate() {
        let before = out.len();
        push_int(&mut out, offset);
        out.push(b',');
        if out.len() > max && i > 0 {
            out.truncate(before);
            return (out, i);
        }
    }
    (out, offsets.len())
}

/// The offsets that a body names; what is no number names nothing.
pub fn named(body: &[u8]) -> impl Iterator<Item = i64> {
    body.split(|&b| b == b',')
        .take(MAX_NAMED)
        .filter_map(|text| std::str::from_utf8(text).ok()?.parse().ok())
        .filter(|&offset| offset >= 0)
}

pub fn append(
    guard: &mut PutGuard<'_>,
    topic: &Arc<Topic>,
    host: &Host,
    body: &[u8],
) -> Result<Appended> {
    let message = Message {
        topic,
        queue_id: 0,
        sys_flag: 0,
        born_timestamp: now_ms(),
        born_host: *host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    };
    let content = Content {
        flag: 0,
        body,
        props: [PROPS, b"", b"", b""],
        tags_code: java::hash(TAG) as i64,
        count: 1,
    };
    guard.append(&message, &content)
}

/// Op records that may still matter: those that name a half at or above the least that waits.
#[derive(Default)]
pub struct Ops {
    spans: VecDeque<Span>,
}

/// Op records in a row, and the highest half that one of them names.
struct Span {
    from: i64,
    to: i64,
    most: i64,
}

impl Ops {
    /// Op record `offset` names halves up to `most` (-1: none).
    pub fn note(&mut self, offset: i64, most: i64) {
        if let Some(last) = self.spans.back_mut()
            && last.to == offset
            && last.to - last.from < SPAN
        {
            last.to += 1;
            last.most = last.most.max(most);
            return;
        }
        self.spans.push_back(Span {
            from: offset,
            to: offset + 1,
            most,
        });
    }

    /// The first op record that is still needed when no half below `least` waits, None if no
    /// record is.
    pub fn needed_from(&mut self, least: i64) -> Option<i64> {
        while self.spans.front().is_some_and(|s| s.most < least) {
            self.spans.pop_front();
        }
        self.spans.front().map(|s| s.from)
    }
}

#[cfg(test)]
#[path = "ops_tests.rs"]
mod tests;
