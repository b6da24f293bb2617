//! Base64 of signatures: RFC 4648's first alphabet, padded, on one line.

use crate::state::MAC;
use subtle::ConstantTimeEq;

/// Bytes of a signature as text.
pub const SIGNATURE: usize = 28;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn encode(mac: &[u8; MAC]) -> [u8; SIGNATURE] {
    let mut padded = [0; MAC + 1];
    padded[..MAC].copy_from_slice(mac);
    let mut out = [0; SIGNATURE];
    for n in 0..SIGNATURE / 4 {
        let bits = u32::from_be_bytes([0, padded[3 * n], padded[3 * n + 1], padded[3 * n + 2]]);
        for i in 0..4 {
            out[4 * n + i] = ALPHABET[(bits >> (18 - 6 * i) & 63) as usize];
        }
    }
    out[SIGNATURE - 1] = b'=';
    out
}

/// Whether `text` is the signature `mac`. It takes the same time wherever they differ.
pub fn is_signature(mac: &[u8; MAC], text: &[u8]) -> bool {
    let Some(text) = text
        .first_chunk::<SIGNATURE>()
        .filter(|_| text.len() == SIGNATURE)
    else {
        return false;
    };
    // Bits that differ, four bytes at a time.
    let mut differ = 0;
    for (a, b) in encode(mac)
        .as_chunks::<4>()
        .0
        .iter()
        .zip(text.as_chunks::<4>().0)
    {
        differ |= u32::from_ne_bytes(*a) ^ u32::from_ne_bytes(*b);
    }
    differ.ct_eq(&0).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_the_standard() {
        let mac = *b"\x00\x10\x83\x10Q\x87 \x92\x8b0\xd3\x8fA\x14\x93QU\x97a\x9b";
        assert_eq!(&encode(&mac), b"ABCDEFGHIJKLMNOPQRSTUVWXYZs=");
        assert_eq!(&encode(&[0xff; MAC]), b"//////////////////////////8=");
        assert!(is_signature(&mac, b"ABCDEFGHIJKLMNOPQRSTUVWXYZs="));
        for other in [
            &b"ABCDEFGHIJKLMNOPQRSTUVWXYZt="[..],
            b"",
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZs",
        ] {
            assert!(!is_signature(&mac, other));
        }
    }
}
