//! Sending: SEND_MESSAGE_V2 (310) and SEND_BATCH_MESSAGE (320).
//!
//! One frame is encoded when the run begins; a request is a copy of it with the opaque, the queue
//! id and the UNIQ_KEY of each message (as the Java client sets it) written over.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::args::{Args, Mode};
use crate::conn::Turn;
use crate::drive::{Load, Worth};
use crate::frame::{self, Answer, FIRST_OPAQUE};

const SEND_MESSAGE_V2: i32 = 310;
const SEND_BATCH_MESSAGE: i32 = 320;
/// Hex digits of the UNIQ_KEY that count; the twelve before them name this process.
pub const COUNTING: usize = 16;

pub struct SendLoad {
    template: Vec<u8>,
    opaque_at: usize,
    queue_at: usize,
    /// Where the counting digits of each UNIQ_KEY stand; the header's own comes first.
    keys_at: Vec<usize>,
    queues: usize,
    next_queue: usize,
    next_key: u64,
    messages: u64,
    bytes: u64,
    batch: bool,
}

/// Batch entries back to back: sizes big-endian, magic, crc and flag 0 (MessageDecoder.encodeMessages).
fn batch_body(body: &[u8], properties: &str, count: usize) -> Vec<u8> {
    let size = 22 + body.len() + properties.len();
    let mut out = Vec::with_capacity(size * count);
    for _ in 0..count {
        out.extend_from_slice(&(size as u32).to_be_bytes());
        out.extend_from_slice(&[0; 12]);
        out.extend_from_slice(&(body.len() as u32).to_be_bytes());
        out.extend_from_slice(body);
        out.extend_from_slice(&(properties.len() as u16).to_be_bytes());
        out.extend_from_slice(properties.as_bytes());
    }
    out
}

/// Printable and not constant, so that nothing on the way can take it for zeros.
pub fn body(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| b'!' + (i * 7 % 90) as u8).collect()
}

/// The first UNIQ_KEY of this process.
pub fn first_key() -> String {
    format!("7F000001{:04X}{:016X}", std::process::id() & 0xffff, 0)
}

pub fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as u64)
}

impl SendLoad {
    pub fn new(args: &Args) -> SendLoad {
        let batch = args.mode == Mode::SendBatch;
        let count = if batch { args.batch } else { 1 };
        let body = body(args.body);
        let key = first_key();
        let properties = format!("UNIQ_KEY\u{1}{key}\u{2}WAIT\u{1}true\u{2}");
        let fields = [
            ("a", args.group.as_str()),
            ("b", args.topic.as_str()),
            ("c", "TBW102"),
            ("d", &args.queues.to_string()),
            ("e", "0"),
            ("f", "0"),
            ("g", &now_ms().to_string()),
            ("h", "0"),
            ("i", &properties),
            ("j", "0"),
            ("k", "false"),
            ("m", if batch { "true" } else { "false" }),
            ("n", "broker-a"),
        ];
        let (code, payload) = if batch {
            (SEND_BATCH_MESSAGE, batch_body(&body, &properties, count))
        } else {
            (SEND_MESSAGE_V2, body)
        };
        let template = frame::request(code, &fields, FIRST_OPAQUE, &payload);
        let header_end = template.len() - payload.len();
        let after = |text: &str| {
            let at = frame::find(&template[..header_end], text.as_bytes());
            at.map_or(0, |at| at + text.len())
        };
        let mut keys_at = Vec::new();
        let mut from = 0;
        while let Some(at) = frame::find(&template[from..], key.as_bytes()) {
            from += at + key.len();
            keys_at.push(from - COUNTING);
        }
        SendLoad {
            opaque_at: after("\"opaque\":"),
            queue_at: after("\"e\":\""),
            keys_at,
            queues: args.queues,
            next_queue: 0,
            next_key: 0,
            messages: count as u64,
            bytes: (count * args.body) as u64,
            batch,
            template,
        }
    }
}

pub fn put_decimal(value: u64, out: &mut [u8]) {
    let mut value = value;
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

pub fn put_hex(value: u64, out: &mut [u8]) {
    let mut value = value;
    for digit in out.iter_mut().rev() {
        *digit = b"0123456789ABCDEF"[(value & 15) as usize];
        value >>= 4;
    }
}

impl Load for SendLoad {
    fn write(&mut self, _conn: usize, _slot: usize, opaque: i32, out: &mut Vec<u8>) {
        let base = out.len();
        out.extend_from_slice(&self.template);
        let frame = &mut out[base..];
        put_decimal(
            opaque as u64,
            &mut frame[self.opaque_at..self.opaque_at + 10],
        );
        frame[self.queue_at] = b'0' + self.next_queue as u8;
        self.next_queue = (self.next_queue + 1) % self.queues;
        for &at in &self.keys_at {
            put_hex(self.next_key, &mut frame[at..at + COUNTING]);
            self.next_key += 1;
        }
    }

    fn judge(&mut self, _conn: usize, _turn: &mut Turn, answer: &Answer) -> Result<Worth, String> {
        if answer.code != 0 {
            return Ok(Worth::Refused);
        }
        Ok(Worth::Messages {
            count: self.messages,
            bytes: self.bytes,
        })
    }

    fn buffer(&self) -> usize {
        // Answers to a batch name every message id.
        if self.batch {
            256 << 10
        } else {
            64 << 10
        }
    }

    fn requests_for(&self, messages: u64) -> Option<u64> {
        Some(messages.div_ceil(self.messages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(line: &str) -> SendLoad {
        let words = format!("{line} --addr 127.0.0.1:9 --topic T");
        SendLoad::new(
            &Args::parse(words.split(' ').map(String::from))
                .unwrap()
                .unwrap(),
        )
    }

    #[test]
    fn patches_a_send() {
        let mut l = load("send --body 5");
        let mut out = Vec::new();
        for i in 0..5 {
            l.write(0, 0, FIRST_OPAQUE + 12_345 + i, &mut out);
        }
        let size = frame::length(&out).unwrap().unwrap();
        assert_eq!(out.len(), size * 5);
        let last = String::from_utf8_lossy(&out[size * 4..]).into_owned();
        assert!(last.contains(r#""opaque":1000012349,"#), "{last}");
        assert!(
            last.contains(r#""e":"0","#) && last.contains(r#"0000000000000004\u0002"#),
            "{last}"
        );
        assert!(String::from_utf8_lossy(&out[size * 3..]).contains(r#""e":"3","#));
        assert!(last.ends_with("!(/6="), "{last}");
    }

    #[test]
    fn a_batch_numbers_every_message() {
        let mut l = load("send-batch --body 3 --batch 4");
        assert_eq!(
            (l.keys_at.len(), l.messages, l.requests_for(9)),
            (5, 4, Some(3))
        );
        let mut out = Vec::new();
        l.write(0, 0, FIRST_OPAQUE, &mut out);
        let header = u32::from_be_bytes([0, out[5], out[6], out[7]]) as usize;
        let mut body = &out[8 + header..];
        for i in 1..=4 {
            let size = u32::from_be_bytes([body[0], body[1], body[2], body[3]]) as usize;
            let entry = String::from_utf8_lossy(&body[..size]).into_owned();
            assert!(
                entry.contains(&format!("{i:016X}\u{2}WAIT\u{1}true")),
                "{entry}"
            );
            body = &body[size..];
        }
        assert!(body.is_empty());
    }
}
