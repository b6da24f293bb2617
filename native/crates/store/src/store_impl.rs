//! `Store`: makes the parts, ties them together, opens and closes them.

use super::arrivals::Arrivals;
use super::availability::Availability;
use super::barrier::Barrier;
use super::checkpointer::Checkpointer;
use super::clock::monotonic_us;
use super::commit_log::CommitLog;
use super::config::StoreConfig;
use super::error::{Result, StoreError};
use super::figures::{Figures, Opened};
use super::guard::{self, LastStop, StoreLock};
use super::index::{Index, IndexConfig};
use super::indexer::Indexer;
use super::late_writer::LateWriter;
use super::log_flusher::LogFlusher;
use super::prepare::Preparer;
use super::put::{self, Writer};
use super::query::Query;
use super::queue_flusher::QueueFlusher;
use super::read::Reader;
use super::recover::Recovery;
use super::replay::EndedHalf;
use super::retention::{self, Retention};
use super::stalls::Stalls;
use super::stop::StopSignal;
use super::store_time::StoreTime;
use super::topics::Topics;
use parking_lot::Mutex;
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
    figures: Arc<Figures>,
}

impl Store {
    /// Opens or creates the store, recovers it and starts its threads.
    pub fn open(config: StoreConfig) -> Result<Arc<Store>> {
        config.validate()?;
        guard::create_dirs(&config.root)?;
        let lock = StoreLock::take(&config.root)?;
        let last_stop = guard::last_stop(&config.root)?;
        let begun = monotonic_us();
        let store = Store::of_parts(config, lock)?;
        // Where it fails half-way, the abort file keeps what it noted: the next start begins anew.
        let (records, bytes) = store.recover(last_stop)?;
        store.checkpointer.take_back()?;
        guard::write_abort(&store.config.root)?;
        guard::sync_dir(&store.config.root)?;
        store.figures.set_opened(Opened {
            micros: (monotonic_us() - begun).max(0) as u64,
            records,
            bytes,
        });
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
        let figures = Arc::new(Figures::default());
        let log_flusher = Arc::new(LogFlusher::new(
            cfg,
            log.clone(),
            barrier.clone(),
            stalls.clone(),
            figures.clone(),
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
                figures: figures.clone(),
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
            figures,
        })
    }

    /// Recovers log and queues, then sets every part to continue from there. Returns how many records were
    /// read, and the bytes of that part of the log.
    fn recover(&self, last_stop: LastStop) -> Result<(u64, u64)> {
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
        self.writer.start_after(newest)?;
        Ok(recovered.walked)
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

    #[cfg(test)]
    pub(super) fn writer(&self) -> &Writer {
        &self.writer
    }

    #[cfg(test)]
    pub(super) fn is_closed(&self) -> bool {
        self.availability.is_closed()
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

#[path = "store_calls.rs"]
pub(super) mod calls;
