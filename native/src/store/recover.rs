//! Opening a store that was stopped or that crashed: the longest valid prefix of the log stays,
//! queues are brought in line with it.

use super::error::{Result, StoreError};
use super::guard::LastStop;
use super::store_impl::Store;
use crate::format::checkpoint::{self, Checkpoint};
use crate::format::cq_entry::{CqEntry, Entry};
use crate::format::delay;
use crate::format::record::{self, Found, View, sys_flag};
use crate::format::{java, properties};
use std::sync::atomic::Ordering;

/// Most places in a row that are left blank where a queue's numbers jump.
const MOST_BLANKS: i64 = 1 << 20;

impl Store {
    pub(super) fn recover(&self, last_stop: LastStop) -> Result<()> {
        let clean = last_stop == LastStop::Clean;
        let queues = self.topics.all_queues();
        let mut sound = last_stop != LastStop::FailedFlush;
        for queue in &queues {
            sound &= queue.recover(clean)?;
        }
        let queue_end = queues.iter().map(|q| q.max_phys()).max().unwrap_or(-1);
        let point = self.read_checkpoint();
        *self.opened_with.lock() = point;
        let mut first = self.first_file_to_scan(clean, queue_end, &point);
        if !sound && first > 0 {
            log::warn!("the consume queues cannot be relied on: all are rebuilt from the log");
            first = 0;
        }
        let mut scanned = self.enter_from(first, clean && sound)?;
        if scanned.gap && first > 0 {
            // A queue lacks entries of older files: somebody deleted it. Enter everything anew.
            log::warn!("a consume queue is incomplete: all are rebuilt from the log");
            first = 0;
            scanned = self.enter_from(first, false)?;
        }
        let Scan { end, newest, .. } = scanned;
        self.check_nothing_durable_behind(end, clean, &point)?;
        for queue in self.topics.all_queues() {
            queue.truncate_phys(end)?;
        }
        self.log.truncate(end)?;
        let min = self.log.min_offset();
        self.trimmed_to.store(min, Ordering::Release);
        for queue in self.topics.all_queues() {
            queue.correct_min(min)?;
        }
        // What a kill left in the page cache only is made durable before anyone is shown it.
        if !clean {
            for s in self.log.segments().iter().skip(first) {
                let end = (end.min(s.end()).saturating_sub(s.base())) as usize;
                if last_stop == LastStop::FailedFlush {
                    s.touch(end);
                }
                s.flush(0, end)?;
            }
        }
        for queue in self.topics.all_queues() {
            queue.flush()?;
        }
        self.recover_index(clean, point.index_msg_timestamp, end)?;
        let newest = newest.max(point.logics_msg_timestamp);
        self.put_times.store(newest, Ordering::Relaxed);
        self.flush.set_flushed(end, newest);
        self.set_queues_flushed(newest);
        let mut writer = self.writer.lock();
        writer.segment = self.log.segments().last().cloned();
        writer.last_timestamp = newest.min(super::store_impl::now_ms());
        Ok(())
    }

    /// A log may end early only in what was not flushed. When a later file starts with a record
    /// that is known to be on disk, what was found at `end` is damage and not a torn tail: nothing
    /// is deleted, somebody has to decide.
    fn check_nothing_durable_behind(
        &self,
        end: u64,
        clean: bool,
        point: &Checkpoint,
    ) -> Result<()> {
        let segments = self.log.segments();
        let Some(next) = segments.iter().find(|s| s.base() > end) else {
            return Ok(());
        };
        let bytes = next.readable_from(0);
        let Found::Record(v) = record::read(bytes, true) else {
            return Ok(());
        };
        let known = clean || point.physic_msg_timestamp == 0;
        if v.phys == next.base() as i64 && (known || v.store_timestamp <= point.min_timestamp()) {
            return Err(StoreError::Damaged {
                path: next.path().to_path_buf(),
                message: format!(
                    "the record at {end} is damaged although this later file is known to be \
                     complete; restore the file that holds {end}, or move this and all later \
                     files away to go on with what is before"
                ),
            });
        }
        Ok(())
    }

    /// Without a readable checkpoint everything is scanned.
    fn read_checkpoint(&self) -> Checkpoint {
        let path = self.config().root.join("checkpoint");
        match std::fs::read(&path) {
            Ok(bytes) => Checkpoint::read(&bytes[..bytes.len().min(checkpoint::SIZE)]),
            Err(_) => None,
        }
        .unwrap_or_default()
    }

    /// Index of the newest file that the queues are known to cover up to its start; 0 if none.
    fn first_file_to_scan(&self, clean: bool, queue_end: i64, point: &Checkpoint) -> usize {
        let segments = self.log.segments();
        let covered = |bytes: &[u8], base: u64| {
            let Some(time) = record::peek_store_timestamp(bytes) else {
                return false;
            };
            if !matches!(record::read(bytes, false), Found::Record(_)) || time == 0 {
                return false;
            }
            base as i64 <= queue_end && (clean || time <= point.min_timestamp())
        };
        (0..segments.len())
            .rev()
            .find(|&i| covered(segments[i].readable_from(0), segments[i].base()))
            .unwrap_or(0)
    }

    /// Enters into queues what they miss from file `first` on; unless `keep`, what they have from
    /// there on is entered anew, as a crash may have left torn or stale entries.
    fn enter_from(&self, first: usize, keep: bool) -> Result<Scan> {
        if !keep {
            let from = self.log.segments().get(first).map_or(0, |s| s.base());
            for queue in self.topics.all_queues() {
                if first == 0 && queue.starts_blank() {
                    queue.start_at(0)?; // it was begun in the middle: its start may be found now
                } else {
                    queue.truncate_phys(from)?;
                }
            }
        }
        self.scan(first)
    }

    /// Walks the records from file `first` on.
    fn scan(&self, first: usize) -> Result<Scan> {
        let segments = self.log.segments();
        let mut end = segments.get(first).map_or(0, |s| s.base());
        let (mut newest, mut gap) = (0, false);
        for segment in segments.iter().skip(first) {
            let bytes = segment.readable_from(0);
            let mut at = 0;
            end = segment.base();
            let blank = loop {
                match record::read(&bytes[at..], self.config().check_crc_on_recover) {
                    Found::Record(v) if v.phys == end as i64 => {
                        newest = newest.max(v.store_timestamp);
                        gap |= self.replay(&bytes[at..at + v.total], &v, end)?;
                        at += v.total;
                        end += v.total as u64;
                    }
                    Found::Record(v) => {
                        log::info!("log ends at {end}: the record there says {}", v.phys);
                        break false;
                    }
                    Found::Blank => break true,
                    Found::Invalid(why) => {
                        log::info!("log ends at {end}: {why}");
                        break false;
                    }
                }
            };
            if !blank {
                return Ok(Scan { end, newest, gap });
            }
            end = segment.end();
        }
        Ok(Scan { end, newest, gap })
    }

    /// Enters one record into its queue unless it is there. True if entries before it are missing.
    fn replay(&self, bytes: &[u8], v: &View, phys: u64) -> Result<bool> {
        let kind = v.sys_flag & sys_flag::TRANSACTION_MASK;
        if kind == sys_flag::PREPARED || kind == sys_flag::ROLLBACK {
            return Ok(false);
        }
        let inner = v.sys_flag & sys_flag::INNER_BATCH != 0;
        if inner && self.topics.get(&bytes[v.topic.clone()]).is_none() {
            self.topics.declare_batch(&bytes[v.topic.clone()]);
        }
        let topic = match self.topics.topic(&bytes[v.topic.clone()]) {
            Ok(topic) => topic,
            Err(e) => {
                log::warn!("record at {phys} is in no queue: {e}");
                return Ok(false);
            }
        };
        let Ok(queue_id) = u32::try_from(v.queue_id) else {
            log::warn!("record at {phys} is in no queue: queueId {}", v.queue_id);
            return Ok(false);
        };
        let queue = match topic.queue(queue_id) {
            Ok(queue) => queue,
            Err(StoreError::Illegal(why)) => {
                log::warn!("record at {phys} is in no queue: {why}");
                return Ok(false);
            }
            Err(e) => return Err(e),
        };
        let end = phys + v.total as u64;
        if end as i64 <= queue.max_phys() {
            return Ok(false);
        }
        if inner && !topic.is_batch() {
            log::warn!("record at {phys} is in no queue: an inner batch in a SimpleCQ topic");
            return Ok(false);
        }
        let gap = v.queue_offset > queue.max_offset();
        if gap && queue.max_phys() < 0 {
            // Also drops the blanks of a fill that was cut short.
            queue.start_at(v.queue_offset)?;
        } else if queue.max_offset() != v.queue_offset {
            log::warn!(
                "{}-{queue_id}: record at {phys} has queue offset {}, {} was expected",
                String::from_utf8_lossy(topic.name()),
                v.queue_offset,
                queue.max_offset()
            );
            let near = queue.max_offset()..queue.max_offset() + MOST_BLANKS;
            if !near.contains(&v.queue_offset) {
                return Ok(false); // the number itself is damaged: the record is in no queue
            }
            queue.skip_to(v.queue_offset)?;
        }
        let props = &bytes[v.props.clone()];
        let tags_code = tags_code(topic.name(), props, v.store_timestamp);
        let entry = Entry {
            cq: CqEntry {
                phys: phys as i64,
                size: v.total as i32,
                tags_code,
            },
            base: v.queue_offset,
            count: if inner { inner_count(props) } else { 1 },
            store_time: v.store_timestamp,
        };
        queue.append(&entry)?;
        Ok(gap)
    }
}

/// What a walk over the log found: the end of its valid part, the newest store time, and whether a
/// queue lacked entries before the walk's start.
struct Scan {
    end: u64,
    newest: i64,
    gap: bool,
}

/// How many messages an inner batch says it holds.
fn inner_count(props: &[u8]) -> i32 {
    properties::find(props, b"INNER_NUM")
        .and_then(|n| std::str::from_utf8(n).ok()?.parse::<i16>().ok())
        .map_or(1, |n| n.max(1) as i32)
}

/// The tag code of a queue entry: the hash of TAGS, or in the schedule topic the time of delivery.
pub fn tags_code(topic: &[u8], props: &[u8], store_timestamp: i64) -> i64 {
    if topic == delay::SCHEDULE_TOPIC
        && let Some(time) = properties::find(props, b"DELAY")
            .and_then(|level| delay::deliver_time(level, store_timestamp))
    {
        return time;
    }
    properties::find(props, b"TAGS").map_or(0, |tag| java::hash(tag) as i64)
}
