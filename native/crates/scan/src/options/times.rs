//! Times in options: milliseconds since 1970 or ISO 8601, alone or by topic, broker and queue; and
//! durations.
//!
//! A number that can only be meant as seconds, or as micro- or nanoseconds, is refused: taken as
//! milliseconds it would select everything or nothing, without a word. Errors continue "option NAME".

use super::iso::{self, Local};
use super::json_text;
use crate::queue_times;
use crate::repr;
use serde_json::{Map, Value};

/// In 1973. Numbers below are seconds, but for 0.
const EARLIEST_MS: i128 = 100_000_000_000;
/// In 5138. Numbers from here on are micro- or nanoseconds.
const LATEST_MS: i128 = 100_000_000_000_000;
const MAX_DURATION_MS: u64 = 1_000_000_000_000;
const MAX_QUEUE: u64 = i32::MAX as u64;
const MAX_SHOWN: usize = 80;
const FORM: &str = "milliseconds since 1970, or a time as 2026-01-31T12:00:00Z, \
     2026-01-31T12:00:00+01:00 or 2026-01-31 12:00 Europe/Berlin (without a zone: UTC)";
const TIMES_FORM: &str = "{\"topic\": {\"broker\": {\"queue id\": time}}}, or {\"topic\": time}";

type Told<T> = Result<T, String>;

/// A time in ms. Without a zone it is UTC, whatever the session's zone: Spark does not tell a source
/// which that is.
pub fn moment(value: &str) -> Told<i64> {
    let text = value.trim();
    match whole_number(text) {
        Some(number) => milliseconds(number),
        None => iso_moment(text),
    }
}

/// A whole number of at most 19 digits.
pub(super) fn whole_number(text: &str) -> Option<i128> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let fits = (1..=19).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    fits.then(|| text.parse().ok()).flatten()
}

fn milliseconds(number: i128) -> Told<i64> {
    if number < 0 {
        return Err(format!("must be {FORM}, not {number}"));
    }
    if 0 < number && number < EARLIEST_MS {
        let mut meant = format!("{number} ms is {}", shown(number));
        if number >= EARLIEST_MS / 1000 {
            let ms = number * 1000;
            meant += &format!("; seconds would be {}: give {ms}", shown(ms));
        }
        return Err(format!("must be {FORM}, not {number}: {meant}"));
    }
    if number >= LATEST_MS {
        for (name, unit) in [("microseconds", 1000), ("nanoseconds", 1_000_000)] {
            let ms = number / unit;
            if ms < LATEST_MS {
                return Err(format!(
                    "must be {FORM}, not {number}: as {name} that would be {}: give {ms}",
                    shown(ms)
                ));
            }
        }
        return Err(format!("must be {FORM}, not {number}, which is no time"));
    }
    Ok(number as i64)
}

fn shown(ms: i128) -> String {
    queue_times::shown(i64::try_from(ms).unwrap_or(i64::MAX))
}

fn iso_moment(text: &str) -> Told<i64> {
    let no_time = || format!("must be {FORM}, not {}", repr::text(text));
    let (front, zone) = match iso::split_zone(text) {
        Some((front, zone)) => (front, Some(zone)),
        None => (text, None),
    };
    let local = iso::parse(front).ok_or_else(no_time)?;
    let microseconds = match zone {
        Some(name) => in_zone(&local, name, text)?,
        None => local.microseconds(local.offset.unwrap_or(0)),
    };
    if microseconds < 0 {
        return Err(format!("{}, which is before 1970", no_time()));
    }
    Ok(microseconds.div_euclid(1000) + i64::from(microseconds % 1000 != 0))
}

/// A time of a named zone. With an offset, as Java writes a ZonedDateTime, that has to be the zone's
/// at the time.
fn in_zone(local: &Local, name: &str, text: &str) -> Told<i64> {
    let zone = iso::Zone::named(name).ok_or_else(|| {
        format!(
            "there is no time zone {}: {}",
            repr::text(name),
            repr::text(text)
        )
    })?;
    if let Some(offset) = local.offset {
        let microseconds = local.microseconds(offset);
        if zone.offset_at(microseconds) != Some(offset) {
            return Err(format!(
                "has two zones that do not agree: {}",
                repr::text(text)
            ));
        }
        return Ok(microseconds);
    }
    match zone.offset_of(local) {
        Some(offset) => Ok(local.microseconds(offset)),
        None => Err(format!(
            "does not exist in {name}, where clocks were put forward: {}",
            repr::text(text)
        )),
    }
}

/// Times by topic, broker and queue; one for all queues of a topic, or of it on a broker. All are ms.
pub fn by_queue(value: &str) -> Told<Value> {
    let mut out = Map::new();
    for (topic, brokers) in named(json_text::object(value)?)? {
        let times = of_topic(&topic, brokers)?;
        out.insert(topic, times);
    }
    Ok(Value::Object(out))
}

fn of_topic(topic: &str, brokers: Value) -> Told<Value> {
    let topic = repr::text(topic);
    let Value::Object(brokers) = brokers else {
        return leaf(&brokers, &topic);
    };
    let mut out = Map::new();
    for (broker, queues) in named(brokers)? {
        let place = format!("{topic}, {}", repr::text(&broker));
        let Value::Object(queues) = queues else {
            let time = leaf(&queues, &place)?;
            out.insert(broker, time);
            continue;
        };
        let mut times = Map::new();
        for (queue, time) in named(queues)? {
            let is_number = queue.bytes().all(|b| b.is_ascii_digit());
            let number = queue
                .parse::<u64>()
                .ok()
                .filter(|n| is_number && *n <= MAX_QUEUE);
            let Some(number) = number else {
                return Err(format!(
                    "has {} for {place}, which is no queue id: {TIMES_FORM}",
                    repr::text(&queue)
                ));
            };
            let time = leaf(&time, &format!("{place}, queue {queue}"))?;
            times.insert(number.to_string(), time);
        }
        out.insert(broker, Value::Object(times));
    }
    Ok(Value::Object(out))
}

fn named(found: Map<String, Value>) -> Told<Map<String, Value>> {
    if found.is_empty() || found.keys().any(String::is_empty) {
        return Err(format!(
            "has an empty object or name in it; expected {TIMES_FORM}"
        ));
    }
    Ok(found)
}

fn leaf(value: &Value, place: &str) -> Told<Value> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if !number.is_f64() => number.to_string(),
        other => {
            let shown = repr::repr_json(other);
            let shown: String = shown.chars().take(MAX_SHOWN).collect();
            return Err(format!(
                "has {} for {place}; expected {TIMES_FORM}",
                repr::text(&shown)
            ));
        }
    };
    match moment(&text) {
        Ok(ms) => Ok(ms.into()),
        Err(told) => Err(format!("for {place} {told}")),
    }
}

/// Milliseconds: a number with us, ms, s, m or min, h or d behind it, without one ms, as in Kafka's
/// source.
pub fn duration(value: &str) -> Told<i64> {
    let text = value.trim().to_lowercase();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let unit = match text[digits..].trim_start() {
        "us" => Some(0),
        "" | "ms" => Some(1),
        "s" => Some(1000),
        "m" | "min" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let (Some(unit), 1..=15) = (unit, digits) else {
        return Err(format!(
            "must be a duration such as 30s, 15m or 1h, not {}",
            repr::text(value)
        ));
    };
    let number: u64 = text[..digits].parse().unwrap_or(u64::MAX);
    let length = match unit {
        0 => number.div_ceil(1000),
        _ => number.saturating_mul(unit),
    };
    if !(1..=MAX_DURATION_MS).contains(&length) {
        return Err(format!(
            "must be at least 1 ms and at most 30 years, not {}",
            repr::text(value)
        ));
    }
    Ok(length as i64)
}
