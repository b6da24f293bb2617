//! Requests without frames: what each form stores, and what is refused or left to a decision.

use super::codes;
use super::testing::*;
use super::*;
use pyrmq_format::properties;
use pyrmq_format::record::sys_flag;
use pyrmq_store::FlushMode;

#[test]
fn a_plain_message() {
    let rig = Rig::new(false);
    let props = b"KEYS\x01k\x02UNIQ_KEY\x01U\x02MSG_REGION\x01forged\x02";
    let done = rig.send(&plain(props, b"body")).unwrap();
    assert_eq!((done.queue_id, done.queue_offset), (1, 0));
    assert_eq!(done.key, b"U");
    assert!(!done.inner_batch);
    let (view, topic, stored) = rig.record(&done.ids);
    assert_eq!(topic, TOPIC);
    assert_eq!((view.flag, view.born_timestamp), (7, BORN));
    let expected =
        b"KEYS\x01k\x02UNIQ_KEY\x01U\x02MSG_REGION\x01R\x02TRACE_ON\x01true\x02CLUSTER\x01C\x02";
    assert_eq!(stored, expected);
    assert_eq!(done.end, view.phys as u64 + view.total as u64);
}

#[test]
fn a_key_is_made_where_none_was_sent() {
    let rig = Rig::flushing(false, FlushMode::Sync);
    let done = rig.send(&plain(b"WAIT\x01false", b"body")).unwrap();
    assert_eq!(done.end, 0, "its sender does not wait");
    let (_, _, stored) = rig.record(&done.ids);
    assert_eq!(
        properties::find(&stored, b"UNIQ_KEY"),
        Some(done.key.as_slice())
    );
    assert_eq!(properties::find(&stored, b"WAIT"), Some(&b"false"[..]));
    assert_eq!(done.key.len(), 32);
}

#[test]
fn a_negative_queue_id_goes_round() {
    let rig = Rig::new(false);
    let ids: Vec<u32> = (0..8)
        .map(|_| {
            let rq = SendRequest {
                queue_id: -1,
                ..plain(b"", b"x")
            };
            rig.send(&rq).unwrap().queue_id
        })
        .collect();
    assert_eq!(ids, [0, 1, 2, 3, 0, 1, 2, 3]);
}

#[test]
fn a_batch_is_a_record_for_each_message() {
    let rig = Rig::new(false);
    let body = [
        entry(b"one", b"TAGS\x01a\x02"),
        entry(b"two", b"UNIQ_KEY\x01U2\x02"),
    ]
    .concat();
    let rq = SendRequest {
        batch: true,
        ..plain(b"", &body)
    };
    let done = rig.send(&rq).unwrap();
    let ids: Vec<_> = done.ids.split(',').collect();
    assert_eq!((ids.len(), done.queue_offset), (2, 0));
    for (i, (id, props)) in ids
        .iter()
        .zip([&b"TAGS\x01a\x02"[..], b"UNIQ_KEY\x01U2\x02"])
        .enumerate()
    {
        let (view, _, stored) = rig.record(id);
        assert_eq!((view.queue_offset, view.flag), (i as i64, 3));
        assert_eq!(stored, props);
    }
    assert!(done.key.is_empty());
}

#[test]
fn a_batch_is_stored_whole_or_not_at_all() {
    let rig = Rig::new(false);
    let good = entry(b"one", b"");
    let bodies = [
        [good.clone(), entry(b"two", b"DELAY\x013\x02")].concat(),
        [good.clone(), entry(b"two", b"TRAN_MSG\x01true\x02")].concat(),
        [good.clone(), good[..10].to_vec()].concat(),
        [good, entry(&[0; 4097], b"")].concat(),
        entry(&[0; 1024], b"").repeat(4),
        Vec::new(),
    ];
    for body in &bodies {
        let rq = SendRequest {
            batch: true,
            ..plain(b"", body)
        };
        assert_eq!(rig.refusal(&rq).0, codes::MESSAGE_ILLEGAL);
    }
    assert_eq!(rig.broker.store().log().max_offset(), 0);
}

#[test]
fn an_inner_batch_is_one_record() {
    let rig = Rig::new(false);
    let body = [entry(b"one", b""), entry(b"two", b"")].concat();
    let rq = SendRequest {
        topic: BATCHES,
        batch: true,
        ..plain(b"UNIQ_KEY\x01U\x02", &body)
    };
    for first in [0, 2] {
        let done = rig.send(&rq).unwrap();
        assert!(done.inner_batch);
        assert_eq!((done.key.as_slice(), done.queue_offset), (&b"U"[..], first));
        let (view, _, stored) = rig.record(&done.ids);
        assert!(view.sys_flag & (sys_flag::NEED_UNWRAP | sys_flag::INNER_BATCH) != 0);
        assert_eq!(properties::find(&stored, b"INNER_NUM"), Some(&b"2"[..]));
        let base = first.to_string();
        assert_eq!(
            properties::find(&stored, b"INNER_BASE"),
            Some(base.as_bytes())
        );
    }
}

#[test]
fn what_the_broker_decides() {
    let rig = Rig::new(false);
    let base = plain(b"", b"x");
    let cases = [
        SendRequest {
            topic: b"Unknown",
            ..base
        },
        SendRequest {
            topic: b"%RETRY%g",
            ..base
        },
        SendRequest {
            properties: b"TRAN_MSG\x01true\x02",
            ..base
        },
        SendRequest {
            sys_flag: sys_flag::COMMIT,
            ..base
        },
    ];
    for rq in cases {
        assert_eq!(rig.send(&rq), Err(None));
        let again = SendRequest {
            decision: Some(Decision::AsRequested),
            ..rq
        };
        assert_eq!(rig.refusal(&again).0, codes::TOPIC_NOT_EXIST);
    }
    assert_eq!(rig.broker.store().log().max_offset(), 0);
}

#[test]
fn a_delayed_message_waits_in_the_queue_of_its_level() {
    let rig = Rig::new(false);
    let forged =
        b"REAL_TOPIC\x01RMQ_SYS_TRANS_HALF_TOPIC\x02REAL_QID\x019\x02TIMER_DELAY_SEC\x015\x02";
    for (asked, level) in [
        ("3", 3),
        ("18", 18),
        ("19", 18),
        ("999999999999", 18),
        (" 1 ", 1),
    ] {
        let mut props = forged.to_vec();
        properties::push(&mut props, b"DELAY", asked.as_bytes());
        properties::push(&mut props, b"TAGS", b"a");
        let done = rig.send(&plain(&props, b"x")).unwrap();
        assert_eq!(done.queue_id, 1, "as it was asked for");
        let (view, topic, stored) = rig.record(&done.ids);
        assert_eq!(
            (&*topic, view.queue_id),
            (&b"SCHEDULE_TOPIC_XXXX"[..], level - 1)
        );
        let text = level.to_string();
        let expected: [(&[u8], Option<&[u8]>); 6] = [
            (b"DELAY", Some(text.as_bytes())),
            (b"REAL_TOPIC", Some(TOPIC)),
            (b"REAL_QID", Some(b"1")),
            (b"TAGS", Some(b"a")),
            (b"UNIQ_KEY", Some(&done.key)),
            (b"TIMER_DELAY_SEC", None),
        ];
        for (name, value) in expected {
            assert_eq!(properties::find(&stored, name), value);
        }
        let queue = rig
            .topic(b"SCHEDULE_TOPIC_XXXX")
            .queue(level as u32 - 1)
            .unwrap();
        let entry = queue.entry(done.queue_offset).unwrap().unwrap();
        let delay = rig
            .broker
            .store()
            .config()
            .delay_levels
            .delay(level as usize);
        assert_eq!(entry.cq.tags_code, view.store_timestamp + delay);
    }
}

#[test]
fn a_level_that_asks_for_no_delay_is_ignored() {
    let rig = Rig::new(false);
    for level in ["0", "-1", "-9223372036854775808"] {
        let mut props = Vec::new();
        properties::push(&mut props, b"DELAY", level.as_bytes());
        let done = rig.send(&plain(&props, b"x")).unwrap();
        assert_eq!(rig.record(&done.ids).1, TOPIC);
    }
    for level in ["x", "1.5", "99999999999999999999"] {
        let mut props = Vec::new();
        properties::push(&mut props, b"DELAY", level.as_bytes());
        assert_eq!(rig.refusal(&plain(&props, b"x")).0, codes::MESSAGE_ILLEGAL);
        let batch = SendRequest {
            batch: true,
            ..plain(&props, b"x")
        };
        assert_eq!(rig.refusal(&batch).0, codes::MESSAGE_ILLEGAL);
    }
}

#[test]
fn a_message_that_goes_back_to_its_group() {
    let rig = Rig::new(true);
    let props = b"TRAN_MSG\x01true\x02DELAY\x013\x02POP_CK\x01p\x02UNIQ_KEY\x01U\x02KEYS\x01k\x02";
    let retry = &b"%RETRY%g"[..];
    for (dead, queue_id, stored_in, delay) in [(false, 2, 2, Some(&b"3"[..])), (true, 2, 0, None)] {
        let rq = SendRequest {
            topic: retry,
            queue_id,
            sys_flag: sys_flag::COMMIT,
            reconsume_times: 3,
            decision: Some(Decision::SentBack { topic: retry, dead }),
            ..plain(props, b"body")
        };
        let done = rig.send(&rq).unwrap();
        assert_eq!(done.queue_id, stored_in);
        let (view, topic, stored) = rig.record(&done.ids);
        let place = if dead { retry } else { b"SCHEDULE_TOPIC_XXXX" };
        assert_eq!((&*topic, view.reconsume_times), (place, 3));
        assert_eq!(view.sys_flag & sys_flag::TRANSACTION_MASK, 0);
        for (name, value) in [
            (&b"REAL_TOPIC"[..], delay.map(|_| retry)),
            (b"TRAN_MSG", None),
            (b"POP_CK", None),
            (b"DELAY", delay),
            (b"KEYS", Some(&b"k"[..])),
        ] {
            assert_eq!(properties::find(&stored, name), value);
        }
    }
}

#[test]
fn refusals() {
    let rig = Rig::new(true);
    let base = plain(b"", b"x");
    let long = vec![b't'; 128];
    let big = vec![0; 4097];
    let bad = codes::INVALID_PARAMETER;
    let illegal = codes::MESSAGE_ILLEGAL;
    let cases: [(SendRequest<'_>, i32, &str); 9] = [
        (
            SendRequest {
                topic: b"../x",
                ..base
            },
            bad,
            "is illegal",
        ),
        (SendRequest { topic: b"", ..base }, bad, "is illegal"),
        (
            SendRequest {
                topic: &long,
                ..base
            },
            bad,
            "is illegal",
        ),
        (
            SendRequest {
                queue_id: 4,
                ..base
            },
            bad,
            "queueId[4]",
        ),
        (SendRequest { body: b"", ..base }, illegal, "no body"),
        (
            SendRequest { body: &big, ..base },
            illegal,
            "maxMessageSize",
        ),
        (
            SendRequest {
                properties: b"INNER_NUM\x012\x02",
                ..base
            },
            illegal,
            "BatchCQ",
        ),
        (
            SendRequest {
                topic: b"%RETRY%g",
                batch: true,
                ..base
            },
            illegal,
            "%RETRY%",
        ),
        (
            SendRequest {
                properties: b"TRAN_MSG\x01true\x02",
                ..base
            },
            illegal,
            "PGROUP",
        ),
    ];
    for (rq, code, text) in cases {
        let (found, remark) = rig.refusal(&rq);
        assert_eq!(found, code, "{remark}");
        assert!(remark.contains(text), "{remark}");
    }
    rig.broker.store().close().unwrap();
    assert_eq!(rig.refusal(&base).0, codes::SERVICE_NOT_AVAILABLE);
}
