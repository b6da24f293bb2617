//! The table itself.
#![allow(clippy::type_complexity)]

use super::border::{Bytes, ERROR, OK, guarded};
use super::ready_loop::{
    Addressee, LeftList, Serve, Served, answer_sender_free, answer_sender_new, answer_sender_send,
    ready_loop_forget, ready_loop_free, ready_loop_keep, ready_loop_new, ready_loop_serve,
    ready_loop_watch,
};
use super::session::{
    CommandOut, PieceIn, ReceivedOut, SentOut, session_active, session_answer, session_command,
    session_error, session_ext, session_feed, session_filled, session_free, session_give_up,
    session_grant_access, session_grant_pull, session_new, session_receive, session_release,
    session_report, session_resend, session_send, session_send_close, session_send_released,
    session_space,
};
use super::store::{
    ChunkOut, GetOut, chunk_release, scan_tags, store_get, store_notify_on_arrival, store_stall,
    store_write_staged,
};
use pyrmq_server::Report;
use std::ffi::{CStr, c_void};

/// Changes whenever what stands in this header does.
pub const ABI_VERSION: u32 = 10;
/// Ext fields by which pulls are told apart: `ALIKE` in wire/pull.rs.
pub const N_ALIKE: usize = 7;
const _: () = assert!(N_ALIKE == pyrmq_broker::wire::pull::ALIKE.len());

/// Name of the PyCapsule that holds the table.
pub const NAME: &CStr = c"pyrmq._native._C_API";

unsafe extern "C" fn error_text(text: *mut Bytes) -> i32 {
    guarded(|| {
        // SAFETY: the result is writable; the text stays until the next failure on this thread.
        ERROR.with_borrow(|e| unsafe { text.write(Bytes::of(e.as_bytes())) });
        OK
    })
}

/// The entries. All of them may be called without the GIL. A session, a loop and a sender are each
/// used by one thread at a time; the sessions that a loop watches by nobody while it serves.
#[repr(C)]
pub struct Table {
    pub abi_version: u32,
    pub struct_size: u32,
    /// `ip`: 4 or 16 bytes. NULL if it has others.
    pub session_new: unsafe extern "C" fn(
        listener: *const c_void,
        ip: *const u8,
        ip_len: usize,
        port: u16,
    ) -> *mut c_void,
    pub session_free: unsafe extern "C" fn(session: *mut c_void),
    /// What the last call of the session reported, as long as the session lives. It changes with
    /// every call.
    pub session_report: unsafe extern "C" fn(session: *mut c_void) -> *const Report,
    /// When a loop received something from it last; see `ready_loop_serve`.
    pub session_active: unsafe extern "C" fn(session: *mut c_void) -> f64,
    /// What is put `out` is valid until the next call on the same thread, here and below.
    /// `defer_write`: others are fed next. What is stored stays staged, and its answers are kept
    /// until store_write_staged and then session_release have been called.
    pub session_feed: unsafe extern "C" fn(
        session: *mut c_void,
        data: *const u8,
        len: usize,
        now_ms: i64,
        defer_write: i32,
        out: *mut Bytes,
    ) -> i32,
    /// Receives once from a socket that does not block, and feeds what came.
    pub session_receive: unsafe extern "C" fn(
        session: *mut c_void,
        fd: i32,
        place: *mut u8,
        len: usize,
        now_ms: i64,
        defer_write: i32,
        out: *mut ReceivedOut,
    ) -> i32,
    /// A send again after a decision. `topic` (may be empty) and `dead`: it goes back to a group, to
    /// this retry topic or dead-letter topic. `since_us`: of its command.
    pub session_resend: unsafe extern "C" fn(
        session: *mut c_void,
        frame: *const u8,
        len: usize,
        topic: *const u8,
        topic_len: usize,
        dead: i32,
        since_us: i64,
        now_ms: i64,
        out: *mut Bytes,
    ) -> i32,
    /// An encoded answer of code 0 that counts once the log is confirmed up to `log_end`. `code` and
    /// `since_us`: of the request, 0 for now; `long_polling`: it has waited for messages.
    pub session_answer: unsafe extern "C" fn(
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
        out: *mut Bytes,
    ) -> i32,
    /// The answers that were kept and need not wait any longer.
    pub session_release: unsafe extern "C" fn(
        session: *mut c_void,
        now_ms: i64,
        timeout_ms: i64,
        out: *mut Bytes,
    ) -> i32,
    /// The same, and sends them once to a socket that does not block.
    pub session_send_released: unsafe extern "C" fn(
        session: *mut c_void,
        fd: i32,
        now_ms: i64,
        timeout_ms: i64,
        out: *mut SentOut,
    ) -> i32,
    /// Seals pieces of plain bytes and sends them to a socket that does not block, until it takes no
    /// more. What TLS itself has to say goes in front; there may be no pieces.
    pub session_send: unsafe extern "C" fn(
        session: *mut c_void,
        fd: i32,
        pieces: *const PieceIn,
        n: usize,
        out: *mut SentOut,
    ) -> i32,
    /// Says that nothing more is sent (TLS), as far as the socket takes it.
    pub session_send_close: unsafe extern "C" fn(session: *mut c_void, fd: i32),
    pub session_command: unsafe extern "C" fn(session: *mut c_void, out: *mut CommandOut) -> i32,
    pub session_ext: unsafe extern "C" fn(
        session: *mut c_void,
        index: u32,
        name: *mut Bytes,
        value: *mut Bytes,
    ) -> i32,
    pub session_error: unsafe extern "C" fn(session: *mut c_void, text: *mut Bytes) -> i32,
    /// A place for the rest of a large frame, until session_filled.
    pub session_space:
        unsafe extern "C" fn(session: *mut c_void, ptr: *mut *mut u8, len: *mut usize) -> i32,
    pub session_filled: unsafe extern "C" fn(session: *mut c_void, room: usize, n: usize),
    /// Pulls with this code and these fields (PYRMQ_N_ALIKE of them; a null pointer: no such field)
    /// are answered in session_feed from now on, until PullGrants.revoke. `tags`: codes to select by.
    /// `subject`: with access control, who has to have signed them; a null pointer: none are answered.
    pub session_grant_pull: unsafe extern "C" fn(
        session: *mut c_void,
        code: i32,
        alike: *const Bytes,
        topic: Bytes,
        group: Bytes,
        queue_id: u32,
        tags: *const i32,
        n_tags: usize,
        subject: Bytes,
    ) -> i32,
    /// Until the keyring is changed or revoked, what `subject` has signed may do this to `resource`.
    /// PYRMQ_NONE without access control.
    pub session_grant_access: unsafe extern "C" fn(
        session: *mut c_void,
        rights: u8,
        subject: Bytes,
        resource: Bytes,
    ) -> i32,
    /// Gives back the memory of an unfinished frame. The connection is of no use then.
    pub session_give_up: unsafe extern "C" fn(session: *mut c_void),
    /// `epoll`: an epoll whose data are descriptors; `most`: sessions of one round at most; `receive`:
    /// bytes that are received from each of them in one; `store`: what they store to, or NULL.
    pub ready_loop_new: unsafe extern "C" fn(
        epoll: i32,
        most: usize,
        receive: usize,
        store: *const c_void,
        timeout_ms: i64,
    ) -> *mut c_void,
    pub ready_loop_free: unsafe extern "C" fn(ready_loop: *mut c_void),
    /// Serves a session from now on. PYRMQ_NONE if the descriptor cannot be watched, or is already.
    pub ready_loop_watch:
        unsafe extern "C" fn(ready_loop: *mut c_void, session: *mut c_void, fd: i32) -> i32,
    pub ready_loop_forget: unsafe extern "C" fn(ready_loop: *mut c_void, fd: i32),
    /// Sends the answers that a watched session keeps once they are confirmed. PYRMQ_NONE if that is
    /// left to others: it is not watched, or stores nothing, or what is written is confirmed.
    pub ready_loop_keep: unsafe extern "C" fn(ready_loop: *mut c_void, fd: i32) -> i32,
    /// For all sessions that are ready: receives, feeds, writes what they stored and sends what they
    /// answer; round after round, until something is left to do.
    pub ready_loop_serve:
        unsafe extern "C" fn(ready_loop: *mut c_void, serve: *const Serve, out: *mut Served) -> i32,
    pub answer_sender_new: unsafe extern "C" fn() -> *mut c_void,
    pub answer_sender_free: unsafe extern "C" fn(sender: *mut c_void),
    /// As session_send_released, for many sessions.
    pub answer_sender_send: unsafe extern "C" fn(
        sender: *mut c_void,
        to: *const Addressee,
        n: usize,
        now_ms: i64,
        timeout_ms: i64,
        out: *mut LeftList,
    ) -> i32,
    /// `sql`: a compiled SQL92 expression that properties have to satisfy, or NULL. Without `wait`
    /// what is found before the first place that is not in memory is given.
    pub store_get: unsafe extern "C" fn(
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
        out: *mut GetOut,
        chunks: *mut ChunkOut,
        n_chunks: usize,
    ) -> i32,
    /// Writes what is staged into the commit log and dispatches it. `arrivals`: as in pyrmq_report.
    pub store_write_staged: unsafe extern "C" fn(store: *const c_void, arrivals: *mut u8) -> i32,
    /// 0; 1: the disk is slow, a write may take long; 2: one takes longer than
    /// osPageCacheBusyTimeOutMills, messages are refused (SYSTEM_BUSY).
    pub store_stall: unsafe extern "C" fn(store: *const c_void) -> i32,
    /// Asks that the queue's next message be reported as an arrival, once.
    pub store_notify_on_arrival: unsafe extern "C" fn(
        store: *const c_void,
        topic: *const u8,
        topic_len: usize,
        queue_id: u32,
    ) -> i32,
    pub chunk_release: unsafe extern "C" fn(segment: *const c_void),
    /// Positions of the 20-byte entries whose tag hash is one of `tags`, and how many there are.
    pub scan_tags: unsafe extern "C" fn(
        entries: *const u8,
        len: usize,
        tags: *const i32,
        n_tags: usize,
        out: *mut u32,
        n_out: usize,
    ) -> usize,
    /// Of the last PYRMQ_FAILED or PYRMQ_UNREADABLE on this thread.
    pub error_text: unsafe extern "C" fn(text: *mut Bytes) -> i32,
}

pub static TABLE: Table = Table {
    abi_version: ABI_VERSION,
    struct_size: size_of::<Table>() as u32,
    session_new,
    session_free,
    session_report,
    session_active,
    session_feed,
    session_receive,
    session_resend,
    session_answer,
    session_release,
    session_send_released,
    session_send,
    session_send_close,
    session_command,
    session_ext,
    session_error,
    session_space,
    session_filled,
    session_grant_pull,
    session_grant_access,
    session_give_up,
    ready_loop_new,
    ready_loop_free,
    ready_loop_watch,
    ready_loop_forget,
    ready_loop_keep,
    ready_loop_serve,
    answer_sender_new,
    answer_sender_free,
    answer_sender_send,
    store_get,
    store_write_staged,
    store_stall,
    store_notify_on_arrival,
    chunk_release,
    scan_tags,
    error_text,
};
