//! Timers against a store.

use super::*;
use pyrmq_format::host::Host;
use pyrmq_format::properties;
use pyrmq_format::record::{self, Found};
use pyrmq_format::timer;
use pyrmq_store::testing::copy_store;
use pyrmq_store::{Appended, Content, Message, StoreConfig};
use std::path::{Path, PathBuf};

pub(super) const TOPIC: &[u8] = b"Orders";
/// A whole second.
pub(super) const T: i64 = 1_800_000_000_000;
const HOUR: i64 = 3_600_000;

pub(super) struct Rig {
    pub timers: Timers,
    pub restored: Restored,
    config: StoreConfig,
    settings: Settings,
    _dir: tempfile::TempDir,
}

/// A record of the log.
pub(super) struct Logged {
    pub queue_id: i32,
    pub body: Vec<u8>,
    pub props: Vec<u8>,
    topic: Vec<u8>,
}

impl Logged {
    pub fn property(&self, name: &[u8]) -> Option<String> {
        let found = properties::find(&self.props, name);
        found.map(|value| String::from_utf8_lossy(value).into_owned())
    }
}

pub(super) fn settings() -> Settings {
    Settings {
        log_file_size: 4096,
        ..Settings::default()
    }
}

impl Rig {
    pub fn new() -> Rig {
        Rig::with(settings(), |_| ())
    }

    pub fn of(settings: Settings) -> Rig {
        Rig::with(settings, |_| ())
    }

    fn with(settings: Settings, change: impl Fn(&mut StoreConfig)) -> Rig {
        let dir = tempdir();
        let mut config = StoreConfig::new(dir.path().join("store"));
        config.commit_log_file_size = 64 << 10;
        config.consume_queue_file_size = 20 * 64;
        config.index_enable = false;
        config.retention.interval = 0;
        change(&mut config);
        Rig::open(dir, config, settings, T)
    }

    fn open(dir: tempfile::TempDir, config: StoreConfig, settings: Settings, now: i64) -> Rig {
        let store = Store::open(config.clone()).unwrap();
        let (timers, restored) = Timers::open(store, settings, now).unwrap();
        Rig {
            timers,
            restored,
            config,
            settings,
            _dir: dir,
        }
    }

    /// The store as another process finds it after this one was killed, at `now`.
    pub fn killed(&self, now: i64) -> Rig {
        self.killed_with(now, self.settings, |_| ())
    }

    pub fn killed_with(&self, now: i64, settings: Settings, damage: impl Fn(&Path)) -> Rig {
        let dir = tempdir();
        let mut config = self.config.clone();
        config.root = dir.path().join("store");
        config.commit_log_dirs = vec![config.root.join("commitlog")];
        copy_store(&self.config.root, &config.root);
        damage(&config.root);
        Rig::open(dir, config, settings, now)
    }

    /// With files as they are in production.
    pub fn large() -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let mut config = StoreConfig::new(dir.path().join("store"));
        config.index_enable = false;
        config.retention.interval = 0;
        Rig::open(dir, config, Settings::default(), T)
    }

    /// The same folder after a stop.
    pub fn opened_again(mut self) -> Rig {
        self.store().close().unwrap();
        let other = tempdir();
        let dir = std::mem::replace(&mut self._dir, other);
        Rig::open(dir, self.config.clone(), self.settings, T + 21_600_000)
    }

    /// The same, and one of its files is gone.
    pub fn opened_again_without(self, name: &str) -> Rig {
        let path = self.config.root.join(name);
        match path.is_dir() {
            true => std::fs::remove_dir_all(path).unwrap(),
            false => std::fs::remove_file(path).unwrap(),
        }
        self.opened_again()
    }

    pub fn store(&self) -> &Arc<Store> {
        self.timers.store()
    }

    /// A message that waits until `out`.
    pub fn park(&self, out: i64, body: &str) -> Appended {
        self.put(out, TOPIC, 1, body, &[])
    }

    /// Takes back what has this body, and this TIMER_OUT_MS.
    pub fn recall(&self, out: i64, body: &str) -> Appended {
        self.put(out, TOPIC, 0, "0", &[(timer::DEL_UNIQKEY, body)])
    }

    fn put(
        &self,
        out: i64,
        topic: &[u8],
        queue: u32,
        body: &str,
        more: &[(&[u8], &str)],
    ) -> Appended {
        let mut props = Vec::new();
        properties::push(&mut props, b"TAGS", b"a");
        properties::push(&mut props, b"UNIQ_KEY", body.as_bytes());
        for (name, value) in more {
            properties::push(&mut props, name, value.as_bytes());
        }
        timer::push_place(&mut props, out, topic, queue);
        self.append(&props, body)
    }

    fn append(&self, props: &[u8], body: &str) -> Appended {
        let topic = self.store().topics().topic(TIMER_TOPIC).unwrap();
        let message = Message {
            topic: &topic,
            queue_id: 0,
            sys_flag: 0,
            born_timestamp: 1_700_000_000_000,
            born_host: Host::new("10.0.0.7:4567".parse().unwrap()),
            reconsume_times: 2,
            prepared_transaction_offset: 0,
        };
        let content = Content {
            flag: 7,
            body: body.as_bytes(),
            props: [props, b"", b"", b""],
            tags_code: 0,
            count: 1,
        };
        let mut guard = self.store().put().unwrap();
        guard.append(&message, &content).unwrap()
    }

    pub fn in_topic(&self, topic: &[u8]) -> Vec<Logged> {
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
                        queue_id: v.queue_id,
                        body: bytes[v.body.clone()].to_vec(),
                        props: bytes[v.props.clone()].to_vec(),
                        topic: bytes[v.topic.clone()].to_vec(),
                    });
                    at += v.total as u64;
                }
                Found::Invalid(why) => panic!("at {at}: {why}"),
            }
        }
        all.retain(|logged| logged.topic == topic);
        all
    }

    /// Bodies that a topic got, in order.
    pub fn got(&self) -> Vec<String> {
        let text = |r: &Logged| String::from_utf8_lossy(&r.body).into_owned();
        self.in_topic(TOPIC).iter().map(text).collect()
    }

    pub fn deliver(&self, now: i64) -> usize {
        let done = self.timers.deliver(now, usize::MAX);
        assert!(done.error.is_none(), "{:?}", done.error);
        done.given
    }

    pub fn enqueue(&self, now: i64) {
        while self.timers.enqueue(now, 1000).unwrap() > 0 {}
    }

    pub fn keep(&self) {
        self.timers.prepare().unwrap();
        self.timers.flush().unwrap();
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
fn a_message_is_delivered_with_the_end_of_its_slot_and_not_before() {
    let rig = Rig::new();
    assert_eq!((rig.timers.due_in(T), rig.timers.behind()), (None, 0));
    rig.park(T + 5000, "late");
    assert_eq!(rig.timers.behind(), 1);
    rig.enqueue(T);
    assert_eq!((rig.timers.behind(), rig.timers.due_in(T)), (0, Some(6000)));
    assert_eq!(rig.timers.slot_count(T + 5000), 1);
    assert_eq!(rig.deliver(T + 5999), 0);
    assert_eq!(rig.timers.due_in(T + 5999), Some(1));
    assert_eq!(rig.deliver(T + 6000), 1);
    assert_eq!((rig.timers.due_in(T), rig.deliver(T + HOUR)), (None, 0));
    let [got] = &rig.in_topic(TOPIC)[..] else {
        panic!("one message")
    };
    assert_eq!((got.queue_id, &got.body[..]), (1, &b"late"[..]));
    assert_eq!(got.property(timer::ENQUEUE_MS), Some(T.to_string()));
    assert_eq!(
        got.property(timer::DEQUEUE_MS),
        Some((T + 6000).to_string())
    );
    assert_eq!(got.property(timer::OUT_MS), Some((T + 5000).to_string()));
    let queue = rig.store().topics().get(TOPIC).unwrap().queue(1).unwrap();
    assert_eq!(queue.entry(0).unwrap().unwrap().cq.tags_code, 97);
    assert_eq!(rig.timers.take_unknown(), [TOPIC.into()]);
    assert!(rig.timers.take_unknown().is_empty());
}

#[test]
fn slots_come_in_their_order_and_what_is_in_one_as_it_arrived() {
    let rig = Rig::new();
    for n in 0..900 {
        rig.park(T + 1000 * (n % 3), &format!("{n}"));
    }
    assert_eq!(rig.deliver(T + 2000), 600);
    assert_eq!(rig.deliver(T + 3000), 300);
    let in_slot = |slot: i64| (0..900).filter(move |n| n % 3 == slot);
    let expected = in_slot(0).chain(in_slot(1)).chain(in_slot(2));
    assert_eq!(
        rig.got(),
        expected.map(|n| n.to_string()).collect::<Vec<_>>()
    );
    assert!(rig.timers.work.lock().log.files() > 5);
}

#[test]
fn what_is_late_is_due_at_once() {
    let rig = Rig::new();
    assert_eq!(rig.deliver(T), 0);
    rig.park(T - 5000, "a");
    rig.park(T - 40 * 24 * HOUR, "b");
    rig.park(T + 1000, "c");
    assert_eq!(rig.deliver(T + 500), 2);
    assert_eq!(rig.got(), ["b", "a"]);
}

#[test]
fn a_delete_takes_back_what_is_in_its_slot() {
    let rig = Rig::new();
    for body in ["a", "b", "c"] {
        rig.park(T + 5000, body);
    }
    rig.recall(T + 5000, "b");
    rig.recall(T + 5000, "Orders+c");
    rig.recall(T + 5000, "Other+a");
    rig.recall(T + 9000, "a");
    rig.enqueue(T);
    assert_eq!(rig.timers.slot_count(T + 5000), 0);
    assert_eq!(rig.deliver(T + 20_000), 1);
    assert_eq!(rig.got(), ["a"]);
}

/// Who may send to another topic only takes back nothing, though the key is known.
#[test]
fn a_delete_counts_for_the_topic_that_it_was_sent_to() {
    let rig = Rig::new();
    rig.park(T + 5000, "a");
    for wanted in ["a", "Orders+a", "Other+a"] {
        rig.put(T + 5000, b"Other", 0, "0", &[(timer::DEL_UNIQKEY, wanted)]);
    }
    rig.enqueue(T);
    assert_eq!(rig.deliver(T + 20_000), 1);
    assert_eq!(rig.got(), ["a"]);
}

/// It is in the queue, but nobody has enqueued it when its slot is over.
#[test]
fn a_delete_in_the_last_moment_counts() {
    let rig = Rig::new();
    rig.park(T + 5000, "a");
    rig.enqueue(T);
    rig.recall(T + 5000, "a");
    assert_eq!(rig.deliver(T + 6000), 0);
    // After a stop both are late.
    rig.park(T + 7000, "b");
    rig.recall(T + 7000, "b");
    assert_eq!(rig.deliver(T + HOUR), 0);
    assert_eq!(rig.got(), [""; 0]);
}

#[test]
fn what_is_far_away_is_rolled_and_still_taken_back() {
    let rig = Rig::with(
        Settings {
            roll_window: 100,
            ..settings()
        },
        |_| (),
    );
    rig.park(T + 250_000, "far");
    rig.park(T + 250_000, "gone");
    rig.park(T + 120_000, "near");
    rig.enqueue(T);
    // Little is left behind the window: half of it.
    assert_eq!(rig.timers.slot_count(T + 50_000), 1);
    assert_eq!(rig.timers.slot_count(T + 100_000), 2);
    rig.recall(T + 250_000, "gone");
    for second in 1..=250 {
        let given = rig.deliver(T + second * 1000);
        assert_eq!(given, usize::from(second == 121), "{second}");
    }
    assert_eq!(rig.deliver(T + 251_000), 1);
    assert_eq!(rig.got(), ["near", "far"]);
    let far = &rig.in_topic(TOPIC)[1];
    assert_eq!(far.property(timer::ROLL_TIMES), Some("2".into()));
    let names = properties::pairs(&far.props).filter(|(name, _)| *name == timer::ENQUEUE_MS);
    assert_eq!(names.count(), 1);
}

#[test]
fn what_goes_nowhere_is_left_out() {
    let rig = Rig::new();
    rig.put(T, b"no topic/", 0, "a", &[]);
    rig.put(T, timer::TIMER_TOPIC, 0, "b", &[]);
    rig.put(T, b"gone", 0, "c", &[]);
    rig.append(b"TAGS\x01a\x02", "no time");
    rig.append(b"TIMER_OUT_MS\x011800000000000\x02", "no place");
    rig.park(T, "d");
    rig.store().topics().topic(b"gone").unwrap().set_deleted();
    assert_eq!(rig.deliver(T + 1000), 1);
    assert_eq!(rig.got(), ["d"]);
    assert_eq!(rig.in_topic(b"gone").len(), 0);
}

#[test]
fn the_clock_may_go_back_and_forth() {
    let rig = Rig::new();
    rig.park(T + 5000, "a");
    rig.park(T + 2 * HOUR, "b");
    assert_eq!(rig.deliver(T + HOUR), 1);
    // An hour back: what is set now is not early, and nothing is lost.
    rig.park(T + 10_000, "c");
    assert_eq!(rig.deliver(T), 0);
    assert_eq!(rig.timers.due_in(T), Some(11_000));
    rig.keep();
    let rig = rig.killed(T);
    assert_eq!(rig.deliver(T + 10_999), 0);
    assert_eq!(rig.deliver(T + 11_000), 1);
    // Far ahead: all of it is due.
    rig.park(T + 3 * HOUR, "d");
    rig.enqueue(T);
    assert_eq!(rig.deliver(T + 1000 * 24 * HOUR), 2);
    assert_eq!(rig.got(), ["a", "c", "b", "d"]);
    // And back again, with something at the same place of the wheel.
    let round = timer::SLOTS as i64 * 1000;
    rig.park(T + 3 * round, "e");
    rig.enqueue(T + 3 * round - HOUR);
    rig.park(T, "f");
    assert_eq!(rig.deliver(T + 1000), 0, "its place is taken");
    assert_eq!(rig.deliver(T + 2000), 1);
    assert_eq!(rig.deliver(T + 3 * round + 1000), 1);
}

#[test]
fn a_kill_loses_nothing_and_delivers_nothing_twice() {
    let rig = Rig::new();
    for n in 0..600 {
        rig.park(T + 1000 * (n / 200), &format!("{n}"));
    }
    rig.enqueue(T);
    rig.keep();
    // In the middle of a slot.
    let done = rig.timers.deliver(T + HOUR, 300);
    assert!((300..600).contains(&done.given), "{}", done.given);
    let expected: Vec<_> = (0..600).map(|n| n.to_string()).collect();
    let again = rig.killed(T + HOUR);
    assert_eq!(again.restored.delivered as usize, done.given);
    assert_eq!(again.restored.why, "");
    assert_eq!(again.deliver(T + HOUR), 600 - done.given);
    assert_eq!(again.got(), expected);
    // The same with a check point in the middle.
    rig.keep();
    let again = rig.killed(T + HOUR);
    again.deliver(T + HOUR);
    assert_eq!(again.got(), expected);
    again.keep();
    let last = again.killed(T + HOUR);
    assert_eq!(last.restored.read, 0);
    assert_eq!(last.deliver(T + HOUR), 0);
}

#[test]
fn what_was_late_or_rolled_is_found_after_a_kill() {
    let settings = Settings {
        roll_window: 100,
        ..settings()
    };
    let rig = Rig::with(settings, |_| ());
    rig.park(T + 150_000, "far");
    rig.enqueue(T);
    rig.keep();
    assert_eq!(rig.deliver(T + 101_000), 0);
    rig.park(T + 7000, "late");
    rig.enqueue(T + 101_000);
    // Not delivered: its slot is before that of the check point that follows.
    let again = rig.killed(T + 101_000);
    assert_eq!(again.deliver(T + 102_000), 1);
    rig.deliver(T + 102_000);
    let again = rig.killed(T + 102_000);
    assert_eq!(again.deliver(T + 102_000), 0);
    assert_eq!(again.deliver(T + 151_000), 1);
    assert_eq!(again.got(), ["late", "far"]);
}

/// All kinds of damage to the files: what waits comes, once.
#[test]
fn damaged_files_are_made_again() {
    let write = |path: PathBuf, bytes: &[u8]| std::fs::write(path, bytes).unwrap();
    let cut = |path: PathBuf, len: u64| {
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(len).unwrap();
    };
    let first = |root: &Path| root.join("timerlog/00000000000000000000");
    let last = |root: &Path| root.join("timerlog/00000000000000004096");
    type Damage<'a> = (&'a str, Box<dyn Fn(&Path) + 'a>, bool);
    let old_wheel = std::cell::RefCell::new(Vec::new());
    let damages: Vec<Damage<'_>> = vec![
        ("nothing", Box::new(|_| ()), false),
        (
            "wheel missing",
            Box::new(|r| std::fs::remove_file(r.join("timerwheel")).unwrap()),
            true,
        ),
        (
            "wheel blank",
            Box::new(|r| write(r.join("timerwheel"), &vec![0; timer::WHEEL_SIZE])),
            true,
        ),
        (
            "wheel empty",
            Box::new(|r| write(r.join("timerwheel"), b"")),
            true,
        ),
        (
            "wheel cut",
            Box::new(|r| cut(r.join("timerwheel"), 1_000_000)),
            true,
        ),
        (
            "wheel longer",
            Box::new(|r| cut(r.join("timerwheel"), 50_000_000)),
            true,
        ),
        (
            "wheel noise",
            Box::new(|r| write(r.join("timerwheel"), &vec![7; timer::WHEEL_SIZE])),
            true,
        ),
        (
            "wheel old",
            Box::new(|r| write(r.join("timerwheel"), &old_wheel.borrow())),
            true,
        ),
        (
            "log missing",
            Box::new(|r| std::fs::remove_dir_all(r.join("timerlog")).unwrap()),
            true,
        ),
        ("log cut", Box::new(|r| cut(last(r), 100)), true),
        ("log blank", Box::new(|r| write(last(r), &[0; 4096])), true),
        ("log longer", Box::new(|r| cut(first(r), 5000)), true),
        (
            "first blank",
            Box::new(|r| write(first(r), &[0; 4096])),
            true,
        ),
        (
            "first missing",
            Box::new(|r| std::fs::remove_file(first(r)).unwrap()),
            true,
        ),
        (
            "check missing",
            Box::new(|r| std::fs::remove_file(r.join("config/timercheck")).unwrap()),
            false,
        ),
        (
            "check blank",
            Box::new(|r| write(r.join("config/timercheck"), &[0; 4096])),
            false,
        ),
        (
            "check cut",
            Box::new(|r| cut(r.join("config/timercheck"), 9)),
            false,
        ),
        (
            "all missing",
            Box::new(|r| {
                for name in ["timerwheel", "config/timercheck"] {
                    std::fs::remove_file(r.join(name)).unwrap();
                }
                std::fs::remove_dir_all(r.join("timerlog")).unwrap();
            }),
            true,
        ),
    ];
    let rig = Rig::new();
    for n in 0..50 {
        rig.park(T + 1000 * n, &format!("{n}"));
    }
    rig.enqueue(T);
    rig.keep();
    *old_wheel.borrow_mut() = std::fs::read(rig.config.root.join("timerwheel")).unwrap();
    for n in 50..100 {
        rig.park(T + 1000 * n, &format!("{n}"));
    }
    rig.park(T + 100_000, "gone");
    rig.recall(T + 100_000, "gone");
    rig.deliver(T + 20_000);
    rig.keep();
    rig.deliver(T + 40_000);
    let expected: Vec<_> = (0..100).map(|n| n.to_string()).collect();
    for (name, damage, is_made_again) in &damages {
        let again = rig.killed_with(T + 40_000, settings(), |root| damage(root));
        assert_eq!(
            again.restored.why.is_empty(),
            !is_made_again,
            "{name}: {:?}",
            again.restored
        );
        again.deliver(T + HOUR);
        assert_eq!(again.got(), expected, "{name}");
        again.keep();
        let last = again.killed(T + HOUR);
        assert_eq!(
            (last.restored.why.as_str(), last.deliver(T + HOUR)),
            ("", 0),
            "{name}"
        );
    }
}

#[test]
fn another_precision_makes_all_again() {
    let rig = Rig::new();
    for n in 0..50 {
        rig.park(T + 1000 * n, &format!("{n}"));
    }
    rig.deliver(T + 20_000);
    rig.keep();
    rig.deliver(T + 25_000);
    for precision in [100, 5000] {
        let other = Settings {
            precision,
            ..settings()
        };
        let again = rig.killed_with(T + 25_000, other, |_| ());
        again.deliver(T + HOUR);
        let expected: Vec<_> = (0..50).map(|n| n.to_string()).collect();
        assert_eq!(again.got(), expected, "{precision}");
    }
}

#[test]
fn a_power_cut_may_take_the_end_of_the_commit_log() {
    let rig = Rig::new();
    for n in 0..10 {
        rig.park(T + 1000 * n, &format!("{n}"));
    }
    rig.enqueue(T);
    rig.keep();
    let end = rig.store().log().max_offset();
    for n in 10..20 {
        rig.park(T + 1000 * (n - 10), &format!("{n}"));
    }
    rig.enqueue(T);
    rig.keep();
    let again = rig.killed_with(T, settings(), |root| {
        let path = root.join("commitlog/00000000000000000000");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[end as usize..].fill(0);
        std::fs::write(path, bytes).unwrap();
        std::fs::remove_dir_all(root.join("consumequeue")).unwrap();
    });
    assert_eq!(again.store().log().max_offset(), end);
    again.park(T + 3000, "new");
    again.deliver(T + HOUR);
    let expected = ["0", "1", "2", "3", "new", "4", "5", "6", "7", "8", "9"];
    assert_eq!(again.got(), expected);
    let kept = rig.killed(T);
    kept.deliver(T + HOUR);
    assert_eq!(kept.got().len(), 20);
}

#[test]
fn figures() {
    let rig = Rig::new();
    for n in [1, 4, 6, 59, 61, 400] {
        rig.park(T + 1000 * n, "x");
    }
    rig.enqueue(T);
    assert_eq!(rig.timers.histogram(T, &[5, 60, 300]), [2, 2, 1, 1]);
    let figures = rig.timers.figures(T + HOUR);
    assert_eq!(
        (figures.waiting, figures.queue_offset, figures.queue_end),
        (6, 6, 6)
    );
    let topics = rig.timers.topics();
    assert_eq!(topics, [(TOPIC.into(), 6, T)]);
    rig.deliver(T + HOUR);
    assert_eq!(rig.timers.topics(), [(TOPIC.into(), 0, T + HOUR)]);
    assert_eq!(rig.timers.figures(T + HOUR).waiting, 0);
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let of = |precision, roll_window| Settings {
        precision,
        roll_window,
        ..settings()
    };
    assert!(of(0, 10).checked().is_err());
    assert!(of(MAX_PRECISION + 1, 10).checked().is_err());
    assert_eq!(of(1000, 1).checked().unwrap().roll_window, 604_740);
    assert!(of(100_000, 604_740).checked().unwrap().roll_window < 21_475);
}

#[test]
fn old_files_of_the_timer_log_go_with_the_messages() {
    let rig = Rig::new();
    let mut last = 0;
    for n in 0..600 {
        last = rig.park(T, &format!("{n:0200}")).end();
    }
    rig.deliver(T + 1000);
    let files = rig.timers.work.lock().log.files();
    assert_eq!(rig.timers.clean().unwrap(), 0);
    assert!(files > 7);
    let log = rig.store().log();
    while log.min_offset() < last - (64 << 10) {
        log.remove_first().unwrap();
    }
    assert!(rig.timers.clean().unwrap() > 3);
    rig.park(T + 5000, "after");
    rig.keep();
    let again = rig.killed(T + 1000);
    assert_eq!(again.deliver(T + 6000), 1);
}
