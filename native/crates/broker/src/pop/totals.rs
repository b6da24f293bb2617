//! What went into the revive topic and came out of it, by topic and group. [PopMetricsManager]
//!
//! Counted once a record, not once a message: a check point stands for all messages of a pop, and
//! acknowledgements that came together are one record.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// Pairs of topic and group that are counted apart; the others share a row without names.
const MAX_PAIRS: usize = 10_000;
/// Rows by pair and revive queue.
const MAX_READ: usize = 20_000;
/// The pair that stands for the others.
const OTHERS: u32 = 0;

/// Check points, and acknowledgements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Records {
    pub check_points: u64,
    pub acks: u64,
}

/// What was done for a group and a topic, as it was popped from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairTotals {
    pub topic: Box<[u8]>,
    pub group: Box<[u8]>,
    /// Stored, to be in the revive topic when they are due.
    pub stored: Records,
    /// Messages that were revived.
    pub revived: u64,
    /// Read from the revive topic, by its queue.
    pub read: Vec<(u32, Records)>,
}

#[derive(Default)]
struct Counted {
    /// The first one stands for the others.
    pairs: Vec<PairTotals>,
    ids: FxHashMap<Box<[u8]>, u32>,
    read: FxHashMap<(u32, u32), Records>,
    /// The pair that was counted last: neighbours mostly share it.
    last: u32,
    key: Vec<u8>,
}

impl Counted {
    fn id(&mut self, topic: &[u8], group: &[u8]) -> u32 {
        if self.pairs.is_empty() {
            self.pairs.push(PairTotals::default());
        }
        let last = &self.pairs[self.last as usize];
        if self.last != OTHERS && *last.topic == *topic && *last.group == *group {
            return self.last;
        }
        self.key.clear();
        self.key.extend_from_slice(topic);
        self.key.push(0);
        self.key.extend_from_slice(group);
        let id = match self.ids.get(&*self.key) {
            Some(&id) => id,
            None if self.pairs.len() > MAX_PAIRS => return OTHERS,
            None => {
                let id = self.pairs.len() as u32;
                self.ids.insert(self.key.as_slice().into(), id);
                self.pairs.push(PairTotals {
                    topic: topic.into(),
                    group: group.into(),
                    ..PairTotals::default()
                });
                id
            }
        };
        self.last = id;
        id
    }

    fn pair(&mut self, topic: &[u8], group: &[u8]) -> &mut PairTotals {
        let id = self.id(topic, group);
        &mut self.pairs[id as usize]
    }
}

/// Of one broker's pops, since the start.
#[derive(Default)]
pub(super) struct Totals(Mutex<Counted>);

impl Totals {
    pub fn stored_check_point(&self, topic: &[u8], group: &[u8]) {
        self.0.lock().pair(topic, group).stored.check_points += 1;
    }

    pub fn stored_ack(&self, topic: &[u8], group: &[u8]) {
        self.0.lock().pair(topic, group).stored.acks += 1;
    }

    pub fn revived(&self, topic: &[u8], group: &[u8]) {
        self.0.lock().pair(topic, group).revived += 1;
    }

    /// One record was read from a queue of the revive topic.
    pub fn read(&self, topic: &[u8], group: &[u8], queue: u32, is_ack: bool) {
        let counted = &mut *self.0.lock();
        let mut place = (counted.id(topic, group), queue);
        if counted.read.len() >= MAX_READ && !counted.read.contains_key(&place) {
            place.0 = OTHERS;
        }
        let records = counted.read.entry(place).or_default();
        match is_ack {
            true => records.acks += 1,
            false => records.check_points += 1,
        }
    }

    /// All pairs; the one without names stands for those that are too many.
    pub fn rows(&self) -> Vec<PairTotals> {
        let counted = self.0.lock();
        let mut rows = counted.pairs.clone();
        for (&(id, queue), &records) in &counted.read {
            rows[id as usize].read.push((queue, records));
        }
        drop(counted);
        let is_empty = |row: &PairTotals| {
            row.stored == Records::default() && row.revived == 0 && row.read.is_empty()
        };
        rows.retain(|row| !is_empty(row));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(check_points: u64, acks: u64) -> Records {
        Records { check_points, acks }
    }

    #[test]
    fn pairs_are_counted_apart() {
        let totals = Totals::default();
        totals.stored_check_point(b"T", b"G");
        totals.stored_ack(b"T", b"G");
        totals.stored_ack(b"T", b"G");
        totals.stored_check_point(b"T", b"H");
        totals.stored_check_point(b"T", b"G");
        totals.revived(b"T", b"G");
        totals.read(b"T", b"G", 3, false);
        totals.read(b"T", b"G", 3, true);
        totals.read(b"U", b"G", 3, true);
        let row = |topic: &[u8], group: &[u8]| PairTotals {
            topic: topic.into(),
            group: group.into(),
            ..PairTotals::default()
        };
        let want = [
            PairTotals {
                stored: records(2, 2),
                revived: 1,
                read: vec![(3, records(1, 1))],
                ..row(b"T", b"G")
            },
            PairTotals {
                stored: records(1, 0),
                ..row(b"T", b"H")
            },
            PairTotals {
                read: vec![(3, records(0, 1))],
                ..row(b"U", b"G")
            },
        ];
        assert_eq!(totals.rows(), want);
    }

    #[test]
    fn too_many_share_a_row_without_names() {
        let totals = Totals::default();
        for n in 0..MAX_PAIRS as u32 + 5 {
            totals.stored_ack(&n.to_be_bytes(), b"G");
        }
        for queue in 0..MAX_READ as u32 + 7 {
            totals.read(&0u32.to_be_bytes(), b"G", queue, false);
        }
        let rows = totals.rows();
        assert_eq!(rows.len(), MAX_PAIRS + 1);
        assert_eq!((&*rows[0].topic, &*rows[0].group), (&b""[..], &b""[..]));
        assert_eq!(rows[0].stored, records(0, 5));
        assert_eq!(rows[0].read.len(), 7);
        assert_eq!(rows[1].read.len(), MAX_READ);
        totals.stored_ack(&0u32.to_be_bytes(), b"G");
        assert_eq!(totals.rows()[1].stored, records(0, 2), "it keeps its row");
    }
}
