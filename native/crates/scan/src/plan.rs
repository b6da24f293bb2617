//! The tasks of a batch read: ranges of the log, its files, or entries of queues and index.

use super::coverage;
use super::error::Result;
use super::index_plan::{self, IndexPlan, IndexTask, NoIndex};
use super::log_ranges::{
    RecordStarts, even_ranges, file_ranges, files_of, overlapping, split_size,
};
use super::most;
use super::notes::Notes;
use super::parts::parts_of;
pub use super::parts::{Part, check_request};
use super::place::Places;
use super::queues::dispatched;
use super::read_options::ReadOptions;
use super::request::Request;
use super::selection::Rule;
use super::store::SegmentStore;
use super::stores::open_stores;
use super::task::Task;
use super::top;
use std::sync::Arc;

/// The tasks of a read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Planned {
    pub tasks: Vec<Task>,
    /// Bytes of the log that they read.
    pub bytes: u64,
    /// Messages that they can give at most; None: not known.
    pub rows: Option<u64>,
}

/// The tasks of a batch read, none if there is nothing to read.
///
/// The end of each log is looked for once, here: every task knows its own. SegmentError says what does
/// not fit.
pub fn plan(request: &Request, places: &dyn Places, notes: &Notes) -> Result<Planned> {
    check_request(request)?;
    let stores = open_stores(&request.paths, &request.broker_names, places, notes)?;
    plan_stores(&stores, request, notes)
}

/// As `plan`, of stores that are open.
pub fn plan_stores(stores: &[SegmentStore], request: &Request, notes: &Notes) -> Result<Planned> {
    let mut parts = parts_of(stores, request, notes)?;
    if let Some(top) = &request.top {
        for part in &mut parts {
            top::narrow(part, top, request, notes);
        }
    }
    let mut out = tasks_of(&parts, request, notes)?;
    if let Some(most) = request.max_records {
        out.tasks = most::at_most(out.tasks, most, |store| place_of(stores, store))?;
    }
    Ok(out)
}

fn nothing() -> Planned {
    Planned {
        rows: Some(0),
        ..Planned::default()
    }
}

fn tasks_of(parts: &[Part<'_>], request: &Request, notes: &Notes) -> Result<Planned> {
    let total = parts.iter().map(Part::bytes).sum();
    let size = split_size(total, request.split_bytes, request.min_partitions);
    let by_file = request.plan == "file";
    let mut out = nothing();
    for part in parts {
        let found = match request.plan.as_str() {
            "auto" | "index" => indexed(part, request, notes)?,
            _ => None,
        };
        let Some(found) = found else {
            if !part.ranges.is_empty() {
                out.rows = None;
            }
            out.bytes = out.bytes.saturating_add(part.bytes());
            out.tasks
                .extend(scans(part, &part.ranges, size, &request.how, by_file)?);
            continue;
        };
        let scanned = found.scans.iter().map(|(start, end)| end - start);
        let scanned = scanned.fold(0u64, u64::saturating_add);
        out.bytes = out
            .bytes
            .saturating_add(found.bytes.unwrap_or(0))
            .saturating_add(scanned);
        out.rows = match (out.rows, found.messages) {
            (Some(rows), Some(more)) if found.scans.is_empty() => Some(rows.saturating_add(more)),
            _ => None,
        };
        let rule = Arc::new(part.rule.clone());
        let tasks = found.tasks.into_iter();
        out.tasks
            .extend(tasks.map(|task| index_task(part, &rule, task, &request.how)));
        out.tasks
            .extend(scans(part, &found.scans, size, &request.how, false)?);
    }
    Ok(out)
}

/// The plan by index or queues; None where `auto` scans.
fn indexed(part: &Part<'_>, request: &Request, notes: &Notes) -> Result<Option<IndexPlan>> {
    match by_index(part, request, notes) {
        Ok(found) => Ok(Some(found)),
        Err(reason) if request.plan == "index" => Err(index_plan::refuse(&reason.to_string())),
        Err(reason) => {
            notes.info(format!("{}: scanning: {reason}", part.store.root));
            Ok(None)
        }
    }
}

fn by_index(
    part: &Part<'_>,
    request: &Request,
    notes: &Notes,
) -> std::result::Result<IndexPlan, NoIndex> {
    if part.ranges.is_empty() {
        return Ok(IndexPlan {
            messages: Some(0),
            bytes: Some(0),
            ..IndexPlan::default()
        });
    }
    let unusable = |why: &str| Err(NoIndex::Unusable(why.to_owned()));
    if part.ranges.len() > 1 {
        return unusable("the log has holes");
    }
    let (store, chosen, auto) = (part.store, &part.rule.selection, request.plan == "auto");
    let filters = &chosen.filters;
    let named = part.by_entries
        || chosen.key.is_some()
        || index_plan::names_topics(store, &part.rule, notes)?;
    let by_queue = filters.topics.is_some()
        || filters.queues.is_some()
        || filters.queue_ids.is_some()
        || filters.queue_offsets.is_some()
        || filters.tags.is_some();
    if auto && !named && !by_queue {
        return unusable("all topics are read");
    }
    let doubt = match store.base.is_empty() {
        true => String::new(),
        false => index_plan::why_incomplete(store),
    };
    if !doubt.is_empty() {
        if auto {
            return Err(NoIndex::Unusable(doubt));
        }
        notes.warn(format!(
            "{}: {doubt}; the queues and the index may lack messages",
            store.root
        ));
    }
    let limits = (part.limits.low, part.limits.high);
    if auto && !named {
        let last = dispatched(store, part.log_end, limits.1)?.clamp(limits.0, limits.1);
        if let Some(why) = coverage::why_not(store, (limits.0, last))? {
            return unusable(&format!("all topics are read, and {why}"));
        }
    }
    if index_plan::asks_for_key(&part.rule) {
        match index_plan::by_key(store, &part.rule, limits) {
            Ok(found) => return Ok(found),
            Err(NoIndex::Unusable(why)) => notes.info(format!(
                "{}: the key is looked for by queues: {why}",
                store.root
            )),
            Err(failed) => return Err(failed),
        }
    }
    index_plan::by_queues(
        store,
        &part.rule,
        limits,
        part.log_end,
        |total| split_size(total, request.split_bytes, request.min_partitions),
        auto.then_some(index_plan::SHARE),
        notes,
    )
}

/// Ranges of the log of about `size` bytes, or one a file; both ends of a range are those of records.
pub fn scans(
    part: &Part<'_>,
    ranges: &[(u64, u64)],
    size: u64,
    how: &ReadOptions,
    by_file: bool,
) -> Result<Vec<Task>> {
    let store = part.store;
    let starts = RecordStarts::new(store);
    let rule = Arc::new(part.rule.clone());
    let mut out = Vec::new();
    for &(start, end) in ranges {
        let cuts = match by_file {
            true => file_ranges(&store.files, start, end),
            false => even_ranges(&store.files, start, end, size, &starts)?,
        };
        for (low, high) in cuts {
            let (files, log_end) = files_of(store, low, high, end);
            if !files.is_empty() {
                out.push(Task {
                    broker: store.name.clone(),
                    root: store.root.clone(),
                    files: files.to_vec(),
                    place: store.place.clone(),
                    start: low,
                    end: high,
                    log_end,
                    rule: rule.clone(),
                    how: how.clone(),
                    fail_on_data_loss: part.fail_on_data_loss,
                    span: Some((part.limits.low, part.limits.high)),
                    by_entries: false,
                    queues: Vec::new(),
                    places: Vec::new(),
                });
            }
        }
    }
    Ok(out)
}

fn index_task(part: &Part<'_>, rule: &Arc<Rule>, task: IndexTask, how: &ReadOptions) -> Task {
    let store = part.store;
    Task {
        broker: store.name.clone(),
        root: store.root.clone(),
        files: overlapping(&store.files, task.start, task.end).to_vec(),
        place: store.place.clone(),
        start: task.start,
        end: task.end,
        log_end: task.end,
        rule: rule.clone(),
        how: how.clone(),
        fail_on_data_loss: part.fail_on_data_loss,
        span: Some((part.limits.low, part.limits.high)),
        by_entries: true,
        queues: task.queues,
        places: task.places,
    }
}

pub(crate) fn place_of(stores: &[SegmentStore], task: &Task) -> super::PlaceRef {
    let same = stores.iter().find(|store| store.place == task.place);
    same.map(|store| store.at.clone()).unwrap_or_default()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
