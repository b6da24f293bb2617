//! Requests without frames: what each form stores, and what is refused or left to a decision.

use super::codes;
use super::*;
use crate::txn::{End, HALF_TOPIC, Limits, OP_TOPIC, Start, Transactions};
use pyrmq_format::host::Host;
use pyrmq_format::properties;
use pyrmq_format::record::{self, Found, View, sys_flag};
use pyrmq_store::{FlushMode, Store, StoreConfig, Topic, TopicSettings};
use std::sync::Arc;

struct Rig {
    broker: Broker,
    _dir: tempfile::TempDir,
}

const TOPIC: &[u8] = b"Orders";
const BATCHES: &[u8] = b"Batches";
const BORN: i64 = 1_700_000_000_000;
const LIMITS: Limits = Limits {
    op_body: 4096,
    pending: 2,
};

fn host() -> Host {
    Host::new("10.1.2.3:4567".parse().unwrap())
}

impl Rig {
    fn new(with_transactions: bool) -> Rig {
        Rig::flushing(with_transactions, FlushMode::Async)
    }

    fn flushing(with_transactions: bool, flush_mode: FlushMode) -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let mut config = StoreConfig::new(dir.path().join("store"));
        config.commit_log_file_size = 64 << 10;
        config.consume_queue_file_size = 20 * 64;
        config.max_message_size = 4096;
        config.flush_mode = flush_mode;
        (config.index_slots, config.index_entries) = (50, 500);
        let store = Store::open(config).unwrap();
        let topics = store.topics();
        topics.declare_batch(BATCHES);
        for (name, sendable) in [(TOPIC, true), (BATCHES, true), (b"%RETRY%g", false)] {
            topics.topic(name).unwrap().set(Some(TopicSettings {
                read_queues: 4,
                write_queues: 4,
                multi_tag: false,
                sendable,
            }));
        }
        let transactions = with_transactions.then(|| {
            let start = Start { half: -1, op: -1 };
            Arc::new(Transactions::open(store.clone(), start, LIMITS).unwrap().0)
        });
        Rig {
            broker: Broker::new(store, transactions, "R", "C", true),
            _dir: dir,
        }
    }

    fn topic(&self, name: &[u8]) -> Arc<Topic> {
        self.broker.store().topics().get(name).unwrap()
    }

    /// Sends with an appender of its own: (log end, queue id, queue offset, unique key) of what is stored.
    fn send(&self, rq: &SendRequest<'_>) -> std::result::Result<Done, Option<Refusal>> {
        let mut scratch = Scratch::default();
        let mut last = None;
        let mut appender = self.broker.appender();
        match appender.send(rq, &mut last, &mut scratch) {
            Sent::Stored(s) => Ok(Done {
                end: s.log_end,
                queue_id: s.queue_id,
                queue_offset: s.queue_offset,
                ids: String::from_utf8(s.message_ids.to_vec()).unwrap(),
                key: s.unique_key.to_vec(),
                inner_batch: s.inner_batch,
            }),
            Sent::NeedsDecision => Err(None),
            Sent::Refused(refusal) => Err(Some(refusal)),
        }
    }

    fn refusal(&self, rq: &SendRequest<'_>) -> (i32, String) {
        let refusal = self.send(rq).unwrap_err().expect("refused");
        (refusal.code, refusal.text.into_owned())
    }

    /// The record of one message id, and its properties.
    fn record(&self, id: &str) -> (View, Vec<u8>, Vec<u8>) {
        let phys = u64::from_str_radix(&id[16..], 16).unwrap();
        let log = self.broker.store().log();
        let (segment, at) = log.locate(phys).unwrap();
        let bytes = segment.readable_from(at);
        let Found::Record(view) = record::read(bytes, true) else {
            panic!("no record at {phys}");
        };
        let (topic, props) = (bytes[view.topic.clone()].to_vec(), view.props.clone());
        let props = bytes[props].to_vec();
        (view, topic, props)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Done {
    end: u64,
    queue_id: u32,
    queue_offset: i64,
    ids: String,
    key: Vec<u8>,
    inner_batch: bool,
}

fn plain<'a>(properties: &'a [u8], body: &'a [u8]) -> SendRequest<'a> {
    SendRequest {
        topic: TOPIC,
        queue_id: 1,
        sys_flag: 0,
        born_timestamp: BORN,
        born_host: host(),
        flag: 7,
        reconsume_times: 0,
        properties,
        body,
        batch: false,
        decision: None,
    }
}

fn entry(body: &[u8], props: &[u8]) -> Vec<u8> {
    let total = (22 + body.len() + props.len()) as i32;
    let mut out = total.to_be_bytes().to_vec();
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&3i32.to_be_bytes());
    out.extend_from_slice(&(body.len() as i32).to_be_bytes());
    out.extend_from_slice(body);
    out.extend_from_slice(&(props.len() as i16).to_be_bytes());
    out.extend_from_slice(props);
    out
}

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
            properties: b"TIMER_DELAY_MS\x01100\x02",
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
