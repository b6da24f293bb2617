//! The oldest message that is popped and not settled: it is before the offset of its group, and still needed.
//!
//! A check point is settled once the reviver has judged it. Until then it is among the timer messages that
//! wait, or in the revive topic behind what the reviver has kept as done. So it is looked for in both.

use super::Pops;
use pyrmq_format::pop::{CheckPoint, Kind};
use pyrmq_store::{ConsumeQueue, Result, Stored};
use rustc_hash::FxHashMap;

/// By topic and queue id the first queue offset that a check point has.
type Starts = FxHashMap<(Box<[u8]>, i32), i64>;

struct Look {
    starts: Starts,
    diffs: Vec<i32>,
    /// Check points that may still be read.
    left: usize,
}

impl Look {
    /// Takes a check point; false if that is one too many.
    fn take(&mut self, record: &Stored) -> bool {
        let Some(left) = self.left.checked_sub(1) else {
            return false;
        };
        self.left = left;
        // The reviver leaves out what it cannot read as well.
        if let Ok(ck) = CheckPoint::read(record.body(), &mut self.diffs)
            && !ck.is_done()
        {
            let p = &ck.popped;
            let place = (p.topic.as_ref().into(), p.queue_id);
            let start = self.starts.entry(place).or_insert(i64::MAX);
            *start = (*start).min(p.start_offset);
        }
        true
    }
}

impl Pops {
    /// Physical offset of the first message that a check point has which may not be settled; u64::MAX: there
    /// is none. `waiting`: no timer message before this physical offset waits. `revived`: by revive queue
    /// the place up to which all is judged. Both have to be older than this call. None: there are more than
    /// `most` check points. Reads the disk.
    pub fn oldest_popped(&self, waiting: u64, revived: &[i64], most: usize) -> Result<Option<u64>> {
        let mut look = Look {
            starts: Starts::default(),
            diffs: Vec::new(),
            left: most,
        };
        // What is staged gets into its queues first.
        self.store.write_staged(|_| ())?;
        let timers = self.timer_topic.queue(0)?;
        for offset in timers.first_at(waiting)?..timers.max_offset() {
            if let Some(record) = self.check_point(&timers, offset)?
                && self.is_ours(&record)
                && !look.take(&record)
            {
                return Ok(None);
            }
        }
        let topic = self.store.topics().topic(&self.revive_topic)?;
        for queue in topic.queues() {
            let place = revived.get(queue.queue_id() as usize).copied();
            let begin = place.unwrap_or(0).max(queue.min_offset());
            for offset in begin..queue.max_offset() {
                if let Some(record) = self.check_point(&queue, offset)?
                    && !look.take(&record)
                {
                    return Ok(None);
                }
            }
        }
        self.first_of(&look.starts).map(Some)
    }

    /// The record at a place of a queue, if its entry says that it is a check point.
    fn check_point(&self, queue: &ConsumeQueue, offset: i64) -> Result<Option<Stored>> {
        let code = Kind::CheckPoint.tags_code();
        match queue.entry(offset)? {
            Some(entry) if entry.cq.is_valid() && entry.cq.tags_code == code => {
                Stored::read(&self.store, entry.cq.phys as u64)
            }
            _ => Ok(None),
        }
    }

    /// Where the first of these messages stands that is still there.
    fn first_of(&self, starts: &Starts) -> Result<u64> {
        let mut first = u64::MAX;
        for ((topic, id), start) in starts {
            let topic = self.store.topics().get(topic);
            let queue = topic.and_then(|t| t.existing_queue(u32::try_from(*id).ok()?));
            let Some(queue) = queue else {
                continue; // it was deleted
            };
            let offset = (*start).max(queue.min_offset());
            if offset < queue.max_offset() {
                let entry = queue.entry(offset)?.map(|e| e.cq);
                let valid = entry.filter(|cq| cq.is_valid() && !cq.is_blank());
                first = first.min(valid.map_or(0, |cq| cq.phys as u64));
            }
        }
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{NOW, PopRig, ask, group};
    use crate::testing::TOPIC;

    /// Where the message at an offset of the popped queue stands.
    fn place(rig: &PopRig, offset: i64) -> u64 {
        let topic = rig.pops.store().topics().get(TOPIC).unwrap();
        let queue = topic.existing_queue(1).unwrap();
        queue.entry(offset).unwrap().unwrap().cq.phys as u64
    }

    fn pop(rig: &PopRig, offset: i64, count: usize, time: i64) {
        let taken = rig.pops.take(&ask(TOPIC, offset, count), &group(time));
        assert_eq!(taken.unwrap().offsets.len(), count);
    }

    fn oldest(rig: &PopRig, waiting: u64) -> Option<u64> {
        rig.pops.oldest_popped(waiting, &[], 100).unwrap()
    }

    #[test]
    fn the_first_message_of_the_check_points_that_wait() {
        let rig = PopRig::new();
        rig.put(TOPIC, &["a"; 10]);
        assert_eq!(oldest(&rig, 0), Some(u64::MAX));
        pop(&rig, 6, 2, NOW);
        let second = rig.pops.store().log().max_offset();
        pop(&rig, 3, 2, NOW + 1);
        assert_eq!(oldest(&rig, 0), Some(place(&rig, 3)));
        assert_eq!(oldest(&rig, second), Some(place(&rig, 3)));
        assert_eq!(oldest(&rig, second + 1), Some(u64::MAX), "all are settled");
        let third = rig.pops.store().log().max_offset();
        pop(&rig, 8, 1, NOW + 2);
        assert_eq!(oldest(&rig, third), Some(place(&rig, 8)));
        // What is gone, or of a queue that is, is not needed.
        rig.pops.store().hide_messages(TOPIC, 1, 7);
        assert_eq!(oldest(&rig, 0), Some(place(&rig, 7)));
        rig.pops.store().hide_messages(TOPIC, 1, 10);
        assert_eq!(oldest(&rig, 0), Some(u64::MAX));
    }

    #[test]
    fn too_many_are_not_read() {
        let rig = PopRig::new();
        rig.put(TOPIC, &["a"; 10]);
        for offset in 0..5 {
            pop(&rig, offset, 1, NOW);
        }
        let read = |most| rig.pops.oldest_popped(0, &[], most).unwrap();
        assert_eq!(read(5), Some(place(&rig, 0)));
        assert_eq!(read(4), None);
    }
}
