//! What one round, or one release, did with one connection.

use super::buffers::clear_out;
use super::connection::{Connection, Locked, Moment, Received, Status};
use super::socket::{Socket, errno_unless_later};

/// What became of one connection, and what is left to do for it.
#[derive(Debug)]
pub struct Visit {
    /// Of the connection: its descriptor in a `ReadyLoop`, its index in an `AnswerSender`.
    pub key: i32,
    /// Of the last call of the session; Ok if there was none.
    pub status: Status,
    /// The session was called: its report is of this visit.
    pub called: bool,
    /// The stream has ended.
    end: bool,
    /// What the socket failed with; 0: it did not.
    pub errno: i32,
    /// What the socket did not take.
    pub rest: Vec<u8>,
    /// The loop itself sends the answers that the session keeps.
    pub(super) kept: bool,
    /// Something was answered that the loop has entered at the end of the round.
    pub(super) is_to_settle: bool,
}

impl Visit {
    pub fn new(key: i32) -> Self {
        Visit {
            key,
            status: Status::Ok,
            called: false,
            end: false,
            errno: 0,
            rest: Vec::new(),
            kept: false,
            is_to_settle: false,
        }
    }

    /// Nothing came and nothing will: the peer has closed its side, or receiving failed.
    pub fn has_ended(&self) -> bool {
        !self.called && (self.end || self.errno != 0)
    }

    /// Whether something is left to do for the connection that is not done here.
    pub fn is_left(&self, connection: &Connection) -> bool {
        let report = connection.report();
        self.has_failed_or_rest()
            || match self.called {
                true => report.needs_others() || (report.unconfirmed() != 0 && !self.kept),
                false => self.end,
            }
    }

    /// Whether others have to send the rest, or to end the connection.
    pub(super) fn has_failed_or_rest(&self) -> bool {
        self.errno != 0 || !self.rest.is_empty() || self.status != Status::Ok
    }

    /// Receives once, feeds the session and sends what it answers at once.
    pub(super) fn receive(
        &mut self,
        connection: &Connection,
        socket: &impl Socket,
        buffer: &mut [u8],
        at: Moment,
        defer_write: bool,
        out: &mut Vec<u8>,
    ) {
        clear_out(out);
        let mut connection = connection.lock();
        connection.set_clock(at);
        match connection.receive(socket, buffer, at.now / 1000, defer_write, out) {
            Received::Nothing => {}
            Received::End => self.end = true,
            Received::Failed(errno) => self.errno = errno,
            Received::Fed(_, status) => {
                (self.called, self.status) = (true, status);
                self.is_to_settle = connection.is_to_settle();
                if status != Status::Panicked {
                    self.send(&mut connection, socket, out);
                }
            }
        }
    }

    /// Sends the answers of the session that need not wait any longer.
    pub fn release(
        &mut self,
        connection: &Connection,
        socket: &impl Socket,
        now_ms: i64,
        timeout_ms: i64,
        out: &mut Vec<u8>,
    ) {
        self.release_with(connection.lock(), socket, now_ms, timeout_ms, out);
    }

    /// The same, of a loop that knows the time in µs.
    pub(super) fn release_at(
        &mut self,
        connection: &Connection,
        socket: &impl Socket,
        now: i64,
        timeout_ms: i64,
        out: &mut Vec<u8>,
    ) {
        let mut connection = connection.lock();
        connection.set_clock(Moment { now, waited: 0 });
        self.release_with(connection, socket, now / 1000, timeout_ms, out);
    }

    fn release_with(
        &mut self,
        mut connection: Locked<'_>,
        socket: &impl Socket,
        now_ms: i64,
        timeout_ms: i64,
        out: &mut Vec<u8>,
    ) {
        clear_out(out);
        self.called = true;
        self.status = connection.release(now_ms, timeout_ms, out);
        if self.status == Status::Ok {
            self.send(&mut connection, socket, out);
        }
    }

    fn send(&mut self, connection: &mut Locked<'_>, socket: &impl Socket, out: &[u8]) {
        if (out.is_empty() && !connection.has_pending()) || self.errno != 0 {
            return;
        }
        let waits = !self.rest.is_empty();
        if let Err(e) = connection.send(socket, out, waits, &mut self.rest) {
            self.errno = errno_unless_later(&e).unwrap_or(libc::EIO);
        }
    }
}
