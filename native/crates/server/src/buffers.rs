//! Buffers that the calls of a thread share: no connection keeps one.

use std::cell::Cell;
use std::thread::LocalKey;

/// A buffer larger than this is given back after use.
const KEEP: usize = 1 << 20;

thread_local! {
    /// What records carried, and what is gathered to be sealed.
    pub(super) static PLAIN: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    /// Records to be sent.
    pub(super) static SEALED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lends a buffer of this thread, empty.
pub(super) fn lent<T>(
    buffer: &'static LocalKey<Cell<Vec<u8>>>,
    work: impl FnOnce(&mut Vec<u8>) -> T,
) -> T {
    let mut space = buffer.take();
    clear_out(&mut space);
    let done = work(&mut space);
    buffer.set(space);
    done
}

/// Empties a buffer of answers, and gives it back if it is large.
pub fn clear_out(out: &mut Vec<u8>) {
    out.clear();
    if out.capacity() > KEEP {
        *out = Vec::new();
    }
}
