//! What the parts of the reviver share: where messages go, what one call did, records of queues.

use pyrmq_store::{ConsumeQueue, Result, Store, StoreError, Stored};
use std::collections::BTreeMap;

pub(super) type Name = Box<[u8]>;

/// Where messages of a topic and group go that were not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// This retry topic.
    Topic(Name),
    /// Nowhere: the topic or the group is gone.
    Gone,
}

/// By topic (as it was popped from) and group.
pub type Targets = BTreeMap<(Name, Name), Target>;

/// What one call did.
#[derive(Debug, Default)]
pub struct Round {
    /// Records of the revive topic that were read.
    pub read: usize,
    /// Check points that were judged.
    pub judged: usize,
    /// Messages that were appended to a retry topic, with their bytes, by topic.
    pub revived: BTreeMap<Name, (usize, usize)>,
    /// Messages that are in no queue any more.
    pub missing: usize,
    /// Messages that were put off, as they could not be read or stored.
    pub put_off: usize,
    /// Messages of topics or groups that are gone.
    pub gone: usize,
    /// Messages that are in a retry topic since before the start.
    pub known: usize,
    /// Topics and groups whose target is not known: nothing behind their check points is judged.
    pub unknown: Vec<(Name, Name)>,
    /// More can be done at once.
    pub more: bool,
    /// Why it ended before everything was done.
    pub error: Option<StoreError>,
}

impl Round {
    pub fn count(&self) -> usize {
        self.revived.values().map(|(count, _)| count).sum()
    }
}

/// The record that stands at a place of a queue; None: the queue does not have it.
pub(super) fn record_of(
    store: &Store,
    queue: &ConsumeQueue,
    offset: i64,
) -> Result<Option<Stored>> {
    if !(queue.min_offset()..queue.max_offset()).contains(&offset) {
        return Ok(None);
    }
    match queue.entry(offset)? {
        Some(entry) if entry.cq.is_valid() && !entry.cq.is_blank() => {
            Stored::read(store, entry.cq.phys as u64)
        }
        _ => Ok(None),
    }
}
