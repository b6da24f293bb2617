//! The ext fields of a send request. Input: as `header`.
//!
//! - What is read is what a plain search for the last field of each name finds.
//! - Every required field is there, every number is one, or else the error names a field.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrmq_broker::wire::frame::Codec;
use pyrmq_broker::wire::header::Header;
use pyrmq_broker::wire::send_fields::{SEND_MESSAGE, SEND_MESSAGE_V2, SendFields};
use pyrmq_format::json::Raw;
use pyrmq_format::parse_i64;
use pyrmq_fuzz::frame;

/// Long and short name. [SendMessageRequestHeader(V2)]
const FIELDS: [(&str, &str); 14] = [
    ("producerGroup", "a"),
    ("topic", "b"),
    ("defaultTopic", "c"),
    ("defaultTopicQueueNums", "d"),
    ("queueId", "e"),
    ("sysFlag", "f"),
    ("bornTimestamp", "g"),
    ("flag", "h"),
    ("properties", "i"),
    ("reconsumeTimes", "j"),
    ("unitMode", "k"),
    ("maxReconsumeTimes", "l"),
    ("batch", "m"),
    ("bname", "n"),
];
const REQUIRED: [usize; 5] = [1, 4, 5, 6, 7];

fuzz_target!(|data: &[u8]| {
    let Some((codec, text)) = data.split_first() else {
        return;
    };
    let frame = frame(codec & 1, text, b"");
    let mut h = Header::default();
    let codec = Codec::from_byte(codec & 1).unwrap();
    if h.read(codec, &frame, frame.len()).is_err() {
        return;
    }
    for code in [h.code, SEND_MESSAGE, SEND_MESSAGE_V2] {
        h.code = code;
        check(&h, &frame);
    }
});

fn check(h: &Header, frame: &[u8]) {
    let find = |long: &str| -> Option<Raw> {
        let short = FIELDS.iter().find(|f| f.0 == long).unwrap().1;
        let name = if h.code == SEND_MESSAGE { long } else { short };
        let named = |f: &&(Raw, Raw)| f.0.bytes(frame) == name.as_bytes();
        h.ext.iter().rev().find(named).map(|f| f.1)
    };
    let number = |name| find(name).map(|r| parse_i64(r.bytes(frame)));
    let int32 = |name| match number(name) {
        None => Some(0),
        Some(n) => n.and_then(|n| i32::try_from(n).ok()),
    };
    let required = REQUIRED.map(|index| FIELDS[index]);
    let missing = required.iter().find(|f| find(f.0).is_none());
    let numbers = [
        int32("defaultTopicQueueNums"),
        int32("queueId"),
        int32("sysFlag"),
        int32("flag"),
        int32("reconsumeTimes"),
    ];
    let born = number("bornTimestamp").flatten();
    let good = missing.is_none() && born.is_some() && numbers.iter().all(Option::is_some);
    match SendFields::read(h, frame) {
        Err(text) => {
            assert!(!good, "{text}");
            assert!(
                FIELDS.iter().any(|f| text.contains(&format!("<{}>", f.0))),
                "{text}"
            );
            if let Some((name, _)) = missing {
                assert_eq!(text, format!("the custom field <{name}> is null"));
            }
        }
        Ok(f) => {
            assert!(good);
            assert_eq!(Some(f.topic), find("topic"));
            assert_eq!(f.properties, find("properties"));
            assert_eq!(Some(f.born_timestamp), born);
            let got = [f.queue_id, f.sys_flag, f.flag, f.reconsume_times].map(Some);
            assert_eq!(got, numbers[1..]);
            let batch = find("batch").map(|r| r.bytes(frame).to_ascii_lowercase());
            assert_eq!(f.batch, batch.as_deref() == Some(b"true"));
        }
    }
}
