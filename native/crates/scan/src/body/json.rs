//! A reader of JSON that goes over a text once, and makes nothing of what nobody asks for.
//!
//! It takes what Spark's `from_json` takes: JSON, also with single quotes.

use std::borrow::Cow;

/// The text is no JSON from here on.
#[derive(Debug, PartialEq, Eq)]
pub struct Bad;

pub type Read<T> = Result<T, Bad>;

/// Deepest nesting.
const MAX_DEPTH: usize = 500;

pub struct Json<'a> {
    /// UTF-8.
    text: &'a str,
    at: usize,
}

/// What a value begins as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Object,
    Array,
    Text,
    Number,
    True,
    False,
    Null,
}

impl<'a> Json<'a> {
    pub fn new(text: &'a str) -> Self {
        Json { text, at: 0 }
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// The next character that is no blank; it stays.
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.bytes();
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(self.at) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    /// Whether only blanks are left.
    pub fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// What value comes next.
    pub fn kind(&mut self) -> Read<Kind> {
        Ok(match self.peek() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"' | b'\'') => Kind::Text,
            Some(b'-' | b'0'..=b'9') => Kind::Number,
            Some(b't') => Kind::True,
            Some(b'f') => Kind::False,
            Some(b'n') => Kind::Null,
            _ => return Err(Bad),
        })
    }

    fn takes(&mut self, wanted: u8) -> bool {
        let is_next = self.peek() == Some(wanted);
        self.at += usize::from(is_next);
        is_next
    }

    fn needs(&mut self, wanted: u8) -> Read<()> {
        if self.takes(wanted) { Ok(()) } else { Err(Bad) }
    }

    /// Goes into an object, and calls `member` in front of each value; it has to take the value.
    pub fn object(&mut self, mut member: impl FnMut(&mut Self, &str) -> Read<()>) -> Read<()> {
        self.needs(b'{')?;
        if self.takes(b'}') {
            return Ok(());
        }
        loop {
            self.peek();
            let name = self.string()?;
            self.needs(b':')?;
            member(self, &name)?;
            if self.takes(b'}') {
                return Ok(());
            }
            self.needs(b',')?;
        }
    }

    /// The same with an array.
    pub fn array(&mut self, mut item: impl FnMut(&mut Self) -> Read<()>) -> Read<()> {
        self.needs(b'[')?;
        if self.takes(b']') {
            return Ok(());
        }
        loop {
            item(self)?;
            if self.takes(b']') {
                return Ok(());
            }
            self.needs(b',')?;
        }
    }

    /// The text that comes next.
    pub fn string(&mut self) -> Read<Cow<'a, str>> {
        let quote = match self.bytes().get(self.at) {
            Some(&quote @ (b'"' | b'\'')) => quote,
            _ => return Err(Bad),
        };
        let start = self.at + 1;
        let bytes = self.bytes();
        let mut at = start;
        loop {
            match bytes.get(at) {
                None | Some(0..0x20) => return Err(Bad),
                Some(&b) if b == quote => break,
                Some(b'\\') => return self.escaped(start, at, quote),
                Some(_) => at += 1,
            }
        }
        self.at = at + 1;
        Ok(Cow::Borrowed(&self.text[start..at]))
    }

    #[cold]
    fn escaped(&mut self, start: usize, first: usize, quote: u8) -> Read<Cow<'a, str>> {
        let bytes = self.bytes();
        let mut out = String::with_capacity(first - start + 16);
        let (mut from, mut at) = (start, first);
        loop {
            match bytes.get(at) {
                None | Some(0..0x20) => return Err(Bad),
                Some(&b) if b == quote => break,
                Some(b'\\') => {
                    out.push_str(&self.text[from..at]);
                    let (c, behind) = self.escape(at + 1)?;
                    out.push(c);
                    (from, at) = (behind, behind);
                }
                Some(_) => at += 1,
            }
        }
        out.push_str(&self.text[from..at]);
        self.at = at + 1;
        Ok(Cow::Owned(out))
    }

    /// The character that an escape stands for, and the place behind it.
    fn escape(&self, at: usize) -> Read<(char, usize)> {
        let c = match self.bytes().get(at) {
            Some(&b @ (b'"' | b'\'' | b'\\' | b'/')) => b as char,
            Some(b'b') => '\x08',
            Some(b'f') => '\x0c',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unit(at + 1),
            _ => return Err(Bad),
        };
        Ok((c, at + 1))
    }

    fn unit(&self, at: usize) -> Read<(char, usize)> {
        let high = self.hex(at)?;
        if !(0xd800..0xdc00).contains(&high) {
            let c = char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER);
            return Ok((c, at + 4));
        }
        if self.bytes().get(at + 4..at + 6) == Some(b"\\u") {
            let low = self.hex(at + 6)?;
            if (0xdc00..0xe000).contains(&low) {
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                return Ok((c, at + 10));
            }
        }
        Ok((char::REPLACEMENT_CHARACTER, at + 4)) // half of a pair
    }

    fn hex(&self, at: usize) -> Read<u32> {
        let digits = self.bytes().get(at..at + 4).ok_or(Bad)?;
        digits.iter().try_fold(0, |sum, &digit| {
            Ok(sum * 16 + (digit as char).to_digit(16).ok_or(Bad)?)
        })
    }

    /// The number that comes next, as it stands there.
    pub fn number(&mut self) -> Read<&'a str> {
        let start = self.at;
        let bytes = self.bytes();
        let digits = |from: usize| {
            let run = bytes.get(from..).unwrap_or_default();
            run.iter().take_while(|b| b.is_ascii_digit()).count()
        };
        let mut at = start + usize::from(bytes.get(start) == Some(&b'-'));
        match digits(at) {
            0 => return Err(Bad),
            1 => at += 1,
            _ if bytes[at] == b'0' => return Err(Bad),
            count => at += count,
        }
        if bytes.get(at) == Some(&b'.') {
            match digits(at + 1) {
                0 => return Err(Bad),
                count => at += 1 + count,
            }
        }
        if let Some(b'e' | b'E') = bytes.get(at) {
            at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            match digits(at) {
                0 => return Err(Bad),
                count => at += count,
            }
        }
        if bytes
            .get(at)
            .is_some_and(|&b| b.is_ascii_alphanumeric() || b == b'_')
        {
            return Err(Bad);
        }
        self.at = at;
        Ok(&self.text[start..at])
    }

    /// true, false or null.
    pub fn word(&mut self, word: &str) -> Read<()> {
        let rest = &self.bytes()[self.at..];
        let behind = rest.get(word.len()).copied().unwrap_or(b' ');
        if !rest.starts_with(word.as_bytes()) || behind.is_ascii_alphanumeric() || behind == b'_' {
            return Err(Bad);
        }
        self.at += word.len();
        Ok(())
    }

    /// Passes over a value.
    pub fn skip(&mut self) -> Read<()> {
        self.skip_at(0)
    }

    fn skip_at(&mut self, depth: usize) -> Read<()> {
        if depth > MAX_DEPTH {
            return Err(Bad);
        }
        match self.kind()? {
            Kind::Object => self.object(|json, _| json.skip_at(depth + 1)),
            Kind::Array => self.array(|json| json.skip_at(depth + 1)),
            Kind::Text => self.string().map(drop),
            Kind::Number => self.number().map(drop),
            Kind::True => self.word("true"),
            Kind::False => self.word("false"),
            Kind::Null => self.word("null"),
        }
    }

    /// Passes over a value, and gives its JSON without blanks.
    pub fn compact(&mut self, out: &mut Vec<u8>) -> Read<()> {
        self.peek();
        let start = self.at;
        self.skip()?;
        let mut quote = None;
        let mut bytes = self.text[start..self.at].bytes();
        while let Some(b) = bytes.next() {
            match (quote, b) {
                (None, b' ' | b'\n' | b'\r' | b'\t') => continue,
                (None, b'"' | b'\'') => quote = Some(b),
                (Some(_), b'\\') => {
                    out.push(b);
                    out.extend(bytes.next());
                    continue;
                }
                (Some(open), b) if b == open => quote = None,
                _ => {}
            }
            out.push(b);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_json(text: &str) -> bool {
        let mut json = Json::new(text);
        json.skip() == Ok(()) && json.is_at_end()
    }

    #[test]
    fn what_is_json() {
        for good in [
            r#"{"a": [1, -0.5e+3, "x\u00e9\n", true, false, null], "b": {}}"#,
            "[]",
            "{'a': 'it is \"so\"'}",
            " 1 ",
        ] {
            assert!(is_json(good), "{good}");
        }
        for bad in [
            "",
            "{",
            "[1,]",
            "{\"a\"}",
            "{\"a\":}",
            "{a:1}",
            "01",
            "1.",
            "-",
            "1e",
            "tru",
            "nulls",
            "\"\n\"",
            "\"\\x\"",
            "\"\\u12\"",
            "[1 2]",
            "+1",
            "\"a",
            "1a",
            "{\"a\":1,}",
        ] {
            assert!(!is_json(bad), "{bad}");
        }
        assert!(!is_json(&"[".repeat(1_000_000)));
        let deep = MAX_DEPTH - 1;
        assert!(is_json(&("[".repeat(deep) + &"]".repeat(deep))));
    }

    #[test]
    fn texts() {
        let read = |text: &str| Json::new(text).string().map(Cow::into_owned);
        assert_eq!(
            read(r#""a\"\\\/\b\f\n\r\tz""#).unwrap(),
            "a\"\\/\x08\x0c\n\r\tz"
        );
        assert_eq!(read(r#""\ud83d\ude00\u00e9""#).unwrap(), "\u{1f600}é");
        assert_eq!(read(r#""\ud83dx\ude00""#).unwrap(), "\u{fffd}x\u{fffd}");
        assert_eq!(read(r#""\ud83d\u0041""#).unwrap(), "\u{fffd}A");
    }

    #[test]
    fn compact_json() {
        let mut out = Vec::new();
        let text = " { \"a b\" : [ 1 , \"x \\\" y\" ] , \"c\" : null } ";
        Json::new(text).compact(&mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"a b":[1,"x \" y"],"c":null}"#
        );
    }

    proptest! {
        #[test]
        fn the_same_as_serde(text in "[\\[\\]{}\",:0-9ae. \\\\nultrfs-]{0,24}") {
            // Single quotes are no part of these; a number of serde is bounded.
            let serde = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            prop_assert_eq!(is_json(&text), serde, "{}", text);
        }
    }
}
