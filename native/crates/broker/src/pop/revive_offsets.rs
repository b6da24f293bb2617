//! How far groups have popped, from the check points in the log: the file with the committed offsets
//! is older after a kill, and what was acknowledged since would be popped again.
//!
//! Check points are timer messages, so all of them are in one queue, in the order of the pops. A pop
//! ends behind its last message. Check points that a change of the invisible time has set are no pops:
//! the acknowledgement of the older check point stands right behind them. Orderly groups set check points
//! that are acknowledged already: such a one says how far they have acknowledged (`Pops::done_in_order`).

use super::Pops;
use pyrmq_format::pop::{Ack, CheckPoint, Kind};
use pyrmq_format::{properties, timer};
use pyrmq_store::{Result, Stored};
use rustc_hash::FxHashMap;

/// Topic, group and queue.
pub type Place = (Box<[u8]>, Box<[u8]>, i32);

/// A check point that may be a pop's.
#[derive(Clone, Debug)]
struct Found {
    place: Place,
    start: i64,
    next: i64,
    pop_time: i64,
    /// Whether it has one message: a change of the invisible time sets such a one.
    single: bool,
    /// Whether it says what an orderly group has acknowledged.
    in_order: bool,
}

/// What check points say of offsets.
#[derive(Debug, Default)]
pub struct PoppedTo {
    /// Entries of the queue that were looked at, and check points among them.
    pub entries: u64,
    pub check_points: u64,
    /// Where the last pop of each queue ended.
    pub offsets: FxHashMap<Place, i64>,
    /// The last record of the log, if it may be a pop's or a change's whose second record a kill cut off: it
    /// counts if the group's offset is the first of these.
    pub unsure: Option<(Place, i64, i64)>,
}

impl PoppedTo {
    fn apply(&mut self, found: Found) {
        self.offsets.insert(found.place, found.next);
    }
}

impl Pops {
    /// What the check points from a place of the queue of timer messages on say.
    pub fn popped_to(&self, from: i64) -> Result<PoppedTo> {
        let queue = self.timer_topic.queue(0)?;
        let mut result = PoppedTo::default();
        let mut last: Option<Found> = None;
        let (mut diffs, mut offsets) = (Vec::new(), Vec::new());
        for offset in from.max(queue.min_offset())..queue.max_offset() {
            result.entries += 1;
            let entry = queue.entry(offset)?.filter(|e| e.cq.is_valid());
            let code = entry.map(|e| e.cq.tags_code);
            let is = |kind: Kind| code == Some(kind.tags_code());
            let may_settle = is(Kind::Ack) && last.as_ref().is_some_and(|found| found.single);
            let record = match entry {
                Some(entry) if may_settle || is(Kind::CheckPoint) => {
                    Stored::read(&self.store, entry.cq.phys as u64)?
                }
                _ => None,
            };
            let record = record.filter(|record| self.is_ours(record));
            let before = last.take();
            match record {
                Some(record) if may_settle => {
                    let ack = Ack::read(record.body(), &mut offsets);
                    let changed =
                        |found: &Found| ack.as_ref().is_ok_and(|ack| found.is_set_by(ack));
                    if let Some(found) = before.filter(|found| !changed(found)) {
                        result.apply(found);
                    }
                }
                record => {
                    if let Some(found) = before {
                        result.apply(found);
                    }
                    let ck = record
                        .as_ref()
                        .and_then(|record| CheckPoint::read(record.body(), &mut diffs).ok());
                    last = ck.and_then(|ck| Found::of(&ck));
                    result.check_points += last.is_some() as u64;
                    if let Some(found) = last.take_if(|found| found.in_order) {
                        result.apply(found);
                    }
                }
            }
        }
        if let Some(found) = last {
            match result.offsets.get(&found.place) {
                _ if !found.single => result.apply(found),
                Some(&known) if known == found.start => result.apply(found),
                Some(_) => {}
                None => result.unsure = Some((found.place, found.start, found.next)),
            }
        }
        Ok(result)
    }

    /// Whether a timer message is for the revive topic: only the broker sets such ones.
    pub(super) fn is_ours(&self, record: &Stored) -> bool {
        properties::find(record.props(), timer::REAL_TOPIC) == Some(self.revive_topic())
    }
}

impl Found {
    fn of(ck: &CheckPoint<'_>) -> Option<Found> {
        let last = *ck.diffs.last()?;
        if ck.put_again.is_some() {
            return None; // of a message that could not be revived
        }
        let p = &ck.popped;
        Some(Found {
            place: (p.topic.as_ref().into(), p.group.as_ref().into(), p.queue_id),
            start: p.start_offset,
            next: p.start_offset.saturating_add(last as i64 + 1),
            pop_time: p.pop_time,
            single: ck.diffs == [0],
            in_order: ck.is_done(),
        })
    }

    /// Whether the change of the invisible time that wrote this acknowledgement has set the check point.
    fn is_set_by(&self, ack: &Ack<'_>) -> bool {
        let p = &ack.popped;
        let (topic, group, queue_id) = &self.place;
        ack.offsets == [self.start]
            && p.pop_time != self.pop_time
            && (&*p.topic, &*p.group, p.queue_id) == (&**topic, &**group, *queue_id)
    }
}

#[cfg(test)]
#[path = "revive_offsets_tests.rs"]
mod tests;
