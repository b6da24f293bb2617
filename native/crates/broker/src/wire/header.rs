//! The command header in its two forms, JSON and ROCKETMQ binary. [RemotingCommand]

use super::WireError;
use super::frame::Codec;
use pyrmq_format::json::{JsonResult, Raw, Scanner};
use pyrmq_format::{get_i16, get_i32, parse_i64};

/// Most ext fields a header may carry; the largest real one has about 20.
pub const MAX_FIELDS: usize = 512;

pub const FLAG_RESPONSE: i32 = 1;
pub const FLAG_ONEWAY: i32 = 2;
pub const LANGUAGE_OTHER: u8 = 7;
pub const LANGUAGE_PYTHON: u8 = 3;
const LANGUAGES: [&[u8]; 14] = [
    b"JAVA", b"CPP", b"DOTNET", b"PYTHON", b"DELPHI", b"ERLANG", b"RUBY", b"OTHER", b"HTTP", b"GO",
    b"PHP", b"OMS", b"RUST", b"NODE_JS",
];

/// Name of a language code, as JSON headers spell it.
pub fn language_name(code: u8) -> &'static [u8] {
    LANGUAGES
        .get(code as usize)
        .unwrap_or(&LANGUAGES[LANGUAGE_OTHER as usize])
}

/// A header as read; ext fields are places in the frame that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub code: i32,
    pub language: u8,
    pub version: i32,
    pub opaque: i32,
    pub flag: i32,
    pub remark: Option<Raw>,
    pub ext: Vec<(Raw, Raw)>,
}

impl Header {
    pub fn is_response(&self) -> bool {
        self.flag & FLAG_RESPONSE != 0
    }

    pub fn is_oneway(&self) -> bool {
        self.flag & FLAG_ONEWAY != 0
    }

    /// Reads the header that lies at `8..header_end` of `frame`, reusing this value's memory.
    pub fn read(&mut self, codec: Codec, frame: &[u8], header_end: usize) -> Result<(), WireError> {
        let mut ext = std::mem::take(&mut self.ext);
        ext.clear();
        *self = Header {
            ext,
            ..Default::default()
        };
        let text = &frame[..header_end];
        match codec {
            Codec::Json => self.read_json(text).map_err(WireError::Header),
            Codec::RocketMq => self
                .read_binary(text)
                .map_err(|e| WireError::Header(e.into())),
        }
    }

    fn read_json(&mut self, text: &[u8]) -> JsonResult<()> {
        let mut s = Scanner::new(&text[8..]);
        let shift = |r: Raw| Raw {
            start: r.start + 8,
            end: r.end + 8,
            ..r
        };
        s.object(|s, key| {
            let key = shift(key);
            match key.bytes(text) {
                b"extFields" => {
                    if s.peek() != Some(b'{') {
                        return s.skip(1); // null
                    }
                    s.object(|s, name| {
                        if matches!(s.peek(), Some(b'{' | b'[')) {
                            return s.skip(2);
                        }
                        let value = shift(s.scalar()?);
                        if self.ext.len() == MAX_FIELDS {
                            return Err(format!("more than {MAX_FIELDS} ext fields"));
                        }
                        if !value.is_null(text) {
                            self.ext.push((shift(name), value));
                        }
                        Ok(())
                    })
                }
                b"code" => number(s, text, &mut self.code),
                b"opaque" => number(s, text, &mut self.opaque),
                b"flag" => number(s, text, &mut self.flag),
                b"version" => number(s, text, &mut self.version),
                b"language" => {
                    let value = shift(s.scalar()?);
                    self.language = language(value.bytes(text));
                    Ok(())
                }
                b"remark" => {
                    let value = shift(s.scalar()?);
                    self.remark = (!value.is_null(text)).then_some(value);
                    Ok(())
                }
                _ => s.skip(1),
            }
        })?;
        s.end()
    }

    /// code i16, language u8, version i16, opaque i32, flag i32, i32+remark, i32+ext map.
    fn read_binary(&mut self, b: &[u8]) -> Result<(), &'static str> {
        if b.len() < 8 + 21 {
            return Err("shorter than 21 bytes");
        }
        self.code = get_i16(b, 8) as i32;
        self.language = b[10].min(LANGUAGES.len() as u8);
        self.version = get_i16(b, 11) as i32;
        self.opaque = get_i32(b, 13);
        self.flag = get_i32(b, 17);
        let mut at = 21;
        let remark = take(b, &mut at)?;
        self.remark = (remark.end > remark.start).then_some(remark);
        let map = take(b, &mut at)?;
        let end = map.end as usize;
        let mut at = map.start as usize;
        while at < end {
            if at + 2 > end {
                return Err("ext field ends too early");
            }
            let key_len = u16::from_be_bytes([b[at], b[at + 1]]) as usize;
            at += 2;
            if at + key_len > end {
                return Err("ext field ends too early");
            }
            let key = plain(at, at + key_len);
            at += key_len;
            let value = take(&b[..end], &mut at)?;
            if self.ext.len() == MAX_FIELDS {
                return Err("too many ext fields");
            }
            if key_len > 0 && value.end > value.start {
                self.ext.push((key, value));
            }
        }
        Ok(())
    }
}

fn plain(start: usize, end: usize) -> Raw {
    Raw {
        start: start as u32,
        end: end as u32,
        escaped: false,
        quoted: true,
    }
}

/// An i32 length and that many bytes.
fn take(b: &[u8], at: &mut usize) -> Result<Raw, &'static str> {
    if *at + 4 > b.len() {
        return Err("length is missing");
    }
    let len = get_i32(b, *at);
    let start = *at + 4;
    if len < 0 || len as usize > b.len() - start {
        return Err("length is larger than what holds it");
    }
    *at = start + len as usize;
    Ok(plain(start, *at))
}

fn number(s: &mut Scanner<'_>, text: &[u8], into: &mut i32) -> JsonResult<()> {
    let raw = s.scalar()?;
    let raw = Raw {
        start: raw.start + 8,
        end: raw.end + 8,
        ..raw
    };
    if raw.is_null(text) {
        return Ok(());
    }
    *into = parse_i64(raw.bytes(text))
        .and_then(|n| i32::try_from(n).ok())
        .ok_or("number expected in header")?;
    Ok(())
}

fn language(name: &[u8]) -> u8 {
    if let Some(n) = parse_i64(name) {
        return n.clamp(0, LANGUAGES.len() as i64) as u8;
    }
    LANGUAGES
        .iter()
        .position(|l| *l == name)
        .map_or(LANGUAGE_OTHER, |i| i as u8)
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
