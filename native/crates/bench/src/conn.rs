//! One connection: its socket that never waits, and its two buffers.

use crate::config::Tls;
use crate::frame;
use pyrmq_tls::ClientStream;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

const BUFFER: usize = 64 << 10;
/// More output than this waits for the socket before anything is added.
const MOST_OUTPUT: usize = 1 << 20;
const CLOSED: &str = "the broker closed the connection";

/// A frame, and where answers to it may be written.
pub type Incoming<'a> = (&'a [u8], &'a mut Vec<u8>);

pub struct Conn {
    stream: TcpStream,
    /// Received bytes not yet read: `input[start..end]`.
    input: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes that are to be sent. Plain, the socket has not taken `output[written..]` yet; with TLS
    /// nothing of it is sealed yet.
    pub output: Vec<u8>,
    written: usize,
    tls: Option<Box<Secured>>,
}

/// What TLS needs.
struct Secured {
    stream: ClientStream,
    /// What the socket gave, and what that carried.
    received: Vec<u8>,
    plain: Vec<u8>,
    /// Records that the socket has not taken yet: `sealed[written..]` with the `written` of above.
    sealed: Vec<u8>,
}

impl Conn {
    /// Begins to connect; when the socket can be written, `connected` says how that went.
    pub fn begin(addr: SocketAddr, tls: Option<&Tls>) -> io::Result<Conn> {
        let tls = tls.map(|tls| Secured::new(tls, addr)).transpose()?;
        let family = match addr {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&socket, &addr) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(e) => return Err(e.into()),
        }
        Ok(Conn {
            stream: TcpStream::from(socket),
            input: vec![0; BUFFER],
            start: 0,
            end: 0,
            output: Vec::new(),
            written: 0,
            tls: tls.map(Box::new),
        })
    }

    pub fn connected(&self) -> io::Result<()> {
        sockopt::socket_error(&self.stream)??;
        self.stream.set_nodelay(true)
    }

    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Goes on with the handshake; `true` when it is done. Without TLS there is none.
    pub fn shake_hands(&mut self) -> Result<bool, String> {
        let done = |conn: &Conn| conn.tls.as_ref().is_none_or(|t| t.stream.is_established());
        if !done(self) {
            while self.receive()? {}
            self.flush()?;
        }
        Ok(done(self))
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether output may be added.
    pub fn has_room(&self) -> bool {
        self.unwritten() < MOST_OUTPUT
    }

    pub fn unwritten(&self) -> usize {
        let sealed = self.tls.as_ref().map_or(0, |tls| tls.sealed.len());
        self.output.len() + sealed - self.written
    }

    /// Sends what is waiting; `true` when the socket would not take all of it.
    pub fn flush(&mut self) -> Result<bool, String> {
        let Some(tls) = &mut self.tls else {
            return send(&self.stream, &mut self.output, &mut self.written);
        };
        // Records that are there come first: one buffer of them is enough.
        if send(&self.stream, &mut tls.sealed, &mut self.written)? {
            return Ok(true);
        }
        if tls.stream.is_established() {
            tls.stream.seal(&self.output, &mut tls.sealed)?;
            self.output.clear();
        } else {
            tls.stream.seal(&[], &mut tls.sealed)?;
        }
        send(&self.stream, &mut tls.sealed, &mut self.written)
    }

    /// One read from the socket; `true` when there may be more.
    pub fn receive(&mut self) -> Result<bool, String> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.input.len() {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.end * 2 > self.input.len() {
                self.input.resize(self.input.len() * 2, 0); // bounded by the frame limit
            }
        }
        let Some(tls) = &mut self.tls else {
            let room = self.input.len() - self.end;
            let n = read(&self.stream, &mut self.input[self.end..])?;
            self.end += n.unwrap_or(0);
            return Ok(n.is_none_or(|n| n == room));
        };
        let Some(n) = read(&self.stream, &mut tls.received)? else {
            return Ok(true);
        };
        tls.plain.clear();
        let opened = tls.stream.open(&mut tls.received[..n], &mut tls.plain);
        if let Err(why) = opened {
            let _ = self.flush(); // the alert
            return Err(why);
        }
        if tls.stream.is_closed() {
            return Err(CLOSED.into());
        }
        let end = self.end + tls.plain.len();
        if end > self.input.len() {
            self.input.resize(end, 0);
        }
        self.input[self.end..end].copy_from_slice(&tls.plain);
        self.end = end;
        Ok(n == tls.received.len())
    }

    /// The next whole frame that was received, and where answers to it may be written.
    pub fn next_frame(&mut self) -> Result<Option<Incoming<'_>>, String> {
        let Some(length) = frame::length(&self.input[self.start..self.end])? else {
            return Ok(None);
        };
        if self.end - self.start < length {
            return Ok(None);
        }
        let at = self.start;
        self.start += length;
        Ok(Some((&self.input[at..at + length], &mut self.output)))
    }
}

impl Secured {
    fn new(tls: &Tls, addr: SocketAddr) -> io::Result<Secured> {
        let name = tls.name_of(addr);
        let stream = ClientStream::connect(tls.config.clone(), name).map_err(io::Error::other)?;
        Ok(Secured {
            stream,
            received: vec![0; BUFFER],
            plain: Vec::new(),
            sealed: Vec::new(),
        })
    }
}

/// One read. None: it was interrupted. 0: there is nothing.
fn read(mut stream: &TcpStream, place: &mut [u8]) -> Result<Option<usize>, String> {
    match stream.read(place) {
        Ok(0) => Err(CLOSED.into()),
        Ok(n) => Ok(Some(n)),
        Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(Some(0)),
        Err(e) if e.kind() == ErrorKind::Interrupted => Ok(None),
        Err(e) => Err(format!("receiving: {e}")),
    }
}

/// Sends `bytes[written..]`; `true` when the socket would not take all of it. What is sent is removed.
fn send(mut stream: &TcpStream, bytes: &mut Vec<u8>, written: &mut usize) -> Result<bool, String> {
    while *written < bytes.len() {
        match stream.write(&bytes[*written..]) {
            Ok(0) => return Err(CLOSED.into()),
            Ok(n) => *written += n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                if *written > MOST_OUTPUT {
                    bytes.drain(..*written);
                    *written = 0;
                }
                return Ok(true);
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(format!("sending: {e}")),
        }
    }
    bytes.clear();
    *written = 0;
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn pair() -> (Conn, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let conn = Conn::begin(listener.local_addr().unwrap(), None).unwrap();
        let (peer, _) = listener.accept().unwrap();
        conn.connected().unwrap();
        (conn, peer)
    }

    fn read_until(conn: &mut Conn, bytes: usize) {
        while conn.end - conn.start < bytes {
            conn.receive().unwrap();
        }
    }

    #[test]
    fn frames_come_whole() {
        let (mut conn, mut peer) = pair();
        let mut bytes = Vec::new();
        for size in [10usize, 3 * BUFFER, 5] {
            bytes.extend_from_slice(&frame::head(false, 0, size));
            bytes.resize(bytes.len() + size, size as u8);
        }
        let all = bytes.clone();
        let writer = std::thread::spawn(move || peer.write_all(&bytes).map(|()| peer));
        let mut found = Vec::new();
        while found.len() < all.len() {
            conn.receive().unwrap();
            while let Some((one, _)) = conn.next_frame().unwrap() {
                found.extend_from_slice(one);
            }
        }
        assert!(found == all);
        drop(writer.join().unwrap().unwrap());
    }

    #[test]
    fn a_peer_that_is_none_is_told() {
        let (mut conn, mut peer) = pair();
        peer.write_all(b"HTTP/1.1 400 Bad Request").unwrap();
        read_until(&mut conn, 8);
        assert!(
            conn.next_frame()
                .unwrap_err()
                .contains("no remoting server")
        );
        drop(peer);
        while let Ok(more) = conn.receive() {
            let _ = more;
        }
        assert!(conn.receive().is_err());
    }

    #[test]
    fn what_a_socket_does_not_take_waits() {
        let (mut conn, mut peer) = pair();
        conn.output = vec![7; 32 << 20];
        assert!(!conn.has_room());
        let mut total = 0;
        while conn.flush().unwrap() {
            let mut place = vec![0; 1 << 20];
            total += peer.read(&mut place).unwrap();
        }
        drop(conn);
        let mut rest = Vec::new();
        total += peer.read_to_end(&mut rest).unwrap();
        assert_eq!(total, 32 << 20);
    }

    #[test]
    fn nobody_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        drop(listener);
        let mut failed = false;
        if let Ok(conn) = Conn::begin(addr, None) {
            while !failed {
                failed = conn.connected().is_err();
            }
        }
    }
}
