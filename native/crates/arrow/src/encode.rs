//! Rows of a record batch as the bodies of send requests.
//!
//! First every row is checked, so that nothing of a batch is sent that holds a row which cannot be.
//! Then rows are put together by where they go: topic, and queue where the row names one or has a
//! sharding key. Then each group is cut into requests, made one at a time. What cannot go in a batch
//! (delays, retry topics) becomes a request of its own. [MessageBatch, MessageDecoder.encodeMessages]

use super::error::EncodeError;
use super::repeatable::Txn;
use super::send_props::{self, Measured, Rules};
pub use super::send_request::{Request, Target};
use super::send_rows::{Cells, Columns};
use pyrmq_format::unique_key::{GIVEN_LEN, KeyRun};
use pyrmq_format::{java, names};
use rustc_hash::FxHashMap;

/// Topics that clients may not send to. [TopicValidator]
const NO_SEND: [&[u8]; 6] = [
    b"SCHEDULE_TOPIC_XXXX",
    names::HALF_TOPIC,
    names::OP_TOPIC,
    names::CHECK_MAX_TOPIC,
    b"SELF_TEST_TOPIC",
    b"OFFSET_MOVED_EVENT",
];
/// Bytes of a batch entry beside body and properties.
const ENTRY: usize = 22;
/// Most messages of one batch: the answer names each with 33 characters.
const MAX_ENTRIES: usize = 4096;

/// Where unique keys come from.
pub enum Keys {
    Fresh(KeyRun),
    /// The same whenever the same rows are sent in the same place.
    Repeatable(Txn),
}

impl Keys {
    fn len(&self) -> usize {
        match self {
            Keys::Fresh(run) => run.key_len(),
            Keys::Repeatable(_) => GIVEN_LEN,
        }
    }
}

/// What is the same for all rows.
pub struct Settings {
    /// Wins over the column.
    pub topic: Option<Vec<u8>>,
    pub wait: bool,
    pub drop_special: bool,
    pub max_message_size: usize,
    /// A batch is closed before it grows beyond this.
    pub batch_bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct GroupKey {
    topic: u32,
    target: Target,
    /// Each row is a request of its own.
    single: bool,
}

struct Group {
    key: GroupKey,
    rows: Vec<u32>,
    /// How many have become requests.
    done: usize,
}

/// The rows of one batch on their way.
pub struct SendRows {
    columns: Columns,
    settings: Settings,
    rules: Rules,
    keys: Keys,
    topics: Vec<Vec<u8>>,
    brokers: Vec<Vec<u8>>,
    topic_of: Vec<u32>,
    broker_of: Vec<Option<u32>>,
    measured: Vec<Measured>,
    groups: Vec<Group>,
    at: usize,
}

impl SendRows {
    /// Checks all rows; fails with the first that cannot be sent.
    pub fn new(columns: Columns, settings: Settings, keys: Keys) -> Result<Self, EncodeError> {
        let rules = Rules {
            wait: settings.wait,
            drop_special: settings.drop_special,
            key_len: keys.len(),
            label: match &keys {
                Keys::Fresh(_) => None,
                Keys::Repeatable(txn) => Some(txn.label()),
            },
        };
        let mut rows = SendRows {
            topic_of: Vec::with_capacity(columns.rows),
            broker_of: Vec::new(),
            measured: Vec::with_capacity(columns.rows),
            topics: Vec::new(),
            brokers: Vec::new(),
            groups: Vec::new(),
            at: 0,
            columns,
            settings,
            rules,
            keys,
        };
        rows.check()?;
        Ok(rows)
    }

    /// Distinct topics, in the order of their first rows.
    pub fn topics(&self) -> &[Vec<u8>] {
        &self.topics
    }

    pub fn broker(&self, index: u32) -> &[u8] {
        &self.brokers[index as usize]
    }

    pub fn rows(&self) -> usize {
        self.columns.rows
    }

    fn check(&mut self) -> Result<(), EncodeError> {
        let mut topics: FxHashMap<Vec<u8>, u32> = FxHashMap::default();
        let mut brokers: FxHashMap<Vec<u8>, u32> = FxHashMap::default();
        for row in 0..self.columns.rows {
            let at_row = |why: String| EncodeError::Row { row, why };
            let cells = self.columns.cells(row);
            let topic = match (&self.settings.topic, cells.topic) {
                (Some(fixed), _) => fixed.as_slice(),
                (None, Some(topic)) => topic,
                (None, None) => {
                    let why = "it has no topic: set option topic, or fill column topic";
                    return Err(at_row(why.into()));
                }
            };
            let topic = match topics.get(topic) {
                Some(&index) => index,
                None => {
                    check_topic(topic).map_err(at_row)?;
                    index_of(&mut topics, &mut self.topics, topic)
                }
            };
            let measured = send_props::measure(&self.columns, row, &cells, &self.rules)
                .and_then(|m| check_cells(&cells, &self.settings).map(|()| m))
                .map_err(at_row)?;
            let broker = cells.broker_name.map(|name| match brokers.get(name) {
                Some(&index) => index,
                None => index_of(&mut brokers, &mut self.brokers, name),
            });
            if broker.is_some() && self.broker_of.is_empty() {
                self.broker_of.resize(self.columns.rows, None);
            }
            if let Some(index) = broker {
                self.broker_of[row] = Some(index);
            }
            self.topic_of.push(topic);
            self.measured.push(measured);
        }
        Ok(())
    }

    /// Puts rows together by where they go. `queues`: how many queues each topic has to choose from by
    /// sharding key; 0 is an error for a topic that has rows with one.
    pub fn group(&mut self, queues: &[u32]) -> Result<(), EncodeError> {
        if queues.len() != self.topics.len() {
            return Err(EncodeError::Usage(
                "queue counts are needed for all topics".into(),
            ));
        }
        self.groups.clear();
        self.at = 0;
        let mut known: FxHashMap<GroupKey, usize> = FxHashMap::default();
        for row in 0..self.columns.rows {
            let cells = self.columns.cells(row);
            let topic = self.topic_of[row];
            let key = GroupKey {
                topic,
                target: self.target(row, &cells, queues[topic as usize])?,
                single: cells.delay.is_some_and(|level| level > 0)
                    || self.topics[topic as usize].starts_with(names::RETRY_PREFIX),
            };
            let at = *known.entry(key).or_insert_with(|| {
                self.groups.push(Group {
                    key,
                    rows: Vec::new(),
                    done: 0,
                });
                self.groups.len() - 1
            });
            self.groups[at].rows.push(row as u32);
        }
        Ok(())
    }

    fn target(&self, row: usize, cells: &Cells<'_>, queues: u32) -> Result<Target, EncodeError> {
        let broker = self.broker_of.get(row).copied().flatten();
        let sharding_key = send_props::sharding_key(&self.columns, row, cells);
        if cells.queue_id.is_none() && broker.is_some() && sharding_key.is_some() {
            let why =
                "it has a sharding key and a broker: name its queueId as well, or one of the two";
            let why = why.into();
            return Err(EncodeError::Row { row, why });
        }
        if cells.queue_id.is_some() || broker.is_some() {
            // Checked by `check_cells`.
            let id = cells.queue_id.map(|id| id as u32);
            return Ok(Target::Queue { id, broker });
        }
        let Some(key) = sharding_key else {
            return Ok(Target::Any);
        };
        if queues == 0 {
            let why = "it has a sharding key, but its topic has no queue to send to".into();
            return Err(EncodeError::Row { row, why });
        }
        Ok(Target::Nth(nth_by_hash(key, queues)))
    }

    /// The next request, None after the last.
    pub fn next_request(&mut self) -> Option<Request> {
        loop {
            let group = self.groups.get(self.at)?;
            if group.done < group.rows.len() {
                break;
            }
            self.at += 1;
        }
        let group = &self.groups[self.at];
        let left = &group.rows[group.done..];
        let limit = self
            .settings
            .batch_bytes
            .min(self.settings.max_message_size);
        let count = if group.key.single {
            1
        } else {
            self.fitting(left, limit)
        };
        let rows = &left[..count];
        let key = group.key;
        let mut places = Vec::new();
        let mut request = if count == 1 {
            self.single(key, rows[0] as usize, &mut places)
        } else {
            self.batch(key, rows, &mut places)
        };
        if let Keys::Repeatable(txn) = &self.keys {
            txn.fill(&mut request, &self.topics, &self.brokers, &places);
        }
        self.groups[self.at].done += count;
        Some(request)
    }

    fn entry_size(&self, row: u32) -> usize {
        let body = self.columns.body_len(row as usize);
        ENTRY + body + self.measured[row as usize].len as usize
    }

    /// How many of the rows fit into one batch; at least one.
    fn fitting(&self, rows: &[u32], limit: usize) -> usize {
        let mut total = 0;
        for (count, &row) in rows.iter().take(MAX_ENTRIES).enumerate() {
            total += self.entry_size(row);
            if total > limit && count > 0 {
                return count;
            }
        }
        rows.len().min(MAX_ENTRIES)
    }

    /// `places`: where a repeatable key has to be put once the request is known.
    fn push_properties(
        &self,
        row: usize,
        cells: &Cells<'_>,
        out: &mut Vec<u8>,
        places: &mut Vec<usize>,
    ) {
        let has_key = self.measured[row].has_key;
        let key = |out: &mut Vec<u8>| match &self.keys {
            Keys::Fresh(run) => run.push(row, out),
            Keys::Repeatable(_) => {
                places.push(out.len());
                out.extend_from_slice(&[b'0'; GIVEN_LEN]);
            }
        };
        send_props::write(&self.columns, row, cells, &self.rules, key, has_key, out);
    }

    fn single(&self, key: GroupKey, row: usize, places: &mut Vec<usize>) -> Request {
        let cells = self.columns.cells(row);
        let mut properties = Vec::with_capacity(self.measured[row].len as usize);
        self.push_properties(row, &cells, &mut properties, places);
        Request {
            topic: key.topic,
            target: key.target,
            batch: false,
            flag: cells.flag.unwrap_or(0) as i32,
            properties,
            rows: 1,
            first_row: row,
            last_row: row,
            body: cells.body.unwrap_or_default().to_vec(),
            key: None,
        }
    }

    fn batch(&self, key: GroupKey, rows: &[u32], places: &mut Vec<usize>) -> Request {
        let size = rows.iter().map(|&row| self.entry_size(row)).sum();
        let mut out = Vec::with_capacity(size);
        for &row in rows {
            let row = row as usize;
            let cells = self.columns.cells(row);
            let body = cells.body.unwrap_or_default();
            let props = self.measured[row].len;
            let entry = (ENTRY + body.len() + props as usize) as i32;
            let start = out.len();
            // Size, magic, CRC (both 0: the broker makes its own), flag, body, properties.
            out.extend_from_slice(&entry.to_be_bytes());
            out.extend_from_slice(&[0; 8]);
            out.extend_from_slice(&(cells.flag.unwrap_or(0) as i32).to_be_bytes());
            out.extend_from_slice(&(body.len() as i32).to_be_bytes());
            out.extend_from_slice(body);
            out.extend_from_slice(&(props as i16).to_be_bytes());
            self.push_properties(row, &cells, &mut out, places);
            debug_assert_eq!(out.len() - start, entry as usize);
        }
        let wait: &[u8] = if self.rules.wait {
            b"WAIT\x01true\x02"
        } else {
            b"WAIT\x01false\x02"
        };
        Request {
            topic: key.topic,
            target: key.target,
            batch: true,
            flag: 0,
            properties: wait.to_vec(),
            rows: rows.len(),
            first_row: rows[0] as usize,
            last_row: rows[rows.len() - 1] as usize,
            body: out,
            key: None,
        }
    }
}

fn index_of(known: &mut FxHashMap<Vec<u8>, u32>, all: &mut Vec<Vec<u8>>, name: &[u8]) -> u32 {
    let index = all.len() as u32;
    all.push(name.to_vec());
    known.insert(name.to_vec(), index);
    index
}

/// Which of `queues` queues a key goes to. [SelectMessageQueueByHash]
fn nth_by_hash(key: &[u8], queues: u32) -> u32 {
    (java::hash(key) as i64 % queues as i64).unsigned_abs() as u32
}

fn check_topic(topic: &[u8]) -> Result<(), String> {
    let name = String::from_utf8_lossy(&topic[..topic.len().min(64)]).into_owned();
    if !names::is_topic(topic) {
        return Err(format!(
            "topic {name:?} is illegal: 1 to {} of the characters %|a-zA-Z0-9_-",
            names::MAX_TOPIC
        ));
    }
    if NO_SEND.contains(&topic) {
        return Err(format!(
            "topic {name} is the broker's own: clients do not send to it"
        ));
    }
    Ok(())
}

fn check_cells(cells: &Cells<'_>, settings: &Settings) -> Result<(), String> {
    let body = match cells.body {
        None => return Err("the body is null: a message needs one".into()),
        Some([]) => return Err("the body is empty: a message needs at least one byte".into()),
        Some(body) => body,
    };
    if body.len() > settings.max_message_size {
        return Err(format!(
            "the body has {} bytes, the limit is {} (maxMessageSize)",
            body.len(),
            settings.max_message_size
        ));
    }
    if let Some(id) = cells
        .queue_id
        .filter(|&id| !(0..=i32::MAX as i64).contains(&id))
    {
        return Err(format!("queueId {id} is no queue"));
    }
    if let Some(level) = cells
        .delay
        .filter(|&level| !(0..=i32::MAX as i64).contains(&level))
    {
        return Err(format!(
            "delayTimeLevel {level} is no delay level: 1 to 18, 0 for none"
        ));
    }
    if let Some(flag) = cells.flag.filter(|&flag| i32::try_from(flag).is_err()) {
        return Err(format!("flag {flag} is no number of 32 bits"));
    }
    Ok(())
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
