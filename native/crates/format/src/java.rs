//! Java's `String.hashCode`, the tag code of a ConsumeQueue entry and the base of an index key.

const BLOCK: usize = 8;

/// 31^8, 31^7 .. 31^0: what a block of eight characters multiplies by.
const POWERS: [i32; BLOCK + 1] = {
    let mut powers = [1i32; BLOCK + 1];
    let mut i = BLOCK;
    while i > 0 {
        powers[i - 1] = powers[i].wrapping_mul(31);
        i -= 1;
    }
    powers
};

/// The tag code of a message with these TAGS: their hash, 0 without any.
#[inline]
pub fn tag_code(tags: Option<&[u8]>) -> i64 {
    tags.map_or(0, |tags| hash(tags) as i64)
}

/// `h = 31*h + unit` over UTF-16 code units, wrapping at 32 bits. Bytes that are not UTF-8 are
/// hashed as Java would after decoding (replacement characters).
#[inline]
pub fn hash(text: &[u8]) -> i32 {
    extend(0, text)
}

/// The hash of a string that starts with what gave `seed` and continues with `text`.
pub fn extend(seed: i32, text: &[u8]) -> i32 {
    let mut h = seed;
    let mut blocks = text.chunks_exact(BLOCK);
    let mut done = 0;
    for block in &mut blocks {
        let block: &[u8; BLOCK] = block.try_into().expect("blocks have this length");
        if u64::from_ne_bytes(*block) & 0x8080_8080_8080_8080 != 0 {
            return extend_units(h, &text[done..]);
        }
        // The eight products do not wait for one another, only their sum waits for `h`.
        let mut sum = 0i32;
        for (b, power) in block.iter().zip(&POWERS[1..]) {
            sum = sum.wrapping_add((*b as i32).wrapping_mul(*power));
        }
        h = h.wrapping_mul(POWERS[0]).wrapping_add(sum);
        done += BLOCK;
    }
    let rest = blocks.remainder();
    if !rest.is_ascii() {
        return extend_units(h, rest);
    }
    rest.iter()
        .fold(h, |h, &b| h.wrapping_mul(31).wrapping_add(b as i32))
}

#[cold]
fn extend_units(seed: i32, text: &[u8]) -> i32 {
    String::from_utf8_lossy(text)
        .encode_utf16()
        .fold(seed, |h, u| h.wrapping_mul(31).wrapping_add(u as i32))
}

#[cfg(test)]
mod tests {
    use super::{extend, extend_units, hash};
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        assert_eq!(hash(b"TagA"), 2598919);
        assert_eq!(hash(b"CANCELLED"), -1031784143);
        assert_eq!(hash(b"order-1"), -1207111310);
        assert_eq!(hash(b""), 0);
        // U+1F600 is two UTF-16 units: 0xD83D, 0xDE00.
        assert_eq!(hash("😀".as_bytes()), 0xD83Di32.wrapping_mul(31) + 0xDE00);
    }

    proptest! {
        #[test]
        fn blocks_give_what_single_units_give(text in "[a-z]{0,40}\\PC{0,3}[ -~]{0,20}", cut in 0usize..40) {
            let text = text.as_bytes();
            let whole = extend_units(0, text);
            prop_assert_eq!(hash(text), whole);
            let cut = (0..=cut.min(text.len()))
                .rev()
                .find(|&c| std::str::from_utf8(&text[..c]).is_ok())
                .unwrap();
            prop_assert_eq!(extend(hash(&text[..cut]), &text[cut..]), whole);
        }

        #[test]
        fn bytes_that_are_no_text(text in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(hash(&text), extend_units(0, &text));
        }
    }
}
