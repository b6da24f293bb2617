//! The barrier: which part of the log is confirmed, and whether the rest still can be.
//!
//! A record is confirmed when all has happened to it that the policy requires. Consumers see
//! confirmed records only, arrivals are reported and sends are acknowledged when they are
//! confirmed. Each of them asks here and nowhere else.
//!
//! Every requirement of the policy is an input: an offset that somebody moves. So far there is one,
//! `flushed`, which the log flusher moves. After a failure of an input nothing more is confirmed:
//! the kernel may have dropped the dirty pages, so a second flush could succeed without the data
//! being on disk.

use super::commit_log::CommitLog;
use super::config::FlushMode;
use super::error::{Result, StoreError};
use parking_lot::Mutex;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What must have happened to a record before it is confirmed, beside its being in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// It is on disk. [SYNC_FLUSH]
    pub flushed: bool,
}

impl From<FlushMode> for Policy {
    fn from(mode: FlushMode) -> Self {
        Policy {
            flushed: mode == FlushMode::Sync,
        }
    }
}

/// What has become of a record that an answer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is confirmed.
    Confirmed,
    /// It is not, and the time limit is not over.
    Pending,
    /// It was not flushed within the time limit. It may be later.
    FlushTimedOut,
    /// Too few replicas had it within the time limit. No policy requires replicas so far.
    ReplicationTimedOut,
    /// There are fewer replicas than the policy requires. No policy requires replicas so far.
    NoReplica,
    /// It is not in the log's file, as writing it failed. It is written when the next write
    /// succeeds, or lost. `Barrier::unwritten` says why.
    NotWritten,
    /// An input failed: it will never be confirmed. `Barrier::failure` says why.
    Failed,
}

pub struct Barrier {
    policy: Policy,
    log: Arc<CommitLog>,
    /// What lies below is on disk.
    flushed: AtomicU64,
    failed: AtomicBool,
    failure: Mutex<Option<StoreError>>,
    /// Why the last write into the log failed; None once one succeeded.
    unwritten: Mutex<Option<StoreError>>,
    event: OwnedFd,
}

impl Barrier {
    pub fn new(policy: Policy, log: Arc<CommitLog>) -> Result<Self> {
        // SAFETY: a plain system call; the result is checked before it is owned.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            let error = std::io::Error::last_os_error();
            return Err(StoreError::io("eventfd", "", &error));
        }
        Ok(Barrier {
            policy,
            log,
            flushed: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            unwritten: Mutex::new(None),
            // SAFETY: `fd` is a fresh descriptor that nobody else owns.
            event: unsafe { OwnedFd::from_raw_fd(fd) },
        })
    }

    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Readable when an input that the policy requires moved (or failed) since it was last read, or when
    /// writing into the log failed or succeeded again.
    pub fn event_fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    /// The log is confirmed below this physical offset: the least that the policy's inputs have
    /// reached, the log's end if it has none.
    #[inline]
    pub fn confirmed(&self) -> u64 {
        if self.policy.flushed {
            self.flushed()
        } else {
            self.log.max_offset()
        }
    }

    /// Whether the part of the log before `end` is confirmed. What is staged only is not.
    #[inline]
    pub fn is_confirmed(&self, end: u64) -> bool {
        end <= self.confirmed()
    }

    /// What an answer to a request is to say whose records end at `end`, after it has waited for
    /// `waited_ms`.
    pub fn outcome(&self, end: u64, waited_ms: i64, timeout_ms: i64) -> Outcome {
        if self.is_confirmed(end) {
            Outcome::Confirmed
        } else if self.has_failed() {
            Outcome::Failed
        } else if end > self.log.max_offset() && self.unwritten.lock().is_some() {
            Outcome::NotWritten
        } else if waited_ms < timeout_ms {
            Outcome::Pending
        } else {
            Outcome::FlushTimedOut
        }
    }

    /// The log is on disk below this physical offset.
    #[inline]
    pub fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    /// The log is on disk below `offset` when the store is opened.
    pub fn start_at(&self, offset: u64) {
        self.flushed.store(offset, Ordering::Release);
    }

    /// The log flusher calls this when the log is on disk below `offset`.
    pub fn flushed_to(&self, offset: u64) {
        self.flushed.store(offset, Ordering::Release);
        if self.policy.flushed {
            self.signal();
        }
    }

    #[inline]
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Why nothing more is confirmed; None while all is well.
    pub fn failure(&self) -> Option<StoreError> {
        self.failure.lock().clone()
    }

    /// Why the last write into the log failed; None once one succeeded.
    pub fn unwritten(&self) -> Option<StoreError> {
        self.unwritten.lock().clone()
    }

    /// The writer says what became of a write into the log, when that changes.
    pub fn set_unwritten(&self, error: Option<StoreError>) {
        *self.unwritten.lock() = error;
        self.signal(); // who waits is told, by whomever it was written
    }

    /// From here on nothing more is confirmed. The first error counts.
    pub fn fail(&self, error: StoreError) {
        log::error!(
            "{error}: the store acknowledges nothing more; mend the disk and restart the broker"
        );
        self.failure.lock().get_or_insert(error);
        self.failed.store(true, Ordering::Release);
        self.signal();
    }

    pub(super) fn signal(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight bytes of a live array are written to our own descriptor. A full counter
        // (EAGAIN) means that the reader has not been there yet, which is as good.
        unsafe { libc::write(self.event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }
}

#[cfg(test)]
#[path = "barrier_tests.rs"]
mod tests;
