//! The entries of the C table for sessions.

use super::border::{Bytes, FAILED, NONE, OK, code_of, guarded, slice, slice_mut};
use pyrmq_broker::wire::frame::Codec;
use pyrmq_broker::wire::pull::ALIKE;
use pyrmq_broker::wire::reply::To;
use pyrmq_broker::wire::{Budget, Command, Context, Session, WireError};
use pyrmq_broker::{Decision, Keyring};
use pyrmq_format::host::Host;
use pyrmq_server::{
    Connection, Descriptor, Piece, Received, Report, Status, Transform, Visit, clear_out,
};
use std::cell::RefCell;
use std::ffi::c_void;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What the sessions of one listener share.
pub struct Listener {
    /// None: nothing is stored, every frame is a command.
    pub context: Option<Arc<Context>>,
    pub budget: Arc<Budget>,
    /// None: no access control.
    pub keyring: Option<Arc<Keyring>>,
    /// None: all connections are plain.
    pub tls: Option<Arc<pyrmq_tls::Context>>,
}

/// What receiving from a socket gave.
#[repr(C)]
pub struct ReceivedOut {
    /// To be sent; valid until the next call on the same thread.
    pub out: Bytes,
    /// Bytes; 0 at the end of the stream, -1 if nothing came.
    pub received: i64,
    /// What the socket failed with, 0 if it did not.
    pub failed: i32,
}

/// Plain bytes to be sent.
#[repr(C)]
pub struct PieceIn {
    pub bytes: Bytes,
    /// They are a part of a mapped file, which the disk may not be able to read.
    pub mapped: u8,
}

/// What sending gave.
#[repr(C)]
pub struct SentOut {
    /// What the socket did not take, as it is to be sent; valid until the next call on the same
    /// thread.
    pub rest: Bytes,
    /// How many plain bytes of the pieces are sent or in `rest` (`session_send`).
    pub taken: usize,
    /// What the socket failed with, 0 if it did not.
    pub failed: i32,
}

/// A request for Python, or a response. Valid until the next `session_command` of the same session.
#[repr(C)]
pub struct CommandOut {
    pub code: i32,
    pub opaque: i32,
    pub flag: i32,
    pub language: i32,
    pub version: i32,
    pub codec: i32,
    pub n_ext: u32,
    pub has_remark: u8,
    pub remark: Bytes,
    pub body: Bytes,
    pub frame: Bytes,
    /// Who has signed it; a null pointer: nobody, as far as the session could verify that.
    pub subject: Bytes,
    /// When it was ready to be received, us of the monotonic clock.
    pub since_us: i64,
}

/// A session with what the C side may still read.
pub struct Connected {
    pub connection: Arc<Connection>,
    command: Option<Command>,
    texts: Vec<u8>,
    ext: Vec<[std::ops::Range<usize>; 2]>,
    error: String,
}

/// The errno where a failure has none.
const EIO: i32 = 5;

thread_local! {
    static OUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// # Safety
/// `p` is what `session_new` gave and nobody else uses it now.
pub unsafe fn connected<'a>(p: *mut c_void) -> &'a mut Connected {
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
        let (listener, ip) = unsafe { (&*listener.cast::<Listener>(), slice(ip, ip_len)) };
        let ip: IpAddr = match (<[u8; 4]>::try_from(ip), <[u8; 16]>::try_from(ip)) {
            (Ok(v4), _) => Ipv4Addr::from(v4).into(),
            (_, Ok(v6)) => Ipv6Addr::from(v6).into(),
            _ => return std::ptr::null_mut(),
        };
        let host = Host::new(SocketAddr::new(ip, port));
        let session = Session::new(listener.context.clone(), listener.budget.clone(), host);
        let session = match &listener.keyring {
            Some(keyring) => session.with_keyring(keyring.clone()),
            None => session,
        };
        let transform = Transform::new(listener.tls.clone());
        let made = Connected {
            connection: Arc::new(Connection::with(session, transform)),
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

pub unsafe extern "C" fn session_report(session: *mut c_void) -> *const Report {
    catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: a session of ours.
        let session = unsafe { connected(session) };
        std::ptr::from_ref(session.connection.report())
    }))
    .unwrap_or(std::ptr::null())
}

pub unsafe extern "C" fn session_active(session: *mut c_void) -> f64 {
    catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: a session of ours.
        unsafe { connected(session) }.connection.active()
    }))
    .unwrap_or(0.0)
}

fn with_out(use_out: impl FnOnce(&mut Vec<u8>) -> i32) -> i32 {
    guarded(|| {
        OUT.with_borrow_mut(|out| {
            clear_out(out);
            use_out(out)
        })
    })
}

/// Runs one step of a session and says what is to be sent.
///
/// # Safety
/// As `connected`; `result` is writable.
unsafe fn step(
    session: *mut c_void,
    result: *mut Bytes,
    work: impl FnOnce(&mut Session, &mut Vec<u8>) -> Result<(), WireError>,
) -> i32 {
    with_out(|out| {
        // SAFETY: the caller's promise.
        let status = unsafe { connected(session) }.connection.step(out, work);
        // SAFETY: the caller's promise.
        unsafe { result.write(Bytes::of(out)) };
        code_of(status)
    })
}

pub unsafe extern "C" fn session_feed(
    session: *mut c_void,
    data: *const u8,
    len: usize,
    now_ms: i64,
    defer_write: i32,
    result: *mut Bytes,
) -> i32 {
    // SAFETY: promised by the header: a session of ours, `len` readable bytes, a writable result.
    unsafe {
        step(session, result, |s, out| {
            s.feed_one_of(slice(data, len), now_ms, defer_write != 0, out)
        })
    }
}

pub unsafe extern "C" fn session_receive(
    session: *mut c_void,
    fd: i32,
    place: *mut u8,
    len: usize,
    now_ms: i64,
    defer_write: i32,
    result: *mut ReceivedOut,
) -> i32 {
    with_out(|out| {
        // SAFETY: promised by the header: a session of ours, `len` writable bytes.
        let (session, place) = unsafe { (connected(session), slice_mut(place, len)) };
        let (connection, socket) = (&session.connection, Descriptor(fd));
        let received = connection.receive(&socket, place, now_ms, defer_write != 0, out);
        let (received, failed, status) = match received {
            Received::Fed(n, status) => (n as i64, 0, status),
            Received::Nothing => (-1, 0, Status::Ok),
            Received::End => (0, 0, Status::Ok),
            Received::Failed(errno) => (-1, errno, Status::Ok),
        };
        let report = ReceivedOut {
            out: Bytes::of(out),
            received,
            failed,
        };
        // SAFETY: the result is writable.
        unsafe { result.write(report) };
        code_of(status)
    })
}

pub unsafe extern "C" fn session_send_released(
    session: *mut c_void,
    fd: i32,
    now_ms: i64,
    timeout_ms: i64,
    result: *mut SentOut,
) -> i32 {
    with_out(|out| {
        // SAFETY: promised by the header: a session of ours.
        let session = unsafe { connected(session) };
        let mut visit = Visit::new(fd);
        visit.release(
            &session.connection,
            &Descriptor(fd),
            now_ms,
            timeout_ms,
            out,
        );
        out.clear();
        out.append(&mut visit.rest);
        let report = SentOut {
            rest: Bytes::of(out),
            taken: 0,
            failed: visit.errno,
        };
        // SAFETY: the result is writable.
        unsafe { result.write(report) };
        code_of(visit.status)
    })
}

pub unsafe extern "C" fn session_send(
    session: *mut c_void,
    fd: i32,
    pieces: *const PieceIn,
    n: usize,
    result: *mut SentOut,
) -> i32 {
    with_out(|out| {
        // SAFETY: promised by the header: a session of ours, `n` pieces as long as stated.
        let (session, pieces) = unsafe { (connected(session), slice(pieces, n)) };
        let pieces = pieces.iter().map(|piece| Piece {
            // SAFETY: as above.
            bytes: unsafe { slice(piece.bytes.ptr, piece.bytes.len) },
            mapped: piece.mapped != 0,
        });
        let sent = session.connection.send_pieces(&Descriptor(fd), pieces, out);
        let report = SentOut {
            rest: Bytes::of(out),
            taken: *sent.as_ref().unwrap_or(&0),
            failed: sent.err().map_or(0, |e| e.raw_os_error().unwrap_or(EIO)),
        };
        // SAFETY: the result is writable.
        unsafe { result.write(report) };
        OK
    })
}

pub unsafe extern "C" fn session_send_close(session: *mut c_void, fd: i32) {
    guarded(|| {
        // SAFETY: a session of ours.
        unsafe { connected(session) }
            .connection
            .send_close(&Descriptor(fd));
        OK
    });
}

#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn session_resend(
    session: *mut c_void,
    frame: *const u8,
    len: usize,
    topic: *const u8,
    topic_len: usize,
    dead: i32,
    since_us: i64,
    now_ms: i64,
    result: *mut Bytes,
) -> i32 {
    // SAFETY: promised by the header: a session of ours, areas as long as stated, a writable result.
    unsafe {
        step(session, result, |s, out| {
            s.set_since(since_us, now_ms);
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
    code: i32,
    long_polling: i32,
    log_end: u64,
    since_us: i64,
    now_ms: i64,
    result: *mut Bytes,
) -> i32 {
    // SAFETY: as in session_resend.
    unsafe {
        step(session, result, |s, out| {
            let codec = Codec::from_byte(codec as u8)?;
            s.set_since(since_us, now_ms);
            s.answer(
                slice(answer, len),
                To { codec, opaque },
                code,
                long_polling != 0,
                log_end,
                now_ms,
                out,
            );
            Ok(())
        })
    }
}

pub unsafe extern "C" fn session_release(
    session: *mut c_void,
    now_ms: i64,
    timeout_ms: i64,
    result: *mut Bytes,
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
    subject: Bytes,
) -> i32 {
    guarded(|| {
        // SAFETY: promised by the header: a session of ours, as many fields as `ALIKE` has, areas as
        // long as stated.
        let (h, alike, topic, group, tags, subject_text) = unsafe {
            (
                connected(session),
                slice(alike, ALIKE.len()),
                slice(topic.ptr, topic.len),
                slice(group.ptr, group.len),
                slice(tags, n_tags),
                slice(subject.ptr, subject.len),
            )
        };
        let (Ok(topic), Ok(group), Ok(subject_text)) = (
            std::str::from_utf8(topic),
            std::str::from_utf8(group),
            std::str::from_utf8(subject_text),
        ) else {
            return FAILED;
        };
        let subject = (!subject.ptr.is_null()).then_some(subject_text);
        let mut fields = [None; ALIKE.len()];
        for (field, text) in fields.iter_mut().zip(alike) {
            // SAFETY: the field's text is as long as stated; null means that there is none.
            *field = (!text.ptr.is_null()).then(|| unsafe { slice(text.ptr, text.len) });
        }
        h.connection.with_session(|session| {
            let Some(context) = session.context() else {
                return NONE;
            };
            let Some(grant) = context.broker.pulls().grant(topic, group, queue_id, tags) else {
                return NONE;
            };
            session.grant_pull(code, &fields, subject, grant);
            OK
        })
    })
}

pub unsafe extern "C" fn session_grant_access(
    session: *mut c_void,
    rights: u8,
    subject: Bytes,
    resource: Bytes,
) -> i32 {
    guarded(|| {
        // SAFETY: promised by the header: a session of ours, areas as long as stated.
        let (h, subject, resource) = unsafe {
            (
                connected(session),
                slice(subject.ptr, subject.len),
                slice(resource.ptr, resource.len),
            )
        };
        let (Ok(subject), Ok(resource)) =
            (std::str::from_utf8(subject), std::str::from_utf8(resource))
        else {
            return FAILED;
        };
        let granted = h
            .connection
            .with_session(|session| session.grant_access(rights, subject, resource));
        if granted { OK } else { NONE }
    })
}

pub unsafe extern "C" fn session_command(session: *mut c_void, result: *mut CommandOut) -> i32 {
    guarded(|| {
        // SAFETY: a session of ours.
        let h = unsafe { connected(session) };
        h.command = h.connection.with_session(Session::next_command);
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
        let subject = h.connection.with_session(|s| s.subject_of(command));
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
            subject: subject.map_or(Bytes::NONE, |name| Bytes::of(name.as_bytes())),
            since_us: command.since,
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
        unsafe {
            let session = connected(session);
            session.error = session.connection.error();
            text.write(Bytes::of(session.error.as_bytes()));
        }
        OK
    })
}

pub unsafe extern "C" fn session_space(
    session: *mut c_void,
    ptr: *mut *mut u8,
    len: *mut usize,
) -> i32 {
    guarded(|| {
        // SAFETY: a session of ours.
        let connection = unsafe { &connected(session).connection };
        // The place stays where it is until the next call of the session, which is `session_filled`.
        let place = connection.with_session(|s| s.space().map(|p| (p.as_mut_ptr(), p.len())));
        let Some((start, room)) = place else {
            return NONE;
        };
        // SAFETY: both results are writable.
        unsafe {
            ptr.write(start);
            len.write(room);
        }
        OK
    })
}

pub unsafe extern "C" fn session_give_up(session: *mut c_void) {
    guarded(|| {
        // SAFETY: a session of ours.
        unsafe { connected(session).connection.with_session(Session::give_up) };
        OK
    });
}

pub unsafe extern "C" fn session_filled(session: *mut c_void, room: usize, n: usize) {
    guarded(|| {
        // SAFETY: a session of ours.
        let connection = unsafe { &connected(session).connection };
        connection.with_session(|s| s.filled(room, n));
        OK
    });
}
