//! Delay levels: in SCHEDULE_TOPIC_XXXX queue `level - 1` holds the messages of a level, and a queue
//! entry's tag code is the time of delivery. [ScheduleMessageService]

use super::{parse_i64, properties};

pub const SCHEDULE_TOPIC: &[u8] = b"SCHEDULE_TOPIC_XXXX";

/// Most levels that `messageDelayLevel` may name; each is a queue.
const MAX_LEVELS: usize = 1024;
/// Longest delay, ms: a hundred years, so that no time of delivery overflows.
const MAX_DELAY: i64 = 100 * 365 * 86_400_000;
/// RocketMQ's default `messageDelayLevel`, levels 1 to 18 in ms.
const DEFAULT: [i64; 18] = [
    1_000, 5_000, 10_000, 30_000, 60_000, 120_000, 180_000, 240_000, 300_000, 360_000, 420_000,
    480_000, 540_000, 600_000, 1_200_000, 1_800_000, 3_600_000, 7_200_000,
];

/// The delays of the levels, in ms; there is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels(Box<[i64]>);

impl Default for Levels {
    fn default() -> Self {
        Levels(DEFAULT.into())
    }
}

impl Levels {
    /// Reads `messageDelayLevel`: numbers with a unit (s, m, h or d), separated by spaces. The error
    /// is a text for whoever wrote it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let levels: Result<Box<[i64]>, String> = text.split_ascii_whitespace().map(delay).collect();
        let levels = levels?;
        match levels.len() {
            0 => Err("names no level".into()),
            n if n > MAX_LEVELS => Err(format!("names {n} levels, {MAX_LEVELS} are possible")),
            _ => Ok(Levels(levels)),
        }
    }

    /// How many levels there are: the highest one.
    pub fn highest(&self) -> usize {
        self.0.len()
    }

    /// The delay of a level, ms; of the highest one for all above it.
    pub fn delay(&self, level: usize) -> i64 {
        self.0[level.clamp(1, self.0.len()) - 1]
    }

    /// The level that a DELAY property asks for, None if it asks for no delay.
    pub fn level(&self, property: &[u8]) -> Option<usize> {
        let level = parse_i64(property.trim_ascii()).filter(|&level| level > 0)?;
        Some(usize::try_from(level).map_or(self.highest(), |level| level.min(self.highest())))
    }

    /// Time of delivery of a record that was stored with this DELAY property.
    pub fn deliver_time(&self, property: &[u8], store_timestamp: i64) -> Option<i64> {
        let level = self.level(property)?;
        Some(store_timestamp.saturating_add(self.delay(level)))
    }
}

/// Adds what a parked message says of itself: its level, and the topic and queue that it belongs to.
pub fn push_place(props: &mut Vec<u8>, level: usize, topic: &[u8], queue_id: u32) {
    properties::push_number(props, b"DELAY", level as i64);
    properties::push(props, b"REAL_TOPIC", topic);
    properties::push_number(props, b"REAL_QID", queue_id as i64);
}

/// Whether this is one of the properties that `push_place` adds.
pub fn is_place(name: &[u8]) -> bool {
    matches!(name, b"DELAY" | b"REAL_TOPIC" | b"REAL_QID")
}

/// Whether this is a property of timer messages, which a delay level displaces.
pub fn is_timer(name: &[u8]) -> bool {
    matches!(
        name,
        b"TIMER_DELAY_SEC" | b"TIMER_DELAY_MS" | b"TIMER_DELIVER_MS" | b"TIMER_DEL_UNIQKEY"
    )
}

fn delay(word: &str) -> Result<i64, String> {
    let wrong = || {
        format!(
            "{word:?} is no delay: delays are separated by blanks, each a number from 1 on and one of s, \
             m, h, d (such as 30s), at most 36500d"
        )
    };
    let (number, unit) = word.split_at(word.char_indices().last().map_or(0, |(at, _)| at));
    let unit = match unit {
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    let number = parse_i64(number.as_bytes()).ok_or_else(wrong)?;
    let delay = number.checked_mul(unit).filter(|ms| *ms > 0);
    delay.filter(|ms| *ms <= MAX_DELAY).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_delivery() {
        let levels = Levels::default();
        let time = |level: &[u8], stored| levels.deliver_time(level, stored);
        assert_eq!(time(b"3", 1_700_000_000_005), Some(0x18b_cfe5_8f15));
        assert_eq!(time(b"99", 0), Some(7_200_000));
        assert_eq!(time(b"9223372036854775807", 0), Some(7_200_000));
        assert_eq!(time(b" 1 ", i64::MAX), Some(i64::MAX));
        for none in [&b"0"[..], b"-1", b"x", b"", b"1.5", b"9223372036854775808"] {
            assert_eq!(time(none, 0), None, "{none:?}");
        }
    }

    #[test]
    fn rocketmqs_default_as_text() {
        let text = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h";
        assert_eq!(Levels::parse(text), Ok(Levels::default()));
        let other = Levels::parse(" 2d  1s").unwrap();
        assert_eq!((other.highest(), other.delay(1)), (2, 172_800_000));
        assert_eq!((other.delay(0), other.delay(7)), (172_800_000, 1000));
    }

    #[test]
    fn texts_that_are_refused() {
        let long = "1s ".repeat(MAX_LEVELS + 1);
        for bad in [
            "",
            "  ",
            "1",
            "s",
            "1ms",
            "-1s",
            "0s",
            "1x",
            "1s,5s",
            "1S",
            "36501d",
            "1s \u{e9}",
            &long,
            "9223372036854775807d",
        ] {
            assert!(Levels::parse(bad).is_err(), "{bad:?}");
        }
    }
}
