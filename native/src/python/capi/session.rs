//! The entries of the C table for sessions.

use super::border::{Bytes, CLOSE, FAILED, NONE, OK, guarded, slice};
use crate::python::listener::Shared;
use pyrmq_broker::Decision;
use pyrmq_broker::wire::frame::Codec;
use pyrmq_broker::wire::pull::ALIKE;
use pyrmq_broker::wire::reply::To;
use pyrmq_broker::wire::{Command, Session, WireError};
use pyrmq_format::host::Host;
use std::cell::RefCell;
use std::ffi::c_void;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

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

/// A session with what the C side may still read.
struct Connected {
    session: Session,
    store: Option<Arc<pyrmq_store::Store>>,
    command: Option<Command>,
    texts: Vec<u8>,
    ext: Vec<[std::ops::Range<usize>; 2]>,
    error: String,
}

thread_local! {
    static OUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// An output buffer larger than this is given back after use.
const KEEP: usize = 1 << 20;

/// # Safety
/// `p` is what `session_new` gave and nobody else uses it now.
unsafe fn connected<'a>(p: *mut c_void) -> &'a mut Connected {
    assert!(!p.is_null(), "a session that was never initialised");
    // SAFETY: the caller's promise.
    unsafe { &mut *p.cast::<Connected>() }
}

pub unsafe extern "C" fn session_new(
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

pub unsafe extern "C" fn session_free(session: *mut c_void) {
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

pub unsafe extern "C" fn session_feed(
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
pub unsafe extern "C" fn session_resend(
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
pub unsafe extern "C" fn session_answer(
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

pub unsafe extern "C" fn session_release(
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

#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn session_grant_pull(
    session: *mut c_void,
    code: i32,
    alike: *const Bytes,
    topic: Bytes,
    group: Bytes,
    queue_id: u32,
    tags: *const i32,
    n_tags: usize,
) -> i32 {
    guarded(|| {
        // SAFETY: promised by the header: a session of ours, as many fields as `ALIKE` has, areas as
        // long as stated.
        let (h, alike, topic, group, tags) = unsafe {
            (
                connected(session),
                slice(alike, ALIKE.len()),
                slice(topic.ptr, topic.len),
                slice(group.ptr, group.len),
                slice(tags, n_tags),
            )
        };
        let (Ok(topic), Ok(group)) = (std::str::from_utf8(topic), std::str::from_utf8(group))
        else {
            return FAILED;
        };
        let Some(context) = h.session.context() else {
            return NONE;
        };
        let Some(grant) = context.broker.pulls().grant(topic, group, queue_id, tags) else {
            return NONE;
        };
        let mut fields = [None; ALIKE.len()];
        for (field, text) in fields.iter_mut().zip(alike) {
            // SAFETY: the field's text is as long as stated; null means that there is none.
            *field = (!text.ptr.is_null()).then(|| unsafe { slice(text.ptr, text.len) });
        }
        h.session.grant_pull(code, &fields, grant);
        OK
    })
}

pub unsafe extern "C" fn session_command(session: *mut c_void, result: *mut CommandOut) -> i32 {
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
        let mut text = |raw: pyrmq_format::json::Raw| {
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

pub unsafe extern "C" fn session_ext(
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

pub unsafe extern "C" fn session_error(session: *mut c_void, text: *mut Bytes) -> i32 {
    guarded(|| {
        // SAFETY: a session of ours; the result is writable.
        unsafe { text.write(Bytes::of(connected(session).error.as_bytes())) };
        OK
    })
}

pub unsafe extern "C" fn session_space(
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

pub unsafe extern "C" fn session_give_up(session: *mut c_void) {
    guarded(|| {
        // SAFETY: a session of ours.
        unsafe { connected(session).session.give_up() };
        OK
    });
}

pub unsafe extern "C" fn session_filled(session: *mut c_void, room: usize, n: usize) {
    guarded(|| {
        // SAFETY: a session of ours.
        unsafe { connected(session).session.filled(room, n) };
        OK
    });
}
