//! SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE: from a frame to records and an answer.
//!
//! Plain sends to known topics are done here. What needs a decision of the broker (an unknown
//! topic, a retry topic, a half or delayed message) is left to it. [SendMessageProcessor]

use super::header::Header;
use super::json::Raw;
use super::reply::{self, SendAnswer, SendFacts, To, code};
use super::send_fields::{Known, SEND_BATCH_MESSAGE, SendFields};
use super::unique_key;
use crate::format::host::Host;
use crate::format::record::sys_flag;
use crate::format::{get_i16, get_i32, java, names, properties};
use crate::store::{Content, Message, PutGuard, Store, StoreError, Topic};
use crate::txn::{Transactions, is_half_only};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What the broker tells the send path once.
pub struct SendContext {
    pub store: Arc<Store>,
    answer: SendAnswer,
    /// Properties that the broker adds to every single message.
    pub(super) suffix: Vec<u8>,
    /// None: half messages are the broker's to refuse.
    pub transactions: Option<Arc<Transactions>>,
    spread: AtomicU32,
}

impl SendContext {
    pub fn new(
        store: Arc<Store>,
        transactions: Option<Arc<Transactions>>,
        region: &str,
        cluster: &str,
        trace_on: bool,
    ) -> Self {
        let mut suffix = Vec::new();
        properties::push(&mut suffix, b"MSG_REGION", region.as_bytes());
        properties::push(
            &mut suffix,
            b"TRACE_ON",
            if trace_on { b"true" } else { b"false" },
        );
        properties::push(&mut suffix, b"CLUSTER", cluster.as_bytes());
        SendContext {
            store,
            answer: SendAnswer::new(region, trace_on),
            suffix,
            transactions,
            spread: AtomicU32::new(0),
        }
    }
}

/// Memory that one send after the other uses.
#[derive(Default)]
pub struct Scratch {
    props: Vec<u8>,
    ids: Vec<u8>,
    codes: Vec<i64>,
}

/// What became of a send request.
pub enum Sent {
    /// Stored: the answer is in `out`, to be held until the log is durable up to `end` (0: not).
    Stored { end: u64 },
    /// Refused; the answer is in `out`.
    Refused,
    /// The broker has to look at it.
    Ask,
}

/// One request on its way.
pub struct Request<'a> {
    pub header: &'a Header,
    pub frame: &'a [u8],
    pub body: &'a [u8],
    pub to: To,
    pub born_host: Host,
    /// The broker has been asked already: what is still unknown is refused.
    pub asked: bool,
}

pub(super) struct Refusal(pub i32, pub Cow<'static, str>);

impl From<StoreError> for Refusal {
    fn from(e: StoreError) -> Self {
        let code = match e {
            StoreError::Illegal(_) | StoreError::PropertiesTooLong(_) => code::MESSAGE_ILLEGAL,
            _ => code::SERVICE_NOT_AVAILABLE,
        };
        Refusal(code, e.to_string().into())
    }
}

impl SendContext {
    /// Handles one send. `guard` is taken on the first one and kept for those that follow; `last`
    /// remembers the topic, as neighbours mostly share it.
    pub fn send<'s>(
        &'s self,
        rq: &Request<'_>,
        guard: &mut Option<PutGuard<'s>>,
        last: &mut Option<Arc<Topic>>,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Sent {
        match self.try_send(rq, guard, last, scratch, out) {
            Ok(sent) => sent,
            Err(Refusal(code, remark)) => {
                let ext = self.answer.region_fields();
                reply::push(out, rq.to, code, Some(&remark), &ext);
                Sent::Refused
            }
        }
    }

    fn try_send<'s>(
        &'s self,
        rq: &Request<'_>,
        guard: &mut Option<PutGuard<'s>>,
        last: &mut Option<Arc<Topic>>,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<Sent, Refusal> {
        let f = SendFields::read(rq.header, rq.frame)
            .map_err(|e| Refusal(code::SYSTEM_ERROR, e.into()))?;
        let is_batch = f.batch || rq.header.code == SEND_BATCH_MESSAGE;
        let name = topic_name(rq, &f.topic, is_batch)?;
        let topic = match last.as_ref().filter(|t| t.name() == &*name) {
            Some(t) => t.clone(),
            None => match self.store.topics().get(&name) {
                Some(t) => last.insert(t).clone(),
                None => return self.ask(rq, &name),
            },
        };
        let Some(settings) = topic.settings().filter(|s| s.sendable) else {
            return self.ask(rq, &name);
        };
        let queues = settings.write_queues.max(settings.read_queues);
        let queue_id = match u32::try_from(f.queue_id) {
            Ok(id) => id,
            Err(_) => self.spread.fetch_add(1, Ordering::Relaxed) % settings.write_queues.max(1),
        };
        if queue_id >= queues {
            let text = format!("request queueId[{queue_id}] is illegal, topic has {queues} queues");
            return Err(Refusal(code::INVALID_PARAMETER, text.into()));
        }
        scratch.props.clear();
        if let Some(raw) = f.properties {
            raw.unescape(rq.frame, &mut scratch.props)
                .map_err(|e| Refusal(code::SYSTEM_ERROR, format!("properties: {e}").into()))?;
        }
        let known = Known::read(&scratch.props);
        let bits = f.sys_flag & sys_flag::TRANSACTION_MASK != 0;
        let transactions = self
            .transactions
            .as_deref()
            .filter(|_| known.half && !is_batch);
        if known.delayed || (bits || known.half) && transactions.is_none() {
            return self.ask(rq, &name);
        }
        if known.inner_batch || f.sys_flag & sys_flag::INNER_BATCH != 0 {
            let text = "INNER_NUM or the inner-batch flag needs a BatchCQ topic";
            return Err(Refusal(code::MESSAGE_ILLEGAL, text.into()));
        }
        let multi = if settings.multi_tag {
            sys_flag::MULTI_TAGS
        } else {
            0
        };
        let message = Message {
            topic: &topic,
            queue_id,
            sys_flag: f.sys_flag | multi,
            born_timestamp: f.born_timestamp,
            born_host: rq.born_host,
            reconsume_times: f.reconsume_times,
            prepared_transaction_offset: 0,
        };
        if rq.body.is_empty() {
            return Err(Refusal(
                code::MESSAGE_ILLEGAL,
                "the message has no body".into(),
            ));
        }
        let guard = match guard {
            Some(g) => g,
            None => guard.insert(self.store.put()?),
        };
        scratch.ids.clear();
        let inner = is_batch && topic.is_batch() && known.unique_key.is_some();
        let done = if let Some(transactions) = transactions {
            self.put_half(
                transactions,
                guard,
                message,
                f.flag,
                rq.body,
                &scratch.props,
                &known,
                &mut scratch.ids,
            )?
        } else if inner {
            self.put_inner_batch(
                guard,
                message,
                f.flag,
                rq.body,
                &scratch.props,
                &known,
                &mut scratch.ids,
            )?
        } else if is_batch {
            self.put_batch(
                guard,
                &message,
                rq.body,
                &mut scratch.ids,
                &mut scratch.codes,
            )?
        } else {
            self.put_one(
                guard,
                &message,
                f.flag,
                rq.body,
                &scratch.props,
                &known,
                &mut scratch.ids,
            )?
        };
        if !rq.header.is_oneway() {
            let unique: &[u8] = match (&done.unique_key, known.unique_key) {
                (Some(made), _) => made,
                (None, Some(sent)) => sent,
                (None, None) => b"",
            };
            let facts = SendFacts {
                ids: &scratch.ids,
                queue_id,
                queue_offset: done.queue_offset,
                unique_key: unique,
                inner_batch: inner,
            };
            self.answer.push(out, rq.to, &facts);
        }
        let end = if known.no_wait { 0 } else { done.end };
        Ok(Sent::Stored { end })
    }

    fn ask(&self, rq: &Request<'_>, name: &[u8]) -> Result<Sent, Refusal> {
        if !rq.asked {
            return Ok(Sent::Ask);
        }
        let text = format!("topic[{}] not exist", String::from_utf8_lossy(name));
        Err(Refusal(code::TOPIC_NOT_EXIST, text.into()))
    }

    /// The unique key of a message whose sender set none.
    pub(super) fn made_key(&self, known: &Known<'_>, message: &Message<'_>) -> Option<Vec<u8>> {
        let make = || unique_key::new_key(self.store.store_host(), message.born_timestamp);
        known.unique_key.is_none().then(make)
    }

    #[allow(clippy::too_many_arguments)]
    fn put_one(
        &self,
        guard: &mut PutGuard<'_>,
        message: &Message<'_>,
        flag: i32,
        body: &[u8],
        props: &[u8],
        known: &Known<'_>,
        ids: &mut Vec<u8>,
    ) -> Result<Done, Refusal> {
        let (own, close) = own_properties(props, known);
        let made = self.made_key(known, message);
        let mut key_prop = Vec::new();
        if let Some(key) = &made {
            properties::push(&mut key_prop, b"UNIQ_KEY", key);
        }
        let props: [&[u8]; 4] = [&own, close, &key_prop, &self.suffix];
        let tags_code = known.tags.map_or(0, |t| java::hash(t) as i64);
        let content = Content {
            flag,
            body,
            props,
            tags_code,
            count: 1,
        };
        let done = guard.append(message, &content)?;
        self.store.store_host().push_message_id(done.phys, ids);
        Ok(Done {
            end: done.end(),
            queue_offset: done.queue_offset,
            unique_key: made,
        })
    }

    /// Stores a batch as one record, which consumers unwrap: the way of BatchCQ topics.
    #[allow(clippy::too_many_arguments)]
    fn put_inner_batch(
        &self,
        guard: &mut PutGuard<'_>,
        mut message: Message<'_>,
        flag: i32,
        body: &[u8],
        props: &[u8],
        known: &Known<'_>,
        ids: &mut Vec<u8>,
    ) -> Result<Done, Refusal> {
        let count = count_entries(body)?;
        let first = guard.next_offset(&message)?;
        let (own, close) = own_properties(props, known);
        let mut inner = Vec::with_capacity(48);
        properties::push(&mut inner, b"INNER_NUM", count.to_string().as_bytes());
        properties::push(&mut inner, b"INNER_BASE", first.to_string().as_bytes());
        message.sys_flag |= sys_flag::NEED_UNWRAP | sys_flag::INNER_BATCH;
        let content = Content {
            flag,
            body,
            props: [&own, close, &inner, &self.suffix],
            tags_code: known.tags.map_or(0, |t| java::hash(t) as i64),
            count,
        };
        let done = guard.append(&message, &content)?;
        self.store.store_host().push_message_id(done.phys, ids);
        Ok(Done {
            end: done.end(),
            queue_offset: done.queue_offset,
            unique_key: None,
        })
    }

    /// Splits a traditional batch into records. [MessageDecoder.decodeMessages]
    fn put_batch(
        &self,
        guard: &mut PutGuard<'_>,
        message: &Message<'_>,
        body: &[u8],
        ids: &mut Vec<u8>,
        codes: &mut Vec<i64>,
    ) -> Result<Done, Refusal> {
        let limit = self.store.config().max_message_size;
        if body.len() > limit {
            let text = format!("batch body size {} over maxMessageSize {limit}", body.len());
            return Err(Refusal(code::MESSAGE_ILLEGAL, text.into()));
        }
        let illegal = |text: &'static str| Refusal(code::MESSAGE_ILLEGAL, text.into());
        // The first pass checks everything, so that the second stores all of it.
        codes.clear();
        let mut total = 0;
        let mut rest = body;
        while !rest.is_empty() {
            let (entry, behind) = BatchEntry::read(rest).ok_or(illegal("batch body is broken"))?;
            let known = Known::read(entry.props);
            if known.delayed || known.half || known.inner_batch {
                return Err(illegal(NOT_IN_A_BATCH));
            }
            codes.push(known.tags.map_or(0, |t| java::hash(t) as i64));
            total += guard.measure(message, entry.body.len(), entry.props.len())?;
            rest = behind;
        }
        if codes.is_empty() {
            return Err(illegal("batch body is empty"));
        }
        let mut rest = body;
        let contents = codes.iter().map_while(|&tags_code| {
            let (entry, behind) = BatchEntry::read(rest)?;
            rest = behind;
            Some(Content {
                flag: entry.flag,
                body: entry.body,
                props: [entry.props, b"", b"", b""],
                tags_code,
                count: 1,
            })
        });
        let mut first = None;
        let mut end = 0;
        let host = self.store.store_host();
        guard.append_batch(message, codes.len(), total, contents, |done| {
            if first.is_some() {
                ids.push(b',');
            }
            host.push_message_id(done.phys, ids);
            first.get_or_insert(done.queue_offset);
            end = done.end();
        })?;
        Ok(Done {
            end,
            queue_offset: first.unwrap_or(0),
            unique_key: None,
        })
    }
}

/// The client's properties as they are stored, and what ends them where they lack an end.
pub(super) fn own_properties<'p>(
    props: &'p [u8],
    known: &Known<'_>,
) -> (Cow<'p, [u8]>, &'static [u8]) {
    let own = if known.rewrite || known.half && known.half_only {
        Cow::Owned(without_broker_props(props, known.half))
    } else {
        Cow::Borrowed(props)
    };
    let close = properties::closing(&own);
    (own, close)
}

/// How many messages a batch body holds; refused if it is none or holds what a batch may not.
fn count_entries(body: &[u8]) -> Result<i16, Refusal> {
    let illegal = |text: &'static str| Refusal(code::MESSAGE_ILLEGAL, text.into());
    let (mut rest, mut count) = (body, 0i16);
    while !rest.is_empty() {
        let (entry, behind) = BatchEntry::read(rest).ok_or(illegal("batch body is broken"))?;
        let known = Known::read(entry.props);
        if known.delayed || known.half {
            return Err(illegal(NOT_IN_A_BATCH));
        }
        count = count
            .checked_add(1)
            .ok_or(illegal("an inner batch holds at most 32767 messages"))?;
        rest = behind;
    }
    Ok(count)
}

const NOT_IN_A_BATCH: &str = "a batch holds no delayed, timer or transactional messages";

pub(super) struct Done {
    pub end: u64,
    pub queue_offset: i64,
    pub unique_key: Option<Vec<u8>>,
}

fn topic_name<'a>(rq: &Request<'a>, raw: &Raw, is_batch: bool) -> Result<Cow<'a, [u8]>, Refusal> {
    let name = if raw.escaped {
        let mut text = Vec::new();
        raw.unescape(rq.frame, &mut text)
            .map_err(|e| Refusal(code::SYSTEM_ERROR, format!("topic: {e}").into()))?;
        Cow::Owned(text)
    } else {
        Cow::Borrowed(raw.bytes(rq.frame))
    };
    if !names::is_topic(&name) {
        let shown = String::from_utf8_lossy(&name[..name.len().min(64)]).into_owned();
        let text = format!(
            "the specified topic {shown:?} is illegal: 1 to 127 of the characters %|a-zA-Z0-9_-"
        );
        return Err(Refusal(code::INVALID_PARAMETER, text.into()));
    }
    if is_batch && (name.len() > names::MAX_TOPIC || name.starts_with(names::RETRY_PREFIX)) {
        let text = "a batch goes to no %RETRY% topic and to none longer than 127 bytes";
        return Err(Refusal(code::MESSAGE_ILLEGAL, text.into()));
    }
    Ok(name)
}

/// The client's properties without those that the broker sets itself or drops.
fn without_broker_props(props: &[u8], half: bool) -> Vec<u8> {
    properties::without(props, |name| {
        matches!(name, b"MSG_REGION" | b"TRACE_ON" | b"CLUSTER" | b"POP_CK")
            || half && is_half_only(name)
    })
}

/// One message of a batch body: i32 size, magic, crc, flag, i32+body, i16+properties.
#[derive(Clone, Copy)]
struct BatchEntry<'a> {
    flag: i32,
    body: &'a [u8],
    props: &'a [u8],
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
