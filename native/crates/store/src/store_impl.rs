//! `Store`: makes the parts, ties them together, opens and closes them.

use super::arrivals::{Arrival, Arrivals};
use super::availability::Availability;
use super::barrier::Barrier;
use super::checkpointer::Checkpointer;
use super::commit_log::CommitLog;
use super::config::StoreConfig;
use super::consume_queue::ConsumeQueue;
use super::error::{Result, StoreError};
use super::expressions::Expressions;
use super::guard::{self, LastStop, StoreLock};
use super::index::{Index, IndexConfig};
use super::indexer::Indexer;
use super::late_writer::LateWriter;
use super::log_flusher::LogFlusher;
use super::prepare::Preparer;
use super::put::{self, PutGuard, Writer};
use super::query::{Query, QueryResult};
use super::queue_flusher::QueueFlusher;
use super::read::{Chunk, GetResult, Reader};
use super::recover::Recovery;
use super::replay::EndedHalf;
use super::resident::Wait;
use super::retention::{self, Cleaned, Retention};
use super::stalls::Stalls;
use super::stop::StopSignal;
use super::store_time::StoreTime;
use super::topics::{Topic, Topics};
use super::wanted::Wanted;
use parking_lot::Mutex;
use pyrmq_format::host::Host;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

pub struct Store {
    config: StoreConfig,
    log: Arc<CommitLog>,
    topics: Arc<Topics>,
    barrier: Arc<Barrier>,
    availability: Arc<Availability>,
    arrivals: Arc<Arrivals>,
    writer: Writer,
    reader: Arc<Reader>,
    query: Query,
    preparer: Arc<Preparer>,
    log_flusher: Arc<LogFlusher>,
    queue_flusher: Arc<QueueFlusher>,
    checkpointer: Checkpointer,
    /// None without messageIndexEnable.
    indexer: Option<Arc<Indexer>>,
    retention: Retention,
    /// See `take_ended_halves`.
    ended_halves: Mutex<Vec<EndedHalf>>,
    stop: Arc<StopSignal>,
    lock: Mutex<Option<StoreLock>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    indexer_thread: Mutex<Option<JoinHandle<()>>>,
    stalls: Arc<Stalls>,
    late: Arc<LateWriter>,
}

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
    /// Opens or creates the store, recovers it and starts its threads.
    pub fn open(config: StoreConfig) -> Result<Arc<Store>> {
        config.validate()?;
        guard::create_dirs(&config.root)?;
        let lock = StoreLock::take(&config.root)?;
        let last_stop = guard::last_stop(&config.root)?;
        let store = Store::of_parts(config, lock)?;
        // Where it fails half-way, the abort file keeps what it noted: the next start begins anew.
        store.recover(last_stop)?;
        store.checkpointer.take_back()?;
        guard::write_abort(&store.config.root)?;
        guard::sync_dir(&store.config.root)?;
        let store = Arc::new(store);
        if let Err(e) = store.start_threads() {
            let _ = store.close();
            return Err(e);
        }
        Ok(store)
    }

    /// Makes the parts, each with those that it uses.
    fn of_parts(config: StoreConfig, lock: StoreLock) -> Result<Store> {
        let cfg = &config;
        let log = Arc::new(CommitLog::open(cfg)?);
        let topics = Arc::new(Topics::open(cfg)?);
        let barrier = Arc::new(Barrier::new(cfg.into(), log.clone())?);
        let index = open_index(cfg)?.map(Arc::new);
        let ratio = cfg.retention.warning_ratio;
        let availability = Arc::new(Availability::new(barrier.clone(), ratio, cfg.replica));
        let arrivals = Arc::new(Arrivals::new(barrier.clone()));
        let preparer = Arc::new(Preparer::default());
        let stalls = Arc::new(Stalls::new(cfg.busy_timeout));
        let late = Arc::new(LateWriter::default());
        let log_flusher = Arc::new(LogFlusher::new(
            cfg,
            log.clone(),
            barrier.clone(),
            stalls.clone(),
        ));
        let one_disk = topics.on_one_disk();
        let queue_flusher = Arc::new(QueueFlusher::new(cfg, log.clone(), one_disk));
        let time = Arc::new(StoreTime::new(cfg.clock));
        let checkpointer = Checkpointer::open(
            cfg,
            time.clone(),
            barrier.clone(),
            log_flusher.clone(),
            queue_flusher.clone(),
            index.clone(),
        );
        let indexer = index.clone().map(|index| {
            let indexer = Indexer::new(index, log.clone(), barrier.clone());
            Arc::new(indexer)
        });
        let writer = Writer::new(
            cfg,
            put::Links {
                availability: availability.clone(),
                time,
                barrier: barrier.clone(),
                log: log.clone(),
                preparer: preparer.clone(),
                log_flusher: log_flusher.clone(),
                queue_flusher: queue_flusher.clone(),
                arrivals: arrivals.clone(),
                indexer: indexer.clone(),
                stalls: stalls.clone(),
                late: late.clone(),
            },
        );
        let reader = Arc::new(Reader::new(
            cfg,
            log.clone(),
            barrier.clone(),
            availability.clone(),
        ));
        let stop = Arc::new(StopSignal::default());
        let retention = Retention::new(
            cfg,
            retention::Links {
                availability: availability.clone(),
                barrier: barrier.clone(),
                log: log.clone(),
                topics: topics.clone(),
                indexer: indexer.clone(),
                stop: stop.clone(),
            },
        );
        Ok(Store {
            query: Query::new(index, topics.clone(), reader.clone()),
            config,
            log,
            topics,
            barrier,
            availability,
            arrivals,
            writer,
            reader,
            preparer,
            log_flusher,
            queue_flusher,
            checkpointer,
            indexer,
            retention,
            ended_halves: Mutex::default(),
            stop,
            lock: Mutex::new(Some(lock)),
            threads: Mutex::default(),
            indexer_thread: Mutex::default(),
            stalls,
            late,
        })
    }

    /// Recovers log and queues, then sets every part to continue from there.
    fn recover(&self, last_stop: LastStop) -> Result<()> {
        let point = self.checkpointer.found();
        let recovery = Recovery {
            cfg: &self.config,
            log: &self.log,
            topics: &self.topics,
            queue_flusher: &self.queue_flusher,
            last_stop,
            point,
        };
        let recovered = recovery.run()?;
        // A later one is of a clock that has been set back since.
        let (end, newest) = (recovered.end, recovered.newest.min((self.config.clock)()));
        *self.ended_halves.lock() = recovered.ended_halves;
        if let Some(indexer) = &self.indexer {
            let clean = last_stop == LastStop::Clean;
            indexer.recover(clean, point.index_msg_timestamp, end)?;
        }
        self.log.set_newest_timestamp(newest);
        // Who is master and waits for nobody shows all that it has; who waits, or is a slave that its
        // master has not been compared with, what was shown before.
        let waits = self.config.replicated || self.config.replica;
        let limit = point.replicated.filter(|_| waits).map(|at| at as u64);
        self.log_flusher.start_at(end, limit, newest);
        if let Some(limit) = limit.filter(|limit| *limit < end) {
            log::warn!(
                "no slave is known to have the log from {limit} to {end}: consumers see these \
                 messages once one has them"
            );
            if self.config.replica {
                self.barrier.hold_back();
            }
        }
        self.queue_flusher.set_flushed_timestamp(newest);
        self.writer.start_after(newest)
    }

    fn start_threads(self: &Arc<Self>) -> Result<()> {
        let spawn = |name: &str, work: fn(&Store)| {
            let store = self.clone();
            std::thread::Builder::new()
                .name(name.into())
                .spawn(move || {
                    let done = catch_unwind(AssertUnwindSafe(|| work(&store)));
                    if done.is_err() {
                        let text = "a thread of the store panicked: this is a bug".into();
                        store.barrier.fail(StoreError::NotAvailable(text));
                    }
                })
                .map_err(|e| StoreError::io("start thread", name, &e))
        };
        let mut threads = self.threads.lock();
        threads.push(spawn("pyrmq-flush", |s| s.log_flusher.run())?);
        threads.push(spawn("pyrmq-write", |s| {
            s.late.run(&s.barrier, || drop(s.writer.write_late())) // it is logged
        })?);
        threads.push(spawn("pyrmq-queues", |s| s.checkpointer.run(&s.stop))?);
        threads.push(spawn("pyrmq-prepare", |s| {
            s.preparer.run(&s.log, s.config.warm_mapped_file)
        })?);
        if self.config.retention.interval > 0 {
            threads.push(spawn("pyrmq-clean", |s| s.retention.run())?);
        }
        if self.indexer.is_some() {
            let run = |s: &Store| s.indexer.iter().for_each(|indexer| indexer.run());
            *self.indexer_thread.lock() = Some(spawn("pyrmq-index", run)?);
        }
        Ok(())
    }

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

    /// Has a thread write what is staged.
    pub fn write_later(&self) {
        self.late.ask();
    }

    /// Whether something was left to that thread which is not written yet.
    pub fn writes_later(&self) -> bool {
        self.late.is_pending()
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

    /// See `Retention::clean`.
    pub fn clean(&self, now: i64, manual: bool) -> Result<Cleaned> {
        self.retention.clean(now, manual)
    }

    /// See `Retention::clean_queues`.
    pub fn clean_queues(&self, now: i64) -> Result<Cleaned> {
        self.retention.clean_queues(now)
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

    #[cfg(test)]
    pub(super) fn writer(&self) -> &Writer {
        &self.writer
    }

    #[cfg(test)]
    pub(super) fn is_closed(&self) -> bool {
        self.availability.is_closed()
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

    /// Flushes everything and stops; a second call does nothing. The `abort` file goes only when
    /// all of it succeeded.
    pub fn close(&self) -> Result<()> {
        if self.availability.close() {
            return Ok(());
        }
        // A put that is under way ends first, and what nobody wrote yet is written.
        self.writer.retry_now();
        if let Err(e) = self.writer.write_late() {
            self.barrier.fail(e);
        }
        self.late.stop();
        self.preparer.stop();
        self.log_flusher.stop();
        self.stop.set();
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                log::error!("a thread of the store panicked");
            }
        }
        // A pass that was asked for ends before the lock file is unlocked.
        self.retention.wait_for_pass();
        let log_flushed = self.log_flusher.finish();
        if let Some(indexer) = &self.indexer {
            indexer.stop();
        }
        if let Some(thread) = self.indexer_thread.lock().take() {
            let _ = thread.join();
        }
        let flushed = match self.barrier.failure() {
            Some(e) => Err(e),
            None => log_flushed.and_then(|()| self.checkpointer.finish()),
        };
        let dropped = self.log.drop_next();
        let caught_up = self.indexed() >= self.log.max_offset();
        if !caught_up {
            log::warn!("the index is not complete: the next start completes it");
        }
        let mut result = flushed.and(dropped);
        if result.is_ok() && caught_up {
            let root = &self.config.root;
            result = guard::remove_abort(root).and_then(|()| guard::sync_dir(root));
        }
        *self.lock.lock() = None;
        result
    }
}

fn open_index(config: &StoreConfig) -> Result<Option<Index>> {
    if !config.index_enable {
        return Ok(None);
    }
    Index::open(IndexConfig {
        dir: config.root.join("index"),
        slots: config.index_slots,
        entries: config.index_entries,
    })
    .map(Some)
}
