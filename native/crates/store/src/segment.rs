//! One mapped file.
//!
//! A file has its full RocketMQ size from the start, but as a hole: space is reserved in chunks
//! (`reserve`) before it is written. Files of the log are written by system calls and mapped for
//! readers only; those of queues are written through the mapping, where pages are faulted in before
//! (`ready`), so that a full disk is an error and no SIGBUS. No descriptor is kept open here; the
//! mapping lives until the last `Arc` is gone, which is what keeps a zero-copy buffer valid after the
//! store forgot the file.
//!
//! Invariant: bytes below `written` never change while the segment is shared. The one writer
//! (holder of the store's put lock) fills bytes at and above it, then moves it with Release;
//! readers load it with Acquire and look only below.

use super::error::{Result, StoreError};
use super::file_set::wrong_size;
use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};
use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, SeekFrom, fadvise, fstatfs, seek};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub const PAGE: usize = 4096;
/// `touch` faults in so many bytes at a time.
const TOUCHED_AT_ONCE: usize = 4 << 20;

pub struct Segment {
    id: usize,
    base: u64,
    map: MmapRaw,
    path: PathBuf,
    written: AtomicUsize,
    reserved: AtomicUsize,
    populated: AtomicUsize,
    reserving: Mutex<()>,
    /// References outside of the engine: slices that Python has.
    exported: AtomicUsize,
}

impl Segment {
    /// Creates the file of `base` with `size` bytes, all of them a hole. A file of that name must
    /// not be there; none is left when this fails.
    pub fn create(path: PathBuf, base: u64, size: usize) -> Result<Self> {
        let io = |what, e: &std::io::Error| StoreError::io(what, &path, e);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|e| io("create", &e))?;
        let made = file
            .set_len(size as u64)
            .map_err(|e| io("extend", &e))
            .and_then(|()| Self::map(&file, path.clone(), base, size, 0));
        if made.is_err() {
            let _ = std::fs::remove_file(&path);
        }
        made
    }

    /// Maps an existing file of which the first `written` bytes are readable.
    pub fn open(path: PathBuf, base: u64, size: usize, written: usize) -> Result<Self> {
        let file = open_sized(&path, size)?;
        Self::map(&file, path, base, size, written)
    }

    /// Maps an existing file. What the file system has stored of it is readable; a hole at its end
    /// is not, as reading it takes memory or disk that may not be there.
    pub fn open_stored(path: PathBuf, base: u64, size: usize) -> Result<Self> {
        let file = open_sized(&path, size)?;
        let written = end_of_data(&file, size).map_err(|e| StoreError::io("seek", &path, &e))?;
        Self::map(&file, path, base, size, written)
    }

    fn map(file: &File, path: PathBuf, base: u64, size: usize, written: usize) -> Result<Self> {
        let map = MmapOptions::new()
            .len(size)
            .map_raw(file)
            .map_err(|e| StoreError::io("map", &path, &e))?;
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        Ok(Segment {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            base,
            map,
            path,
            written: AtomicUsize::new(written),
            reserved: AtomicUsize::new(written.next_multiple_of(PAGE).min(size)),
            populated: AtomicUsize::new(written.next_multiple_of(PAGE).min(size)),
            reserving: Mutex::new(()),
            exported: AtomicUsize::new(0),
        })
    }

    /// Where a physical offset lies in this file; None if it lies in another.
    #[inline]
    pub fn place_of(&self, phys: u64) -> Option<usize> {
        let at = usize::try_from(phys.checked_sub(self.base)?).ok()?;
        (at < self.size()).then_some(at)
    }

    pub fn base(&self) -> u64 {
        self.base
    }

    pub fn size(&self) -> usize {
        self.map.len()
    }

    pub fn mapping(&self) -> &MmapRaw {
        &self.map
    }

    /// Tells it from all others that were ever mapped, at the same address perhaps.
    #[inline]
    pub fn id(&self) -> usize {
        self.id
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Offset behind the file's last possible byte.
    pub fn end(&self) -> u64 {
        self.base + self.size() as u64
    }

    #[inline]
    pub fn written(&self) -> usize {
        self.written.load(Ordering::Acquire)
    }

    /// The readable part from `at`, `len` bytes; None beyond it. Touching it may wait for the disk, or
    /// end in a SIGBUS where the disk cannot read: whoever reads what was not written lately goes
    /// through `Resident`.
    #[inline]
    pub fn bytes(&self, at: usize, len: usize) -> Option<&[u8]> {
        if at.checked_add(len)? > self.written() {
            return None;
        }
        // SAFETY: the range lies below `written`, inside the mapping, which lives as long as
        // `self`; by the invariant above nobody changes these bytes any more. (A foreign process
        // that truncates the file is outside of what a mapping can guard against.)
        Some(unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(at), len) })
    }

    /// The readable part from `at` to its end.
    pub fn readable_from(&self, at: usize) -> &[u8] {
        let end = self.written();
        self.bytes(at, end.saturating_sub(at)).unwrap_or(&[])
    }

    /// The place for the next `len` bytes, reserved on disk.
    ///
    /// # Safety
    /// Only the holder of the store's put lock may call this, and it must drop the slice
    /// before it calls `publish` or asks for another one.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn tail(&self, at: usize, len: usize, chunk: usize) -> Result<&mut [u8]> {
        let end = at + len;
        assert!(at >= self.written.load(Ordering::Relaxed) && end <= self.size());
        self.ready(end, chunk)?;
        // SAFETY: inside the mapping (asserted) and above `written`, where only the one writer
        // goes (the caller's promise), so the slice is exclusive.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().add(at), len) })
    }

    /// Makes everything below `end` readable.
    #[inline]
    pub fn publish(&self, end: usize) {
        assert!(end <= self.size());
        self.written.store(end, Ordering::Release);
    }

    #[inline]
    pub fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Acquire)
    }

    /// Opens the file for writing behind what is written of it.
    pub fn open_for_writing(&self) -> Result<File> {
        OpenOptions::new()
            .write(true)
            .open(&self.path)
            .map_err(|e| StoreError::io("open", &self.path, &e))
    }

    /// Reserves disk blocks up to at least `end`, in steps of `chunk`.
    #[inline]
    pub fn reserve(&self, end: usize, chunk: usize) -> Result<()> {
        if end <= self.reserved() {
            return Ok(());
        }
        self.reserve_more(end, chunk)
    }

    #[cold]
    fn reserve_more(&self, end: usize, chunk: usize) -> Result<()> {
        let _one = self.reserving.lock();
        let from = self.reserved.load(Ordering::Acquire);
        if end <= from {
            return Ok(());
        }
        let to = end.next_multiple_of(chunk.max(PAGE)).min(self.size());
        let file = self.open_for_writing()?;
        let io = |e: std::io::Error| StoreError::io("reserve", &self.path, &e);
        let to = match allocate(&file, from, to - from) {
            Err(e) if e.raw_os_error() == Some(libc::ENOSPC) => {
                // Not room for the whole chunk: what is needed now may still fit.
                let least = end.next_multiple_of(PAGE).min(self.size());
                allocate(&file, from, least - from).map_err(io)?;
                least
            }
            done => done.map_err(io).map(|()| to)?,
        };
        self.reserved.store(to, Ordering::Release);
        Ok(())
    }

    /// Faults in the pages up to `end` (reserved already), so that the writer meets none.
    fn populate(&self, end: usize) -> Result<()> {
        let from = self.populated.load(Ordering::Acquire);
        let to = end.min(self.reserved());
        if to <= from {
            return Ok(());
        }
        populate(&self.map, from, to).map_err(|e| StoreError::io("reserve", &self.path, &e))?;
        self.populated.fetch_max(to, Ordering::AcqRel);
        Ok(())
    }

    /// Makes sure that bytes up to `end` can be written through the mapping without a fault that may
    /// fail: reserved in steps of `chunk`, and faulted in.
    #[inline]
    pub fn ready(&self, end: usize, chunk: usize) -> Result<()> {
        if end <= self.populated.load(Ordering::Acquire) {
            return Ok(());
        }
        self.make_ready(end, chunk)
    }

    #[cold]
    fn make_ready(&self, end: usize, chunk: usize) -> Result<()> {
        self.reserve(end, chunk)?;
        self.populate(end.next_multiple_of(PAGE))
    }

    /// Writes `[from, to)` to the disk and waits for it.
    pub fn flush(&self, from: usize, to: usize) -> Result<()> {
        let from = from - from % PAGE;
        if to <= from {
            return Ok(());
        }
        self.map
            .flush_range(from, to - from)
            .map_err(|e| StoreError::io("flush", &self.path, &e))
    }

    /// Cuts the content at `at`: what stood behind reads as zero again, in memory and on disk, so
    /// that no old record can be taken for a new one later.
    ///
    /// Only recovery calls this, before the segment is shared.
    pub fn truncate(&self, at: usize) -> Result<()> {
        zero_behind(&self.path, at, self.size())?;
        let keep = at.next_multiple_of(PAGE).min(self.size());
        self.written.store(at, Ordering::Release);
        self.reserved.store(keep, Ordering::Release);
        self.populated.store(keep, Ordering::Release);
        Ok(())
    }

    /// Makes every page up to `end` count as changed, so that `flush` writes it whatever the kernel
    /// believes to be on disk. Only recovery calls this, before the segment is shared.
    /// The pages are faulted in first: on a full disk that is an error, a plain write a SIGBUS.
    pub fn touch(&self, end: usize) -> Result<()> {
        let end = end.min(self.size());
        for at in (0..end).step_by(PAGE) {
            if at % TOUCHED_AT_ONCE == 0 {
                populate(&self.map, at, (at + TOUCHED_AT_ONCE).min(end))
                    .map_err(|e| StoreError::io("touch", &self.path, &e))?;
            }
            // SAFETY: inside the mapping; recovery runs alone, and the byte keeps its value. The
            // accesses are volatile, so that the compiler does not drop them.
            unsafe {
                let place = self.map.as_mut_ptr().add(at);
                std::ptr::write_volatile(place, std::ptr::read_volatile(place));
            }
        }
        Ok(())
    }

    /// Advises the kernel that neighbours of what is touched are not wanted: without it the first
    /// touch of a file may bring in megabytes of a hole.
    pub fn expect_random(&self) {
        let _ = self.map.advise(Advice::Random); // a hint
    }

    /// Bytes at and above `written` as they stand in the file.
    ///
    /// # Safety
    /// Only recovery calls this, which runs alone, and only for a place that the file system has
    /// stored something of.
    pub unsafe fn stored(&self, at: usize, len: usize) -> Option<&[u8]> {
        if at.checked_add(len)? > self.size() {
            return None;
        }
        // SAFETY: inside the mapping; nobody writes there meanwhile (the caller's promise).
        Some(unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(at), len) })
    }

    /// Has the kernel give up what it keeps of the file in memory; whoever reads it again waits for the
    /// disk. What is not flushed stays.
    pub fn give_up_cache(&self) -> Result<()> {
        let io = |e: std::io::Error| StoreError::io("advise", &self.path, &e);
        // First from the page tables: pages that are mapped are not given up.
        // SAFETY: a shared mapping of a file: what is touched again is read again.
        unsafe { self.map.unchecked_advise(UncheckedAdvice::DontNeed) }.map_err(io)?;
        let file = File::open(&self.path).map_err(|e| StoreError::io("open", &self.path, &e))?;
        fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).map_err(|e| io(e.into()))
    }

    /// Locks the file's pages in memory (mlock), or unlocks them.
    pub fn lock_in_memory(&self, on: bool) -> Result<()> {
        if on {
            self.map.lock()
        } else {
            self.map.unlock()
        }
        .map_err(|e| StoreError::io("lock in memory", &self.path, &e))
    }

    /// Exports a reference as a raw pointer, to be taken back by `release`; counted.
    pub fn export(self: Arc<Self>) -> *const Segment {
        self.exported.fetch_add(1, Ordering::Relaxed);
        Arc::into_raw(self)
    }

    /// Takes back a reference that `export` gave.
    ///
    /// # Safety
    /// `segment` came from `export` and comes back once.
    pub unsafe fn release(segment: *const Segment) {
        // SAFETY: the caller's promise.
        let segment = unsafe { Arc::from_raw(segment) };
        segment.exported.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many references are exported.
    pub fn exported(&self) -> usize {
        self.exported.load(Ordering::Relaxed)
    }
}

fn open_sized(path: &Path, size: usize) -> Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|e| StoreError::io("open", path, &e))?;
    let len = file
        .metadata()
        .map_err(|e| StoreError::io("stat", path, &e))?
        .len();
    if len != size as u64 {
        return Err(wrong_size(path, len, size));
    }
    Ok(file)
}

/// Makes everything behind `at` of a file read as zero, whole pages of it a hole.
pub(super) fn zero_behind(path: &Path, at: usize, size: usize) -> Result<()> {
    use std::os::unix::fs::FileExt;
    let io = |what, e: &std::io::Error| StoreError::io(what, path, e);
    let keep = at.next_multiple_of(PAGE).min(size);
    let file = OpenOptions::new()
        .write(true)
        .open(path)
        .map_err(|e| io("open", &e))?;
    if keep < size {
        zero(&file, keep, size).map_err(|e| io("cut", &e))?;
    }
    if keep > at {
        // This page holds a byte of content, so the disk has a place for it.
        file.write_all_at(&[0; PAGE][..keep - at], at as u64)
            .map_err(|e| io("cut", &e))?;
    }
    Ok(())
}

/// Where the last stored byte ends, rounded up to what the file system keeps.
///
/// Asked of tmpfs only: there reading a hole takes memory, which ends in a SIGBUS when none is left.
/// Elsewhere a hole reads as zeros, and not every file system tells holes from pages that are still
/// to be written.
fn end_of_data(file: &File, size: usize) -> std::io::Result<usize> {
    if fstatfs(file)?.f_type != libc::TMPFS_MAGIC {
        return Ok(size);
    }
    let mut end = 0;
    while end < size {
        match seek(file, SeekFrom::Data(end as u64)) {
            Ok(start) => end = (seek(file, SeekFrom::Hole(start))? as usize).min(size),
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL) => return Ok(size),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(end)
}

/// The first place at or behind `from` where the file system has stored something; `size` if there
/// is none, `from` if it does not say.
pub(super) fn next_data(file: &File, from: u64, size: u64) -> std::io::Result<u64> {
    match seek(file, SeekFrom::Data(from)) {
        Ok(at) => Ok(at.min(size)),
        Err(Errno::NXIO) => Ok(size),
        Err(Errno::INVAL) => Ok(from),
        Err(e) => Err(e.into()),
    }
}

/// The first hole at or behind `from`; `size` if there is none or the file system does not say.
pub(super) fn next_hole(file: &File, from: u64, size: u64) -> std::io::Result<u64> {
    match seek(file, SeekFrom::Hole(from)) {
        Ok(at) => Ok(at.min(size)),
        Err(Errno::NXIO | Errno::INVAL) => Ok(size),
        Err(e) => Err(e.into()),
    }
}

/// Faults in reserved pages of a mapping for writing. On an all but full disk ext4 may refuse a
/// page although its block is allocated: here that is an error, for the writer it is a SIGBUS.
pub(super) fn populate(map: &MmapRaw, from: usize, to: usize) -> std::io::Result<()> {
    match map.advise_range(Advice::PopulateWrite, from, to - from) {
        // A kernel before 5.14 does not know the advice.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        Err(e) if e.raw_os_error() == Some(libc::EFAULT) => {
            Err(std::io::Error::from_raw_os_error(libc::ENOSPC))
        }
        done => done,
    }
}

/// Reserves `len` bytes that were never written.
fn allocate(file: &File, from: usize, len: usize) -> std::io::Result<()> {
    fallocate(file, FallocateFlags::empty(), from, len)
}

/// Makes `from..size` a hole, without a moment at which the file has another length.
fn zero(file: &File, from: usize, size: usize) -> std::io::Result<()> {
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(file, mode, from, size - from)
}

/// fallocate, or zeros where the file system knows none: what callers want reads as zero anyway.
pub(super) fn fallocate(
    file: &File,
    mode: FallocateFlags,
    from: usize,
    len: usize,
) -> std::io::Result<()> {
    match fallocate_only(file, mode, from, len) {
        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => write_zeros(file, from, len),
        done => done,
    }
}

/// The system call alone: with mode 0 it leaves stored content as it is.
pub(super) fn fallocate_only(
    file: &File,
    mode: FallocateFlags,
    from: usize,
    len: usize,
) -> std::io::Result<()> {
    let again = || rustix::fs::fallocate(file, mode, from as u64, len as u64);
    Ok(rustix::io::retry_on_intr(again)?)
}

fn write_zeros(file: &File, from: usize, len: usize) -> std::io::Result<()> {
    use std::os::unix::fs::FileExt;
    let zeros = [0u8; 64 * 1024];
    let mut at = 0;
    while at < len {
        let n = zeros.len().min(len - at);
        file.write_all_at(&zeros[..n], (from + at) as u64)?;
        at += n;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(s: &Segment, at: usize, bytes: &[u8]) {
        // SAFETY: the test is the only writer.
        unsafe { s.tail(at, bytes.len(), PAGE) }
            .unwrap()
            .copy_from_slice(bytes);
        s.publish(at + bytes.len());
    }

    #[test]
    fn content_is_readable_only_when_published_and_survives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("00000000000000000000");
        let s = Segment::create(path.clone(), 0, 64 * 1024).unwrap();
        assert_eq!(s.bytes(0, 1), None);
        put(&s, 0, b"hello");
        assert_eq!(s.bytes(0, 5), Some(&b"hello"[..]));
        assert_eq!(s.bytes(1, 5), None);
        assert_eq!(
            (s.reserved(), s.populated.load(Ordering::Acquire)),
            (PAGE, PAGE)
        );
        s.flush(0, 5).unwrap();
        drop(s);
        let s = Segment::open_stored(path.clone(), 0, 64 * 1024).unwrap();
        assert_eq!(s.bytes(0, 6), Some(&b"hello\0"[..]));
        assert!(Segment::open(path, 0, 4096, 0).is_err());
    }

    #[test]
    fn truncate_leaves_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let s = Segment::create(path.clone(), 0, 5 * PAGE).unwrap();
        put(&s, 0, &vec![7u8; 3 * PAGE]);
        s.truncate(PAGE + 10).unwrap();
        assert_eq!(s.written(), PAGE + 10);
        drop(s);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 5 * PAGE);
        assert!(bytes[..PAGE + 10].iter().all(|&b| b == 7));
        assert!(bytes[PAGE + 10..].iter().all(|&b| b == 0));
    }
}
