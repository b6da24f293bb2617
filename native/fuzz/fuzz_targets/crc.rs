//! The CRC that is taken while copying. Input: two bytes that say where in memory source and
//! destination lie, then what is copied.
//!
//! - It is the CRC of a plain implementation, with and without copying, at every length and place.
//! - The copy is exact and nothing before or behind it is touched.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrmq_format::crc_copy::{copy_crc32, crc32};

const GUARD: u8 = 0xA5;

fuzz_target!(|data: &[u8]| {
    let [from, to, text @ ..] = data else { return };
    let (from, to) = (*from as usize % 64, *to as usize % 64);
    check(from, to, text);
    // Long enough for every kernel, whatever length the fuzzer is at.
    check(from, to, &text.repeat(1 + 600 / text.len().max(1)));
});

fn check(from: usize, to: usize, text: &[u8]) {
    let n = text.len();
    // Exactly as long as needed, so that a sanitizer sees one byte too many.
    let mut source = vec![0; from];
    source.extend_from_slice(text);
    source.shrink_to_fit();
    let source = &source[from..];
    let expected = plain(text);
    assert_eq!(crc32(source), expected);

    let mut target = vec![GUARD; to + n].into_boxed_slice();
    assert_eq!(copy_crc32(&mut target[to..], source), expected);
    assert!(target[to..] == *text && target[..to].iter().all(|&b| b == GUARD));

    let mut inside = vec![GUARD; to + n + 64];
    assert_eq!(copy_crc32(&mut inside[to..to + n], source), expected);
    assert!(inside[to..to + n] == *text);
    assert!(
        inside[..to]
            .iter()
            .chain(&inside[to + n..])
            .all(|&b| b == GUARD)
    );
}

/// Byte by byte, by the polynomial of zlib.
fn plain(text: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut i = 0;
        while i < 256 {
            let mut r = i as u32;
            let mut bit = 0;
            while bit < 8 {
                r = (r >> 1) ^ if r & 1 != 0 { 0xEDB8_8320 } else { 0 };
                bit += 1;
            }
            table[i] = r;
            i += 1;
        }
        table
    };
    !text
        .iter()
        .fold(!0, |r: u32, &b| (r >> 8) ^ TABLE[(r as u8 ^ b) as usize])
}
