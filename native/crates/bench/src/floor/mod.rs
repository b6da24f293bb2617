//! The floor: the least that a broker can do with a send or a pull. What a broker takes beyond it is its
//! own.
//!
//! One thread, one epoll. A round reads what the ready sockets hold, copies the bodies of all whole
//! requests behind each other, writes them with one pwrite (and one fdatasync, if it is to sync), and
//! then answers. A pull is answered with records from memory. There are no queues and no index, and
//! nothing is looked at but opaque and code.

mod answer;
mod log;
mod peer;
mod pulled;

use crate::answer::{Answer, Reader};
use crate::frame::{HEART_BEAT, PULL_MESSAGE, SEND_BATCH_MESSAGE, SEND_MESSAGE_V2};
use answer::{Form, Place};
use log::Log;
use parking_lot::Mutex;
use peer::{Input, Peer};
use pulled::Pulled;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

const SEND_MESSAGE: i32 = 10;

/// Keys of the epoll that are no connections.
const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;
const READ: EventFlags = EventFlags::IN;
const WRITE: EventFlags = EventFlags::OUT;
/// Most bytes of answers that wait for one connection, and most messages that a batch is taken for: short
/// requests may have long answers.
const MOST_WAITING: usize = 256 << 20;
const MOST_BATCH: usize = 64 << 10;
/// As many connections as are asked for without a word; more where they are allowed anyway.
const FILES: u64 = 4096;

struct Loop {
    epoll: OwnedFd,
    listener: TcpListener,
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

impl Stored {
    /// Takes one whole frame; its answer goes to `out`, to be sent when the round is written.
    fn take(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        if out.len() > MOST_WAITING {
            return Err(format!("more than {MOST_WAITING} bytes of answers wait"));
        }
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
        size => (body.len() / size).clamp(1, MOST_BATCH),
    }
}

impl Loop {
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
            epoll::add(&self.epoll, peer.fd(), EventData::new_u64(key as u64), READ)
                .map_err(|e| format!("epoll: {e}"))?;
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
                epoll::modify(
                    &self.epoll,
                    peer.fd(),
                    EventData::new_u64(key as u64),
                    interest,
                )
                .map_err(|e| format!("epoll: {e}"))
            }
            Err(_) => {
                self.close(key);
                Ok(())
            }
        }
    }

    /// `false` when it is to stop.
    fn round(&mut self, events: &mut Vec<Event>) -> Result<bool, String> {
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(format!("epoll: {e}")),
        }
        for event in events.iter() {
            match (event.data.u64(), event.flags) {
                (STOP, _) => return Ok(false),
                (LISTENER, _) => self.accept()?,
                (key, what) if what.intersects(WRITE) => self.due.push(key as usize),
                (key, _) => self.read(key as usize),
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

/// A floor that serves in a thread of its own. Dropping it stops it.
pub struct Floor {
    port: u16,
    stop: Arc<OwnedFd>,
    thread: Mutex<Option<JoinHandle<Result<(), String>>>>,
}

impl Floor {
    /// Serves on this loopback port (0: a free one), with its files below `dir`.
    pub fn start(dir: &Path, sync: bool, port: u16) -> Result<Floor, String> {
        let _ = crate::limits::allow_files(FILES);
        let told = |e: io::Error| format!("{}: {e}", dir.display());
        fs::create_dir_all(dir).map_err(told)?;
        let log = Log::open(dir, log::FILE_BYTES, sync).map_err(told)?;
        let listening = |e: io::Error| format!("listening on port {port}: {e}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(listening)?;
        listener.set_nonblocking(true).map_err(listening)?;
        let port = listener.local_addr().map_err(listening)?.port();
        let failed = |e: rustix::io::Errno| format!("epoll: {e}");
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(failed)?);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), READ).map_err(failed)?;
        epoll::add(&epoll, &*stop, EventData::new_u64(STOP), READ).map_err(failed)?;
        let mut floor = Loop {
            epoll,
            listener,
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
        let thread = std::thread::Builder::new()
            .name("bench-floor".into())
            .spawn(move || {
                let mut events = Vec::with_capacity(1024);
                while floor.round(&mut events)? {}
                Ok(())
            })
            .map_err(|e| format!("a thread: {e}"))?;
        Ok(Floor {
            port,
            stop,
            thread: Mutex::new(Some(thread)),
        })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it serves no more: `stop` says why.
    pub fn ended(&self) -> bool {
        self.thread
            .lock()
            .as_ref()
            .is_none_or(JoinHandle::is_finished)
    }

    /// Ends it; its files are gone then. An error if it had failed.
    pub fn stop(&self) -> Result<(), String> {
        let Some(thread) = self.thread.lock().take() else {
            return Ok(());
        };
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        thread
            .join()
            .unwrap_or_else(|_| Err("the floor failed: please report this".into()))
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::unix::fs::FileExt;
    use std::path::PathBuf;

    #[test]
    fn a_batch_is_counted_by_its_first_message() {
        let entry = [&[0u8, 0, 0, 30][..], &[7; 26]].concat();
        assert_eq!(batched(&entry.repeat(32)), 32);
        for odd in [&[][..], &[0, 0, 0, 0], &[0, 0, 1, 0, 9], b"abc"] {
            assert_eq!(batched(odd), 1);
        }
        let tiny = [&[0, 0, 0, 1][..], &[0; 1 << 20]].concat();
        assert_eq!(batched(&tiny), MOST_BATCH);
    }

    /// A request with a binary header.
    fn binary(code: i16, flag: i32, opaque: i32, body: &[u8]) -> Vec<u8> {
        let mut header = code.to_be_bytes().to_vec();
        header.extend([0, 1, 0xdf]);
        header.extend(opaque.to_be_bytes());
        header.extend(flag.to_be_bytes());
        header.extend([0; 8]); // no remark, no fields
        let mut out = ((4 + header.len() + body.len()) as u32)
            .to_be_bytes()
            .to_vec();
        out.extend((header.len() as u32 | 1 << 24).to_be_bytes());
        out.extend(header);
        out.extend(body);
        out
    }

    fn read_frame(stream: &mut TcpStream) -> Vec<u8> {
        let mut length = [0; 4];
        stream.read_exact(&mut length).unwrap();
        let mut rest = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut rest).unwrap();
        rest
    }

    /// A pull of some bytes is answered with 38 KiB: a connection whose answers would fill the memory ends.
    #[test]
    fn answers_that_wait_are_bounded() {
        let home = tempfile::tempdir().unwrap();
        let log = Log::open(home.path(), 8192, false).unwrap();
        let mut stored = Stored {
            reader: Reader::default(),
            log,
            staging: Vec::new(),
            messages: 0,
            pulled: Pulled::default(),
        };
        let (pull, mut out) = (binary(11, 0, 1, b""), vec![0; MOST_WAITING - 100_000]);
        let taken = (0..100).take_while(|_| stored.take(&pull, &mut out).is_ok());
        assert!((1..100).contains(&taken.count()));
        assert!(out.len() < MOST_WAITING + 100_000);
    }

    fn files(dir: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).unwrap();
        entries.map(|e| e.unwrap().path()).collect()
    }

    #[test]
    fn bodies_lie_behind_each_other() {
        let home = tempfile::tempdir().unwrap();
        let floor = Floor::start(home.path(), true, 0).unwrap();
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, floor.port())).unwrap();
        let (mut stream, mut other) = (connect(), connect());
        let frames = [
            binary(310, 0, 77, b"first"),
            binary(37, 2, 78, b"one-way"),
            binary(34, 0, 79, b"heartbeat"),
            binary(105, 0, 80, b""),
            binary(310, 0, -81, b"second"),
        ]
        .concat();
        for piece in frames.chunks(5) {
            stream.write_all(piece).unwrap();
        }
        for (opaque, code) in [(77i32, 0i16), (79, 0), (80, 3), (-81, 0)] {
            let rest = read_frame(&mut stream);
            assert_eq!(rest[0], 1, "serialize type");
            assert_eq!(rest[4..6], code.to_be_bytes());
            assert_eq!(rest[9..13], opaque.to_be_bytes());
        }
        let log = File::open(&files(home.path())[0]).unwrap();
        assert_eq!(log.metadata().unwrap().len(), 1 << 30);
        let mut written = [1; 12];
        log.read_exact_at(&mut written, 0).unwrap();
        assert_eq!(&written, b"firstsecond\0");
        // Nonsense ends its own connection only.
        stream.write_all(&[0xff; 16]).unwrap();
        assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);
        other.write_all(&binary(34, 0, 1, b"")).unwrap();
        assert_eq!(read_frame(&mut other)[9..13], 1i32.to_be_bytes());
        assert!(!floor.ended());
        floor.stop().unwrap();
        assert!(floor.ended() && files(home.path()).is_empty());
    }
}
