//! The floor: the least that a broker can do with a send or a pull. What a broker takes beyond it is its
//! own.
//!
//! One thread, one epoll. A round reads what the ready sockets hold, copies the bodies of all whole
//! requests behind each other, writes them with one pwrite (and one fdatasync with --sync), and
//! then answers. A pull is answered with records from memory. There are no queues and no index, and
//! nothing is looked at but opaque and code.

mod answer;
mod log;
mod peer;
mod pulled;

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::args::Args;
use crate::conn::{allow_files, Poll, CLOSED, READ, WRITE};
use crate::frame::{Answer, Reader};

use answer::{Form, Place};
use log::Log;
use peer::{Input, Peer};
use pulled::Pulled;

const SEND_MESSAGE: i32 = 10;
const PULL_MESSAGE: i32 = 11;
const HEART_BEAT: i32 = 34;
const SEND_MESSAGE_V2: i32 = 310;
const SEND_BATCH_MESSAGE: i32 = 320;

/// Keys of the epoll that are no connections.
const LISTENER: usize = usize::MAX;
const SIGNALS: usize = usize::MAX - 1;
/// As many connections as are asked for without a word; more where they are allowed anyway.
const FILES: u64 = 4096;

struct Floor {
    poll: Poll,
    listener: TcpListener,
    _signals: OwnedFd,
    peers: Vec<Option<Peer>>,
    /// Places of `peers` that are free.
    free: Vec<usize>,
    /// Connections that have something to say when the round has been written.
    due: Vec<usize>,
    input: Input,
    stored: Stored,
}

/// What a round brought, and the file it goes to.
struct Stored {
    reader: Reader,
    log: Log,
    /// The bodies of this round.
    staging: Vec<u8>,
    messages: u64,
    pulled: Pulled,
}

/// SIGTERM and SIGINT as something to poll.
fn signals() -> Result<OwnedFd, String> {
    // SAFETY: the set is plain data on the stack and outlives the calls; the descriptor is new.
    let fd = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGTERM);
        libc::sigaddset(&mut set, libc::SIGINT);
        libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        libc::signalfd(-1, &set, libc::SFD_CLOEXEC)
    };
    if fd < 0 {
        return Err(format!("signalfd: {}", io::Error::last_os_error()));
    }
    // SAFETY: nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl Stored {
    /// Takes one whole frame; its answer goes to `out`, to be sent when the round is written.
    fn take(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let request = self.reader.read(frame)?;
        let form = Form::of(frame);
        match request.code {
            // Whether a send is one-way is not looked for: nobody measures with these.
            SEND_MESSAGE | SEND_MESSAGE_V2 => self.store(&request, 1, form, out),
            SEND_BATCH_MESSAGE => self.store(&request, batched(request.body), form, out),
            PULL_MESSAGE => self.pulled.take(form, request.opaque, out),
            _ if request.is_oneway() => {}
            HEART_BEAT => answer::done(form, request.opaque, out),
            code => answer::unknown(form, request.opaque, code, out),
        }
        Ok(())
    }

    fn store(&mut self, request: &Answer, count: usize, form: Form, out: &mut Vec<u8>) {
        let place = Place {
            log_offset: self.log.end() + self.staging.len() as u64,
            step: (request.body.len() / count) as u64,
            count,
            queue_offset: self.messages,
        };
        self.staging.extend_from_slice(request.body);
        self.messages += count as u64;
        answer::stored(form, request.opaque, &place, out);
    }
}

/// Messages of a batch whose messages all are of one size, as the generator's are.
fn batched(body: &[u8]) -> usize {
    let size = body
        .first_chunk::<4>()
        .map_or(0, |b| u32::from_be_bytes(*b));
    match size as usize {
        0 => 1,
        size => (body.len() / size).max(1),
    }
}

impl Floor {
    fn accept(&mut self) -> Result<(), String> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::ConnectionAborted => continue,
                Err(e) => return Err(format!("accepting: {e}")),
            };
            let peer = Peer::new(stream).map_err(|e| format!("accepting: {e}"))?;
            let key = self.free.pop().unwrap_or_else(|| {
                self.peers.push(None);
                self.peers.len() - 1
            });
            self.poll.add(peer.fd(), READ, key)?;
            self.peers[key] = Some(peer);
        }
    }

    fn close(&mut self, key: usize) {
        self.peers[key] = None; // which takes it out of the epoll, too
        self.free.push(key);
    }

    /// One read of a connection, and all whole frames that are there then.
    fn read(&mut self, key: usize) {
        let Some(peer) = &mut self.peers[key] else {
            return;
        };
        let stored = &mut self.stored;
        match peer.receive(&mut self.input, |frame, out| stored.take(frame, out)) {
            Ok(()) => self.due.push(key),
            Err(_) => self.close(key), // it went, or says what is no request
        }
    }

    /// Sends what is due. A connection that takes no more is not read either until it does.
    fn send(&mut self, key: usize) -> Result<(), String> {
        let Some(peer) = &mut self.peers[key] else {
            return Ok(());
        };
        let before = peer.blocked;
        match peer.send() {
            Ok(()) if peer.blocked == before => Ok(()),
            Ok(()) => {
                let interest = if peer.blocked { WRITE } else { READ };
                self.poll.change(peer.fd(), interest, key)
            }
            Err(_) => {
                self.close(key);
                Ok(())
            }
        }
    }

    /// `false` when a signal says that it is enough.
    fn round(&mut self) -> Result<bool, String> {
        for i in 0..self.poll.wait(-1)? {
            match self.poll.event(i) {
                (SIGNALS, _) => return Ok(false),
                (LISTENER, _) => self.accept()?,
                (key, what) if what & WRITE != 0 => self.due.push(key),
                (key, what) if what & (READ | CLOSED) != 0 => self.read(key),
                _ => {}
            }
        }
        let stored = &mut self.stored;
        if !stored.staging.is_empty() {
            let told = |e: io::Error| format!("writing: {e}");
            stored.log.write(&stored.staging).map_err(told)?;
            stored.staging.clear();
        }
        while let Some(key) = self.due.pop() {
            self.send(key)?;
        }
        Ok(true)
    }
}

/// Serves until SIGTERM; the files are gone then.
pub fn run(args: &Args) -> Result<bool, String> {
    let _ = allow_files(FILES);
    let dir = args.dir.as_deref().ok_or("--dir is missing")?;
    let told = |e: io::Error| format!("{}: {e}", dir.display());
    fs::create_dir_all(dir).map_err(told)?;
    let log = Log::open(dir, log::FILE_BYTES, args.sync).map_err(told)?;
    let listening = |e: io::Error| format!("listening on port {}: {e}", args.port);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).map_err(listening)?;
    listener.set_nonblocking(true).map_err(listening)?;
    let port = listener.local_addr().map_err(listening)?.port();
    let signals = signals()?;
    let poll = Poll::new()?;
    poll.add(listener.as_raw_fd(), READ, LISTENER)?;
    poll.add(signals.as_raw_fd(), READ, SIGNALS)?;
    let mut floor = Floor {
        poll,
        listener,
        _signals: signals,
        peers: Vec::new(),
        free: Vec::new(),
        due: Vec::new(),
        input: Input::new(),
        stored: Stored {
            reader: Reader::default(),
            log,
            staging: Vec::new(),
            messages: 0,
            pulled: Pulled::default(),
        },
    };
    println!("port {port}");
    io::stdout().flush().map_err(|e| format!("stdout: {e}"))?;
    while floor.round()? {}
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_counted_by_its_first_message() {
        let entry = [&[0u8, 0, 0, 30][..], &[7; 26]].concat();
        assert_eq!(batched(&entry.repeat(32)), 32);
        for odd in [&[][..], &[0, 0, 0, 0], &[0, 0, 1, 0, 9], b"abc"] {
            assert_eq!(batched(odd), 1);
        }
    }
}
