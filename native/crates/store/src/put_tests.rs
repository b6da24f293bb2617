//! What is staged, what a write makes of it, and what one that fails leaves.

use super::*;
use crate::config::FlushMode;
use crate::{GetStatus, Outcome, Store, StoreConfig, testing};

const TOPIC: &[u8] = b"Orders";
const FILE: u64 = 1 << 20;

fn open(dir: &std::path::Path, mode: FlushMode) -> Arc<Store> {
    let mut config = StoreConfig::new(dir);
    config.commit_log_file_size = FILE;
    config.max_message_size = FILE as usize - 4096;
    config.consume_queue_file_size = 20 * 64;
    (config.index_slots, config.index_entries) = (50, 500);
    config.flush_mode = mode;
    Store::open(config).unwrap()
}

fn append(guard: &mut PutGuard<'_>, topic: &Arc<Topic>, body: &[u8]) -> Result<Appended> {
    testing::append(guard, topic, b"a\x01b\x02", body)
}

/// The bodies that a consumer gets from queue 0, from its start.
fn bodies(store: &Store) -> Vec<Vec<u8>> {
    let queue = store.topics().get(TOPIC).unwrap().queue(0).unwrap();
    let mut found = Vec::new();
    let mut offset = 0;
    loop {
        let got = store.get(Some(&queue), &testing::all_from(offset)).unwrap();
        if got.status != GetStatus::Found {
            return found;
        }
        offset = got.next;
        for chunk in got.chunks {
            let mut bytes = chunk.segment.bytes(chunk.at, chunk.len).unwrap();
            while !bytes.is_empty() {
                let record::Found::Record(v) = record::read(bytes, true) else {
                    panic!("no record");
                };
                found.push(bytes[v.body.clone()].to_vec());
                bytes = &bytes[v.total..];
            }
        }
    }
}

/// The next write goes to a file that is not open for writing.
fn break_writes(store: &Store) -> Option<File> {
    let mut position = store.writer().position.lock();
    let path = position.segment.as_ref().unwrap().path().to_path_buf();
    position.file.replace(File::open(path).unwrap())
}

#[test]
fn what_is_staged_is_seen_by_nobody_until_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), FlushMode::Async);
    let topic = store.topics().topic(TOPIC).unwrap();
    store.notify_on_arrival(TOPIC, 0).unwrap();
    let mut offsets = Vec::new();
    for n in 0..3u8 {
        let mut guard = store.put().unwrap();
        let done = append(&mut guard, &topic, &[n; 10]).unwrap();
        offsets.push(done.queue_offset);
        guard.keep_staged();
        drop(guard);
        assert!(!store.barrier().is_confirmed(done.end()));
        assert!(store.record_at(done.phys).unwrap().is_none());
    }
    assert_eq!(offsets, [0, 1, 2]);
    assert_eq!((store.log().max_offset(), bodies(&store)), (0, vec![]));
    assert_eq!(topic.queue(0).unwrap().max_offset(), 0);
    assert!(!store.has_arrivals());
    let end = store.write_staged(|end| end).unwrap();
    assert!(end > 0 && store.barrier().is_confirmed(end));
    assert_eq!(bodies(&store), [[0; 10], [1; 10], [2; 10]]);
    assert!(store.has_arrivals());
    store.close().unwrap();
}

#[test]
fn another_put_writes_what_was_left_staged_before_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), FlushMode::Async);
    let topic = store.topics().topic(TOPIC).unwrap();
    let mut guard = store.put().unwrap();
    append(&mut guard, &topic, b"one").unwrap();
    guard.keep_staged();
    drop(guard);
    append(&mut store.put().unwrap(), &topic, b"two").unwrap();
    assert_eq!(bodies(&store), [b"one", b"two"]);
    let mut guard = store.put().unwrap();
    append(&mut guard, &topic, b"end").unwrap();
    guard.keep_staged();
    drop(guard);
    store.close().unwrap();
    let store = open(dir.path(), FlushMode::Async);
    assert_eq!(bodies(&store), [b"one", b"two", b"end"]);
    store.close().unwrap();
}

#[test]
fn large_ones_and_many_files() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), FlushMode::Async);
    let topic = store.topics().topic(TOPIC).unwrap();
    let sizes = [
        10,
        staging::LIMIT - 500,
        100,
        staging::LIMIT * 3,
        1,
        200_000,
        5,
    ];
    let mut sent = Vec::new();
    for round in 0..5u8 {
        let mut guard = store.put().unwrap();
        for size in sizes {
            sent.push(vec![round; size]);
            append(&mut guard, &topic, &sent[sent.len() - 1]).unwrap();
        }
    }
    assert!(store.log().segments().len() > 4);
    assert!(bodies(&store) == sent);
    store.close().unwrap();
    let store = open(dir.path(), FlushMode::Async);
    assert!(bodies(&store) == sent);
    store.close().unwrap();
}

#[test]
fn a_write_that_fails_refuses_and_the_next_one_makes_up_for_it() {
    for mode in [FlushMode::Async, FlushMode::Sync] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), mode);
        let topic = store.topics().topic(TOPIC).unwrap();
        append(&mut store.put().unwrap(), &topic, b"one").unwrap();
        let file = break_writes(&store);
        let done = append(&mut store.put().unwrap(), &topic, b"two").unwrap();
        let outcome = || store.barrier().outcome(done.end(), 0, 5000);
        assert_eq!(outcome(), Outcome::NotWritten);
        assert!(store.barrier().unwritten().is_some());
        assert!(store.put().is_err(), "it is tried again, and refused");
        assert!(store.write_staged(|_| ()).is_err());
        store.writer().position.lock().file = file;
        assert!(store.put().is_err(), "not again so soon");
        store.writer().retry_now();
        let event = store.barrier().event_fd();
        let signalled = || rustix::io::read(event, &mut [0; 8]) == Ok(8);
        assert!(signalled(), "that it failed");
        let three = append(&mut store.put().unwrap(), &topic, b"new").unwrap();
        assert_eq!(three.queue_offset, 2);
        assert!(store.barrier().unwritten().is_none());
        assert!(signalled(), "and that it is written now");
        while outcome() == Outcome::Pending {
            std::thread::yield_now(); // for the disk
        }
        assert_eq!(outcome(), Outcome::Confirmed);
        store.close().unwrap();
        let store = open(dir.path(), mode);
        assert_eq!(bodies(&store), [b"one", b"two", b"new"]);
        store.close().unwrap();
    }
}

#[test]
fn a_store_that_cannot_write_what_is_staged_does_not_close_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), FlushMode::Async);
    let topic = store.topics().topic(TOPIC).unwrap();
    append(&mut store.put().unwrap(), &topic, b"one").unwrap();
    let _file = break_writes(&store);
    append(&mut store.put().unwrap(), &topic, b"two").unwrap();
    assert!(store.close().is_err());
    drop(store);
    let store = open(dir.path(), FlushMode::Async);
    assert_eq!(bodies(&store), [b"one"], "what was refused is lost");
    store.close().unwrap();
}

#[test]
fn a_panic_while_a_record_is_staged_leaves_the_ones_before() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), FlushMode::Async);
    let topic = store.topics().topic(TOPIC).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut guard = store.put().unwrap();
        append(&mut guard, &topic, b"one").unwrap();
        let message_size = 500;
        guard.make_room(message_size).unwrap();
        guard.position.staging.place(message_size).fill(0xAA);
        panic!("a bug");
    }));
    assert!(panicked.is_err());
    append(&mut store.put().unwrap(), &topic, b"two").unwrap();
    assert_eq!(bodies(&store), [b"one", b"two"]);
    store.close().unwrap();
}

/// Who is on the event loop does not write to a slow disk.
#[test]
fn what_is_staged_on_a_slow_disk_is_left_to_the_thread() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), FlushMode::Async);
    let topic = store.topics().topic(TOPIC).unwrap();
    let stage = |body| {
        let mut guard = store.put().unwrap();
        append(&mut guard, &topic, body).unwrap();
        guard.keep_staged();
    };
    stage(b"one");
    store.await_late().unwrap();
    assert!(bodies(&store).is_empty(), "a quick disk: the caller writes");
    store
        .stalls()
        .during_write(|| std::thread::sleep(Duration::from_millis(150)));
    assert!(store.stalls().is_slow());
    store.await_late().unwrap();
    assert_eq!(bodies(&store), [b"one"]);
    // A thread that does not come to it.
    store.writer().links.late.stop();
    stage(b"two");
    assert!(matches!(store.await_late(), Err(StoreError::Busy(_))));
    assert_eq!(bodies(&store), [b"one"]);
    store.close().unwrap();
    drop(store);
    let store = open(dir.path(), FlushMode::Async);
    assert_eq!(bodies(&store), [b"one", b"two"]);
    store.close().unwrap();
}
