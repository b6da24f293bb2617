use super::*;
use crate::pop::Settings;
use proptest::prelude::*;
use pyrmq_format::host::Host;
use pyrmq_format::pop::{FIRST_POP_TIME, Popped};
use pyrmq_store::testing::copy_store;
use pyrmq_store::{Content, Message, Store, StoreConfig};
use std::borrow::Cow;

const TOPIC: &[u8] = b"Orders";
const RETRY: &[u8] = b"%RETRY%G_Orders";
const T0: i64 = 1_700_000_000_000;

struct Rig {
    reviver: Reviver,
    config: StoreConfig,
    _dir: tempfile::TempDir,
}

fn settings() -> Settings {
    Settings {
        cluster: "C".into(),
        broker_name: "b".into(),
        revive_queues: 2,
        precision: 1000,
        max_invisible_time: 86_400_000,
    }
}

fn targets() -> Targets {
    let mut targets = Targets::new();
    let retry = Target::Topic(RETRY.into());
    targets.insert((TOPIC.into(), b"G"[..].into()), retry.clone());
    targets.insert((RETRY.into(), b"G"[..].into()), retry);
    targets
}

fn popped(start: i64, at: i64) -> Popped<'static> {
    Popped {
        topic: Cow::Borrowed(TOPIC),
        group: Cow::Borrowed(b"G"),
        broker_name: Cow::Borrowed(b"b"),
        queue_id: 0,
        start_offset: start,
        pop_time: at,
    }
}

impl Rig {
    fn new() -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let mut config = StoreConfig::new(dir.path().join("store"));
        config.commit_log_file_size = 256 << 10;
        config.consume_queue_file_size = 20 * 256;
        config.index_enable = false;
        config.retention.interval = 0;
        Rig::open(dir, config, &[], LIMITS)
    }

    fn open(dir: tempfile::TempDir, config: StoreConfig, next: &[i64], limits: Limits) -> Rig {
        let store = Store::open(config.clone()).unwrap();
        let pops = Arc::new(Pops::new(store, settings()).unwrap());
        let reviver = Reviver::with_limits(pops, next, false, limits).unwrap();
        let _dir = dir;
        Rig {
            reviver,
            config,
            _dir,
        }
    }

    /// As another process finds the store after a kill now, with this progress kept.
    fn killed(&self, next: &[i64], limits: Limits) -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let mut config = self.config.clone();
        config.root = dir.path().join("store");
        config.commit_log_dirs = vec![config.root.join("commitlog")];
        copy_store(&self.config.root, &config.root);
        Rig::open(dir, config, next, limits)
    }

    fn store(&self) -> &Arc<Store> {
        self.reviver.pops.store()
    }

    fn put(&self, topic: &[u8], queue_id: u32, props: &[u8], body: &[u8], times: i32) -> i64 {
        let topic = self.store().topics().topic(topic).unwrap();
        let message = Message {
            topic: &topic,
            queue_id,
            sys_flag: 0,
            born_timestamp: 5,
            born_host: Host::new("10.1.2.3:4567".parse().unwrap()),
            reconsume_times: times,
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
        guard.append(&message, &content).unwrap().queue_offset
    }

    /// A timer delivers a record to the revive topic.
    fn deliver(&self, revive_queue: u32, due: i64, mut props: Vec<u8>, body: &[u8]) {
        properties::push_number(&mut props, timer::OUT_MS, timer::out_time(due, 1000));
        let topic = self.reviver.pops.revive_topic().to_vec();
        self.put(&topic, revive_queue, &props, body, 0);
    }

    fn check_point(&self, queue: u32, ck: &CheckPoint<'_>) {
        let (mut props, mut body) = (Vec::new(), Vec::new());
        ck.push_props(&mut props);
        ck.push_body(&mut body);
        self.deliver(queue, ck.due(), props, &body);
    }

    fn ck(&self, queue: u32, start: i64, at: i64, diffs: &[i32]) {
        self.check_point(queue, &check_point(start, at, diffs));
    }

    fn ack(&self, queue: u32, start: i64, at: i64, offsets: &[i64]) {
        let popped = popped(start, at);
        let ack = Ack { popped, offsets };
        let (mut props, mut body) = (Vec::new(), Vec::new());
        ack.push_props(&mut props);
        ack.push_body(&mut body);
        self.deliver(queue, at + IT, props, &body);
    }

    fn messages(&self, count: usize) {
        for i in 0..count {
            self.put(
                TOPIC,
                0,
                b"TAGS\x01a\x02K\x01v\x02",
                format!("m{i}").as_bytes(),
                0,
            );
        }
    }

    fn revive(&self, timers: Option<i64>) -> Round {
        let round = self.reviver.revive(T0, timers, 1000, &targets());
        assert!(round.error.is_none(), "{:?}", round.error);
        round
    }

    fn retried(&self) -> Vec<Stored> {
        self.records(RETRY, 0)
    }

    fn records(&self, topic: &[u8], queue: u32) -> Vec<Stored> {
        let topic = self.store().topics().topic(topic).unwrap();
        let queue = topic.queue(queue).unwrap();
        let all = queue.min_offset()..queue.max_offset();
        all.map(|o| record_of(self.store(), &queue, o).unwrap().unwrap())
            .collect()
    }

    fn bodies(&self) -> Vec<String> {
        let text = |s: &Stored| String::from_utf8(s.body().to_vec()).unwrap();
        self.retried().iter().map(text).collect()
    }

    fn next(&self) -> Vec<i64> {
        self.reviver.progress().unwrap().next
    }
}

/// Invisible time of the tests.
const IT: i64 = 10_000;

fn check_point(start: i64, at: i64, diffs: &[i32]) -> CheckPoint<'_> {
    CheckPoint {
        popped: popped(start, at),
        invisible_time: IT,
        diffs,
        bits: 0,
        revive_offset: 0,
        put_again: None,
        suspend: false,
    }
}

#[test]
fn what_is_not_acknowledged_comes_to_the_retry_topic() {
    let rig = Rig::new();
    rig.messages(4);
    rig.ck(1, 0, T0, &[0, 1, 3]);
    rig.ack(1, 0, T0, &[1]);
    // Nothing was seen that is late enough.
    assert_eq!(rig.revive(None).judged, 0);
    assert_eq!(rig.revive(Some(T0 + IT + WAIT)).judged, 0);
    assert_eq!(rig.next(), [0, 0]);
    let round = rig.revive(Some(T0 + IT + WAIT + 1));
    assert_eq!((round.judged, round.count()), (1, 2));
    assert_eq!(rig.bodies(), ["m0", "m3"]);
    assert_eq!(rig.next(), [0, 2]);
    let retried = rig.retried();
    let (s, v) = (&retried[1], retried[1].view());
    assert_eq!((v.reconsume_times, v.flag, v.born_timestamp), (1, 7, 5));
    assert_eq!(s.born_host(), *rig.store().store_host());
    let text = String::from_utf8_lossy(s.props()).replace(['\x01', '\x02'], " ");
    assert_eq!(
        text,
        format!("TAGS a K v ORIGIN_GROUP G 1ST_POP_TIME {T0} ")
    );
    let topic = rig.store().topics().get(RETRY).unwrap();
    let entry = topic.queue(0).unwrap().entry(0).unwrap().unwrap();
    assert_eq!(entry.cq.tags_code, 'a' as i64);
}

const WAIT: i64 = crate::pop::revive_window::WAIT;

#[test]
fn a_later_record_of_the_queue_tells_that_timers_are_behind() {
    let rig = Rig::new();
    rig.messages(2);
    rig.ck(0, 0, T0, &[0]);
    // Its time is the beginning of its unit, a second before it is due.
    rig.ck(0, 1, T0 + WAIT + 1000, &[0]);
    assert_eq!(rig.revive(None).judged, 0);
    rig.ck(0, 1, T0 + WAIT + 2001, &[0]);
    assert_eq!(rig.revive(None).judged, 1);
    assert_eq!(rig.bodies(), ["m0"]);
    assert_eq!(rig.next(), [1, 0]);
}

#[test]
fn batches_of_acks_and_bits_of_the_check_point_count() {
    let rig = Rig::new();
    rig.messages(5);
    let mut ck = check_point(0, T0, &[0, 1, 2, 3, 4]);
    ck.bits = 0b1;
    rig.check_point(0, &ck);
    rig.ack(0, 0, T0, &[1, 2, 99]);
    rig.ack(0, 0, T0, &[4]);
    rig.ack(0, 1, T0, &[3]); // of another check point
    rig.ack(0, 0, T0 + 1, &[3]);
    let round = rig.revive(Some(i64::MAX));
    assert_eq!(rig.bodies(), ["m3"]);
    assert_eq!((round.read, round.judged), (5, 1));
    assert_eq!(rig.next(), [5, 0]);
}

#[test]
fn a_message_that_was_revived_keeps_its_first_time_and_counts_on() {
    let rig = Rig::new();
    let mut props = Vec::new();
    properties::push_number(&mut props, FIRST_POP_TIME, 77);
    rig.put(RETRY, 0, &props, b"again", 3);
    rig.put(RETRY, 0, &props, b"forged", 0);
    let mut ck = check_point(0, T0, &[0, 1]);
    ck.popped.topic = Cow::Borrowed(RETRY);
    rig.check_point(0, &ck);
    rig.revive(Some(i64::MAX));
    let retried = rig.retried();
    let first = |s: &Stored| properties::find(s.props(), FIRST_POP_TIME).and_then(parse_i64);
    assert_eq!(retried[2].view().reconsume_times, 4);
    assert_eq!(first(&retried[2]), Some(77));
    assert_eq!(first(&retried[3]), Some(T0));
    // A change with `suspend` does not count.
    ck = check_point(0, T0 + 1, &[0]);
    ck.popped.topic = Cow::Borrowed(RETRY);
    ck.suspend = true;
    rig.check_point(0, &ck);
    rig.revive(Some(i64::MAX));
    assert_eq!(rig.retried()[4].view().reconsume_times, 3);
}

#[test]
fn a_message_that_was_suspended_is_not_counted_as_consumed() {
    let rig = Rig::new();
    rig.messages(1);
    let mut ck = check_point(0, T0, &[0]);
    ck.suspend = true;
    rig.check_point(0, &ck);
    rig.revive(Some(i64::MAX));
    assert_eq!(rig.retried()[0].view().reconsume_times, 0);
}

#[test]
fn nothing_is_revived_of_what_is_gone() {
    let rig = Rig::new();
    rig.messages(1);
    rig.ck(0, 0, T0, &[0, 5]); // the queue has one message
    rig.ck(1, 0, T0, &[0]);
    let mut ck = check_point(0, T0 + 1, &[0]);
    ck.popped.topic = Cow::Borrowed(b"Never");
    rig.check_point(1, &ck);
    let unknown = rig.reviver.revive(T0, Some(i64::MAX), 10, &Targets::new());
    assert_eq!(unknown.unknown, [(TOPIC.into(), b"G"[..].into())]);
    assert_eq!((unknown.judged, rig.next()), (0, vec![0, 0]));
    let mut targets = targets();
    targets.insert((b"Never"[..].into(), b"G"[..].into()), Target::Gone);
    let round = rig.reviver.revive(T0, Some(i64::MAX), 10, &targets);
    assert_eq!((round.missing, round.gone, round.judged), (1, 1, 3));
    assert_eq!(rig.bodies(), ["m0", "m0"]);
}

#[test]
fn what_is_no_record_of_ours_is_left_out() {
    let rig = Rig::new();
    rig.messages(1);
    rig.deliver(0, T0, b"TAGS\x01ck\x02".to_vec(), b"{");
    rig.deliver(0, T0, b"TAGS\x01ack\x02".to_vec(), b"{\"ao\":-4}");
    rig.deliver(0, T0, b"TAGS\x01other\x02".to_vec(), b"");
    rig.ck(0, 0, T0, &[0]);
    let round = rig.revive(Some(i64::MAX));
    assert_eq!((round.read, round.judged), (4, 1));
    assert_eq!(rig.bodies(), ["m0"]);
}

#[test]
fn what_cannot_be_stored_is_put_off_with_longer_delays() {
    let rig = Rig::new();
    rig.messages(3);
    let mut targets = Targets::new();
    let pair = (TOPIC.into(), b"G"[..].into());
    targets.insert(pair, Target::Topic(b"a/b"[..].into()));
    rig.ck(1, 0, T0, &[0, 2]);
    let now = T0 + IT + 5000;
    let round = rig.reviver.revive(now, Some(i64::MAX), 10, &targets);
    assert_eq!((round.put_off, round.judged), (2, 1));
    assert_eq!(rig.next(), [0, 1]);
    let timers = rig.records(timer::TIMER_TOPIC, 0);
    let mut diffs = Vec::new();
    let ck = CheckPoint::read(timers[1].body(), &mut diffs).unwrap();
    assert_eq!(ck.popped, popped(2, T0));
    assert_eq!((ck.revive_time(), ck.put_again), (now + 10_000, Some(1)));
    let real = properties::find(timers[1].props(), timer::REAL_QID);
    assert_eq!(real, Some(&b"1"[..]));
    // The next time it takes longer; after the last delay it stays.
    for (times, delay) in [(1, 20), (16, 7200), (17, 7200), (u32::MAX, 7200)] {
        let mut again = check_point(0, T0, &[0]);
        again.put_again = Some(times);
        rig.check_point(1, &again);
        rig.reviver.revive(now, Some(i64::MAX), 10, &targets);
        let timers = rig.records(timer::TIMER_TOPIC, 0);
        let ck = CheckPoint::read(timers.last().unwrap().body(), &mut diffs).unwrap();
        assert_eq!(ck.revive_time(), now + delay * 1000);
        assert_eq!(ck.put_again, Some(times.saturating_add(1)));
    }
}

#[test]
fn the_last_delay_may_be_the_end() {
    let rig = Rig::new();
    rig.messages(1);
    let reviver = Reviver::open(rig.reviver.pops.clone(), &[], true).unwrap();
    let mut ck = check_point(0, T0, &[0]);
    ck.put_again = Some(17);
    rig.check_point(0, &ck);
    let mut targets = Targets::new();
    let pair = (TOPIC.into(), b"G"[..].into());
    targets.insert(pair, Target::Topic(b"a/b"[..].into()));
    let round = reviver.revive(T0, Some(i64::MAX), 10, &targets);
    assert_eq!((round.put_off, round.judged), (1, 1));
    assert!(rig.records(timer::TIMER_TOPIC, 0).is_empty());
}

#[test]
fn the_lag_of_a_queue() {
    let rig = Rig::new();
    rig.messages(1);
    rig.ck(0, 0, T0, &[0]);
    rig.ck(0, 0, T0 + 1, &[0]);
    rig.reviver.revive(T0 + IT + 500, None, 10, &targets());
    let lag = Lag {
        records: 2,
        ms: 500,
        waiting: 2,
    };
    assert_eq!(rig.reviver.lags(), [lag, Lag::default()]);
    rig.reviver.revive(T0, Some(i64::MAX), 10, &targets());
    assert_eq!(rig.reviver.lags(), [Lag::default(); 2]);
}

#[test]
fn a_client_cannot_have_a_message_taken_for_a_revived_one() {
    let rig = Rig::new();
    rig.messages(2);
    rig.ck(0, 0, T0, &[0, 1]);
    rig.revive(Some(i64::MAX));
    // A record of another kind: its prepared offset is that of a message, not of a check point.
    rig.ck(0, 1, T0 + 1, &[0]);
    let again = rig.killed(&[0, 0], LIMITS);
    let round = again.revive(Some(i64::MAX));
    assert_eq!((round.known, round.count()), (2, 1));
    assert_eq!(again.bodies(), ["m0", "m1", "m1"]);
}

#[derive(Clone, Debug)]
enum Event {
    /// Pops so many messages.
    Pop(usize),
    /// Acknowledges some messages of a check point that is out, by bits.
    Ack(prop::sample::Index, u32),
    /// Time passes, ms; timers are delivered.
    Pass(i64),
    Revive,
    /// The process is killed; progress was kept some calls ago.
    Kill,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1usize..6).prop_map(Event::Pop),
        4 => (any::<prop::sample::Index>(), any::<u32>()).prop_map(|(i, b)| Event::Ack(i, b)),
        4 => (0i64..4000).prop_map(Event::Pass),
        3 => Just(Event::Revive),
        1 => Just(Event::Kill),
    ]
}

/// A check point of the model.
struct Out {
    start: i64,
    at: i64,
    count: usize,
    acked: u32,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Against a list of check points: a message that was acknowledged before its time was over is not
    /// revived, any other is, once, never before its time, whatever is killed, in windows of any size.
    #[test]
    fn revived_once_if_not_acknowledged(
        events in prop::collection::vec(event(), 1..80), waiting in 1usize..6, read in 1usize..6
    ) {
        let mut rig = Rig::new();
        let mut now = T0;
        let mut outs: Vec<Out> = Vec::new();
        // Timers that wait: (unit, number, what).
        let mut timers: Vec<(i64, usize, usize, Option<Vec<i64>>)> = Vec::new();
        let (mut made, mut kept, mut older) = (0, vec![0, 0], vec![0, 0]);
        let limits = Limits { waiting, read };
        rig = rig.killed(&kept, limits);
        let mut events = events;
        events.extend([Event::Pass(IT), Event::Revive, Event::Pass(IT), Event::Revive]);
        for event in events {
            match event {
                Event::Pop(count) => {
                    let start = outs.iter().map(|o| o.count as i64).sum();
                    for i in 0..count {
                        rig.put(TOPIC, 0, b"", format!("m{}", start + i as i64).as_bytes(), 0);
                    }
                    let number = outs.len();
                    outs.push(Out { start, at: now, count, acked: 0 });
                    timers.push((timer::out_time(now + IT - 1000, 1000), made, number, None));
                    made += 1;
                }
                Event::Ack(index, bits) if !outs.is_empty() => {
                    let number = index.index(outs.len());
                    let out = &mut outs[number];
                    let bits = bits & ((1 << out.count) - 1) & !out.acked;
                    if now >= out.at + IT || bits == 0 {
                        continue;
                    }
                    out.acked |= bits;
                    let all = 0..out.count as i64;
                    let offsets = all.filter(|i| bits >> i & 1 == 1).map(|i| out.start + i);
                    let offsets = offsets.collect();
                    timers.push((timer::out_time(out.at + IT, 1000), made, number, Some(offsets)));
                    made += 1;
                }
                Event::Ack(..) => {}
                Event::Pass(ms) => {
                    now += ms;
                    timers.sort();
                    let due = timers.partition_point(|(unit, ..)| unit + 1000 <= now);
                    for (_, _, number, what) in timers.drain(..due) {
                        let out = &outs[number];
                        let queue = number as u32 % 2;
                        let diffs: Vec<_> = (0..out.count as i32).collect();
                        match what {
                            None => rig.ck(queue, out.start, out.at, &diffs),
                            Some(offsets) => rig.ack(queue, out.start, out.at, &offsets),
                        }
                    }
                }
                Event::Revive => {
                    (older, kept) = (kept, rig.next());
                    // All that was due by now is delivered.
                    let mut reached = 0;
                    loop {
                        let round = rig.reviver.revive(now, Some(now - 1000), 3, &targets());
                        prop_assert!(round.error.is_none());
                        reached += 1;
                        if !round.more || reached > 2000 {
                            break;
                        }
                    }
                }
                Event::Kill => {
                    rig = rig.killed(&older, limits);
                    kept = older.clone();
                }
            }
            let mut found: Vec<i64> = rig.bodies().iter().map(|b| b[1..].parse().unwrap()).collect();
            found.sort();
            for &m in &found {
                let out = outs.iter().find(|o| (o.start..o.start + o.count as i64).contains(&m));
                let out = out.unwrap();
                prop_assert!(out.acked >> (m - out.start) & 1 == 0, "{} was acknowledged", m);
                prop_assert!(now >= out.at + IT, "{} was early", m);
            }
            prop_assert!(found.is_sorted_by(|a, b| a < b), "twice: {:?}", found);
        }
        let found: Vec<i64> = rig.bodies().iter().map(|b| b[1..].parse().unwrap()).collect();
        for out in &outs {
            for i in 0..out.count {
                if now - out.at > IT + 2 * WAIT && out.acked >> i & 1 == 0 {
                    prop_assert!(found.contains(&(out.start + i as i64)), "{} is lost", i);
                }
            }
        }
    }
}
