//! Replay: dispatching the records of a log to their queues anew.
//!
//! No checksum covers a record's queue offset. A number that does not follow the one before is
//! therefore believed only when the queue's next record confirms it; until then the entry is in
//! doubt. Where a number is damaged or records are missing, places are left blank, so that every
//! other message keeps its queue offset.

use super::consume_queue::ConsumeQueue;
use super::dispatch::{inner_count, is_queued};
use super::error::{Result, StoreError};
use super::topics::Topics;
use pyrmq_format::cq_entry::{CqEntry, Entry, Layout, tags_code};
use pyrmq_format::delay::Levels;
use pyrmq_format::record::{View, sys_flag};
use pyrmq_format::{names, properties};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Most consecutive places that are left blank where a queue's numbers jump.
const MOST_BLANKS: i64 = 1 << 20;
/// The same where nothing confirms the jump.
const FEW_BLANKS: i64 = 1024;
/// No queue gets this far; higher numbers are damage.
const MAX_QUEUE_OFFSET: i64 = 1 << 56;

pub struct Replay<'t> {
    topics: &'t Topics,
    levels: &'t Levels,
    /// The log still has its very first file: every queue starts at 0.
    whole_log: bool,
    /// Entries whose queue offset is in doubt, by the address of their queue.
    in_doubt: FxHashMap<usize, (Arc<ConsumeQueue>, Entry)>,
    /// Records whose queue offset another one has, by the address of their queue.
    repeats: FxHashMap<usize, Repeats>,
    /// A queue lacked entries of records before the walk's start.
    pub gap: bool,
    pub ended_halves: Vec<EndedHalf>,
    /// The queue of the record before: neighbours mostly share it.
    last: Option<(Vec<u8>, i32, Arc<ConsumeQueue>)>,
}

impl<'t> Replay<'t> {
    /// `log_min`: where the log begins.
    pub fn new(topics: &'t Topics, levels: &'t Levels, log_min: u64) -> Self {
        Replay {
            topics,
            levels,
            whole_log: log_min == 0,
            in_doubt: FxHashMap::default(),
            repeats: FxHashMap::default(),
            gap: false,
            ended_halves: Vec::new(),
            last: None,
        }
    }

    /// Appends the entry of one record to its queue unless it is there.
    pub fn dispatch(&mut self, bytes: &[u8], v: &View, phys: u64) -> Result<()> {
        self.ended_halves.extend(ended_half(bytes, v));
        if !is_queued(v.sys_flag) {
            return Ok(());
        }
        let name = &bytes[v.topic.clone()];
        let inner = v.sys_flag & sys_flag::INNER_BATCH != 0;
        if inner && self.topics.get(name).is_none() {
            self.topics.declare_batch(name);
        }
        let Some(queue) = self.queue(name, v.queue_id, phys)? else {
            return Ok(());
        };
        if (phys + v.total as u64) as i64 <= queue.max_phys() {
            return Ok(());
        }
        let batch = queue.layout() == Layout::Batch;
        if inner && !batch {
            let shown = String::from_utf8_lossy(name);
            self.leave_out(
                phys,
                format!("an inner batch in the SimpleCQ topic {shown:?}"),
            );
            return Ok(());
        }
        let props = &bytes[v.props.clone()];
        let entry = Entry {
            cq: CqEntry {
                phys: phys as i64,
                size: v.total as i32,
                tags_code: tags_code(name, props, v.store_timestamp, self.levels),
            },
            base: v.queue_offset,
            count: if inner { inner_count(props) } else { 1 },
            store_time: v.store_timestamp,
        };
        self.append(queue, entry)
    }

    fn queue(&mut self, name: &[u8], id: i32, phys: u64) -> Result<Option<Arc<ConsumeQueue>>> {
        if let Some((last, last_id, queue)) = &self.last
            && *last_id == id
            && last == name
        {
            return Ok(Some(queue.clone()));
        }
        let found = self.find(name, id, phys)?;
        if let Some(queue) = &found {
            self.last = Some((name.to_vec(), id, queue.clone()));
        }
        Ok(found)
    }

    fn find(&self, name: &[u8], id: i32, phys: u64) -> Result<Option<Arc<ConsumeQueue>>> {
        let found = self.topics.topic(name).and_then(|topic| {
            let id = u32::try_from(id)
                .map_err(|_| StoreError::Illegal(format!("queueId {id} is negative")))?;
            topic.queue(id)
        });
        match found {
            Ok(queue) => Ok(Some(queue)),
            Err(StoreError::Illegal(why)) => {
                self.leave_out(phys, why);
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    fn leave_out(&self, phys: u64, why: String) {
        self.topics.left_out().tell(phys, why);
    }

    fn append(&mut self, queue: Arc<ConsumeQueue>, entry: Entry) -> Result<()> {
        let key = Arc::as_ptr(&queue) as usize;
        if !self.in_doubt.is_empty()
            && let Some((_, doubtful)) = self.in_doubt.remove(&key)
        {
            self.place_doubtful(&queue, &doubtful, Some(entry.base))?;
        }
        let expected = queue.max_offset();
        let free_start = self.may_start_anywhere(&queue);
        if entry.base == expected && !free_start {
            return queue.append(&entry);
        }
        self.gap |= entry.base > expected;
        self.in_doubt.insert(key, (queue, entry));
        Ok(())
    }

    /// Whether nothing says where a queue continues: it has no entry, and older files of the log are
    /// gone. A simple queue that has files continues where they begin.
    fn may_start_anywhere(&self, queue: &ConsumeQueue) -> bool {
        let numbered = || queue.layout() == Layout::Simple && queue.files().first().is_some();
        !self.whole_log && queue.max_phys() < 0 && !numbered()
    }

    /// Decides about an entry that is in doubt, once the number of the next one is known.
    fn place_doubtful(
        &mut self,
        queue: &Arc<ConsumeQueue>,
        doubtful: &Entry,
        next: Option<i64>,
    ) -> Result<()> {
        let expected = queue.max_offset();
        let free_start = self.may_start_anywhere(queue);
        let possible = (0..MAX_QUEUE_OFFSET).contains(&doubtful.base);
        let confirmed = next == Some(doubtful.next());
        if free_start {
            let start = match next {
                Some(next) if !confirmed && (1..MAX_QUEUE_OFFSET).contains(&next) => next - 1,
                _ if possible => doubtful.base,
                _ => return Ok(()),
            };
            queue.start_at(start)?;
            if start == doubtful.base {
                return queue.append(doubtful);
            }
            self.log_doubt(queue, doubtful, "the next one says otherwise");
            return queue.skip_to(start + 1);
        }
        if doubtful.base < expected && next != Some(expected + 1) {
            // A repeat: the topic was deleted and made again. Where the queue has no entry there, it is
            // one that the queue lacks.
            self.gap |= queue.is_damaged_at(doubtful.base)?;
            let key = Arc::as_ptr(queue) as usize;
            let repeats = self.repeats.entry(key).or_insert_with(|| Repeats {
                queue: queue.clone(),
                count: 0,
                phys: doubtful.cq.phys,
                base: doubtful.base,
            });
            repeats.count += 1;
            return Ok(());
        }
        if next == Some(expected) {
            self.log_doubt(queue, doubtful, "it is left out");
            return Ok(());
        }
        // The last record of a queue has none behind it: a small gap is believed.
        let most = if confirmed { MOST_BLANKS } else { FEW_BLANKS };
        let near = (expected..expected.saturating_add(most)).contains(&doubtful.base);
        if near && (confirmed || next.is_none()) {
            log::warn!(
                topic:% = queue.topic_name(), queue = queue.queue_id(), path:% = queue.files().dir().display();
                "{}: messages {expected} to {} are missing",
                queue.files().dir().display(),
                doubtful.base - 1
            );
            queue.skip_to(doubtful.base)?;
            return queue.append(doubtful);
        }
        self.log_doubt(queue, doubtful, "its place is left blank");
        queue.skip_to(expected + 1)
    }

    /// Decides about all that is still in doubt. True if a queue lacked entries.
    pub fn finish(mut self) -> Result<bool> {
        for (_, (queue, doubtful)) in std::mem::take(&mut self.in_doubt) {
            self.place_doubtful(&queue, &doubtful, None)?;
        }
        for repeats in self.repeats.values() {
            log::warn!(
                topic:% = repeats.queue.topic_name(), queue = repeats.queue.queue_id(), path:% = repeats.queue.files().dir().display();
                "{}: {} records, the first at {} with queue offset {}, are left out: the queue has \
                 other messages at their offsets (the topic was deleted and made again)",
                repeats.queue.files().dir().display(),
                repeats.count,
                repeats.phys,
                repeats.base
            );
        }
        Ok(self.gap)
    }

    fn log_doubt(&self, queue: &ConsumeQueue, entry: &Entry, what: &str) {
        log::warn!(
            topic:% = queue.topic_name(), queue = queue.queue_id(), path:% = queue.files().dir().display();
            "{}: the record at {} says queue offset {}, {} was expected; {what}",
            queue.files().dir().display(),
            entry.cq.phys,
            entry.base,
            queue.max_offset()
        );
    }
}

/// Records of a queue that are left out, and the first of them.
struct Repeats {
    queue: Arc<ConsumeQueue>,
    count: u64,
    phys: i64,
    base: i64,
}

/// A half message that another record settles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedHalf {
    pub phys: i64,
    /// So are copies of it that stand before this physical offset: all, if it was committed; if it was
    /// moved to TRANS_CHECK_MAX_TIME_TOPIC, those that are not from taking it up again.
    pub until: i64,
}

/// The half that a record settles: the message of a committed transaction does, and one that was moved
/// to TRANS_CHECK_MAX_TIME_TOPIC. Others may have kept the flag: one that a consumer sent back, say.
fn ended_half(bytes: &[u8], v: &View) -> Option<EndedHalf> {
    let topic = &bytes[v.topic.clone()];
    let phys = v.prepared_transaction_offset;
    if topic == names::CHECK_MAX_TOPIC {
        return (phys > 0).then_some(EndedHalf {
            phys,
            until: v.phys,
        });
    }
    let committed = v.sys_flag & sys_flag::TRANSACTION_MASK == sys_flag::COMMIT
        && properties::find(&bytes[v.props.clone()], b"REAL_TOPIC") == Some(topic);
    committed.then_some(EndedHalf {
        phys,
        until: i64::MAX,
    })
}
