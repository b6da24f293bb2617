//! Selecting messages without reading them: the tag scan over queue entries.

use crate::format::cq_entry::{CqEntry, SIZE};

/// Appends to `out` the positions of the entries whose tag code is one of `hashes` (the low 32
/// bits count), at most `limit` of them. `entries` holds whole 20-byte entries.
pub fn scan_tags(entries: &[u8], hashes: &[i32], out: &mut [u32]) -> usize {
    let mut found = 0;
    for (position, slot) in entries.chunks_exact(SIZE).enumerate() {
        let code = i32::from_be_bytes([slot[16], slot[17], slot[18], slot[19]]);
        let hit = match hashes {
            [one] => code == *one,
            many => many.contains(&code),
        };
        if hit {
            if found == out.len() {
                break;
            }
            out[found] = position as u32;
            found += 1;
        }
    }
    found
}

/// Number of entries in a piece of a queue file that recovery would accept.
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
        assert_eq!(count_valid(&bytes), 10);
    }
}
