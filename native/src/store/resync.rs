//! Finding the next record behind a place where none can be read.

use super::error::{Result, StoreError};
use super::segment::{self, Segment};
use crate::format::candidate::{MagicFinder, stated_phys};
use crate::format::record::{self, Found};
use std::fs::File;

/// Bytes that are searched at most.
const LIMIT: usize = 512 << 20;

/// A record behind damage.
pub struct Next {
    /// Where it starts in the file.
    pub at: usize,
    pub store_timestamp: i64,
}

/// The first whole record (its CRC fits, it says its own place) behind `from` in a file. Holes are
/// not examined.
pub fn next_record(segment: &Segment, from: usize) -> Result<Option<Next>> {
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
        if let Some(found) = search(segment.base(), bytes, extent, (start as usize).max(from)) {
            return Ok(Some(found));
        }
        at = end;
    }
    Ok(None)
}

fn search(base: u64, bytes: &[u8], extent: &[u8], from: usize) -> Option<Next> {
    let finder = MagicFinder::records();
    for hit in finder.positions(extent.get(from..)?) {
        let Some(start) = (from + hit).checked_sub(4).filter(|s| *s > from) else {
            continue;
        };
        // The place first: it costs less than a CRC, and a body may be full of would-be records.
        if stated_phys(&bytes[start..]) != Some((base + start as u64) as i64) {
            continue;
        }
        if let Found::Record(v) = record::read(&bytes[start..], true) {
            return Some(Next {
                at: start,
                store_timestamp: v.store_timestamp,
            });
        }
    }
    None
}
