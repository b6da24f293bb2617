//! The queue flusher: which consume queues have entries that are not on disk, and flushing them.

use super::commit_log::CommitLog;
use super::config::StoreConfig;
use super::consume_queue::ConsumeQueue;
use super::error::Result;
use super::guard;
use super::segment::PAGE;
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering, fence};

/// Up to this many queues with new entries are flushed each time.
const FEW_QUEUES: usize = 256;

pub struct QueueFlusher {
    log: Arc<CommitLog>,
    /// The folder of the file system that all queues lie on; None if they lie on several.
    one_disk: Option<PathBuf>,
    /// Bytes that a queue must have to be flushed when many have some.
    least: u64,
    /// Queues with entries that are not flushed.
    dirty: Mutex<Vec<Arc<ConsumeQueue>>>,
    /// Store timestamp up to which all queue entries are known to be on disk.
    flushed_timestamp: AtomicI64,
}

impl QueueFlusher {
    /// `on_one_disk`: one sync of the disk of `consumequeue/` reaches every queue.
    pub fn new(cfg: &StoreConfig, log: Arc<CommitLog>, on_one_disk: bool) -> Self {
        QueueFlusher {
            log,
            one_disk: on_one_disk.then(|| cfg.root.join("consumequeue")),
            least: cfg.flush_queue_least_pages * PAGE as u64,
            dirty: Mutex::default(),
            flushed_timestamp: AtomicI64::new(0),
        }
    }

    /// Store timestamp up to which all queue entries are known to be on disk, in ms.
    pub fn flushed_timestamp(&self) -> i64 {
        self.flushed_timestamp.load(Ordering::Acquire)
    }

    /// Nothing is said to be flushed of a time behind `time`: the clock was set back.
    pub fn limit(&self, time: i64) {
        self.flushed_timestamp.fetch_min(time, Ordering::AcqRel);
    }

    pub fn set_flushed_timestamp(&self, timestamp: i64) {
        self.flushed_timestamp.store(timestamp, Ordering::Release);
    }

    /// Notes that a queue has new entries, which are to be flushed.
    #[inline]
    pub fn mark_dirty(&self, queue: &Arc<ConsumeQueue>) {
        if queue.mark_dirty() {
            self.dirty.lock().push(queue.clone());
        }
    }

    /// Flushes queues with new entries. When very many queues have a few new entries each, those
    /// wait, unless `all`: their records are on disk in the log, and the timestamp does not say
    /// otherwise.
    pub fn flush(&self, all: bool) -> Result<()> {
        // Read before the list is taken: queues with entries of this time or an older one are in it.
        let before = self.log.newest_timestamp();
        let dirty = std::mem::take(&mut *self.dirty.lock());
        let all = all || dirty.len() <= FEW_QUEUES;
        let (now, later): (Vec<_>, Vec<_>) = dirty
            .into_iter()
            .partition(|queue| all || queue.unflushed() >= self.least);
        self.dirty.lock().extend(later);
        for queue in &now {
            queue.clear_dirty();
        }
        // Pairs with the fence in `Staging::dispatch`: whoever still saw a mark has its entry
        // seen here.
        fence(Ordering::SeqCst);
        if let Err(e) = self.flush_queues(&now) {
            // Those that are not on disk are flushed by the next attempt, if there is one.
            let left = now.iter().filter(|queue| queue.unflushed() > 0);
            left.for_each(|queue| self.mark_dirty(queue));
            return Err(e);
        }
        if all {
            self.set_flushed_timestamp(before);
        }
        Ok(())
    }

    /// Makes durable what recovery has erased of these queues.
    pub fn sync_erased(&self, queues: &[Arc<ConsumeQueue>]) -> Result<()> {
        let erased: Vec<_> = queues.iter().filter(|q| q.take_erased()).collect();
        match &self.one_disk {
            Some(disk) if erased.len() > FEW_QUEUES => guard::sync_file_system(disk),
            _ => erased.iter().try_for_each(|q| q.files().sync_last()),
        }
    }

    /// Flushes these queues: one by one, or when they are many the whole file system at once, as
    /// one sync of everything takes less than thousands of small ones.
    pub fn flush_queues(&self, queues: &[Arc<ConsumeQueue>]) -> Result<()> {
        let queues: Vec<_> = queues.iter().filter(|q| q.unflushed() > 0).collect();
        match &self.one_disk {
            Some(disk) if queues.len() > FEW_QUEUES => {
                let ends: Vec<_> = queues.into_iter().map(|q| (q, q.files().end())).collect();
                guard::sync_file_system(disk)?;
                for (queue, end) in ends {
                    queue.set_flushed(end);
                }
                Ok(())
            }
            _ => queues.into_iter().try_for_each(|queue| queue.flush()),
        }
    }
}
