//! Java's `String.hashCode`, the tag code of a ConsumeQueue entry.

/// `h = 31*h + unit` over UTF-16 code units, wrapping at 32 bits. Bytes that are not UTF-8 are
/// hashed as Java would after decoding (replacement characters).
pub fn hash(text: &[u8]) -> i32 {
    if text.is_ascii() {
        return text
            .iter()
            .fold(0i32, |h, &b| h.wrapping_mul(31).wrapping_add(b as i32));
    }
    String::from_utf8_lossy(text)
        .encode_utf16()
        .fold(0i32, |h, u| h.wrapping_mul(31).wrapping_add(u as i32))
}

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    fn known_values() {
        assert_eq!(hash(b"TagA"), 2598919);
        assert_eq!(hash(b"CANCELLED"), -1031784143);
        assert_eq!(hash(b"order-1"), -1207111310);
        assert_eq!(hash(b""), 0);
        // U+1F600 is two UTF-16 units: 0xD83D, 0xDE00.
        assert_eq!(hash("😀".as_bytes()), 0xD83Di32.wrapping_mul(31) + 0xDE00);
    }
}
