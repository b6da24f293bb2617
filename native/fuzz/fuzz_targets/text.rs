//! The small text forms: topic and file names, tag hash, delay level, decimal integers.
//!
//! - A topic that is accepted is one folder name: no separator, no dot, not too long.
//! - A file name is read only as what `file_name` writes.
//! - The tag hash is Java's over UTF-16 units; a reading of integers is Rust's, where that has the
//!   same form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrmq_format::parse_i64;
use pyrmq_format::{delay, java, names};
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    if names::is_topic(data) {
        assert!((1..=255).contains(&data.len()) && data.is_ascii());
        assert!(!data.iter().any(|b| matches!(b, b'/' | b'\\' | b'.' | 0)));
    }
    let lossy = String::from_utf8_lossy(data);
    let path = Path::new(&*lossy);
    if let Some(offset) = names::parse_file_name(path) {
        assert_eq!(
            path.file_name().unwrap().to_str(),
            Some(&*names::file_name(offset))
        );
    }
    let hash = lossy
        .encode_utf16()
        .fold(0i64, |h, unit| (h * 31 + unit as i64) & 0xffff_ffff);
    assert_eq!(java::hash(data), hash as i32);

    let number = std::str::from_utf8(data).ok().and_then(|t| t.parse().ok());
    match parse_i64(data) {
        Some(n) => assert_eq!(number, Some(n)),
        // More digits than a number needs are not read.
        None => assert!(number.is_none() || data.len() > 19),
    }
    let at = 1_700_000_000_000;
    if let Some(time) = delay::Levels::default().deliver_time(data, at) {
        assert!((at + 1_000..=at + 7_200_000).contains(&time));
    }
});
