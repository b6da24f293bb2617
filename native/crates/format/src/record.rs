//! The commit-log record, V1 and V2, and the blank record at a file's end.
//!
//! Layout (IPv4 hosts): totalSize, magic, bodyCRC, queueId, flag (i32 each), queueOffset,
//! physicalOffset (i64), sysFlag, bornTimestamp, bornHost, storeTimestamp, storeHost,
//! reconsumeTimes, preparedTransactionOffset, i32+body, i8 (V1) or i16 (V2)+topic,
//! i16+properties. [MessageExtEncoder, CommitLog.checkMessageAndReturnSize]

use super::candidate::{self, Layout, Start};
use super::crc_copy::copy_crc32;
use super::host::Host;
use super::{crc31, get_i32, get_i64};
use std::ops::Range;

pub use super::candidate::{
    BLANK_LEN, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, MIN_LEN, store_timestamp_at,
};
pub use super::sys_flag;

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
    MIN_LEN
        + body
        + topic
        + props
        + (topic > i8::MAX as usize) as usize
        + 12 * (born.is_v6() as usize + store.is_v6() as usize)
}

/// Writes one record into `dst`, whose length must be `encoded_len` of the same parts. The
/// property string is given in parts that are stored one after the other. Every byte is written.
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
    for part in props {
        rest = put(rest, part);
    }
    assert!(rest.is_empty(), "encoded_len and encode disagree");
    let total = dst.len() as i32;
    dst[..4].copy_from_slice(&total.to_be_bytes());
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

/// The first bytes of the blank record that fills the last `rest` bytes of a file: its length and
/// magic. What follows has no meaning.
pub fn blank(rest: usize) -> [u8; BLANK_LEN] {
    let mut start = [0; BLANK_LEN];
    start[..4].copy_from_slice(&(rest as i32).to_be_bytes());
    start[4..].copy_from_slice(&MAGIC_BLANK.to_be_bytes());
    start
}

/// What stands at a place of the log.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    Record(View),
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

impl View {
    /// Physical offset behind the record, as it states its place.
    pub fn end(&self) -> i64 {
        self.phys.saturating_add(self.total as i64)
    }

    /// Whether the text at the record's end, its properties or its topic if it has none, ends in a
    /// zero: a write from front to back has not come to its end. `bytes` begin with the record.
    pub fn text_ends_in_zero(&self, bytes: &[u8]) -> bool {
        let text = if self.props.is_empty() {
            &self.topic
        } else {
            &self.props
        };
        bytes[text.clone()].last() == Some(&0)
    }
}

/// Store time of a record whose bytes are given, without checking the rest of it.
pub fn peek_store_timestamp(b: &[u8]) -> Option<i64> {
    if b.len() < MIN_LEN {
        return None;
    }
    Some(get_i64(b, Layout::of(b).store_timestamp))
}

/// Whether `b` is exactly one record, of this queue, queue offset and physical offset. Reads
/// fixed fields only, which costs next to nothing beside sending the record.
#[inline]
pub fn is_the_one(b: &[u8], queue_id: i32, queue_offset: i64, phys: i64) -> bool {
    candidate::start(b, b.len() as u64) == Start::Record(b.len())
        && get_i32(b, 12) == queue_id
        && get_i64(b, 20) == queue_offset
        && candidate::stated_phys(b) == Some(phys)
        && Layout::of(b).parts(b).is_some()
}

/// Checks and reads what starts at `b[0]`; `b` reaches to the end of the file's readable part.
/// With `check_crc` a body that does not fit its CRC makes the record invalid.
pub fn read(b: &[u8], check_crc: bool) -> Found {
    let total = match candidate::start(b, b.len() as u64) {
        Start::Record(total) => total,
        Start::Blank(_) => return Found::Blank,
        Start::Zeros | Start::NoMagic(_) => return Found::Invalid("no magic"),
        Start::BadLength(_) => return Found::Invalid("totalSize out of range"),
        Start::Short => return Found::Invalid("less than 8 bytes left"),
    };
    match parse(&b[..total]) {
        Some(v) if !check_crc || v.body.is_empty() => Found::Record(v),
        Some(v) if crc31(&b[v.body.clone()]) == get_i32(b, 8) => Found::Record(v),
        Some(_) => Found::Invalid("body CRC differs"),
        None => Found::Invalid("fields do not add up to totalSize"),
    }
}

/// Where the parts of a record lie that is exactly `r`, at least MIN_LEN bytes that begin with its
/// length and magic; None if they do not add up to its length.
#[inline]
pub fn parse(r: &[u8]) -> Option<View> {
    let mut view = View::default();
    parse_to(r, &mut view).then_some(view)
}

/// The same into a view that is there: copying one that was just written costs more than writing it.
/// False: the view is as it was.
#[inline]
pub fn parse_to(r: &[u8], view: &mut View) -> bool {
    let layout = Layout::of(r);
    let Some(parts) = layout.parts(r) else {
        return false;
    };
    view.total = r.len();
    view.queue_id = get_i32(r, 12);
    view.flag = get_i32(r, 16);
    view.queue_offset = get_i64(r, 20);
    view.phys = get_i64(r, 28);
    view.sys_flag = get_i32(r, 36);
    view.born_timestamp = get_i64(r, 40);
    view.store_timestamp = get_i64(r, layout.store_timestamp);
    view.reconsume_times = get_i32(r, layout.reconsume_times);
    view.prepared_transaction_offset = get_i64(r, layout.prepared_transaction_offset);
    view.body = parts.body;
    view.topic = parts.topic;
    view.props = parts.props;
    true
}

/// The host fields of a record that is exactly `r`, of its sender and of the broker that stored it,
/// as `parse` takes it.
#[inline]
pub fn hosts(r: &[u8]) -> (Host, Host) {
    let sys = get_i32(r, 36);
    let born = Host::read(&r[48..], sys & sys_flag::BORN_HOST_V6 != 0);
    let at = store_timestamp_at(sys) + 8;
    (
        born,
        Host::read(&r[at..], sys & sys_flag::STORE_HOST_V6 != 0),
    )
}

/// The property string of a record that is exactly `r`, as `parse` takes it.
#[inline]
pub fn props(r: &[u8]) -> Option<&[u8]> {
    r.get(Layout::of(r).parts(r)?.props)
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
