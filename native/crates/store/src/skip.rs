//! Skipping the entries of a queue that are not wanted by what they say, many at a time.

use super::error::Result;
use super::resident::Resident;
use super::segment::Segment;
use pyrmq_format::cq_entry::{CqEntry, SIZE};
use pyrmq_format::filter::scan_tags;

/// Entries that are scanned at a time.
const AT_ONCE: usize = 256;

/// Entries of a queue that follow: `most` from byte `at` of a file on. One with a record of more than `room`
/// bytes is not skipped.
pub struct Ahead<'f> {
    pub file: &'f Segment,
    pub at: usize,
    pub most: usize,
    pub room: usize,
}

impl<'f> Ahead<'f> {
    /// Those that are looked at; None where they cannot be.
    fn entries(&self, of_queue: &mut Resident) -> Option<&'f [u8]> {
        let len = self.most.min(AT_ONCE) * SIZE;
        of_queue.bytes(self.file, self.at, len).ok()?
    }
}

/// How many have other tags than these. None where they cannot be looked at.
pub fn by_tag(ahead: &Ahead<'_>, of_queue: &mut Resident, tags: &[i32]) -> Option<usize> {
    let entries = ahead.entries(of_queue)?;
    Some(unwanted_of(entries, tags, ahead.room))
}

/// How many `is_wanted` refuses. What it cannot say counts as wanted. None where they cannot be looked at.
pub fn by_unit(
    ahead: &Ahead<'_>,
    of_queue: &mut Resident,
    mut is_wanted: impl FnMut(&CqEntry) -> Result<bool>,
) -> Option<usize> {
    let entries = ahead.entries(of_queue)?.chunks_exact(SIZE);
    let mut count = entries.len();
    for (n, slot) in entries.enumerate() {
        let cq = CqEntry::read(slot);
        if cq.size as usize > ahead.room || is_wanted(&cq).unwrap_or(true) {
            count = n;
            break;
        }
    }
    Some(count)
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
