//! One queue against the log, in both directions.

use super::findings::{Findings, Severity, shown};
use super::log::{Head, HeadReader};
use super::queues::{EMPTY, Queue};
use pyrmq_format::cq_entry::tags_code;
use pyrmq_format::cq_entry::{CqEntry, SIZE};
use pyrmq_format::delay::{self, Levels};
use pyrmq_format::properties;
use pyrmq_format::record::sys_flag;
use std::sync::LazyLock;

/// RocketMQ's; a store does not say what its brokers have.
static LEVELS: LazyLock<Levels> = LazyLock::new(Levels::default);

/// Tag codes from here down are places in `consumequeue_ext`. [ConsumeQueueExt]
const EXT_ADDRESS: i64 = i32::MIN as i64 - 1;

/// Consecutive queue offsets `from..to` and the first and last physical offset of their records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub from: i64,
    pub to: i64,
    pub phys: (u64, u64),
}

fn extend(runs: &mut Vec<Run>, offset: i64, phys: u64) {
    match runs.last_mut() {
        Some(run) if run.to == offset => (run.to, run.phys.1) = (offset + 1, phys),
        _ => runs.push(Run {
            from: offset,
            to: offset.saturating_add(1),
            phys: (phys, phys),
        }),
    }
}

/// What the walk over the log found out about one queue.
#[derive(Default)]
pub struct QueueCheck {
    matched: Vec<Run>,
    /// Records without an entry that no start will enter.
    missing: Vec<Run>,
    /// Records whose place holds another entry.
    unreached: Vec<Run>,
    /// Queue offset behind the newest record.
    next: Option<i64>,
    pub records: u64,
}

/// Where a record's entry is, seen from the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Matched,
    Missing,
    Other,
}

/// A record as far as its queue is concerned.
pub struct Owner<'a> {
    pub phys: u64,
    pub size: usize,
    pub offset: i64,
    pub topic: &'a [u8],
    pub props: &'a [u8],
    pub store_timestamp: i64,
}

/// Whether the tag code is one that this record can have.
///
/// Parked messages have their time of delivery: brokers may have delay levels of their own, so any
/// whole number of seconds after the store time will do.
fn tags_fit(code: i64, topic: &[u8], props: &[u8], stored: i64, has_ext: bool) -> bool {
    let parked = topic == delay::SCHEDULE_TOPIC && properties::find(props, b"DELAY").is_some();
    code == tags_code(topic, props, stored, &LEVELS)
        || (has_ext && code <= EXT_ADDRESS)
        || (parked && code > stored && (code - stored) % 1000 == 0)
}

impl QueueCheck {
    /// Compares a record with its entry. `known_lost`: records of this queue may have been in
    /// damaged parts before.
    pub fn record(
        &mut self,
        queue: &mut Queue,
        r: &Owner<'_>,
        to_come: bool,
        known_lost: bool,
        out: &mut Findings,
        place: impl FnOnce() -> (String, Option<u64>),
    ) -> Place {
        self.records += 1;
        if let Some(next) = self.next
            && r.offset > next
            && !known_lost
        {
            let (path, at) = place();
            let text = format!(
                "{}-{}: the log has offset {} after {}: what is between is nowhere",
                queue.topic,
                queue.id,
                r.offset,
                next - 1
            );
            out.damage("record", &path, at, text);
        }
        self.next = Some(r.offset.saturating_add(1));
        let entry = queue.entry(r.offset).unwrap_or(EMPTY);
        if entry == EMPTY && r.size != 0 {
            if !to_come {
                extend(&mut self.missing, r.offset, r.phys);
            }
            return Place::Missing;
        }
        let fits = entry.phys == r.phys as i64
            && entry.size as i64 == r.size as i64
            && tags_fit(
                entry.tags_code,
                r.topic,
                r.props,
                r.store_timestamp,
                queue.has_ext,
            );
        if fits {
            extend(&mut self.matched, r.offset, r.phys);
            return Place::Matched;
        }
        extend(&mut self.unreached, r.offset, r.phys);
        Place::Other
    }

    /// Whether the entry of this offset was found to be right; once `matched` is sorted.
    fn is_matched(&self, offset: i64) -> Option<&Run> {
        let index = self.matched.partition_point(|r| r.from <= offset);
        self.matched[..index].last().filter(|r| offset < r.to)
    }

    /// Reports what the walk over the log found; before the entries are checked.
    pub fn report_missing(&self, queue: &Queue, out: &mut Findings) {
        for run in &self.missing {
            let (path, at) = queue.place(run.from);
            let text = match run.to - run.from {
                1 => format!(
                    "no entry for offset {}, the record at {}",
                    run.from, run.phys.0
                ),
                n => format!(
                    "no entries for offsets {} to {}: {n} records from {} to {}",
                    run.from,
                    run.to - 1,
                    run.phys.0,
                    run.phys.1
                ),
            };
            out.damage("queue", &path, at, text);
        }
    }
}

/// What the entries are compared with.
pub struct LogFacts<'a> {
    pub heads: &'a mut HeadReader,
    pub min: u64,
    pub end: u64,
    /// Damaged parts and missing files, as ranges of physical offsets; sorted, not overlapping.
    pub lost: &'a [(u64, u64)],
    pub clean: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct EntryCounts {
    pub entries: u64,
    /// Of records that retention removed.
    pub expired: u64,
    /// Of records behind the log's end, after a kill.
    pub behind: u64,
    /// Of records in damaged parts of the log.
    pub lost: u64,
    /// Of light message queues: a record in several queues.
    pub shared: u64,
}

/// Checks every entry that no record of the log claimed.
pub fn check_entries(
    queue: &mut Queue,
    check: &mut QueueCheck,
    log: &mut LogFacts<'_>,
    out: &mut Findings,
) -> EntryCounts {
    let mut counts = EntryCounts::default();
    check.report_missing(queue, out);
    check.matched.sort_unstable_by_key(|r| r.from);
    let (mut n, last) = queue.files_span();
    let first_matched = check.matched.first().map_or(last, |r| r.from);
    let mut runs = check.matched.iter().peekable();
    let mut empty = 0;
    let (mut lost, mut behind) = (Vec::new(), Vec::new());
    while n < last {
        while let Some(run) = runs.next_if(|r| r.to <= n) {
            debug_assert!(run.from < run.to);
        }
        if let Some(run) = runs.peek().filter(|r| r.from <= n) {
            counts.entries += (run.to - n) as u64;
            n = run.to;
            continue;
        }
        let stop = runs.peek().map_or(last, |r| r.from);
        let Some(entry) = queue.entry(n) else {
            let (path, at) = queue.place(n);
            let next = next_readable(queue, n, stop);
            let text = format!("entries {n} to {} cannot be read", next - 1);
            out.damage("queue", &path, at, text);
            n = next;
            continue;
        };
        if entry == EMPTY {
            // Holes are skipped, but asking for each would cost more than reading zeros.
            let to = if empty % 204 == 0 {
                queue.skip_hole(n)
            } else {
                n
            };
            empty += 1;
            n = to.max(n + 1).min(stop);
            continue;
        }
        empty = 0;
        counts.entries += 1;
        let phys = entry.phys.max(0) as u64;
        if entry == CqEntry::PRE_BLANK && n < first_matched {
            counts.entries -= 1;
        } else if !entry.is_valid() {
            let text = format!(
                "entry {n} is none: offset {}, size {}",
                entry.phys, entry.size
            );
            damage(queue, n, text, out);
        } else if phys < log.min {
            counts.expired += 1;
        } else if is_in(log.lost, phys) {
            extend(&mut lost, n, phys);
        } else if phys >= log.end {
            extend(&mut behind, n, phys);
        } else if let Some(text) = explain(queue, n, &entry, log.heads, &mut counts) {
            damage(queue, n, text, out);
        }
        n += 1;
    }
    for run in &lost {
        counts.lost += (run.to - run.from) as u64;
        let text = format!("{} are in a damaged part of the log", describe(run));
        damage(queue, run.from, text, out);
    }
    for run in &behind {
        let text = format!("{} are behind the log's end at {}", describe(run), log.end);
        if log.clean {
            damage(queue, run.from, text, out);
        } else {
            counts.behind += (run.to - run.from) as u64;
        }
    }
    for run in &check.unreached {
        // Where the entry itself is wrong it has been reported.
        if check.is_matched(run.from).is_some() {
            let (path, at) = queue.place(run.from);
            let text = format!(
                "{}: their entries belong to other records (a topic that was deleted and made \
                 again?)",
                describe(run)
            );
            out.add(Severity::Warning, "queue", &path, at, text);
        }
    }
    counts
}

/// Whether `phys` is in one of these sorted ranges.
pub fn is_in(ranges: &[(u64, u64)], phys: u64) -> bool {
    let index = ranges.partition_point(|r| r.0 <= phys);
    ranges[..index].last().is_some_and(|r| phys < r.1)
}

fn damage(queue: &Queue, offset: i64, text: String, out: &mut Findings) {
    let (path, at) = queue.place(offset);
    out.damage("queue", &path, at, text);
}

fn describe(run: &Run) -> String {
    format!(
        "records {} to {} (physical offsets {} to {})",
        run.from,
        run.to - 1,
        run.phys.0,
        run.phys.1
    )
}

/// First offset behind an unreadable one at which a file begins, at most `stop`.
fn next_readable(queue: &Queue, offset: i64, stop: i64) -> i64 {
    let starts = queue.files.iter().map(|f| (f.0 / SIZE as u64) as i64);
    starts
        .filter(|&s| s > offset)
        .min()
        .unwrap_or(stop)
        .min(stop)
}

/// Why an entry that no record claimed is wrong; None if it is right after all.
fn explain(
    queue: &Queue,
    offset: i64,
    entry: &CqEntry,
    heads: &mut HeadReader,
    counts: &mut EntryCounts,
) -> Option<String> {
    let Some(head) = heads.head(entry.phys as u64) else {
        return Some(format!(
            "entry {offset}: no record starts at {}",
            entry.phys
        ));
    };
    if is_shared(&head, &queue.topic, queue.id, offset) {
        counts.shared += 1;
        return None;
    }
    let mut faults = Vec::new();
    if head.topic != queue.topic.as_bytes() {
        faults.push(format!("is of topic {}", shown(&head.topic)));
    }
    if head.queue_id as i64 != queue.id as i64 {
        faults.push(format!("is of queue {}", head.queue_id));
    }
    if head.queue_offset != offset {
        faults.push(format!("has queue offset {}", head.queue_offset));
    }
    if head.total as i64 != entry.size as i64 {
        faults.push(format!(
            "has {} bytes, the entry says {}",
            head.total, entry.size
        ));
    }
    if !tags_fit(
        entry.tags_code,
        &head.topic,
        &head.props,
        head.store_timestamp,
        queue.has_ext,
    ) {
        let code = tags_code(&head.topic, &head.props, head.store_timestamp, &LEVELS);
        faults.push(format!(
            "has tag code {code}, the entry {}",
            entry.tags_code
        ));
    }
    let kind = head.sys_flag & sys_flag::TRANSACTION_MASK;
    if kind == sys_flag::PREPARED || kind == sys_flag::ROLLBACK {
        faults.push("is part of a transaction and in no queue".to_owned());
    }
    if faults.is_empty() {
        faults.push("is damaged, or of a kind that is in no queue".to_owned());
    }
    Some(format!(
        "entry {offset}: the record at {} {}",
        entry.phys,
        faults.join(", ")
    ))
}

/// Whether the record was dispatched to this queue besides its own. [MultiDispatchUtils]
fn is_shared(head: &Head, topic: &str, id: u32, offset: i64) -> bool {
    let Some(names) = properties::find(&head.props, b"INNER_MULTI_DISPATCH") else {
        return false;
    };
    let offsets = properties::find(&head.props, b"INNER_MULTI_QUEUE_OFFSET").unwrap_or(b"");
    let offset = offset.to_string();
    id == 0
        && names
            .split(|&b| b == b',')
            .zip(offsets.split(|&b| b == b','))
            .any(|(name, at)| name == topic.as_bytes() && at == offset.as_bytes())
}
