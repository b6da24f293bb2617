//! The clocks: CLOCK_MONOTONIC for all that is measured, the wall clock for the field that wants it.

use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

pub const SECOND: u64 = 1_000_000_000;

/// Nanoseconds of CLOCK_MONOTONIC. Processes of one boot of one machine share it.
#[inline]
pub fn now() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * SECOND + t.tv_nsec as u64
}

/// CPU nanoseconds of the thread that asks.
pub fn thread_cpu() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * SECOND + t.tv_nsec as u64
}

/// Milliseconds since 1970, for bornTimestamp.
pub fn wall_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as u64)
}

pub fn ns(seconds: f64) -> u64 {
    (seconds * 1e9) as u64 // saturates
}
