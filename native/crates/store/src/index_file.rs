//! One mapped index file: its one writer and any number of readers, without a lock.
//!
//! All access to the mapping goes through atomic words. An entry's words are written first, then
//! its slot (Release), then the header with the entry count last (Release). A reader takes the slot
//! (Acquire) before the count, so whatever a slot names is complete. What it finds is checked all
//! the same: a damaged file may give wrong offsets, but no walk leaves the file or is endless.
//!
//! Blocks are reserved before they are written, the slots when the file is created and the entries
//! in chunks, and faulted in, so that a full disk is an error of `put`. No descriptor is kept open.

use super::error::{Result, StoreError};
use super::prefetch::prefetch;
use super::resident;
use super::segment::{PAGE, fallocate, fallocate_only, populate};
use memmap2::{Advice, MmapOptions, MmapRaw};
use pyrmq_format::index::{ENTRY, Entry, HEADER, Header, SLOT, Shape, at, seconds_since};
use rustix::fs::FallocateFlags;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Space for entries is reserved in steps of this many bytes.
const CHUNK: usize = 256 << 10;

pub struct IndexFile {
    shape: Shape,
    map: MmapRaw,
    path: PathBuf,
    /// Everything below is there to be written and read; entries behind it are a hole.
    reserved: AtomicUsize,
    /// The slots, and all else that the file contained at first, can be written: a file made by Java,
    /// or a copy, may have holes anywhere.
    writable: AtomicBool,
    /// A bit for each page with slots: whether it was faulted in for writing.
    slot_pages: Box<[AtomicU64]>,
    /// The file was on disk as a whole when it was full.
    flushed_full: AtomicBool,
}

impl IndexFile {
    /// Creates a file whose predecessor ended with these values (0 if there is none). Leaves no
    /// file behind if that fails.
    pub fn create(path: PathBuf, shape: Shape, end_time: i64, end_phys: i64) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|e| StoreError::io("create", &path, &e))?;
        let fill = || {
            file.set_len(shape.file_size() as u64)?;
            fallocate(&file, FallocateFlags::empty(), 0, shape.entry_at(0))?;
            let mut header = [0; HEADER];
            Header::after(end_time, end_phys).write(&mut header);
            file.write_all_at(&header, 0)
        };
        let made = fill()
            .map_err(|e| StoreError::io("create", &path, &e))
            .and_then(|()| Self::map(&file, path.clone(), shape, shape.entry_at(0)));
        if made.is_err() {
            let _ = std::fs::remove_file(&path);
        }
        made
    }

    /// Maps an existing file. One of another size, or with a header that its own first and last
    /// entry contradict, is `StoreError::Damaged`.
    pub fn open(path: PathBuf, shape: Shape) -> Result<Self> {
        let io = |what, e: std::io::Error| StoreError::io(what, &path, &e);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|e| io("open", e))?;
        let len = file.metadata().map_err(|e| io("stat", e))?.len();
        let fault = if len == shape.file_size() as u64 {
            fault(&file, shape).map_err(|e| io("read", e))?
        } else {
            let size = shape.file_size();
            Some(format!(
                "file has {len} bytes, the configured size is {size}"
            ))
        };
        if let Some(message) = fault {
            return Err(StoreError::Damaged { path, message });
        }
        let mut count = [0; 4];
        file.read_exact_at(&mut count, at::COUNT as u64)
            .map_err(|e| io("read", e))?;
        let used = shape.entry_at(i32::from_be_bytes(count).max(1) as u32);
        // Where even reading a hole takes room (tmpfs), take it now; a full disk may still be read.
        let _ = fallocate_only(&file, FallocateFlags::empty(), 0, used);
        Self::map(&file, path, shape, used)
    }

    fn map(file: &File, path: PathBuf, shape: Shape, reserved: usize) -> Result<Self> {
        let map = MmapOptions::new()
            .len(shape.file_size())
            .map_raw(file)
            .map_err(|e| StoreError::io("map", &path, &e))?;
        let _ = map.advise(Advice::Random); // a hint: slots are met in no order
        Ok(IndexFile {
            shape,
            map,
            path,
            reserved: AtomicUsize::new(reserved),
            writable: AtomicBool::new(false),
            slot_pages: (0..shape.entry_at(0).div_ceil(PAGE).div_ceil(64))
                .map(|_| AtomicU64::new(0))
                .collect(),
            flushed_full: AtomicBool::new(false),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    #[inline]
    fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.map.len());
        // SAFETY: the place lies inside the mapping, which lives as long as `self`, and is aligned
        // as the mapping starts on a page border. Nothing in this process accesses the mapping but
        // through atomics (and `msync`, which leaves it as it is).
        unsafe { AtomicU32::from_ptr(self.map.as_mut_ptr().add(at).cast()) }
    }

    /// One of the four wide header fields, which are never accessed as words.
    #[inline]
    fn long(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= at::USED_SLOTS);
        // SAFETY: as in `word`; every file is longer than its header.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(at).cast()) }
    }

    #[inline]
    fn get_int(&self, at: usize, order: Ordering) -> i32 {
        i32::from_be(self.word(at).load(order) as i32)
    }

    #[inline]
    fn set_int(&self, at: usize, value: i32, order: Ordering) {
        self.word(at).store(value.to_be() as u32, order);
    }

    #[inline]
    fn get_long(&self, at: usize) -> i64 {
        i64::from_be(self.long(at).load(Ordering::Acquire) as i64)
    }

    #[inline]
    fn set_long(&self, at: usize, value: i64) {
        self.long(at).store(value.to_be() as u64, Ordering::Release);
    }

    /// Number of the next entry, 1 to `entries`.
    #[inline]
    pub fn count(&self) -> u32 {
        let count = self.get_int(at::COUNT, Ordering::Acquire);
        count.clamp(1, self.shape.entries as i32) as u32
    }

    pub fn is_full(&self) -> bool {
        self.count() >= self.shape.entries
    }

    pub fn end_phys(&self) -> i64 {
        self.get_long(at::END_PHYS)
    }

    pub fn end_time(&self) -> i64 {
        self.get_long(at::END_TIME)
    }

    /// The header as it is now. While an entry is being put, its fields may be of two moments.
    pub fn header(&self) -> Header {
        let count = self.count() as i32;
        Header {
            begin_time: self.get_long(at::BEGIN_TIME),
            end_time: self.end_time(),
            begin_phys: self.get_long(at::BEGIN_PHYS),
            end_phys: self.end_phys(),
            used_slots: self.get_int(at::USED_SLOTS, Ordering::Relaxed),
            count,
        }
    }

    /// The same of a file that may not be in memory.
    pub fn load_header(&self) -> Result<Header> {
        self.load(0, HEADER)?;
        Ok(self.header())
    }

    fn load(&self, from: usize, to: usize) -> Result<()> {
        resident::bring(&self.map, from, to, &self.path)
    }

    fn entry(&self, number: u32) -> Result<Option<Entry>> {
        let from = self.shape.entry_at(number);
        // Beyond `entries` there is nothing reserved either.
        if from + ENTRY > self.reserved.load(Ordering::Acquire) {
            return Ok(None);
        }
        self.load(from, from + ENTRY)?;
        let mut bytes = [0; ENTRY];
        for (i, place) in bytes.chunks_exact_mut(4).enumerate() {
            let word = self.word(from + 4 * i).load(Ordering::Relaxed);
            place.copy_from_slice(&word.to_ne_bytes());
        }
        Ok(Some(Entry::read(&bytes)))
    }

    /// Has the processor fetch the slot of a key.
    #[inline]
    pub fn prefetch(&self, key_hash: i32) {
        prefetch(self.word(self.shape.slot_at(key_hash)).as_ptr().cast());
    }

    /// Appends an entry. False if the file is full. Only one thread at a time may call this.
    pub fn put(&self, key_hash: i32, phys: i64, store_time: i64) -> Result<bool> {
        let number = self.count();
        if number >= self.shape.entries {
            return Ok(false);
        }
        let from = self.shape.entry_at(number);
        self.reserve(from + ENTRY)?;
        let slot = self.shape.slot_at(key_hash);
        self.ready_slot(slot)?;
        let head = self.get_int(slot, Ordering::Relaxed);
        let previous = if head > 0 && head as u32 <= number {
            head
        } else {
            0
        };
        let seconds = seconds_since(self.get_long(at::BEGIN_TIME), store_time);
        let (high, low) = ((phys >> 32) as i32, phys as i32);
        for (i, value) in [key_hash, high, low, seconds, previous]
            .into_iter()
            .enumerate()
        {
            self.set_int(from + 4 * i, value, Ordering::Relaxed);
        }
        if number == 1 {
            self.set_long(at::BEGIN_PHYS, phys);
            self.set_long(at::BEGIN_TIME, store_time);
        }
        self.set_int(slot, number as i32, Ordering::Release);
        if previous == 0 {
            let used = self.get_int(at::USED_SLOTS, Ordering::Relaxed);
            self.set_int(at::USED_SLOTS, used.wrapping_add(1), Ordering::Relaxed);
        }
        self.set_long(at::END_PHYS, phys);
        self.set_long(at::END_TIME, store_time);
        self.set_int(at::COUNT, number as i32 + 1, Ordering::Release);
        Ok(true)
    }

    /// Makes sure that everything below `end` has blocks on disk.
    #[inline]
    fn reserve(&self, end: usize) -> Result<()> {
        let writable = self.writable.load(Ordering::Relaxed);
        if writable && end <= self.reserved.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.reserve_more(end)
            .map_err(|e| StoreError::io("reserve", &self.path, &e))
    }

    /// Faults in the page of a slot when it is first written. A slot lies within one page.
    #[inline]
    fn ready_slot(&self, slot: usize) -> Result<()> {
        let page = slot / PAGE;
        let (word, bit) = (&self.slot_pages[page / 64], 1 << (page % 64));
        if word.load(Ordering::Relaxed) & bit == 0 {
            let end = ((page + 1) * PAGE).min(self.map.len());
            self.populate(page * PAGE, end)
                .map_err(|e| StoreError::io("reserve", &self.path, &e))?;
            word.fetch_or(bit, Ordering::Relaxed);
        }
        Ok(())
    }

    #[cold]
    fn reserve_more(&self, end: usize) -> std::io::Result<()> {
        let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        let from = self.reserved.load(Ordering::Relaxed);
        if !self.writable.load(Ordering::Relaxed) {
            match fallocate_only(&file, FallocateFlags::empty(), 0, from) {
                Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => rewrite(&file, from)?,
                done => done?,
            }
            self.populate(0, PAGE.min(self.map.len()))?;
            self.writable.store(true, Ordering::Relaxed);
        }
        if end <= from {
            return Ok(());
        }
        // Behind the last entry there is nothing to lose, so zeros may be written there.
        let take = |step: usize| {
            let to = end.next_multiple_of(step).min(self.map.len());
            fallocate(&file, FallocateFlags::empty(), from, to - from)?;
            self.populate(from, to).map(|()| to)
        };
        let to = match take(CHUNK) {
            // Not room for the whole chunk: what is needed now may still fit.
            Err(e) if e.raw_os_error() == Some(libc::ENOSPC) => take(PAGE)?,
            done => done?,
        };
        self.reserved.store(to, Ordering::Release);
        Ok(())
    }

    fn populate(&self, from: usize, to: usize) -> std::io::Result<()> {
        populate(&self.map, from, to)
    }

    /// Adds the physical offsets that stand under a key hash with a time in `begin..=end`, newest
    /// first, until `out` holds `max`. [IndexFile.selectPhyOffset]
    pub fn select(
        &self,
        key_hash: i32,
        out: &mut Vec<u64>,
        max: usize,
        begin: i64,
        end: i64,
    ) -> Result<()> {
        let slot = self.shape.slot_at(key_hash);
        self.load(slot, slot + SLOT)?;
        let slot = self.get_int(slot, Ordering::Acquire);
        let count = self.count();
        let mut next = u32::try_from(slot).ok();
        if count <= 1 || next.is_some_and(|n| n > count) {
            return Ok(());
        }
        let begin_time = self.get_long(at::BEGIN_TIME);
        while let Some(number) = next.filter(|&n| n > 0 && out.len() < max) {
            let Some(entry) = self.entry(number)?.filter(|e| e.seconds >= 0) else {
                return Ok(());
            };
            let time = entry.time(begin_time);
            if entry.key_hash == key_hash && (begin..=end).contains(&time) {
                out.extend(u64::try_from(entry.phys));
            }
            next = entry.next(number, time, begin);
        }
        Ok(())
    }

    /// Writes everything to the disk and waits for it. True if the file was full by then.
    pub fn flush(&self) -> Result<bool> {
        let full = self.is_full();
        self.map
            .flush_range(0, self.shape.entry_at(self.count()))
            .map_err(|e| StoreError::io("flush", &self.path, &e))?;
        if full {
            self.flushed_full.store(true, Ordering::Release);
        }
        Ok(full)
    }

    /// Whether the file was full when it was flushed: it will not change any more.
    pub fn is_finished(&self) -> bool {
        self.flushed_full.load(Ordering::Acquire)
    }
}

/// What is wrong with a file of the right size, if anything.
fn fault(file: &File, shape: Shape) -> std::io::Result<Option<String>> {
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0)?;
    let header = Header::read(&header);
    let entry = |number: u32| {
        let mut bytes = [0; ENTRY];
        file.read_exact_at(&mut bytes, shape.entry_at(number) as u64)?;
        std::io::Result::Ok(Entry::read(&bytes))
    };
    if let Some(fault) = header.fault(shape) {
        return Ok(Some(fault));
    }
    if header.has_entries() {
        let (first, last) = (entry(1)?, entry(header.count as u32 - 1)?);
        if (first.phys, last.phys) != (header.begin_phys, header.end_phys) {
            return Ok(Some(format!(
                "its header says log offsets {} to {}, its first and last entry {} and {}",
                header.begin_phys, header.end_phys, first.phys, last.phys
            )));
        }
    }
    Ok(None)
}

/// Gives every hole below `end` its blocks by writing what it reads as, for file systems without
/// fallocate. The one writer of the mapping is the caller, so nothing changes meanwhile.
fn rewrite(file: &File, end: usize) -> std::io::Result<()> {
    let mut block = vec![0; 64 << 10];
    let mut from = 0;
    while from < end {
        let n = block.len().min(end - from);
        file.read_exact_at(&mut block[..n], from as u64)?;
        file.write_all_at(&block[..n], from as u64)?;
        from += n;
    }
    Ok(())
}

// An entry is five words, a slot is one.
const _: () = assert!(ENTRY == 20 && SLOT == 4 && HEADER.is_multiple_of(4));

#[cfg(test)]
#[path = "index_file_tests.rs"]
mod tests;
