//! Connections that speak TLS in the loop: what a client in memory gets is what a plain one gets.

use super::connection::{Piece, Status};
use super::poll::Ready;
use super::ready_loop::Until;
use super::testing::*;
use super::transform::Tls;
use super::visit::Visit;
use proptest::prelude::*;
use pyrmq_store::FlushMode;
use pyrmq_tls::testing::Client;
use pyrmq_tls::{Context, Mode, self_signed_config};
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

const SOON: Until = Until {
    end_ns: i64::MAX,
    linger_ns: 0,
    hold: false,
    others_keep: false,
};

static PERMISSIVE: LazyLock<Arc<Context>> = LazyLock::new(|| context_of(Mode::Permissive));

fn context_of(mode: Mode) -> Arc<Context> {
    Arc::new(Context::new(mode, Some(self_signed_config().unwrap())))
}

fn rig(n: usize) -> Rig {
    Rig::with(n, FlushMode::Async, Some(PERMISSIVE.clone()))
}

fn left(rig: &mut Rig) -> Vec<Visit> {
    let mut left = Vec::new();
    rig.ready.take_left(&mut left);
    left
}

fn state(rig: &Rig, at: usize) -> u8 {
    rig.connections[at].report().tls.load(Ordering::Relaxed)
}

fn taken(rig: &Rig, at: usize) -> Vec<u8> {
    std::mem::take(&mut rig.sockets[at].line().sent)
}

/// A client that has shaken hands over a socket of the rig.
fn shaken(rig: &mut Rig, at: usize) -> Client {
    let mut client = Client::new();
    for _ in 0..3 {
        let hello = client.sends();
        if !hello.is_empty() {
            rig.sockets[at].comes(hello);
        }
        rig.ready.serve(SOON, 1.0);
        assert!(left(rig).is_empty(), "the loop shakes hands by itself");
        client.takes(&taken(rig, at)).unwrap();
    }
    assert_eq!(state(rig, at), Tls::Established as u8);
    client
}

#[test]
fn plain_and_sealed_connections_are_served_in_one_round() {
    let mut rig = rig(3);
    let mut clients = [shaken(&mut rig, 0), shaken(&mut rig, 1)];
    for (i, client) in clients.iter_mut().enumerate() {
        let i = i as i32;
        let requests = [send(10 * i, 0), send(10 * i + 1, 99)].concat();
        rig.sockets[i as usize].comes(client.seal(&requests));
    }
    rig.sockets[2].comes(send(20, 0));
    let writes = rig.log.writes.load(Ordering::Relaxed);
    rig.ready.serve(SOON, 1.0);
    assert_eq!(rig.log.writes.load(Ordering::Relaxed), writes + 1);
    assert_eq!(rig.count(0), 3);
    for (i, client) in clients.iter_mut().enumerate() {
        let sent = taken(&rig, i);
        let i = i as i32;
        assert_eq!(
            answers(&client.takes(&sent).unwrap()),
            [(10 * i, 0), (10 * i + 1, 29)]
        );
    }
    assert_eq!(rig.sockets[2].said(), [(20, 0)]);
    assert_eq!(state(&rig, 2), Tls::None as u8);
    assert!(left(&mut rig).is_empty());
}

#[test]
fn answers_that_wait_for_the_disk_are_sealed_when_they_leave() {
    let mut rig = Rig::with(1, FlushMode::Sync, Some(PERMISSIVE.clone()));
    let mut client = shaken(&mut rig, 0);
    rig.sockets[0].comes(client.seal(&send(1, 0)));
    rig.ready.serve(SOON, 0.0);
    assert!(left(&mut rig).is_empty(), "they are the loop's");
    while rig.count(0) < 1 {
        std::thread::yield_now();
    }
    rig.poll.poll().others.push(Ready {
        fd: EVENT,
        events: READABLE,
    });
    assert!(rig.ready.serve(SOON, 0.0).confirmed);
    let sent = taken(&rig, 0);
    assert_eq!(answers(&client.takes(&sent).unwrap()), [(1, 0)]);
}

#[test]
fn what_the_socket_does_not_take_is_left_as_it_is_to_be_sent() {
    let mut rig = rig(1);
    let mut client = shaken(&mut rig, 0);
    rig.sockets[0].comes(client.seal(&send(1, 0)));
    rig.sockets[0].line().takes.push_back(Takes::AtMost(11));
    rig.ready.serve(SOON, 1.0);
    let left = left(&mut rig);
    assert_eq!(left.len(), 1);
    let mut sent = taken(&rig, 0);
    assert_eq!(sent.len(), 11);
    sent.extend_from_slice(&left[0].rest);
    assert_eq!(answers(&client.takes(&sent).unwrap()), [(1, 0)]);
}

#[test]
fn the_mode_refuses_with_the_first_byte() {
    for (mode, first, words) in [
        (Mode::Enforcing, send(1, 0), "tls.server.mode=enforcing"),
        (
            Mode::Disabled,
            Client::new().sends(),
            "tls.server.mode=disabled",
        ),
    ] {
        let mut rig = Rig::with(1, FlushMode::Async, Some(context_of(mode)));
        rig.sockets[0].comes(first);
        rig.ready.serve(SOON, 1.0);
        let left = left(&mut rig);
        assert_eq!(left[0].status, Status::Broken);
        assert!(rig.connections[0].error().contains(words));
        assert_eq!(state(&rig, 0), Tls::Refused as u8);
        assert!(taken(&rig, 0).is_empty());
        assert_eq!(rig.count(0), 0);
    }
}

#[test]
fn plain_bytes_behind_a_hello_end_the_connection_with_an_alert() {
    let mut rig = rig(1);
    let mut client = shaken(&mut rig, 0);
    rig.sockets[0].comes(send(1, 0));
    rig.ready.serve(SOON, 1.0);
    assert_eq!(left(&mut rig)[0].status, Status::Broken);
    assert!(rig.connections[0].error().starts_with("TLS: "));
    assert_eq!(state(&rig, 0), Tls::Refused as u8);
    let sent = taken(&rig, 0);
    assert!(client.takes(&sent).is_err(), "the alert");
    assert_eq!(rig.count(0), 0);
}

#[test]
fn an_end_that_tls_tells_is_reported() {
    let mut rig = rig(1);
    let mut client = shaken(&mut rig, 0);
    let mut last = client.seal(&send(1, 0));
    client.0.send_close_notify();
    last.extend(client.sends());
    rig.sockets[0].comes(last);
    rig.ready.serve(SOON, 1.0);
    let left = left(&mut rig);
    assert_eq!((left.len(), left[0].status), (1, Status::Ok));
    assert_eq!(state(&rig, 0), Tls::Closed as u8);
    rig.connections[0].send_close(&rig.sockets[0]);
    let sent = taken(&rig, 0);
    assert_eq!(answers(&client.takes(&sent).unwrap()), [(1, 0)]);
    assert!(client.0.process_new_packets().unwrap().peer_has_closed());
}

#[test]
fn a_large_frame_is_fed_and_not_received_into_the_session() {
    let mut rig = rig(1);
    let mut client = shaken(&mut rig, 0);
    let large = other(5, &vec![7; 900_000]);
    rig.sockets[0].comes(client.seal(&large));
    let report = rig.connections[0].clone();
    for _ in 0..50 {
        let mut buffer = vec![0; RECEIVE];
        let mut out = Vec::new();
        rig.connections[0].receive(&rig.sockets[0], &mut buffer, 0, false, &mut out);
        assert_eq!(report.report().large.load(Ordering::Relaxed), 0);
        if report.report().commands() == 1 {
            break;
        }
    }
    let command = rig.connections[0].with_session(|s| s.next_command());
    assert_eq!(command.unwrap().frame, large);
}

#[test]
fn pieces_are_sealed_until_the_socket_is_full() {
    let mut rig = rig(1);
    let mut client = shaken(&mut rig, 0);
    let (small, large) = (vec![1u8; 1000], vec![2u8; 300_000]);
    let pieces = [(&small, false), (&large, true), (&small, false)];
    let plain: Vec<u8> = pieces
        .iter()
        .flat_map(|(bytes, _)| bytes.iter().copied())
        .collect();
    let socket = rig.sockets[0].clone();
    socket
        .line()
        .takes
        .extend([Takes::AtMost(usize::MAX), Takes::AtMost(10)]);
    let (mut done, mut records, mut rests) = (0, Vec::new(), 0);
    while done < plain.len() {
        let mut rest = Vec::new();
        let now = [Piece {
            bytes: &plain[done..],
            mapped: true,
        }];
        done += rig.connections[0]
            .send_pieces(&socket, now.into_iter(), &mut rest)
            .unwrap();
        records.extend(taken(&rig, 0));
        rests += usize::from(!rest.is_empty());
        records.extend(rest);
    }
    assert_eq!(rests, 1);
    assert_eq!(client.takes(&records).unwrap(), plain);
    let mut rest = Vec::new();
    let all = pieces.iter().map(|(bytes, mapped)| Piece {
        bytes,
        mapped: *mapped,
    });
    assert_eq!(
        rig.connections[0]
            .send_pieces(&socket, all, &mut rest)
            .unwrap(),
        plain.len()
    );
    assert_eq!(client.takes(&taken(&rig, 0)).unwrap(), plain);
    socket.line().unreadable = true;
    let lost = [Piece {
        bytes: &large,
        mapped: true,
    }]
    .into_iter();
    let error = rig.connections[0]
        .send_pieces(&socket, lost, &mut rest)
        .unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_session_says_the_same_plain_and_sealed(
        requests in prop::collection::vec((0u32..6, 0usize..3000), 1..20),
        cuts in prop::collection::vec(1usize..5000, 1..10),
        takes in prop::collection::vec(1usize..4000, 0..10),
    ) {
        let mut rig = rig(2);
        let mut client = shaken(&mut rig, 0);
        let mut stream = Vec::new();
        for (i, (queue, size)) in requests.iter().enumerate() {
            match size % 3 {
                0 => stream.extend(other(i as i32, &vec![3; *size])),
                _ => stream.extend(send(i as i32, *queue)),
            }
        }
        let sealed = client.seal(&stream);
        let mut said = Vec::new();
        for (at, bytes) in [sealed, stream].iter().enumerate() {
            let mut rest = &bytes[..];
            for n in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (now, later) = rest.split_at((*n).min(rest.len()));
                rig.sockets[at].comes(now);
                rest = later;
            }
            rig.sockets[at].line().takes = takes.iter().map(|n| Takes::AtMost(*n)).collect();
            let mut commands = Vec::new();
            loop {
                let served = rig.ready.serve(SOON, 1.0);
                for visit in left(&mut rig) {
                    prop_assert_eq!(visit.status, Status::Ok);
                    rig.sockets[at].line().sent.extend_from_slice(&visit.rest);
                }
                let connection = &rig.connections[at];
                while let Some(command) = connection.with_session(|s| s.next_command()) {
                    commands.push(command.frame);
                }
                if served.idle {
                    break;
                }
            }
            let sent = taken(&rig, at);
            let plain = if at == 0 { client.takes(&sent).unwrap() } else { sent };
            said.push((answers(&plain), commands));
        }
        prop_assert_eq!(&said[0], &said[1]);
    }
}
