//! The entries of the C table for the ready loop and for answers of many sessions.

use super::border::{Bytes, ERROR, FAILED, NONE, OK, PANIC, code_of, guarded, slice};
use super::session::connected;
use pyrmq_server::{AnswerSender, Descriptor, Epoll, Ready, ReadyLoop, Until, Visit, Written};
use pyrmq_store::Store;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What `ready_loop_serve` is to do.
#[repr(C)]
pub struct Serve {
    /// A time to note for the sessions that receive something.
    pub active: f64,
    /// No round begins later than this, ns of the monotonic clock.
    pub end_ns: i64,
    /// Where nothing is ready it waits so long, ns (Linux 5.11; else not at all).
    pub linger_ns: i64,
    /// No round begins: what is ready waits for the call with `finish`.
    pub hold: u8,
    /// Others keep answers as well: it ends when more may be confirmed.
    pub others_keep: u8,
    /// Serves the round that the last call left, and nothing else. What others have stored is
    /// written as well.
    pub finish: u8,
}

/// A session for which something is left to do. `rest` is valid until the next call.
#[repr(C)]
pub struct Left {
    /// The session's descriptor, or its index for `answer_sender_send`.
    pub key: i32,
    /// Of the last call of the session.
    pub status: i32,
    /// What its socket failed with, 0 if it did not.
    pub failed: i32,
    /// Its stream has ended or failed, and the session was not called.
    pub ended: u8,
    /// The session was called.
    pub called: u8,
    /// What its socket did not take, to be sent before anything else.
    pub rest: Bytes,
}

/// What a call of `ready_loop_serve` did. The lists are valid until the next call.
#[repr(C)]
pub struct Served {
    /// What is ready and not watched. If there is any, the round waits for the call with `finish`.
    pub others: *const Ready,
    pub n_others: usize,
    pub left: *const Left,
    pub n_left: usize,
    /// Sessions that are ready and wait for the call with `finish`.
    pub waiting: usize,
    /// Rounds that were served.
    pub rounds: u32,
    /// Status of the last write of the log; PYRMQ_FAILED: error_text has the text.
    pub written: i32,
    /// Nothing was ready.
    pub idle: u8,
    /// Queues may have grown that somebody watches.
    pub arrivals: u8,
    /// More may be confirmed: others who keep answers are to look.
    pub confirmed: u8,
}

/// A session, and its socket.
#[repr(C)]
pub struct Addressee {
    pub session: *mut c_void,
    pub fd: i32,
}

/// Sessions for which something is left to do.
#[repr(C)]
pub struct LeftList {
    pub left: *const Left,
    pub n_left: usize,
}

impl Left {
    fn of(visit: &Visit) -> Self {
        Left {
            key: visit.key,
            status: code_of(visit.status),
            failed: visit.errno,
            ended: visit.has_ended() as u8,
            called: visit.called as u8,
            rest: Bytes::of(&visit.rest),
        }
    }
}

/// A loop with what the C side may still read.
struct Loop {
    ready: ReadyLoop<Descriptor, Epoll, Arc<Store>>,
    visits: Vec<Visit>,
    left: Vec<Left>,
}

/// # Safety
/// `p` is what `ready_loop_new` gave and nobody else uses it now.
unsafe fn loop_of<'a>(p: *mut c_void) -> &'a mut Loop {
    assert!(!p.is_null(), "a loop that was never made");
    // SAFETY: the caller's promise.
    unsafe { &mut *p.cast::<Loop>() }
}

pub unsafe extern "C" fn ready_loop_new(
    epoll: i32,
    most: usize,
    receive: usize,
    store: *const c_void,
    timeout_ms: i64,
) -> *mut c_void {
    let made = catch_unwind(AssertUnwindSafe(|| {
        let store = store.cast::<Store>();
        let log = (!store.is_null()).then(|| {
            // SAFETY: `store` is `Store._ptr()` of a living Store, the address that its Arc gave.
            unsafe {
                Arc::increment_strong_count(store);
                Arc::from_raw(store)
            }
        });
        let made = Loop {
            ready: ReadyLoop::new(Epoll::new(epoll, most), receive, log, timeout_ms),
            visits: Vec::new(),
            left: Vec::new(),
        };
        Box::into_raw(Box::new(made)).cast::<c_void>()
    }));
    made.unwrap_or(std::ptr::null_mut())
}

pub unsafe extern "C" fn ready_loop_free(ready_loop: *mut c_void) {
    guarded(|| {
        // SAFETY: made by `ready_loop_new`; the caller forgets it with this call.
        drop(unsafe { Box::from_raw(ready_loop.cast::<Loop>()) });
        OK
    });
}

pub unsafe extern "C" fn ready_loop_watch(
    ready_loop: *mut c_void,
    session: *mut c_void,
    fd: i32,
) -> i32 {
    guarded(|| {
        // SAFETY: a loop and a session of ours.
        let (ready_loop, session) = unsafe { (loop_of(ready_loop), connected(session)) };
        let connection = session.connection.clone();
        match ready_loop.ready.watch(fd, Descriptor(fd), connection) {
            true => OK,
            false => NONE,
        }
    })
}

pub unsafe extern "C" fn ready_loop_forget(ready_loop: *mut c_void, fd: i32) {
    guarded(|| {
        // SAFETY: a loop of ours.
        unsafe { loop_of(ready_loop).ready.forget(fd) };
        OK
    });
}

pub unsafe extern "C" fn ready_loop_keep(ready_loop: *mut c_void, fd: i32) -> i32 {
    guarded(|| {
        // SAFETY: a loop of ours.
        match unsafe { loop_of(ready_loop).ready.keep(fd) } {
            true => OK,
            false => NONE,
        }
    })
}

pub unsafe extern "C" fn ready_loop_serve(
    ready_loop: *mut c_void,
    serve: *const Serve,
    result: *mut Served,
) -> i32 {
    guarded(|| {
        // SAFETY: a loop of ours; `serve` is readable.
        let (made, serve) = unsafe { (loop_of(ready_loop), &*serve) };
        let ready = &mut made.ready;
        let (served, has_round) = match serve.finish {
            0 => {
                let until = Until {
                    end_ns: serve.end_ns,
                    linger_ns: serve.linger_ns,
                    hold: serve.hold != 0,
                    others_keep: serve.others_keep != 0,
                };
                let served = ready.serve(until, serve.active);
                let has_round = !served.held;
                (served, has_round)
            }
            _ => (ready.finish(serve.active), true),
        };
        made.left.clear();
        made.visits.clear();
        if has_round {
            ready.take_left(&mut made.visits);
            made.left.extend(made.visits.iter().map(Left::of));
        }
        let written = match served.written {
            Written::Done => OK,
            Written::Panicked => PANIC,
            Written::Failed(why) => {
                ERROR.set(why);
                FAILED
            }
        };
        let others = match serve.finish {
            0 => ready.others(),
            _ => &[],
        };
        let report = Served {
            others: others.as_ptr(),
            n_others: others.len(),
            left: made.left.as_ptr(),
            n_left: made.left.len(),
            waiting: ready.waiting(),
            rounds: served.rounds,
            written,
            idle: served.idle as u8,
            arrivals: served.arrivals as u8,
            confirmed: served.confirmed as u8,
        };
        // SAFETY: the result is writable.
        unsafe { result.write(report) };
        OK
    })
}

/// An `AnswerSender` with what the C side may still read.
#[derive(Default)]
struct Sender {
    sender: AnswerSender,
    left: Vec<Left>,
}

pub unsafe extern "C" fn answer_sender_new() -> *mut c_void {
    let made = catch_unwind(|| Box::into_raw(Box::<Sender>::default()).cast::<c_void>());
    made.unwrap_or(std::ptr::null_mut())
}

pub unsafe extern "C" fn answer_sender_free(sender: *mut c_void) {
    guarded(|| {
        // SAFETY: made by `answer_sender_new`; the caller forgets it with this call.
        drop(unsafe { Box::from_raw(sender.cast::<Sender>()) });
        OK
    });
}

pub unsafe extern "C" fn answer_sender_send(
    sender: *mut c_void,
    to: *const Addressee,
    n: usize,
    now_ms: i64,
    timeout_ms: i64,
    result: *mut LeftList,
) -> i32 {
    guarded(|| {
        // SAFETY: a sender of ours that nobody else uses now; `n` readable addressees, each with a
        // session of ours.
        let (made, to) = unsafe { (&mut *sender.cast::<Sender>(), slice(to, n)) };
        let connections = to.iter().map(|one| {
            // SAFETY: as above; the session lives as long as this call.
            let session = unsafe { connected(one.session) };
            (&*session.connection, Descriptor(one.fd))
        });
        let left = made.sender.send(connections, now_ms, timeout_ms);
        made.left.clear();
        made.left.extend(left.iter().map(Left::of));
        let report = LeftList {
            left: made.left.as_ptr(),
            n_left: made.left.len(),
        };
        // SAFETY: the result is writable.
        unsafe { result.write(report) };
        OK
    })
}
