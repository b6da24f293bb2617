//! The records that a task's queue entries lead to, as far as entries can say which are asked for.

use super::error::{Kind, Part, Result, SegmentError};
use super::queues::{BATCH, Queue, is_blank};
use super::selection::Rule;
use super::task::{QueuePart, Task};
use pyrmq_format::cq_entry::CqEntry;
use pyrmq_format::delay::SCHEDULE_TOPIC;
use pyrmq_format::java;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// What to do where entries are deleted.
pub fn read_log_hint() -> [Part; 2] {
    [Part::Value("plan", "scan"), " reads the log itself".into()]
}

/// Physical offset and size (0: not known) of the records that a task's places and entries lead to,
/// ascending. DataLossError if an entry is gone.
pub fn positions(task: &Task) -> Result<Vec<(u64, u32)>> {
    let inside = |phys: u64| (task.start..task.end).contains(&phys);
    let named = task.places.iter().copied().filter(|place| inside(*place));
    let mut rows: Vec<(u64, u32)> = named.map(|place| (place, 0)).collect();
    for part in &task.queues {
        let tags = tag_codes(&task.rule, &part.topic, part.unit);
        let mut seen = part.start;
        Queue::from(part).read(part.start, part.end, |place, entries| {
            if place != seen || entries.iter().any(|entry| entry.size <= 0) {
                return Ok(ControlFlow::Break(()));
            }
            seen += entries.count() as u64;
            for entry in entries.iter() {
                let size = entry_size(&entry, tags.as_deref());
                if size > 0 && entry.phys >= 0 && inside(entry.phys as u64) {
                    rows.push((entry.phys as u64, size as u32));
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if seen < part.end {
            return Err(gone(task, part, seen));
        }
    }
    rows.sort_by_key(|row| row.0); // stable: of one place the first stays
    rows.dedup_by_key(|row| row.0);
    Ok(rows)
}

fn gone(task: &Task, part: &QueuePart, seen: u64) -> SegmentError {
    SegmentError::new(
        Kind::DataLoss,
        format!(
            "{}: the entries of queue {}-{} from {seen} on were deleted before they were read",
            task.describe(),
            part.topic,
            part.id
        ),
    )
    .hint(read_log_hint())
}

/// The codes that entries of messages with the tags have, ascending; None: entries cannot say it.
///
/// [ConsumeQueue] Instead of a hash there may be an address into consumequeue_ext, and in the delay
/// topic a time of delivery; the entry of an inner batch has no hash of the messages in it. Those are
/// let through.
pub fn tag_codes(rule: &Rule, topic: &str, unit: u64) -> Option<Vec<i64>> {
    if topic.as_bytes() == SCHEDULE_TOPIC || unit == BATCH {
        return None;
    }
    let chosen = &rule.selection;
    let code = |tag: Option<&str>| java::tag_code(tag.map(str::as_bytes));
    let named = chosen.tags.as_ref();
    let named = named.map(|tags| tags.iter().map(|tag| code(Some(tag))).collect());
    let filtered = chosen.filters.tags.as_ref();
    let filtered = filtered.map(|tags| tags.iter().map(|tag| code(tag.as_deref())).collect());
    let codes: BTreeSet<i64> = match (named, filtered) {
        (Some(a), Some(b)) => &a & &b,
        (a, b) => a.or(b)?,
    };
    Some(codes.into_iter().collect())
}

/// The size of the message that an entry leads to; 0 if it cannot be one that is asked for. Tags are
/// compared by their hash.
pub fn entry_size(entry: &CqEntry, tags: Option<&[i64]>) -> u64 {
    if entry.size <= 0 || is_blank(entry) {
        return 0;
    }
    let may_match = tags.is_none_or(|codes| {
        i32::try_from(entry.tags_code).is_err() || codes.binary_search(&entry.tags_code).is_ok()
    });
    if may_match { entry.size as u64 } else { 0 }
}

/// Whether an entry cannot follow on one that leads to `last`: queues are in the order of the log.
pub fn is_damaged(entry: &CqEntry, last: Option<u64>) -> bool {
    if is_blank(entry) {
        return false;
    }
    let behind = |last: u64| entry.phys as u64 <= last;
    entry.size <= 0 || entry.phys < 0 || last.is_some_and(behind)
}

/// The task in several, each with at most `count` of the messages that it leads to.
pub fn at_most(task: &Task, count: usize) -> Result<Vec<Task>> {
    let places = positions(task)?;
    let count = count.max(1);
    if places.len() <= count {
        return Ok(vec![task.clone()]);
    }
    let mut edges = vec![task.start];
    edges.extend(places.iter().skip(count).step_by(count).map(|row| row.0));
    edges.push(task.end);
    let mut out: Vec<Task> = edges
        .windows(2)
        .map(|pair| Task {
            start: pair[0],
            end: pair[1],
            log_end: pair[1],
            queues: Vec::new(),
            places: (task.places.iter().copied())
                .filter(|place| (pair[0]..pair[1]).contains(place))
                .collect(),
            ..task.clone()
        })
        .collect();
    for part in &task.queues {
        let cuts = cut(part, &edges)?;
        for (one, at) in out.iter_mut().zip(cuts.windows(2)) {
            if at[0] < at[1] {
                let (start, end) = (at[0], at[1]);
                one.queues.push(QueuePart {
                    start,
                    end,
                    ..part.clone()
                });
            }
        }
    }
    Ok(out)
}

/// The places of a queue that lead to the edges; the first is its start, the last its end.
fn cut(part: &QueuePart, edges: &[u64]) -> Result<Vec<u64>> {
    let mut at = vec![part.start];
    let inner = &edges[1..edges.len() - 1];
    let mut next = 0;
    Queue::from(part).read(part.start, part.end, |place, entries| {
        for (number, entry) in entries.iter().enumerate() {
            while next < inner.len() && entry.phys >= 0 && entry.phys as u64 >= inner[next] {
                at.push(place + number as u64);
                next += 1;
            }
        }
        Ok(match next < inner.len() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    })?;
    at.resize(edges.len(), part.end);
    Ok(at)
}
