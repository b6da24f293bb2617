//! A send request, and what became of it: what goes in and comes out, without frames.

use super::codes;
use pyrmq_format::host::Host;
use pyrmq_store::StoreError;
use std::borrow::Cow;

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
    pub log_end: u64,
    /// Messages, and bytes of their records.
    pub messages: u32,
    pub bytes: u64,
    pub queue_id: u32,
    /// Queue offset of the first message.
    pub queue_offset: i64,
    /// Offset message ids of all records, joined by commas: hex digits.
    pub message_ids: &'a [u8],
    /// UNIQ_KEY, the sender's or the one that was made; empty for a batch without one.
    pub unique_key: &'a [u8],
    /// The batch was stored as one record.
    pub inner_batch: bool,
    /// With which its sender can recall it; empty if it is no timer message.
    pub recall_handle: &'a [u8],
}

/// Memory that one request after the other uses.
#[derive(Default)]
pub struct Scratch {
    pub(super) message_ids: Vec<u8>,
    pub(super) unique_key: Vec<u8>,
    pub(super) recall_handle: Vec<u8>,
    /// Properties that this one message gets.
    pub(super) added: Vec<u8>,
    /// Tag codes of a batch's messages.
    pub(super) codes: Vec<i64>,
}

/// Why a request is refused: a response code and a text for the client.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: i32,
    pub text: Cow<'static, str>,
}

impl Refusal {
    pub fn new(code: i32, text: impl Into<Cow<'static, str>>) -> Self {
        Refusal {
            code,
            text: text.into(),
        }
    }

    pub(super) fn illegal(text: impl Into<Cow<'static, str>>) -> Self {
        Refusal::new(codes::MESSAGE_ILLEGAL, text)
    }
}

impl From<StoreError> for Refusal {
    fn from(e: StoreError) -> Self {
        let code = match e {
            StoreError::Illegal(_) | StoreError::PropertiesTooLong(_) => codes::MESSAGE_ILLEGAL,
            StoreError::Busy(_) => codes::SYSTEM_BUSY,
            StoreError::InSyncReplicasNotEnough { .. } => codes::SYSTEM_ERROR,
            _ => codes::SERVICE_NOT_AVAILABLE,
        };
        Refusal::new(code, e.to_string())
    }
}
