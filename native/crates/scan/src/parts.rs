//! What a batch read reads of each store: which part of its log, by which rule.

use super::against::check_assigned;
use super::at_times;
use super::bounds::{Limits, batch_limits};
use super::checks::{check_plan_options, option};
use super::error::{Part as TextPart, Result};
use super::log_ranges::present_ranges;
use super::notes::Notes;
use super::queue_times::shown;
use super::read_options::ReadOptions;
use super::request::Request;
use super::selection::{Rule, Selection};
use super::store::SegmentStore;
use pyrmq_arrow::find_end;

/// What is read of one store.
pub struct Part<'a> {
    pub store: &'a SegmentStore,
    pub rule: Rule,
    pub limits: Limits,
    /// Physical offsets, from and before; between the ranges the log has holes.
    pub ranges: Vec<(u64, u64)>,
    pub log_end: u64,
    pub fail_on_data_loss: bool,
    /// Queue entries have all that is asked for.
    pub by_entries: bool,
}

impl Part<'_> {
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }
}

/// SegmentOptionError for what a request says wrong by itself.
pub fn check_request(request: &Request) -> Result<()> {
    request.selection.check()?;
    request.how.check()?;
    check_plan_options(request.split_bytes, request.min_partitions, &request.plan)?;
    match request.max_records {
        Some(0) => {
            Err(option([TextPart::Name("max_records"), ": 0".into()]).hint("expected at least 1"))
        }
        _ => Ok(()),
    }
}

/// What is read of each store.
pub(crate) fn parts_of<'a>(
    stores: &'a [SegmentStore],
    request: &Request,
    notes: &Notes,
) -> Result<Vec<Part<'a>>> {
    check_request(request)?;
    let how = &request.how;
    if how.views && stores.iter().any(|store| store.place.is_some()) {
        return Err(option([
            TextPart::Name("views"),
            ": bodies can only be viewed in local files".into(),
        ]));
    }
    if request.selection.starts_at_end() {
        return Err(option([
            TextPart::Name("starting_offsets"),
            ": latest is no start for a batch read".into(),
        ])
        .hint("it would read nothing"));
    }
    request.selection.check_against(stores, false, notes)?;
    check_assigned(&request.selection, stores, notes)?;
    let mut ends = Vec::with_capacity(stores.len());
    for store in stores {
        ends.push(find_end(&store.file_set(&store.files)?, None)?.0);
    }
    if is_later_than_all(stores, &ends, &request.selection, how, notes)? {
        return Ok(Vec::new());
    }
    let selection =
        at_times::with_offsets(&request.selection, stores, &ends, how.on_corruption, notes)?;
    let mut parts = Vec::new();
    for (store, end) in stores.iter().zip(ends) {
        let part = part_of(store, end, &selection, request.fail_on_data_loss, notes)?;
        let brokers = selection.filters.brokers.as_ref();
        if brokers.is_none_or(|brokers| brokers.contains(&store.name)) {
            parts.push(part);
        }
    }
    Ok(parts)
}

/// Whether the start is later than all messages; an error unless that may be.
fn is_later_than_all(
    stores: &[SegmentStore],
    ends: &[u64],
    selection: &Selection,
    how: &ReadOptions,
    notes: &Notes,
) -> Result<bool> {
    let Some(time) = selection.start_time else {
        return Ok(false);
    };
    for (store, &end) in stores.iter().zip(ends) {
        let times = at_times::first_times(store)?;
        if times.into_iter().flatten().any(|begin| begin >= time) {
            return Ok(false);
        }
        for (low, high) in present_ranges(store, store.first(), end, false, notes)? {
            if at_times::first_at(store, (low, high), time, how.on_corruption)?.is_some() {
                return Ok(false);
            }
        }
    }
    if selection.timestamp_strategy == "latest" {
        return Ok(true);
    }
    Err(option([
        TextPart::Name("start_time"),
        format!(" {} is later than every message", shown(time)).into(),
    ])
    .hint([
        TextPart::Value("timestamp_strategy", "latest"),
        " reads nothing in this case".into(),
    ]))
}

fn part_of<'a>(
    store: &'a SegmentStore,
    end: u64,
    selection: &Selection,
    fail: bool,
    notes: &Notes,
) -> Result<Part<'a>> {
    let mut limits = batch_limits(store, selection, store.first(), end, fail, notes)?;
    let filtered = selection.filters.store_times;
    let from = filtered.map(|times| times.0).max(selection.start_time);
    let before = match (filtered.map(|times| times.1), selection.end_time) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    let (low, high) = at_times::narrowed(store, (limits.low, limits.high), from, before)?;
    (limits.low, limits.high) = narrowed_by_places(store, (low, high), selection);
    let starts = std::mem::take(&mut limits.starts);
    let ends = std::mem::take(&mut limits.ends);
    let ranges = match limits.low < limits.high {
        true => present_ranges(store, limits.low, limits.high, fail, notes)?,
        false => Vec::new(),
    };
    Ok(Part {
        store,
        rule: selection.rule(&store.name, Some(starts), Some(ends)),
        limits,
        ranges,
        log_end: end,
        fail_on_data_loss: fail,
        by_entries: false,
    })
}

/// The part of a range, whole segments, that can have messages at the physical offsets of a filter.
fn narrowed_by_places(
    store: &SegmentStore,
    (mut low, mut high): (u64, u64),
    selection: &Selection,
) -> (u64, u64) {
    let Some((from, before)) = selection.filters.commit_log_offsets else {
        return (low, high);
    };
    let (from, before) = (from.max(0) as u64, before.max(0) as u64);
    let next = store.files.partition_point(|file| file.0 <= from);
    if let Some(file) = next.checked_sub(1).and_then(|index| store.files.get(index)) {
        low = low.max(file.0);
    }
    let behind = store.files.partition_point(|file| file.0 < before);
    if let Some(file) = store.files.get(behind) {
        high = high.min(file.0);
    }
    (low.min(high), high)
}
