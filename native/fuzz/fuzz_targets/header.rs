//! Command headers from any bytes. Input: a byte whose lowest bit is the codec, then the header.
//!
//! - What is read lies inside of the header; a header used before changes nothing.
//! - With shapes of headers that came before it is read as without.
//! - Meant texts are never longer than their raw form, as every escape is longer than its meaning.
//! - An answer with the same texts, in either form, is read back with the same texts.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrmq_broker::wire::frame::{Codec, split};
use pyrmq_broker::wire::header::{Header, MAX_FIELDS, language_name};
use pyrmq_broker::wire::reply::{To, push};
use pyrmq_broker::wire::shape::Shapes;
use pyrmq_format::json::Raw;
use pyrmq_fuzz::frame;
use std::cell::RefCell;

thread_local! {
    static SHAPES: RefCell<Shapes> = RefCell::default();
}

fuzz_target!(|data: &[u8]| {
    let Some((codec, text)) = data.split_first() else {
        return;
    };
    let frame = frame(codec & 1, text, b"");
    let codec = Codec::from_byte(codec & 1).unwrap();
    let mut h = Header::default();
    let done = h.read(codec, &frame, frame.len());

    let mut alike = Header::default();
    let by_shape =
        SHAPES.with_borrow_mut(|shapes| shapes.read_header(&mut alike, codec, &frame, frame.len()));
    assert_eq!(by_shape.map(|_| ()), done);
    assert!(done.is_err() || alike == h);

    let mut used = h.clone();
    used.remark = Some(Raw::default());
    used.ext.push((Raw::default(), Raw::default()));
    assert_eq!(used.read(codec, &frame, frame.len()), done);
    if done.is_err() {
        return;
    }
    assert_eq!(
        (used.code, used.opaque, used.flag),
        (h.code, h.opaque, h.flag)
    );
    assert_eq!((used.version, used.remark), (h.version, h.remark));
    assert_eq!(used.ext, h.ext);
    assert!(h.ext.len() <= MAX_FIELDS);
    assert!(!language_name(h.language).is_empty());

    let Some(texts) = texts(&h, &frame) else {
        return; // an escape that means nothing
    };
    for codec in [Codec::Json, Codec::RocketMq] {
        answer(codec, &h, &texts);
    }
});

struct Texts {
    remark: Option<String>,
    ext: Vec<(Vec<u8>, Vec<u8>)>,
}

fn texts(h: &Header, frame: &[u8]) -> Option<Texts> {
    let meant = |raw: &Raw| {
        assert!(8 <= raw.start && raw.start <= raw.end && raw.end as usize <= frame.len());
        let mut out = Vec::new();
        raw.unescape(frame, &mut out).ok()?;
        assert!(out.len() <= raw.bytes(frame).len());
        Some(out)
    };
    let mut ext = Vec::new();
    for (name, value) in &h.ext {
        ext.push((meant(name)?, meant(value)?));
    }
    let remark = match &h.remark {
        Some(raw) => Some(String::from_utf8_lossy(&meant(raw)?).into_owned()),
        None => None,
    };
    Some(Texts { remark, ext })
}

/// Writes an answer with these texts and reads it.
fn answer(codec: Codec, h: &Header, sent: &Texts) {
    let code = h.code as i16 as i32;
    let to = To {
        codec,
        opaque: h.opaque,
    };
    // The binary form has no place for an empty name or value, nor for an empty remark.
    let kept = |(n, v): &&(Vec<u8>, Vec<u8>)| !n.is_empty() && !v.is_empty() && n.len() < 1 << 16;
    let ext: Vec<(&[u8], &[u8])> = sent
        .ext
        .iter()
        .filter(kept)
        .map(|(n, v)| (&n[..], &v[..]))
        .collect();
    let remark = sent.remark.as_deref().filter(|r| !r.is_empty());
    let mut out = b"before".to_vec();
    push(&mut out, to, code, remark, &ext);
    let out = &out[6..];

    let parts = split(out).unwrap().expect("a whole frame");
    assert_eq!(
        (parts.total, parts.header_end, parts.codec),
        (out.len(), out.len(), codec)
    );
    let mut back = Header::default();
    back.read(codec, out, parts.header_end)
        .expect("our own form");
    assert_eq!(
        (back.code, back.opaque, back.is_response()),
        (code, h.opaque, true)
    );
    let got = texts(&back, out).expect("our own escapes");
    assert_eq!(got.remark.as_deref(), remark);
    assert_eq!(got.ext.len(), ext.len());
    for ((name, value), (n, v)) in got.ext.iter().zip(ext) {
        if codec == Codec::RocketMq {
            assert_eq!((&name[..], &value[..]), (n, v));
        } else {
            assert_eq!(name[..], *String::from_utf8_lossy(n).as_bytes());
            assert_eq!(value[..], *String::from_utf8_lossy(v).as_bytes());
        }
    }
}
