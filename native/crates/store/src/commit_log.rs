//! The commit log: a file set of records, readable up to `max_offset`.

use super::config::StoreConfig;
use super::error::Result;
use super::file_set::check_file_set;
use super::guard::{remove_if_there, sync_dir};
use super::log_dirs::LogDirs;

use super::segment::{PAGE, Segment};
use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use pyrmq_format::names::file_name;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Space is reserved in steps of this many bytes (less for small files).
const CHUNK: usize = 16 << 20;

pub struct CommitLog {
    dirs: LogDirs,
    file_size: usize,
    segments: ArcSwap<Vec<Arc<Segment>>>,
    /// Locked while the set changes: the writer adds at its end, retention removes at its start.
    changing: Mutex<()>,
    /// The file that follows the last one, made ready in advance.
    next: Mutex<Option<Arc<Segment>>>,
    max: AtomicU64,
    /// Where the first file goes while there is none.
    begin: AtomicU64,
    newest_timestamp: AtomicI64,
    /// Files below were given up by `give_up_cache`.
    given_up: AtomicU64,
    /// Deleted files that may still be mapped.
    removed: Mutex<Vec<Weak<Segment>>>,
}

impl CommitLog {
    /// Opens every file of the folders; each counts as full until recovery says otherwise.
    pub fn open(cfg: &StoreConfig) -> Result<Self> {
        let dirs = LogDirs::open(cfg)?;
        let file_size = cfg.commit_log_file_size as usize;
        let mut segments = Vec::new();
        for (base, path) in check_file_set(dirs.list()?, file_size)? {
            segments.push(Arc::new(Segment::open_stored(path, base, file_size)?));
        }
        let max = segments.last().map_or(0, |s| s.end());
        Ok(CommitLog {
            dirs,
            file_size,
            segments: ArcSwap::from_pointee(segments),
            changing: Mutex::new(()),
            next: Mutex::new(None),
            max: AtomicU64::new(max),
            begin: AtomicU64::new(0),
            newest_timestamp: AtomicI64::new(0),
            given_up: AtomicU64::new(0),
            removed: Mutex::default(),
        })
    }

    pub fn dirs(&self) -> &LogDirs {
        &self.dirs
    }

    pub fn file_size(&self) -> usize {
        self.file_size
    }

    pub fn chunk(&self) -> usize {
        CHUNK.min((self.file_size / 8).next_multiple_of(PAGE))
    }

    pub fn segments(&self) -> Guard<Arc<Vec<Arc<Segment>>>> {
        self.segments.load()
    }

    /// Offset behind the last readable byte.
    #[inline]
    pub fn max_offset(&self) -> u64 {
        self.max.load(Ordering::Acquire)
    }

    #[inline]
    pub fn set_max_offset(&self, max: u64) {
        self.max.store(max, Ordering::Release);
    }

    /// Store timestamp of the newest record, in ms. Whoever reads it first and `max_offset` then
    /// knows that records of this time or an older one lie below that offset.
    #[inline]
    pub fn newest_timestamp(&self) -> i64 {
        self.newest_timestamp.load(Ordering::Acquire)
    }

    /// The writer calls this after `set_max_offset`.
    #[inline]
    pub fn set_newest_timestamp(&self, timestamp: i64) {
        self.newest_timestamp.store(timestamp, Ordering::Release);
    }

    pub fn min_offset(&self) -> u64 {
        self.segments().first().map_or(0, |s| s.base())
    }

    /// The file that holds `phys`, and the position in it.
    pub fn locate(&self, phys: u64) -> Option<(Arc<Segment>, usize)> {
        let segments = self.segments();
        let first = segments.first()?.base();
        let index = phys.checked_sub(first)? / self.file_size as u64;
        let segment = segments.get(index as usize)?;
        Some((segment.clone(), (phys - segment.base()) as usize))
    }

    /// Start of the file behind the one that holds `phys` (also where no file is).
    pub fn next_file_start(&self, phys: u64) -> u64 {
        let size = self.file_size as u64;
        (phys - phys % size).saturating_add(size)
    }

    /// Appends a file to the set: the prepared one, or one made now. `ready` is run on it first;
    /// when that fails the set stays as it was. Only the writer calls this.
    pub fn roll(&self, ready: impl FnOnce(&Segment) -> Result<()>) -> Result<Arc<Segment>> {
        // Locked to the end, so that the preparing thread does not make the same file again.
        let mut next = self.next.lock();
        let segment = match next.take() {
            Some(s) => s,
            None => self.create(self.files_end())?,
        };
        if let Err(e) = ready(&segment) {
            *next = Some(segment);
            return Err(e);
        }
        let _one = self.changing.lock();
        let mut segments = Vec::clone(&self.segments());
        segments.push(segment.clone());
        self.segments.store(Arc::new(segments));
        Ok(segment)
    }

    /// Deletes the first file, unless it is the last one too. Slices of it stay valid.
    pub fn remove_first(&self) -> Result<()> {
        let _one = self.changing.lock();
        let segments = self.segments.load_full();
        let [first, rest @ ..] = &segments[..] else {
            return Ok(());
        };
        if rest.is_empty() {
            return Ok(());
        }
        remove_if_there(first.path())?;
        self.removed.lock().push(Arc::downgrade(first));
        self.segments.store(Arc::new(rest.to_vec()));
        sync_parent(first)
    }

    /// How many slices of the log are exported, and how many deleted files they keep mapped.
    pub fn exported(&self) -> (usize, usize) {
        let mut removed = self.removed.lock();
        removed.retain(|s| s.strong_count() > 0);
        let kept: Vec<_> = removed.iter().filter_map(Weak::upgrade).collect();
        let kept: Vec<_> = kept
            .iter()
            .map(|s| s.exported())
            .filter(|n| *n > 0)
            .collect();
        let live: usize = self.segments().iter().map(|s| s.exported()).sum();
        (live + kept.iter().sum::<usize>(), kept.len())
    }

    /// Has the kernel give up the files that end at `before` or earlier, each once. Returns how many.
    pub fn give_up_cache(&self, before: u64) -> Result<usize> {
        let from = self.given_up.load(Ordering::Relaxed);
        let mut count = 0;
        for segment in self.segments().iter() {
            if segment.base() >= from && segment.end() <= before {
                segment.give_up_cache()?;
                self.given_up.store(segment.end(), Ordering::Relaxed);
                count += 1;
            }
        }
        Ok(count)
    }

    /// Makes the following file ready, if it is not. The preparing thread calls this.
    pub fn prepare_next(&self, reserve: usize) -> Result<()> {
        let mut next = self.next.lock();
        if next.is_none() {
            let segment = self.create(self.files_end())?;
            let reserved = segment.reserve(reserve, self.chunk());
            // Kept in any case: the writer takes it, and meets the same error if it lasts.
            *next = Some(segment);
            reserved?;
        }
        Ok(())
    }

    /// The file that was made ready in advance.
    pub fn next_file(&self) -> Option<Arc<Segment>> {
        self.next.lock().clone()
    }

    pub fn has_next(&self) -> bool {
        self.next.lock().is_some()
    }

    /// Deletes the prepared file that was never used (clean stop).
    pub fn drop_next(&self) -> Result<()> {
        match self.next.lock().take() {
            Some(s) => remove(&s),
            None => Ok(()),
        }
    }

    /// Has a log without records begin at `offset`, the start of a file: empty files go.
    pub fn begin_at(&self, offset: u64) -> Result<()> {
        let mut next = self.next.lock();
        let _one = self.changing.lock();
        let unused = next.take();
        for segment in self.segments().iter().chain(&unused) {
            remove(segment)?;
        }
        self.segments.store(Arc::default());
        self.begin.store(offset, Ordering::Release);
        self.set_max_offset(offset);
        Ok(())
    }

    fn files_end(&self) -> u64 {
        let begin = self.begin.load(Ordering::Acquire);
        self.segments().last().map_or(begin, |s| s.end())
    }

    fn create(&self, base: u64) -> Result<Arc<Segment>> {
        let dir = self.dirs.for_file(base / self.file_size as u64);
        let path = dir.join(file_name(base));
        let segment = Segment::create(path, base, self.file_size)?;
        if let Err(e) = sync_dir(dir) {
            let _ = std::fs::remove_file(segment.path());
            return Err(e);
        }
        Ok(Arc::new(segment))
    }

    /// Ends the log at `end`: later files are deleted, the file of `end` is cut there.
    ///
    /// A file that starts exactly at `end` stays, empty: its predecessor ended with a blank.
    pub fn truncate(&self, end: u64) -> Result<()> {
        let mut keep = Vec::new();
        // The newest first: a crash in between must not leave a gap in the set.
        for segment in self.segments().iter().rev() {
            if segment.base() > end {
                remove(segment)?;
            } else {
                if end < segment.end() {
                    segment.truncate((end - segment.base()) as usize)?;
                } else {
                    segment.publish(segment.size()); // full: its end may be a hole
                }
                keep.push(segment.clone());
            }
        }
        keep.reverse();
        self.segments.store(Arc::new(keep));
        self.set_max_offset(end);
        Ok(())
    }
}

fn remove(segment: &Segment) -> Result<()> {
    remove_if_there(segment.path())?;
    sync_parent(segment)
}

fn sync_parent(segment: &Segment) -> Result<()> {
    segment.path().parent().map_or(Ok(()), sync_dir)
}
