//! Bytes of a stranger instead of TLS, and records that were changed on their way.
//!
//! - A stream takes or refuses bytes however they are cut into pieces, and what it keeps is bounded.
//! - Behind a handshake what is opened is the front of what was sealed; all of it if nothing was
//!   changed.
//! - Behind a refusal nothing is sealed any more.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrmq_fuzz::Dice;
use pyrmq_tls::testing::Client;
use pyrmq_tls::{Context, HELLO, Mode, Stream, self_signed_config};
use std::sync::LazyLock;

const MOST_KEPT: usize = 128 << 10;

static CONTEXT: LazyLock<Context> =
    LazyLock::new(|| Context::new(Mode::Permissive, Some(self_signed_config().unwrap())));

fuzz_target!(|data: &[u8]| {
    let mut dice = Dice::of(data);
    match data.split_first() {
        Some((0, rest)) => sealed(rest, &mut dice),
        _ => strange(data, &mut dice),
    }
});

fn stream() -> Stream {
    CONTEXT.hello().expect("there is a certificate")
}

/// Opens pieces; what came out, and whether the stream refused one.
fn opened(stream: &mut Stream, pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let mut plain = Vec::new();
    for piece in pieces {
        if stream.open(&mut piece.to_vec(), &mut plain).is_err() {
            let mut out = Vec::new();
            stream.seal(b"", &mut out).expect("an alert, or nothing");
            let alert = out.len();
            let _ = stream.seal(b"an answer", &mut out);
            assert_eq!(out.len(), alert);
            return (plain, true);
        }
        assert!(stream.kept() < MOST_KEPT);
    }
    (plain, false)
}

fn strange(data: &[u8], dice: &mut Dice) {
    let mut bytes = data.to_vec();
    if let Some(first) = bytes.first_mut() {
        *first = HELLO;
    }
    let whole = opened(&mut stream(), &[&bytes]);
    let pieces = opened(&mut stream(), &dice.pieces(&bytes, 64));
    assert_eq!(whole, pieces);
    assert!(whole.0.is_empty());
}

fn sealed(data: &[u8], dice: &mut Dice) {
    let (mut client, mut stream) = (Client::new(), stream());
    for _ in 0..3 {
        let mut out = Vec::new();
        assert!(!opened(&mut stream, &[&client.sends()]).1);
        stream.seal(b"", &mut out).unwrap();
        client.takes(&out).unwrap();
    }
    let (mut plain, mut records) = (Vec::new(), Vec::new());
    for part in dice.pieces(data, 600) {
        plain.extend_from_slice(part);
        records.extend(client.seal(part));
    }
    let changed = dice.below(2) == 0 && !records.is_empty();
    if changed {
        let at = dice.below(records.len());
        records[at] ^= 1 + dice.below(255) as u8;
    }
    let (found, refused) = opened(&mut stream, &dice.pieces(&records, 900));
    assert!(plain.starts_with(&found));
    if !changed {
        assert!(!refused && found.len() == plain.len());
    }
}
