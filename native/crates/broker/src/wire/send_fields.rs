//! Send requests as their frames say them: the ext fields under their long names (code 10) or letters
//! (310, 320), and the typed request that they make.

use super::frame::Parts;
use super::header::Header;
use super::used::is_same;
use crate::{Decision, Refusal, SendRequest, codes};
use pyrmq_format::host::Host;
use pyrmq_format::json::Raw;
use pyrmq_format::parse_i64;

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

/// What Apache's broker cannot do without: topic, queueId, sysFlag, bornTimestamp and flag. Its decoder
/// refuses no missing field, and some clients leave out those that matter to a new topic only.
/// [FastCodesHeader.getAndCheckNotNull, RemotingCommand.decodeCommandCustomHeaderDirectly]
const REQUIRED: [usize; 5] = [1, 4, 5, 6, 7];

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
        let mut unescaped = Vec::new();
        for (key, value) in &h.ext {
            // However a name is written: the broker, which checks rights, reads it so too.
            let name = if key.escaped {
                unescaped.clear();
                key.unescape(frame, &mut unescaped)?;
                &unescaped[..]
            } else {
                key.bytes(frame)
            };
            let index = match name {
                [letter @ b'a'..=b'n'] if letters => Some((letter - b'a') as usize),
                _ if letters => None,
                long => index_of(long),
            };
            if let Some(index) = index {
                found[index] = Some(*value);
            }
        }
        for index in REQUIRED {
            if found[index].is_none() {
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

/// Place in NAMES of a long name. A table by length, as a search compares with seven names on average.
fn index_of(name: &[u8]) -> Option<usize> {
    let index = match name.len() {
        4 => 7,
        5 if name[0] == b't' => 1,
        5 if name[1] == b'a' => 12,
        5 => 13,
        7 if name[0] == b'q' => 4,
        7 => 5,
        8 => 10,
        10 => 8,
        12 => 2,
        13 if name[0] == b'p' => 0,
        13 => 6,
        14 => 9,
        17 => 11,
        21 => 3,
        _ => return None,
    };
    (NAMES[index] == name).then_some(index)
}

/// Memory for texts that have to be unescaped, used by one request after the other.
#[derive(Default)]
pub struct Texts {
    topic: Vec<u8>,
    properties: Vec<u8>,
}

/// The request that a frame holds; `h` is its header.
pub fn send_request<'a>(
    h: &Header,
    frame: &'a [u8],
    parts: &Parts,
    born_host: Host,
    decision: Option<Decision<'a>>,
    texts: &'a mut Texts,
) -> Result<SendRequest<'a>, Refusal> {
    let refuse = |e: String| Refusal::new(codes::SYSTEM_ERROR, e);
    let f = SendFields::read(h, frame).map_err(refuse)?;
    let topic =
        plain(f.topic, frame, &mut texts.topic).map_err(|e| refuse(format!("topic: {e}")))?;
    let properties = match f.properties {
        Some(raw) => plain(raw, frame, &mut texts.properties)
            .map_err(|e| refuse(format!("properties: {e}")))?,
        None => b"",
    };
    Ok(SendRequest {
        topic,
        queue_id: f.queue_id,
        sys_flag: f.sys_flag,
        born_timestamp: f.born_timestamp,
        born_host,
        flag: f.flag,
        reconsume_times: f.reconsume_times,
        properties,
        body: &frame[parts.header_end..parts.total],
        batch: f.batch || h.code == SEND_BATCH_MESSAGE,
        decision,
    })
}

/// The producer group of a send, for counting only; empty if its name is escaped, as no group's is. `at`:
/// where among the fields that of the send before was.
#[inline]
pub fn producer_group<'f>(h: &Header, frame: &'f [u8], at: &mut usize) -> &'f [u8] {
    let is_it = |key: &Raw| match h.code {
        SEND_MESSAGE => is_same(key.bytes(frame), NAMES[0]),
        _ => matches!(key.bytes(frame), [b'a']),
    };
    match h.ext.get(*at) {
        Some((key, value)) if is_it(key) && !value.escaped => value.bytes(frame),
        _ => {
            *at = h.ext.iter().position(|(key, _)| is_it(key)).unwrap_or(0);
            match h.ext.get(*at) {
                Some((key, value)) if is_it(key) && !value.escaped => value.bytes(frame),
                _ => b"",
            }
        }
    }
}

/// A text where it lies, or unescaped into `into`.
fn plain<'a>(raw: Raw, frame: &'a [u8], into: &'a mut Vec<u8>) -> Result<&'a [u8], String> {
    if !raw.escaped {
        return Ok(raw.bytes(frame));
    }
    into.clear();
    raw.unescape(frame, into)?;
    Ok(into)
}

fn text(name: &[u8]) -> &str {
    std::str::from_utf8(name).unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::super::frame::Codec;
    use super::*;

    #[test]
    fn a_field_that_is_there_twice_is_the_last_one_however_its_name_is_written() {
        for (names, code) in [
            (["b", "\\u0062"], SEND_MESSAGE_V2),
            (["\\u0062", "b"], SEND_MESSAGE_V2),
            (["topic", "t\\u006fpic"], SEND_MESSAGE),
        ] {
            let required = match code {
                SEND_MESSAGE => r#""queueId":"0","sysFlag":"0","bornTimestamp":"0","flag":"0""#,
                _ => r#""e":"0","f":"0","g":"0","h":"0""#,
            };
            let [first, second] = names;
            let text = format!(
                r#"01234567{{"code":{code},"extFields":{{"{first}":"one","{second}":"two",{required}}}}}"#
            );
            let mut header = Header::default();
            header
                .read(Codec::Json, text.as_bytes(), text.len())
                .unwrap();
            let fields = SendFields::read(&header, text.as_bytes()).unwrap();
            assert_eq!(fields.topic.bytes(text.as_bytes()), b"two", "{names:?}");
        }
    }

    #[test]
    fn the_producer_group_is_found_wherever_it_stands() {
        let mut at = 0;
        for (code, fields, group) in [
            (SEND_MESSAGE_V2, r#""a":"g1","b":"T""#, "g1"),
            (SEND_MESSAGE_V2, r#""b":"T","a":"g2""#, "g2"),
            (SEND_BATCH_MESSAGE, r#""b":"T","a":"g3""#, "g3"),
            (SEND_MESSAGE, r#""topic":"T","producerGroup":"g4""#, "g4"),
            (SEND_MESSAGE, r#""producerGroup":"g5""#, "g5"),
            (SEND_MESSAGE, r#""a":"g6","producerGrouq":"g7""#, ""),
            (SEND_MESSAGE_V2, r#""producerGroup":"g8","b":"a""#, ""),
            (SEND_MESSAGE_V2, r#""a":"g\u0039""#, ""),
        ] {
            let text = format!(r#"01234567{{"code":{code},"extFields":{{{fields}}}}}"#);
            let mut header = Header::default();
            header
                .read(Codec::Json, text.as_bytes(), text.len())
                .unwrap();
            let found = producer_group(&header, text.as_bytes(), &mut at);
            assert_eq!(found, group.as_bytes(), "{text}");
        }
        let nothing = Header::default();
        assert_eq!(producer_group(&nothing, b"", &mut at), b"");
    }

    #[test]
    fn every_long_name_has_its_place_and_nothing_else_has_one() {
        for (index, name) in NAMES.iter().enumerate() {
            assert_eq!(index_of(name), Some(index));
            let mut other = name.to_vec();
            other[name.len() / 2] ^= 1;
            assert_eq!(index_of(&other), None);
        }
        assert_eq!(index_of(b""), None);
    }
}
