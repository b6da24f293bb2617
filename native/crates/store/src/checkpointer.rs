//! The checkpointer: one thread flushes what can be made again from the log, which is queues and
//! index, and writes to the checkpoint how far log, queues and index are on disk.

use super::barrier::Barrier;
use super::config::StoreConfig;
use super::error::{Result, StoreError};
use super::guard::{self, sync_dir};
use super::index::Index;
use super::log_flusher::LogFlusher;
use super::queue_flusher::QueueFlusher;
use super::stop::StopSignal;
use super::store_time::StoreTime;
use parking_lot::Mutex;
use pyrmq_format::checkpoint::{self, Checkpoint};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks at how far slaves have the log.
const NOTE_LIMIT: Duration = Duration::from_millis(50);

pub struct Checkpointer {
    root: PathBuf,
    interval: Duration,
    /// How long queues with few new entries may wait.
    thorough: Duration,
    time: Arc<StoreTime>,
    barrier: Arc<Barrier>,
    log_flusher: Arc<LogFlusher>,
    queue_flusher: Arc<QueueFlusher>,
    index: Option<Arc<Index>>,
    /// The checkpoint as it was found: fields that this store does not move are kept. Its
    /// indexMsgTimestamp follows the index.
    found: Mutex<Checkpoint>,
    /// What was written and synced.
    written: Mutex<Option<Checkpoint>>,
    /// What the file says of slaves, synced or not.
    noted: Mutex<Option<i64>>,
    /// Why queues or index were not flushed, for good.
    failure: Mutex<Option<StoreError>>,
}

impl Checkpointer {
    /// Reads the checkpoint. Without a readable one all its timestamps are 0.
    pub fn open(
        cfg: &StoreConfig,
        time: Arc<StoreTime>,
        barrier: Arc<Barrier>,
        log_flusher: Arc<LogFlusher>,
        queue_flusher: Arc<QueueFlusher>,
        index: Option<Arc<Index>>,
    ) -> Self {
        Checkpointer {
            root: cfg.root.clone(),
            interval: Duration::from_millis(cfg.flush_interval_consume_queue.max(1)),
            thorough: Duration::from_millis(cfg.flush_queue_thorough_interval),
            time,
            barrier,
            log_flusher,
            queue_flusher,
            index,
            found: Mutex::new(read(&path(&cfg.root))),
            written: Mutex::new(None),
            noted: Mutex::new(None),
            failure: Mutex::new(None),
        }
    }

    /// The checkpoint that the last life of the store left.
    pub fn found(&self) -> Checkpoint {
        *self.found.lock()
    }

    /// The thread's work, until the store stops.
    pub fn run(&self, stop: &StopSignal) {
        let mut last_thorough = Instant::now();
        let mut last = Instant::now();
        let mut failed = false;
        let pause = match self.barrier.policy().replicated {
            true => self.interval.min(NOTE_LIMIT),
            false => self.interval,
        };
        while !stop.wait(pause) {
            if pause < self.interval {
                self.note_limit();
                if last.elapsed() < self.interval {
                    continue;
                }
                last = Instant::now();
            }
            let all = last_thorough.elapsed() >= self.thorough;
            match self.flush(all) {
                Ok(()) if std::mem::take(&mut failed) => {
                    log::info!("queues, index and checkpoint are flushed again");
                }
                Ok(()) => {}
                Err(e) if !std::mem::replace(&mut failed, true) => {
                    let next = match self.has_failed() {
                        true => "it is not tried again before the next start",
                        false => "it is tried again",
                    };
                    log::error!(path:% = e.path().display(); "queues, index or checkpoint not flushed, {next}: {e}");
                }
                Err(_) => {}
            }
            if all && !failed {
                last_thorough = Instant::now();
            }
        }
    }

    /// Flushes queues with new entries (see `QueueFlusher::flush`) and full index files, and writes
    /// to the checkpoint how far that got. What fails is not tried again, unless no descriptor was
    /// left to open a file.
    pub fn flush(&self, all: bool) -> Result<()> {
        if let Some(e) = self.failure.lock().clone() {
            // The kernel reports lost pages once. The checkpoint stays as it is and so does the
            // abort file, so that the next start dispatches everything anew from there.
            return Err(e);
        }
        let done = self
            .queue_flusher
            .flush(all)
            .and_then(|()| self.flush_index(false));
        if let Err(e) = done {
            if e.is_out_of_descriptors() {
                return Err(e);
            }
            *self.failure.lock() = Some(e.clone());
            guard::note_failed_flush(&self.root);
            return Err(e);
        }
        self.write()
    }

    fn has_failed(&self) -> bool {
        self.failure.lock().is_some()
    }

    /// Flushes all of it at a clean stop: the index has everything, and that is on disk.
    pub fn finish(&self) -> Result<()> {
        self.flush(true)?;
        self.flush_index(true)?;
        self.write()
    }

    /// Writes full index files to the disk, with `all` every one.
    fn flush_index(&self, all: bool) -> Result<()> {
        if let Some(index) = &self.index {
            index.flush(all)?;
            self.found.lock().index_msg_timestamp = index.finished_time();
        }
        Ok(())
    }

    /// Has the file say how far slaves have the log by now, without waiting for the disk: a process that
    /// is killed then shows as much when it is started again.
    pub fn note_limit(&self) {
        let Some(written) = self.written.try_lock() else {
            return; // it is being written, and looked at again soon
        };
        let Some(mut point) = *written else {
            return; // the next full write makes the file
        };
        let mut noted = self.noted.lock();
        point.replicated = self.replicated();
        if *noted == point.replicated || self.failure.lock().is_some() {
            return;
        }
        let entry = &point.encode()[checkpoint::REPLICATED_AT..];
        let done = OpenOptions::new()
            .write(true)
            .open(path(&self.root))
            .and_then(|file| file.write_all_at(entry, checkpoint::REPLICATED_AT as u64));
        if done.is_ok() {
            *noted = point.replicated; // what fails is said by the next full write
        }
    }

    fn replicated(&self) -> Option<i64> {
        self.barrier.limit().map(|offset| offset as i64)
    }

    /// Behind recovery and before the store grows: the checkpoint on disk says nothing that will not be
    /// true then. Index files that are made anew are not on disk yet, and a time that is still to come
    /// (the clock was set back) says nothing of records that are stored until then.
    pub fn take_back(&self) -> Result<()> {
        let said = self.found();
        if let Some(index) = &self.index {
            self.found.lock().index_msg_timestamp = index.finished_time();
        }
        let now = self.time.clock();
        let to_come = said.physic_msg_timestamp.max(said.logics_msg_timestamp) > now;
        if to_come {
            self.limit(now);
        }
        let lost = said.confirm_phy_offset > self.log_flusher.flushed() as i64;
        let index_lost = self.found().index_msg_timestamp < said.index_msg_timestamp;
        if lost || to_come || index_lost || said.replicated != self.replicated() {
            self.write()?;
        }
        Ok(())
    }

    /// Nothing is said to be flushed of a time behind `time`.
    fn limit(&self, time: i64) {
        self.log_flusher.limit(time);
        self.queue_flusher.limit(time);
        let mut found = self.found.lock();
        found.index_msg_timestamp = found.index_msg_timestamp.min(time);
        if let Some(index) = &self.index {
            index.limit_finished_time(time);
        }
    }

    fn write(&self) -> Result<()> {
        // Held from before the state is read: what is written last is the latest.
        let mut written = self.written.lock();
        let ceiling = self.time.ceiling();
        if let Some(time) = ceiling {
            self.limit(time);
        }
        // The time of the newest record goes back where the clock does.
        let newest = self.log_flusher.newest_timestamp();
        let latest = ceiling.unwrap_or(newest).min(newest);
        let point = Checkpoint {
            confirm_phy_offset: self.log_flusher.flushed() as i64,
            physic_msg_timestamp: self.log_flusher.flushed_timestamp().min(latest),
            logics_msg_timestamp: self.queue_flusher.flushed_timestamp().min(latest),
            replicated: self.replicated(),
            ..*self.found.lock()
        };
        if *written == Some(point) && ceiling.is_none() {
            return Ok(());
        }
        let path = path(&self.root);
        let io = |e: std::io::Error| StoreError::io("write", &path, &e);
        let fresh = !path.exists();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io)?;
        file.write_all_at(&point.encode(), 0).map_err(io)?;
        file.sync_data().map_err(io)?;
        if fresh {
            sync_dir(&self.root)?;
        }
        *written = Some(point);
        *self.noted.lock() = point.replicated;
        drop(written);
        if let Some(ceiling) = ceiling {
            self.time.agree(ceiling);
        }
        Ok(())
    }
}

fn path(root: &Path) -> PathBuf {
    root.join("checkpoint")
}

/// The checkpoint of a file; one that says nothing if it cannot be read or is nonsense: what it says
/// decides which entries of queues count as on disk.
fn read(path: &Path) -> Checkpoint {
    let found = match std::fs::read(path) {
        Ok(bytes) => Checkpoint::read(&bytes[..bytes.len().min(checkpoint::SIZE)]),
        Err(_) => None,
    };
    match found {
        Some(point) if !point.is_possible() => {
            log::error!(
                path:% = path.display();
                "{}: its values are impossible ({point:?}), so it is not used: recovery reads the whole log",
                path.display()
            );
            Checkpoint::default()
        }
        found => found.unwrap_or_default(),
    }
}
