//! What a session last reported, in a place that C reads without a call.

use super::transform::Tls;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// The state of a session behind its last call. Any thread may read a field at any time; together
/// they are the result of one call once that call has returned.
#[repr(C)]
#[derive(Default)]
pub struct Report {
    /// Commands that wait in the session.
    pub commands: AtomicU32,
    /// Answers that wait until what they acknowledge is confirmed.
    pub unconfirmed: AtomicU32,
    /// So many answers wait that the peer is not to be read on.
    pub full: AtomicU8,
    /// A whole frame waits for the next feed.
    pub more: AtomicU8,
    /// The store has arrivals: queues with a new message that somebody asked for.
    pub arrivals: AtomicU8,
    /// A large frame is under way: receive into `session_space`.
    pub large: AtomicU8,
    /// An unfinished frame takes much memory.
    pub heavy: AtomicU8,
    /// How far TLS is: a `Tls`.
    pub tls: AtomicU8,
    /// TLS itself has something to be sent: `session_send` sends it, also with nothing else.
    pub pending: AtomicU8,
}

pub(super) fn is_set(flag: &AtomicU8) -> bool {
    flag.load(Ordering::Relaxed) != 0
}

impl Report {
    pub(super) fn set_flags(&self, flags: [(&AtomicU8, bool); 5]) {
        for (flag, value) in flags {
            flag.store(value as u8, Ordering::Relaxed);
        }
    }

    pub fn commands(&self) -> u32 {
        self.commands.load(Ordering::Relaxed)
    }

    pub fn unconfirmed(&self) -> u32 {
        self.unconfirmed.load(Ordering::Relaxed)
    }

    pub fn has_arrivals(&self) -> bool {
        is_set(&self.arrivals)
    }

    /// Whether its next bytes are for somebody else to receive, or its memory is to be watched.
    pub fn is_large_or_heavy(&self) -> bool {
        is_set(&self.large) || is_set(&self.heavy)
    }

    /// Whether the loop cannot do what comes next: commands, too many answers that wait, frames to be
    /// fed again, a large frame, an end that TLS has told.
    pub fn needs_others(&self) -> bool {
        self.commands() != 0
            || is_set(&self.full)
            || is_set(&self.more)
            || self.is_large_or_heavy()
            || self.tls.load(Ordering::Relaxed) == Tls::Closed as u8
    }
}
