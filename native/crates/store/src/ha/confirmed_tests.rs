//! What consumers of a master see, over restarts and changes of its role: what slaves have.

use super::tests::{FILE, RULE, SLAVE, open, send};
use super::*;
use crate::{Store, StoreConfig, testing};
use std::path::Path;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Stop,
    Kill,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum As {
    SyncMaster,
    AsyncMaster,
    Slave,
}

fn start(dir: &Path, role: As) -> Arc<Store> {
    open(dir, |config: &mut StoreConfig| {
        config.flush_interval_consume_queue = 1; // ms between two checkpoints
        config.replicated = role == As::SyncMaster;
        config.replica = role == As::Slave;
    })
}

/// Ends the store in `dir` and starts it again on what that left, in `to`.
fn again(store: Arc<Store>, dir: &Path, to: &Path, end: End, role: As) -> Arc<Store> {
    if end == End::Stop {
        store.close().unwrap();
    }
    testing::copy_store(dir, to);
    if end == End::Kill {
        store.close().unwrap();
    }
    start(to, role)
}

/// Returns once the checkpoint has `limit`.
fn until_written(dir: &Path, limit: Option<u64>) {
    use pyrmq_format::checkpoint::Checkpoint;
    super::tests::eventually(|| {
        let bytes = std::fs::read(dir.join("checkpoint")).unwrap_or_default();
        Checkpoint::read(&bytes).is_some_and(|c| c.replicated == limit.map(|at| at as i64))
    });
}

/// A SYNC_MASTER that waits for one slave, which has the first of three records and is away.
fn one_of_three(dir: &Path) -> (Arc<Store>, u64, u64) {
    let store = start(dir, As::SyncMaster);
    let replicas = Replicas::new(store.clone(), RULE);
    let first = send(&store, 10).unwrap();
    let id = replicas.add("slave", 0);
    replicas.update(id, first, Some(first), 0, 0);
    replicas.remove(id);
    send(&store, 10).unwrap();
    let end = send(&store, 10).unwrap();
    assert_eq!(store.barrier().confirmed(), first);
    (store, first, end)
}

#[test]
fn a_restart_shows_what_slaves_had() {
    for end in [End::Stop, End::Kill] {
        for role in [As::SyncMaster, As::AsyncMaster, As::Slave] {
            let case = (end, role);
            let dir = tempfile::tempdir().unwrap();
            let [one, two, three] = ["1", "2", "3"].map(|name| dir.path().join(name));
            let (store, first, last) = one_of_three(&one);
            until_written(&one, Some(first));
            let store = again(store, &one, &two, end, role);
            let shown = match role {
                As::AsyncMaster => last, // an operator said that nobody is waited for
                As::SyncMaster | As::Slave => first,
            };
            assert_eq!(store.barrier().confirmed(), shown, "{case:?}");
            assert_eq!(store.barrier().local(), last, "{case:?}: slaves get all");
            let limit = (role != As::AsyncMaster).then_some(first);
            until_written(&two, limit);
            // A slave that never followed a master is promoted: the same again.
            let store = again(store, &two, &three, end, As::SyncMaster);
            assert_eq!(store.barrier().confirmed(), shown, "{case:?}");
            store.close().unwrap();
        }
    }
}

#[test]
fn a_kill_forgets_what_a_moment_confirmed_not_what_a_checkpoint_interval_did() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("1"), dir.path().join("2"));
    let store = open(&one, |config| {
        config.flush_interval_consume_queue = 600_000;
        config.replicated = true;
    });
    let replicas = Replicas::new(store.clone(), RULE);
    let id = replicas.add("slave", 0);
    for _ in 0..3 {
        let end = send(&store, 10).unwrap();
        replicas.update(id, end, Some(end), 0, 0);
        until_written(&one, Some(end));
    }
    let end = store.barrier().confirmed();
    let store = again(store, &one, &two, End::Kill, As::SyncMaster);
    assert_eq!(store.barrier().confirmed(), end);
    store.close().unwrap();
}

#[test]
fn what_was_held_back_is_shown_once_a_slave_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("1"), dir.path().join("2"));
    let (store, first, end) = one_of_three(&one);
    let store = again(store, &one, &two, End::Stop, As::SyncMaster);
    let replicas = Replicas::new(store.clone(), RULE);
    assert_eq!(store.barrier().confirmed(), first);
    let queue = store.topics().get(b"T").unwrap().queue(0).unwrap();
    let at = |offset| {
        let got = store.get(Some(&queue), &testing::all_from(offset)).unwrap();
        (got.status as i32, got.next, got.count)
    };
    assert_eq!(at(0), (0, 1, 1));
    // A reader that was further keeps its place, and one that is beyond the queue is told.
    assert_eq!(at(1), (5, 1, 0));
    assert_eq!(at(3), (5, 3, 0));
    assert_eq!(at(4), (4, 1, 0));
    let id = replicas.add("slave", 0);
    replicas.update(id, end, Some(end), 0, 0);
    assert_eq!(store.barrier().confirmed(), end);
    assert_eq!(at(1), (0, 3, 2));
    store.close().unwrap();
}

#[test]
fn a_slave_shows_all_once_its_master_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("1"), dir.path().join("2"));
    let (store, first, end) = one_of_three(&one);
    let store = again(store, &one, &two, End::Stop, As::Slave);
    assert_eq!(store.barrier().confirmed(), first);
    let link = SlaveLink::new(store.clone(), SLAVE, 0).unwrap();
    assert_eq!(store.barrier().confirmed(), end);
    until_written(&two, None);
    drop(link);
    store.close().unwrap();
}

#[test]
fn a_log_that_was_cut_is_shown_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("1"), dir.path().join("2"));
    let (store, first, _) = one_of_three(&one);
    store.close().unwrap();
    testing::copy_store(&one, &two);
    let file = two.join("commitlog").join(format!("{:020}", 0));
    std::fs::write(&file, vec![0; FILE as usize]).unwrap();
    std::fs::remove_dir_all(two.join("consumequeue")).unwrap();
    let store = start(&two, As::SyncMaster);
    assert_eq!((store.log().max_offset(), first > 0), (0, true));
    assert_eq!(store.barrier().confirmed(), 0);
    send(&store, 10).unwrap();
    assert_eq!(store.barrier().confirmed(), 0, "no slave has the new one");
    store.close().unwrap();
}

fn is_signalled(store: &Store) -> bool {
    rustix::io::read(store.barrier().event_fd(), &mut [0; 8]) == Ok(8)
}

#[test]
fn with_nobody_to_wait_for_the_write_confirms_and_wakes() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("1"), dir.path().join("2"));
    let rule = Rule { auto: true, ..RULE };
    let store = start(&one, As::SyncMaster);
    let replicas = Replicas::new(store.clone(), rule);
    for _ in 0..3 {
        is_signalled(&store);
        let end = send(&store, 10).unwrap();
        // Nobody looks again at who is in sync: the write itself says it.
        assert!(is_signalled(&store) && store.barrier().is_confirmed(end));
    }
    let end = store.log().max_offset();
    let id = replicas.add("slave", 0);
    replicas.update(id, end, Some(end), 0, 0);
    is_signalled(&store);
    send(&store, 10).unwrap();
    assert!(!is_signalled(&store), "a slave is waited for now");
    assert_eq!(store.barrier().confirmed(), end);
    until_written(&one, Some(end));
    // After a restart without the slave nobody is waited for: all of it is confirmed.
    let store = again(store, &one, &two, End::Kill, As::SyncMaster);
    let last = store.log().max_offset();
    assert_eq!(store.barrier().confirmed(), end);
    let _replicas = Replicas::new(store.clone(), rule);
    assert_eq!(store.barrier().confirmed(), last);
    store.close().unwrap();
}

#[test]
fn how_many_are_wanted_changes_while_sends_wait() {
    let dir = tempfile::tempdir().unwrap();
    let (store, first, end) = one_of_three(dir.path());
    let replicas = Replicas::new(store.clone(), RULE);
    let slave = replicas.add("slave", 0);
    replicas.update(slave, first, Some(first), 0, 0);
    assert_eq!(store.barrier().confirmed(), first);
    is_signalled(&store);
    replicas.want(1, 1);
    assert!(is_signalled(&store), "answers that wait are told");
    assert_eq!(store.barrier().confirmed(), end);
    let more = send(&store, 10).unwrap();
    assert!(store.barrier().is_confirmed(more));
    replicas.want(2, 1);
    assert_eq!(
        store.barrier().confirmed(),
        more,
        "what was confirmed stays so"
    );
    let last = send(&store, 10).unwrap();
    assert_eq!(store.barrier().confirmed(), more);
    replicas.update(slave, last, Some(last), 0, 0);
    assert_eq!(store.barrier().confirmed(), last);
    replicas.want(3, 3);
    assert!(send(&store, 10).is_err(), "2 of 3 are in sync");
    replicas.want(2, 2);
    send(&store, 10).unwrap();
    store.close().unwrap();
}

#[test]
fn a_master_that_waits_for_nobody_may_wait_later() {
    let dir = tempfile::tempdir().unwrap();
    let rule = Rule { in_sync: 1, ..RULE };
    let store = start(dir.path(), As::SyncMaster);
    let replicas = Replicas::new(store.clone(), rule);
    let end = send(&store, 10).unwrap();
    assert!(store.barrier().is_confirmed(end));
    replicas.want(2, 1);
    let more = send(&store, 10).unwrap();
    assert_eq!(store.barrier().confirmed(), end);
    let slave = replicas.add("slave", 0);
    replicas.update(slave, more, Some(more), 0, 0);
    assert_eq!(store.barrier().confirmed(), more);
    store.close().unwrap();
}
