//! The commit-log record, V1 and V2, and the blank record at a file's end.
//!
//! Layout (IPv4 hosts): totalSize, magic, bodyCRC, queueId, flag (i32 each), queueOffset,
//! physicalOffset (i64), sysFlag, bornTimestamp, bornHost, storeTimestamp, storeHost,
//! reconsumeTimes, preparedTransactionOffset, i32+body, i8 (V1) or i16 (V2)+topic,
//! i16+properties. [MessageExtEncoder, CommitLog.checkMessageAndReturnSize]

use super::host::Host;
use super::{crc31, get_i16, get_i32, get_i64};
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};

pub const MAGIC_V1: i32 = 0xDAA3_20A7u32 as i32;
pub const MAGIC_V2: i32 = 0xDAA3_20ABu32 as i32;
pub const MAGIC_BLANK: i32 = 0xCBD4_3194u32 as i32;
/// Bytes that stay free behind every record, so that a blank header always fits.
pub const BLANK_LEN: usize = 8;
/// Length of a V1 record with IPv4 hosts and no body, topic or properties.
const FIXED_LEN: usize = 91;
/// Smallest length that a totalSize may state.
pub const MIN_LEN: usize = FIXED_LEN;

pub mod sys_flag {
    pub const COMPRESSED: i32 = 0x1;
    pub const MULTI_TAGS: i32 = 0x2;
    pub const TRANSACTION_MASK: i32 = 0xC;
    pub const PREPARED: i32 = 0x4;
    pub const COMMIT: i32 = 0x8;
    pub const ROLLBACK: i32 = 0xC;
    pub const BORN_HOST_V6: i32 = 0x10;
    pub const STORE_HOST_V6: i32 = 0x20;
    pub const NEED_UNWRAP: i32 = 0x40;
    pub const INNER_BATCH: i32 = 0x80;
}

/// Everything of a record but its variable parts. The host bits of `sys_flag` and the magic are
/// set by `encode`.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub queue_id: i32,
    pub flag: i32,
    pub queue_offset: i64,
    pub phys: u64,
    pub sys_flag: i32,
    pub born_timestamp: i64,
    pub born_host: Host,
    pub store_timestamp: i64,
    pub store_host: Host,
    pub reconsume_times: i32,
    pub prepared_transaction_offset: i64,
}

/// Length of the record that these parts give.
#[inline]
pub fn encoded_len(born: &Host, store: &Host, body: usize, topic: usize, props: usize) -> usize {
    FIXED_LEN
        + body
        + topic
        + props
        + (topic > i8::MAX as usize) as usize
        + 12 * (born.is_v6() as usize + store.is_v6() as usize)
}

struct Put<'a> {
    dst: &'a mut [u8],
    at: usize,
}

impl Put<'_> {
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        self.dst[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}

/// Writes one record into `dst`, whose length must be `encoded_len` of the same parts. The
/// property string is given in pieces that are stored one after the other.
///
/// totalSize is written last, behind a fence: until then the place still reads as "no record", so
/// that a process killed in the middle leaves nothing that recovery could take for a message.
pub fn encode(dst: &mut [u8], head: &Head, topic: &[u8], body: &[u8], props: &[&[u8]]) {
    let v2 = topic.len() > i8::MAX as usize;
    let mut flags = head.sys_flag & !(sys_flag::BORN_HOST_V6 | sys_flag::STORE_HOST_V6);
    if head.born_host.is_v6() {
        flags |= sys_flag::BORN_HOST_V6;
    }
    if head.store_host.is_v6() {
        flags |= sys_flag::STORE_HOST_V6;
    }
    let total = dst.len() as i32;
    let props_len: usize = props.iter().map(|p| p.len()).sum();
    let mut w = Put { dst, at: 4 };
    w.put(&if v2 { MAGIC_V2 } else { MAGIC_V1 }.to_be_bytes());
    w.put(&crc31(body).to_be_bytes());
    w.put(&head.queue_id.to_be_bytes());
    w.put(&head.flag.to_be_bytes());
    w.put(&head.queue_offset.to_be_bytes());
    w.put(&head.phys.to_be_bytes());
    w.put(&flags.to_be_bytes());
    w.put(&head.born_timestamp.to_be_bytes());
    w.put(head.born_host.bytes());
    w.put(&head.store_timestamp.to_be_bytes());
    w.put(head.store_host.bytes());
    w.put(&head.reconsume_times.to_be_bytes());
    w.put(&head.prepared_transaction_offset.to_be_bytes());
    w.put(&(body.len() as i32).to_be_bytes());
    w.put(body);
    if v2 {
        w.put(&(topic.len() as i16).to_be_bytes());
    } else {
        w.put(&[topic.len() as u8]);
    }
    w.put(topic);
    w.put(&(props_len as i16).to_be_bytes());
    for piece in props {
        w.put(piece);
    }
    assert_eq!(w.at, w.dst.len(), "encoded_len and encode disagree");
    publish_i32(w.dst, total);
}

/// Writes the first four bytes after everything else is visible.
fn publish_i32(dst: &mut [u8], value: i32) {
    let bytes = value.to_be_bytes();
    let first = &mut dst[..4];
    fence(Ordering::Release);
    // SAFETY: `first` is a valid, exclusive place of four bytes; the write is unaligned-safe and
    // volatile, so that it is neither split nor moved before the fence by the compiler.
    unsafe { std::ptr::write_volatile(first.as_mut_ptr().cast::<[u8; 4]>(), bytes) };
}

/// Writes the blank record that fills `dst`, the rest of a file: its length and magic only.
pub fn encode_blank(dst: &mut [u8]) {
    let total = dst.len() as i32;
    dst[4..8].copy_from_slice(&MAGIC_BLANK.to_be_bytes());
    publish_i32(dst, total);
}

/// What stands at a place of the log.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    Record(Box<View>),
    /// The rest of the file is empty.
    Blank,
    /// Zero, torn, or not a record: the log's valid part ends here.
    Invalid(&'static str),
}

/// Where a record's parts lie, as ranges of the record's own bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    pub total: usize,
    pub queue_id: i32,
    pub flag: i32,
    pub queue_offset: i64,
    pub phys: i64,
    pub sys_flag: i32,
    pub born_timestamp: i64,
    pub store_timestamp: i64,
    pub reconsume_times: i32,
    pub prepared_transaction_offset: i64,
    pub body: Range<usize>,
    pub topic: Range<usize>,
    pub props: Range<usize>,
}

/// Position of storeTimestamp in a record with this sysFlag.
#[inline]
pub fn store_timestamp_at(sys: i32) -> usize {
    if sys & sys_flag::BORN_HOST_V6 != 0 {
        68
    } else {
        56
    }
}

/// Store time of a record whose bytes are given, without checking the rest of it.
pub fn peek_store_timestamp(b: &[u8]) -> Option<i64> {
    if b.len() < MIN_LEN {
        return None;
    }
    let at = store_timestamp_at(get_i32(b, 36));
    Some(get_i64(b, at))
}

/// Checks and reads what starts at `b[0]`; `b` reaches to the end of the file's readable part.
/// With `check_crc` a body that does not fit its CRC makes the record invalid.
pub fn read(b: &[u8], check_crc: bool) -> Found {
    if b.len() < BLANK_LEN {
        return Found::Invalid("less than 8 bytes left");
    }
    let total = get_i32(b, 0);
    match get_i32(b, 4) {
        MAGIC_V1 | MAGIC_V2 => {}
        MAGIC_BLANK => return Found::Blank,
        _ => return Found::Invalid("no magic"),
    }
    if total < MIN_LEN as i32 || total as usize > b.len() {
        return Found::Invalid("totalSize out of range");
    }
    match parse(&b[..total as usize]) {
        Some(v) if !check_crc || v.body.is_empty() => Found::Record(Box::new(v)),
        Some(v) if crc31(&b[v.body.clone()]) == get_i32(b, 8) => Found::Record(Box::new(v)),
        Some(_) => Found::Invalid("body CRC differs"),
        None => Found::Invalid("fields do not add up to totalSize"),
    }
}

fn parse(r: &[u8]) -> Option<View> {
    let v2 = get_i32(r, 4) == MAGIC_V2;
    let sys = get_i32(r, 36);
    let mut at = store_timestamp_at(sys);
    let store_timestamp = get_i64(r, at);
    at += 8 + if sys & sys_flag::STORE_HOST_V6 != 0 {
        20
    } else {
        8
    };
    // The shortest record ends three length bytes behind the body length.
    if at + 16 > r.len() {
        return None;
    }
    let reconsume_times = get_i32(r, at);
    let prepared = get_i64(r, at + 4);
    let body = part(r, at + 16, get_i32(r, at + 12) as i64)?;
    at = body.end;
    let topic_head = if v2 { 2 } else { 1 };
    if at + topic_head > r.len() {
        return None;
    }
    let topic_len = if v2 {
        get_i16(r, at) as i64
    } else {
        r[at] as i8 as i64
    };
    let topic = part(r, at + topic_head, topic_len)?;
    at = topic.end;
    if at + 2 > r.len() {
        return None;
    }
    let props = part(r, at + 2, get_i16(r, at) as i64)?;
    (props.end == r.len()).then_some(View {
        total: r.len(),
        queue_id: get_i32(r, 12),
        flag: get_i32(r, 16),
        queue_offset: get_i64(r, 20),
        phys: get_i64(r, 28),
        sys_flag: sys,
        born_timestamp: get_i64(r, 40),
        store_timestamp,
        reconsume_times,
        prepared_transaction_offset: prepared,
        body,
        topic,
        props,
    })
}

#[inline]
fn part(r: &[u8], start: usize, len: i64) -> Option<Range<usize>> {
    (len >= 0 && len <= r.len() as i64 - start as i64).then(|| start..start + len as usize)
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
