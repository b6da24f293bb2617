//! Reads that are planned by the consume queues, and for a key by the index files.
//!
//! Both are dispatched in the order of the log, some time after it. So they are complete up to the
//! last message that any of them has; later records are scanned.

use super::entries::{self, entry_size, is_damaged};
use super::error::{Kind, Part, SegmentError};
use super::log_ranges::RecordStarts;
use super::notes::Notes;
use super::place::{LOCAL, Place, Shape};
use super::queues::{
    BATCH, Queue, Reach, dispatched, is_blank, log_end_of, place_behind, place_of, reach,
};
use super::rule::Asker;
use super::selection::Rule;
use super::store::SegmentStore;
use super::task::QueuePart;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

/// `auto` reads by the queues if their messages have at most this part of the log's bytes.
pub const SHARE: f64 = 0.3;
/// Most keys that are looked for in the index.
const MAX_KEYS: usize = 64;
/// Most bins along the log, a power of two.
const BINS_SHIFT: u32 = 14;

/// The queues or the index cannot drive a read.
#[derive(Debug)]
pub enum NoIndex {
    /// The text says why.
    Unusable(String),
    /// A file could not be listed or read.
    Failed(SegmentError),
}

impl fmt::Display for NoIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoIndex::Unusable(why) => f.write_str(why),
            NoIndex::Failed(error) => error.fmt(f),
        }
    }
}

impl From<SegmentError> for NoIndex {
    fn from(error: SegmentError) -> Self {
        NoIndex::Failed(error)
    }
}

fn unusable<T>(why: impl Into<String>) -> Result<T, NoIndex> {
    Err(NoIndex::Unusable(why.into()))
}

/// One task: a range of the log, and the queue entries or physical offsets to read in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexTask {
    pub start: u64,
    pub end: u64,
    pub queues: Vec<QueuePart>,
    /// Physical offsets, ascending.
    pub places: Vec<u64>,
}

/// Tasks by queues or index, and the ranges of the log to scan as well. Both ends of such a range
/// are record boundaries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexPlan {
    pub tasks: Vec<IndexTask>,
    pub scans: Vec<(u64, u64)>,
    /// Messages and bytes that the tasks lead to, by their entries; None: not known.
    pub messages: Option<u64>,
    pub bytes: Option<u64>,
}

/// A read of `low..high` of the log by the entries of the chosen queues. An error if they are
/// incomplete, or lead to more than `share` of the bytes. `size_for` says how many bytes a task
/// has, of so many in all.
pub fn by_queues(
    store: &SegmentStore,
    rule: &Rule,
    (low, high): (u64, u64),
    log_end: u64,
    size_for: impl FnOnce(u64) -> u64,
    share: Option<f64>,
    notes: &Notes,
) -> Result<IndexPlan, NoIndex> {
    if store.queues.is_none() {
        return unusable(store.no_queues.clone());
    }
    let behind = dispatched(store, log_end, high)?.min(high);
    // After it: they have all messages before it.
    let asker = Asker::new(rule)?;
    let chosen = asker.queues(store)?;
    if share.is_some() {
        check_complete(store, &asker, rule, &chosen, notes)?;
    }
    let mut work = Vec::with_capacity(chosen.len());
    for (queue, range) in &chosen {
        work.push(Work::new(rule, queue, *range, (low, behind))?);
    }
    if share.is_some() {
        check_heads(&work)?;
    }
    work.retain(|one| one.start < one.end);
    check_edges(store, &work)?;
    let most = share.map(|share| (share * high.saturating_sub(low) as f64) as u64);
    let mut bins = Bins::new(low, behind.max(low + 1));
    for one in &work {
        one.entries(|_, phys, size| {
            bins.add(phys, size);
            match most {
                Some(most) if bins.total > most => {
                    unusable("the messages of the queues are too much of the log")
                }
                _ => Ok(()),
            }
        })?;
    }
    if share.is_some() {
        check_tails(&work, behind)?;
    }
    let edges = bins.edges(size_for(bins.total).max(1));
    let mut tasks: Vec<IndexTask> = edges
        .windows(2)
        .map(|pair| IndexTask {
            start: pair[0],
            end: pair[1],
            queues: Vec::new(),
            places: Vec::new(),
        })
        .collect();
    for one in &work {
        for (task, at) in tasks.iter_mut().zip(one.cut(&edges)?.windows(2)) {
            if at[0] < at[1] {
                task.queues.push(one.reached.queue.part(at[0], at[1]));
            }
        }
    }
    tasks.retain(|task| !task.queues.is_empty());
    let behind = behind.max(low);
    // An entry of an inner batch stands for several messages.
    let is_batch = |one: &Work| one.reached.queue.unit == BATCH;
    Ok(IndexPlan {
        tasks,
        scans: [(behind, high)].into_iter().filter(|r| r.0 < r.1).collect(),
        messages: (!work.iter().any(is_batch)).then_some(bins.messages),
        bytes: Some(bins.total),
    })
}

/// Whether topics are asked for by what says it of them. Those of a filter count if the store knows
/// them all: it may have messages of one that was deleted.
pub(crate) fn names_topics(
    store: &SegmentStore,
    rule: &Rule,
    notes: &Notes,
) -> Result<bool, NoIndex> {
    let chosen = &rule.selection;
    if chosen.named_topics().is_some() || chosen.pattern.is_some() {
        return Ok(true);
    }
    let Some(topics) = &chosen.filters.topics else {
        return Ok(false);
    };
    let known = store.topics(notes)?.unwrap_or_default();
    Ok(topics.is_subset(&known))
}

/// An error where a topic that is asked for has no queue. Mostly it has no message then, but its
/// folder may also be missing among copied files; a caller who asks for the index knows.
pub(crate) fn check_complete(
    store: &SegmentStore,
    asker: &Asker<&Rule>,
    rule: &Rule,
    queues: &[(Queue, (i64, i64))],
    notes: &Notes,
) -> Result<(), NoIndex> {
    let known = store.topics(notes)?.unwrap_or_default();
    let mut asked: BTreeSet<&str> = match rule.selection.named_topics() {
        Some(named) => named.into_iter().collect(),
        None => known.iter().map(String::as_str).collect(),
    };
    if store.configured_topics(notes).is_some() {
        asked.retain(|topic| known.contains(*topic)); // the broker has no others
    }
    let there: BTreeSet<&str> = queues
        .iter()
        .map(|(queue, _)| queue.topic.as_str())
        .collect();
    for topic in asked {
        if !there.contains(topic) && asker.wants(topic)? {
            return unusable(format!("topic {topic} has no queue folder"));
        }
    }
    Ok(())
}

/// An error where nothing shows that a queue is complete from its first wanted entry on. One that
/// begins later than at 0 mostly still has an entry whose message is deleted, but the files in front
/// may also be missing among copied ones; a caller who asks for the index knows.
fn check_heads(work: &[Work]) -> Result<(), NoIndex> {
    for one in work {
        let queue = &one.reached.queue;
        let first = queue.first();
        if first > 0 && one.start == first && one.reached.start == first {
            return unusable(format!(
                "files in front of {first} of queue {} may be missing",
                queue.shown()
            ));
        }
    }
    Ok(())
}

/// An error where a queue ends with its last file, and the log goes on: a file may be cut short.
fn check_tails(work: &[Work], behind: u64) -> Result<(), NoIndex> {
    for one in work {
        let queue = &one.reached.queue;
        if one.end == one.reached.end
            && queue.is_full(one.end)
            && log_end_of(queue, behind)? < behind
        {
            return unusable(format!(
                "the last file of queue {} may be cut short",
                queue.shown()
            ));
        }
    }
    Ok(())
}

/// An error where the first or the last entry leads to a message of another queue or another offset:
/// entries are missing in front, or the files are those of another queue.
fn check_edges(store: &SegmentStore, work: &[Work]) -> Result<(), NoIndex> {
    let starts = RecordStarts::new(store);
    for one in work {
        let queue = &one.reached.queue;
        if [one.start, one.end - 1]
            .iter()
            .any(|place| starts.is_of_another(queue, *place))
        {
            return unusable(format!(
                "entries of queue {} lead to messages that are not its own",
                queue.shown()
            ));
        }
    }
    Ok(())
}

/// The entries of a queue that are asked for.
struct Work {
    reached: Reach,
    tags: Option<Vec<i64>>,
    start: u64,
    end: u64,
}

impl Work {
    fn new(
        rule: &Rule,
        queue: &Queue,
        (first, behind): (i64, i64),
        (low, high): (u64, u64),
    ) -> Result<Self, NoIndex> {
        let reached = reach(queue, low, high)?;
        let start = place_of(&reached, first)?;
        let end = place_behind(&reached, behind)?;
        if !queue.is_whole(start, end) {
            return unusable(format!("a file of queue {} is missing", queue.shown()));
        }
        Ok(Work {
            tags: entries::tag_codes(rule, &queue.topic, queue.unit),
            reached,
            start,
            end,
        })
    }

    /// Shows of each entry its place, the physical offset (of a blank one that of the one before),
    /// and the message's size, 0 if it is not asked for.
    fn entries(
        &self,
        mut see: impl FnMut(u64, u64, u64) -> Result<(), NoIndex>,
    ) -> Result<(), NoIndex> {
        let queue = &self.reached.queue;
        let mut last: Option<u64> = None;
        let mut seen = self.start;
        let mut failed = None;
        queue.read(self.start, self.end, |place, entries| {
            for (number, entry) in entries.iter().enumerate() {
                let stop = if is_damaged(&entry, last) {
                    unusable(format!("queue {} is damaged", queue.shown()))
                } else {
                    if !is_blank(&entry) {
                        last = Some(entry.phys as u64);
                    }
                    let size = entry_size(&entry, self.tags.as_deref());
                    see(place + number as u64, last.unwrap_or(0), size)
                };
                if let Err(why) = stop {
                    failed = Some(why);
                    return Ok(ControlFlow::Break(()));
                }
            }
            seen = place + entries.count() as u64;
            Ok(ControlFlow::Continue(()))
        })?;
        if let Some(why) = failed {
            return Err(why);
        }
        match seen < self.end {
            true => unusable(format!("queue {} became shorter", queue.shown())),
            false => Ok(()),
        }
    }

    /// The places that lead to the edges; the first is the start, the last the end.
    fn cut(&self, edges: &[u64]) -> Result<Vec<u64>, NoIndex> {
        let mut at = vec![self.start; edges.len()];
        if let [_, inner @ .., _] = edges
            && !inner.is_empty()
        {
            let mut next = 0;
            self.entries(|place, phys, _| {
                while next < inner.len() && phys >= inner[next] {
                    at[next + 1] = place;
                    next += 1;
                }
                Ok(())
            })?;
            at[next + 1..].fill(self.end);
        }
        if let Some(last) = at.last_mut() {
            *last = self.end;
        }
        Ok(at)
    }
}

/// How many bytes are asked for along the log, coarsely.
struct Bins {
    low: u64,
    high: u64,
    shift: u32,
    bytes: Vec<u64>,
    total: u64,
    messages: u64,
}

impl Bins {
    fn new(low: u64, high: u64) -> Self {
        let width = u64::BITS - (high - low - 1).leading_zeros();
        let shift = width.saturating_sub(BINS_SHIFT);
        Bins {
            low,
            high,
            shift,
            bytes: vec![0; ((high - low) >> shift) as usize + 1],
            total: 0,
            messages: 0,
        }
    }

    fn add(&mut self, phys: u64, size: u64) {
        let bin = (phys.saturating_sub(self.low) >> self.shift) as usize;
        if let Some(bytes) = self.bytes.get_mut(bin) {
            *bytes += size;
        }
        self.total += size;
        self.messages += (size > 0) as u64;
    }

    /// Physical offsets between which there are about `size` bytes each.
    fn edges(&self, size: u64) -> Vec<u64> {
        let count = self.total.div_ceil(size);
        let mut edges = vec![self.low];
        let (mut number, mut sum) = (1, 0u64);
        for (bin, bytes) in self.bytes.iter().enumerate() {
            sum += bytes;
            let wanted = |number: u64| (self.total as u128 * number as u128 / count as u128) as u64;
            while number < count && sum >= wanted(number) {
                number += 1;
                let edge = self.low + ((bin as u64 + 1) << self.shift);
                if edge < self.high && edges.last().is_some_and(|last| *last < edge) {
                    edges.push(edge);
                }
            }
        }
        edges.push(self.high);
        edges
    }
}

/// What the index can find: topics and words of keys, if a key of named topics is asked for. What a
/// filter asks for is the whole of KEYS, whose first word has an entry.
fn keys_of(rule: &Rule) -> Option<(Vec<&str>, Vec<&str>)> {
    let chosen = &rule.selection;
    let topics = match (chosen.named_topics(), &chosen.filters.topics) {
        (Some(named), Some(only)) => named
            .into_iter()
            .filter(|topic| only.contains(*topic))
            .collect(),
        (Some(named), None) => named,
        (None, only) => only.as_ref()?.iter().map(String::as_str).collect(),
    };
    if let Some(key) = &chosen.key {
        return Some((topics, vec![key]));
    }
    let keys = chosen.filters.keys.as_ref();
    let keys = keys.filter(|keys| keys.len() <= MAX_KEYS)?.iter();
    let words = keys.map(|keys| keys.as_deref()?.split(' ').find(|word| !word.is_empty()));
    Some((topics, words.collect::<Option<Vec<&str>>>()?))
}

/// Whether a key is asked for that the index may find.
pub fn asks_for_key(rule: &Rule) -> bool {
    rule.selection.key.is_some() || keys_of(rule).is_some()
}

/// A read of `low..high` of the log by the index files. An error if there are none, no topic is
/// named, or one of them has inner batches: of those brokers index the keys of the batch, not of its
/// messages.
pub fn by_key(store: &SegmentStore, rule: &Rule, range: (u64, u64)) -> Result<IndexPlan, NoIndex> {
    by_key_with(store, rule, range, pyrmq_offline::key_places)
}

/// Places of a topic's key, and the part of the log that the index covers.
type KeyPlaces = (Vec<u64>, Option<(u64, u64)>);

/// The same with what looks into the index.
fn by_key_with(
    store: &SegmentStore,
    rule: &Rule,
    (low, high): (u64, u64),
    mut look: impl FnMut(&Path, &str, &str) -> std::io::Result<KeyPlaces>,
) -> Result<IndexPlan, NoIndex> {
    let Some((topics, keys)) = keys_of(rule) else {
        return unusable("the index finds a key of a topic that is named");
    };
    let Some(index) = &store.index else {
        return unusable("the store has no index folder");
    };
    for topic in &topics {
        let folder = format!("{}/batchconsumequeue/{topic}", store.base);
        if LOCAL.shape(&folder)? == Shape::Folder {
            return unusable(format!(
                "topic {topic} has inner batches, whose keys are not in the index"
            ));
        }
    }
    let mut places = BTreeSet::new();
    let (mut first, mut behind) = (low, high);
    for (topic, key) in topics
        .iter()
        .flat_map(|topic| keys.iter().map(move |key| (topic, key)))
    {
        let (found, covered) =
            look(Path::new(index), topic, key).map_err(|error| SegmentError::io(index, error))?;
        let Some(covered) = covered else {
            return unusable("the index is empty");
        };
        places.extend(found);
        // A broker may index more between two answers: what all of them cover counts.
        (first, behind) = (first.max(covered.0), behind.min(covered.1));
    }
    let first = first.max(low).min(high);
    let behind = behind.max(first).min(high);
    let inside: Vec<u64> = places.range(first..behind).copied().collect();
    let messages = inside.len() as u64;
    let tasks = match inside.is_empty() {
        true => Vec::new(),
        false => vec![IndexTask {
            start: first,
            end: behind,
            queues: Vec::new(),
            places: inside,
        }],
    };
    let scans = [(low, first), (behind, high)];
    Ok(IndexPlan {
        tasks,
        scans: scans.into_iter().filter(|r| r.0 < r.1).collect(),
        messages: Some(messages),
        bytes: None,
    })
}

/// Why queues and index may lack entries that were written: a crash after which nothing has opened
/// the store yet [the file `abort`]. "" if not.
pub fn why_incomplete(store: &SegmentStore) -> String {
    let abort = format!("{}/abort", store.base);
    if !matches!(LOCAL.shape(&abort), Ok(Shape::File)) {
        return String::new();
    }
    match pyrmq_offline::is_locked(Path::new(&store.base)) {
        Ok(true) => String::new(),
        Ok(false) => "the last stop of its broker was a crash".to_owned(),
        Err(error) => format!("it is not known whether a broker has the store open: {error}"),
    }
}

/// The error where an index was asked for.
pub fn refuse(reason: &str) -> SegmentError {
    SegmentError::new(
        Kind::Segment,
        [
            Part::Value("plan", "index"),
            format!(" is not possible here: {reason}").into(),
        ],
    )
    .hint([
        "use ".into(),
        Part::Value("plan", "scan"),
        " or ".into(),
        Part::Value("plan", "auto"),
    ])
}

#[cfg(test)]
#[path = "index_plan_tests.rs"]
mod tests;
