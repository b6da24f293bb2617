use super::*;
use proptest::prelude::*;
use pyrmq_format::delay::{self, Levels};
use pyrmq_format::host::Host;
use pyrmq_format::names::HALF_TOPIC;
use pyrmq_format::properties;
use pyrmq_format::record::{self, Found, sys_flag};
use pyrmq_store::testing::copy_store;
use pyrmq_store::{Appended, Content, Message, StoreConfig, StoreError, Wait, now_ms};

const TOPIC: &[u8] = b"Orders";
const RETRY: &[u8] = b"%RETRY%g";

struct Rig {
    delays: Delays,
    restored: Restored,
    config: StoreConfig,
    _dir: tempfile::TempDir,
}

/// A record of the log.
#[derive(Clone, Debug)]
struct Logged {
    end: u64,
    topic: Vec<u8>,
    queue_id: i32,
    queue_offset: i64,
    sys_flag: i32,
    times: i32,
    body: Vec<u8>,
    props: Vec<u8>,
    phys: u64,
}

impl Logged {
    fn property(&self, name: &str) -> Option<String> {
        let found = properties::find(&self.props, name.as_bytes());
        found.map(|value| String::from_utf8_lossy(value).into_owned())
    }
}

impl Rig {
    fn new() -> Rig {
        Rig::with(|_| ())
    }

    fn with(change: impl Fn(&mut StoreConfig)) -> Rig {
        let dir = tempdir();
        let mut config = StoreConfig::new(dir.path().join("store"));
        config.commit_log_file_size = 16 << 10;
        config.consume_queue_file_size = 20 * 16;
        config.index_enable = false;
        config.retention.interval = 0;
        change(&mut config);
        Rig::open(dir, config, &[], None)
    }

    fn open(dir: tempfile::TempDir, config: StoreConfig, offsets: &[i64], end: Option<u64>) -> Rig {
        let store = Store::open(config.clone()).unwrap();
        let (delays, restored) = Delays::open(store, offsets, end).unwrap();
        Rig {
            delays,
            restored,
            config,
            _dir: dir,
        }
    }

    /// The store as another process finds it after this one was killed when the log ended at
    /// `end`, with this progress kept.
    fn killed_at(&self, end: u64, offsets: &[i64], log_end: Option<u64>) -> Rig {
        let dir = tempdir();
        let mut config = self.config.clone();
        config.root = dir.path().join("store");
        config.commit_log_dirs = vec![config.root.join("commitlog")];
        copy_store(&self.config.root, &config.root);
        for file in std::fs::read_dir(config.root.join("commitlog")).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let Ok(base) = name.parse::<u64>() else {
                continue;
            };
            let bytes = std::fs::read(&path).unwrap();
            let kept = (end.saturating_sub(base) as usize).min(bytes.len());
            if kept == 0 && base > 0 {
                std::fs::remove_file(&path).unwrap();
                continue;
            }
            let mut cut = vec![0; bytes.len()];
            cut[..kept].copy_from_slice(&bytes[..kept]);
            std::fs::write(&path, cut).unwrap();
        }
        Rig::open(dir, config, offsets, log_end)
    }

    fn store(&self) -> &Arc<Store> {
        self.delays.store()
    }

    fn put(&self, topic: &[u8], queue_id: u32, flags: i32, props: &[u8], body: &[u8]) -> Appended {
        let topic = self.store().topics().topic(topic).unwrap();
        let message = Message {
            topic: &topic,
            queue_id,
            sys_flag: flags,
            born_timestamp: 1_700_000_000_000,
            born_host: Host::new("[2001:db8::7]:4567".parse().unwrap()),
            reconsume_times: 2,
            prepared_transaction_offset: 0,
        };
        let content = Content {
            flag: 7,
            body,
            props: [props, b"", b"", b""],
            tags_code: 0,
            count: 1,
        };
        let mut guard = self.store().put().unwrap();
        guard.append(&message, &content).unwrap()
    }

    /// A message that was sent with a delay level.
    fn park(&self, level: usize, topic: &[u8], queue_id: u32, body: &[u8]) -> Appended {
        let mut props = Vec::new();
        properties::push(&mut props, b"TAGS", b"a");
        properties::push(&mut props, b"UNIQ_KEY", body);
        delay::push_place(&mut props, level, topic, queue_id);
        self.put(SCHEDULE_TOPIC, level as u32 - 1, 0, &props, body)
    }

    fn log(&self) -> Vec<Logged> {
        let log = self.store().log();
        let mut at = log.min_offset();
        let mut all = Vec::new();
        while at < log.max_offset() {
            let (segment, place) = log.locate(at).expect("a file");
            let bytes = segment.readable_from(place);
            match record::read(bytes, true) {
                Found::Blank => at = log.next_file_start(at),
                Found::Record(v) => {
                    all.push(Logged {
                        phys: at,
                        end: at + v.total as u64,
                        topic: bytes[v.topic.clone()].to_vec(),
                        queue_id: v.queue_id,
                        queue_offset: v.queue_offset,
                        sys_flag: v.sys_flag,
                        times: v.reconsume_times,
                        body: bytes[v.body.clone()].to_vec(),
                        props: bytes[v.props.clone()].to_vec(),
                    });
                    at += v.total as u64;
                }
                Found::Invalid(why) => panic!("at {at}: {why}"),
            }
        }
        all
    }

    fn in_topic(&self, topic: &[u8]) -> Vec<Logged> {
        let mut all = self.log();
        all.retain(|r| r.topic == topic);
        all
    }

    /// Bodies that a topic got, in order.
    fn got(&self, topic: &[u8]) -> Vec<String> {
        let text = |r: &Logged| String::from_utf8_lossy(&r.body).into_owned();
        self.in_topic(topic).iter().map(text).collect()
    }

    fn deliver(&self, now: i64) -> usize {
        let done = self.delays.deliver(now, usize::MAX);
        assert!(done.error.is_none(), "{:?}", done.error);
        done.count
    }

    fn offsets(&self) -> Vec<i64> {
        self.delays.progress().unwrap().offsets
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = self.store().close(); // its threads hold the store
    }
}

fn tempdir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

#[test]
fn a_message_is_delivered_when_its_time_has_come_and_not_before() {
    let rig = Rig::new();
    assert_eq!(rig.delays.due_in(0), None);
    let parked = rig.park(3, TOPIC, 2, b"late");
    let due = parked.store_timestamp + 10_000;
    assert_eq!(rig.delays.due_in(0), Some(0), "nobody has looked yet");
    assert_eq!(rig.deliver(due - 1_000), 0);
    assert_eq!(rig.delays.due_in(due - 1), Some(1));
    assert_eq!(rig.deliver(due), 1);
    assert_eq!(
        (rig.delays.due_in(due), rig.deliver(due + 99_999)),
        (None, 0)
    );
    let [got] = &rig.in_topic(TOPIC)[..] else {
        panic!("one message")
    };
    assert_eq!((got.queue_id, got.queue_offset, got.times), (2, 0, 2));
    assert_eq!(got.sys_flag, sys_flag::BORN_HOST_V6);
    // The text stays as it was: so does RocketMQ's.
    let parked = &rig.in_topic(SCHEDULE_TOPIC)[0];
    assert_eq!(got.props, parked.props);
    let queue = rig.store().topics().get(TOPIC).unwrap().queue(2).unwrap();
    assert_eq!(queue.entry(0).unwrap().unwrap().cq.tags_code, 97);
    let mut levels = vec![(0, 0); 18];
    levels[2] = (1, 1);
    assert_eq!(rig.delays.levels(), levels);
}

#[test]
fn levels_have_their_own_order_and_do_not_wait_for_each_other() {
    let rig = Rig::new();
    let mut last = 0;
    for n in 0..700 {
        let name = format!("{n:03}");
        last = rig
            .park(1 + n % 3, TOPIC, 0, name.as_bytes())
            .store_timestamp;
    }
    assert_eq!(rig.deliver(last + 5_000), 467);
    let expected = |level: usize| -> Vec<String> {
        let mine = (0..700).filter(|n| n % 3 == level);
        mine.map(|n| format!("{n:03}")).collect()
    };
    let got = rig.got(TOPIC);
    for level in [0, 1] {
        let of = |name: &&String| name.parse::<usize>().unwrap() % 3 == level;
        assert_eq!(
            got.iter().filter(of).cloned().collect::<Vec<_>>(),
            expected(level)
        );
    }
    assert_eq!(rig.offsets()[..4], [234, 233, 0, 0]);
    let wait = rig.delays.due_in(last).unwrap();
    assert!((9_000..=10_000).contains(&wait), "{wait}");
}

#[test]
fn one_call_delivers_about_as_many_as_it_was_asked_for() {
    let rig = Rig::new();
    for n in 0..600 {
        rig.park(1, TOPIC, 0, format!("{n}").as_bytes());
    }
    let now = now_ms() + 5_000;
    let first = rig.delays.deliver(now, 1).count;
    assert!((1..=256).contains(&first), "{first}"); // a chunk, which may end early
    let second = rig.delays.deliver(now, 300).count;
    assert!((300..=555).contains(&second), "{second}");
    rig.deliver(now);
    assert_eq!(rig.got(TOPIC).len(), 600);
}

#[test]
fn a_time_beyond_the_levels_delay_is_of_a_clock_that_was_set_back() {
    let rig = Rig::new();
    let stored = rig.park(2, TOPIC, 0, b"x").store_timestamp;
    assert_eq!(rig.deliver(stored + 4_000), 0);
    // As if it had come while others were delivered, or in the second in which store times stand still.
    assert_eq!(rig.deliver(stored - 1_500), 0);
    assert_eq!(rig.deliver(stored - 60_000), 1, "due in more than 5 s");
}

#[test]
fn what_can_never_be_delivered_is_left_out() {
    let rig = Rig::new();
    let nowhere: [&[u8]; 6] = [
        b"DELAY\x011\x02",
        b"DELAY\x011\x02REAL_TOPIC\x01Orders\x02",
        b"DELAY\x011\x02REAL_TOPIC\x01Orders\x02REAL_QID\x01-1\x02",
        b"DELAY\x011\x02REAL_TOPIC\x01../x\x02REAL_QID\x010\x02",
        b"DELAY\x011\x02REAL_TOPIC\x01SCHEDULE_TOPIC_XXXX\x02REAL_QID\x010\x02",
        b"DELAY\x011\x02REAL_TOPIC\x01Orders\x02REAL_QID\x0199999999\x02",
    ];
    for props in nowhere {
        rig.put(SCHEDULE_TOPIC, 0, 0, props, b"lost");
    }
    rig.park(1, HALF_TOPIC, 0, b"half");
    rig.park(1, TOPIC, 0, b"fine");
    assert_eq!(rig.deliver(now_ms() + 5_000), 8);
    assert_eq!(rig.got(TOPIC), ["fine"]);
    assert!(rig.in_topic(HALF_TOPIC).is_empty());
    assert_eq!(rig.in_topic(SCHEDULE_TOPIC).len(), 8);
}

#[test]
fn progress_outside_of_the_queue_is_brought_inside() {
    let rig = Rig::new();
    rig.park(1, TOPIC, 0, b"a");
    rig.park(1, TOPIC, 0, b"b");
    let below = rig.killed_at(u64::MAX, &[-7], None);
    assert_eq!(below.offsets()[0], 0);
    rig.deliver(now_ms() + 5_000);
    let far = rig.killed_at(u64::MAX, &[7], None);
    assert_eq!(far.offsets()[0], 2);
}

/// No message is skipped that cannot have been delivered, whatever kept progress says.
#[test]
fn progress_that_leads_skips_nothing_that_waits() {
    let rig = Rig::new();
    for body in [b"a", b"b", b"c"] {
        rig.park(1, TOPIC, 0, body);
    }
    for kept in [1, 2, 3, 700] {
        for log_end in [None, Some(0), Some(rig.delays.progress().unwrap().log_end)] {
            let again = rig.killed_at(u64::MAX, &[kept], log_end);
            assert_eq!(again.offsets()[0], 0, "{kept} {log_end:?}");
            assert_eq!(again.deliver(now_ms() + 5_000), 3);
            assert_eq!(again.got(TOPIC), ["a", "b", "c"]);
        }
    }
}

/// What the log has delivered is not delivered again, also where kept progress leads.
#[test]
fn progress_that_leads_delivers_nothing_again() {
    let rig = Rig::new();
    rig.park(1, TOPIC, 0, b"a");
    rig.park(1, TOPIC, 0, b"b");
    assert_eq!(rig.deliver(now_ms() + 5_000), 2);
    rig.park(1, TOPIC, 0, b"c");
    for log_end in [None, Some(rig.delays.progress().unwrap().log_end)] {
        let again = rig.killed_at(u64::MAX, &[700], log_end);
        assert_eq!(again.offsets()[0], 2, "{log_end:?}");
        assert_eq!(again.deliver(now_ms() + 5_000), 1);
        assert_eq!(again.got(TOPIC), ["a", "b", "c"]);
    }
}

/// What was left out last has no record that says so: progress does not lead for that.
#[test]
fn progress_behind_what_was_left_out_does_not_lead() {
    let rig = Rig::new();
    rig.park(1, HALF_TOPIC, 0, b"half");
    assert_eq!(rig.deliver(now_ms() + 5_000), 1);
    let kept = rig.delays.progress().unwrap();
    let again = rig.killed_at(u64::MAX, &kept.offsets, Some(kept.log_end));
    assert_eq!(again.offsets()[0], 1);
    rig.park(1, TOPIC, 0, b"a");
    let ahead = rig.killed_at(u64::MAX, &[2], Some(kept.log_end));
    assert_eq!(ahead.offsets()[0], 0);
    assert_eq!(ahead.deliver(now_ms() + 5_000), 2);
    assert_eq!(ahead.got(TOPIC), ["a"]);
}

/// Wherever a kill cuts the log and however old the progress is that was kept: each message is
/// delivered once.
#[test]
fn after_a_kill_each_message_is_delivered_once() {
    let rig = Rig::new();
    let mut kept = vec![rig.delays.progress().unwrap()];
    for n in 0..40 {
        rig.park(1 + n % 2, TOPIC, n as u32 % 3, format!("{n:02}").as_bytes());
        if n % 5 == 4 {
            rig.deliver(now_ms() + 10_000);
            kept.push(rig.delays.progress().unwrap());
        }
    }
    let log = rig.log();
    for (at, cut) in log.iter().enumerate().filter(|(at, _)| at % 3 == 0) {
        for kept in kept.iter().filter(|kept| kept.log_end <= cut.end) {
            let again = rig.killed_at(cut.end, &kept.offsets, Some(kept.log_end));
            let parked = log[..=at]
                .iter()
                .filter(|r| r.topic == SCHEDULE_TOPIC)
                .count();
            let given = log[..=at].len() - parked;
            let known: i64 = kept.offsets.iter().sum();
            assert_eq!(again.restored.delivered as i64, given as i64 - known);
            assert_eq!(again.deliver(now_ms() + 20_000), parked - given);
            let mut got = again.got(TOPIC);
            got.sort();
            let all: Vec<_> = (0..parked).map(|n| format!("{n:02}")).collect();
            assert_eq!(got, all, "cut at {}, kept at {}", cut.end, kept.log_end);
        }
    }
}

#[test]
fn a_message_that_claims_to_be_delivered_changes_nothing() {
    let rig = Rig::new();
    rig.park(1, TOPIC, 0, b"first"); // at 0: where every plain message says it came from
    let kept = rig.delays.progress().unwrap();
    rig.put(
        TOPIC,
        0,
        0,
        b"DELAY\x011\x02REAL_TOPIC\x01Orders\x02REAL_QID\x010\x02",
        b"claims",
    );
    let again = rig.killed_at(u64::MAX, &kept.offsets, Some(kept.log_end));
    assert_eq!((again.restored.delivered, again.offsets()[0]), (0, 0));
    assert_eq!(again.deliver(now_ms() + 5_000), 1);
}

#[test]
fn a_refused_write_is_tried_again_at_the_same_place() {
    let rig = Rig::new();
    rig.park(1, TOPIC, 0, b"x");
    let now = now_ms() + 5_000;
    rig.store()
        .barrier()
        .fail(StoreError::NotAvailable("test".into()));
    let done = rig.delays.deliver(now, 10);
    assert_eq!(done.count, 0);
    assert!(
        matches!(done.error, Some(StoreError::NotAvailable(_))),
        "{:?}",
        done.error
    );
    assert_eq!(
        (rig.delays.levels()[0], rig.delays.due_in(now)),
        ((0, 1), Some(0))
    );
}

#[test]
fn entries_with_extensions_state_no_time() {
    let rig = Rig::with(|config| config.queue_ext = true);
    let stored = rig.park(2, TOPIC, 0, b"x").store_timestamp;
    assert_eq!(rig.deliver(stored + 4_000), 0);
    assert_eq!(rig.delays.due_in(stored + 4_999), Some(1));
    assert_eq!(rig.deliver(stored + 5_000), 1);
}

fn to(topic: &[u8], level: i32) -> Destination<'_> {
    Destination {
        topic,
        queue_id: 0,
        level,
    }
}

#[test]
fn a_message_comes_back_after_its_delay() {
    let rig = Rig::new();
    let props = b"TAGS\x01a\x02UNIQ_KEY\x01K\x02TRAN_MSG\x01true\x02DELAY\x014\x02";
    let flags = sys_flag::COMMIT | sys_flag::COMPRESSED;
    let sent = rig.put(TOPIC, 1, flags, props, b"body");
    let returned = rig
        .delays
        .find_returned(sent.phys, Wait::Never)
        .unwrap()
        .unwrap();
    assert_eq!(returned.reconsume_times(), 2);
    rig.delays.send_back(&returned, &to(RETRY, 3)).unwrap();
    assert!(rig.in_topic(RETRY).is_empty());
    assert_eq!(rig.deliver(now_ms() + 10_001), 1);
    let [got] = &rig.in_topic(RETRY)[..] else {
        panic!("one message")
    };
    assert_eq!((got.times, &got.body[..]), (3, &b"body"[..]));
    assert_eq!(got.sys_flag, sys_flag::COMPRESSED | sys_flag::BORN_HOST_V6);
    assert_eq!(got.property("RETRY_TOPIC").as_deref(), Some("Orders"));
    assert_eq!(got.property("DELAY").as_deref(), Some("3"));
    assert_eq!(
        (got.property("UNIQ_KEY"), got.property("TRAN_MSG")),
        (Some("K".into()), None)
    );
    let mut id = Vec::new();
    rig.store().store_host().push_message_id(sent.phys, &mut id);
    assert_eq!(
        got.property("ORIGIN_MESSAGE_ID"),
        String::from_utf8(id.clone()).ok()
    );

    // Once more, to the dead letters: where it came from first stays.
    let returned = rig
        .delays
        .find_returned(got.phys, Wait::ForDisk)
        .unwrap()
        .unwrap();
    rig.delays.send_back(&returned, &to(b"%DLQ%g", 0)).unwrap();
    let [dead] = &rig.in_topic(b"%DLQ%g")[..] else {
        panic!("one message")
    };
    assert_eq!((dead.times, dead.property("DELAY")), (4, None));
    assert_eq!(dead.property("RETRY_TOPIC").as_deref(), Some("Orders"));
    assert_eq!(
        dead.property("ORIGIN_MESSAGE_ID"),
        String::from_utf8(id).ok()
    );
    let queue = rig
        .store()
        .topics()
        .get(b"%DLQ%g")
        .unwrap()
        .queue(0)
        .unwrap();
    assert_eq!(queue.entry(0).unwrap().unwrap().cq.tags_code, 97);
}

#[test]
fn a_level_above_the_highest_is_the_highest() {
    let rig = Rig::with(|config| config.delay_levels = Levels::parse("1s 1d").unwrap());
    let sent = rig.put(TOPIC, 0, 0, b"", b"x");
    let returned = rig
        .delays
        .find_returned(sent.phys, Wait::ForDisk)
        .unwrap()
        .unwrap();
    rig.delays
        .send_back(&returned, &to(RETRY, i32::MAX))
        .unwrap();
    assert_eq!(rig.delays.levels(), [(0, 0), (0, 1)]);
    assert_eq!(
        rig.in_topic(SCHEDULE_TOPIC)[0].property("DELAY").as_deref(),
        Some("2")
    );
}

#[test]
fn only_a_place_where_a_record_starts_is_sent_back() {
    let rig = Rig::new();
    let inner = rig.put(TOPIC, 0, 0, b"", b"x");
    let log = rig.store().log();
    let (segment, at) = log.locate(inner.phys).unwrap();
    let mut forged = segment.bytes(at, inner.size).unwrap().to_vec();
    let outer = rig.put(TOPIC, 0, 0, b"", &forged);
    // As a record that states its own place inside of the body of another.
    let bytes = segment.bytes(at + inner.size, outer.size).unwrap();
    let Found::Record(view) = record::read(bytes, true) else {
        panic!("a record")
    };
    let place = outer.phys + (outer.size + view.body.start) as u64;
    forged[28..36].copy_from_slice(&place.to_be_bytes());
    rig.put(TOPIC, 0, 0, b"", &forged);
    for phys in [place, outer.phys + 3, outer.phys + 88, u64::MAX, 1 << 40] {
        let found = rig.delays.find_returned(phys, Wait::ForDisk).unwrap();
        assert!(found.is_none(), "{phys}");
    }
    let batch = rig.put(TOPIC, 0, sys_flag::INNER_BATCH, b"", b"x");
    let returned = rig
        .delays
        .find_returned(batch.phys, Wait::ForDisk)
        .unwrap()
        .unwrap();
    let refused = rig.delays.send_back(&returned, &to(RETRY, 1));
    assert!(matches!(refused, Err(StoreError::Illegal(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Against a model: what is due, in which order, and what a kill leaves to be delivered.
    #[test]
    fn any_traffic_is_delivered_once_and_in_order(
        steps in prop::collection::vec((0u8..5, 1usize..4), 1..60)
    ) {
        let mut rig = Rig::new();
        let mut kept = rig.delays.progress().unwrap();
        let mut sent: Vec<Vec<String>> = vec![Vec::new(); 4];
        let mut clock = now_ms();
        for (n, (what, level)) in steps.into_iter().enumerate() {
            match what {
                0..=1 => {
                    let name = format!("{level}-{n}");
                    rig.park(level, TOPIC, level as u32, name.as_bytes());
                    sent[level].push(name);
                }
                2 => { clock += 4_000; rig.deliver(clock); }
                3 => kept = rig.delays.progress().unwrap(),
                _ => rig = rig.killed_at(u64::MAX, &kept.offsets, Some(kept.log_end)),
            }
        }
        rig.deliver(clock + 60_000);
        for (level, names) in sent.iter().enumerate() {
            let prefix = format!("{level}-");
            let got: Vec<_> = rig.got(TOPIC).into_iter().filter(|n| n.starts_with(&prefix)).collect();
            prop_assert_eq!(&got, names);
        }
    }
}
