//! Both ends against each other, on stores of their own.

use super::channel_tests::{doorman, toy};
use super::frame::Header;
use super::*;
use crate::{FlushMode, Outcome, Store, StoreConfig, StoreError, testing};
use proptest::prelude::*;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) const FILE: u64 = 32 << 10;
const MASTER: MasterSettings = MasterSettings {
    chunk: 5000,
    heartbeat: 5000,
    silence: 20_000,
    most_per_second: None,
};
pub(super) const SLAVE: SlaveSettings = SlaveSettings {
    heartbeat: 5000,
    silence: 20_000,
};
pub(super) const RULE: Rule = Rule {
    in_sync: 2,
    least: 1,
    auto: false,
    max_gap: 1 << 28,
};

pub(super) fn open(dir: &Path, change: impl FnOnce(&mut StoreConfig)) -> Arc<Store> {
    let mut config = StoreConfig::new(dir);
    config.commit_log_file_size = FILE;
    config.consume_queue_file_size = 20 * 64;
    config.index_enable = false;
    change(&mut config);
    Store::open(config).unwrap()
}

fn slave_at(dir: &Path) -> Arc<Store> {
    open(dir, |config| config.replica = true)
}

pub(super) fn send(store: &Store, body: usize) -> Result<u64, StoreError> {
    let topic = store.topics().topic(b"T").unwrap();
    let mut guard = store.put()?;
    let done = testing::append(&mut guard, &topic, b"", &vec![b'x'; body])?;
    guard.write()?;
    Ok(done.end())
}

fn log_of(store: &Store) -> Log {
    Log {
        min: store.log().min_offset(),
        end: store.barrier().local(),
        file_size: FILE,
    }
}

fn file_bytes(store: &Store) -> Vec<(u64, Vec<u8>)> {
    let end = store.log().max_offset();
    let read = |s: &Arc<crate::Segment>| {
        let mut bytes = std::fs::read(s.path()).unwrap();
        bytes.truncate(end.saturating_sub(s.base()) as usize);
        (s.base(), bytes)
    };
    store.log().segments().iter().map(read).collect()
}

/// Bytes of the log that a frame takes.
fn body(store: &Store, offset: u64, len: usize) -> Vec<u8> {
    if len == 0 {
        return Vec::new();
    }
    let (segment, at) = store.log().locate(offset).unwrap();
    std::fs::read(segment.path()).unwrap()[at..at + len].to_vec()
}

/// Lets both ends talk, in pieces of `piece` bytes, until neither has anything to say, or so many
/// pieces were sent.
fn talk(
    master: &Store,
    up: &mut MasterLink,
    down: &mut SlaveLink,
    piece: usize,
    mut budget: usize,
) -> Result<(), String> {
    loop {
        let mut quiet = true;
        if let Some(report) = down.report(0) {
            quiet = false;
            up.feed(&report, 0, &log_of(master))?;
        }
        if let Step::Send {
            header,
            offset,
            len,
        } = up.step(0, &log_of(master))?
        {
            quiet = false;
            let mut bytes = header.to_vec();
            bytes.extend(body(master, offset, len));
            for part in bytes.chunks(piece) {
                if budget == 0 {
                    return Ok(());
                }
                budget -= 1;
                down.feed(part, 0).map_err(|e| e.to_string())?;
            }
        }
        if quiet {
            return Ok(());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Messages, pieces of any size, connections that break anywhere and slaves that are opened again:
    /// the files are the same in the end, and never does the slave have what its master has not.
    #[test]
    fn the_slave_becomes_its_master(
        steps in prop::collection::vec((0usize..40, 1usize..3000, 1usize..9000, 0usize..60, 0u8..6), 1..12),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let master = open(&dir.path().join("m"), |_| ());
        let mut slave = slave_at(&dir.path().join("s"));
        let begin = |slave: &Arc<Store>| {
            let down = SlaveLink::new(slave.clone(), SLAVE, 0).unwrap();
            (MasterLink::new(MASTER, 0), down)
        };
        let (mut up, mut down) = begin(&slave);
        // Its first report, as long as the master has one file: it begins at the last one.
        send(&master, 10).unwrap();
        talk(&master, &mut up, &mut down, 1000, 1000).unwrap();
        for (count, size, piece, budget, what) in steps {
            for _ in 0..count {
                send(&master, size).unwrap();
            }
            talk(&master, &mut up, &mut down, piece, budget).unwrap();
            prop_assert!(slave.log().max_offset() <= master.log().max_offset());
            match what {
                0 => {
                    drop(down);
                    slave.close().unwrap();
                    slave = slave_at(&dir.path().join("s"));
                    (up, down) = begin(&slave);
                }
                // A frame was cut off: only a new connection can go on.
                _ => (up, down) = begin(&slave),
            }
        }
        talk(&master, &mut up, &mut down, 4096, usize::MAX).unwrap();
        prop_assert_eq!(up.acked(), master.log().max_offset());
        prop_assert!(file_bytes(&slave) == file_bytes(&master));
        drop(down);
        slave.close().unwrap();
        master.close().unwrap();
    }

    /// Whatever a master that is none sends: an error at most.
    #[test]
    fn a_slave_survives_any_bytes(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..20)) {
        let dir = tempfile::tempdir().unwrap();
        let slave = slave_at(dir.path());
        let mut down = SlaveLink::new(slave.clone(), SLAVE, 0).unwrap();
        for part in parts {
            if down.feed(&part, 0).is_err() {
                break;
            }
        }
        prop_assert_eq!(slave.log().max_offset() % FILE, 0);
        drop(down);
        slave.close().unwrap();
    }

    #[test]
    fn a_master_survives_any_reports(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..20)) {
        let log = Log { min: 0, end: 100, file_size: 1000 };
        let mut up = MasterLink::new(MASTER, 0);
        for part in parts {
            if up.feed(&part, 0, &log).is_err() {
                return Ok(());
            }
        }
        prop_assert!(up.next().is_none_or(|next| next <= 100));
    }
}

#[test]
fn reports_as_a_table() {
    let log = Log {
        min: 1000,
        end: 5500,
        file_size: 1000,
    };
    // The reports, one after the other: where it is sent from, or what ends the connection.
    let table: [(&[i64], Result<u64, &str>); 8] = [
        (&[0], Ok(5000)),
        (&[5500], Ok(5500)),
        (&[1000], Ok(1000)),
        (&[999], Err("begins at 1000")),
        (&[5501], Err("which of the two is right")),
        (&[-1], Err("no slave")),
        (&[2000, 2001], Err("was sent 2000 only")),
        (&[2000, 1999], Err("behind 2000")),
    ];
    for (reports, expected) in table {
        let mut up = MasterLink::new(MASTER, 0);
        let mut bytes = Vec::new();
        reports
            .iter()
            .for_each(|r| bytes.extend_from_slice(&r.to_be_bytes()));
        // Byte by byte: it makes no difference.
        let fed = bytes.iter().try_for_each(|b| up.feed(&[*b], 0, &log));
        match (fed, expected) {
            (Ok(()), Ok(next)) => assert_eq!(up.next(), Some(next), "{reports:?}"),
            (Err(text), Err(why)) => assert!(text.contains(why), "{reports:?}: {text}"),
            (fed, expected) => panic!("{reports:?}: {fed:?}, {expected:?}"),
        }
    }
}

#[test]
fn frames_end_with_files_and_heartbeats_follow_silence() {
    let log = Log {
        min: 0,
        end: 2500,
        file_size: 1000,
    };
    let settings = MasterSettings {
        chunk: 600,
        ..MASTER
    };
    let mut up = MasterLink::new(settings, 0);
    assert_eq!(up.step(10, &log), Ok(Step::Wait { until: 20_000 }));
    up.feed(&1i64.to_be_bytes(), 10, &log).unwrap();
    let mut lens = Vec::new();
    while let Step::Send { offset, len, .. } = up.step(20, &log).unwrap() {
        lens.push((offset, len));
    }
    assert_eq!(
        lens,
        [(1, 600), (601, 399), (1000, 600), (1600, 400), (2000, 500)]
    );
    assert_eq!(up.step(30, &log), Ok(Step::Wait { until: 5020 }));
    let beat = Header {
        offset: 2500,
        size: 0,
    };
    let Ok(Step::Send { header, len: 0, .. }) = up.step(5020, &log) else {
        panic!("no heartbeat");
    };
    assert_eq!(header, beat.encode());
    assert!(
        up.step(20_010, &log)
            .unwrap_err()
            .contains("nothing was heard")
    );
}

#[test]
fn the_flow_is_limited_by_the_second() {
    let log = Log {
        min: 0,
        end: 100_000,
        file_size: 1 << 20,
    };
    let settings = MasterSettings {
        most_per_second: Some(1000),
        chunk: 600,
        ..MASTER
    };
    let mut up = MasterLink::new(settings, 0);
    up.feed(&1i64.to_be_bytes(), 0, &log).unwrap();
    let mut sent = |now| {
        let mut total = 0;
        loop {
            match up.step(now, &log).unwrap() {
                Step::Send { len, .. } => total += len,
                Step::Wait { until } => return (total, until),
            }
        }
    };
    assert_eq!(sent(100), (1000, 1000));
    assert_eq!(sent(999), (0, 1000));
    assert_eq!(sent(1000), (1000, 2000));
}

#[test]
fn a_slave_refuses_what_does_not_follow() {
    let dir = tempfile::tempdir().unwrap();
    let slave = slave_at(dir.path());
    for (offset, size, why) in [
        (-1, 10, "no master"),
        (0, -10, "no master"),
        (0, i32::MAX, "too large"),
        (i64::MAX - 5, 10, "no log reaches"),
        (FILE as i64 + 1, 10, "where no file"),
    ] {
        let mut down = SlaveLink::new(slave.clone(), SLAVE, 0).unwrap();
        let error = down.feed(&Header { offset, size }.encode(), 0).unwrap_err();
        assert!(error.to_string().contains(why), "{offset} {size}: {error}");
    }
    let master = open(&dir.path().join("m"), |_| ());
    let end = send(&master, 100).unwrap();
    slave
        .append_copied(&body(&master, 0, end as usize))
        .unwrap();
    let mut down = SlaveLink::new(slave.clone(), SLAVE, 0).unwrap();
    let header = Header {
        offset: end as i64 + 1,
        size: 10,
    };
    let error = down.feed(&header.encode(), 0).unwrap_err();
    assert!(
        error.to_string().contains("but this log ends at"),
        "{error}"
    );
    assert_eq!(down.wait(19_999), Ok(5000));
    assert!(down.wait(20_000).is_err());
    drop(down);
    slave.close().unwrap();
    master.close().unwrap();
}

/// A master and a slave, each with a thread, and the socket between them.
struct Pair {
    _dir: tempfile::TempDir,
    master: Arc<Store>,
    slave: Arc<Store>,
    replicas: Arc<Replicas>,
    senders: Arc<Senders>,
    receiver: Arc<Receiver>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Pair {
    fn new(change: impl Fn(&mut StoreConfig), rule: Rule) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let master = open(&dir.path().join("m"), &change);
        let slave = open(&dir.path().join("s"), |config| {
            change(config);
            (config.replica, config.replicated) = (true, false);
        });
        let replicas = Arc::new(Replicas::new(master.clone(), rule));
        let senders = Arc::new(Senders::new(master.clone(), replicas.clone(), MASTER));
        let receiver = Arc::new(Receiver::new(slave.clone(), SLAVE));
        Pair {
            _dir: dir,
            master,
            slave,
            replicas,
            senders,
            receiver,
            threads: Vec::new(),
        }
    }

    fn connect(&mut self, covered: bool) {
        let (a, b) = UnixStream::pair().unwrap();
        let senders = self.senders.clone();
        let serve = move || drop(senders.serve(OwnedFd::from(a), "slave", Some(&doorman)));
        self.threads.push(std::thread::spawn(serve));
        let receiver = self.receiver.clone();
        let cover = covered.then(toy);
        let receive = move || drop(receiver.receive(OwnedFd::from(b), cover));
        self.threads.push(std::thread::spawn(receive));
    }

    fn end(self) {
        self.senders.stop();
        self.receiver.stop();
        self.threads.into_iter().for_each(|t| t.join().unwrap());
        assert!(self.replicas.rows().is_empty());
        self.slave.close().unwrap();
        self.master.close().unwrap();
    }
}

pub(super) fn eventually(mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < until, "it did not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn over_a_socket_the_slave_follows() {
    for (mode, covered) in [
        (FlushMode::Async, false),
        (FlushMode::Sync, false),
        (FlushMode::Async, true),
        (FlushMode::Sync, true),
    ] {
        let mut pair = Pair::new(|config| config.flush_mode = mode, RULE);
        send(&pair.master, 500).unwrap();
        pair.connect(covered);
        // It begins at the last file: before there is a second one.
        eventually(|| pair.replicas.rows().iter().any(|row| row.acked > 0));
        for i in 0..300 {
            send(&pair.master, 100 + 7 * i).unwrap();
        }
        let end = pair.master.log().max_offset();
        eventually(|| pair.slave.log().max_offset() == end);
        eventually(|| pair.replicas.rows().iter().any(|row| row.acked == end));
        assert!(file_bytes(&pair.slave) == file_bytes(&pair.master));
        assert!(pair.receiver.status().connected);
        assert_eq!(pair.receiver.status().master_end, end);
        pair.end();
    }
}

#[test]
fn a_sync_master_confirms_what_its_slave_has() {
    confirms_what_its_slave_has(false);
}

#[test]
fn so_it_does_under_a_cover() {
    confirms_what_its_slave_has(true);
}

fn confirms_what_its_slave_has(covered: bool) {
    let sync = |config: &mut StoreConfig| {
        config.replicated = true;
        config.slave_timeout = 50;
    };
    let mut pair = Pair::new(sync, RULE);
    let barrier = pair.master.barrier();
    let end = send(&pair.master, 100).unwrap();
    assert!(!barrier.is_confirmed(end));
    assert_eq!(barrier.outcome(end, 49, 5000), Outcome::Pending);
    assert_eq!(barrier.outcome(end, 50, 5000), Outcome::ReplicationTimedOut);
    let queue = pair.master.topics().get(b"T").unwrap().queue(0).unwrap();
    assert_eq!(pair.master.visible_max(&queue).unwrap(), 0);
    pair.connect(covered);
    eventually(|| pair.master.barrier().is_confirmed(end));
    assert_eq!(pair.master.visible_max(&queue).unwrap(), 1);
    for _ in 0..50 {
        let end = send(&pair.master, 100).unwrap();
        eventually(|| pair.master.barrier().is_confirmed(end));
        assert!(pair.slave.log().max_offset() >= end);
    }
    pair.end();
}

#[test]
fn how_many_slaves_are_wanted() {
    // inSyncReplicas, minInSyncReplicas, auto, replicas in sync: slaves that are waited for.
    let table = [
        (1, 1, false, 1, 0),
        (2, 1, false, 1, 1),
        (3, 1, false, 1, 2),
        (2, 1, true, 1, 0),
        (2, 1, true, 2, 1),
        (3, 2, true, 1, 1),
        (3, 2, true, 5, 2),
    ];
    for (in_sync, least, auto, there, wanted) in table {
        let rule = Rule {
            in_sync,
            least,
            auto,
            ..RULE
        };
        let case = (in_sync, least, auto, there);
        assert_eq!(rule.wanted(there), wanted, "{case:?}");
    }
}

#[test]
fn the_barrier_follows_the_slaves_and_never_goes_back() {
    let dir = tempfile::tempdir().unwrap();
    let master = open(dir.path(), |config| config.replicated = true);
    let rule = Rule {
        in_sync: 3,
        least: 2,
        auto: true,
        ..RULE
    };
    let replicas = Replicas::new(master.clone(), rule);
    let refused = send(&master, 10).unwrap_err();
    assert!(refused.to_string().contains("in-sync replicas not enough"));
    let (a, b) = (replicas.add("a", 0), replicas.add("b", 0));
    replicas.update(a, 0, Some(0), 0, 0);
    let first = send(&master, 10).unwrap();
    let end = send(&master, 10).unwrap();
    replicas.update(a, first, Some(end), 0, 0);
    assert_eq!(
        master.barrier().confirmed(),
        first,
        "one slave in sync is waited for"
    );
    replicas.update(b, 1, Some(1), 0, 0);
    assert_eq!(
        master.barrier().confirmed(),
        first,
        "two are, but it stays confirmed"
    );
    replicas.update(a, end, Some(end), 0, 0);
    assert_eq!(master.barrier().confirmed(), first);
    replicas.update(b, end, Some(end), 0, 0);
    assert_eq!(master.barrier().confirmed(), end);
    replicas.remove(b);
    let more = send(&master, 10).unwrap();
    assert_eq!(master.barrier().confirmed(), end);
    replicas.update(a, more, Some(more), 0, 0);
    assert_eq!(master.barrier().confirmed(), more);
    replicas.remove(a);
    assert!(send(&master, 10).is_err());
    assert_eq!(master.barrier().confirmed(), more);
    master.close().unwrap();
}
