//! One connection of the floor: frames in, answers out, both in whatever pieces the socket gives.

use crate::frame;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes read at once, unless a frame is longer. All connections share the buffer, so it stays in
/// the processor's cache however many there are.
const INPUT: usize = 256 << 10;

pub struct Input(Vec<u8>);

impl Input {
    pub fn new() -> Input {
        Input(vec![0; INPUT])
    }
}

pub struct Peer {
    stream: TcpStream,
    /// The beginning of a frame of which the rest has not come.
    rest: Vec<u8>,
    /// Answers that the socket has not taken yet: `output[written..]`.
    output: Vec<u8>,
    written: usize,
    /// The socket would not take all of them.
    pub blocked: bool,
}

/// Hands every whole frame at the front of `bytes` to `each`. Returns how many bytes those were,
/// and how many the next frame has when that is known.
fn split(
    bytes: &[u8],
    mut each: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(usize, usize), String> {
    let mut at = 0;
    while let Some(length) = frame::length(&bytes[at..])? {
        let Some(frame) = bytes[at..].get(..length) else {
            return Ok((at, length));
        };
        each(frame)?;
        at += length;
    }
    Ok((at, 0))
}

impl Peer {
    pub fn new(stream: TcpStream) -> io::Result<Peer> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Peer {
            stream,
            rest: Vec::new(),
            output: Vec::new(),
            written: 0,
            blocked: false,
        })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// One read; `each(frame, output)` gets every frame that is whole now. An error: the connection
    /// has ended, or is of no use any more.
    pub fn receive(
        &mut self,
        input: &mut Input,
        mut each: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), String>,
    ) -> Result<(), String> {
        let input = &mut input.0;
        let held = self.rest.len();
        let end = match self.stream.read(&mut input[held..]) {
            Ok(0) => return Err("the other side closed the connection".into()),
            Ok(n) => held + n,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(e) => return Err(format!("receiving: {e}")),
        };
        input[..held].copy_from_slice(&self.rest);
        let (at, next) = split(&input[..end], |frame| each(frame, &mut self.output))?;
        self.rest.clear();
        self.rest.extend_from_slice(&input[at..end]);
        if next > input.len() {
            input.resize(next, 0); // bounded by the frame limit
        }
        Ok(())
    }

    /// Sends what is waiting as far as the socket takes it.
    pub fn send(&mut self) -> io::Result<()> {
        self.blocked = false;
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(n) => self.written += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return Ok(());
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn frames() -> (Vec<Vec<u8>>, Vec<u8>) {
        let frames: Vec<_> = [0, 1, 1000]
            .iter()
            .map(|n| {
                let request = frame::Request {
                    binary: false,
                    code: 310,
                    flag: 0,
                    fields: &[],
                    signer: None,
                };
                let mut frame = Vec::new();
                request.write(5, &vec![b'x'; *n], &mut frame);
                frame
            })
            .collect();
        let whole = frames.concat();
        (frames, whole)
    }

    #[test]
    fn splits_wherever_a_read_ends() {
        let (frames, whole) = frames();
        for end in 0..=whole.len() {
            let mut seen = Vec::new();
            let (at, next) = split(&whole[..end], |frame| {
                seen.push(frame.to_vec());
                Ok(())
            })
            .unwrap();
            assert_eq!(seen, frames[..seen.len()]);
            assert_eq!(at, seen.concat().len());
            let known = end - at >= 4;
            assert_eq!(next, if known { frames[seen.len()].len() } else { 0 });
        }
        assert!(split(&[0xff; 8], |_| Ok(())).is_err());
    }

    fn pair() -> (TcpStream, Peer) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let peer = Peer::new(listener.accept().unwrap().0).unwrap();
        (stream, peer)
    }

    /// Receives until `count` frames were there.
    fn receive(peer: &mut Peer, input: &mut Input, count: usize) -> Vec<Vec<u8>> {
        let mut seen = Vec::new();
        while seen.len() < count {
            peer.receive(input, |frame, _| {
                seen.push(frame.to_vec());
                Ok(())
            })
            .unwrap();
        }
        seen
    }

    #[test]
    fn frames_come_in_pieces() {
        let (mut stream, mut peer) = pair();
        let mut input = Input(vec![0; 64]); // shorter than any of them
        let (frames, whole) = frames();
        let sender = std::thread::spawn(move || {
            for piece in whole.chunks(7) {
                stream.write_all(piece).unwrap();
            }
            stream
        });
        assert_eq!(receive(&mut peer, &mut input, frames.len()), frames);
        drop(sender.join().unwrap());
        while peer.receive(&mut input, |_, _| Ok(())).is_ok() {}
    }

    #[test]
    fn answers_go_out_in_pieces() {
        let (mut stream, mut peer) = pair();
        let answers: Vec<u8> = (0..20 << 20).map(|i| (i % 251) as u8).collect();
        peer.output = answers.clone();
        peer.send().unwrap();
        assert!(peer.blocked && peer.written > 0);
        let reader = std::thread::spawn(move || {
            let mut all = vec![0; 20 << 20];
            stream.read_exact(&mut all).unwrap();
            all
        });
        while peer.blocked {
            peer.send().unwrap();
        }
        assert!(peer.output.is_empty());
        assert_eq!(reader.join().unwrap(), answers);
    }
}
