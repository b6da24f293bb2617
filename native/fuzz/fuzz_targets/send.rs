//! Send requests from any stream of bytes, through a session with a store behind it.
//!
//! - Every answer is a frame; one of success names records that are in the log, whole and with
//!   their CRC, and in the queue at the offset that it states.
//! - The log grows by whole records only, each with an entry of its place, size and tag code: what
//!   a recovery would dispatch is what was dispatched.
//! - Halves wait until somebody speaks about them: some are asked about or discarded, and every
//!   END_TRANSACTION that is right settles its half once, with one op record and, if it commits, one
//!   message.
//! - Nothing that a peer sends makes the store fail, and a store that is closed and opened again
//!   has the same log, queues and waiting halves.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrmq_broker::txn::{Fields, HALF_TOPIC, Half, Limits, OP_TOPIC, Start, Transactions};
use pyrmq_broker::wire::frame::split;
use pyrmq_broker::wire::header::Header;
use pyrmq_broker::wire::{Budget, Context, Session};
use pyrmq_broker::{Broker, Decision, TimerSends};
use pyrmq_format::cq_entry::CqEntry;
use pyrmq_format::delay::SCHEDULE_TOPIC;
use pyrmq_format::host::Host;
use pyrmq_format::record::{self, Found};
use pyrmq_format::timer::TIMER_TOPIC;
use pyrmq_format::{java, properties};
use pyrmq_fuzz::{Dice, frame};
use pyrmq_store::{FlushMode, Store, StoreConfig, TopicSettings};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

const LOG_FILE: u64 = 8192;
const LIMITS: Limits = Limits {
    op_body: 4096,
    pending: usize::MAX,
};
/// A log of this length is thrown away.
const FULL: u64 = 128 * LOG_FILE;
/// A half's place, group and unique key, as its sender knows them.
type Known = (i64, u64, Vec<u8>, Vec<u8>);

struct Rig {
    context: Arc<Context>,
    config: StoreConfig,
    _dir: tempfile::TempDir,
}

thread_local! {
    static RIGS: RefCell<[Option<Rig>; 2]> = const { RefCell::new([None, None]) };
}

fuzz_target!(|data: &[u8]| {
    let mut dice = Dice::of(data);
    let sync = dice.below(8) == 0;
    RIGS.with_borrow_mut(|rigs| {
        let slot = &mut rigs[sync as usize];
        let rig = slot.get_or_insert_with(|| Rig::new(sync));
        let (cut, _) = data.split_at(dice.below(data.len() + 1));
        rig.run(cut, &data[cut.len()..], &mut dice);
        if rig.context.broker.store().log().max_offset() > FULL {
            slot.take().expect("in use").reopen();
        }
    });
});

fn timer_sends() -> TimerSends {
    TimerSends {
        broker_name: "b".into(),
        enabled: true,
        precision_ms: 1000,
        max_delay_ms: 259_200_000,
        congested: 3,
        slot_count: Some(Box::new(|out_ms| out_ms.unsigned_abs() / 1000 % 8)),
    }
}

impl Rig {
    fn new(sync: bool) -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let mut config = StoreConfig::new(dir.path());
        config.commit_log_file_size = LOG_FILE;
        config.consume_queue_file_size = 20 * 500;
        config.max_message_size = 4096;
        (config.index_slots, config.index_entries) = (50, 500);
        config.flush_interval_commit_log = 60_000;
        config.flush_interval_consume_queue = 60_000;
        if sync {
            config.flush_mode = FlushMode::Sync;
        }
        let store = Store::open(config.clone()).unwrap();
        for (name, multi_tag, sendable) in [
            ("TopicTest", false, true),
            ("%RETRY%g", true, true),
            ("T", false, false),
        ] {
            store
                .topics()
                .topic(name.as_bytes())
                .unwrap()
                .set(Some(TopicSettings {
                    read_queues: 4,
                    write_queues: 4,
                    multi_tag,
                    sendable,
                }));
        }
        let start = Start { half: -1, op: -1 };
        let (transactions, _) = Transactions::open(store.clone(), start, LIMITS).unwrap();
        let transactions = Arc::new(transactions);
        Rig {
            context: Arc::new(Context::new(
                Broker::new(store, Some(transactions), "DefaultRegion", "C", true)
                    .with_timer_sends(timer_sends()),
                "DefaultRegion",
                true,
            )),
            config,
            _dir: dir,
        }
    }

    fn transactions(&self) -> &Transactions {
        self.context.broker.transactions().expect("it has some")
    }

    fn waiting(&self) -> BTreeSet<i64> {
        waiting(self.transactions())
    }

    /// Says something about each half that was stored, and checks what becomes of them.
    fn settle(&self, halves: &[Known], dice: &mut Dice) {
        let txn = self.transactions();
        let mut stream = Vec::new();
        let mut commits = 0;
        let (mut settled, mut answers) = (Vec::new(), 0);
        for (offset, phys, group, key) in halves {
            let pending = txn.find(*offset).expect("it waits");
            assert_eq!(pending.phys, *phys);
            match dice.below(8) {
                0 => drop(txn.discard(*offset).unwrap()),
                1 | 2 => {
                    let copies = txn.renew(&[*offset], dice.below(2) == 0).unwrap();
                    assert_eq!((copies[0].old, &copies[0].unique_key), (*offset, key));
                }
                _ => {
                    let word = [0, 8, 8, 8, 12, 12, 7, -8][dice.below(8)];
                    let from_check = dice.below(2) == 0;
                    let one_way = dice.below(2) == 0;
                    let wrong = dice.below(8) == 0;
                    let at = if wrong { phys + 1 } else { *phys };
                    let right =
                        !wrong && (word == 8 || word == 12) && (pending.immunity < 0 || from_check);
                    for _ in 0..1 + dice.below(2) {
                        let fields = [
                            ("producerGroup", group.clone()),
                            ("tranStateTableOffset", offset.to_string().into_bytes()),
                            ("commitLogOffset", at.to_string().into_bytes()),
                            ("commitOrRollback", word.to_string().into_bytes()),
                            ("fromTransactionCheck", from_check.to_string().into_bytes()),
                            ("transactionId", key.clone()),
                        ];
                        stream.extend(end_transaction(&fields, one_way));
                    }
                    if right {
                        settled.push(*offset);
                        commits += (word == 8) as usize;
                        answers += !one_way as usize;
                    }
                }
            }
        }
        let before = self.context.broker.store().log().max_offset();
        let waited = self.waiting();
        let host = Host::new("10.1.2.3:4567".parse().unwrap());
        let budget = Arc::new(Budget::new(usize::MAX));
        let mut session = Session::new(Some(self.context.clone()), budget, host);
        let mut out = Vec::new();
        let mut left = &stream[..];
        while !left.is_empty() {
            let (piece, rest) = left.split_at(1 + dice.below(left.len()));
            session.feed(piece, 0, &mut out).expect("whole frames");
            while session.has_more() {
                while session.next_command().is_some() {}
                session.feed(&[], 0, &mut out).expect("whole frames");
            }
            left = rest;
        }
        session.release(10_000, 0, &mut out);
        let mut answered = 0;
        let mut h = Header::default();
        while !out.is_empty() {
            let parts = split(&out).expect("a frame").expect("a whole one");
            h.read(parts.codec, &out, parts.header_end).expect("ours");
            assert!(h.is_response() && matches!(h.code, 0 | 10));
            out.drain(..parts.total);
            answered += 1;
        }
        assert_eq!(answered, answers);
        assert_eq!(txn.figures().owed, 0);
        let gone: Vec<i64> = waited.difference(&self.waiting()).copied().collect();
        settled.sort();
        assert_eq!(gone, settled);
        self.settled(before, commits, settled);
    }

    /// The log from `at` on has this many commits, and op records for these halves.
    fn settled(&self, mut at: u64, commits: usize, mut halves: Vec<i64>) {
        let store = self.context.broker.store();
        let (mut found, mut named) = (0, Vec::new());
        while at < store.log().max_offset() {
            let Some(r) = Half::read(store, at).unwrap() else {
                at = store.log().next_file_start(at);
                continue;
            };
            let flags = r.view().sys_flag & record::sys_flag::TRANSACTION_MASK;
            if r.topic() == OP_TOPIC {
                let text = std::str::from_utf8(r.body()).unwrap();
                let all = text
                    .split_terminator(',')
                    .map(|n| n.parse::<i64>().unwrap());
                named.extend(all);
            } else {
                assert_eq!(flags, record::sys_flag::COMMIT);
                found += 1;
            }
            at += r.bytes().len() as u64;
        }
        named.sort();
        halves.sort();
        assert_eq!((found, named), (commits, halves));
    }

    /// The halves among what the answers name, but for those that were settled at once.
    fn halves(&self, mut out: &[u8]) -> Vec<Known> {
        let mut found = Vec::new();
        let mut h = Header::default();
        while let Ok(Some(parts)) = split(out) {
            h.read(parts.codec, out, parts.header_end).expect("ours");
            let id = h.ext.iter().find(|(k, _)| k.bytes(out) == b"msgId");
            let id = id.map(|(_, v)| v.bytes(out)).filter(|id| id.len() == 32);
            let phys = id.map(|id| std::str::from_utf8(&id[16..]).expect("hex"));
            let phys = phys.map(|hex| u64::from_str_radix(hex, 16).expect("hex"));
            let half = phys.and_then(|phys| Half::read(self.context.broker.store(), phys).unwrap());
            let waits = |half: &Half| {
                let pending = self.transactions().find(half.view().queue_offset);
                half.topic() == HALF_TOPIC && pending.is_some_and(|p| p.phys == half.phys())
            };
            if let Some(half) = half.filter(waits) {
                let Fields {
                    group, unique_key, ..
                } = half.fields();
                found.push((
                    half.view().queue_offset,
                    half.phys(),
                    group.to_vec(),
                    unique_key.to_vec(),
                ));
            }
            out = &out[parts.total..];
        }
        found
    }

    fn run(&self, first: &[u8], second: &[u8], dice: &mut Dice) {
        let store = self.context.broker.store();
        let before = store.log().max_offset();
        let budget = Arc::new(Budget::new(usize::MAX));
        let host = Host::new("10.1.2.3:4567".parse().unwrap());
        let mut session = Session::new(Some(self.context.clone()), budget.clone(), host);
        let mut out = Vec::new();
        let mut frames = 0;
        for piece in [first, second] {
            let mut fine = session.feed(piece, 0, &mut out).is_ok();
            loop {
                while let Some(c) = session.next_command() {
                    frames += 1;
                    let decision = match dice.below(4) {
                        0 => Decision::SentBack {
                            topic: b"%RETRY%g",
                            dead: dice.below(2) == 0,
                        },
                        _ => Decision::AsRequested,
                    };
                    session
                        .resend(&c.frame, decision, 0, &mut out)
                        .expect("it was read once");
                }
                if !fine || !session.has_more() {
                    break;
                }
                fine = session.feed(&[], 0, &mut out).is_ok();
            }
            if !fine {
                break;
            }
        }
        // Half of the time the flush is late.
        session.release(
            1_000,
            if first.len().is_multiple_of(2) {
                500
            } else {
                1_500
            },
            &mut out,
        );
        session.release(10_000, 0, &mut out);
        assert_eq!(session.unconfirmed(), 0);
        drop(session);
        assert_eq!(budget.used(), 0);
        assert!(store.barrier().failure().is_none());
        let stored = self.walk(before);
        let answered = self.answers(&out, before);
        let halves = self.halves(&out);
        if !halves.is_empty() {
            let end = store.log().max_offset();
            self.settle(&halves, dice);
            self.walk(end);
        }
        assert!(answered <= stored);
        assert!(stored == 0 || frames + stored > 0);
    }

    /// Checks every record from `at` on; their number.
    fn walk(&self, mut at: u64) -> usize {
        let log = self.context.broker.store().log();
        let mut count = 0;
        while at < log.max_offset() {
            let (segment, place) = log.locate(at).expect("a file");
            let bytes = segment.readable_from(place);
            match record::read(bytes, true) {
                Found::Blank => at = log.next_file_start(at),
                Found::Record(v) => {
                    assert_eq!(v.phys as u64, at);
                    self.dispatched(&bytes[..v.total], at);
                    at += v.total as u64;
                    count += 1;
                }
                Found::Invalid(why) => panic!("at {at}: {why}"),
            }
        }
        assert_eq!(at, log.max_offset());
        count
    }

    fn dispatched(&self, r: &[u8], phys: u64) {
        let Found::Record(v) = record::read(r, true) else {
            unreachable!("read once")
        };
        let topic = self
            .context
            .broker
            .store()
            .topics()
            .get(&r[v.topic])
            .expect("its topic");
        let queue = topic.existing_queue(v.queue_id as u32).expect("its queue");
        let tag = properties::find(&r[v.props], b"TAGS");
        let expected = CqEntry {
            phys: phys as i64,
            size: v.total as i32,
            tags_code: tag.map_or(0, |t| java::hash(t) as i64),
        };
        let found = queue.entry(v.queue_offset).unwrap().map(|e| e.cq);
        if topic.is_schedule() {
            // It has the time of delivery instead of a tag.
            let time = found.map_or(0, |e| e.tags_code);
            assert!(time > v.store_timestamp);
            let tags_code = time;
            assert_eq!(
                found,
                Some(CqEntry {
                    tags_code,
                    ..expected
                })
            );
        } else {
            assert_eq!(found, Some(expected));
        }
    }

    /// Checks every answer; the number of records that they name.
    fn answers(&self, mut out: &[u8], before: u64) -> usize {
        let mut named = 0;
        let mut h = Header::default();
        while !out.is_empty() {
            let parts = split(out).expect("a frame").expect("a whole one");
            h.read(parts.codec, out, parts.header_end)
                .expect("our own header");
            assert!(h.is_response() && parts.header_end == parts.total);
            let field = |name: &str| {
                let (_, v) = h
                    .ext
                    .iter()
                    .find(|(k, _)| k.bytes(out) == name.as_bytes())?;
                Some(
                    std::str::from_utf8(v.bytes(out))
                        .expect("digits and hex")
                        .to_owned(),
                )
            };
            match h.code {
                0 | 10 => {
                    let Some(ids) = field("msgId") else {
                        assert!(h.ext.is_empty(), "an END_TRANSACTION was right");
                        out = &out[parts.total..];
                        continue;
                    };
                    let first: i64 = field("queueOffset").unwrap().parse().unwrap();
                    let queue: u32 = field("queueId").unwrap().parse().unwrap();
                    for (offset, id) in (first..).zip(ids.split(',')) {
                        assert_eq!(id.len(), 32);
                        let phys = u64::from_str_radix(&id[16..], 16).unwrap();
                        assert!(phys >= before);
                        let (segment, at) = self.context.broker.store().log().locate(phys).unwrap();
                        let Found::Record(v) = record::read(segment.readable_from(at), true) else {
                            panic!("no record at {phys}");
                        };
                        let half = Half::read(self.context.broker.store(), phys)
                            .expect("readable")
                            .expect("whole");
                        let real = match half.topic() {
                            HALF_TOPIC | SCHEDULE_TOPIC | TIMER_TOPIC => {
                                half.fields().queue_id.expect("it says where it belongs")
                            }
                            _ => v.queue_id as u32,
                        };
                        assert_eq!((v.queue_offset, real), (offset, queue));
                        named += 1;
                    }
                }
                1 | 13 | 14 | 17 | 29 => assert!(h.remark.is_some()),
                other => panic!("answer with code {other}"),
            }
            out = &out[parts.total..];
        }
        named
    }

    fn reopen(self) {
        let store = self.context.broker.store();
        let state = |s: &Store| {
            let mut queues: Vec<_> = s
                .topics()
                .all()
                .iter()
                .flat_map(|t| t.queues().into_iter().map(|q| (t.name().to_vec(), q)))
                .filter(|(_, q)| q.max_offset() > 0)
                .map(|(t, q)| {
                    (
                        t,
                        q.queue_id(),
                        q.min_offset(),
                        q.max_offset(),
                        q.max_phys(),
                    )
                })
                .collect();
            queues.sort();
            (s.log().max_offset(), queues)
        };
        let before = state(store);
        let waited = self.waiting();
        store.close().unwrap();
        let again = Store::open(self.config.clone()).unwrap();
        assert_eq!(state(&again), before);
        let start = Start { half: -1, op: -1 };
        let (txn, _) = Transactions::open(again.clone(), start, LIMITS).unwrap();
        let found = waiting(&txn);
        // Of copies that clients made of one send the last one stays.
        assert!(found.is_subset(&waited), "{found:?} of {waited:?}");
        for offset in waited.difference(&found) {
            let phys = self.transactions().find(*offset).expect("it waited").phys;
            let half = Half::read(&again, phys).unwrap().expect("it is there");
            assert!(
                txn.live(&half, *offset).unwrap().is_some(),
                "half {offset} is lost"
            );
        }
        again.close().unwrap();
    }
}

fn waiting(transactions: &Transactions) -> BTreeSet<i64> {
    let all = transactions.before(i64::MAX, usize::MAX);
    all.into_iter().collect()
}

/// A binary frame of END_TRANSACTION.
fn end_transaction(fields: &[(&str, Vec<u8>)], one_way: bool) -> Vec<u8> {
    let mut map = Vec::new();
    for (name, value) in fields {
        map.extend((name.len() as i16).to_be_bytes());
        map.extend(name.as_bytes());
        map.extend((value.len() as i32).to_be_bytes());
        map.extend(value);
    }
    let mut header = 37i16.to_be_bytes().to_vec();
    header.push(1);
    header.extend(470i16.to_be_bytes());
    header.extend(7i32.to_be_bytes());
    header.extend((2 * one_way as i32).to_be_bytes());
    header.extend(0i32.to_be_bytes());
    header.extend((map.len() as i32).to_be_bytes());
    header.extend(map);
    frame(1, &header, b"")
}
