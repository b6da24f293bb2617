//! What the loop needs of a poll.

use std::io;

/// A descriptor that is ready, and epoll's events.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    pub fd: i32,
    pub events: u32,
}

/// Says what is ready, and what time it is.
pub trait Poll {
    /// Fills `found` with what is ready within `wait_ns`; at or below 0 it does not wait.
    fn poll(&mut self, wait_ns: i64, found: &mut Vec<Ready>) -> io::Result<()>;

    /// Nanoseconds of the monotonic clock.
    fn now_ns(&self) -> i64;
}
