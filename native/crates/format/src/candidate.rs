//! What may be a record: the rules for bytes of the log that nothing vouches for yet.
//!
//! A candidate begins with a length and a magic code (`start`), states its own place (`stated_phys`),
//! and the lengths of its body, topic and properties, at places that the host flags decide, add up to
//! the length that it states (`Layout`). `record` reads what keeps these rules; whoever looks for
//! records in a damaged log finds candidates by their magic codes (`MagicFinder`).
//! [CommitLog.checkMessageAndReturnSize, MessageDecoder]

use super::{get_i16, get_i32, get_i64, sys_flag};
use memchr::memmem::Finder;
use std::ops::Range;

pub const MAGIC_V1: i32 = 0xDAA3_20A7u32 as i32;
pub const MAGIC_V2: i32 = 0xDAA3_20ABu32 as i32;
pub const MAGIC_BLANK: i32 = 0xCBD4_3194u32 as i32;
/// Bytes of length and magic, which are all that a blank record has; so many stay free behind every
/// record.
pub const BLANK_LEN: usize = 8;
/// Smallest length that a record may state: V1, IPv4 hosts, no body, topic or properties.
pub const MIN_LEN: usize = 91;
/// Largest record that is read from a log that nobody has open; brokers take 4 MiB by
/// default.
pub const MAX_RECORD: usize = 128 << 20;
/// Bytes from a record's start that hold every field up to its body length, whatever its hosts.
pub const HEAD_LEN: usize = 112;

const PHYS_AT: usize = 28;
const SYS_FLAG_AT: usize = 36;

/// What the first eight bytes of a place can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// A record of this length, which is in bounds.
    Record(usize),
    /// A blank record. What length it should state depends on the files.
    Blank(i32),
    /// Nothing was written.
    Zeros,
    NoMagic(i32),
    /// A record's magic behind a length that no record here can have.
    BadLength(i32),
    /// Less than eight bytes.
    Short,
}

/// What may start with `head`, the first bytes of a place with `left` bytes behind it in its file.
#[inline]
pub fn start(head: &[u8], left: u64) -> Start {
    if head.len() < BLANK_LEN || left < BLANK_LEN as u64 {
        return Start::Short;
    }
    let (total, magic) = (get_i32(head, 0), get_i32(head, 4));
    match magic {
        MAGIC_V1 | MAGIC_V2 => match stated_len(head, left) {
            Some(len) => Start::Record(len),
            None => Start::BadLength(total),
        },
        MAGIC_BLANK => Start::Blank(total),
        0 if total == 0 => Start::Zeros,
        _ => Start::NoMagic(magic),
    }
}

/// The length that a place states, whatever its magic; None if no record of it can be in `left` bytes.
#[inline]
pub fn stated_len(head: &[u8], left: u64) -> Option<usize> {
    let total = get_i32(head.get(..4)?, 0);
    (total >= MIN_LEN as i32 && total as u64 <= left).then_some(total as usize)
}

/// The length that a blank record states; None if the bytes are no start of one.
pub fn blank_len(head: &[u8]) -> Option<i32> {
    (head.len() >= BLANK_LEN && get_i32(head, 4) == MAGIC_BLANK).then(|| get_i32(head, 0))
}

/// The physical offset that a record states of itself; None if there are too few bytes.
#[inline]
pub fn stated_phys(head: &[u8]) -> Option<i64> {
    (head.len() >= PHYS_AT + 8).then(|| get_i64(head, PHYS_AT))
}

/// Position of storeTimestamp in a record with this sysFlag.
#[inline]
pub fn store_timestamp_at(sys: i32) -> usize {
    48 + host_len(sys, sys_flag::BORN_HOST_V6)
}

/// Bytes of a host field, address and port.
#[inline]
fn host_len(sys: i32, v6: i32) -> usize {
    if sys & v6 != 0 { 20 } else { 8 }
}

/// Where the fields of a record stand whose places depend on its hosts and its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub store_timestamp: usize,
    pub reconsume_times: usize,
    pub prepared_transaction_offset: usize,
    pub body_len: usize,
    /// Bytes of the topic's length.
    topic_width: usize,
}

/// Where body, topic and properties lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    pub body: Range<usize>,
    pub topic: Range<usize>,
    pub props: Range<usize>,
}

impl Layout {
    /// The layout of a record that begins with these bytes, at least 40 of them.
    #[inline]
    pub fn of(head: &[u8]) -> Self {
        let sys = get_i32(head, SYS_FLAG_AT);
        let store_timestamp = store_timestamp_at(sys);
        let reconsume_times = store_timestamp + 8 + host_len(sys, sys_flag::STORE_HOST_V6);
        Layout {
            store_timestamp,
            reconsume_times,
            prepared_transaction_offset: reconsume_times + 4,
            body_len: reconsume_times + 12,
            topic_width: if get_i32(head, 4) == MAGIC_V2 { 2 } else { 1 },
        }
    }

    /// The parts of a record of `total` bytes; None if they do not add up to it. `length(at, width)`
    /// reads a length field (see `length`); None: it cannot be read, so there is no record.
    #[inline(always)]
    pub fn parts_by<E>(
        &self,
        total: usize,
        mut length: impl FnMut(usize, usize) -> Result<Option<i64>, E>,
    ) -> Result<Option<Parts>, E> {
        let mut end = self.body_len;
        let mut next = |width: usize| {
            let start = end + width;
            let len = match start <= total {
                true => length(end, width)?,
                false => None,
            };
            let len = len.filter(|&len| len >= 0 && len <= (total - start) as i64);
            Ok(len.map(|len| {
                end = start + len as usize;
                start..end
            }))
        };
        let Some(body) = next(4)? else {
            return Ok(None);
        };
        let Some(topic) = next(self.topic_width)? else {
            return Ok(None);
        };
        let Some(props) = next(2)? else {
            return Ok(None);
        };
        Ok((props.end == total).then_some(Parts { body, topic, props }))
    }

    /// The parts of a record that is exactly `r`.
    #[inline(always)]
    pub fn parts(&self, r: &[u8]) -> Option<Parts> {
        let read = |at: usize, width: usize| Ok(Some(length(&r[at..at + width])));
        let Ok(parts) = self.parts_by::<std::convert::Infallible>(r.len(), read);
        parts
    }
}

/// A length field of one, two or four bytes; like all of RocketMQ's numbers it is signed.
#[inline(always)]
pub fn length(field: &[u8]) -> i64 {
    match field {
        [one] => *one as i8 as i64,
        [_, _] => get_i16(field, 0) as i64,
        _ => get_i32(field, 0) as i64,
    }
}

/// Finds magic codes, which stand four bytes behind the start of what they belong to.
pub struct MagicFinder {
    /// The bytes that both versions share.
    record: Finder<'static>,
    blank: Option<Finder<'static>>,
}

impl MagicFinder {
    /// Finds records, and blank ones as well.
    pub fn with_blanks() -> Self {
        MagicFinder {
            blank: Some(Finder::new(b"\xcb\xd4\x31\x94")),
            ..MagicFinder::records()
        }
    }

    pub fn records() -> Self {
        MagicFinder {
            record: Finder::new(b"\xda\xa3\x20"),
            blank: None,
        }
    }

    /// The positions of whole magic codes in `bytes`, ascending.
    pub fn positions<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
        let whole = |&at: &usize| matches!(bytes.get(at + 3), Some(0xa7 | 0xab));
        let mut records = self.record.find_iter(bytes).filter(whole).peekable();
        let blanks = self.blank.iter().flat_map(|f| f.find_iter(bytes));
        let mut blanks = blanks.peekable();
        std::iter::from_fn(move || match (records.peek(), blanks.peek()) {
            (Some(record), Some(blank)) if record > blank => blanks.next(),
            (None, _) => blanks.next(),
            _ => records.next(),
        })
    }
}

#[cfg(test)]
#[path = "candidate_tests.rs"]
mod tests;
