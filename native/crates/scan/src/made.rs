//! Small stores for the tests, and what is in them.

use super::plan::plan;
use super::{LocalPlaces, Notes, Request, SegmentStore, Task, open_stores};
use pyrmq_format::cq_entry::{CqEntry, Entry, Layout};
use pyrmq_format::host::Host;
use pyrmq_format::index::{key_hash, topic_seed};
use pyrmq_format::java;
use pyrmq_format::names::file_name;
use pyrmq_format::record::{self, BLANK_LEN, Head, sys_flag};
use pyrmq_store::{Index, IndexConfig};
use std::collections::BTreeMap;
use std::path::Path;

pub const LOG_FILE: usize = 2048;
/// Entries of a queue's file.
pub const PER_FILE: usize = 8;

/// What is stored, one record each.
#[derive(Clone, Debug)]
pub struct Put {
    pub topic: &'static str,
    pub queue: i32,
    pub tag: Option<&'static str>,
    pub key: Option<&'static str>,
    pub body: usize,
    pub time: i64,
    /// Messages of an inner batch; 0: a plain record.
    pub inner: usize,
}

impl Put {
    pub fn new(topic: &'static str, queue: i32) -> Self {
        Put {
            topic,
            queue,
            tag: None,
            key: None,
            body: 20,
            time: 0,
            inner: 0,
        }
    }
}

/// A message as it stands in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub topic: &'static str,
    pub queue: i32,
    pub offset: i64,
    pub phys: u64,
    pub size: u64,
    pub time: i64,
    pub tag: Option<&'static str>,
    pub key: Option<&'static str>,
}

/// How a store is made.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// The last records have no queue entries yet.
    pub undispatched: usize,
    /// So many log files are deleted, with the queue files that lead only there.
    pub deleted: usize,
    /// Queue offset of the first message of each queue.
    pub first_offset: u64,
    /// Keys are indexed, but for those of the last records and without inner batches.
    pub index: bool,
}

pub struct Made {
    pub store: SegmentStore,
    /// Those in the log, in its order.
    pub rows: Vec<Row>,
    pub log_end: u64,
    pub dir: tempfile::TempDir,
}

#[derive(Default)]
struct QueueFile {
    batch: bool,
    next: i64,
    entries: Vec<Entry>,
}

pub fn make(puts: &[Put], way: &Way) -> Made {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let mut log: Vec<u8> = Vec::new();
    let mut at = 0;
    let mut rows: Vec<Row> = Vec::new();
    let mut queues: BTreeMap<(&str, i32), QueueFile> = BTreeMap::new();
    for (number, put) in puts.iter().enumerate() {
        let queue = queues.entry((put.topic, put.queue)).or_insert_with(|| {
            let first = way.first_offset;
            QueueFile {
                batch: put.inner > 0,
                next: first as i64,
                // The first file is filled up to its first entry.
                entries: match put.inner > 0 {
                    true => Vec::new(),
                    false => (0..first % PER_FILE as u64).map(|_| blank()).collect(),
                },
            }
        });
        let offset = queue.next;
        let mut one = encode(put, at, offset);
        let left = LOG_FILE - at % LOG_FILE;
        if one.len() + BLANK_LEN > left {
            log.resize(at + left, 0);
            log[at..at + BLANK_LEN].copy_from_slice(&record::blank(left));
            at += left;
            one = encode(put, at, offset);
        }
        log.resize(at, 0);
        log.extend_from_slice(&one);
        let count = put.inner.max(1) as i64;
        for message in 0..count {
            rows.push(Row {
                topic: put.topic,
                queue: put.queue,
                offset: offset + message,
                phys: at as u64,
                size: one.len() as u64,
                time: put.time,
                tag: put.tag,
                key: put.key,
            });
        }
        queue.next += count;
        if number + way.undispatched < puts.len() {
            queue.entries.push(Entry {
                cq: CqEntry {
                    phys: at as i64,
                    size: one.len() as i32,
                    tags_code: java::tag_code(put.tag.map(str::as_bytes)),
                },
                base: offset,
                count: count as i32,
                store_time: put.time,
            });
        }
        at += one.len();
    }
    let log_end = at as u64;
    let files = log.len().div_ceil(LOG_FILE).max(1);
    let deleted = way.deleted.min(files - 1);
    let log_start = (deleted * LOG_FILE) as u64;
    log.resize(files * LOG_FILE, 0);
    let folder = root.join("commitlog");
    std::fs::create_dir_all(&folder).unwrap();
    for (number, piece) in log.chunks(LOG_FILE).enumerate().skip(deleted) {
        let name = file_name((number * LOG_FILE) as u64);
        std::fs::write(folder.join(name), piece).unwrap();
    }
    std::fs::create_dir_all(root.join("consumequeue")).unwrap();
    for ((topic, id), queue) in &queues {
        write_queue(root, topic, *id, queue, log_start, way.first_offset);
    }
    if way.index {
        let last = rows.iter().map(|row| row.phys).rev().nth(way.undispatched);
        write_index(&root.join("index"), &rows, last.unwrap_or(0));
    }
    rows.retain(|row| row.phys >= log_start);
    let paths = [root.to_string_lossy().into_owned()];
    let names = ["b".to_owned()];
    let stores = open_stores(&paths, &names, &LocalPlaces, &Notes::default()).unwrap();
    Made {
        store: stores.into_iter().next().unwrap(),
        rows,
        log_end,
        dir,
    }
}

fn blank() -> Entry {
    Entry {
        cq: CqEntry::PRE_BLANK,
        base: 0,
        count: 1,
        store_time: 0,
    }
}

/// Files without a message in the log are deleted, but never the last one.
fn write_queue(root: &Path, topic: &str, id: i32, queue: &QueueFile, start: u64, first: u64) {
    let (folder, layout) = match queue.batch {
        true => ("batchconsumequeue", Layout::Batch),
        false => ("consumequeue", Layout::Simple),
    };
    let folder = root.join(folder).join(topic).join(id.to_string());
    std::fs::create_dir_all(&folder).unwrap();
    let begin = match queue.batch {
        true => 0,
        false => first / PER_FILE as u64,
    };
    let files: Vec<&[Entry]> = queue.entries.chunks(PER_FILE).collect();
    for (number, entries) in files.iter().enumerate() {
        let is_last = number + 1 == files.len();
        if !is_last && entries.iter().all(|e| (e.cq.phys as u64) < start) && start > 0 {
            continue;
        }
        let mut bytes = vec![0; PER_FILE * layout.unit()];
        for (entry, to) in entries.iter().zip(bytes.chunks_mut(layout.unit())) {
            layout.write(entry, to);
        }
        let base = (begin + number as u64) * bytes.len() as u64;
        std::fs::write(folder.join(file_name(base)), bytes).unwrap();
    }
}

fn encode(put: &Put, phys: usize, offset: i64) -> Vec<u8> {
    let host = Host::new("127.0.0.1:10911".parse().unwrap());
    let mut props = Vec::new();
    for (name, value) in [("TAGS", put.tag), ("KEYS", put.key)] {
        if let Some(value) = value {
            props.extend_from_slice(format!("{name}\x01{value}\x02").as_bytes());
        }
    }
    let body = match put.inner {
        0 => vec![b'x'; put.body],
        inner => child(&props, put.body).repeat(inner),
    };
    let number = format!("INNER_NUM\x01{}\x02", put.inner);
    let outer = match put.inner {
        0 => &props[..],
        _ => number.as_bytes(),
    };
    let topic = put.topic.as_bytes();
    let len = record::encoded_len(&host, &host, body.len(), topic.len(), outer.len());
    let mut out = vec![0; len];
    let head = Head {
        queue_id: put.queue,
        flag: 0,
        queue_offset: offset,
        phys: phys as u64,
        sys_flag: if put.inner > 0 {
            sys_flag::INNER_BATCH
        } else {
            0
        },
        born_timestamp: put.time - 1,
        born_host: host,
        store_timestamp: put.time,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    };
    record::encode(&mut out, &head, topic, &body, &[outer]);
    out
}

fn write_index(dir: &Path, rows: &[Row], last: u64) {
    let cfg = IndexConfig {
        dir: dir.to_owned(),
        slots: 16,
        entries: 256,
    };
    let index = Index::open(cfg).unwrap();
    index.recover(true, 0).unwrap();
    for row in rows.iter().filter(|row| row.phys <= last) {
        for word in row
            .key
            .unwrap_or("")
            .split(' ')
            .filter(|word| !word.is_empty())
        {
            let hash = key_hash(topic_seed(row.topic.as_bytes()), word.as_bytes());
            index.put(hash, row.phys, row.time).unwrap();
        }
    }
    index.flush(true).unwrap();
}

/// A message in an inner batch.
fn child(props: &[u8], body: usize) -> Vec<u8> {
    let size = 22 + body + props.len();
    let mut out = Vec::with_capacity(size);
    for number in [size as i32, 0, 0, 0, body as i32] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.resize(20 + body, b'y');
    out.extend_from_slice(&(props.len() as i16).to_be_bytes());
    out.extend_from_slice(props);
    out
}

/// A store of records with bodies of different lengths; `queues` in turns, one of ten is `rare`.
pub fn mixed(rows: usize, queues: usize) -> Made {
    let put = |n: usize| Put {
        body: n * 7 % 90,
        ..Put::new(if n % 10 == 3 { "rare" } else { "A" }, (n % queues) as i32)
    };
    make(&(0..rows).map(put).collect::<Vec<_>>(), &Way::default())
}

/// One task that reads everything.
pub fn task(made: &Made, change: impl FnOnce(&mut Request)) -> Task {
    let mut request = Request {
        paths: vec![made.store.root.clone()],
        broker_names: vec!["b".to_owned()],
        ..Request::default()
    };
    request.how.batch_rows = 10;
    change(&mut request);
    let found = plan(&request, &LocalPlaces, &Notes::default()).unwrap();
    assert_eq!(found.tasks.len(), 1);
    found.tasks.into_iter().next().unwrap()
}
