//! Which bytes of a mapped file are in memory, and bringing in those that are not.
//!
//! Whoever touches a mapped page that is not in memory waits for the disk; where the disk cannot read
//! it (a bad sector, a file that was cut), the process ends with a SIGBUS. So what may not be in
//! memory is asked for here before it is touched: mincore tells whether it is there, and
//! MADV_POPULATE_READ (Linux 5.14; older kernels give no protection) reads it with an errno.

use super::clock::now_ms;
use super::error::{Result, StoreError};
use super::segment::Segment;
use memmap2::{Advice, MmapRaw};
use pyrmq_format::candidate::{self, BLANK_LEN};
use std::cell::Cell;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// Bytes that are asked about at a time beyond what is needed, so that the next record is known too.
pub const LOOK_AHEAD: usize = 64 << 10;
/// Bytes that one call of mincore tells of, in pages.
const PAGES: usize = 256;

/// What to do where bytes are not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Read them.
    ForDisk,
    /// Give up: `StoreError::Cold`.
    Never,
}

impl From<bool> for Wait {
    fn from(for_disk: bool) -> Self {
        if for_disk { Wait::ForDisk } else { Wait::Never }
    }
}

/// Reads parts of files, and remembers of which part of which file it is known to be in memory.
pub struct Resident {
    wait: Wait,
    /// Bytes that are read at a time beyond what is needed.
    ahead: usize,
    known: Part,
}

/// What one read after the other learns of two files, for a moment: the queue's and the log's.
#[derive(Default)]
pub struct Learnt {
    parts: [Cell<Part>; 2],
    since: Cell<Option<Instant>>,
}

/// A part of a file that was in memory.
#[derive(Clone, Copy, Default)]
struct Part {
    /// The file by its `id`, as files of several sets may be read.
    file: usize,
    from: usize,
    to: usize,
}

/// So long what was in memory is taken to be there still. The kernel takes away what nobody used for
/// long; at worst somebody waits for the disk.
const LEARNT: Duration = Duration::from_millis(50);

impl Learnt {
    /// Forgets what is old.
    fn renew(&self) {
        let is_fresh = |since: Instant| since.elapsed() < LEARNT;
        if !self.since.get().is_some_and(is_fresh) {
            self.parts.iter().for_each(|part| part.set(Part::default()));
            self.since.set(Some(Instant::now()));
        }
    }
}

/// Of the queue and of the log, as one read begins; `keep` at its end.
pub fn resume(wait: Wait, ahead: [usize; 2], learnt: Option<&Learnt>) -> [Resident; 2] {
    if let Some(learnt) = learnt {
        learnt.renew();
    }
    [0, 1].map(|i| Resident {
        wait,
        ahead: ahead[i],
        known: learnt.map_or(Part::default(), |learnt| learnt.parts[i].get()),
    })
}

/// Remembers what a read found to be in memory.
pub fn keep(of: [&Resident; 2], learnt: Option<&Learnt>) {
    let Some(learnt) = learnt else { return };
    for (cell, r) in learnt.parts.iter().zip(of) {
        cell.set(r.known);
    }
}

impl Resident {
    pub fn new(wait: Wait) -> Self {
        Self::reading_ahead(wait, LOOK_AHEAD)
    }

    /// Of one who reads a file from front to back.
    pub fn reading_ahead(wait: Wait, ahead: usize) -> Self {
        Resident {
            wait,
            ahead,
            known: Part::default(),
        }
    }

    /// `len` bytes of the readable part; None beyond it.
    #[inline]
    pub fn bytes<'s>(
        &mut self,
        segment: &'s Segment,
        at: usize,
        len: usize,
    ) -> Result<Option<&'s [u8]>> {
        let Some(bytes) = segment.bytes(at, len) else {
            return Ok(None);
        };
        if !self.knows(segment, at, len) {
            self.bring(segment, at, len)?;
        }
        Ok(Some(bytes))
    }

    /// Whether `len` bytes are known to be in memory, so that they can be touched without being brought in.
    #[inline]
    pub fn knows(&self, segment: &Segment, at: usize, len: usize) -> bool {
        let Part { file, from, to } = self.known;
        file == segment.id() && from <= at && at + len <= to
    }

    /// What starts at `at` as `record::read` takes it: to the end of the file's readable part. Of
    /// that, the record that it begins with is in memory, or the head where it is none.
    #[inline]
    pub fn record<'s>(&mut self, segment: &'s Segment, at: usize) -> Result<&'s [u8]> {
        let rest = segment.readable_from(at);
        let head = BLANK_LEN.min(rest.len());
        self.bytes(segment, at, head)?;
        if let candidate::Start::Record(total) = candidate::start(rest, rest.len() as u64) {
            // What follows tells whether a write was cut.
            let len = (total + BLANK_LEN).min(rest.len());
            self.bytes(segment, at, len)?;
        }
        Ok(rest)
    }

    #[cold]
    fn bring(&mut self, segment: &Segment, at: usize, len: usize) -> Result<()> {
        let want = segment.written().min(at + len.max(self.ahead));
        self.known = Part {
            file: segment.id(),
            from: at,
            to: present_to(segment.mapping(), at, want),
        };
        if self.known.to >= at + len {
            return Ok(());
        }
        if self.wait == Wait::Never {
            return Err(StoreError::Cold);
        }
        let place = Some(segment.base());
        // What is not needed may be what the disk cannot read: then without it.
        self.known.to = match load(segment.mapping(), at, want, segment.path(), place) {
            Ok(()) => want,
            Err(_) => {
                load(segment.mapping(), at, at + len, segment.path(), place)
                    .inspect_err(log_unreadable)?;
                at + len
            }
        };
        Ok(())
    }
}

/// Says it once a minute: whoever meets such a place comes back to it.
#[cold]
fn log_unreadable(e: &StoreError) {
    static LOGGED: AtomicI64 = AtomicI64::new(i64::MIN / 2);
    let now = now_ms();
    let last = LOGGED.load(Ordering::Relaxed);
    if now - last >= 60_000 && LOGGED.swap(now, Ordering::Relaxed) == last {
        log::error!(path:% = e.path().display(); "{e}; whoever needs it gets this error, the rest is served");
    }
}

fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(rustix::param::page_size)
}

/// Where the part of a mapping ends that begins at `from` and is in memory: at most `to`.
fn present_to(map: &MmapRaw, from: usize, to: usize) -> usize {
    let page = page_size();
    let mut at = from - from % page;
    let mut found = [0u8; PAGES];
    while at < to {
        let n = (to - at).div_ceil(page).min(PAGES);
        // SAFETY: the pages lie in the mapping (its last one may be part of one, which is mapped as
        // a whole), and `found` has a byte for each.
        let asked = unsafe {
            libc::mincore(
                map.as_mut_ptr().add(at).cast(),
                n * page,
                found.as_mut_ptr().cast(),
            )
        };
        if asked != 0 {
            return at.max(from);
        }
        if let Some(first) = found[..n].iter().position(|state| state & 1 == 0) {
            return (at + first * page).max(from);
        }
        at += n * page;
    }
    to
}

/// Reads bytes of a mapping into memory. `path` and `base` (where the file starts in its file set)
/// are for the error.
pub fn load(map: &MmapRaw, from: usize, to: usize, path: &Path, base: Option<u64>) -> Result<()> {
    let _ = map.advise_range(Advice::WillNeed, from, to - from); // one request to the disk
    match map.advise_range(Advice::PopulateRead, from, to - from) {
        // A kernel before 5.14 does not know the advice.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        Err(e) => Err(unreadable(path, base, from, to, &e)),
        Ok(()) => Ok(()),
    }
}

#[cold]
fn unreadable(
    path: &Path,
    base: Option<u64>,
    from: usize,
    to: usize,
    e: &std::io::Error,
) -> StoreError {
    let errno = e.raw_os_error().unwrap_or(0);
    // The kernel's word for a page that could not be had is "bad address".
    let why = if matches!(errno, libc::EFAULT | libc::EHWPOISON) {
        "the disk cannot read it, or the file was cut".to_string()
    } else {
        e.to_string()
    };
    let offset = base.map_or(String::new(), |base| {
        format!(" (from offset {})", base + from as u64)
    });
    StoreError::Io {
        what: "read",
        path: path.to_path_buf(),
        message: format!("a place in its bytes {from} to {to}{offset}: {why}"),
        errno: if errno == libc::EFAULT {
            libc::EIO
        } else {
            errno
        },
    }
}

/// Makes sure that bytes of a mapping which has no `Segment` can be touched.
pub fn bring(map: &MmapRaw, from: usize, to: usize, path: &Path) -> Result<()> {
    if present_to(map, from, to) >= to {
        return Ok(());
    }
    load(map, from, to, path, None).inspect_err(log_unreadable)
}

#[cfg(test)]
#[path = "resident_tests.rs"]
mod tests;
