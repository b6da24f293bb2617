//! A session with what belongs to its socket, for one thread at a time.

use super::buffers::{PLAIN, SEALED, lent};
use super::report::Report;
use super::socket::{Socket, errno_unless_later};
use super::transform::Transform;
use parking_lot::{Mutex, MutexGuard};
use pyrmq_broker::wire::{Session, WireError};
use pyrmq_store::monotonic_us;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// How a call of a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    /// The peer broke the protocol: `Connection::error` says how. What was put out is to be sent,
    /// then the connection is to be closed.
    Broken,
    /// A bug: the call did not end, and the session is of no use any more.
    Panicked,
}

/// What receiving once gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes, which the session took.
    Fed(usize, Status),
    Nothing,
    End,
    /// The errno.
    Failed(i32),
}

/// What a ready loop knows of the time, µs of the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub now: i64,
    /// How long what is received now was ready before.
    pub waited: i64,
}

/// Plain bytes to be sent.
pub struct Piece<'p> {
    pub bytes: &'p [u8],
    /// They are a part of a mapped file.
    pub mapped: bool,
}

/// Bytes that are sealed and sent at a time.
const CHUNK: usize = 64 << 10;

struct Inner {
    session: Session,
    transform: Transform,
    error: String,
}

/// A connection without its socket. Calls of several threads wait for each other.
pub struct Connection {
    report: Report,
    /// The bits of an f64.
    active: AtomicU64,
    inner: Mutex<Inner>,
}

fn note(report: &Report, session: &Session, is_plain: bool) {
    let store = session.context().map(|c| c.broker.store());
    let (commands, unconfirmed) = (session.commands(), session.unconfirmed());
    report.commands.store(commands as u32, Ordering::Relaxed);
    report
        .unconfirmed
        .store(unconfirmed as u32, Ordering::Relaxed);
    report.set_flags([
        (&report.full, session.is_full()),
        (&report.more, session.has_more()),
        (&report.arrivals, store.is_some_and(|s| s.has_arrivals())),
        // Only plain bytes can be received to where a session keeps them.
        (&report.large, is_plain && session.wants_space()),
        (&report.heavy, session.is_heavy()),
    ]);
}

impl Connection {
    pub fn new(session: Session) -> Self {
        Connection::with(session, Transform::Plain)
    }

    pub fn with(session: Session, transform: Transform) -> Self {
        Connection {
            report: Report::default(),
            active: AtomicU64::new(0),
            inner: Mutex::new(Inner {
                session,
                transform,
                error: String::new(),
            }),
        }
    }

    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The time that the last `note_active` noted; 0 before.
    pub fn active(&self) -> f64 {
        f64::from_bits(self.active.load(Ordering::Relaxed))
    }

    pub fn note_active(&self, time: f64) {
        self.active.store(time.to_bits(), Ordering::Relaxed);
    }

    /// How the peer broke the protocol.
    pub fn error(&self) -> String {
        self.inner.lock().error.clone()
    }

    /// The connection for several calls in a row.
    pub(super) fn lock(&self) -> Locked<'_> {
        Locked {
            report: &self.report,
            inner: self.inner.lock(),
        }
    }

    /// Runs one call of the session, which appends what is to be sent to `out`, and reports.
    pub fn step(
        &self,
        out: &mut Vec<u8>,
        work: impl FnOnce(&mut Session, &mut Vec<u8>) -> Result<(), WireError>,
    ) -> Status {
        let mut locked = self.lock();
        let status = locked.step(out, work);
        locked.settle();
        status
    }

    /// Uses the session for what changes no more than the number of its commands.
    pub fn with_session<T>(&self, work: impl FnOnce(&mut Session) -> T) -> T {
        let mut inner = self.inner.lock();
        let done = work(&mut inner.session);
        let commands = inner.session.commands() as u32;
        self.report.commands.store(commands, Ordering::Relaxed);
        done
    }

    /// Receives once into `buffer` and feeds the session with it. `defer_write`: as for
    /// `Session::feed_one_of`.
    pub fn receive(
        &self,
        socket: &impl Socket,
        buffer: &mut [u8],
        now_ms: i64,
        defer_write: bool,
        out: &mut Vec<u8>,
    ) -> Received {
        let mut locked = self.lock();
        let received = locked.receive(socket, buffer, now_ms, defer_write, out);
        locked.settle();
        received
    }

    /// Enters what was answered at once, at the end of a round.
    pub(super) fn settle_at(&self, now: i64) {
        self.lock().inner.session.settle(now);
    }

    /// Sends plain bytes, in records where the connection has them. Returns how many bytes were taken:
    /// those that were sent, and those whose records are appended to `rest`, which is to be sent before
    /// anything else. What TLS itself has to say goes in front.
    pub fn send_pieces<'p>(
        &self,
        socket: &impl Socket,
        pieces: impl Iterator<Item = Piece<'p>>,
        rest: &mut Vec<u8>,
    ) -> io::Result<usize> {
        lent(&PLAIN, |gathered| {
            self.lock().send_pieces(socket, pieces, gathered, rest)
        })
    }

    /// Says that nothing more is sent (TLS), as far as the socket takes it.
    pub fn send_close(&self, socket: &impl Socket) {
        lent(&SEALED, |space| {
            let mut connection = self.lock();
            let last = connection.inner.transform.close(space);
            if !last.is_empty() {
                let _ = socket.send(last); // the connection ends with or without it
            }
        });
    }

    /// Puts out the answers that need not wait any longer.
    pub fn release(&self, now_ms: i64, timeout_ms: i64, out: &mut Vec<u8>) -> Status {
        self.lock().release(now_ms, timeout_ms, out)
    }
}

/// A connection that nobody else uses meanwhile.
pub(super) struct Locked<'c> {
    report: &'c Report,
    inner: MutexGuard<'c, Inner>,
}

impl Locked<'_> {
    pub fn set_clock(&mut self, at: Moment) {
        self.inner.session.set_clock(at.now, at.waited);
    }

    /// Whether `settle_at` has something to enter.
    pub fn is_to_settle(&self) -> bool {
        self.inner.session.is_to_settle()
    }

    /// Enters what was answered at once.
    fn settle(&mut self) {
        if self.is_to_settle() {
            self.inner.session.settle(monotonic_us());
        }
    }

    fn step(
        &mut self,
        out: &mut Vec<u8>,
        work: impl FnOnce(&mut Session, &mut Vec<u8>) -> Result<(), WireError>,
    ) -> Status {
        let is_plain = self.inner.transform.is_plain();
        let session = &mut self.inner.session;
        // A session that panicked is not used again: whoever gets `Panicked` closes the connection.
        let Some(done) = caught(|| work(session, out)) else {
            return Status::Panicked;
        };
        note(self.report, session, is_plain);
        match done {
            Ok(()) => Status::Ok,
            Err(e) => {
                self.inner.error = e.to_string();
                Status::Broken
            }
        }
    }

    pub fn receive(
        &mut self,
        socket: &impl Socket,
        buffer: &mut [u8],
        now_ms: i64,
        defer_write: bool,
        out: &mut Vec<u8>,
    ) -> Received {
        let n = match socket.receive(buffer) {
            Ok(0) => return Received::End,
            Ok(n) => n,
            Err(e) => return errno_unless_later(&e).map_or(Received::Nothing, Received::Failed),
        };
        let received = &mut buffer[..n];
        let status = match self.inner.transform {
            Transform::Plain => self.feed(received, now_ms, defer_write, out),
            _ => lent(&PLAIN, |space| {
                self.open(received, space, now_ms, defer_write, out)
            }),
        };
        Received::Fed(n, status)
    }

    fn feed(&mut self, plain: &[u8], now_ms: i64, defer_write: bool, out: &mut Vec<u8>) -> Status {
        self.step(out, |session, out| {
            session.feed_one_of(plain, now_ms, defer_write, out)
        })
    }

    /// Opens what was received, and feeds the session with what it carried.
    fn open(
        &mut self,
        received: &mut [u8],
        space: &mut Vec<u8>,
        now_ms: i64,
        defer_write: bool,
        out: &mut Vec<u8>,
    ) -> Status {
        let transform = &mut self.inner.transform;
        let Some((plain, opened)) = caught(|| transform.open(received, space)) else {
            return Status::Panicked;
        };
        let fed = self.feed(plain, now_ms, defer_write, out);
        self.note_tls();
        match (fed, opened) {
            (Status::Ok, Err(why)) => {
                self.inner.error = why;
                Status::Broken
            }
            (fed, _) => fed,
        }
    }

    fn note_tls(&self) {
        let (report, transform) = (self.report, &self.inner.transform);
        report.tls.store(transform.state() as u8, Ordering::Relaxed);
        let pending = transform.has_pending();
        report.pending.store(pending as u8, Ordering::Relaxed);
    }

    /// Whether something is to be sent though the session says nothing.
    pub fn has_pending(&self) -> bool {
        self.inner.transform.has_pending()
    }

    fn send_pieces<'p>(
        &mut self,
        socket: &impl Socket,
        pieces: impl Iterator<Item = Piece<'p>>,
        gathered: &mut Vec<u8>,
        rest: &mut Vec<u8>,
    ) -> io::Result<usize> {
        let mut taken = 0;
        for Piece { mut bytes, mapped } in pieces {
            while !bytes.is_empty() {
                let n = bytes.len().min(CHUNK - gathered.len());
                let (now, later) = bytes.split_at(n);
                if mapped {
                    socket.bring(now)?;
                }
                bytes = later;
                let chunk = match gathered.is_empty() && n == CHUNK {
                    true => now,
                    false => {
                        gathered.extend_from_slice(now);
                        &gathered[..]
                    }
                };
                if chunk.len() == CHUNK {
                    self.send(socket, chunk, false, rest)?;
                    taken += CHUNK;
                    gathered.clear();
                    if !rest.is_empty() {
                        return Ok(taken);
                    }
                }
            }
        }
        self.send(socket, gathered, false, rest)?;
        Ok(taken + gathered.len())
    }

    pub fn release(&mut self, now_ms: i64, timeout_ms: i64, out: &mut Vec<u8>) -> Status {
        self.step(out, |session, out| {
            session.release(now_ms, timeout_ms, out);
            Ok(())
        })
    }

    /// Seals `plain` and sends it once, unless something `waits` to be sent already. Appends what
    /// the socket does not take to `rest`, which is to be sent before anything else.
    pub fn send(
        &mut self,
        socket: &impl Socket,
        plain: &[u8],
        waits: bool,
        rest: &mut Vec<u8>,
    ) -> io::Result<()> {
        match self.inner.transform {
            Transform::Plain => send(socket, plain, waits, rest),
            _ => lent(&SEALED, |space| {
                self.seal(socket, plain, space, waits, rest)
            }),
        }
    }

    fn seal(
        &mut self,
        socket: &impl Socket,
        plain: &[u8],
        space: &mut Vec<u8>,
        waits: bool,
        rest: &mut Vec<u8>,
    ) -> io::Result<()> {
        let sealed = self.inner.transform.seal(plain, space);
        self.note_tls();
        match sealed {
            Ok([]) => Ok(()),
            Ok(sealed) => send(socket, sealed, waits, rest),
            Err(_) => Err(io::Error::from_raw_os_error(libc::ENOTCONN)),
        }
    }
}

/// None: it panicked.
fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

fn send(socket: &impl Socket, sealed: &[u8], waits: bool, rest: &mut Vec<u8>) -> io::Result<()> {
    let sent = match waits {
        true => 0,
        false => match socket.send(sealed) {
            Ok(n) => n,
            Err(e) if errno_unless_later(&e).is_none() => 0,
            Err(e) => return Err(e),
        },
    };
    let left = &sealed[sent.min(sealed.len())..];
    if !left.is_empty() {
        rest.try_reserve(left.len())
            .map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
        rest.extend_from_slice(left);
    }
    Ok(())
}
