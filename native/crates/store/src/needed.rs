//! From where on the log is still needed, by how far the readers of each queue have come.

use super::consume_queue::ConsumeQueue;
use super::error::Result;
use super::store_impl::Store;
use rustc_hash::FxHashMap;

/// Places of a queue without an entry that are passed. Behind so many all of the log counts as needed.
const MOST_GAPS: i64 = 4096;

/// How far the readers of a topic are: no message before these queue offsets is needed.
#[derive(Clone, Debug, Default)]
pub struct DoneTo {
    pub queues: FxHashMap<u32, i64>,
    /// In all queues that `queues` does not have.
    pub others: i64,
}

/// By topic.
pub type Done = FxHashMap<Box<[u8]>, DoneTo>;

/// From where on the log is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededFrom {
    /// No record before this physical offset is needed.
    pub phys: u64,
    /// Topic and queue id of the first record that is needed; None: all that queues have is done.
    pub by: Option<(Box<[u8]>, u32)>,
}

impl Store {
    /// Where the first record stands that is needed by a queue of any topic. Of a topic that `done` does not
    /// have all is needed. It is at most where the log is on disk and confirmed. Reads the disk.
    pub fn needed_from(&self, done: &Done) -> Result<NeededFrom> {
        // All records before `end` are in their queues. Later ones stand behind it.
        let end = self.write_staged(|end| end)?;
        let barrier = self.barrier();
        let mut found = NeededFrom {
            phys: end.min(barrier.flushed()).min(barrier.confirmed()),
            by: None,
        };
        for topic in self.topics().all() {
            let of_topic = done.get(topic.name());
            for queue in topic.queues() {
                let id = queue.queue_id();
                let offset = of_topic.map_or(0, |d| d.queues.get(&id).copied().unwrap_or(d.others));
                let first = first_from(&queue, offset)?;
                if let Some(phys) = first.filter(|phys| *phys < found.phys) {
                    found = NeededFrom {
                        phys,
                        by: Some((topic.name().into(), id)),
                    };
                }
            }
        }
        Ok(found)
    }
}

/// Physical offset of the first record of a queue from a queue offset on; None: there is none.
fn first_from(queue: &ConsumeQueue, offset: i64) -> Result<Option<u64>> {
    let first = offset.max(queue.min_offset());
    let max = queue.max_offset();
    let end = max.min(first.saturating_add(MOST_GAPS));
    for at in first..end {
        let entry = queue.entry(at)?.map(|e| e.cq);
        if let Some(cq) = entry.filter(|cq| cq.is_valid() && !cq.is_blank())
            && let Ok(phys) = u64::try_from(cq.phys)
        {
            return Ok(Some(phys));
        }
    }
    Ok((end < max).then_some(0))
}

#[cfg(test)]
#[path = "needed_tests.rs"]
mod tests;
