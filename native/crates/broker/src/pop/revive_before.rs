//! What was revived before the start, of check points that are read again: kept progress is older than
//! the log after a kill.
//!
//! A revived record names its check point and its message in its preparedTransactionOffset: no client
//! can set that. Records of retry topics are looked through when the first check point for that topic
//! is judged, from the newest back to the oldest check point that is read again.

use super::revive_round::record_of;
use pyrmq_store::{ConsumeQueue, Result, Store};
use rustc_hash::{FxHashMap, FxHashSet};

/// Records of retry topics that are looked at, in all.
const MAX_RECORDS: usize = 1 << 22;

pub(super) struct Before {
    /// By revive queue where it ended at the start.
    ends: Vec<i64>,
    /// The physical offset of the first record that is read again; None: none is.
    from: Option<u64>,
    /// By retry topic what its records say.
    known: FxHashMap<Box<[u8]>, FxHashSet<u64>>,
    read: usize,
}

impl Before {
    /// By revive queue, in their order: it, and the place from which it is read.
    pub fn new<'q>(lanes: impl Iterator<Item = (&'q ConsumeQueue, i64)>) -> Result<Before> {
        let mut before = Before {
            ends: Vec::new(),
            from: None,
            known: FxHashMap::default(),
            read: 0,
        };
        for (queue, next) in lanes {
            let end = queue.max_offset();
            before.ends.push(end);
            let entry = match next < end {
                true => queue.entry(next)?,
                false => None,
            };
            if let Some(phys) = entry.and_then(|e| u64::try_from(e.cq.phys).ok()) {
                before.from = Some(before.from.map_or(phys, |from| from.min(phys)));
            }
        }
        Ok(before)
    }

    /// Whether the message that `place` stands for, of a check point at this offset of a revive queue, is
    /// in the retry topic.
    pub fn has(
        &mut self,
        store: &Store,
        revive_queue: u32,
        offset: i64,
        topic: &[u8],
        place: u64,
    ) -> Result<bool> {
        let Some(from) = self.from else {
            return Ok(false);
        };
        if offset >= self.ends[revive_queue as usize] {
            return Ok(false);
        }
        if let Some(known) = self.known.get(topic) {
            return Ok(known.contains(&place));
        }
        let known = self.read(store, topic, from)?;
        let found = known.contains(&place);
        self.known.insert(topic.into(), known);
        Ok(found)
    }

    fn read(&mut self, store: &Store, topic: &[u8], from: u64) -> Result<FxHashSet<u64>> {
        let mut known = FxHashSet::default();
        let found = store.topics().get(topic);
        let Some(queue) = found.and_then(|topic| topic.existing_queue(0)) else {
            return Ok(known);
        };
        for offset in (queue.min_offset()..queue.max_offset()).rev() {
            if self.read >= MAX_RECORDS {
                log::error!(
                    topic:% = String::from_utf8_lossy(topic);
                    "{}: what was revived before its offset {offset} is not looked at: some of it may \
                     be revived twice",
                    String::from_utf8_lossy(topic)
                );
                break;
            }
            self.read += 1;
            let Some(stored) = record_of(store, &queue, offset)? else {
                continue;
            };
            if stored.phys() < from {
                break;
            }
            let place = stored.view().prepared_transaction_offset;
            if let Ok(place @ 1..) = u64::try_from(place) {
                known.insert(place);
            }
        }
        Ok(known)
    }

    /// Forgets all once no queue is read again any more. `places`: how far each is.
    pub fn forget(&mut self, mut places: impl Iterator<Item = i64>) {
        if self.from.is_some() && self.ends.iter().all(|&end| places.next() >= Some(end)) {
            self.from = None;
            self.known = FxHashMap::default();
        }
    }
}
