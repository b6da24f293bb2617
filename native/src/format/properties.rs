//! The property string: `name 0x01 value 0x02` repeated, no escaping. [MessageDecoder]

use memchr::memchr;

pub const NAME_END: u8 = 1;
pub const VALUE_END: u8 = 2;
/// Longest property string a record can hold (its length is a signed i16).
pub const MAX_LEN: usize = i16::MAX as usize;

/// Iterates over `(name, value)` as Java reads them: chunks shorter than three bytes, and pairs
/// with an empty name or value, do not exist.
pub struct Pairs<'a>(&'a [u8]);

pub fn pairs(text: &[u8]) -> Pairs<'_> {
    Pairs(text)
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.0.is_empty() {
            let end = memchr(VALUE_END, self.0).unwrap_or(self.0.len());
            let chunk = &self.0[..end];
            self.0 = &self.0[(end + 1).min(self.0.len())..];
            if chunk.len() < 3 {
                continue;
            }
            match memchr(NAME_END, chunk) {
                Some(at) if at > 0 && at + 1 < chunk.len() => {
                    return Some((&chunk[..at], &chunk[at + 1..]));
                }
                _ => continue,
            }
        }
        None
    }
}

/// The value of `name`; of several the last, as in Java's map.
pub fn find<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    pairs(text)
        .filter(|(n, _)| *n == name)
        .map(|(_, v)| v)
        .last()
}

/// Appends one pair.
pub fn push(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.push(NAME_END);
    out.extend_from_slice(value);
    out.push(VALUE_END);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_reading_rules() {
        let text = b"A\x01x\x02\x01v\x02B\x01\x02C\x02D\x01y=\x01z\x02A\x01last";
        let got: Vec<_> = pairs(text).collect();
        assert_eq!(
            got,
            vec![(&b"A"[..], &b"x"[..]), (b"D", b"y=\x01z"), (b"A", b"last")]
        );
        assert_eq!(find(text, b"A"), Some(&b"last"[..]));
        assert_eq!(find(text, b"B"), None);
        assert_eq!(pairs(b"").next(), None);
        assert_eq!(pairs(b"\x02\x02\x01\x02").next(), None);
    }
}
