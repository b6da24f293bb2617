//! The files of a log that is followed: open from one look to the next, so that a look costs a read.

use pyrmq_arrow::{Open, ReadAt, open_regular};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Files that are kept open.
const KEPT: usize = 4;

/// Files that stay open from one batch to the next.
#[derive(Default)]
pub struct Kept {
    files: Mutex<Vec<(String, Arc<File>)>>,
    /// Bytes read at once.
    pub step: AtomicUsize,
}

impl Kept {
    fn get(&self, path: &str) -> io::Result<Arc<File>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, file)) = files.iter().find(|(name, _)| name == path) {
            return Ok(file.clone());
        }
        let file = Arc::new(open_regular(Path::new(path))?);
        if files.len() >= KEPT {
            files.remove(0);
        }
        files.push((path.to_owned(), file.clone()));
        Ok(file)
    }

    pub fn read(&self, path: &str, to: &mut [u8], at: u64) -> io::Result<usize> {
        KeptFile(self.get(path)?).read_at(to, at)
    }

    /// Whether another file has taken the place of one that is open.
    pub fn is_other(&self, path: &str) -> bool {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, file)) = files.iter().find(|(name, _)| name == path) else {
            return false;
        };
        match (file.metadata(), std::fs::metadata(path)) {
            (Ok(own), Ok(there)) => (own.dev(), own.ino()) != (there.dev(), there.ino()),
            _ => true,
        }
    }

    pub fn forget(&self, path: &str) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|(name, _)| name != path);
    }

    pub fn keep_only(&self, listed: &[super::store::File]) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|(name, _)| listed.iter().any(|file| file.2 == *name));
    }
}

impl Open for Kept {
    fn open(&self, path: &str) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(KeptFile(self.get(path)?)))
    }

    fn step(&self) -> usize {
        self.step.load(Ordering::Relaxed).max(1)
    }
}

struct KeptFile(Arc<File>);

impl ReadAt for KeptFile {
    fn read_at(&mut self, to: &mut [u8], at: u64) -> io::Result<usize> {
        let mut have = 0;
        while have < to.len() {
            match FileExt::read_at(&*self.0, &mut to[have..], at + have as u64) {
                Ok(0) => break,
                Ok(count) => have += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(have)
    }
}
