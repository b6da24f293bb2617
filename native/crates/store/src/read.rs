//! The get path: which records a consumer gets from a queue offset on. [DefaultMessageStore]

use super::availability::Availability;
use super::barrier::Barrier;
use super::commit_log::CommitLog;
use super::config::StoreConfig;
use super::consume_queue::ConsumeQueue;
use super::error::Result;
use super::prefetch::{LINE, prefetch};
use super::queue_ext::Units;
use super::resident::{self, LOOK_AHEAD, Resident, Wait};
use super::segment::Segment;
use super::skip::{self, Ahead};
use super::wanted::{PropertyFilter, Wanted};
use pyrmq_format::cq_entry::{CqEntry, Entry, Layout};
use pyrmq_format::properties;
use pyrmq_format::record::{self, Found};
use pyrmq_format::{get_i32, get_i64};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of queue entries that are looked at ahead by a read that takes what comes. One that selects scans
/// many: it asks for all of them at once, as each time costs more than the scan.
const ENTRIES_AHEAD: usize = 4096;

/// In RocketMQ's order; the numbers cross the C border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum GetStatus {
    Found = 0,
    NoMatchedMessage = 1,
    MessageWasRemoving = 2,
    OffsetFoundNull = 3,
    OffsetOverflowBadly = 4,
    OffsetOverflowOne = 5,
    OffsetTooSmall = 6,
    NoMatchedLogicQueue = 7,
    NoMessageInQueue = 8,
}

/// Consecutive bytes of the log, kept alive by their segment.
#[derive(Clone)]
pub struct Chunk {
    pub segment: Arc<Segment>,
    pub at: usize,
    pub len: usize,
}

pub struct GetResult {
    pub status: GetStatus,
    pub next: i64,
    pub min: i64,
    pub max: i64,
    pub count: usize,
    pub bytes: usize,
    /// Physical offset of the last entry examined, -1 if none.
    pub last_phys: i64,
    /// The records; neighbours in the log are one chunk.
    pub chunks: Vec<Chunk>,
}

/// Bytes of the log that are looked at ahead for who comes back soon.
const LEARN_AHEAD: usize = 4 * LOOK_AHEAD;

/// So many entries before it is read a record is asked for: its head, or more of it where it is copied.
const AHEAD: usize = 8;
const HEAD: usize = 2 * LINE;
const COPIED: usize = 2048;

/// Where an entry leads.
enum Place {
    Record(Arc<Segment>, usize),
    /// Its file was deleted.
    Gone,
    Damaged(&'static str),
}

/// Bounds of one read beside those that the client states.
struct Limits {
    /// Records within so many bytes of the log's end count as in memory.
    in_memory_bytes: u64,
    /// Bytes and messages of an answer whose records are in memory, or on disk.
    transfer_memory: (usize, usize),
    transfer_disk: (usize, usize),
    /// Bytes of queue entries that one read scans.
    filter_bytes: usize,
}

impl Limits {
    /// Bytes that a record may have which does not end a read that gave `r` so far, wherever it lies.
    fn room(&self, r: &GetResult, max_bytes: usize, max_count: usize) -> usize {
        if r.count == 0 {
            return usize::MAX;
        }
        let (in_memory, on_disk) = (self.transfer_memory, self.transfer_disk);
        if r.count + 1 > max_count.min(in_memory.1).min(on_disk.1) {
            return 0;
        }
        let most = max_bytes.min(in_memory.0).min(on_disk.0);
        most.saturating_sub(r.bytes)
    }
}

/// Reads records by queue offset, by time and by physical offset.
pub struct Reader {
    log: Arc<CommitLog>,
    barrier: Arc<Barrier>,
    availability: Arc<Availability>,
    limits: Limits,
    damage_logged: AtomicBool,
    damaged_entries: AtomicU64,
}

impl Reader {
    pub fn new(
        cfg: &StoreConfig,
        log: Arc<CommitLog>,
        barrier: Arc<Barrier>,
        availability: Arc<Availability>,
    ) -> Self {
        Reader {
            log,
            barrier,
            availability,
            limits: Limits {
                in_memory_bytes: cfg.in_memory_bytes,
                transfer_memory: cfg.transfer_memory,
                transfer_disk: cfg.transfer_disk,
                filter_bytes: cfg.max_filter_bytes,
            },
            damage_logged: AtomicBool::new(false),
            damaged_entries: AtomicU64::new(0),
        }
    }

    pub fn check_readable(&self) -> Result<()> {
        self.availability.check_readable()
    }

    /// How many queue entries were left out as damaged.
    pub fn damaged_entries(&self) -> u64 {
        self.damaged_entries.load(Ordering::Relaxed)
    }

    /// Highest queue offset that consumers may know of: what lies below it is confirmed.
    pub fn visible_max(&self, queue: &ConsumeQueue, wait: Wait) -> Result<i64> {
        let max = queue.max_offset();
        if self.barrier.is_confirmed(queue.max_phys().max(0) as u64) {
            return Ok(max);
        }
        let confirmed = self.barrier.confirmed() as i64;
        let (mut low, mut high) = (queue.min_offset().min(max), max);
        // What is not confirmed is little, at the end: looked for from there, by larger and larger
        // steps until something confirmed is met.
        let mut step = 1;
        while low < high {
            let mid = match step {
                0 => low + (high - low) / 2,
                _ => (high - step).max(low),
            };
            match queue.entry_if(mid, wait)? {
                // A blank has no record that could be waited for.
                Some(e) if e.cq.is_blank() || e.cq.end() <= confirmed => {
                    (low, step) = (e.next(), 0);
                }
                Some(e) => high = e.base.clamp(low, mid),
                None => high = mid,
            }
            step *= 2;
        }
        Ok(low)
    }

    /// Reads records of a queue.
    pub fn get(&self, queue: Option<&ConsumeQueue>, wanted: &Wanted<'_>) -> Result<GetResult> {
        self.check_readable()?;
        let offset = wanted.offset;
        let mut r = GetResult {
            status: GetStatus::NoMessageInQueue,
            next: 0,
            min: 0,
            max: 0,
            count: 0,
            bytes: 0,
            last_phys: -1,
            chunks: Vec::new(),
        };
        let Some(queue) = queue else { return Ok(r) };
        r.min = queue.min_offset();
        r.max = self.visible_max(queue, wanted.wait)?;
        // A reader may have been further before a restart, and what it read may be confirmed again
        // later: it is not sent back.
        let is_ahead = offset > r.max && offset <= queue.max_offset();
        (r.status, r.next) = if is_ahead {
            (GetStatus::OffsetOverflowOne, offset)
        } else if r.max == 0 {
            (GetStatus::NoMessageInQueue, 0)
        } else if offset < r.min {
            (GetStatus::OffsetTooSmall, r.min)
        } else if offset == r.max {
            (GetStatus::OffsetOverflowOne, offset)
        } else if offset > r.max {
            (GetStatus::OffsetOverflowBadly, r.max)
        } else {
            self.collect(queue, wanted, &mut r)?
        };
        Ok(r)
    }

    fn collect(
        &self,
        queue: &ConsumeQueue,
        wanted: &Wanted<'_>,
        r: &mut GetResult,
    ) -> Result<(GetStatus, i64)> {
        let offset = wanted.offset;
        let Some((file, at, first)) = queue.file_from(offset, wanted.wait)? else {
            return Ok((GetStatus::OffsetFoundNull, queue.next_file_offset(offset)));
        };
        let limits = &self.limits;
        let layout = queue.layout();
        let unit = layout.unit();
        let max_count = wanted.max_count.max(1);
        let max_bytes = wanted.max_bytes.max(100);
        let scan = limits.filter_bytes.max(max_count * unit);
        let entries = file.readable_from(at);
        let entries = &entries[..entries.len().min(scan)];
        let max_phys = self.log.max_offset();
        let mut status = GetStatus::NoMatchedMessage;
        let mut next = offset;
        // Entries of records below this offset are gone with their file.
        let mut gone_below = 0;
        let is_selective = wanted.properties.is_some() || !wanted.tags.0.is_empty();
        let ahead = if is_selective {
            entries.len()
        } else {
            ENTRIES_AHEAD
        };
        let ahead_of_log = match wanted.learnt {
            Some(_) => LEARN_AHEAD,
            None => LOOK_AHEAD,
        };
        let [mut of_queue, mut of_log] =
            resident::resume(wanted.wait, [ahead, ahead_of_log], wanted.learnt);
        let filter = wanted.properties.map(PropertyFilter::new);
        let mut units = queue.ext().map(|ext| Units::new(ext, wanted.wait));
        // Where entries say by themselves that they are not wanted, many are skipped at once.
        let mut skips = layout == Layout::Simple
            && (!wanted.tags.0.is_empty() || wanted.bits.is_some() && units.is_some());
        r.chunks.reserve(max_count.min(32)); // what most clients ask for
        let mut following = 0;
        let mut expected = 1;
        // Who comes back soon is a pull that was granted: its answer is a copy.
        let most_expected = match wanted.learnt {
            Some(_) => COPIED,
            None => HEAD,
        };
        while let Some(slot) = entries[following * unit..].get(..unit) {
            let i = following;
            if i > 0 && filter.as_ref().is_some_and(PropertyFilter::is_over) {
                break;
            }
            match of_queue.bytes(&file, at + i * unit, unit) {
                Err(_) if r.count > 0 => break, // the next read says so
                read => read?,
            };
            if !is_selective && let Some(chunk) = r.chunks.last() {
                while expected < (i + AHEAD).min(max_count)
                    && let Some(later) = entries.get(expected * unit..)
                    && !later.is_empty()
                    && of_queue.knows(&file, at + expected * unit, unit)
                {
                    expect(&chunk.segment, later, most_expected);
                    expected += 1;
                }
            }
            let entry = layout.read(slot, first + i as u64);
            if entry.base >= r.max {
                break;
            }
            let cq = entry.cq;
            let size = cq.size as usize;
            if r.count > 0 {
                let recent = max_phys.saturating_sub(cq.phys as u64) <= limits.in_memory_bytes;
                let (bytes, count) = if recent {
                    limits.transfer_memory
                } else {
                    limits.transfer_disk
                };
                let messages = r.count + entry.count.max(1) as usize;
                let more = r.bytes.saturating_add(size); // a damaged size may be any number
                if messages > max_count.min(count) || more > max_bytes.min(bytes) {
                    break;
                }
            }
            let place = if cq.phys < gone_below {
                None
            } else {
                let near = r.chunks.last().map(|chunk| &chunk.segment);
                match self.matching_place(queue, &entry, wanted, units.as_mut(), &mut of_log, near)
                {
                    Err(_) if r.count > 0 => break, // the next read says so
                    place => place?,
                }
            };
            next = entry.next();
            r.last_phys = cq.phys;
            following += 1;
            let Some(place) = place else {
                if skips {
                    let room = limits.room(r, max_bytes, max_count);
                    let left = (entries.len() / unit - following).min((r.max - next) as usize);
                    let from = at + following * unit;
                    let ahead = Ahead {
                        file: &file,
                        at: from,
                        most: left,
                        room,
                    };
                    let n = match &mut units {
                        None => skip::by_tag(&ahead, &mut of_queue, wanted.tags.0),
                        Some(units) => skip::by_unit(&ahead, &mut of_queue, |cq| {
                            wanted.may_take(cq, Some(&mut *units))
                        }),
                    };
                    // Where the window cannot be read, each entry by itself says so: not tried again.
                    skips = n.is_some();
                    if let Some(n) = n.filter(|n| *n > 0) {
                        following += n;
                        next += n as i64;
                        r.last_phys = CqEntry::read(&entries[(following - 1) * unit..]).phys;
                    }
                }
                continue;
            };
            match place {
                Place::Record(segment, at) => {
                    if filter
                        .as_ref()
                        .is_some_and(|f| !f.passes(&segment, at, size))
                    {
                        continue;
                    }
                    push_chunk(&mut r.chunks, segment, at, size);
                    r.count += entry.count.max(1) as usize;
                    r.bytes += size;
                    status = GetStatus::Found;
                }
                Place::Gone => {
                    if !cq.is_blank() {
                        gone_below = self.log.next_file_start(cq.phys as u64) as i64;
                    }
                    if status != GetStatus::Found {
                        status = GetStatus::MessageWasRemoving;
                    }
                }
                Place::Damaged(why) => self.log_damage(queue, &entry, why),
            }
        }
        resident::keep([&of_queue, &of_log], wanted.learnt);
        Ok((status, next))
    }

    /// Where the record of an entry lies; None if the entry says that it is not wanted.
    #[inline]
    fn matching_place(
        &self,
        queue: &ConsumeQueue,
        entry: &Entry,
        wanted: &Wanted<'_>,
        units: Option<&mut Units<'_>>,
        of_log: &mut Resident,
        near: Option<&Arc<Segment>>,
    ) -> Result<Option<Place>> {
        if !wanted.may_take(&entry.cq, units)? {
            return Ok(None);
        }
        self.place_of(queue, entry, of_log, near).map(Some)
    }

    /// Where the record of an entry lies, all of it in memory. An entry that points at anything but
    /// its own record is damaged, and so is the record if it is not what the entry says. `near`: the file
    /// that the record before it lies in.
    #[inline]
    fn place_of(
        &self,
        queue: &ConsumeQueue,
        entry: &Entry,
        of_log: &mut Resident,
        near: Option<&Arc<Segment>>,
    ) -> Result<Place> {
        let cq = entry.cq;
        let size = cq.size as usize;
        if cq.is_blank() {
            return Ok(Place::Gone);
        }
        if cq.phys < 0 || cq.size < record::MIN_LEN as i32 {
            return Ok(Place::Damaged("it is no entry"));
        }
        let phys = cq.phys as u64;
        let place = near.and_then(|near| Some((near.clone(), near.place_of(phys)?)));
        let Some((segment, at)) = place.or_else(|| self.log.locate(phys)) else {
            return Ok(if phys < self.log.min_offset() {
                Place::Gone
            } else {
                Place::Damaged("it points behind the log")
            });
        };
        let Some(bytes) = of_log.bytes(&segment, at, size)? else {
            return Ok(Place::Damaged("it points behind the log"));
        };
        let id = queue.queue_id() as i32;
        if !record::is_the_one(bytes, id, entry.base, cq.phys) && !is_multi_dispatched(bytes) {
            return Ok(Place::Damaged("the record there is another one"));
        }
        Ok(Place::Record(segment, at))
    }

    /// Counts a damaged entry and logs the first one; consumers continue behind it.
    #[cold]
    fn log_damage(&self, queue: &ConsumeQueue, entry: &Entry, why: &str) {
        if !self.damage_logged.swap(true, Ordering::Relaxed) {
            log::error!(
                topic:% = queue.topic_name(), queue = queue.queue_id(), path:% = queue.files().dir().display();
                "the entry of queue offset {} in {} is damaged ({why}) and left \
                 out: `pyrmq store verify` reports all damage",
                entry.base,
                queue.files().dir().display()
            );
        }
        self.damaged_entries.fetch_add(1, Ordering::Relaxed);
    }

    /// The record that starts at a physical offset; None if none that is confirmed does.
    /// [selectOneMessageByOffset]
    pub fn record_at(&self, phys: u64) -> Result<Option<Chunk>> {
        self.record_before(phys, self.barrier.confirmed())
    }

    /// The same of all that this broker has done its part for: slaves may not have it yet.
    pub fn local_record_at(&self, phys: u64) -> Result<Option<Chunk>> {
        self.record_before(phys, self.barrier.local())
    }

    fn record_before(&self, phys: u64, limit: u64) -> Result<Option<Chunk>> {
        self.check_readable()?;
        let Some((segment, at)) = self.log.locate(phys) else {
            return Ok(None);
        };
        let bytes = Resident::new(Wait::ForDisk).record(&segment, at)?;
        let Found::Record(v) = record::read(bytes, false) else {
            return Ok(None);
        };
        let end = phys + v.total as u64;
        let len = v.total;
        let is_there = v.phys == phys as i64 && end <= limit;
        Ok(is_there.then_some(Chunk { segment, at, len }))
    }

    /// Store time of the record of a queue entry; None if it has none.
    fn time_of(&self, queue: &ConsumeQueue, offset: i64) -> Result<Option<i64>> {
        let Some(entry) = queue.entry(offset)? else {
            return Ok(None);
        };
        let mut of_log = Resident::new(Wait::ForDisk);
        Ok(match self.place_of(queue, &entry, &mut of_log, None)? {
            Place::Record(segment, at) => segment
                .bytes(at, entry.cq.size as usize)
                .and_then(record::peek_store_timestamp),
            _ => None,
        })
    }

    /// Queue offset by store time. Lower bound: the first entry at or after `time` (the end if
    /// none); upper bound: the last one at or before it. [getOffsetInQueueByTime]
    pub fn offset_by_time(&self, queue: &ConsumeQueue, time: i64, upper: bool) -> Result<i64> {
        let (min, max) = (queue.min_offset(), self.visible_max(queue, Wait::ForDisk)?);
        let (mut low, mut high) = (min, max);
        while low < high {
            let mid = low + (high - low) / 2;
            // A blank or damaged place has no time: the next one that has decides.
            let mut known = None;
            for at in mid..high {
                if let Some(t) = self.time_of(queue, at)? {
                    known = Some((at, t));
                    break;
                }
            }
            let before = |t: i64| if upper { t <= time } else { t < time };
            match known {
                Some((at, t)) if before(t) => low = at + 1,
                _ => high = mid,
            }
        }
        Ok(if upper { (low - 1).max(min) } else { low }.min(max))
    }

    /// Store time of the message at a queue offset, -1 if there is none.
    pub fn store_time(&self, queue: &ConsumeQueue, offset: i64) -> Result<i64> {
        Ok(self.time_of(queue, offset)?.unwrap_or(-1))
    }

    /// Store time of the oldest message of a queue, -1 if it has none.
    pub fn earliest_time(&self, queue: &ConsumeQueue) -> Result<i64> {
        self.store_time(queue, queue.min_offset())
    }
}

/// Whether these bytes are a record that RocketMQ also dispatched to queues of other names
/// (INNER_MULTI_DISPATCH), where queue id and offset differ.
#[cold]
pub(super) fn is_multi_dispatched(bytes: &[u8]) -> bool {
    match record::read(bytes, false) {
        Found::Record(v) if v.total == bytes.len() => {
            properties::find(&bytes[v.props.clone()], b"INNER_MULTI_DISPATCH").is_some()
        }
        _ => false,
    }
}

/// Has the processor fetch the first bytes, `most` of them, of the record of a later entry, if it lies in
/// this file: records of one queue lie apart, so that each of them would be waited for.
#[inline]
fn expect(segment: &Segment, slot: &[u8], most: usize) {
    let Some(start) = slot.first_chunk::<12>() else {
        return;
    };
    let (phys, size) = (get_i64(start, 0) as u64, get_i32(start, 8).max(0) as usize);
    if let Some(at) = segment.place_of(phys)
        && let Some(bytes) = segment.bytes(at, size)
    {
        let (start, end) = (bytes.as_ptr(), size.min(most));
        let mut line = 0;
        while line < end {
            prefetch(start.wrapping_add(line));
            line += LINE;
        }
    }
}

#[inline]
fn push_chunk(chunks: &mut Vec<Chunk>, segment: Arc<Segment>, at: usize, len: usize) {
    if let Some(last) = chunks.last_mut()
        && last.at + last.len == at
        && Arc::ptr_eq(&last.segment, &segment)
    {
        last.len += len;
        return;
    }
    chunks.push(Chunk { segment, at, len });
}
