//! A stream and a client in memory: however the records are cut, the plain bytes are the same.

use super::testing::{Authority, Client};
use super::*;
use proptest::prelude::*;
use rustls::version::{TLS12, TLS13};
use rustls::{ALL_VERSIONS, ServerConfig};
use std::sync::{Arc, LazyLock};

static CONFIG: LazyLock<Arc<ServerConfig>> = LazyLock::new(|| self_signed_config().unwrap());

fn stream() -> Stream {
    Stream::new(CONFIG.clone()).unwrap()
}

/// What the stream opens of bytes that arrive in pieces of `n`, and what it sends.
fn opened(stream: &mut Stream, records: &[u8], n: usize) -> Result<(Vec<u8>, Vec<u8>), Refusal> {
    let (mut plain, mut sent) = (Vec::new(), Vec::new());
    for piece in records.chunks(n.max(1)) {
        stream.open(&mut piece.to_vec(), &mut plain)?;
        stream.seal(&[], &mut sent)?;
    }
    Ok((plain, sent))
}

/// Shakes hands, with all that the client sends cut into pieces of `n`.
fn shaken(client: &mut Client, n: usize) -> Stream {
    let mut stream = stream();
    for _ in 0..4 {
        let (plain, sent) = opened(&mut stream, &client.sends(), n).unwrap();
        assert!(plain.is_empty());
        client.takes(&sent).unwrap();
    }
    assert!(stream.is_established() && !client.0.is_handshaking());
    stream
}

#[test]
fn a_handshake_may_come_byte_by_byte() {
    for versions in [ALL_VERSIONS, &[&TLS12], &[&TLS13]] {
        for n in [1, 2, 5, 7, 100, usize::MAX] {
            let mut client = Client::with(versions, None);
            let mut stream = shaken(&mut client, n);
            assert_eq!(stream.kept(), 0, "an idle connection keeps no buffer");
            let sealed = client.seal(b"to the server");
            assert_eq!(opened(&mut stream, &sealed, n).unwrap().0, b"to the server");
            let mut out = Vec::new();
            stream.seal(b"to the client", &mut out).unwrap();
            assert_eq!(client.takes(&out).unwrap(), b"to the client");
        }
    }
}

#[test]
fn what_is_long_goes_in_several_records() {
    let mut client = Client::new();
    let mut stream = shaken(&mut client, usize::MAX);
    let long: Vec<u8> = (0..300_000u32).map(|i| (i / 7) as u8).collect();
    let mut out = Vec::new();
    stream.seal(&long, &mut out).unwrap();
    assert!(out.len() > long.len() && out.len() < long.len() + 2000);
    assert_eq!(client.takes(&out).unwrap(), long);
    let sealed = client.seal(&long);
    assert_eq!(opened(&mut stream, &sealed, 64 << 10).unwrap().0, long);
    assert_eq!(stream.kept(), 0);
}

#[test]
fn a_record_that_was_changed_is_answered_with_an_alert_and_nothing_else() {
    let mut client = Client::new();
    let mut stream = shaken(&mut client, usize::MAX);
    let mut records = client.seal(b"first");
    let mut second = client.seal(b"second");
    *second.last_mut().unwrap() ^= 1;
    records.extend(second);
    let mut plain = Vec::new();
    let why = stream.open(&mut records, &mut plain).unwrap_err();
    assert!(why.starts_with("TLS: "), "{why}");
    assert_eq!(plain, b"first", "what came before it counts");
    let mut out = Vec::new();
    stream.seal(b"an answer", &mut out).unwrap();
    assert!(client.takes(&out).is_err(), "the alert");
    let mut more = Vec::new();
    stream.seal(b"an answer", &mut more).unwrap();
    stream.close(&mut more);
    assert!(more.is_empty(), "nothing behind an alert");
}

#[test]
fn garbage_behind_a_hello_ends_it() {
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x16; 40_000], &[0; 10]] {
        let mut stream = stream();
        let mut client = Client::new();
        opened(&mut stream, &client.sends(), usize::MAX).unwrap();
        assert!(opened(&mut stream, garbage, 1000).is_err());
        assert!(!stream.is_established());
    }
}

#[test]
fn a_front_that_is_none_is_refused_at_once() {
    for front in [
        [0x16, 3, 1, 0xff, 0xff],
        [0x16, 7, 1, 0, 9],
        [0x99, 3, 1, 0, 9],
    ] {
        for n in 1..=front.len() {
            assert!(opened(&mut stream(), &front, n).is_err(), "{front:?}");
        }
    }
}

#[test]
fn an_alert_in_the_middle_of_a_message_of_the_handshake() {
    let bytes = [0x16, 3, 3, 0, 2, 2, 0x28, 0x15, 3, 3, 0, 2, 2, 0x28, 0x7e];
    let ends = [0x16, 3, 3, 0, 2, 2, 0x28, 0x7e];
    for n in 1..=bytes.len() {
        assert!(opened(&mut stream(), &bytes, n).is_err());
        assert!(
            opened(&mut stream(), &ends, n).is_err(),
            "{n}: with its first byte"
        );
    }
}

#[test]
fn a_handshake_that_does_not_end_keeps_little() {
    let mut stream = stream();
    // A client hello that says it has 65,000 bytes, in records of 1,000.
    let mut hello = vec![1, 0, 0xfd, 0xe8];
    hello.resize(65_000, 7);
    let mut most = 0;
    let mut refused = false;
    for part in hello.chunks(1000) {
        let mut record = vec![0x16, 3, 1, (part.len() >> 8) as u8, part.len() as u8];
        record.extend_from_slice(part);
        let mut plain = Vec::new();
        if stream.open(&mut record, &mut plain).is_err() {
            refused = true;
            break;
        }
        most = most.max(stream.kept());
    }
    assert!(refused && most < 70_000, "{most}");
}

#[test]
fn both_sides_say_when_they_end() {
    let mut client = Client::new();
    let mut stream = shaken(&mut client, usize::MAX);
    client.0.send_close_notify();
    opened(&mut stream, &client.sends(), 3).unwrap();
    assert!(stream.is_closed());
    let mut out = Vec::new();
    stream.seal(b"the last answer", &mut out).unwrap();
    stream.close(&mut out);
    assert_eq!(client.takes(&out).unwrap(), b"the last answer");
    let state = client.0.process_new_packets().unwrap();
    assert!(state.peer_has_closed());
}

#[test]
fn new_keys_are_taken_and_answered() {
    let mut client = Client::with(&[&TLS13], None);
    let mut stream = shaken(&mut client, usize::MAX);
    for i in 0..3u8 {
        client.0.refresh_traffic_keys().unwrap();
        let sealed = client.seal(&[i; 10]);
        let (plain, mut out) = opened(&mut stream, &sealed, 1 + usize::from(i)).unwrap();
        assert_eq!(plain, [i; 10]);
        stream.seal(b"answer", &mut out).unwrap();
        assert_eq!(client.takes(&out).unwrap(), b"answer");
    }
}

#[test]
fn nothing_is_sealed_before_the_handshake() {
    let mut out = Vec::new();
    assert!(stream().seal(b"early", &mut out).is_err());
    stream().close(&mut out);
    assert!(out.is_empty());
}

#[test]
fn the_mode_says_who_may_begin() {
    let config = || Some(CONFIG.clone());
    let disabled = Context::new(Mode::Disabled, config());
    assert!(disabled.hello().is_err() && disabled.plain().is_ok());
    let permissive = Context::new(Mode::Permissive, config());
    assert!(permissive.hello().is_ok() && permissive.plain().is_ok());
    let enforcing = Context::new(Mode::Enforcing, config());
    assert!(enforcing.hello().is_ok() && enforcing.plain().is_err());
    let without = Context::new(Mode::Permissive, None);
    assert!(without.hello().is_err() && without.plain().is_ok());
    without.replace(CONFIG.clone());
    assert!(without.hello().is_ok());
    assert_eq!(Mode::named("permissive"), Some(Mode::Permissive));
    assert_eq!(Mode::named("PERMISSIVE"), None);
    let _ = Authority::new();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_plain_bytes_do_not_depend_on_how_records_are_cut(
        parts in prop::collection::vec(1usize..40_000, 1..6),
        cuts in prop::collection::vec(1usize..30_000, 1..20),
        old in any::<bool>(),
    ) {
        let versions = if old { [&TLS12] } else { [&TLS13] };
        let mut client = Client::with(&versions, None);
        let mut stream = shaken(&mut client, cuts[0]);
        let (mut expected, mut records) = (Vec::new(), Vec::new());
        for (i, n) in parts.iter().enumerate() {
            let part: Vec<u8> = (0..*n).map(|at| (at * 31 + i) as u8).collect();
            records.extend(client.seal(&part));
            expected.extend(part);
        }
        let (mut plain, mut rest) = (Vec::new(), &mut records[..]);
        for n in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at_mut((*n).min(rest.len()));
            stream.open(now, &mut plain).unwrap();
            rest = later;
        }
        prop_assert_eq!(stream.kept(), 0);
        prop_assert_eq!(plain, expected);
    }

    #[test]
    fn strangers_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..3000), n in 1usize..500) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = HELLO;
        }
        let mut stream = stream();
        let _ = opened(&mut stream, &bytes, n);
        prop_assert!(stream.kept() < 128 << 10);
    }
}
