//! One file, read through a window.

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes read at once where a file is read from its start to its end.
pub const SEQUENTIAL: usize = 1 << 20;
/// Bytes read at once where places far apart are read.
pub const SCATTERED: usize = 4096;

pub struct Source {
    file: File,
    path: PathBuf,
    len: u64,
    step: usize,
    window: Vec<u8>,
    /// File position of the window's first byte.
    start: u64,
}

impl Source {
    /// Opens a regular file; anything else (a pipe, a device, a folder) is refused.
    pub fn open(path: &Path, step: usize) -> io::Result<Self> {
        let file = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK) // a pipe by that name must not hold us up
            .open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        Ok(Source {
            len: meta.len(),
            path: path.to_path_buf(),
            file,
            step,
            window: Vec::new(),
            start: 0,
        })
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Up to `len` bytes from `at`; fewer only at the file's end. The caller bounds `len`.
    pub fn bytes(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let len = (len as u64).min(self.len.saturating_sub(at)) as usize;
        let end = at + len as u64;
        if at < self.start || end > self.start + self.window.len() as u64 {
            self.fill(at, len)?;
        }
        let from = (at - self.start) as usize;
        let to = (from + len).min(self.window.len());
        Ok(&self.window[from..to])
    }

    fn fill(&mut self, at: u64, len: usize) -> io::Result<()> {
        let want = (len.max(self.step) as u64).min(self.len.saturating_sub(at)) as usize;
        self.window.resize(want, 0);
        self.start = at;
        let mut have = 0;
        while have < want {
            match self
                .file
                .read_at(&mut self.window[have..], at + have as u64)
            {
                Ok(0) => break, // it became shorter since it was opened
                Ok(n) => have += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) if have >= len => break,
                Err(e) => {
                    self.window.clear();
                    return Err(e);
                }
            }
        }
        self.window.truncate(have);
        Ok(())
    }

    /// First position at or after `at` that is not in a hole; None if the rest is one.
    pub fn next_data(&self, at: u64) -> Option<u64> {
        if at >= self.len {
            return None;
        }
        // Reads are positioned: nothing depends on where this leaves the descriptor.
        match seek(&self.file, SeekFrom::Data(at)) {
            Ok(found) => Some(found),
            Err(Errno::NXIO) => None,
            Err(_) => Some(at), // the file system knows no holes
        }
    }

    /// Position behind the last byte from `at` on that is not zero; `at` if all are. What cannot be
    /// read counts as not zero.
    pub fn data_end(&mut self, at: u64) -> u64 {
        let (mut end, mut at) = (at, at);
        while let Some(from) = self.next_data(at) {
            match self.bytes(from, SEQUENTIAL) {
                Ok([]) => break,
                Ok(piece) => {
                    if let Some(last) = piece.iter().rposition(|&b| b != 0) {
                        end = from + last as u64 + 1;
                    }
                    at = from + piece.len() as u64;
                }
                Err(_) => {
                    at = from + SCATTERED as u64;
                    end = at.min(self.len);
                }
            }
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_holes_and_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let file = File::create(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(b"middle", 300_000).unwrap();
        let mut s = Source::open(&path, 16).unwrap();
        assert_eq!(s.bytes(300_000, 6).unwrap(), b"middle");
        assert_eq!(s.bytes(300_003, 3).unwrap(), b"dle");
        assert_eq!(s.bytes((1 << 20) - 2, 6).unwrap(), b"\0\0");
        assert_eq!(s.bytes(1 << 30, 6).unwrap(), b"");
        assert_eq!(s.data_end(0), 300_006);
        assert_eq!(s.data_end(300_006), 300_006);
        assert!(Source::open(dir.path(), 16).is_err());
    }
}
