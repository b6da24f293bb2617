//! The entries of the C table for the store.

use super::border::{COLD, ERROR, FAILED, OK, PANIC, UNREADABLE, guarded, slice, slice_mut};
use super::selection::Selection;
use pyrmq_format::filter;
use pyrmq_store::{PropertyTest, Segment, StoreError, TagFilter, Wait, Wanted};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Consecutive bytes of the log. `segment` is owned by the receiver until `chunk_release`.
#[repr(C)]
pub struct ChunkOut {
    pub segment: *const c_void,
    pub ptr: *const u8,
    pub len: usize,
}

/// What a read gave.
#[repr(C)]
pub struct GetOut {
    /// GetMessageStatus, in RocketMQ's order.
    pub status: i32,
    pub count: u32,
    pub n_chunks: u32,
    pub next: i64,
    pub min: i64,
    pub max: i64,
    pub bytes: i64,
}

#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn store_get(
    store: *const c_void,
    topic: *const u8,
    topic_len: usize,
    queue_id: u32,
    offset: i64,
    max_count: u32,
    max_bytes: u32,
    tags: *const i32,
    n_tags: usize,
    sql: *const c_void,
    wait: u8,
    result: *mut GetOut,
    chunks: *mut ChunkOut,
    n_chunks: usize,
) -> i32 {
    guarded(|| {
        if n_chunks == 0 || store.is_null() {
            ERROR.set("no store, or no room for a record".into());
            return FAILED;
        }
        // SAFETY: `store` is `Store._ptr()` of a living Store; the slices are as long as stated.
        let (store, topic, tags) = unsafe {
            (
                &*store.cast::<pyrmq_store::Store>(),
                slice(topic, topic_len),
                slice(tags, n_tags),
            )
        };
        let queue = store
            .topics()
            .get(topic)
            .and_then(|t| t.existing_queue(queue_id));
        // SAFETY: null, or `SqlFilter._ptr()` of an object that the caller keeps for this call.
        let sql = unsafe { sql.cast::<Selection>().as_ref() };
        let properties = sql.map(|sql| |props: &[u8]| sql.matches(props));
        let wanted = Wanted {
            offset,
            max_count: (max_count as usize).min(n_chunks),
            max_bytes: max_bytes as usize,
            tags: TagFilter(tags),
            properties: properties.as_ref().map(|wanted| wanted as &PropertyTest),
            bits: sql.and_then(Selection::bit_test),
            wait: Wait::from(wait != 0),
            learnt: None,
        };
        let got = match store.get(queue.as_deref(), &wanted) {
            Ok(got) => got,
            Err(StoreError::Cold) => return COLD,
            Err(e) => {
                ERROR.set(e.to_string());
                return if matches!(e, StoreError::Io { .. }) {
                    UNREADABLE
                } else {
                    FAILED
                };
            }
        };
        for (i, chunk) in got.chunks.iter().enumerate() {
            let Some(bytes) = chunk.segment.bytes(chunk.at, chunk.len) else {
                return PANIC;
            };
            let out = ChunkOut {
                ptr: bytes.as_ptr(),
                len: bytes.len(),
                segment: chunk.segment.clone().export().cast(),
            };
            // SAFETY: there are at most `count` chunks, one a record, and `count <= n_chunks`.
            unsafe { chunks.add(i).write(out) };
        }
        let report = GetOut {
            status: got.status as i32,
            count: got.count as u32,
            n_chunks: got.chunks.len() as u32,
            next: got.next,
            min: got.min,
            max: got.max,
            bytes: got.bytes as i64,
        };
        // SAFETY: the result is writable.
        unsafe { result.write(report) };
        OK
    })
}

pub unsafe extern "C" fn store_write_staged(store: *const c_void, arrivals: *mut u8) -> i32 {
    guarded(|| {
        // SAFETY: `store` is null or `Store._ptr()` of a living Store.
        let Some(store) = (unsafe { store.cast::<pyrmq_store::Store>().as_ref() }) else {
            ERROR.set("no store".into());
            return FAILED;
        };
        let written = store.write_staged(|_| ());
        // SAFETY: the result is writable.
        unsafe { arrivals.write(store.has_arrivals() as u8) };
        match written {
            Ok(()) => OK,
            Err(e) => {
                ERROR.set(e.to_string());
                FAILED
            }
        }
    })
}

pub unsafe extern "C" fn store_stall(store: *const c_void) -> i32 {
    guarded(|| {
        // SAFETY: `store` is null or `Store._ptr()` of a living Store.
        let Some(store) = (unsafe { store.cast::<pyrmq_store::Store>().as_ref() }) else {
            return 0;
        };
        match store.stalls() {
            stalls if stalls.is_busy() => 2,
            stalls => stalls.is_slow() as i32,
        }
    })
}

pub unsafe extern "C" fn store_notify_on_arrival(
    store: *const c_void,
    topic: *const u8,
    topic_len: usize,
    queue_id: u32,
) -> i32 {
    guarded(|| {
        if store.is_null() {
            ERROR.set("no store".into());
            return FAILED;
        }
        // SAFETY: as in store_get.
        let (store, topic) = unsafe {
            (
                &*store.cast::<pyrmq_store::Store>(),
                slice(topic, topic_len),
            )
        };
        match store.notify_on_arrival(topic, queue_id) {
            Ok(()) => OK,
            Err(e) => {
                ERROR.set(e.to_string());
                FAILED
            }
        }
    })
}

pub unsafe extern "C" fn chunk_release(segment: *const c_void) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the store exported this reference with `export`; it comes back once.
        unsafe { Segment::release(segment.cast::<Segment>()) };
    }));
}

pub unsafe extern "C" fn scan_tags(
    entries: *const u8,
    len: usize,
    tags: *const i32,
    n_tags: usize,
    out: *mut u32,
    n_out: usize,
) -> usize {
    catch_unwind(AssertUnwindSafe(|| {
        if n_out == 0 {
            return 0;
        }
        // SAFETY: the three areas are as long as stated; `out` is writable and overlaps none.
        let (entries, tags, out) = unsafe {
            (
                slice(entries, len),
                slice(tags, n_tags),
                slice_mut(out, n_out),
            )
        };
        filter::scan_tags(entries, tags, out)
    }))
    .unwrap_or(0)
}
