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
    /// Why messages are refused although the store is sound: too few replicas, another master.
    refusals: Mutex<[Option<StoreError>; 2]>,
    refuses: AtomicBool,
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
            refusals: Mutex::default(),
            refuses: AtomicBool::new(false),
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
        if self.refuses.load(Ordering::Acquire)
            && let Some(error) = self.refusals.lock().iter().flatten().next()
        {
            return Err(error.clone());
        }
        self.check_growing()
    }

    /// Says whether there are fewer replicas than minInSyncReplicas: how many are in sync, and how
    /// many that key wants.
    pub fn set_short_of_replicas(&self, short: Option<(usize, usize)>) {
        let error =
            short.map(|(in_sync, least)| StoreError::InSyncReplicasNotEnough { in_sync, least });
        self.refuse(0, error);
    }

    /// Says why the broker wants no messages to be taken; None: it does.
    pub fn set_refused(&self, why: Option<String>) {
        self.refuse(1, why.map(StoreError::NotAvailable));
    }

    fn refuse(&self, which: usize, error: Option<StoreError>) {
        let mut refusals = self.refusals.lock();
        refusals[which] = error;
        let any = refusals.iter().any(Option::is_some);
        self.refuses.store(any, Ordering::Release);
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
