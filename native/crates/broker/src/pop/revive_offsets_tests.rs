use super::*;
use crate::pop::{Change, Claim, Settings};
use pyrmq_format::pop::Popped;
use pyrmq_store::{Content, Message, Store, StoreConfig};
use std::borrow::Cow;

const NOW: i64 = 1_700_000_000_000;

fn pops() -> (Pops, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let mut config = StoreConfig::new(dir.path().join("store"));
    config.commit_log_file_size = 64 << 10;
    config.consume_queue_file_size = 20 * 64;
    config.index_enable = false;
    config.retention.interval = 0;
    let settings = Settings {
        cluster: "C".into(),
        broker_name: "b".into(),
        revive_queues: 8,
        precision: 1000,
        max_invisible_time: 86_400_000,
    };
    let pops = Pops::new(Store::open(config).unwrap(), settings).unwrap();
    (pops, dir)
}

fn popped(queue_id: i32, start_offset: i64, pop_time: i64) -> Popped<'static> {
    Popped {
        topic: Cow::Borrowed(b"T"),
        group: Cow::Borrowed(b"G"),
        broker_name: Cow::Borrowed(b"b"),
        queue_id,
        start_offset,
        pop_time,
    }
}

fn check_point(
    popped: Popped<'static>,
    diffs: &'static [i32],
    again: Option<u32>,
) -> CheckPoint<'static> {
    CheckPoint {
        popped,
        invisible_time: 1000,
        diffs,
        bits: 0,
        revive_offset: 0,
        put_again: again,
        suspend: false,
    }
}

fn pop(pops: &Pops, queue_id: i32, start: i64, diffs: &'static [i32]) {
    let ck = check_point(popped(queue_id, start, NOW), diffs, None);
    let mut guard = pops.store().put().unwrap();
    pops.append_check_point(&mut guard, &ck, 3).unwrap();
}

fn claim(queue_id: i32, start: i64, at: i64) -> Claim<'static> {
    Claim {
        popped: popped(queue_id, start, at),
        invisible_time: 1000,
        revive_queue: 3,
    }
}

fn ack(pops: &Pops, queue_id: i32, start: i64, offset: i64, at: i64) {
    let mut guard = pops.store().put().unwrap();
    let claim = claim(queue_id, start, at);
    pops.ack(&mut guard, &claim, &[offset], NOW + 99).unwrap();
}

fn change(pops: &Pops, queue_id: i32, start: i64, offset: i64) {
    let to = Change {
        offset,
        now: NOW + 5,
        invisible_time: 5000,
        suspend: false,
    };
    let mut guard = pops.store().put().unwrap();
    pops.change(&mut guard, &claim(queue_id, start, NOW), to)
        .unwrap();
}

fn of(result: &PoppedTo, queue_id: i32) -> Option<i64> {
    let place = (b"T"[..].into(), b"G"[..].into(), queue_id);
    result.offsets.get(&place).copied()
}

#[test]
fn the_last_pop_of_a_queue_counts() {
    let (pops, _dir) = pops();
    pop(&pops, 0, 0, &[0, 1, 5]);
    pop(&pops, 1, 40, &[0, 1]);
    pop(&pops, 0, 6, &[2]);
    let result = pops.popped_to(0).unwrap();
    assert_eq!((of(&result, 0), of(&result, 1)), (Some(9), Some(42)));
    assert_eq!((result.entries, result.check_points), (3, 3));
    // An operator had sent the group back in between.
    pop(&pops, 0, 2, &[0, 1]);
    assert_eq!(of(&pops.popped_to(0).unwrap(), 0), Some(4));
    assert_eq!(of(&pops.popped_to(2).unwrap(), 1), None);
    assert_eq!(pops.popped_to(99).unwrap().entries, 0);
}

#[test]
fn changes_of_the_invisible_time_are_no_pops() {
    let (pops, _dir) = pops();
    pop(&pops, 0, 0, &[0, 1, 2]);
    change(&pops, 0, 0, 1);
    assert_eq!(of(&pops.popped_to(0).unwrap(), 0), Some(3));
    let result = pops.popped_to(1).unwrap();
    assert_eq!((of(&result, 0), result.unsure), (None, None));
}

#[test]
fn an_ack_behind_a_pop_of_one_message_is_no_change() {
    let (pops, _dir) = pops();
    pop(&pops, 0, 7, &[0]);
    ack(&pops, 0, 7, 7, NOW); // its own
    pop(&pops, 0, 8, &[0]);
    ack(&pops, 0, 0, 2, NOW - 5); // of another message
    pop(&pops, 1, 8, &[0]);
    ack(&pops, 0, 8, 8, NOW - 5); // of another queue
    let result = pops.popped_to(0).unwrap();
    assert_eq!((of(&result, 0), of(&result, 1)), (Some(9), Some(9)));
}

#[test]
fn a_single_message_at_the_end_may_be_half_of_a_change() {
    let (pops, _dir) = pops();
    pop(&pops, 0, 7, &[0]);
    let place = (b"T"[..].into(), b"G"[..].into(), 0);
    let result = pops.popped_to(0).unwrap();
    assert_eq!((of(&result, 0), result.unsure), (None, Some((place, 7, 8))));
    // Where the pop before it ended there, it is a pop.
    pop(&pops, 0, 8, &[0]);
    assert_eq!(of(&pops.popped_to(0).unwrap(), 0), Some(9));
    pop(&pops, 0, 20, &[0]);
    let result = pops.popped_to(0).unwrap();
    assert_eq!((of(&result, 0), result.unsure), (Some(9), None));
}

#[test]
fn other_timer_messages_say_nothing() {
    let (pops, _dir) = pops();
    // A client's timer message with the same tag and body.
    let topic = pops.store().topics().topic(timer::TIMER_TOPIC).unwrap();
    let mut body = Vec::new();
    check_point(popped(0, 5, NOW), &[0, 1], None).push_body(&mut body);
    let mut props = b"TAGS\x01ck\x02".to_vec();
    timer::push_place(&mut props, NOW, b"Mine", 0);
    let message = Message {
        topic: &topic,
        queue_id: 0,
        sys_flag: 0,
        born_timestamp: 0,
        born_host: *pops.store().store_host(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    };
    let content = Content {
        flag: 0,
        body: &body,
        props: [&props, b"", b"", b""],
        tags_code: Kind::CheckPoint.tags_code(),
        count: 1,
    };
    let mut guard = pops.store().put().unwrap();
    guard.append(&message, &content).unwrap();
    // And a message that could not be revived.
    let again = check_point(popped(0, 5, NOW), &[0], Some(1));
    pops.append_check_point(&mut guard, &again, 3).unwrap();
    drop(guard);
    let result = pops.popped_to(0).unwrap();
    assert!(result.offsets.is_empty() && result.unsure.is_none());
    assert_eq!(result.check_points, 0);
}

fn done_in_order(pops: &Pops, queue_id: u32, next: i64) {
    let mut guard = pops.store().put().unwrap();
    pops.done_in_order(&mut guard, b"T", b"G", queue_id, next, NOW)
        .unwrap();
}

#[test]
fn what_was_acknowledged_in_order_counts_at_once() {
    let (pops, _dir) = pops();
    done_in_order(&pops, 0, 1);
    done_in_order(&pops, 0, 4);
    // Neither a record behind it nor the group's old offset makes it doubtful.
    ack(&pops, 0, 3, 3, NOW + 1);
    done_in_order(&pops, 1, 7);
    let result = pops.popped_to(0).unwrap();
    assert_eq!((of(&result, 0), of(&result, 1)), (Some(4), Some(7)));
    assert_eq!(result.unsure, None);
    let mut guard = pops.store().put().unwrap();
    let refused = pops.done_in_order(&mut guard, b"T", b"G", 0, 0, NOW);
    assert!(refused.is_err(), "no message lies before 0");
}
