//! The get path: which records a consumer gets from a queue offset on. [DefaultMessageStore]

use super::consume_queue::ConsumeQueue;
use super::error::Result;
use super::segment::Segment;
use super::store_impl::Store;
use super::topics::Arrival;
use crate::format::cq_entry::{CqEntry, SIZE};
use crate::format::record::{self, Found};
use std::sync::Arc;

/// In RocketMQ's order; the numbers cross the C border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum GetStatus {
    Found = 0,
    NoMatchedMessage = 1,
    MessageWasRemoving = 2,
    OffsetFoundNull = 3,
    OffsetOverflowBadly = 4,
    OffsetOverflowOne = 5,
    OffsetTooSmall = 6,
    NoMatchedLogicQueue = 7,
    NoMessageInQueue = 8,
}

/// Bytes of the log, in one piece, kept alive by their segment.
#[derive(Clone)]
pub struct Chunk {
    pub segment: Arc<Segment>,
    pub at: usize,
    pub len: usize,
}

pub struct GetResult {
    pub status: GetStatus,
    pub next: i64,
    pub min: i64,
    pub max: i64,
    pub count: usize,
    pub bytes: usize,
    /// Physical offset of the last entry looked at, -1 if none.
    pub last_phys: i64,
    /// The records; neighbours in the log are one chunk.
    pub chunks: Vec<Chunk>,
}

/// Which tag codes a consumer wants; only the low 32 bits count. [DefaultMessageFilter]
#[derive(Clone, Copy)]
pub struct TagFilter<'a>(pub &'a [i32]);

impl TagFilter<'_> {
    /// An empty set means every message.
    #[inline]
    pub fn matches(&self, tags_code: i64) -> bool {
        self.0.is_empty() || self.0.contains(&(tags_code as i32))
    }
}

impl Store {
    /// Highest queue offset that consumers may know of.
    pub fn visible_max(&self, queue: &ConsumeQueue) -> i64 {
        let max = queue.max_offset();
        if !self.is_sync() || queue.max_phys() <= self.flush.flushed() as i64 {
            return max;
        }
        let confirmed = self.flush.flushed() as i64;
        let (mut low, mut high) = (queue.min_offset().min(max), max);
        while low < high {
            let mid = low + (high - low) / 2;
            if queue.entry(mid).is_some_and(|e| e.end() <= confirmed) {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        low
    }

    /// Reads at most `max_count` records and `max_bytes` bytes from `offset` on. The first
    /// matching record is returned whatever its size.
    pub fn get(
        &self,
        queue: Option<&ConsumeQueue>,
        offset: i64,
        max_count: usize,
        max_bytes: usize,
        tags: TagFilter<'_>,
    ) -> Result<GetResult> {
        self.check_readable()?;
        let mut r = GetResult {
            status: GetStatus::NoMessageInQueue,
            next: 0,
            min: 0,
            max: 0,
            count: 0,
            bytes: 0,
            last_phys: -1,
            chunks: Vec::new(),
        };
        let Some(queue) = queue else { return Ok(r) };
        r.min = queue.min_offset();
        r.max = self.visible_max(queue);
        (r.status, r.next) = if r.max == 0 {
            (GetStatus::NoMessageInQueue, 0)
        } else if offset < r.min {
            (GetStatus::OffsetTooSmall, r.min)
        } else if offset == r.max {
            (GetStatus::OffsetOverflowOne, offset)
        } else if offset > r.max {
            (GetStatus::OffsetOverflowBadly, r.max)
        } else {
            self.collect(queue, offset, max_count, max_bytes, tags, &mut r)
        };
        Ok(r)
    }

    fn collect(
        &self,
        queue: &ConsumeQueue,
        offset: i64,
        max_count: usize,
        max_bytes: usize,
        tags: TagFilter<'_>,
        r: &mut GetResult,
    ) -> (GetStatus, i64) {
        let Some((file, at)) = queue.file_from(offset) else {
            return (GetStatus::OffsetFoundNull, queue.next_file_offset(offset));
        };
        let cfg = self.config();
        let max_count = max_count.max(1);
        let max_bytes = max_bytes.max(100);
        let scan = cfg.max_filter_bytes.max(max_count * SIZE);
        let in_view = (r.max - offset) as usize * SIZE;
        let entries = file.readable_from(at);
        let entries = &entries[..entries.len().min(scan).min(in_view)];
        let max_phys = self.log.max_offset();
        let mut status = GetStatus::NoMatchedMessage;
        let mut next = offset;
        // Entries of records below this offset are gone with their file.
        let mut gone_below = 0;
        for slot in entries.chunks_exact(SIZE) {
            let entry = CqEntry::read(slot);
            let size = entry.size as usize;
            if r.count > 0 {
                let recent = max_phys.saturating_sub(entry.phys as u64) <= cfg.in_memory_bytes;
                let (bytes, count) = if recent {
                    cfg.transfer_memory
                } else {
                    cfg.transfer_disk
                };
                if r.count >= max_count.min(count) || r.bytes + size > max_bytes.min(bytes) {
                    break;
                }
            }
            next += 1;
            r.last_phys = entry.phys;
            if entry.phys < gone_below || !tags.matches(entry.tags_code) {
                continue;
            }
            let place = self.log.locate(entry.phys as u64);
            match place.filter(|(s, at)| s.bytes(*at, size).is_some()) {
                Some((segment, at)) => {
                    push_chunk(&mut r.chunks, segment, at, size);
                    r.count += 1;
                    r.bytes += size;
                    status = GetStatus::Found;
                }
                None => {
                    gone_below = self.log.next_file_start(entry.phys as u64) as i64;
                    if status != GetStatus::Found {
                        status = GetStatus::MessageWasRemoving;
                    }
                }
            }
        }
        (status, next)
    }

    /// Asks that the next message of a queue be reported as an arrival, once. What is entered
    /// already but not shown yet (its flush is under way) is reported by that flush.
    pub fn wait_for(&self, topic: &[u8], queue_id: u32) -> Result<()> {
        let topic = self.topics.topic(topic)?;
        let queue = topic.queue(queue_id)?;
        queue.set_waiting(true);
        let end = queue.max_phys();
        let hidden = self.is_sync() && end > self.flush.flushed() as i64;
        if hidden && queue.take_waiting() {
            self.topics.note_arrival(Arrival {
                topic,
                queue_id,
                end: end as u64,
            });
        }
        Ok(())
    }

    /// The record that starts at a physical offset; None if none does. [selectOneMessageByOffset]
    pub fn record_at(&self, phys: u64) -> Option<Chunk> {
        self.check_readable().ok()?;
        let (segment, at) = self.log.locate(phys)?;
        let Found::Record(v) = record::read(segment.readable_from(at), false) else {
            return None;
        };
        let end = phys + v.total as u64;
        let len = v.total;
        (v.phys == phys as i64 && end <= self.confirm_offset()).then_some(Chunk {
            segment,
            at,
            len,
        })
    }

    /// Store time of the record of a queue entry.
    fn time_of(&self, queue: &ConsumeQueue, offset: i64) -> Option<i64> {
        let entry = queue.entry(offset)?;
        let (segment, at) = self.log.locate(u64::try_from(entry.phys).ok()?)?;
        record::peek_store_timestamp(segment.bytes(at, usize::try_from(entry.size).ok()?)?)
    }

    /// Queue offset by store time. Lower bound: the first entry at or after `time` (the end if
    /// none); upper bound: the last one at or before it. [getOffsetInQueueByTime]
    pub fn offset_by_time(&self, queue: &ConsumeQueue, time: i64, upper: bool) -> i64 {
        let (min, max) = (queue.min_offset(), self.visible_max(queue));
        let (mut low, mut high) = (min, max);
        while low < high {
            let mid = low + (high - low) / 2;
            let before = match self.time_of(queue, mid) {
                Some(t) if upper => t <= time,
                Some(t) => t < time,
                None => true, // its file is gone: older than everything that is left
            };
            if before { low = mid + 1 } else { high = mid }
        }
        if upper { (low - 1).max(min) } else { low }.min(max)
    }

    /// Store time of the oldest message of a queue, -1 if it has none.
    pub fn earliest_time(&self, queue: &ConsumeQueue) -> i64 {
        self.time_of(queue, queue.min_offset()).unwrap_or(-1)
    }
}

#[inline]
fn push_chunk(chunks: &mut Vec<Chunk>, segment: Arc<Segment>, at: usize, len: usize) {
    if let Some(last) = chunks.last_mut()
        && last.at + last.len == at
        && Arc::ptr_eq(&last.segment, &segment)
    {
        last.len += len;
        return;
    }
    chunks.push(Chunk { segment, at, len });
}
