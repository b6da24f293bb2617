use super::super::testing::{FROM_START, Rig, Sent, end};
use super::*;

/// What a start after a kill finds.
fn found(rig: &Rig) -> (Vec<i64>, Rebuilt) {
    found_from(rig, FROM_START)
}

fn found_from(rig: &Rig, start: Start) -> (Vec<i64>, Rebuilt) {
    let again = rig.killed(start);
    (again.waiting(), again.rebuilt)
}

fn put(rig: &Rig, key: &str) -> i64 {
    rig.put_half(&Sent::new(key)).queue_offset
}

/// The copy of a half that RocketMQ makes before it asks: one check more, no op record.
fn check_copy(key: &str, checks: u16) -> Sent {
    Sent::new(key).with(b"TRANSACTION_CHECK_TIMES", &checks.to_string())
}

#[test]
fn named_is_bits_and_a_set() {
    let mut named = Named::new(100, 230);
    for offset in [100, 163, 164, 229] {
        assert!(!named.has(offset));
        named.add(offset);
        assert!(named.has(offset));
    }
    for offset in [99, 101, 162, 165, 228, 230, 1 << 50] {
        assert!(!named.has(offset), "{offset}");
    }
    named.add(230);
    named.add(i64::MAX);
    assert!(!named.has(230) && !named.has(i64::MAX), "no such place");
    named.add(99);
    named.add(0);
    assert!(named.has(99) && named.has(0) && !named.has(98));
    assert_eq!(named.older.len(), 2);
    let mut none = Named::new(5, 5);
    none.add(5);
    assert!(!none.has(5));
}

#[test]
fn older_ones_are_bounded() {
    let mut named = Named::new(i64::MAX - 1, i64::MAX);
    for offset in 0..MAX_OLDER as i64 + 10 {
        named.add(offset);
    }
    assert_eq!(named.older.len(), MAX_OLDER);
}

#[test]
fn nothing_makes_nothing() {
    let rig = Rig::new();
    assert_eq!(rig.rebuilt, Rebuilt::default());
    assert_eq!(found(&rig), (vec![], Rebuilt::default()));
}

#[test]
fn what_no_op_record_names_waits() {
    let rig = Rig::new();
    for n in 0..200 {
        put(&rig, &format!("K{n}"));
    }
    rig.put_op(b"0,2,4,");
    rig.put_op(b"199,64,63,");
    let (waiting, rebuilt) = found(&rig);
    let mut want: Vec<i64> = (0..200).collect();
    want.retain(|n| ![0, 2, 4, 63, 64, 199].contains(n));
    assert_eq!(waiting, want);
    assert_eq!(
        (rebuilt.pending, rebuilt.halves, rebuilt.ops),
        (194, 200, 2)
    );
}

#[test]
fn facts_come_from_the_record() {
    let rig = Rig::new();
    let mut sent = Sent::new("K").with(b"CHECK_IMMUNITY_TIME_IN_SECONDS", "9");
    sent.more.push((b"TRANSACTION_CHECK_TIMES", b"3".into()));
    let done = rig.put_half(&sent);
    let again = rig.killed(FROM_START);
    let p = again.txn.find(0).unwrap();
    assert_eq!((p.phys, p.born), (done.phys, sent.born));
    assert_eq!((p.immunity, p.checks), (9, 3));
    assert_eq!(
        (&*p.origin.group, &*p.origin.topic),
        (&b"PG_test"[..], &b"Orders"[..])
    );
}

#[test]
fn hostile_op_records_name_nothing_else() {
    let rig = Rig::new();
    for n in 0..4 {
        put(&rig, &format!("K{n}"));
    }
    for body in [
        &b"-1,4,5,9223372036854775807,99999999999999999999,"[..],
        b"",
        b",,,,",
        b"\xFF\xFE\0",
        b"1;2",
        b" 3,",
    ] {
        rig.put_op(body);
    }
    rig.put(super::super::OP_TOPIC, b"TAGS\x01x\x02", b"0,1,2,3,", 0);
    rig.put(super::super::OP_TOPIC, b"", b"0,1,2,3,", 0);
    let (waiting, rebuilt) = found(&rig);
    assert_eq!(waiting, [0, 1, 2, 3], "another tag is no op record");
    assert_eq!(rebuilt.ops, 8);
    put(&rig, "K4");
    assert_eq!(
        found(&rig).0,
        [0, 1, 2, 3],
        "half 4 is named: RocketMQ believes it too"
    );
}

/// One op record may be as large as a message: it is read up to a bound, and does no harm.
#[test]
fn a_large_op_record_is_read() {
    let rig = Rig::new();
    for n in 0..3 {
        put(&rig, &format!("K{n}"));
    }
    rig.put_op(&b"9,".repeat(7000));
    rig.put_op(b"1,");
    assert_eq!(found(&rig).0, [0, 2]);
}

#[test]
fn halves_that_can_never_be_settled_are_left_out() {
    let rig = Rig::new();
    let mut bad = [Sent::new("a"), Sent::new("b")];
    bad[0].group.clear();
    bad[1].topic.clear();
    for sent in &bad {
        rig.put_half(sent);
    }
    let no_queue = b"UNIQ_KEY\x01c\x02PGROUP\x01g\x02REAL_TOPIC\x01T\x02REAL_QID\x01-1\x02";
    rig.put(HALF_TOPIC, no_queue, b"x", 1);
    rig.put(HALF_TOPIC, b"", b"x", 1);
    rig.put(HALF_TOPIC, b"\x01\x02\x01\x02\xFF", b"", 1);
    put(&rig, "good");
    let (waiting, rebuilt) = found(&rig);
    assert_eq!((waiting, rebuilt.broken), (vec![5], 5));
    let again = rig.killed(FROM_START);
    assert_eq!(again.start().half, 5, "they hold nothing up");
}

#[test]
fn a_later_check_copy_replaces_the_older_ones() {
    let rig = Rig::new();
    put(&rig, "A");
    put(&rig, "B");
    rig.put_half(&check_copy("A", 1));
    rig.put_half(&check_copy("B", 1));
    rig.put_half(&check_copy("A", 2));
    let (waiting, rebuilt) = found(&rig);
    assert_eq!(waiting, [3, 4]);
    assert_eq!(rebuilt.replaced, 3);
    let again = rig.killed(FROM_START);
    assert_eq!(again.txn.figures().owed, 3);
    again.txn.write_owed().unwrap();
    assert_eq!(again.named(), [0, 1, 2]);
    assert_eq!(
        found(&again),
        (
            vec![3, 4],
            Rebuilt {
                pending: 2,
                halves: 5,
                ops: 1,
                ..Default::default()
            }
        )
    );
}

#[test]
fn copies_of_others_replace_nothing() {
    let rig = Rig::new();
    let mut sents = vec![Sent::new("A"); 4];
    sents[1].born += 1;
    sents[2].group = b"PG_other".into();
    sents[3].topic = b"Other".into();
    for sent in &mut sents {
        sent.more.push((b"TRANSACTION_CHECK_TIMES", b"2".into()));
        rig.put_half(sent);
    }
    rig.put_half(&Sent::new(""));
    rig.put_half(&Sent::new(""));
    assert_eq!(found(&rig).0, [0, 1, 2, 3, 4, 5]);
}

/// Killed between the copy that nobody is asked about and its op record.
#[test]
fn a_copy_without_a_check_more_replaces_too() {
    let rig = Rig::new();
    for key in ["A", "B"] {
        rig.send(&Sent::new(key));
    }
    rig.txn.renew(&[0, 1], false).unwrap();
    let log = rig.log();
    let op = log.last().unwrap();
    assert_eq!(op.named(), [0, 1]);
    let again = rig.killed_at(op.phys, FROM_START);
    assert_eq!(again.waiting(), [2, 3], "each of them once");
    let half_way = rig.killed_at(log[2].end, FROM_START);
    assert_eq!(half_way.waiting(), [1, 2]);
}

/// The same where one op record has no room for all of them.
#[test]
fn copies_without_a_check_more_and_op_records_for_some() {
    let rig = Rig::sized(16 << 10, 3);
    for key in ["A", "B", "C"] {
        rig.send(&Sent::new(key));
    }
    rig.txn.renew(&[0, 1, 2], false).unwrap();
    let ends: Vec<u64> = rig.log().iter().map(|r| r.end).collect();
    assert_eq!(ends.len(), 9);
    for &end in &ends[5..] {
        assert_eq!(rig.killed_at(end, FROM_START).waiting(), [3, 4, 5]);
    }
}

#[test]
fn a_resumed_one_replaces_the_one_that_was_discarded() {
    let rig = Rig::new();
    rig.put_half(&check_copy("A", 15));
    rig.put_half(&check_copy("A", 0));
    assert_eq!(found(&rig).0, [1]);
}

#[test]
fn immunity_copies_of_rocketmq() {
    let rig = Rig::new();
    let stands_for = |key: &str, old: &str| {
        Sent::new(key)
            .with(b"CHECK_IMMUNITY_TIME_IN_SECONDS", "60")
            .with(b"TRAN_PREPARED_QUEUE_OFFSET", old)
    };
    put(&rig, "A");
    put(&rig, "B");
    rig.put_half(&stands_for("A", "0"));
    rig.put_half(&stands_for("B", "1"));
    rig.put_half(&stands_for("B", "1"));
    rig.put_half(&stands_for("C", "5"));
    rig.put_op(b"0,");
    let (waiting, _) = found(&rig);
    assert_eq!(
        waiting,
        [1, 5],
        "A was settled by its first offset; of B the original waits: to name it is to settle it"
    );
    let again = rig.killed(FROM_START);
    again.txn.write_owed().unwrap();
    assert_eq!(again.named(), [0, 2, 3, 4]);
    assert_eq!(
        found(&again).0,
        [1, 5],
        "what is written about them hides nothing"
    );
    again.txn.settle(1, true).unwrap();
    assert_eq!(found(&again).0, [5]);
    // The originals are behind the kept offset, the op records are not.
    let (waiting, rebuilt) = found_from(&rig, Start { half: 2, op: 0 });
    assert_eq!(rebuilt.halves, 4);
    assert!(!waiting.contains(&2) && waiting.contains(&5), "{waiting:?}");
}

#[test]
fn a_commit_without_an_op_record_is_settled() {
    let rig = Rig::new();
    let done: Vec<_> = ["A", "B", "C"].map(|k| rig.send(&Sent::new(k))).into();
    for half in &done[..2] {
        assert!(rig.end_plain(&end(half, true)));
    }
    let log = rig.log();
    let first_op = log
        .iter()
        .find(|r| !r.named().is_empty() && r.topic == super::super::OP_TOPIC);
    let again = rig.killed_at(first_op.unwrap().phys, FROM_START);
    assert_eq!((again.waiting(), again.rebuilt.ended), (vec![1, 2], 1));
    assert_eq!(again.delivered(), ["A"]);
    assert_eq!(again.start().half, 0, "its op record is owed");
    again.txn.write_owed().unwrap();
    assert_eq!((again.named(), again.start().half), (vec![0], 1));
}

/// The older copy's op record could not be written, nor that of the copy that was committed.
#[test]
fn a_committed_copy_settles_the_older_ones() {
    let rig = Rig::new();
    rig.send(&Sent::new("A"));
    rig.txn.renew(&[0], true).unwrap();
    let copy = rig.log()[1].clone();
    let cut = rig.killed_at(copy.end, FROM_START);
    assert_eq!(cut.waiting(), [1]);
    // Nothing written of what is owed; the commit goes in before it.
    cut.txn.settle(1, true).unwrap();
    let log = cut.log();
    assert!(log[2].is_commit());
    let again = cut.killed_at(log[2].end, FROM_START);
    assert_eq!(again.waiting(), [0i64; 0]);
    again.txn.write_owed().unwrap();
    assert_eq!(again.named(), [0, 1]);
    assert_eq!(again.delivered(), ["A"]);
}

#[test]
fn the_search_starts_where_progress_says() {
    let rig = Rig::new();
    let done: Vec<_> = (0..10)
        .map(|n| rig.send(&Sent::new(&format!("K{n}"))))
        .collect();
    for half in &done[..8] {
        assert!(rig.end_plain(&end(half, false)));
    }
    let start = rig.start();
    assert_eq!((start.half, start.op), (8, 8));
    let (waiting, rebuilt) = found_from(&rig, start);
    assert_eq!((waiting, rebuilt.halves, rebuilt.ops), (vec![8, 9], 2, 0));
    assert!(rig.end_plain(&end(&done[9], false)));
    let (waiting, rebuilt) = found_from(&rig, start);
    assert_eq!(
        (waiting, rebuilt.halves, rebuilt.ops),
        (vec![8], 2, 1),
        "an older start is fine"
    );
}

/// Offsets that the queues do not have: nothing of them is believed, not the other one either.
#[test]
fn starts_that_cannot_be_are_not_believed() {
    let rig = Rig::new();
    let done: Vec<_> = (0..10)
        .map(|n| rig.send(&Sent::new(&format!("K{n}"))))
        .collect();
    for half in &done[..8] {
        assert!(rig.end_plain(&end(half, false)));
    }
    let begin = |half, op| found_from(&rig, Start { half, op }).0;
    for half in [-1, 11, i64::MAX, i64::MIN] {
        for op in [-1, 0, 8, 9, i64::MAX] {
            assert_eq!(begin(half, op), [8, 9], "half {half} op {op}");
        }
    }
    for op in [-1, 9, i64::MAX] {
        assert_eq!(begin(8, op), [8, 9], "op {op}");
    }
    assert_eq!(begin(10, 8), [0i64; 0], "the end is a place to start");
}
