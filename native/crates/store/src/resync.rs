//! Finding the next record behind a place where none can be read.
//!
//! Nothing that a candidate says is believed by itself: it may stand in the body of a message whose
//! head is what is damaged. The caller says by other evidence whether it is one.

use super::error::{Result, StoreError};
use super::resident::{Resident, Wait};
use super::segment::{self, Segment};
use pyrmq_format::candidate::{MagicFinder, stated_phys};
use pyrmq_format::record::{self, Found, View};
use std::fs::File;

/// Bytes that are searched at most.
const LIMIT: usize = 512 << 20;
/// Bytes that are read and searched at a time.
const WINDOW: usize = 4 << 20;
const MAGIC_LEN: usize = 4;

/// The first whole record (its CRC fits, it says its own place) behind `from` in a file that `is_one`:
/// where it starts. Holes are not examined. `is_one` gets its parts and bytes.
pub fn next_record(
    segment: &Segment,
    from: usize,
    mut is_one: impl FnMut(&View, &[u8]) -> Result<bool>,
) -> Result<Option<usize>> {
    let path = segment.path();
    let io = |e: std::io::Error| StoreError::io("seek", path, &e);
    let file = File::open(path).map_err(io)?;
    let size = segment.written().min(from.saturating_add(LIMIT)) as u64;
    let mut at = from as u64;
    while at < size {
        let start = segment::next_data(&file, at, size).map_err(io)?;
        let end = segment::next_hole(&file, start, size)
            .map_err(io)?
            .max(start + 1);
        let begin = (start as usize).max(from);
        if let Some(found) = search(segment, begin, end as usize, &mut is_one)? {
            return Ok(Some(found));
        }
        at = end;
    }
    Ok(None)
}

/// Searches the extent `from..end`. A record may reach a little beyond it, if what it lacks is zeros.
fn search(
    segment: &Segment,
    from: usize,
    end: usize,
    is_one: &mut impl FnMut(&View, &[u8]) -> Result<bool>,
) -> Result<Option<usize>> {
    let finder = MagicFinder::records();
    let end = end.min(segment.written());
    let mut windows = Resident::reading_ahead(Wait::ForDisk, 0);
    let mut candidates = Resident::new(Wait::ForDisk);
    let mut at = from;
    while at < end {
        // A magic code that a window's end cuts is found in the next one.
        let len = (WINDOW + MAGIC_LEN - 1).min(end - at);
        let window = windows.bytes(segment, at, len)?.unwrap_or(&[]);
        for hit in finder.positions(window) {
            let Some(start) = (at + hit).checked_sub(4).filter(|s| *s > from) else {
                continue;
            };
            let bytes = candidates.record(segment, start)?;
            // The place first: it costs less than a CRC, and a body may be full of would-be records.
            if stated_phys(bytes) != Some((segment.base() + start as u64) as i64) {
                continue;
            }
            if let Found::Record(v) = record::read(bytes, true)
                && is_one(&v, &bytes[..v.total])?
            {
                return Ok(Some(start));
            }
        }
        at += WINDOW;
    }
    Ok(None)
}
