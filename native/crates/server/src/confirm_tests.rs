//! Answers that wait for more than the write (SYNC_FLUSH): who sends them, and when.

use super::connection::Status;
use super::poll::Ready;
use super::ready_loop::{Until, Written};
use super::testing::*;
use super::visit::Visit;
use pyrmq_broker::wire::frame::Codec;
use pyrmq_broker::wire::reply::To;
use pyrmq_store::FlushMode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const SOON: Until = Until {
    end_ns: i64::MAX,
    linger_ns: 0,
    hold: false,
    others_keep: false,
};
const CONFIRMED: Ready = Ready {
    fd: EVENT,
    events: READABLE,
};

fn left(rig: &mut Rig) -> Vec<Visit> {
    let mut left = Vec::new();
    rig.ready.take_left(&mut left);
    left
}

/// Waits until readers see `n` messages of queue 0: they are on disk.
fn wait_for_flush(rig: &Rig, n: i64) {
    let end = Instant::now() + Duration::from_secs(60);
    while rig.count(0) < n {
        assert!(Instant::now() < end);
        std::thread::yield_now();
    }
}

/// `n` connections that each keep the answer to a send, of which the loop was not told yet that it is
/// confirmed.
fn keeping(n: usize) -> Rig {
    let mut rig = Rig::flushing(n, FlushMode::Sync);
    for (i, socket) in rig.sockets.iter().enumerate() {
        socket.comes(send(i as i32, 0));
    }
    let served = rig.ready.serve(SOON, 0.0);
    assert_eq!((served.rounds, served.confirmed), (1, false));
    assert!(left(&mut rig).is_empty(), "they are the loop's");
    wait_for_flush(&rig, n as i64);
    assert!(rig.sockets.iter().all(|socket| socket.said().is_empty()));
    rig
}

fn event(rig: &Rig) {
    rig.poll.poll().others.push(CONFIRMED);
}

/// Has a session keep the answer to request `opaque`, which is never confirmed.
fn keeps_forever(rig: &Rig, at: usize, opaque: i32) {
    let to = To {
        codec: Codec::Json,
        opaque,
    };
    let (mut answer, mut out) = (Vec::new(), Vec::new());
    pyrmq_broker::wire::reply::push(&mut answer, to, 0, None, &[]);
    let status = rig.connections[at].step(&mut out, |session, out| {
        session.answer(&answer, to, 0, false, u64::MAX, 0, out);
        Ok(())
    });
    assert_eq!((status, out.len()), (Status::Ok, 0));
}

#[test]
fn all_that_is_confirmed_leaves_with_the_event() {
    let mut rig = keeping(3);
    keeps_forever(&rig, 1, 77);
    event(&rig);
    let served = rig.ready.serve(SOON, 9.0);
    assert_eq!(
        (served.rounds, served.confirmed, served.idle, served.held),
        (1, true, true, false)
    );
    let said: Vec<_> = rig.sockets.iter().map(MemorySocket::said).collect();
    assert_eq!(said, [vec![(0, 0)], vec![(1, 0)], vec![(2, 0)]]);
    assert!(left(&mut rig).is_empty());
    assert_eq!(rig.log.taken.load(Ordering::Relaxed), 1);
    assert_eq!(rig.connections[0].active(), 0.0, "nothing came from it");
    // Who keeps more is asked again; its time is over by then.
    rig.poll
        .poll()
        .now
        .store((LATER_MS + 1) * 1_000_000, Ordering::Relaxed);
    event(&rig);
    rig.ready.serve(SOON, 9.0);
    assert_eq!(rig.sockets[1].said(), [(1, 0), (77, 10)]);
    assert_eq!(rig.sockets[0].line().sends, 1);
}

#[test]
fn what_a_socket_does_not_take_of_them_is_left() {
    let mut rig = keeping(3);
    let fails = Takes::Fails(libc::EPIPE);
    rig.sockets[0].line().takes.push_back(Takes::AtMost(7));
    rig.sockets[1].line().takes.push_back(fails);
    rig.sockets[2].comes(send(9, 77));
    event(&rig);
    let served = rig.ready.serve(SOON, 0.0);
    assert_eq!((served.rounds, served.held), (1, false));
    let left = left(&mut rig);
    assert_eq!((left[0].key, left[1].key, left.len()), (0, 1, 2));
    let all = [&rig.sockets[0].line().sent[..], &left[0].rest].concat();
    assert_eq!(answers(&all), [(0, 0)]);
    assert_eq!((left[1].errno, left[1].has_ended()), (libc::EPIPE, false));
    assert_eq!(rig.sockets[2].said(), [(2, 0)], "what came waits");
    rig.ready.serve(SOON, 0.0);
    assert_eq!(rig.sockets[2].said(), [(2, 0), (9, 29)]);
}

#[test]
fn a_refusal_does_not_wait_for_the_answers_before_it() {
    let mut rig = Rig::flushing(1, FlushMode::Sync);
    rig.sockets[0].comes([send(1, 0), send(2, 77), send(3, 0)].concat());
    rig.ready.serve(SOON, 0.0);
    assert_eq!(rig.sockets[0].said(), [(2, 29)]);
    wait_for_flush(&rig, 2);
    event(&rig);
    rig.ready.serve(SOON, 0.0);
    assert_eq!(rig.sockets[0].said(), [(2, 29), (1, 0), (3, 0)]);
}

#[test]
fn who_is_forgotten_is_left_to_others() {
    let mut rig = keeping(3);
    rig.ready.forget(1);
    assert!(!rig.ready.keep(1), "it is not watched");
    event(&rig);
    rig.ready.serve(SOON, 0.0);
    let sends: Vec<_> = rig.sockets.iter().map(|s| s.line().sends).collect();
    assert_eq!(sends, [1, 0, 1]);
    let (socket, connection) = (rig.sockets[1].clone(), rig.connections[1].clone());
    assert!(rig.ready.watch(1, socket, connection));
    event(&rig);
    rig.ready.serve(SOON, 0.0);
    assert_eq!(
        rig.sockets[1].line().sends,
        0,
        "nobody said that it keeps some"
    );
    assert!(rig.ready.keep(1) && rig.ready.keep(1));
    event(&rig);
    rig.ready.serve(SOON, 0.0);
    assert_eq!(rig.sockets[1].said(), [(1, 0)]);
}

#[test]
fn who_keeps_answers_elsewhere_is_told() {
    let mut rig = keeping(1);
    let until = Until {
        others_keep: true,
        ..SOON
    };
    event(&rig);
    rig.sockets[0].comes(send(8, 77));
    let served = rig.ready.serve(until, 0.0);
    assert_eq!((served.confirmed, served.idle), (true, false));
    assert_eq!(rig.sockets[0].said(), [(0, 0)], "it ended with the event");
    assert_eq!((left(&mut rig).len(), rig.ready.waiting()), (0, 0));
}

#[test]
fn the_event_comes_before_a_round_that_waits() {
    let mut rig = keeping(2);
    let hold = Until { hold: true, ..SOON };
    rig.sockets[0].comes(send(8, 77));
    event(&rig);
    let served = rig.ready.serve(hold, 0.0);
    assert_eq!((served.rounds, served.held), (1, true));
    assert_eq!(rig.sockets[1].said(), [(1, 0)]);
    assert_eq!(
        (rig.sockets[0].said(), rig.ready.waiting()),
        (vec![(0, 0)], 1)
    );
    rig.ready.finish(0.0);
    assert_eq!(rig.sockets[0].said(), [(0, 0), (8, 29)]);
}

#[test]
fn others_are_served_although_the_event_comes_always() {
    let mut rig = keeping(1);
    rig.poll.poll().always.push(CONFIRMED);
    rig.poll.poll().now.store(0, Ordering::Relaxed);
    rig.sockets[0].comes(send(8, 77));
    let until = Until {
        end_ns: 100 * TICK,
        ..SOON
    };
    assert!(!rig.ready.serve(until, 0.0).idle);
    assert_eq!(rig.sockets[0].said(), [(0, 0), (8, 29)]);
    let other = Ready {
        fd: 50,
        events: READABLE,
    };
    rig.poll.poll().always.push(other);
    rig.poll.poll().now.store(0, Ordering::Relaxed);
    assert!(rig.ready.serve(until, 0.0).held);
    assert_eq!(rig.ready.others(), [other]);
}

#[test]
fn the_event_of_a_log_that_has_failed_is_for_others() {
    let mut rig = keeping(1);
    rig.log.unwell.store(true, Ordering::Relaxed);
    event(&rig);
    assert!(rig.ready.serve(SOON, 0.0).held);
    assert_eq!(rig.ready.others(), [CONFIRMED]);
    assert_eq!(rig.log.taken.load(Ordering::Relaxed), 0);
    assert!(rig.sockets[0].said().is_empty());
    rig.sockets[0].comes(send(2, 0));
    rig.ready.serve(SOON, 0.0);
    assert_eq!(left(&mut rig).len(), 1, "nor does it keep answers");
}

#[test]
fn answers_of_a_write_that_failed_are_for_others() {
    let mut rig = Rig::flushing(2, FlushMode::Sync);
    rig.log.fails.store(true, Ordering::Relaxed);
    for (i, socket) in rig.sockets.iter().enumerate() {
        socket.comes(send(i as i32, 0));
    }
    let served = rig.ready.serve(SOON, 0.0);
    assert!(matches!(served.written, Written::Failed(_)));
    assert_eq!(left(&mut rig).len(), 2);
}

#[test]
fn queues_have_grown_with_the_event() {
    let mut rig = Rig::flushing(1, FlushMode::Sync);
    rig.store.notify_on_arrival(TOPIC.as_bytes(), 0).unwrap();
    rig.sockets[0].comes(send(0, 0));
    rig.ready.serve(SOON, 0.0);
    wait_for_flush(&rig, 1);
    event(&rig);
    let served = rig.ready.serve(SOON, 0.0);
    assert_eq!((served.arrivals, served.idle), (true, false));
    assert_eq!(rig.store.drain_arrivals().len(), 1);
    assert_eq!(rig.sockets[0].said(), [(0, 0)]);
    assert!(left(&mut rig).is_empty());
}

#[test]
fn with_async_flush_the_event_and_what_is_kept_are_for_others() {
    let mut rig = Rig::new(1);
    keeps_forever(&rig, 0, 5);
    assert!(!rig.ready.keep(0));
    event(&rig);
    rig.ready.serve(SOON, 0.0);
    assert_eq!(rig.ready.others(), [CONFIRMED]);
    assert!(
        !Rig::flushing(1, FlushMode::Sync).ready.keep(7),
        "nor is it watched"
    );
}

#[test]
fn it_waits_a_moment_for_the_event() {
    let mut rig = keeping(1);
    rig.ready.serve(SOON, 0.0); // `keeping` has waited in vain: this call does not wait
    rig.poll.poll().late_others.push(CONFIRMED);
    assert_eq!(rig.ready.serve(SOON, 0.0).rounds, 1);
    assert_eq!(rig.sockets[0].said(), [(0, 0)]);
    let began = rig.poll.poll().now.load(Ordering::Relaxed);
    assert!(rig.ready.serve(SOON, 0.0).idle);
    let waited = |rig: &Rig| rig.poll.poll().now.load(Ordering::Relaxed) - began >= 100 * TICK;
    assert!(!waited(&rig), "nobody keeps answers");
    keeps_forever(&rig, 0, 5);
    assert!(rig.ready.keep(0));
    let hold = Until { hold: true, ..SOON };
    assert!(
        rig.ready.serve(hold, 0.0).idle && !waited(&rig),
        "others have something to do"
    );
    rig.poll.poll().cannot_wait = true;
    assert!(rig.ready.serve(SOON, 0.0).idle && !waited(&rig));
}

#[test]
fn after_a_wait_in_vain_it_does_not_wait_at_once_again() {
    let mut rig = keeping(1);
    let mut waits = Vec::new();
    for _ in 0..4 {
        let began = rig.poll.poll().now.load(Ordering::Relaxed);
        assert!(rig.ready.serve(SOON, 0.0).idle);
        waits.push(rig.poll.poll().now.load(Ordering::Relaxed) - began >= 100 * TICK);
    }
    // `keeping` has waited in vain before: one is left out, then two.
    assert_eq!(waits, [false, true, false, false]);
}

/// As many connections, of which each sends a message; the loop flushes by itself.
fn alone(n: usize) -> Rig {
    let rig = Rig::flushing(n, FlushMode::Sync);
    rig.log.flushes_here.store(true, Ordering::Relaxed);
    for (i, socket) in rig.sockets.iter().enumerate() {
        socket.comes(send(i as i32, 0));
    }
    rig
}

fn flushes(rig: &Rig) -> usize {
    rig.log.flushes.load(Ordering::Relaxed)
}

#[test]
fn where_nothing_is_ready_it_flushes_by_itself() {
    let mut rig = alone(3);
    rig.poll.poll().late_others.push(CONFIRMED);
    let served = rig.ready.serve(SOON, 0.0);
    assert_eq!((served.rounds, served.confirmed), (2, true));
    assert_eq!((flushes(&rig), rig.count(0)), (1, 3));
    let said: Vec<_> = rig.sockets.iter().map(MemorySocket::said).collect();
    assert_eq!(said, [vec![(0, 0)], vec![(1, 0)], vec![(2, 0)]]);
    // Nothing is stored: nothing is flushed.
    rig.sockets[0].comes(send(9, 77));
    rig.ready.serve(SOON, 0.0);
    assert_eq!((flushes(&rig), rig.sockets[0].said().len()), (1, 2));
}

#[test]
fn what_is_ready_comes_before_the_flush() {
    let mut rig = alone(3);
    rig.poll.poll().most = 1;
    rig.ready.serve(SOON, 0.0);
    assert_eq!(rig.log.writes.load(Ordering::Relaxed), 0, "one at a time");
    assert_eq!((flushes(&rig), rig.count(0)), (1, 3));
}

#[test]
fn what_it_does_not_flush_others_flush() {
    let mut rig = alone(2);
    let until = Until { end_ns: 0, ..SOON };
    rig.ready.serve(until, 0.0);
    wait_for_flush(&rig, 2);
    // More is ready all the time: it goes on meanwhile.
    let other = Ready {
        fd: EVENT,
        events: READABLE,
    };
    rig.poll.poll().always.push(other);
    rig.sockets[0].comes(send(8, 0));
    let until = Until {
        end_ns: 1000 * TICK,
        ..SOON
    };
    rig.ready.serve(until, 0.0);
    wait_for_flush(&rig, 3);
    assert_eq!(flushes(&rig), 0);
}

#[test]
fn a_flush_that_fails_is_for_others() {
    let mut rig = alone(1);
    rig.log.unwell_after_flush.store(true, Ordering::Relaxed);
    rig.poll.poll().late_others.push(CONFIRMED);
    let served = rig.ready.serve(SOON, 0.0);
    assert_eq!(
        (flushes(&rig), served.held, served.confirmed),
        (1, true, false)
    );
    assert_eq!(rig.ready.others(), [CONFIRMED]);
    assert!(rig.sockets[0].said().is_empty());
}

/// Of all sends: number, sum and maximum of their times, µs.
fn sends(rig: &Rig) -> Vec<u64> {
    let rows = rig.figures().rows();
    let found = rows
        .iter()
        .find(|(kind, _)| (kind.code, kind.response) == (310, 0));
    found.map_or(vec![0; 3], |(_, row)| row[..3].to_vec())
}

#[test]
fn what_waits_for_a_flush_is_entered_when_it_leaves() {
    let mut rig = keeping(3);
    assert_eq!(sends(&rig)[0], 0);
    event(&rig);
    rig.ready.serve(SOON, 9.0);
    assert_eq!(sends(&rig)[0], 3);
    event(&rig);
    rig.ready.serve(SOON, 9.0);
    assert_eq!(sends(&rig)[0], 3);
}
