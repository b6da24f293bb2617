use super::*;
use crate::key::Key;
use hmac::{Hmac, KeyInit, Mac};
use proptest::prelude::*;
use sha1::Sha1;

fn expected(secret: &[u8], text: &[u8]) -> [u8; MAC] {
    let mut hmac = Hmac::<Sha1>::new_from_slice(secret).unwrap();
    hmac.update(text);
    hmac.finalize().into_bytes().into()
}

#[test]
fn all_lengths_and_ways_to_cut_a_message() {
    let text: Vec<u8> = (0..200).map(|n| n as u8 ^ 0x5a).collect();
    for secret in [&b""[..], b"12345678", &[7; 64], &[8; 65], &[9; 300]] {
        let key = Key::new(secret);
        for len in 0..text.len() {
            let right = expected(secret, &text[..len]);
            for cut in [0, 1, 63, 64, 65, 127, 128, len / 2, len] {
                let (head, body) = text[..len].split_at(cut.min(len));
                assert_eq!(key.mac(head, body), right, "{len} bytes cut at {cut}");
            }
        }
    }
}

#[test]
fn keys_are_the_same_if_their_secrets_are() {
    let key = Key::new(b"a");
    assert!(key.is_same(&Key::new(b"a")));
    assert!(!key.is_same(&Key::new(b"b")));
    assert_eq!(format!("{key:?}"), "Key(secret)");
}

proptest! {
    #[test]
    fn many_at_once_are_those_one_by_one(
        texts in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..20), 0..300_usize, 0..700_usize), 0..=MOST + 1,
        ),
        alike in any::<bool>(),
    ) {
        let made: Vec<_> = texts
            .iter()
            .enumerate()
            .map(|(n, (secret, head, body))| {
                let (head, body) = if alike { (200, 500) } else { (*head, *body) };
                let text: Vec<u8> = (0..head + body).map(|i| (i * 31 + n * 7) as u8).collect();
                (Key::new(secret), expected(secret, &text), text, head)
            })
            .collect();
        let jobs: Vec<_> = made
            .iter()
            .map(|(key, _, text, cut)| Job { key, head: &text[..*cut], body: &text[*cut..] })
            .collect();
        let got = macs(&jobs);
        for (got, (_, expected, ..)) in got.iter().zip(&made) {
            prop_assert_eq!(got, expected);
        }
    }
}
