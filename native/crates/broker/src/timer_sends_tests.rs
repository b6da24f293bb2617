use super::*;
use crate::testing::*;
use crate::{Decision, SendRequest};
use pyrmq_format::message_type::MessageType;
use pyrmq_format::properties;
use pyrmq_format::timer::TIMER_TOPIC;
use pyrmq_store::now_ms;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const DAY: i64 = 86_400_000;

fn sends() -> TimerSends {
    TimerSends {
        broker_name: "broker-a".into(),
        enabled: true,
        precision_ms: 1000,
        max_delay_ms: 3 * DAY,
        congested: NEVER,
        slot_count: None,
    }
}

fn rig_with(with_transactions: bool, sends: TimerSends) -> Rig {
    let mut rig = Rig::new(with_transactions);
    rig.broker.timer_sends = Some(sends);
    rig
}

fn rig() -> Rig {
    rig_with(false, sends())
}

fn props(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut all = Vec::new();
    for (name, value) in pairs {
        properties::push(&mut all, name.as_bytes(), value.as_bytes());
    }
    all
}

fn find(stored: &[u8], name: &str) -> Option<String> {
    let value = properties::find(stored, name.as_bytes())?;
    Some(String::from_utf8(value.to_vec()).unwrap())
}

fn text(b: &[u8]) -> Option<String> {
    Some(String::from_utf8(b.to_vec()).unwrap())
}

/// Bounds of TIMER_OUT_MS where `delay` ms were asked for between two looks at the clock.
fn is_out(out: &str, delay: i64, before: i64, precision: i64) -> bool {
    let out: i64 = out.parse().unwrap();
    let (low, high) = (
        out_time(before + delay, precision),
        out_time(now_ms() + delay, precision),
    );
    out % precision == 0 && (low..=high).contains(&out)
}

#[test]
fn a_timer_message_waits_in_the_timer_topic() {
    let rig = rig();
    for (name, value, delay) in [
        ("TIMER_DELAY_SEC", "30", 30_000),
        ("TIMER_DELAY_MS", "1500", 1500),
        ("TIMER_DELAY_MS", "+259200000", 3 * DAY),
    ] {
        let before = now_ms();
        let asked = props(&[
            (name, value),
            ("TAGS", "a"),
            ("UNIQ_KEY", "K"),
            ("REAL_TOPIC", "RMQ_SYS_TRANS_HALF_TOPIC"),
            ("REAL_QID", "9"),
            ("TIMER_ROLL_TIMES", "7"),
            ("TIMER_ENQUEUE_MS", "1"),
            ("TIMER_DEQUEUE_MS", "1"),
        ]);
        let done = rig.send(&plain(&asked, b"x")).unwrap();
        assert_eq!(done.queue_id, 1, "as it was asked for");
        let (view, topic, stored) = rig.record(&done.ids);
        assert_eq!((&*topic, view.queue_id), (TIMER_TOPIC, 0));
        let out = find(&stored, "TIMER_OUT_MS").unwrap();
        assert!(is_out(&out, delay, before, 1000), "{out}");
        for (name, value) in [
            (name, text(value.as_bytes())),
            ("TAGS", text(b"a")),
            ("REAL_TOPIC", text(TOPIC)),
            ("REAL_QID", text(b"1")),
            ("TIMER_ROLL_TIMES", None),
            ("TIMER_ENQUEUE_MS", None),
            ("TIMER_DEQUEUE_MS", None),
        ] {
            assert_eq!(find(&stored, name), value, "{name}");
        }
        let mut handle = Vec::new();
        recall::push_handle(&mut handle, TOPIC, b"broker-a", out.parse().unwrap(), b"K");
        assert_eq!(done.recall_handle, handle);
    }
}

#[test]
fn a_time_is_rounded_down_to_a_slot_and_never_to_itself() {
    for (deliver, precision, out) in [
        (10_000, 1000, 9000),
        (10_001, 1000, 10_000),
        (10_999, 1000, 10_000),
        (10_100, 100, 10_000),
        (10_199, 100, 10_100),
    ] {
        assert_eq!(out_time(deliver, precision), out, "{deliver}");
    }
    let mut of_100 = sends();
    of_100.precision_ms = 100;
    let rig = rig_with(false, of_100);
    let before = now_ms();
    let asked = props(&[("TIMER_DELAY_MS", "1234")]);
    let done = rig.send(&plain(&asked, b"x")).unwrap();
    let out = find(&rig.record(&done.ids).2, "TIMER_OUT_MS").unwrap();
    assert!(is_out(&out, 1234, before, 100), "{out}");
}

#[test]
fn a_made_key_is_the_one_of_the_handle() {
    let rig = rig();
    let asked = props(&[("TIMER_DELAY_SEC", "5")]);
    let done = rig.send(&plain(&asked, b"x")).unwrap();
    let out = find(&rig.record(&done.ids).2, "TIMER_OUT_MS").unwrap();
    let mut handle = Vec::new();
    let out = out.parse().unwrap();
    recall::push_handle(&mut handle, TOPIC, b"broker-a", out, &done.key);
    assert_eq!(done.recall_handle, handle);
    let next = rig.send(&plain(b"", b"x")).unwrap();
    assert!(next.recall_handle.is_empty(), "of the message before");
}

#[test]
fn a_time_that_is_past_makes_an_ordinary_message() {
    let rig = rig();
    for (name, value) in [
        ("TIMER_DELAY_SEC", "0"),
        ("TIMER_DELAY_SEC", "-9223372036854775808"),
        ("TIMER_DELAY_MS", "-1"),
        ("TIMER_DELIVER_MS", "0"),
        ("TIMER_DELIVER_MS", "1700000000000"),
    ] {
        let asked = props(&[(name, value)]);
        let done = rig.send(&plain(&asked, b"x")).unwrap();
        let (_, topic, stored) = rig.record(&done.ids);
        assert_eq!((&*topic, find(&stored, "TIMER_OUT_MS")), (TOPIC, None));
        assert!(done.recall_handle.is_empty());
        // One that is to end a timer has to come in time.
        let ends = props(&[(name, value), ("TIMER_DEL_UNIQKEY", "k")]);
        let (code, text) = rig.refusal(&plain(&ends, b"x"));
        assert_eq!(code, codes::MESSAGE_ILLEGAL);
        assert!(text.contains("if set del msg"), "{text}");
    }
}

#[test]
fn what_is_refused() {
    let rig = rig();
    let far = (now_ms() + 3 * DAY + 60_000).to_string();
    for (name, value, part) in [
        ("TIMER_DELAY_SEC", "259201", "max delay 259200000ms"),
        (
            "TIMER_DELAY_SEC",
            "9223372036854775807",
            "max delay 259200000ms",
        ),
        (
            "TIMER_DELAY_MS",
            "9223372036854775807",
            "max delay 259200000ms",
        ),
        ("TIMER_DELIVER_MS", &far, "max delay 259200000ms"),
        (
            "TIMER_DELIVER_MS",
            "9223372036854775807",
            "max delay 259200000ms",
        ),
        (
            "TIMER_DELAY_SEC",
            "soon",
            "property TIMER_DELAY_SEC=\"soon\" is no number",
        ),
        ("TIMER_DELAY_MS", "1.5", "TIMER_DELAY_MS"),
        ("TIMER_DELAY_MS", " 1", "TIMER_DELAY_MS"),
        ("TIMER_DELIVER_MS", "99999999999999999999", "is no number"),
    ] {
        let asked = props(&[(name, value)]);
        let (code, text) = rig.refusal(&plain(&asked, b"x"));
        assert_eq!(code, codes::MESSAGE_ILLEGAL, "{name}={value}");
        assert!(text.contains(part), "{text}");
    }
    // The one that counts is wrong, though another one would do.
    let asked = props(&[("TIMER_DELIVER_MS", "5"), ("TIMER_DELAY_SEC", "x")]);
    assert_eq!(rig.refusal(&plain(&asked, b"x")).0, codes::MESSAGE_ILLEGAL);
    assert_eq!(rig.broker.store().log().max_offset(), 0);
}

#[test]
fn a_batch_is_no_timer_and_holds_none() {
    let rig = rig();
    let asked = props(&[("TIMER_DELAY_SEC", "5")]);
    let one = entry(b"one", b"");
    let whole = SendRequest {
        batch: true,
        ..plain(&asked, &one)
    };
    assert_eq!(rig.refusal(&whole).0, codes::MESSAGE_ILLEGAL);
    let inside = entry(b"one", &asked);
    for topic in [TOPIC, BATCHES] {
        let rq = SendRequest {
            topic,
            batch: true,
            ..plain(b"UNIQ_KEY\x01U\x02", &inside)
        };
        let (code, text) = rig.refusal(&rq);
        assert_eq!(code, codes::MESSAGE_ILLEGAL);
        assert!(text.contains("timer"), "{text}");
    }
    assert_eq!(rig.broker.store().log().max_offset(), 0);
}

#[test]
fn without_the_wheel_timer_messages_are_refused() {
    let mut off = sends();
    off.enabled = false;
    for rig in [rig_with(false, off), Rig::new(false)] {
        let asked = props(&[("TIMER_DELAY_SEC", "5")]);
        let (code, text) = rig.refusal(&plain(&asked, b"x"));
        assert_eq!(code, codes::SYSTEM_ERROR);
        assert!(text.ends_with("timerWheelEnable is false"), "{text}");
        rig.send(&plain(b"DELAY\x011\x02", b"x")).unwrap();
    }
}

#[test]
fn a_delay_level_displaces_the_timer() {
    let rig = rig();
    let asked = props(&[("TIMER_DELAY_SEC", "x"), ("DELAY", "1")]);
    let done = rig.send(&plain(&asked, b"x")).unwrap();
    let (_, topic, stored) = rig.record(&done.ids);
    assert_eq!(&*topic, b"SCHEDULE_TOPIC_XXXX");
    assert_eq!(find(&stored, "TIMER_DELAY_SEC"), None);
    assert!(done.recall_handle.is_empty());
}

#[test]
fn what_was_a_timer_message_before_is_delivered_at_once_to_the_topic_it_names() {
    let rig = rig();
    let asked = props(&[
        ("TIMER_DELAY_SEC", "5"),
        ("TIMER_OUT_MS", "99999999999999"),
        ("REAL_TOPIC", "RMQ_SYS_TRANS_HALF_TOPIC"),
        ("REAL_QID", "0"),
    ]);
    let done = rig.send(&plain(&asked, b"x")).unwrap();
    assert_eq!(rig.record(&done.ids).1, TOPIC);
    assert!(done.recall_handle.is_empty(), "nothing waits");
}

#[test]
fn nobody_sends_to_the_timer_topic() {
    let rig = rig();
    rig.broker.store().topics().topic(TIMER_TOPIC).unwrap();
    let rq = SendRequest {
        topic: TIMER_TOPIC,
        ..plain(b"TIMER_OUT_MS\x011\x02", b"x")
    };
    assert_eq!(rig.send(&rq), Err(None), "the broker refuses it");
}

#[test]
fn halves_with_a_timer_are_the_brokers_to_refuse() {
    let rig = rig_with(true, sends());
    let asked = props(&[
        ("TRAN_MSG", "true"),
        ("PGROUP", "g"),
        ("TIMER_DELAY_SEC", "5"),
    ]);
    assert_eq!(rig.send(&plain(&asked, b"x")), Err(None));
}

#[test]
fn a_retry_may_be_a_timer_but_a_dead_letter_not() {
    let rig = rig();
    let retry = &b"%RETRY%g"[..];
    let asked = props(&[("TIMER_DELAY_SEC", "5"), ("UNIQ_KEY", "K")]);
    let back = |dead| SendRequest {
        topic: retry,
        decision: Some(Decision::SentBack { topic: retry, dead }),
        ..plain(&asked, b"x")
    };
    let done = rig.send(&back(false)).unwrap();
    let (_, topic, stored) = rig.record(&done.ids);
    assert_eq!(&*topic, TIMER_TOPIC);
    assert_eq!(find(&stored, "REAL_TOPIC"), text(retry));
    assert!(done.recall_handle.is_empty(), "no sender asked for it");
    let done = rig.send(&back(true)).unwrap();
    let (_, topic, stored) = rig.record(&done.ids);
    assert_eq!(&*topic, retry);
    assert_eq!(find(&stored, "TIMER_DELAY_SEC"), None);
}

#[test]
fn a_full_slot_takes_no_more_and_one_that_fills_takes_ever_fewer() {
    let count = Arc::new(AtomicU64::new(0));
    let seen = count.clone();
    let mut busy = sends();
    busy.congested = 100;
    busy.slot_count = Some(Box::new(move |_| seen.load(Ordering::Relaxed)));
    let rig = rig_with(false, busy);
    let asked = props(&[("TIMER_DELAY_SEC", "5")]);
    let refused = |n: u64| {
        count.store(n, Ordering::Relaxed);
        let sent = (0..200).filter(|_| rig.send(&plain(&asked, b"x")).is_err());
        sent.count()
    };
    assert_eq!((refused(0), refused(100)), (0, 0));
    let (few, many) = (refused(120), refused(180));
    assert!(0 < few && few < many && many < 200, "{few} {many}");
    assert_eq!((refused(200), refused(5000)), (200, 200));
    let (code, text) = rig.refusal(&plain(&asked, b"x"));
    assert_eq!(code, codes::SYSTEM_ERROR);
    assert!(text.contains("max num limit is 200"), "{text}");
}

#[test]
fn a_priority_chooses_the_queue() {
    let rig = rig();
    let queue_of = |asked: &[(&str, &str)]| {
        let asked = props(asked);
        let done = rig.send(&plain(&asked, b"x")).unwrap();
        let (view, _, stored) = rig.record(&done.ids);
        let kept = find(&stored, "_SYS_MSG_PRIORITY_").is_some();
        (done.queue_id, view.queue_id, kept)
    };
    let name = "_SYS_MSG_PRIORITY_";
    assert_eq!(queue_of(&[(name, "0")]), (0, 0, true));
    assert_eq!(queue_of(&[(name, "3")]), (3, 3, true));
    assert_eq!(queue_of(&[(name, "99")]), (3, 3, true), "the last queue");
    assert_eq!(queue_of(&[(name, "-1")]), (1, 1, true), "no priority");
    assert_eq!(queue_of(&[(name, "high")]), (1, 1, true));
    let ordered = [(name, "3"), ("__SHARDINGKEY", "k")];
    assert_eq!(queue_of(&ordered), (1, 1, false), "order counts instead");
    let delayed = [(name, "3"), ("TIMER_DELAY_SEC", "5")];
    assert_eq!(queue_of(&delayed), (1, 0, false));
    // A batch goes where it was sent to, with what it says.
    let (asked, body) = (props(&[(name, "3")]), entry(b"one", b""));
    let batch = SendRequest {
        batch: true,
        ..plain(&asked, &body)
    };
    assert_eq!(rig.send(&batch).unwrap().queue_id, 1);
}

#[test]
fn a_queue_that_is_not_there_is_refused_though_the_priority_would_choose_another() {
    let rig = rig();
    let asked = props(&[("_SYS_MSG_PRIORITY_", "0")]);
    let rq = SendRequest {
        queue_id: 4,
        ..plain(&asked, b"x")
    };
    assert_eq!(rig.refusal(&rq).0, codes::INVALID_PARAMETER);
}

#[test]
fn a_topic_may_take_messages_of_one_type_only() {
    let rig = rig();
    let kinds: [(&[(&str, &str)], MessageType); 4] = [
        (&[], MessageType::Normal),
        (&[("TIMER_DELAY_SEC", "5")], MessageType::Delay),
        (&[("__SHARDINGKEY", "k")], MessageType::Fifo),
        (&[("_SYS_MSG_PRIORITY_", "1")], MessageType::Priority),
    ];
    for (_, wanted) in kinds {
        rig.topic(TOPIC).set_message_type(Some(wanted));
        for (pairs, sent) in &kinds {
            let asked = props(pairs);
            if *sent == wanted {
                rig.send(&plain(&asked, b"x")).unwrap();
                continue;
            }
            let (code, text) = rig.refusal(&plain(&asked, b"x"));
            assert_eq!(code, codes::MESSAGE_ILLEGAL);
            let expected = format!(
                "TopicMessageType validate failed, the expected type is {}, but actual type is {}",
                wanted.name(),
                sent.name()
            );
            assert_eq!(text, expected);
            let mut moved = asked.clone();
            properties::push(&mut moved, b"TRANSFER_FLAG", b"1");
            rig.send(&plain(&moved, b"x")).unwrap();
        }
    }
    for open in [Some(MessageType::Mixed), None] {
        rig.topic(TOPIC).set_message_type(open);
        for (pairs, _) in &kinds {
            rig.send(&plain(&props(pairs), b"x")).unwrap();
        }
    }
}
