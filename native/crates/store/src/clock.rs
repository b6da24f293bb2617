//! The machine's clock, and its local time.

use super::error::{Result, StoreError};
use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

/// Microseconds of the monotonic clock, which polls and Python's `time.monotonic` read as well.
#[inline]
pub fn monotonic_us() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

/// When something began and ended, of `monotonic_us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub begun: i64,
    pub ended: i64,
}

impl Span {
    pub fn micros(self) -> u64 {
        (self.ended - self.begun).max(0) as u64
    }
}

/// Milliseconds since the epoch.
pub fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as i64)
}

fn local(ms: i64) -> Option<libc::tm> {
    let seconds = ms.div_euclid(1000) as libc::time_t;
    // SAFETY: `tm` is plain data for which all-zero is valid.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to living values; the call keeps none of them.
    let done = unsafe { libc::localtime_r(&seconds, &mut tm) };
    (!done.is_null()).then_some(tm)
}

/// Hour of the day, 0 to 23, in local time, at `ms` since the epoch; 0 if it has none.
pub fn local_hour(ms: i64) -> u32 {
    local(ms).map_or(0, |tm| tm.tm_hour as u32)
}

/// `ms` since the epoch in local time as `yyyyMMddHHmmssSSS`. [UtilAll.timeMillisToHumanString]
pub fn local_time_name(ms: i64) -> Result<String> {
    let time = local_time(ms);
    let time = time.ok_or_else(|| StoreError::Illegal(format!("no local time for {ms} ms")))?;
    Ok(time.replace(['-', ' ', ':', ','], ""))
}

/// `ms` since the epoch in local time as `2026-11-23 09:05:07,123`, as Python's logging writes it. None if it
/// has none.
pub fn local_time(ms: i64) -> Option<String> {
    let tm = local(ms)?;
    Some(format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02},{:03}",
        tm.tm_year + 1900,
        tm.tm_mon + 1,
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec,
        ms.rem_euclid(1000)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_times_follow_one_another() {
        let ms = 1_700_000_000_123;
        let hour = local_hour(ms);
        assert_eq!(local_hour(ms + 3_600_000), (hour + 1) % 24);
        let name = local_time_name(ms).unwrap();
        assert_eq!((name.len(), &name[14..]), (17, "123"));
        assert_eq!(name[8..10], format!("{hour:02}"));
        let time = local_time(ms).unwrap();
        assert_eq!(time.replace(['-', ' ', ':', ','], ""), name);
        let shape: String = time
            .chars()
            .map(|c| if c.is_ascii_digit() { '0' } else { c })
            .collect();
        assert_eq!(shape, "0000-00-00 00:00:00,000");
    }
}
