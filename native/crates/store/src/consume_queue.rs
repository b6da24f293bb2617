//! One queue of a topic: entries of a fixed size, found by queue offset.
//!
//! A *position* counts entries, a *queue offset* counts messages. In a simple queue the two are
//! the same; an entry of a batch queue may stand for several messages, and is searched for.

use super::error::Result;
use super::queue_ext::QueueExt;
use super::queue_files::{QueueFiles, Reader};
use super::resident::{Resident, Wait};
use super::segment::{PAGE, Segment};
use pyrmq_format::cq_entry::{CqEntry, Entry, Layout};
use pyrmq_format::queue_ext::Unit;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};

/// Space of a queue file is reserved in steps of this many bytes.
const CHUNK: usize = 32 << 10;
/// Runs of entries are read in blocks of this size.
const SCAN: usize = 64 << 10;

pub struct ConsumeQueue {
    queue_id: u32,
    layout: Layout,
    files: Arc<QueueFiles>,
    ext: Option<Box<QueueExt>>,
    /// First valid queue offset, and the one behind the last.
    min: AtomicI64,
    max: AtomicI64,
    /// Physical offset behind the last record that has an entry here.
    max_phys: AtomicI64,
    /// Entries that the holder of the put lock has staged behind the last one, and the queue offset
    /// behind them. Only that holder uses them.
    staged: AtomicUsize,
    staged_next: AtomicI64,
    /// Bytes of entries (counted from position 0) that are known to be on disk.
    flushed: AtomicU64,
    /// The next entry is to be reported as an arrival.
    watched: AtomicBool,
    /// It is in the list of queues to flush.
    dirty: AtomicBool,
    /// In recovery: where the entries ended that the files had; 0 otherwise.
    stale_end: AtomicU64,
    /// In recovery: entries are written even where the files seem to have them.
    distrusted: AtomicBool,
    /// In recovery: there is something behind the valid entries.
    torn: AtomicBool,
    /// In recovery: something behind the end was erased, perhaps not on disk.
    erased: AtomicBool,
}

impl ConsumeQueue {
    pub fn new(
        queue_id: u32,
        layout: Layout,
        files: Arc<QueueFiles>,
        ext: Option<QueueExt>,
    ) -> Self {
        // Until `recover` knows better: all that the files have room for.
        let unit = layout.unit() as u64;
        let (min, max) = match layout {
            Layout::Simple => (files.first().unwrap_or(0) / unit, files.end() / unit),
            Layout::Batch => (0, 0),
        };
        ConsumeQueue {
            queue_id,
            layout,
            files,
            ext: ext.map(Box::new),
            min: AtomicI64::new(min as i64),
            max: AtomicI64::new(max as i64),
            max_phys: AtomicI64::new(-1),
            staged: AtomicUsize::new(0),
            staged_next: AtomicI64::new(0),
            flushed: AtomicU64::new(0),
            watched: AtomicBool::new(false),
            dirty: AtomicBool::new(false),
            stale_end: AtomicU64::new(0),
            distrusted: AtomicBool::new(false),
            torn: AtomicBool::new(false),
            erased: AtomicBool::new(false),
        }
    }

    pub fn queue_id(&self) -> u32 {
        self.queue_id
    }

    /// Of log lines.
    pub fn topic_name(&self) -> Cow<'_, str> {
        self.files.topic_name()
    }

    pub fn layout(&self) -> Layout {
        self.layout
    }

    pub fn files(&self) -> &QueueFiles {
        &self.files
    }

    pub fn ext(&self) -> Option<&QueueExt> {
        self.ext.as_deref()
    }

    #[inline]
    pub fn max_offset(&self) -> i64 {
        self.max.load(Ordering::Acquire)
    }

    #[inline]
    pub fn min_offset(&self) -> i64 {
        self.min.load(Ordering::Acquire)
    }

    #[inline]
    pub fn max_phys(&self) -> i64 {
        self.max_phys.load(Ordering::Acquire)
    }

    /// Asks that the next entry be reported as an arrival.
    pub fn watch(&self) {
        self.watched.swap(true, Ordering::SeqCst);
    }

    /// Whether the next entry is to be reported; asking clears it.
    #[inline]
    pub fn take_watch(&self) -> bool {
        self.watched.load(Ordering::Relaxed) && self.watched.swap(false, Ordering::AcqRel)
    }

    /// Marks the queue as having entries to flush; true if it was not marked yet.
    #[inline]
    pub fn mark_dirty(&self) -> bool {
        !self.dirty.load(Ordering::Relaxed) && !self.dirty.swap(true, Ordering::AcqRel)
    }

    pub(super) fn clear_dirty(&self) {
        self.dirty.store(false, Ordering::Release);
    }

    #[inline]
    fn unit(&self) -> u64 {
        self.layout.unit() as u64
    }

    /// Positions: the first one that a file has, and the one behind the last entry.
    fn positions(&self) -> (u64, u64) {
        let end = self.files.end() / self.unit();
        let first = self.files.first().map_or(end, |b| b / self.unit());
        (first.min(end), end)
    }

    /// The entry at a position below the end.
    fn entry_at(&self, position: u64, wait: Wait) -> Result<Option<Entry>> {
        let byte = position.saturating_mul(self.unit());
        let Some(segment) = self.files.map(byte)? else {
            return Ok(None);
        };
        let at = (byte - segment.base()) as usize;
        let unit = self.layout.unit();
        let slot = Resident::reading_ahead(wait, unit).bytes(&segment, at, unit)?;
        Ok(slot.map(|slot| self.layout.read(slot, position)))
    }

    /// Position of the entry that holds a queue offset.
    fn position_of(&self, offset: i64, wait: Wait) -> Result<Option<u64>> {
        let Ok(wanted) = u64::try_from(offset) else {
            return Ok(None);
        };
        let (first, end) = self.positions();
        if self.layout == Layout::Simple {
            return Ok((first..end).contains(&wanted).then_some(wanted));
        }
        let (mut low, mut high) = (first, end);
        while low < high {
            let mid = low + (high - low) / 2;
            match self.entry_at(mid, wait)? {
                Some(e) if e.base > offset => high = mid,
                _ => low = mid + 1,
            }
        }
        let Some(position) = low.checked_sub(1).filter(|p| *p >= first) else {
            return Ok(None);
        };
        let holds = |e: Entry| offset < e.next();
        Ok(self
            .entry_at(position, wait)?
            .is_some_and(holds)
            .then_some(position))
    }

    /// The entry that holds a queue offset below `max_offset`.
    pub fn entry(&self, offset: i64) -> Result<Option<Entry>> {
        self.entry_if(offset, Wait::ForDisk)
    }

    /// The same; where it is not in memory, as `wait` says.
    pub fn entry_if(&self, offset: i64, wait: Wait) -> Result<Option<Entry>> {
        match self.position_of(offset, wait)? {
            Some(position) => self.entry_at(position, wait),
            None => Ok(None),
        }
    }

    /// The file that holds `offset`, the place of its entry in it, and that entry's position.
    /// Where a batch queue lacks `offset` (its record was damaged), the entry behind it.
    pub fn file_from(&self, offset: i64, wait: Wait) -> Result<Option<(Arc<Segment>, usize, u64)>> {
        let position = match self.position_of(offset, wait)? {
            Some(position) => position,
            None if self.layout == Layout::Batch => {
                let position = self.partition(|e| e.base <= offset)?;
                if position >= self.positions().1 {
                    return Ok(None);
                }
                position
            }
            None => return Ok(None),
        };
        let byte = position * self.unit();
        let file = self.files.map(byte)?;
        Ok(file.map(|s| (s.clone(), (byte - s.base()) as usize, position)))
    }

    /// The first place of a queue without batches whose record stands at a physical offset or behind it.
    pub fn first_at(&self, phys: u64) -> Result<i64> {
        let position = self.partition(|e| (e.cq.phys as u64) < phys)?;
        Ok(self.min_offset().max(position as i64))
    }

    /// First position that is behind all entries that are `below`, which all stand before the
    /// others. Blanks and damaged entries say nothing: those before it belong to the entry behind them.
    /// Maps nothing.
    fn partition(&self, below: impl FnMut(&Entry) -> bool) -> Result<u64> {
        let (first, end) = self.positions();
        self.partition_where(first..end, |cq| cq.is_valid() && !cq.is_blank(), below)
    }

    /// The same of a part of the positions, where only entries that are `telling` are asked.
    fn partition_where(
        &self,
        part: Range<u64>,
        telling: fn(&CqEntry) -> bool,
        mut below: impl FnMut(&Entry) -> bool,
    ) -> Result<u64> {
        let (mut low, mut high) = (part.start, part.end);
        let mut reader = self.files.reader();
        while low < high {
            let mid = low + (high - low) / 2;
            match self.next_where(&mut reader, telling, mid, high)? {
                Some((position, entry)) if below(&entry) => low = position + 1,
                _ => high = mid,
            }
        }
        Ok(low)
    }

    /// The first entry from `from` to before `to` that is neither a blank nor damaged, and its position.
    fn next_entry(&self, from: u64, to: u64) -> Result<Option<(u64, Entry)>> {
        let mut reader = self.files.reader();
        self.next_where(&mut reader, |cq| cq.is_valid() && !cq.is_blank(), from, to)
    }

    fn next_where(
        &self,
        reader: &mut Reader<'_>,
        telling: fn(&CqEntry) -> bool,
        from: u64,
        to: u64,
    ) -> Result<Option<(u64, Entry)>> {
        let unit = self.layout.unit();
        let per_file = (self.files.file_size() / unit) as u64;
        let mut buffer = vec![0; unit];
        let mut position = from;
        while position < to {
            let left = (to - position).min(per_file - position % per_file) as usize * unit;
            let n = left.min(buffer.len());
            reader.read(position * self.unit(), &mut buffer[..n])?;
            for slot in buffer[..n].chunks_exact(unit) {
                let entry = self.layout.read(slot, position);
                if telling(&entry.cq) {
                    return Ok(Some((position, entry)));
                }
                position += 1;
            }
            buffer.resize(SCAN / unit * unit, 0); // a run of blanks: by larger steps from here
        }
        Ok(None)
    }

    /// First queue offset of the file behind the one that holds `offset`; 0 in a batch queue.
    pub fn next_file_offset(&self, offset: i64) -> i64 {
        if self.layout == Layout::Batch {
            return 0;
        }
        let per_file = (self.files.file_size() / self.layout.unit()) as i64;
        (offset / per_file + 1).saturating_mul(per_file)
    }

    /// Makes sure that `more` entries behind what is staged have their places, so that appending
    /// them cannot fail. Only the holder of the put lock (or recovery, which runs alone) calls this.
    pub fn ready(&self, more: usize) -> Result<Places> {
        let staged = self.staged.load(Ordering::Relaxed);
        let mut byte = self.files.end() + staged as u64 * self.unit();
        let end = byte + more.max(1) as u64 * self.unit();
        let (mut first, mut more_files) = (None, Vec::new());
        while byte < end {
            let segment = match self.files.map(byte)? {
                Some(s) => s,
                None => self.add_file(byte)?,
            };
            let to = (end.min(segment.end()) - segment.base()) as usize;
            // Small queues reserve little, growing ones reserve seldom.
            let chunk = to.next_power_of_two().clamp(PAGE, CHUNK);
            segment.ready(to, chunk)?;
            byte = segment.end();
            match first {
                None => first = Some(segment),
                Some(_) => more_files.push(segment),
            }
        }
        more_files.reverse();
        if let Some(ext) = self.ext().filter(|ext| ext.is_writing()) {
            ext.ready(staged + more.max(1))?;
        }
        Ok(Places {
            segment: first.expect("at least one entry was asked for"),
            more_files,
        })
    }

    /// Queue offset of the next message. Only the holder of the put lock asks: what is staged counts.
    #[inline]
    pub fn next_offset(&self) -> i64 {
        match self.staged.load(Ordering::Relaxed) {
            0 => self.max.load(Ordering::Relaxed),
            _ => self.staged_next.load(Ordering::Relaxed),
        }
    }

    /// Notes that an entry is staged, behind which this queue offset follows. The holder of the put
    /// lock has its place, from `ready`.
    #[inline]
    pub fn stage(&self, next: i64) {
        let staged = self.staged.load(Ordering::Relaxed);
        self.staged.store(staged + 1, Ordering::Relaxed);
        self.staged_next.store(next, Ordering::Relaxed);
    }

    /// Appends the first of the staged entries. `bitmap` is for its extension.
    #[inline]
    pub fn append_staged(&self, places: &mut Places, entry: &Entry, bitmap: &[u8]) -> Result<()> {
        let staged = self.staged.load(Ordering::Relaxed);
        self.staged.store(staged - 1, Ordering::Relaxed);
        self.write(places, entry, bitmap)
    }

    /// Writes an entry behind the last one; its `base` is `next_offset`.
    #[inline]
    pub(super) fn write(&self, places: &mut Places, entry: &Entry, bitmap: &[u8]) -> Result<()> {
        let unit = self.layout.unit();
        let byte = self.files.end();
        if byte >= places.segment.end() {
            places.segment = match places.more_files.pop() {
                Some(next) => next,
                None => self.ready(1)?.segment,
            };
        }
        let at = (byte - places.segment.base()) as usize;
        // SAFETY: `ready` is for the holder of the put lock only (or recovery, which runs alone),
        // and the slice is gone before `publish`.
        let slot = unsafe { places.segment.tail(at, unit, CHUNK) }?;
        match self.ext().filter(|ext| ext.is_writing()) {
            None => self.layout.write(entry, slot),
            Some(ext) => {
                let mut moved = *entry;
                let unit = Unit {
                    tags_code: entry.cq.tags_code,
                    store_time: entry.store_time,
                    bitmap,
                };
                match ext.add(&unit) {
                    Ok(address) => moved.cq.tags_code = address,
                    // The record is stored: its entry does without a unit.
                    Err(e) => log::error!(
                        topic:% = self.topic_name(), queue = self.queue_id, path:% = e.path().display();
                        "no extension unit was added: {e}"
                    ),
                }
                self.layout.write(&moved, slot);
            }
        }
        places.segment.publish(at + unit);
        self.set_bounds(byte + unit as u64, entry);
        Ok(())
    }

    fn add_file(&self, byte: u64) -> Result<Arc<Segment>> {
        let base = byte - byte % self.files.file_size() as u64;
        let late_start = self.files.first().is_none() && byte > base;
        let segment = self.files.add(base, |segment| {
            if !late_start {
                return Ok(());
            }
            // The queue starts inside of a file: the slots before are filled with blanks.
            let len = (byte - base) as usize;
            // SAFETY: only the writer comes here, and the file is not shared yet.
            let blank = unsafe { segment.tail(0, len, CHUNK) }?;
            for slot in blank.chunks_exact_mut(self.layout.unit()) {
                CqEntry::PRE_BLANK.write(slot);
            }
            segment.publish(len);
            Ok(())
        })?;
        if late_start {
            let min = (byte / self.unit()) as i64;
            self.min.store(min, Ordering::Release);
        }
        Ok(segment)
    }

    fn set_bounds(&self, end: u64, last: &Entry) {
        self.files.set_end(end);
        self.max_phys.store(last.cq.end(), Ordering::Release);
        self.max.store(last.next(), Ordering::Release);
    }

    /// Bytes of entries that are not known to be on disk.
    pub fn unflushed(&self) -> u64 {
        let flushed = self.flushed.load(Ordering::Acquire);
        self.files.end().saturating_sub(flushed)
    }

    /// Everything up to `end` is on disk, extension included: the file system was flushed.
    pub fn set_flushed(&self, end: u64) {
        self.flushed.fetch_max(end, Ordering::AcqRel);
    }

    /// Writes what is new since the last call to the disk.
    pub fn flush(&self) -> Result<()> {
        let to = self.files.end();
        let from = self.flushed.load(Ordering::Acquire);
        if from < to {
            if let Some(ext) = self.ext() {
                ext.flush()?; // first: an entry on disk refers to a unit that is there
            }
            self.files.sync(from, to)?;
            self.flushed.store(to, Ordering::Release);
        }
        Ok(())
    }
}

/// The files that the next entries of a queue go to. They are kept mapped until then.
pub struct Places {
    segment: Arc<Segment>,
    /// The files behind it, last first.
    more_files: Vec<Arc<Segment>>,
}

#[path = "queue_recovery.rs"]
mod recovery;

#[path = "queue_sizes.rs"]
pub mod sizes;

#[path = "queue_upkeep.rs"]
mod upkeep;

#[cfg(test)]
#[path = "consume_queue_tests.rs"]
mod tests;
