//! The C function table, native/include/pyrmq_capi.h. No Python objects cross it; every entry
//! catches panics, so that a bug here ends a call and not the process.

use super::listener::Shared;
use crate::broker::Decision;
use crate::filter;
use crate::filter::sql::Program;
use crate::format::host::Host;
use crate::store::{self, PropertyTest, Segment, StoreError, TagFilter, Wait, Wanted};
use crate::wire::frame::Codec;
use crate::wire::reply::To;
use crate::wire::{Command, Session, WireError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::ffi::c_void;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const ABI_VERSION: u32 = 5;
const OK: i32 = 0;
const NONE: i32 = 1;
const CLOSE: i32 = -1;
const FAILED: i32 = -2;
const UNREADABLE: i32 = -3;
/// `store_get` was not to wait for the disk, and would have to.
const COLD: i32 = 2;
const PANIC: i32 = -100;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bytes {
    ptr: *const u8,
    len: usize,
}

impl Bytes {
    fn of(b: &[u8]) -> Self {
        Bytes {
            ptr: b.as_ptr(),
            len: b.len(),
        }
    }
}

#[repr(C)]
pub struct FeedOut {
    out: Bytes,
    commands: u32,
    unconfirmed: u32,
    full: u8,
    more: u8,
    arrivals: u8,
    large: u8,
    heavy: u8,
}

#[repr(C)]
pub struct CommandOut {
    code: i32,
    opaque: i32,
    flag: i32,
    language: i32,
    version: i32,
    codec: i32,
    n_ext: u32,
    has_remark: u8,
    remark: Bytes,
    body: Bytes,
    frame: Bytes,
}

#[repr(C)]
pub struct ChunkOut {
    segment: *const c_void,
    ptr: *const u8,
    len: usize,
}

#[repr(C)]
pub struct GetOut {
    status: i32,
    count: u32,
    n_chunks: u32,
    next: i64,
    min: i64,
    max: i64,
    bytes: i64,
}

/// A session with what the C side may still read.
struct Connected {
    session: Session,
    store: Option<Arc<store::Store>>,
    command: Option<Command>,
    texts: Vec<u8>,
    ext: Vec<[std::ops::Range<usize>; 2]>,
    error: String,
}

thread_local! {
    static OUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static ERROR: RefCell<String> = const { RefCell::new(String::new()) };
}

/// An output buffer larger than this is given back after use.
const KEEP: usize = 1 << 20;

fn guarded(f: impl FnOnce() -> i32) -> i32 {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or(PANIC)
}

/// # Safety
/// `p` is what `session_new` gave and nobody else uses it now.
unsafe fn connected<'a>(p: *mut c_void) -> &'a mut Connected {
    assert!(!p.is_null(), "a session that was never initialised");
    // SAFETY: the caller's promise.
    unsafe { &mut *p.cast::<Connected>() }
}

/// # Safety
/// `ptr` points to `len` readable bytes that outlive the use of the slice, or `len` is 0.
unsafe fn slice<'a, T>(ptr: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(ptr, len) }
}

unsafe extern "C" fn session_new(
    listener: *const c_void,
    ip: *const u8,
    ip_len: usize,
    port: u16,
) -> *mut c_void {
    let made = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: `listener` is `Listener._ptr()` of a living Listener, `ip` has `ip_len` bytes.
        let (shared, ip) = unsafe { (&*listener.cast::<Shared>(), slice(ip, ip_len)) };
        let ip: IpAddr = match (<[u8; 4]>::try_from(ip), <[u8; 16]>::try_from(ip)) {
            (Ok(v4), _) => Ipv4Addr::from(v4).into(),
            (_, Ok(v6)) => Ipv6Addr::from(v6).into(),
            _ => return std::ptr::null_mut(),
        };
        let host = Host::new(SocketAddr::new(ip, port));
        let session = Session::new(shared.context.clone(), shared.budget.clone(), host);
        let made = Connected {
            session,
            store: shared.context.as_ref().map(|c| c.broker.store().clone()),
            command: None,
            texts: Vec::new(),
            ext: Vec::new(),
            error: String::new(),
        };
        Box::into_raw(Box::new(made)).cast::<c_void>()
    }));
    made.unwrap_or(std::ptr::null_mut())
}

unsafe extern "C" fn session_free(session: *mut c_void) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: made by `session_new`; the caller forgets it with this call.
        drop(unsafe { Box::from_raw(session.cast::<Connected>()) });
    }));
}

/// Runs one step of a session and reports what it gave.
///
/// # Safety
/// As `connected`; `result` is writable.
unsafe fn step(
    session: *mut c_void,
    result: *mut FeedOut,
    work: impl FnOnce(&mut Session, &mut Vec<u8>) -> Result<(), WireError>,
) -> i32 {
    guarded(|| {
        // SAFETY: the caller's promise.
        let h = unsafe { connected(session) };
        OUT.with_borrow_mut(|out| {
            out.clear();
            if out.capacity() > KEEP {
                *out = Vec::new();
            }
            let done = work(&mut h.session, out);
            let arrivals = h.store.as_ref().is_some_and(|s| s.has_arrivals());
            let report = FeedOut {
                out: Bytes::of(out),
                commands: h.session.commands() as u32,
                unconfirmed: h.session.unconfirmed() as u32,
                full: h.session.is_full() as u8,
                more: h.session.has_more() as u8,
                arrivals: arrivals as u8,
                large: h.session.wants_space() as u8,
                heavy: h.session.is_heavy() as u8,
            };
            // SAFETY: the caller's promise.
            unsafe { result.write(report) };
            match done {
                Ok(()) => OK,
                Err(e) => {
                    h.error = e.to_string();
                    CLOSE
                }
            }
        })
    })
}

unsafe extern "C" fn session_feed(
    session: *mut c_void,
    data: *const u8,
    len: usize,
    now_ms: i64,
    more: i32,
    result: *mut FeedOut,
) -> i32 {
    // SAFETY: promised by the header: a session of ours, `len` readable bytes, a writable result.
    unsafe {
        step(session, result, |s, out| {
            s.feed_one_of(slice(data, len), now_ms, more != 0, out)
        })
    }
}

#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn session_resend(
    session: *mut c_void,
    frame: *const u8,
    len: usize,
    topic: *const u8,
    topic_len: usize,
    dead: i32,
    now_ms: i64,
    result: *mut FeedOut,
) -> i32 {
    // SAFETY: promised by the header: a session of ours, areas as long as stated, a writable result.
    unsafe {
        step(session, result, |s, out| {
            let decision = match slice(topic, topic_len) {
                [] => Decision::AsRequested,
                topic => Decision::SentBack {
                    topic,
                    dead: dead != 0,
                },
            };
            s.resend(slice(frame, len), decision, now_ms, out)
        })
    }
}

#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn session_answer(
    session: *mut c_void,
    answer: *const u8,
    len: usize,
    codec: i32,
    opaque: i32,
    end: u64,
    now_ms: i64,
    result: *mut FeedOut,
) -> i32 {
    // SAFETY: as in session_resend.
    unsafe {
        step(session, result, |s, out| {
            let codec = Codec::from_byte(codec as u8)?;
            s.answer(slice(answer, len), To { codec, opaque }, end, now_ms, out);
            Ok(())
        })
    }
}

unsafe extern "C" fn session_release(
    session: *mut c_void,
    now_ms: i64,
    timeout_ms: i64,
    result: *mut FeedOut,
) -> i32 {
    // SAFETY: as in session_feed.
    unsafe {
        step(session, result, |s, out| {
            s.release(now_ms, timeout_ms, out);
            Ok(())
        })
    }
}

unsafe extern "C" fn session_command(session: *mut c_void, result: *mut CommandOut) -> i32 {
    guarded(|| {
        // SAFETY: a session of ours.
        let h = unsafe { connected(session) };
        h.command = h.session.next_command();
        let Some(command) = &h.command else {
            h.texts = Vec::new(); // an idle connection keeps no buffer
            h.ext = Vec::new();
            return NONE;
        };
        h.texts.clear();
        h.ext.clear();
        let frame = &command.frame;
        let texts = &mut h.texts;
        // A text that cannot be unescaped is handed over as it stands.
        let mut text = |raw: crate::wire::json::Raw| {
            let start = texts.len();
            if raw.unescape(frame, texts).is_err() {
                texts.truncate(start);
                texts.extend_from_slice(raw.bytes(frame));
            }
            start..texts.len()
        };
        for (name, value) in &command.header.ext {
            let pair = [text(*name), text(*value)];
            h.ext.push(pair);
        }
        let remark = command.header.remark.map(&mut text);
        let header = &command.header;
        let report = CommandOut {
            code: header.code,
            opaque: header.opaque,
            flag: header.flag,
            language: header.language as i32,
            version: header.version,
            codec: command.parts.codec as i32,
            n_ext: h.ext.len() as u32,
            has_remark: remark.is_some() as u8,
            remark: Bytes::of(remark.map_or(&[], |r| &h.texts[r])),
            body: Bytes::of(command.body()),
            frame: Bytes::of(frame),
        };
        // SAFETY: the result is writable.
        unsafe { result.write(report) };
        OK
    })
}

unsafe extern "C" fn session_ext(
    session: *mut c_void,
    index: u32,
    name: *mut Bytes,
    value: *mut Bytes,
) -> i32 {
    guarded(|| {
        // SAFETY: a session of ours; both results are writable.
        unsafe {
            let h = connected(session);
            let Some([n, v]) = h.ext.get(index as usize) else {
                return NONE;
            };
            name.write(Bytes::of(&h.texts[n.clone()]));
            value.write(Bytes::of(&h.texts[v.clone()]));
        }
        OK
    })
}

unsafe extern "C" fn session_error(session: *mut c_void, text: *mut Bytes) -> i32 {
    guarded(|| {
        // SAFETY: a session of ours; the result is writable.
        unsafe { text.write(Bytes::of(connected(session).error.as_bytes())) };
        OK
    })
}

unsafe extern "C" fn session_space(
    session: *mut c_void,
    ptr: *mut *mut u8,
    len: *mut usize,
) -> i32 {
    guarded(|| {
        // SAFETY: a session of ours; both results are writable.
        unsafe {
            let Some(place) = connected(session).session.space() else {
                return NONE;
            };
            ptr.write(place.as_mut_ptr());
            len.write(place.len());
        }
        OK
    })
}

unsafe extern "C" fn session_give_up(session: *mut c_void) {
    guarded(|| {
        // SAFETY: a session of ours.
        unsafe { connected(session).session.give_up() };
        OK
    });
}

unsafe extern "C" fn session_filled(session: *mut c_void, room: usize, n: usize) {
    guarded(|| {
        // SAFETY: a session of ours.
        unsafe { connected(session).session.filled(room, n) };
        OK
    });
}

#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn store_get(
    store: *const c_void,
    topic: *const u8,
    topic_len: usize,
    queue_id: u32,
    offset: i64,
    max_count: u32,
    max_bytes: u32,
    tags: *const i32,
    n_tags: usize,
    program: *const c_void,
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
                &*store.cast::<store::Store>(),
                slice(topic, topic_len),
                slice(tags, n_tags),
            )
        };
        let queue = store
            .topics()
            .get(topic)
            .and_then(|t| t.existing_queue(queue_id));
        // SAFETY: null, or `SqlFilter._ptr()` of an object that the caller keeps for this call.
        let program = unsafe { program.cast::<Program>().as_ref() };
        let properties = program.map(|program| |props: &[u8]| program.matches(props));
        let wanted = Wanted {
            offset,
            max_count: (max_count as usize).min(n_chunks),
            max_bytes: max_bytes as usize,
            tags: TagFilter(tags),
            properties: properties.as_ref().map(|wanted| wanted as &PropertyTest),
            wait: Wait::from(wait != 0),
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

unsafe extern "C" fn store_write_staged(store: *const c_void, arrivals: *mut u8) -> i32 {
    guarded(|| {
        // SAFETY: `store` is null or `Store._ptr()` of a living Store.
        let Some(store) = (unsafe { store.cast::<store::Store>().as_ref() }) else {
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

/// 0; 1 where the disk is slow, so that a write may take long; 2 where one takes too long.
unsafe extern "C" fn store_stall(store: *const c_void) -> i32 {
    guarded(|| {
        // SAFETY: `store` is null or `Store._ptr()` of a living Store.
        let Some(store) = (unsafe { store.cast::<store::Store>().as_ref() }) else {
            return 0;
        };
        match store.stalls() {
            stalls if stalls.is_busy() => 2,
            stalls => stalls.is_slow() as i32,
        }
    })
}

unsafe extern "C" fn store_notify_on_arrival(
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
        let (store, topic) = unsafe { (&*store.cast::<store::Store>(), slice(topic, topic_len)) };
        match store.notify_on_arrival(topic, queue_id) {
            Ok(()) => OK,
            Err(e) => {
                ERROR.set(e.to_string());
                FAILED
            }
        }
    })
}

unsafe extern "C" fn chunk_release(segment: *const c_void) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the store exported this reference with `export`; it comes back once.
        unsafe { Segment::release(segment.cast::<Segment>()) };
    }));
}

unsafe extern "C" fn scan_tags(
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
                std::slice::from_raw_parts_mut(out, n_out),
            )
        };
        filter::scan_tags(entries, tags, out)
    }))
    .unwrap_or(0)
}

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
