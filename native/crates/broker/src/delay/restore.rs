//! How far each level was delivered, at start: kept progress, and what the log says beyond it.

use super::level::{self, Level, Target};
use crate::txn::Fields;
use pyrmq_format::delay::SCHEDULE_TOPIC;
use pyrmq_format::properties;
use pyrmq_format::record::{self, Found, View};
use pyrmq_store::{Resident, Result, Store, Stored, Wait};

/// Bytes of the log that are read at a time.
const AHEAD: usize = 1 << 20;
/// So many messages are looked at for one that can be delivered.
const LOOKED_AT: i64 = 1024;

/// What the log said beyond kept progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Bytes of the log that were read.
    pub read: u64,
    /// Messages that were delivered after progress was kept.
    pub delivered: u64,
}

/// Moves levels to where they were: inside of their queues, behind everything that the log from
/// `log_end` on has delivered, and not beyond what can have been delivered. What kept progress says
/// otherwise is logged, with both values.
pub(super) fn restore(store: &Store, levels: &[Level], log_end: Option<u64>) -> Result<Restored> {
    let kept: Vec<_> = levels.iter().map(Level::next).collect();
    let mut from = log_end;
    let mut inside = Vec::new();
    for level in levels {
        let (min, max) = (level.queue.min_offset(), level.queue.max_offset());
        level.go_to(level.next().clamp(min.min(max), max));
        inside.push(level.next());
        if let Some((offset, phys)) = waiting_before(store, level)?
            && has_target(store, level, offset)?
        {
            level.go_to(offset);
            from = Some(from.map_or(phys, |from| from.min(phys)));
        }
    }
    let corrected: Vec<_> = levels.iter().map(Level::next).collect();
    let mut restored = walk(store, levels, from);
    let gone_on = |(level, inside): (&Level, i64)| (level.next() - inside).max(0) as u64;
    restored.delivered = levels.iter().zip(inside).map(gone_on).sum();
    for (index, level) in levels.iter().enumerate() {
        let is_wrong = kept[index] != corrected[index] && kept[index] != level.next();
        if is_wrong && !store.config().replica {
            let (min, next) = (level.queue.min_offset(), level.next());
            let skipped = if next > min {
                ". A message before that offset which still waited is not delivered"
            } else {
                ""
            };
            log::error!(
                topic:% = level.queue.topic_name(), queue = index;
                "delay level {}: delayOffset.json says {}, but the queue has offsets {min} to {}: \
                 delivery goes on at {next}{skipped}. What was delivered from there on and is not found \
                 in the log is delivered again",
                index + 1,
                kept[index],
                level.queue.max_offset(),
            );
        }
    }
    Ok(restored)
}

/// The first message before a level's next one that cannot have been delivered, where there is one: its
/// queue offset and its record's physical offset. Delivering one appends a record at or behind its
/// time, so one that is due later than the log's newest record was not. (Times further away than the
/// delay are of a clock that was set back: they say nothing.)
fn waiting_before(store: &Store, level: &Level) -> Result<Option<(i64, u64)>> {
    let (mut low, mut high) = (level.queue.min_offset(), level.next());
    if low >= high {
        return Ok(None);
    }
    let Some(newest) = store.newest_record()? else {
        return Ok(None);
    };
    let bytes = newest.segment.bytes(newest.at, newest.len);
    let Some(newest) = bytes.and_then(record::peek_store_timestamp) else {
        return Ok(None);
    };
    let waits = |offset: i64| -> Result<Option<u64>> {
        let entry = level.queue.entry(offset)?;
        let Some(cq) = entry
            .map(|e| e.cq)
            .filter(|cq| cq.is_valid() && !cq.is_blank())
        else {
            return Ok(None);
        };
        // An entry with an extension has its address there.
        let due = match cq.tags_code {
            due @ 0.. => due,
            _ => match Stored::read(store, cq.phys as u64) {
                Ok(Some(stored)) => stored.view().store_timestamp + level.delay,
                _ => return Ok(None),
            },
        };
        let waits = !level.is_due(due, newest);
        Ok(waits.then_some(cq.phys as u64))
    };
    let Some(mut phys) = waits(high - 1)? else {
        return Ok(None);
    };
    high -= 1;
    while low < high {
        let mid = low + (high - low) / 2;
        match waits(mid)? {
            Some(earlier) => (high, phys) = (mid, earlier),
            None => low = mid + 1,
        }
    }
    Ok(Some((high, phys)))
}

/// Whether one of the messages from a queue offset to before a level's next one can be delivered. What
/// was left out, as its topic was deleted, say, appended no record that would tell of it.
fn has_target(store: &Store, level: &Level, from: i64) -> Result<bool> {
    for offset in from..level.next() {
        if offset - from == LOOKED_AT {
            return Ok(true);
        }
        let Some(entry) = level.queue.entry(offset)? else {
            continue;
        };
        if entry.cq.is_blank() || !entry.cq.is_valid() {
            continue;
        }
        if let Some(stored) = Stored::read(store, entry.cq.phys as u64)?
            && let real = Fields::read(stored.props())
            && let Target::Topic(_) = level::target(store, real.topic, real.queue_id)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Moves levels behind what the log from `from` on has delivered.
fn walk(store: &Store, levels: &[Level], from: Option<u64>) -> Restored {
    let mut restored = Restored::default();
    let log = store.log();
    let unused = levels.iter().all(|level| level.queue.max_offset() == 0);
    let Some(from) = from.filter(|_| !unused) else {
        return restored;
    };
    let mut at = from.max(log.min_offset());
    let mut heads = Resident::reading_ahead(Wait::ForDisk, AHEAD);
    while at < log.max_offset() {
        let Some((segment, place)) = log.locate(at) else {
            break;
        };
        let found = heads.record(&segment, place);
        let next = match found.map(|bytes| (record::read(bytes, false), bytes)) {
            Ok((Found::Record(v), bytes)) => {
                note(store, levels, bytes, &v);
                at + v.total as u64
            }
            Ok((Found::Blank, _)) => log.next_file_start(at),
            // Behind such a place the next file is the first that is sure to begin with a record.
            damaged => {
                let why = match damaged {
                    Err(e) => e.to_string(),
                    Ok((Found::Invalid(why), _)) => why.into(),
                    Ok(_) => "it is no record".into(),
                };
                log::error!(
                    "delayed messages: the log at {at} cannot be read ({why}): what was delivered from \
                     there to the end of its file may be delivered again"
                );
                log.next_file_start(at)
            }
        };
        restored.read += next - at;
        at = next;
    }
    restored
}

/// A property string without its last separator, which a delivered record always has.
fn text(props: &[u8]) -> &[u8] {
    props
        .strip_suffix(&[properties::VALUE_END])
        .unwrap_or(props)
}

/// Notes a record if it is a delivered one that was not known.
fn note(store: &Store, levels: &[Level], bytes: &[u8], v: &View) {
    let props = &bytes[v.props.clone()];
    let topic = &bytes[v.topic.clone()];
    let Ok(from) = u64::try_from(v.prepared_transaction_offset) else {
        return;
    };
    if properties::find(props, b"DELAY").is_none()
        || properties::find(props, b"REAL_TOPIC") != Some(topic)
    {
        return;
    }
    // The same text: a message that says the same of itself may come from elsewhere.
    let is_it = |s: &Stored| s.topic() == SCHEDULE_TOPIC && text(s.props()) == text(props);
    let parked = Stored::read(store, from).unwrap_or_else(|e| {
        log::error!(path:% = e.path().display(); "delayed messages: {e}: whether the message there was delivered is not known");
        None
    });
    let Some(parked) = parked.filter(is_it) else {
        return;
    };
    let index = usize::try_from(parked.view().queue_id).unwrap_or(usize::MAX);
    let Some(level) = levels.get(index) else {
        return;
    };
    let offset = parked.view().queue_offset;
    if offset >= level.next() {
        level.go_to(offset + 1);
    }
}
