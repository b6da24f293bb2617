//! The plain bytes of a connection: on the socket as they are, or under a cover such as TLS.
//!
//! What is sent under a cover is sealed in pieces of `PIECE` bytes at most; a piece has to leave before
//! the next one is sealed. So a connection keeps a bounded amount, however slow its peer is.

use super::socket::Socket;
use crate::now_ms;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;

/// Most plain bytes that are sealed at a time.
const PIECE: usize = 256 << 10;
/// Most bytes that are read from the socket at a time.
const READ: usize = 1 << 20;
/// The same of a master, whose slaves say little.
pub const READ_LITTLE: usize = 4096;
/// Sealed bytes that may wait for what follows them.
const LITTLE: usize = 1024;
/// ms that a handshake may take.
pub const HANDSHAKE: i64 = 10_000;
/// ms in which a peer that is refused may read why.
const FAREWELL: i64 = 1000;

/// What lies between the socket and the plain bytes, such as TLS. Errors end the connection; what `seal`
/// gives out after one is still sent.
pub trait Cover: Send {
    /// Opens what was received, which is overwritten, and appends what it carried to `plain`.
    fn open(&mut self, received: &mut [u8], plain: &mut Vec<u8>)
    -> std::result::Result<(), String>;
    /// Appends what the cover has to send itself, then `plain`, to `out`. `plain` is empty until
    /// `is_ready`.
    fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), String>;
    /// The handshake is done.
    fn is_ready(&self) -> bool;
    /// The peer has said that it sends nothing more.
    fn is_closed(&self) -> bool;
    /// Appends what says that nothing more is sent.
    fn close(&mut self, out: &mut Vec<u8>);
}

/// What a connection gets whose first byte this is: a cover, or none. The error says why it is refused.
pub type Doorman = dyn Fn(u8) -> std::result::Result<Option<Box<dyn Cover>>, String> + Send + Sync;

enum Kind<'d> {
    Plain,
    /// The first byte decides.
    Undecided(&'d Doorman),
    Covered(Box<dyn Cover>),
}

pub struct Channel<'d> {
    socket: Socket,
    kind: Kind<'d>,
    received: Vec<u8>,
    /// What was opened.
    plain: Vec<u8>,
    /// What was read of the log's file.
    piece: Vec<u8>,
    /// What is sealed, and how much of it is sent.
    out: Vec<u8>,
    out_done: usize,
    /// When the handshake began.
    began: i64,
    /// This side ends it, for what the peer said.
    is_refused: bool,
    read_at_once: usize,
}

impl<'d> Channel<'d> {
    fn new(socket: Socket, kind: Kind<'d>, read_at_once: usize) -> Self {
        Channel {
            socket,
            kind,
            received: Vec::new(),
            plain: Vec::new(),
            piece: Vec::new(),
            out: Vec::new(),
            out_done: 0,
            began: now_ms(),
            is_refused: false,
            read_at_once,
        }
    }

    /// Of a master: the slave begins.
    pub fn answering(socket: Socket, doorman: Option<&'d Doorman>) -> Self {
        let kind = doorman.map_or(Kind::Plain, Kind::Undecided);
        Channel::new(socket, kind, READ_LITTLE)
    }

    /// Of a slave.
    pub fn calling(socket: Socket, cover: Option<Box<dyn Cover>>) -> Self {
        let kind = cover.map_or(Kind::Plain, Kind::Covered);
        Channel::new(socket, kind, READ)
    }

    fn is_shaking(&self) -> bool {
        matches!(&self.kind, Kind::Covered(cover) if !cover.is_ready())
    }

    /// What has arrived now. None: nothing. An error, too, where the peer has closed.
    pub fn read(&mut self) -> Result<Option<&[u8]>> {
        self.received.resize(self.read_at_once, 0);
        let found = self.socket.read(&mut self.received);
        let Some(n) = found.map_err(|e| self.lost(e))? else {
            self.flush()?;
            return Ok(None);
        };
        if let Kind::Undecided(doorman) = &self.kind {
            self.began = now_ms();
            let decided = doorman(self.received[0]);
            self.is_refused = decided.is_err();
            self.kind = match decided.map_err(Error::other)? {
                Some(cover) => Kind::Covered(cover),
                None => Kind::Plain,
            };
        }
        let Kind::Covered(cover) = &mut self.kind else {
            return Ok(Some(&self.received[..n]));
        };
        self.plain.clear();
        let opened = cover.open(&mut self.received[..n], &mut self.plain);
        let is_closed = cover.is_closed();
        self.is_refused = opened.is_err();
        self.flush()?;
        opened.map_err(Error::other)?;
        match self.plain.is_empty() {
            true if is_closed => Err(Error::new(ErrorKind::UnexpectedEof, "the peer closed it")),
            true => Ok(None),
            false => Ok(Some(&self.plain)),
        }
    }

    /// As if the handshake had begun so many ms earlier.
    #[cfg(test)]
    pub fn age(&mut self, ms: i64) {
        self.began -= ms;
    }

    /// Bytes that are kept of what was sealed.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        self.out.len() + self.piece.len()
    }

    /// Whether the bytes of the socket are covered.
    pub fn is_covered(&self) -> bool {
        matches!(self.kind, Kind::Covered(_))
    }

    fn lost(&self, error: Error) -> Error {
        match self.is_shaking() {
            true => Error::new(error.kind(), format!("in the TLS handshake: {error}")),
            false => error,
        }
    }

    /// Sends what is sealed, and what the cover has to say. True: all of it is sent.
    fn flush(&mut self) -> Result<bool> {
        let Kind::Covered(cover) = &mut self.kind else {
            return Ok(true);
        };
        self.out.drain(..self.out_done);
        self.out_done = 0;
        // Only records of TLS itself, of which rustls queues few.
        cover.seal(&[], &mut self.out).map_err(Error::other)?;
        while self.out_done < self.out.len() {
            let rest = &self.out[self.out_done..];
            match self.socket.write(rest, false).map_err(|e| self.lost(e))? {
                Some(n) => self.out_done += n,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Whether a piece may be sealed: the one before is gone, but for a few bytes.
    fn has_room(&mut self) -> Result<bool> {
        if self.is_shaking() {
            self.flush()?; // its own records: who calls says the first one
            return Ok(false);
        }
        Ok(self.out.len() - self.out_done <= LITTLE || self.flush()?)
    }

    /// Seals what may be sent now; `more`: something follows soon, which takes it along. None: nothing
    /// may.
    fn seal(&mut self, bytes: &[u8], more: bool) -> Result<Option<usize>> {
        if !self.has_room()? {
            return Ok(None);
        }
        let Kind::Covered(cover) = &mut self.kind else {
            return Ok(None);
        };
        let n = bytes.len().min(PIECE);
        cover
            .seal(&bytes[..n], &mut self.out)
            .map_err(Error::other)?;
        if !more {
            self.flush()?;
        }
        Ok(Some(n))
    }

    /// Sends what it takes of `bytes`; `more`: something follows. None: nothing now.
    pub fn write(&mut self, bytes: &[u8], more: bool) -> Result<Option<usize>> {
        match self.kind {
            Kind::Covered(_) => self.seal(bytes, more),
            _ => self.socket.write(bytes, more),
        }
    }

    /// Sends what it takes of `len` bytes of a file, from `at` on. None: nothing now.
    pub fn send_file(&mut self, file: &File, at: u64, len: usize) -> Result<Option<usize>> {
        if !matches!(self.kind, Kind::Covered(_)) {
            return self.socket.send_file(file, at, len);
        }
        if !self.has_room()? {
            return Ok(None);
        }
        let len = len.min(PIECE);
        let mut piece = std::mem::take(&mut self.piece);
        piece.resize(piece.len().max(len), 0);
        let sealed = file
            .read_exact_at(&mut piece[..len], at)
            .and_then(|()| self.seal(&piece[..len], false));
        self.piece = piece;
        sealed
    }

    /// Waits until there may be something to read, or room to write if `write` says so, or `event` can
    /// be read; no longer than `timeout` ms. Whether `event` can be read. An error, too, where a
    /// handshake takes too long.
    pub fn wait(&self, write: bool, event: BorrowedFd<'_>, timeout: i64) -> Result<bool> {
        let Kind::Covered(cover) = &self.kind else {
            return self.socket.wait(write, event, timeout);
        };
        let has_out = self.out_done < self.out.len();
        if cover.is_ready() {
            return self.socket.wait(write || has_out, event, timeout);
        }
        let left = self.began + HANDSHAKE - now_ms();
        if left <= 0 {
            let why = format!("the TLS handshake did not end in {} s", HANDSHAKE / 1000);
            return Err(Error::new(ErrorKind::TimedOut, why));
        }
        self.socket.wait(has_out, event, timeout.min(left))
    }

    /// Says that nothing more is sent. A peer that is refused gets time to read why, unless `event` can
    /// be read.
    pub fn part(mut self, event: BorrowedFd<'_>) {
        if let Kind::Covered(cover) = &mut self.kind {
            cover.close(&mut self.out);
        }
        // The peer may be gone: nothing is owed to it.
        if !matches!(self.flush(), Ok(true)) || !self.is_refused {
            return;
        }
        self.socket.end_sending();
        // To close a socket with bytes that were not read tells the peer nothing but a reset.
        let until = now_ms() + FAREWELL;
        while let left @ 1.. = until - now_ms() {
            match self.socket.read(&mut self.received) {
                Err(_) => return,
                Ok(Some(_)) => {}
                Ok(None) => match self.socket.wait(false, event, left) {
                    Ok(false) => {}
                    _ => return,
                },
            }
        }
    }
}
