//! Memory of unfinished frames: a bound that all sessions of a server share.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bound on the bytes of unfinished frames of all sessions that share it.
pub struct Budget {
    pub(super) limit: usize,
    pub(super) used: AtomicUsize,
}

impl Budget {
    pub fn new(limit: usize) -> Self {
        Budget {
            limit,
            used: AtomicUsize::new(0),
        }
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether three quarters are used.
    pub fn is_short(&self) -> bool {
        self.used() > self.limit / 4 * 3
    }
}
