//! Offsets by queue, as a caller gives them, compared with the queues of a store.
//!
//! Where there are no queue files the log itself is walked once; that reads its headers only.

use super::error::{Kind, Part, Result, SegmentError};
use super::log_ranges::report_loss;
use super::notes::Notes;
use super::offsets::{EARLIEST, LATEST};
use super::queues::{Queue, Reach, dispatched, phys_at, place_behind, place_of, reach};
use super::rule::Asker;
use super::selection::{Bounds, Filters, Offsets, Rule, Selection};
use super::store::SegmentStore;
pub use super::walk_log::{Key, Seen, walk_log};
use std::collections::BTreeMap;

/// The queue offsets of a queue whose messages are in the log, the end exclusive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueExtent {
    pub low: i64,
    pub high: i64,
    /// Its files; None where the log was walked.
    pub reach: Option<Reach>,
}

/// Offsets that a rule applies, and the part of the log that can have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub starts: Bounds,
    pub ends: Bounds,
    /// Physical offsets.
    pub low: u64,
    pub high: u64,
}

/// The offsets that name a queue of a broker.
pub fn of_broker(offsets: &Offsets, broker: &str) -> BTreeMap<Key, i64> {
    let mut out = BTreeMap::new();
    if let Offsets::Of(topics) = offsets {
        for (topic, brokers) in topics {
            for (&queue, &offset) in brokers.get(broker).into_iter().flatten() {
                out.insert((topic.clone(), queue), offset);
            }
        }
    }
    out
}

/// By topic and queue.
pub fn as_bounds(offsets: &BTreeMap<Key, i64>) -> Bounds {
    let mut out = Bounds::new();
    for ((topic, queue), &offset) in offsets {
        out.entry(topic.clone()).or_default().insert(*queue, offset);
    }
    out
}

/// The extent of each queue that `rule` selects, of `start..end` of the log.
pub fn queue_extents(
    store: &SegmentStore,
    rule: &Rule,
    start: u64,
    end: u64,
    notes: &Notes,
) -> Result<BTreeMap<Key, QueueExtent>> {
    if store.queues.is_none() {
        notes.info(format!(
            "{}: {}; reading the offsets from the log",
            store.root, store.no_queues
        ));
        let found = walk_log(store, rule, start, end, notes)?.into_iter();
        return Ok(found.map(|(key, seen)| (key, walked(&seen))).collect());
    }
    let mut out = BTreeMap::new();
    for queue in chosen_queues(store, rule)? {
        let reached = reach(&queue, start, end)?;
        let extent = QueueExtent {
            low: reached.min_offset,
            high: reached.max_offset,
            reach: Some(reached),
        };
        out.insert((queue.topic, queue.id), extent);
    }
    #[cfg(test)]
    crate::meanwhile::at("extents are known");
    Ok(out)
}

fn walked(seen: &Seen) -> QueueExtent {
    QueueExtent {
        low: seen.low,
        high: seen.high,
        reach: None,
    }
}

/// The queues that a rule asks for.
fn chosen_queues(store: &SegmentStore, rule: &Rule) -> Result<Vec<Queue>> {
    let chosen = Asker::new(rule)?.queues(store)?;
    Ok(chosen.into_iter().map(|(queue, _)| queue).collect())
}

fn any_behind_end(offsets: &BTreeMap<Key, i64>, extents: &BTreeMap<Key, QueueExtent>) -> bool {
    let mut offsets = offsets.iter();
    offsets.any(|(key, &offset)| extents.get(key).is_some_and(|extent| offset > extent.high))
}

/// Adds the messages of the log's tail that have no queue entry yet, as a broker leaves them that is
/// killed.
fn add_undispatched(extents: &mut BTreeMap<Key, QueueExtent>, tail: &BTreeMap<Key, Seen>) {
    for (key, seen) in tail {
        if let Some(extent) = extents.get_mut(key) {
            extent.high = extent.high.max(seen.high);
        }
    }
}

/// OffsetOutOfRangeError for an offset behind the end of its queue.
pub fn check_not_behind_end(
    parameter: &'static str,
    offsets: &BTreeMap<Key, i64>,
    extents: &BTreeMap<Key, QueueExtent>,
    broker: &str,
) -> Result<()> {
    for (key, &offset) in offsets {
        let (low, high) = extent_of(extents, key);
        if offset <= high {
            continue;
        }
        let (topic, queue) = key;
        let what = format!(
            ": offset {offset} of topic {topic}, broker {broker}, queue {queue} is behind its end, \
             {high}"
        );
        let more = match parameter {
            "ending_offsets" => "; -1 is the end",
            _ => "",
        };
        return Err(SegmentError::new(
            Kind::OffsetOutOfRange,
            [Part::Name(parameter), what.into()],
        )
        .hint(format!("it holds {low} to {high}{more}")));
    }
    Ok(())
}

fn extent_of(extents: &BTreeMap<Key, QueueExtent>, key: &Key) -> (i64, i64) {
    extents
        .get(key)
        .map_or((0, 0), |extent| (extent.low, extent.high))
}

/// The starting offsets that are still there; one that is not starts at the earliest.
pub fn without_deleted(
    mut offsets: BTreeMap<Key, i64>,
    extents: &BTreeMap<Key, QueueExtent>,
    broker: &str,
    fail: bool,
    notes: &Notes,
) -> Result<BTreeMap<Key, i64>> {
    let mut deleted = Vec::new();
    for (key, &offset) in &offsets {
        let (low, high) = extent_of(extents, key);
        if offset < low {
            let (topic, queue) = key;
            let what = format!(
                "offset {offset} of topic {topic}, broker {broker}, queue {queue} is deleted: it \
                 holds {low} to {high}"
            );
            report_loss(what, fail, notes)?;
            deleted.push(key.clone());
        }
    }
    for key in &deleted {
        offsets.remove(key);
    }
    Ok(offsets)
}

/// The starting and ending offsets of a batch read; times win over them.
pub fn batch_limits(
    store: &SegmentStore,
    selection: &Selection,
    start: u64,
    end: u64,
    fail: bool,
    notes: &Notes,
) -> Result<Limits> {
    let named = |offsets: &Offsets, by_time: bool| match by_time {
        true => BTreeMap::new(),
        false => of_broker(offsets, &store.name),
    };
    let mut starts = named(&selection.starting_offsets, selection.start_time.is_some());
    let mut ends = named(&selection.ending_offsets, selection.end_time.is_some());
    if starts.values().any(|&offset| offset == LATEST) {
        return Err(SegmentError::new(
            Kind::Option,
            [
                Part::Name("starting_offsets"),
                ": latest (-1) is no start for a batch read".into(),
            ],
        )
        .hint("it would read nothing"));
    }
    starts.retain(|_, offset| *offset != EARLIEST);
    ends.retain(|_, offset| *offset != LATEST);
    let mut limits = Limits {
        low: start,
        high: end,
        ..Limits::default()
    };
    if starts.is_empty() && ends.is_empty() {
        return Ok(limits);
    }
    if store.queues.is_none() && store.place.is_some() {
        notes.warn(format!(
            "{}: {}, and a remote log is not walked: offsets that are deleted, or behind the end, \
             are not reported",
            store.root, store.no_queues
        ));
        (limits.starts, limits.ends) = (as_bounds(&starts), as_bounds(&ends));
        return Ok(limits);
    }
    // What has no entry yet stands behind the last message that has one; looked for first, as a
    // broker may go on dispatching.
    let last = dispatched(store, end, end)?;
    // What filters leave out is there all the same.
    let unfiltered = Selection {
        filters: Filters::default(),
        ..selection.clone()
    };
    let rule = unfiltered.rule(&store.name, None, None);
    let mut extents = queue_extents(store, &rule, start, end, notes)?;
    let behind = any_behind_end(&starts, &extents) || any_behind_end(&ends, &extents);
    if last < end && behind {
        let tail = walk_log(store, &rule, last.max(start), end, notes)?;
        add_undispatched(&mut extents, &tail);
    }
    check_not_behind_end("starting_offsets", &starts, &extents, &store.name)?;
    check_not_behind_end("ending_offsets", &ends, &extents, &store.name)?;
    check_order(&starts, &ends, &store.name)?;
    let starts = without_deleted(starts, &extents, &store.name, fail, notes)?;
    let reaches: Vec<(&Key, &Reach)> = extents
        .iter()
        .filter_map(|(key, extent)| Some((key, extent.reach.as_ref()?)))
        .collect();
    if !reaches.is_empty() && reaches.iter().all(|(key, _)| starts.contains_key(*key)) {
        let mut low = last;
        for (key, reached) in &reaches {
            let place = place_of(reached, starts[*key])?;
            low = low.min(phys_at(reached, place, end)?);
        }
        limits.low = start.max(low);
    }
    if !reaches.is_empty() && reaches.iter().all(|(key, _)| ends.contains_key(*key)) {
        let mut behind = 0;
        for (key, reached) in &reaches {
            let place = place_behind(reached, ends[*key])?;
            behind = behind.max(phys_at(reached, place, end)?);
        }
        limits.high = if behind <= last { behind } else { end };
    }
    limits.high = limits.high.max(limits.low);
    (limits.starts, limits.ends) = (as_bounds(&starts), as_bounds(&ends));
    Ok(limits)
}

fn check_order(starts: &BTreeMap<Key, i64>, ends: &BTreeMap<Key, i64>, broker: &str) -> Result<()> {
    for (key, start) in starts {
        let Some(end) = ends.get(key).filter(|end| *end < start) else {
            continue;
        };
        let what = format!(
            ": {end} of topic {}, broker {broker}, queue {} is before its starting offset {start}",
            key.0, key.1
        );
        return Err(SegmentError::new(
            Kind::Option,
            [Part::Name("ending_offsets"), what.into()],
        ));
    }
    Ok(())
}
