//! The loop against a model: whatever the sockets do, each peer gets its answers once and in order,
//! and the log holds what was acknowledged.

use super::ready_loop::Until;
use super::testing::*;
use super::visit::Visit;
use proptest::prelude::*;
use std::collections::VecDeque;

/// A request of a peer, and what the model expects of it.
#[derive(Clone, Copy, Debug)]
enum Request {
    /// Answered with SUCCESS.
    Stored(u32),
    /// Refused: the topic has no such queue.
    Refused,
    /// Not the loop's.
    Other,
}

#[derive(Clone, Debug)]
struct Peer {
    requests: Vec<Request>,
    /// How the stream is cut.
    pieces: Vec<usize>,
    takes: Vec<Takes>,
    ends: bool,
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        4 => (0..QUEUES).prop_map(Request::Stored),
        1 => Just(Request::Refused),
        1 => Just(Request::Other),
    ]
}

fn takes() -> impl Strategy<Value = Takes> {
    prop_oneof![
        (0usize..300).prop_map(Takes::AtMost),
        Just(Takes::Nothing),
        Just(Takes::Interrupted),
        Just(Takes::AtMost(usize::MAX)),
    ]
}

fn peer() -> impl Strategy<Value = Peer> {
    (
        prop::collection::vec(request(), 0..12),
        prop::collection::vec(1usize..900, 1..12),
        prop::collection::vec(takes(), 0..12),
        any::<bool>(),
    )
        .prop_map(|(requests, pieces, takes, ends)| Peer {
            requests,
            pieces,
            takes,
            ends,
        })
}

/// What the owner of a connection keeps of it.
#[derive(Default)]
struct Kept {
    rest: Vec<u8>,
    commands: Vec<i32>,
    ended: bool,
}

/// Does what the loop leaves, as a server does.
fn follow_up(rig: &mut Rig, kept: &mut [Kept], visit: &Visit) {
    let fd = visit.key;
    let (connection, mine) = (rig.connections[fd as usize].clone(), &mut kept[fd as usize]);
    mine.rest.extend_from_slice(&visit.rest);
    if visit.has_ended() {
        mine.ended = true;
        rig.ready.forget(fd);
        rig.poll.poll().sockets.retain(|(one, _)| *one != fd);
        return;
    }
    assert_eq!(visit.errno, 0);
    loop {
        while let Some(command) = connection.with_session(|s| s.next_command()) {
            mine.commands.push(command.header.opaque);
        }
        if connection
            .report()
            .more
            .load(std::sync::atomic::Ordering::Relaxed)
            == 0
        {
            break;
        }
        connection.step(&mut mine.rest, |s, out| s.feed(b"", 0, out));
    }
    connection.release(0, LATER_MS, &mut mine.rest);
    if !mine.rest.is_empty() {
        // Nothing is read from it, nor sent by the loop, until it has taken the rest.
        rig.ready.forget(fd);
        let socket = rig.sockets[fd as usize].clone();
        socket.line().sent.append(&mut mine.rest);
        assert!(rig.ready.watch(fd, socket, connection));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_peer_gets_its_answers_in_order(
        peers in prop::collection::vec(peer(), 1..5),
        most in 1usize..6,
        holds in prop::collection::vec(any::<bool>(), 8),
    ) {
        let mut rig = Rig::new(peers.len());
        rig.poll.poll().most = most;
        let mut opaque = 0;
        let (mut expected, mut stored) = (Vec::new(), [0i64; QUEUES as usize]);
        for (peer, socket) in peers.iter().zip(&rig.sockets) {
            let (mut stream, mut answers, mut commands) = (Vec::new(), Vec::new(), Vec::new());
            for request in &peer.requests {
                opaque += 1;
                match request {
                    Request::Stored(queue) => {
                        stream.extend(send(opaque, *queue));
                        answers.push((opaque, 0));
                        stored[*queue as usize] += 1;
                    }
                    Request::Refused => {
                        stream.extend(send(opaque, 99));
                        answers.push((opaque, 29));
                    }
                    Request::Other => {
                        stream.extend(other(opaque, b"body"));
                        commands.push(opaque);
                    }
                }
            }
            expected.push((answers, commands));
            let mut stream = &stream[..];
            for n in peer.pieces.iter().cycle() {
                if stream.is_empty() {
                    break;
                }
                let (piece, rest) = stream.split_at((*n).min(stream.len()));
                socket.comes(piece);
                stream = rest;
            }
            let mut line = socket.line();
            line.takes = peer.takes.iter().copied().collect();
            if peer.ends {
                line.comes.push_back(Comes::End);
            }
        }
        let mut kept: Vec<Kept> = peers.iter().map(|_| Kept::default()).collect();
        let mut holds: VecDeque<bool> = holds.into();
        loop {
            let hold = holds.pop_front().unwrap_or(false);
            let until = Until { end_ns: i64::MAX, linger_ns: 0, hold, others_keep: false };
            let served = rig.ready.serve(until, 1.0);
            if served.idle {
                break;
            }
            if hold {
                prop_assert!(rig.ready.waiting() <= most);
                rig.ready.finish(1.0);
            }
            let mut left = Vec::new();
            rig.ready.take_left(&mut left);
            for visit in &left {
                follow_up(&mut rig, &mut kept, visit);
            }
            prop_assert_eq!(rig.ready.waiting(), 0);
        }
        for (i, (answers, commands)) in expected.iter().enumerate() {
            prop_assert_eq!(&rig.sockets[i].said(), answers);
            prop_assert_eq!(&kept[i].commands, commands);
            prop_assert_eq!(kept[i].ended, peers[i].ends);
        }
        for (queue, count) in stored.iter().enumerate() {
            prop_assert_eq!(rig.count(queue as u32), *count);
        }
    }
}
