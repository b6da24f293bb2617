//! The property string: `name 0x01 value 0x02` repeated, no escaping. [MessageDecoder]

use super::push_int;

pub const NAME_END: u8 = 1;
pub const VALUE_END: u8 = 2;
/// Longest property string a record can hold (its length is a signed i16).
pub const MAX_LEN: usize = i16::MAX as usize;

/// Iterates over `(name, value)` as Java reads them: chunks shorter than three bytes, and pairs
/// with an empty name or value, do not exist.
pub struct Pairs<'a> {
    text: &'a [u8],
    /// Where the next pair starts.
    at: usize,
    /// Separators of the `BLOCK` bytes from `base` on, one bit each, but for those before `at`; a
    /// search of its own for each of them would cost more than the reading.
    base: usize,
    names: u64,
    values: u64,
}

#[inline]
pub fn pairs(text: &[u8]) -> Pairs<'_> {
    Pairs {
        text,
        at: 0,
        base: 0,
        names: 0,
        values: 0,
    }
}

/// Bytes that `separators` examines.
const BLOCK: usize = 64;

/// Which of the first 64 bytes are `NAME_END` and which `VALUE_END`, first byte in the lowest bit.
#[inline]
fn separators(text: &[u8]) -> (u64, u64) {
    #[cfg(target_arch = "x86_64")]
    {
        let of = |chunk: &[u8; 16]| {
            // SAFETY: every x86-64 processor has SSE2.
            let (names, values) = unsafe { separators_16(chunk) };
            (names as u64, values as u64)
        };
        if let Some(block) = text.first_chunk::<BLOCK>() {
            let (chunks, _) = block.as_chunks::<16>();
            let mut found = (0, 0);
            for (i, chunk) in chunks.iter().enumerate() {
                let (names, values) = of(chunk);
                found.0 |= names << (16 * i);
                found.1 |= values << (16 * i);
            }
            return found;
        }
        if let Some(last) = text.last_chunk::<16>() {
            // The last 16 bytes overlap with those before them, which sets the same bits again.
            let at = text.len() - 16;
            let (names, values) = of(last);
            let mut found = (names << at, values << at);
            for (i, chunk) in text.as_chunks::<16>().0.iter().enumerate() {
                let (names, values) = of(chunk);
                found.0 |= names << (16 * i);
                found.1 |= values << (16 * i);
            }
            return found;
        }
    }
    plain_separators(text)
}

/// The same, byte by byte: of short texts, and where no vectors are known.
#[inline]
fn plain_separators(text: &[u8]) -> (u64, u64) {
    let text = &text[..text.len().min(BLOCK)];
    let bits = |wanted| {
        let hits = text
            .iter()
            .enumerate()
            .map(|(i, &b)| ((b == wanted) as u64) << i);
        hits.fold(0, |all, bit| all | bit)
    };
    (bits(NAME_END), bits(VALUE_END))
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse2")]
fn separators_16(chunk: &[u8; 16]) -> (u16, u16) {
    use std::arch::x86_64::*;
    // SAFETY: 16 readable bytes; the instruction asks for no alignment.
    let x = unsafe { _mm_loadu_si128(chunk.as_ptr().cast()) };
    let bits = |b: u8| _mm_movemask_epi8(_mm_cmpeq_epi8(x, _mm_set1_epi8(b as i8))) as u16;
    (bits(NAME_END), bits(VALUE_END))
}

impl<'a> Pairs<'a> {
    /// The pair from `start` to `end` whose name ends at `mark`.
    #[inline(always)]
    fn pair(&self, start: usize, mark: usize, end: usize) -> Option<(&'a [u8], &'a [u8])> {
        let name = self.text.get(start..mark)?;
        let value = self.text.get(mark + 1..end)?;
        (!name.is_empty() && !value.is_empty()).then_some((name, value))
    }

    /// The pair from `at` on, where no value ends in the block from there: it is longer than a block, or
    /// the text ends without a separator.
    #[cold]
    fn long_pair(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let (start, len) = (self.at, self.text.len());
        let find = |from: usize, to: usize, wanted| {
            let rest = self.text.get(from..to).unwrap_or_default();
            memchr::memchr(wanted, rest).map(|n| from + n)
        };
        let end = find(start + BLOCK, len, VALUE_END).unwrap_or(len);
        self.at = end + 1;
        self.pair(start, find(start, end, NAME_END)?, end)
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.values == 0 {
                if self.at >= self.text.len() {
                    return None;
                }
                self.base = self.at;
                (self.names, self.values) = separators(&self.text[self.at..]);
                if self.values == 0 {
                    let pair = self.long_pair();
                    if pair.is_some() {
                        return pair;
                    }
                    continue;
                }
            }
            let names = self.names;
            let end = self.base + self.values.trailing_zeros() as usize;
            let start = std::mem::replace(&mut self.at, end + 1);
            // The bits from the value's end on: names before it are of this pair.
            let behind = self.values | self.values.wrapping_neg();
            self.values &= self.values - 1;
            self.names &= behind;
            if names & !behind != 0 {
                let mark = self.base + names.trailing_zeros() as usize;
                if let Some(pair) = self.pair(start, mark, end) {
                    return Some(pair);
                }
            }
        }
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

/// Appends a pair with a decimal integer.
pub fn push_number(out: &mut Vec<u8>, name: &[u8], n: i64) {
    out.extend_from_slice(name);
    out.push(NAME_END);
    push_int(out, n);
    out.push(VALUE_END);
}

/// The text without the pairs whose name `drop` selects.
pub fn without(text: &[u8], drop: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for (name, value) in pairs(text).filter(|(name, _)| !drop(name)) {
        push(&mut out, name, value);
    }
    out
}

/// What to append to properties that end in a zero byte and are stored as they are: recovery takes a
/// zero at a record's end for a write that was cut.
pub fn visible_end(text: &[u8]) -> &'static [u8] {
    match text.last() {
        Some(0) => &[VALUE_END],
        _ => b"",
    }
}

/// What ends a text to which more is added: some clients leave the last separator out.
pub fn closing(text: &[u8]) -> &'static [u8] {
    match text.last() {
        None | Some(&VALUE_END) => b"",
        Some(_) => &[VALUE_END],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The reading rules, said plainly.
    fn plain(text: &[u8]) -> Vec<(&[u8], &[u8])> {
        text.split(|&b| b == VALUE_END)
            .filter_map(|chunk| {
                let at = chunk.iter().position(|&b| b == NAME_END)?;
                let (name, value) = (&chunk[..at], &chunk[at + 1..]);
                (!name.is_empty() && !value.is_empty()).then_some((name, value))
            })
            .collect()
    }

    proptest! {
        #[test]
        fn any_text_is_read_as_the_rules_say(
            text in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(2), 3u8..], 0..300)
        ) {
            prop_assert_eq!(pairs(&text).collect::<Vec<_>>(), plain(&text));
        }

        #[test]
        fn every_processor_finds_the_same(
            text in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(2), 3u8..], 0..100)
        ) {
            prop_assert_eq!(separators(&text), plain_separators(&text));
        }

        #[test]
        fn long_names_and_values_cross_blocks(lengths in prop::collection::vec(0usize..150, 0..12),
                                              open: bool) {
            let mut text = Vec::new();
            for (i, &n) in lengths.iter().enumerate() {
                push(&mut text, &vec![b'n'; n], &vec![b'a' + i as u8; lengths[n % lengths.len()]]);
            }
            if open { text.pop(); }
            prop_assert_eq!(pairs(&text).collect::<Vec<_>>(), plain(&text));
        }
    }

    /// No block reaches behind the text, whatever its length and whatever its pairs are.
    #[test]
    #[cfg_attr(miri, ignore)]
    fn nothing_behind_a_text_is_read() {
        let mut pages = crate::page_end::PageEnd::new();
        for len in 0..300 {
            for pair in [
                &b"n\x01v\x02"[..],
                b"name\x01",
                b"value\x02",
                b"x",
                b"\x01\x02",
            ] {
                let text: Vec<u8> = pair.iter().copied().cycle().take(len).collect();
                let found: Vec<_> = pairs(pages.holding(&text)).collect();
                assert_eq!(found, plain(&text), "{len} bytes of {pair:?}");
            }
        }
    }

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
