use super::super::testing::{FROM_START, GROUP, Rig, Sent, TOPIC, body_of, end};
use super::super::{CHECK_MAX_TOPIC, DueRule, Figures, HALF_TOPIC, OP_TOPIC, Start};
use super::*;
use pyrmq_format::properties::MAX_LEN;
use pyrmq_store::{Row, Stored};

#[test]
fn a_commit_is_the_message_that_was_sent() {
    let rig = Rig::new();
    let sent = Sent::new("K").with(b"TAGS", "a").with(b"mine", "x");
    let half = rig.send(&sent);
    assert!(rig.end_plain(&end(&half, true)));
    let log = rig.log();
    let [_, message, op] = &log[..] else {
        panic!("three records, not {}", log.len());
    };
    assert_eq!((message.topic.as_slice(), message.queue_id), (TOPIC, 1));
    assert_eq!((message.queue_offset, message.flag), (0, 7));
    assert_eq!(
        (message.sys_flag, message.prepared),
        (sys_flag::COMMIT, half.phys as i64)
    );
    assert_eq!(message.born, sent.born);
    assert_eq!(
        (&message.body, &message.props),
        (&body_of(b"K"), &sent.props())
    );
    assert_eq!((op.topic.as_slice(), op.queue_id), (OP_TOPIC, 0));
    assert_eq!(
        (op.body.as_slice(), op.property("TAGS").as_deref()),
        (&b"0,"[..], Some("d"))
    );
    assert_eq!(rig.waiting(), [0i64; 0]);
    let topic = rig.store().topics().get(TOPIC).unwrap();
    let (row, rollbacks) = topic.figures().transactions().unwrap();
    let seconds = row[row.len() - 1];
    assert_eq!((row[0], rollbacks), (1, 0));
    let entry = topic.queue(1).unwrap().entry(0).unwrap().unwrap();
    let stored = Stored::read(rig.store(), entry.cq.phys as u64).unwrap();
    let committed = stored.unwrap().view().store_timestamp;
    assert_eq!(seconds as i64, (committed - sent.born).max(0) / 1000);
    let queue = rig.store().topics().get(TOPIC).unwrap().queue(1).unwrap();
    let entry = queue.entry(0).unwrap().unwrap();
    assert_eq!(
        (entry.cq.phys, entry.cq.tags_code),
        (message.phys as i64, 97)
    );
}

#[test]
fn a_rollback_is_an_op_record() {
    let rig = Rig::new();
    let half = rig.send(&Sent::new("K"));
    assert!(rig.end_plain(&end(&half, false)));
    assert_eq!(
        (rig.delivered().len(), rig.named(), rig.waiting()),
        (0, vec![0], vec![])
    );
    let f = rig.txn.figures();
    let want = Figures {
        halves: 1,
        rollbacks: 1,
        ..Figures::default()
    };
    assert_eq!(f, want);
    let topic = rig.store().topics().get(TOPIC).unwrap();
    assert_eq!(topic.figures().transactions(), Some((Row::default(), 1)));
}

#[test]
fn what_is_not_plain_is_left_alone() {
    let rig = Rig::new();
    let half = rig.send(&Sent::new("K"));
    let other = rig.send(&Sent::new("L"));
    let plain = || end(&half, true);
    let cases = [
        (
            "another group",
            End {
                group: b"PG_other",
                ..plain()
            },
        ),
        (
            "no group",
            End {
                group: b"",
                ..plain()
            },
        ),
        (
            "another half's place",
            End {
                phys: other.phys,
                ..plain()
            },
        ),
        (
            "no place",
            End {
                phys: u64::MAX,
                ..plain()
            },
        ),
        (
            "another half's offset",
            End {
                offset: other.queue_offset,
                ..plain()
            },
        ),
        (
            "no half",
            End {
                offset: 2,
                ..plain()
            },
        ),
        (
            "a negative offset",
            End {
                offset: -1,
                ..plain()
            },
        ),
        (
            "another message",
            End {
                ids: [b"L", b"L"],
                ..plain()
            },
        ),
        (
            "another message in one of two",
            End {
                ids: [b"", b"L"],
                ..plain()
            },
        ),
    ];
    for (what, case) in &cases {
        assert!(!rig.end_plain(case), "{what}");
    }
    assert_eq!(
        (rig.waiting(), rig.log().len()),
        (vec![0, 1], 2),
        "nothing was written"
    );
    let one_id = End {
        ids: [b"offset id", b"K"],
        ..plain()
    };
    assert!(rig.end_plain(&one_id), "one of the two names it");
    assert!(!rig.end_plain(&plain()), "it is settled");
}

#[test]
fn a_half_without_a_key_is_settled_by_its_place() {
    let rig = Rig::new();
    let half = rig.send(&Sent::new(""));
    assert!(rig.end_plain(&End {
        ids: [b"x", b"y"],
        ..end(&half, true)
    }));
}

#[test]
fn immunity_needs_a_decision() {
    let rig = Rig::new();
    let half = rig.send(&Sent::new("K").with(b"CHECK_IMMUNITY_TIME_IN_SECONDS", "0"));
    assert!(!rig.end_plain(&end(&half, true)));
    assert!(rig.end_plain(&End {
        from_check: true,
        ..end(&half, true)
    }));
}

#[test]
fn a_commit_into_a_topic_that_is_gone_fails_and_the_half_waits() {
    let rig = Rig::new();
    let half = rig.send(&Sent::new("K"));
    rig.store().topics().get(TOPIC).unwrap().set(None);
    let mut guard = rig.store().put().unwrap();
    assert!(rig.txn.settle_plain(&mut guard, &end(&half, true)).is_err());
    drop(guard);
    assert!(
        rig.txn
            .settle(0, true)
            .unwrap_err()
            .to_string()
            .contains("topic[Orders]")
    );
    assert_eq!((rig.waiting(), rig.log().len()), (vec![0], 1));
    assert_eq!(rig.txn.figures().commits, 0);
    assert!(
        rig.end_plain(&end(&half, false)),
        "a rollback needs no topic"
    );
}

#[test]
fn what_is_settled_is_not_settled_again() {
    let rig = Rig::new();
    let half = rig.send(&Sent::new("K"));
    assert_eq!(
        rig.txn.settle(0, true).unwrap(),
        rig.store().log().max_offset()
    );
    assert!(rig.txn.settle(0, true).is_err());
    assert!(rig.txn.settle(0, false).is_err());
    assert!(rig.txn.discard(0).is_err());
    assert!(rig.txn.renew(&[0], true).unwrap().is_empty());
    assert!(!rig.end_plain(&end(&half, true)));
    assert_eq!((rig.delivered(), rig.named()), (vec!["K".into()], vec![0]));
}

#[test]
fn how_a_half_was_settled_is_remembered_for_all_of_its_copies() {
    let rig = Rig::new();
    let halves = ["K0", "K1", "K2"].map(|key| rig.send(&Sent::new(key)));
    let decided = |at: usize| {
        let half = Half::read(rig.store(), end(&halves[at], true).phys)
            .unwrap()
            .unwrap();
        rig.txn.decided(&half)
    };
    assert_eq!(decided(0), (None, true), "it waits");
    assert!(rig.end_plain(&end(&halves[0], true)));
    let [copy] = &rig.txn.renew(&[1], true).unwrap()[..] else {
        panic!("one copy")
    };
    rig.txn.settle(copy.offset, false).unwrap();
    rig.txn.discard(2).unwrap();
    assert_eq!(decided(0), (Some(true), true));
    assert_eq!(decided(1), (Some(false), true));
    assert_eq!(decided(2), (None, true), "discarded, and not decided");
}

#[test]
fn nothing_is_known_of_a_half_without_unique_key() {
    let rig = Rig::new();
    let half = rig.send(&Sent::new(""));
    assert!(rig.end_plain(&end(&half, false)));
    let stored = Half::read(rig.store(), end(&half, true).phys).unwrap();
    assert_eq!(rig.txn.decided(&stored.unwrap()), (None, false));
}

#[test]
fn ends_of_one_read_share_op_records_of_a_bounded_size() {
    for (max, want) in [(4096, 1), (10, 3), (1, 12)] {
        let rig = Rig::sized(16 << 10, max);
        let halves: Vec<_> = (0..12)
            .map(|n| rig.send(&Sent::new(&format!("K{n}"))))
            .collect();
        let mut guard = rig.store().put().unwrap();
        for half in &halves {
            let settled = rig.txn.settle_plain(&mut guard, &end(half, true)).unwrap();
            guard.write().unwrap();
            assert_eq!(settled, Some(rig.store().log().max_offset()));
        }
        drop(guard);
        assert_eq!(rig.txn.figures().owed, 12);
        assert_eq!(
            rig.txn.progress().unwrap().half,
            0,
            "what is owed is not done"
        );
        let mut guard = rig.store().put().unwrap();
        let durable = rig.txn.write_ops(&mut guard).unwrap();
        guard.write().unwrap();
        assert_eq!(durable, rig.store().log().max_offset());
        assert_eq!(rig.txn.write_ops(&mut guard).unwrap(), 0, "nothing is owed");
        drop(guard);
        let ops = rig.in_topic(OP_TOPIC);
        assert_eq!(rig.named(), (0..12).collect::<Vec<_>>());
        assert_eq!(ops.len(), want);
        assert!(
            ops.iter()
                .all(|op| op.body.len() <= max || op.named().len() == 1)
        );
        assert_eq!(
            rig.start(),
            Start {
                half: 12,
                op: want as i64
            }
        );
    }
}

// Asked about, appended again.

#[test]
fn asking_makes_a_copy_with_one_check_more() {
    let rig = Rig::new();
    let sent = Sent::new("K").with(b"TAGS", "a");
    rig.send(&sent);
    rig.send(&Sent::new("other"));
    for checks in 1..=3 {
        let live = rig.waiting()[if checks == 1 { 0 } else { 1 }];
        let copies = rig.txn.renew(&[live], true).unwrap();
        let [copy] = &copies[..] else {
            panic!("one copy")
        };
        assert_eq!((copy.old, copy.offset), (live, 1 + checks));
        assert_eq!(copy.unique_key, b"K");
        let log = rig.log();
        let [.., stored, op] = &log[..] else {
            panic!("a copy and its op record")
        };
        assert_eq!(
            (stored.topic.as_slice(), stored.phys),
            (HALF_TOPIC, copy.phys)
        );
        let times = stored.property("TRANSACTION_CHECK_TIMES");
        assert_eq!(times, Some(checks.to_string()));
        let text = String::from_utf8_lossy(&stored.props).into_owned();
        assert_eq!(text.matches("TRANSACTION_CHECK_TIMES").count(), 1);
        assert_eq!(
            (stored.flag, stored.born, &stored.body),
            (7, sent.born, &body_of(b"K"))
        );
        assert_eq!(op.named(), [live]);
        shown_in_its_real_place(&copy.record, stored);
        let p = rig.txn.find(copy.offset).unwrap();
        assert_eq!(
            (p.checks as i64, p.is_copy, p.born),
            (checks, true, sent.born)
        );
    }
    assert_eq!((rig.waiting(), rig.txn.figures().checks), (vec![1, 4], 3));
    assert_eq!(rig.killed(FROM_START).waiting(), [1, 4]);
}

fn shown_in_its_real_place(record: &[u8], stored: &super::super::testing::Logged) {
    use pyrmq_format::record::{Found, read};
    let Found::Record(v) = read(record, true) else {
        panic!("a whole record");
    };
    assert_eq!((&record[v.topic.clone()], v.queue_id), (TOPIC, 1));
    assert_eq!(
        (v.phys as u64, v.queue_offset),
        (stored.phys, stored.queue_offset)
    );
    assert_eq!(&record[v.body.clone()], stored.body);
    assert_eq!(&record[v.props.clone()], stored.props);
}

#[test]
fn renewed_ones_share_an_op_record_and_gone_ones_are_left_out() {
    let rig = Rig::new();
    for n in 0..5 {
        rig.send(&Sent::new(&format!("K{n}")));
    }
    rig.txn.settle(3, false).unwrap();
    let copies = rig.txn.renew(&[0, 3, 4, 0, 77, -1], false).unwrap();
    let moved: Vec<_> = copies.iter().map(|c| (c.old, c.offset)).collect();
    assert_eq!(moved, [(0, 5), (4, 6)]);
    assert_eq!(rig.waiting(), [1, 2, 5, 6]);
    assert_eq!(rig.log().last().unwrap().named(), [0, 4]);
    let copy = &rig.in_topic(HALF_TOPIC)[5];
    assert_eq!(
        copy.property("TRANSACTION_CHECK_TIMES"),
        None,
        "nobody was asked"
    );
    assert_eq!(rig.txn.figures().checks, 0);
    assert_eq!(rig.start().half, 1);
}

#[test]
fn an_answer_about_an_older_copy_finds_the_one_that_waits() {
    let rig = Rig::new();
    let first = rig.send(&Sent::new("K"));
    let same_key = rig.send(&Sent {
        born: 5,
        ..Sent::new("K")
    });
    let live = |phys| {
        let half = Half::read(rig.store(), phys).unwrap().unwrap();
        rig.txn.live(&half, half.view().queue_offset).unwrap()
    };
    assert_eq!(live(first.phys), Some(0));
    let second = rig.txn.renew(&[0], true).unwrap().remove(0);
    let third = rig.txn.renew(&[2], false).unwrap().remove(0);
    for phys in [first.phys, second.phys, third.phys] {
        assert_eq!(live(phys), Some(3));
    }
    assert_eq!(live(same_key.phys), Some(1));
    rig.txn.settle(3, true).unwrap();
    for phys in [first.phys, second.phys, third.phys] {
        assert_eq!(live(phys), None);
    }
    let prepared = rig.log().iter().find(|r| r.is_commit()).unwrap().prepared;
    assert_eq!(prepared as u64, third.phys);
    assert_eq!(rig.delivered(), ["K"]);
    assert_eq!(rig.killed(FROM_START).waiting(), [1]);
}

/// RocketMQ may have stored a half with no room for the check count: it is counted in memory only.
#[test]
fn a_half_without_room_for_the_count_is_asked_about_too() {
    let rig = Rig::sized(256 << 10, 4096);
    let room = MAX_LEN - Sent::new("A").with(b"X", "").props().len() - 3;
    let sent = Sent::new("A").with(b"X", &"x".repeat(room));
    assert!(sent.props().len() > MAX_LEN - 26);
    rig.send(&sent);
    rig.send(&Sent::new("B"));
    let copies = rig.txn.renew(&[0, 1], true).unwrap();
    assert_eq!(copies.len(), 2);
    assert_eq!(rig.in_topic(HALF_TOPIC)[2].props, sent.props());
    assert_eq!(rig.txn.find(2).unwrap().checks, 1);
    rig.txn.renew(&[2], true).unwrap();
    assert_eq!(rig.txn.find(4).unwrap().checks, 2);
    rig.txn.discard(4).unwrap();
    assert_eq!(rig.waiting(), [3]);
    assert_eq!(rig.killed(FROM_START).waiting(), [3]);
}

/// maxMessageSize was larger when the half was stored.
#[test]
fn halves_larger_than_is_allowed_now_are_settled_all_the_same() {
    let rig = Rig::sized(64 << 10, 4096);
    let props = Sent::new("K").props();
    rig.put(HALF_TOPIC, &props, &[1; 5000], 1);
    let again = rig.killed_with(|config| config.max_message_size = 4096);
    again.txn.renew(&[0], true).unwrap();
    again.txn.discard(1).unwrap();
    let discarded = again.in_topic(CHECK_MAX_TOPIC).remove(0);
    again.txn.resume(discarded.phys).unwrap();
    again.txn.settle(2, true).unwrap();
    assert_eq!(
        (again.delivered(), again.waiting()),
        (vec!["K".into()], vec![])
    );
}

// Discarded, resumed, delivered late.

#[test]
fn discarded_and_taken_up_again() {
    let rig = Rig::new();
    rig.send(&Sent::new("K").with(b"CHECK_IMMUNITY_TIME_IN_SECONDS", "3600"));
    rig.txn.renew(&[0], true).unwrap();
    let (key, place) = rig.txn.discard(1).unwrap();
    assert_eq!((rig.waiting(), rig.named()), (vec![], vec![0, 1]));
    let discarded = rig.in_topic(CHECK_MAX_TOPIC).remove(0);
    assert_eq!((key.as_slice(), place), (&b"K"[..], discarded.phys));
    assert_eq!(
        discarded.property("TRANSACTION_CHECK_TIMES").as_deref(),
        Some("1")
    );
    assert_eq!((discarded.flag, discarded.body), (7, body_of(b"K")));
    assert_eq!(rig.killed(FROM_START).waiting(), [0i64; 0]);

    let (offset, durable) = rig.txn.resume(discarded.phys).unwrap();
    assert_eq!((offset, durable), (2, rig.store().log().max_offset()));
    let again = rig.txn.find(2).unwrap();
    assert_eq!(
        (again.checks, again.immunity),
        (0, -1),
        "to be asked about now"
    );
    let why = rig.txn.resume(discarded.phys).unwrap_err().to_string();
    assert!(why.contains("waits already"), "{why}");
    assert_eq!(rig.killed(FROM_START).waiting(), [2]);
    rig.txn.settle(2, true).unwrap();
    assert_eq!((rig.delivered(), rig.waiting()), (vec!["K".into()], vec![]));
    let f = rig.txn.figures();
    assert_eq!((f.discarded, f.checks, f.commits, f.pending), (1, 1, 1, 0));
}

#[test]
fn only_what_was_discarded_is_taken_up() {
    let rig = Rig::new();
    let half = rig.send(&Sent::new("K"));
    let plain = rig.put(TOPIC, b"", b"x", 1);
    let odd = rig.put(CHECK_MAX_TOPIC, b"UNIQ_KEY\x01K\x02", b"x", 1);
    for phys in [
        half.phys,
        plain.phys,
        odd.phys,
        odd.phys + 1,
        1 << 50,
        u64::MAX,
    ] {
        assert!(rig.txn.resume(phys).is_err(), "{phys}");
    }
    assert_eq!(rig.waiting(), [0]);
}

#[test]
fn killed_before_the_op_record_it_is_discarded_all_the_same() {
    let rig = Rig::new();
    rig.put(TOPIC, b"", b"x", 1); // a half at place 0 cannot be named
    rig.send(&Sent::new("K"));
    rig.txn.discard(0).unwrap();
    let discarded = rig.in_topic(CHECK_MAX_TOPIC).remove(0);
    let again = rig.killed_at(discarded.end, FROM_START);
    assert_eq!((again.waiting(), again.rebuilt.ended), (vec![], 1));
    again.txn.write_owed().unwrap();
    assert_eq!(again.named(), [0]);
    assert_eq!(again.txn.resume(discarded.phys).unwrap().0, 1);
    assert_eq!(again.killed(FROM_START).waiting(), [1]);
}

#[test]
fn a_late_delivery_is_a_commit() {
    let rig = Rig::new();
    let half = rig.send(&Sent::new("K"));
    rig.txn.discard(0).unwrap();
    let discarded = rig.in_topic(CHECK_MAX_TOPIC).remove(0);
    let durable = rig.txn.deliver_late(discarded.phys, half.phys).unwrap();
    let last = rig.log().pop().unwrap();
    assert_eq!((durable, last.is_commit()), (last.end, true));
    assert_eq!(
        (last.topic.as_slice(), last.prepared),
        (TOPIC, half.phys as i64)
    );
    assert_eq!(
        (&last.body, &last.props),
        (&body_of(b"K"), &discarded.props)
    );
    assert!(rig.txn.deliver_late(1 << 50, 0).is_err());
    rig.store().topics().get(TOPIC).unwrap().set(None);
    assert!(rig.txn.deliver_late(discarded.phys, half.phys).is_err());
    assert_eq!(rig.killed(FROM_START).waiting(), [0i64; 0]);
}

// Figures.

#[test]
fn progress_goes_with_the_oldest_that_waits() {
    let rig = Rig::new();
    assert_eq!(rig.start(), Start { half: 0, op: 0 });
    let halves: Vec<_> = (0..5)
        .map(|n| rig.send(&Sent::new(&format!("K{n}"))))
        .collect();
    for (n, half) in halves.iter().enumerate().skip(1) {
        assert!(rig.end_plain(&end(half, n % 2 == 0)));
        assert_eq!(
            rig.start(),
            Start { half: 0, op: 0 },
            "the first still waits"
        );
    }
    assert!(rig.end_plain(&end(&halves[0], false)));
    assert_eq!(rig.start(), Start { half: 5, op: 5 });
    assert_eq!(
        rig.txn.progress().unwrap().log_end,
        rig.store().log().max_offset()
    );
}

#[test]
fn figures_of_what_waits() {
    let rig = Rig::new();
    for (n, born) in [(0, 500), (1, 300), (2, 900)] {
        rig.send(&Sent {
            born,
            ..Sent::new(&format!("K{n}"))
        });
    }
    let f = rig.txn.figures();
    assert_eq!((f.halves, f.pending, f.oldest_born), (3, 3, 300));
    assert_eq!(rig.txn.pending_by_topic(), [(Box::from(TOPIC), 3)]);
    rig.txn.settle(1, false).unwrap();
    assert_eq!(rig.txn.figures().oldest_born, 500);
    let when = DueRule {
        now: 6501,
        timeout: 6000,
        check_max: 15,
        reserved: i64::MAX,
    };
    let (due, next) = rig.txn.due(&when, 0..10, 10, 100);
    assert_eq!(next, 10);
    assert_eq!(due.iter().map(|(o, _)| *o).collect::<Vec<_>>(), [0]);
    assert_eq!((&*due[0].1.origin.group, due[0].1.checks), (GROUP, 0));
}
