//! Recovery of a store that was stopped or that crashed: the longest valid prefix of the log stays,
//! queues are brought in line with it.

use super::commit_log::CommitLog;
use super::config::StoreConfig;
use super::consume_queue::ConsumeQueue;
use super::dispatch::is_queued;
use super::error::{Result, StoreError};
use super::guard::{self, LastStop};
use super::queue_flusher::QueueFlusher;
use super::read::is_multi_dispatched;
use super::replay::{EndedHalf, Replay};
use super::resident::{Resident, Wait};
use super::resync;
use super::segment::Segment;
use super::topics::{Topic, Topics};
use pyrmq_format::checkpoint::Checkpoint;
use pyrmq_format::cq_entry::{CqEntry, Entry};
use pyrmq_format::record::{self, BLANK_LEN, Found, View};
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of the log that are read at a time.
const READ_AT_ONCE: usize = 4 << 20;

/// No log lacks so many bytes at its end: who speaks of more is damaged.
const FARTHEST: i64 = 1 << 44;

/// What recovery has to know and to work on.
pub struct Recovery<'s> {
    pub cfg: &'s StoreConfig,
    pub log: &'s CommitLog,
    pub topics: &'s Topics,
    pub queue_flusher: &'s QueueFlusher,
    pub last_stop: LastStop,
    /// The checkpoint that was found.
    pub point: Checkpoint,
}

/// What recovery found.
pub struct Recovered {
    /// The log's end.
    pub end: u64,
    /// Store timestamp of the newest record, in ms.
    pub newest: i64,
    /// Halves that records of the part that was walked settle.
    pub ended_halves: Vec<EndedHalf>,
    /// Records of that part, and its bytes.
    pub walked: (u64, u64),
}

impl Recovery<'_> {
    pub fn run(&self) -> Result<Recovered> {
        let clean = self.last_stop == LastStop::Clean;
        let queues = self.topics.all_queues();
        // Physical offset up to which every queue has all that it had.
        let mut intact = i64::MAX;
        for queue in &queues {
            if self.trusts_nothing() {
                queue.distrust();
                intact = -1;
            }
            if !queue.recover(clean)? && clean {
                intact = intact.min(self.believed(queue, queue.max_phys()));
            }
        }
        let queue_end = queues.iter().map(|q| q.max_phys()).max().unwrap_or(-1);
        if self.last_stop != LastStop::LossAccepted {
            self.check_log_is_whole(clean)?;
        }
        let mut first = self.first_file_to_scan(clean, queue_end)?;
        // What a queue lost behind the start of the walk is dispatched anew by it in any case.
        let start = self.base_of(first);
        if !clean && !self.trusts_nothing() {
            for (topic, queue) in self.queues_of_topics() {
                let is_real = |entry: &Entry| self.is_real(&topic, &queue, entry);
                if let Some(has) = queue.damage_before(start, self.log.min_offset(), is_real)? {
                    intact = intact.min(self.believed(&queue, has));
                }
            }
        }
        let sound = intact == i64::MAX;
        if first > 0 && intact < start as i64 {
            first = self.last_file_from(intact);
            log::warn!(
                "the consume queues cannot be relied on: all are rebuilt from the log, from {} on",
                self.base_of(first)
            );
            guard::note_rebuild(&self.cfg.root)?;
        } else if clean && !sound {
            guard::note_rebuild(&self.cfg.root)?;
        }
        let mut scanned = self.dispatch_from(&mut first, clean && sound)?;
        // An entry of a record behind the log is damage; its own record may be anywhere.
        let astray = || queues.iter().any(|q| q.max_phys() > scanned.end as i64);
        if first > 0 && (scanned.gap || clean && astray())
            || first == 0 && clean && sound && astray()
        {
            // A queue lacks entries of older files: somebody deleted it. Dispatch everything anew.
            log::warn!("a consume queue is incomplete: all are rebuilt from the log");
            guard::note_rebuild(&self.cfg.root)?;
            first = 0;
            scanned = self.dispatch_from(&mut first, false)?;
        }
        let end = scanned.end;
        self.check_nothing_durable_behind(end, clean)?;
        self.report_loss(end);
        let queues = self.topics.all_queues();
        for queue in &queues {
            queue.truncate_phys(end)?;
            queue.finish()?;
        }
        // If the power fails again, no entry comes back whose part of the log is gone, or has a record
        // that is yet to come.
        self.queue_flusher.sync_erased(&queues)?;
        self.log.truncate(end)?;
        let min = self.log.min_offset();
        for queue in &queues {
            queue.correct_min(min)?;
        }
        if let Err(e) = self.flush(first, end, &queues) {
            if !clean {
                guard::note_failed_flush(&self.cfg.root);
            }
            return Err(e);
        }
        Ok(Recovered {
            end,
            newest: scanned.newest.max(self.point.logics_msg_timestamp),
            ended_halves: scanned.ended_halves,
            walked: scanned.walked,
        })
    }

    /// Whether the record that an entry leads to is the one of the entry's place; None if there is no
    /// whole record.
    fn is_real(&self, topic: &Topic, queue: &ConsumeQueue, entry: &Entry) -> Result<Option<bool>> {
        let Some((segment, at)) = self.log.locate(entry.cq.phys as u64) else {
            return Ok(None);
        };
        let bytes = Resident::new(Wait::ForDisk).record(&segment, at)?;
        Ok(match record::read(bytes, true) {
            Found::Record(v) if v.phys == entry.cq.phys => {
                let is_of_it = (v.queue_id as u32, v.queue_offset)
                    == (queue.queue_id(), entry.base)
                    && bytes[v.topic.clone()] == *topic.name();
                if !is_of_it && is_multi_dispatched(&bytes[..v.total]) {
                    return Ok(None); // it is in other queues too
                }
                Some(is_of_it && v.total as i32 == entry.cq.size)
            }
            _ => None,
        })
    }

    /// Says that entries of a queue behind those of the log below `phys` are not believed.
    fn believed(&self, queue: &ConsumeQueue, phys: i64) -> i64 {
        log::warn!(
            topic:% = queue.topic_name(), queue = queue.queue_id(), path:% = queue.files().dir().display();
            "{}: entries of messages behind {phys} are missing or damaged: they are made again",
            queue.files().dir().display()
        );
        phys
    }

    /// Deletes queues whose entries refer to extension units that are gone, to be made anew. True if
    /// there were any.
    fn discard_without_units(&self) -> Result<bool> {
        let mut lost = Vec::new();
        for queue in self.topics.all_queues() {
            if !queue.has_units()? {
                lost.push(queue);
            }
        }
        if !lost.is_empty() {
            guard::note_rebuild(&self.cfg.root)?;
        }
        for queue in &lost {
            log::warn!(
                topic:% = queue.topic_name(), queue = queue.queue_id(), path:% = queue.files().dir().display();
                "{}: its entries refer to an extension file or units that are gone: all queues are \
                 rebuilt from the log",
                queue.files().dir().display()
            );
            queue.discard()?;
        }
        Ok(!lost.is_empty())
    }

    fn base_of(&self, file: usize) -> u64 {
        self.log.segments().get(file).map_or(0, |s| s.base())
    }

    /// Index of the last file that begins at or before a physical offset; 0 if none does.
    fn last_file_from(&self, phys: i64) -> usize {
        let segments = self.log.segments();
        let found = segments.iter().rposition(|s| s.base() as i64 <= phys);
        found.unwrap_or(0)
    }

    /// Whether all is written anew: what a failed flush noted, the operator's word may have replaced.
    fn trusts_nothing(&self) -> bool {
        matches!(
            self.last_stop,
            LastStop::FailedFlush | LastStop::LossAccepted
        )
    }

    /// What a kill left in the page cache only is made durable before consumers see it.
    fn flush(&self, first: usize, end: u64, queues: &[Arc<ConsumeQueue>]) -> Result<()> {
        if self.last_stop != LastStop::Clean {
            self.log.dirs().all().try_for_each(guard::sync_dir)?;
            for queue in queues.iter().filter(|q| q.files().first().is_some()) {
                queue.files().distrust_names();
            }
            for s in self.log.segments().iter().skip(first) {
                let end = (end.min(s.end()).saturating_sub(s.base())) as usize;
                if self.trusts_nothing() {
                    s.touch(end)?;
                }
                s.flush(0, end)?;
            }
        }
        self.queue_flusher.flush_queues(queues)
    }

    /// Nothing knows of records behind the log's last file: a file is on disk before the first entry
    /// of its records is. Where something does, a file or a folder is missing (a disk that is not
    /// mounted, say), and going on would erase what tells of it. One entry of a queue may be damage.
    fn check_log_is_whole(&self, clean: bool) -> Result<()> {
        let segments = self.log.segments();
        let end = match segments.last() {
            Some(_) if clean => self.log.max_offset(),
            last => last.map_or(0, |s| s.end()),
        };
        let doubtful = u64::from(!segments.is_empty());
        // A power cut may leave the content of another file in a queue's block.
        let size = self.log.file_size() as i64;
        let possible = |cq: &CqEntry| {
            cq.phys - (end as i64) < FARTHEST && cq.phys % size + i64::from(cq.size) <= size
        };
        for (topic, queue) in self.queues_of_topics() {
            let is_real = |entry: &Entry| self.is_real(&topic, &queue, entry);
            if queue.entries_behind(end, doubtful + 1, possible)? > doubtful
                && !queue.has_real_behind(end, self.log.min_offset(), is_real)?
            {
                let known = format!("the queue knows of messages up to {}", queue.max_phys());
                return Err(self.log_is_short(queue.files().dir(), &known, end));
            }
        }
        if segments.is_empty() && self.point.physic_msg_timestamp > 0 {
            let path = self.cfg.root.join("checkpoint");
            return Err(self.log_is_short(path, "messages were on disk at the last stop", end));
        }
        Ok(())
    }

    fn log_is_short(&self, path: PathBuf, known: &str, end: u64) -> StoreError {
        StoreError::Damaged {
            path,
            message: format!(
                "{known}, but the files of the commit log end at {end}: a file or a folder of \
                 storePathCommitLog is missing. Nothing was changed. Mount or restore it; or, to \
                 continue without what it had, for good, {}",
                guard::how_to_accept_loss(&self.cfg.root)
            ),
        }
    }

    /// A log may end early only in what was not flushed. When a later file starts with a record
    /// that is known to be on disk, what was found at `end` is damage and not a torn tail: nothing
    /// is deleted, an operator has to decide.
    fn check_nothing_durable_behind(&self, end: u64, clean: bool) -> Result<()> {
        let segments = self.log.segments();
        let Some(next) = segments.iter().find(|s| s.base() > end) else {
            return Ok(());
        };
        if self.starts_flushed(next, clean)? {
            return Err(StoreError::Damaged {
                path: next.path().to_path_buf(),
                message: format!(
                    "the record at {end} is damaged although this later file is known to be \
                     complete; restore the file that holds {end}; or, to continue with what is \
                     before, move this and all later files away and {}",
                    guard::how_to_accept_loss(&self.cfg.root)
                ),
            });
        }
        Ok(())
    }

    /// Says so if the log ends before what was known to be on disk: its last part cannot be read any more.
    fn report_loss(&self, end: u64) {
        let known = self.point.confirm_phy_offset;
        if self.last_stop != LastStop::LossAccepted && (end as i64) < known {
            log::error!(
                "the log ends at {end}, but messages up to {known} were on disk at the last stop: \
                 {} bytes are damaged and lost, or a file is missing (or the checkpoint is damaged). \
                 Restore the last file from a copy, if there is one, before the broker takes messages",
                known - end as i64
            );
        }
    }

    /// Whether a file starts with a record that is known to be on disk, by its place or its store time.
    fn starts_flushed(&self, segment: &Segment, clean: bool) -> Result<bool> {
        let bytes = Resident::new(Wait::ForDisk).record(segment, 0)?;
        let Found::Record(v) = record::read(bytes, true) else {
            return Ok(false);
        };
        let known = clean || self.point.physic_msg_timestamp == 0;
        Ok(v.phys == segment.base() as i64
            && (known
                || v.end() <= self.point.confirm_phy_offset
                || v.store_timestamp <= self.point.min_timestamp()))
    }

    /// Index of the newest file that the queues are known to cover up to its start; 0 if none, so
    /// without a readable checkpoint after a crash.
    fn first_file_to_scan(&self, clean: bool, queue_end: i64) -> Result<usize> {
        let segments = self.log.segments();
        let covered = |bytes: &[u8], base: u64| match record::read(bytes, false) {
            // One that belongs elsewhere says nothing of this file.
            Found::Record(v) if v.phys == base as i64 && v.store_timestamp > 0 => {
                let is_flushed = clean || v.store_timestamp <= self.point.min_timestamp();
                is_flushed && base as i64 <= queue_end
            }
            _ => false,
        };
        for (i, segment) in segments.iter().enumerate().rev() {
            let bytes = Resident::new(Wait::ForDisk).record(segment, 0)?;
            if covered(bytes, segment.base()) {
                return Ok(i);
            }
        }
        Ok(0)
    }

    /// Dispatches to queues what they miss from file `first` on (which becomes 0 where a queue has to be
    /// made anew); unless `keep`, what they have from there on is dispatched anew, as a crash may have left
    /// torn or stale entries.
    fn dispatch_from(&self, first: &mut usize, keep: bool) -> Result<Scan> {
        if !keep {
            self.rewind_to(*first)?;
        }
        if self.discard_without_units()? && (*first > 0 || keep) {
            *first = 0;
            self.rewind_to(0)?;
        }
        for queue in self.topics.all_queues() {
            queue.cut_ext()?;
        }
        self.scan(*first)
    }

    /// Sets all queues back to the entries of records before file `first`.
    fn rewind_to(&self, first: usize) -> Result<()> {
        let (from, log_min) = (self.base_of(first), self.log.min_offset());
        for (topic, queue) in self.queues_of_topics() {
            if first == 0 && queue.starts_blank() {
                queue.start_at(0)?; // it was begun in the middle: its start may be found now
            } else {
                let is_real = |entry: &Entry| self.is_real(&topic, &queue, entry);
                queue.rewind(from, log_min, is_real)?;
            }
        }
        Ok(())
    }

    fn queues_of_topics(&self) -> Vec<(Arc<Topic>, Arc<ConsumeQueue>)> {
        let of = |topic: Arc<Topic>| topic.queues().into_iter().map(move |q| (topic.clone(), q));
        self.topics.all().into_iter().flat_map(of).collect()
    }

    /// What the queues, as they were found, say of a record: that it is one, that another one has its
    /// place (false), or nothing.
    fn vouched(&self, v: &View, bytes: &[u8]) -> Result<Option<bool>> {
        if self.trusts_nothing() || !is_queued(v.sys_flag) {
            return Ok(None);
        }
        let Some(topic) = self.topics.get(&bytes[v.topic.clone()]) else {
            return Ok(None);
        };
        let id = u32::try_from(v.queue_id).ok();
        let Some(queue) = id.and_then(|id| topic.existing_queue(id)) else {
            return Ok(None);
        };
        let Some((phys, size)) = queue.found_entry(v.queue_offset)? else {
            return Ok(None);
        };
        if (phys, size) == (v.phys, v.total as i32) {
            return Ok(Some(true));
        }
        let entry = Entry {
            cq: CqEntry {
                phys,
                size,
                tags_code: 0,
            },
            base: v.queue_offset,
            count: 1,
            store_time: 0,
        };
        // An entry that leads to a record of another place, or nowhere, says nothing.
        let is_misplaced = self.log.locate(phys as u64).is_none()
            || self.is_real(&topic, &queue, &entry)? == Some(false);
        Ok((!is_misplaced).then_some(false))
    }

    /// Whether a record was on disk at the last stop: by where it ends, or, if the checkpoint does not
    /// say how far the disk was, by its store time, which counts if its queue knows of it.
    fn was_flushed(&self, v: &View, vouched: Option<bool>) -> bool {
        let point = &self.point;
        if self.last_stop == LastStop::Clean {
            return true;
        }
        if point.confirm_phy_offset > 0 {
            return v.end() <= point.confirm_phy_offset;
        }
        let flushed = point.physic_msg_timestamp;
        vouched == Some(true) && flushed > 0 && v.store_timestamp <= flushed - 3000
    }

    /// Whether a crash has cut the write of this record: a zero stands where its properties (its topic
    /// if it has none) end, which no checksum covers, zeros follow, and nothing says that it was
    /// written: it got its queue entry behind the write. `bytes` begin with it.
    fn is_cut(&self, bytes: &[u8], v: &View) -> Result<bool> {
        let ends_early = self.last_stop != LastStop::Clean
            && v.text_ends_in_zero(bytes)
            && bytes[v.total..].iter().take(BLANK_LEN).all(|&b| b == 0);
        Ok(ends_early
            && v.end() > self.point.confirm_phy_offset
            && self.vouched(v, bytes)? != Some(true))
    }

    /// Walks the records from file `first` on.
    fn scan(&self, first: usize) -> Result<Scan> {
        let segments = self.log.segments();
        let mut end = segments.get(first).map_or(0, |s| s.base());
        let (mut newest, mut walked) = (0, (0, 0));
        let mut replay = Replay::new(self.topics, &self.cfg.delay_levels, self.log.min_offset());
        'files: for segment in segments.iter().skip(first) {
            let mut near = Resident::reading_ahead(Wait::ForDisk, READ_AT_ONCE);
            let mut at = 0;
            end = segment.base();
            loop {
                let bytes = near.record(segment, at)?;
                let why = match record::read(bytes, self.cfg.check_crc_on_recover) {
                    Found::Record(v) if v.phys == end as i64 && self.is_cut(bytes, &v)? => {
                        "its properties end in zeros: its write was cut"
                    }
                    Found::Record(v) if v.phys == end as i64 => {
                        newest = newest.max(v.store_timestamp);
                        replay.dispatch(&bytes[..v.total], &v, end)?;
                        if replay.gap && first > 0 {
                            // All is to be dispatched anew: nothing is to be written on a guess.
                            return Ok(Scan {
                                end,
                                newest,
                                walked,
                                gap: true,
                                ended_halves: Vec::new(),
                            });
                        }
                        at += v.total;
                        end += v.total as u64;
                        walked = (walked.0 + 1, walked.1 + v.total as u64);
                        continue;
                    }
                    Found::Blank => break,
                    Found::Record(_) => "it states another physical offset",
                    Found::Invalid(why) => why,
                };
                let mut was_flushed = false;
                let next = resync::next_record(segment, at, |v, bytes| {
                    let vouched = self.vouched(v, bytes)?;
                    was_flushed = self.was_flushed(v, vouched);
                    Ok(vouched != Some(false))
                })?;
                match next {
                    Some(next) if was_flushed => {
                        log::error!(
                            path:% = segment.path().display();
                            "{}: {} bytes at {end} are damaged ({why}) and left out; what stands \
                             behind them is known to be on disk and stays",
                            segment.path().display(),
                            next - at
                        );
                        end += (next - at) as u64;
                        at = next;
                    }
                    Some(next) => {
                        log::warn!(
                            path:% = segment.path().display();
                            "{}: the log ends at {end} ({why}); a record at {}, which was not \
                             known to be on disk, is cut off with it",
                            segment.path().display(),
                            segment.base() + next as u64
                        );
                        break 'files;
                    }
                    None => {
                        log::info!(
                            path:% = segment.path().display();
                            "the log ends at {end}: {why}, and nothing valid stands behind it"
                        );
                        break 'files;
                    }
                }
            }
            end = segment.end();
        }
        let ended_halves = std::mem::take(&mut replay.ended_halves);
        let gap = replay.finish()?;
        Ok(Scan {
            end,
            newest,
            walked,
            gap,
            ended_halves,
        })
    }
}

/// What a walk over the log found: the end of its valid part, the newest store time, how many records and
/// bytes it has, and whether a queue lacked entries before the walk's start.
struct Scan {
    end: u64,
    newest: i64,
    walked: (u64, u64),
    gap: bool,
    ended_halves: Vec<EndedHalf>,
}
