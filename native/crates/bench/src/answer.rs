//! Answers, read without a JSON parser: a generator needs few of their fields.

use crate::frame::{ANSWER, ONEWAY};
use memchr::memmem;
use pyrmq_format::parse_i64;

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
const FLAG: &[u8] = b"\"flag\":";

/// The integer that a text begins with; None of one that no 64 bits hold.
fn integer(text: &[u8]) -> Option<i64> {
    let sign = usize::from(text.first()? == &b'-');
    let digits = text[sign..].iter().take_while(|b| b.is_ascii_digit());
    parse_i64(&text[..sign + digits.take(20).count()])
}

fn int32(text: &[u8]) -> Option<i32> {
    integer(text)?.try_into().ok()
}

/// A JSON string up to its closing quote, for people: what it escapes as it is meant, as far as that
/// is one character of UTF-16.
fn unquoted(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut letters = text.chars();
    let mut out = String::new();
    while out.len() < 1000 {
        match letters.next() {
            None | Some('"') => break,
            Some('\\') => match letters.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some('u') => {
                    let digits: String = letters.by_ref().take(4).collect();
                    let code = u32::from_str_radix(&digits, 16).ok();
                    out.push(code.and_then(char::from_u32).unwrap_or('\u{fffd}'));
                }
                Some(letter) => out.push(letter),
                None => break,
            },
            Some(letter) => out.push(letter),
        }
    }
    out
}

impl Reader {
    /// A frame whose length is right.
    pub fn read<'a>(&mut self, frame: &'a [u8]) -> Result<Answer<'a>, String> {
        if frame.len() < 8 {
            return Err("a frame without a header came".into());
        }
        let kind = frame[4];
        let length = u32::from_be_bytes([0, frame[5], frame[6], frame[7]]) as usize;
        let Some(header) = frame.get(8..8 + length) else {
            return Err("a header longer than its frame came".into());
        };
        let (code, opaque) = match kind {
            0 => {
                let bad = || {
                    "a header without code and opaque, or with impossible ones, came".to_string()
                };
                let code = self.code(header).ok_or_else(bad)?;
                (code, self.opaque(header).ok_or_else(bad)?)
            }
            1 if header.len() >= 21 => (
                i32::from(i16::from_be_bytes([header[0], header[1]])),
                i32::from_be_bytes([header[5], header[6], header[7], header[8]]),
            ),
            other => return Err(format!("a header of serialize type {other} came")),
        };
        Ok(Answer {
            code,
            opaque,
            body: &frame[8 + length..],
            header,
            binary: kind == 1,
        })
    }

    fn code(&mut self, header: &[u8]) -> Option<i32> {
        // A shorter header than the last one may end in front of that place.
        let here = header.get(self.code_at..);
        if !here.is_some_and(|here| here.starts_with(CODE)) {
            self.code_at = memmem::find(header, CODE)?;
        }
        int32(&header[self.code_at + CODE.len()..])
    }

    fn opaque(&mut self, header: &[u8]) -> Option<i32> {
        if let Some(at) = header.len().checked_sub(self.opaque_back)
            && header[at..].starts_with(OPAQUE)
        {
            return int32(&header[at + OPAQUE.len()..]);
        }
        let at = memmem::find(header, OPAQUE)?;
        self.opaque_back = header.len() - at;
        int32(&header[at + OPAQUE.len()..])
    }
}

impl Answer<'_> {
    /// An integer ext field.
    pub fn field(&self, name: &str) -> Option<i64> {
        self.text(name).and_then(integer)
    }

    /// An ext field as it stands there (of a JSON header: one without quotes inside).
    pub fn text(&self, name: &str) -> Option<&[u8]> {
        if self.binary {
            return self.binary_field(name.as_bytes());
        }
        let mut key = [b'"'; 40];
        let end = name.len() + 4;
        key.get_mut(1..name.len() + 1)?
            .copy_from_slice(name.as_bytes());
        key.get_mut(name.len() + 2..end)?.copy_from_slice(b":\"");
        let from = memmem::find(self.header, &key[..end])? + end;
        let text = &self.header[from..];
        Some(&text[..memchr::memchr(b'"', text)?])
    }

    fn flag(&self) -> Option<i64> {
        if self.binary {
            return Some(i64::from(self.header[12]));
        }
        memmem::find(self.header, FLAG).and_then(|at| integer(&self.header[at + FLAG.len()..]))
    }

    /// Whether it is a request and no answer.
    pub fn is_request(&self) -> bool {
        self.flag()
            .is_some_and(|flag| flag & i64::from(ANSWER) == 0 || flag & i64::from(ONEWAY) != 0)
    }

    /// Whether it is a request that nobody answers.
    pub fn is_oneway(&self) -> bool {
        self.flag()
            .is_some_and(|flag| flag & i64::from(ANSWER | ONEWAY) == i64::from(ONEWAY))
    }

    fn binary_field(&self, name: &[u8]) -> Option<&[u8]> {
        let int = |at: usize| {
            let four = self.header.get(at..at.checked_add(4)?)?;
            Some(u32::from_be_bytes([four[0], four[1], four[2], four[3]]) as usize)
        };
        let mut at = int(13)?.checked_add(21)?; // past the remark and the map's length
        while let Some(two) = self.header.get(at..at.checked_add(2)?) {
            let key_end = at + 2 + usize::from(u16::from_be_bytes([two[0], two[1]]));
            let end = int(key_end)?.checked_add(key_end + 4)?;
            if self.header.get(at + 2..key_end)? == name {
                return self.header.get(key_end + 4..end);
            }
            at = end;
        }
        None
    }

    /// What the broker said about a refusal, for people to read: at most 200 characters.
    pub fn remark(&self) -> String {
        let text = if self.binary {
            let length = u32::from_be_bytes(self.header[13..17].try_into().unwrap_or_default());
            let end = 17usize.saturating_add(length as usize);
            String::from_utf8_lossy(self.header.get(17..end).unwrap_or_default()).into_owned()
        } else {
            match memmem::find(self.header, b"\"remark\":\"") {
                Some(at) => unquoted(&self.header[at + 10..]),
                None => String::new(),
            }
        };
        text.chars().take(200).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answer(header: &str, body: &[u8]) -> Vec<u8> {
        let mut f = crate::frame::head(false, header.len(), body.len()).to_vec();
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
                r#"{"opaque":-5,"version":9,"remark":"why","code":-3}"#,
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
        let said = r#"{"code":1,"opaque":1,"remark":"\"x\" \u00e9\n\\ ","z":"y"}"#;
        let frame = answer(said, b"");
        assert_eq!(r.read(&frame).unwrap().remark(), "\"x\" é\n\\ ");
        let frame = answer(
            r#"{"code":14,"extFields":{"nextBeginOffset":"64"},"flag":1,"opaque":1,"remark":"disk full"}"#,
            b"",
        );
        let a = r.read(&frame).unwrap();
        assert_eq!(
            (a.field("nextBeginOffset"), a.field("maxOffset")),
            (Some(64), None)
        );
        assert_eq!((a.remark().as_str(), a.is_request()), ("disk full", false));
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
        let mut f = crate::frame::head(true, h.len(), 0).to_vec();
        f.extend_from_slice(&h);
        let mut r = Reader::default();
        let a = r.read(&f).unwrap();
        assert_eq!(
            (a.code, a.opaque, a.field("b"), a.field("z")),
            (0, 9, Some(42), None)
        );
        assert_eq!((a.remark().as_str(), a.is_request()), ("r", false));
    }

    #[test]
    fn a_number_that_does_not_fit_is_none() {
        let mut r = Reader::default();
        for (code, opaque) in [
            ("4294967296", "7"), // would be SUCCESS
            ("-4294967296", "7"),
            ("0", "4294967303"), // would be another's
            ("18446744073709551616", "7"),
            ("99999999999999999999999", "7"),
            ("-", "7"),
            ("", "7"),
        ] {
            let frame = answer(
                &format!(r#"{{"code":{code},"flag":1,"opaque":{opaque}}}"#),
                b"",
            );
            assert!(r.read(&frame).is_err(), "{code} {opaque}");
        }
        let last = answer(
            r#"{"code":0,"extFields":{"a":"9223372036854775807","b":"9223372036854775808"},"opaque":7}"#,
            b"",
        );
        let a = r.read(&last).unwrap();
        assert_eq!((a.field("a"), a.field("b")), (Some(i64::MAX), None));
    }

    proptest! {
        /// A broker may answer with anything: an answer or an error, and nothing outside of the frame.
        #[test]
        fn any_answer_is_read_or_refused(
            kind in 0u8..3, length in 0u32..80,
            header in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..80),
                "[{}\\\\\"]{0,3}(\"code\":-?[0-9]{0,22},|\"opaque\":|\"flag\":|\"remark\":\"|\"a\":\"[0-9\"]{0,4}){0,6}"
                    .prop_map(String::into_bytes),
            ],
        ) {
            let mut r = Reader::default();
            let mut frame = crate::frame::head(false, length as usize, 0).to_vec();
            frame[4] = kind;
            frame.extend_from_slice(&header);
            // What it remembers of one answer is no promise of the next.
            let usual = answer(r#"{"code":0,"flag":1,"opaque":5}"#, b"");
            for frame in [&usual, &frame, &usual, &frame] {
                let Ok(a) = r.read(frame) else { continue };
                prop_assert!(a.body.len() <= frame.len());
                let told = (a.text("a"), a.field("a"), a.is_request());
                prop_assert!(told.0.is_none_or(|text| text.len() < frame.len()));
                prop_assert!(a.remark().chars().count() <= 200);
            }
            prop_assert_eq!(r.read(&usual).unwrap().opaque, 5);
        }
    }

    #[test]
    fn refuses_nonsense() {
        let mut r = Reader::default();
        for bytes in [
            &[0, 0, 0, 4][..],
            &[0, 0, 0, 4, 0, 0, 0, 1],
            &[0, 0, 0, 4, 0, 0, 0, 0],
            &[0, 0, 0, 4, 7, 0, 0, 0],
        ] {
            assert!(r.read(bytes).is_err());
        }
    }
}
