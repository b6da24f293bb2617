//! How many messages there are of each queue, and their first and last queue offset, by the queue
//! entries alone.
//!
//! An entry is 20 bytes for a message. Those of the chosen queues are looked at one by one, as one of
//! them may be blank: a broker leaves the places of messages blank that a log lost, or that a master
//! did not have. Only at the front of a queue's first file every broker does so.
//!
//! What makes entries a proof: the queue has each place from the first message that the log still has
//! to the end; its first and its last entry lead to records that say the same queue offset; and no
//! record is without an entry. The last is taken for granted of a topic that is named and has its
//! queues, as plans by queues do. Where anything is unusual, and for all topics together, it has to be
//! shown (`coverage`).

use super::coverage;
use super::error::{Kind, Result, SegmentError};
use super::index_plan::{NoIndex, check_complete, names_topics, why_incomplete};
use super::log_ranges::{RecordStarts, files_of};
use super::notes::Notes;
use super::parts::{Part, parts_of};
use super::place::Places;
use super::queues::{
    BATCH, Queue, Reach, dispatched, entry_at, is_blank, place_behind, place_of, reach,
};
use super::read_options::OnCorruption;
use super::request::Request;
use super::rule::Asker;
use super::store::{SegmentStore, file_set};
use super::stores::open_stores;
use super::walk_log::settings;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use pyrmq_arrow::{Column, Reader, RecordSource};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Bytes of log without queue entries that are walked; more cost as much as a read.
const MAX_TAIL: u64 = 64 << 20;
const COLUMNS: [Column; 3] = [Column::Topic, Column::QueueId, Column::QueueOffset];

/// Messages of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueCount {
    pub topic: String,
    pub broker: String,
    pub queue: i32,
    /// Not 0.
    pub count: u64,
    pub min_offset: i64,
    /// Queue offset of the last message.
    pub max_offset: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counts {
    /// By topic, broker and queue; those without messages are left out.
    Exact(Vec<QueueCount>),
    /// The messages have to be read; why.
    Unknown(String),
}

/// Messages that have the same values of some columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    pub key: Vec<Value>,
    pub count: u64,
    pub min_offset: i64,
    pub max_offset: i64,
}

impl Counts {
    /// The counts by columns, each topic, brokerName or queueId, as JSON for the borders. Without
    /// columns one group, unless there is no message.
    pub fn by(&self, columns: &[String]) -> Result<Value> {
        let all = match self {
            Counts::Unknown(why) => return Ok(serde_json::json!({"exact": false, "why": why})),
            Counts::Exact(all) => all,
        };
        let mut groups: Vec<Group> = Vec::new();
        let mut known: BTreeMap<Vec<String>, usize> = BTreeMap::new();
        for one in all {
            let mut key = Vec::with_capacity(columns.len());
            for column in columns {
                key.push(match column.as_str() {
                    "topic" => Value::from(&*one.topic),
                    "brokerName" => Value::from(&*one.broker),
                    "queueId" => Value::from(one.queue),
                    other => {
                        let text = format!("messages are not counted by {other:?}");
                        return Err(SegmentError::new(Kind::Option, text)
                            .hint("expected topic, brokerName or queueId"));
                    }
                });
            }
            let name = key.iter().map(Value::to_string).collect();
            let index = *known.entry(name).or_insert(groups.len());
            match groups.get_mut(index) {
                Some(group) => {
                    group.count += one.count;
                    group.min_offset = group.min_offset.min(one.min_offset);
                    group.max_offset = group.max_offset.max(one.max_offset);
                }
                None => groups.push(Group {
                    key,
                    count: one.count,
                    min_offset: one.min_offset,
                    max_offset: one.max_offset,
                }),
            }
        }
        Ok(serde_json::json!({"exact": true, "groups": groups}))
    }
}

/// How many messages a read would give, by queue. What is wrong with the request is an error, as it
/// is for `plan`.
pub fn counts(request: &Request, places: &dyn Places, notes: &Notes) -> Result<Counts> {
    if let Some(why) = decided_by_rows(request) {
        return Ok(Counts::Unknown(why));
    }
    let stores = open_stores(&request.paths, &request.broker_names, places, notes)?;
    let mut out = Vec::new();
    for part in parts_of(&stores, request, notes)? {
        match of_part(&part, notes) {
            Ok(found) => out.extend(found),
            // As plans by queues: what cannot be listed or read is read from the log.
            Err(why) => return Ok(Counts::Unknown(why.to_string())),
        }
    }
    Ok(Counts::Exact(out))
}

/// Why entries cannot say which messages are asked for; None: they can.
fn decided_by_rows(request: &Request) -> Option<String> {
    let (chosen, filters) = (&request.selection, &request.selection.filters);
    let by_row = [
        ("tags", chosen.tags.is_some() || filters.tags.is_some()),
        ("keys", chosen.key.is_some() || filters.keys.is_some()),
        (
            "store times",
            chosen.start_time.is_some()
                || chosen.end_time.is_some()
                || filters.store_times.is_some(),
        ),
        ("born times", filters.born_times.is_some()),
    ];
    if let Some((what, _)) = by_row.into_iter().find(|(_, given)| *given) {
        return Some(format!("{what} are compared with those of each message"));
    }
    let why = match &*request.plan {
        "scan" | "file" => "the plan is to read the log",
        _ if filters.limit.is_some() => "there is a limit",
        _ if request.how.on_corruption == OnCorruption::Skip => {
            "what is damaged is known only after it is read"
        }
        _ => return None,
    };
    Some(why.to_owned())
}

fn unknown<T>(why: impl Into<String>) -> std::result::Result<T, NoIndex> {
    Err(NoIndex::Unusable(why.into()))
}

fn of_part(part: &Part<'_>, notes: &Notes) -> std::result::Result<Vec<QueueCount>, NoIndex> {
    let (store, rule) = (part.store, &part.rule);
    let (mut low, mut high) = (part.limits.low, part.limits.high);
    if let Some((from, before)) = rule.selection.filters.commit_log_offsets {
        // Entries say it exactly.
        low = low.max(u64::try_from(from).unwrap_or(0));
        high = high.min(u64::try_from(before).unwrap_or(0));
    }
    if part.ranges.is_empty() || low >= high {
        return Ok(Vec::new());
    }
    if part.ranges.len() > 1 {
        return unknown("the log has holes");
    }
    if store.queues.is_none() {
        return unknown(store.no_queues.clone());
    }
    let doubt = why_incomplete(store);
    if !doubt.is_empty() {
        return unknown(doubt);
    }
    // Looked for first: queues that are listed after it have all messages before it.
    let (all, first) = (part.limits.high, front(store, low));
    let covered = dispatched(store, part.log_end, all)?.min(all).max(first);
    let behind = covered.clamp(low, high);
    let tail = high.saturating_sub(covered);
    if tail > MAX_TAIL {
        return unknown(format!("{tail} bytes of the log have no queue entries yet"));
    }
    let asker = Asker::new(rule)?;
    let chosen = asker.queues(store)?;
    let named = names_topics(store, rule, notes)?;
    let mut is_usual = named && check_complete(store, &asker, rule, &chosen, notes).is_ok();
    let starts = RecordStarts::new(store);
    let mut out: BTreeMap<(String, i32), QueueCount> = BTreeMap::new();
    for (queue, range) in chosen {
        if queue.unit == BATCH {
            let text = format!("queue {} has inner batches", queue.shown());
            return unknown(text);
        }
        let reached = reach(&queue, low, behind)?;
        let (start, end) = (
            place_of(&reached, range.0)?,
            place_behind(&reached, range.1)?,
        );
        is_usual &= start > reached.start || has_front(&reached, low)?;
        is_usual &= end < reached.end || !queue.is_full(end);
        if let Some((count, min_offset, max_offset)) = of_queue(&queue, (start, end), &starts)? {
            let one = QueueCount {
                topic: queue.topic.clone(),
                broker: store.name.clone(),
                queue: queue.id,
                count,
                min_offset,
                max_offset,
            };
            out.insert((queue.topic, queue.id), one);
        }
    }
    if !is_usual && let Some(why) = coverage::why_not(store, (first, covered))? {
        return unknown(why);
    }
    add_tail(part, (covered, high), &mut out)?;
    Ok(out.into_values().collect())
}

/// The record start from which on coverage is to be shown: that of the segment that has `low`.
fn front(store: &SegmentStore, low: u64) -> u64 {
    let files = &store.files;
    let next = files.partition_point(|file| file.0 <= low);
    next.checked_sub(1).map_or(low, |index| files[index].0)
}

/// Whether the queue shows that it has all messages from its first one on: it begins with the first
/// of all, or an entry in front of it leads to a message that is deleted or not asked for.
fn has_front(reached: &Reach, low: u64) -> Result<bool> {
    let Some(before) = reached.start.checked_sub(1) else {
        return Ok(true);
    };
    let entry = entry_at(&reached.queue, before)?;
    Ok(entry.is_some_and(|entry| !entry.is_blank() && (entry.phys as u64) < low))
}

/// Number of messages in some places of a queue, and their first and last queue offset.
pub(crate) fn of_queue(
    queue: &Queue,
    (start, end): (u64, u64),
    starts: &RecordStarts<'_>,
) -> std::result::Result<Option<(u64, i64, i64)>, NoIndex> {
    let shown = || queue.shown();
    let (mut blanks, mut seen) = (0, start);
    let (mut first, mut last) = (None, 0);
    let (mut phys, mut sound) = (-1, true);
    queue.read(start, end, |place, entries| {
        if place != seen {
            return Ok(ControlFlow::Break(())); // a file is missing
        }
        for (number, entry) in entries.iter().enumerate() {
            if is_blank(&entry) {
                blanks += 1;
                continue;
            }
            sound &= entry.size > 0 && entry.phys > phys;
            phys = entry.phys;
            last = place + number as u64;
            first = first.or(Some(last));
        }
        seen += entries.count() as u64;
        Ok(ControlFlow::Continue(()))
    })?;
    if seen < end {
        return unknown(format!("a file of queue {} is missing", shown()));
    }
    if !sound {
        return unknown(format!("queue {} is damaged", shown()));
    }
    let Some(first) = first else {
        return Ok(None);
    };
    for place in [first, last] {
        let agrees = match entry_at(queue, place)? {
            Some(entry) => starts.agrees(queue, &entry, u64::try_from(entry.phys).unwrap_or(0))?,
            None => false,
        };
        if !agrees {
            let text = format!("entry {place} of queue {} leads to another record", shown());
            return unknown(text);
        }
    }
    Ok(Some((end - start - blanks, first as i64, last as i64)))
}

/// Adds messages that have no queue entry yet: the headers of these records are walked.
fn add_tail(
    part: &Part<'_>,
    (start, end): (u64, u64),
    out: &mut BTreeMap<(String, i32), QueueCount>,
) -> Result<()> {
    if start >= end {
        return Ok(());
    }
    let store = part.store;
    let (files, log_end) = files_of(store, start, end, part.log_end);
    let source = RecordSource::Range {
        file_set: file_set(files, store.opener())?,
        range: (start, end),
        log_end,
        exact: true,
    };
    let mut settings = settings(&COLUMNS, 1 << 16);
    (settings.skip, settings.broker) = (false, store.name.clone());
    let selection = Arc::new(part.rule.clone()).wanted()?;
    let mut reader = Reader::new(source, selection, settings)?;
    while let Some(batch) = reader.next_batch()? {
        let topics = batch.column(0).as_string::<i32>();
        let queues = batch.column(1).as_primitive::<Int32Type>();
        let offsets = batch.column(2).as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            let (topic, queue, offset) = (topics.value(row), queues.value(row), offsets.value(row));
            let one = out
                .entry((topic.to_owned(), queue))
                .or_insert_with(|| QueueCount {
                    topic: topic.to_owned(),
                    broker: store.name.clone(),
                    queue,
                    count: 0,
                    min_offset: offset,
                    max_offset: offset,
                });
            one.count += 1;
            one.min_offset = one.min_offset.min(offset);
            one.max_offset = one.max_offset.max(offset);
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "counts_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "counts_bench.rs"]
mod bench;
