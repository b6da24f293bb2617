//! A master and a slave with the real engine, on a network and a clock that are made up: by seed,
//! either is killed, loses power, or is cut off from the other, at any byte, and the slave is promoted
//! at any moment.
//!
//! What has to hold: the slave has nothing that its master has not; what the SYNC_MASTER has acknowledged
//! is on both, also after all that; its consumers see nothing that the slave has not, and a promoted
//! slave's see all that was acknowledged; logs that went apart are told by the newest record.
//!
//! PYRMQ_HA_SEEDS: how many seeds; `make thorough-simulation` runs 10,000.

use super::*;
use crate::{FlushMode, Store, StoreConfig, testing};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FILE: u64 = 16 << 10;
const STEPS: usize = 60;
const MASTER: MasterSettings = MasterSettings {
    chunk: 3000,
    heartbeat: 5000,
    silence: 20_000,
    most_per_second: None,
};
const SLAVE: SlaveSettings = SlaveSettings {
    heartbeat: 5000,
    silence: 20_000,
};
const RULE: Rule = Rule {
    in_sync: 2,
    least: 1,
    auto: false,
    max_gap: 1 << 28,
};

/// xorshift64*: the same everywhere.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// One broker's store, opened again and again in copies of its folder.
struct Node {
    root: PathBuf,
    lives: usize,
    replica: bool,
    mode: FlushMode,
    store: Arc<Store>,
}

impl Node {
    fn new(root: PathBuf, replica: bool, mode: FlushMode) -> Self {
        let store = open(&root.join("0"), replica, mode);
        Node {
            root,
            lives: 0,
            replica,
            mode,
            store,
        }
    }

    /// The process is stopped in order, and started again.
    fn stop(&mut self) {
        let _ = self.store.close();
        self.store = open(
            &self.root.join(self.lives.to_string()),
            self.replica,
            self.mode,
        );
    }

    /// The process is killed, and started again on what it left. With `power` the machine loses what
    /// was not flushed, from any point on.
    fn kill(&mut self, chance: &mut Chance, power: bool) {
        let (from, to) = (
            self.root.join(self.lives.to_string()),
            self.root.join((self.lives + 1).to_string()),
        );
        let flushed = self.store.barrier().flushed();
        let end = self.store.log().max_offset();
        testing::copy_store(&from, &to);
        let _ = self.store.close();
        std::fs::remove_dir_all(&from).unwrap();
        if power {
            let kept = flushed + chance.below((end - flushed) as usize + 1) as u64;
            lose(&to.join("commitlog"), kept);
        }
        self.lives += 1;
        self.store = open(&to, self.replica, self.mode);
    }

    fn log(&self) -> Log {
        Log {
            min: self.store.log().min_offset(),
            end: self.store.barrier().local(),
            file_size: FILE,
        }
    }

    /// All bytes of its log. A slave that was empty began at its master's last file: zeros before that.
    fn bytes(&self) -> Vec<u8> {
        let end = self.store.log().max_offset();
        let mut bytes = vec![0; self.store.log().min_offset() as usize];
        for segment in self.store.log().segments().iter() {
            let mut file = std::fs::read(segment.path()).unwrap();
            file.truncate(end.saturating_sub(segment.base()) as usize);
            bytes.extend(file);
        }
        bytes
    }
}

fn open(dir: &Path, replica: bool, mode: FlushMode) -> Arc<Store> {
    let mut config = StoreConfig::new(dir);
    config.commit_log_file_size = FILE;
    config.consume_queue_file_size = 20 * 64;
    config.index_enable = false;
    config.flush_mode = mode;
    config.replica = replica;
    config.replicated = !replica;
    Store::open(config).unwrap()
}

/// What stands behind `kept` was never on the disk; the names of files were.
fn lose(folder: &Path, kept: u64) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let base: u64 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        if kept < base + FILE {
            let mut file = std::fs::read(&path).unwrap();
            file[kept.saturating_sub(base) as usize..].fill(0);
            std::fs::write(&path, file).unwrap();
        }
    }
}

fn send(store: &Store, body: usize) -> Option<u64> {
    let topic = store.topics().topic(b"T").unwrap();
    let mut guard = store.put().ok()?;
    let done = testing::append(&mut guard, &topic, b"", &vec![b'x'; body]).ok()?;
    guard.write().ok()?;
    Some(done.end())
}

/// A connection: both ends, and what is on its way.
struct Link {
    up: MasterLink,
    down: SlaveLink,
    to_slave: Vec<u8>,
    to_master: Vec<u8>,
    id: u64,
}

struct Run {
    chance: Chance,
    now: i64,
    master: Node,
    slave: Node,
    replicas: Replicas,
    link: Option<Link>,
    /// Where records end that were sent; and those that were acknowledged.
    sent: Vec<u64>,
    acknowledged: u64,
}

impl Run {
    fn new(seed: u64, dir: &Path) -> Self {
        let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mode = |chance: &mut Chance| match chance.below(2) {
            0 => FlushMode::Async,
            _ => FlushMode::Sync,
        };
        let master = Node::new(dir.join("m"), false, mode(&mut chance));
        let slave = Node::new(dir.join("s"), true, mode(&mut chance));
        let replicas = Replicas::new(master.store.clone(), RULE);
        Run {
            chance,
            now: 1,
            master,
            slave,
            replicas,
            link: None,
            sent: Vec::new(),
            acknowledged: 0,
        }
    }

    fn connect(&mut self) {
        self.disconnect();
        if !self.fits() {
            return;
        }
        let down = SlaveLink::new(self.slave.store.clone(), SLAVE, self.now).unwrap();
        self.link = Some(Link {
            up: MasterLink::new(MASTER, self.now),
            down,
            to_slave: Vec::new(),
            to_master: Vec::new(),
            id: self.replicas.add("slave", self.now),
        });
    }

    fn disconnect(&mut self) {
        if let Some(link) = self.link.take() {
            self.replicas.remove(link.id);
        }
    }

    /// What a slave asks before it follows (pyrmq/broker/replication/peers.py): is its newest record the master's,
    /// and is its log no longer than that?
    fn fits(&self) -> bool {
        let (own, other) = (&self.slave.store, &self.master.store);
        let end = own.log().max_offset();
        if end > other.log().max_offset() {
            return false;
        }
        let Some(newest) = own.newest_record().unwrap() else {
            return true;
        };
        let mut offset = newest.segment.base() + newest.at as u64;
        let bytes = |store: &Store, at: u64| {
            let chunk = store.record_by_offset(at).unwrap()?;
            Some(chunk.segment.bytes(chunk.at, chunk.len).unwrap().to_vec())
        };
        while offset < end {
            let (mine, theirs) = (bytes(own, offset), bytes(other, offset));
            if mine != theirs {
                return false;
            }
            let Some(mine) = mine else {
                break; // the rest of the file is blank
            };
            offset += mine.len() as u64;
        }
        true
    }

    /// Moves some bytes, in pieces of any size.
    fn talk(&mut self) {
        let Some(link) = &mut self.link else {
            return;
        };
        let log = self.master.log();
        if let Some(report) = link.down.report(self.now) {
            link.to_master.extend(report);
        }
        match link.up.step(self.now, &log) {
            Ok(Step::Send {
                header,
                offset,
                len,
            }) => {
                link.to_slave.extend(header);
                if len > 0 {
                    let (segment, at) = self.master.store.log().locate(offset).unwrap();
                    let file = std::fs::read(segment.path()).unwrap();
                    link.to_slave.extend(&file[at..at + len]);
                }
            }
            Ok(Step::Wait { .. }) => {}
            Err(_) => return self.disconnect(),
        }
        let some = self.chance.below(link.to_master.len() + 1);
        let reports: Vec<_> = link.to_master.drain(..some).collect();
        let some = self.chance.below(link.to_slave.len() + 1);
        let bytes: Vec<_> = link.to_slave.drain(..some).collect();
        let (fed, heard) = (
            link.down.feed(&bytes, self.now),
            link.up.feed(&reports, self.now, &log).is_ok(),
        );
        assert!(fed.is_ok(), "what the master sends fits: {fed:?}");
        if !heard {
            return self.disconnect();
        }
        let (acked, next, sent) = (link.up.acked(), link.up.next(), link.up.sent());
        self.replicas.update(link.id, acked, next, sent, self.now);
    }

    fn acknowledge(&mut self) {
        let confirmed = self.master.store.barrier().confirmed();
        let done = self.sent.iter().filter(|end| **end <= confirmed).max();
        self.acknowledged = self.acknowledged.max(done.copied().unwrap_or(0));
    }

    fn check(&self, what: &str) {
        let (master, slave) = (self.master.bytes(), self.slave.bytes());
        let begin = self.slave.store.log().min_offset() as usize;
        assert!(
            slave.len() <= master.len() && slave[begin..] == master[begin..slave.len()],
            "{what}: the slave has what its master has not"
        );
        assert!(
            slave.len() as u64 >= self.acknowledged,
            "{what}: {} acknowledged, the slave has {}",
            self.acknowledged,
            slave.len()
        );
        let shown = self.master.store.barrier().confirmed();
        assert!(
            slave.len() as u64 >= shown,
            "{what}: {shown} is shown, the slave has {}",
            slave.len()
        );
    }

    fn step(&mut self) {
        self.now += self.chance.below(500) as i64;
        match self.chance.below(20) {
            0..5 => {
                for _ in 0..self.chance.below(6) {
                    let size = self.chance.below(2500);
                    self.sent.extend(send(&self.master.store, size));
                }
            }
            5..15 => {
                if self.link.is_none() {
                    self.connect();
                }
                for _ in 0..self.chance.below(8) {
                    self.talk();
                }
            }
            15 => self.disconnect(),
            16 => self.now += 30_000,
            17 => {
                self.disconnect();
                // Power is lost where nothing is promised to survive that: not in this model.
                let power = self.slave.mode == FlushMode::Sync && self.chance.below(2) == 0;
                self.slave.kill(&mut self.chance, power);
            }
            18 => {
                self.disconnect();
                self.acknowledge();
                let power = self.master.mode == FlushMode::Sync && self.chance.below(2) == 0;
                let shown = self.master.store.barrier().confirmed();
                if self.chance.below(3) == 0 {
                    self.master.stop();
                    let again = self.master.store.barrier().confirmed();
                    assert_eq!(again, shown, "a stop in order keeps what is shown");
                } else {
                    self.master.kill(&mut self.chance, power);
                    assert!(self.master.store.barrier().confirmed() <= shown);
                }
                // Records that were not flushed may be gone, none of which was acknowledged.
                let end = self.master.store.log().max_offset();
                assert!(end >= self.acknowledged);
                self.sent.clear(); // nobody hears of them any more
                self.replicas = Replicas::new(self.master.store.clone(), RULE);
            }
            _ => self.replicas.look_again(self.now),
        }
        self.acknowledge();
    }

    /// The master is gone: the slave takes its place. What the old one has alone is told when it is back.
    fn promote(mut self) {
        self.disconnect();
        self.acknowledge();
        self.check("before the promotion");
        let was = self.master.bytes();
        self.slave.replica = false;
        self.slave.kill(&mut self.chance, false);
        let promoted = self.slave.bytes();
        assert!(promoted.len() as u64 >= self.acknowledged);
        // All that it has was on two machines.
        let shown = self.slave.store.barrier().confirmed();
        assert_eq!(shown, promoted.len() as u64);
        let begin = self.slave.store.log().min_offset() as usize;
        assert!(promoted[begin..] == was[begin..promoted.len()]);
        let more = self.chance.below(5) + 1;
        for _ in 0..more {
            let size = self.chance.below(2500);
            send(&self.slave.store, size).unwrap();
        }
        // The old one comes back as slave.
        self.master.replica = true;
        self.master.kill(&mut self.chance, false);
        std::mem::swap(&mut self.master, &mut self.slave);
        self.replicas = Replicas::new(self.master.store.clone(), RULE);
        let (old, new) = (self.slave.bytes(), self.master.bytes());
        let begin = self.master.store.log().min_offset() as usize;
        let is_beginning = old.len() <= new.len() && old[begin..] == new[begin..old.len()];
        assert_eq!(self.fits(), is_beginning, "a log that went apart is told");
        // Before it follows, it shows what it had shown, which the new master has.
        let shown = self.slave.store.barrier().confirmed() as usize;
        assert!(
            shown <= promoted.len() && old[begin..shown.max(begin)] == new[begin..shown.max(begin)]
        );
        if is_beginning {
            self.connect();
            assert_eq!(self.slave.store.barrier().confirmed(), old.len() as u64);
            while self.link.is_some()
                && self.slave.store.log().max_offset() < self.master.store.log().max_offset()
            {
                self.now += 1;
                self.talk();
                std::thread::yield_now();
            }
            let begin = self.master.store.log().min_offset() as usize;
            assert!(self.slave.bytes()[begin..] == self.master.bytes()[begin..]);
        }
        self.end();
    }

    fn end(mut self) {
        self.disconnect();
        let _ = self.slave.store.close();
        let _ = self.master.store.close();
    }
}

#[test]
fn by_seeds() {
    let count = std::env::var("PYRMQ_HA_SEEDS").map_or(60, |n| n.parse().unwrap());
    let first = std::env::var("PYRMQ_HA_SEED").map_or(0, |n| n.parse().unwrap());
    for seed in first..first + count {
        let dir = tempfile::tempdir().unwrap();
        let mut run = Run::new(seed, dir.path());
        // So that the slave has the log from its start on.
        send(&run.master.store, 10).unwrap();
        let steps = run.chance.below(STEPS);
        println!("seed {seed}");
        for _ in 0..steps {
            run.step();
            run.check("behind a step");
        }
        match run.chance.below(2) {
            0 => run.promote(),
            _ => run.end(),
        }
    }
}
