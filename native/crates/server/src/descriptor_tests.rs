//! The loop over real sockets and a real epoll, with threads at the other end.

use super::connection::Connection;
use super::descriptor::{Descriptor, Epoll};
use super::poll::{Poll, Ready};
use super::ready_loop::{ReadyLoop, Until};
use super::socket::Socket;
use super::testing::*;
use pyrmq_store::FlushMode;
use rustix::event::epoll;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

fn epoll(watched: &[UnixStream]) -> OwnedFd {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    for stream in watched {
        let data = epoll::EventData::new_u64(stream.as_raw_fd() as u64);
        epoll::add(&epoll, stream, data, epoll::EventFlags::IN).unwrap();
    }
    epoll
}

/// Sends requests one by one and waits for each answer.
fn ask(mut stream: UnixStream, first: i32, count: i32) {
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    for n in first..first + count {
        stream.write_all(&send(n, n as u32 % QUEUES)).unwrap();
        let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
        while answers(&got).is_empty() {
            let n = stream.read(&mut buffer).unwrap();
            assert!(n > 0);
            got.extend_from_slice(&buffer[..n]);
        }
        assert_eq!(answers(&got), [(n, 0)]);
    }
}

fn serve_peers(flush_mode: FlushMode) {
    const PEERS: i32 = 4;
    const COUNT: i32 = 50;
    let store = open_store(flush_mode);
    let context = context(&store);
    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    for _ in 0..PEERS {
        let (one, other) = UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        ours.push(one);
        peers.push(other);
    }
    let epoll = epoll(&ours);
    let event = store.barrier().event_fd();
    let data = epoll::EventData::new_u64(event.as_raw_fd() as u64);
    epoll::add(&epoll, event, data, epoll::EventFlags::IN).unwrap();
    let poll = Epoll::new(epoll.as_raw_fd(), 3);
    let mut ready = ReadyLoop::new(poll, RECEIVE, Some(store.clone()), LATER_MS);
    let mut connections = Vec::new();
    for stream in &ours {
        let connection = Arc::new(Connection::new(new_session(Some(&context))));
        let fd = stream.as_raw_fd();
        assert!(ready.watch(fd, Descriptor(fd), connection.clone()));
        connections.push((fd, connection));
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let asking: Vec<_> = peers
            .into_iter()
            .zip(0..)
            .map(|(peer, i)| scope.spawn(move || ask(peer, i * COUNT, COUNT)))
            .collect();
        // Somebody looks at reports all the time, as Python does.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let all = connections.iter().map(|(_, c)| c.report().unconfirmed());
                assert!(all.sum::<u32>() <= (PEERS * COUNT) as u32);
                assert!(connections.iter().all(|(_, c)| c.active() >= 0.0));
                thread::yield_now();
            }
        });
        let mut left = Vec::new();
        while !asking.iter().all(|one| one.is_finished()) {
            let until = Until {
                end_ns: i64::MAX,
                linger_ns: 1_000_000,
                hold: false,
                others_keep: false,
            };
            ready.serve(until, 1.5);
            let gone: Vec<i32> = ready.others().iter().map(|other| other.fd).collect();
            if !gone.is_empty() {
                for fd in gone {
                    ready.forget(fd); // the peer has closed its socket
                    let stream = ours.iter().find(|one| one.as_raw_fd() == fd).unwrap();
                    epoll::delete(&epoll, stream).unwrap();
                }
                ready.finish(1.5);
            }
            ready.take_left(&mut left);
            left.clear();
        }
        done.store(true, Ordering::Relaxed);
        for one in asking {
            one.join().unwrap();
        }
    });
    let topic = store.topics().get(TOPIC.as_bytes()).unwrap();
    let count = |q| {
        store
            .visible_max(&topic.existing_queue(q).unwrap())
            .unwrap()
    };
    assert_eq!((0..QUEUES).map(count).sum::<i64>(), (PEERS * COUNT) as i64);
}

#[test]
fn peers_are_served_with_asynchronous_flush() {
    serve_peers(FlushMode::Async);
}

#[test]
fn peers_are_served_with_synchronous_flush() {
    serve_peers(FlushMode::Sync);
}

#[test]
fn several_threads_use_one_connection_in_turn() {
    let store = open_store(FlushMode::Async);
    let connection = Connection::new(new_session(Some(&context(&store))));
    thread::scope(|scope| {
        for first in [0, 100, 200] {
            let connection = &connection;
            scope.spawn(move || {
                for n in first..first + 100 {
                    let mut out = Vec::new();
                    connection.step(&mut out, |s, out| s.feed(&send(n, 0), 0, out));
                    assert_eq!(answers(&out), [(n, 0)]);
                    connection.note_active(1.0);
                }
            });
        }
    });
}

#[test]
fn a_socket_says_what_the_system_says() {
    let (one, other) = UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    let socket = Descriptor(one.as_raw_fd());
    let mut place = [0; 8];
    assert_eq!(
        socket.receive(&mut place).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    (&other).write_all(b"abcdefghij").unwrap();
    assert_eq!(socket.receive(&mut place).unwrap(), 8);
    assert_eq!(socket.receive(&mut place).unwrap(), 2);
    assert_eq!((socket.send(b"xyz").unwrap(), &place), (3, b"ijcdefgh"));
    while socket.send(&[0; 1 << 16]).is_ok() {}
    assert_eq!(socket.send(b"x").unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(other);
    assert!(matches!(
        socket.send(b"x").unwrap_err().raw_os_error(),
        Some(libc::EPIPE)
    ));
    let closed = Descriptor(-1);
    assert_eq!(
        closed.receive(&mut place).unwrap_err().raw_os_error(),
        Some(libc::EBADF)
    );
}

#[test]
fn an_epoll_says_what_is_ready() {
    let (one, other) = UnixStream::pair().unwrap();
    let (quiet, _peer) = UnixStream::pair().unwrap();
    let watched = [one, quiet];
    let epoll = epoll(&watched);
    let mut poll = Epoll::new(epoll.as_raw_fd(), 8);
    let mut found = Vec::new();
    let before = poll.now_ns();
    poll.poll(0, &mut found).unwrap();
    assert!(found.is_empty());
    poll.poll(2_000_000, &mut found).unwrap();
    assert!(found.is_empty());
    assert!(poll.now_ns() - before >= 2_000_000);
    (&other).write_all(b"x").unwrap();
    for wait_ns in [0, 10_000_000_000] {
        poll.poll(wait_ns, &mut found).unwrap();
        let ready = Ready {
            fd: watched[0].as_raw_fd(),
            events: READABLE,
        };
        assert_eq!(found, [ready]);
    }
    assert!(Epoll::new(-1, 1).poll(0, &mut found).is_err());
}
