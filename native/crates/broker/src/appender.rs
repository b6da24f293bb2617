//! Appends what the requests of one feed ask for to the log, under one put guard.

use super::codes;
use super::context::Broker;
use super::forms::is_sent_back;
use super::request::{Refusal, Scratch, SendRequest, Sent, Stored};
use crate::txn::End;
use pyrmq_store::{PutGuard, Result, StoreError, Topic};
use std::sync::Arc;

/// Stores requests in a row. When it is dropped, it appends the op records of the transactions that it
/// settled, writes all of it into the log's file, and then gives the put lock back: between a
/// committed message and its op record the log gets nothing but what this appender stores.
pub struct Appender<'b> {
    broker: &'b Broker,
    guard: Option<PutGuard<'b>>,
    /// Transactions were settled whose op record is still to be written.
    owes_ops: bool,
    keeps_staged: bool,
}

/// What became of an END_TRANSACTION.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// It counts once the log is confirmed up to `log_end`.
    Settled {
        log_end: u64,
    },
    /// Nothing is done: it is repeated, late, or not right in all that it says.
    NeedsDecision,
    Refused(Refusal),
}

impl Broker {
    /// For requests in a row. The first one that stores something takes the put lock, which is given
    /// back when the appender is dropped.
    pub fn appender(&self) -> Appender<'_> {
        Appender {
            broker: self,
            guard: None,
            owes_ops: false,
            keeps_staged: false,
        }
    }
}

impl<'b> Appender<'b> {
    /// Leaves what this appender stores to be written by a later one, or by `Store::write_staged`.
    pub fn keep_staged(&mut self) {
        self.keeps_staged = true;
    }

    pub(super) fn guard(&mut self) -> Result<&mut PutGuard<'b>> {
        match &mut self.guard {
            Some(guard) => Ok(guard),
            empty => Ok(empty.insert(self.broker.store.put()?)),
        }
    }

    /// Stores one request. `last` remembers the topic from one request to the next.
    pub fn send<'a>(
        &mut self,
        rq: &SendRequest<'a>,
        last: &mut Option<Arc<Topic>>,
        scratch: &'a mut Scratch,
    ) -> Sent<'a>
    where
        'b: 'a,
    {
        let broker = self.broker;
        let plan = match broker.plan(rq, last) {
            Ok(Some(plan)) => plan,
            Ok(None) => return Sent::NeedsDecision,
            Err(refusal) => return Sent::Refused(refusal),
        };
        // With ASYNC_FLUSH nobody waits for the disk in any case.
        let no_wait = plan.facts.no_wait && broker.store.is_sync();
        let mut waits = true;
        let placed = match self.guard() {
            Ok(guard) => broker
                .store_as(guard, rq, &plan, scratch)
                .and_then(|placed| {
                    if !is_sent_back(rq) {
                        let kind = plan.facts.message_type();
                        plan.topic.figures().count_size(kind, placed.size);
                    }
                    if no_wait {
                        // The answer waits for nothing else.
                        waits = !guard.write_or_leave()?;
                    }
                    Ok(placed)
                }),
            Err(e) => Err(e.into()),
        };
        match placed {
            Ok(placed) => Sent::Stored(Stored {
                log_end: if waits { placed.end } else { 0 },
                messages: placed.messages,
                bytes: placed.bytes,
                queue_id: plan.queue_id,
                queue_offset: placed.queue_offset,
                message_ids: &scratch.message_ids,
                unique_key: plan.facts.unique_key.unwrap_or(&scratch.unique_key),
                inner_batch: plan.form.is_inner_batch(),
                recall_handle: &scratch.recall_handle,
            }),
            Err(refusal) => Sent::Refused(refusal),
        }
    }

    /// Settles the half that a request names, if the case is plain. Somebody who waits for the
    /// answer (`answered`) has the op record written at once; otherwise there is one for all that
    /// the appender settles.
    pub fn end_transaction(&mut self, end: &End<'_>, answered: bool) -> Ended {
        let Some(transactions) = self.broker.transactions() else {
            return Ended::NeedsDecision;
        };
        let settled = match self.guard() {
            Ok(guard) => transactions.settle_plain(guard, end),
            Err(_) => return Ended::NeedsDecision, // whoever decides meets the reason
        };
        let Ok(Some(log_end)) = settled else {
            return Ended::NeedsDecision;
        };
        self.owes_ops = true;
        if !answered {
            return Ended::Settled { log_end };
        }
        match self.write_ops() {
            Ok(ops) => Ended::Settled {
                log_end: log_end.max(ops),
            },
            Err(e) => Ended::Refused(Refusal::new(codes::SERVICE_NOT_AVAILABLE, e.to_string())),
        }
    }

    /// Writes the op records that are owed; what cannot be written now is tried again by the broker.
    fn write_ops(&mut self) -> std::result::Result<u64, StoreError> {
        let (Some(transactions), Some(guard)) = (self.broker.transactions(), &mut self.guard)
        else {
            return Ok(0);
        };
        if !std::mem::take(&mut self.owes_ops) {
            return Ok(0);
        }
        transactions
            .write_ops(guard)
            .inspect_err(|e| log::error!(path:% = e.path().display(); "op record not written, it is tried again: {e}"))
    }
}

impl Drop for Appender<'_> {
    fn drop(&mut self) {
        // After a panic nothing more is appended: a second one would end the process.
        if !std::thread::panicking() {
            let _ = self.write_ops(); // logged; nobody waits for it
        }
        if let (Some(guard), true) = (&mut self.guard, self.keeps_staged) {
            guard.keep_staged();
        }
    }
}
