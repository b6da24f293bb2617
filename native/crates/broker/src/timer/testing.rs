//! What tests of timers share: a store with timers, and what it has delivered.

use super::*;
use pyrmq_format::host::Host;
use pyrmq_format::properties;
use pyrmq_format::record::{self, Found};
use pyrmq_format::timer;
use pyrmq_store::testing::copy_store;
use pyrmq_store::{Appended, Content, Message, StoreConfig};
use std::path::Path;

pub const TOPIC: &[u8] = b"Orders";
/// A whole second.
pub const T: i64 = 1_800_000_000_000;
pub const HOUR: i64 = 3_600_000;

pub struct Rig {
    pub timers: Timers,
    pub restored: Restored,
    pub config: StoreConfig,
    settings: Settings,
    _dir: tempfile::TempDir,
}

/// A record of the log.
pub struct Logged {
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

pub fn settings() -> Settings {
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

    pub fn with(settings: Settings, change: impl Fn(&mut StoreConfig)) -> Rig {
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
        config.busy_timeout = 600_000;
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

    pub fn put(
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

    pub fn append(&self, props: &[u8], body: &str) -> Appended {
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
