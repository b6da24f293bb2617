//! Times as ISO 8601 writes them, with an offset or the name of a zone. What is taken is what Python's
//! `datetime.fromisoformat` takes, but for weeks: hardly anybody means those.

use fancy_regex::Regex;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use std::sync::LazyLock;

const DAY_SECONDS: i64 = 86_400;

/// A time of a clock, and how far that clock is ahead of UTC, if the text says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    when: DateTime,
    /// Of its second.
    microseconds: i64,
    /// In microseconds.
    pub offset: Option<i64>,
}

impl Local {
    /// Microseconds since 1970, by a clock that is so many microseconds ahead of UTC.
    pub fn microseconds(&self, offset: i64) -> i64 {
        let seconds = self
            .when
            .duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0));
        seconds.as_secs() * 1_000_000 + self.microseconds - offset
    }
}

pub struct Zone(TimeZone);

impl Zone {
    /// By its name in the time zone database of the system, or else of the engine.
    pub fn named(name: &str) -> Option<Zone> {
        TimeZone::get(name).ok().map(Zone)
    }

    /// How far it is ahead of UTC at a time, both in microseconds.
    pub fn offset_at(&self, microseconds: i64) -> Option<i64> {
        let when = Timestamp::from_microsecond(microseconds).ok()?;
        Some(i64::from(self.0.to_offset(when).seconds()) * 1_000_000)
    }

    /// The same at a time of its clocks: the earlier one where that time is there twice, None where
    /// it is not there.
    pub fn offset_of(&self, local: &Local) -> Option<i64> {
        let offset = match self.0.to_ambiguous_timestamp(local.when).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            AmbiguousOffset::Fold { before, .. } => before,
            AmbiguousOffset::Gap { .. } => return None,
        };
        Some(i64::from(offset.seconds()) * 1_000_000)
    }
}

/// A time and the name of a zone behind it, as `2026-01-31 12:00 Europe/Berlin` or in brackets.
pub fn split_zone(text: &str) -> Option<(&str, &str)> {
    static WITH_ZONE: LazyLock<Regex> = LazyLock::new(|| {
        let zone = "[A-Za-z_]+(?:/[A-Za-z0-9_+-]+)+|UTC|GMT";
        Regex::new(&format!(r"\A(.*[0-9]Z?)\s*\[?({zone})\]?\z")).expect("a regular expression")
    });
    let found = WITH_ZONE.captures(text).ok().flatten()?;
    Some((found.get(1)?.as_str(), found.get(2)?.as_str()))
}

/// `YYYY-MM-DD` or `YYYYMMDD`; then, behind any one character, `HH`, `HH:MM` or `HH:MM:SS`, also
/// without colons, with a fraction; then `Z` or an offset.
pub fn parse(text: &str) -> Option<Local> {
    let extended = text.as_bytes().get(4) == Some(&b'-');
    let end = if extended { 10 } else { 8 };
    let date = date(text.get(..end)?, extended)?;
    let mut rest = text[end..].chars();
    let (time, microseconds, offset) = match rest.next() {
        None => (Time::midnight(), 0, None),
        Some(_) => time(rest.as_str())?,
    };
    Some(Local {
        when: DateTime::from_parts(date, time),
        microseconds,
        offset,
    })
}

fn date(text: &str, extended: bool) -> Option<Date> {
    let (month, day) = match extended {
        true if text.as_bytes()[7] == b'-' => (text.get(5..7)?, text.get(8..10)?),
        true => return None,
        false => (text.get(4..6)?, text.get(6..8)?),
    };
    let year = i16::try_from(number(text.get(..4)?)?).ok()?;
    if year == 0 {
        return None;
    }
    Date::new(year, number(month)? as i8, number(day)? as i8).ok()
}

fn time(text: &str) -> Option<(Time, i64, Option<i64>)> {
    let zone = text.find(['+', '-', 'Z']).unwrap_or(text.len());
    let ([hour, minute, second], microseconds) = clock(&text[..zone])?;
    let time = Time::new(hour as i8, minute as i8, second as i8, 0).ok()?;
    let offset = match &text[zone..] {
        "" => None,
        "Z" => Some(0),
        zone => {
            let ([hours, minutes, seconds], fraction) = clock(&zone[1..])?;
            if minutes >= 60 || seconds >= 60 {
                return None;
            }
            let seconds = hours * 3600 + minutes * 60 + seconds;
            let size = seconds * 1_000_000 + fraction;
            let ahead = match zone.as_bytes()[0] {
                b'+' => size,
                b'-' => -size,
                _ => return None,
            };
            (seconds < DAY_SECONDS).then_some(Some(ahead))?
        }
    };
    Some((time, microseconds, offset))
}

/// Hours, minutes, seconds, and microseconds; more digits of a fraction are cut off.
fn clock(text: &str) -> Option<([i64; 3], i64)> {
    let mut parts = [0; 3];
    let mut rest = text;
    let colons = text.as_bytes().get(2) == Some(&b':');
    for (index, part) in parts.iter_mut().enumerate() {
        if index > 0 {
            if rest.is_empty() {
                return Some((parts, 0));
            }
            if colons {
                rest = rest.strip_prefix(':')?;
            }
        }
        *part = number(rest.get(..2)?)?;
        rest = &rest[2..];
    }
    let microseconds = match rest.strip_prefix(['.', ',']) {
        None if rest.is_empty() => 0,
        None => return None,
        Some(fraction) => {
            number(fraction)?;
            let six: String = fraction.chars().chain("000000".chars()).take(6).collect();
            number(&six)?
        }
    };
    Some((parts, microseconds))
}

/// Digits only, at least one; too many of them are 0.
fn number(text: &str) -> Option<i64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(0))
}
