//! The entries as C calls them, over real sockets: what AddressSanitizer and ThreadSanitizer watch.

use super::border::{Bytes, CLOSE, NONE, OK, slice};
use super::ready_loop::{Addressee, Left, LeftList, Serve, Served};
use super::session::{CommandOut, Listener, ReceivedOut, SentOut};
use super::table::TABLE;
use pyrmq_broker::Broker;
use pyrmq_broker::wire::{Budget, Context};
use pyrmq_store::{FlushMode, Store, StoreConfig, TopicSettings};
use rustix::event::epoll;
use std::ffi::c_void;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LATER: i64 = 60_000;

/// What C gets to hold: everything by addresses.
struct Rig {
    store: Arc<Store>,
    listener: Box<Listener>,
    epoll: OwnedFd,
    ready: *mut c_void,
    lines: Vec<Line>,
    _dir: tempfile::TempDir,
}

struct Line {
    ours: UnixStream,
    peer: UnixStream,
    session: *mut c_void,
}

fn out<T>(call: impl FnOnce(*mut T) -> i32) -> (i32, T) {
    let mut place = MaybeUninit::uninit();
    let status = call(place.as_mut_ptr());
    // SAFETY: entries write their result unless they panic, which no test here expects.
    (status, unsafe { place.assume_init() })
}

fn bytes(b: &Bytes) -> &[u8] {
    // SAFETY: valid until the next call of its kind; each test looks at once.
    unsafe { slice(b.ptr, b.len) }
}

impl Rig {
    fn new(n: usize, flush_mode: FlushMode) -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let mut config = StoreConfig::new(dir.path().join("store"));
        config.commit_log_file_size = 1 << 20;
        config.consume_queue_file_size = 20 * 1024;
        config.flush_mode = flush_mode;
        (config.index_slots, config.index_entries) = (50, 500);
        let store = Store::open(config).unwrap();
        let topic = store.topics().topic(b"T").unwrap();
        topic.set(Some(TopicSettings {
            read_queues: 1,
            write_queues: 1,
            multi_tag: false,
            sendable: true,
        }));
        let broker = Broker::new(store.clone(), None, "R", "C", true);
        let listener = Box::new(Listener {
            tls: None,
            context: Some(Arc::new(Context::new(broker, "R", true))),
            budget: Arc::new(Budget::new(1 << 24)),
            keyring: None,
        });
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let address = Arc::as_ptr(&store).cast();
        // SAFETY: the epoll and the store live.
        let ready =
            unsafe { (TABLE.ready_loop_new)(epoll.as_raw_fd(), 8, 1 << 16, address, LATER) };
        assert!(!ready.is_null());
        let mut rig = Rig {
            store,
            listener,
            epoll,
            ready,
            lines: Vec::new(),
            _dir: dir,
        };
        for _ in 0..n {
            let line = rig.line();
            rig.watch(&line);
            rig.lines.push(line);
        }
        rig
    }

    fn line(&self) -> Line {
        let (ours, peer) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let listener = (&raw const *self.listener).cast();
        // SAFETY: the listener lives, the address has four bytes.
        let session = unsafe { (TABLE.session_new)(listener, [127, 0, 0, 1].as_ptr(), 4, 9) };
        assert!(!session.is_null());
        Line {
            ours,
            peer,
            session,
        }
    }

    fn watch(&self, line: &Line) {
        let fd = line.ours.as_raw_fd();
        let data = epoll::EventData::new_u64(fd as u64);
        epoll::add(&self.epoll, &line.ours, data, epoll::EventFlags::IN).unwrap();
        // SAFETY: a loop and a session of ours.
        let status = unsafe { (TABLE.ready_loop_watch)(self.ready, line.session, fd) };
        assert_eq!(status, OK);
        // SAFETY: as above.
        let again = unsafe { (TABLE.ready_loop_watch)(self.ready, line.session, fd) };
        assert_eq!(again, NONE);
    }

    fn serve(&self, hold: bool, finish: bool) -> Served {
        let serve = Serve {
            active: 2.5,
            end_ns: i64::MAX,
            linger_ns: 0,
            hold: hold as u8,
            others_keep: 0,
            finish: finish as u8,
        };
        // SAFETY: a loop of ours, valid areas.
        let (status, served) = out(|o| unsafe { (TABLE.ready_loop_serve)(self.ready, &serve, o) });
        assert_eq!(status, OK);
        served
    }

    fn send_answers(&self, sender: *mut c_void) -> (usize, usize) {
        let to: Vec<Addressee> = self.lines.iter().map(Line::addressee).collect();
        // SAFETY: a sender and sessions of ours.
        let (status, list) = out(|o: *mut LeftList| unsafe {
            (TABLE.answer_sender_send)(sender, to.as_ptr(), to.len(), 0, LATER, o)
        });
        assert_eq!(status, OK);
        // SAFETY: valid until the next call.
        let left = unsafe { slice(list.left, list.n_left) };
        (left.len(), left.iter().map(|one| one.rest.len).sum())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for line in &self.lines {
            // SAFETY: a session of ours, freed once; the loop may watch it still.
            unsafe { (TABLE.session_free)(line.session) };
        }
        // SAFETY: a loop of ours, freed once.
        unsafe { (TABLE.ready_loop_free)(self.ready) };
        let _ = self.store.close(); // its threads end before the folder is deleted
    }
}

impl Line {
    fn addressee(&self) -> Addressee {
        Addressee {
            session: self.session,
            fd: self.ours.as_raw_fd(),
        }
    }

    fn said(&self) -> usize {
        let mut got = [0; 4096];
        (&self.peer).read(&mut got).unwrap()
    }
}

fn frame(code: i32, opaque: i32, fields: &str, body: &[u8]) -> Vec<u8> {
    let header =
        format!("{{\"code\":{code},\"opaque\":{opaque},\"flag\":0,\"extFields\":{{{fields}}}}}");
    let mut out = ((4 + header.len() + body.len()) as u32)
        .to_be_bytes()
        .to_vec();
    out.extend_from_slice(&(header.len() as u32).to_be_bytes());
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(body);
    out
}

fn send(opaque: i32) -> Vec<u8> {
    let fields = "\"a\":\"g\",\"b\":\"T\",\"c\":\"TBW102\",\"d\":\"1\",\"e\":\"0\",\"f\":\"0\",\
                  \"g\":\"7\",\"h\":\"0\",\"i\":\"\",\"j\":\"0\",\"k\":\"false\",\"m\":\"false\"";
    frame(310, opaque, fields, b"body")
}

fn left(served: &Served) -> &[Left] {
    // SAFETY: valid until the next call of the loop.
    unsafe { slice(served.left, served.n_left) }
}

#[test]
fn a_round_over_the_border() {
    let rig = Rig::new(4, FlushMode::Async);
    for (line, n) in rig.lines.iter().zip(0..) {
        (&line.peer).write_all(&send(n)).unwrap();
    }
    let [_, command, broken, ended] = &rig.lines[..] else {
        panic!("four lines");
    };
    (&command.peer)
        .write_all(&frame(35, 9, "\"k\":\"v\"", b"body"))
        .unwrap();
    (&broken.peer).write_all(&[0xff; 64]).unwrap();
    let served = rig.serve(false, false);
    assert_eq!((served.rounds, served.written, served.idle), (1, OK, 0));
    let found: Vec<_> = left(&served).iter().map(|l| (l.key, l.status)).collect();
    assert_eq!(
        found,
        [
            (command.ours.as_raw_fd(), OK),
            (broken.ours.as_raw_fd(), CLOSE)
        ]
    );
    for line in [&rig.lines[0], command, ended] {
        assert!(line.said() > 0);
    }
    // SAFETY: sessions of ours; each result is looked at before the next call.
    unsafe {
        assert_eq!((*(TABLE.session_report)(command.session)).commands(), 1);
        assert_eq!((TABLE.session_active)(command.session), 2.5);
        let (status, got) = out(|o: *mut CommandOut| (TABLE.session_command)(command.session, o));
        assert_eq!((status, got.code, got.opaque, got.n_ext), (OK, 35, 9, 1));
        assert_eq!(bytes(&got.body), b"body");
        let mut name = MaybeUninit::uninit();
        let (_, value) = out(|o| (TABLE.session_ext)(command.session, 0, name.as_mut_ptr(), o));
        assert_eq!(
            (bytes(&name.assume_init()), bytes(&value)),
            (&b"k"[..], &b"v"[..])
        );
        let (_, text) = out(|o: *mut Bytes| (TABLE.session_error)(broken.session, o));
        assert!(!bytes(&text).is_empty());
    }
    ended.peer.shutdown(Shutdown::Both).unwrap();
    let served = rig.serve(false, false);
    assert_eq!(
        (served.n_others, served.waiting),
        (1, 0),
        "it hangs up: for others"
    );
}

#[test]
fn a_round_that_waits_outlives_sessions() {
    let mut rig = Rig::new(3, FlushMode::Async);
    for (line, n) in rig.lines.iter().zip(0..) {
        (&line.peer).write_all(&send(n)).unwrap();
    }
    let served = rig.serve(true, false);
    assert_eq!((served.waiting, served.n_left), (3, 0));
    let gone = rig.lines.pop().unwrap();
    // SAFETY: a loop and a session of ours, which is freed once.
    unsafe {
        (TABLE.ready_loop_forget)(rig.ready, gone.ours.as_raw_fd());
        (TABLE.session_free)(gone.session);
    }
    let served = rig.serve(false, true);
    assert_eq!((served.waiting, served.n_left, served.written), (0, 0, OK));
    assert!(rig.lines.iter().all(|line| line.said() > 0));
}

#[test]
fn what_a_socket_does_not_take_is_handed_over() {
    let rig = Rig::new(1, FlushMode::Async);
    let line = &rig.lines[0];
    while (&line.ours).write(&[0; 1 << 16]).is_ok() {}
    (&line.peer).write_all(&send(7)).unwrap();
    let served = rig.serve(false, false);
    assert_eq!(left(&served).len(), 1);
    let one = &left(&served)[0];
    assert_eq!((one.called, one.ended, one.failed), (1, 0, 0));
    let rest = bytes(&one.rest);
    assert_eq!(
        rest.len(),
        u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize + 4
    );
}

#[test]
fn answers_of_many_sessions_are_sent_when_they_are_flushed() {
    let rig = Rig::new(3, FlushMode::Sync);
    for (line, n) in rig.lines.iter().zip(0..) {
        (&line.peer).write_all(&send(n)).unwrap();
    }
    assert_eq!(rig.serve(false, false).n_left, 0);
    // SAFETY: freed below.
    let sender = unsafe { (TABLE.answer_sender_new)() };
    let end = Instant::now() + Duration::from_secs(60);
    while rig.send_answers(sender).0 > 0 {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(rig.lines.iter().all(|line| line.said() > 0));
    // SAFETY: a sender of ours, freed once.
    unsafe { (TABLE.answer_sender_free)(sender) };
}

#[test]
fn one_session_by_itself() {
    let rig = Rig::new(0, FlushMode::Async);
    let line = rig.line();
    let (session, fd) = (line.session, line.ours.as_raw_fd());
    let mut place = vec![0; 4096];
    let mut receive = || {
        // SAFETY: a session of ours, valid areas.
        let (status, got) = out(|o: *mut ReceivedOut| unsafe {
            (TABLE.session_receive)(session, fd, place.as_mut_ptr(), place.len(), 0, 1, o)
        });
        (status, got.received, got.failed, got.out.len)
    };
    assert_eq!(receive(), (OK, -1, 0, 0), "nothing came");
    (&line.peer).write_all(&send(1)).unwrap();
    assert_eq!(
        receive(),
        (OK, send(1).len() as i64, 0, 0),
        "its answer waits for the write"
    );
    // SAFETY: the store lives; a session of ours.
    unsafe {
        let store = Arc::as_ptr(&rig.store).cast();
        let (status, _) = out(|o: *mut u8| (TABLE.store_write_staged)(store, o));
        assert_eq!(status, OK);
        let (status, sent) =
            out(|o: *mut SentOut| (TABLE.session_send_released)(session, fd, 0, LATER, o));
        assert_eq!((status, sent.failed, sent.rest.len), (OK, 0, 0));
        assert!(line.said() > 0);
    }
    // The rest of a large frame goes to where the session keeps it.
    let large = frame(35, 2, "", &vec![7; 1 << 20]);
    // SAFETY: a session of ours; the place is used before the session is called again.
    unsafe {
        let (first, mut rest) = large.split_at(100);
        let feed = |data: &[u8]| {
            out(|o: *mut Bytes| (TABLE.session_feed)(session, data.as_ptr(), data.len(), 0, 0, o)).0
        };
        assert_eq!(feed(first), OK);
        while !rest.is_empty() {
            let (mut start, mut room) = (null_mut(), 0);
            if (TABLE.session_space)(session, &mut start, &mut room) == NONE {
                assert_eq!(feed(rest), OK);
                break;
            }
            let n = room.min(rest.len());
            std::ptr::copy_nonoverlapping(rest.as_ptr(), start, n);
            (TABLE.session_filled)(session, room, n);
            rest = &rest[n..];
        }
        assert_eq!(feed(b""), OK);
        let (status, got) = out(|o: *mut CommandOut| (TABLE.session_command)(session, o));
        assert_eq!((status, got.body.len), (OK, 1 << 20));
        drop(line.peer);
        assert_eq!(receive(), (OK, 0, 0, 0), "the end");
        (TABLE.session_free)(session);
    }
}

#[test]
fn what_is_missing_is_an_error() {
    let rig = Rig::new(1, FlushMode::Async);
    // SAFETY: null is what these refuse, or a valid area.
    unsafe {
        let (status, _) = out(|o: *mut u8| {
            *o = 0;
            (TABLE.store_write_staged)(null(), o)
        });
        assert_ne!(status, OK);
        let (status, _) = out(|o: *mut Bytes| {
            o.write(Bytes::of(b""));
            (TABLE.session_feed)(null_mut(), null(), 0, 0, 0, o)
        });
        assert_ne!(status, OK);
        let listener = (&raw const *rig.listener).cast();
        assert!((TABLE.session_new)(listener, [1, 2, 3].as_ptr(), 3, 9).is_null());
        assert_eq!(
            (TABLE.ready_loop_watch)(rig.ready, rig.lines[0].session, -1),
            NONE
        );
    }
}
