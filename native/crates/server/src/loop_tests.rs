//! What a round does, in which order, and what it leaves; with sockets in memory.

use super::answer_sender::AnswerSender;
use super::connection::Status;
use super::poll::Ready;
use super::ready_loop::{Served, Until, Written};
use super::testing::*;
use super::visit::Visit;
use pyrmq_store::FlushMode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const SOON: Until = Until {
    end_ns: i64::MAX,
    linger_ns: 0,
    hold: false,
    others_keep: false,
};
const IDLE: Served = Served {
    idle: true,
    arrivals: false,
    rounds: 0,
    held: false,
    confirmed: false,
    written: Written::Done,
};

fn left(rig: &mut Rig) -> Vec<Visit> {
    let mut left = Vec::new();
    rig.ready.take_left(&mut left);
    left
}

fn keys(left: &[Visit]) -> Vec<i32> {
    left.iter().map(|visit| visit.key).collect()
}

fn serve(rig: &mut Rig) -> Served {
    rig.ready.serve(SOON, 7.5)
}

#[test]
fn all_receive_then_all_is_written_at_once_then_all_are_answered() {
    let mut rig = Rig::new(3);
    for (i, socket) in rig.sockets.iter().enumerate() {
        let i = i as i32;
        socket.comes([send(10 * i, 0), send(10 * i + 1, 0)].concat());
    }
    let served = serve(&mut rig);
    assert_eq!(
        (served.rounds, served.idle),
        (1, true),
        "then nothing is ready"
    );
    assert_eq!(rig.log.writes.load(Ordering::Relaxed), 1);
    assert_eq!(
        rig.log.sent_before.load(Ordering::Relaxed),
        0,
        "no answer before the write"
    );
    assert_eq!(rig.count(0), 6);
    for (i, socket) in rig.sockets.iter().enumerate() {
        let i = i as i32;
        assert_eq!(socket.said(), [(10 * i, 0), (10 * i + 1, 0)]);
        assert_eq!(
            socket.line().sends,
            1,
            "the answers of a round leave at once"
        );
    }
    assert!(left(&mut rig).is_empty());
    assert_eq!(rig.connections[2].active(), 7.5);
    assert_eq!(serve(&mut rig), IDLE);
}

#[test]
fn one_alone_writes_by_itself() {
    let mut rig = Rig::new(2);
    rig.sockets[1].comes(send(1, 0));
    assert_eq!(serve(&mut rig).rounds, 1);
    assert_eq!(rig.sockets[1].said(), [(1, 0)]);
    assert_eq!(rig.log.writes.load(Ordering::Relaxed), 0, "its session did");
    assert_eq!(
        (rig.connections[0].active(), rig.connections[1].active()),
        (0.0, 7.5)
    );
}

#[test]
fn pieces_of_frames_are_put_together() {
    let mut rig = Rig::new(2);
    for (i, socket) in rig.sockets.iter().enumerate() {
        for byte in send(i as i32, 1) {
            socket.comes([byte]);
        }
    }
    let served = serve(&mut rig);
    assert!(served.idle && served.rounds > 100);
    assert_eq!(
        (rig.sockets[0].said(), rig.sockets[1].said()),
        (vec![(0, 0)], vec![(1, 0)])
    );
}

#[test]
fn a_round_takes_one_buffer_of_each_and_no_more_than_there_is_room_for() {
    let mut rig = Rig::new(5);
    rig.poll.poll().most = 2;
    let stream: Vec<u8> = (0..1000).flat_map(|n| send(n, 0)).collect();
    rig.sockets[0].comes(stream);
    rig.sockets[1].comes(send(1, 0));
    rig.sockets[2].comes(send(2, 0));
    let until = Until { end_ns: 0, ..SOON };
    let served = rig.ready.serve(until, 0.0);
    assert_eq!((served.rounds, served.idle), (1, false), "its time is over");
    assert_eq!(rig.sockets[0].line().most_received, RECEIVE);
    assert!(rig.sockets[2].said().is_empty());
    assert_eq!(rig.ready.waiting(), 0);
    serve(&mut rig);
    assert_eq!(rig.sockets[0].said().len(), 1000);
    assert_eq!(rig.sockets[2].said(), [(2, 0)]);
}

#[test]
fn what_a_socket_does_not_take_is_left() {
    for (takes, n) in [
        (Takes::AtMost(10), 10),
        (Takes::Nothing, 0),
        (Takes::Interrupted, 0),
    ] {
        let mut rig = Rig::new(2);
        rig.sockets[0].line().takes.push_back(takes);
        rig.sockets[0].comes([send(1, 0), send(2, 77), send(3, 0)].concat());
        rig.sockets[1].comes(send(4, 0));
        assert!(!serve(&mut rig).idle);
        let left = left(&mut rig);
        assert_eq!(keys(&left), [0]);
        let mut all = rig.sockets[0].line().sent.clone();
        assert_eq!(all.len(), n);
        all.extend_from_slice(&left[0].rest);
        assert_eq!(answers(&all), [(1, 0), (2, 29), (3, 0)]);
        assert_eq!((left[0].errno, left[0].has_ended()), (0, false));
        assert_eq!(rig.sockets[1].said(), [(4, 0)]);
    }
}

#[test]
fn what_is_released_comes_behind_what_the_socket_did_not_take() {
    let mut rig = Rig::new(2);
    rig.sockets[0].line().takes.push_back(Takes::AtMost(5));
    // The refusal leaves at once, the answer waits for the write.
    rig.sockets[0].comes([send(1, 77), send(2, 0)].concat());
    rig.sockets[1].comes(send(3, 0));
    serve(&mut rig);
    let left = left(&mut rig);
    let line = rig.sockets[0].line();
    assert_eq!(line.sends, 1, "nothing is sent past the rest");
    let all = [&line.sent[..], &left[0].rest].concat();
    assert_eq!(answers(&all), [(1, 29), (2, 0)]);
}

#[test]
fn a_socket_that_fails_fails_alone() {
    let mut rig = Rig::new(3);
    rig.sockets[0]
        .line()
        .takes
        .push_back(Takes::Fails(libc::EPIPE));
    rig.sockets[0].comes(send(1, 0));
    rig.sockets[1]
        .line()
        .comes
        .push_back(Comes::Fails(libc::ECONNRESET));
    rig.sockets[2].comes(send(3, 0));
    serve(&mut rig);
    let left = left(&mut rig);
    assert_eq!(keys(&left), [0, 1]);
    assert_eq!(
        (left[0].errno, left[0].has_ended(), left[0].called),
        (libc::EPIPE, false, true)
    );
    assert_eq!(
        (left[1].errno, left[1].has_ended()),
        (libc::ECONNRESET, true)
    );
    assert_eq!(rig.sockets[2].said(), [(3, 0)]);
    assert_eq!(rig.count(0), 2, "what was received before counts");
}

#[test]
fn nothing_is_sent_to_a_socket_that_failed_in_this_round() {
    let mut rig = Rig::new(2);
    rig.sockets[0]
        .line()
        .takes
        .push_back(Takes::Fails(libc::EPIPE));
    rig.sockets[0].comes([send(1, 77), send(2, 0)].concat());
    rig.sockets[1].comes(send(3, 0));
    serve(&mut rig);
    assert_eq!(rig.sockets[0].line().sends, 1);
    assert_eq!(left(&mut rig)[0].errno, libc::EPIPE);
}

#[test]
fn the_end_of_a_stream_is_said() {
    let mut rig = Rig::new(2);
    rig.sockets[0].line().comes.push_back(Comes::End);
    rig.sockets[1].line().comes.push_back(Comes::Nothing);
    serve(&mut rig);
    let left = left(&mut rig);
    assert_eq!(keys(&left), [0], "that nothing came is nothing");
    assert_eq!(
        (left[0].has_ended(), left[0].called, left[0].errno),
        (true, false, 0)
    );
}

#[test]
fn commands_and_broken_streams_are_for_others() {
    let mut rig = Rig::new(3);
    rig.sockets[0].comes([other(1, b""), send(2, 0)].concat());
    rig.sockets[1].comes([send(3, 0), vec![0xff; 64]].concat());
    rig.sockets[2].comes(send(4, 0));
    serve(&mut rig);
    let left = left(&mut rig);
    assert_eq!(keys(&left), [0, 1]);
    assert_eq!(
        (left[0].status, left[1].status),
        (Status::Ok, Status::Broken)
    );
    assert_eq!(rig.connections[0].report().commands(), 1);
    assert_eq!(rig.sockets[0].said(), [(2, 0)]);
    assert!(rig.connections[1].error().contains("frame of"));
    let mut out = Vec::new();
    rig.connections[1].release(0, LATER_MS, &mut out);
    assert_eq!(answers(&out), [(3, 0)], "what it sent before counts");
    let command = rig.connections[0].with_session(|s| s.next_command());
    assert_eq!(command.unwrap().header.opaque, 1);
    assert_eq!(rig.connections[0].report().commands(), 0);
}

#[test]
fn a_large_frame_is_for_others() {
    let mut rig = Rig::new(1);
    rig.sockets[0].comes(&other(1, &vec![0; 1 << 20])[..RECEIVE]);
    serve(&mut rig);
    assert_eq!(keys(&left(&mut rig)), [0]);
    rig.sockets[0].comes(vec![0; 1000]);
    assert!(!serve(&mut rig).idle);
    let ready = Ready {
        fd: 0,
        events: READABLE,
    };
    assert_eq!(rig.ready.others(), [ready]);
    assert_eq!(rig.ready.waiting(), 0);
}

#[test]
fn a_round_waits_for_others() {
    let mut rig = Rig::new(4);
    for (i, socket) in rig.sockets.iter().enumerate() {
        socket.comes(send(i as i32, 0));
    }
    let hangs_up = Ready {
        fd: 3,
        events: READABLE | libc::EPOLLHUP as u32,
    };
    rig.poll.poll().sockets.pop();
    rig.poll.poll().others.push(hangs_up);
    let served = serve(&mut rig);
    assert_eq!((served.rounds, served.idle), (0, false));
    assert_eq!(
        (rig.ready.others(), rig.ready.waiting()),
        (&[hangs_up][..], 3)
    );
    assert_eq!(rig.count(0), 0);
    // Meanwhile one is closed, and the descriptor of another one is used again.
    rig.ready.forget(1);
    rig.ready.forget(2);
    let again = rig.connection();
    assert!(rig.ready.watch(2, rig.sockets[3].clone(), again));
    let served = rig.ready.finish(0.0);
    assert_eq!(served.written, Written::Done);
    assert_eq!(
        rig.log.writes.load(Ordering::Relaxed),
        1,
        "others may have stored something"
    );
    let said: Vec<_> = rig.sockets.iter().map(MemorySocket::said).collect();
    assert_eq!(said, [vec![(0, 0)], vec![], vec![], vec![]]);
    assert!(left(&mut rig).is_empty());
    assert_eq!(rig.ready.waiting(), 0);
}

#[test]
fn who_holds_a_round_finishes_it() {
    let mut rig = Rig::new(2);
    rig.sockets[1].comes(send(1, 0));
    let hold = Until {
        hold: true,
        linger_ns: 1_000_000,
        ..SOON
    };
    let served = rig.ready.serve(hold, 0.0);
    assert_eq!(
        (served.rounds, served.idle, rig.ready.waiting()),
        (0, false, 1)
    );
    rig.ready.finish(0.0);
    assert_eq!(rig.sockets[1].said(), [(1, 0)]);
    assert_eq!(rig.ready.serve(hold, 0.0), IDLE, "and it does not linger");
    assert_eq!(rig.ready.waiting(), 0);
}

#[test]
fn it_lingers_for_what_comes_next() {
    let mut rig = Rig::new(1);
    let linger = Until {
        end_ns: 1_000_000,
        linger_ns: 400_000,
        ..SOON
    };
    rig.poll
        .poll()
        .late
        .push((rig.sockets[0].clone(), send(1, 0)));
    let served = rig.ready.serve(linger, 0.0);
    assert_eq!((served.rounds, served.idle), (1, true));
    assert_eq!(rig.sockets[0].said(), [(1, 0)]);
    rig.poll.poll().now.store(900_000, Ordering::Relaxed);
    assert_eq!(rig.ready.serve(linger, 0.0), IDLE);
    let now = rig.poll.poll().now.load(Ordering::Relaxed);
    assert!(
        (1_000_000..1_010_000).contains(&now),
        "not beyond the end: {now}"
    );
    rig.poll.poll().cannot_wait = true;
    rig.sockets[0].comes(send(2, 0));
    assert_eq!(
        rig.ready.serve(linger, 0.0).rounds,
        1,
        "a system that cannot wait does not"
    );
    rig.poll.poll().now.store(0, Ordering::Relaxed);
    assert_eq!(rig.ready.serve(linger, 0.0), IDLE);
    assert!(rig.poll.poll().now.load(Ordering::Relaxed) < 400_000);
}

#[test]
fn no_second_round_on_a_slow_disk() {
    let mut rig = Rig::new(1);
    rig.log.slow.store(true, Ordering::Relaxed);
    rig.sockets[0].comes(send(1, 0));
    rig.sockets[0].comes(send(2, 0));
    let served = serve(&mut rig);
    assert_eq!((served.rounds, served.idle), (1, false));
    assert_eq!(rig.sockets[0].said(), [(1, 0)]);
}

#[test]
fn a_write_that_fails_is_said() {
    let mut rig = Rig::new(2);
    rig.log.fails.store(true, Ordering::Relaxed);
    rig.sockets[0].comes(send(1, 0));
    rig.sockets[1].comes(send(2, 0));
    let served = serve(&mut rig);
    assert!(matches!(served.written, Written::Failed(why) if why.contains("told to")));
    assert_eq!(keys(&left(&mut rig)), [0, 1], "their answers wait on");
    assert!(rig.sockets[0].said().is_empty());
    rig.log.fails.store(false, Ordering::Relaxed);
    rig.log.panics.store(true, Ordering::Relaxed);
    rig.sockets[0].comes(send(3, 0));
    rig.sockets[1].comes(send(4, 0));
    assert_eq!(serve(&mut rig).written, Written::Panicked);
}

#[test]
fn queues_that_have_grown_end_the_call() {
    let mut rig = Rig::new(2);
    rig.store.notify_on_arrival(TOPIC.as_bytes(), 0).unwrap();
    for n in 0..2 {
        rig.sockets[0].comes(send(n, 0));
    }
    let served = serve(&mut rig);
    assert_eq!(
        (served.arrivals, served.rounds, served.idle),
        (true, 1, false)
    );
    assert!(left(&mut rig).is_empty());
    assert_eq!(rig.store.drain_arrivals().len(), 1);
    let served = serve(&mut rig);
    assert_eq!(
        (served.arrivals, served.rounds, served.idle),
        (false, 1, true)
    );
}

#[test]
fn answers_that_wait_for_the_disk_are_sent_later() {
    let mut rig = Rig::flushing(3, FlushMode::Sync);
    for (i, socket) in rig.sockets.iter().enumerate() {
        socket.comes(send(i as i32, 0));
    }
    serve(&mut rig);
    assert!(left(&mut rig).is_empty());
    let mut sender = AnswerSender::default();
    rig.sockets[1].line().takes.push_back(Takes::AtMost(7));
    rig.sockets[2]
        .line()
        .takes
        .push_back(Takes::Fails(libc::EPIPE));
    let end = Instant::now() + Duration::from_secs(60);
    while rig
        .connections
        .iter()
        .any(|c| c.report().unconfirmed() != 0)
    {
        assert!(Instant::now() < end);
        let to = rig.connections.iter().zip(&rig.sockets);
        let to = to.filter(|(c, _)| c.report().unconfirmed() != 0);
        for visit in sender.send(to.map(|(c, s)| (&**c, s.clone())), 0, LATER_MS) {
            let kept = visit.status == Status::Ok && visit.rest.is_empty() && visit.errno == 0;
            assert!(kept || !visit.rest.is_empty() || visit.errno == libc::EPIPE);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(rig.sockets[0].said(), [(0, 0)]);
    assert_eq!(rig.sockets[1].line().sent.len(), 7);
    assert!(rig.sockets[2].line().sent.is_empty());
    assert_eq!(rig.count(0), 3);
}

#[test]
fn who_has_too_many_answers_waiting_is_left() {
    let mut rig = Rig::flushing(1, FlushMode::Sync);
    let mut left_over = Vec::new();
    for n in 0..5000 {
        rig.connections[0].step(&mut left_over, |session, out| {
            session.answer(b"", to(n), 0, false, u64::MAX, 0, out);
            Ok(())
        });
    }
    rig.sockets[0].comes(send(1, 0));
    serve(&mut rig);
    assert_eq!(keys(&left(&mut rig)), [0]);
    assert_eq!(rig.connections[0].report().full.load(Ordering::Relaxed), 1);
}

fn to(opaque: i32) -> pyrmq_broker::wire::reply::To {
    pyrmq_broker::wire::reply::To {
        codec: pyrmq_broker::wire::frame::Codec::Json,
        opaque,
    }
}

#[test]
fn only_what_can_be_watched_is() {
    let mut rig = Rig::new(1);
    let (socket, connection) = (MemorySocket::default(), rig.connection());
    for fd in [-1, 0, i32::MAX] {
        assert!(
            !rig.ready.watch(fd, socket.clone(), connection.clone()),
            "{fd}"
        );
    }
    for fd in [-1, 5, i32::MAX] {
        rig.ready.forget(fd);
    }
    rig.ready.forget(0);
    assert!(rig.ready.watch(0, socket, connection));
}

/// (code, response code, number) of what was entered.
fn entered(rig: &Rig) -> Vec<(i32, i32, u64)> {
    let rows = rig.figures().rows().into_iter();
    rows.map(|(kind, row)| (kind.code, kind.response, row[0]))
        .collect()
}

#[test]
fn every_answer_of_a_round_is_entered() {
    for n in [1, 3] {
        let mut rig = Rig::new(n);
        for socket in &rig.sockets {
            // No queue 99.
            socket.comes([send(1, 0), send(2, 99), send(3, 0)].concat());
        }
        serve(&mut rig);
        let n = n as u64;
        assert_eq!(entered(&rig), [(310, 0, 2 * n), (310, 29, n)]);
    }
}

#[test]
fn refusals_alone_are_entered_at_the_end_of_their_round() {
    let mut rig = Rig::new(2);
    rig.sockets[1].comes(send(2, 99));
    serve(&mut rig);
    assert_eq!(entered(&rig), [(310, 29, 1)]);
}

#[test]
fn a_round_that_waits_for_others_has_waited() {
    let mut rig = Rig::new(1);
    rig.sockets[0].comes(send(1, 99));
    let hold = Until { hold: true, ..SOON };
    assert!(rig.ready.serve(hold, 0.0).held);
    rig.poll
        .poll()
        .now
        .fetch_add(5_000_000_000, Ordering::Relaxed);
    rig.ready.finish(0.0);
    let rows = rig.figures().rows();
    assert_eq!((rows.len(), rows[0].1[0]), (1, 1));
    assert!(rows[0].1[1] >= 5_000_000, "{:?}", rows[0].1);
}
