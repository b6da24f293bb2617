//! The handle with which the sender of a timer message recalls it: five words as URL-safe Base64.
//! [RecallMessageHandle]

use super::push_int;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Appends the handle of the message with this unique key, whose TIMER_OUT_MS is `out_ms`. It states
/// the millisecond after, as that time is rounded down again when the recall is set as a timer itself.
pub fn push_handle(out: &mut Vec<u8>, topic: &[u8], broker: &[u8], out_ms: i64, key: &[u8]) {
    let mut text = Vec::with_capacity(48 + topic.len() + broker.len() + key.len());
    text.extend_from_slice(b"v1 ");
    text.extend_from_slice(topic);
    text.push(b' ');
    text.extend_from_slice(broker);
    text.push(b' ');
    push_int(&mut text, out_ms.saturating_add(1));
    text.push(b' ');
    text.extend_from_slice(key);
    push_base64(out, &text);
}

fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .chain([&0; 2])
            .take(3)
            .fold(0, |word: usize, &b| word << 8 | b as usize);
        for digit in 0..4 {
            out.push(match digit > chunk.len() {
                true => b'=',
                false => ALPHABET[word >> (18 - 6 * digit) & 63],
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_every_length() {
        for (text, expected) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"\xfb\xff\xbe", "-_--"),
        ] {
            let mut out = Vec::new();
            push_base64(&mut out, text);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn a_handle_as_rocketmq_makes_it() {
        let mut out = b"before".to_vec();
        push_handle(&mut out, b"Orders", b"broker-a", 1_700_000_000_000, b"K1");
        // v1 Orders broker-a 1700000000001 K1
        let expected = "beforedjEgT3JkZXJzIGJyb2tlci1hIDE3MDAwMDAwMDAwMDEgSzE=";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
