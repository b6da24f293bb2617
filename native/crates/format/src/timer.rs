//! Timer messages: their properties, the wheel's slots, the units of the timer log, and the check point.
//!
//! A message with a time of its own waits in `TIMER_TOPIC`. The wheel (file `timerwheel`) has a slot for
//! each `timerPrecisionMs`; what waits for a slot is a chain of units in the timer log (folder
//! `timerlog`), from the newest back. [TimerWheel, TimerLog, TimerCheckpoint]

use super::{get_i32, get_i64, properties};

pub const TIMER_TOPIC: &[u8] = b"rmq_sys_wheel_timer";

/// When a message is due, ms. The delivery comes with the end of the unit of time that begins there.
pub const OUT_MS: &[u8] = b"TIMER_OUT_MS";
/// When it was put into the wheel, ms.
pub const ENQUEUE_MS: &[u8] = b"TIMER_ENQUEUE_MS";
/// When it was taken out, ms.
pub const DEQUEUE_MS: &[u8] = b"TIMER_DEQUEUE_MS";
/// How often it was put into the wheel again as its time was too far away.
pub const ROLL_TIMES: &[u8] = b"TIMER_ROLL_TIMES";
/// What a delete takes back: a unique key, with or without topic (`is_key_of`).
pub const DEL_UNIQKEY: &[u8] = b"TIMER_DEL_UNIQKEY";
/// What a sender may ask for.
pub const DELAY_SEC: &[u8] = b"TIMER_DELAY_SEC";
pub const DELAY_MS: &[u8] = b"TIMER_DELAY_MS";
pub const DELIVER_MS: &[u8] = b"TIMER_DELIVER_MS";
pub const REAL_TOPIC: &[u8] = b"REAL_TOPIC";
pub const REAL_QID: &[u8] = b"REAL_QID";

/// TIMER_OUT_MS of a message that is asked for at `asked_ms`: the unit of time before, also where it is
/// the beginning of one. A delivery at the end of that unit is never before the asked time.
/// [HookUtils.transformTimerMessage]
pub fn out_time(asked_ms: i64, precision_ms: i64) -> i64 {
    match asked_ms % precision_ms {
        0 => asked_ms - precision_ms,
        _ => asked_ms / precision_ms * precision_ms,
    }
}

/// The properties of a timer message: those of its sender, and when and where it is to be delivered.
pub fn push_place(added: &mut Vec<u8>, out_ms: i64, real_topic: &[u8], real_queue_id: u32) {
    properties::push_number(added, OUT_MS, out_ms);
    properties::push(added, REAL_TOPIC, real_topic);
    properties::push_number(added, REAL_QID, real_queue_id as i64);
}

/// Whether a delete that names `wanted` means the message with this topic and unique key: RocketMQ 5.5
/// names the key alone, others `topic+key`. [TimerMessageStore.buildDeleteKey]
pub fn is_key_of(wanted: &[u8], real_topic: &[u8], unique_key: &[u8]) -> bool {
    let with_topic = wanted
        .strip_prefix(real_topic)
        .and_then(|rest| rest.strip_prefix(b"+"));
    wanted == unique_key || with_topic == Some(unique_key)
}

/// Units of time that a wheel has slots for: twice seven days of seconds.
pub const SLOTS: usize = 2 * 7 * 86_400;
pub const WHEEL_SIZE: usize = SLOTS * Slot::SIZE;
/// A position of the timer log that is none.
pub const NOWHERE: i64 = -1;

/// A slot of the wheel: what is due in one unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its time, in units of `timerPrecisionMs`.
    pub time: i64,
    /// Positions in the timer log: the first unit of the chain, and the last.
    pub first: i64,
    pub last: i64,
    /// How many units the chain has; a delete counts -1.
    pub count: i32,
    pub magic: i32,
}

impl Slot {
    pub const SIZE: usize = 32;
    pub const BLANK: [u8; Self::SIZE] = [0; Self::SIZE];

    pub fn read(b: &[u8; Self::SIZE]) -> Slot {
        Slot {
            time: get_i64(b, 0),
            first: get_i64(b, 8),
            last: get_i64(b, 16),
            count: get_i32(b, 24),
            magic: get_i32(b, 28),
        }
    }

    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut b = Self::BLANK;
        b[0..8].copy_from_slice(&self.time.to_be_bytes());
        b[8..16].copy_from_slice(&self.first.to_be_bytes());
        b[16..24].copy_from_slice(&self.last.to_be_bytes());
        b[24..28].copy_from_slice(&self.count.to_be_bytes());
        b[28..32].copy_from_slice(&self.magic.to_be_bytes());
        b
    }
}

/// The place of a time, in units of `timerPrecisionMs`, in the wheel.
pub fn slot_index(time: i64) -> usize {
    time.rem_euclid(SLOTS as i64) as usize
}

/// Bits of `Unit::magic`.
pub const MAGIC_DEFAULT: i32 = 1;
/// It is put into the wheel again when its time comes.
pub const MAGIC_ROLL: i32 = 2;
/// It takes a message of its slot back.
pub const MAGIC_DELETE: i32 = 4;
/// Of the unit that fills a file.
pub const MAGIC_BLANK: i32 = 0xcbd4_3194_u32 as i32;

/// One message in the timer log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The unit before it in its slot, or `NOWHERE`.
    pub previous: i64,
    pub magic: i32,
    /// When it was written, whole units of `timerPrecisionMs`, ms.
    pub base: i64,
    /// Its time, ms after `base`.
    pub delay: i32,
    /// The message in the commit log.
    pub phys: i64,
    pub size: i32,
    /// Java's hash of the topic that it goes to.
    pub topic_hash: i32,
}

/// What a place of the timer log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogEntry {
    Unit(Unit),
    /// The rest of the file is unused.
    EndOfFile,
    /// Neither: the log ends before it.
    Nothing,
}

impl Unit {
    pub const SIZE: usize = 52;
    /// Length of what ends a file.
    pub const BLANK_SIZE: usize = 16;

    /// When its slot is due, ms.
    pub fn time_ms(&self) -> i64 {
        self.base.saturating_add(self.delay as i64)
    }

    pub fn is_roll(&self) -> bool {
        self.magic & MAGIC_ROLL != 0
    }

    /// A delete that is at its place: one that rolls is moved like a message.
    pub fn deletes(&self) -> bool {
        self.magic & (MAGIC_DELETE | MAGIC_ROLL) == MAGIC_DELETE
    }

    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut b = [0; Self::SIZE];
        b[0..4].copy_from_slice(&(Self::SIZE as i32).to_be_bytes());
        b[4..12].copy_from_slice(&self.previous.to_be_bytes());
        b[12..16].copy_from_slice(&self.magic.to_be_bytes());
        b[16..24].copy_from_slice(&self.base.to_be_bytes());
        b[24..28].copy_from_slice(&self.delay.to_be_bytes());
        b[28..36].copy_from_slice(&self.phys.to_be_bytes());
        b[36..40].copy_from_slice(&self.size.to_be_bytes());
        b[40..44].copy_from_slice(&self.topic_hash.to_be_bytes());
        b
    }

    /// What `b`, the rest of a file, begins with.
    pub fn read(b: &[u8]) -> LogEntry {
        if b.len() < Self::BLANK_SIZE {
            return LogEntry::Nothing;
        }
        let (size, magic) = (get_i32(b, 0), get_i32(b, 12));
        if magic == MAGIC_BLANK {
            return LogEntry::EndOfFile;
        }
        let is_magic = magic & !0xf == 0 && magic & MAGIC_DEFAULT != 0;
        if size != Self::SIZE as i32 || !is_magic || b.len() < Self::SIZE {
            return LogEntry::Nothing;
        }
        let unit = Unit {
            previous: get_i64(b, 4),
            magic,
            base: get_i64(b, 16),
            delay: get_i32(b, 24),
            phys: get_i64(b, 28),
            size: get_i32(b, 36),
            topic_hash: get_i32(b, 40),
        };
        // A write that was cut leaves zeros.
        match unit.size > 0 && unit.phys >= 0 {
            true => LogEntry::Unit(unit),
            false => LogEntry::Nothing,
        }
    }

    /// Whether a file with `rest` unused bytes takes a unit more: else it is ended with `end_of_file`.
    pub fn fits(rest: usize) -> bool {
        rest >= Self::SIZE + Self::BLANK_SIZE
    }

    /// What ends a file that has `rest` unused bytes.
    pub fn end_of_file(rest: usize) -> [u8; Self::BLANK_SIZE] {
        let mut b = [0; Self::BLANK_SIZE];
        b[0..4].copy_from_slice(&(rest as i32).to_be_bytes());
        b[12..16].copy_from_slice(&MAGIC_BLANK.to_be_bytes());
        b
    }
}

/// File config/timercheck: how far timers are enqueued and delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerCheck {
    /// Slots before this time, ms, are delivered.
    pub read_ms: i64,
    /// The timer log is on disk up to here.
    pub log_flushed: i64,
    /// Queue offset of the first timer message that is not in the wheel.
    pub queue_offset: i64,
    /// The same of the master.
    pub master_queue_offset: i64,
    /// Its DataVersion.
    pub state_version: i64,
    pub timestamp: i64,
    pub counter: i64,
}

impl TimerCheck {
    /// Length of the file, zeros behind the fields.
    pub const FILE_SIZE: usize = 4096;
    /// Length of the fields, which is what TIMER_CHECK_POINT answers with.
    pub const SIZE: usize = 56;

    /// None when it is shorter than its first four fields; older brokers have no more.
    pub fn read(b: &[u8]) -> Option<Self> {
        let field = |i: usize| match b.len() >= 8 * (i + 1) {
            true => get_i64(b, 8 * i),
            false => 0,
        };
        (b.len() >= 32).then(|| TimerCheck {
            read_ms: field(0),
            log_flushed: field(1),
            queue_offset: field(2),
            master_queue_offset: field(3),
            state_version: field(4),
            timestamp: field(5),
            counter: field(6),
        })
    }

    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut b = [0; Self::SIZE];
        let fields = [
            self.read_ms,
            self.log_flushed,
            self.queue_offset,
            self.master_queue_offset,
            self.state_version,
            self.timestamp,
            self.counter,
        ];
        for (i, field) in fields.iter().enumerate() {
            b[i * 8..i * 8 + 8].copy_from_slice(&field.to_be_bytes());
        }
        b
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_floored_and_whole_units_lose_one() {
        assert_eq!(out_time(1_700_000_000_001, 1000), 1_700_000_000_000);
        assert_eq!(out_time(1_700_000_000_999, 1000), 1_700_000_000_000);
        assert_eq!(out_time(1_700_000_000_000, 1000), 1_699_999_999_000);
        assert_eq!(out_time(1_700_000_000_050, 100), 1_700_000_000_000);
        assert_eq!(out_time(1_700_000_000_100, 100), 1_700_000_000_000);
    }

    proptest! {
        #[test]
        fn a_delivery_at_the_end_of_its_unit_is_never_early(
            asked in 0i64..4_000_000_000_000, precision in 1i64..100_000
        ) {
            let out = out_time(asked, precision);
            prop_assert_eq!(out.rem_euclid(precision), 0);
            prop_assert!(out < asked && asked <= out + precision);
        }

        #[test]
        fn what_is_encoded_is_read(
            numbers: (i64, i64, i64), small: (i32, i32, i32), magic in 0i32..8, time: i64
        ) {
            let unit = Unit {
                previous: numbers.0, magic: 2 * magic + 1, base: numbers.1, delay: small.0,
                phys: numbers.2 & i64::MAX, size: small.1 & i32::MAX | 1, topic_hash: small.2,
            };
            prop_assert_eq!(Unit::read(&unit.encode()), LogEntry::Unit(unit));
            let slot = Slot {
                time, first: numbers.0, last: numbers.1, count: small.0, magic: small.1,
            };
            prop_assert_eq!(Slot::read(&slot.encode()), slot);
            let check = TimerCheck {
                read_ms: time, log_flushed: numbers.0, queue_offset: numbers.1, counter: 7,
                ..TimerCheck::default()
            };
            prop_assert_eq!(TimerCheck::read(&check.encode()), Some(check));
            prop_assert!(slot_index(time) < SLOTS);
        }
    }

    #[test]
    fn bytes_are_rocketmqs() {
        let unit = Unit {
            previous: -1,
            magic: MAGIC_DEFAULT | MAGIC_ROLL,
            base: 0x18b_cfe5_6800,
            delay: 5000,
            phys: 0x400,
            size: 180,
            topic_hash: 0x1234_5678,
        };
        let hex = "00000034ffffffffffffffff000000030000018bcfe568000000138800000000000004\
                   00000000b4123456780000000000000000";
        let bytes: String = unit.encode().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(bytes, hex);
        assert_eq!(unit.time_ms(), 0x18b_cfe5_6800 + 5000);
        assert!(unit.is_roll() && !unit.deletes());
        let end: String = Unit::end_of_file(16)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(end, "000000100000000000000000cbd43194");
        assert_eq!(Unit::read(&Unit::end_of_file(16)), LogEntry::EndOfFile);
        let slot = Slot {
            time: 1_700_000_000,
            first: 52,
            last: 104,
            count: 2,
            magic: 0,
        };
        let bytes: String = slot.encode().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(
            bytes,
            "000000006553f1000000000000000034000000000000006800000002\
             00000000"
        );
        assert_eq!(WHEEL_SIZE, 38_707_200);
    }

    #[test]
    fn what_is_no_unit() {
        let mut unit = [0; Unit::SIZE];
        assert_eq!(Unit::read(&unit), LogEntry::Nothing);
        (unit[3], unit[15], unit[39]) = (52, 1, 9);
        assert!(matches!(Unit::read(&unit), LogEntry::Unit(_)));
        assert_eq!(Unit::read(&unit[..51]), LogEntry::Nothing);
        assert_eq!(Unit::read(&unit[..15]), LogEntry::Nothing);
        for (at, wrong) in [(15, 16), (15, 2), (3, 53), (39, 0), (28, 0x80)] {
            let mut other = unit;
            other[at] = wrong;
            assert_eq!(Unit::read(&other), LogEntry::Nothing, "{at}");
        }
    }

    /// 100 MiB hold as many units as Apache's brokers put there.
    #[test]
    fn where_a_file_ends() {
        let size = 100 << 20;
        let last = (0..)
            .map(|n| n * Unit::SIZE)
            .take_while(|at| Unit::fits(size - at))
            .last();
        assert_eq!(last, Some(104_857_532));
    }

    #[test]
    fn a_shorter_check_point_has_no_version() {
        let check = TimerCheck {
            read_ms: 1,
            log_flushed: 2,
            queue_offset: 3,
            master_queue_offset: 4,
            state_version: 5,
            timestamp: 6,
            counter: 7,
        };
        let bytes = check.encode();
        let short = TimerCheck::read(&bytes[..32]).unwrap();
        assert_eq!((short.master_queue_offset, short.counter), (4, 0));
        assert_eq!(TimerCheck::read(&bytes[..31]), None);
    }

    #[test]
    fn keys_of_deletes() {
        assert!(is_key_of(b"0A", b"T", b"0A") && is_key_of(b"T+0A", b"T", b"0A"));
        assert!(!is_key_of(b"U+0A", b"T", b"0A") && !is_key_of(b"T0A", b"T", b"0A"));
        assert!(!is_key_of(b"T+", b"T", b"0A"));
    }

    #[test]
    fn a_place_is_read_back() {
        let mut props = Vec::new();
        push_place(&mut props, 1000, b"T", 3);
        assert_eq!(properties::find(&props, OUT_MS), Some(&b"1000"[..]));
        assert_eq!(properties::find(&props, REAL_TOPIC), Some(&b"T"[..]));
        assert_eq!(properties::find(&props, REAL_QID), Some(&b"3"[..]));
    }
}
