//! What an open `Store` does for the other crates: most calls go on to the part that answers them.

use super::Store;
use crate::arrivals::Arrival;
use crate::barrier::Barrier;
use crate::commit_log::CommitLog;
use crate::config::StoreConfig;
use crate::consume_queue::ConsumeQueue;
use crate::error::{Result, StoreError};
use crate::expressions::Expressions;
use crate::figures::Figures;
use crate::log_flusher::LogFlusher;
use crate::put::PutGuard;
use crate::query::QueryResult;
use crate::read::{Chunk, GetResult};
use crate::replay::EndedHalf;
use crate::resident::Wait;
use crate::retention::Cleaned;
use crate::stalls::Stalls;
use crate::topics::{Topic, Topics};
use crate::wanted::Wanted;
use pyrmq_format::host::Host;
use std::sync::Arc;

/// Figures for operators and tests.
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    pub min_phys: u64,
    pub max_phys: u64,
    pub flushed: u64,
    /// Bytes of the active commit-log file that are reserved ahead of the writer.
    pub prepared_ahead: u64,
    pub topics: usize,
    pub queues: usize,
    pub queue_files: usize,
    pub mapped_queue_files: usize,
    /// Physical offset that the index has reached (the log's end if none is kept).
    pub indexed: u64,
    pub index_files: usize,
    /// Slices of the log that are exported, and the deleted files that they keep.
    pub exported_slices: usize,
    pub exported_deleted_files: usize,
    pub disk_full: bool,
    /// Queue entries that readers left out as damaged.
    pub damaged_entries: u64,
}

impl Store {
    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    pub fn log(&self) -> &CommitLog {
        &self.log
    }

    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    /// See `Writer::set_expressions`.
    pub fn set_expressions(
        &self,
        topic: &Topic,
        expressions: Option<Expressions>,
        told: impl FnOnce(u64),
    ) -> Option<(i64, u64)> {
        self.writer.set_expressions(topic, expressions, told)
    }

    /// What is confirmed: readers, arrivals and answers ask here.
    pub fn barrier(&self) -> &Barrier {
        &self.barrier
    }

    pub fn store_host(&self) -> &Host {
        self.writer.store_host()
    }

    /// Takes what recovery saw of transactions that were committed or moved to
    /// TRANS_CHECK_MAX_TIME_TOPIC: their halves, from the last part of the log, which is all that a
    /// crash can have left without an op record.
    pub fn take_ended_halves(&self) -> Vec<EndedHalf> {
        std::mem::take(&mut self.ended_halves.lock())
    }

    /// Whether answers wait for more than that a record is in the log's file.
    pub fn is_sync(&self) -> bool {
        !self.barrier.policy().is_written_enough()
    }

    /// Locks the log for appending; refuses when the store cannot keep promises any more.
    #[inline]
    pub fn put(&self) -> Result<PutGuard<'_>> {
        self.writer.put()
    }

    /// See `PutGuard::append_copied`.
    pub fn append_copied(&self, bytes: &[u8]) -> Result<usize> {
        self.writer.copy()?.append_copied(&self.topics, bytes)
    }

    /// See `Availability::set_short_of_replicas`.
    pub fn set_short_of_replicas(&self, short: Option<(usize, usize)>) {
        self.availability.set_short_of_replicas(short);
    }

    /// See `Availability::set_refused`.
    pub fn set_refused(&self, why: Option<String>) {
        self.availability.set_refused(why);
    }

    /// Why messages are refused now, if they are. A slave's store, which takes none at all, counts
    /// as one that takes them.
    pub fn refusal(&self) -> Option<StoreError> {
        match self.availability.check_writable() {
            Err(StoreError::Replica) => self.availability.check_growing().err(),
            other => other.err(),
        }
    }

    /// See `Writer::begin_at`.
    pub fn begin_copies_at(&self, offset: u64) -> Result<()> {
        self.writer.begin_at(offset)
    }

    /// Whether the disk takes in time what it is given.
    pub fn stalls(&self) -> &Stalls {
        &self.stalls
    }

    /// Figures of writes, flushes and what waits for them.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// Milliseconds since the epoch by the clock that store times are of.
    pub fn now_ms(&self) -> i64 {
        self.writer.time().clock()
    }

    /// Moves that clock, for tests of what is due later and of clocks that somebody sets.
    pub fn advance_clock(&self, ms: i64) {
        self.writer.time().advance(ms);
    }

    /// Has a thread write what is staged.
    pub fn write_later(&self) {
        self.late.ask();
    }

    /// Whether something was left to that thread which is not written yet.
    pub fn writes_later(&self) -> bool {
        self.late.is_pending()
    }

    /// See `Writer::await_late`.
    pub fn await_late(&self) -> Result<()> {
        self.writer.await_late()
    }

    /// See `Writer::write_staged`.
    pub fn write_staged<T>(&self, during: impl FnOnce(u64) -> T) -> Result<T> {
        self.writer.write_staged(during)
    }

    /// See `Reader::visible_max`.
    pub fn visible_max(&self, queue: &ConsumeQueue) -> Result<i64> {
        self.reader.visible_max(queue, Wait::ForDisk)
    }

    /// See `Reader::get`.
    #[inline]
    pub fn get(&self, queue: Option<&ConsumeQueue>, wanted: &Wanted<'_>) -> Result<GetResult> {
        self.reader.get(queue, wanted)
    }

    /// See `Query::by_offset`.
    pub fn record_by_offset(&self, phys: u64) -> Result<Option<Chunk>> {
        self.query.by_offset(phys)
    }

    /// The newest record that is in a queue.
    pub fn newest_record(&self) -> Result<Option<Chunk>> {
        let queues = self.topics.all_queues();
        let newest = queues.iter().max_by_key(|queue| queue.max_phys());
        let Some(queue) = newest.filter(|queue| queue.max_phys() > 0) else {
            return Ok(None);
        };
        match queue.entry(queue.max_offset() - 1)? {
            Some(entry) if entry.cq.phys >= 0 => self.query.by_offset(entry.cq.phys as u64),
            _ => Ok(None),
        }
    }

    /// See `Reader::record_at`.
    pub fn record_at(&self, phys: u64) -> Result<Option<Chunk>> {
        self.reader.record_at(phys)
    }

    /// See `Reader::offset_by_time`.
    pub fn offset_by_time(&self, queue: &ConsumeQueue, time: i64, upper: bool) -> Result<i64> {
        self.reader.offset_by_time(queue, time, upper)
    }

    /// See `Reader::store_time`.
    pub fn store_time(&self, queue: &ConsumeQueue, offset: i64) -> Result<i64> {
        self.reader.store_time(queue, offset)
    }

    /// See `Reader::earliest_time`.
    pub fn earliest_time(&self, queue: &ConsumeQueue) -> Result<i64> {
        self.reader.earliest_time(queue)
    }

    /// See `Query::query`.
    pub fn query_message(
        &self,
        topic: &[u8],
        key: &[u8],
        max: usize,
        begin: i64,
        end: i64,
    ) -> Result<QueryResult> {
        self.query.query(topic, key, max, begin, end)
    }

    /// Says whether answers and readers wait for slaves.
    pub fn wait_for_slaves(&self, wanted: bool) {
        self.barrier.wait_for_slaves(wanted);
        self.checkpointer.note_limit();
    }

    /// Asks that the next message of a queue be reported as an arrival, once. A message that the
    /// queue has already but that is not confirmed yet is reported when it is.
    pub fn notify_on_arrival(&self, topic: &[u8], queue_id: u32) -> Result<()> {
        self.arrivals.watch(self.topics.topic(topic)?, queue_id)
    }

    /// Whether there are arrivals, confirmed or not.
    #[inline]
    pub fn has_arrivals(&self) -> bool {
        self.arrivals.any()
    }

    /// Takes the arrivals that are confirmed.
    pub fn drain_arrivals(&self) -> Vec<Arrival> {
        self.arrivals.drain()
    }

    /// The flusher of the log.
    pub fn log_flusher(&self) -> &LogFlusher {
        &self.log_flusher
    }

    /// See `Retention::clean`.
    pub fn clean(&self, now: i64, manual: bool) -> Result<Cleaned> {
        self.retention.clean(now, manual)
    }

    /// See `Retention::reclaim_to`.
    pub fn reclaim_to(&self, offset: u64) {
        self.retention.reclaim_to(offset);
    }

    /// See `Retention::clean_queues`.
    pub fn clean_queues(&self, now: i64) -> Result<Cleaned> {
        self.retention.clean_queues(now)
    }

    /// See `Retention::set_file_reserved_time`.
    pub fn set_file_reserved_time(&self, ms: u64) {
        self.retention.set_file_reserved_time(ms);
    }

    /// Makes a topic unknown to the send path, and its messages to readers. Returns by queue the offset
    /// that the next message gets: that is where the queue begins, now and after a restart if
    /// `hide_messages` is told. The queues go on from there, as the log has records of theirs with
    /// lower offsets, which a recovery would take for those of new messages.
    pub fn delete_topic(&self, name: &[u8]) -> Result<Vec<(u32, i64)>> {
        let Some(topic) = self.topics.get(name) else {
            return Ok(Vec::new());
        };
        let settings = topic.settings();
        topic.set(None);
        // What was checked before is staged by now.
        let guard = match self.config.replica {
            true => self.writer.copy(),
            false => self.put(),
        };
        let written = guard.and_then(|guard| {
            drop(guard);
            self.write_staged(|_| ())
        });
        written.inspect_err(|_| topic.set(settings))?;
        let hidden = |queue: Arc<ConsumeQueue>| {
            queue.hide_before(i64::MAX);
            (queue.queue_id(), queue.min_offset())
        };
        Ok(topic.queues().into_iter().map(hidden).collect())
    }

    /// Hides the messages of a queue before `offset`, as `delete_topic` did.
    pub fn hide_messages(&self, topic: &[u8], queue_id: u32, offset: i64) {
        let topic = self.topics.get(topic);
        if let Some(queue) = topic.and_then(|t| t.existing_queue(queue_id)) {
            queue.hide_before(offset);
        }
    }

    /// Physical offset of the first message that one of these consumers has still to read: (queue, next
    /// queue offset). The log's end if they have read all.
    pub fn consumed_to(&self, next: &[(Arc<ConsumeQueue>, i64)]) -> Result<u64> {
        let mut to = self.log.max_offset();
        for (queue, offset) in next {
            let offset = (*offset).max(queue.min_offset());
            if let Some(entry) = queue.entry(offset)?
                && entry.cq.phys >= 0
            {
                to = to.min(entry.cq.phys as u64);
            }
        }
        Ok(to)
    }

    /// Has the kernel give up the log's files that are on disk and end before `offset`, each once.
    /// Returns how many. The index reads them too.
    pub fn give_up_cache(&self, offset: u64) -> Result<usize> {
        let before = offset.min(self.log_flusher.flushed()).min(self.indexed());
        self.log.give_up_cache(before)
    }

    /// Physical offset that the index has reached; beyond every log if none is kept.
    pub fn indexed(&self) -> u64 {
        self.indexer.as_ref().map_or(u64::MAX, |i| i.indexed())
    }

    pub fn stats(&self) -> Stats {
        let topics = self.topics.all();
        let queues = self.topics.all_queues();
        let (exported_slices, exported_deleted_files) = self.log.exported();
        Stats {
            min_phys: self.log.min_offset(),
            max_phys: self.log.max_offset(),
            flushed: self.barrier.flushed(),
            prepared_ahead: self
                .log
                .segments()
                .last()
                .map_or(0, |s| s.reserved().saturating_sub(s.written()) as u64),
            topics: topics.len(),
            queues: queues.len(),
            queue_files: queues.iter().map(|q| q.files().len()).sum(),
            mapped_queue_files: self.topics.maps().mapped(),
            indexed: self.indexed().min(self.log.max_offset()),
            index_files: self.indexer.as_ref().map_or(0, |i| i.index().len()),
            exported_slices,
            exported_deleted_files,
            disk_full: self.availability.is_disk_full(),
            damaged_entries: self.reader.damaged_entries(),
        }
    }
}
