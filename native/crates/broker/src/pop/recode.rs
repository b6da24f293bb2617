//! Messages of a retry topic, given as messages of the topic that they were sent to.

use pyrmq_format::pop::{Handle, POP_CK};
use pyrmq_format::{get_i32, properties, record};
use std::ops::Range;

/// Appends a copy of the record `r` that says it is of `topic`, and has the handle as a property unless
/// it has one. Where the handle does not fit, the record stays as it is: then its receiver makes the
/// handle from what the answer says. [PopMessageProcessor, MessageDecoder.encode]
pub fn push(out: &mut Vec<u8>, r: &[u8], topic: &[u8], handle: &Handle<'_>, scratch: &mut Vec<u8>) {
    let start = out.len();
    if try_push(out, r, topic, handle, scratch).is_none() {
        out.truncate(start);
        out.extend_from_slice(r);
    }
}

fn try_push(
    out: &mut Vec<u8>,
    r: &[u8],
    topic: &[u8],
    handle: &Handle<'_>,
    scratch: &mut Vec<u8>,
) -> Option<()> {
    let view = record::parse(r)?;
    let part = |range: &Range<usize>| r.get(range.clone());
    let (body, old_topic, props) = (&view.body, part(&view.topic)?, part(&view.props)?);
    scratch.clear();
    if properties::find(props, POP_CK).is_none() {
        scratch.extend_from_slice(properties::closing(props));
        scratch.extend_from_slice(POP_CK);
        scratch.push(properties::NAME_END);
        handle.push(scratch);
        scratch.push(properties::VALUE_END);
    }
    let start = out.len();
    out.extend_from_slice(r.get(..body.end)?);
    // Its length has one byte or two, as the record's form says.
    let len_bytes = view.topic.start.checked_sub(body.end)?;
    match len_bytes {
        1 => out.push(u8::try_from(topic.len()).ok().filter(|n| *n < 128)?),
        2 => out.extend_from_slice(&i16::try_from(topic.len()).ok()?.to_be_bytes()),
        _ => return None,
    }
    out.extend_from_slice(topic);
    let len = props.len() + scratch.len();
    if len > properties::MAX_LEN {
        return None;
    }
    out.extend_from_slice(&(len as i16).to_be_bytes());
    out.extend_from_slice(props);
    out.extend_from_slice(scratch);
    let total = i32::try_from(out.len() - start).ok()?;
    debug_assert_eq!(
        total as i64,
        get_i32(r, 0) as i64 + topic.len() as i64 - old_topic.len() as i64 + scratch.len() as i64
    );
    out[start..start + 4].copy_from_slice(&total.to_be_bytes());
    Some(())
}

#[cfg(test)]
#[path = "recode_tests.rs"]
mod tests;
