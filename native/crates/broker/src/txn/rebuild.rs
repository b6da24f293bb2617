//! Finding at start what waits: halves that no op record names.

use super::half::{Fields, Half};
use super::ops;
use super::pending::{Pending, Table};
use super::state::State;
use pyrmq_format::names::HALF_TOPIC;
use pyrmq_store::{ConsumeQueue, Result, Store, Topic};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Where the search starts: the offsets of CID_RMQ_SYS_TRANS. Negative ones mean the queue's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    pub half: i64,
    pub op: i64,
}

/// What the search found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    pub pending: usize,
    /// Places of the two queues that were read.
    pub halves: i64,
    pub ops: i64,
    /// Halves whose committed message, or copy in TRANS_CHECK_MAX_TIME_TOPIC, stands in the log without
    /// an op record.
    pub ended: usize,
    /// Halves that a later copy of the same transaction replaces.
    pub replaced: usize,
    /// Records of the half topic that can never be settled.
    pub broken: usize,
}

/// So many halves that can never be settled are named in the log.
const NAMED: usize = 16;

impl Rebuilt {
    fn note_broken(&mut self, offset: i64, why: &str) {
        self.broken += 1;
        if self.broken <= NAMED {
            log::error!(
                topic:% = String::from_utf8_lossy(HALF_TOPIC);
                "the half message at queue offset {offset} of RMQ_SYS_TRANS_HALF_TOPIC can never be \
                 committed: {why}"
            );
        }
    }
}

/// The start of a scan: an offset that the queue does not have makes nothing of it believed.
fn first(store: &Store, queue: &ConsumeQueue, wanted: i64) -> i64 {
    let (min, max) = (
        queue.min_offset().min(queue.max_offset()),
        queue.max_offset(),
    );
    if (min..=max).contains(&wanted) {
        wanted
    } else {
        // A slave's are those of its master, which may be ahead.
        if wanted >= 0 && !store.config().replica {
            log::error!(
                topic:% = queue.topic_name(), queue = queue.queue_id(), path:% = queue.files().dir().display();
                "transactions: consumerOffset.json says {wanted} of the queue in {}, which has {min} to \
                 {max}: it is read from {min} on",
                queue.files().dir().display()
            );
        }
        min
    }
}

pub(super) fn rebuild(
    store: &Store,
    half_topic: &Arc<Topic>,
    op_topic: &Arc<Topic>,
    start: Start,
) -> Result<(State, Rebuilt)> {
    let half_queue = half_topic.queue(0)?;
    let op_queue = op_topic.queue(0)?;
    let mut state = State::default();
    let mut found = Rebuilt::default();
    let from = first(store, &half_queue, start.half);
    // Ops below the kept offset name older halves only: that holds for the kept half offset.
    let wanted = if from == start.half { start.op } else { -1 };
    let mut named = Named::new(from, half_queue.max_offset());
    for offset in first(store, &op_queue, wanted)..op_queue.max_offset() {
        found.ops += 1;
        let most = read_op(store, &op_queue, offset, &mut named)?;
        state.ops.note(offset, most);
    }
    let ended = store.take_ended_halves();
    let ended: FxHashMap<i64, i64> = ended.iter().map(|e| (e.phys, e.until)).collect();
    // By the key of their transaction: the newest copy, and up to where copies are dealt with.
    let mut newest: FxHashMap<u64, (u64, i64, i64)> = FxHashMap::default();
    for offset in from..half_queue.max_offset() {
        found.halves += 1;
        let is_named = named.has(offset);
        if is_named && ended.is_empty() {
            continue;
        }
        let Some(entry) = half_queue
            .entry(offset)?
            .filter(|e| e.cq.is_valid() && !e.cq.is_blank())
        else {
            continue;
        };
        let mut until = ended.get(&entry.cq.phys).copied().unwrap_or(-1);
        if is_named && until < 0 {
            continue;
        }
        let Some(half) = Half::read(store, entry.cq.phys as u64)? else {
            found.note_broken(offset, "its record cannot be read");
            continue;
        };
        let fields = half.fields();
        if half.topic() != HALF_TOPIC || !fields.is_complete() {
            let why = "PGROUP, REAL_TOPIC or REAL_QID is missing or wrong";
            found.note_broken(offset, why);
            continue;
        }
        if is_named {
            // RocketMQ may have appended it once more before it was committed.
            newest.insert(half.key(), (half.phys(), offset, until));
            continue;
        }
        // RocketMQ's immunity copy: settled with its original, which stays if it waits itself.
        let original = fields.stands_for.filter(|&old| old != offset);
        if original.is_some_and(|old| named.has(old) || state.table.get(old).is_some()) {
            state.owed.push(offset);
            continue;
        }
        let earlier = newest.get(&half.key()).copied();
        if let Some((phys, earlier, earlier_until)) = earlier
            && let Some(old) = Half::read(store, phys)?
            && half.is_same_transaction(&old)
        {
            until = until.max(earlier_until);
            // A copy whose op record a crash cut off, or a send that a client repeated within a
            // millisecond: the later one stands for both.
            if state.table.remove(earlier).is_some() {
                state.owed.push(earlier);
                found.replaced += 1;
            }
        }
        newest.insert(half.key(), (half.phys(), offset, until));
        if half.view().phys < until {
            found.ended += 1;
            state.owed.push(offset);
            continue;
        }
        add_pending(&mut state.table, offset, &half, &fields);
    }
    found.pending = state.table.len();
    Ok((state, found))
}

fn add_pending(table: &mut Table, offset: i64, half: &Half, fields: &Fields<'_>) {
    let view = half.view();
    let pending = Pending {
        phys: half.phys(),
        born: view.born_timestamp,
        since: view.store_timestamp,
        key: half.key(),
        immunity: fields.immunity_seconds(),
        checks: fields.checks,
        // Whether it was moved without being asked about is not known: every one may have been.
        is_copy: true,
        origin: table.origin(fields.group, fields.topic),
    };
    table.insert(offset, pending);
}

/// Reads one op record into `named`; returns the highest half that it names, -1 if none.
fn read_op(store: &Store, queue: &ConsumeQueue, offset: i64, named: &mut Named) -> Result<i64> {
    let Some(entry) = queue
        .entry(offset)?
        .filter(|e| e.cq.is_valid() && !e.cq.is_blank())
    else {
        return Ok(-1);
    };
    let Some(op) = Half::read(store, entry.cq.phys as u64)? else {
        return Ok(-1);
    };
    if op.fields().tags != Some(ops::TAG) {
        return Ok(-1);
    }
    let mut most = -1;
    let end = named.to;
    for half in ops::named(op.body()).filter(|&half| half < end) {
        named.add(half);
        most = most.max(half);
    }
    Ok(most)
}

/// Which halves op records name: a bit for each place that is read, a set for older ones.
struct Named {
    from: i64,
    to: i64,
    bits: Vec<u64>,
    older: FxHashSet<i64>,
}

/// Older halves that are kept; RocketMQ's immunity copies refer to them.
const MAX_OLDER: usize = 1 << 20;

impl Named {
    fn new(from: i64, to: i64) -> Self {
        Named {
            from,
            to,
            bits: vec![0; ((to - from) as usize).div_ceil(64)],
            older: FxHashSet::default(),
        }
    }

    fn add(&mut self, offset: i64) {
        if offset < self.from {
            if self.older.len() < MAX_OLDER {
                self.older.insert(offset);
            }
        } else if offset < self.to {
            let at = (offset - self.from) as usize;
            self.bits[at / 64] |= 1 << (at % 64);
        }
    }

    fn has(&self, offset: i64) -> bool {
        if offset < self.from {
            return self.older.contains(&offset);
        }
        let at = (offset - self.from) as usize;
        self.bits
            .get(at / 64)
            .is_some_and(|w| w >> (at % 64) & 1 == 1)
    }
}

#[cfg(test)]
#[path = "rebuild_tests.rs"]
mod tests;
