//! The index: index files in the order of their names, which find physical offsets by message key.
//! [IndexService]

use super::clock;
use super::error::{Result, StoreError};
use super::guard::{create_dirs, remove_if_there, sync_dir};
use super::index_file::IndexFile;
use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard};
use pyrmq_format::index::{Shape, is_file_name, name_after};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

#[derive(Clone, Debug)]
pub struct IndexConfig {
    /// The folder, made when the first file is.
    pub dir: PathBuf,
    /// Slots of a file. [maxHashSlotNum]
    pub slots: u32,
    /// Places for entries of a file, the unused first one included. [maxIndexNum]
    pub entries: u32,
}

/// The index of a store. `put` and whatever changes the list of files exclude one another; queries
/// take no lock.
pub struct Index {
    dir: PathBuf,
    shape: Shape,
    files: ArcSwap<Vec<Arc<IndexFile>>>,
    writer: Mutex<Writer>,
    /// End time of the newest full file that is on disk.
    finished_time: AtomicI64,
    lost_files: AtomicBool,
}

/// An entry that is to be put.
#[derive(Clone, Copy, Debug)]
pub struct KeyEntry {
    pub key_hash: i32,
    /// Physical offset of the message, and its store time in ms.
    pub phys: u64,
    pub store_timestamp: i64,
}

/// The right to put entries.
pub struct IndexWriter<'i> {
    index: &'i Index,
    writer: MutexGuard<'i, Writer>,
    /// The file that is written.
    file: Option<Arc<IndexFile>>,
}

impl IndexWriter<'_> {
    /// The file that is written next, if there is one.
    pub fn file(&self) -> Option<Arc<IndexFile>> {
        self.file.clone()
    }

    /// Puts one entry. Messages come in the order of their offsets.
    pub fn put(&mut self, entry: &KeyEntry) -> Result<()> {
        let KeyEntry {
            key_hash,
            phys,
            store_timestamp,
        } = *entry;
        let phys = phys as i64;
        if let Some(file) = &self.file
            && file.put(key_hash, phys, store_timestamp)?
        {
            return Ok(());
        }
        let file = self.index.roll(&mut self.writer)?;
        let put = file.put(key_hash, phys, store_timestamp).map(drop);
        self.file = Some(file);
        put
    }
}

struct Writer {
    /// The highest file name that was ever seen.
    last_name: String,
    /// How many files there are before the first damaged one.
    whole: usize,
}

impl Index {
    /// Maps the folder's files. A damaged one is deleted, with a message in the log, as everything
    /// in it can be made again from the commit log; foreign files stay. `recover` must follow.
    pub fn open(cfg: IndexConfig) -> Result<Self> {
        let shape = Shape::new(cfg.slots, cfg.entries).ok_or_else(|| {
            let (slots, entries) = (cfg.slots, cfg.entries);
            StoreError::Illegal(format!(
                "an index file cannot have {slots} slots and {entries} entries"
            ))
        })?;
        let (mut files, mut whole) = (Vec::new(), None);
        let mut last_name = String::new();
        for (name, path) in names(&cfg.dir)? {
            last_name = name;
            match IndexFile::open(path.clone(), shape) {
                Ok(file) => files.push(Arc::new(file)),
                Err(fault @ StoreError::Damaged { .. }) => {
                    log::warn!(path:% = fault.path().display(); "index file deleted as damaged: {fault}");
                    delete(&path);
                    whole.get_or_insert(files.len());
                }
                Err(fault) => return Err(fault),
            }
        }
        let lost_files = AtomicBool::new(whole.is_some());
        let whole = whole.unwrap_or(files.len());
        Ok(Index {
            dir: cfg.dir,
            shape,
            files: ArcSwap::from_pointee(files),
            writer: Mutex::new(Writer { last_name, whole }),
            finished_time: AtomicI64::new(0),
            lost_files,
        })
    }

    /// Drops what cannot be relied on and returns the physical offset of the last message in the
    /// index, from which on messages have to be indexed again (that one too: not all of its keys
    /// may be there). None if the index is empty. `index_msg_timestamp` is the checkpoint's.
    ///
    /// After a stop that was not clean only files that were on disk as a whole are kept: those that
    /// end before that time, and the first that ends at it. There is never a gap: behind a file
    /// that is dropped here, or was damaged, none is kept. The checkpoint needs the (possibly lower)
    /// `finished_time` before new entries are put: files that are made again are not on disk yet.
    pub fn recover(&self, clean: bool, index_msg_timestamp: i64) -> Result<Option<u64>> {
        let mut writer = self.writer.lock();
        let whole = std::mem::replace(&mut writer.whole, usize::MAX);
        let files = self.files.load();
        // The one that ends at that time may be the last that was flushed: the next may end at it too.
        let mut is_last = false;
        let trusted = |file: &&Arc<IndexFile>| {
            let h = file.header();
            // One that was not full was never flushed as a whole, whatever its times say.
            let was_flushed = file.is_full() && h.end_time <= index_msg_timestamp && !is_last;
            is_last |= h.end_time == index_msg_timestamp;
            clean || (h.begin_time <= h.end_time && was_flushed)
        };
        let keep = files.iter().take(whole).take_while(trusted).count();
        self.finished_time
            .store(index_msg_timestamp, Ordering::Release);
        Ok(self.keep(&files, keep))
    }

    /// Drops files with entries of messages at or behind the log's end, `log_end`, which a crash has
    /// lost: new messages at these offsets would count as indexed. Returns as `recover`, after which
    /// this is called.
    pub fn truncate_phys(&self, log_end: u64) -> Result<Option<u64>> {
        let _writer = self.writer.lock();
        let files = self.files.load();
        let fits = |file: &&Arc<IndexFile>| (file.end_phys() as u64) < log_end;
        Ok(self.keep(&files, files.iter().take_while(fits).count()))
    }

    /// Keeps the first `keep` files and returns where they end.
    fn keep(&self, files: &[Arc<IndexFile>], keep: usize) -> Option<u64> {
        let (kept, dropped) = files.split_at(keep);
        for file in dropped {
            let path = file.path();
            log::info!(path:% = path.display(); "index file {} is dropped and made again", path.display());
            delete(path);
        }
        if !dropped.is_empty() {
            self.lost_files.store(true, Ordering::Release);
            self.files.store(Arc::new(kept.to_vec()));
        }
        let finished = kept.iter().rfind(|f| f.is_full());
        let finished = finished.map_or(0, |f| f.end_time());
        self.finished_time.fetch_min(finished, Ordering::AcqRel);
        let end = kept.last().map(|f| f.header())?;
        (end.has_entries() || end.end_phys > 0).then_some(end.end_phys as u64)
    }

    /// Whether files were dropped, so that their entries have to be put again.
    pub fn lost_files(&self) -> bool {
        self.lost_files.load(Ordering::Acquire)
    }

    /// Puts the entry of a message under one key. Messages come in the order of their offsets.
    pub fn put(&self, key_hash: i32, phys: u64, store_timestamp: i64) -> Result<()> {
        self.writer().put(&KeyEntry {
            key_hash,
            phys,
            store_timestamp,
        })
    }

    /// For entries in a row. Nobody else puts meanwhile.
    pub fn writer(&self) -> IndexWriter<'_> {
        let writer = self.writer.lock();
        IndexWriter {
            index: self,
            file: self.files.load().last().cloned(),
            writer,
        }
    }

    fn roll(&self, writer: &mut Writer) -> Result<Arc<IndexFile>> {
        let files = self.files.load();
        let (end_time, end_phys) = ends(&files)?;
        if files.is_empty() {
            create_dirs(&self.dir)?;
        }
        let now = clock::local_time_name(clock::now_ms())?;
        let name = name_after(now, &writer.last_name).ok_or_else(|| {
            let last = &writer.last_name;
            StoreError::Illegal(format!("no index file name is higher than {last}"))
        })?;
        let path = self.dir.join(&name);
        let file = Arc::new(IndexFile::create(path, self.shape, end_time, end_phys)?);
        sync_dir(&self.dir)?;
        writer.last_name = name;
        let mut files = files.to_vec();
        files.push(file.clone());
        self.files.store(Arc::new(files));
        Ok(file)
    }

    /// Physical offsets of messages under a key hash with a store time in `begin..=end`, newest
    /// first, at most `max`. Times are a second exact, and other keys may have the same hash: the
    /// caller compares the records, and so may have to ask for more than it wants.
    /// [IndexService.queryOffset]
    pub fn query(&self, key_hash: i32, max: usize, begin: i64, end: i64) -> Result<Vec<u64>> {
        let mut hits = Vec::new();
        for file in self.files.load().iter().rev() {
            let header = file.load_header()?;
            if header.overlaps(begin, end) {
                file.select(key_hash, &mut hits, max, begin, end)?;
            }
            if header.begin_time < begin || hits.len() >= max {
                break;
            }
        }
        Ok(hits)
    }

    /// Store time and physical offset of the last message in the index, (0, 0) if there is none.
    pub fn last_update(&self) -> Result<(i64, i64)> {
        ends(&self.files.load())
    }

    /// Deletes leading files of which no message is left in the log, never the last one. Returns
    /// how many. [IndexService.deleteExpiredFile]
    pub fn trim(&self, min_phys: u64) -> Result<usize> {
        let _writer = self.writer.lock();
        let files = self.files.load();
        let may_go = files.len().saturating_sub(1);
        let mut gone = 0;
        for file in &files[..may_go] {
            if file.load_header()?.end_phys as u64 >= min_phys {
                break;
            }
            gone += 1;
        }
        for (i, file) in files[..gone].iter().enumerate() {
            if let Err(e) = remove_if_there(file.path()) {
                self.files.store(Arc::new(files[i..].to_vec()));
                return Err(e);
            }
        }
        if gone > 0 {
            self.files.store(Arc::new(files[gone..].to_vec()));
        }
        Ok(gone)
    }

    /// Writes full files that are not on disk yet to it, with `all` every file. Returns the new
    /// indexMsgTimestamp (end time of the newest full file on disk) if it has grown.
    pub fn flush(&self, all: bool) -> Result<Option<i64>> {
        let mut newest = 0;
        for file in self.files.load().iter() {
            file.load_header()?;
            if file.is_finished() || ((all || file.is_full()) && file.flush()?) {
                newest = file.end_time();
            }
        }
        let before = self.finished_time.fetch_max(newest, Ordering::AcqRel);
        Ok((newest > before).then_some(newest))
    }

    /// The indexMsgTimestamp that fits the files: end time of the newest full one on disk.
    pub fn finished_time(&self) -> i64 {
        self.finished_time.load(Ordering::Acquire)
    }

    /// Nothing is said to be on disk of a time behind `time`: the clock was set back.
    pub fn limit_finished_time(&self, time: i64) {
        self.finished_time.fetch_min(time, Ordering::AcqRel);
    }

    /// Whether the last file is full: keys of its last message may be missing with the next file.
    pub fn ends_full(&self) -> bool {
        self.files.load().last().is_some_and(|f| f.is_full())
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.files.load().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn ends(files: &[Arc<IndexFile>]) -> Result<(i64, i64)> {
    let last = files.last().map(|f| f.load_header()).transpose()?;
    Ok(last.map_or((0, 0), |h| (h.end_time, h.end_phys)))
}

/// Names and paths of the folder's index files, in order.
fn names(dir: &Path) -> Result<Vec<(String, PathBuf)>> {
    let io = |e: std::io::Error| StoreError::io("list", dir, &e);
    let entries = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.map_err(io)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let path = entry.map_err(io)?.path();
        match path.file_name().and_then(|n| n.to_str()) {
            Some(name) if is_file_name(name) && std::fs::metadata(&path).map_err(io)?.is_file() => {
                names.push((name.to_owned(), path));
            }
            _ => {
                log::warn!(path:% = path.display(); "not an index file, left alone: {}", path.display())
            }
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Removes a file that is useless but does no harm either.
fn delete(path: &Path) {
    if let Err(e) = remove_if_there(path) {
        log::warn!(path:% = path.display(); "a useless file of the index cannot be deleted: {e}");
    }
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
