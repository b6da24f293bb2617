//! Committing and rolling back.

use super::half::{Fields, Half};
use super::{CHECK_MAX_TOPIC, State, Transactions};
use pyrmq_format::record::sys_flag;
use pyrmq_store::{PutGuard, Result, StoreError};

/// What an END_TRANSACTION says, as far as its plain cases need it.
pub struct End<'a> {
    /// tranStateTableOffset and commitLogOffset.
    pub offset: i64,
    pub phys: u64,
    pub commit: bool,
    pub group: &'a [u8],
    /// msgId and transactionId; empty if not given.
    pub ids: [&'a [u8]; 2],
    pub from_check: bool,
    /// The topic that its message has to be for; None: any.
    pub topic: Option<&'a [u8]>,
}

impl End<'_> {
    /// Whether it speaks of this half. An answer that was under way when the log lost its last part
    /// may name a place where another half stands now: the unique key decides.
    fn is_about(&self, fields: &Fields<'_>) -> bool {
        let key = fields.unique_key;
        let named = self.ids.iter().any(|id| !id.is_empty());
        fields.group == self.group
            && self.topic.is_none_or(|topic| topic == fields.topic)
            && (key.is_empty() || !named || self.ids.contains(&key))
    }
}

impl Transactions {
    /// Settles a half if the case is plain: it waits, everything that the request says of it is
    /// right, and it has no immunity. None: somebody has to decide. Otherwise what is
    /// to be durable before it counts, without the op record: `write_ops` is the caller's.
    pub fn settle_plain(&self, guard: &mut PutGuard<'_>, end: &End<'_>) -> Result<Option<u64>> {
        let mut state = self.state.lock();
        let Some(pending) = state.table.get(end.offset) else {
            return Ok(None);
        };
        if pending.phys != end.phys || pending.immunity >= 0 && !end.from_check {
            return Ok(None);
        }
        let Some(half) = Half::read(&self.store, end.phys)? else {
            return Ok(None);
        };
        let fields = half.fields();
        if !end.is_about(&fields) {
            return Ok(None);
        }
        let done = if end.commit {
            self.op_fits()?;
            self.deliver(guard, &half, &fields, half.phys())?
        } else {
            0
        };
        self.decide(&mut state, end.offset, &fields, end.commit);
        Ok(Some(done))
    }

    /// Settles the waiting half at `offset` and writes its op record. Returns what is to be durable
    /// before it counts.
    pub fn settle(&self, offset: i64, commit: bool) -> Result<u64> {
        let mut guard = self.put()?;
        let mut state = self.state.lock();
        let half = self.waiting(&mut state, offset)?;
        let fields = half.fields();
        let mut end = 0;
        if commit {
            self.op_fits()?;
            end = self.deliver(&mut guard, &half, &fields, half.phys())?;
        }
        self.decide(&mut state, offset, &fields, commit);
        drop(state);
        Ok(end.max(self.write_ops(&mut guard)?))
    }

    /// The record of the half that waits at `offset`.
    pub(super) fn waiting(&self, state: &mut State, offset: i64) -> Result<Half> {
        let Some(phys) = state.table.get(offset).map(|p| p.phys) else {
            let text = format!("no half message at queue offset {offset} waits");
            return Err(StoreError::Illegal(text));
        };
        Half::read(&self.store, phys)?.ok_or_else(|| self.lose(state, offset))
    }

    /// The caller has the put lock.
    fn decide(&self, state: &mut State, offset: i64, fields: &Fields<'_>, commit: bool) {
        if let Some(pending) = state.table.get(offset) {
            state.decided.note(pending.key, commit);
        }
        self.settled(state, offset);
        self.count(|c| if commit { &c.commits } else { &c.rollbacks });
        if !commit && let Some(topic) = self.store.topics().get(fields.topic) {
            topic.figures().count_rollback();
        }
    }

    /// The half at `offset` waits no longer; an op record is owed for it.
    pub(super) fn settled(&self, state: &mut State, offset: i64) {
        state.table.remove(offset);
        state.owed.push(offset);
    }

    /// Where op records cannot follow for long nothing is committed or discarded: recovery knows such
    /// records in the log's last part only. The caller has the put lock.
    pub(super) fn op_fits(&self) -> Result<()> {
        self.op_topic.queue(0)?.ready(1).map(drop)
    }

    /// Appends the message of a half to its real topic. The property string stays as it is: so does
    /// RocketMQ's. [EndTransactionProcessor.endMessageTransaction]
    fn deliver(
        &self,
        guard: &mut PutGuard<'_>,
        half: &Half,
        fields: &Fields<'_>,
        prepared: u64,
    ) -> Result<u64> {
        let unknown = || {
            let name = String::from_utf8_lossy(fields.topic).into_owned();
            StoreError::Illegal(format!(
                "topic[{name}] of the half message does not exist, or takes no messages"
            ))
        };
        let topic = self.store.topics().get(fields.topic).ok_or_else(unknown)?;
        // System topics are no client's to write to, whatever a stored half may say.
        let settings = topic.settings().filter(|s| s.sendable);
        let (Some(_), Some(queue_id)) = (settings, fields.queue_id) else {
            return Err(unknown());
        };
        let flags = half.view().sys_flag & !sys_flag::TRANSACTION_MASK | sys_flag::COMMIT;
        let queue_id = topic.queue_that_is_read(queue_id);
        let message = half.again(&topic, queue_id, flags, prepared as i64);
        let content = half.content(half.props(), b"", fields.tags_code());
        let done = guard.append_again(&message, &content)?;
        let born = half.view().born_timestamp;
        topic
            .figures()
            .count_commit(done.store_timestamp.saturating_sub(born));
        Ok(done.end())
    }

    /// Delivers a message that was discarded, from its place in TRANS_CHECK_MAX_TIME_TOPIC.
    pub fn deliver_late(&self, phys: u64, prepared: u64) -> Result<u64> {
        let Some(half) = Half::find(&self.store, CHECK_MAX_TOPIC, phys)? else {
            let text = format!("no message that was discarded at physical offset {phys}");
            return Err(StoreError::Illegal(text));
        };
        let mut guard = self.put()?;
        let end = self.deliver(&mut guard, &half, &half.fields(), prepared)?;
        self.count(|c| &c.commits);
        Ok(end)
    }
}

#[cfg(test)]
#[path = "settle_tests.rs"]
mod tests;
