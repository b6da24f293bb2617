//! A broker in a temporary folder, and requests to it, for the tests.

use super::*;
use crate::txn::{Limits, Start, Transactions};
use pyrmq_format::host::Host;
use pyrmq_format::record::{self, Found, View};
use pyrmq_store::{FlushMode, Store, StoreConfig, Topic, TopicSettings};
use std::sync::Arc;

pub struct Rig {
    pub broker: Broker,
    _dir: tempfile::TempDir,
}

pub const TOPIC: &[u8] = b"Orders";
pub const BATCHES: &[u8] = b"Batches";
pub const BORN: i64 = 1_700_000_000_000;
const LIMITS: Limits = Limits {
    op_body: 4096,
    pending: 2,
};

fn host() -> Host {
    Host::new("10.1.2.3:4567".parse().unwrap())
}

impl Rig {
    pub fn new(with_transactions: bool) -> Rig {
        Rig::flushing(with_transactions, FlushMode::Async)
    }

    pub fn flushing(with_transactions: bool, flush_mode: FlushMode) -> Rig {
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

    pub fn topic(&self, name: &[u8]) -> Arc<Topic> {
        self.broker.store().topics().get(name).unwrap()
    }

    /// Sends with an appender of its own: (log end, queue id, queue offset, unique key) of what is stored.
    pub fn send(&self, rq: &SendRequest<'_>) -> std::result::Result<Done, Option<Refusal>> {
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
                recall_handle: s.recall_handle.to_vec(),
            }),
            Sent::NeedsDecision => Err(None),
            Sent::Refused(refusal) => Err(Some(refusal)),
        }
    }

    pub fn refusal(&self, rq: &SendRequest<'_>) -> (i32, String) {
        let refusal = self.send(rq).unwrap_err().expect("refused");
        (refusal.code, refusal.text.into_owned())
    }

    /// The record of one message id, and its properties.
    pub fn record(&self, id: &str) -> (View, Vec<u8>, Vec<u8>) {
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
pub struct Done {
    pub end: u64,
    pub queue_id: u32,
    pub queue_offset: i64,
    pub ids: String,
    pub key: Vec<u8>,
    pub inner_batch: bool,
    pub recall_handle: Vec<u8>,
}

pub fn plain<'a>(properties: &'a [u8], body: &'a [u8]) -> SendRequest<'a> {
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

pub fn entry(body: &[u8], props: &[u8]) -> Vec<u8> {
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
