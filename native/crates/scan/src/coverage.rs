//! Whether queue entries lead to every record of a log.
//!
//! Mostly they do. But the messages of a topic that was deleted stay in the log while its queues are
//! gone, and so do those of folders that were not copied. A read of all topics may go by the queues
//! only where nothing of the log is without an entry: the sizes that entries state then add up to the
//! log, but for what is blank at the end of each segment.

use super::entries::is_damaged;
use super::error::Result;
use super::log_ranges::next_record;
use super::queues::{Queue, is_blank, list_queues, reach};
use super::store::{SegmentStore, end_of};
use std::ops::ControlFlow;

/// A part of one segment, and the records in it that entries lead to.
struct Tile {
    start: u64,
    stop: u64,
    /// Where the segment ends.
    end: u64,
    /// Bytes of the records.
    sum: u64,
    /// Physical offset behind the last of them.
    last: u64,
}

/// Why not every record of `low..high` has an entry; None: each has one. Both are the ends of
/// records, and `high` is not behind what is dispatched. It reads all entries.
pub fn why_not(store: &SegmentStore, (low, high): (u64, u64)) -> Result<Option<String>> {
    if store.queues.is_none() {
        return Ok(Some(store.no_queues.clone()));
    }
    let mut tiles = Vec::new();
    let mut at = low;
    for file in store
        .files
        .iter()
        .filter(|file| end_of(file) > low && file.0 < high)
    {
        if file.0 > at {
            return Ok(Some("the log has holes".to_owned()));
        }
        at = end_of(file);
        let start = file.0.max(low);
        tiles.push(Tile {
            start,
            stop: high.min(at),
            end: at,
            sum: 0,
            last: start,
        });
    }
    for queue in list_queues(store, |_| Ok(true))? {
        if let Some(why) = add(&queue, &mut tiles, (low, high))? {
            return Ok(Some(why));
        }
    }
    for tile in &tiles {
        let is_full = tile.sum == tile.last - tile.start;
        let is_end = tile.last == tile.stop
            || (tile.stop == tile.end && next_record(store, tile.last)? == tile.end);
        if !is_full || !is_end {
            let (start, stop) = (tile.start, tile.stop);
            return Ok(Some(format!(
                "the log has records without queue entries between {start} and {stop}"
            )));
        }
    }
    Ok(None)
}

/// Adds the records that a queue leads to; says what is wrong with it.
fn add(queue: &Queue, tiles: &mut [Tile], (low, high): (u64, u64)) -> Result<Option<String>> {
    let reached = reach(queue, low, high)?;
    let mut why = None;
    let (mut last, mut tile, mut seen) = (None, 0, reached.start);
    queue.read(reached.start, reached.end, |place, entries| {
        for entry in entries.iter() {
            if is_blank(&entry) {
                continue;
            }
            let phys = entry.phys as u64;
            while !is_damaged(&entry, last) && tiles.get(tile).is_some_and(|t| t.stop <= phys) {
                tile += 1;
            }
            let own = tiles.get_mut(tile).filter(|t| {
                !is_damaged(&entry, last)
                    && t.start <= phys
                    && phys.saturating_add(entry.size as u64) <= t.end
            });
            let Some(own) = own else {
                why = Some(format!("queue {} is damaged", queue.shown()));
                return Ok(ControlFlow::Break(()));
            };
            let end = phys + entry.size as u64;
            own.sum = own.sum.saturating_add(entry.size as u64);
            own.last = own.last.max(end);
            last = Some(phys);
        }
        if place != seen {
            return Ok(ControlFlow::Break(()));
        }
        seen += entries.count() as u64;
        Ok(ControlFlow::Continue(()))
    })?;
    if why.is_none() && seen < reached.end {
        why = Some(format!("a file of queue {} is missing", queue.shown()));
    }
    Ok(why)
}

#[cfg(test)]
#[path = "coverage_tests.rs"]
mod tests;
