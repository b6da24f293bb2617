//! A store with messages and its pops, and what stands in its timer topic.

use super::*;
use crate::testing::Rig;
use pyrmq_format::pop::{Ack, CheckPoint, Kind};
use pyrmq_format::{java, properties, record};
use pyrmq_store::{Content, Message, Stored, Wait};
use std::borrow::Cow;

pub const NOW: i64 = 1_700_000_000_000;
pub const INVISIBLE: i64 = 60_000;

pub struct PopRig {
    pub pops: Arc<Pops>,
    _rig: Rig,
}

/// A record of the timer topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Logged {
    CheckPoint {
        of: Key,
        due: i64,
        revive_time: i64,
        offsets: Vec<i64>,
    },
    Ack {
        of: Key,
        due: i64,
        offsets: Vec<i64>,
    },
}

/// Topic, group, queue, start offset, pop time.
pub type Key = (String, String, i32, i64, i64);

impl PopRig {
    pub fn new() -> PopRig {
        let rig = Rig::new(false);
        let settings = Settings {
            cluster: "C".into(),
            broker_name: "broker-a".into(),
            revive_queues: 8,
            precision: 1000,
            max_invisible_time: MAX_INVISIBLE_TIME,
        };
        let pops = Pops::new(rig.broker.store().clone(), settings);
        let pops = Arc::new(pops.unwrap());
        PopRig { pops, _rig: rig }
    }

    /// Stores messages in queue 1 of a topic, each with a tag.
    pub fn put(&self, topic: &[u8], tags: &[&str]) {
        let store = self.pops.store();
        let topic = store.topics().topic(topic).unwrap();
        let mut guard = store.put().unwrap();
        for tag in tags {
            let mut props = Vec::new();
            properties::push(&mut props, b"TAGS", tag.as_bytes());
            let message = Message {
                topic: &topic,
                queue_id: 1,
                sys_flag: 0,
                born_timestamp: 7,
                born_host: *store.store_host(),
                reconsume_times: 3,
                prepared_transaction_offset: 0,
            };
            let content = Content {
                flag: 5,
                body: b"body",
                props: [&props, b"", b"", b""],
                tags_code: java::hash(tag.as_bytes()) as i64,
                count: 1,
            };
            guard.append(&message, &content).unwrap();
        }
    }

    /// What stands in the timer topic, with the check that each record is one.
    pub fn logged(&self) -> Vec<Logged> {
        let store = self.pops.store();
        let queue = self.pops.timer_topic.queue(0).unwrap();
        let read = |offset| {
            let entry = queue.entry(offset).unwrap().unwrap();
            let stored = Stored::read(store, entry.cq.phys as u64).unwrap().unwrap();
            let prop = |name| properties::find(stored.props(), name).unwrap();
            let kind = Kind::of_tag(prop(b"TAGS")).unwrap();
            assert_eq!(entry.cq.tags_code, kind.tags_code());
            assert_eq!(prop(b"REAL_TOPIC"), self.pops.revive_topic());
            assert_eq!(prop(b"REAL_QID"), b"3");
            let out = String::from_utf8(prop(b"TIMER_OUT_MS").to_vec()).unwrap();
            let due = out.parse::<i64>().unwrap();
            logged(kind, stored.body(), due)
        };
        (0..queue.max_offset()).map(read).collect()
    }
}

fn logged(kind: Kind, body: &[u8], due: i64) -> Logged {
    let key = |p: &pop::Popped<'_>| {
        assert_eq!(&*p.broker_name, b"broker-a");
        let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
        (
            text(&p.topic),
            text(&p.group),
            p.queue_id,
            p.start_offset,
            p.pop_time,
        )
    };
    if kind == Kind::CheckPoint {
        let mut diffs = Vec::new();
        let ck = CheckPoint::read(body, &mut diffs).unwrap();
        return Logged::CheckPoint {
            of: key(&ck.popped),
            due,
            revive_time: ck.revive_time(),
            offsets: ck.offsets().map(|(offset, _)| offset).collect(),
        };
    }
    let mut offsets = Vec::new();
    let ack = Ack::read(body, &mut offsets).unwrap();
    assert_eq!(ack.kind(), kind);
    Logged::Ack {
        of: key(&ack.popped),
        due,
        offsets: ack.offsets.to_vec(),
    }
}

pub fn ask(topic: &[u8], offset: i64, max_count: usize) -> Ask<'_> {
    Ask {
        topic,
        queue_id: 1,
        offset,
        max_count,
        max_bytes: usize::MAX,
        tags: &[],
        properties: None,
        bits: None,
        wait: Wait::ForDisk,
    }
}

pub fn group(pop_time: i64) -> CheckPointOf<'static> {
    CheckPointOf {
        group: b"g",
        pop_time,
        invisible_time: INVISIBLE,
        revive_queue: 3,
        original_topic: None,
    }
}

pub fn claim(topic: &[u8], start_offset: i64, pop_time: i64) -> Claim<'_> {
    Claim {
        popped: pop::Popped {
            topic: Cow::Borrowed(topic),
            group: Cow::Borrowed(b"g"),
            broker_name: Cow::Borrowed(b"broker-a"),
            queue_id: 1,
            start_offset,
            pop_time,
        },
        invisible_time: INVISIBLE,
        revive_queue: 3,
    }
}

/// The records that were taken: topic, queue offset, properties.
pub fn records(taken: &Taken) -> Vec<(String, i64, String)> {
    let mut all = Vec::new();
    for chunk in &taken.got.chunks {
        all.extend_from_slice(chunk.segment.bytes(chunk.at, chunk.len).unwrap());
    }
    let bytes = taken.recoded.as_ref().unwrap_or(&all);
    let (mut rest, mut found) = (&bytes[..], Vec::new());
    while !rest.is_empty() {
        let record::Found::Record(v) = record::read(rest, true) else {
            panic!("no record")
        };
        assert_eq!((v.born_timestamp, v.reconsume_times, v.flag), (7, 3, 5));
        let text = |range: std::ops::Range<usize>| String::from_utf8(rest[range].to_vec()).unwrap();
        found.push((text(v.topic.clone()), v.queue_offset, text(v.props.clone())));
        rest = &rest[v.total..];
    }
    found
}
