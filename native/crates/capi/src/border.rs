//! What all entries of the C table need: status codes, texts, and calls that end with a status, not a panic.

use pyrmq_server::Status;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

// Status codes of all entries that return int32_t.

pub const OK: i32 = 0;
/// There is nothing (more).
pub const NONE: i32 = 1;
/// `store_get` was not to wait for the disk, and would have to.
pub const COLD: i32 = 2;
/// The peer broke the protocol; `session_error` has the text.
pub const CLOSE: i32 = -1;
/// The store refused; `error_text` has the text.
pub const FAILED: i32 = -2;
/// The disk cannot read it; `error_text` has the text.
pub const UNREADABLE: i32 = -3;
/// A bug in the engine.
pub const PANIC: i32 = -100;

/// Bytes that belong to the engine.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bytes {
    pub ptr: *const u8,
    pub len: usize,
}

impl Bytes {
    pub const NONE: Bytes = Bytes {
        ptr: std::ptr::null(),
        len: 0,
    };

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

pub fn code_of(status: Status) -> i32 {
    match status {
        Status::Ok => OK,
        Status::Broken => CLOSE,
        Status::Panicked => PANIC,
    }
}

/// # Safety
/// `ptr` points to `len` readable values that outlive the use of the slice, or `len` is 0.
pub unsafe fn slice<'a, T>(ptr: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(ptr, len) }
}

/// # Safety
/// `ptr` points to `len` values that are initialised and that nobody else uses as long as the slice
/// is in use, or `len` is 0.
pub unsafe fn slice_mut<'a, T>(ptr: *mut T, len: usize) -> &'a mut [T] {
    if len == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(ptr, len) }
}
