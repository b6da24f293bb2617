//! Sockets, a poll and a log in memory, and frames to feed.

use super::connection::Connection;
use super::poll::{Poll, Ready};
use super::ready_loop::{Log, ReadyLoop};
use super::socket::Socket;
use super::transform::Transform;
use pyrmq_broker::Broker;
use pyrmq_broker::rpc_figures::RpcFigures;
use pyrmq_broker::wire::frame::split;
use pyrmq_broker::wire::header::Header;
use pyrmq_broker::wire::{Budget, Context, Session};
use pyrmq_format::host::Host;
use pyrmq_store::{FlushMode, Store, StoreConfig, StoreError, TopicSettings};
use std::collections::VecDeque;
use std::io;
use std::ops::{Deref, Range};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

pub const TOPIC: &str = "T";
pub const QUEUES: u32 = 4;
/// The descriptor of a test's log event.
pub const EVENT: i32 = 999;

/// What the next call of `receive` gives.
pub enum Comes {
    Bytes(Vec<u8>),
    /// The poll was wrong: nothing is there.
    Nothing,
    End,
    Fails(i32),
}

/// What the next call of `send` takes; all of it where nothing is said.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    AtMost(usize),
    Nothing,
    Interrupted,
    Fails(i32),
}

#[derive(Default)]
pub struct Line {
    pub comes: VecDeque<Comes>,
    pub takes: VecDeque<Takes>,
    pub sent: Vec<u8>,
    pub sends: usize,
    pub most_received: usize,
    /// The disk cannot read what is mapped.
    pub unreadable: bool,
}

#[derive(Clone, Default)]
pub struct MemorySocket(Arc<Mutex<Line>>);

impl MemorySocket {
    pub fn line(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap()
    }

    pub fn comes(&self, bytes: impl Into<Vec<u8>>) {
        self.line().comes.push_back(Comes::Bytes(bytes.into()));
    }

    /// (opaque, code) of the whole answers that were sent so far.
    pub fn said(&self) -> Vec<(i32, i32)> {
        answers(&self.line().sent)
    }
}

impl Socket for MemorySocket {
    fn receive(&self, place: &mut [u8]) -> io::Result<usize> {
        let mut line = self.line();
        match line.comes.pop_front() {
            None | Some(Comes::Nothing) => Err(io::ErrorKind::WouldBlock.into()),
            Some(Comes::End) => Ok(0),
            Some(Comes::Fails(errno)) => Err(io::Error::from_raw_os_error(errno)),
            Some(Comes::Bytes(mut bytes)) => {
                let n = bytes.len().min(place.len());
                place[..n].copy_from_slice(&bytes[..n]);
                line.most_received = line.most_received.max(n);
                if n < bytes.len() {
                    line.comes.push_front(Comes::Bytes(bytes.split_off(n)));
                }
                Ok(n)
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut line = self.line();
        line.sends += 1;
        let n = match line.takes.pop_front() {
            None => bytes.len(),
            Some(Takes::AtMost(n)) => n.min(bytes.len()),
            Some(Takes::Nothing) => return Err(io::ErrorKind::WouldBlock.into()),
            Some(Takes::Interrupted) => return Err(io::ErrorKind::Interrupted.into()),
            Some(Takes::Fails(errno)) => return Err(io::Error::from_raw_os_error(errno)),
        };
        line.sent.extend_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn bring(&self, mapped: &[u8]) -> io::Result<()> {
        match self.line().unreadable {
            true if !mapped.is_empty() => Err(io::Error::from_raw_os_error(libc::EFAULT)),
            _ => Ok(()),
        }
    }
}

/// Reports the sockets for which something comes. Its clock goes on by `TICK` with every look.
#[derive(Default)]
pub struct MemoryPoll {
    pub sockets: Vec<(i32, MemorySocket)>,
    /// Reported before the sockets, once.
    pub others: Vec<Ready>,
    /// The same, every time.
    pub always: Vec<Ready>,
    /// Reported once somebody waits: as if it had come meanwhile.
    pub late: Vec<(MemorySocket, Vec<u8>)>,
    /// The same, of descriptors that are not sockets.
    pub late_others: Vec<Ready>,
    pub cannot_wait: bool,
    pub most: usize,
    pub now: AtomicI64,
}

pub const TICK: i64 = 1000;
pub const READABLE: u32 = libc::EPOLLIN as u32;

#[derive(Clone, Default)]
pub struct SharedPoll(Arc<Mutex<MemoryPoll>>);

impl SharedPoll {
    pub fn poll(&self) -> MutexGuard<'_, MemoryPoll> {
        self.0.lock().unwrap()
    }
}

impl Poll for SharedPoll {
    fn poll(&mut self, wait_ns: i64, found: &mut Vec<Ready>) -> io::Result<()> {
        let mut poll = self.0.lock().unwrap();
        found.clear();
        if wait_ns > 0 {
            if poll.cannot_wait {
                return Err(io::Error::from_raw_os_error(libc::ENOSYS));
            }
            let late = poll.late_others.split_off(0);
            poll.others.extend(late);
            for (socket, bytes) in poll.late.split_off(0) {
                socket.comes(bytes);
            }
        }
        found.append(&mut poll.others);
        found.extend_from_slice(&poll.always);
        let ready = poll
            .sockets
            .iter()
            .filter(|(_, s)| !s.line().comes.is_empty());
        found.extend(ready.map(|(fd, _)| Ready {
            fd: *fd,
            events: READABLE,
        }));
        found.truncate(poll.most);
        if found.is_empty() {
            poll.now.fetch_add(wait_ns.max(0), Ordering::Relaxed);
        }
        Ok(())
    }

    fn now_ns(&self) -> i64 {
        self.poll().now.fetch_add(TICK, Ordering::Relaxed)
    }
}

/// A store that can be told to fail, and what stood when it was written.
pub struct TestLog {
    pub store: Arc<Store>,
    pub writes: AtomicUsize,
    pub fails: AtomicBool,
    pub panics: AtomicBool,
    pub slow: AtomicBool,
    pub unwell: AtomicBool,
    /// The loop may flush; else others have done that already.
    pub flushes_here: AtomicBool,
    pub unwell_after_flush: AtomicBool,
    /// How often the loop did.
    pub flushes: AtomicUsize,
    /// How often the event was taken.
    pub taken: AtomicUsize,
    /// Bytes that had been sent to these when the log was written.
    pub sockets: Mutex<Vec<MemorySocket>>,
    pub sent_before: AtomicUsize,
}

impl Log for Arc<TestLog> {
    fn write_staged(&self) -> Result<(), StoreError> {
        assert!(!self.panics.load(Ordering::Relaxed), "as it was told to");
        let sockets = self.sockets.lock().unwrap();
        let sent = sockets.iter().map(|s| s.line().sent.len()).sum();
        self.sent_before.store(sent, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::Relaxed);
        if self.fails.load(Ordering::Relaxed) {
            return Err(StoreError::NotAvailable("as it was told to".into()));
        }
        Log::write_staged(&self.store)
    }

    fn has_arrivals(&self) -> bool {
        Log::has_arrivals(&self.store)
    }

    fn is_slow(&self) -> bool {
        self.slow.load(Ordering::Relaxed)
    }

    fn confirms_writes(&self) -> bool {
        Log::confirms_writes(&self.store)
    }

    fn event(&self) -> RawFd {
        EVENT
    }

    fn take_event(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        Log::take_event(&self.store);
    }

    fn is_well(&self) -> bool {
        !self.unwell.load(Ordering::Relaxed) && Log::is_well(&self.store)
    }

    fn hold_flush(&self) {
        if self.flushes_here.load(Ordering::Relaxed) {
            Log::hold_flush(&self.store);
        }
    }

    fn flush_asked(&self) -> Range<u64> {
        match self.flushes_here.load(Ordering::Relaxed) {
            true => Log::flush_asked(&self.store),
            false => 0..0,
        }
    }

    fn flush_here(&self) -> bool {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        let unwell = self.unwell_after_flush.load(Ordering::Relaxed);
        self.unwell.fetch_or(unwell, Ordering::Relaxed);
        Log::flush_here(&self.store)
    }

    fn let_flush(&self) {
        Log::let_flush(&self.store);
    }
}

pub type TestLoop = ReadyLoop<MemorySocket, SharedPoll, Arc<TestLog>>;

/// A store, a loop, and sockets that it watches; their descriptors are their indices.
pub struct Rig {
    pub store: OpenStore,
    pub log: Arc<TestLog>,
    pub poll: SharedPoll,
    pub ready: TestLoop,
    pub sockets: Vec<MemorySocket>,
    pub connections: Vec<Arc<Connection>>,
    context: Arc<Context>,
    tls: Option<Arc<pyrmq_tls::Context>>,
}

/// Bytes of one receive.
pub const RECEIVE: usize = 64 << 10;
pub const LATER_MS: i64 = 60_000;

impl Rig {
    pub fn new(n: usize) -> Rig {
        Rig::flushing(n, FlushMode::Async)
    }

    pub fn flushing(n: usize, flush_mode: FlushMode) -> Rig {
        Rig::with(n, flush_mode, None)
    }

    /// `tls`: what its connections begin with.
    pub fn with(n: usize, flush_mode: FlushMode, tls: Option<Arc<pyrmq_tls::Context>>) -> Rig {
        let store = open_store(flush_mode);
        let log = Arc::new(TestLog {
            store: store.clone(),
            writes: AtomicUsize::new(0),
            fails: AtomicBool::new(false),
            panics: AtomicBool::new(false),
            slow: AtomicBool::new(false),
            unwell: AtomicBool::new(false),
            flushes_here: AtomicBool::new(false),
            unwell_after_flush: AtomicBool::new(false),
            flushes: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            sockets: Mutex::default(),
            sent_before: AtomicUsize::new(0),
        });
        let poll = SharedPoll::default();
        poll.poll().most = 64;
        let mut rig = Rig {
            ready: ReadyLoop::new(poll.clone(), RECEIVE, Some(log.clone()), LATER_MS),
            context: context(&store),
            sockets: Vec::new(),
            connections: Vec::new(),
            tls,
            store,
            log,
            poll,
        };
        for fd in 0..n {
            let (socket, connection) = (MemorySocket::default(), rig.connection());
            rig.poll.poll().sockets.push((fd as i32, socket.clone()));
            rig.log.sockets.lock().unwrap().push(socket.clone());
            assert!(
                rig.ready
                    .watch(fd as i32, socket.clone(), connection.clone())
            );
            rig.sockets.push(socket);
            rig.connections.push(connection);
        }
        rig
    }

    pub fn connection(&self) -> Arc<Connection> {
        let session = new_session(Some(&self.context));
        Arc::new(Connection::with(session, Transform::new(self.tls.clone())))
    }

    /// What sessions enter.
    pub fn figures(&self) -> &RpcFigures {
        &self.context.figures
    }

    /// Messages in a queue that readers see.
    pub fn count(&self, queue: u32) -> i64 {
        let topic = self.store.topics().get(TOPIC.as_bytes()).unwrap();
        let queue = topic.existing_queue(queue);
        queue.map_or(0, |q| self.store.visible_max(&q).unwrap())
    }
}

/// A store in a temporary folder. It is closed before that is deleted: its threads end.
pub struct OpenStore {
    store: Arc<Store>,
    _dir: tempfile::TempDir,
}

impl Deref for OpenStore {
    type Target = Arc<Store>;

    fn deref(&self) -> &Arc<Store> {
        &self.store
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        let _ = self.store.close(); // some tests have made it fail
    }
}

pub fn open_store(flush_mode: FlushMode) -> OpenStore {
    let dir = tempfile::tempdir().unwrap();
    let mut config = StoreConfig::new(dir.path().join("store"));
    config.commit_log_file_size = 1 << 20;
    config.consume_queue_file_size = 20 * 4096;
    config.flush_mode = flush_mode;
    (config.index_slots, config.index_entries) = (50, 5000);
    let store = Store::open(config).unwrap();
    let topic = store.topics().topic(TOPIC.as_bytes()).unwrap();
    topic.set(Some(TopicSettings {
        read_queues: QUEUES,
        write_queues: QUEUES,
        multi_tag: false,
        sendable: true,
    }));
    OpenStore { store, _dir: dir }
}

pub fn context(store: &Arc<Store>) -> Arc<Context> {
    let broker = Broker::new(store.clone(), None, "R", "C", true);
    Arc::new(Context::new(broker, "R", true))
}

pub fn new_session(context: Option<&Arc<Context>>) -> Session {
    let host = Host::new("10.1.2.3:4567".parse().unwrap());
    Session::new(context.cloned(), Arc::new(Budget::new(1 << 24)), host)
}

fn frame(code: i32, opaque: i32, fields: &str, body: &[u8]) -> Vec<u8> {
    let header = format!(
        "{{\"code\":{code},\"flag\":0,\"language\":\"JAVA\",\"opaque\":{opaque},\
         \"serializeTypeCurrentRPC\":\"JSON\",\"version\":0,\"extFields\":{{{fields}}}}}"
    );
    let total = 4 + header.len() + body.len();
    let mut out = (total as u32).to_be_bytes().to_vec();
    out.extend_from_slice(&(header.len() as u32).to_be_bytes());
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(body);
    out
}

/// A send to a queue of `TOPIC`; one that it does not have is refused with code 29 (no such queue).
pub fn send(opaque: i32, queue: u32) -> Vec<u8> {
    let fields = format!(
        "\"a\":\"g\",\"b\":\"{TOPIC}\",\"c\":\"TBW102\",\"d\":\"4\",\"e\":\"{queue}\",\"f\":\"0\",\
         \"g\":\"1700000000000\",\"h\":\"0\",\"i\":\"\",\"j\":\"0\",\"k\":\"false\",\"m\":\"false\""
    );
    frame(310, opaque, &fields, format!("body {opaque}").as_bytes())
}

/// A request that only others answer.
pub fn other(opaque: i32, body: &[u8]) -> Vec<u8> {
    frame(35, opaque, "", body)
}

pub fn answers(mut sent: &[u8]) -> Vec<(i32, i32)> {
    let (mut found, mut header) = (Vec::new(), Header::default());
    while let Some(parts) = split(sent).unwrap() {
        header.read(parts.codec, sent, parts.header_end).unwrap();
        found.push((header.opaque, header.code));
        sent = &sent[parts.total..];
    }
    found
}
