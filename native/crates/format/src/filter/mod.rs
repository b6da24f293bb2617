//! Selecting messages: the tag scan over queue entries, which reads none of them, SQL92 expressions over
//! their properties (`sql`), and the bits that tell of an expression without reading them (`bloom`).

pub mod bloom;
pub mod sql;
#[cfg(target_arch = "x86_64")]
mod wide;

use crate::cq_entry::{CqEntry, SIZE};

/// Entries that are compared before their positions are written: one bit each.
const BLOCK: usize = 64;
/// Up to this many hashes are compared one by one; more are looked up.
const FEW: usize = 16;
/// Up to this many hashes wide registers compare faster than a look-up does.
const WIDE: usize = 96;

/// Writes to `out` the positions of the entries whose tag code is one of `hashes` (the low 32 bits
/// count), as many as it has room for, and returns how many. `entries` holds whole 20-byte entries.
pub fn scan_tags(entries: &[u8], hashes: &[i32], out: &mut [u32]) -> usize {
    // Compared as they stand in memory, so that no entry has to be turned round.
    let raw = |h: &i32| u32::from_ne_bytes(h.to_be_bytes());
    let (scanned, found) = scan_wide(entries, hashes, raw, out);
    let (entries, out) = (&entries[scanned * SIZE..], &mut out[found..]);
    let base = scanned as u32;
    let rest = match hashes {
        [] => 0,
        [one] => {
            let one = raw(one);
            scan(entries, base, out, |code| code == one)
        }
        few if few.len() <= 4 => {
            let wanted = padded::<4>(few, raw);
            scan(entries, base, out, |code| any(&wanted, code))
        }
        few if few.len() <= FEW => {
            let wanted = padded::<FEW>(few, raw);
            scan(entries, base, out, |code| any(&wanted, code))
        }
        many => {
            let wanted = Lookup::new(many.iter().map(raw));
            scan(entries, base, out, |code| wanted.has(code))
        }
    };
    found + rest
}

/// What the machine's wide registers can do of it: (entries scanned, positions found).
#[cfg(target_arch = "x86_64")]
fn scan_wide(
    entries: &[u8],
    hashes: &[i32],
    raw: impl Fn(&i32) -> u32,
    out: &mut [u32],
) -> (usize, usize) {
    if hashes.is_empty() || hashes.len() > WIDE || !wide::is_there() {
        return (0, 0);
    }
    let mut wanted = [0; WIDE];
    for (place, hash) in wanted.iter_mut().zip(hashes) {
        *place = raw(hash);
    }
    // SAFETY: the machine has what it needs, as asked above.
    unsafe { wide::scan(entries, &wanted[..hashes.len()], out) }
}

#[cfg(not(target_arch = "x86_64"))]
fn scan_wide(_: &[u8], _: &[i32], _: impl Fn(&i32) -> u32, _: &mut [u32]) -> (usize, usize) {
    (0, 0)
}

/// The hashes, filled up with the first one.
fn padded<const N: usize>(hashes: &[i32], raw: impl Fn(&i32) -> u32) -> [u32; N] {
    std::array::from_fn(|i| raw(hashes.get(i).unwrap_or(&hashes[0])))
}

#[inline(always)]
fn any<const N: usize>(wanted: &[u32; N], code: u32) -> bool {
    wanted.iter().fold(false, |hit, w| hit | (*w == code))
}

#[inline(always)]
fn scan(entries: &[u8], base: u32, out: &mut [u32], wanted: impl Fn(u32) -> bool) -> usize {
    let mut found = 0;
    for (block, bytes) in entries.chunks(BLOCK * SIZE).enumerate() {
        let mut hits = 0u64;
        for (i, slot) in bytes.chunks_exact(SIZE).enumerate() {
            let code = u32::from_ne_bytes([slot[16], slot[17], slot[18], slot[19]]);
            hits |= (wanted(code) as u64) << i;
        }
        while hits != 0 {
            let Some(place) = out.get_mut(found) else {
                return found;
            };
            *place = base + (block * BLOCK) as u32 + hits.trailing_zeros();
            found += 1;
            hits &= hits - 1;
        }
    }
    found
}

/// A set of hashes with open addressing; at least three of four places are free.
struct Lookup {
    places: Vec<Option<u32>>,
    shift: u32,
}

impl Lookup {
    fn new(codes: impl ExactSizeIterator<Item = u32>) -> Self {
        let size = (codes.len() * 4).next_power_of_two();
        let mut set = Lookup {
            places: vec![None; size],
            shift: 32 - size.trailing_zeros(),
        };
        for code in codes {
            let mut at = set.start(code);
            while set.places[at].is_some_and(|c| c != code) {
                at = (at + 1) % size;
            }
            set.places[at] = Some(code);
        }
        set
    }

    #[inline(always)]
    fn start(&self, code: u32) -> usize {
        (code.wrapping_mul(0x9E37_79B1) >> self.shift) as usize
    }

    #[inline(always)]
    fn has(&self, code: u32) -> bool {
        let mut at = self.start(code);
        while let Some(c) = self.places[at] {
            if c == code {
                return true;
            }
            at = (at + 1) & (self.places.len() - 1);
        }
        false
    }
}

/// Number of entries in a part of a queue file that recovery would accept.
pub fn count_valid(entries: &[u8]) -> usize {
    entries
        .chunks_exact(SIZE)
        .take_while(|slot| CqEntry::read(slot).is_valid())
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_of_matching_entries() {
        let mut bytes = Vec::new();
        for n in 0..10i64 {
            let mut slot = [0; SIZE];
            CqEntry {
                phys: n,
                size: 1,
                tags_code: -(n % 3),
            }
            .write(&mut slot);
            bytes.extend_from_slice(&slot);
        }
        let mut out = [0; 16];
        assert_eq!(scan_tags(&bytes, &[-1], &mut out), 3);
        assert_eq!(&out[..3], &[1, 4, 7]);
        assert_eq!(scan_tags(&bytes, &[-1, -2], &mut out), 6);
        assert_eq!(scan_tags(&bytes, &[0], &mut out[..2]), 2);
        assert_eq!(scan_tags(&bytes, &[], &mut out), 0);
        assert_eq!(count_valid(&bytes), 10);
    }

    #[test]
    fn any_number_of_hashes() {
        let mut bytes = Vec::new();
        for n in 0..1000i64 {
            let mut slot = [0; SIZE];
            CqEntry {
                phys: n,
                size: 1,
                tags_code: java_like(n % 97),
            }
            .write(&mut slot);
            bytes.extend_from_slice(&slot);
        }
        for count in [1, 2, 4, 5, 16, 17, 40, 96, 97] {
            let hashes: Vec<i32> = (0..count).map(|n| java_like(n) as i32).collect();
            let naive: Vec<u32> = (0..1000)
                .filter(|n| hashes.contains(&(java_like(n % 97) as i32)))
                .map(|n| n as u32)
                .collect();
            // The code for machines without wide registers has to say the same.
            let mut out = vec![0; 1000];
            let raw: Vec<_> = hashes
                .iter()
                .map(|h| u32::from_ne_bytes(h.to_be_bytes()))
                .collect();
            let lookup = Lookup::new(raw.iter().copied());
            let ways: [&dyn Fn(u32) -> bool; 2] = [&|c| raw.contains(&c), &|c| lookup.has(c)];
            for wanted in ways {
                let found = scan(&bytes, 0, &mut out, wanted);
                assert_eq!(&out[..found], &naive[..], "{count} hashes");
            }
            let found = scan_tags(&bytes, &hashes, &mut out);
            assert_eq!(&out[..found], &naive[..], "{count} hashes");
            let mut short = vec![0; naive.len() / 2];
            assert_eq!(scan_tags(&bytes, &hashes, &mut short), short.len());
            assert_eq!(short[..], naive[..short.len()]);
        }
    }

    fn java_like(n: i64) -> i64 {
        (n as i32).wrapping_mul(1_234_567_891) as i64
    }
}
