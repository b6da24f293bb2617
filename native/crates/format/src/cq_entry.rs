//! Queue entries: 20 bytes in a ConsumeQueue, 46 in a batch queue. [ConsumeQueue, BatchConsumeQueue]
//!
//! Simple: i64 physical offset, i32 record size, i64 tag code. Batch: the same, then i64 store
//! time, i64 first message offset, i16 number of messages, i32 compacted offset (-1), i32 reserved.

use super::delay::{Levels, SCHEDULE_TOPIC};
use super::{get_i16, get_i32, get_i64, java, properties};

pub const SIZE: usize = 20;
pub const BATCH_SIZE: usize = 46;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CqEntry {
    pub phys: i64,
    pub size: i32,
    pub tags_code: i64,
}

impl CqEntry {
    #[inline]
    pub fn read(b: &[u8]) -> Self {
        CqEntry {
            phys: get_i64(b, 0),
            size: get_i32(b, 8),
            tags_code: get_i64(b, 12),
        }
    }

    #[inline]
    pub fn write(&self, dst: &mut [u8]) {
        dst[..8].copy_from_slice(&self.phys.to_be_bytes());
        dst[8..12].copy_from_slice(&self.size.to_be_bytes());
        dst[12..20].copy_from_slice(&self.tags_code.to_be_bytes());
    }

    /// The test that recovery applies: an all-zero slot and garbage are not entries.
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.phys >= 0 && self.size > 0
    }

    #[inline]
    pub fn end(&self) -> i64 {
        self.phys.saturating_add(self.size as i64)
    }

    pub fn is_blank(&self) -> bool {
        *self == Self::PRE_BLANK
    }

    /// A slot of the first file of a queue that starts at a later offset (0, 0x7FFFFFFF, 0).
    pub const PRE_BLANK: CqEntry = CqEntry {
        phys: 0,
        size: i32::MAX,
        tags_code: 0,
    };
}

/// An entry of either kind, with the messages it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub cq: CqEntry,
    /// Queue offset of the first message.
    pub base: i64,
    /// How many messages the record holds; 1 but for inner batches.
    pub count: i32,
    /// Only batch entries have it; 0 otherwise.
    pub store_time: i64,
}

impl Entry {
    /// Queue offset behind the last message.
    #[inline]
    pub fn next(&self) -> i64 {
        self.base.saturating_add(self.count.max(1) as i64)
    }
}

/// Which of the two kinds a queue has; `queue.type` SimpleCQ or BatchCQ of its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    Simple,
    Batch,
}

impl Layout {
    /// Bytes of one entry.
    #[inline]
    pub fn unit(self) -> usize {
        match self {
            Layout::Simple => SIZE,
            Layout::Batch => BATCH_SIZE,
        }
    }

    /// Reads the entry that stands at `position` (entries before it in the queue).
    #[inline]
    pub fn read(self, b: &[u8], position: u64) -> Entry {
        let cq = CqEntry::read(b);
        match self {
            Layout::Simple => Entry {
                cq,
                base: position as i64,
                count: 1,
                store_time: 0,
            },
            Layout::Batch => Entry {
                cq,
                base: get_i64(b, 28),
                count: get_i16(b, 36) as i32,
                store_time: get_i64(b, 20),
            },
        }
    }

    #[inline]
    pub fn write(self, entry: &Entry, dst: &mut [u8]) {
        entry.cq.write(&mut dst[..SIZE]);
        if self == Layout::Batch {
            dst[20..28].copy_from_slice(&entry.store_time.to_be_bytes());
            dst[28..36].copy_from_slice(&entry.base.to_be_bytes());
            dst[36..38].copy_from_slice(&(entry.count as i16).to_be_bytes());
            dst[38..42].copy_from_slice(&(-1i32).to_be_bytes());
            dst[42..46].fill(0);
        }
    }

    /// The test that recovery applies.
    #[inline]
    pub fn is_valid(self, entry: &Entry) -> bool {
        entry.cq.is_valid() && (self == Layout::Simple || (entry.count > 0 && entry.base >= 0))
    }
}

/// The tag code of a queue entry: the hash of TAGS, or in the schedule topic the time of delivery.
pub fn tags_code(topic: &[u8], props: &[u8], store_timestamp: i64, levels: &Levels) -> i64 {
    if topic == SCHEDULE_TOPIC
        && let Some(time) = properties::find(props, b"DELAY")
            .and_then(|level| levels.deliver_time(level, store_timestamp))
    {
        return time;
    }
    java::tag_code(properties::find(props, b"TAGS"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_examples() {
        let mut b = [0u8; SIZE];
        let e = CqEntry {
            phys: 1024,
            size: 180,
            tags_code: -1031784143,
        };
        e.write(&mut b);
        let hex: String = b.iter().map(|x| format!("{x:02x}")).collect();
        assert_eq!(hex, "0000000000000400000000b4ffffffffc2803931");
        assert_eq!(CqEntry::read(&b), e);
        assert!(!CqEntry::read(&[0; 20]).is_valid());
    }

    #[test]
    fn a_batch_entry() {
        let mut b = [0xFFu8; BATCH_SIZE];
        let e = Entry {
            cq: CqEntry {
                phys: 1024,
                size: 180,
                tags_code: 7,
            },
            base: 12,
            count: 5,
            store_time: 99,
        };
        Layout::Batch.write(&e, &mut b);
        let hex: String = b.iter().map(|x| format!("{x:02x}")).collect();
        assert_eq!(
            hex,
            "0000000000000400000000b400000000000000070000000000000063\
             000000000000000c0005ffffffff00000000"
        );
        assert_eq!(Layout::Batch.read(&b, 3), e);
        assert_eq!(e.next(), 17);
        assert!(Layout::Batch.is_valid(&e));
        assert!(!Layout::Batch.is_valid(&Layout::Batch.read(&[0; BATCH_SIZE], 0)));
    }
}
