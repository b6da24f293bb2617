//! The ext fields of a send request, under their long names (code 10) or letters (310, 320).

use super::header::{Header, parse_i64};
use super::json::Raw;

pub const SEND_MESSAGE: i32 = 10;
pub const SEND_MESSAGE_V2: i32 = 310;
pub const SEND_BATCH_MESSAGE: i32 = 320;

/// Letters of the V2 header with their long names. [SendMessageRequestHeaderV2]
const NAMES: [&[u8]; 14] = [
    b"producerGroup",
    b"topic",
    b"defaultTopic",
    b"defaultTopicQueueNums",
    b"queueId",
    b"sysFlag",
    b"bornTimestamp",
    b"flag",
    b"properties",
    b"reconsumeTimes",
    b"unitMode",
    b"maxReconsumeTimes",
    b"batch",
    b"bname",
];

/// The fields that the send path needs, as numbers where they are numbers.
#[derive(Debug, Default)]
pub struct SendFields {
    pub topic: Raw,
    pub queue_id: i32,
    pub sys_flag: i32,
    pub born_timestamp: i64,
    pub flag: i32,
    pub properties: Option<Raw>,
    pub reconsume_times: i32,
    pub batch: bool,
}

impl SendFields {
    /// The error text names the field, as it goes back to the client.
    pub fn read(h: &Header, frame: &[u8]) -> Result<Self, String> {
        let mut found: [Option<Raw>; NAMES.len()] = [None; NAMES.len()];
        let letters = h.code != SEND_MESSAGE;
        for (key, value) in &h.ext {
            let name = key.bytes(frame);
            let index = match name {
                [letter @ b'a'..=b'n'] if letters => Some((letter - b'a') as usize),
                _ if letters => None,
                long => NAMES.iter().position(|n| *n == long),
            };
            if let Some(index) = index {
                found[index] = Some(*value);
            }
        }
        for (index, value) in found[..8].iter().enumerate() {
            if value.is_none() {
                return Err(format!("the custom field <{}> is null", text(NAMES[index])));
            }
        }
        let int = |index: usize| -> Result<i64, String> {
            match found[index] {
                None => Ok(0),
                Some(raw) => parse_i64(raw.bytes(frame)).ok_or_else(|| {
                    format!("the custom field <{}> is no number", text(NAMES[index]))
                }),
            }
        };
        let int32 = |index: usize| -> Result<i32, String> {
            i32::try_from(int(index)?)
                .map_err(|_| format!("the custom field <{}> is no int32", text(NAMES[index])))
        };
        int32(3)?;
        Ok(SendFields {
            topic: found[1].unwrap_or_default(),
            queue_id: int32(4)?,
            sys_flag: int32(5)?,
            born_timestamp: int(6)?,
            flag: int32(7)?,
            properties: found[8],
            reconsume_times: int32(9)?,
            batch: found[12].is_some_and(|r| r.bytes(frame).eq_ignore_ascii_case(b"true")),
        })
    }
}

fn text(name: &[u8]) -> &str {
    std::str::from_utf8(name).unwrap_or("?")
}

/// What the send path must know of a message's property string, found in one pass.
#[derive(Debug, Default)]
pub struct Known<'a> {
    pub tags: Option<&'a [u8]>,
    pub unique_key: Option<&'a [u8]>,
    pub no_wait: bool,
    /// A message with a delay: not for the plain path.
    pub delayed: bool,
    /// TRAN_MSG: a half message.
    pub half: bool,
    /// Holds properties that only the broker gives a half message.
    pub half_only: bool,
    pub inner_batch: bool,
    /// Holds properties that the broker sets itself or drops.
    pub rewrite: bool,
}

impl<'a> Known<'a> {
    pub fn read(props: &'a [u8]) -> Self {
        let mut known = Known::default();
        for (name, value) in crate::format::properties::pairs(props) {
            match name {
                b"TAGS" => known.tags = Some(value),
                b"UNIQ_KEY" => known.unique_key = Some(value),
                b"WAIT" => known.no_wait = value.eq_ignore_ascii_case(b"false"),
                b"TRAN_MSG" => known.half |= value.eq_ignore_ascii_case(b"true"),
                b"DELAY" => known.delayed |= parse_i64(value) != Some(0),
                b"TIMER_DELAY_SEC" | b"TIMER_DELAY_MS" | b"TIMER_DELIVER_MS"
                | b"TIMER_DEL_UNIQKEY" => known.delayed = true,
                b"INNER_NUM" => known.inner_batch = true,
                name if crate::txn::is_half_only(name) => known.half_only = true,
                b"MSG_REGION" | b"TRACE_ON" | b"CLUSTER" | b"POP_CK" => known.rewrite = true,
                _ => {}
            }
        }
        known
    }
}
