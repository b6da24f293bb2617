//! Halves that are appended again: to be asked about, to stay near the queue's end, or to be discarded
//! or taken up again. [TransactionalMessageBridge.renewHalfMessageInner]

use super::half::Half;
use super::pending::Pending;
use super::{CHECK_MAX_TOPIC, Transactions};
use pyrmq_format::host::Host;
use pyrmq_format::properties;
use pyrmq_format::record::{self, Head};
use pyrmq_store::{Appended, PutGuard, Result, StoreError};

const CHECK_TIMES: &[u8] = b"TRANSACTION_CHECK_TIMES";

/// A half that was appended again.
pub struct Copied {
    pub old: i64,
    pub offset: i64,
    pub phys: u64,
    pub unique_key: Vec<u8>,
    /// The copy as its producer is shown it: in its real topic and queue.
    pub record: Vec<u8>,
}

impl Transactions {
    /// Appends these halves again, one op record for those that they replace. With `asked` their
    /// check count grows by one. Those that wait no longer are left out.
    pub fn renew(&self, offsets: &[i64], asked: bool) -> Result<Vec<Copied>> {
        let mut guard = self.put()?;
        let mut copies = Vec::with_capacity(offsets.len());
        let result = offsets
            .iter()
            .try_for_each(|&offset| self.renew_one(&mut guard, offset, asked, &mut copies));
        // What was done before an error has its op record all the same.
        self.write_ops(&mut guard).and(result).map(|()| copies)
    }

    fn renew_one(
        &self,
        guard: &mut PutGuard<'_>,
        offset: i64,
        asked: bool,
        copies: &mut Vec<Copied>,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let Some(pending) = state.table.get(offset).cloned() else {
            return Ok(());
        };
        let Some(half) = Half::read(&self.store, pending.phys)? else {
            self.lose(&mut state, offset);
            return Ok(());
        };
        let checks = pending.checks.saturating_add(asked as u16);
        let (props, count) = with_checks(&half, checks);
        let done = self.append_half(guard, &half, &props, &count)?;
        self.settled(&mut state, offset);
        let copy = Pending {
            phys: done.phys,
            since: if asked {
                done.store_timestamp
            } else {
                pending.since
            },
            checks,
            is_copy: true,
            ..pending
        };
        state.table.insert(done.queue_offset, copy);
        if asked {
            self.count(|c| &c.checks);
        }
        copies.push(Copied {
            old: offset,
            offset: done.queue_offset,
            phys: done.phys,
            unique_key: half.fields().unique_key.to_vec(),
            record: self.shown(&half, &done, &[&props, &count]),
        });
        Ok(())
    }

    fn append_half(
        &self,
        guard: &mut PutGuard<'_>,
        half: &Half,
        props: &[u8],
        more: &[u8],
    ) -> Result<Appended> {
        let flags = half.view().sys_flag & !record::sys_flag::TRANSACTION_MASK;
        let message = half.again(&self.half_topic, 0, flags, 0);
        let content = half.content(props, more, half.fields().tags_code());
        guard.append_again(&message, &content)
    }

    /// The record of a copy as it would stand in the real topic.
    fn shown(&self, half: &Half, done: &Appended, props: &[&[u8]]) -> Vec<u8> {
        let (view, fields) = (half.view(), half.fields());
        let head = Head {
            queue_id: fields.queue_id.unwrap_or(0) as i32,
            flag: view.flag,
            queue_offset: done.queue_offset,
            phys: done.phys,
            sys_flag: view.sys_flag,
            born_timestamp: view.born_timestamp,
            born_host: half.born_host(),
            store_timestamp: done.store_timestamp,
            store_host: *self.store.store_host(),
            reconsume_times: view.reconsume_times,
            prepared_transaction_offset: 0,
        };
        encoded(&head, fields.topic, half.body(), props)
    }

    /// Moves a waiting half to TRANS_CHECK_MAX_TIME_TOPIC, whoever asked for it; its op record is written.
    /// Returns its unique key and its place there.
    pub fn discard(&self, offset: i64) -> Result<(Vec<u8>, u64)> {
        let topic = self.store.topics().topic(CHECK_MAX_TOPIC)?;
        let mut guard = self.put()?;
        let mut state = self.state.lock();
        let half = self.waiting(&mut state, offset)?;
        // Which half it was: recovery reads that where the op record is missing.
        let message = half.again(&topic, 0, half.view().sys_flag, half.phys() as i64);
        let content = half.content(half.props(), b"", half.fields().tags_code());
        self.op_fits()?;
        let done = guard.append_again(&message, &content)?;
        self.settled(&mut state, offset);
        self.count(|c| &c.discarded);
        drop(state);
        if let Err(e) = self.write_ops(&mut guard) {
            log::error!(path:% = e.path().display(); "op record not written, it is tried again: {e}");
        }
        Ok((half.fields().unique_key.to_vec(), done.phys))
    }

    /// Takes up again a message that was discarded, as if nobody had been asked about it. Returns
    /// the queue offset of the half, and what is to be durable. [resumeCheckHalfMessage]
    pub fn resume(&self, phys: u64) -> Result<(i64, u64)> {
        let half = Half::find(&self.store, CHECK_MAX_TOPIC, phys)?
            .filter(|half| half.fields().is_complete())
            .ok_or_else(|| {
                let text = format!("no message that was discarded at physical offset {phys}");
                StoreError::Illegal(text)
            })?;
        let mut guard = self.put()?;
        let mut state = self.state.lock();
        if state.table.copies(half.key()).next().is_some() {
            return Err(StoreError::Illegal("its half message waits already".into()));
        }
        let mut props = half.props_without(&[
            CHECK_TIMES,
            b"CHECK_IMMUNITY_TIME_IN_SECONDS",
            b"TRAN_PREPARED_QUEUE_OFFSET",
        ]);
        properties::push(&mut props, CHECK_TIMES, b"0");
        let done = self.append_half(&mut guard, &half, &props, b"")?;
        let fields = half.fields();
        let fresh = Pending {
            phys: done.phys,
            born: half.view().born_timestamp,
            since: done.store_timestamp,
            key: half.key(),
            immunity: -1,
            checks: 0,
            is_copy: true,
            origin: state.table.origin(fields.group, fields.topic),
        };
        state.table.insert(done.queue_offset, fresh);
        Ok((done.queue_offset, done.end()))
    }
}

/// The properties of a half with this check count, in two parts. A half that nobody was asked about
/// and that never had a count gets none; so does one that has no room for it, which RocketMQ may have
/// stored: it is counted in memory only.
fn with_checks(half: &Half, checks: u16) -> (Vec<u8>, Vec<u8>) {
    let had = properties::find(half.props(), CHECK_TIMES).is_some();
    let mut count = Vec::new();
    if checks > 0 || had {
        properties::push(&mut count, CHECK_TIMES, checks.to_string().as_bytes());
    }
    let props = half.props_without(&[CHECK_TIMES]);
    if props.len() + count.len() > properties::MAX_LEN {
        return (half.props().to_vec(), Vec::new());
    }
    (props, count)
}

fn encoded(head: &Head, topic: &[u8], body: &[u8], props: &[&[u8]]) -> Vec<u8> {
    let born: &Host = &head.born_host;
    let props_len = props.iter().map(|p| p.len()).sum();
    let len = record::encoded_len(born, &head.store_host, body.len(), topic.len(), props_len);
    let mut out = vec![0; len];
    record::encode(&mut out, head, topic, body, props);
    out
}

#[cfg(test)]
#[path = "renew_tests.rs"]
mod tests;
