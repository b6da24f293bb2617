//! What is put together is what it would be one by one, and wherever that is cut short, by an error, a
//! kill or a loss of power, the index is complete afterwards.

use super::*;
use crate::index::IndexConfig;
use crate::{Store, StoreConfig, testing};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Nearly all keys that are put together fall into the same slots, and files end among them.
const SLOTS: u32 = 3;
const ENTRIES: u32 = 11;
const LOG_FILE: u64 = 16 << 10;
/// Two of them have the same hash.
const KEYS: [&str; 6] = ["Aa", "BB", "c", "d", "e", "ffff"];

struct Rig {
    dir: tempfile::TempDir,
    log: Arc<CommitLog>,
    end: u64,
}

impl Rig {
    /// A log in which message `n` has the keys of these numbers. All have the same store time, as messages
    /// of a batch have.
    fn new(messages: &[Vec<usize>]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = config(dir.path());
        let store = Store::open(config.clone()).unwrap();
        let topic = store.topics().topic(b"T").unwrap();
        for keys in messages {
            let words: Vec<_> = keys.iter().map(|k| KEYS[k % KEYS.len()]).collect();
            let props = format!("KEYS\x01{}\x02", words.join(" "));
            testing::append(
                &mut store.put().unwrap(),
                &topic,
                props.as_bytes(),
                &[7; 300],
            )
            .unwrap();
        }
        let end = store.log().max_offset();
        store.close().unwrap();
        let log = Arc::new(CommitLog::open(&config).unwrap());
        log.set_max_offset(end);
        Rig { dir, log, end }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// An indexer whose index is in that folder, and not recovered yet.
    fn open(&self, name: &str) -> Indexer {
        let index = Index::open(IndexConfig {
            dir: self.path(name),
            slots: SLOTS,
            entries: ENTRIES,
        });
        let policy = (&config(self.dir.path())).into();
        let barrier = Arc::new(Barrier::new(policy, self.log.clone()).unwrap());
        Indexer::new(Arc::new(index.unwrap()), self.log.clone(), barrier)
    }

    fn new_index(&self, name: &str) -> Indexer {
        let indexer = self.open(name);
        indexer.recover(true, 0, self.end).unwrap();
        indexer
    }

    /// Hash, offset and time of all keys, in the order in which they are put.
    fn entries(&self) -> Vec<KeyEntry> {
        let (mut at, mut entries) = (self.log.min_offset(), Vec::new());
        while at < self.end {
            let (segment, start) = self.log.locate(at).unwrap();
            let bytes = segment.readable_from(start);
            let Found::Record(v) = record::read(bytes, true) else {
                at = segment.end();
                continue;
            };
            for key in message_keys(&bytes[v.props.clone()]) {
                entries.push(KeyEntry {
                    key_hash: key_hash(topic_seed(b"T"), key),
                    phys: at,
                    store_timestamp: v.store_timestamp,
                });
            }
            at += v.total as u64;
        }
        entries
    }

    /// Every message is found under each of its keys, newest first, and under no other.
    fn check_complete(&self, index: &Index) {
        let mut expected: BTreeMap<i32, Vec<u64>> = BTreeMap::new();
        for entry in self.entries() {
            let offsets = expected.entry(entry.key_hash).or_default();
            if offsets.last() != Some(&entry.phys) {
                offsets.push(entry.phys);
            }
        }
        for (hash, mut offsets) in expected {
            let mut found = index.query(hash, usize::MAX, 0, i64::MAX).unwrap();
            found.dedup(); // a message is indexed anew where the index ended in it
            offsets.reverse();
            assert_eq!(found, offsets, "{hash}");
        }
    }
}

fn config(root: &Path) -> StoreConfig {
    let mut config = StoreConfig::new(root);
    config.commit_log_file_size = LOG_FILE;
    config.max_message_size = LOG_FILE as usize / 2;
    config.consume_queue_file_size = 20 * 1000;
    config.index_enable = false;
    config.clock = || 1_700_000_000_000;
    config
}

fn files(dir: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    paths.sort();
    let read = |path: &PathBuf| std::fs::read(path).unwrap();
    paths.iter().map(read).collect()
}

/// Some messages with none, some with more keys than are put together or than a file has places.
fn many() -> Vec<Vec<usize>> {
    (0..120)
        .map(|n: usize| {
            (0..[0, 1, 2, 5, 1, 17, 3, 40][n % 8])
                .map(|k| n * 7 + k)
                .collect()
        })
        .collect()
}

#[test]
fn what_is_put_together_is_what_it_is_one_by_one() {
    let rig = Rig::new(&many());
    let (singly, together) = (rig.new_index("singly"), rig.new_index("together"));
    for e in rig.entries() {
        let put = singly.index.put(e.key_hash, e.phys, e.store_timestamp);
        put.unwrap();
    }
    together.index_some(rig.end).unwrap();
    assert_eq!(together.indexed(), rig.end);
    assert!(rig.log.segments().len() > 1 && together.index.len() > 50);
    assert!(files(&rig.path("singly")) == files(&rig.path("together")));
    rig.check_complete(&together.index);
}

#[test]
fn it_goes_on_where_it_was_whatever_it_saw_of_the_log() {
    let rig = Rig::new(&many());
    let at_once = rig.new_index("at-once");
    at_once.index_some(rig.end).unwrap();
    let bit_by_bit = rig.new_index("bit-by-bit");
    // Limits are mostly no ends of records.
    for limit in (0..rig.end).step_by(37) {
        bit_by_bit.index_some(limit).unwrap();
        let last = bit_by_bit.index.last_update().unwrap().1 as u64;
        assert!(last <= limit, "{last} is not confirmed at {limit}");
    }
    bit_by_bit.index_some(rig.end).unwrap();
    assert!(files(&rig.path("at-once")) == files(&rig.path("bit-by-bit")));
}

#[test]
fn what_cannot_be_put_is_tried_again_from_its_message_on() {
    let rig = Rig::new(&many());
    let entries = rig.entries();
    for put in [0, 5, 11, 30, 200] {
        let name = format!("index-{put}");
        let indexer = rig.new_index(&name);
        indexer.index_some(entries[put].phys).unwrap();
        // No file can be made in a folder that is none.
        let away = rig.path("away");
        let had_files = std::fs::rename(rig.path(&name), &away).is_ok();
        std::fs::write(rig.path(&name), b"").unwrap();
        indexer.index_some(rig.end).unwrap_err();
        let reached = indexer.indexed();
        assert!(entries.iter().any(|e| e.phys == reached), "{reached}");
        let found = indexer.index.last_update().unwrap().1 as u64;
        assert!(
            found <= reached,
            "{found} is in the index, {reached} reached"
        );
        assert!(indexer.index_some(rig.end).is_err() && indexer.indexed() == reached);

        std::fs::remove_file(rig.path(&name)).unwrap();
        if had_files {
            std::fs::rename(&away, rig.path(&name)).unwrap();
        }
        indexer.index_some(rig.end).unwrap();
        assert_eq!(indexer.indexed(), rig.end);
        rig.check_complete(&indexer.index);
    }
}

#[test]
fn files_of_the_log_that_are_deleted_meanwhile_are_left_out() {
    let rig = Rig::new(&many());
    let indexer = rig.new_index("index");
    let second = rig.log.segments()[1].base();
    for limit in [second / 2, second + 100] {
        indexer.index_some(limit).unwrap();
    }
    rig.log.remove_first().unwrap();
    rig.log.remove_first().unwrap();
    indexer.index_some(rig.end).unwrap();
    assert_eq!(indexer.indexed(), rig.end);
    let min = rig.log.min_offset();
    for e in rig.entries() {
        let found = indexer.index.query(e.key_hash, usize::MAX, 0, i64::MAX);
        assert!(e.phys >= min && found.unwrap().contains(&e.phys));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A kill, or a loss of power, behind any entry: of files that were not written to the disk some words
    /// are there and some are not, whatever the header says.
    #[test]
    fn after_any_end_the_index_is_complete(
        messages in prop::collection::vec(prop::collection::vec(0usize..99, 0..20), 1..30),
        put in any::<prop::sample::Index>(),
        flushed in any::<prop::sample::Index>(),
        lost in prop::option::of(prop::collection::vec(any::<bool>(), 1..60)),
    ) {
        let rig = Rig::new(&messages);
        let entries = rig.entries();
        prop_assume!(!entries.is_empty());
        let (put, mut on_disk) = (1 + put.index(entries.len()), Vec::new());
        let flushed = flushed.index(put);
        let indexer = rig.new_index("index");
        for (n, e) in entries[..put].iter().enumerate() {
            indexer.index.put(e.key_hash, e.phys, e.store_timestamp).unwrap();
            if n == flushed {
                indexer.index.flush(false).unwrap();
                on_disk = files(&rig.path("index"));
            }
        }
        let checkpoint = indexer.index.finished_time();
        drop(indexer);
        let mut paths: Vec<_> = std::fs::read_dir(rig.path("index")).unwrap()
            .map(|e| e.unwrap().path()).collect();
        paths.sort();
        let full = |bytes: &[u8]| bytes[36..40] == (ENTRIES as i32).to_be_bytes();
        for (n, path) in paths.iter().enumerate() {
            let Some(lost) = &lost else { break };
            if on_disk.get(n).is_some_and(|bytes| full(bytes)) {
                continue; // flushed
            }
            let mut bytes = std::fs::read(path).unwrap();
            for (i, word) in bytes.chunks_exact_mut(4).enumerate().skip(10) {
                if lost[i % lost.len()] {
                    word.fill(0);
                }
            }
            std::fs::write(path, bytes).unwrap();
        }

        let indexer = rig.open("index");
        indexer.recover(false, checkpoint, rig.end).unwrap();
        indexer.index_some(rig.end).unwrap();
        rig.check_complete(&indexer.index);
    }
}
