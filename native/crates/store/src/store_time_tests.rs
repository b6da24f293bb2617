use super::*;
use crate::{Store, StoreConfig, testing};
use pyrmq_format::checkpoint::Checkpoint;
use std::sync::atomic::AtomicI64;
use std::time::{Duration, Instant};

const START: i64 = 1_700_000_000_000;
const YEAR: i64 = 365 * 86_400_000;

#[test]
fn it_stands_still_for_a_second_and_goes_back_once_the_checkpoint_has() {
    static CLOCK: AtomicI64 = AtomicI64::new(0);
    let time = StoreTime::new(|| CLOCK.load(Ordering::Relaxed));
    // The clock, the time of the record before, and what the checkpointer was told and has written:
    // the time of the next record, and the ceiling from then on.
    let steps = [
        (1000, 0, None, 1000, None),
        (900, 1000, None, 1000, None),
        (0, 1000, None, 1000, None),
        (1500, 1000, None, 1500, None),
        (499, 1500, None, 1500, Some(499)),
        (600, 1500, None, 1500, None),
        (100, 1500, None, 1500, Some(100)),
        (110, 1500, None, 1500, Some(100)),
        (90, 1500, Some(100), 1500, Some(90)),
        (95, 1500, Some(90), 95, None),
        (96, 95, None, 96, None),
        (9000, 96, None, 9000, None),
        (10, 9000, None, 9000, Some(10)),
        (9500, 9000, Some(10), 9500, None),
        (20, 9500, None, 9500, Some(20)),
    ];
    for (n, (clock, last, written, next, ceiling)) in steps.into_iter().enumerate() {
        CLOCK.store(clock, Ordering::Relaxed);
        if let Some(written) = written {
            time.agree(written);
        }
        assert_eq!(
            (time.next(last), time.ceiling()),
            (next, ceiling),
            "step {n}"
        );
    }
}

fn append(store: &Store) -> i64 {
    let topic = store.topics().topic(b"T").unwrap();
    let mut guard = store.put().unwrap();
    let done = testing::append(&mut guard, &topic, b"UNIQ_KEY\x01k\x02", b"body");
    done.unwrap().store_timestamp
}

fn checkpoint(root: &std::path::Path) -> Checkpoint {
    let bytes = std::fs::read(root.join("checkpoint")).unwrap();
    Checkpoint::read(&bytes).unwrap()
}

/// Of a store that may not have written its first checkpoint yet: 0 then.
fn physic(root: &std::path::Path) -> i64 {
    if !root.join("checkpoint").exists() {
        return 0;
    }
    checkpoint(root).physic_msg_timestamp
}

fn config(root: &std::path::Path, clock: fn() -> i64) -> StoreConfig {
    let mut config = StoreConfig::new(root);
    config.commit_log_file_size = 64 << 10;
    config.max_message_size = 4096;
    config.consume_queue_file_size = 20 * 64;
    (config.index_slots, config.index_entries) = (50, 500);
    (
        config.flush_interval_commit_log,
        config.flush_interval_consume_queue,
    ) = (1, 1);
    config.clock = clock;
    config
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_clock_that_was_wrong_for_a_while() {
    static CLOCK: AtomicI64 = AtomicI64::new(START);
    let clock = || CLOCK.load(Ordering::Relaxed);
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(config(dir.path(), clock)).unwrap();
    assert_eq!(append(&store), START);
    CLOCK.store(START + YEAR, Ordering::Relaxed);
    assert_eq!(append(&store), START + YEAR);
    let physic = || physic(dir.path());
    eventually("the checkpoint follows", || physic() == START + YEAR);
    CLOCK.store(START + 5, Ordering::Relaxed);
    eventually("the store follows the clock back", || {
        let stored = append(&store);
        assert!(stored == START + YEAR || physic() <= START + 5);
        stored == START + 5
    });
    CLOCK.store(START + 9000, Ordering::Relaxed);
    assert_eq!(append(&store), START + 9000);
    eventually("the checkpoint goes on", || physic() == START + 9000);
    let found = checkpoint(dir.path());
    assert!(
        found.logics_msg_timestamp <= START + 9000 && found.index_msg_timestamp <= START + 9000
    );
    store.close().unwrap();
}

#[test]
fn a_clock_that_is_set_back_between_two_lives() {
    static CLOCK: AtomicI64 = AtomicI64::new(START + YEAR);
    let clock = || CLOCK.load(Ordering::Relaxed);
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(config(dir.path(), clock)).unwrap();
    append(&store);
    store.close().unwrap();
    assert_eq!(checkpoint(dir.path()).physic_msg_timestamp, START + YEAR);
    CLOCK.store(START, Ordering::Relaxed);
    let mut slow = config(dir.path(), clock);
    slow.flush_interval_consume_queue = 3_600_000;
    let store = Store::open(slow).unwrap();
    let found = checkpoint(dir.path());
    let times = [
        found.physic_msg_timestamp,
        found.logics_msg_timestamp,
        found.index_msg_timestamp,
    ];
    assert!(
        times.iter().all(|&t| t <= START),
        "before the first message comes: {times:?}"
    );
    assert_eq!(append(&store), START);
    store.close().unwrap();
}

#[test]
fn a_clock_that_is_put_forward_runs_on_from_there() {
    let time = StoreTime::new(|| START);
    time.advance(60_000);
    time.advance(YEAR);
    let now = START + 60_000 + YEAR;
    assert_eq!((time.clock(), time.next(0)), (now, now));
    assert_eq!(time.next(now + 5), now + 5);
}
