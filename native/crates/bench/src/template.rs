//! The header of a send, laid out once for a queue and a tag; what differs from message to message is
//! written over.

use crate::config::{Kind, Role, Target};
use crate::credentials::{Credentials, SIGNATURE_MARK, Unsigned, values};
use crate::frame::Value::{Int, Text};
use crate::frame::{self, FIRST_OPAQUE, Request, SEND_BATCH_MESSAGE, SEND_MESSAGE_V2};
use crate::stamp::{DIGITS, Stamp};
use memchr::memmem;
use pyrmq_format::{properties, sys_flag};

/// Stand where digits are written over while a header is laid out.
const KEY_MARK: &str = "00000000000000000000000000000000";
const KEYS_MARK: &str = "key-9999999999";
const KEYS_DIGITS: usize = 10;
const BORN_MARK: i64 = 9_999_999_999_999;
const BORN_DIGITS: usize = 13;

/// The header of a SEND_MESSAGE_V2 or SEND_BATCH_MESSAGE.
pub struct SendHeader {
    bytes: Vec<u8>,
    binary: bool,
    opaque_at: usize,
    key_at: usize,
    keys_at: Option<usize>,
    born_at: usize,
    signed: Option<Signed>,
}

/// The values that are signed, with marks in them, and where those are.
struct Signed {
    values: Vec<u8>,
    key_at: usize,
    keys_at: Option<usize>,
    born_at: usize,
    /// Where the signature stands in the header.
    signature_at: usize,
}

/// What of a message's properties differs: its UNIQ_KEY, and the number of its KEYS.
#[derive(Clone, Copy)]
pub struct Own {
    pub stamp: Stamp,
    pub keys: u64,
}

fn mark(bytes: &[u8], what: &str) -> Option<usize> {
    memmem::find(bytes, what.as_bytes())
}

/// The properties of a message of this role, with marks in them.
fn property_text(role: &Role, tag: Option<&str>) -> String {
    let mut text = Vec::new();
    let mut push = |name: &str, value: &str| {
        properties::push(&mut text, name.as_bytes(), value.as_bytes());
    };
    push("UNIQ_KEY", KEY_MARK);
    push("WAIT", if role.wait { "true" } else { "false" });
    if let Some(tag) = tag {
        push("TAGS", tag);
    }
    if role.keys > 0 {
        push("KEYS", KEYS_MARK);
    }
    match role.kind {
        Kind::Transaction { .. } => {
            push("TRAN_MSG", "true");
            push("PGROUP", &role.group);
        }
        Kind::Delay { level, .. } => push("DELAY", &level.to_string()),
        Kind::Timer { ms } => push("TIMER_DELAY_MS", &ms.to_string()),
        _ => {}
    }
    for (name, value) in &role.properties {
        push(name, value);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// A record has two bytes, and a sign, for the length of its properties.
const MOST_PROPERTIES: usize = i16::MAX as usize;
const MOST_BODY: usize = 16 << 20;
/// Bytes of all headers that are laid out.
const MOST_HEADERS: usize = 1 << 30;

/// Whether the messages of a producer's role fit into their records, frames and memory.
pub fn check(role: &Role) -> Result<(), String> {
    let tags = role.tags.iter().map(|(name, _)| name.as_str());
    let properties = property_text(role, tags.max_by_key(|name| name.len())).len();
    if properties > MOST_PROPERTIES {
        return Err(format!(
            "the properties of a message have {properties} bytes: {MOST_PROPERTIES} at most"
        ));
    }
    let messages = match role.kind {
        Kind::Batch { messages } => messages as usize,
        _ => 1,
    };
    let longest = role.payloads.iter().map(Vec::len).max().unwrap_or(0);
    if (longest + properties + 64).saturating_mul(messages) > MOST_BODY {
        return Err(format!(
            "{messages} messages of up to {longest} bytes do not fit into a frame of 16 MiB"
        ));
    }
    let headers = role.targets.len().saturating_mul(role.tags.len().max(1));
    if headers.saturating_mul(properties + 512) > MOST_HEADERS {
        return Err(format!(
            "{headers} queues and tags with properties of {properties} bytes are too much: use fewer"
        ));
    }
    Ok(())
}

impl SendHeader {
    pub fn new(
        role: &Role,
        binary: bool,
        signer: Option<&Credentials>,
        target: &Target,
        tag: Option<&str>,
    ) -> SendHeader {
        let batch = matches!(role.kind, Kind::Batch { .. });
        let mut sys = 0;
        if role.compressed {
            sys |= sys_flag::COMPRESSED;
        }
        if matches!(role.kind, Kind::Transaction { .. }) {
            sys |= sys_flag::PREPARED;
        }
        let text = property_text(role, tag);
        let mut fields = vec![
            ("a", Text(&role.group)),
            ("b", Text(&target.topic)),
            ("c", Text("TBW102")),
            ("d", Int(4)),
            ("e", Int(target.queue.into())),
            ("f", Int(sys.into())),
            ("g", Int(BORN_MARK)),
            ("h", Int(0)),
            ("i", Text(&text)),
            ("j", Int(0)),
            ("k", Text("false")),
            ("m", Text(if batch { "true" } else { "false" })),
            ("n", Text(&target.broker)),
        ];
        let mut signing = None;
        if let Some(signer) = signer {
            fields = signer.named(&fields);
            signing = Some(values(&fields));
            fields.push(("Signature", Text(SIGNATURE_MARK)));
        }
        let oneway = role.kind == Kind::Oneway;
        let request = Request {
            binary,
            code: if batch {
                SEND_BATCH_MESSAGE
            } else {
                SEND_MESSAGE_V2
            },
            flag: if oneway { frame::ONEWAY } else { 0 },
            fields: &fields,
            signer: None,
        };
        let mut bytes = Vec::new();
        request.header(FIRST_OPAQUE, &mut bytes);
        let opaque = format!("\"opaque\":{FIRST_OPAQUE}");
        // A text that somebody gave cannot hold a mark in front of ours but the topic and the group,
        // whose letters are fewer; the opaque is the last of its kind.
        let opaque_at = if binary {
            5
        } else {
            memmem::rfind(&bytes, opaque.as_bytes()).map_or(0, |at| at + opaque.len() - 10)
        };
        let unique = mark(&bytes, "UNIQ_KEY").unwrap_or(0);
        let after = |what: &str| mark(&bytes[unique..], what).map(|at| unique + at);
        let signed = signing.map(|(values, starts)| {
            let start = |name| {
                let found = starts.iter().find(|(of, _)| *of == name);
                found.map_or(0, |(_, at)| *at)
            };
            let properties = start("i");
            let after = |what: &str| mark(&values[properties..], what).map(|at| properties + at);
            Signed {
                key_at: after(KEY_MARK).unwrap_or(0),
                keys_at: after(KEYS_MARK).map(|at| at + KEYS_MARK.len() - KEYS_DIGITS),
                born_at: start("g"),
                signature_at: memmem::rfind(&bytes, SIGNATURE_MARK.as_bytes()).unwrap_or(0),
                values,
            }
        });
        SendHeader {
            signed,
            opaque_at,
            key_at: after(KEY_MARK).unwrap_or(0),
            keys_at: after(KEYS_MARK).map(|at| at + KEYS_MARK.len() - KEYS_DIGITS),
            born_at: mark(&bytes[..unique], &BORN_MARK.to_string()).unwrap_or(0),
            binary,
            bytes,
        }
    }

    /// Appends the frame up to its body, whose length it names.
    #[inline]
    pub fn write(&self, opaque: i32, own: &Own, born: u64, body: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&frame::head(self.binary, self.bytes.len(), body));
        let base = out.len();
        out.extend_from_slice(&self.bytes);
        let header = &mut out[base..];
        if self.binary {
            header[5..9].copy_from_slice(&opaque.to_be_bytes());
        } else {
            put_decimal(
                opaque as u64,
                &mut header[self.opaque_at..self.opaque_at + 10],
            );
        }
        put_decimal(born, &mut header[self.born_at..self.born_at + BORN_DIGITS]);
        own.stamp
            .write(&mut header[self.key_at..self.key_at + DIGITS]);
        if let Some(at) = self.keys_at {
            put_decimal(own.keys, &mut header[at..at + KEYS_DIGITS]);
        }
    }
}

impl SendHeader {
    /// Has the frame signed that `write` began at `begin` of the output with the same values, and that
    /// ends at `end`.
    #[inline]
    pub fn sign(&self, own: &Own, born: u64, (begin, end): (usize, usize), all: &mut Unsigned) {
        let Some(signed) = &self.signed else {
            return;
        };
        let header = begin + frame::HEAD;
        let body = header + self.bytes.len()..end;
        all.push(header + signed.signature_at, body, |out| {
            let start = out.len();
            out.extend_from_slice(&signed.values);
            let values = &mut out[start..];
            put_decimal(born, &mut values[signed.born_at..][..BORN_DIGITS]);
            own.stamp.write(&mut values[signed.key_at..][..DIGITS]);
            if let Some(at) = signed.keys_at {
                put_decimal(own.keys, &mut values[at..at + KEYS_DIGITS]);
            }
        });
    }
}
/// The entries of a batch: [MessageDecoder.encodeMessages]
pub struct Entry {
    properties: Vec<u8>,
    key_at: usize,
    keys_at: Option<usize>,
}

impl Entry {
    pub fn new(role: &Role, tag: Option<&str>) -> Entry {
        let properties = property_text(role, tag).into_bytes();
        Entry {
            key_at: mark(&properties, KEY_MARK).unwrap_or(0),
            keys_at: mark(&properties, KEYS_MARK).map(|at| at + KEYS_MARK.len() - KEYS_DIGITS),
            properties,
        }
    }

    /// Bytes of one with a body of this length.
    pub fn len(&self, body: usize) -> usize {
        22 + body + self.properties.len()
    }

    pub fn write(&self, own: &Own, body: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.len(body.len()) as u32).to_be_bytes());
        out.extend_from_slice(&[0; 12]); // magic, CRC and flag
        out.extend_from_slice(&(body.len() as u32).to_be_bytes());
        out.extend_from_slice(body);
        out.extend_from_slice(&(self.properties.len() as u16).to_be_bytes());
        let base = out.len();
        out.extend_from_slice(&self.properties);
        let text = &mut out[base..];
        own.stamp
            .write(&mut text[self.key_at..self.key_at + DIGITS]);
        if let Some(at) = self.keys_at {
            put_decimal(own.keys, &mut text[at..at + KEYS_DIGITS]);
        }
    }
}

#[inline]
fn put_decimal(value: u64, out: &mut [u8]) {
    let mut value = value;
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Run;
    use crate::testing::{role, target};

    fn own() -> Own {
        let run = Run {
            boot: 0x8001,
            run: 0xBEEF,
        };
        Own {
            stamp: Stamp::new(run, 7, 0x1234, 5_000),
            keys: 3,
        }
    }

    const KEY: &str = "8001BEEF000700000012340000000005";

    #[test]
    fn a_send_says_what_is_its_own() {
        let header = SendHeader::new(&role(Kind::Send), false, None, &target(), Some("A"));
        let mut out = Vec::new();
        header.write(FIRST_OPAQUE + 77, &own(), 1_700_000_000_123, 5, &mut out);
        out.extend_from_slice(b"hello");
        assert_eq!(frame::length(&out), Ok(Some(out.len())));
        let text = String::from_utf8(out[8..].to_vec()).unwrap();
        for part in [
            r#"{"code":310,"extFields":{"a":"G","b":"T","c":"TBW102","d":"4","e":"12","f":"0","g":"1700000000123","#,
            &format!(
                r#""i":"UNIQ_KEY\u0001{KEY}\u0002WAIT\u0001true\u0002TAGS\u0001A\u0002KEYS\u0001key-0000000003\u0002region\u0001\"eu\"\u0002""#
            ),
            r#""n":"broker-a"},"flag":0,"language":"JAVA","opaque":1000000077,"#,
        ] {
            assert!(text.contains(part), "{part} not in {text}");
        }
    }

    #[test]
    fn a_binary_send_says_the_same() {
        let header = SendHeader::new(&role(Kind::Oneway), true, None, &target(), None);
        let mut out = Vec::new();
        header.write(0x0102_0304, &own(), 1_700_000_000_123, 0, &mut out);
        assert_eq!(frame::length(&out), Ok(Some(out.len())));
        assert_eq!(out[4], 1);
        assert_eq!(out[8 + 5..8 + 13], [1, 2, 3, 4, 0, 0, 0, 2]);
        assert!(memmem::find(&out, KEY.as_bytes()).is_some());
        assert!(memmem::find(&out, b"1700000000123").is_some());
        assert!(memmem::find(&out, b"key-0000000003").is_some());
    }

    #[test]
    fn a_send_is_signed_as_it_is_written() {
        let signer = Credentials::new("me".into(), "secret", "tok".into());
        for (binary, keys) in [(false, 5), (true, 0)] {
            let mut role = role(Kind::Send);
            role.keys = keys;
            let header = SendHeader::new(&role, binary, Some(&signer), &target(), Some("A"));
            let mut out = Vec::new();
            header.write(FIRST_OPAQUE + 77, &own(), 1_700_000_000_123, 5, &mut out);
            out.extend_from_slice(b"hello");
            let mut unsigned = Unsigned::default();
            header.sign(&own(), 1_700_000_000_123, (0, out.len()), &mut unsigned);
            unsigned.sign(&signer, &mut out);
            let keys = if keys > 0 {
                "KEYS\u{1}key-0000000003\u{2}"
            } else {
                ""
            };
            let signed = format!(
                "metokGTTBW102412017000000001230UNIQ_KEY\u{1}{KEY}\u{2}WAIT\u{1}true\u{2}TAGS\u{1}A\u{2}\
                 {keys}region\u{1}\"eu\"\u{2}0falsefalsebroker-a"
            );
            let right = signer.sign(signed.as_bytes(), b"hello");
            assert!(
                memmem::find(&out, &right).is_some(),
                "{}",
                out.escape_ascii()
            );
            assert!(memmem::find(&out, b"!!!!").is_none());
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut long = role(Kind::Send);
        assert_eq!(check(&long), Ok(()));
        long.properties.push(("x".into(), "y".repeat(32_767)));
        assert!(check(&long).unwrap_err().contains("32767 at most"));
        let batch = role(Kind::Batch { messages: 200_000 });
        assert!(check(&batch).unwrap_err().contains("do not fit"));
        let mut many = role(Kind::Send);
        many.targets = vec![target(); 100_000];
        many.properties.push(("x".into(), "y".repeat(20_000)));
        assert!(check(&many).unwrap_err().contains("use fewer"));
    }

    #[test]
    fn kinds_have_their_properties() {
        for (kind, part) in [
            (
                Kind::Transaction { oneway: true },
                r#"TRAN_MSG\u0001true\u0002PGROUP\u0001G\u0002"#,
            ),
            (
                Kind::Delay {
                    level: 3,
                    ms: 10_000,
                },
                r#"DELAY\u00013\u0002"#,
            ),
            (
                Kind::Timer { ms: 2500 },
                r#"TIMER_DELAY_MS\u00012500\u0002"#,
            ),
        ] {
            let header = SendHeader::new(&role(kind), false, None, &target(), None);
            let text = String::from_utf8_lossy(&header.bytes).into_owned();
            assert!(text.contains(part), "{part} not in {text}");
        }
        let half = SendHeader::new(
            &role(Kind::Transaction { oneway: false }),
            false,
            None,
            &target(),
            None,
        );
        assert!(String::from_utf8_lossy(&half.bytes).contains(r#""f":"4""#));
    }

    #[test]
    fn the_entry_of_a_batch() {
        let entry = Entry::new(&role(Kind::Batch { messages: 2 }), None);
        let mut out = Vec::new();
        entry.write(&own(), b"abc", &mut out);
        assert_eq!(out.len(), entry.len(3));
        assert_eq!(out[..4], (out.len() as u32).to_be_bytes());
        assert_eq!(&out[20..23], b"abc");
        let text = String::from_utf8_lossy(&out[25..]).into_owned();
        assert!(text.starts_with(&format!("UNIQ_KEY\u{1}{KEY}\u{2}WAIT\u{1}true\u{2}")));
    }
}
