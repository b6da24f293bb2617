//! A topic that is deleted, made again, and what a crash makes of it.

use super::config::FlushMode;
use super::{GetStatus, Store, StoreConfig, TopicSettings, testing};
use std::path::Path;
use std::sync::Arc;

const TOPIC: &[u8] = b"Orders";
const OTHER: &[u8] = b"Others";

fn open(dir: &Path) -> Arc<Store> {
    let mut config = StoreConfig::new(dir);
    config.commit_log_file_size = 1 << 16;
    config.max_message_size = 1 << 12;
    config.consume_queue_file_size = 20 * 64;
    (config.index_slots, config.index_entries) = (50, 500);
    config.flush_mode = FlushMode::Async;
    Store::open(config).unwrap()
}

fn add(store: &Store, topic: &[u8], count: usize) {
    let topic = store.topics().topic(topic).unwrap();
    let mut guard = store.put().unwrap();
    for n in 0..count {
        testing::append(&mut guard, &topic, b"", format!("{n}").as_bytes()).unwrap();
    }
}

/// Status, next offset and count of a read.
fn read(store: &Store, topic: &[u8], offset: i64) -> (GetStatus, i64, usize) {
    let queue = store.topics().get(topic).unwrap().existing_queue(0);
    let got = store.get(queue.as_deref(), &testing::all_from(offset));
    let got = got.unwrap();
    (got.status, got.next, got.count)
}

#[test]
fn it_is_gone_and_its_offsets_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    add(&store, TOPIC, 200);
    add(&store, OTHER, 3);
    let topic = store.topics().topic(TOPIC).unwrap();
    topic.set(Some(TopicSettings {
        read_queues: 1,
        write_queues: 1,
        multi_tag: false,
        sendable: true,
    }));
    assert_eq!(store.delete_topic(b"Nowhere").unwrap(), []);
    assert_eq!(store.delete_topic(TOPIC).unwrap(), [(0, 200)]);
    assert_eq!(topic.settings(), None, "a send has to be decided about");
    assert_eq!(read(&store, TOPIC, 0), (GetStatus::OffsetTooSmall, 200, 0));
    assert_eq!(read(&store, OTHER, 0).2, 3);
    add(&store, TOPIC, 2);
    assert_eq!(read(&store, TOPIC, 200), (GetStatus::Found, 202, 2));
    assert_eq!(store.delete_topic(TOPIC).unwrap(), [(0, 202)]);
    store.close().unwrap();
}

/// Whether the stop was clean or not, the log still has the old records: they come back with their
/// queue, are hidden again, and new messages keep their places.
#[test]
fn after_a_stop_and_after_a_crash() {
    for clean in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let image = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        add(&store, TOPIC, 200);
        assert_eq!(store.delete_topic(TOPIC).unwrap(), [(0, 200)]);
        add(&store, TOPIC, 5);
        if !clean {
            testing::copy_store(dir.path(), image.path());
        }
        store.close().unwrap();
        if clean {
            testing::copy_store(dir.path(), image.path());
        }
        let store = open(image.path());
        store.hide_messages(TOPIC, 0, 200);
        store.hide_messages(TOPIC, 7, 200); // no such queue
        store.hide_messages(b"Nowhere", 0, 200);
        assert_eq!(read(&store, TOPIC, 0), (GetStatus::OffsetTooSmall, 200, 0));
        assert_eq!(read(&store, TOPIC, 200), (GetStatus::Found, 205, 5));
        store.hide_messages(TOPIC, 0, 1_000_000); // of another store: nothing is hidden for good
        add(&store, TOPIC, 1);
        assert_eq!(read(&store, TOPIC, 205), (GetStatus::Found, 206, 1));
        store.close().unwrap();
    }
}
