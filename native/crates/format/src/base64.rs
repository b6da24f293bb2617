//! Base64 with RFC 4648's first alphabet, with its padding.

/// Appends what a text says; None if it is no Base64.
pub fn decode(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (quads, rest) = text.as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    for (i, quad) in quads.iter().enumerate() {
        let pads = quad.iter().rev().take_while(|&&b| b == b'=').count();
        if pads > 2 || pads > 0 && i + 1 < quads.len() {
            return None;
        }
        let mut bits = 0u32;
        for &b in &quad[..4 - pads] {
            let value = match b {
                b'A'..=b'Z' => b - b'A',
                b'a'..=b'z' => b - b'a' + 26,
                b'0'..=b'9' => b - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | value as u32;
        }
        bits <<= 6 * pads;
        out.extend_from_slice(&bits.to_be_bytes()[1..4 - pads]);
    }
    Some(())
}
