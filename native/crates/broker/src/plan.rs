//! The checks of a send request, and in which form it is stored.
//!
//! The checks are in RocketMQ's order. Everything that is plain is stored in `forms`; an unknown
//! topic, a retry topic and a half message that is not to be stored here need a decision of the broker in
//! Python. [SendMessageProcessor]

use super::codes;
use super::context::Broker;
use super::facts::Facts;
use super::request::{Decision, Refusal, SendRequest};
use super::timer_sends;
use crate::txn::Transactions;
use pyrmq_format::message_type::MessageType;
use pyrmq_format::record::sys_flag;
use pyrmq_format::{names, properties};
use pyrmq_store::{Topic, TopicSettings};
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[derive(Clone, Copy)]
pub(super) enum Form<'t> {
    /// One record in its topic.
    Plain,
    /// One record in the half topic, to be settled later.
    /// [TransactionalMessageBridge.parseHalfMessageInner]
    Half(&'t Transactions),
    /// A record for each message of the body. [MessageDecoder.decodeMessages]
    Batch,
    /// One record that holds the whole body, which consumers unwrap: in BatchCQ topics.
    InnerBatch,
    /// One record in the schedule topic, to be delivered later: its delay level.
    /// [HookUtils.transformDelayLevelMessage]
    Delayed(usize),
    /// One record in the timer topic, to be delivered later: its TIMER_OUT_MS.
    /// [HookUtils.transformTimerMessage]
    Timer(i64),
}

impl Form<'_> {
    pub fn is_inner_batch(self) -> bool {
        matches!(self, Form::InnerBatch)
    }
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
        let mut queue_id = self.queue_of(rq, &settings)?;
        let facts = Facts::read(rq.properties);
        if let Some(wanted) = topic.message_type() {
            check_type(wanted, &facts, rq)?;
        }
        let (form, sys_flag) = if sent_back {
            // A committed transaction that comes back is a plain message. Dead letters do not wait.
            let dead = is_dead(rq);
            let form = match dead {
                true => Form::Plain,
                false => self.single(&facts)?,
            };
            (form, rq.sys_flag & !sys_flag::TRANSACTION_MASK)
        } else {
            let bits = rq.sys_flag & sys_flag::TRANSACTION_MASK != 0;
            let transactions = self.transactions().filter(|_| facts.half && !rq.batch);
            if (bits || facts.half) && (transactions.is_none() || facts.is_delayed()) {
                return undecided(rq);
            }
            if facts.is_delayed() && rq.batch {
                return Err(Refusal::illegal("a batch cannot be delayed"));
            }
            let kept_whole = topic.is_batch() && facts.unique_key.is_some();
            let form = match transactions {
                Some(transactions) => Form::Half(transactions),
                None if rq.batch && kept_whole => Form::InnerBatch,
                None if rq.batch => Form::Batch,
                None => self.single(&facts)?,
            };
            (form, rq.sys_flag)
        };
        if let Some(priority) = facts
            .counting_priority()
            .filter(|_| !rq.batch && !is_dead(rq))
        {
            queue_id = priority.min(settings.write_queues.saturating_sub(1));
        }
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

    /// The form of a single message, by when it is to be delivered.
    fn single<'t>(&self, facts: &Facts<'_>) -> Result<Form<'t>, Refusal> {
        if let Some(delay) = facts.delay {
            return Ok(Form::Delayed(self.level(delay)?));
        }
        match facts.timer() {
            Some(asked) => {
                let sends = self.timer_sends.as_ref().filter(|sends| sends.enabled);
                let out_ms = sends.ok_or_else(timer_sends::not_enabled)?.out_ms(
                    asked,
                    facts.ends_timer,
                    self.store.now_ms(),
                )?;
                Ok(out_ms.map_or(Form::Plain, Form::Timer))
            }
            None => Ok(Form::Plain),
        }
    }

    /// The delay level that a DELAY property asks for.
    fn level(&self, delay: &[u8]) -> Result<usize, Refusal> {
        self.store
            .config()
            .delay_levels
            .level(delay)
            .ok_or_else(|| {
                let shown = String::from_utf8_lossy(&delay[..delay.len().min(32)]);
                Refusal::illegal(format!("property DELAY={shown:?} is no delay level"))
            })
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

/// Whether it becomes a dead letter.
pub(super) fn is_dead(rq: &SendRequest<'_>) -> bool {
    matches!(rq.decision, Some(Decision::SentBack { dead: true, .. }))
}

/// Refuses a message whose type is not that of its topic. What one RocketMQ takes over from another is
/// not looked at. [DefaultTopicMessageTypeValidator, SendMessageActivity]
#[cold]
fn check_type(wanted: MessageType, facts: &Facts<'_>, rq: &SendRequest<'_>) -> Result<(), Refusal> {
    let sent = facts.message_type();
    if wanted.takes(sent) || properties::find(rq.properties, b"TRANSFER_FLAG").is_some() {
        return Ok(());
    }
    Err(Refusal::illegal(format!(
        "TopicMessageType validate failed, the expected type is {}, but actual type is {}",
        wanted.name(),
        sent.name()
    )))
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
