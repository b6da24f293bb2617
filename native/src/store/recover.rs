//! Opening a store that was stopped or that crashed: the longest valid prefix of the log stays,
//! queues are brought in line with it.

use super::consume_queue::ConsumeQueue;
use super::error::{Result, StoreError};
use super::guard::{self, LastStop};
use super::replay::Replay;
use super::resync;
use super::store_impl::Store;
use crate::format::checkpoint::{self, Checkpoint};
use crate::format::record::{self, Found};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Store {
    pub(super) fn recover(&self, last_stop: LastStop) -> Result<()> {
        let clean = last_stop == LastStop::Clean;
        let queues = self.topics.all_queues();
        // Physical offset up to which every queue has all that it had.
        let mut intact = i64::MAX;
        for queue in &queues {
            if last_stop == LastStop::FailedFlush {
                queue.distrust();
                intact = -1;
            }
            if !queue.recover(clean)? {
                intact = intact.min(queue.max_phys());
            }
        }
        let sound = intact == i64::MAX;
        let queue_end = queues.iter().map(|q| q.max_phys()).max().unwrap_or(-1);
        let point = self.read_checkpoint();
        *self.opened_with.lock() = point;
        if clean {
            self.check_log_is_whole(&queues)?;
        }
        let mut first = self.first_file_to_scan(clean, queue_end, &point);
        // What a queue lost behind the start of the walk is entered anew by it in any case.
        let start = self.log.segments().get(first).map_or(0, |s| s.base());
        if first > 0 && intact < start as i64 {
            log::warn!("the consume queues cannot be relied on: all are rebuilt from the log");
            guard::note_rebuild(&self.config().root)?;
            first = 0;
        }
        if clean && !sound {
            guard::note_rebuild(&self.config().root)?;
        }
        let known = |time: i64| {
            clean || (point.physic_msg_timestamp > 0 && time <= point.physic_msg_timestamp - 3000)
        };
        let mut scanned = self.enter_from(first, clean && sound, known)?;
        // An entry of a record behind the log is damage; where its own record is nobody knows.
        let astray = || queues.iter().any(|q| q.max_phys() > scanned.end as i64);
        if first > 0 && (scanned.gap || clean && astray())
            || first == 0 && clean && sound && astray()
        {
            // A queue lacks entries of older files: somebody deleted it. Enter everything anew.
            log::warn!("a consume queue is incomplete: all are rebuilt from the log");
            guard::note_rebuild(&self.config().root)?;
            first = 0;
            scanned = self.enter_from(first, false, known)?;
        }
        let Scan { end, newest, .. } = scanned;
        self.check_nothing_durable_behind(end, clean, &point)?;
        let queues = self.topics.all_queues();
        for queue in &queues {
            queue.truncate_phys(end)?;
            queue.finish()?;
        }
        self.log.truncate(end)?;
        let min = self.log.min_offset();
        for queue in &queues {
            queue.correct_min(min)?;
        }
        if let Err(e) = self.flush_recovered(last_stop, first, end, &queues) {
            if !clean {
                guard::note_failed_flush(&self.config().root);
            }
            return Err(e);
        }
        self.recover_index(clean, point.index_msg_timestamp, end)?;
        let newest = newest.max(point.logics_msg_timestamp);
        self.put_times.store(newest, Ordering::Relaxed);
        self.flush.set_flushed(end, newest);
        self.set_queues_flushed(newest);
        let mut writer = self.writer.lock();
        writer.segment = self.log.segments().last().cloned();
        if let Some(active) = &writer.segment {
            active.expect_writing(true);
        }
        writer.last_timestamp = newest.min(super::store_impl::now_ms());
        Ok(())
    }

    /// What a kill left in the page cache only is made durable before anyone is shown it.
    fn flush_recovered(
        &self,
        last_stop: LastStop,
        first: usize,
        end: u64,
        queues: &[Arc<ConsumeQueue>],
    ) -> Result<()> {
        if last_stop != LastStop::Clean {
            for s in self.log.segments().iter().skip(first) {
                let end = (end.min(s.end()).saturating_sub(s.base())) as usize;
                if last_stop == LastStop::FailedFlush {
                    s.touch(end)?;
                }
                s.flush(0, end)?;
            }
        }
        self.flush_all(queues)
    }

    /// After a clean stop queues know of no record behind the log's last file. Where several
    /// entries of one do, a file is missing (a disk that is not mounted, say), and going on would
    /// forget them.
    fn check_log_is_whole(&self, queues: &[Arc<ConsumeQueue>]) -> Result<()> {
        let end = self.log.max_offset();
        for queue in queues {
            if queue.entries_behind(end)? > 1 {
                return Err(StoreError::Damaged {
                    path: queue.files().dir(),
                    message: format!(
                        "the queue knows of messages up to {}, but the commit log ends at {end}: \
                         a file or a folder of storePathCommitLog is missing; mount or restore \
                         it, or, to go on without what it had, create the file {}",
                        queue.max_phys(),
                        self.config().root.join("abort").display()
                    ),
                });
            }
        }
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
    /// `known` tells by the store time of a record whether it was on disk at the last stop.
    fn enter_from(&self, first: usize, keep: bool, known: impl Fn(i64) -> bool) -> Result<Scan> {
        if !keep {
            let from = self.log.segments().get(first).map_or(0, |s| s.base());
            for queue in self.topics.all_queues() {
                if first == 0 && queue.starts_blank() {
                    queue.start_at(0)?; // it was begun in the middle: its start may be found now
                } else {
                    queue.rewind(from)?;
                }
            }
        }
        self.scan(first, known)
    }

    /// Walks the records from file `first` on.
    fn scan(&self, first: usize, known: impl Fn(i64) -> bool) -> Result<Scan> {
        let segments = self.log.segments();
        let mut end = segments.get(first).map_or(0, |s| s.base());
        let mut newest = 0;
        let mut replay = Replay::new(self);
        'files: for segment in segments.iter().skip(first) {
            let bytes = segment.readable_from(0);
            let mut at = 0;
            end = segment.base();
            loop {
                let why = match record::read(&bytes[at..], self.config().check_crc_on_recover) {
                    Found::Record(v) if v.phys == end as i64 => {
                        newest = newest.max(v.store_timestamp);
                        replay.enter(&bytes[at..at + v.total], &v, end)?;
                        if replay.gap && first > 0 {
                            // All is to be entered anew: nothing is to be written on a guess.
                            return Ok(Scan {
                                end,
                                newest,
                                gap: true,
                            });
                        }
                        at += v.total;
                        end += v.total as u64;
                        continue;
                    }
                    Found::Blank => break,
                    Found::Record(_) => "the record there says another place",
                    Found::Invalid(why) => why,
                };
                match resync::next_record(segment, at)? {
                    Some(next) if known(next.store_timestamp) => {
                        log::error!(
                            "{}: {} bytes at {end} are damaged ({why}) and left out; what stands \
                             behind them is known to be on disk and stays",
                            segment.path().display(),
                            next.at - at
                        );
                        end += (next.at - at) as u64;
                        at = next.at;
                    }
                    Some(next) => {
                        log::warn!(
                            "{}: the log ends at {end} ({why}); a record at {}, which was not \
                             known to be on disk, is cut off with it",
                            segment.path().display(),
                            segment.base() + next.at as u64
                        );
                        break 'files;
                    }
                    None => {
                        log::info!("log ends at {end}: {why}");
                        break 'files;
                    }
                }
            }
            end = segment.end();
        }
        *self.ended_halves.lock() = std::mem::take(&mut replay.ended_halves);
        let gap = replay.finish()?;
        Ok(Scan { end, newest, gap })
    }
}

/// What a walk over the log found: the end of its valid part, the newest store time, and whether a
/// queue lacked entries before the walk's start.
struct Scan {
    end: u64,
    newest: i64,
    gap: bool,
}
