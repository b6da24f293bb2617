//! Requests of the remoting protocol, written straight into a connection's output.
//!
//! Layout: int32 length of the rest, one byte serialize type, uint24 header length, header, body; all
//! big-endian. Headers are JSON in the key order of the Java client, or RocketMQ's binary form.

use crate::credentials::{Credentials, values};
pub use crate::field::{Field, Value};
use pyrmq_format::push_int;

pub const SEND_MESSAGE_V2: i32 = 310;
pub const SEND_BATCH_MESSAGE: i32 = 320;
pub const PULL_MESSAGE: i32 = 11;
pub const GET_MAX_OFFSET: i32 = 30;
pub const HEART_BEAT: i32 = 34;
pub const END_TRANSACTION: i32 = 37;
pub const POP_MESSAGE: i32 = 200_050;
pub const ACK_MESSAGE: i32 = 200_051;

/// Bits of the flag field.
pub const ANSWER: i32 = 1;
pub const ONEWAY: i32 = 2;
/// Opaques start here, so that they always have ten digits and can be patched in place.
pub const FIRST_OPAQUE: i32 = 1_000_000_000;
/// Largest value of the length field: 16 MiB less the field itself.
const MAX_TOTAL: usize = (16 << 20) - 4;
const VERSION: i32 = 479;
pub const HEAD: usize = 8;

/// A request, but its opaque and body.
pub struct Request<'a> {
    pub binary: bool,
    pub code: i32,
    pub flag: i32,
    pub fields: &'a [Field<'a>],
    /// Who signs it; None: it is not signed.
    pub signer: Option<&'a Credentials>,
}

impl Request<'_> {
    /// Appends the whole frame.
    pub fn write(&self, opaque: i32, body: &[u8], out: &mut Vec<u8>) {
        if let Some(signer) = self.signer {
            let mut fields = signer.named(self.fields);
            let signature = signer.sign(&values(&fields).0, body);
            let signature = String::from_utf8_lossy(&signature);
            fields.push(("Signature", Value::Text(&signature)));
            let signed = Request {
                fields: &fields,
                signer: None,
                ..*self
            };
            return signed.write(opaque, body, out);
        }
        let base = out.len();
        out.extend_from_slice(&[0; HEAD]);
        self.header(opaque, out);
        let header = out.len() - base - HEAD;
        out[base..base + HEAD].copy_from_slice(&head(self.binary, header, body.len()));
        out.extend_from_slice(body);
    }

    /// Appends the header alone.
    pub fn header(&self, opaque: i32, out: &mut Vec<u8>) {
        if self.binary {
            self.binary(opaque, out);
        } else {
            self.json(opaque, out);
        }
    }

    fn json(&self, opaque: i32, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"code\":");
        push_int(out, self.code.into());
        out.extend_from_slice(b",\"extFields\":{");
        for (i, (key, value)) in self.fields.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            quote(key, out);
            out.push(b':');
            match value {
                Value::Text(text) => quote(text, out),
                Value::Int(n) => {
                    out.push(b'"');
                    push_int(out, *n);
                    out.push(b'"');
                }
            }
        }
        out.extend_from_slice(b"},\"flag\":");
        push_int(out, self.flag.into());
        out.extend_from_slice(b",\"language\":\"JAVA\",\"opaque\":");
        push_int(out, opaque.into());
        out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
        push_int(out, VERSION.into());
        out.push(b'}');
    }

    fn binary(&self, opaque: i32, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.code as i16).to_be_bytes());
        out.push(0); // JAVA
        out.extend_from_slice(&(VERSION as i16).to_be_bytes());
        out.extend_from_slice(&opaque.to_be_bytes());
        out.extend_from_slice(&self.flag.to_be_bytes());
        out.extend_from_slice(&[0; 4]); // no remark
        let length_at = out.len();
        out.extend_from_slice(&[0; 4]);
        for (key, value) in self.fields {
            let mut digits = Vec::new();
            let value = match value {
                Value::Text(text) => text.as_bytes(),
                Value::Int(n) => {
                    push_int(&mut digits, *n);
                    &digits
                }
            };
            if value.is_empty() {
                continue; // as Java: a value without bytes is none
            }
            out.extend_from_slice(&(key.len() as u16).to_be_bytes());
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(&(value.len() as u32).to_be_bytes());
            out.extend_from_slice(value);
        }
        let length = (out.len() - length_at - 4) as u32;
        out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// The first eight bytes of a frame.
pub fn head(binary: bool, header: usize, body: usize) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&((4 + header + body) as u32).to_be_bytes());
    head[4..].copy_from_slice(&(u32::from(binary) << 24 | header as u32).to_be_bytes());
    head
}

/// Appends a JSON string with its quotes.
pub fn quote(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for &b in text.as_bytes() {
        match b {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
            0..0x20 => {
                let digit = |n: u8| b"0123456789abcdef"[n as usize];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[digit(b >> 4), digit(b & 15)]);
            }
            _ => out.push(b),
        }
    }
    out.push(b'"');
}

/// Bytes of the frame that `buf` begins with, `None` when its length is not there yet.
pub fn length(buf: &[u8]) -> Result<Option<usize>, String> {
    let Some(head) = buf.first_chunk::<4>() else {
        return Ok(None);
    };
    let total = u32::from_be_bytes(*head) as usize;
    if !(4..=MAX_TOTAL).contains(&total) {
        return Err(format!(
            "a frame of length {total} came: no remoting server"
        ));
    }
    Ok(Some(4 + total))
}

#[cfg(test)]
mod tests {
    use super::Value::{Int, Text};
    use super::*;

    const PROPS: &str =
        "UNIQ_KEY\u{1}AC110001000118B4AAC200000000\u{2}WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}";

    /// The worked bytes of the protocol's description, which the Java encoder wrote too.
    fn send(binary: bool) -> Vec<u8> {
        send_as(None, binary)
    }

    fn send_as(signer: Option<&Credentials>, binary: bool) -> Vec<u8> {
        let fields = [
            ("a", Text("PG")),
            ("b", Text("TopicTest")),
            ("c", Text("TBW102")),
            ("d", Int(4)),
            ("e", Int(0)),
            ("f", Int(0)),
            ("g", Int(1_700_000_000_000)),
            ("h", Int(0)),
            ("i", Text(PROPS)),
            ("j", Int(0)),
            ("k", Text("false")),
            ("m", Text("false")),
            ("n", Text("broker-a")),
        ];
        let request = Request {
            binary,
            code: SEND_MESSAGE_V2,
            flag: 0,
            fields: &fields,
            signer,
        };
        let mut frame = Vec::new();
        request.write(1, b"hello", &mut frame);
        frame
    }

    #[test]
    fn json_equals_the_java_encoders() {
        let frame = send(false);
        assert_eq!(frame.len(), 356);
        assert_eq!(frame[..8], [0, 0, 1, 0x60, 0, 0, 1, 0x57]);
        let text = String::from_utf8(frame[8..].to_vec()).unwrap();
        assert!(text.starts_with(r#"{"code":310,"extFields":{"a":"PG","b":"TopicTest""#));
        assert!(text.contains(r#""i":"UNIQ_KEY\u0001AC110001000118B4AAC200000000\u0002WAIT"#));
        assert!(text.ends_with(
            r#""n":"broker-a"},"flag":0,"language":"JAVA","opaque":1,"serializeTypeCurrentRPC":"JSON","version":479}hello"#
        ));
    }

    #[test]
    fn binary_equals_the_java_encoders() {
        let frame = send(true);
        assert_eq!(frame.len(), 236);
        assert_eq!(
            frame[..32],
            [
                0, 0, 0, 0xe8, 1, 0, 0, 0xdf, 1, 0x36, 0, 1, 0xdf, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,
                0, 0, 0, 0, 0xca, 0, 1, b'a'
            ]
        );
        assert!(frame.ends_with(b"\x00\x01n\x00\x00\x00\x08broker-ahello"));
    }

    #[test]
    fn signatures_equal_those_of_javas_signer() {
        for (token, signature) in [
            ("", "unEJquYqbAuoGwa4bpx8b12cp/E="),
            ("tok", "ibMx3XQKIVn20Bzse1fODNyOZCU="),
        ] {
            let signer = Credentials::new("rocketmq2".into(), "12345678", token.into());
            for binary in [false, true] {
                let frame = send_as(Some(&signer), binary);
                assert_eq!(length(&frame), Ok(Some(frame.len())));
                let has = |text: &str| memchr::memmem::find(&frame, text.as_bytes()).is_some();
                assert!(has("rocketmq2") && has(signature) && has(token));
            }
        }
    }

    #[test]
    fn lengths_are_bounded() {
        assert_eq!(length(&[0, 0]), Ok(None));
        assert_eq!(length(&[0, 0, 0, 4]), Ok(Some(8)));
        assert!(length(&[0, 0, 0, 0]).is_err());
        assert!(length(b"HTTP/1.1 400").is_err());
    }
}
