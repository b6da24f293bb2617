//! A send with TRAN_MSG: stored in the half topic, to be settled later.
//! [TransactionalMessageBridge.parseHalfMessageInner]

use super::reply::code;
use super::send::{Done, Refusal, SendContext, own_properties};
use super::send_fields::Known;
use crate::format::record::sys_flag;
use crate::format::{names, properties, push_int};
use crate::store::{Content, Message, PutGuard};
use crate::txn::{Fields, MAX_GROUP, Transactions};

/// Bytes of the property that a copy of a half gets: `TRANSACTION_CHECK_TIMES`, five digits.
const CHECK_COUNT_LEN: usize = 30;

impl SendContext {
    /// `message` is what would be stored if it were a plain one.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn put_half(
        &self,
        transactions: &Transactions,
        guard: &mut PutGuard<'_>,
        mut message: Message<'_>,
        flag: i32,
        body: &[u8],
        props: &[u8],
        known: &Known<'_>,
        ids: &mut Vec<u8>,
    ) -> Result<Done, Refusal> {
        let (own, close) = own_properties(props, known);
        let mut fields = Fields::read(&own);
        fields.topic = message.topic.name();
        if fields.group.is_empty()
            || fields.group.len() > MAX_GROUP
            || !names::is_topic_text(fields.group)
        {
            let text = "a half message needs the property PGROUP: the name of its producer group";
            return Err(Refusal(code::MESSAGE_ILLEGAL, text.into()));
        }
        let host = self.store.store_host();
        let made = self.made_key(known, &message);
        let mut added = Vec::with_capacity(160);
        if let Some(key) = &made {
            properties::push(&mut added, b"UNIQ_KEY", key);
        }
        let key = made.as_deref().or(known.unique_key).unwrap_or(b"");
        fields.unique_key = key;
        properties::push(&mut added, b"__transactionId__", key);
        properties::push(&mut added, b"REAL_TOPIC", fields.topic);
        let mut id = Vec::with_capacity(5);
        push_int(&mut id, message.queue_id as i64);
        properties::push(&mut added, b"REAL_QID", &id);
        let room = properties::MAX_LEN - CHECK_COUNT_LEN;
        let len = own.len() + close.len() + added.len() + self.suffix.len();
        if len > room {
            let text = format!("properties of {len} bytes: a half message has room for {room}");
            return Err(Refusal(code::MESSAGE_ILLEGAL, text.into()));
        }
        let content = Content {
            flag,
            body,
            props: [&own, close, &added, &self.suffix],
            tags_code: fields.tags_code(),
            count: 1,
        };
        message.sys_flag &= !sys_flag::TRANSACTION_MASK;
        message.queue_id = 0;
        let done = guard.append(
            &Message {
                topic: transactions.half_topic(),
                ..message
            },
            &content,
        )?;
        transactions.written(&done, message.born_timestamp, &fields);
        host.push_message_id(done.phys, ids);
        Ok(Done {
            end: done.end(),
            queue_offset: done.queue_offset,
            unique_key: made,
        })
    }
}
