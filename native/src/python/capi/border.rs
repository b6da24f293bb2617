//! What all entries of the C table need: status codes, texts, and calls that end with a status, not a panic.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub const OK: i32 = 0;
pub const NONE: i32 = 1;
pub const CLOSE: i32 = -1;
pub const FAILED: i32 = -2;
pub const UNREADABLE: i32 = -3;
/// `store_get` was not to wait for the disk, and would have to.
pub const COLD: i32 = 2;
pub const PANIC: i32 = -100;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bytes {
    pub ptr: *const u8,
    pub len: usize,
}

impl Bytes {
    pub fn of(b: &[u8]) -> Self {
        Bytes {
            ptr: b.as_ptr(),
            len: b.len(),
        }
    }
}

thread_local! {
    pub static ERROR: RefCell<String> = const { RefCell::new(String::new()) };
}

pub fn guarded(f: impl FnOnce() -> i32) -> i32 {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or(PANIC)
}

/// # Safety
/// `ptr` points to `len` readable bytes that outlive the use of the slice, or `len` is 0.
pub unsafe fn slice<'a, T>(ptr: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(ptr, len) }
}
