//! The checkpointer: one thread flushes what can be made again from the log, which is queues and
//! index, and writes to the checkpoint how far log, queues and index are on disk.

use super::config::StoreConfig;
use super::error::{Result, StoreError};
use super::guard::{self, sync_dir};
use super::index::Index;
use super::log_flusher::LogFlusher;
use super::queue_flusher::QueueFlusher;
use super::stop::StopSignal;
use crate::format::checkpoint::{self, Checkpoint};
use parking_lot::Mutex;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub struct Checkpointer {
    root: PathBuf,
    interval: Duration,
    /// How long queues with few new entries may wait.
    thorough: Duration,
    log_flusher: Arc<LogFlusher>,
    queue_flusher: Arc<QueueFlusher>,
    index: Option<Arc<Index>>,
    /// The checkpoint as it was found: fields that this store does not move are kept. Its
    /// indexMsgTimestamp follows the index.
    found: Mutex<Checkpoint>,
    written: Mutex<Option<Checkpoint>>,
    /// Why queues or index were not flushed, for good.
    failure: Mutex<Option<StoreError>>,
}

impl Checkpointer {
    /// Reads the checkpoint. Without a readable one all its timestamps are 0.
    pub fn open(
        cfg: &StoreConfig,
        log_flusher: Arc<LogFlusher>,
        queue_flusher: Arc<QueueFlusher>,
        index: Option<Arc<Index>>,
    ) -> Self {
        Checkpointer {
            root: cfg.root.clone(),
            interval: Duration::from_millis(cfg.flush_interval_consume_queue.max(1)),
            thorough: Duration::from_millis(cfg.flush_queue_thorough_interval),
            log_flusher,
            queue_flusher,
            index,
            found: Mutex::new(read(&path(&cfg.root))),
            written: Mutex::new(None),
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
        let mut logged = false;
        while !stop.wait(self.interval) {
            let all = last_thorough.elapsed() >= self.thorough;
            if all {
                last_thorough = Instant::now();
            }
            if let Err(e) = self.flush(all)
                && !std::mem::replace(&mut logged, true)
            {
                log::error!("queues, index or checkpoint not flushed: {e}");
            }
        }
    }

    /// Flushes queues with new entries (see `QueueFlusher::flush`) and full index files, and writes
    /// to the checkpoint how far that got.
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
            *self.failure.lock() = Some(e.clone());
            guard::note_failed_flush(&self.root);
            return Err(e);
        }
        self.write()
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

    /// Where recovery cut the index back, the checkpoint says so before the index grows again: files
    /// that are made anew are not on disk yet.
    pub fn take_back_index_time(&self) -> Result<()> {
        let finished = self.index.as_ref().map_or(0, |i| i.finished_time());
        let said = std::mem::replace(&mut self.found.lock().index_msg_timestamp, finished);
        if self.index.is_some() && finished < said {
            self.write()?;
        }
        Ok(())
    }

    fn write(&self) -> Result<()> {
        let point = Checkpoint {
            physic_msg_timestamp: self.log_flusher.flushed_timestamp(),
            logics_msg_timestamp: self.queue_flusher.flushed_timestamp(),
            ..*self.found.lock()
        };
        let mut written = self.written.lock();
        if *written == Some(point) {
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
        Ok(())
    }
}

fn path(root: &Path) -> PathBuf {
    root.join("checkpoint")
}

fn read(path: &Path) -> Checkpoint {
    match std::fs::read(path) {
        Ok(bytes) => Checkpoint::read(&bytes[..bytes.len().min(checkpoint::SIZE)]),
        Err(_) => None,
    }
    .unwrap_or_default()
}
