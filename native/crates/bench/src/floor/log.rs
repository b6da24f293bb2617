//! Where the floor writes: files of one size, reserved beforehand, written from front to back.

use rustix::fs::{FallocateFlags, fallocate};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions, remove_file};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// As a commit log's files.
pub const FILE_BYTES: u64 = 1 << 30;
/// Full files that stay. To delete one takes the kernel a tenth of a second, so that should not
/// happen in every measured window; to keep all would fill the disk.
const KEPT: usize = 4;

pub struct Log {
    dir: PathBuf,
    size: u64,
    sync: bool,
    file: File,
    /// Log offset of the file's first byte.
    base: u64,
    /// Where in the file the next byte goes.
    at: u64,
    /// The files there are, the oldest first.
    paths: VecDeque<PathBuf>,
}

/// A new file with all its space, named by its first offset.
fn reserve(dir: &Path, base: u64, size: u64) -> io::Result<(File, PathBuf)> {
    let path = dir.join(format!("{base:020}"));
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&path)?;
    match fallocate(&file, FallocateFlags::empty(), 0, size) {
        Ok(()) => {}
        // Such a file system takes space as it is written.
        Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(size)?,
        Err(e) => return Err(e.into()),
    }
    Ok((file, path))
}

impl Log {
    pub fn open(dir: &Path, size: u64, sync: bool) -> io::Result<Log> {
        let (file, path) = reserve(dir, 0, size)?;
        // Else the first fdatasync would write what is known of the file.
        file.sync_all()?;
        Ok(Log {
            dir: dir.into(),
            size,
            sync,
            file,
            base: 0,
            at: 0,
            paths: VecDeque::from([path]),
        })
    }

    /// The log offset of the next byte, unless that is in the next file.
    pub fn end(&self) -> u64 {
        self.base + self.at
    }

    /// One pwrite: what does not fit any more goes to a new file as a whole.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = bytes.len() as u64;
        if self.at + length > self.size {
            self.roll(length)?;
        }
        self.file.write_all_at(bytes, self.at)?;
        self.at += length;
        if self.sync {
            self.file.sync_data()?;
        }
        Ok(())
    }

    fn roll(&mut self, length: u64) -> io::Result<()> {
        if length > self.size {
            let why = format!("{length} bytes at once into files of {}", self.size);
            return Err(io::Error::other(why));
        }
        self.base += self.size;
        self.at = 0;
        let (file, path) = reserve(&self.dir, self.base, self.size)?;
        self.file = file;
        self.paths.push_back(path);
        if self.paths.len() > KEPT + 1
            && let Some(oldest) = self.paths.pop_front()
        {
            remove_file(oldest)?;
        }
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        for path in &self.paths {
            let _ = remove_file(path); // someone may have been quicker
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn files_come_and_go() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path();
        let mut log = Log::open(dir, 8192, true).unwrap();
        log.write(&[1; 5000]).unwrap();
        log.write(&[2; 3192]).unwrap();
        assert_eq!((log.end(), names(dir).len()), (8192, 1));
        let path = dir.join(format!("{:020}", 0));
        assert_eq!(
            std::fs::read(&path).unwrap(),
            [vec![1; 5000], vec![2; 3192]].concat()
        );
        log.write(b"x").unwrap();
        assert_eq!((log.end(), names(dir).len()), (8193, 2));
        for _ in 0..10 {
            log.write(&[3; 8192]).unwrap();
        }
        let kept = names(dir);
        assert_eq!(kept.len(), KEPT + 1);
        assert_eq!(kept[KEPT], format!("{:020}", 11 * 8192));
        assert!(log.write(&[0; 8193]).is_err());
        drop(log);
        assert!(names(dir).is_empty());
    }
}
