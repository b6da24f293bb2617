//! The file set of one queue; files are mapped when they are touched.
//!
//! `end` is the byte behind the last entry, counted from the queue's first byte ever. A file that
//! is not mapped costs a few words. There is never more than one mapping of a file at a time: a
//! mapping that was given up is found again as long as somebody uses it.

use super::error::{Result, StoreError};
use super::file_set::list_file_set;
use super::guard::{make_dirs, remove_if_there, sync_dir};
use super::maps::{Maps, QueueMappings};
use super::segment::{self, Segment};
use parking_lot::Mutex;
use pyrmq_format::names::file_name;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Weak};

/// What is behind the end is read in blocks of this size, larger ones where there is much of it.
const NEAR: usize = 4 << 10;
const AT_ONCE: usize = 64 << 10;

pub struct QueueFiles {
    /// Folder of the topic; the queue's own is its id below it.
    topic_dir: Arc<Path>,
    queue_id: u32,
    file_size: usize,
    end: AtomicU64,
    set: Mutex<FileSet>,
    /// A file was added, and perhaps folders, whose names may not be on disk.
    has_new_names: AtomicBool,
    maps: Arc<Maps>,
}

struct FileSet {
    /// Start of the first file.
    base: u64,
    files: VecDeque<Mapping>,
}

#[derive(Default)]
struct Mapping {
    kept: Option<Arc<Segment>>,
    last: Weak<Segment>,
    /// Touched since the clock hand passed last.
    used: bool,
}

impl Mapping {
    fn of(segment: &Arc<Segment>) -> Self {
        Mapping {
            kept: Some(segment.clone()),
            last: Arc::downgrade(segment),
            used: true,
        }
    }
}

impl FileSet {
    fn index(&self, byte: u64, file_size: usize) -> Option<usize> {
        let index = byte.checked_sub(self.base)? / file_size as u64;
        (index < self.files.len() as u64).then_some(index as usize)
    }
}

impl QueueFiles {
    /// Lists the files, without opening them; `end` is the end of the last one. No folder: none.
    pub fn open(
        topic_dir: Arc<Path>,
        queue_id: u32,
        file_size: usize,
        maps: Arc<Maps>,
    ) -> Result<Arc<Self>> {
        let dir = topic_dir.join(queue_id.to_string());
        let bases = match list_file_set(&dir, file_size) {
            Ok(bases) => bases,
            Err(StoreError::Io { errno, .. }) if errno == libc::ENOENT => Vec::new(),
            Err(e) => return Err(e),
        };
        let end = bases.last().map_or(0, |b| b + file_size as u64);
        Ok(Arc::new(QueueFiles {
            topic_dir,
            queue_id,
            file_size,
            end: AtomicU64::new(end),
            set: Mutex::new(FileSet {
                base: bases.first().copied().unwrap_or(0),
                files: bases.iter().map(|_| Mapping::default()).collect(),
            }),
            has_new_names: AtomicBool::new(false),
            maps,
        }))
    }

    /// The topic of the queue, as its folder is named.
    pub fn topic_name(&self) -> Cow<'_, str> {
        let name = self.topic_dir.file_name().unwrap_or_default();
        name.to_string_lossy()
    }

    pub fn dir(&self) -> PathBuf {
        self.topic_dir.join(self.queue_id.to_string())
    }

    fn path(&self, base: u64) -> PathBuf {
        self.dir().join(file_name(base))
    }

    pub fn file_size(&self) -> usize {
        self.file_size
    }

    pub fn len(&self) -> usize {
        self.set.lock().files.len()
    }

    /// Start of the first file, None if there is none.
    pub fn first(&self) -> Option<u64> {
        let set = self.set.lock();
        (!set.files.is_empty()).then_some(set.base)
    }

    /// End of the last file, 0 if there is none.
    pub fn files_end(&self) -> u64 {
        let set = self.set.lock();
        set.base + set.files.len() as u64 * self.file_size as u64
    }

    /// Byte behind the last entry.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    #[inline]
    pub fn set_end(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }

    fn file_start(&self, byte: u64) -> u64 {
        byte - byte % self.file_size as u64
    }

    /// The file of `byte`, mapped; None if there is no such file.
    pub fn map(self: &Arc<Self>, byte: u64) -> Result<Option<Arc<Segment>>> {
        self.with_mappings(|| self.try_map(byte))
    }

    /// Does what maps a file; does it again after giving up other mappings if the kernel has no more.
    #[inline]
    fn with_mappings<T>(&self, work: impl Fn() -> Result<T>) -> Result<T> {
        match work() {
            Err(StoreError::Io { errno, .. }) if errno == libc::ENOMEM => {
                self.maps.relieve();
                work()
            }
            done => done,
        }
    }

    fn try_map(self: &Arc<Self>, byte: u64) -> Result<Option<Arc<Segment>>> {
        let base = self.file_start(byte);
        let segment = {
            let mut set = self.set.lock();
            let Some(index) = set.index(byte, self.file_size) else {
                return Ok(None);
            };
            let mapping = &mut set.files[index];
            mapping.used = true;
            if let Some(segment) = &mapping.kept {
                return Ok(Some(segment.clone()));
            }
            let segment = match mapping.last.upgrade() {
                Some(in_use) => in_use,
                None => {
                    // Read under the lock: whoever wrote more has given up the old mapping
                    // after that, and would be found above otherwise. The fence pairs with that
                    // drop, as an upgrade that fails orders nothing.
                    fence(Ordering::Acquire);
                    let written = self.end().saturating_sub(base).min(self.file_size as u64);
                    let path = self.path(base);
                    let segment = Segment::open(path, base, self.file_size, written as usize)?;
                    segment.expect_random();
                    Arc::new(segment)
                }
            };
            *mapping = Mapping::of(&segment);
            segment
        };
        self.note_mapped(base);
        Ok(Some(segment))
    }

    fn note_mapped(self: &Arc<Self>, base: u64) {
        let files = Arc::downgrade(self);
        self.maps.note(files, base);
    }

    /// Appends the file that starts at `base` to the set (or begins the set with it).
    /// `prepare` sees it before anyone else.
    pub fn add(
        self: &Arc<Self>,
        base: u64,
        prepare: impl FnOnce(&Segment) -> Result<()>,
    ) -> Result<Arc<Segment>> {
        make_dirs(&self.dir())?;
        let create = || Segment::create(self.path(base), base, self.file_size);
        let segment = self.with_mappings(create)?;
        segment.expect_random();
        if let Err(e) = prepare(&segment) {
            let _ = std::fs::remove_file(segment.path());
            return Err(e);
        }
        let segment = Arc::new(segment);
        {
            let mut set = self.set.lock();
            if set.files.is_empty() {
                set.base = base;
            }
            set.files.push_back(Mapping::of(&segment));
        }
        self.has_new_names.store(true, Ordering::Release);
        self.note_mapped(base);
        Ok(segment)
    }

    /// Ends the queue at `end`: later files are deleted, the rest of its file is zeroed. Only
    /// recovery calls this, before anyone reads.
    pub fn cut(&self, end: u64) -> Result<()> {
        let mut set = self.set.lock();
        let mut removed = false;
        while let Some(index) = set.files.len().checked_sub(1) {
            let base = set.base + index as u64 * self.file_size as u64;
            if base < end {
                set.files[index] = Mapping::default();
                let at = (end - base).min(self.file_size as u64) as usize;
                segment::zero_behind(&self.path(base), at, self.file_size)?;
                break;
            }
            let path = self.path(base);
            std::fs::remove_file(&path).map_err(|e| StoreError::io("remove", &path, &e))?;
            set.files.pop_back();
            removed = true;
        }
        if removed {
            sync_dir(&self.dir())?;
        }
        self.set_end(end);
        Ok(())
    }

    /// Makes what `cut` has erased of the last file durable; names are already.
    pub fn sync_last(&self) -> Result<()> {
        if self.first().is_none() {
            return Ok(());
        }
        let path = self.path(self.files_end() - self.file_size as u64);
        OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|file| file.sync_all())
            .map_err(|e| StoreError::io("flush", &path, &e))
    }

    /// Sets the end back without touching the files, whose entries may turn out to be right. Only
    /// recovery calls this.
    pub fn rewind(&self, end: u64) {
        for mapping in &mut self.set.lock().files {
            *mapping = Mapping::default(); // its readable part is another one now
        }
        self.set_end(end);
    }

    /// Deletes the leading files that end at or before `byte`, never the last one. Returns how
    /// many. Mappings in use stay valid.
    pub fn drop_before(&self, byte: u64) -> Result<usize> {
        let mut removed = 0;
        loop {
            let mut set = self.set.lock();
            if set.files.len() < 2 || set.base + self.file_size as u64 > byte {
                break;
            }
            remove_if_there(&self.path(set.base))?;
            set.files.pop_front();
            set.base += self.file_size as u64;
            removed += 1;
        }
        if removed > 0 {
            sync_dir(&self.dir())?;
        }
        Ok(removed)
    }

    /// The names of files that were found may not be on disk: after a kill.
    pub fn distrust_names(&self) {
        self.has_new_names.store(true, Ordering::Release);
    }

    /// Makes the names of files that were added durable: in the queue's folder, the topic's and the
    /// one of all topics.
    fn sync_names(&self) -> Result<()> {
        if !self.has_new_names.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let synced = self.dir().ancestors().take(3).try_for_each(sync_dir);
        if synced.is_err() {
            self.has_new_names.store(true, Ordering::Release);
        }
        synced
    }

    /// Writes `[from, to)` to the disk, as far as it was not deleted, and waits for it.
    pub fn sync(&self, from: u64, to: u64) -> Result<()> {
        self.sync_names()?;
        let from = from.max(self.first().unwrap_or(0));
        let mut base = self.file_start(from);
        while base < to {
            let mapped = {
                let set = self.set.lock();
                let index = set.index(base, self.file_size);
                index.map(|i| set.files[i].last.upgrade())
            };
            match mapped {
                Some(Some(segment)) => {
                    let start = from.saturating_sub(base) as usize;
                    segment.flush(start, (to - base).min(self.file_size as u64) as usize)?;
                }
                Some(None) => {
                    let path = self.path(base);
                    let done = OpenOptions::new()
                        .write(true)
                        .open(&path)
                        .and_then(|f| f.sync_data());
                    let gone = || self.set.lock().index(base, self.file_size).is_none();
                    match done {
                        // Retention took it between the check and the opening.
                        Err(e) if e.kind() == std::io::ErrorKind::NotFound && gone() => {}
                        done => done.map_err(|e| StoreError::io("flush", &path, &e))?,
                    }
                }
                None => {} // deleted meanwhile
            }
            base += self.file_size as u64;
        }
        Ok(())
    }

    /// Whether there is anything but zeros from `byte` on, in its file or a later one.
    pub fn has_data_behind(&self, byte: u64) -> Result<bool> {
        let mut found = false;
        self.look_behind(byte, 1, |_, bytes| {
            found = bytes.iter().any(|&b| b != 0);
            !found
        })?;
        Ok(found)
    }

    /// Shows the content of the files from `byte` on, a start of a slot of `unit` bytes, in whole slots
    /// and as long as `look` returns true. Holes are left out.
    pub fn look_behind(
        &self,
        byte: u64,
        unit: usize,
        mut look: impl FnMut(u64, &[u8]) -> bool,
    ) -> Result<()> {
        let mut buffer = vec![0; NEAR / unit * unit];
        let mut from = byte.max(self.first().unwrap_or(0));
        while from < self.files_end() {
            if !self.look_in_file(from, unit, &mut buffer, &mut look)? {
                break;
            }
            from = self.file_start(from) + self.file_size as u64;
        }
        Ok(())
    }

    fn look_in_file(
        &self,
        byte: u64,
        unit: usize,
        buffer: &mut Vec<u8>,
        look: &mut impl FnMut(u64, &[u8]) -> bool,
    ) -> Result<bool> {
        let size = self.file_size as u64;
        let base = self.file_start(byte);
        let path = self.path(base);
        let io = |e: std::io::Error| StoreError::io("read", &path, &e);
        let file = File::open(&path).map_err(io)?;
        let mut at = byte - base;
        while at < size {
            let n = buffer.len().min((size - at) as usize);
            file.read_exact_at(&mut buffer[..n], at).map_err(io)?;
            if !look(base + at, &buffer[..n]) {
                return Ok(false);
            }
            at += n as u64;
            // The rest is mostly a hole, which need not be read.
            let data = segment::next_data(&file, at, size).map_err(io)?;
            if data == at {
                buffer.resize(AT_ONCE / unit * unit, 0);
            }
            at = data - data % unit as u64;
        }
        Ok(true)
    }

    /// The first place of `from..to`, which lies in one file, that was never written, as far as the
    /// file system tells.
    pub fn hole_in(&self, from: u64, to: u64) -> Result<Option<u64>> {
        let base = self.file_start(from);
        let path = self.path(base);
        let hole = File::open(&path)
            .and_then(|file| segment::next_hole(&file, from - base, to - base))
            .map_err(|e| StoreError::io("read", &path, &e))?;
        Ok((base + hole < to).then_some(base + hole))
    }

    /// Reads without mapping; for searches over many queues.
    pub fn reader(&self) -> Reader<'_> {
        Reader {
            files: self,
            open: None,
        }
    }
}

impl QueueMappings for QueueFiles {
    fn unmap(&self, base: u64, force: bool) -> bool {
        let mut set = self.set.lock();
        let Some(index) = set.index(base, self.file_size) else {
            return true;
        };
        let mapping = &mut set.files[index];
        if mapping.used && mapping.kept.is_some() && !force {
            mapping.used = false;
            return false;
        }
        mapping.kept = None;
        true
    }

    fn is_mapped(&self, base: u64) -> bool {
        let set = self.set.lock();
        let index = set.index(base, self.file_size);
        index.is_some_and(|index| set.files[index].kept.is_some())
    }
}

/// Reads single entries; keeps the file that it used last open.
pub struct Reader<'q> {
    files: &'q QueueFiles,
    open: Option<(u64, File)>,
}

impl Reader<'_> {
    /// Fills `out` from `byte` on, all of it in one file.
    pub fn read(&mut self, byte: u64, out: &mut [u8]) -> Result<()> {
        let base = self.files.file_start(byte);
        let path = || self.files.path(base);
        let file = match &self.open {
            Some((at, file)) if *at == base => file,
            _ => {
                let file = File::open(path()).map_err(|e| StoreError::io("open", path(), &e))?;
                &self.open.insert((base, file)).1
            }
        };
        file.read_exact_at(out, byte - base)
            .map_err(|e| StoreError::io("read", path(), &e))
    }
}
