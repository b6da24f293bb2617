//! What the tests of this folder share: a store with transactions, halves as clients make them, and
//! a reading of the log that knows nothing of the tables under test.

use super::*;
use pyrmq_format::host::Host;
use pyrmq_format::properties::{find, push};
use pyrmq_format::record::{self, Found, sys_flag};
use pyrmq_store::testing::copy_store;
use pyrmq_store::{Content, Message, StoreConfig, TopicSettings};
use std::path::Path;

pub const GROUP: &[u8] = b"PG_test";
pub const TOPIC: &[u8] = b"Orders";
pub const FROM_START: Start = Start { half: -1, op: -1 };

pub fn host() -> Host {
    Host::new("10.1.2.3:4567".parse().unwrap())
}

/// A store in a folder of its own.
pub struct Rig {
    pub txn: Transactions,
    pub rebuilt: Rebuilt,
    pub config: StoreConfig,
    _dir: tempfile::TempDir,
}

/// A half to be sent, as a plain client would send it unless said otherwise.
#[derive(Clone)]
pub struct Sent {
    pub key: Vec<u8>,
    pub group: Vec<u8>,
    pub topic: Vec<u8>,
    pub queue_id: u32,
    pub born: i64,
    pub more: Vec<(&'static [u8], Vec<u8>)>,
}

impl Sent {
    pub fn new(key: &str) -> Sent {
        Sent {
            key: key.into(),
            group: GROUP.into(),
            topic: TOPIC.into(),
            queue_id: 1,
            born: 1_700_000_000_000,
            more: Vec::new(),
        }
    }

    pub fn with(mut self, name: &'static [u8], value: &str) -> Sent {
        self.more.push((name, value.into()));
        self
    }

    pub fn props(&self) -> Vec<u8> {
        let mut props = Vec::new();
        let id = self.queue_id.to_string();
        let own: [(&[u8], &[u8]); 5] = [
            (b"UNIQ_KEY", &self.key),
            (b"PGROUP", &self.group),
            (b"TRAN_MSG", b"true"),
            (b"REAL_TOPIC", &self.topic),
            (b"REAL_QID", id.as_bytes()),
        ];
        for (name, value) in own.into_iter().filter(|(_, v)| !v.is_empty()) {
            push(&mut props, name, value);
        }
        for (name, value) in &self.more {
            push(&mut props, name, value);
        }
        props
    }
}

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    pub phys: u64,
    pub end: u64,
    pub topic: Vec<u8>,
    pub queue_id: i32,
    pub queue_offset: i64,
    pub sys_flag: i32,
    pub flag: i32,
    pub prepared: i64,
    pub born: i64,
    pub body: Vec<u8>,
    pub props: Vec<u8>,
}

impl Logged {
    pub fn key(&self) -> String {
        self.property("UNIQ_KEY").unwrap_or_default()
    }

    pub fn property(&self, name: &str) -> Option<String> {
        find(&self.props, name.as_bytes()).map(|v| String::from_utf8_lossy(v).into_owned())
    }

    pub fn is_commit(&self) -> bool {
        self.sys_flag & sys_flag::TRANSACTION_MASK == sys_flag::COMMIT
    }

    /// Halves that this op record names.
    pub fn named(&self) -> Vec<i64> {
        ops::named(&self.body).collect()
    }
}

impl Rig {
    pub fn new() -> Rig {
        Rig::sized(16 << 10, 4096)
    }

    /// `log_file`: bytes of a file of the log; `max`: transactionOpMsgMaxSize.
    pub fn sized(log_file: u64, max: usize) -> Rig {
        let dir = tempdir();
        let mut config = StoreConfig::new(dir.path().join("store"));
        config.commit_log_file_size = log_file;
        config.consume_queue_file_size = 20 * 64;
        config.index_enable = false;
        config.retention.interval = 0;
        Rig::open(dir, config, FROM_START, max)
    }

    fn open(dir: tempfile::TempDir, config: StoreConfig, start: Start, max: usize) -> Rig {
        let store = Store::open(config.clone()).unwrap();
        declare(&store, TOPIC);
        let limits = Limits {
            op_body: max,
            pending: usize::MAX,
        };
        let (txn, rebuilt) = Transactions::open(store, start, limits).unwrap();
        Rig {
            txn,
            rebuilt,
            config,
            _dir: dir,
        }
    }

    /// The store as another process finds it after this one was killed when the log ended at
    /// `end`. This one stays as it is.
    pub fn killed_at(&self, end: u64, start: Start) -> Rig {
        self.again(end, start, self.config.clone())
    }

    /// The same after all of the log, with another configuration.
    pub fn killed_with(&self, change: impl Fn(&mut StoreConfig)) -> Rig {
        let mut config = self.config.clone();
        change(&mut config);
        self.again(u64::MAX, FROM_START, config)
    }

    fn again(&self, end: u64, start: Start, mut config: StoreConfig) -> Rig {
        let dir = tempdir();
        config.root = dir.path().join("store");
        config.commit_log_dirs = vec![config.root.join("commitlog")];
        copy_store(&self.config.root, &config.root);
        cut(&config.root.join("commitlog"), end);
        Rig::open(dir, config, start, self.txn.limits.op_body)
    }

    pub fn killed(&self, start: Start) -> Rig {
        self.killed_at(u64::MAX, start)
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.txn.store
    }

    /// Appends to a topic; nothing but the log knows.
    pub fn put(&self, topic: &[u8], props: &[u8], body: &[u8], born: i64) -> Appended {
        let mut guard = self.store().put().unwrap();
        self.append(&mut guard, topic, props, body, born)
    }

    pub fn append(
        &self,
        guard: &mut PutGuard<'_>,
        topic: &[u8],
        props: &[u8],
        body: &[u8],
        born: i64,
    ) -> Appended {
        let topic = self.store().topics().topic(topic).unwrap();
        let message = Message {
            topic: &topic,
            queue_id: 0,
            sys_flag: 0,
            born_timestamp: born,
            born_host: host(),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
        };
        let content = Content {
            flag: 7,
            body,
            props: [props, b"", b"", b""],
            tags_code: 0,
            count: 1,
        };
        guard.append(&message, &content).unwrap()
    }

    /// A half in the log that the tables do not know of.
    pub fn put_half(&self, sent: &Sent) -> Appended {
        self.put(HALF_TOPIC, &sent.props(), &body_of(&sent.key), sent.born)
    }

    /// An op record in the log that the tables do not know of.
    pub fn put_op(&self, body: &[u8]) -> Appended {
        self.put(OP_TOPIC, b"TAGS\x01d\x02", body, 0)
    }

    pub fn send(&self, sent: &Sent) -> Appended {
        let done = self.put_half(sent);
        let props = sent.props();
        self.txn.written(&done, sent.born, &Fields::read(&props));
        done
    }

    /// END_TRANSACTION as a session handles it, with its op record.
    pub fn end_plain(&self, end: &End<'_>) -> bool {
        let mut guard = self.store().put().unwrap();
        let settled = self.txn.settle_plain(&mut guard, end).unwrap();
        if settled.is_some() {
            self.txn.write_ops(&mut guard).unwrap();
        }
        settled.is_some()
    }

    pub fn waiting(&self) -> Vec<i64> {
        self.txn.before(i64::MAX, usize::MAX)
    }

    pub fn start(&self) -> Start {
        let p = self.txn.progress().unwrap();
        Start {
            half: p.half,
            op: p.op,
        }
    }

    pub fn log(&self) -> Vec<Logged> {
        let log = self.store().log();
        let mut at = log.min_offset();
        let mut all = Vec::new();
        while at < log.max_offset() {
            let (segment, place) = log.locate(at).expect("a file");
            let bytes = segment.readable_from(place);
            match record::read(bytes, true) {
                Found::Blank => at = log.next_file_start(at),
                Found::Record(v) => {
                    let end = at + v.total as u64;
                    all.push(Logged {
                        phys: at,
                        end,
                        topic: bytes[v.topic.clone()].to_vec(),
                        queue_id: v.queue_id,
                        queue_offset: v.queue_offset,
                        sys_flag: v.sys_flag,
                        flag: v.flag,
                        prepared: v.prepared_transaction_offset,
                        born: v.born_timestamp,
                        body: bytes[v.body.clone()].to_vec(),
                        props: bytes[v.props.clone()].to_vec(),
                    });
                    at = end;
                }
                Found::Invalid(why) => panic!("at {at}: {why}"),
            }
        }
        all
    }

    pub fn in_topic(&self, topic: &[u8]) -> Vec<Logged> {
        let mut all = self.log();
        all.retain(|r| r.topic == topic);
        all
    }

    /// Keys of the committed messages, in order.
    pub fn delivered(&self) -> Vec<String> {
        let all = self.log();
        let commits = all.iter().filter(|r| r.is_commit());
        commits.map(Logged::key).collect()
    }

    /// Halves that op records name, in order.
    pub fn named(&self) -> Vec<i64> {
        let ops = self.in_topic(OP_TOPIC);
        ops.iter().flat_map(Logged::named).collect()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = self.txn.store.close(); // its threads hold the store
    }
}

/// In memory where that is possible: nothing here depends on a disk, and stores come by the dozen.
fn tempdir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

pub fn body_of(key: &[u8]) -> Vec<u8> {
    [b"body of ", key].concat()
}

pub fn declare(store: &Store, topic: &[u8]) {
    let settings = TopicSettings {
        read_queues: 4,
        write_queues: 4,
        multi_tag: false,
        sendable: true,
    };
    store.topics().topic(topic).unwrap().set(Some(settings));
}

pub fn end<'a>(done: &Appended, commit: bool) -> End<'a> {
    End {
        offset: done.queue_offset,
        phys: done.phys,
        commit,
        group: GROUP,
        ids: [b"", b""],
        from_check: false,
        topic: None,
    }
}

/// Makes all zero from `end` on.
fn cut(log: &Path, end: u64) {
    for entry in std::fs::read_dir(log).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let base: u64 = name.parse().unwrap_or(u64::MAX);
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let len = file.metadata().unwrap().len();
        if end < base.saturating_add(len) {
            file.set_len(end.saturating_sub(base)).unwrap();
            file.set_len(len).unwrap();
        }
    }
}
