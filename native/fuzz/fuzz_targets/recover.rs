//! Opening a store whose files hold any bytes. Input: a byte of flags (1: it crashed, 2: a
//! checkpoint follows, 4: bodies are not checked), a byte n, n % 21 queue entries, 40 bytes of
//! checkpoint if there is one, and then the commit log, cut into files of 4096 bytes.
//!
//! - Opening says what is damaged or opens; it does not panic and does not read outside of a file.
//! - What it keeps can be looked up in every way without a panic, and what it gives out are bytes
//!   of the log.
//! - A store with an entry for every record and no other is found the same when it is opened again (a
//!   clean stop is trusted, so other damage may come to light then).
//! - A message put then is found at the end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrmq_format::checkpoint;
use pyrmq_format::host::Host;
use pyrmq_format::names::file_name;
use pyrmq_format::record::{self, Found};
use pyrmq_store::{
    ConsumeQueue, Content, GetStatus, Message, Store, StoreConfig, StoreError, TagFilter, Wait,
    Wanted,
};
use std::fs::{create_dir_all, write};
use std::path::Path;

const LOG_FILE: usize = 4096;
const QUEUE_FILE: usize = 20 * 20;
const MOST_FILES: usize = 3;

fuzz_target!(|data: &[u8]| {
    let [flags, n, rest @ ..] = data else { return };
    let dir = tempfile::tempdir().unwrap();
    make_files(dir.path(), *flags, *n, rest);
    let mut config = StoreConfig::new(dir.path());
    config.commit_log_file_size = LOG_FILE as u64;
    config.consume_queue_file_size = QUEUE_FILE as u64;
    config.check_crc_on_recover = flags & 4 == 0;
    (config.index_slots, config.index_entries) = (10, 30);
    config.flush_interval_commit_log = 60_000;
    config.flush_interval_consume_queue = 60_000;
    let first = match Store::open(config.clone()) {
        Ok(store) => look(&store),
        Err(StoreError::Damaged { .. }) => return,
        Err(e) => panic!("{e}"),
    };
    let store = match Store::open(config) {
        Err(StoreError::Damaged { .. }) if first.is_none() => return,
        again => again.expect("it was in order"),
    };
    let again = look_only(&store);
    if let Some(state) = first {
        assert_eq!(again, state);
    }
    put_one(&store);
    store.close().unwrap();
});

fn wanted(offset: i64, max_count: usize, tags: &[i32]) -> Wanted<'_> {
    Wanted {
        offset,
        max_count,
        max_bytes: 1 << 16,
        tags: TagFilter(tags),
        properties: None,
        bits: None,
        wait: Wait::ForDisk,
        learnt: None,
    }
}

fn make_files(root: &Path, flags: u8, n: u8, mut rest: &[u8]) {
    let (log, queue) = (root.join("commitlog"), root.join("consumequeue/T/0"));
    create_dir_all(&log).unwrap();
    let (entries, behind) = rest.split_at((n as usize % 21 * 20).min(rest.len()));
    rest = behind;
    if !entries.is_empty() {
        create_dir_all(&queue).unwrap();
        let mut file = entries.to_vec();
        file.resize(QUEUE_FILE, 0);
        write(queue.join(file_name(0)), file).unwrap();
    }
    if flags & 1 != 0 {
        write(root.join("abort"), "1").unwrap();
    }
    if flags & 2 != 0 {
        let (point, behind) = rest.split_at(rest.len().min(40));
        rest = behind;
        let mut file = point.to_vec();
        file.resize(checkpoint::SIZE, 0);
        write(root.join("checkpoint"), file).unwrap();
    }
    for (i, part) in rest.chunks(LOG_FILE).take(MOST_FILES).enumerate() {
        let mut file = part.to_vec();
        file.resize(LOG_FILE, 0);
        write(log.join(file_name((i * LOG_FILE) as u64)), file).unwrap();
    }
}

/// End of the log and the queues' bounds.
type State = (u64, Vec<(Vec<u8>, u32, i64, i64)>);

/// The state of a store that is sound, and closes it.
fn look(store: &Store) -> Option<State> {
    let state = look_only(store);
    let queues = store.topics().all_queues();
    let entries: i64 = queues.iter().map(|q| q.max_offset() - q.min_offset()).sum();
    let sound = records(store) == Some(entries) && queues.iter().all(|q| is_sound(store, q));
    store.close().unwrap();
    sound.then_some(state)
}

/// Number of records in the log, None unless one stands behind the other up to its end.
fn records(store: &Store) -> Option<i64> {
    let (log, mut at, mut count) = (store.log(), 0, 0);
    while at < log.max_offset() {
        let (segment, place) = log.locate(at)?;
        match record::read(segment.readable_from(place), true) {
            Found::Blank => at = log.next_file_start(at),
            Found::Record(v) if v.phys as u64 == at => {
                at += v.total as u64;
                count += 1;
            }
            _ => return None,
        }
    }
    (at == log.max_offset()).then_some(count)
}

/// Whether every entry is that of a record, in their order.
fn is_sound(store: &Store, queue: &ConsumeQueue) -> bool {
    let mut last = -1;
    (queue.min_offset()..queue.max_offset()).all(|offset| {
        let Some(e) = queue.entry(offset).unwrap() else {
            return false;
        };
        let e = e.cq;
        let place = u64::try_from(e.phys)
            .ok()
            .and_then(|p| store.log().locate(p));
        let found = place.map(|(s, at)| record::read(s.readable_from(at), true));
        let fits = matches!(found, Some(Found::Record(v)) if v.total as i32 == e.size
            && v.queue_offset == offset && v.queue_id == queue.queue_id() as i32);
        let rises = e.phys > last;
        last = e.phys;
        fits && rises
    })
}

fn look_only(store: &Store) -> State {
    let mut queues = Vec::new();
    for topic in store.topics().all() {
        for queue in topic.queues() {
            let (min, max) = (queue.min_offset(), queue.max_offset());
            assert!(0 <= min && min <= max);
            for offset in [min, max - 1, max, min - 1, 0, i64::MAX, i64::MIN] {
                let got = store.get(Some(&queue), &wanted(offset, 32, &[])).unwrap();
                assert_eq!(got.status == GetStatus::Found, got.count > 0);
                assert!(got.next >= 0);
                let held: usize = got.chunks.iter().map(|c| c.len).sum();
                assert_eq!(held, got.bytes);
                for c in &got.chunks {
                    assert!(c.segment.bytes(c.at, c.len).is_some());
                }
            }
            for time in [i64::MIN, 0, 1_700_000_000_000, i64::MAX] {
                for upper in [false, true] {
                    let at = store.offset_by_time(&queue, time, upper).unwrap();
                    assert!(min <= at && at <= max);
                }
            }
            store.earliest_time(&queue).unwrap();
            if max > 0 {
                queues.push((topic.name().to_vec(), queue.queue_id(), min, max));
            }
        }
    }
    queues.sort();
    let end = store.log().max_offset();
    for phys in [0, 1, end.saturating_sub(1), end, u64::MAX] {
        store.record_at(phys).unwrap();
    }
    (end, queues)
}

fn put_one(store: &Store) {
    let topic = store.topics().topic(b"T").unwrap();
    let message = Message {
        topic: &topic,
        queue_id: 0,
        sys_flag: 0,
        born_timestamp: 1,
        born_host: Host::new("127.0.0.1:5".parse().unwrap()),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    };
    let content = Content {
        flag: 0,
        body: b"body",
        props: [b"TAGS\x01TagA\x02", b"", b"", b""],
        tags_code: 2598919,
        count: 1,
    };
    let done = store.put().unwrap().append(&message, &content).unwrap();
    let queue = topic.existing_queue(0).unwrap();
    assert_eq!(queue.max_offset(), done.queue_offset + 1);
    let got = store
        .get(Some(&queue), &wanted(done.queue_offset, 1, &[2598919]))
        .unwrap();
    assert_eq!((got.status, got.count), (GetStatus::Found, 1));
    let c = &got.chunks[0];
    let bytes = c.segment.bytes(c.at, c.len).unwrap();
    let Found::Record(v) = record::read(bytes, true) else {
        panic!("not what was put")
    };
    assert_eq!(&bytes[v.body], b"body");
    assert_eq!(v.phys as u64, done.phys);
}
