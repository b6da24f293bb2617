//! Writing answers: a frame in the request's serialize type.

use super::frame::Codec;
use super::header::{FLAG_RESPONSE, LANGUAGE_PYTHON};
use crate::{Stored, codes};
use pyrmq_format::push_int;
use pyrmq_store::GetResult;

/// The version we state: V5_3_3 in RocketMQ's enumeration.
pub const VERSION: i32 = 479;

/// Whom an answer is for.
#[derive(Clone, Copy, Debug)]
pub struct To {
    pub codec: Codec,
    pub opaque: i32,
}

/// Leaves room for the lengths and type of a frame; `finish` fills them in.
fn begin(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; 8]);
    out.len() - 8
}

fn finish(out: &mut [u8], start: usize, codec: Codec) {
    let header = out.len() - start - 8;
    out[start..start + 4].copy_from_slice(&((header + 4) as i32).to_be_bytes());
    let word = ((codec as u32) << 24) | header as u32;
    out[start + 4..start + 8].copy_from_slice(&word.to_be_bytes());
}

/// Appends an answer without a body. Codes are within i16, as both forms need.
pub fn push(out: &mut Vec<u8>, to: To, code: i32, remark: Option<&str>, ext: &[(&[u8], &[u8])]) {
    let start = begin(out);
    match to.codec {
        Codec::Json => push_json(out, to.opaque, code, remark, ext),
        Codec::RocketMq => push_binary(out, to.opaque, code, remark, ext),
    }
    finish(out, start, to.codec);
}

fn push_json(
    out: &mut Vec<u8>,
    opaque: i32,
    code: i32,
    remark: Option<&str>,
    ext: &[(&[u8], &[u8])],
) {
    out.extend_from_slice(b"{\"code\":");
    push_int(out, code as i64);
    if !ext.is_empty() {
        out.extend_from_slice(b",\"extFields\":{");
        for (i, (name, value)) in ext.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            push_text(out, name);
            out.push(b':');
            push_text(out, value);
        }
        out.push(b'}');
    }
    push_json_tail(out, opaque, remark);
}

fn push_json_tail(out: &mut Vec<u8>, opaque: i32, remark: Option<&str>) {
    out.extend_from_slice(b",\"flag\":1,\"language\":\"PYTHON\",\"opaque\":");
    push_int(out, opaque as i64);
    if let Some(remark) = remark {
        out.extend_from_slice(b",\"remark\":");
        push_text(out, remark.as_bytes());
    }
    out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}");
}

fn push_binary(
    out: &mut Vec<u8>,
    opaque: i32,
    code: i32,
    remark: Option<&str>,
    ext: &[(&[u8], &[u8])],
) {
    out.extend_from_slice(&(code as i16).to_be_bytes());
    out.push(LANGUAGE_PYTHON);
    out.extend_from_slice(&(VERSION as i16).to_be_bytes());
    out.extend_from_slice(&opaque.to_be_bytes());
    out.extend_from_slice(&FLAG_RESPONSE.to_be_bytes());
    let remark = remark.unwrap_or("").as_bytes();
    out.extend_from_slice(&(remark.len() as i32).to_be_bytes());
    out.extend_from_slice(remark);
    let map: usize = ext.iter().map(|(n, v)| 6 + n.len() + v.len()).sum();
    out.extend_from_slice(&(map as i32).to_be_bytes());
    for (name, value) in ext {
        out.extend_from_slice(&(name.len() as u16).to_be_bytes());
        out.extend_from_slice(name);
        out.extend_from_slice(&(value.len() as i32).to_be_bytes());
        out.extend_from_slice(value);
    }
}

/// The answer to a stored send, with its unchanging parts encoded once.
pub struct SendAnswer {
    json_start: Vec<u8>,
    region: Vec<u8>,
    trace_on: &'static [u8],
}

impl SendAnswer {
    pub fn new(region: &str, trace_on: bool) -> Self {
        let trace_on: &[u8] = if trace_on { b"true" } else { b"false" };
        let mut json_start = b"{\"code\":0,\"extFields\":{\"MSG_REGION\":".to_vec();
        push_text(&mut json_start, region.as_bytes());
        json_start.extend_from_slice(b",\"TRACE_ON\":\"");
        json_start.extend_from_slice(trace_on);
        json_start.extend_from_slice(b"\",\"msgId\":\"");
        SendAnswer {
            json_start,
            region: region.into(),
            trace_on,
        }
    }

    /// MSG_REGION and TRACE_ON, which refusals carry as well.
    pub fn region_fields(&self) -> [(&[u8], &[u8]); 2] {
        [(b"MSG_REGION", &self.region), (b"TRACE_ON", self.trace_on)]
    }

    pub fn push(&self, out: &mut Vec<u8>, to: To, stored: &Stored<'_>) {
        if to.codec == Codec::Json {
            let start = begin(out);
            out.extend_from_slice(&self.json_start);
            out.extend_from_slice(stored.message_ids);
            out.extend_from_slice(b"\",\"queueId\":\"");
            push_int(out, stored.queue_id as i64);
            out.extend_from_slice(b"\",\"queueOffset\":\"");
            push_int(out, stored.queue_offset);
            out.push(b'"');
            if !stored.unique_key.is_empty() {
                out.extend_from_slice(b",\"transactionId\":");
                push_text(out, stored.unique_key);
            }
            if stored.inner_batch {
                // Clients know from it that the batch was kept as one.
                out.extend_from_slice(b",\"batchUniqId\":");
                push_text(out, stored.unique_key);
            }
            if !stored.recall_handle.is_empty() {
                out.extend_from_slice(b",\"recallHandle\":");
                push_text(out, stored.recall_handle);
            }
            out.push(b'}');
            push_json_tail(out, to.opaque, None);
            finish(out, start, to.codec);
            return;
        }
        let (mut id, mut offset) = (Vec::with_capacity(10), Vec::with_capacity(20));
        push_int(&mut id, stored.queue_id as i64);
        push_int(&mut offset, stored.queue_offset);
        let [region, trace_on] = self.region_fields();
        let ext: [(&[u8], &[u8]); 7] = [
            region,
            trace_on,
            (b"msgId", stored.message_ids),
            (b"queueId", &id),
            (b"queueOffset", &offset),
            (b"transactionId", stored.unique_key),
            match stored.recall_handle {
                b"" => (b"batchUniqId", stored.unique_key),
                handle => (b"recallHandle", handle),
            },
        ];
        let used = match stored {
            f if f.inner_batch || !f.recall_handle.is_empty() => 7,
            f if f.unique_key.is_empty() => 5,
            _ => 6,
        };
        push(out, to, codes::SUCCESS, None, &ext[..used]);
    }
}

/// Appends the answer to a pull that found messages, with copies of them.
pub fn push_pulled(out: &mut Vec<u8>, to: To, got: &GetResult) {
    let number = |n: i64| {
        let mut text = Vec::with_capacity(20);
        push_int(&mut text, n);
        text
    };
    let (max, min, next) = (number(got.max), number(got.min), number(got.next));
    let ext: [(&[u8], &[u8]); 4] = [
        (b"maxOffset", &max),
        (b"minOffset", &min),
        (b"nextBeginOffset", &next),
        (b"suggestWhichBrokerId", b"0"),
    ];
    let start = out.len();
    push(out, to, codes::SUCCESS, Some("FOUND"), &ext);
    let body = out.len();
    out.reserve(got.bytes);
    for chunk in &got.chunks {
        out.extend_from_slice(chunk.segment.bytes(chunk.at, chunk.len).unwrap_or(&[]));
    }
    let header = (body - start - 4) as i32;
    let total = header + (out.len() - body) as i32;
    out[start..start + 4].copy_from_slice(&total.to_be_bytes());
}

/// Appends an answer that was encoded with code 0 under another code.
pub fn push_with_code(out: &mut Vec<u8>, codec: Codec, answer: &[u8], code: i32) {
    let start = out.len();
    match codec {
        Codec::RocketMq => {
            out.extend_from_slice(answer);
            out[start + 8..start + 10].copy_from_slice(&(code as i16).to_be_bytes());
        }
        Codec::Json => {
            const ZERO: &[u8] = b"{\"code\":0";
            debug_assert!(answer[8..].starts_with(ZERO));
            out.extend_from_slice(&answer[..8 + ZERO.len() - 1]);
            push_int(out, code as i64);
            out.extend_from_slice(&answer[8 + ZERO.len()..]);
            let grown = (out.len() - start - answer.len()) as u32;
            for at in [start, start + 4] {
                let word = u32::from_be_bytes(out[at..at + 4].try_into().expect("four bytes"));
                out[at..at + 4].copy_from_slice(&(word + grown).to_be_bytes());
            }
        }
    }
}

/// Appends a JSON string; what is not UTF-8 becomes replacement characters.
fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    if is_plain(text) {
        out.extend_from_slice(text);
    } else if std::str::from_utf8(text).is_ok() {
        push_escaped(out, text);
    } else {
        push_escaped(out, String::from_utf8_lossy(text).as_bytes());
    }
    out.push(b'"');
}

/// Whether a text is ASCII without what has to be escaped. All of it is looked at, which the compiler
/// does for many bytes at a time.
fn is_plain(text: &[u8]) -> bool {
    let odd = |b: u8| !(0x20..0x80).contains(&b) | (b == b'"') | (b == b'\\');
    !text.iter().fold(false, |any, &b| any | odd(b))
}

fn push_escaped(out: &mut Vec<u8>, text: &[u8]) {
    for &b in text {
        match b {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
            0..0x20 => out.extend_from_slice(format!("\\u{b:04x}").as_bytes()),
            _ => out.push(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::split;
    use crate::wire::header::Header;

    #[test]
    fn another_code_for_an_answer() {
        for codec in [Codec::Json, Codec::RocketMq] {
            for body in [&b""[..], b"some body"] {
                let mut answer = Vec::new();
                let ext: [(&[u8], &[u8]); 1] = [(b"msgId", b"7F")];
                push(&mut answer, To { codec, opaque: 7 }, 0, None, &ext);
                let total = (answer.len() + body.len() - 4) as u32;
                answer[..4].copy_from_slice(&total.to_be_bytes());
                answer.extend_from_slice(body);
                let mut out = b"before".to_vec();
                push_with_code(&mut out, codec, &answer, 10);
                let out = &out[6..];
                let parts = split(out).unwrap().unwrap();
                assert_eq!(parts.total, out.len());
                assert_eq!(&out[parts.header_end..], body);
                let mut h = Header::default();
                h.read(parts.codec, out, parts.header_end).unwrap();
                assert_eq!((h.code, h.opaque, h.ext.len()), (10, 7, 1));
            }
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for codec in [Codec::Json, Codec::RocketMq] {
            let mut out = Vec::new();
            let ext: [(&[u8], &[u8]); 2] = [(b"msgId", b"7F"), (b"odd", b"a\"\\\x01\xc3\xa4")];
            push(
                &mut out,
                To { codec, opaque: -5 },
                13,
                Some("no \"way\""),
                &ext,
            );
            let parts = split(&out).unwrap().unwrap();
            assert_eq!((parts.total, parts.header_end), (out.len(), out.len()));
            let mut h = Header::default();
            h.read(codec, &out, parts.header_end).unwrap();
            assert_eq!(
                (h.code, h.opaque, h.flag, h.version, h.language),
                (13, -5, 1, 479, 3)
            );
            let text = |r: pyrmq_format::json::Raw| {
                let mut t = Vec::new();
                r.unescape(&out, &mut t).unwrap();
                t
            };
            assert_eq!(text(h.remark.unwrap()), b"no \"way\"");
            assert_eq!(text(h.ext[1].1), ext[1].1);
        }
    }
}
