//! The floor's answers: the fields and about the size of a broker's, in the form of the request.

use crate::stamp::put_hex;
use pyrmq_format::push_int;

const NOT_SUPPORTED: i32 = 3;
const VERSION: i16 = 479;
/// LanguageCode.OTHER.
const LANGUAGE: u8 = 7;
const ANSWER: i32 = 1;
const REGION: &str = "DefaultRegion";
/// In the place of the message's own UNIQ_KEY, and as long.
const KEY: &str = "7F0000010000000000000000FFFF";
/// Hex digits of a message id: address and port, then the log offset.
const ADDRESS: &[u8; 16] = b"7F00000100002A9F";
const ID: usize = 32;

/// How a header is written: the serialize type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Json,
    Binary,
}

impl Form {
    /// Of a frame that has been read.
    pub fn of(frame: &[u8]) -> Form {
        match frame[4] {
            0 => Form::Json,
            _ => Form::Binary,
        }
    }
}

/// Where a request's messages went.
pub struct Place {
    pub log_offset: u64,
    /// Between two messages of a batch.
    pub step: u64,
    pub count: usize,
    pub queue_offset: u64,
}

/// Leaves room for the two lengths; returns where they go.
fn begin(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; 8]);
    out.len() - 8
}

/// Writes the two lengths, and the body behind the header.
fn finish(out: &mut Vec<u8>, start: usize, form: Form, body: &[u8]) {
    let header = (out.len() - start - 8) as u32;
    let kind = u32::from(form == Form::Binary) << 24;
    let frame = header + 4 + body.len() as u32;
    out[start..start + 4].copy_from_slice(&frame.to_be_bytes());
    out[start + 4..start + 8].copy_from_slice(&(header | kind).to_be_bytes());
    out.extend_from_slice(body);
}

/// The ids of all messages with commas between, as SendMessageResponseHeader has them.
fn push_ids(place: &Place, out: &mut Vec<u8>) {
    for i in 0..place.count {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(ADDRESS);
        let at = out.len();
        out.extend_from_slice(&[0; ID - ADDRESS.len()]);
        put_hex(place.log_offset + i as u64 * place.step, &mut out[at..]);
    }
}

fn json_tail(opaque: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"flag\":1,\"language\":\"OTHER\",\"opaque\":");
    push_int(out, opaque.into());
    out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}");
}

/// Up to the remark's length.
fn binary_head(code: i32, opaque: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(&(code as i16).to_be_bytes());
    out.push(LANGUAGE);
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&opaque.to_be_bytes());
    out.extend_from_slice(&ANSWER.to_be_bytes());
}

/// A whole header of code 0 without a remark; `fields` puts its fields.
fn binary_done(opaque: i32, out: &mut Vec<u8>, fields: impl FnOnce(&mut Vec<u8>)) {
    binary_head(0, opaque, out);
    out.extend_from_slice(&[0; 4]);
    let map = out.len();
    out.extend_from_slice(&[0; 4]);
    fields(out);
    let length = (out.len() - map - 4) as u32;
    out[map..map + 4].copy_from_slice(&length.to_be_bytes());
}

fn binary_field(name: &str, out: &mut Vec<u8>, value: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&(name.len() as u16).to_be_bytes());
    out.extend_from_slice(name.as_bytes());
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    value(out);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// The answer to a send.
pub fn stored(form: Form, opaque: i32, place: &Place, out: &mut Vec<u8>) {
    let start = begin(out);
    match form {
        Form::Json => {
            out.extend_from_slice(b"{\"code\":0,\"extFields\":{\"MSG_REGION\":\"");
            out.extend_from_slice(REGION.as_bytes());
            out.extend_from_slice(b"\",\"TRACE_ON\":\"true\",\"msgId\":\"");
            push_ids(place, out);
            out.extend_from_slice(b"\",\"queueId\":\"0\",\"queueOffset\":\"");
            push_int(out, place.queue_offset as i64);
            out.extend_from_slice(b"\",\"transactionId\":\"");
            out.extend_from_slice(KEY.as_bytes());
            out.extend_from_slice(b"\"}");
            json_tail(opaque, out);
        }
        Form::Binary => binary_done(opaque, out, |out| {
            binary_field("MSG_REGION", out, |o| {
                o.extend_from_slice(REGION.as_bytes())
            });
            binary_field("TRACE_ON", out, |o| o.extend_from_slice(b"true"));
            binary_field("msgId", out, |o| push_ids(place, o));
            binary_field("queueId", out, |o| o.push(b'0'));
            binary_field("queueOffset", out, |o| {
                push_int(o, place.queue_offset as i64)
            });
            binary_field("transactionId", out, |o| {
                o.extend_from_slice(KEY.as_bytes())
            });
        }),
    }
    finish(out, start, form, b"");
}

/// The answer to a pull that found something.
pub fn found(form: Form, opaque: i32, next: u64, records: &[u8], out: &mut Vec<u8>) {
    let fields = [
        ("nextBeginOffset", next),
        ("minOffset", 0),
        ("maxOffset", i64::MAX as u64),
        ("suggestWhichBrokerId", 0),
    ];
    let start = begin(out);
    match form {
        Form::Json => {
            out.extend_from_slice(b"{\"code\":0,\"extFields\":{");
            for (i, (name, value)) in fields.iter().enumerate() {
                out.extend_from_slice(if i == 0 { b"\"" } else { b",\"" });
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b"\":\"");
                push_int(out, *value as i64);
                out.push(b'"');
            }
            out.push(b'}');
            json_tail(opaque, out);
        }
        Form::Binary => binary_done(opaque, out, |out| {
            for (name, value) in fields {
                binary_field(name, out, |o| push_int(o, value as i64));
            }
        }),
    }
    finish(out, start, form, records);
}

/// An answer without fields: code 0.
pub fn done(form: Form, opaque: i32, out: &mut Vec<u8>) {
    plain(form, 0, opaque, "", out);
}

/// The answer to a request that the floor knows nothing about: REQUEST_CODE_NOT_SUPPORTED.
pub fn unknown(form: Form, opaque: i32, code: i32, out: &mut Vec<u8>) {
    let remark = format!("the floor does not know request code {code}");
    plain(form, NOT_SUPPORTED, opaque, &remark, out);
}

fn plain(form: Form, code: i32, opaque: i32, remark: &str, out: &mut Vec<u8>) {
    let start = begin(out);
    match form {
        Form::Json => {
            let head = format!("{{\"code\":{code},\"remark\":\"{remark}\"");
            out.extend_from_slice(head.as_bytes());
            json_tail(opaque, out);
        }
        Form::Binary => {
            binary_head(code, opaque, out);
            out.extend_from_slice(&(remark.len() as u32).to_be_bytes());
            out.extend_from_slice(remark.as_bytes());
            out.extend_from_slice(&[0; 4]); // no fields
        }
    }
    finish(out, start, form, b"");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Reader;
    use crate::frame;

    const FORMS: [Form; 2] = [Form::Json, Form::Binary];

    #[test]
    fn what_was_stored_is_told_in_both_forms() {
        let place = Place {
            log_offset: 0xAB,
            step: 0x100,
            count: 3,
            queue_offset: 4711,
        };
        let id = |low: &str| format!("7F00000100002A9F{low:0>16}");
        let ids = [id("AB"), id("1AB"), id("2AB")].join(",");
        for (form, opaque) in FORMS.into_iter().zip([-3, 1_000_000_077]) {
            let mut out = b"before".to_vec();
            stored(form, opaque, &place, &mut out);
            let out = &out[6..];
            assert_eq!(frame::length(out).unwrap(), Some(out.len()));
            assert_eq!(Form::of(out), form);
            let mut reader = Reader::default();
            let answer = reader.read(out).unwrap();
            assert_eq!((answer.code, answer.opaque), (0, opaque));
            assert!(!answer.is_request() && answer.body.is_empty());
            assert_eq!(answer.text("msgId"), Some(ids.as_bytes()));
            assert_eq!(answer.field("queueId"), Some(0));
            assert_eq!(answer.field("queueOffset"), Some(4711));
            assert_eq!(answer.text("TRACE_ON"), Some(&b"true"[..]));
            assert_eq!(answer.text("transactionId"), Some(KEY.as_bytes()));
        }
    }

    #[test]
    fn other_requests_are_answered_too() {
        for form in FORMS {
            let mut out = Vec::new();
            unknown(form, 9, 105, &mut out);
            let first = out.len();
            done(form, 10, &mut out);
            assert_eq!(frame::length(&out).unwrap(), Some(first));
            let mut reader = Reader::default();
            let answer = reader.read(&out[..first]).unwrap();
            assert_eq!((answer.code, answer.opaque), (NOT_SUPPORTED, 9));
            assert!(String::from_utf8_lossy(&out[..first]).contains("code 105"));
            let answer = reader.read(&out[first..]).unwrap();
            assert_eq!((answer.code, answer.opaque), (0, 10));
        }
    }
}
