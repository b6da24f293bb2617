//! Remoting frames: requests written once with a JSON header, answers read without a JSON parser.
//!
//! Layout (spec: remoting, "Frame"): int32 length of the rest, one byte serialize type, uint24
//! header length, header, body; everything big-endian.

/// Largest value of the length field: 16 MiB less the field itself.
const MAX_TOTAL: usize = (16 << 20) - 4;
const VERSION: i32 = 479;
/// Bits of the flag field.
const ANSWER: i64 = 1;
const ONEWAY: i32 = 2;
/// Opaques start here so that they always have ten digits and can be patched in place.
pub const FIRST_OPAQUE: i32 = 1_000_000_000;

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A JSON string literal, quotes included.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote(text, &mut out);
    out
}

/// One whole request frame, its header in the key order of the Java client.
pub fn request(code: i32, fields: &[(&str, &str)], opaque: i32, body: &[u8]) -> Vec<u8> {
    encode(code, fields, 0, opaque, body)
}

/// A request that nobody answers.
pub fn oneway(code: i32, fields: &[(&str, &str)], opaque: i32, body: &[u8]) -> Vec<u8> {
    encode(code, fields, ONEWAY, opaque, body)
}

fn encode(code: i32, fields: &[(&str, &str)], flag: i32, opaque: i32, body: &[u8]) -> Vec<u8> {
    let mut h = format!("{{\"code\":{code},\"extFields\":{{");
    for (i, (key, value)) in fields.iter().enumerate() {
        if i > 0 {
            h.push(',');
        }
        quote(key, &mut h);
        h.push(':');
        quote(value, &mut h);
    }
    h.push_str(&format!(
        "}},\"flag\":{flag},\"language\":\"JAVA\",\"opaque\":{opaque},\
         \"serializeTypeCurrentRPC\":\"JSON\",\"version\":{VERSION}}}"
    ));
    let mut frame = Vec::with_capacity(8 + h.len() + body.len());
    frame.extend_from_slice(&((4 + h.len() + body.len()) as u32).to_be_bytes());
    frame.extend_from_slice(&(h.len() as u32).to_be_bytes()); // serialize type 0 in the top byte
    frame.extend_from_slice(h.as_bytes());
    frame.extend_from_slice(body);
    frame
}

/// Where `needle` begins in `hay`.
pub fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    if hay.is_empty() {
        return None;
    }
    // SAFETY: both pointers cover the lengths given, and memmem only reads.
    let at = unsafe {
        libc::memmem(
            hay.as_ptr().cast(),
            hay.len(),
            needle.as_ptr().cast(),
            needle.len(),
        )
    };
    (!at.is_null()).then(|| at as usize - hay.as_ptr() as usize)
}

/// Bytes of the frame that `buf` begins with, `None` when its length is not there yet.
pub fn length(buf: &[u8]) -> Result<Option<usize>, String> {
    let Some(head) = buf.first_chunk::<4>() else {
        return Ok(None);
    };
    let total = u32::from_be_bytes(*head) as usize;
    if !(4..=MAX_TOTAL).contains(&total) {
        return Err(format!("a frame of length {total} came"));
    }
    Ok(Some(4 + total))
}

/// An answer (or a request that came in), not copied.
pub struct Answer<'a> {
    pub code: i32,
    pub opaque: i32,
    pub body: &'a [u8],
    header: &'a [u8],
    binary: bool,
}

/// Reads answers. It remembers where `code` (counted from the start of the header) and `opaque`
/// (from its end) stood the last time: a broker writes all its answers alike, so the search is
/// needed only for the first one and when a digit more appears in front.
#[derive(Default)]
pub struct Reader {
    code_at: usize,
    opaque_back: usize,
}

const CODE: &[u8] = b"\"code\":";
const OPAQUE: &[u8] = b"\"opaque\":";

fn integer(text: &[u8]) -> Option<i64> {
    let (sign, text) = match text.first()? {
        b'-' => (-1, &text[1..]),
        _ => (1, text),
    };
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).take(18);
    let mut seen = false;
    let value = digits.fold(0i64, |v, b| {
        seen = true;
        v * 10 + i64::from(b - b'0')
    });
    seen.then_some(sign * value)
}

impl Reader {
    pub fn read<'a>(&mut self, frame: &'a [u8]) -> Result<Answer<'a>, String> {
        if frame.len() < 8 {
            return Err("a frame without a header came".into());
        }
        let kind = frame[4];
        let length = u32::from_be_bytes([0, frame[5], frame[6], frame[7]]) as usize;
        let Some(header) = frame.get(8..8 + length) else {
            return Err("a header longer than its frame came".into());
        };
        let body = &frame[8 + length..];
        let (code, opaque) = match kind {
            0 => {
                let bad = || format!("not an answer: {}", String::from_utf8_lossy(header));
                let code = self.code(header).ok_or_else(bad)?;
                (code as i32, self.opaque(header).ok_or_else(bad)? as i32)
            }
            1 if header.len() >= 21 => (
                i32::from(i16::from_be_bytes([header[0], header[1]])),
                i32::from_be_bytes([header[5], header[6], header[7], header[8]]),
            ),
            other => return Err(format!("serialize type {other} came")),
        };
        Ok(Answer {
            code,
            opaque,
            body,
            header,
            binary: kind == 1,
        })
    }

    fn code(&mut self, header: &[u8]) -> Option<i64> {
        if header
            .get(self.code_at..)
            .is_some_and(|h| h.starts_with(CODE))
        {
            return integer(&header[self.code_at + CODE.len()..]);
        }
        self.code_at = find(header, CODE)?;
        integer(&header[self.code_at + CODE.len()..])
    }

    fn opaque(&mut self, header: &[u8]) -> Option<i64> {
        if let Some(at) = header.len().checked_sub(self.opaque_back) {
            if header[at..].starts_with(OPAQUE) {
                return integer(&header[at + OPAQUE.len()..]);
            }
        }
        let at = find(header, OPAQUE)?;
        self.opaque_back = header.len() - at;
        integer(&header[at + OPAQUE.len()..])
    }
}

impl Answer<'_> {
    /// An integer ext field.
    pub fn field(&self, name: &str) -> Option<i64> {
        self.text(name).and_then(integer)
    }

    /// An ext field as it stands there (of a JSON header: without quotes inside).
    pub fn text(&self, name: &str) -> Option<&[u8]> {
        if self.binary {
            return self.binary_field(name.as_bytes());
        }
        let mut key = [b'"'; 40];
        let end = name.len() + 4;
        key.get_mut(1..name.len() + 1)?
            .copy_from_slice(name.as_bytes());
        key.get_mut(name.len() + 2..end)?.copy_from_slice(b":\"");
        let from = find(self.header, &key[..end])? + end;
        let text = &self.header[from..];
        Some(&text[..text.iter().position(|b| *b == b'"')?])
    }

    fn flag(&self) -> Option<i64> {
        if self.binary {
            return Some(i64::from(self.header[12]));
        }
        const FLAG: &[u8] = b"\"flag\":";
        let at = find(self.header, FLAG)?;
        integer(&self.header[at + FLAG.len()..])
    }

    /// Whether it is a request and no answer.
    pub fn is_request(&self) -> bool {
        self.flag().is_some_and(|flag| flag & ANSWER == 0)
    }

    fn binary_field(&self, name: &[u8]) -> Option<&[u8]> {
        let int = |at: usize| {
            let four = self.header.get(at..at + 4)?;
            Some(u32::from_be_bytes([four[0], four[1], four[2], four[3]]) as usize)
        };
        let mut at = 21 + int(13)?; // past the remark and the map's length
        while let Some(two) = self.header.get(at..at + 2) {
            let key_end = at + 2 + usize::from(u16::from_be_bytes([two[0], two[1]]));
            let end = key_end + 4 + int(key_end)?;
            if self.header.get(at + 2..key_end)? == name {
                return self.header.get(key_end + 4..end);
            }
            at = end;
        }
        None
    }

    /// What the broker said about a refusal, for a person to read.
    pub fn complaint(&self) -> String {
        let text = String::from_utf8_lossy(self.header);
        let text: String = match text.find("\"remark\":\"") {
            Some(at) => text[at + 10..]
                .chars()
                .take_while(|c| *c != '"')
                .take(200)
                .collect(),
            None => String::new(),
        };
        format!("code {} {}", self.code, text)
            .trim_end()
            .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request worked out byte by byte (checked there against
    /// the Java encoder).
    #[test]
    fn request_equals_the_java_encoders() {
        let props =
            "UNIQ_KEY\u{1}AC110001000118B4AAC200000000\u{2}WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}";
        let fields = [
            ("a", "PG"),
            ("b", "TopicTest"),
            ("c", "TBW102"),
            ("d", "4"),
            ("e", "0"),
            ("f", "0"),
            ("g", "1700000000000"),
            ("h", "0"),
            ("i", props),
            ("j", "0"),
            ("k", "false"),
            ("m", "false"),
            ("n", "broker-a"),
        ];
        let frame = request(310, &fields, 1, b"hello");
        assert_eq!(frame.len(), 356);
        assert_eq!(frame[..8], [0, 0, 1, 0x60, 0, 0, 1, 0x57]);
        let text = String::from_utf8(frame[8..].to_vec()).unwrap();
        assert!(text.starts_with(r#"{"code":310,"extFields":{"a":"PG","b":"TopicTest""#));
        assert!(text.contains(r#""i":"UNIQ_KEY\u0001AC110001000118B4AAC200000000\u0002WAIT"#));
        assert!(text.ends_with(
            r#""n":"broker-a"},"flag":0,"language":"JAVA","opaque":1,"serializeTypeCurrentRPC":"JSON","version":479}hello"#
        ));
    }

    fn answer(header: &str, body: &[u8]) -> Vec<u8> {
        let mut f = ((4 + header.len() + body.len()) as u32)
            .to_be_bytes()
            .to_vec();
        f.extend_from_slice(&(header.len() as u32).to_be_bytes());
        f.extend_from_slice(header.as_bytes());
        f.extend_from_slice(body);
        f
    }

    #[test]
    fn reads_answers_wherever_the_keys_stand() {
        let mut r = Reader::default();
        for (header, code, opaque) in [
            (
                r#"{"code":0,"extFields":{"nextBeginOffset":"64"},"flag":1,"opaque":1000000007,"version":479}"#,
                0,
                1_000_000_007,
            ),
            (
                r#"{"code":10,"flag":1,"opaque":1000000008,"version":479}"#,
                10,
                1_000_000_008,
            ),
            (
                r#"{"opaque":-5,"version":9,"remark":"a \"code\":7","code":-3}"#,
                -3,
                -5,
            ),
            (r#"{"code":0,"flag":1,"opaque":12,"version":479}"#, 0, 12),
        ] {
            let frame = answer(header, b"xy");
            let a = r.read(&frame).unwrap();
            assert_eq!(
                (a.code, a.opaque, a.body),
                (code, opaque, &b"xy"[..]),
                "{header}"
            );
        }
        let frame = answer(
            r#"{"code":0,"extFields":{"nextBeginOffset":"64"},"opaque":1}"#,
            b"",
        );
        let a = r.read(&frame).unwrap();
        assert_eq!(
            (a.field("nextBeginOffset"), a.field("maxOffset")),
            (Some(64), None)
        );
    }

    #[test]
    fn reads_binary_answers() {
        let mut h = vec![0, 0, 0, 1, 0xdf, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 1, b'r'];
        let map = [
            &[0, 1, b'a', 0, 0, 0, 1, b'7'][..],
            &[0, 1, b'b', 0, 0, 0, 2, b'4', b'2'],
        ]
        .concat();
        h.extend_from_slice(&(map.len() as u32).to_be_bytes());
        h.extend_from_slice(&map);
        let mut f = ((4 + h.len()) as u32).to_be_bytes().to_vec();
        f.extend_from_slice(&(h.len() as u32 | 1 << 24).to_be_bytes());
        f.extend_from_slice(&h);
        let mut r = Reader::default();
        let a = r.read(&f).unwrap();
        assert_eq!(
            (a.code, a.opaque, a.field("b"), a.field("z")),
            (0, 9, Some(42), None)
        );
    }

    #[test]
    fn refuses_nonsense() {
        assert!(length(&[0, 0]).unwrap().is_none());
        assert_eq!(length(&[0, 0, 0, 4]).unwrap(), Some(8));
        assert!(length(&[0, 0, 0, 0]).is_err());
        assert!(length(&[0xff, 0, 0, 0]).is_err());
        let mut r = Reader::default();
        assert!(r.read(&[0, 0, 0, 4, 0, 0, 0, 1]).is_err());
        assert!(r.read(&[0, 0, 0, 4, 0, 0, 0, 0]).is_err());
        assert!(r.read(&[0, 0, 0, 4, 7, 0, 0, 0]).is_err());
    }
}
