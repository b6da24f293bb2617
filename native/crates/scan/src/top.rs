//! `ORDER BY queueOffset|commitLogOffset LIMIT n`: less is read, but never less than the n rows.
//!
//! More rows than n may come: whoever asks sorts them again. Nothing is narrowed where the messages
//! themselves decide which rows there are, as by tags, or where damage may be left out.

use super::counts::of_queue;
use super::coverage;
use super::error::Result;
use super::index_plan::{NoIndex, names_topics, why_incomplete};
use super::log_ranges::RecordStarts;
use super::notes::Notes;
use super::parts::Part;
use super::queues::{BATCH, Queue, dispatched, place_behind, place_of, reach};
use super::read_options::OnCorruption;
use super::request::{Request, Top, TopBy};
use super::rule::Asker;
use pyrmq_arrow::{Advance, advance};
use std::sync::Arc;

/// Bytes of log that are walked to find where n rows are.
const WALKED: u64 = 64 << 20;
/// Where a walk from the end begins first.
const FIRST_WALK: u64 = 256 << 10;
/// More rows are not looked for.
const MAX_ROWS: u64 = 1 << 20;
/// Most messages of one record.
const MAX_INNER: u64 = i16::MAX as u64;

/// Narrows what is read of one store. What stands in the way, such as damage, is met when it is read.
pub(crate) fn narrow(part: &mut Part<'_>, top: &Top, request: &Request, notes: &Notes) {
    let chosen = &part.rule.selection;
    let by_row = chosen.tags.is_some()
        || chosen.key.is_some()
        || chosen.filters.tags.is_some()
        || chosen.filters.keys.is_some()
        || chosen.filters.limit.is_some();
    let skips = request.how.on_corruption == OnCorruption::Skip;
    let [(low, high)] = part.ranges[..] else {
        return;
    };
    if by_row || skips || top.n > MAX_ROWS {
        return;
    }
    match top.by {
        TopBy::CommitLogOffset => {
            let found = match top.descending {
                true => last_rows(part, (low, high), top.n),
                false => first_rows(part, (low, high), top.n),
            };
            if let Ok(Some((low, high))) = found {
                (part.limits.low, part.limits.high) = (low, high);
                part.ranges = vec![(low, high)];
            }
        }
        // An error says why it is not narrowed, and nobody has to know.
        TopBy::QueueOffset => drop(bound_offsets(part, (low, high), top, notes)),
    }
}

fn rows_of(part: &Part<'_>, range: (u64, u64), bounds: Advance) -> Result<(u64, u64)> {
    let files = part.store.file_set(&part.store.files)?;
    let mut selection = Arc::new(part.rule.clone()).wanted()?;
    Ok(advance(&files, range, &mut selection, bounds)?)
}

/// The front of a range that has n rows.
fn first_rows(part: &Part<'_>, (low, high): (u64, u64), n: u64) -> Result<Option<(u64, u64)>> {
    // An inner batch is not cut: in front of one there may be fewer rows.
    for more in [0, MAX_INNER] {
        let bounds = Advance {
            max_rows: Some(n.saturating_add(more)),
            max_bytes: Some(WALKED),
            skip: false,
        };
        let (stop, rows) = rows_of(part, (low, high), bounds)?;
        if rows >= n {
            return Ok((stop < high).then_some((low, stop)));
        }
    }
    Ok(None)
}

/// The end of a range that has n rows.
fn last_rows(part: &Part<'_>, (low, high): (u64, u64), n: u64) -> Result<Option<(u64, u64)>> {
    let starts = RecordStarts::new(part.store);
    let mut walk = FIRST_WALK;
    while walk <= WALKED && walk < high - low {
        if let Some(start) = starts.behind(high - walk, high)? {
            let (_, rows) = rows_of(part, (start, high), Advance::default())?;
            if rows >= n {
                return Ok(Some((start, high)));
            }
        }
        walk *= 4;
    }
    Ok(None)
}

/// Bounds the offsets of the chosen queues by one that n of their messages are before, or behind.
fn bound_offsets(
    part: &mut Part<'_>,
    (low, high): (u64, u64),
    top: &Top,
    notes: &Notes,
) -> std::result::Result<(), NoIndex> {
    let (store, chosen) = (part.store, &part.rule.selection);
    let filters = &chosen.filters;
    let timed = chosen.start_time.is_some() || chosen.end_time.is_some();
    let by_head = filters.store_times.is_some() || filters.born_times.is_some();
    if timed || by_head || store.queues.is_none() || !why_incomplete(store).is_empty() {
        return Ok(());
    }
    let last = dispatched(store, part.log_end, high)?.clamp(low, high);
    // Entries say exactly which messages lie there.
    let (from, before) = match filters.commit_log_offsets {
        Some((from, before)) => (from.max(0) as u64, before.max(0) as u64),
        None => (low, last),
    };
    let (from, before) = (low.max(from), last.min(before));
    let mut queues: Vec<(Queue, u64, u64)> = Vec::new();
    for (queue, range) in Asker::new(&part.rule)?.queues(store)? {
        if queue.unit == BATCH {
            return Ok(());
        }
        let reached = reach(&queue, from, before)?;
        let (start, end) = (
            place_of(&reached, range.0)?,
            place_behind(&reached, range.1)?,
        );
        if start < end {
            queues.push((queue, start, end));
        }
    }
    let Some(bound) = bound(&queues, top) else {
        return Ok(());
    };
    let cut = |start: u64, end: u64| match top.descending {
        true => (start.max(bound).min(end), end),
        false => (start, end.min(bound).max(start)),
    };
    // Some may be blank.
    let starts = RecordStarts::new(store);
    let (mut there, mut is_full) = (0, false);
    for (queue, start, end) in &queues {
        is_full |= queue.is_full(*end);
        let found = of_queue(queue, cut(*start, *end), &starts)?;
        there += found.map_or(0, |(count, _, _)| count);
    }
    let is_covered = !is_full && names_topics(store, &part.rule, notes)?
        || coverage::why_not(store, (low, last))?.is_none();
    if there < top.n || !is_covered {
        return Ok(());
    }
    for (queue, _, _) in queues {
        let bounds = match top.descending {
            true => &mut part.rule.starts,
            false => &mut part.rule.ends,
        };
        let of_topic = bounds.entry(queue.topic).or_default();
        let own = of_topic.entry(queue.id).or_insert(bound as i64);
        *own = match top.descending {
            true => (*own).max(bound as i64),
            false => (*own).min(bound as i64),
        };
    }
    part.by_entries = true;
    Ok(())
}

/// The lowest offset that n places are before, or the highest that n are at or behind; None if there
/// are not more.
fn bound(queues: &[(Queue, u64, u64)], top: &Top) -> Option<u64> {
    let inside = |at: u64| -> u64 {
        let each = queues.iter().map(|(_, start, end)| match top.descending {
            true => end.saturating_sub(at.max(*start)),
            false => at.min(*end).saturating_sub(*start),
        });
        each.fold(0, u64::saturating_add)
    };
    let (mut low, mut high) = (0, queues.iter().map(|queue| queue.2).max()?);
    let all = inside(if top.descending { low } else { high });
    if all <= top.n {
        return None;
    }
    while low < high {
        // Of the lowest that has them, or of the highest.
        let middle = match top.descending {
            true => high - (high - low) / 2,
            false => low + (high - low) / 2,
        };
        match (inside(middle) >= top.n, top.descending) {
            (true, true) => low = middle,
            (false, true) => high = middle - 1,
            (true, false) => high = middle,
            (false, false) => low = middle + 1,
        }
    }
    Some(low)
}

#[cfg(test)]
#[path = "top_tests.rs"]
mod tests;
