//! Whether the store may be read and written.

use super::barrier::Barrier;
use super::error::{Result, StoreError};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub struct Availability {
    barrier: Arc<Barrier>,
    closed: AtomicBool,
    disk_full: AtomicBool,
    /// Fewer replicas are in sync than minInSyncReplicas: how many are, and how many that wants.
    short: Mutex<Option<(usize, usize)>>,
    is_short: AtomicBool,
    /// diskSpaceWarningLevelRatio, in percent
    warning_ratio: u32,
    /// The store of a slave: see `StoreConfig::replica`.
    replica: bool,
}

impl Availability {
    pub fn new(barrier: Arc<Barrier>, warning_ratio: u32, replica: bool) -> Self {
        Availability {
            barrier,
            closed: AtomicBool::new(false),
            disk_full: AtomicBool::new(false),
            short: Mutex::default(),
            is_short: AtomicBool::new(false),
            warning_ratio,
            replica,
        }
    }

    /// Marks the store as closed; true if it was closed before.
    pub fn close(&self) -> bool {
        self.closed.swap(true, Ordering::AcqRel)
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Retention says whether the disk is too full for more messages. Returns what it said before.
    pub fn set_disk_full(&self, full: bool) -> bool {
        self.disk_full.swap(full, Ordering::AcqRel)
    }

    pub fn is_disk_full(&self) -> bool {
        self.disk_full.load(Ordering::Relaxed)
    }

    pub fn check_readable(&self) -> Result<()> {
        if self.is_closed() {
            return Err(StoreError::NotAvailable("it is closed".into()));
        }
        Ok(())
    }

    /// Whether the store takes messages.
    #[inline]
    pub fn check_writable(&self) -> Result<()> {
        if self.replica {
            return Err(StoreError::Replica);
        }
        if self.is_short.load(Ordering::Acquire)
            && let Some((in_sync, least)) = *self.short.lock()
        {
            return Err(StoreError::InSyncReplicasNotEnough { in_sync, least });
        }
        self.check_growing()
    }

    /// Says whether there are fewer replicas than minInSyncReplicas: how many are in sync, and how
    /// many that key wants.
    pub fn set_short_of_replicas(&self, short: Option<(usize, usize)>) {
        *self.short.lock() = short;
        self.is_short.store(short.is_some(), Ordering::Release);
    }

    /// Whether its log may grow.
    #[inline]
    pub fn check_growing(&self) -> Result<()> {
        if self.is_closed() || self.barrier.has_failed() || self.is_disk_full() {
            return Err(self.why_not_writable());
        }
        Ok(())
    }

    #[cold]
    fn why_not_writable(&self) -> StoreError {
        StoreError::NotAvailable(if self.is_closed() {
            "it is closed".into()
        } else if self.barrier.has_failed() {
            let why = self.barrier.failure();
            let why = why.map_or_else(String::new, |e| e.to_string());
            format!("a flush failed: {why}")
        } else {
            format!(
                "the disk is more than {} % full (diskSpaceWarningLevelRatio): make room or add a \
                 folder to storePathCommitLog",
                self.warning_ratio.clamp(35, 90)
            )
        })
    }
}
