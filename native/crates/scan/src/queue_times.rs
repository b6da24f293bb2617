//! Times by queue, as a read is asked for them.

use super::error::{Kind, Part, SegmentError};
use super::selection::QueueTimes;
use std::fmt;

/// In 5138: numbers from here on are no ms.
const MAX_TIME: i64 = 100_000_000_000_000;

/// One time of a QueueTimes, and the queues that it is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeEntry {
    pub topic: String,
    /// None: every broker.
    pub broker: Option<String>,
    /// None: every queue.
    pub queue: Option<i32>,
    pub time: i64,
}

impl TimeEntry {
    pub fn covers(&self, topic: &str, broker: &str, queue: i32) -> bool {
        self.topic == topic
            && self.broker.as_deref().is_none_or(|own| own == broker)
            && self.queue.is_none_or(|own| own == queue)
    }
}

impl fmt::Display for TimeEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topic {}", self.topic)?;
        if let Some(broker) = &self.broker {
            write!(f, ", broker {broker}")?;
        }
        if let Some(queue) = self.queue {
            write!(f, ", queue {queue}")?;
        }
        Ok(())
    }
}

/// All times; no two of them cover the same queue. What has another form than topic -> broker ->
/// queue id -> ms, with one time in the place of what it is for, says nothing.
pub fn entries(times: &QueueTimes) -> Vec<TimeEntry> {
    let mut out = Vec::new();
    for (topic, brokers) in times.as_object().into_iter().flatten() {
        let mut add = |broker: Option<&str>, queue: Option<i32>, time: Option<i64>| {
            out.extend(time.map(|time| TimeEntry {
                topic: topic.clone(),
                broker: broker.map(str::to_owned),
                queue,
                time,
            }));
        };
        add(None, None, brokers.as_i64());
        for (broker, queues) in brokers.as_object().into_iter().flatten() {
            add(Some(broker), None, queues.as_i64());
            for (queue, time) in queues.as_object().into_iter().flatten() {
                if let Ok(queue) = queue.parse() {
                    add(Some(broker), Some(queue), time.as_i64());
                }
            }
        }
    }
    out
}

/// A time as ISO 8601 in UTC, with milliseconds where there are any; as a number where it is none
/// that a clock shows.
pub fn shown(ms: i64) -> String {
    if !(0..MAX_TIME).contains(&ms) {
        return ms.to_string();
    }
    let (days, of_day) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = civil(days);
    let (hours, minutes) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (seconds, rest) = (of_day / 1000 % 60, of_day % 1000);
    let fraction = match rest {
        0 => String::new(),
        rest => format!(".{rest:03}"),
    };
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}{fraction}Z")
}

/// Year, month and day of a day since 1970, not before it.
fn civil(days: i64) -> (i64, i64, i64) {
    // Years that begin in March end with the day that not all of them have.
    let from_march = days + 719_468; // since March 1st of the year 0
    let era = from_march / 146_097; // of 400 years
    let of_era = from_march % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// The error for a starting time at or behind which there is no message.
pub fn later_than_all(entry: &TimeEntry) -> SegmentError {
    let what = format!(
        ": {} is later than every message of {entry}",
        shown(entry.time)
    );
    SegmentError::new(
        Kind::OffsetOutOfRange,
        [Part::Name("starting_times"), what.into()],
    )
    .hint([
        Part::Value("timestamp_strategy", "latest"),
        " starts at the end in this case".into(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_of_topics_brokers_and_queues() {
        let times = json!({"A": 5, "B": {"b": 6, "c": {"0": 7, "3": 8}}});
        let found = entries(&times);
        let shown: Vec<String> = found.iter().map(|e| format!("{e}: {}", e.time)).collect();
        assert_eq!(
            shown,
            [
                "topic A: 5",
                "topic B, broker b: 6",
                "topic B, broker c, queue 0: 7",
                "topic B, broker c, queue 3: 8"
            ]
        );
        assert!(found[0].covers("A", "x", 9) && !found[0].covers("B", "x", 9));
        assert!(found[1].covers("B", "b", 9) && !found[1].covers("B", "c", 9));
        assert!(found[2].covers("B", "c", 0) && !found[2].covers("B", "c", 3));
        let mut sorted = found.clone();
        sorted.reverse();
        sorted.sort();
        assert_eq!(sorted, found);
    }

    #[test]
    fn times_as_clocks_show_them() {
        assert_eq!(shown(0), "1970-01-01T00:00:00Z");
        assert_eq!(shown(951_827_696_789), "2000-02-29T12:34:56.789Z");
        assert_eq!(shown(1_735_689_600_007), "2025-01-01T00:00:00.007Z");
        assert_eq!(shown(4_107_542_399_999), "2100-02-28T23:59:59.999Z");
        assert_eq!(shown(4_107_542_400_000), "2100-03-01T00:00:00Z");
        assert_eq!(shown(MAX_TIME), "100000000000000");
        assert_eq!(shown(-1), "-1");
    }
}
