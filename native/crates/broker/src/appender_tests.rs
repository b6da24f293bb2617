//! Halves and the ends of transactions in one appender: what it writes, and when.

use super::codes;
use super::testing::*;
use super::*;
use crate::txn::{End, HALF_TOPIC, OP_TOPIC};
use pyrmq_format::properties;

#[test]
fn a_half_waits_and_is_settled_once_it_is_written() {
    let rig = Rig::new(true);
    let props = b"PGROUP\x01pg\x02TRAN_MSG\x01true\x02UNIQ_KEY\x01U\x02REAL_TOPIC\x01forged\x02";
    let rq = plain(props, b"body");
    let mut scratch = Scratch::default();
    let mut last = None;
    let mut appender = rig.broker.appender();
    let Sent::Stored(stored) = appender.send(&rq, &mut last, &mut scratch) else {
        panic!("it is stored");
    };
    let id = String::from_utf8(stored.message_ids.to_vec()).unwrap();
    let (offset, ids) = (stored.queue_offset, [&b"U"[..], b""]);
    drop(appender);
    let (view, topic, text) = rig.record(&id);
    assert_eq!(topic, HALF_TOPIC);
    assert_eq!(properties::find(&text, b"REAL_TOPIC"), Some(TOPIC));
    assert_eq!(properties::find(&text, b"REAL_QID"), Some(&b"1"[..]));
    assert_eq!(
        properties::find(&text, b"__transactionId__"),
        Some(&b"U"[..])
    );
    let end = End {
        offset,
        phys: view.phys as u64,
        commit: true,
        group: b"pg",
        ids,
        from_check: false,
        topic: None,
    };
    let ops = || rig.topic(OP_TOPIC).queue(0).unwrap().max_offset();
    let mut appender = rig.broker.appender();
    assert!(matches!(
        appender.end_transaction(&end, false),
        Ended::Settled { .. }
    ));
    assert_eq!(ops(), 0, "one op record for all of the appender");
    assert_eq!(appender.end_transaction(&end, true), Ended::NeedsDecision);
    drop(appender);
    assert_eq!(ops(), 1);
    let delivered = rig.topic(TOPIC).queue(1).unwrap();
    assert_eq!(delivered.max_offset(), 1);
}

#[test]
fn an_appender_that_panics_appends_nothing_more() {
    let rig = Rig::new(true);
    let done = rig
        .send(&plain(
            b"PGROUP\x01pg\x02TRAN_MSG\x01true\x02UNIQ_KEY\x01U\x02",
            b"body",
        ))
        .unwrap();
    let (view, ..) = rig.record(&done.ids);
    let end = End {
        offset: done.queue_offset,
        phys: view.phys as u64,
        commit: true,
        group: b"pg",
        ids: [b"U", b""],
        from_check: false,
        topic: None,
    };
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut appender = rig.broker.appender();
        let ended = appender.end_transaction(&end, false);
        assert!(matches!(ended, Ended::Settled { .. }));
        panic!("a bug");
    }));
    assert!(panicked.is_err());
    let ops = || rig.topic(OP_TOPIC).queue(0).unwrap().max_offset();
    assert_eq!(ops(), 0);
    // The op record follows with the next.
    let mut guard = rig.broker.store().put().unwrap();
    rig.broker
        .transactions()
        .unwrap()
        .write_ops(&mut guard)
        .unwrap();
    drop(guard);
    assert_eq!(ops(), 1);
}

#[test]
fn no_more_halves_are_stored_than_may_wait() {
    let rig = Rig::new(true);
    let half = plain(
        b"PGROUP\x01pg\x02TRAN_MSG\x01true\x02UNIQ_KEY\x01U\x02",
        b"body",
    );
    rig.send(&half).unwrap();
    rig.send(&half).unwrap();
    let (code, text) = rig.refusal(&half);
    assert_eq!(code, codes::SYSTEM_BUSY);
    assert!(text.contains("transactionMaxPendingHalves"), "{text}");
    rig.send(&plain(b"", b"body")).unwrap();
    rig.broker.transactions().unwrap().settle(0, false).unwrap();
    rig.send(&half).unwrap();
    assert_eq!(rig.refusal(&half).0, codes::SYSTEM_BUSY);
}

#[test]
fn a_half_that_is_staged_only_is_left_to_a_decision() {
    let rig = Rig::new(true);
    let props = b"PGROUP\x01pg\x02TRAN_MSG\x01true\x02UNIQ_KEY\x01U\x02";
    let (rq, mut scratch) = (plain(props, b"body"), Scratch::default());
    let mut appender = rig.broker.appender();
    let Sent::Stored(stored) = appender.send(&rq, &mut None, &mut scratch) else {
        panic!("it is stored");
    };
    let (phys, offset) = (0, stored.queue_offset);
    let end = End {
        offset,
        phys,
        commit: true,
        group: b"pg",
        ids: [b"U", b""],
        from_check: false,
        topic: None,
    };
    assert_eq!(appender.end_transaction(&end, true), Ended::NeedsDecision);
    appender.keep_staged();
    drop(appender);
    // Whoever decides has it written first.
    rig.broker
        .transactions()
        .unwrap()
        .settle(offset, true)
        .unwrap();
    assert_eq!(rig.topic(TOPIC).queue(1).unwrap().max_offset(), 1);
}
