//! Random pops, acks and changes against a plain account: after every step, and after a kill at any
//! record, exactly those messages come back that were popped and not acknowledged.

use super::testing::*;
use super::*;
use crate::testing::TOPIC;
use proptest::prelude::*;
use proptest::sample::Index;
use pyrmq_store::GetStatus;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
enum Op {
    Put(usize),
    Pop(usize),
    /// Some messages of a check point, given by bits.
    Ack(Index, u32),
    Change(Index, Index),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (1usize..40).prop_map(Op::Put),
        (1usize..40).prop_map(Op::Pop),
        (any::<Index>(), any::<u32>()).prop_map(|(which, bits)| Op::Ack(which, bits)),
        (any::<Index>(), any::<Index>()).prop_map(|(which, one)| Op::Change(which, one)),
    ]
}

/// Check points by start offset and pop time: the messages that wait for an ack.
type Waiting = BTreeMap<(i64, i64), BTreeSet<i64>>;

/// What the first records say.
fn waiting_by(log: &[Logged]) -> Waiting {
    let mut waiting = Waiting::new();
    for record in log {
        match record {
            Logged::CheckPoint { of, offsets, .. } => {
                let before = waiting.insert((of.3, of.4), offsets.iter().copied().collect());
                assert_eq!(before, None, "two check points that nobody tells apart");
            }
            Logged::Ack { of, offsets, .. } => {
                let waits = waiting
                    .get_mut(&(of.3, of.4))
                    .expect("its check point is before it");
                waits.retain(|offset| !offsets.contains(offset));
            }
        }
    }
    waiting
}

/// How many records there were when something was acknowledged for good.
#[derive(Default)]
struct Model {
    waiting: Waiting,
    stored: i64,
    next: i64,
    done: Vec<(usize, i64)>,
    now: i64,
}

impl Model {
    fn pick(&self, which: &Index) -> Option<((i64, i64), BTreeSet<i64>)> {
        let open: Vec<_> = self
            .waiting
            .iter()
            .filter(|(_, set)| !set.is_empty())
            .collect();
        let (key, set) = open.get(which.index(open.len().max(1)))?;
        Some((**key, (*set).clone()))
    }

    fn step(&mut self, rig: &PopRig, op: &Op) {
        let pops = &rig.pops;
        match op {
            Op::Put(n) => {
                rig.put(TOPIC, &vec!["a"; *n]);
                self.stored += *n as i64;
            }
            Op::Pop(n) => {
                self.now += 1;
                let taken = pops.take(&ask(TOPIC, self.next, *n), &group(self.now));
                let taken = taken.unwrap();
                // A read ends with its file of the queue, which has 64 entries here.
                let in_file = 64 - self.next % 64;
                let most = (*n as i64)
                    .min(32)
                    .min(in_file)
                    .min(self.stored - self.next);
                let expected: Vec<_> = (self.next..self.next + most).collect();
                assert_eq!(taken.offsets, expected);
                assert_eq!(taken.got.status == GetStatus::Found, most > 0);
                if most > 0 {
                    let key = (taken.start, self.now);
                    self.waiting.insert(key, expected.into_iter().collect());
                }
                self.next = taken.got.next;
            }
            Op::Ack(which, bits) => {
                let Some((key, set)) = self.pick(which) else {
                    return;
                };
                let chosen = |(i, _): &(usize, i64)| bits >> (i % 32) & 1 == 1;
                let acked: Vec<_> = set.into_iter().enumerate().filter(chosen).collect();
                let acked: Vec<_> = acked.into_iter().map(|(_, offset)| offset).collect();
                if acked.is_empty() {
                    return;
                }
                let claim = claim(TOPIC, key.0, key.1);
                let mut guard = pops.store().put().unwrap();
                let end = pops.ack(&mut guard, &claim, &acked, self.now).unwrap();
                drop(guard);
                assert_eq!(end, pops.store().log().max_offset());
                let records = rig.logged().len();
                for offset in acked {
                    self.waiting.get_mut(&key).unwrap().remove(&offset);
                    self.done.push((records, offset));
                }
            }
            Op::Change(which, one) => {
                let Some((key, set)) = self.pick(which) else {
                    return;
                };
                let offset = *set.iter().nth(one.index(set.len())).unwrap();
                let to = Change {
                    offset,
                    now: self.now, // the same millisecond as what was before
                    invisible_time: 1000,
                    suspend: false,
                };
                let mut guard = pops.store().put().unwrap();
                let done = pops.change(&mut guard, &claim(TOPIC, key.0, key.1), to);
                drop(guard);
                let pop_time = done.unwrap().pop_time;
                self.now = self.now.max(pop_time);
                self.waiting.get_mut(&key).unwrap().remove(&offset);
                self.waiting.insert((offset, pop_time), [offset].into());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_popped_comes_back_unless_it_was_acknowledged(ops in prop::collection::vec(op(), 1..40)) {
        let rig = PopRig::new();
        rig.put(TOPIC, &["a"; 10]);
        let mut model = Model { stored: 10, now: NOW, ..Model::default() };
        for op in &ops {
            model.step(&rig, op);
            prop_assert_eq!(&waiting_by(&rig.logged()), &model.waiting);
        }
        // After a kill at any record a message that was popped before is in a check point, or was
        // acknowledged.
        let log = rig.logged();
        let mut popped = BTreeSet::new();
        for kept in 0..=log.len() {
            if let Some(Logged::CheckPoint { offsets, .. }) = kept.checked_sub(1).map(|i| &log[i]) {
                popped.extend(offsets.iter().copied());
            }
            let mut safe: BTreeSet<i64> = waiting_by(&log[..kept]).into_values().flatten().collect();
            safe.extend(model.done.iter().filter(|(at, _)| *at <= kept).map(|(_, offset)| offset));
            prop_assert!(popped.is_subset(&safe), "{:?} of {} records", popped.difference(&safe), kept);
        }
    }
}
