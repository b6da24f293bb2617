//! Who flushes: the thread, or who holds its requests back.

use super::*;
use crate::config::FlushMode;
use crate::store_impl::Store;
use crate::testing::append;
use crate::topics::Topic;

/// A store whose thread flushes when it is asked to, and hardly ever else.
fn open(root: &std::path::Path) -> (Arc<Store>, Arc<Topic>) {
    let mut config = StoreConfig::new(root);
    config.flush_mode = FlushMode::Sync;
    config.flush_interval_commit_log = 1_000_000;
    let store = Store::open(config).unwrap();
    let topic = store.topics().topic(b"T").unwrap();
    (store, topic)
}

/// Stores a message; returns where the log ends.
fn put(store: &Store, topic: &Arc<Topic>) -> u64 {
    let mut guard = store.put().unwrap();
    let done = append(&mut guard, topic, b"", b"body").unwrap();
    guard.write().unwrap();
    done.end()
}

fn wait_for(store: &Store, end: u64) {
    let limit = Instant::now() + Duration::from_secs(60);
    while store.barrier().flushed() < end {
        assert!(Instant::now() < limit);
        std::thread::yield_now();
    }
}

#[test]
fn what_is_held_back_is_flushed_here_or_once_it_is_let_go() {
    let dir = tempfile::tempdir().unwrap();
    let (store, topic) = open(dir.path());
    let flusher = store.log_flusher();
    wait_for(&store, put(&store, &topic));
    for _ in 0..100 {
        flusher.hold();
        let end = put(&store, &topic);
        (0..10).for_each(|_| std::thread::yield_now());
        assert_eq!(flusher.asked().end, end);
        assert!(flusher.asked().start < end, "the thread sleeps");
        store.barrier().take_event();
        assert!(flusher.flush_here());
        assert!(flusher.asked().is_empty() && store.barrier().is_confirmed(end));
        let mut counter = [0; 8];
        let event = rustix::io::read(store.barrier().event_fd(), &mut counter);
        assert_eq!(event, Ok(8), "who waits is told");
        flusher.let_go();
    }
    flusher.hold();
    let end = put(&store, &topic);
    flusher.let_go();
    wait_for(&store, end);
    store.close().unwrap();
}

#[test]
fn one_flushes_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let (store, topic) = open(dir.path());
    let flusher = store.log_flusher();
    flusher.hold();
    let end = put(&store, &topic);
    let others = flusher.open.lock();
    assert!(!flusher.flush_here());
    drop(others);
    assert!(store.barrier().flushed() < end);
    flusher.let_go();
    wait_for(&store, end);
    store.close().unwrap();
}
