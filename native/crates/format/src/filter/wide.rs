//! The tag scan for sixteen entries at a time, where the machine has AVX-512.
//!
//! Sixteen entries are 320 bytes, five registers of sixteen words; the tag hash of entry i is word
//! 4 + 5i of those. Three shuffles bring all of them into one register, in which each wanted hash
//! is compared once.

use super::SIZE;
use std::arch::x86_64::*;

const LANES: usize = 16;
/// Bytes of sixteen entries.
const STEP: usize = LANES * SIZE;

/// Whether `scan` may be called here.
#[inline]
pub fn is_there() -> bool {
    is_x86_feature_detected!("avx512f")
}

/// Which word of two registers (32 words) lane i takes, for those lanes whose word lies there.
const fn picks(first_word: usize, words: usize) -> ([i32; LANES], u16) {
    let (mut index, mut mask, mut i) = ([0; LANES], 0, 0);
    while i < LANES {
        let word = 4 + 5 * i;
        if word >= first_word && word < first_word + words {
            index[i] = (word - first_word) as i32;
            mask |= 1 << i;
        }
        i += 1;
    }
    (index, mask)
}

const LOW: ([i32; LANES], u16) = picks(0, 32);
const MIDDLE: ([i32; LANES], u16) = picks(32, 32);
const HIGH: ([i32; LANES], u16) = picks(64, 16);

/// Scans whole groups of sixteen entries, until less than sixteen places of `out` are left.
/// Returns (entries scanned, positions found). `wanted` holds the hashes as they stand in memory.
///
/// # Safety
/// The machine has AVX-512F (`is_there`).
#[target_feature(enable = "avx512f")]
pub unsafe fn scan(entries: &[u8], wanted: &[u32], out: &mut [u32]) -> (usize, usize) {
    // SAFETY: the three tables are sixteen words long, the length of a register.
    let (low, middle, high) = unsafe {
        (
            _mm512_loadu_epi32(LOW.0.as_ptr()),
            _mm512_loadu_epi32(MIDDLE.0.as_ptr()),
            _mm512_loadu_epi32(HIGH.0.as_ptr()),
        )
    };
    let mut position = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    let sixteen = _mm512_set1_epi32(LANES as i32);
    let (mut scanned, mut found) = (0, 0);
    for group in entries.chunks_exact(STEP) {
        if out.len() - found < LANES {
            break;
        }
        let words = group.as_ptr().cast::<i32>();
        // SAFETY: a group has 320 bytes, five times sixteen words; unaligned loads are allowed.
        let r = unsafe {
            [
                _mm512_loadu_epi32(words),
                _mm512_loadu_epi32(words.add(16)),
                _mm512_loadu_epi32(words.add(32)),
                _mm512_loadu_epi32(words.add(48)),
                _mm512_loadu_epi32(words.add(64)),
            ]
        };
        let codes = _mm512_permutex2var_epi32(r[0], low, r[1]);
        let next = _mm512_permutex2var_epi32(r[2], middle, r[3]);
        let codes = _mm512_mask_mov_epi32(codes, MIDDLE.1, next);
        let codes = _mm512_mask_permutexvar_epi32(codes, HIGH.1, high, r[4]);
        let mut hits: __mmask16 = 0;
        for hash in wanted {
            hits |= _mm512_cmpeq_epi32_mask(codes, _mm512_set1_epi32(*hash as i32));
        }
        if hits != 0 {
            let packed = _mm512_maskz_compress_epi32(hits, position);
            // SAFETY: sixteen places are left behind `found`, which was checked above.
            unsafe { _mm512_storeu_epi32(out.as_mut_ptr().add(found).cast(), packed) };
            found += hits.count_ones() as usize;
        }
        position = _mm512_add_epi32(position, sixteen);
        scanned += LANES;
    }
    (scanned, found)
}
