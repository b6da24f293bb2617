//! The barrier: which part of the log is confirmed, and whether the rest still can be.
//!
//! A record is confirmed when all has happened to it that the policy requires. Consumers see
//! confirmed records only, arrivals are reported and sends are acknowledged when they are
//! confirmed. Each of them asks here and nowhere else.
//!
//! Every requirement of the policy is an input: an offset that somebody moves. `flushed` is moved by the
//! log flusher, `replicated` by the slaves' reports. After a failure of an input nothing more is
//! confirmed: the kernel may have dropped the dirty pages, so a second flush could succeed without the
//! data being on disk.
//!
//! What this broker has done by itself (`local`) is what slaves are sent, and what a slave reports.

use super::commit_log::CommitLog;
use super::config::{FlushMode, StoreConfig};
use super::error::{Result, StoreError};
use super::growth::Growth;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What must have happened to a record before it is confirmed, beside its being in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// It is on disk. [SYNC_FLUSH]
    pub flushed: bool,
    /// So many slaves as are wanted have it; how many that is may change. [SYNC_MASTER]
    pub replicated: bool,
    /// ms that an answer waits for slaves. [slaveTimeout]
    pub slave_timeout: i64,
}

impl Policy {
    /// Whether a record is confirmed as soon as it is in the log's file.
    #[inline]
    pub fn is_written_enough(&self) -> bool {
        !self.flushed && !self.replicated
    }
}

impl From<FlushMode> for Policy {
    fn from(mode: FlushMode) -> Self {
        Policy {
            flushed: mode == FlushMode::Sync,
            replicated: false,
            slave_timeout: 0,
        }
    }
}

impl From<&StoreConfig> for Policy {
    fn from(config: &StoreConfig) -> Self {
        Policy {
            replicated: config.replicated,
            slave_timeout: config.slave_timeout,
            ..config.flush_mode.into()
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
    /// Too few slaves had it within the time limit. They may have it later.
    ReplicationTimedOut,
    /// There are fewer slaves than the policy requires.
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
    /// What lies below is on so many slaves as are wanted; it never goes back.
    replicated: AtomicU64,
    /// Whether only what lies below `replicated` is confirmed: slaves are wanted, or this broker was
    /// such a master and is a slave whose log was not compared yet.
    waits_for_slaves: AtomicBool,
    growth: Growth,
    failed: AtomicBool,
    failure: Mutex<Option<StoreError>>,
    /// Why the last write into the log failed; None once one succeeded.
    unwritten: Mutex<Option<StoreError>>,
    event: OwnedFd,
}

impl Barrier {
    pub fn new(policy: Policy, log: Arc<CommitLog>) -> Result<Self> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|e| StoreError::io("eventfd", "", &e.into()))?;
        Ok(Barrier {
            policy,
            log,
            flushed: AtomicU64::new(0),
            replicated: AtomicU64::new(0),
            waits_for_slaves: AtomicBool::new(policy.replicated),
            growth: Growth::default(),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            unwritten: Mutex::new(None),
            event,
        })
    }

    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Readable when an input that the policy requires moved (or failed) since it was last read, or when
    /// writing into the log failed or succeeded again.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Makes `event_fd` not readable until something happens again.
    pub fn take_event(&self) {
        // EAGAIN: nothing has happened since.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }

    /// Whether neither an input nor the last write into the log has failed.
    pub fn is_well(&self) -> bool {
        !self.has_failed() && self.unwritten.lock().is_none()
    }

    /// The log is confirmed below this physical offset: the least that the policy's inputs have
    /// reached, the log's end if it has none.
    #[inline]
    pub fn confirmed(&self) -> u64 {
        let local = self.local();
        if self.waits_for_slaves() {
            local.min(self.replicated())
        } else {
            local
        }
    }

    /// This broker has done what the policy requires of itself below this physical offset.
    #[inline]
    pub fn local(&self) -> u64 {
        if self.policy.flushed {
            self.flushed()
        } else {
            self.log.max_offset()
        }
    }

    /// Who follows the log as far as `local` has it.
    pub fn growth(&self) -> &Growth {
        &self.growth
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
        } else if end > self.local() {
            match waited_ms < timeout_ms {
                true => Outcome::Pending,
                false => Outcome::FlushTimedOut,
            }
        } else if waited_ms < self.policy.slave_timeout {
            Outcome::Pending
        } else {
            Outcome::ReplicationTimedOut
        }
    }

    /// The log is on so many slaves as are wanted below this physical offset.
    #[inline]
    pub fn replicated(&self) -> u64 {
        self.replicated.load(Ordering::Acquire)
    }

    /// So many slaves as are wanted have the log below `offset`.
    pub fn replicated_to(&self, offset: u64) {
        if self.replicated.fetch_max(offset, Ordering::AcqRel) < offset && self.policy.replicated {
            self.signal();
        }
    }

    #[inline]
    fn waits_for_slaves(&self) -> bool {
        self.waits_for_slaves.load(Ordering::Acquire)
    }

    /// Says whether any slave is wanted. What was confirmed without slaves stays confirmed.
    pub(super) fn wait_for_slaves(&self, wanted: bool) {
        if wanted {
            self.replicated
                .fetch_max(self.confirmed(), Ordering::AcqRel);
        }
        self.waits_for_slaves.store(wanted, Ordering::Release);
        self.signal();
    }

    /// What the next start may show of the log: what lies below this offset. None: all of it.
    pub(super) fn limit(&self) -> Option<u64> {
        self.waits_for_slaves().then(|| self.replicated())
    }

    /// The log is on disk below this physical offset.
    #[inline]
    pub fn flushed(&self) -> u64 {
        self.flushed.load(Ordering::Acquire)
    }

    /// The log is on disk below `offset` when the store is opened, and was shown below `limit`; None:
    /// all of it was.
    pub fn start_at(&self, offset: u64, limit: Option<u64>) {
        let replicated = limit.map_or(offset, |limit| limit.min(offset));
        self.flushed.store(offset, Ordering::Release);
        self.replicated.store(replicated, Ordering::Release);
    }

    /// A slave starts that was a master: what no slave of it had is not shown before it is known that
    /// the master of now has it.
    pub(super) fn hold_back(&self) {
        self.waits_for_slaves.store(true, Ordering::Release);
    }

    /// The log flusher calls this when the log is on disk below `offset`.
    pub fn flushed_to(&self, offset: u64) {
        self.flushed.store(offset, Ordering::Release);
        if self.policy.flushed {
            self.growth.grew();
            self.signal();
        }
    }

    /// The writer calls this when the log's file has more records.
    #[inline]
    pub fn written(&self) {
        if !self.policy.flushed {
            self.growth.grew();
            if self.policy.replicated && !self.waits_for_slaves() {
                self.signal(); // nobody is waited for: this confirms it
            }
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
            path:% = error.path().display();
            "{error}: the store acknowledges nothing more; mend the disk and restart the broker"
        );
        self.failure.lock().get_or_insert(error);
        self.failed.store(true, Ordering::Release);
        self.signal();
    }

    pub(super) fn signal(&self) {
        // A full counter (EAGAIN) means that the reader has not been there yet, which is as good.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }
}

#[cfg(test)]
#[path = "barrier_tests.rs"]
mod tests;
