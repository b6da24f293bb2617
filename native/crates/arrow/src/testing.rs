//! Logs of small files that hold anything, for the tests.

use super::*;
use arrow_array::RecordBatch;
use pyrmq_format::host::Host;
use pyrmq_format::names::file_name;
use pyrmq_format::record::{self, BLANK_LEN, Head};
use std::sync::Arc;

pub const FILE: usize = 2048;

#[derive(Clone)]
pub struct Sent {
    pub topic: &'static [u8],
    pub body: Vec<u8>,
    pub props: Vec<u8>,
    pub sys_flag: i32,
    pub queue_offset: i64,
}

impl Sent {
    pub fn plain(body: Vec<u8>) -> Self {
        Sent {
            topic: b"T",
            body,
            props: b"TAGS\x01a\x02".to_vec(),
            sys_flag: 0,
            queue_offset: 0,
        }
    }

    pub fn record(&self, phys: usize) -> Vec<u8> {
        let host = Host::new("127.0.0.1:10911".parse().unwrap());
        let len = record::encoded_len(
            &host,
            &host,
            self.body.len(),
            self.topic.len(),
            self.props.len(),
        );
        let mut out = vec![0; len];
        let head = Head {
            queue_id: 3,
            flag: 7,
            queue_offset: self.queue_offset,
            phys: phys as u64,
            sys_flag: self.sys_flag,
            born_timestamp: 1,
            born_host: host,
            store_timestamp: 2 + phys as i64,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
        };
        record::encode(&mut out, &head, self.topic, &self.body, &[&self.props]);
        out
    }
}

/// A log, where its records start, and where it ends.
pub struct Log {
    pub bytes: Vec<u8>,
    pub starts: Vec<usize>,
    pub end: usize,
}

pub fn log(files: usize, messages: impl Iterator<Item = Sent>) -> Log {
    let (mut bytes, mut starts, mut at) = (vec![0; files * FILE], Vec::new(), 0);
    for sent in messages {
        let mut one = sent.record(at);
        let left = FILE - at % FILE;
        if one.len() + BLANK_LEN > left {
            if at + left >= bytes.len() {
                break;
            }
            bytes[at..at + BLANK_LEN].copy_from_slice(&record::blank(left));
            at += left;
            one = sent.record(at);
        }
        bytes[at..at + one.len()].copy_from_slice(&one);
        starts.push(at);
        at += one.len();
    }
    let end = at;
    Log { bytes, starts, end }
}

/// Messages whose bodies hold bare magics and whole records that stood elsewhere.
pub fn tricky() -> impl Iterator<Item = Sent> {
    (0usize..).map(|i| {
        Sent::plain(match i % 4 {
            0 => vec![b'x'; i * 37 % 300],
            1 => Sent::plain(vec![b'y'; 40]).record(i * 11),
            2 => b"\xda\xa3\x20\xa7\xcb\xd4\x31\x94".repeat(i % 9),
            _ => Vec::new(),
        })
    })
}

pub struct Disk {
    pub file_set: FileSet,
    _dir: tempfile::TempDir,
}

pub fn disk(bytes: &[u8]) -> Disk {
    let dir = tempfile::tempdir().unwrap();
    let files = bytes.chunks(FILE).enumerate().map(|(i, piece)| {
        let base = (i * FILE) as u64;
        let path = dir.path().join(file_name(base));
        std::fs::write(&path, piece).unwrap();
        let (len, path) = (piece.len() as u64, path.to_string_lossy().into_owned());
        LogFile { base, len, path }
    });
    let file_set = FileSet::new(files.collect(), Arc::new(Small)).unwrap();
    Disk {
        file_set,
        _dir: dir,
    }
}

/// Local files, read a few bytes at a time, so that whatever is looked for crosses such a step.
struct Small;

impl Open for Small {
    fn open(&self, path: &str) -> std::io::Result<Box<dyn ReadAt>> {
        OpenLocal.open(path)
    }

    fn step(&self) -> usize {
        50
    }
}

pub fn settings(columns: &[Column]) -> Settings {
    Settings {
        columns: columns.to_vec(),
        form: PropertiesForm::Map,
        body: BodyForm::Binary,
        broker: "b".to_owned(),
        decompress: true,
        verify: Verify::All,
        skip: true,
        batch_rows: 7,
        batch_bytes: 1 << 20,
        views: false,
    }
}

pub fn reader(file_set: &FileSet, range: (u64, u64), log_end: u64, settings: Settings) -> Reader {
    let source = RecordSource::Range {
        file_set: file_set.clone(),
        range,
        log_end,
        exact: range.0 == 0,
    };
    Reader::new(source, Selection::new(None), settings).unwrap()
}

pub fn batches(reader: &mut Reader) -> Vec<RecordBatch> {
    std::iter::from_fn(|| reader.next_batch().unwrap()).collect()
}
