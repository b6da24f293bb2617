//! Random transactions and kills against a plain reading of the log: after every step, and after a
//! kill at any record, exactly those halves wait that the log says wait.

use super::testing::*;
use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// All that the log says of transactions, read from its start. A transaction is its unique key and
/// its bornTimestamp.
#[derive(Default)]
struct Plain {
    /// Half offset: its transaction and place.
    halves: BTreeMap<i64, ((String, i64), u64)>,
    /// The newest half of each transaction, if that waits.
    live: BTreeMap<(String, i64), i64>,
    commits: BTreeMap<(String, i64), usize>,
    discarded: Vec<Logged>,
}

impl Plain {
    fn read(log: &[Logged], end: u64) -> Plain {
        let mut plain = Plain::default();
        for r in log.iter().filter(|r| r.end <= end) {
            let who = (r.key(), r.born);
            if r.topic == HALF_TOPIC {
                plain.halves.insert(r.queue_offset, (who.clone(), r.phys));
                plain.live.insert(who, r.queue_offset);
            } else if r.topic == OP_TOPIC {
                for offset in r.named() {
                    let (who, _) = &plain.halves[&offset];
                    if plain.live.get(who) == Some(&offset) {
                        plain.live.remove(who);
                    }
                }
            } else if r.is_commit() {
                *plain.commits.entry(who.clone()).or_default() += 1;
                plain.live.remove(&who);
            } else if r.topic == CHECK_MAX_TOPIC {
                plain.discarded.push(r.clone());
                // The one at place 0 cannot be named: it waits until its op record is there.
                if r.prepared > 0 {
                    let ended = plain.halves.values().find(|(_, p)| *p as i64 == r.prepared);
                    assert_eq!(ended.map(|(w, _)| w), Some(&who), "it names its half");
                    plain.live.remove(&who);
                }
            }
        }
        plain
    }

    fn waiting(&self) -> Vec<i64> {
        let all: BTreeSet<i64> = self.live.values().copied().collect();
        all.into_iter().collect()
    }
}

#[derive(Clone, Debug)]
enum Op {
    Send {
        key: u8,
    },
    Filler(usize),
    /// END_TRANSACTION for one of the halves of the log, whether it waits or not.
    End {
        which: prop::sample::Index,
        commit: bool,
        plain: bool,
    },
    /// Several of them in one read of a connection, all op records behind.
    Read(Vec<(prop::sample::Index, bool)>),
    Renew {
        from: prop::sample::Index,
        count: usize,
        asked: bool,
    },
    Discard(prop::sample::Index),
    Resume(prop::sample::Index),
    /// Progress is kept.
    Keep,
    /// Killed when the log ended at one of the records since progress was kept; whether what is
    /// owed can be written at the next start.
    Kill {
        at: prop::sample::Index,
        write_owed: bool,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let which = any::<prop::sample::Index>;
    prop_oneof![
        6 => (0u8..6).prop_map(|key| Op::Send { key }),
        1 => (0usize..3000).prop_map(Op::Filler),
        5 => (which(), any::<bool>(), any::<bool>())
            .prop_map(|(which, commit, plain)| Op::End { which, commit, plain }),
        2 => prop::collection::vec((which(), any::<bool>()), 1..8).prop_map(Op::Read),
        4 => (which(), 1usize..6, any::<bool>())
            .prop_map(|(from, count, asked)| Op::Renew { from, count, asked }),
        1 => which().prop_map(Op::Discard),
        1 => which().prop_map(Op::Resume),
        1 => Just(Op::Keep),
        2 => (which(), any::<bool>()).prop_map(|(at, write_owed)| Op::Kill { at, write_owed }),
    ]
}

struct Run {
    rig: Rig,
    kept: (Start, u64),
    born: i64,
}

impl Run {
    fn half(&self, plain: &Plain, which: prop::sample::Index) -> Option<(i64, u64)> {
        let all: Vec<_> = plain
            .halves
            .iter()
            .map(|(&o, (_, phys))| (o, *phys))
            .collect();
        (!all.is_empty()).then(|| all[which.index(all.len())])
    }

    fn ends(&self, plain: &Plain, ends: &[(prop::sample::Index, bool)]) {
        let txn = &self.rig.txn;
        let mut guard = self.rig.store().put().unwrap();
        for &(which, commit) in ends {
            let Some((offset, phys)) = self.half(plain, which) else {
                return;
            };
            let end = End {
                offset,
                phys,
                commit,
                group: GROUP,
                ids: [b"", b""],
                from_check: false,
                topic: None,
            };
            let waited = txn.find(offset).is_some_and(|p| p.phys == phys);
            let settled = txn.settle_plain(&mut guard, &end).unwrap();
            assert_eq!(settled.is_some(), waited, "half {offset}");
        }
        txn.write_ops(&mut guard).unwrap();
    }

    fn step(&mut self, op: Op) {
        let log = self.rig.log();
        let plain = Plain::read(&log, u64::MAX);
        let waiting = plain.waiting();
        let pick =
            |i: prop::sample::Index| (!waiting.is_empty()).then(|| waiting[i.index(waiting.len())]);
        let txn = &self.rig.txn;
        match op {
            Op::Send { key } => {
                self.born += 1;
                let born = self.born;
                let key = format!("K{key}");
                self.rig.send(&Sent {
                    born,
                    ..Sent::new(&key)
                });
            }
            Op::Filler(len) => drop(self.rig.put(b"Filler", b"", &vec![1; len], 1)),
            Op::End {
                which,
                commit,
                plain: true,
            } => self.ends(&plain, &[(which, commit)]),
            Op::End {
                which,
                commit,
                plain: false,
            } => {
                let Some((offset, phys)) = self.half(&plain, which) else {
                    return;
                };
                let half = Half::read(self.rig.store(), phys).unwrap().unwrap();
                let live = txn.live(&half, offset).unwrap();
                let (who, _) = &plain.halves[&offset];
                assert_eq!(live, plain.live.get(who).copied(), "live of half {offset}");
                if let Some(live) = live {
                    txn.settle(live, commit).unwrap();
                }
            }
            Op::Read(ends) => self.ends(&plain, &ends),
            Op::Renew { from, count, asked } => {
                let Some(first) = pick(from) else { return };
                let at = waiting.iter().position(|&o| o == first).unwrap();
                let some = &waiting[at..waiting.len().min(at + count)];
                let copies = txn.renew(some, asked).unwrap();
                assert_eq!(copies.iter().map(|c| c.old).collect::<Vec<_>>(), some);
            }
            Op::Discard(i) => {
                let Some(offset) = pick(i) else { return };
                txn.discard(offset).unwrap();
            }
            Op::Resume(i) => {
                // Those that were committed after all are the broker's to refuse.
                let open = |r: &&Logged| !plain.commits.contains_key(&(r.key(), r.born));
                let discarded: Vec<_> = plain.discarded.iter().filter(open).collect();
                if discarded.is_empty() {
                    return;
                }
                let one = discarded[i.index(discarded.len())];
                let waits = plain.live.contains_key(&(one.key(), one.born));
                // A half that was never asked about is no copy: it is not found here.
                let known = plain
                    .live
                    .get(&(one.key(), one.born))
                    .is_some_and(|&o| txn.find(o).is_some_and(|p| !p.is_copy));
                if !known {
                    assert_eq!(txn.resume(one.phys).is_err(), waits);
                }
            }
            Op::Keep => {
                let p = txn.progress().unwrap();
                self.kept = (self.rig.start(), p.log_end);
            }
            Op::Kill { at, write_owed } => {
                let ends = log.iter().map(|r| r.end).filter(|&end| end >= self.kept.1);
                let ends: Vec<u64> = ends.collect();
                let Some(&end) = (!ends.is_empty()).then(|| at.get(&ends)) else {
                    return;
                };
                self.rig = self.rig.killed_at(end, self.kept.0);
                if write_owed {
                    self.rig.txn.write_owed().unwrap();
                }
            }
        }
    }

    fn check(&self) {
        let plain = Plain::read(&self.rig.log(), u64::MAX);
        let waiting = plain.waiting();
        assert_eq!(self.rig.waiting(), waiting);
        let figures = self.rig.txn.figures();
        assert_eq!(figures.pending, waiting.len());
        let twice: Vec<_> = plain.commits.iter().filter(|(_, n)| **n > 1).collect();
        assert!(twice.is_empty(), "delivered twice: {twice:?}");
        let start = self.rig.start();
        assert!(waiting.iter().all(|&o| o >= start.half));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_waits_is_what_the_log_says(
        ops in prop::collection::vec(op(), 1..60),
        max_op_body in prop_oneof![Just(4096usize), 1usize..20],
    ) {
        let rig = Rig::sized(16 << 10, max_op_body);
        let mut run = Run { rig, kept: (FROM_START, 0), born: 1 };
        for op in ops {
            run.step(op);
            run.check();
        }
        // However the last start was, one more from where progress is and one from the very start
        // find the same.
        let waiting = run.rig.waiting();
        for start in [run.rig.start(), run.kept.0, FROM_START] {
            prop_assert_eq!(run.rig.killed(start).waiting(), &waiting[..]);
        }
    }
}
