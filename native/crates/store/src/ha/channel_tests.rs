//! Channels under a cover that is made up: it has a handshake, records, and an end, as TLS has.

use super::channel::{Channel, Cover};
use super::socket::Socket;
use super::tests::eventually;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// What both say first.
const HELLO: [u8; 3] = [0x16, 7, 7];
const RECORD: usize = 1000;
const END: u16 = u16::MAX;

/// Records are a length and bytes with all bits turned.
#[derive(Default)]
pub struct Toy {
    said: bool,
    heard: bool,
    closed: bool,
    held: Vec<u8>,
}

impl Cover for Toy {
    fn open(&mut self, received: &mut [u8], plain: &mut Vec<u8>) -> Result<(), String> {
        self.held.extend_from_slice(received);
        if !self.heard {
            if self.held.len() < HELLO.len() {
                return Ok(());
            }
            if self.held.drain(..HELLO.len()).ne(HELLO) {
                return Err("no toy".into());
            }
            self.heard = true;
        }
        while let Some(len) = self.held.first_chunk() {
            let len = u16::from_be_bytes(*len);
            if len == END {
                self.closed = true;
                return Ok(());
            }
            let end = 2 + usize::from(len);
            if self.held.len() < end {
                return Ok(());
            }
            plain.extend(self.held[2..end].iter().map(|b| !b));
            self.held.drain(..end);
        }
        Ok(())
    }

    fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        if !self.said {
            out.extend(HELLO);
            self.said = true;
        }
        assert!(plain.is_empty() || self.is_ready());
        for record in plain.chunks(RECORD) {
            out.extend((record.len() as u16).to_be_bytes());
            out.extend(record.iter().map(|b| !b));
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.heard
    }

    fn is_closed(&self) -> bool {
        self.closed
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if self.is_ready() {
            out.extend(END.to_be_bytes());
        }
    }
}

pub fn toy() -> Box<dyn Cover> {
    Box::new(Toy::default())
}

/// Who begins as a toy gets one, others are plain; 0xff is refused.
pub fn doorman(first: u8) -> Result<Option<Box<dyn Cover>>, String> {
    match first {
        0x16 => Ok(Some(toy())),
        0xff => Err("not you".into()),
        _ => Ok(None),
    }
}

/// An event that has not come.
fn event() -> UnixStream {
    UnixStream::pair().unwrap().0
}

fn answering() -> (Channel<'static>, UnixStream) {
    let (a, b) = UnixStream::pair().unwrap();
    let socket = Socket::new(OwnedFd::from(a)).unwrap();
    (Channel::answering(socket, Some(&doorman)), b)
}

fn shaken() -> (Channel<'static>, UnixStream) {
    let (mut channel, mut peer) = answering();
    peer.write_all(&HELLO).unwrap();
    assert!(channel.read().unwrap().is_none());
    let mut hello = [0; 3];
    peer.read_exact(&mut hello).unwrap();
    assert_eq!(hello, HELLO);
    (channel, peer)
}

#[test]
fn the_first_byte_decides() {
    let (mut plain, mut peer) = answering();
    assert!(plain.read().unwrap().is_none());
    peer.write_all(&[0; 8]).unwrap();
    assert_eq!(plain.read().unwrap(), Some(&[0; 8][..]));
    assert!(!plain.is_covered());
    peer.write_all(&HELLO).unwrap();
    assert_eq!(plain.read().unwrap(), Some(&HELLO[..]), "once and for all");

    let (covered, _peer) = shaken();
    assert!(covered.is_covered());

    let (mut refused, mut peer) = answering();
    peer.write_all(&[0xff; 8]).unwrap();
    assert_eq!(refused.read().unwrap_err().to_string(), "not you");
    drop(peer);
    refused.part(event().as_fd());
}

#[test]
fn before_the_handshake_is_done_nothing_is_sent() {
    let (mut channel, mut peer) = answering();
    peer.write_all(&HELLO[..1]).unwrap();
    assert!(channel.read().unwrap().is_none());
    assert_eq!(channel.write(b"secret", false).unwrap(), None);
    let (_keep, event) = UnixStream::pair().unwrap();
    assert!(!channel.wait(true, event.as_fd(), 1).unwrap());
    channel.age(10_000);
    let error = channel.wait(true, event.as_fd(), 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    drop(channel);
    let mut got = Vec::new();
    peer.read_to_end(&mut got).unwrap();
    assert_eq!(got, HELLO);
}

#[test]
fn who_calls_says_hello_with_the_first_write() {
    let (a, mut peer) = UnixStream::pair().unwrap();
    let socket = Socket::new(OwnedFd::from(a)).unwrap();
    let mut channel = Channel::calling(socket, Some(toy()));
    assert_eq!(channel.write(b"report", false).unwrap(), None);
    peer.set_nonblocking(true).unwrap();
    let mut hello = [0; 9];
    assert_eq!(peer.read(&mut hello).unwrap(), 3);
    assert_eq!(hello[..3], HELLO);
}

#[test]
fn a_peer_that_reads_nothing_has_little_kept_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    let file = std::fs::File::open(path).unwrap();
    let (mut channel, mut peer) = shaken();
    let mut sent = 0;
    // The socket takes some, then nothing.
    while let Some(n) = channel
        .send_file(&file, sent as u64, bytes.len() - sent)
        .unwrap()
    {
        sent += n;
    }
    assert!(sent < bytes.len());
    assert_eq!(channel.write(b"more", true).unwrap(), None);
    assert!(channel.kept() < 600 << 10, "{}", channel.kept());
    let reader = std::thread::spawn(move || {
        let (mut toy, mut plain) = (Toy::default(), Vec::new());
        toy.heard = true;
        let mut buffer = [0; 7000];
        while let Ok(n @ 1..) = peer.read(&mut buffer) {
            toy.open(&mut buffer[..n], &mut plain).unwrap();
        }
        (plain, toy.closed)
    });
    eventually(|| {
        if let Some(n) = channel
            .send_file(&file, sent as u64, bytes.len() - sent)
            .unwrap()
        {
            sent += n;
        }
        sent == bytes.len()
    });
    let (_keep, event) = UnixStream::pair().unwrap();
    // What is kept leaves while it waits for the peer.
    eventually(|| {
        channel.wait(false, event.as_fd(), 1).unwrap();
        assert!(channel.read().unwrap().is_none());
        channel.kept() <= 256 << 10
    });
    channel.part(event.as_fd());
    let (plain, closed) = reader.join().unwrap();
    assert!(plain == bytes && closed);
}

#[test]
fn a_front_waits_for_what_follows_it() {
    let (mut channel, mut peer) = shaken();
    peer.set_nonblocking(true).unwrap();
    assert_eq!(channel.write(b"header", true).unwrap(), Some(6));
    assert_eq!(
        peer.read(&mut [0; 9]).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    assert_eq!(channel.write(b"body", false).unwrap(), Some(4));
    let mut got = [0; 99];
    assert_eq!(peer.read(&mut got).unwrap(), 2 + 6 + 2 + 4);
}

#[test]
fn an_end_that_is_said_is_an_end() {
    let (mut channel, mut peer) = shaken();
    peer.write_all(&END.to_be_bytes()).unwrap();
    assert_eq!(channel.read().unwrap_err().kind(), ErrorKind::UnexpectedEof);
}
