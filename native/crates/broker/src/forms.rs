//! The ways in which a request is stored.
//!
//! All but one are one record each and differ in data only (`Record`): where it goes, its flags,
//! the properties it gets and the entry in its queue. A batch is a record for each of its messages.

use super::codes;
use super::context::Broker;
use super::facts::{Facts, is_brokers, is_timer_only};
use super::plan::{Form, Plan, is_dead};
use super::request::{Decision, Refusal, Scratch, SendRequest};
use super::room;
use crate::txn::{Fields, MAX_GROUP, Transactions, is_half_only};
use pyrmq_format::record::sys_flag;
use pyrmq_format::unique_key;
use pyrmq_format::{delay, get_i16, get_i32, java, names, properties, timer};
use pyrmq_store::{Appended, Content, Message, PutGuard, Topic};
use std::borrow::Cow;
use std::sync::Arc;

const NOT_IN_A_BATCH: &str = "a batch holds no delayed, timer or transactional messages";

/// Where the records of a request are.
pub(super) struct Placed {
    pub end: u64,
    pub queue_offset: i64,
    /// Bytes of a record, of several their average.
    pub size: usize,
}

impl From<Appended> for Placed {
    fn from(done: Appended) -> Self {
        Placed {
            end: done.end(),
            queue_offset: done.queue_offset,
            size: done.size,
        }
    }
}

/// What a form makes of one record, beside its body and its sender's properties.
struct Record<'r> {
    topic: &'r Arc<Topic>,
    queue_id: u32,
    sys_flag: i32,
    tags_code: i64,
    /// Messages in the body.
    count: i16,
}

impl Broker {
    /// Stores a request as its plan says. `scratch` then has the ids, and the unique key if one was
    /// made.
    pub(super) fn store_as(
        &self,
        guard: &mut PutGuard<'_>,
        rq: &SendRequest<'_>,
        plan: &Plan<'_>,
        scratch: &mut Scratch,
    ) -> Result<Placed, Refusal> {
        scratch.message_ids.clear();
        scratch.unique_key.clear();
        scratch.recall_handle.clear();
        scratch.added.clear();
        let whole = Record {
            topic: &plan.topic,
            queue_id: plan.queue_id,
            sys_flag: plan.sys_flag,
            tags_code: java::tag_code(plan.facts.tags),
            count: 1,
        };
        match plan.form {
            Form::Batch => self.store_batch(guard, rq, &whole, scratch),
            Form::Plain => {
                let own = own_properties(rq, &plan.facts);
                self.add_key(rq, &plan.facts, scratch);
                Ok(self.store_record(guard, rq, &whole, &own, scratch)?.into())
            }
            Form::InnerBatch => {
                let own = own_properties(rq, &plan.facts);
                let count = count_entries(rq.body)?;
                let first = guard.next_offset(&whole.message(rq))?;
                properties::push_number(&mut scratch.added, b"INNER_NUM", count as i64);
                properties::push_number(&mut scratch.added, b"INNER_BASE", first);
                let record = Record {
                    sys_flag: whole.sys_flag | sys_flag::NEED_UNWRAP | sys_flag::INNER_BATCH,
                    count,
                    ..whole
                };
                Ok(self.store_record(guard, rq, &record, &own, scratch)?.into())
            }
            Form::Delayed(level) => {
                let done = self.store_delayed(guard, rq, &whole, level, &plan.facts, scratch)?;
                Ok(done.into())
            }
            Form::Timer(out_ms) => {
                let done = self.store_timer(guard, rq, &whole, out_ms, &plan.facts, scratch)?;
                Ok(done.into())
            }
            Form::Half(transactions) => {
                self.store_half(transactions, guard, rq, whole, &plan.facts, scratch)
            }
        }
    }

    /// Makes a unique key for a message whose sender set none.
    fn add_key(&self, rq: &SendRequest<'_>, facts: &Facts<'_>, scratch: &mut Scratch) {
        if facts.unique_key.is_none() {
            let key = &mut scratch.unique_key;
            unique_key::push_new(key, self.store.store_host(), rq.born_timestamp);
            properties::push(&mut scratch.added, b"UNIQ_KEY", key);
        }
    }

    /// Appends one record: `own` are its sender's properties, the others are in `scratch`.
    fn store_record(
        &self,
        guard: &mut PutGuard<'_>,
        rq: &SendRequest<'_>,
        record: &Record<'_>,
        own: &[u8],
        scratch: &mut Scratch,
    ) -> Result<Appended, Refusal> {
        let close = properties::closing(own);
        let content = record.content(rq, [own, close, &scratch.added, &self.suffix]);
        if !is_sent_back(rq) {
            room::check(rq.body.len(), content.props_len())?;
        }
        let done = guard.append(&record.message(rq), &content)?;
        let host = self.store.store_host();
        host.push_message_id(done.phys, &mut scratch.message_ids);
        Ok(done)
    }

    /// Stores a message in the queue of its delay level, with what says where it belongs.
    fn store_delayed(
        &self,
        guard: &mut PutGuard<'_>,
        rq: &SendRequest<'_>,
        whole: &Record<'_>,
        level: usize,
        facts: &Facts<'_>,
        scratch: &mut Scratch,
    ) -> Result<Appended, Refusal> {
        let own = own_properties(rq, facts);
        self.add_key(rq, facts, scratch);
        let added = &mut scratch.added;
        delay::push_place(added, level, whole.topic.name(), whole.queue_id);
        let schedule = self.store.topics().topic(delay::SCHEDULE_TOPIC)?;
        let record = Record {
            topic: &schedule,
            queue_id: level as u32 - 1,
            ..*whole
        };
        self.store_record(guard, rq, &record, &own, scratch)
    }

    /// Stores a message in the timer topic, with what says when it is due and where it belongs. Whoever
    /// reads that topic has it delivered.
    fn store_timer(
        &self,
        guard: &mut PutGuard<'_>,
        rq: &SendRequest<'_>,
        whole: &Record<'_>,
        out_ms: i64,
        facts: &Facts<'_>,
        scratch: &mut Scratch,
    ) -> Result<Appended, Refusal> {
        let own = own_properties(rq, facts);
        self.add_key(rq, facts, scratch);
        let name = whole.topic.name();
        timer::push_place(&mut scratch.added, out_ms, name, whole.queue_id);
        let timers = self.store.topics().topic(timer::TIMER_TOPIC)?;
        let record = Record {
            topic: &timers,
            queue_id: 0,
            ..*whole
        };
        let done = self.store_record(guard, rq, &record, &own, scratch)?;
        let key = facts.unique_key.unwrap_or(&scratch.unique_key);
        if let Some(sends) = &self.timer_sends {
            sends.push_recall_handle(&mut scratch.recall_handle, name, out_ms, key);
        }
        Ok(done)
    }

    fn store_half(
        &self,
        transactions: &Transactions,
        guard: &mut PutGuard<'_>,
        rq: &SendRequest<'_>,
        whole: Record<'_>,
        facts: &Facts<'_>,
        scratch: &mut Scratch,
    ) -> Result<Placed, Refusal> {
        let own = own_properties(rq, facts);
        let mut fields = Fields::read(&own);
        fields.topic = whole.topic.name();
        if fields.group.is_empty()
            || fields.group.len() > MAX_GROUP
            || !names::is_topic_text(fields.group)
        {
            let text = "a half message needs the property PGROUP: the name of its producer group";
            return Err(Refusal::illegal(text));
        }
        if let Some(most) = transactions.full() {
            let text = format!(
                "[REJECTREQUEST]{most} half messages wait for commit or rollback \
                 (transactionMaxPendingHalves; `pyrmq admin txn stats` shows them): send this one later"
            );
            return Err(Refusal::new(codes::SYSTEM_BUSY, text));
        }
        self.add_key(rq, facts, scratch);
        let added = &mut scratch.added;
        let key = facts.unique_key.unwrap_or(&scratch.unique_key);
        properties::push(added, b"__transactionId__", key);
        properties::push(added, b"REAL_TOPIC", fields.topic);
        properties::push_number(added, b"REAL_QID", whole.queue_id as i64);
        let record = Record {
            topic: transactions.half_topic(),
            queue_id: 0,
            sys_flag: whole.sys_flag & !sys_flag::TRANSACTION_MASK,
            tags_code: fields.tags_code(),
            count: 1,
        };
        let done = self.store_record(guard, rq, &record, &own, scratch)?;
        fields.unique_key = facts.unique_key.unwrap_or(&scratch.unique_key);
        transactions.written(&done, rq.born_timestamp, &fields);
        Ok(done.into())
    }

    fn store_batch(
        &self,
        guard: &mut PutGuard<'_>,
        rq: &SendRequest<'_>,
        whole: &Record<'_>,
        scratch: &mut Scratch,
    ) -> Result<Placed, Refusal> {
        let Scratch {
            message_ids, codes, ..
        } = scratch;
        let limit = self.store.config().max_message_size;
        if rq.body.len() > limit {
            let text = format!(
                "batch body size {} over maxMessageSize {limit}",
                rq.body.len()
            );
            return Err(Refusal::illegal(text));
        }
        let message = whole.message(rq);
        // The first pass checks everything, so that the second stores all of it.
        codes.clear();
        let mut total = 0;
        for (at, entry) in Entries::new(rq.body).enumerate() {
            let entry = entry?;
            let facts = Facts::read(entry.props);
            if facts.is_delayed() || facts.half || facts.inner_batch {
                return Err(Refusal::illegal(NOT_IN_A_BATCH));
            }
            codes.push(java::tag_code(facts.tags));
            let props = entry.props.len() + properties::visible_end(entry.props).len();
            room::check(entry.body.len(), props).map_err(|why| in_batch(at, why))?;
            total += guard.measure(&message, entry.body.len(), props)?;
        }
        if codes.is_empty() {
            return Err(Refusal::illegal("batch body is empty"));
        }
        let entries = Entries::new(rq.body).map_while(Result::ok);
        let contents = codes
            .iter()
            .zip(entries)
            .map(|(&tags_code, entry)| Content {
                flag: entry.flag,
                body: entry.body,
                props: [entry.props, properties::visible_end(entry.props), b"", b""],
                tags_code,
                count: 1,
            });
        let mut first = None;
        let mut end = 0;
        let host = self.store.store_host();
        guard.append_batch(&message, codes.len(), total, contents, |done| {
            if first.is_some() {
                message_ids.push(b',');
            }
            host.push_message_id(done.phys, message_ids);
            first.get_or_insert(done.queue_offset);
            end = done.end();
        })?;
        Ok(Placed {
            end,
            queue_offset: first.unwrap_or(0),
            size: total / codes.len().max(1),
        })
    }
}

impl Record<'_> {
    fn message(&self, rq: &SendRequest<'_>) -> Message<'_> {
        Message {
            topic: self.topic,
            queue_id: self.queue_id,
            sys_flag: self.sys_flag,
            born_timestamp: rq.born_timestamp,
            born_host: rq.born_host,
            reconsume_times: rq.reconsume_times,
            prepared_transaction_offset: 0,
        }
    }

    fn content<'c>(&self, rq: &SendRequest<'c>, props: [&'c [u8]; 4]) -> Content<'c> {
        Content {
            flag: rq.flag,
            body: rq.body,
            props,
            tags_code: self.tags_code,
            count: self.count,
        }
    }
}

/// The sender's properties as they are stored: without those that are the broker's to set, and
/// without what a message that goes back to its group must not keep.
fn own_properties<'p>(rq: &SendRequest<'p>, facts: &Facts<'_>) -> Cow<'p, [u8]> {
    let back = is_sent_back(rq);
    let dead = is_dead(rq);
    let half = facts.half && !back;
    let delayed = facts.delay.is_some() && !dead;
    let timer = facts.timer().is_some() && !dead;
    // Two properties that say where it goes, or when: the other one counts.
    let priority = facts.priority.is_some() && facts.counting_priority().is_none() && !rq.batch;
    let timer_only = timer && (facts.timer_only || facts.half_only);
    if !(facts.rewrite || half && facts.half_only || back || delayed || timer_only || priority) {
        return Cow::Borrowed(rq.properties);
    }
    Cow::Owned(properties::without(rq.properties, |name| {
        is_brokers(name)
            || half && is_half_only(name)
            || back && name == b"TRAN_MSG"
            || dead && (name == b"DELAY" || delay::is_timer(name))
            || delayed && (delay::is_timer(name) || delay::is_place(name))
            || timer && (is_timer_only(name) || matches!(name, b"REAL_TOPIC" | b"REAL_QID"))
            || priority && name == b"_SYS_MSG_PRIORITY_"
    }))
}

/// Whether it comes from a consumer that could not deal with it: it has what a retry adds.
pub(super) fn is_sent_back(rq: &SendRequest<'_>) -> bool {
    matches!(rq.decision, Some(Decision::SentBack { .. }))
}

/// How many messages a batch body holds; refused if it is none or holds what a batch may not.
fn count_entries(body: &[u8]) -> Result<i16, Refusal> {
    let mut count = 0i16;
    for (at, entry) in Entries::new(body).enumerate() {
        let entry = entry?;
        let facts = Facts::read(entry.props);
        if facts.is_delayed() || facts.half {
            return Err(Refusal::illegal(NOT_IN_A_BATCH));
        }
        room::check(entry.body.len(), entry.props.len()).map_err(|why| in_batch(at, why))?;
        count = count.checked_add(1).ok_or(Refusal::illegal(
            "an inner batch holds at most 32767 messages",
        ))?;
    }
    Ok(count)
}

/// What is wrong with the message at `at`, counted from 0, of a batch.
#[cold]
fn in_batch(at: usize, why: Refusal) -> Refusal {
    Refusal::illegal(format!("message {} of the batch: {}", at + 1, why.text))
}

/// The messages of a batch body, up to one that is broken.
struct Entries<'a> {
    left: &'a [u8],
    read: usize,
}

impl<'a> Entries<'a> {
    fn new(body: &'a [u8]) -> Self {
        Entries {
            left: body,
            read: 0,
        }
    }

    /// What is wrong with the message that comes next.
    fn refusal(&self) -> Refusal {
        let nth = self.read + 1;
        Refusal::illegal(match properties_of(self.left) {
            Some(len) if len > room::MAX_PROPERTIES => format!(
                "message {nth} of the batch: properties of {len} bytes, at most {} are possible",
                room::MAX_PROPERTIES
            ),
            _ => format!("batch body is broken at its message {nth}"),
        })
    }
}

/// Bytes of the properties of a batch's message, as its sender must have meant them: the field is
/// signed, and has no room for more than 32767.
fn properties_of(b: &[u8]) -> Option<usize> {
    let body_len = usize::try_from(get_i32(b.get(..20)?, 16)).ok()?;
    let field = b.get(20..)?.get(body_len..)?.get(..2)?;
    Some(usize::from(get_i16(field, 0) as u16))
}

/// One of them: i32 size, magic, crc, flag, i32+body, i16+properties.
#[derive(Clone, Copy)]
struct BatchEntry<'a> {
    flag: i32,
    body: &'a [u8],
    props: &'a [u8],
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<BatchEntry<'a>, Refusal>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left.is_empty() {
            return None;
        }
        let Some((entry, behind)) = BatchEntry::read(self.left) else {
            let refusal = self.refusal();
            self.left = b"";
            return Some(Err(refusal));
        };
        self.left = behind;
        self.read += 1;
        Some(Ok(entry))
    }
}

impl<'a> BatchEntry<'a> {
    fn read(b: &'a [u8]) -> Option<(Self, &'a [u8])> {
        if b.len() < 22 {
            return None;
        }
        let total = usize::try_from(get_i32(b, 0)).ok()?;
        let body_len = usize::try_from(get_i32(b, 16)).ok()?;
        if total < 22 || total > b.len() || body_len > total - 22 {
            return None;
        }
        let props_at = 20 + body_len;
        let props_len = usize::try_from(get_i16(b, props_at)).ok()?;
        if props_at + 2 + props_len != total {
            return None;
        }
        let entry = BatchEntry {
            flag: get_i32(b, 12),
            body: &b[20..props_at],
            props: &b[props_at + 2..total],
        };
        Some((entry, &b[total..]))
    }
}
