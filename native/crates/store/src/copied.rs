//! Records that a master sent: appended as they are, where they stood in its log.
//!
//! The files become those of the master byte for byte, so a record has to state this log's end as its
//! place, and files have to be equally large. What does not fit is refused and nothing of it is appended.

use super::PutGuard;
use crate::consume_queue::ConsumeQueue;
use crate::dispatch;
use crate::error::{Result, StoreError};
use crate::put::Writer;
use crate::staging::Run;
use crate::topics::Topics;
use pyrmq_format::candidate::{self, BLANK_LEN, Start};
use pyrmq_format::cq_entry::{CqEntry, Entry, Layout, tags_code};
use pyrmq_format::record::{self, View, sys_flag};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// No queue gets this far: a record that says so is damaged, or no broker's.
const MAX_QUEUE_OFFSET: i64 = 1 << 40;
/// Most places of a queue that are left blank where its numbers jump.
const MOST_BLANKS: i64 = 1 << 20;

/// What bytes of another log begin with.
enum Front {
    Record(View),
    /// The rest of the file, so many bytes.
    Blank(usize),
    Incomplete,
}

impl Writer {
    /// The right to append what a master sent.
    pub fn copy(&self) -> Result<PutGuard<'_>> {
        let position = self.lock()?;
        self.links.availability.check_growing()?;
        let mut guard = PutGuard {
            writer: self,
            now: position.last_timestamp,
            position,
            keeps_staged: true,
        };
        guard.write()?; // what a write that failed has left
        guard.keeps_staged = false;
        Ok(guard)
    }

    /// Has a log without records begin at `offset`, the start of a file.
    pub fn begin_at(&self, offset: u64) -> Result<()> {
        let mut position = self.lock()?;
        let log = &self.links.log;
        let has_files = !log.segments().is_empty();
        let has_records = has_files && (log.max_offset() > log.min_offset() || position.at() > 0);
        if has_records || !offset.is_multiple_of(log.file_size() as u64) {
            return Err(StoreError::Misfit(format!(
                "the master begins at {offset}, where no file of mappedFileSizeCommitLog={} begins: \
                 set that key as it is at the master",
                log.file_size()
            )));
        }
        if !has_files || offset != log.min_offset() {
            (position.segment, position.file) = (None, None);
            log.begin_at(offset)?;
        }
        Ok(())
    }
}

impl PutGuard<'_> {
    /// Appends the whole records that `bytes` begin with; they come from the place in the master's log
    /// where this one ends. Returns how many bytes that were: what is left is less than a record.
    pub fn append_copied(&mut self, topics: &Topics, bytes: &[u8]) -> Result<usize> {
        let mut done = 0;
        loop {
            let rest = &bytes[done..];
            match self.front(rest)? {
                Front::Incomplete => break,
                Front::Record(v) => {
                    self.copy_record(topics, &rest[..v.total], &v)?;
                    done += v.total;
                }
                Front::Blank(len) => {
                    self.copy_blank(&rest[..len])?;
                    done += len;
                }
            }
        }
        self.write()?;
        Ok(done)
    }

    /// Physical offset behind what is staged.
    fn log_end(&self) -> u64 {
        match &self.position.segment {
            Some(segment) => segment.base() + self.position.at() as u64,
            None => self.writer.links.log.max_offset(),
        }
    }

    fn front(&self, bytes: &[u8]) -> Result<Front> {
        if bytes.len() < BLANK_LEN {
            return Ok(Front::Incomplete);
        }
        let log = &self.writer.links.log;
        let end = self.log_end();
        let left = log.next_file_start(end) - end;
        let sizes = || {
            format!(
                "what the master has at {end} does not fit a file of mappedFileSizeCommitLog={}: set \
                 that key as it is at the master",
                log.file_size()
            )
        };
        let most = self.writer.max_copied;
        let misfit = |why: String| Err(StoreError::Misfit(why));
        let len = match candidate::start(bytes, left) {
            Start::Record(len) if (len + BLANK_LEN) as u64 <= left => len,
            Start::Blank(len) if len as u64 == left => len as usize,
            Start::NoMagic(_) | Start::Zeros => {
                return misfit(format!(
                    "the master has no record at {end}: its log is damaged there, or not this one's"
                ));
            }
            _ => return misfit(sizes()),
        };
        if len > most {
            return misfit(format!(
                "the master has a record of {len} bytes at {end}, more than {most}"
            ));
        }
        if bytes.len() < len {
            return Ok(Front::Incomplete);
        }
        if candidate::blank_len(bytes).is_some() {
            return Ok(Front::Blank(len));
        }
        match record::parse(&bytes[..len]) {
            Some(v) if v.phys == end as i64 => Ok(Front::Record(v)),
            Some(v) => misfit(format!(
                "the record that the master has at {end} states that it stands at {}",
                v.phys
            )),
            None => misfit(format!(
                "the fields of the record that the master has at {end} do not add up"
            )),
        }
    }

    fn copy_record(&mut self, topics: &Topics, bytes: &[u8], v: &View) -> Result<()> {
        let time = v.store_timestamp;
        if time < self.position.last_timestamp {
            self.write()?;
            // Before a record of this time comes: nothing may say that it is on disk.
            self.writer.links.log.set_newest_timestamp(time);
        }
        self.position.last_timestamp = time;
        self.make_room(bytes.len())?;
        let end = v.end() as u64;
        let entry = match self.queue_of(topics, bytes, v)? {
            Some((topic, queue)) => {
                let entry = self.entry_of(bytes, v);
                if entry.base == queue.next_offset() || self.align(&queue, &entry)? {
                    let places = queue.ready(1)?;
                    let queue_id = queue.queue_id();
                    self.position.staging.begin_run(Run {
                        topic: topic.clone(),
                        queue_id,
                        queue,
                        places,
                        entries: 0,
                        end: 0,
                    });
                    self.position.bitmap.clear();
                    if topic.has_expressions() {
                        topic.evaluate(&bytes[v.props.clone()], &mut self.position.bitmap);
                    }
                    Some(entry)
                } else {
                    None
                }
            }
            None => None,
        };
        let position = &mut *self.position;
        position.staging.place(bytes.len()).copy_from_slice(bytes);
        let bitmap: &[u8] = if entry.is_some() {
            &position.bitmap
        } else {
            &[]
        };
        position.staging.push(bytes.len(), end, entry, bitmap);
        Ok(())
    }

    /// The queue that a record has its entry in.
    fn queue_of(
        &self,
        topics: &Topics,
        bytes: &[u8],
        v: &View,
    ) -> Result<Option<(Arc<crate::Topic>, Arc<ConsumeQueue>)>> {
        if !dispatch::is_queued(v.sys_flag) {
            return Ok(None);
        }
        let name = &bytes[v.topic.clone()];
        let inner = v.sys_flag & sys_flag::INNER_BATCH != 0;
        if inner && topics.get(name).is_none() {
            topics.declare_batch(name);
        }
        let found = topics.topic(name).and_then(|topic| {
            let id = u32::try_from(v.queue_id)
                .map_err(|_| StoreError::Illegal(format!("queueId {} is negative", v.queue_id)))?;
            topic.queue(id).map(|queue| (topic, queue))
        });
        match found {
            Ok((_, queue)) if inner && queue.layout() != Layout::Batch => {
                let shown = String::from_utf8_lossy(name);
                let why = format!("an inner batch in the SimpleCQ topic {shown:?}");
                topics.left_out().tell(v.phys as u64, why);
                Ok(None)
            }
            Ok(found) => Ok(Some(found)),
            Err(StoreError::Illegal(why)) => {
                topics.left_out().tell(v.phys as u64, why);
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    fn entry_of(&self, bytes: &[u8], v: &View) -> Entry {
        let (name, props) = (&bytes[v.topic.clone()], &bytes[v.props.clone()]);
        let levels = &self.writer.delay_levels;
        let inner = v.sys_flag & sys_flag::INNER_BATCH != 0;
        Entry {
            cq: CqEntry {
                phys: v.phys,
                size: v.total as i32,
                tags_code: tags_code(name, props, v.store_timestamp, levels),
            },
            base: v.queue_offset,
            count: if inner {
                dispatch::inner_count(props)
            } else {
                1
            },
            store_time: v.store_timestamp,
        }
    }

    /// Makes `entry` the next one of its queue, whose numbers say otherwise. False if it gets no place.
    #[cold]
    fn align(&mut self, queue: &ConsumeQueue, entry: &Entry) -> Result<bool> {
        self.write()?; // its staged entries first
        let expected = queue.next_offset();
        let name = queue.files().dir();
        if entry.base < 0 || entry.base < expected || entry.base > MAX_QUEUE_OFFSET {
            log::warn!(
                topic:% = queue.topic_name(), queue = queue.queue_id(), path:% = queue.files().dir().display();
                "{}: the record at {} says queue offset {}, {expected} was expected: it gets no entry",
                name.display(),
                entry.cq.phys,
                entry.base
            );
            return Ok(false);
        }
        if queue.max_phys() < 0 && queue.files().first().is_none() {
            queue.start_at(entry.base)?; // the log begins behind its first messages
            return Ok(true);
        }
        if entry.base - expected > MOST_BLANKS {
            log::error!(
                topic:% = queue.topic_name(), queue = queue.queue_id(), path:% = queue.files().dir().display();
                "{}: the record at {} says queue offset {}, {expected} was expected: it gets no entry",
                name.display(),
                entry.cq.phys,
                entry.base
            );
            return Ok(false);
        }
        log::warn!(
            topic:% = queue.topic_name(), queue = queue.queue_id(), path:% = queue.files().dir().display();
            "{}: the master has no messages {expected} to {}",
            name.display(),
            entry.base - 1
        );
        queue.skip_to(entry.base)?;
        Ok(true)
    }

    /// Ends the file as the master's ends.
    fn copy_blank(&mut self, bytes: &[u8]) -> Result<()> {
        if self.position.segment.is_none() {
            self.roll(0)?;
            self.writer.links.log.set_max_offset(self.log_end());
        }
        let chunk = self.writer.links.log.chunk();
        self.write()?;
        self.roll_behind(0, |full, file| {
            let at = full.written();
            let used = match bytes[BLANK_LEN..].iter().all(|b| *b == 0) {
                true => BLANK_LEN,
                false => bytes.len(),
            };
            full.reserve(at + used, chunk)?;
            file.write_all_at(&bytes[..used], at as u64)
                .map_err(|e| StoreError::io("write", full.path(), &e))?;
            full.publish(full.size());
            Ok(())
        })?;
        self.writer.links.barrier.written();
        if self.writer.links.barrier.policy().flushed {
            let end = self.log_end();
            self.writer.links.log_flusher.request(end);
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "copied_tests.rs"]
mod tests;
