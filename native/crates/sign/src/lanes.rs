//! SHA-1 of sixteen messages side by side, with AVX-512: each has a lane of 32 bits.

use crate::job::{Job, MOST};
use crate::key::Key;
use crate::message::Message;
use crate::state::{BLOCK, MAC, State, bytes};
use std::arch::x86_64::*;

/// So few messages are faster one by one.
const FEW: usize = 4;
/// Blocks that are asked for so many steps before they are read: sixteen rows at once are more than the
/// processor foresees.
const AHEAD: usize = 2;
/// What a lane without a message reads.
static NOTHING: [u8; BLOCK] = [0; BLOCK];

type Lanes = [[u32; MOST]; 5];

/// Whether this processor has AVX-512 F and BW, and the system keeps their registers.
pub fn can() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
}

/// None if it is not worth it, or this processor has no AVX-512. There are at most `MOST` jobs.
pub fn macs(jobs: &[Job<'_>]) -> Option<[[u8; MAC]; MOST]> {
    if jobs.len() <= FEW || !can() {
        return None;
    }
    // SAFETY: `side_by_side`, and all that it calls, need AVX-512 F and BW and nothing else; `can` has
    // asked for both.
    Some(unsafe { side_by_side(jobs) })
}

/// The states of `keys` in their lanes.
fn begin(jobs: &[Job<'_>], state: impl Fn(&Key) -> &State) -> Lanes {
    let mut lanes = [[0; MOST]; 5];
    for (lane, job) in jobs.iter().enumerate() {
        for (words, word) in lanes.iter_mut().zip(state(job.key)) {
            words[lane] = *word;
        }
    }
    lanes
}

fn state_of(lanes: &Lanes, lane: usize) -> State {
    lanes.map(|words| words[lane])
}

#[target_feature(enable = "avx512f,avx512bw")]
fn side_by_side(jobs: &[Job<'_>]) -> [[u8; MAC]; MOST] {
    let mut messages: [Option<Message<'_>>; MOST] = std::array::from_fn(|lane| {
        let job = jobs.get(lane)?;
        Some(Message::behind_key(job.head, job.body))
    });
    let mut inner = begin(jobs, |key| &key.inner);
    let mut done = [[0; MOST]; 5];
    let mut at_work = jobs.len();
    while at_work > FEW {
        inner = store(go_on(load(&inner), &mut messages));
        for (lane, message) in messages.iter_mut().enumerate() {
            if message.as_ref().is_some_and(|m| m.left() == 0) {
                for (done, inner) in done.iter_mut().zip(&inner) {
                    done[lane] = inner[lane];
                }
                *message = None;
                at_work -= 1;
            }
        }
    }
    let outer = store(behind(&done, load(&begin(jobs, |key| &key.outer))));
    let mut out = [[0; MAC]; MOST];
    for (lane, message) in messages.into_iter().enumerate().take(jobs.len()) {
        out[lane] = match message {
            // The few that are longer than the others.
            Some(message) => jobs[lane].key.mac_from(state_of(&inner, lane), message),
            None => bytes(&state_of(&outer, lane)),
        };
    }
    out
}

/// Hashes as many blocks of all messages as lie in a row.
#[target_feature(enable = "avx512f,avx512bw")]
fn go_on(mut state: [__m512i; 5], messages: &mut [Option<Message<'_>>; MOST]) -> [__m512i; 5] {
    let mut rows: [&[[u8; BLOCK]]; MOST] = [&[]; MOST];
    let mut joined = [false; MOST];
    let mut steps = usize::MAX;
    for (lane, message) in messages.iter_mut().enumerate() {
        if let Some(message) = message {
            rows[lane] = message.whole();
            if rows[lane].is_empty() {
                joined[lane] = true;
                rows[lane] = std::slice::from_ref(message.next());
            }
            steps = steps.min(rows[lane].len());
        }
    }
    for step in 0..steps {
        let mut blocks = [&NOTHING; MOST];
        for lane in 0..MOST {
            if let Some(block) = rows[lane].get(step) {
                blocks[lane] = block;
            }
            if let Some(soon) = rows[lane].get(step + AHEAD) {
                prefetch(soon);
            }
        }
        state = compress(state, &transposed(&blocks));
    }
    for (message, joined) in messages.iter_mut().zip(joined) {
        if let (Some(message), false) = (message, joined) {
            message.skip(steps);
        }
    }
    state
}

/// Asks for a block that is read soon.
#[inline(always)]
fn prefetch(block: &[u8; BLOCK]) {
    // SAFETY: the instruction reads nothing into the program and never faults; every x86-64 processor
    // has it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(block.as_ptr().cast()) };
}

/// Hashes digests: one block of each, with a bit and the length behind it.
#[target_feature(enable = "avx512f")]
fn behind(digests: &Lanes, state: [__m512i; 5]) -> [__m512i; 5] {
    let mut words = [_mm512_setzero_si512(); 16];
    for (word, digest) in words.iter_mut().zip(load(digests)) {
        *word = digest;
    }
    words[5] = _mm512_set1_epi32(i32::MIN);
    words[15] = _mm512_set1_epi32(8 * (BLOCK + MAC) as i32);
    compress(state, &words)
}

// Loops where closures would be called: they do not have the features of their function.

#[target_feature(enable = "avx512f")]
#[inline]
fn load(lanes: &Lanes) -> [__m512i; 5] {
    let mut state = [_mm512_setzero_si512(); 5];
    for (state, words) in state.iter_mut().zip(lanes) {
        // SAFETY: `words` are 16 x 4 = 64 bytes that may be read, as many as the instruction reads;
        // it takes any alignment.
        *state = unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
    }
    state
}

#[target_feature(enable = "avx512f")]
#[inline]
fn store(state: [__m512i; 5]) -> Lanes {
    let mut lanes = [[0; MOST]; 5];
    for (words, state) in lanes.iter_mut().zip(state) {
        // SAFETY: `words` are 16 x 4 = 64 bytes that only this function has, as many as the instruction
        // writes; it takes any alignment.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), state) };
    }
    lanes
}

/// The words of sixteen blocks: in one vector the first word of each, and so on.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn transposed(blocks: &[&[u8; BLOCK]; MOST]) -> [__m512i; 16] {
    // Words are big-endian.
    let swap = _mm512_set4_epi32(0x0c0d_0e0f, 0x0809_0a0b, 0x0405_0607, 0x0001_0203);
    // Without loops, as in `compress`: all of it stays in registers.
    macro_rules! all {
        ($one:ident: $($n:literal)*) => {
            [$($one!($n)),*]
        };
    }
    macro_rules! row {
        ($n:literal) => {{
            let block: &[u8; BLOCK] = blocks[$n];
            // SAFETY: a block is a reference to 64 bytes, as many as the instruction reads; it takes any
            // alignment.
            let bytes = unsafe { _mm512_loadu_si512(block.as_ptr().cast()) };
            _mm512_shuffle_epi8(bytes, swap)
        }};
    }
    let rows = all!(row: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    // Words of two rows, then of four; behind that the quarters of the rows are put in order.
    macro_rules! pair {
        ($n:literal) => {{
            let (a, b) = (rows[$n / 2 * 2], rows[$n / 2 * 2 + 1]);
            if $n % 2 == 0 {
                _mm512_unpacklo_epi32(a, b)
            } else {
                _mm512_unpackhi_epi32(a, b)
            }
        }};
    }
    let pairs = all!(pair: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    macro_rules! four {
        ($n:literal) => {{
            let first = $n / 4 * 4 + $n % 4 / 2;
            let (a, b) = (pairs[first], pairs[first + 2]);
            if $n % 2 == 0 {
                _mm512_unpacklo_epi64(a, b)
            } else {
                _mm512_unpackhi_epi64(a, b)
            }
        }};
    }
    let fours = all!(four: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    // Two of the quarters of two rows: even ones, then odd ones.
    macro_rules! half {
        ($n:literal) => {{
            let (a, b) = (
                fours[$n / 4 * 8 % 16 + $n % 4],
                fours[$n / 4 * 8 % 16 + $n % 4 + 4],
            );
            if $n < 8 {
                _mm512_shuffle_i32x4::<0x88>(a, b)
            } else {
                _mm512_shuffle_i32x4::<0xdd>(a, b)
            }
        }};
    }
    let halves = all!(half: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    macro_rules! word {
        ($n:literal) => {{
            let first = $n / 4 % 2 * 8 + $n % 4;
            let (a, b) = (halves[first], halves[first + 4]);
            if $n < 8 {
                _mm512_shuffle_i32x4::<0x88>(a, b)
            } else {
                _mm512_shuffle_i32x4::<0xdd>(a, b)
            }
        }};
    }
    all!(word: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
}

/// One block of each lane. [FIPS 180-4 section 6.1.3: the schedule in sixteen words]
#[target_feature(enable = "avx512f")]
fn compress(state: [__m512i; 5], words: &[__m512i; 16]) -> [__m512i; 5] {
    let mut words = *words;
    // Truth tables: choice, parity and majority of three.
    const CHOICE: i32 = 0xca;
    const PARITY: i32 = 0x96;
    const MAJORITY: i32 = 0xe8;
    let [mut a, mut b, mut c, mut d, mut e] = state;
    macro_rules! round {
        ($logic:expr, $constant:expr, $word:expr) => {
            let chosen = _mm512_ternarylogic_epi32::<$logic>(b, c, d);
            let sum = _mm512_add_epi32(_mm512_add_epi32(e, $constant), $word);
            let sum = _mm512_add_epi32(sum, chosen);
            let next = _mm512_add_epi32(sum, _mm512_rol_epi32::<5>(a));
            (a, b, c, d, e) = (next, a, _mm512_rol_epi32::<30>(b), c, d);
        };
    }
    // Rounds with the words at these places, as they are or as those of the next rounds. Without loops,
    // as the words are to stay in registers.
    macro_rules! first {
        ($constant:expr, $($t:literal)*) => {
            $(round!(CHOICE, $constant, words[$t]);)*
        };
    }
    macro_rules! next {
        ($logic:expr, $constant:expr, $($t:literal)*) => {
            $(
                let three = _mm512_ternarylogic_epi32::<PARITY>(
                    words[($t + 13) % 16],
                    words[($t + 8) % 16],
                    words[($t + 2) % 16],
                );
                words[$t] = _mm512_rol_epi32::<1>(_mm512_xor_si512(three, words[$t]));
                round!($logic, $constant, words[$t]);
            )*
        };
    }
    let constant = _mm512_set1_epi32(0x5a82_7999);
    first!(constant, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    next!(CHOICE, constant, 0 1 2 3);
    let constant = _mm512_set1_epi32(0x6ed9_eba1);
    next!(PARITY, constant, 4 5 6 7 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7);
    let constant = _mm512_set1_epi32(0x8f1b_bcdc_u32 as i32);
    next!(MAJORITY, constant, 8 9 10 11 12 13 14 15 0 1 2 3 4 5 6 7 8 9 10 11);
    let constant = _mm512_set1_epi32(0xca62_c1d6_u32 as i32);
    next!(PARITY, constant, 12 13 14 15 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    [
        _mm512_add_epi32(state[0], a),
        _mm512_add_epi32(state[1], b),
        _mm512_add_epi32(state[2], c),
        _mm512_add_epi32(state[3], d),
        _mm512_add_epi32(state[4], e),
    ]
}
