//! What the bytes mean: RocketMQ's file formats, JSON and unique keys, and how messages are selected
//! (`filter`). No I/O here.
//!
//! Every multi-byte integer is big-endian and signed, all times are milliseconds since 1970.

#[cfg(test)]
mod apache_tests;
pub mod base64;
pub mod candidate;
pub mod checkpoint;
pub mod cq_entry;
pub mod crc_copy;
pub mod delay;
pub mod filter;
pub mod host;
pub mod index;
pub mod java;
pub mod json;
pub mod message_type;
pub mod names;
#[cfg(test)]
mod page_end;
pub mod pop;
pub mod properties;
pub mod queue_ext;
pub mod recall;
pub mod record;
pub mod sys_flag;
pub mod timer;
pub mod unique_key;

/// Most bytes of a frame of the remoting protocol, with its length field. [NettyDecoder]
pub const MAX_FRAME: usize = 16 << 20;

/// CRC-32 (IEEE, zlib polynomial) with the sign bit cleared, RocketMQ's `bodyCRC`.
#[inline]
pub fn crc31(bytes: &[u8]) -> i32 {
    (crc_copy::crc32(bytes) & 0x7fff_ffff) as i32
}

#[inline]
pub fn get_i16(b: &[u8], at: usize) -> i16 {
    i16::from_be_bytes([b[at], b[at + 1]])
}

#[inline]
pub fn get_i32(b: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(b[at..at + 4].try_into().unwrap())
}

#[inline]
pub fn get_i64(b: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(b[at..at + 8].try_into().unwrap())
}

/// Appends a decimal integer.
pub fn push_int(out: &mut Vec<u8>, n: i64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = n.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if n < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// A decimal integer, as Java's parser takes it.
pub fn parse_i64(b: &[u8]) -> Option<i64> {
    let (negative, digits) = match b.first()? {
        b'-' => (true, &b[1..]),
        b'+' => (false, &b[1..]),
        _ => (false, b),
    };
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    // Nineteen digits fit a u64.
    let mut n: u64 = 0;
    for &d in digits {
        let d = d.wrapping_sub(b'0');
        if d > 9 {
            return None;
        }
        n = n * 10 + d as u64;
    }
    match negative {
        true => 0i64.checked_sub_unsigned(n),
        false => i64::try_from(n).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::{parse_i64, push_int};

    #[test]
    fn integers() {
        for n in [0, 7, -1, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            push_int(&mut out, n);
            assert_eq!(out, n.to_string().as_bytes());
        }
    }

    #[test]
    fn integers_are_read() {
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"+9223372036854775807"), Some(i64::MAX));
        for beyond in [
            "9223372036854775808",
            "-9223372036854775809",
            "9999999999999999999",
        ] {
            assert_eq!(parse_i64(beyond.as_bytes()), None);
        }
        for bad in [&b""[..], b"-", b"1.0", b" 1", b"0x1"] {
            assert_eq!(parse_i64(bad), None);
        }
    }
}
