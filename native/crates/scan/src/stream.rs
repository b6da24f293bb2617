//! Positions of a stream over growing segments; there is no Spark in it.
//!
//! Starting offsets by queue become a position and a row filter, `from`, which is left out once the
//! log is past the places named in `until`. What of a topic or queue that is named later stands before
//! the position is read in one micro-batch, the next one.

use super::against::check_assigned;
use super::at_times;
use super::backlog::{Behind, behind};
use super::bounds::{Limits, as_bounds};
use super::error::{Kind, Part, Result, SegmentError};
use super::log_ranges;
use super::most::at_most;
use super::notes::Notes;
use super::place::Places;
use super::plan::{self, check_request, place_of, scans};
use super::position::{Position, added, within};
use super::queue_times::shown;
use super::read_options::OnCorruption;
use super::request::Request;
use super::rule::Asker;
use super::selection::{Offsets, Rule, Selection};
use super::store::SegmentStore;
use super::stores::open_stores;
use super::stream_start::{Start, by_folder, check_names, record_near, shares, starting_at};
use super::tail_task::{Resume, TailTask};
use super::task::Task;
use pyrmq_arrow::{Advance, advance, find_end};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// By broker: a physical offset.
type Log = BTreeMap<String, u64>;

/// Positions and tasks of a stream; lives on the driver, one for each query.
///
/// Tags and the key of the selection apply to every batch; the starting time is a position. The
/// places are listed anew for every position and every batch.
pub struct StreamPlanner {
    request: Request,
    stores: Vec<SegmentStore>,
    ends: Log,
    pinned: Option<Log>,
    initial: Option<Position>,
    /// The first batch has nothing in it: Spark keeps its end, which is where the query starts then,
    /// also if it stops before the batch is done.
    first_is_empty: bool,
    /// Ends that `latest` gave to calls without a start.
    reported_ends: Log,
    /// What `latest` said last: where the next batch ends.
    stands: Log,
    counted: Option<Counted>,
    checked_topics: bool,
}

/// Of `count`: where it started, how far it went, and what it found.
struct Counted {
    first: Log,
    at: Log,
    found: u64,
}

impl StreamPlanner {
    /// Opens the stores. Errors are those of `plan`, and of what a stream cannot do.
    pub fn new(request: Request, places: Arc<dyn Places>, notes: &Notes) -> Result<Self> {
        check_request(&request)?;
        if request.plan == "index" {
            let text = [
                Part::Value("plan", "index"),
                " reads a batch, not a stream".into(),
            ];
            return Err(SegmentError::new(Kind::Option, text).hint([
                "leave ".into(),
                Part::Name("plan"),
                " out".into(),
            ]));
        }
        let selection = &request.selection;
        let ends = (
            &selection.ending_offsets,
            selection.end_time,
            &selection.ending_times,
        );
        if ends != (&Offsets::Latest, None, &None) {
            let text = [
                Part::Name("ending_offsets"),
                " and ".into(),
                Part::Name("end_time"),
                " belong to a batch read".into(),
            ];
            return Err(SegmentError::new(Kind::Option, text).hint("a stream has no end"));
        }
        let stores = open_stores(&request.paths, &request.broker_names, &*places, notes)?;
        if request.broker_names.is_empty() {
            check_names(&stores)?;
        }
        selection.check_against(&stores, true, notes)?;
        Ok(StreamPlanner {
            first_is_empty: selection.starts_at_end(),
            request,
            stores,
            ends: Log::new(),
            pinned: None,
            initial: None,
            reported_ends: Log::new(),
            stands: Log::new(),
            counted: None,
            checked_topics: false,
        })
    }

    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Where a new query starts; the same however often it is asked for, as Spark does so anew when it
    /// plans the first batch.
    pub fn initial(&mut self, notes: &Notes) -> Result<Position> {
        if self.initial.is_none() {
            self.initial = Some(self.found_initial(notes)?);
        }
        Ok(self.initial.clone().unwrap_or_default())
    }

    fn found_initial(&mut self, notes: &Notes) -> Result<Position> {
        let ends = self.relist(notes)?;
        let (how, own) = (&self.request.how, &self.request.selection);
        check_assigned(own, &self.stores, notes)?;
        let listed: Vec<u64> = self.stores.iter().map(|store| ends[&store.name]).collect();
        let selection =
            at_times::with_offsets(own, &self.stores, &listed, how.on_corruption, notes)?;
        let mut starts: BTreeMap<&str, Start> = BTreeMap::new();
        for store in &self.stores {
            let fail = self.request.fail_on_data_loss;
            let start = starting_at(store, ends[&store.name], &selection, how, fail, notes)?;
            starts.insert(&store.name, start);
        }
        if own.timestamp_strategy == "error" && starts.values().all(|start| !start.found) {
            let time = own.start_time.map_or("None".to_owned(), shown);
            let text = [
                Part::Name("start_time"),
                format!(" {time} is later than every message").into(),
            ];
            return Err(SegmentError::new(Kind::Option, text).hint([
                Part::Value("timestamp_strategy", "latest"),
                " starts at the end in this case".into(),
            ]));
        }
        let mut position = Position::default();
        for (name, start) in starts {
            position.log.insert(name.to_owned(), start.phys);
            if !start.offsets.is_empty() {
                position
                    .starts
                    .insert(name.to_owned(), as_bounds(&start.offsets));
                position.until.insert(name.to_owned(), start.until);
            }
        }
        let log = position.log.clone();
        Ok(position.moved(log).of_selection(own))
    }

    /// The end of the logs now.
    pub fn end(&mut self, notes: &Notes) -> Result<Position> {
        let ends = self.relist(notes)?;
        Ok(self.at(ends))
    }

    fn at(&self, log: Log) -> Position {
        Position::at(log).of_selection(&self.request.selection)
    }

    /// How far the end of the batch that `latest` named last is behind the end of the logs, as it was
    /// seen last.
    pub fn behind(&self) -> Result<Behind> {
        let rule = |store: &SegmentStore| self.rule(store, None, None);
        behind(&self.stores, rule, &self.stands, &self.ends)
    }

    /// How many messages there are to read from `start` on, counted up to `wanted`. Topics that were
    /// added count as enough.
    pub fn count(&mut self, start: &Value, wanted: u64, notes: &Notes) -> Result<u64> {
        let ends = self.relist(notes)?;
        let position = self.position(start)?;
        let own = &self.request.selection;
        if added(own, &position, &position.clone().of_selection(own))?.is_some() {
            return Ok(wanted);
        }
        let first = position.log.clone();
        let (mut at, mut found) = match &self.counted {
            Some(counted) if counted.first == first => (counted.at.clone(), counted.found),
            _ => (first.clone(), 0),
        };
        for store in &self.stores {
            let (low, end) = (at[&store.name], ends[&store.name]);
            if found >= wanted || low >= end {
                continue;
            }
            let rule = Arc::new(self.rule(store, Some(&position), None));
            for (mut begin, high) in log_ranges::present_ranges(store, low, end, false, notes)? {
                while found < wanted && begin < high {
                    let bounds = Advance {
                        max_rows: Some(wanted - found),
                        max_bytes: None,
                        skip: true,
                    };
                    let files = store.file_set(&store.files)?;
                    let (stop, used) = advance(&files, (begin, high), &mut heads(&rule)?, bounds)?;
                    found += used;
                    begin = if stop > begin { stop } else { high };
                }
                at.insert(store.name.clone(), begin);
            }
        }
        self.counted = Some(Counted { first, at, found });
        Ok(found)
    }

    /// From here on `latest` stays at or below the end of the logs now.
    pub fn pin(&mut self, notes: &Notes) -> Result<()> {
        self.pinned = Some(self.relist(notes)?);
        Ok(())
    }

    /// How far the next batch goes. Without `start` to the end of the logs.
    ///
    /// `max_offsets`: messages of the chosen topics, `max_bytes`: of the logs, at most; what there is to
    /// do is shared over the brokers by their bytes. A batch has at least one record if there is one.
    pub fn latest(
        &mut self,
        start: Option<&Value>,
        max_offsets: Option<u64>,
        max_bytes: Option<u64>,
        notes: &Notes,
    ) -> Result<Position> {
        for (name, limit) in [("max_offsets", max_offsets), ("max_bytes", max_bytes)] {
            if limit == Some(0) {
                let text = [Part::Name(name), ": 0".into()];
                return Err(SegmentError::new(Kind::Option, text).hint("expected at least 1"));
            }
            if limit.is_some() && start.is_none() {
                let text = [Part::Name(name), " needs the start of the batch".into()];
                return Err(SegmentError::new(Kind::Option, text));
            }
        }
        let mut ends = self.relist(notes)?;
        if let Some(pinned) = &self.pinned {
            for (name, end) in &mut ends {
                *end = pinned.get(name).map_or(*end, |&pinned| pinned.min(*end));
            }
        }
        let Some(start) = start else {
            self.check_shrunk(&self.reported_ends, notes)?;
            for (name, end) in ends {
                let reported = self.reported_ends.entry(name).or_insert(end);
                *reported = (*reported).max(end);
            }
            self.stands = self.reported_ends.clone();
            return Ok(self.at(self.stands.clone()));
        };
        let position = self.position(start)?;
        let mut at = position.log.clone();
        if std::mem::take(&mut self.first_is_empty) && Some(&position) == self.initial.as_ref() {
            self.stands = at;
            return Ok(position);
        }
        self.check_shrunk(&at, notes)?;
        let todo: Log = self
            .stores
            .iter()
            .map(|store| {
                let from = at[&store.name].max(store.first());
                (store.name.clone(), ends[&store.name].saturating_sub(from))
            })
            .collect();
        let (rows, size) = (shares(max_offsets, &todo), shares(max_bytes, &todo));
        for store in &self.stores {
            let name = &store.name;
            let (rows, size) = (rows[name], size[name]);
            if todo[name] > 0 && rows != Some(0) && size != Some(0) {
                let rule = Arc::new(self.rule(store, Some(&position), None));
                let range = (at[name], ends[name]);
                let stop = self.advance(store, &rule, range, rows, size, notes)?;
                at.insert(name.clone(), stop);
            }
        }
        self.stands = at.clone();
        Ok(position.moved(at).of_selection(&self.request.selection))
    }

    /// The tasks of the batch between two positions; none if they are the same.
    pub fn splits(&self, start: &Value, end: &Value, notes: &Notes) -> Result<Vec<Task>> {
        let stores = self.relisted()?;
        let (low, high) = (of_stores(start, &stores)?, of_stores(end, &stores)?);
        let (request, fail) = (&self.request, self.request.fail_on_data_loss);
        let chosen = within(&request.selection, &high)?;
        let mut parts = self.parts_of_added(&stores, &low, &high, notes)?;
        for store in &stores {
            let (first, last) = (low.log[&store.name], high.log[&store.name]);
            if first > last && Some(&low) != self.initial.as_ref() {
                // PySpark 4.1 names an end without a start. That of a first batch may be looked for
                // before where the batch starts, so it may lie before that.
                let text = shrunk(store, last, first);
                log_ranges::report_loss(text, fail, notes)?;
            }
            let brokers = request.selection.filters.brokers.as_ref();
            let is_read = brokers.is_none_or(|brokers| brokers.contains(&store.name));
            let Some(chosen) = chosen.as_ref().filter(|_| first < last && is_read) else {
                continue;
            };
            if last > store.last() {
                let text = format!(
                    "{}: the log of broker {} ends at {}, the checkpoint says {last}",
                    store.root,
                    store.name,
                    store.last()
                );
                return Err(SegmentError::new(Kind::DataLoss, text)
                    .hint("it is another log, or it was cut; start with a new checkpoint"));
            }
            log_ranges::check_any_present(store, first, last)?;
            let ranges = log_ranges::present_ranges(store, first, last, fail, notes)?;
            let rule = self.rule(store, Some(&low), Some(chosen));
            parts.push(part(store, rule, (first, last), ranges, fail));
        }
        let total = parts.iter().map(plan::Part::bytes).sum();
        let size = log_ranges::split_size(total, request.split_bytes, request.min_partitions);
        let by_file = request.plan == "file";
        let mut out = Vec::new();
        for part in &parts {
            out.extend(scans(part, &part.ranges, size, &request.how, by_file)?);
        }
        match request.max_records {
            Some(most) => at_most(out, most, |task| place_of(&stores, task)),
            None => Ok(out),
        }
    }

    /// What stands before `low` of topics and queues that are selected since.
    fn parts_of_added<'a>(
        &self,
        stores: &'a [SegmentStore],
        low: &Position,
        high: &Position,
        notes: &Notes,
    ) -> Result<Vec<plan::Part<'a>>> {
        let Some(more) = added(&self.request.selection, low, high)? else {
            return Ok(Vec::new());
        };
        let names = match more.named_topics() {
            Some(names) => names.join(", "),
            None => "all but those of before".to_owned(),
        };
        let fail = self.request.fail_on_data_loss;
        let mut out = Vec::new();
        for store in stores {
            let (first, last) = (store.first(), low.log[&store.name]);
            if last <= first {
                continue;
            }
            notes.warn(format!(
                "{}: what was added, {names}, is read from its beginning",
                store.name
            ));
            let ranges = log_ranges::present_ranges(store, first, last, fail, notes)?;
            let rule = self.rule(store, None, Some(&more));
            out.push(part(store, rule, (first, last), ranges, fail));
        }
        Ok(out)
    }

    fn relisted(&self) -> Result<Vec<SegmentStore>> {
        self.stores.iter().map(SegmentStore::relisted).collect()
    }

    /// Lists the stores anew; where their logs end.
    fn relist(&mut self, notes: &Notes) -> Result<Log> {
        self.stores = self.relisted()?;
        if !self.checked_topics {
            self.checked_topics = true;
            // A topic that is named and not there may come, or be misspelt.
            for error in self.request.selection.missing_topics(&self.stores, notes)? {
                notes.warn(format!(
                    "{}: nothing is read of it until it is there",
                    error.with_hint()
                ));
            }
        }
        for store in &self.stores {
            let known = self.ends.get(&store.name).copied();
            let known = known.filter(|&known| store.first() <= known && known <= store.last());
            let files = store.file_set(&store.files)?;
            let (mut end, mut why) = find_end(&files, known)?;
            if !why.is_empty() && known.is_some() {
                // Something that is no record: half of one, or the log was cut and written anew.
                (end, why) = find_end(&files, None)?;
            }
            if !why.is_empty() {
                notes.info(format!("{}: the log ends at {end}: {why}", store.root));
            }
            let end = log_ranges::next_record(store, end)?;
            self.ends.insert(store.name.clone(), end);
        }
        Ok(self.ends.clone())
    }

    fn position(&self, value: &Value) -> Result<Position> {
        of_stores(value, &self.stores)
    }

    /// A log that ends before where the stream is was cut, or is another one.
    fn check_shrunk(&self, at: &Log, notes: &Notes) -> Result<()> {
        for store in &self.stores {
            let (end, at) = (self.ends[&store.name], at.get(&store.name).copied());
            if let Some(at) = at.filter(|&at| end < at) {
                let text = shrunk(store, end, at);
                log_ranges::report_loss(text, self.request.fail_on_data_loss, notes)?;
            }
        }
        Ok(())
    }

    fn rule(
        &self,
        store: &SegmentStore,
        position: Option<&Position>,
        chosen: Option<&Selection>,
    ) -> Rule {
        // Not the starting time: the clock that store times are from may step back.
        let selection = Selection {
            start_time: None,
            ..chosen.unwrap_or(&self.request.selection).clone()
        };
        let starts = position.and_then(|position| position.starts.get(&store.name));
        selection.rule(&store.name, starts.cloned(), None)
    }

    /// Where a batch stops that may have so many rows and bytes.
    fn advance(
        &self,
        store: &SegmentStore,
        rule: &Arc<Rule>,
        (start, end): (u64, u64),
        mut rows: Option<u64>,
        mut size: Option<u64>,
        notes: &Notes,
    ) -> Result<u64> {
        let all = size.is_none_or(|size| size >= end.saturating_sub(start));
        if rows.is_none() && all {
            return Ok(end);
        }
        let fail = self.request.fail_on_data_loss;
        let mut at = start;
        for (low, high) in log_ranges::present_ranges(store, start, end, fail, notes)? {
            let begin = match (rows, size) {
                (None, Some(size)) => record_near(store, low, high.min(low.saturating_add(size)))?,
                _ => low,
            };
            let bounds = Advance {
                max_rows: rows,
                max_bytes: size.map(|size| size.saturating_sub(begin - low)),
                skip: self.request.how.on_corruption == OnCorruption::Skip,
            };
            let files = store.file_set(&store.files)?;
            let (stop, used) = advance(&files, (begin, high), &mut heads(rule)?, bounds)?;
            at = stop;
            if stop < high {
                return Ok(at);
            }
            rows = rows.map(|rows| rows.saturating_sub(used));
            size = size.map(|size| size.saturating_sub(high - low));
            if rows == Some(0) || size == Some(0) {
                return Ok(at);
            }
        }
        Ok(at.max(end))
    }
}

/// What counts as a message of a batch: topics, queues and their offsets say so, no tags and keys.
fn heads(rule: &Arc<Rule>) -> Result<pyrmq_arrow::Selection> {
    let asker = Asker::new(rule.clone())?;
    Ok(pyrmq_arrow::Selection::new(Some(Box::new(asker))))
}

/// Real-time mode.
impl StreamPlanner {
    /// What reads on from `start` and waits for more: one for each broker.
    pub fn tails(&mut self, start: &Value, notes: &Notes) -> Result<Vec<TailTask>> {
        self.relist(notes)?;
        let position = self.position(start)?;
        let own = &self.request.selection;
        if let Some(more) = added(own, &position, &position.clone().of_selection(own))? {
            let names = match more.named_topics() {
                Some(names) => names.join(", "),
                None => "all but those of before".to_owned(),
            };
            let text = format!("what was added, {names}, stands before the stream's position");
            return Err(SegmentError::new(Kind::Checkpoint, text).hint(
                "real-time mode reads on from there: run the query once with another trigger, such as \
                 availableNow",
            ));
        }
        let task = |store: &SegmentStore| TailTask {
            rule: Arc::new(self.rule(store, Some(&position), None)),
            store: store.clone(),
            how: self.request.how.clone(),
            from: position.log[&store.name],
            fail_on_data_loss: self.request.fail_on_data_loss,
        };
        Ok(self.stores.iter().map(task).collect())
    }

    /// The position behind what tasks from `start` on gave. Where one stopped inside a record, its
    /// queue starts at an offset, up to the end of that record.
    pub fn reached(&self, start: &Value, ends: &[Resume]) -> Result<Position> {
        let position = self.position(start)?;
        let mut log = position.log.clone();
        for end in ends {
            log.insert(end.broker.clone(), end.log);
        }
        let mut out = position.moved(log).of_selection(&self.request.selection);
        for end in ends.iter().filter(|end| !end.starts.is_empty()) {
            let starts = out.starts.entry(end.broker.clone()).or_default();
            for (topic, queues) in &end.starts {
                starts.entry(topic.clone()).or_default().extend(queues);
            }
            let until = out.until.entry(end.broker.clone()).or_default();
            *until = (*until).max(end.log.saturating_add(1));
        }
        Ok(out)
    }
}

fn part(
    store: &SegmentStore,
    rule: Rule,
    (low, high): (u64, u64),
    ranges: Vec<(u64, u64)>,
    fail_on_data_loss: bool,
) -> plan::Part<'_> {
    plan::Part {
        store,
        rule,
        limits: Limits {
            low,
            high,
            ..Limits::default()
        },
        ranges,
        by_entries: false,
        log_end: high,
        fail_on_data_loss,
    }
}

fn shrunk(store: &SegmentStore, end: u64, at: u64) -> String {
    format!(
        "{}: the log of broker {} ends at {end}, the stream is at {at}",
        store.root, store.name
    )
}

/// The position of a checkpoint. CheckpointError if it is of other stores.
fn of_stores(value: &Value, stores: &[SegmentStore]) -> Result<Position> {
    let position = Position::of(value)?;
    let own: BTreeSet<&str> = stores.iter().map(|store| store.name.as_str()).collect();
    let other: BTreeSet<&str> = position.log.keys().map(String::as_str).collect();
    if own == other {
        return Ok(position);
    }
    let joined = |names: &BTreeSet<&str>| names.iter().copied().collect::<Vec<_>>().join(", ");
    let text = format!(
        "the checkpoint is of broker {}, the stores are of {}",
        joined(&other),
        joined(&own)
    );
    let folders = by_folder(stores);
    if other == folders.iter().copied().collect() {
        let text = format!("{text}: it has the names of their folders");
        return Err(SegmentError::new(Kind::Checkpoint, text).hint(vec![
            Part::Given("broker_names", folders.join(",")),
            " continues with those".into(),
        ]));
    }
    Err(SegmentError::new(Kind::Checkpoint, text))
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
