//! Skipping the entries of a queue that are not wanted by their tags, many at a time.

use super::resident::Resident;
use super::segment::Segment;
use crate::filter::scan_tags;
use crate::format::cq_entry::{CqEntry, SIZE};

/// Entries that are scanned at a time.
const AT_ONCE: usize = 256;

/// How many entries from `at` on have other tags than these and a record of `room` bytes at most. None
/// where they cannot be looked at.
pub fn unwanted(
    file: &Segment,
    of_queue: &mut Resident,
    at: usize,
    most: usize,
    tags: &[i32],
    room: usize,
) -> Option<usize> {
    let len = most.min(AT_ONCE) * SIZE;
    let entries = of_queue.bytes(file, at, len).ok()??;
    Some(unwanted_of(entries, tags, room))
}

fn unwanted_of(entries: &[u8], tags: &[i32], room: usize) -> usize {
    let mut wanted = [0];
    let count = match scan_tags(entries, tags, &mut wanted) {
        0 => entries.len() / SIZE,
        _ => wanted[0] as usize,
    };
    if room == usize::MAX {
        return count;
    }
    let fits = |entry: &[u8]| CqEntry::read(entry).size as usize <= room;
    let mut before = entries.chunks_exact(SIZE).take(count);
    before.position(|entry| !fits(entry)).unwrap_or(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(of: &[(i32, i64)]) -> Vec<u8> {
        let mut bytes = vec![0; of.len() * SIZE];
        for (place, (size, tags_code)) in bytes.chunks_exact_mut(SIZE).zip(of) {
            let (phys, size, tags_code) = (0, *size, *tags_code);
            CqEntry {
                phys,
                size,
                tags_code,
            }
            .write(place);
        }
        bytes
    }

    #[test]
    fn up_to_the_first_wanted_one() {
        let some = entries(&[(100, 1), (100, 2), (100, 7), (100, 1)]);
        assert_eq!(unwanted_of(&some, &[7], usize::MAX), 2);
        assert_eq!(unwanted_of(&some, &[7, 1], usize::MAX), 0);
        assert_eq!(unwanted_of(&some, &[8], usize::MAX), 4);
        assert_eq!(unwanted_of(&[], &[8], usize::MAX), 0);
    }

    #[test]
    fn up_to_the_first_that_does_not_fit() {
        let some = entries(&[(100, 1), (101, 1), (100, 7)]);
        assert_eq!(unwanted_of(&some, &[7], 101), 2);
        assert_eq!(unwanted_of(&some, &[7], 100), 1);
        assert_eq!(unwanted_of(&some, &[7], 99), 0);
        let damaged = entries(&[(-1, 1), (100, 7)]);
        assert_eq!(
            unwanted_of(&damaged, &[7], 1 << 20),
            0,
            "any number, as large as can be"
        );
    }
}
