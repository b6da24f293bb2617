//! One writer, many readers: what a reader gets is what was written and stays so, whatever happens
//! to the store and its files. Worth most under a sanitizer, see `scripts/sanitize.sh`.

use super::*;
use pyrmq_format::host::Host;
use pyrmq_format::properties;
use pyrmq_format::record::{self, Found};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

const QUEUES: u32 = 3;
const MESSAGES: usize = 3000;
const TOPIC: &[u8] = b"TopicTest";

fn config(root: PathBuf, flush_mode: FlushMode) -> StoreConfig {
    let mut cfg = StoreConfig::new(root);
    cfg.commit_log_file_size = 64 << 10;
    cfg.consume_queue_file_size = 20 * 64;
    cfg.flush_mode = flush_mode;
    cfg.flush_interval_commit_log = 1;
    cfg.flush_interval_consume_queue = 1;
    // Few mappings and small index files, so that both come and go.
    cfg.max_mapped_queue_files = 4;
    (cfg.index_slots, cfg.index_entries) = (100, 500);
    cfg.retention.batch_max = 1;
    cfg.retention.delete_interval = 0;
    cfg
}

/// The body of message `n`: every length up to 1500, no two alike.
fn body(n: usize) -> Vec<u8> {
    let len = 4 + n * 37 % 1500;
    (0..len).map(|i| (i * 31 + n * 7 + n / 256) as u8).collect()
}

fn key(n: usize) -> String {
    format!("key-{n}")
}

fn put(store: &Store, topic: &Arc<Topic>, n: usize) {
    let message = Message {
        topic,
        queue_id: n as u32 % QUEUES,
        sys_flag: 0,
        born_timestamp: n as i64,
        born_host: Host::new("127.0.0.1:5".parse().unwrap()),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    };
    let key = key(n);
    let content = Content {
        flag: n as i32,
        body: &body(n),
        props: [b"KEYS\x01", key.as_bytes(), b"\x02", b""],
        tags_code: 0,
        count: 1,
    };
    store.put().unwrap().append(&message, &content).unwrap();
}

/// Checks every record of a chunk; their numbers.
fn check(chunk: &Chunk) -> Vec<usize> {
    let mut rest = chunk.segment.bytes(chunk.at, chunk.len).expect("readable");
    let mut seen = Vec::new();
    while !rest.is_empty() {
        let Found::Record(v) = record::read(rest, true) else {
            panic!("no record in a chunk");
        };
        let n = v.flag as usize;
        assert_eq!(rest[v.body], body(n), "body of message {n}");
        assert_eq!(v.queue_id as usize, n % QUEUES as usize);
        assert_eq!(v.queue_offset as usize, n / QUEUES as usize);
        let keys = properties::find(&rest[v.props], b"KEYS");
        assert_eq!(keys, Some(key(n).as_bytes()));
        seen.push(n);
        rest = &rest[v.total..];
    }
    seen
}

/// Ends all threads when the test is over, however it ends.
struct Stop(AtomicBool);

impl Stop {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Sets it on drop.
struct StopAtEnd<'a>(&'a Stop);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Release);
    }
}

/// What the threads share.
struct Shared<'a> {
    store: &'a Store,
    topic: &'a Arc<Topic>,
    stop: &'a Stop,
    /// How far in the log each queue was read.
    read_to: [AtomicU64; QUEUES as usize],
    removed: AtomicUsize,
}

/// Reads a queue to its last message and keeps every fifth result.
fn follow(shared: &Shared<'_>, id: u32) -> Vec<Chunk> {
    let queue = shared.topic.queue(id).unwrap();
    let (mut offset, mut rounds, mut kept) = (0, 0, Vec::new());
    let mut seen = HashSet::new();
    while seen.len() < MESSAGES / QUEUES as usize {
        let got = shared
            .store
            .get(Some(&queue), &testing::all_from(offset))
            .unwrap();
        if got.status != GetStatus::Found {
            use GetStatus::{MessageWasRemoving, OffsetTooSmall};
            assert!(!matches!(got.status, MessageWasRemoving | OffsetTooSmall));
            assert!(!shared.stop.is_set(), "the test gave up");
            thread::yield_now();
            continue;
        }
        let before = seen.len();
        seen.extend(got.chunks.iter().flat_map(check));
        assert_eq!(seen.len() - before, got.count, "a message came twice");
        offset = got.next;
        let last = got.chunks.last().expect("something was found");
        let end = last.segment.base() + (last.at + last.len) as u64;
        shared.read_to[id as usize].store(end, Ordering::Release);
        rounds += 1;
        if rounds % 5 == 0 {
            kept.extend(got.chunks);
        }
    }
    shared.read_to[id as usize].store(u64::MAX, Ordering::Release);
    kept
}

/// Reads at random places, deleted ones too, until the test stops.
fn read_randomly(shared: &Shared<'_>) -> Vec<Chunk> {
    let store = shared.store;
    let mut kept = Vec::new();
    let mut n = 1usize;
    while !shared.stop.is_set() {
        n = n
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let queue = shared.topic.queue((n >> 33) as u32 % QUEUES).unwrap();
        let max = queue.max_offset();
        if max == 0 {
            thread::yield_now();
            continue;
        }
        // Every other time the newest one, which the writer has only just let go.
        let offset = if n >> 40 & 1 == 0 {
            max - 1
        } else {
            (n >> 20) as i64 % max
        };
        let Some(entry) = queue.entry(offset).unwrap() else {
            let first = queue.files().first().unwrap_or(0) / 20;
            assert!((offset as u64) < first, "an entry is missing");
            continue;
        };
        let (phys, size) = (entry.cq.phys as u64, entry.cq.size as usize);
        match store.record_at(phys).unwrap_or(None) {
            Some(chunk) => {
                assert_eq!((chunk.len, check(&chunk).len()), (size, 1));
                kept.push(chunk);
                kept.truncate(200);
            }
            None => {
                let gone = phys < store.log().min_offset();
                let hidden = store.is_sync() || store.is_closed();
                assert!(gone || hidden, "an entry without its record");
            }
        }
        if let Ok(at) = store.offset_by_time(&queue, i64::MAX, true) {
            assert!((0..queue.max_offset()).contains(&at));
        }
        let number = n >> 10 & 0xFFF;
        let wanted = key(number);
        if let Ok(found) = store.query_message(TOPIC, wanted.as_bytes(), 32, 0, i64::MAX) {
            assert!(found.chunks.len() <= 1);
            kept.extend(found.chunks.into_iter().inspect(|c| {
                assert_eq!(check(c), [number]);
            }));
        }
        store.stats();
    }
    kept
}

/// Retention: deletes files that were read, while others still read them.
fn clean(shared: &Shared<'_>) {
    let much_later = now_ms() + (1 << 40);
    while !shared.stop.is_set() {
        let read = |at: &AtomicU64| at.load(Ordering::Acquire);
        let read_to = shared.read_to.iter().map(read).min().unwrap();
        let first = shared.store.log().segments().first().map(|s| s.end());
        if first.is_none_or(|end| end > read_to) {
            thread::yield_now();
            continue;
        }
        match shared.store.clean(much_later, true) {
            Ok(done) => {
                shared.removed.fetch_add(done.log_files, Ordering::Relaxed);
                thread::yield_now();
            }
            Err(e) => assert!(shared.store.is_closed(), "{e}"),
        }
    }
}

fn write_and_read(flush_mode: FlushMode) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(config(dir.path().into(), flush_mode)).unwrap();
    let topic = store.topics().topic(TOPIC).unwrap();
    let stop = Stop(AtomicBool::new(false));
    let shared = Shared {
        store: &store,
        topic: &topic,
        stop: &stop,
        read_to: Default::default(),
        removed: AtomicUsize::new(0),
    };
    let kept = thread::scope(|scope| {
        let shared = &shared;
        let at_end = StopAtEnd(shared.stop);
        let readers: Vec<_> = (0..QUEUES)
            .map(|id| scope.spawn(move || follow(shared, id)))
            .collect();
        let random = scope.spawn(move || read_randomly(shared));
        scope.spawn(move || clean(shared));
        for n in 0..MESSAGES {
            put(shared.store, shared.topic, n);
        }
        let mut kept: Vec<Chunk> = readers
            .into_iter()
            .flat_map(|r| r.join().unwrap())
            .collect();
        // One reader is still at it.
        shared.store.close().unwrap();
        drop(at_end);
        kept.extend(random.join().unwrap());
        kept
    });
    let removed = shared.removed.into_inner();
    assert!(removed > 5, "only {removed} files were removed");
    assert!(kept.len() > 50);
    let lowest = kept.iter().map(|c| c.segment.base()).min().unwrap();
    assert!(lowest < store.log().min_offset(), "nothing deleted is kept");
    let queue = topic.queue(0).unwrap();
    assert!(store.get(Some(&queue), &testing::all_from(0)).is_err());
    // The store and its last file are gone; what was given out stays.
    drop((topic, queue, store));
    dir.close().unwrap();
    let total: usize = kept.iter().map(|c| check(c).len()).sum();
    assert!(total >= kept.len());
}

#[test]
fn readers_see_what_was_written_async_flush() {
    write_and_read(FlushMode::Async);
}

#[test]
fn readers_see_what_was_written_sync_flush() {
    write_and_read(FlushMode::Sync);
}
