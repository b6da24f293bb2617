//! Transactions: half messages, how they are settled, and which of them still wait.
//!
//! The log is the truth: a half stands in RMQ_SYS_TRANS_HALF_TOPIC, and an op record in
//! RMQ_SYS_TRANS_OP_HALF_TOPIC names the queue offset of every half that is dealt with. What waits is
//! kept in memory besides (`pending`), made again from the two topics at start (`rebuild`), so that
//! nothing here costs in proportion to history.
//!
//! The plain cases of END_TRANSACTION are decided here (`settle`); everything else is decided by the
//! table in pyrmq/txn/machine.py and only carried out here. The op record of a settled half is
//! written before the put lock is given back: between the two the log gets only what the same appender
//! stores, and a kill in between is found by recovery, which knows the committed records of the log's
//! last part.
//! [TransactionalMessageBridge, TransactionalMessageServiceImpl, EndTransactionProcessor]

mod decided;
mod due;
mod half;
#[cfg(test)]
mod model_tests;
mod ops;
mod pending;
#[cfg(test)]
mod progress_tests;
mod rebuild;
mod renew;
mod settle;
mod state;
#[cfg(test)]
mod testing;

use parking_lot::Mutex;
use pyrmq_store::{Appended, PutGuard, Result, Store, StoreError, Topic};
use state::State;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use due::{DueRule, Timing};
pub use half::{Fields, Half, MAX_GROUP, is_half_only};
pub use pending::{Origin, Pending};
pub use pyrmq_format::names::{CHECK_MAX_TOPIC, HALF_TOPIC, OP_TOPIC};
pub use rebuild::{Rebuilt, Start};
pub use renew::Copied;
pub use settle::End;

/// The transactions of one store.
pub struct Transactions {
    store: Arc<Store>,
    half_topic: Arc<Topic>,
    op_topic: Arc<Topic>,
    /// Taken inside the put lock, never around it.
    state: Mutex<State>,
    limits: Limits,
    counters: Counters,
}

#[derive(Clone, Copy)]
pub struct Limits {
    /// transactionOpMsgMaxSize: bytes of one op record's body.
    pub op_body: usize,
    /// transactionMaxPendingHalves: halves that may wait before clients can store no more.
    pub pending: usize,
}

/// How many, since the start.
#[derive(Default)]
struct Counters {
    halves: AtomicU64,
    commits: AtomicU64,
    rollbacks: AtomicU64,
    checks: AtomicU64,
    discarded: AtomicU64,
    lost: AtomicU64,
}

/// Figures for operators and tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub halves: u64,
    pub commits: u64,
    pub rollbacks: u64,
    pub checks: u64,
    pub discarded: u64,
    /// Halves whose record was gone when it was needed.
    pub lost: u64,
    pub pending: usize,
    /// Settled halves whose op record is still to be written.
    pub owed: usize,
    /// bornTimestamp of the oldest pending half, 0 if there is none.
    pub oldest_born: i64,
}

/// How far all is settled, for the offsets of CID_RMQ_SYS_TRANS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// No half below this queue offset waits.
    pub half: i64,
    /// No op record below this queue offset names a half at or above `half`.
    pub op: i64,
    /// It holds once the log is on disk up to here.
    pub log_end: u64,
}

/// What the tables have of a transaction.
enum LiveCopy {
    /// It waits at this queue offset.
    Waits(i64),
    /// It may wait: a copy with its key is not in the log's file yet.
    Staged,
    None,
}

impl Transactions {
    /// Finds what waits in the two topics; see `Start` for where to look.
    pub fn open(store: Arc<Store>, start: Start, limits: Limits) -> Result<(Self, Rebuilt)> {
        let half_topic = store.topics().topic(HALF_TOPIC)?;
        let op_topic = store.topics().topic(OP_TOPIC)?;
        let (state, rebuilt) = rebuild::rebuild(&store, &half_topic, &op_topic, start)?;
        let transactions = Transactions {
            store,
            half_topic,
            op_topic,
            state: Mutex::new(state),
            limits,
            counters: Counters::default(),
        };
        Ok((transactions, rebuilt))
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub fn progress(&self) -> Result<Progress> {
        let half_queue = self.half_topic.queue(0)?;
        let op_queue = self.op_topic.queue(0)?;
        // Whoever stores a half or an op record keeps the put guard until the tables know of it, and
        // the tables know of what is staged. With all of it written queues and tables agree.
        self.store.await_late()?;
        self.store.write_staged(|log_end| {
            let mut state = self.state.lock();
            let half_end = half_queue.max_offset();
            let least = state.table.least().unwrap_or(half_end);
            let half = state.owed.iter().copied().fold(least, i64::min);
            let op_end = op_queue.max_offset();
            let op = state.ops.needed_from(half).unwrap_or(op_end);
            Progress { half, op, log_end }
        })
    }

    pub fn figures(&self) -> Figures {
        let read = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let c = &self.counters;
        let state = self.state.lock();
        Figures {
            halves: read(&c.halves),
            commits: read(&c.commits),
            rollbacks: read(&c.rollbacks),
            checks: read(&c.checks),
            discarded: read(&c.discarded),
            lost: read(&c.lost),
            pending: state.table.len(),
            owed: state.owed.len(),
            oldest_born: state.table.oldest_born(),
        }
    }

    /// How many halves wait.
    pub fn pending(&self) -> usize {
        self.state.lock().table.len()
    }

    /// Whether so many halves wait that clients can store no more; then the limit.
    pub fn full(&self) -> Option<usize> {
        (self.pending() >= self.limits.pending).then_some(self.limits.pending)
    }

    /// What is known of a waiting half.
    pub fn find(&self, offset: i64) -> Option<Pending> {
        self.state.lock().table.get(offset).cloned()
    }

    /// The waiting copy of the transaction that a half belongs to: the half itself, or what
    /// it was appended again as. A copy that is staged cannot be read: then what is staged is written
    /// first. On a slow disk a thread does that, which is waited for a moment only (`StoreError::Busy`).
    pub fn live(&self, half: &Half, offset: i64) -> Result<Option<i64>> {
        match self.written_copy(half, offset)? {
            LiveCopy::Waits(copy) => Ok(Some(copy)),
            LiveCopy::None => Ok(None),
            LiveCopy::Staged => {
                // Under the put lock nothing more is staged.
                let _guard = self.put()?;
                match self.written_copy(half, offset)? {
                    LiveCopy::Waits(copy) => Ok(Some(copy)),
                    _ => Ok(None),
                }
            }
        }
    }

    fn written_copy(&self, half: &Half, offset: i64) -> Result<LiveCopy> {
        let state = self.state.lock();
        if state
            .table
            .get(offset)
            .is_some_and(|p| p.phys == half.phys())
        {
            return Ok(LiveCopy::Waits(offset));
        }
        let mut found = LiveCopy::None;
        for copy in state.table.copies(half.key()) {
            let Some(pending) = state.table.get(copy) else {
                continue;
            };
            if pending.phys >= self.store.log().max_offset() {
                found = LiveCopy::Staged;
            } else if let Some(other) = Half::read(&self.store, pending.phys)?
                && half.is_same_transaction(&other)
            {
                return Ok(LiveCopy::Waits(copy));
            }
        }
        Ok(found)
    }

    /// Whether the transaction of a half was committed (false: rolled back), and whether all that was
    /// settled since the start is remembered. None: it waits, or that is not remembered. A half
    /// without unique key is like others that were born with it: nothing is known of it.
    pub fn decided(&self, half: &Half) -> (Option<bool>, bool) {
        if half.fields().unique_key.is_empty() {
            return (None, false);
        }
        let state = self.state.lock();
        if state.table.copies(half.key()).next().is_some() {
            return (None, false); // a copy waits, though its record may not be in the log's file yet
        }
        let decided = &state.decided;
        (decided.get(half.key()), !decided.has_forgotten())
    }

    /// The same has been decided for a half that was discarded.
    pub fn decide_discarded(&self, half: &Half, commit: bool) {
        self.state.lock().decided.note(half.key(), commit);
    }

    /// Waiting halves at the queue offsets `range` that are not young, in order: at most `limit`, and of
    /// the next `most`. Also where to continue.
    pub fn due(
        &self,
        rule: &DueRule,
        range: Range<i64>,
        limit: usize,
        most: usize,
    ) -> (Vec<(i64, Pending)>, i64) {
        self.state.lock().table.due(rule, range, limit, most)
    }

    /// Waiting halves below an offset, in order.
    pub fn before(&self, offset: i64, limit: usize) -> Vec<i64> {
        self.state.lock().table.before(offset, limit)
    }

    /// How many halves of each topic wait.
    pub fn pending_by_topic(&self) -> Vec<(Box<[u8]>, u64)> {
        self.state.lock().table.by_topic()
    }

    /// A half was appended for a client.
    pub fn written(&self, done: &Appended, born: i64, fields: &Fields<'_>) {
        let mut state = self.state.lock();
        let pending = Pending {
            phys: done.phys,
            born,
            since: done.store_timestamp,
            key: half::transaction_key(fields.unique_key, born),
            immunity: fields.immunity_seconds(),
            checks: 0,
            is_copy: false,
            origin: state.table.origin(fields.group, fields.topic),
        };
        state.table.insert(done.queue_offset, pending);
        self.count(|c| &c.halves);
    }

    pub fn half_topic(&self) -> &Arc<Topic> {
        &self.half_topic
    }

    /// Writes the op records that are owed.
    pub fn write_owed(&self) -> Result<()> {
        if self.state.lock().owed.is_empty() {
            return Ok(());
        }
        let mut guard = self.put()?;
        self.write_ops(&mut guard).map(|_| ())
    }

    /// Locks the log for appending, with all that was stored so far written: the records of all halves
    /// in the tables can be read.
    fn put(&self) -> Result<PutGuard<'_>> {
        self.store.await_late()?;
        let mut guard = self.store.put()?;
        guard.write()?;
        Ok(guard)
    }

    /// A half is no longer there to be settled: its file was deleted, or damaged.
    fn lose(&self, state: &mut State, offset: i64) -> StoreError {
        self.settled(state, offset);
        self.count(|c| &c.lost);
        let text = format!("the half message at queue offset {offset} is gone from the log");
        log::error!(
            topic:% = String::from_utf8_lossy(HALF_TOPIC);
            "the half message at queue offset {offset} is gone from the log");
        StoreError::Illegal(text)
    }

    fn count(&self, counter: impl Fn(&Counters) -> &AtomicU64) {
        counter(&self.counters).fetch_add(1, Ordering::Relaxed);
    }

    /// Appends the op records that are owed, all or as many as there is room for; returns what is
    /// to be durable for them to count.
    pub fn write_ops(&self, guard: &mut PutGuard<'_>) -> Result<u64> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let (mut end, mut written) = (0, 0);
        let mut result = Ok(());
        while written < state.owed.len() {
            let (body, taken) = ops::body(&state.owed[written..], self.limits.op_body);
            match ops::append(guard, &self.op_topic, self.store.store_host(), &body) {
                Ok(done) => {
                    end = done.end();
                    let named = &state.owed[written..written + taken];
                    let most = named.iter().copied().max().unwrap_or(-1);
                    state.ops.note(done.queue_offset, most);
                    written += taken;
                }
                Err(e) => {
                    result = Err(e);
                    break;
                }
            }
        }
        state.owed.drain(..written);
        result.map(|()| end)
    }
}
