//! One mapped file.
//!
//! A file has its full RocketMQ size from the start, but as a hole: space is reserved in chunks
//! (`reserve`) before it is written, so that a full disk is an error of the write and never a
//! SIGBUS. No descriptor is kept open; the mapping lives until the last `Arc` is gone, which is
//! what keeps a zero-copy buffer valid after the store forgot the file.
//!
//! Invariant: bytes below `written` never change while the segment is shared. The one writer
//! (holder of the store's put lock) fills bytes at and above it, then moves it with Release;
//! readers load it with Acquire and look only below.

use super::error::{Result, StoreError};
use memmap2::{Advice, MmapOptions, MmapRaw};
use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

pub const PAGE: usize = 4096;

pub struct Segment {
    base: u64,
    map: MmapRaw,
    path: PathBuf,
    written: AtomicUsize,
    reserved: AtomicUsize,
    populated: AtomicUsize,
    reserving: Mutex<()>,
}

impl Segment {
    /// Creates the file of `base` with `size` bytes, all of them a hole; what an earlier file of
    /// that name held is gone.
    pub fn create(path: PathBuf, base: u64, size: usize) -> Result<Self> {
        let io = |what, e: &std::io::Error| StoreError::io(what, &path, e);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .map_err(|e| io("create", &e))?;
        file.set_len(size as u64).map_err(|e| io("extend", &e))?;
        Self::map(&file, path.clone(), base, size, 0)
    }

    /// Maps an existing file. What the file system has stored of it is readable; a hole at its end
    /// is not, as reading it takes memory or disk that may not be there.
    pub fn open(path: PathBuf, base: u64, size: usize) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|e| StoreError::io("open", &path, &e))?;
        let len = file
            .metadata()
            .map_err(|e| StoreError::io("stat", &path, &e))?
            .len();
        if len != size as u64 {
            return Err(StoreError::Damaged {
                path,
                message: format!("file has {len} bytes, the configured size is {size}"),
            });
        }
        let written = end_of_data(&file, size).map_err(|e| StoreError::io("seek", &path, &e))?;
        Self::map(&file, path, base, size, written)
    }

    fn map(file: &File, path: PathBuf, base: u64, size: usize, written: usize) -> Result<Self> {
        let map = MmapOptions::new()
            .len(size)
            .map_raw(file)
            .map_err(|e| StoreError::io("map", &path, &e))?;
        Ok(Segment {
            base,
            map,
            path,
            written: AtomicUsize::new(written),
            reserved: AtomicUsize::new(written.next_multiple_of(PAGE).min(size)),
            populated: AtomicUsize::new(written.next_multiple_of(PAGE).min(size)),
            reserving: Mutex::new(()),
        })
    }

    pub fn base(&self) -> u64 {
        self.base
    }

    pub fn size(&self) -> usize {
        self.map.len()
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

    /// The readable part from `at`, `len` bytes; None beyond it.
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
    /// Only the holder of the store's put lock may call this, and it must let go of the slice
    /// before it calls `publish` or asks for another one.
    #[inline]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn tail(&self, at: usize, len: usize, chunk: usize) -> Result<&mut [u8]> {
        let end = at + len;
        assert!(at >= self.written.load(Ordering::Relaxed) && end <= self.size());
        if end > self.reserved.load(Ordering::Acquire) {
            self.reserve(end, chunk)?;
        }
        // SAFETY: inside the mapping (asserted) and above `written`, where only the one writer
        // goes (the caller's promise), so the slice is exclusive.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().add(at), len) })
    }

    /// The whole rest of the file, of which the caller touches only what it reserved.
    ///
    /// # Safety
    /// As `tail`, and nothing above `reserved` may be written.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn tail_unreserved(&self, at: usize) -> &mut [u8] {
        assert!(at >= self.written.load(Ordering::Relaxed) && at <= self.size());
        let len = self.size() - at;
        // SAFETY: as in `tail`.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().add(at), len) }
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

    #[inline]
    pub fn populated(&self) -> usize {
        self.populated.load(Ordering::Acquire)
    }

    /// Reserves disk blocks up to at least `end`, in steps of `chunk`.
    pub fn reserve(&self, end: usize, chunk: usize) -> Result<()> {
        let _one = self.reserving.lock();
        let from = self.reserved.load(Ordering::Acquire);
        if end <= from {
            return Ok(());
        }
        let to = end.next_multiple_of(chunk.max(PAGE)).min(self.size());
        let file = OpenOptions::new()
            .write(true)
            .open(&self.path)
            .map_err(|e| StoreError::io("open", &self.path, &e))?;
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
    pub fn populate(&self, end: usize) {
        let from = self.populated.load(Ordering::Acquire);
        let to = end.min(self.reserved());
        if to <= from {
            return;
        }
        // Older kernels refuse this advice; the writer then meets the faults itself.
        let _ = self
            .map
            .advise_range(Advice::PopulateWrite, from, to - from);
        self.populated.store(to, Ordering::Release);
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
        let io = |what, e: &std::io::Error| StoreError::io(what, &self.path, e);
        let keep = at.next_multiple_of(PAGE).min(self.size());
        let file = OpenOptions::new()
            .write(true)
            .open(&self.path)
            .map_err(|e| io("open", &e))?;
        if keep < self.size() {
            zero(&file, keep, self.size()).map_err(|e| io("cut", &e))?;
        }
        if keep > at {
            // SAFETY: `at..keep` lies inside the mapping and, as recovery runs alone, nobody else
            // looks at these bytes. A page that holds a byte of content is backed by the disk, and
            // an `at` on a page border does not come here.
            unsafe { std::ptr::write_bytes(self.map.as_mut_ptr().add(at), 0, keep - at) };
        }
        self.written.store(at, Ordering::Release);
        self.reserved.store(keep, Ordering::Release);
        self.populated.store(keep, Ordering::Release);
        Ok(())
    }
}

/// Where the last stored byte ends, rounded up to what the file system keeps.
///
/// Asked of tmpfs only: there reading a hole takes memory, which ends in a SIGBUS when none is left.
/// Elsewhere a hole reads as zeros, and not every file system tells holes from pages that are still
/// to be written.
fn end_of_data(file: &File, size: usize) -> std::io::Result<usize> {
    // SAFETY: `statfs` is plain data for which all-zero is valid; the descriptor is open.
    let mut fs: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    if unsafe { libc::fstatfs(file.as_raw_fd(), &mut fs) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    if fs.f_type != libc::TMPFS_MAGIC {
        return Ok(size);
    }
    let seek = |from: usize, whence| {
        // SAFETY: a plain system call on a descriptor that `file` keeps open.
        let at = unsafe { libc::lseek(file.as_raw_fd(), from as libc::off_t, whence) };
        if at >= 0 {
            Ok(at as usize)
        } else {
            Err(std::io::Error::last_os_error())
        }
    };
    let mut end = 0;
    while end < size {
        match seek(end, libc::SEEK_DATA) {
            Ok(start) => end = seek(start, libc::SEEK_HOLE)?.min(size),
            Err(e) if e.raw_os_error() == Some(libc::ENXIO) => break,
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => return Ok(size),
            Err(e) => return Err(e),
        }
    }
    Ok(end)
}

/// Reserves `len` bytes that were never written.
fn allocate(file: &File, from: usize, len: usize) -> std::io::Result<()> {
    fallocate(file, 0, from, len)
}

/// Makes `from..size` a hole, without a moment at which the file has another length.
fn zero(file: &File, from: usize, size: usize) -> std::io::Result<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    fallocate(file, mode, from, size - from)
}

/// fallocate, or zeros where the file system knows none: what callers want reads as zero anyway.
fn fallocate(file: &File, mode: i32, from: usize, len: usize) -> std::io::Result<()> {
    let (at, n) = (from as libc::off_t, len as libc::off_t);
    loop {
        // SAFETY: a plain system call on a descriptor that `file` keeps open.
        if unsafe { libc::fallocate(file.as_raw_fd(), mode, at, n) } == 0 {
            return Ok(());
        }
        let err = std::io::Error::last_os_error();
        match err.raw_os_error() {
            Some(libc::EINTR) => continue,
            Some(libc::EOPNOTSUPP) => return write_zeros(file, from, len),
            _ => return Err(err),
        }
    }
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
        assert_eq!(s.reserved(), PAGE);
        s.flush(0, 5).unwrap();
        drop(s);
        let s = Segment::open(path.clone(), 0, 64 * 1024).unwrap();
        assert_eq!(s.bytes(0, 6), Some(&b"hello\0"[..]));
        assert!(Segment::open(path, 0, 4096).is_err());
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
