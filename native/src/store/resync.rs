//! Finding the next record behind a place where none can be read.
//!
//! Nothing that a candidate says is believed by itself: it may stand in the body of a message whose
//! head is what is damaged. The caller says by other evidence whether it is one.

use super::error::{Result, StoreError};
use super::segment::{self, Segment};
use crate::format::candidate::{MagicFinder, stated_phys};
use crate::format::record::{self, Found, View};
use std::fs::File;

/// Bytes that are searched at most.
const LIMIT: usize = 512 << 20;

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
    let bytes = segment.readable_from(0);
    let size = bytes.len().min(from.saturating_add(LIMIT)) as u64;
    let mut at = from as u64;
    while at < size {
        let start = segment::next_data(&file, at, size).map_err(io)?;
        let end = segment::next_hole(&file, start, size)
            .map_err(io)?
            .max(start + 1);
        // A record may reach a little beyond what is stored of it, if that is zeros.
        let extent = &bytes[..bytes.len().min(end as usize)];
        let begin = (start as usize).max(from);
        if let Some(found) = search(segment.base(), bytes, extent, begin, &mut is_one)? {
            return Ok(Some(found));
        }
        at = end;
    }
    Ok(None)
}

fn search(
    base: u64,
    bytes: &[u8],
    extent: &[u8],
    from: usize,
    is_one: &mut impl FnMut(&View, &[u8]) -> Result<bool>,
) -> Result<Option<usize>> {
    let finder = MagicFinder::records();
    for hit in finder.positions(extent.get(from..).unwrap_or(&[])) {
        let Some(start) = (from + hit).checked_sub(4).filter(|s| *s > from) else {
            continue;
        };
        // The place first: it costs less than a CRC, and a body may be full of would-be records.
        if stated_phys(&bytes[start..]) != Some((base + start as u64) as i64) {
            continue;
        }
        if let Found::Record(v) = record::read(&bytes[start..], true)
            && is_one(&v, &bytes[start..start + v.total])?
        {
            return Ok(Some(start));
        }
    }
    Ok(None)
}
