//! One queue of a topic: 20-byte entries, found by queue offset.

use super::commit_log::{open_row, remove};
use super::error::Result;
use super::guard::{create_dirs, sync_dir};
use super::segment::Segment;
use crate::format::cq_entry::{CqEntry, SIZE};
use crate::format::names::file_name;
use arc_swap::{ArcSwap, Guard};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Space of a queue file is reserved in steps of this many bytes.
const CHUNK: usize = 32 << 10;

pub struct ConsumeQueue {
    queue_id: u32,
    dir: PathBuf,
    file_size: usize,
    segments: ArcSwap<Vec<Arc<Segment>>>,
    /// First valid queue offset, and the one behind the last.
    min: AtomicI64,
    max: AtomicI64,
    /// Physical offset behind the last record that has an entry here.
    max_phys: AtomicI64,
    /// Bytes of entries (counted from offset 0) that are known to be on disk.
    flushed: AtomicU64,
    /// Somebody asked to be told of the next entry.
    waiting: AtomicBool,
}

impl ConsumeQueue {
    /// Opens the queue in `dir`, creating the folder on its first entry only.
    pub fn open(dir: PathBuf, queue_id: u32, file_size: usize) -> Result<Self> {
        let row = if dir.is_dir() {
            open_row(&dir, file_size)?
        } else {
            Vec::new()
        };
        let max = row.last().map_or(0, |s| s.end() as i64 / SIZE as i64);
        let min = row.first().map_or(0, |s| s.base() as i64 / SIZE as i64);
        Ok(ConsumeQueue {
            queue_id,
            dir,
            file_size,
            segments: ArcSwap::from_pointee(row),
            min: AtomicI64::new(min),
            max: AtomicI64::new(max),
            max_phys: AtomicI64::new(-1),
            flushed: AtomicU64::new(0),
            waiting: AtomicBool::new(false),
        })
    }

    pub fn queue_id(&self) -> u32 {
        self.queue_id
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

    pub fn set_waiting(&self, on: bool) {
        self.waiting.swap(on, Ordering::SeqCst);
    }

    /// Whether somebody waits; asking clears it.
    #[inline]
    pub fn take_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) && self.waiting.swap(false, Ordering::AcqRel)
    }

    /// The entry at a queue offset below `max_offset`.
    pub fn entry(&self, offset: i64) -> Option<CqEntry> {
        let segments = self.segments.load();
        let (segment, at) = find(&segments, offset)?;
        segment.bytes(at, SIZE).map(CqEntry::read)
    }

    /// All entries from `offset` to the end of the file that holds it.
    pub fn file_from(&self, offset: i64) -> Option<(Arc<Segment>, usize)> {
        let segments = self.segments.load();
        find(&segments, offset).map(|(s, at)| (s.clone(), at))
    }

    /// First queue offset of the file behind the one that holds `offset`.
    pub fn next_file_offset(&self, offset: i64) -> i64 {
        let per_file = (self.file_size / SIZE) as i64;
        (offset / per_file + 1) * per_file
    }

    /// Makes sure that the next `more` entries have their places, so that appending them cannot
    /// fail. Only the holder of the put lock (or recovery, which runs alone) calls this.
    pub fn ready(&self, more: usize) -> Result<QueueWriter<'_>> {
        let mut byte = self.max_offset() as u64 * SIZE as u64;
        let end = byte + (more.max(1) * SIZE) as u64;
        let mut first = None;
        while byte < end {
            let segment = match self.file_at(byte) {
                Some(s) => s,
                None => self.add_file(&self.segments.load(), byte)?,
            };
            let to = (end.min(segment.end()) - segment.base()) as usize;
            if to > segment.reserved() {
                segment.reserve(to, CHUNK)?;
            }
            byte = segment.end();
            first.get_or_insert(segment);
        }
        Ok(QueueWriter {
            queue: self,
            segment: first.expect("at least one entry was asked for"),
        })
    }

    fn file_at(&self, byte: u64) -> Option<Arc<Segment>> {
        let row = self.segments.load();
        row.iter()
            .rev()
            .find(|s| s.base() <= byte && byte < s.end())
            .cloned()
    }

    fn add_file(&self, row: &[Arc<Segment>], byte: u64) -> Result<Arc<Segment>> {
        create_dirs(&self.dir)?;
        let base = byte - byte % self.file_size as u64;
        let path = self.dir.join(file_name(base));
        let segment = Segment::create(path, base, self.file_size)?;
        if row.is_empty() && byte > base {
            // The queue starts inside of a file: the slots before are filled with blanks.
            let len = (byte - base) as usize;
            // SAFETY: only the writer comes here, and the file is not shared yet.
            let blank = unsafe { segment.tail(0, len, CHUNK) }?;
            for slot in blank.chunks_exact_mut(SIZE) {
                CqEntry::PRE_BLANK.write(slot);
            }
            segment.publish(len);
            self.min
                .store((byte / SIZE as u64) as i64, Ordering::Release);
        }
        let segment = Arc::new(segment);
        let mut row = row.to_vec();
        row.push(segment.clone());
        self.segments.store(Arc::new(row));
        Ok(segment)
    }

    /// Appends one entry and returns its queue offset (recovery, tests).
    pub fn append(&self, entry: CqEntry) -> Result<i64> {
        self.ready(1)?.append(entry)
    }

    /// Starts a queue without records at `offset` (a log whose older files are gone).
    pub fn start_at(&self, offset: i64) -> Result<()> {
        self.cut(0)?;
        self.min.store(offset, Ordering::Release);
        self.max.store(offset, Ordering::Release);
        Ok(())
    }

    /// Whether the slots before the first record were filled with blanks.
    pub fn starts_blank(&self) -> bool {
        let row = self.segments.load();
        let first = row
            .first()
            .and_then(|s| s.bytes(0, SIZE))
            .map(CqEntry::read);
        first == Some(CqEntry::PRE_BLANK)
    }

    /// Finds the end of the valid entries, from the third-last file on, and cuts there.
    pub fn recover(&self) -> Result<()> {
        let row = self.segments.load_full();
        let first = row.len().saturating_sub(3);
        let mut end = row.get(first).map_or(0, |s| s.base());
        let mut last: Option<CqEntry> = None;
        'files: for segment in &row[first..] {
            for slot in segment.readable_from(0).chunks_exact(SIZE) {
                let entry = CqEntry::read(slot);
                if !entry.is_valid() {
                    break 'files;
                }
                end += SIZE as u64;
                last = Some(entry);
            }
            if end < segment.end() {
                break; // the rest of the file is a hole
            }
        }
        let blank = |e: &CqEntry| *e == CqEntry::PRE_BLANK;
        self.max_phys.store(
            last.filter(|e| !blank(e)).map_or(-1, |e| e.end()),
            Ordering::Release,
        );
        self.cut(end)
    }

    /// Drops entries of records at or behind `phys`.
    pub fn truncate_phys(&self, phys: u64) -> Result<()> {
        let min = self
            .segments
            .load()
            .first()
            .map_or(0, |s| s.base() as i64 / SIZE as i64);
        let (mut low, mut high) = (min, self.max_offset());
        while low < high {
            let mid = low + (high - low) / 2;
            if self
                .entry(mid)
                .is_some_and(|e| e.end() <= phys as i64 || e == CqEntry::PRE_BLANK)
            {
                low = mid + 1;
            } else {
                high = mid;
            }
        }
        let last = if low > min { self.entry(low - 1) } else { None };
        self.max_phys.store(
            last.filter(|e| *e != CqEntry::PRE_BLANK)
                .map_or(-1, |e| e.end()),
            Ordering::Release,
        );
        self.cut(low as u64 * SIZE as u64)
    }

    fn cut(&self, end: u64) -> Result<()> {
        let mut keep = Vec::new();
        let mut removed = false;
        for segment in self.segments.load().iter() {
            if segment.base() >= end {
                remove(segment)?;
                removed = true;
                continue;
            }
            if end < segment.end() {
                segment.truncate((end - segment.base()) as usize)?;
            } else {
                segment.publish(segment.size());
            }
            keep.push(segment.clone());
        }
        if removed {
            sync_dir(&self.dir)?;
        }
        self.segments.store(Arc::new(keep));
        self.max
            .store((end / SIZE as u64) as i64, Ordering::Release);
        self.flushed.store(0, Ordering::Release);
        Ok(())
    }

    /// Moves `min_offset` to the first entry of a record that the log still has.
    pub fn correct_min(&self, log_min: u64) {
        let first = self
            .segments
            .load()
            .first()
            .map_or(0, |s| s.base() as i64 / SIZE as i64);
        let (mut low, mut high) = (first, self.max_offset());
        while low < high {
            let mid = low + (high - low) / 2;
            match self.entry(mid) {
                Some(e) if e != CqEntry::PRE_BLANK && e.phys >= log_min as i64 => high = mid,
                _ => low = mid + 1,
            }
        }
        self.min.store(low, Ordering::Release);
    }

    /// Writes what is new since the last call to the disk.
    pub fn flush(&self) -> Result<()> {
        let to = self.max_offset() as u64 * SIZE as u64;
        let from = self.flushed.load(Ordering::Acquire);
        if from >= to {
            return Ok(());
        }
        for s in self
            .segments
            .load()
            .iter()
            .filter(|s| s.end() > from && s.base() < to)
        {
            let start = from.saturating_sub(s.base()) as usize;
            s.flush(start, (to - s.base()).min(s.size() as u64) as usize)?;
        }
        self.flushed.store(to, Ordering::Release);
        Ok(())
    }

    pub fn segments(&self) -> Guard<Arc<Vec<Arc<Segment>>>> {
        self.segments.load()
    }
}

/// The right to append entries to one queue, with the file at hand.
pub struct QueueWriter<'q> {
    queue: &'q ConsumeQueue,
    segment: Arc<Segment>,
}

impl QueueWriter<'_> {
    /// Queue offset of the next entry.
    #[inline]
    pub fn next_offset(&self) -> i64 {
        self.queue.max.load(Ordering::Relaxed)
    }

    /// Appends the entry of the next queue offset and returns that offset.
    #[inline]
    pub fn append(&mut self, entry: CqEntry) -> Result<i64> {
        let queue = self.queue;
        let offset = self.next_offset();
        let byte = offset as u64 * SIZE as u64;
        if byte >= self.segment.end() {
            self.segment = match queue.file_at(byte) {
                Some(next) => next,
                None => queue.ready(1)?.segment,
            };
        }
        let at = (byte - self.segment.base()) as usize;
        // SAFETY: `ready` is for the holder of the put lock only (or recovery, which runs alone),
        // and the slice is gone before `publish`.
        let slot = unsafe { self.segment.tail(at, SIZE, CHUNK) }?;
        entry.write(slot);
        self.segment.publish(at + SIZE);
        queue.max_phys.store(entry.end(), Ordering::Release);
        queue.max.store(offset + 1, Ordering::Release);
        Ok(offset)
    }
}

fn find(row: &[Arc<Segment>], offset: i64) -> Option<(&Arc<Segment>, usize)> {
    let byte = u64::try_from(offset).ok()?.checked_mul(SIZE as u64)?;
    let first = row.first()?;
    let index = byte.checked_sub(first.base())? / first.size() as u64;
    let segment = row.get(index as usize)?;
    Some((segment, (byte - segment.base()) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: i64) -> CqEntry {
        CqEntry {
            phys: n * 100,
            size: 100,
            tags_code: n,
        }
    }

    #[test]
    fn append_roll_reopen_truncate() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("T/0");
        let q = ConsumeQueue::open(path.clone(), 0, 10 * SIZE).unwrap();
        for n in 0..25 {
            assert_eq!(q.append(entry(n)).unwrap(), n);
        }
        assert_eq!(q.segments().len(), 3);
        assert_eq!(q.entry(17), Some(entry(17)));
        assert_eq!(q.entry(25), None);
        q.flush().unwrap();
        drop(q);
        let q = ConsumeQueue::open(path, 0, 10 * SIZE).unwrap();
        q.recover().unwrap();
        assert_eq!((q.max_offset(), q.max_phys()), (25, 2500));
        q.truncate_phys(950).unwrap();
        assert_eq!((q.max_offset(), q.max_phys()), (9, 900));
        assert_eq!(q.append(entry(9)).unwrap(), 9);
        assert_eq!(q.append(entry(10)).unwrap(), 10);
        q.correct_min(450);
        assert_eq!(q.min_offset(), 5);
        q.correct_min(5000);
        assert_eq!(q.min_offset(), 11);
    }

    #[test]
    fn a_queue_that_starts_late_has_blanks_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("T/0");
        let q = ConsumeQueue::open(path.clone(), 0, 10 * SIZE).unwrap();
        q.start_at(13).unwrap();
        assert_eq!(q.append(entry(13)).unwrap(), 13);
        assert_eq!(q.segments()[0].base(), 200);
        assert_eq!(q.entry(12), Some(CqEntry::PRE_BLANK));
        drop(q);
        let q = ConsumeQueue::open(path, 0, 10 * SIZE).unwrap();
        q.recover().unwrap();
        q.correct_min(0);
        assert_eq!((q.min_offset(), q.max_offset()), (13, 14));
    }
}
