//! The C function table, native/include/pyrmq_capi.h. No Python objects cross it; every entry
//! catches panics, so that a bug here ends a call and not the process.

mod border;
mod session;
mod store;

use border::{Bytes, ERROR, OK, guarded};
use pyo3::ffi;
use pyo3::prelude::*;
use session::{
    CommandOut, FeedOut, session_answer, session_command, session_error, session_ext, session_feed,
    session_filled, session_free, session_give_up, session_grant_pull, session_new,
    session_release, session_resend, session_space,
};
use std::ffi::c_void;
use store::{
    ChunkOut, GetOut, chunk_release, scan_tags, store_get, store_notify_on_arrival, store_stall,
    store_write_staged,
};

const ABI_VERSION: u32 = 6;

unsafe extern "C" fn error_text(text: *mut Bytes) -> i32 {
    guarded(|| {
        // SAFETY: the result is writable; the text stays until the next failure on this thread.
        ERROR.with_borrow(|e| unsafe { text.write(Bytes::of(e.as_bytes())) });
        OK
    })
}

#[repr(C)]
struct Table {
    abi_version: u32,
    struct_size: u32,
    session_new: unsafe extern "C" fn(*const c_void, *const u8, usize, u16) -> *mut c_void,
    session_free: unsafe extern "C" fn(*mut c_void),
    session_feed:
        unsafe extern "C" fn(*mut c_void, *const u8, usize, i64, i32, *mut FeedOut) -> i32,
    #[allow(clippy::type_complexity)]
    session_resend: unsafe extern "C" fn(
        *mut c_void,
        *const u8,
        usize,
        *const u8,
        usize,
        i32,
        i64,
        *mut FeedOut,
    ) -> i32,
    #[allow(clippy::type_complexity)]
    session_answer: unsafe extern "C" fn(
        *mut c_void,
        *const u8,
        usize,
        i32,
        i32,
        u64,
        i64,
        *mut FeedOut,
    ) -> i32,
    session_release: unsafe extern "C" fn(*mut c_void, i64, i64, *mut FeedOut) -> i32,
    session_command: unsafe extern "C" fn(*mut c_void, *mut CommandOut) -> i32,
    session_ext: unsafe extern "C" fn(*mut c_void, u32, *mut Bytes, *mut Bytes) -> i32,
    session_error: unsafe extern "C" fn(*mut c_void, *mut Bytes) -> i32,
    session_space: unsafe extern "C" fn(*mut c_void, *mut *mut u8, *mut usize) -> i32,
    session_filled: unsafe extern "C" fn(*mut c_void, usize, usize),
    #[allow(clippy::type_complexity)]
    session_grant_pull: unsafe extern "C" fn(
        *mut c_void,
        i32,
        *const Bytes,
        Bytes,
        Bytes,
        u32,
        *const i32,
        usize,
    ) -> i32,
    session_give_up: unsafe extern "C" fn(*mut c_void),
    #[allow(clippy::type_complexity)]
    store_get: unsafe extern "C" fn(
        *const c_void,
        *const u8,
        usize,
        u32,
        i64,
        u32,
        u32,
        *const i32,
        usize,
        *const c_void,
        u8,
        *mut GetOut,
        *mut ChunkOut,
        usize,
    ) -> i32,
    store_write_staged: unsafe extern "C" fn(*const c_void, *mut u8) -> i32,
    store_stall: unsafe extern "C" fn(*const c_void) -> i32,
    store_notify_on_arrival: unsafe extern "C" fn(*const c_void, *const u8, usize, u32) -> i32,
    chunk_release: unsafe extern "C" fn(*const c_void),
    scan_tags: unsafe extern "C" fn(*const u8, usize, *const i32, usize, *mut u32, usize) -> usize,
    error_text: unsafe extern "C" fn(*mut Bytes) -> i32,
}

static TABLE: Table = Table {
    abi_version: ABI_VERSION,
    struct_size: size_of::<Table>() as u32,
    session_new,
    session_free,
    session_feed,
    session_resend,
    session_answer,
    session_release,
    session_command,
    session_ext,
    session_error,
    session_space,
    session_filled,
    session_grant_pull,
    session_give_up,
    store_get,
    store_write_staged,
    store_stall,
    store_notify_on_arrival,
    chunk_release,
    scan_tags,
    error_text,
};

/// The table as a PyCapsule.
pub fn capsule(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let table = (&raw const TABLE).cast::<c_void>().cast_mut();
    // SAFETY: the table and the name are static; the capsule has no destructor; the GIL is held.
    unsafe {
        let capsule = ffi::PyCapsule_New(table, c"pyrmq._native._C_API".as_ptr(), None);
        Bound::from_owned_ptr_or_err(py, capsule).map(Bound::unbind)
    }
}
