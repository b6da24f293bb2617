//! A tolerant JSON reader, for what fastjson 1.2 writes and accepts: unquoted and integer keys,
//! objects as keys, single quotes, trailing commas. Depth is bounded; size is the caller's bound.
//!
//! `Scanner` walks the text without building anything (headers); `parse` builds a tree (bodies).

/// Deepest nesting that is read.
pub const MAX_DEPTH: usize = 64;
/// Most values that a body may hold: each becomes an object of its own.
pub const MAX_VALUES: usize = 1 << 20;

pub type JsonResult<T> = Result<T, String>;

/// A place in the text: a string without its quotes, or a bare word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Raw {
    pub start: u32,
    pub end: u32,
    pub escaped: bool,
    pub quoted: bool,
}

impl Raw {
    #[inline]
    pub fn bytes<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.start as usize..self.end as usize]
    }

    /// Appends what the string means.
    pub fn unescape(&self, text: &[u8], out: &mut Vec<u8>) -> JsonResult<()> {
        let raw = self.bytes(text);
        if !self.escaped {
            out.extend_from_slice(raw);
            return Ok(());
        }
        unescape(raw, out)
    }

    pub fn is_null(&self, text: &[u8]) -> bool {
        !self.quoted && self.bytes(text) == b"null"
    }
}

/// What is escaped is never longer than its escape. So there is room for it, and for copying sixteen
/// bytes at a time, of which those behind an escape are written again.
fn unescape(mut raw: &[u8], out: &mut Vec<u8>) -> JsonResult<()> {
    let mut at = out.len();
    out.resize(at + raw.len() + 16, 0);
    let done = loop {
        let mut plain = 0;
        while let Some(chunk) = raw[plain..].first_chunk::<16>() {
            out[at..at + 16].copy_from_slice(chunk);
            let hits = hits_16(chunk, b'\\', b'\\');
            let n = (hits | 1 << 16).trailing_zeros() as usize;
            (plain, at) = (plain + n, at + n);
            if n < 16 {
                break;
            }
        }
        while let Some(&b) = raw.get(plain).filter(|b| **b != b'\\') {
            out[at] = b;
            (plain, at) = (plain + 1, at + 1);
        }
        if plain == raw.len() {
            break Ok(());
        }
        raw = &raw[plain + 1..];
        // The separators of properties, as JSON has them.
        if let [b'u', b'0', b'0', b'0', digit @ b'0'..=b'9', rest @ ..] = raw {
            out[at] = digit - b'0';
            at += 1;
            raw = rest;
            continue;
        }
        match escape(&mut raw, &mut out[at..]) {
            Ok(n) => at += n,
            Err(e) => break Err(e),
        }
    };
    out.truncate(at);
    done
}

/// Writes what an escape means to `out` and returns how many bytes that takes; `raw` is what follows the
/// backslash, and then what follows the escape.
fn escape(raw: &mut &[u8], out: &mut [u8]) -> JsonResult<usize> {
    let (&kind, rest) = raw.split_first().ok_or("text ends in an escape")?;
    *raw = rest;
    out[0] = match kind {
        b'u' => {
            let mut unit = hex4(rest)?;
            *raw = &rest[4..];
            if (0xD800..0xDC00).contains(&unit) && raw.starts_with(b"\\u") {
                let low = hex4(&raw[2..])?;
                if (0xDC00..0xE000).contains(&low) {
                    unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                    *raw = &raw[6..];
                }
            }
            let c = char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER);
            return Ok(c.encode_utf8(out).len());
        }
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 8,
        b'f' => 12,
        b'v' => 11,
        b'"' | b'\\' | b'/' | b'\'' => kind,
        other => return Err(format!("unknown escape \\{}", other.escape_ascii())),
    };
    Ok(1)
}

fn hex4(raw: &[u8]) -> JsonResult<u32> {
    let digits = raw.get(..4).ok_or("text ends in an escape")?;
    digits.iter().try_fold(0, |n, &d| {
        let v = (d as char)
            .to_digit(16)
            .ok_or("escape is not hexadecimal")?;
        Ok(n * 16 + v)
    })
}

pub struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a [u8]) -> Self {
        Scanner { text, at: 0 }
    }

    fn fail<T>(&self, what: &str) -> JsonResult<T> {
        Err(format!("{what} at byte {}", self.at))
    }

    /// The next byte that is not white space.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(&b) = self.text.get(self.at) {
            if b > b' ' {
                return Some(b);
            }
            self.at += 1;
        }
        None
    }

    #[inline]
    pub fn eat(&mut self, b: u8) -> bool {
        let hit = self.peek() == Some(b);
        self.at += hit as usize;
        hit
    }

    pub fn expect(&mut self, b: u8) -> JsonResult<()> {
        if self.eat(b) {
            Ok(())
        } else {
            self.fail(&format!("'{}' expected", b as char))
        }
    }

    /// A quoted string, or a bare word (number, true, false, null, an unquoted key).
    #[inline]
    pub fn scalar(&mut self) -> JsonResult<Raw> {
        match self.peek() {
            Some(quote @ (b'"' | b'\'')) => self.string(quote),
            Some(_) => self.bare(),
            None => self.fail("text ends too early"),
        }
    }

    #[inline]
    fn string(&mut self, quote: u8) -> JsonResult<Raw> {
        let start = self.at + 1;
        let mut at = start;
        let mut escaped = false;
        loop {
            at = end_of_plain(self.text, at, quote);
            match self.text.get(at) {
                Some(&b) if b == quote => break,
                Some(_) => {
                    escaped = true;
                    at += 2;
                }
                None => return self.fail("string without an end"),
            }
        }
        self.at = at + 1;
        Ok(Raw {
            start: start as u32,
            end: at as u32,
            escaped,
            quoted: true,
        })
    }

    fn bare(&mut self) -> JsonResult<Raw> {
        let start = self.at;
        while let Some(&b) = self.text.get(self.at) {
            if b <= b' ' || matches!(b, b',' | b':' | b'{' | b'}' | b'[' | b']' | b'"' | b'\'') {
                break;
            }
            self.at += 1;
        }
        if self.at == start {
            return self.fail("value expected");
        }
        Ok(Raw {
            start: start as u32,
            end: self.at as u32,
            escaped: false,
            quoted: false,
        })
    }

    /// Walks the members of an object: `on` gets each key and must consume the value.
    pub fn object(
        &mut self,
        mut on: impl FnMut(&mut Self, Raw) -> JsonResult<()>,
    ) -> JsonResult<()> {
        self.expect(b'{')?;
        loop {
            if self.eat(b'}') {
                return Ok(());
            }
            let key = self.scalar()?;
            self.expect(b':')?;
            on(self, key)?;
            if !self.eat(b',') {
                return self.expect(b'}');
            }
        }
    }

    /// Walks over any value.
    pub fn skip(&mut self, depth: usize) -> JsonResult<()> {
        if depth > MAX_DEPTH {
            return self.fail("nested too deep");
        }
        match self.peek() {
            Some(b'{') => {
                self.at += 1;
                while !self.eat(b'}') {
                    self.skip(depth + 1)?; // a key may be an object
                    self.expect(b':')?;
                    self.skip(depth + 1)?;
                    if !self.eat(b',') {
                        return self.expect(b'}');
                    }
                }
                Ok(())
            }
            Some(b'[') => {
                self.at += 1;
                while !self.eat(b']') {
                    self.skip(depth + 1)?;
                    if !self.eat(b',') {
                        return self.expect(b']');
                    }
                }
                Ok(())
            }
            _ => self.scalar().map(drop),
        }
    }

    pub fn end(&mut self) -> JsonResult<()> {
        if self.peek().is_none() {
            Ok(())
        } else {
            self.fail("text behind the value")
        }
    }
}

/// Position of the next `quote` or backslash from `at` on, or the text's end.
#[inline]
pub fn end_of_plain(text: &[u8], at: usize, quote: u8) -> usize {
    next_of(text, at, quote, b'\\')
}

/// Position of the next `wanted` from `at` on, or the text's end.
#[inline]
pub fn next(text: &[u8], at: usize, wanted: u8) -> usize {
    next_of(text, at, wanted, wanted)
}

/// Position of the next `a` or `b`. Sixteen bytes at a time, where it is called: the strings of a header
/// are too short for a call into a vectorised search to pay.
#[inline]
fn next_of(text: &[u8], mut at: usize, a: u8, b: u8) -> usize {
    while let Some(chunk) = text.get(at..).and_then(|t| t.first_chunk::<16>()) {
        let hits = hits_16(chunk, a, b);
        if hits != 0 {
            return at + hits.trailing_zeros() as usize;
        }
        at += 16;
    }
    let rest = text.get(at..).unwrap_or_default();
    let found = rest.iter().position(|&c| c == a || c == b);
    found.map_or(at.max(text.len()), |n| at + n)
}

/// Which bytes are `a` or `b`, the first one in the lowest bit.
#[cfg(target_arch = "x86_64")]
#[inline]
fn hits_16(chunk: &[u8; 16], a: u8, b: u8) -> u32 {
    use std::arch::x86_64::*;
    // SAFETY: every x86-64 processor has SSE2, and the load is of 16 readable bytes that need no
    // alignment.
    unsafe {
        let x = _mm_loadu_si128(chunk.as_ptr().cast());
        let is = |b: u8| _mm_cmpeq_epi8(x, _mm_set1_epi8(b as i8));
        _mm_movemask_epi8(_mm_or_si128(is(a), is(b))) as u32
    }
}

#[cfg(not(target_arch = "x86_64"))]
use plain_hits_16 as hits_16;

/// The same for processors without vectors that are known here.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline]
fn plain_hits_16(chunk: &[u8; 16], a: u8, b: u8) -> u32 {
    let bits = chunk.iter().enumerate();
    bits.fold(0, |all, (i, &c)| all | ((c == a || c == b) as u32) << i)
}

/// A parsed value. Object keys are values, as fastjson writes objects as keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(Value, Value)>),
}

pub fn parse(text: &[u8], max_values: usize) -> JsonResult<Value> {
    let mut s = Scanner::new(text);
    let mut left = max_values;
    let value = build(&mut s, 0, &mut left)?;
    s.end()?;
    Ok(value)
}

/// A member of an object: its key, where the member and its value begin, and where both end.
pub type Member = (Value, usize, usize, usize);

/// Where the members of the object `text` stand, so that a writer can take them over as they are.
pub fn members(text: &[u8]) -> JsonResult<Vec<Member>> {
    let mut s = Scanner::new(text);
    let mut found = Vec::new();
    s.expect(b'{')?;
    while !s.eat(b'}') {
        s.peek();
        let start = s.at;
        let key = build(&mut s, 1, &mut { MAX_VALUES })?;
        s.expect(b':')?;
        s.peek();
        let value = s.at;
        s.skip(1)?;
        found.push((key, start, value, s.at));
        if !s.eat(b',') {
            s.expect(b'}')?;
            break;
        }
    }
    s.end()?;
    Ok(found)
}

fn build(s: &mut Scanner<'_>, depth: usize, left: &mut usize) -> JsonResult<Value> {
    *left = match left.checked_sub(1) {
        Some(n) => n,
        None => return s.fail("too many values"),
    };
    if depth > MAX_DEPTH {
        return s.fail("nested too deep");
    }
    match s.peek() {
        Some(b'{') => {
            s.at += 1;
            let mut members = Vec::new();
            while !s.eat(b'}') {
                let key = build(s, depth + 1, left)?;
                s.expect(b':')?;
                members.push((key, build(s, depth + 1, left)?));
                if !s.eat(b',') {
                    s.expect(b'}')?;
                    break;
                }
            }
            Ok(Value::Object(members))
        }
        Some(b'[') => {
            s.at += 1;
            let mut items = Vec::new();
            while !s.eat(b']') {
                items.push(build(s, depth + 1, left)?);
                if !s.eat(b',') {
                    s.expect(b']')?;
                    break;
                }
            }
            Ok(Value::List(items))
        }
        _ => {
            let raw = s.scalar()?;
            word(s.text, raw)
        }
    }
}

fn word(text: &[u8], raw: Raw) -> JsonResult<Value> {
    let bytes = raw.bytes(text);
    if !raw.quoted {
        match bytes {
            b"null" => return Ok(Value::Null),
            b"true" => return Ok(Value::Bool(true)),
            b"false" => return Ok(Value::Bool(false)),
            _ => {}
        }
        if let Ok(t) = std::str::from_utf8(bytes) {
            if let Ok(n) = t.parse() {
                return Ok(Value::Int(n));
            }
            if t.starts_with(|c: char| c.is_ascii_digit() || c == '-')
                && let Ok(f) = t.parse::<f64>()
                && f.is_finite()
            {
                return Ok(Value::Float(f));
            }
        }
    }
    let mut out = Vec::with_capacity(bytes.len());
    raw.unescape(text, &mut out)?;
    Ok(Value::Text(
        String::from_utf8(out).map_err(|_| "text is not UTF-8")?,
    ))
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
