//! Timers against a store.

use super::testing::*;
use super::*;
use pyrmq_format::{properties, timer};

#[test]
fn a_message_is_delivered_with_the_end_of_its_slot_and_not_before() {
    let rig = Rig::new();
    assert_eq!((rig.timers.due_in(T), rig.timers.behind()), (None, 0));
    rig.park(T + 5000, "late");
    assert_eq!(rig.timers.behind(), 1);
    rig.enqueue(T);
    assert_eq!((rig.timers.behind(), rig.timers.due_in(T)), (0, Some(6000)));
    assert_eq!(rig.timers.slot_count(T + 5000), 1);
    assert_eq!(rig.deliver(T + 5999), 0);
    assert_eq!(rig.timers.due_in(T + 5999), Some(1));
    assert_eq!(rig.deliver(T + 6000), 1);
    assert_eq!((rig.timers.due_in(T), rig.deliver(T + HOUR)), (None, 0));
    let [got] = &rig.in_topic(TOPIC)[..] else {
        panic!("one message")
    };
    assert_eq!((got.queue_id, &got.body[..]), (1, &b"late"[..]));
    assert_eq!(got.property(timer::ENQUEUE_MS), Some(T.to_string()));
    assert_eq!(
        got.property(timer::DEQUEUE_MS),
        Some((T + 6000).to_string())
    );
    assert_eq!(got.property(timer::OUT_MS), Some((T + 5000).to_string()));
    let queue = rig.store().topics().get(TOPIC).unwrap().queue(1).unwrap();
    assert_eq!(queue.entry(0).unwrap().unwrap().cq.tags_code, 97);
    assert_eq!(rig.timers.take_unknown(), [TOPIC.into()]);
    assert!(rig.timers.take_unknown().is_empty());
}

#[test]
fn slots_come_in_their_order_and_what_is_in_one_as_it_arrived() {
    let rig = Rig::new();
    for n in 0..900 {
        rig.park(T + 1000 * (n % 3), &format!("{n}"));
    }
    assert_eq!(rig.deliver(T + 2000), 600);
    assert_eq!(rig.deliver(T + 3000), 300);
    let in_slot = |slot: i64| (0..900).filter(move |n| n % 3 == slot);
    let expected = in_slot(0).chain(in_slot(1)).chain(in_slot(2));
    assert_eq!(
        rig.got(),
        expected.map(|n| n.to_string()).collect::<Vec<_>>()
    );
    assert!(rig.timers.work.lock().log.files() > 5);
}

#[test]
fn what_is_late_is_due_at_once() {
    let rig = Rig::new();
    assert_eq!(rig.deliver(T), 0);
    rig.park(T - 5000, "a");
    rig.park(T - 40 * 24 * HOUR, "b");
    rig.park(T + 1000, "c");
    assert_eq!(rig.deliver(T + 500), 2);
    assert_eq!(rig.got(), ["b", "a"]);
}

#[test]
fn a_delete_takes_back_what_is_in_its_slot() {
    let rig = Rig::new();
    for body in ["a", "b", "c"] {
        rig.park(T + 5000, body);
    }
    rig.recall(T + 5000, "b");
    rig.recall(T + 5000, "Orders+c");
    rig.recall(T + 5000, "Other+a");
    rig.recall(T + 9000, "a");
    rig.enqueue(T);
    assert_eq!(rig.timers.slot_count(T + 5000), 0);
    assert_eq!(rig.deliver(T + 20_000), 1);
    assert_eq!(rig.got(), ["a"]);
}

/// Who may send to another topic only takes back nothing, though the key is known.
#[test]
fn a_delete_counts_for_the_topic_that_it_was_sent_to() {
    let rig = Rig::new();
    rig.park(T + 5000, "a");
    for wanted in ["a", "Orders+a", "Other+a"] {
        rig.put(T + 5000, b"Other", 0, "0", &[(timer::DEL_UNIQKEY, wanted)]);
    }
    rig.enqueue(T);
    assert_eq!(rig.deliver(T + 20_000), 1);
    assert_eq!(rig.got(), ["a"]);
}

/// It is in the queue, but nobody has enqueued it when its slot is over.
#[test]
fn a_delete_in_the_last_moment_counts() {
    let rig = Rig::new();
    rig.park(T + 5000, "a");
    rig.enqueue(T);
    rig.recall(T + 5000, "a");
    assert_eq!(rig.deliver(T + 6000), 0);
    // After a stop both are late.
    rig.park(T + 7000, "b");
    rig.recall(T + 7000, "b");
    assert_eq!(rig.deliver(T + HOUR), 0);
    assert_eq!(rig.got(), [""; 0]);
}

#[test]
fn what_is_far_away_is_rolled_and_still_taken_back() {
    let rig = Rig::with(
        Settings {
            roll_window: 100,
            ..settings()
        },
        |_| (),
    );
    rig.park(T + 250_000, "far");
    rig.park(T + 250_000, "gone");
    rig.park(T + 120_000, "near");
    rig.enqueue(T);
    // Little is left behind the window: half of it.
    assert_eq!(rig.timers.slot_count(T + 50_000), 1);
    assert_eq!(rig.timers.slot_count(T + 100_000), 2);
    rig.recall(T + 250_000, "gone");
    for second in 1..=250 {
        let given = rig.deliver(T + second * 1000);
        assert_eq!(given, usize::from(second == 121), "{second}");
    }
    assert_eq!(rig.deliver(T + 251_000), 1);
    assert_eq!(rig.got(), ["near", "far"]);
    let far = &rig.in_topic(TOPIC)[1];
    assert_eq!(far.property(timer::ROLL_TIMES), Some("2".into()));
    let names = properties::pairs(&far.props).filter(|(name, _)| *name == timer::ENQUEUE_MS);
    assert_eq!(names.count(), 1);
    let totals = rig.timers.totals();
    let [of_topic] = &totals[..] else {
        panic!("one topic, not {totals:?}");
    };
    assert_eq!(of_topic.delays[0], 3, "each once, the recall not");
    assert_eq!(of_topic.dequeued, 2);
    assert!(of_topic.enqueued > 3 + 1, "each roll too");
}

#[test]
fn what_goes_nowhere_is_left_out() {
    let rig = Rig::new();
    rig.put(T, b"no topic/", 0, "a", &[]);
    rig.put(T, timer::TIMER_TOPIC, 0, "b", &[]);
    rig.put(T, b"gone", 0, "c", &[]);
    rig.append(b"TAGS\x01a\x02", "no time");
    rig.append(b"TIMER_OUT_MS\x011800000000000\x02", "no place");
    rig.park(T, "d");
    rig.store().topics().topic(b"gone").unwrap().set_deleted();
    assert_eq!(rig.deliver(T + 1000), 1);
    assert_eq!(rig.got(), ["d"]);
    assert_eq!(rig.timers.figures(T).lost, 1, "what has no time");
    assert_eq!(rig.in_topic(b"gone").len(), 0);
}

#[test]
fn the_clock_may_go_back_and_forth() {
    let rig = Rig::new();
    rig.park(T + 5000, "a");
    rig.park(T + 2 * HOUR, "b");
    assert_eq!(rig.deliver(T + HOUR), 1);
    // An hour back: what is set now is not early, and nothing is lost.
    rig.park(T + 10_000, "c");
    assert_eq!(rig.deliver(T), 0);
    assert_eq!(rig.timers.due_in(T), Some(11_000));
    rig.keep();
    let rig = rig.killed(T);
    assert_eq!(rig.deliver(T + 10_999), 0);
    assert_eq!(rig.deliver(T + 11_000), 1);
    // Far ahead: all of it is due.
    rig.park(T + 3 * HOUR, "d");
    rig.enqueue(T);
    assert_eq!(rig.deliver(T + 1000 * 24 * HOUR), 2);
    assert_eq!(rig.got(), ["a", "c", "b", "d"]);
    // And back again, with something at the same place of the wheel.
    let round = timer::SLOTS as i64 * 1000;
    rig.park(T + 3 * round, "e");
    rig.enqueue(T + 3 * round - HOUR);
    rig.park(T, "f");
    assert_eq!(rig.deliver(T + 1000), 0, "its place is taken");
    assert_eq!(rig.deliver(T + 2000), 1);
    assert_eq!(rig.deliver(T + 3 * round + 1000), 1);
}

/// All kinds of damage to the files: what waits comes, once.
#[test]
fn figures() {
    let rig = Rig::new();
    for n in [1, 4, 6, 59, 61, 400] {
        rig.park(T + 1000 * n, "x");
    }
    rig.enqueue(T);
    assert_eq!(rig.timers.histogram(T, &[5, 60, 300]), [2, 2, 1, 1]);
    let figures = rig.timers.figures(T + HOUR);
    assert_eq!(
        (figures.waiting, figures.queue_offset, figures.queue_end),
        (6, 6, 6)
    );
    let topics = rig.timers.topics();
    assert_eq!(topics, [(TOPIC.into(), 6, T)]);
    rig.deliver(T + HOUR);
    assert_eq!(rig.timers.topics(), [(TOPIC.into(), 0, T + HOUR)]);
    assert_eq!(rig.timers.figures(T + HOUR).waiting, 0);
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let of = |precision, roll_window| Settings {
        precision,
        roll_window,
        ..settings()
    };
    assert!(of(0, 10).checked().is_err());
    assert!(of(MAX_PRECISION + 1, 10).checked().is_err());
    assert_eq!(of(1000, 1).checked().unwrap().roll_window, 604_740);
    assert!(of(100_000, 604_740).checked().unwrap().roll_window < 21_475);
}

#[test]
fn old_files_of_the_timer_log_go_with_the_messages() {
    let rig = Rig::new();
    let mut last = 0;
    for n in 0..600 {
        last = rig.park(T, &format!("{n:0200}")).end();
    }
    rig.deliver(T + 1000);
    let files = rig.timers.work.lock().log.files();
    assert_eq!(rig.timers.clean().unwrap(), 0);
    assert!(files > 7);
    let log = rig.store().log();
    while log.min_offset() < last - (64 << 10) {
        log.remove_first().unwrap();
    }
    assert!(rig.timers.clean().unwrap() > 3);
    rig.park(T + 5000, "after");
    rig.keep();
    let again = rig.killed(T + 1000);
    assert_eq!(again.deliver(T + 6000), 1);
}

#[test]
fn what_is_late_comes_also_while_a_slot_is_open() {
    let rig = Rig::new();
    rig.park(T + 20_000, "first");
    rig.park(T + 24_000, "second");
    assert_eq!(rig.timers.deliver(T + 25_000, 1).given, 1);
    rig.park(T + 19_000, "late");
    assert_eq!(rig.deliver(T + 25_000), 2);
    assert_eq!(rig.got(), ["first", "late", "second"]);
}
