use super::testing::*;
use super::*;
use crate::testing::TOPIC;
use pyrmq_format::filter::sql::Program;
use pyrmq_format::java;
use pyrmq_store::{GetStatus, Wait};
use std::borrow::Cow;

const RETRY: &[u8] = b"%RETRY%g+Orders";

fn key(topic: &str, start: i64, time: i64) -> Key {
    (topic.into(), "g".into(), 1, start, time)
}

#[test]
fn a_pop_gives_records_and_sets_a_check_point() {
    let rig = PopRig::new();
    rig.put(TOPIC, &["a"; 10]);
    let taken = rig.pops.take(&ask(TOPIC, 2, 5), &group(NOW)).unwrap();
    assert_eq!(taken.got.status, GetStatus::Found);
    assert_eq!((taken.start, taken.got.next, taken.rest()), (2, 7, 3));
    assert_eq!(taken.offsets, [2, 3, 4, 5, 6]);
    let given = records(&taken);
    assert!(
        given
            .iter()
            .all(|r| r.0 == "Orders" && r.2 == "TAGS\u{1}a\u{2}")
    );
    assert_eq!(given.iter().map(|r| r.1).collect::<Vec<_>>(), taken.offsets);
    assert_eq!(taken.log_end, rig.pops.store().log().max_offset());
    assert_eq!(
        rig.logged(),
        [Logged::CheckPoint {
            of: key("Orders", 2, NOW),
            due: NOW + INVISIBLE - 2000, // a second before its acks, and the unit of time before that
            revive_time: NOW + INVISIBLE,
            offsets: vec![2, 3, 4, 5, 6],
        }]
    );
}

#[test]
fn a_read_sets_none() {
    let rig = PopRig::new();
    rig.put(TOPIC, &["a"; 3]);
    let taken = rig.pops.read(&ask(TOPIC, 1, 5)).unwrap();
    assert_eq!((taken.offsets, taken.log_end), (vec![1, 2], 0));
    assert_eq!(rig.logged(), []);
}

#[test]
fn tags_and_expressions_select() {
    let rig = PopRig::new();
    rig.put(TOPIC, &["a", "b", "c", "a", "b", "a"]);
    let codes = [java::hash(b"a")];
    let by_tag = Ask {
        tags: &codes,
        ..ask(TOPIC, 1, 32)
    };
    let taken = rig.pops.take(&by_tag, &group(NOW)).unwrap();
    assert_eq!((taken.start, taken.got.next), (1, 6));
    assert_eq!(taken.offsets, [3, 5]);
    let program = Program::compile("TAGS IN ('b', 'c')").unwrap();
    let matches = |props: &[u8]| program.matches(props);
    let by_sql = Ask {
        properties: Some(&matches),
        ..ask(TOPIC, 0, 2)
    };
    let taken = rig.pops.take(&by_sql, &group(NOW)).unwrap();
    assert_eq!((taken.offsets, taken.got.next), (vec![1, 2], 3));
    let offsets = |of: &Logged| match of {
        Logged::CheckPoint { offsets, .. } => offsets.clone(),
        _ => panic!(),
    };
    let logged: Vec<_> = rig.logged().iter().map(offsets).collect();
    assert_eq!(logged, [[3, 5], [1, 2]]);
}

#[test]
fn where_nothing_is_found_nothing_is_stored() {
    let rig = PopRig::new();
    rig.put(TOPIC, &["a"; 5]);
    let none = [java::hash(b"none")];
    let nothing = Ask {
        tags: &none,
        ..ask(TOPIC, 1, 32)
    };
    let end = rig.pops.store().log().max_offset();
    for (asked, status, next) in [
        (nothing, GetStatus::NoMatchedMessage, 5),
        (ask(TOPIC, 5, 32), GetStatus::OffsetOverflowOne, 5),
        (ask(b"NoTopic", 7, 32), GetStatus::NoMessageInQueue, 7),
        (ask(b"%RETRY%g", 7, 32), GetStatus::NoMessageInQueue, 7),
        // Behind the end the queue goes on at its end.
        (ask(TOPIC, 99, 32), GetStatus::OffsetOverflowOne, 5),
    ] {
        let taken = rig.pops.take(&asked, &group(NOW)).unwrap();
        assert_eq!((taken.got.status, taken.got.next), (status, next));
        assert_eq!(
            (taken.offsets, taken.log_end, taken.got.count),
            (vec![], 0, 0)
        );
    }
    assert_eq!(rig.pops.store().log().max_offset(), end);
}

#[test]
fn a_pop_before_the_queue_goes_on_at_its_beginning() {
    let rig = PopRig::new();
    rig.put(TOPIC, &["a"; 5]);
    rig.pops.store().hide_messages(TOPIC, 1, 3);
    let taken = rig.pops.take(&ask(TOPIC, 0, 32), &group(NOW)).unwrap();
    assert_eq!((taken.start, taken.offsets), (3, vec![3, 4]));
    let Logged::CheckPoint { of, offsets, .. } = &rig.logged()[0] else {
        panic!()
    };
    assert_eq!((of, &offsets[..]), (&key("Orders", 3, NOW), &[3, 4][..]));
}

#[test]
fn a_pop_gives_thirty_two_messages_at_most() {
    let rig = PopRig::new();
    rig.put(TOPIC, &["a"; 40]);
    let taken = rig.pops.take(&ask(TOPIC, 0, 1000), &group(NOW)).unwrap();
    assert_eq!(taken.offsets, (0..32).collect::<Vec<_>>());
}

#[test]
fn what_is_not_in_memory_is_not_waited_for() {
    let rig = PopRig::new();
    rig.put(TOPIC, &["a"; 5]);
    let asked = Ask {
        wait: Wait::Never,
        ..ask(TOPIC, 0, 32)
    };
    // Just written: it is in memory.
    assert_eq!(rig.pops.take(&asked, &group(NOW)).unwrap().offsets.len(), 5);
}

#[test]
fn messages_of_a_retry_topic_are_given_under_their_own() {
    let rig = PopRig::new();
    rig.put(RETRY, &["a", "b"]);
    let of = CheckPointOf {
        original_topic: Some(TOPIC),
        ..group(NOW)
    };
    let taken = rig.pops.take(&ask(RETRY, 0, 32), &of).unwrap();
    let handle = |o| format!("POP_CK\u{1}0 {NOW} {INVISIBLE} 3 2 broker-a 1 {o}\u{2}");
    assert_eq!(
        records(&taken),
        [
            ("Orders".into(), 0, format!("TAGS\u{1}a\u{2}{}", handle(0))),
            ("Orders".into(), 1, format!("TAGS\u{1}b\u{2}{}", handle(1))),
        ]
    );
    // The check point is about the retry topic.
    let Logged::CheckPoint { of, .. } = &rig.logged()[0] else {
        panic!()
    };
    assert_eq!(*of, key("%RETRY%g+Orders", 0, NOW));
    let taken = rig.pops.take(&ask(RETRY, 0, 32), &group(NOW)).unwrap();
    assert_eq!(records(&taken)[0].0, "%RETRY%g+Orders");
}

#[test]
fn an_ack_of_1970_is_no_timer_without_time() {
    let rig = PopRig::new();
    rig.put(TOPIC, &["a"]);
    let mut of = claim(TOPIC, 0, 0);
    of.invisible_time = 0;
    let mut guard = rig.pops.store().put().unwrap();
    rig.pops.ack(&mut guard, &of, &[0], NOW).unwrap();
    drop(guard);
    let [Logged::Ack { due, .. }] = rig.logged()[..] else {
        panic!("no ack")
    };
    assert_eq!(due, 0);
}

#[test]
fn acks() {
    let rig = PopRig::new();
    let (pops, store) = (&rig.pops, rig.pops.store());
    let mut guard = store.put().unwrap();
    let claim = claim(TOPIC, 2, NOW);
    pops.ack(&mut guard, &claim, &[4], NOW + 5).unwrap();
    let end = pops.ack(&mut guard, &claim, &[2, 6], NOW + 5).unwrap();
    drop(guard);
    assert_eq!(end, store.log().max_offset());
    let ack = |offsets: &[i64]| Logged::Ack {
        of: key("Orders", 2, NOW),
        due: NOW + INVISIBLE - 1000,
        offsets: offsets.into(),
    };
    assert_eq!(rig.logged(), [ack(&[4]), ack(&[2, 6])]);
}

#[test]
fn a_change_sets_a_check_point_and_acknowledges_the_old_one() {
    let rig = PopRig::new();
    let (pops, store) = (&rig.pops, rig.pops.store());
    let to = Change {
        offset: 4,
        now: NOW + 700,
        invisible_time: 30_000,
        suspend: false,
    };
    let change = |claim: &Claim<'_>, to| pops.change(&mut store.put().unwrap(), claim, to);
    let done = change(&claim(TOPIC, 2, NOW), to).unwrap();
    let expected = Changed {
        log_end: store.log().max_offset(),
        pop_time: NOW + 700,
    };
    assert_eq!(done, expected);
    assert_eq!(
        rig.logged(),
        [
            Logged::CheckPoint {
                of: key("Orders", 4, NOW + 700),
                due: NOW + 29_000,
                revive_time: NOW + 30_700,
                offsets: vec![4],
            },
            Logged::Ack {
                of: key("Orders", 2, NOW),
                due: NOW + INVISIBLE - 1000,
                offsets: vec![4],
            },
        ]
    );
    // Again in the same millisecond: the new check point is another one than that which is acknowledged.
    let again = change(&claim(TOPIC, 4, NOW + 700), to).unwrap();
    assert_eq!(again.pop_time, NOW + 701);
    let now = Change {
        invisible_time: 0,
        ..to
    };
    change(&claim(TOPIC, 2, NOW), now).unwrap();
}

#[test]
fn claims_that_are_refused() {
    let rig = PopRig::new();
    let (pops, store) = (&rig.pops, rig.pops.store());
    let end = store.log().max_offset();
    let good = || claim(TOPIC, 2, NOW);
    let with = |change: &dyn Fn(&mut Claim<'static>)| {
        let mut claim = good();
        change(&mut claim);
        claim
    };
    let wrong = [
        with(&|c| c.popped.broker_name = Cow::Borrowed(b"broker-b")),
        with(&|c| c.popped.broker_name = Cow::Borrowed(b"")),
        with(&|c| c.popped.queue_id = -1),
        with(&|c| c.popped.start_offset = -1),
        with(&|c| c.popped.pop_time = -1),
        with(&|c| c.popped.pop_time = NOW + 700_000),
        with(&|c| c.popped.pop_time = i64::MAX),
        with(&|c| c.revive_queue = 8),
        with(&|c| c.revive_queue = -1),
        with(&|c| c.revive_queue = 999),
        with(&|c| c.invisible_time = -1),
        with(&|c| c.invisible_time = MAX_INVISIBLE_TIME + 1),
        with(&|c| c.invisible_time = i64::MAX),
    ];
    let to = Change {
        offset: 4,
        now: NOW,
        invisible_time: 30_000,
        suspend: false,
    };
    let mut guard = store.put().unwrap();
    for claim in &wrong {
        let refused = pops.ack(&mut guard, claim, &[4], NOW);
        assert!(matches!(refused, Err(StoreError::Illegal(_))), "{claim:?}");
        assert!(pops.change(&mut guard, claim, to).is_err(), "{claim:?}");
    }
    let many: Vec<i64> = (2..35).collect();
    for offsets in [
        &[][..],
        &[1],
        &[4, 3],
        &[4, 4],
        &[2 + i32::MAX as i64 + 1],
        &many,
    ] {
        assert!(pops.ack(&mut guard, &good(), offsets, NOW).is_err());
    }
    for time in [-1, MAX_INVISIBLE_TIME + 1] {
        let to = Change {
            invisible_time: time,
            ..to
        };
        assert!(pops.change(&mut guard, &good(), to).is_err());
    }
    drop(guard);
    for of in [
        CheckPointOf {
            invisible_time: -1,
            ..group(NOW)
        },
        CheckPointOf {
            revive_queue: 999,
            ..group(NOW)
        },
    ] {
        assert!(pops.take(&ask(TOPIC, 0, 32), &of).is_err());
    }
    assert_eq!(store.log().max_offset(), end);
}

#[test]
fn settings_that_are_refused() {
    let rig = PopRig::new();
    let good = rig.pops.settings();
    for wrong in [
        Settings {
            revive_queues: 0,
            ..good.clone()
        },
        Settings {
            revive_queues: 1000,
            ..good.clone()
        },
        Settings {
            precision: 0,
            ..good.clone()
        },
        Settings {
            broker_name: "a b".into(),
            ..good.clone()
        },
        Settings {
            cluster: "a/b".into(),
            ..good.clone()
        },
    ] {
        assert!(
            Pops::new(rig.pops.store().clone(), wrong.clone()).is_err(),
            "{wrong:?}"
        );
    }
}
