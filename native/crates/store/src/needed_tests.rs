use super::*;
use crate::config::FlushMode;
use crate::{StoreConfig, testing};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;

const FILE: u64 = 1 << 16;
const NOW: i64 = 1_700_000_000_000;

fn open(dir: &Path) -> Arc<Store> {
    let mut config = StoreConfig::new(dir);
    config.commit_log_file_size = FILE;
    config.max_message_size = 1 << 13;
    config.consume_queue_file_size = 20 * 64;
    config.index_enable = false;
    config.flush_mode = FlushMode::Sync;
    config.retention.interval = 0;
    config.retention.delete_interval = 0;
    config.retention.clean_forcibly = false;
    Store::open(config).unwrap()
}

/// Appends a message of so many bytes to queue 0 of a topic; where its record stands.
fn add(store: &Store, topic: &str, len: usize) -> u64 {
    let topic = store.topics().topic(topic.as_bytes()).unwrap();
    let mut guard = store.put().unwrap();
    let done = testing::append(&mut guard, &topic, b"", &vec![b'x'; len]);
    done.unwrap().phys
}

fn flush(store: &Store) {
    while store.barrier().flushed() < store.log().max_offset() {
        store.log_flusher().flush_here();
    }
}

fn done(rows: &[(&str, i64)]) -> Done {
    let of = |offset| DoneTo {
        queues: FxHashMap::from_iter([(0, offset)]),
        others: 0,
    };
    let rows = rows.iter().map(|(t, o)| (t.as_bytes().into(), of(*o)));
    rows.collect()
}

fn by(topic: &str) -> Option<(Box<[u8]>, u32)> {
    Some((topic.as_bytes().into(), 0))
}

#[test]
fn the_first_record_that_a_queue_needs() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let places: Vec<_> = (0..6)
        .map(|n| add(&store, ["A", "B"][n % 2], 100))
        .collect();
    flush(&store);
    let end = store.log().max_offset();
    let needed = |rows: &[(&str, i64)]| {
        let found = store.needed_from(&done(rows)).unwrap();
        (found.phys, found.by)
    };
    assert_eq!(needed(&[("A", 3), ("B", 3)]), (end, None));
    assert_eq!(needed(&[("A", 99), ("B", i64::MAX)]), (end, None));
    assert_eq!(needed(&[("A", 1), ("B", 3)]), (places[2], by("A")));
    assert_eq!(needed(&[("A", 2), ("B", 0)]), (places[1], by("B")));
    assert_eq!(needed(&[("A", 3), ("B", -7)]), (places[1], by("B")));
    assert_eq!(
        needed(&[("A", 3)]),
        (places[1], by("B")),
        "of B all is needed"
    );
    let others = |others| DoneTo {
        others,
        ..DoneTo::default()
    };
    let mut all = done(&[("A", 3)]);
    all.insert(b"B"[..].into(), others(1));
    assert_eq!(store.needed_from(&all).unwrap().phys, places[3]);
    all.insert(b"B"[..].into(), others(i64::MAX));
    assert_eq!(store.needed_from(&all).unwrap().by, None);
    // Messages of a topic that was deleted are nobody's.
    store.delete_topic(b"B").unwrap();
    assert_eq!(needed(&[("A", 3)]), (end, None));
    let place = add(&store, "B", 100);
    flush(&store);
    assert_eq!(needed(&[("A", 3)]), (place, by("B")));
    store.close().unwrap();
}

#[test]
fn what_is_not_on_disk_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = StoreConfig::new(dir.path());
    config.flush_mode = FlushMode::Async;
    config.flush_interval_commit_log = 3_600_000;
    let store = Store::open(config).unwrap();
    add(&store, "A", 100);
    let found = store.needed_from(&done(&[("A", 1)])).unwrap();
    assert_eq!((found.phys, found.by), (store.barrier().flushed(), None));
    assert!(found.phys < store.log().max_offset());
    store.close().unwrap();
}

#[test]
fn files_go_before_their_time_only_where_they_may() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    while store.log().max_offset() < 5 * FILE {
        add(&store, "A", 5000);
    }
    flush(&store);
    let cleaned = |to: u64| {
        store.reclaim_to(to);
        store.clean(NOW, true).unwrap().log_files
    };
    let now = crate::now_ms();
    assert_eq!(store.clean(now, true).unwrap().log_files, 0);
    assert_eq!(cleaned(FILE - 1), 0);
    assert_eq!(cleaned(FILE), 1);
    assert_eq!(cleaned(0), 0, "it is taken back");
    assert_eq!(cleaned(3 * FILE + FILE / 2), 2);
    assert_eq!(store.log().min_offset(), 3 * FILE);
    // Never the last one.
    let left = store.log().segments().len() - 1;
    assert_eq!(cleaned(u64::MAX), left);
    store.close().unwrap();
}

#[derive(Clone, Debug)]
enum Step {
    Add(usize, usize),
    Read(usize, i64),
    Clean,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..3usize, 500..5000usize).prop_map(|(topic, len)| Step::Add(topic, len)),
        3 => (0..3usize, -1..40i64).prop_map(|(topic, to)| Step::Read(topic, to)),
        1 => Just(Step::Clean),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is written and read: nothing goes that a reader has not read, and what all have read goes
    /// as far as whole files reach.
    #[test]
    fn nothing_goes_that_is_needed(steps in prop::collection::vec(step(), 1..200)) {
        const TOPICS: [&str; 3] = ["A", "B", "C"];
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let mut places: [Vec<u64>; 3] = Default::default();
        let mut read = [0i64; 3];
        for step in steps.into_iter().chain([Step::Clean]) {
            match step {
                Step::Add(topic, len) => places[topic].push(add(&store, TOPICS[topic], len)),
                // A reader may go back; what is gone then does not come again.
                Step::Read(topic, to) => read[topic] = to,
                Step::Clean => {
                    flush(&store);
                    let rows: Vec<_> = TOPICS.into_iter().zip(read).collect();
                    let first = (0..3)
                        .filter_map(|t| {
                            let gone = store.log().min_offset();
                            let read = read[t].max(0) as usize;
                            places[t].iter().skip(read).find(|place| **place >= gone).copied()
                        })
                        .min();
                    let found = store.needed_from(&done(&rows)).unwrap();
                    prop_assert_eq!(found.phys, first.unwrap_or(store.log().max_offset()));
                    prop_assert_eq!(found.by.is_some(), first.is_some());
                    store.reclaim_to(found.phys);
                    for _ in 0..40 {
                        store.clean(NOW, true).unwrap();
                    }
                    let begin = store.log().min_offset();
                    prop_assert!(begin <= found.phys);
                    let last = store.log().segments().last().map_or(0, |s| s.base());
                    prop_assert!(begin + FILE > found.phys || begin == last);
                }
            }
        }
        store.close().unwrap();
    }
}
