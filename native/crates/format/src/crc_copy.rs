//! CRC-32 (IEEE, the zlib polynomial) of bytes, and of bytes while they are copied.
//!
//! On x86-64 the bytes are folded with carry-less multiplications: each step multiplies what was
//! read so far by x^D, D being the distance in bits to the bytes that it is added to. Four
//! accumulators of 512, 256 or 128 bits run side by side, whichever the processor knows. Other
//! processors, and inputs below 16 bytes, use the crate `crc32fast`.
//! [Intel, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction"]

/// Copies `src` over `dst` and returns its CRC-32, reading and writing each byte once.
///
/// # Panics
/// If the lengths differ.
#[inline]
pub fn copy_crc32(dst: &mut [u8], src: &[u8]) -> u32 {
    assert_eq!(
        dst.len(),
        src.len(),
        "source and destination differ in length"
    );
    #[cfg(target_arch = "x86_64")]
    if src.len() >= x86::MIN_LEN {
        return x86::run::<true>(dst, src);
    }
    dst.copy_from_slice(src);
    crc32fast::hash(src)
}

/// CRC-32 of `src`.
#[inline]
pub fn crc32(src: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if src.len() >= x86::MIN_LEN {
        return x86::run::<false>(&mut [], src);
    }
    crc32fast::hash(src)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::sync::atomic::{AtomicU8, Ordering};

    /// The kernels load the first 16 bytes as one.
    pub const MIN_LEN: usize = 16;

    /// What the processor knows; 0 until it was asked.
    static LEVEL: AtomicU8 = AtomicU8::new(0);
    pub const PLAIN: u8 = 1;
    pub const SSE: u8 = 2;
    pub const AVX2: u8 = 3;
    pub const AVX512: u8 = 4;

    #[inline]
    pub fn level() -> u8 {
        match LEVEL.load(Ordering::Relaxed) {
            0 => detect(),
            known => known,
        }
    }

    #[cold]
    fn detect() -> u8 {
        let narrow = is_x86_feature_detected!("ssse3")
            && is_x86_feature_detected!("sse4.1")
            && is_x86_feature_detected!("pclmulqdq");
        let wide =
            narrow && is_x86_feature_detected!("avx2") && is_x86_feature_detected!("vpclmulqdq");
        let level = match () {
            _ if wide && is_x86_feature_detected!("avx512f") => AVX512,
            _ if wide => AVX2,
            _ if narrow => SSE,
            _ => PLAIN,
        };
        LEVEL.store(level, Ordering::Relaxed);
        level
    }

    /// `src` has `MIN_LEN` bytes or more; `dst` has as many, or none without `COPY`.
    #[inline]
    pub fn run<const COPY: bool>(dst: &mut [u8], src: &[u8]) -> u32 {
        // SAFETY: the level is what the processor was found to have.
        unsafe { run_at::<COPY>(level(), dst, src) }
    }

    /// As `run`, with the kernels of `level`.
    ///
    /// # Safety
    /// `level` is at most what `level()` says.
    #[inline]
    pub unsafe fn run_at<const COPY: bool>(level: u8, dst: &mut [u8], src: &[u8]) -> u32 {
        match level {
            // SAFETY: by the level, and so by the caller's promise, the processor has the features
            // of the kernel.
            AVX512 if src.len() >= 256 => unsafe { fold_512::<COPY>(dst, src) },
            // SAFETY: as above; the levels are ordered, each has all features of those below it.
            AVX2 | AVX512 if src.len() >= 128 => unsafe { fold_256::<COPY>(dst, src) },
            // SAFETY: as above.
            SSE..=AVX512 if src.len() >= 64 => unsafe { fold_128::<COPY>(dst, src) },
            // SAFETY: as above.
            SSE..=AVX512 => unsafe { fold_short::<COPY>(dst, src) },
            _ => {
                if COPY {
                    dst.copy_from_slice(src);
                }
                crc32fast::hash(src)
            }
        }
    }

    /// The polynomial, bits reflected (the highest power is the lowest bit), without x^32.
    const POLY: u32 = 0xEDB8_8320;

    /// x^n modulo the polynomial, bits reflected, as a factor of a 64-bit multiplication.
    const fn power(n: u32) -> i64 {
        let mut r = 1u32 << 31;
        let mut i = 0;
        while i < n {
            r = (r >> 1) ^ if r & 1 != 0 { POLY } else { 0 };
            i += 1;
        }
        (r as i64) << 1
    }

    /// The factors that move the low and the high half of a block by `bits`.
    const fn keys(bits: u32) -> (i64, i64) {
        (power(bits + 32), power(bits - 32))
    }

    /// The polynomial and the quotient of x^64 by it, both reflected with all 33 bits.
    const P: i64 = ((POLY as i64) << 1) | 1;
    const MU: i64 = 0x1_F701_1641;

    /// `SHIFT[n..n + 16]` moves the first n bytes of a block to its end and zeroes the rest.
    const SHIFT: [u8; 32] = {
        let mut t = [0x80; 32];
        let mut i = 0;
        while i < 16 {
            t[16 + i] = i as u8;
            i += 1;
        }
        t
    };

    /// The initial state, all ones, which is added to the first four bytes.
    const START: [u8; 48] = {
        let mut t = [0; 48];
        let mut i = 16;
        while i < 20 {
            t[i] = 0xFF;
            i += 1;
        }
        t
    };

    #[inline]
    #[target_feature(enable = "sse2")]
    fn load_128(from: &[u8; 16]) -> __m128i {
        // SAFETY: 16 readable bytes; the instruction asks for no alignment.
        unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn store_128(to: &mut [u8; 16], x: __m128i) {
        // SAFETY: 16 writable bytes; the instruction asks for no alignment.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), x) }
    }

    #[inline]
    #[target_feature(enable = "avx")]
    fn load_256(from: &[u8; 32]) -> __m256i {
        // SAFETY: 32 readable bytes; the instruction asks for no alignment.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx")]
    fn store_256(to: &mut [u8; 32], x: __m256i) {
        // SAFETY: 32 writable bytes; the instruction asks for no alignment.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), x) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load_512(from: &[u8; 64]) -> __m512i {
        // SAFETY: 64 readable bytes; the instruction asks for no alignment.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn store_512(to: &mut [u8; 64], x: __m512i) {
        // SAFETY: 64 writable bytes; the instruction asks for no alignment.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), x) }
    }

    /// Moves `x` by the distance of `k` and adds `next`.
    #[inline]
    #[target_feature(enable = "sse2,pclmulqdq")]
    fn step_128(x: __m128i, k: __m128i, next: __m128i) -> __m128i {
        let low = _mm_clmulepi64_si128::<0x00>(x, k);
        let high = _mm_clmulepi64_si128::<0x11>(x, k);
        _mm_xor_si128(_mm_xor_si128(low, next), high)
    }

    #[inline]
    #[target_feature(enable = "avx2,vpclmulqdq")]
    fn step_256(x: __m256i, k: __m256i, next: __m256i) -> __m256i {
        let low = _mm256_clmulepi64_epi128::<0x00>(x, k);
        let high = _mm256_clmulepi64_epi128::<0x11>(x, k);
        _mm256_xor_si256(_mm256_xor_si256(low, next), high)
    }

    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn step_512(x: __m512i, k: __m512i, next: __m512i) -> __m512i {
        let low = _mm512_clmulepi64_epi128::<0x00>(x, k);
        let high = _mm512_clmulepi64_epi128::<0x11>(x, k);
        _mm512_ternarylogic_epi64::<0x96>(low, high, next) // xor of three
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn keys_128(bits: (i64, i64)) -> __m128i {
        _mm_set_epi64x(bits.1, bits.0)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn keys_256(bits: (i64, i64)) -> __m256i {
        _mm256_broadcastsi128_si256(keys_128(bits))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn keys_512(bits: (i64, i64)) -> __m512i {
        _mm512_broadcast_i32x4(keys_128(bits))
    }

    #[inline]
    fn same(x: __m128i) -> __m128i {
        x
    }

    #[inline]
    #[target_feature(enable = "avx")]
    fn widen_256(x: __m128i) -> __m256i {
        _mm256_zextsi128_si256(x)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn widen_512(x: __m128i) -> __m512i {
        _mm512_zextsi128_si512(x)
    }

    /// Folds the halves into one.
    #[inline]
    #[target_feature(enable = "avx2,pclmulqdq")]
    fn narrow_256(x: __m256i) -> __m128i {
        let last = _mm256_extracti128_si256::<1>(x);
        step_128(
            _mm256_castsi256_si128(x),
            keys_128(const { keys(128) }),
            last,
        )
    }

    /// Folds the quarters into one: each is moved by its own distance to the last.
    #[inline]
    #[target_feature(enable = "avx512f,avx2,vpclmulqdq")]
    fn narrow_512(x: __m512i) -> __m128i {
        let [a, b, c] = const { [keys(384), keys(256), keys(128)] };
        let k = _mm512_set_epi64(0, 0, c.1, c.0, b.1, b.0, a.1, a.0);
        let last = _mm512_maskz_mov_epi64(0b1100_0000, x);
        let x = step_512(x, k, last);
        let half = _mm256_xor_si256(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64::<1>(x));
        _mm_xor_si128(
            _mm256_castsi256_si128(half),
            _mm256_extracti128_si256::<1>(half),
        )
    }

    /// Takes the first `len % 16` bytes (copying the first 16). Returns how many, and what they
    /// add to the 16 bytes behind them.
    ///
    /// Zeros in front change no CRC, so that the odd bytes count as the end of a block of 16; the
    /// initial state lies on the first four bytes of the input, of this block or the next.
    #[inline]
    #[target_feature(enable = "sse2,ssse3,pclmulqdq")]
    fn head<const COPY: bool>(dst: &mut [u8], src: &[u8]) -> (usize, __m128i) {
        let n = src.len() % 16;
        let first = load_128(src.first_chunk().expect("16 bytes or more"));
        if COPY {
            store_128(dst.first_chunk_mut().expect("16 bytes or more"), first);
        }
        let table = |t: &[u8], at: usize| load_128(t[at..].first_chunk().expect("inside"));
        let odd = _mm_shuffle_epi8(first, table(&SHIFT, n));
        let odd = _mm_xor_si128(odd, table(&START, n));
        let rest = table(&START, n + 16);
        (n, step_128(odd, keys_128(const { keys(128) }), rest))
    }

    /// The CRC of what was folded into one block. [Barrett reduction, figure 12 of the paper]
    #[inline]
    #[target_feature(enable = "sse2,sse4.1,pclmulqdq")]
    fn finish(x: __m128i) -> u32 {
        let low_32 = _mm_set_epi32(0, 0, 0, !0);
        // 128 to 96 to 64 bits.
        let k = _mm_set_epi64x(const { power(64) }, const { power(96) });
        let x = _mm_xor_si128(_mm_clmulepi64_si128::<0x00>(x, k), _mm_srli_si128::<8>(x));
        let moved = _mm_clmulepi64_si128::<0x10>(_mm_and_si128(x, low_32), k);
        let x = _mm_xor_si128(moved, _mm_srli_si128::<4>(x));
        let k = _mm_set_epi64x(MU, P);
        let q = _mm_clmulepi64_si128::<0x10>(_mm_and_si128(x, low_32), k);
        let q = _mm_clmulepi64_si128::<0x00>(_mm_and_si128(q, low_32), k);
        !(_mm_extract_epi32::<1>(_mm_xor_si128(x, q)) as u32)
    }

    /// A kernel: four accumulators of `$n` bytes, then one, then blocks of 16. `src` has `4 * $n`
    /// bytes or more; `dst` has as many, or none without `COPY`.
    macro_rules! kernel {
        ($name:ident, $features:literal, $n:literal, $load:ident, $store:ident, $step:ident,
         $keys:ident, $xor:ident, $widen:ident, $narrow:ident) => {
            #[target_feature(enable = $features)]
            fn $name<const COPY: bool>(dst: &mut [u8], src: &[u8]) -> u32 {
                let (at, carry) = head::<COPY>(dst, src);
                let src = &src[at..];
                let dst = if COPY {
                    &mut dst[at..][..src.len()]
                } else {
                    dst
                };

                let (quads, src) = src.as_chunks::<{ 4 * $n }>();
                let (quads_to, dst) = dst.as_chunks_mut::<{ 4 * $n }>();
                let mut take = |i: usize| {
                    let (from, _) = quads[i].as_chunks::<$n>();
                    let x = [0, 1, 2, 3].map(|j| $load(&from[j]));
                    if COPY {
                        let (to, _) = quads_to[i].as_chunks_mut::<$n>();
                        (0..4).for_each(|j| $store(&mut to[j], x[j]));
                    }
                    x
                };
                let far = $keys(const { keys(4 * 8 * $n) });
                let [mut a, mut b, mut c, mut d] = take(0);
                a = $xor(a, $widen(carry));
                for i in 1..quads.len() {
                    let next = take(i);
                    a = $step(a, far, next[0]);
                    b = $step(b, far, next[1]);
                    c = $step(c, far, next[2]);
                    d = $step(d, far, next[3]);
                }
                let near = $keys(const { keys(8 * $n) });
                let mut x = $step($step($step(a, near, b), near, c), near, d);

                let (ones, src) = src.as_chunks::<$n>();
                let (ones_to, dst) = dst.as_chunks_mut::<$n>();
                for (i, one) in ones.iter().enumerate() {
                    let next = $load(one);
                    if COPY {
                        $store(&mut ones_to[i], next);
                    }
                    x = $step(x, near, next);
                }
                finish(blocks::<COPY>($narrow(x), dst, src))
            }
        };
    }

    kernel!(
        fold_128,
        "sse2,ssse3,sse4.1,pclmulqdq",
        16,
        load_128,
        store_128,
        step_128,
        keys_128,
        _mm_xor_si128,
        same,
        same
    );
    kernel!(
        fold_256,
        "avx2,pclmulqdq,vpclmulqdq",
        32,
        load_256,
        store_256,
        step_256,
        keys_256,
        _mm256_xor_si256,
        widen_256,
        narrow_256
    );
    kernel!(
        fold_512,
        "avx512f,avx2,pclmulqdq,vpclmulqdq",
        64,
        load_512,
        store_512,
        step_512,
        keys_512,
        _mm512_xor_si512,
        widen_512,
        narrow_512
    );

    /// As the kernels, for 16 bytes or more.
    #[target_feature(enable = "sse2,ssse3,sse4.1,pclmulqdq")]
    fn fold_short<const COPY: bool>(dst: &mut [u8], src: &[u8]) -> u32 {
        let (at, carry) = head::<COPY>(dst, src);
        let (first, src) = src[at..].split_first_chunk().expect("16 bytes or more");
        let x = load_128(first);
        let dst = if COPY {
            let (to, dst) = dst[at..].split_first_chunk_mut().expect("16 bytes or more");
            store_128(to, x);
            dst
        } else {
            dst
        };
        finish(blocks::<COPY>(_mm_xor_si128(x, carry), dst, src))
    }

    /// Folds blocks of 16 bytes into `x`.
    #[inline]
    #[target_feature(enable = "sse2,pclmulqdq")]
    fn blocks<const COPY: bool>(mut x: __m128i, dst: &mut [u8], src: &[u8]) -> __m128i {
        let (to, _) = dst.as_chunks_mut::<16>();
        for (i, block) in src.as_chunks::<16>().0.iter().enumerate() {
            let next = load_128(block);
            if COPY {
                store_128(&mut to[i], next);
            }
            x = step_128(x, keys_128(const { keys(128) }), next);
        }
        x
    }
}

#[cfg(test)]
#[path = "crc_copy_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "crc_copy_bench.rs"]
mod bench;
