//! Writes the seed corpus: real frames, records, queue entries and files, each with some variety.
//!
//! `cargo run --example seeds [STORE]` in `native/fuzz`. With STORE, a folder that RocketMQ wrote,
//! some of its records and entries, its checkpoint and its start as a store are added.

mod frames;
mod stored;

use pyrmq_format::cq_entry::SIZE;
use pyrmq_format::record::{self, Found};
use std::fs::{self, create_dir_all, remove_dir_all};
use std::path::{Path, PathBuf};

const TIME: i64 = 1_700_000_000_000;
const PROPS: &[u8] =
    b"KEYS\x01order-42\x02TAGS\x01TagA\x02UNIQ_KEY\x01C0A8010A1F9018B4AAC247B760000000\x02";

/// The folder of the seeds, one below it for each target.
pub struct Corpus(PathBuf);

impl Corpus {
    fn add(&self, target: &str, name: &str, bytes: &[u8]) {
        let dir = self.0.join(target);
        create_dir_all(&dir).unwrap();
        fs::write(dir.join(name), bytes).unwrap();
    }
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let _ = remove_dir_all(&root);
    let corpus = Corpus(root);
    stored::records(&corpus);
    stored::segments(&corpus);
    stored::texts(&corpus);
    stored::files(&corpus);
    frames::headers(&corpus);
    frames::json(&corpus);
    frames::streams(&corpus);
    frames::signed(&corpus);
    frames::tls(&corpus);
    stored::indexes(&corpus);
    if let Some(store) = std::env::args_os().nth(1) {
        real_store(&corpus, Path::new(&store));
    }
}

/// First bytes of the first file of a folder.
fn start_of(dir: &Path, name: &str, len: usize) -> Option<Vec<u8>> {
    let mut bytes = fs::read(dir.join(name)).ok()?;
    bytes.truncate(len);
    Some(bytes)
}

fn real_store(corpus: &Corpus, store: &Path) {
    let log = start_of(&store.join("commitlog"), "00000000000000000000", 1 << 20)
        .expect("STORE has a commit log that starts at 0");
    let mut at = 0;
    for n in 0.. {
        let Found::Record(v) = record::read(&log[at..], true) else {
            break;
        };
        // Every seventh, as neighbours are alike.
        if n % 7 == 0 && n < 70 {
            corpus.add("record", &format!("real-{n:03}"), &log[at..at + v.total]);
            let props = &log[at..][v.props];
            if !props.is_empty() && n % 14 == 0 {
                corpus.add("properties", &format!("real-{n:03}"), props);
            }
        }
        at += v.total;
    }
    if let Some(point) = start_of(store, "checkpoint", 40) {
        corpus.add("checkpoint", "real", &point);
    }
    let mut topics: Vec<_> = fs::read_dir(store.join("consumequeue"))
        .expect("STORE has queues")
        .map(|e| e.unwrap().path())
        .collect();
    topics.sort();
    for (i, topic) in topics.iter().enumerate() {
        if let Some(row) = start_of(&topic.join("0"), "00000000000000000000", 10 * SIZE) {
            let tag = 2598919i32.to_be_bytes();
            let input = [&[1, 16][..], &tag, &row].concat();
            corpus.add("entries", &format!("real-{i}"), &input);
        }
    }
    corpus.add(
        "recover",
        "real",
        &[&[1, 0][..], &log[..4000.min(log.len())]].concat(),
    );
}
