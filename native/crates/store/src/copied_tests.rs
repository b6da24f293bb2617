//! What a slave's store takes of a master's log, and what it refuses.

use crate::config::FlushMode;
use crate::{GetStatus, Store, StoreConfig, StoreError, testing};
use std::path::Path;
use std::sync::Arc;

const FILE: u64 = 16 << 10;

fn open(dir: &Path, replica: bool) -> Arc<Store> {
    open_sized(dir, replica, FILE)
}

fn open_sized(dir: &Path, replica: bool, file: u64) -> Arc<Store> {
    let mut config = StoreConfig::new(dir);
    config.commit_log_file_size = file;
    config.consume_queue_file_size = 20 * 64;
    (config.index_slots, config.index_entries) = (50, 500);
    config.flush_mode = FlushMode::Async;
    config.replica = replica;
    Store::open(config).unwrap()
}

/// Sends so many messages of so many bytes to two topics.
fn send(store: &Store, count: usize, body: usize) {
    for i in 0..count {
        let topic = store.topics().topic([b"A", b"B"][i % 2]).unwrap();
        let mut guard = store.put().unwrap();
        testing::append(&mut guard, &topic, b"a\x01b\x02", &vec![i as u8; body]).unwrap();
    }
}

/// The bytes of a store's log from `from` on, blanks included.
fn log_bytes(store: &Store, from: u64) -> Vec<u8> {
    let log = store.log();
    let mut bytes = Vec::new();
    let mut at = from;
    while at < log.max_offset() {
        let (segment, start) = log.locate(at).unwrap();
        let end = log.max_offset().min(segment.end());
        let file = std::fs::read(segment.path()).unwrap();
        bytes.extend_from_slice(&file[start..start + (end - at) as usize]);
        at = end;
    }
    bytes
}

/// Appends all of it in pieces of so many bytes, as a link does.
fn copy(slave: &Store, bytes: &[u8], piece: usize) -> Result<(), StoreError> {
    let mut pending = Vec::new();
    for part in bytes.chunks(piece) {
        pending.extend_from_slice(part);
        let done = slave.append_copied(&pending)?;
        pending.drain(..done);
    }
    assert!(pending.is_empty(), "{} bytes are left", pending.len());
    Ok(())
}

fn count(store: &Store, topic: &[u8]) -> i64 {
    let topic = store.topics().get(topic).unwrap();
    let queue = topic.existing_queue(0).unwrap();
    store.visible_max(&queue).unwrap() - queue.min_offset()
}

#[test]
fn the_copy_is_the_same_over_files_and_a_restart() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let master = open(a.path(), false);
    send(&master, 300, 200);
    assert!(master.log().segments().len() > 3);
    let bytes = log_bytes(&master, 0);
    for piece in [1, 97, 5000, 1 << 20] {
        let dir = b.path().join(piece.to_string());
        let slave = open(&dir, true);
        copy(&slave, &bytes, piece).unwrap();
        assert_eq!(slave.log().max_offset(), master.log().max_offset());
        assert_eq!(log_bytes(&slave, 0), bytes);
        assert_eq!((count(&slave, b"A"), count(&slave, b"B")), (150, 150));
        slave.close().unwrap();
        // As a master it goes on where the other one ended.
        let promoted = open(&dir, false);
        assert_eq!(promoted.log().max_offset(), master.log().max_offset());
        send(&promoted, 2, 10);
        assert_eq!((count(&promoted, b"A"), count(&promoted, b"B")), (151, 151));
        promoted.close().unwrap();
    }
    master.close().unwrap();
}

#[test]
fn a_copy_that_is_killed_has_whole_records() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let master = open(a.path(), false);
    send(&master, 100, 150);
    let bytes = log_bytes(&master, 0);
    let slave = open(&b.path().join("s"), true);
    copy(&slave, &bytes[..0], 1).unwrap();
    let done = slave.append_copied(&bytes[..7000]).unwrap();
    assert!(done < 7000 && slave.log().max_offset() == done as u64);
    testing::copy_store(&b.path().join("s"), &b.path().join("killed"));
    slave.close().unwrap();
    let again = open(&b.path().join("killed"), true);
    assert_eq!(again.log().max_offset(), done as u64);
    copy(&again, &bytes[done..], 333).unwrap();
    assert_eq!(log_bytes(&again, 0), bytes);
    assert_eq!((count(&again, b"A"), count(&again, b"B")), (50, 50));
    again.close().unwrap();
    master.close().unwrap();
}

#[test]
fn a_copy_may_begin_at_a_later_file() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let master = open(a.path(), false);
    send(&master, 300, 200);
    let start = master.log().segments().last().unwrap().base();
    let bytes = log_bytes(&master, start);
    let slave = open(b.path(), true);
    slave.begin_copies_at(start).unwrap();
    copy(&slave, &bytes, 100).unwrap();
    assert_eq!(slave.log().min_offset(), start);
    let queues = |store: &Store| {
        let queue = store.topics().get(b"A").unwrap().queue(0).unwrap();
        let offset = queue.max_offset() - 1;
        let got = store.get(Some(&queue), &testing::all_from(offset)).unwrap();
        assert_eq!(got.status, GetStatus::Found);
        (queue.max_offset(), got.chunks.len())
    };
    assert_eq!(queues(&slave), queues(&master));
    slave.close().unwrap();
    let again = open(b.path(), true);
    assert_eq!(queues(&again), queues(&master));
    again.close().unwrap();
    master.close().unwrap();
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_of_it_appended() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let master = open(a.path(), false);
    send(&master, 200, 200);
    let bytes = log_bytes(&master, 0);
    let second = testing_record_len(&bytes);
    let mut foreign = bytes.clone();
    foreign[second + 4] ^= 0xff; // the magic of the second record
    let mut sums = bytes.clone();
    sums[second + 84 + 2] ^= 1; // its body's length
    let table: [(&str, &[u8], &str); 4] = [
        ("no record", &foreign, "no record"),
        ("fields", &sums, "do not add up"),
        (
            "another place",
            &bytes[second..],
            "states that it stands at",
        ),
        ("zeros", &[0; 64], "no record"),
    ];
    for (name, input, why) in table {
        let slave = open(&b.path().join(name), true);
        match copy(&slave, input, 4096) {
            Err(StoreError::Misfit(text)) => assert!(text.contains(why), "{name}: {text}"),
            other => panic!("{name}: {other:?}"),
        }
        let end = slave.log().max_offset() as usize;
        assert!(end == 0 || end == second, "{name}: {end}");
        slave.close().unwrap();
    }
    // Files of another size.
    let slave = open_sized(&b.path().join("size"), true, 2 * FILE);
    match copy(&slave, &bytes, 4096) {
        Err(StoreError::Misfit(text)) => {
            assert!(text.contains("mappedFileSizeCommitLog"), "{text}")
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        slave.begin_copies_at(0),
        Err(StoreError::Misfit(_))
    ));
    slave.close().unwrap();
    master.close().unwrap();
}

fn testing_record_len(bytes: &[u8]) -> usize {
    i32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize
}

#[test]
fn a_slave_takes_no_messages() {
    let dir = tempfile::tempdir().unwrap();
    let slave = open(dir.path(), true);
    assert!(matches!(slave.put().err(), Some(StoreError::Replica)));
    slave.close().unwrap();
}
