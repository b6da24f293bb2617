//! The set of segment files, and a window on their bytes.

use super::error::{Result, ScanError};
use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// Bytes read at once from a local file: what fits into a core's own cache.
const LOCAL_STEP: usize = 512 << 10;
/// Bytes read at once from anything else, where each call has a price.
const REMOTE_STEP: usize = 8 << 20;

/// Where copying what lies between costs as much as another call.
const LOCAL_NEAR: u64 = 4 << 10;
const REMOTE_NEAR: u64 = 512 << 10;

#[derive(Clone, Debug)]
pub struct LogFile {
    /// Physical offset of its first byte.
    pub base: u64,
    pub len: u64,
    pub path: String,
}

/// Positioned reads; fewer bytes than asked for only at the end of the file.
pub trait ReadAt: Send {
    fn read_at(&mut self, to: &mut [u8], at: u64) -> io::Result<usize>;
}

/// How a file of the set is opened.
pub trait Open: Send + Sync {
    fn open(&self, path: &str) -> io::Result<Box<dyn ReadAt>>;
    /// Bytes read at once.
    fn step(&self) -> usize {
        REMOTE_STEP
    }

    /// Records that are this near to each other are read in one go.
    fn near(&self) -> u64 {
        REMOTE_NEAR
    }
}

pub struct OpenLocal;

impl Open for OpenLocal {
    fn open(&self, path: &str) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(Local(open_regular(Path::new(path))?)))
    }

    fn step(&self) -> usize {
        LOCAL_STEP
    }

    fn near(&self) -> u64 {
        LOCAL_NEAR
    }
}

/// Opens a regular file; a pipe or a device by that name must not hold us up.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        )),
    }
}

struct Local(File);

impl ReadAt for Local {
    fn read_at(&mut self, to: &mut [u8], at: u64) -> io::Result<usize> {
        let mut have = 0;
        while have < to.len() {
            match self.0.read_at(&mut to[have..], at + have as u64) {
                Ok(0) => break,
                Ok(n) => have += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(have)
    }
}

/// The segments of one log, in order.
#[derive(Clone)]
pub struct FileSet {
    pub files: Arc<[LogFile]>,
    pub open: Arc<dyn Open>,
}

impl FileSet {
    /// ScanError::Illegal if the files are not in order or overlap.
    pub fn new(files: Vec<LogFile>, open: Arc<dyn Open>) -> Result<Self> {
        for pair in files.windows(2) {
            if pair[0].base.saturating_add(pair[0].len) > pair[1].base {
                return Err(ScanError::Illegal(format!(
                    "{} has {} bytes, but {} begins before its end: these are not the segments of one \
                     log",
                    pair[0].path, pair[0].len, pair[1].path
                )));
            }
        }
        if let Some(file) = files
            .iter()
            .find(|f| f.base.saturating_add(f.len) > i64::MAX as u64)
        {
            let text = format!("{}: its offsets are beyond what a log has", file.path);
            return Err(ScanError::Illegal(text));
        }
        Ok(FileSet {
            files: files.into(),
            open,
        })
    }

    /// Index of the file that holds `phys`, and the position in it.
    pub fn locate(&self, phys: u64) -> Option<(usize, u64)> {
        let index = self
            .files
            .partition_point(|f| f.base <= phys)
            .checked_sub(1)?;
        let at = phys - self.files[index].base;
        (at < self.files[index].len).then_some((index, at))
    }

    /// Index of the first file that begins at or behind `phys`.
    pub fn next_from(&self, phys: u64) -> usize {
        self.files.partition_point(|f| f.base < phys)
    }

    pub fn end(&self) -> u64 {
        self.files.last().map_or(0, |f| f.base + f.len)
    }

    pub fn damaged(&self, phys: u64, why: impl Into<String>) -> ScanError {
        let index = self
            .files
            .partition_point(|f| f.base <= phys)
            .saturating_sub(1);
        let (path, at) = match self.files.get(index) {
            Some(f) => (f.path.clone(), phys.saturating_sub(f.base)),
            None => ("(no segment)".to_owned(), 0),
        };
        let why = why.into();
        ScanError::Damaged {
            path,
            at,
            phys,
            why,
            next: None,
        }
    }
}

/// Where the bytes of the open file come from.
enum Source {
    Read(Box<dyn ReadAt>),
    Map(Arc<Mmap>),
}

/// A file that is mapped, and a place in it.
pub type InMap = (Arc<Mmap>, usize);

/// Bytes of one file at a time, read in steps that grow with what is asked for.
pub struct Window {
    file_set: FileSet,
    step: usize,
    mapped: bool,
    /// The open file, by its index in the set.
    open: Option<(usize, Source)>,
    buffer: Vec<u8>,
    /// Position in the file of the first byte that is there.
    start: u64,
    filled: usize,
}

impl Window {
    /// Reads at least `step` bytes at a time; 0 for what suits the files.
    pub fn new(file_set: FileSet, step: usize) -> Self {
        Window {
            step: if step == 0 {
                file_set.open.step()
            } else {
                step
            },
            file_set,
            mapped: false,
            open: None,
            buffer: Vec::new(),
            start: 0,
            filled: 0,
        }
    }

    /// Maps local files instead of reading them.
    pub fn mapped(file_set: FileSet) -> Self {
        Window {
            mapped: true,
            ..Window::new(file_set, 0)
        }
    }

    pub fn file_set(&self) -> &FileSet {
        &self.file_set
    }

    /// The mapping of the open file.
    pub fn map(&self) -> Option<&Arc<Mmap>> {
        match &self.open {
            Some((_, Source::Map(map))) => Some(map),
            _ => None,
        }
    }

    #[inline]
    fn there(&self) -> &[u8] {
        match &self.open {
            Some((_, Source::Map(map))) => &map[..self.filled],
            _ => &self.buffer[..self.filled],
        }
    }

    /// Up to `len` bytes of file `index` from `at`; fewer only where the file ends.
    #[inline]
    pub fn bytes(&mut self, index: usize, at: u64, len: usize) -> Result<&[u8]> {
        let inside = self.open.as_ref().is_some_and(|(i, _)| *i == index)
            && at >= self.start
            && at + len as u64 <= self.start + self.filled as u64;
        if !inside {
            self.fill(index, at, len)?;
        }
        let from = (at.saturating_sub(self.start) as usize).min(self.filled);
        let to = (from + len).min(self.filled);
        Ok(&self.there()[from..to])
    }

    /// What the window holds of file `index` from `at` on, at least one byte unless the file ends
    /// there.
    pub fn rest(&mut self, index: usize, at: u64) -> Result<&[u8]> {
        self.bytes(index, at, 1)?;
        let from = (at.saturating_sub(self.start) as usize).min(self.filled);
        Ok(&self.there()[from..])
    }

    /// What was read is read again when it is next asked for.
    pub fn forget(&mut self) {
        if self.map().is_none() {
            (self.start, self.filled) = (0, 0);
        }
    }

    #[cold]
    fn fill(&mut self, index: usize, at: u64, len: usize) -> Result<()> {
        let file = &self.file_set.files[index];
        let io = |error| ScanError::Io {
            path: file.path.clone(),
            error,
        };
        if self.open.as_ref().is_none_or(|(i, _)| *i != index) {
            (self.start, self.filled) = (0, 0);
            let source = match self.mapped {
                true => Source::Map(Arc::new(map_file(file).map_err(io)?)),
                false => Source::Read(self.file_set.open.open(&file.path).map_err(io)?),
            };
            self.open = Some((index, source));
        }
        let source = match self.open.as_mut() {
            Some((_, Source::Read(source))) => source,
            Some((_, Source::Map(map))) => {
                self.filled = (map.len() as u64).min(file.len) as usize;
                return Ok(());
            }
            None => unreachable!("opened above"),
        };
        let want = (len.max(self.step) as u64).min(file.len.saturating_sub(at)) as usize;
        if self.buffer.len() < want {
            self.buffer.resize(want, 0);
        }
        // What is there already is not read again.
        let end = self.start + self.filled as u64;
        let keep = match at >= self.start && at < end {
            true => ((end - at) as usize).min(want),
            false => 0,
        };
        let from = at.saturating_sub(self.start) as usize;
        if keep > 0 {
            self.buffer.copy_within(from..from + keep, 0);
        }
        (self.start, self.filled) = (at, keep);
        let got = source.read_at(&mut self.buffer[keep..want], at + keep as u64);
        self.filled = keep + got.map_err(io)?;
        Ok(())
    }
}

fn map_file(file: &LogFile) -> io::Result<Mmap> {
    let opened = open_regular(Path::new(&file.path))?;
    // SAFETY: the mapping is read-only. Other processes may append behind the records that are read
    // through it; the bytes of a whole record never change, as the store only ever appends, and a
    // file that retention deletes keeps its pages while it is mapped. That nobody cuts the file short
    // meanwhile is what the caller vouches for by asking for views.
    unsafe { Mmap::map(&opened) }
}
