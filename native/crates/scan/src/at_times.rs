//! Which queue offsets times by queue stand for in the logs of stores.
//!
//! The offset of a time is that of the queue's first message at or behind the first record of the log
//! that was stored at that time or later. Store times grow along the log but for steps of the clock,
//! so a segment of margin is kept at both ends.

use super::bounds::{QueueExtent, queue_extents};
use super::error::Result;
use super::log_ranges::{overlapping, present_ranges};
use super::notes::Notes;
use super::offsets::LATEST;
use super::queue_times::{TimeEntry, entries, later_than_all};
use super::queues::dispatched;
use super::read_options::OnCorruption;
use super::selection::{Offsets, QueueOffsets, QueueTimes, Rule, Selection};
use super::store::{SegmentStore, file_set};
use super::walk_log::{Key, settings, walk_log};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use pyrmq_arrow::{Column, Reader, RecordSource};
use std::collections::{BTreeMap, BTreeSet};

/// Files of a far file system that are read together.
const AT_ONCE: usize = 16;

/// Store time (ms) of the first record of each file; None if it has none.
pub fn first_times(store: &SegmentStore) -> Result<Vec<Option<i64>>> {
    let ask = |files: &[super::store::File]| -> Result<Vec<Option<i64>>> {
        let found = pyrmq_arrow::first_times(&file_set(files, store.opener())?)?;
        Ok(found
            .into_iter()
            .map(|one| one.map(|(time, _)| time))
            .collect())
    };
    if store.place().is_local() || store.files.len() < 2 {
        return ask(&store.files);
    }
    let pieces = store.files.chunks(store.files.len().div_ceil(AT_ONCE));
    let found: Vec<Result<Vec<Option<i64>>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = pieces.map(|piece| scope.spawn(|| ask(piece))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut out = Vec::with_capacity(store.files.len());
    for piece in found {
        out.extend(piece?);
    }
    Ok(out)
}

/// The part of `start..end`, whole segments, that can have messages of a time range.
pub fn narrowed(
    store: &SegmentStore,
    range: (u64, u64),
    start_time: Option<i64>,
    end_time: Option<i64>,
) -> Result<(u64, u64)> {
    if start_time.is_none() && end_time.is_none() {
        return Ok(range);
    }
    let bases = store.files.iter().map(|file| file.0);
    let fronts: Vec<_> = bases.zip(first_times(store)?).collect();
    Ok(narrowed_by(&fronts, range, start_time, end_time))
}

/// The same by where each file begins, and the time of its first record.
fn narrowed_by(
    fronts: &[(u64, Option<i64>)],
    (mut start, mut end): (u64, u64),
    start_time: Option<i64>,
    end_time: Option<i64>,
) -> (u64, u64) {
    // Files without a record say nothing, and are no margin: those made ahead, a damaged front.
    let known: Vec<(u64, i64)> = fronts
        .iter()
        .filter_map(|&(base, time)| Some((base, time?)))
        .collect();
    if let Some(from) = start_time {
        // The last segment that begins before the time, as the one in front of the first that does
        // not: a segment that begins late may follow on one that begins early.
        let before = known.iter().position(|(_, time)| *time >= from);
        let before = &known[..before.unwrap_or(known.len())];
        let first = match before {
            [.., margin, _] => margin.0,
            _ => fronts.first().map_or(0, |front| front.0),
        };
        start = start.max(first);
    }
    if let Some(until) = end_time {
        let last = known.iter().rposition(|(_, time)| *time < until);
        let after = &known[last.map_or(0, |last| last + 1)..];
        if let [_, margin, ..] = after {
            end = end.min(margin.0);
        }
    }
    (start.min(end), end)
}

/// Physical offset of the first record from `start` on whose store time is `time` or later. `start`
/// is a record's start. None if there is none before `end`.
pub fn first_at(
    store: &SegmentStore,
    (start, end): (u64, u64),
    time: i64,
    on_corruption: OnCorruption,
) -> Result<Option<u64>> {
    let (low, _) = narrowed(store, (start, end), Some(time), None)?;
    if low >= end {
        return Ok(None);
    }
    let source = RecordSource::Range {
        file_set: file_set(overlapping(&store.files, low, end), store.opener())?,
        range: (low, end),
        log_end: end,
        exact: true,
    };
    let mut selection = pyrmq_arrow::Selection::new(None);
    selection.times.0 = time;
    let mut settings = settings(&[Column::CommitLogOffset], 1);
    settings.skip = on_corruption == OnCorruption::Skip;
    let mut reader = Reader::new(source, selection, settings)?;
    let found = reader.next_batch()?;
    Ok(found.map(|batch| {
        let places = batch.column(0).as_primitive::<Int64Type>();
        places.value(0).max(0) as u64
    }))
}

/// What an entry selects of one store.
struct Found {
    entry: TimeEntry,
    broker: String,
    /// All that the entry covers: where each queue ends.
    queues: BTreeMap<Key, i64>,
    /// Of those that have a message at the time or later.
    offsets: BTreeMap<Key, i64>,
}

/// The selection with offsets in the place of its times by queue, where they apply.
///
/// `ends`: physical ends of the logs, one for each store. OffsetOutOfRangeError for a start that is
/// later than all messages it is for, unless the strategy says otherwise.
pub fn with_offsets(
    selection: &Selection,
    stores: &[SegmentStore],
    ends: &[u64],
    on_corruption: OnCorruption,
    notes: &Notes,
) -> Result<Selection> {
    let mut out = selection.clone();
    (out.starting_times, out.ending_times) = (None, None);
    let look = |times: &QueueTimes| found(selection, times, stores, ends, on_corruption, notes);
    if let (Some(times), None) = (&selection.starting_times, selection.start_time) {
        let found = look(times)?;
        let matched: BTreeSet<&TimeEntry> = (found.iter())
            .filter(|one| !one.offsets.is_empty())
            .map(|one| &one.entry)
            .collect();
        let late = found.iter().map(|one| &one.entry);
        let late = late.filter(|entry| !matched.contains(entry)).min();
        if let (Some(late), "error") = (late, &*selection.timestamp_strategy) {
            return Err(later_than_all(late));
        }
        // Queues without such a message start at their end.
        out.starting_offsets = Offsets::Of(by_queue(&found, |_, high| high));
    }
    if let (Some(times), None) = (&selection.ending_times, selection.end_time) {
        // Queues without such a message are read to their end.
        out.ending_offsets = Offsets::Of(by_queue(&look(times)?, |_, _| LATEST));
    }
    Ok(out)
}

fn by_queue(found: &[Found], otherwise: impl Fn(&Key, i64) -> i64) -> QueueOffsets {
    let mut out = QueueOffsets::new();
    for one in found {
        for (key, &high) in &one.queues {
            let offset = one.offsets.get(key).copied();
            let of_topic = out.entry(key.0.clone()).or_default();
            let of_broker = of_topic.entry(one.broker.clone()).or_default();
            of_broker.insert(key.1, offset.unwrap_or_else(|| otherwise(key, high)));
        }
    }
    out
}

/// Of each entry and each store that it is for.
fn found(
    selection: &Selection,
    wanted: &QueueTimes,
    stores: &[SegmentStore],
    ends: &[u64],
    on_corruption: OnCorruption,
    notes: &Notes,
) -> Result<Vec<Found>> {
    let chosen = entries(wanted);
    let mut out = Vec::new();
    for (store, &end) in stores.iter().zip(ends) {
        let is_for = |entry: &&TimeEntry| {
            let broker = entry.broker.as_ref();
            broker.is_none_or(|broker| *broker == store.name)
        };
        let own: Vec<&TimeEntry> = chosen.iter().filter(is_for).collect();
        if own.is_empty() {
            continue;
        }
        // What filters leave out is there all the same.
        let mut all = selection.clone();
        all.filters = Default::default();
        let rule = all.rule(&store.name, None, None);
        let there = extents(store, &rule, store.first(), end, notes)?;
        let mut at: BTreeMap<i64, BTreeMap<Key, i64>> = BTreeMap::new();
        for entry in own {
            if let std::collections::btree_map::Entry::Vacant(free) = at.entry(entry.time) {
                free.insert(offsets_at(
                    store,
                    &rule,
                    entry.time,
                    end,
                    on_corruption,
                    notes,
                )?);
            }
            let covered = there
                .iter()
                .filter(|((topic, queue), _)| entry.covers(topic, &store.name, *queue));
            let queues: BTreeMap<Key, i64> = covered
                .map(|(key, extent)| (key.clone(), extent.high))
                .collect();
            let offsets = (at[&entry.time].iter())
                .filter(|(key, _)| queues.contains_key(*key))
                .map(|(key, offset)| (key.clone(), *offset))
                .collect();
            out.push(Found {
                entry: entry.clone(),
                broker: store.name.clone(),
                queues,
                offsets,
            });
        }
    }
    Ok(out)
}

/// Of each queue that has one, the offset of its first message from that time on.
fn offsets_at(
    store: &SegmentStore,
    rule: &Rule,
    time: i64,
    end: u64,
    on_corruption: OnCorruption,
    notes: &Notes,
) -> Result<BTreeMap<Key, i64>> {
    for range in present_ranges(store, store.first(), end, false, notes)? {
        if let Some(phys) = first_at(store, range, time, on_corruption)? {
            let extents = extents(store, rule, phys, end, notes)?.into_iter();
            let some = extents.filter(|(_, one)| one.low < one.high);
            return Ok(some.map(|(key, one)| (key, one.low)).collect());
        }
    }
    Ok(BTreeMap::new())
}

/// As `queue_extents`, with the messages that a broker has not put into queues yet.
fn extents(
    store: &SegmentStore,
    rule: &Rule,
    start: u64,
    end: u64,
    notes: &Notes,
) -> Result<BTreeMap<Key, QueueExtent>> {
    // Looked for first: a broker may go on dispatching.
    let last = match store.queues.is_some() {
        true => dispatched(store, end, end)?,
        false => end,
    };
    let mut out = queue_extents(store, rule, start, end, notes)?;
    if last >= end {
        return Ok(out);
    }
    for (key, seen) in walk_log(store, rule, last.max(start), end, notes)? {
        match out.get_mut(&key) {
            Some(known) if known.low < known.high => known.high = known.high.max(seen.high),
            _ => {
                let walked = QueueExtent {
                    low: seen.low,
                    high: seen.high,
                    reach: None,
                };
                out.insert(key, walked);
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
#[path = "at_times_tests.rs"]
mod tests;
