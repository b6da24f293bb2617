use super::*;
use crate::{Chunk, ConsumeQueue, GetStatus, Store, StoreConfig, StoreError, Wanted, testing};
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::Arc;

const TOPIC: &[u8] = b"T";
const FILE: usize = 1 << 20;
const BODY: usize = 10_000;
/// Messages: some more than fit in two files of the log.
const MESSAGES: u64 = 250;

fn config(root: &Path) -> StoreConfig {
    let mut config = StoreConfig::new(root);
    config.commit_log_file_size = FILE as u64;
    config.consume_queue_file_size = 20 * 100;
    config
}

/// A store of some files that was closed and is open again, so that nothing of it is new.
fn filled(root: &Path) -> Arc<Store> {
    let store = Store::open(config(root)).unwrap();
    let topic = store.topics().topic(TOPIC).unwrap();
    for n in 0..MESSAGES {
        let mut guard = store.put().unwrap();
        let key = format!("KEYS\x01k{n}\x02");
        testing::append(&mut guard, &topic, key.as_bytes(), &[n as u8; BODY]).unwrap();
    }
    store.close().unwrap();
    drop(store);
    Store::open(config(root)).unwrap()
}

fn queue(store: &Store) -> Arc<ConsumeQueue> {
    let topic = store.topics().get(TOPIC).unwrap();
    topic.existing_queue(0).unwrap()
}

fn log_file(root: &Path, index: usize) -> std::path::PathBuf {
    root.join("commitlog").join(format!("{:020}", index * FILE))
}

/// Gives up what the kernel keeps of a file, in the mapping and in memory. False where it keeps it
/// all the same (tmpfs has no other place).
fn give_up(segment: &Segment) -> bool {
    File::open(segment.path()).unwrap().sync_all().unwrap();
    segment.flush(0, segment.size()).unwrap();
    segment.give_up_cache().unwrap();
    present_to(segment.mapping(), 0, 1) == 0
}

fn read(store: &Store, offset: i64, wait: Wait) -> Result<(usize, i64)> {
    let wanted = Wanted {
        wait,
        ..testing::all_from(offset)
    };
    let got = store.get(Some(&queue(store)), &wanted)?;
    assert_eq!(got.status, GetStatus::Found);
    for Chunk { segment, at, len } in &got.chunks {
        assert!(segment.bytes(*at, *len).is_some());
    }
    Ok((got.count, got.next))
}

#[test]
fn a_file_that_was_cut_is_an_error_of_those_who_read_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path());
    let cut = log_file(dir.path(), 1);
    let file = OpenOptions::new().write(true).open(&cut).unwrap();
    file.set_len(73 * 4096).unwrap();

    let mut offset = 0;
    let error = loop {
        match read(&store, offset, Wait::ForDisk) {
            Ok((_, next)) => offset = next,
            Err(e) => break e,
        }
    };
    assert!(
        (105..=135).contains(&offset),
        "all that stands before the cut is given: {offset}"
    );
    let StoreError::Io {
        what,
        path,
        message,
        errno,
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!((*what, path, *errno), ("read", &cut, libc::EIO));
    assert!(message.contains("from offset 13"), "{message}");

    let queue = queue(&store);
    let lost = queue.entry(offset).unwrap().unwrap().cq.phys as u64;
    assert!(matches!(store.record_at(lost), Err(StoreError::Io { .. })));
    assert!(matches!(
        store.record_by_offset(lost),
        Err(StoreError::Io { .. })
    ));
    let key = format!("k{offset}");
    assert!(
        store
            .query_message(TOPIC, key.as_bytes(), 9, 0, i64::MAX)
            .is_err()
    );
    assert!(store.offset_by_time(&queue, i64::MAX, false).is_err());

    // Everything else goes on, in that file too.
    assert!(store.record_at(FILE as u64).unwrap().is_some());
    assert_eq!(
        read(&store, MESSAGES as i64 - 1, Wait::ForDisk).unwrap().0,
        1
    );
    let topic = store.topics().topic(TOPIC).unwrap();
    let done = testing::append(&mut store.put().unwrap(), &topic, b"", b"new").unwrap();
    assert!(store.record_at(done.phys).unwrap().is_some());
    store.close().unwrap();
}

#[test]
fn a_queue_and_an_index_that_were_cut_are_errors_too() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path());
    let entries = dir.path().join("consumequeue/T/0");
    let path = entries.join(format!("{:020}", 0));
    OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(0)
        .unwrap();
    assert!(matches!(
        read(&store, 0, Wait::ForDisk),
        Err(StoreError::FileSize { .. } | StoreError::Io { .. })
    ));
    assert!(read(&store, 100, Wait::ForDisk).unwrap().1 > 100);
    let index = std::fs::read_dir(dir.path().join("index")).unwrap();
    for file in index {
        let path = file.unwrap().path();
        OpenOptions::new()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(0)
            .unwrap();
    }
    let error = store
        .query_message(TOPIC, b"k3", 9, 0, i64::MAX)
        .err()
        .unwrap();
    assert!(error.to_string().contains("the file was cut"), "{error}");
}

#[test]
fn recovery_says_which_place_it_cannot_read() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path());
    let segment = store.log().segments()[1].clone();
    let file = OpenOptions::new().write(true).open(segment.path()).unwrap();
    file.set_len(500_000).unwrap();
    let error = crate::resync::next_record(&segment, 400_000, |_, _| Ok(false));
    assert!(matches!(error, Err(StoreError::Io { .. })));
}

#[test]
fn who_does_not_wait_for_the_disk_gets_what_is_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path());
    let segments = store.log().segments().to_vec();
    if !segments.iter().all(|s| give_up(s)) {
        return; // no place but memory: nothing is ever cold
    }
    assert!(matches!(
        read(&store, 0, Wait::Never),
        Err(StoreError::Cold)
    ));
    let (count, _) = read(&store, 0, Wait::ForDisk).unwrap();
    assert!(count > 1);
    let (count, next) = read(&store, 0, Wait::Never).unwrap();
    assert!(count > 0, "what was read is in memory");

    // From a warm place to a cold one: as far as it is warm.
    let at = queue(&store).entry(next).unwrap().unwrap().cq.phys as usize;
    assert!(give_up(&segments[0]));
    load(
        segments[0].mapping(),
        0,
        at - BODY,
        segments[0].path(),
        None,
    )
    .unwrap();
    let (count, next) = read(&store, 0, Wait::Never).unwrap();
    assert!(count > 0 && next < MESSAGES as i64);
    for segment in &segments {
        assert!(give_up(segment));
    }

    // The queue's own entries may be what is cold.
    read(&store, 0, Wait::ForDisk).unwrap();
    let (file, ..) = queue(&store).file_from(0, Wait::ForDisk).unwrap().unwrap();
    assert!(give_up(&file));
    assert!(matches!(
        read(&store, 0, Wait::Never),
        Err(StoreError::Cold)
    ));
    store.close().unwrap();
}

#[test]
fn it_remembers_what_it_has_seen_of_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path());
    let segments = store.log().segments().to_vec();
    let mut near = Resident::reading_ahead(Wait::ForDisk, FILE);
    assert!(near.bytes(&segments[0], 5000, 10).unwrap().is_some());
    assert!(near.known.from == 5000 && near.known.to >= 5010 && near.known.to < FILE);
    assert!(near.bytes(&segments[1], 0, 10).unwrap().is_some());
    assert_eq!((near.known.file, near.known.from), (segments[1].id(), 0));
    assert!(near.bytes(&segments[1], FILE - 5, 10).unwrap().is_none());
}

/// What the processor fetches ahead is of entries that are known to be in memory: the part of the queue
/// behind them may be one that no disk can read, and touching it would end the process.
#[test]
fn a_queue_that_was_cut_is_read_up_to_the_cut() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.consume_queue_file_size = 20 * 1000;
    let store = Store::open(config).unwrap();
    let topic = store.topics().topic(TOPIC).unwrap();
    for n in 0..MESSAGES {
        testing::append(&mut store.put().unwrap(), &topic, b"", &[n as u8; 100]).unwrap();
    }
    let path = dir.path().join("consumequeue/T/0/00000000000000000000");
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(4096).unwrap();

    // The entry of 204 lies on both sides of the cut.
    assert_eq!(read(&store, 180, Wait::ForDisk).unwrap(), (24, 204));
    assert_eq!(read(&store, 202, Wait::ForDisk).unwrap(), (2, 204));
    assert_eq!(read(&store, 190, Wait::Never).unwrap(), (14, 204));
    assert!(matches!(
        read(&store, 204, Wait::ForDisk),
        Err(StoreError::Io { .. })
    ));
    assert!(matches!(
        read(&store, 204, Wait::Never),
        Err(StoreError::Cold)
    ));
}

/// A queue's file is unmapped when too many are, and the next one is mapped where it was.
#[test]
fn nothing_is_known_of_a_file_that_is_mapped_where_another_was() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..50 {
        let open = |name: &str| {
            let path = dir.path().join(format!("{name}{n}"));
            std::fs::write(&path, [7; 8192]).unwrap();
            Segment::open(path, 0, 8192, 8192).unwrap()
        };
        let mut near = Resident::new(Wait::ForDisk);
        let first = open("first");
        near.bytes(&first, 0, 8192).unwrap();
        assert!(near.knows(&first, 0, 8192));
        drop(first);
        assert!(!near.knows(&open("second"), 0, 1));
    }
}
