//! Send requests from any stream of bytes, through a session with a store behind it.
//!
//! - Every answer is a frame; one of success names records that are in the log, whole and with
//!   their CRC, and in the queue at the offset that it states.
//! - The log grows by whole records only, each with an entry of its place, size and tag code: what
//!   a recovery would enter is what was entered.
//! - Nothing that a peer sends makes the store fail, and a store that is closed and opened again
//!   has the same log and queues.
#![no_main]

use engine::format::cq_entry::CqEntry;
use engine::format::host::Host;
use engine::format::record::{self, Found};
use engine::format::{java, properties};
use engine::store::{FlushMode, Store, StoreConfig, TopicSettings};
use engine::txn::{Start, Transactions};
use engine::wire::frame::split;
use engine::wire::header::Header;
use engine::wire::{Budget, SendContext, Session};
use libfuzzer_sys::fuzz_target;
use pyrmq_fuzz::Dice;
use std::cell::RefCell;
use std::sync::Arc;

const LOG_FILE: u64 = 8192;
/// A log of this length is thrown away.
const FULL: u64 = 128 * LOG_FILE;

struct Rig {
    context: Arc<SendContext>,
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
        rig.run(cut, &data[cut.len()..]);
        if rig.context.store.log().max_offset() > FULL {
            slot.take().expect("in use").reopen();
        }
    });
});

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
        let (transactions, _) = Transactions::open(store.clone(), start, 4096).unwrap();
        let transactions = Arc::new(transactions);
        Rig {
            context: Arc::new(SendContext::new(
                store,
                Some(transactions),
                "DefaultRegion",
                "C",
                true,
            )),
            config,
            _dir: dir,
        }
    }

    fn run(&self, first: &[u8], second: &[u8]) {
        let store = &self.context.store;
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
                    session
                        .resend(&c.frame, 0, &mut out)
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
        assert_eq!(session.held(), 0);
        drop(session);
        assert_eq!(budget.used(), 0);
        assert!(store.flush_state().failure().is_none());
        let stored = self.walk(before);
        let answered = self.answers(&out, before);
        assert!(answered <= stored);
        assert!(stored == 0 || frames + stored > 0);
    }

    /// Checks every record from `at` on; their number.
    fn walk(&self, mut at: u64) -> usize {
        let log = self.context.store.log();
        let mut count = 0;
        while at < log.max_offset() {
            let (segment, place) = log.locate(at).expect("a file");
            let bytes = segment.readable_from(place);
            match record::read(bytes, true) {
                Found::Blank => at = log.next_file_start(at),
                Found::Record(v) => {
                    assert_eq!(v.phys as u64, at);
                    self.entered(&bytes[..v.total], at);
                    at += v.total as u64;
                    count += 1;
                }
                Found::Invalid(why) => panic!("at {at}: {why}"),
            }
        }
        assert_eq!(at, log.max_offset());
        count
    }

    fn entered(&self, r: &[u8], phys: u64) {
        let Found::Record(v) = record::read(r, true) else {
            unreachable!("read once")
        };
        let topic = self
            .context
            .store
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
        let entry = queue.entry(v.queue_offset).unwrap();
        assert_eq!(entry.map(|e| e.cq), Some(expected));
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
                    let ids = field("msgId").expect("ids");
                    let first: i64 = field("queueOffset").unwrap().parse().unwrap();
                    let queue: u32 = field("queueId").unwrap().parse().unwrap();
                    for (offset, id) in (first..).zip(ids.split(',')) {
                        assert_eq!(id.len(), 32);
                        let phys = u64::from_str_radix(&id[16..], 16).unwrap();
                        assert!(phys >= before);
                        let (segment, at) = self.context.store.log().locate(phys).unwrap();
                        let Found::Record(v) = record::read(segment.readable_from(at), true) else {
                            panic!("no record at {phys}");
                        };
                        assert_eq!((v.queue_offset, v.queue_id as u32), (offset, queue));
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
        let store = &self.context.store;
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
        store.close().unwrap();
        let again = Store::open(self.config.clone()).unwrap();
        assert_eq!(state(&again), before);
        again.close().unwrap();
    }
}
