//! The hash index file: message keys to physical offsets. [IndexHeader, IndexFile, IndexService]
//!
//! A file is a header of 40 bytes, `slots` numbers (i32) and `entries` places of 20 bytes. A slot
//! holds the number of its newest entry, an entry the number of the one before it in the same slot;
//! 0 ends the chain, and place 0 is never used. A file's size depends on both figures, which stand
//! nowhere in it.
//!
//! Header: i64 begin time, end time, begin physical offset, end physical offset (of the first and
//! the last entry), i32 number of slots in use, i32 number of the next entry, at first 1.
//! Entry: i32 key hash, i64 physical offset, i32 seconds since the begin time, i32 previous entry.

use super::java;
use super::properties;
use super::{get_i32, get_i64};

pub const HEADER: usize = 40;
pub const SLOT: usize = 4;
pub const ENTRY: usize = 20;

/// Where a header's fields stand.
pub mod at {
    pub const BEGIN_TIME: usize = 0;
    pub const END_TIME: usize = 8;
    pub const BEGIN_PHYS: usize = 16;
    pub const END_PHYS: usize = 24;
    pub const USED_SLOTS: usize = 32;
    pub const COUNT: usize = 36;
}

/// What one query returns at most. [MessageStoreConfig.maxMsgsNumBatch]
pub const MAX_HITS: usize = 64;

/// How many slots and entries the files of a store have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub slots: u32,
    pub entries: u32,
}

impl Shape {
    /// None if RocketMQ could not have such a file: its size is a Java int, and an entry needs a
    /// place besides the unused first one.
    pub fn new(slots: u32, entries: u32) -> Option<Self> {
        let size = HEADER as u64 + slots as u64 * SLOT as u64 + entries as u64 * ENTRY as u64;
        (slots >= 1 && entries >= 2 && size <= i32::MAX as u64).then_some(Shape { slots, entries })
    }

    pub fn file_size(self) -> usize {
        self.entry_at(self.entries)
    }

    /// Offset of the slot that a key hash falls into.
    #[inline]
    pub fn slot_at(self, key_hash: i32) -> usize {
        HEADER + (key_hash as u32 & 0x7fff_ffff) as usize % self.slots as usize * SLOT
    }

    /// Offset of an entry; also where the entries begin (0) and where the file ends (`entries`).
    #[inline]
    pub fn entry_at(self, number: u32) -> usize {
        HEADER + self.slots as usize * SLOT + number as usize * ENTRY
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub begin_time: i64,
    pub end_time: i64,
    pub begin_phys: i64,
    pub end_phys: i64,
    pub used_slots: i32,
    /// Number of the next entry. A file that Java never flushed has 0 here, which means 1.
    pub count: i32,
}

impl Header {
    pub fn read(b: &[u8]) -> Self {
        Header {
            begin_time: get_i64(b, at::BEGIN_TIME),
            end_time: get_i64(b, at::END_TIME),
            begin_phys: get_i64(b, at::BEGIN_PHYS),
            end_phys: get_i64(b, at::END_PHYS),
            used_slots: get_i32(b, at::USED_SLOTS),
            count: get_i32(b, at::COUNT).max(0),
        }
    }

    /// The header of a file that follows one with these end values (0 if there was none). The first
    /// entry replaces the begin values, but its own time difference still counts from these.
    pub fn after(end_time: i64, end_phys: i64) -> Self {
        let (time, phys) = (end_time.max(0), end_phys.max(0));
        Header {
            begin_time: time,
            end_time: time,
            begin_phys: phys,
            end_phys: phys,
            used_slots: 0,
            count: 1,
        }
    }

    pub fn write(&self, b: &mut [u8; HEADER]) {
        b[at::BEGIN_TIME..][..8].copy_from_slice(&self.begin_time.to_be_bytes());
        b[at::END_TIME..][..8].copy_from_slice(&self.end_time.to_be_bytes());
        b[at::BEGIN_PHYS..][..8].copy_from_slice(&self.begin_phys.to_be_bytes());
        b[at::END_PHYS..][..8].copy_from_slice(&self.end_phys.to_be_bytes());
        b[at::USED_SLOTS..][..4].copy_from_slice(&self.used_slots.to_be_bytes());
        b[at::COUNT..][..4].copy_from_slice(&self.count.to_be_bytes());
    }

    pub fn has_entries(&self) -> bool {
        self.count > 1
    }

    /// What is wrong with the header, if anything. A clock that was set back may leave an end time
    /// before the begin time, so that alone is no damage.
    pub fn fault(&self, shape: Shape) -> Option<String> {
        if self.count as u32 > shape.entries {
            return Some(format!(
                "next entry {} of {} places",
                self.count, shape.entries
            ));
        }
        let Header {
            begin_time,
            end_time,
            begin_phys,
            end_phys,
            ..
        } = *self;
        if begin_time < 0 || end_time < 0 || begin_phys < 0 || begin_phys > end_phys {
            return Some(format!(
                "its header has an impossible range: times {begin_time} to {end_time}, log offsets \
                 {begin_phys} to {end_phys}"
            ));
        }
        None
    }

    /// Whether the file may hold entries of that time range. [IndexFile.isTimeMatched]
    pub fn overlaps(&self, begin: i64, end: i64) -> bool {
        let own = self.begin_time..=self.end_time;
        own.contains(&begin)
            || own.contains(&end)
            || (begin < self.begin_time && end > self.end_time)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key_hash: i32,
    pub phys: i64,
    /// Seconds since the file's begin time.
    pub seconds: i32,
    /// Number of the entry before this one in the same slot.
    pub previous: i32,
}

impl Entry {
    pub fn read(b: &[u8]) -> Self {
        Entry {
            key_hash: get_i32(b, 0),
            phys: get_i64(b, 4),
            seconds: get_i32(b, 12),
            previous: get_i32(b, 16),
        }
    }

    /// Store time of the message, a second exact.
    #[inline]
    pub fn time(&self, begin_time: i64) -> i64 {
        begin_time.saturating_add(self.seconds as i64 * 1000)
    }

    /// The next older entry of the chain, of this one's `number` and time, for a query from `begin`
    /// on. Numbers only ever fall along a chain, so one that does not is damage, and a walk ends.
    #[inline]
    pub fn next(&self, number: u32, time: i64, begin: i64) -> Option<u32> {
        let previous = u32::try_from(self.previous).ok()?;
        (0 < previous && previous < number && time >= begin).then_some(previous)
    }
}

/// What an entry stores as its time. `begin_time` is the header's before the entry was put.
#[inline]
pub fn seconds_since(begin_time: i64, store_time: i64) -> i32 {
    if begin_time <= 0 {
        return 0;
    }
    (store_time.saturating_sub(begin_time) / 1000).clamp(0, i32::MAX as i64) as i32
}

/// Hash of `topic#`, which the key hashes of that topic continue.
pub fn topic_seed(topic: &[u8]) -> i32 {
    java::extend(java::hash(topic), b"#")
}

/// The hash under which a key of the seed's topic stands; never negative.
#[inline]
pub fn key_hash(seed: i32, key: &[u8]) -> i32 {
    java::extend(seed, key).checked_abs().unwrap_or(0)
}

/// The keys under which a message is indexed: its unique key, then each word of KEYS, in order and
/// with repetitions. [IndexService.buildIndex]
pub fn message_keys(props: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut unique, mut words): (Option<&[u8]>, &[u8]) = (None, b"");
    for (name, value) in properties::pairs(props) {
        match name {
            b"UNIQ_KEY" => unique = Some(value),
            b"KEYS" => words = value,
            _ => {}
        }
    }
    let words = words.split(|&b| b == b' ').filter(|word| !word.is_empty());
    unique.into_iter().chain(words)
}

/// Whether a name is `yyyyMMddHHmmssSSS`. The time of day is not checked: `name_after` may count
/// beyond a minute's or a day's end.
pub fn is_file_name(name: &str) -> bool {
    let digits = name.len() == 17 && name.bytes().all(|b| b.is_ascii_digit());
    digits && ("01"..="12").contains(&&name[4..6]) && ("01"..="31").contains(&&name[6..8])
}

/// The name for a file that is created at the local time `now` (such a name) when `last` is the
/// highest one taken: files are ordered by name, also when the clock was set back.
pub fn name_after(now: String, last: &str) -> Option<String> {
    if now.as_str() > last {
        return Some(now);
    }
    let next = format!("{:017}", last.parse::<u64>().ok()? + 1);
    is_file_name(&next).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets() {
        let shape = Shape::new(5_000_000, 20_000_000).unwrap();
        assert_eq!(shape.file_size(), 420_000_040);
        assert_eq!(shape.slot_at(1609006270), 16_025_120);
        assert_eq!(shape.slot_at(870421153), 1_684_652);
        assert_eq!(shape.entry_at(1), 20_000_060);
        assert_eq!(Shape::new(0, 10), None);
        assert_eq!(Shape::new(10, 1), None);
        assert_eq!(Shape::new(10, u32::MAX), None);
    }

    #[test]
    fn key_hashes() {
        let seed = topic_seed(b"TopicTest");
        assert_eq!(
            key_hash(seed, b"C0A8010A1F9018B4AAC247B760000000"),
            1609006270
        );
        assert_eq!(key_hash(seed, b"order-42"), 870421153);
        // i32::MIN has no absolute value.
        assert_eq!(key_hash(i32::MIN, b""), 0);
    }

    #[test]
    fn keys_of_a_message() {
        let keys = |props: &'static [u8]| message_keys(props).collect::<Vec<_>>();
        assert_eq!(
            keys(b"KEYS\x01x\x02TAGS\x01t\x02UNIQ_KEY\x01u\x02KEYS\x01 a  b a \x02"),
            [&b"u"[..], b"a", b"b", b"a"]
        );
        assert_eq!(keys(b"TAGS\x01t\x02"), [&b""[..]; 0]);
        assert_eq!(keys(b"KEYS\x01k"), [&b"k"[..]]);
    }

    #[test]
    fn time_differences() {
        assert_eq!(seconds_since(0, 5000), 0);
        assert_eq!(seconds_since(-1, 5000), 0);
        assert_eq!(seconds_since(1000, 3999), 2);
        assert_eq!(seconds_since(5000, 1000), 0);
        assert_eq!(seconds_since(1, i64::MAX), i32::MAX);
    }

    #[test]
    fn header_bytes_and_faults() {
        let shape = Shape::new(4, 10).unwrap();
        let good = Header {
            begin_time: 5,
            end_time: 9,
            begin_phys: 0,
            end_phys: 700,
            used_slots: 2,
            count: 10,
        };
        let mut bytes = [0; HEADER];
        good.write(&mut bytes);
        assert_eq!(Header::read(&bytes), good);
        assert_eq!(good.fault(shape), None);
        assert_eq!(Header::default().fault(shape), None);
        for bad in [
            Header { count: 11, ..good },
            Header {
                begin_phys: 701,
                ..good
            },
            Header {
                begin_phys: -1,
                ..good
            },
            Header {
                end_time: -1,
                ..good
            },
        ] {
            assert!(bad.fault(shape).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn ranges() {
        let h = Header {
            begin_time: 10,
            end_time: 20,
            ..Header::default()
        };
        for (begin, end, hit) in [
            (0, 9, false),
            (0, 10, true),
            (0, 99, true),
            (12, 13, true),
            (20, 99, true),
            (21, 99, false),
        ] {
            assert_eq!(h.overlaps(begin, end), hit, "{begin}..{end}");
        }
    }

    #[test]
    fn chains_end() {
        let e = |previous| Entry {
            key_hash: 1,
            phys: 0,
            seconds: 0,
            previous,
        };
        assert_eq!(e(4).next(5, 100, 100), Some(4));
        for stop in [0, -1, 5, 6, i32::MIN, i32::MAX] {
            assert_eq!(e(stop).next(5, 100, 100), None, "{stop}");
        }
        assert_eq!(e(4).next(5, 99, 100), None);
    }

    #[test]
    fn file_names() {
        assert!(is_file_name("20261120201450885"));
        for bad in [
            "2026112020145088",
            "20261320201450885",
            "20261100201450885",
            "2026112020145088x",
            "00000000000000000000",
        ] {
            assert!(!is_file_name(bad), "{bad}");
        }
        let after = |now: &str, last| name_after(now.to_owned(), last);
        let (early, late) = ("20261120201450885", "20261120201459999");
        assert_eq!(after(late, early).as_deref(), Some(late));
        assert_eq!(after(early, "").as_deref(), Some(early));
        assert_eq!(
            after(early, late).as_deref(),
            Some("20261120201460000"),
            "a name is a number to Java, not a date"
        );
        assert_eq!(after(early, early).as_deref(), Some("20261120201450886"));
        assert_eq!(after(early, "99991231999999999"), None);
    }
}
