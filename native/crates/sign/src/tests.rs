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

/// A job with what it must give.
struct Made {
    key: Key,
    text: Vec<u8>,
    cut: usize,
    right: [u8; MAC],
}

impl Made {
    fn new(secret: &[u8], len: usize, cut: usize, seed: usize) -> Made {
        let text: Vec<u8> = (0..len)
            .map(|i| (i * 31 + seed * 7 + i / 64) as u8)
            .collect();
        let right = expected(secret, &text);
        let (key, cut) = (Key::new(secret), cut.min(len));
        Made {
            key,
            text,
            cut,
            right,
        }
    }
}

/// Every way to make signatures gives the right ones.
fn check(made: &[Made]) {
    let jobs: Vec<_> = made
        .iter()
        .map(|m| Job {
            key: &m.key,
            head: &m.text[..m.cut],
            body: &m.text[m.cut..],
        })
        .collect();
    let known = jobs.len().min(MOST);
    let right: Vec<_> = made[..known].iter().map(|m| m.right).collect();
    let lens = || {
        made.iter()
            .map(|m| (m.text.len(), m.cut))
            .collect::<Vec<_>>()
    };
    assert_eq!(macs(&jobs)[..known], right, "{:?}", lens());
    assert_eq!(one_by_one(&jobs[..known])[..known], right, "{:?}", lens());
    #[cfg(target_arch = "x86_64")]
    match crate::lanes::macs(&jobs[..known]) {
        Some(got) => assert_eq!(got[..known], right, "{:?}", lens()),
        None => assert!(known <= 4 || !crate::lanes::can()),
    }
}

/// Lengths beside the ends of blocks, and beside the longest ends that the padding still fits behind.
fn borders(blocks: impl Iterator<Item = usize>) -> impl Iterator<Item = usize> {
    let near = [0, 1, 54, 55, 56, 57, 63];
    blocks.flat_map(move |block| near.map(|n| block * 64 + n))
}

#[test]
fn lanes_at_all_borders_of_blocks() {
    // Few of them under Miri, which is slow.
    let most = if cfg!(miri) { 2 } else { 79 };
    for (n, len) in borders(0..most).enumerate() {
        // Some messages end with this one, one is a byte longer, one a block, one is empty.
        let made: Vec<_> = (0..5 + n % 12)
            .map(|lane| {
                let len = match lane % 7 {
                    4 => len + 1,
                    5 => len + 64,
                    6 => 0,
                    _ => len,
                };
                let secret = [lane as u8 + 1; 100][..1 + lane * 6].to_vec();
                Made::new(&secret, len, (lane * 64 + n) % (len + 1), lane)
            })
            .collect();
        check(&made);
    }
}

proptest! {
    #[test]
    fn many_at_once_are_those_one_by_one(
        texts in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 0..100), length(), length()), 0..=MOST + 1,
        ),
        alike in any::<bool>(),
    ) {
        let first = texts.first().map_or((0, 0), |(_, len, cut)| (*len, *cut));
        let made: Vec<_> = texts
            .iter()
            .enumerate()
            .map(|(n, (secret, len, cut))| {
                let (len, cut) = if alike { first } else { (*len, *cut) };
                Made::new(secret, len, cut, n)
            })
            .collect();
        check(&made);
    }
}

/// 0 to 5,000 bytes, half of the time at the border of a block.
fn length() -> impl Strategy<Value = usize> {
    let blocks = if cfg!(miri) { 4_usize } else { 78 };
    prop_oneof![
        0..blocks * 64,
        (
            0..blocks,
            prop::sample::select(vec![0_usize, 1, 54, 55, 56, 63])
        )
            .prop_map(|(block, n)| block * 64 + n),
    ]
}
