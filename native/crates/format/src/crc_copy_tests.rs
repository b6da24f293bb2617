use super::*;
use proptest::prelude::*;

/// The kernels that this processor has (128, 256, 512 bits: 2 to 4), and the plain path (1).
pub(super) fn levels() -> Vec<u8> {
    #[cfg(target_arch = "x86_64")]
    return (x86::PLAIN..=x86::level()).collect();
    #[cfg(not(target_arch = "x86_64"))]
    return vec![0];
}

pub(super) fn copy_at(level: u8, dst: &mut [u8], src: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if src.len() >= x86::MIN_LEN {
        // SAFETY: `levels` gives no level above that of the processor.
        return unsafe { x86::run_at::<true>(level, dst, src) };
    }
    let _ = level;
    copy_crc32(dst, src)
}

pub(super) fn crc_at(level: u8, src: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if src.len() >= x86::MIN_LEN {
        // SAFETY: `levels` gives no level above that of the processor.
        return unsafe { x86::run_at::<false>(level, &mut [], src) };
    }
    let _ = level;
    crc32(src)
}

/// Bytes without a pattern that a wrong factor could miss.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Copies `len` bytes between places of the given alignments with every kernel and compares all.
fn check(seed: u64, len: usize, src_at: usize, dst_at: usize) {
    const GUARD: usize = 128;
    let from = noise(seed, 64 + 64 + len);
    let src_at = src_at + from.as_ptr().align_offset(64);
    let src = &from[src_at..src_at + len];
    let expected = crc32fast::hash(src);
    for level in levels() {
        let mut to = vec![0xA5u8; 64 + 64 + 2 * GUARD + len];
        let at = GUARD + to[GUARD..].as_ptr().align_offset(64) + dst_at;
        let got = copy_at(level, &mut to[at..at + len], src);
        assert_eq!(got, expected, "copy: level {level}, length {len}");
        assert_eq!(&to[at..at + len], src, "level {level}, length {len}");
        let around = to[..at].iter().chain(&to[at + len..]);
        assert!(
            around.clone().all(|&b| b == 0xA5),
            "written outside: level {level}, length {len}"
        );
        assert_eq!(crc_at(level, src), expected, "level {level}, length {len}");
    }
    assert_eq!(crc32(src), expected);
}

#[test]
fn check_value_of_the_polynomial() {
    let text = b"123456789";
    assert_eq!(crc32(text), 0xCBF4_3926);
    assert_eq!(copy_crc32(&mut [0; 9], text), 0xCBF4_3926);
    assert_eq!((crc32(b""), copy_crc32(&mut [], b"")), (0, 0));
    assert_eq!(crc32(&[0; 32]), 0x190A_55AD);
    assert_eq!(crc32(&[0xFF; 32]), 0xFF6C_AB0B);
}

#[test]
fn every_short_length() {
    for len in 0..=1200 {
        check(len as u64 * 0x9E37_79B9 + 1, len, len % 64, (len * 7) % 64);
    }
}

#[test]
fn long_inputs() {
    for len in [65_535, 65_536, 1 << 20, (1 << 20) + 1, 4_194_304 - 77] {
        check(len as u64, len, 3, 61);
    }
}

#[test]
#[should_panic(expected = "differ in length")]
fn lengths_must_be_equal() {
    copy_crc32(&mut [0; 31], &[0; 32]);
}

proptest! {
    #[test]
    fn any_length_and_alignment(seed: u64, len in 0usize..=4096,
                                src_at in 0usize..64, dst_at in 0usize..64) {
        check(seed, len, src_at, dst_at);
    }
}
