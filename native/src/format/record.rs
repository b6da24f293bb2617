//! The commit-log record, V1 and V2, and the blank record at a file's end.
//!
//! Layout (IPv4 hosts): totalSize, magic, bodyCRC, queueId, flag (i32 each), queueOffset,
//! physicalOffset (i64), sysFlag, bornTimestamp, bornHost, storeTimestamp, storeHost,
//! reconsumeTimes, preparedTransactionOffset, i32+body, i8 (V1) or i16 (V2)+topic,
//! i16+properties. [MessageExtEncoder, CommitLog.checkMessageAndReturnSize]

use super::crc_copy::copy_crc32;
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

/// Writes one record into `dst`, whose length must be `encoded_len` of the same parts. The
/// property string is given in pieces that are stored one after the other.
///
/// totalSize is written last, behind a fence: until then the place still reads as "no record", so
/// that a process killed in the middle leaves nothing that recovery could take for a message.
pub fn encode(dst: &mut [u8], head: &Head, topic: &[u8], body: &[u8], props: &[&[u8]]) {
    let v2 = topic.len() > i8::MAX as usize;
    let magic = if v2 { MAGIC_V2 } else { MAGIC_V1 };
    let hosts = (head.born_host.is_v6(), head.store_host.is_v6());
    // With both lengths known every place of the usual head is a constant.
    let at = match hosts {
        (false, false) => encode_head(dst, head, magic, body.len(), 8, 8),
        (born, store) => {
            let length = |v6| if v6 { 20 } else { 8 };
            encode_head(dst, head, magic, body.len(), length(born), length(store))
        }
    };
    let (fixed, rest) = dst.split_at_mut(at);
    let (to, mut rest) = rest.split_at_mut(body.len());
    let crc = copy_crc32(to, body) & 0x7fff_ffff;
    fixed[8..12].copy_from_slice(&crc.to_be_bytes());
    if v2 {
        rest = put(rest, &(topic.len() as i16).to_be_bytes());
    } else {
        rest = put(rest, &[topic.len() as u8]);
    }
    rest = put(rest, topic);
    let props_len: usize = props.iter().map(|p| p.len()).sum();
    rest = put(rest, &(props_len as i16).to_be_bytes());
    for piece in props {
        rest = put(rest, piece);
    }
    assert!(rest.is_empty(), "encoded_len and encode disagree");
    let total = dst.len() as i32;
    publish_i32(dst, total);
}

/// Writes what stands before the body, but for totalSize and bodyCRC, and returns where that ends.
/// `born` and `store` are the lengths of the host fields.
#[inline(always)]
fn encode_head(
    dst: &mut [u8],
    head: &Head,
    magic: i32,
    body: usize,
    born: usize,
    store: usize,
) -> usize {
    let end = 72 + born + store;
    let dst = &mut dst[..end]; // one check for all that follows
    let mut flags = head.sys_flag & !(sys_flag::BORN_HOST_V6 | sys_flag::STORE_HOST_V6);
    if born > 8 {
        flags |= sys_flag::BORN_HOST_V6;
    }
    if store > 8 {
        flags |= sys_flag::STORE_HOST_V6;
    }
    dst[4..8].copy_from_slice(&magic.to_be_bytes());
    dst[12..16].copy_from_slice(&head.queue_id.to_be_bytes());
    dst[16..20].copy_from_slice(&head.flag.to_be_bytes());
    dst[20..28].copy_from_slice(&head.queue_offset.to_be_bytes());
    dst[28..36].copy_from_slice(&head.phys.to_be_bytes());
    dst[36..40].copy_from_slice(&flags.to_be_bytes());
    dst[40..48].copy_from_slice(&head.born_timestamp.to_be_bytes());
    dst[48..48 + born].copy_from_slice(head.born_host.bytes());
    let at = 48 + born;
    dst[at..at + 8].copy_from_slice(&head.store_timestamp.to_be_bytes());
    dst[at + 8..at + 8 + store].copy_from_slice(head.store_host.bytes());
    let at = at + 8 + store;
    dst[at..at + 4].copy_from_slice(&head.reconsume_times.to_be_bytes());
    dst[at + 4..at + 12].copy_from_slice(&head.prepared_transaction_offset.to_be_bytes());
    dst[at + 12..at + 16].copy_from_slice(&(body as i32).to_be_bytes());
    end
}

/// Copies `bytes` to the front of `dst` and returns the rest. Topics and properties are short: up
/// to 64 bytes go in overlapping words of a known length, which costs less than a call of memcpy.
#[inline(always)]
fn put<'a>(dst: &'a mut [u8], bytes: &[u8]) -> &'a mut [u8] {
    let (to, rest) = dst.split_at_mut(bytes.len());
    match bytes.len() {
        0 => {}
        1 => to[0] = bytes[0],
        2..4 => ends::<2>(to, bytes),
        4..8 => ends::<4>(to, bytes),
        8..16 => ends::<8>(to, bytes),
        16..32 => ends::<16>(to, bytes),
        32..=64 => ends::<32>(to, bytes),
        _ => to.copy_from_slice(bytes),
    }
    rest
}

/// Copies the first and the last `N` bytes, which are all of `N..=2 * N`.
#[inline(always)]
fn ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) {
        to[..N].copy_from_slice(first);
        let at = to.len() - N;
        to[at..].copy_from_slice(last);
    }
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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

/// Whether `b` is exactly one record, of this queue, queue offset and physical offset. Looks at
/// fixed fields only, which costs next to nothing beside sending the record.
#[inline]
pub fn is_the_one(b: &[u8], queue_id: i32, queue_offset: i64, phys: i64) -> bool {
    b.len() >= MIN_LEN
        && get_i32(b, 0) as usize == b.len()
        && matches!(get_i32(b, 4), MAGIC_V1 | MAGIC_V2)
        && get_i32(b, 12) == queue_id
        && get_i64(b, 20) == queue_offset
        && get_i64(b, 28) == phys
        && parts_add_up(b)
}

/// Whether the lengths of body, topic and properties give exactly `b`.
#[inline]
fn parts_add_up(b: &[u8]) -> bool {
    let sys = get_i32(b, 36);
    let hosts_v6 = (sys & sys_flag::BORN_HOST_V6 != 0) as usize
        + (sys & sys_flag::STORE_HOST_V6 != 0) as usize;
    let body_at = 84 + 12 * hosts_v6;
    let v2 = get_i32(b, 4) == MAGIC_V2;
    let len = |at: usize, width: usize| -> Option<usize> {
        let field = b.get(at..at + width)?;
        match field {
            [one] => Some(*one as usize),
            [_, _] => usize::try_from(get_i16(field, 0)).ok(),
            _ => usize::try_from(get_i32(field, 0)).ok(),
        }
    };
    let end = || {
        let topic_at = body_at + 4 + len(body_at, 4)?;
        let width = if v2 { 2 } else { 1 };
        let props_at = topic_at + width + len(topic_at, width)?;
        Some(props_at + 2 + len(props_at, 2)?)
    };
    end() == Some(b.len())
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

/// Where the parts of a record lie that is exactly `r`, at least MIN_LEN bytes that begin with its
/// length and magic; None if they do not add up to its length.
#[inline]
pub fn parse(r: &[u8]) -> Option<View> {
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
