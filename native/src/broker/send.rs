//! One send request: its checks, and what became of it.
//!
//! The checks are in RocketMQ's order. Everything that is plain is stored in `forms`; an unknown
//! topic, a retry topic, a delayed message and a half message that is not to be stored here need a
//! decision of the broker in Python. [SendMessageProcessor]

use super::facts::Facts;
use super::forms::Form;
use super::{Broker, Refusal, codes};
use crate::format::host::Host;
use crate::format::names;
use crate::format::record::sys_flag;
use crate::store::{Topic, TopicSettings};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a sender asks for, from whatever protocol it came.
#[derive(Clone, Copy)]
pub struct SendRequest<'a> {
    pub topic: &'a [u8],
    /// Negative: the broker chooses.
    pub queue_id: i32,
    pub sys_flag: i32,
    /// Milliseconds since 1970, by the sender's clock.
    pub born_timestamp: i64,
    pub born_host: Host,
    pub flag: i32,
    pub reconsume_times: i32,
    /// The property string as the sender wrote it.
    pub properties: &'a [u8],
    pub body: &'a [u8],
    /// The body holds several messages. [MessageDecoder.encodeMessages]
    pub batch: bool,
    /// What was decided of this request when it came before.
    pub decision: Option<Decision<'a>>,
}

/// What the broker decided of a request that needed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    /// Its topic was made: it is stored as it is, or refused.
    AsRequested,
    /// It goes back to a consumer group: to its retry topic, or, `dead`, to its dead-letter topic.
    SentBack { topic: &'a [u8], dead: bool },
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent<'a> {
    Stored(Stored<'a>),
    /// Nothing is stored. The caller decides, and sends it again with what was decided.
    NeedsDecision,
    /// Nothing is stored.
    Refused(Refusal),
}

/// Where a request's messages are.
#[derive(Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    /// Physical offset that must be confirmed before the sender may know; 0: it does not wait.
    pub end: u64,
    pub queue_id: u32,
    /// Queue offset of the first message.
    pub queue_offset: i64,
    /// Offset message ids of all records, joined by commas: hex digits.
    pub message_ids: &'a [u8],
    /// UNIQ_KEY, the sender's or the one that was made; empty for a batch without one.
    pub unique_key: &'a [u8],
    /// The batch was stored as one record.
    pub inner_batch: bool,
}

/// Memory that one request after the other uses.
#[derive(Default)]
pub struct Scratch {
    pub(super) message_ids: Vec<u8>,
    pub(super) unique_key: Vec<u8>,
    /// Properties that this one message gets.
    pub(super) added: Vec<u8>,
    /// Tag codes of a batch's messages.
    pub(super) codes: Vec<i64>,
}

/// A request that passed its checks.
pub(super) struct Plan<'a> {
    pub topic: Arc<Topic>,
    pub queue_id: u32,
    pub sys_flag: i32,
    pub facts: Facts<'a>,
    pub form: Form<'a>,
}

impl Broker {
    /// Checks a request; None if it needs a decision. `last` remembers the topic, as neighbours
    /// mostly share it.
    pub(super) fn plan<'a>(
        &'a self,
        rq: &SendRequest<'a>,
        last: &mut Option<Arc<Topic>>,
    ) -> Result<Option<Plan<'a>>, Refusal> {
        check_name(rq)?;
        let (name, sent_back) = match rq.decision {
            Some(Decision::SentBack { topic, .. }) => (topic, true),
            _ => (rq.topic, false),
        };
        let topic = match last.as_ref().filter(|t| t.name() == name) {
            Some(topic) => topic.clone(),
            None => match self.store.topics().get(name) {
                Some(topic) => last.insert(topic).clone(),
                None => return undecided(rq),
            },
        };
        let settings = topic.settings().filter(|s| s.sendable || sent_back);
        let Some(settings) = settings else {
            return undecided(rq);
        };
        let queue_id = self.queue_of(rq, &settings)?;
        let facts = Facts::read(rq.properties);
        let (form, sys_flag) = if sent_back {
            // A committed transaction that comes back is a plain message.
            (Form::Plain, rq.sys_flag & !sys_flag::TRANSACTION_MASK)
        } else {
            let bits = rq.sys_flag & sys_flag::TRANSACTION_MASK != 0;
            let transactions = self.transactions().filter(|_| facts.half && !rq.batch);
            if facts.delayed || (bits || facts.half) && transactions.is_none() {
                return undecided(rq);
            }
            let kept_whole = topic.is_batch() && facts.unique_key.is_some();
            let form = match transactions {
                Some(transactions) => Form::Half(transactions),
                None if rq.batch && kept_whole => Form::InnerBatch,
                None if rq.batch => Form::Batch,
                None => Form::Plain,
            };
            (form, rq.sys_flag)
        };
        if facts.inner_batch || sys_flag & sys_flag::INNER_BATCH != 0 {
            let text = "INNER_NUM or the inner-batch flag needs a BatchCQ topic";
            return Err(Refusal::illegal(text));
        }
        if rq.body.is_empty() {
            return Err(Refusal::illegal("the message has no body"));
        }
        let multi_tags = if settings.multi_tag {
            sys_flag::MULTI_TAGS
        } else {
            0
        };
        Ok(Some(Plan {
            topic,
            queue_id,
            sys_flag: sys_flag | multi_tags,
            facts,
            form,
        }))
    }

    fn queue_of(&self, rq: &SendRequest<'_>, settings: &TopicSettings) -> Result<u32, Refusal> {
        let queues = settings.write_queues.max(settings.read_queues);
        let queue_id = match (rq.decision, u32::try_from(rq.queue_id)) {
            (Some(Decision::SentBack { dead: true, .. }), _) => 0,
            (_, Ok(id)) => id,
            (Some(Decision::SentBack { .. }), Err(_)) => 0,
            (_, Err(_)) => {
                self.spread.fetch_add(1, Ordering::Relaxed) % settings.write_queues.max(1)
            }
        };
        if queue_id >= queues {
            let text = format!("request queueId[{queue_id}] is illegal, topic has {queues} queues");
            return Err(Refusal::new(codes::INVALID_PARAMETER, text));
        }
        Ok(queue_id)
    }
}

/// A request that needs a decision; refused if there was one already.
fn undecided<'a>(rq: &SendRequest<'_>) -> Result<Option<Plan<'a>>, Refusal> {
    if rq.decision.is_none() {
        return Ok(None);
    }
    let text = format!("topic[{}] not exist", String::from_utf8_lossy(rq.topic));
    Err(Refusal::new(codes::TOPIC_NOT_EXIST, text))
}

fn check_name(rq: &SendRequest<'_>) -> Result<(), Refusal> {
    let name = rq.topic;
    if !names::is_topic(name) {
        let shown = String::from_utf8_lossy(&name[..name.len().min(64)]);
        let text = format!(
            "the specified topic {shown:?} is illegal: 1 to 127 of the characters %|a-zA-Z0-9_-"
        );
        return Err(Refusal::new(codes::INVALID_PARAMETER, text));
    }
    if rq.batch && (name.len() > names::MAX_TOPIC || name.starts_with(names::RETRY_PREFIX)) {
        let text = "a batch goes to no %RETRY% topic and to none longer than 127 bytes";
        return Err(Refusal::illegal(text));
    }
    Ok(())
}
