//! The timer log: files of units that are only appended to, in the folder `timerlog`.
//!
//! Files have their full size from the start, as holes. What is appended is collected in memory and
//! written by `write`; what cannot be written stays there and is tried again. [TimerLog]

use pyrmq_format::names::{file_name, parse_file_name};
use pyrmq_format::timer::{LogEntry, Unit};
use pyrmq_store::{Result, StoreError};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes that are read of a file at a time to follow a chain, and to read from front to back.
const BLOCK: usize = 4096;
const AHEAD: usize = 1 << 20;
/// Bytes that may wait to be written: where the disk takes none, no more is enqueued.
const MOST_UNWRITTEN: usize = 1 << 20;

pub struct TimerLog {
    dir: PathBuf,
    file_size: u64,
    /// The first offsets of the files, oldest first.
    files: Vec<u64>,
    /// Where the next unit goes.
    end: u64,
    /// The file that is written.
    newest: Option<File>,
    /// What is not written yet, and where it begins.
    unwritten: Vec<u8>,
    written: u64,
    /// Part of a file, for who reads.
    block: Block,
}

#[derive(Default)]
struct Block {
    file: Option<(u64, File)>,
    from: u64,
    bytes: Vec<u8>,
}

impl TimerLog {
    /// The files of a folder. `end` is where the last one ends until `cut`. An error where they are not
    /// the files of one log.
    pub fn open(dir: PathBuf, file_size: u64) -> Result<Self> {
        let mut files = Vec::new();
        let io = |e: &std::io::Error| StoreError::io("read folder", &dir, e);
        match std::fs::read_dir(&dir) {
            Ok(entries) => {
                for entry in entries {
                    let path = entry.map_err(|e| io(&e))?.path();
                    files.extend(parse_file_name(&path));
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(io(&e)),
        }
        files.sort_unstable();
        let mut log = TimerLog {
            dir,
            file_size,
            files,
            end: 0,
            newest: None,
            unwritten: Vec::new(),
            written: 0,
            block: Block::default(),
        };
        log.check_files()?;
        log.end = log.files.last().map_or(0, |last| last + file_size);
        log.written = log.end;
        Ok(log)
    }

    fn check_files(&mut self) -> Result<()> {
        for (i, &base) in self.files.iter().enumerate() {
            let path = self.path(base);
            let len = std::fs::metadata(&path)
                .map_err(|e| StoreError::io("stat", &path, &e))?
                .len();
            let is_last = i + 1 == self.files.len();
            let follows = i == 0 || base == self.files[i - 1] + self.file_size;
            if !base.is_multiple_of(self.file_size) || !follows {
                return Err(self.damaged(base, "it does not follow the file before it".into()));
            }
            if len > self.file_size || len < self.file_size && !is_last {
                let text = format!("{len} bytes, not {}", self.file_size);
                return Err(self.damaged(base, text));
            }
            if len < self.file_size {
                // A copy or a kill cut it: what it still has is kept.
                let file = OpenOptions::new().write(true).open(&path);
                file.and_then(|file| file.set_len(self.file_size))
                    .map_err(|e| StoreError::io("extend", &path, &e))?;
            }
        }
        Ok(())
    }

    fn damaged(&self, base: u64, message: String) -> StoreError {
        StoreError::Damaged {
            path: self.path(base),
            message,
        }
    }

    fn path(&self, base: u64) -> PathBuf {
        self.dir.join(file_name(base))
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn file_size(&self) -> u64 {
        self.file_size
    }

    /// Where its first file begins.
    pub fn min(&self) -> u64 {
        self.files.first().copied().unwrap_or(self.end)
    }

    /// Where the next unit goes.
    pub fn end(&self) -> u64 {
        self.end
    }

    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// The log ends at `end`: what stood behind is zero again.
    pub fn cut(&mut self, end: u64) -> Result<()> {
        self.newest = None;
        self.block = Block::default();
        self.unwritten.clear();
        while let Some(&base) = self.files.last().filter(|&&base| base >= end && base > 0) {
            let path = self.path(base);
            std::fs::remove_file(&path).map_err(|e| StoreError::io("remove", &path, &e))?;
            self.files.pop();
        }
        if let Some(&base) = self.files.last()
            && end < base + self.file_size
        {
            let path = self.path(base);
            // Shorter and longer again: it is a hole.
            let file = OpenOptions::new().write(true).open(&path);
            file.and_then(|file| {
                file.set_len(end - base)?;
                file.set_len(self.file_size)
            })
            .map_err(|e| StoreError::io("cut", &path, &e))?;
        }
        self.end = end;
        self.written = end;
        Ok(())
    }

    /// Removes all files; the next unit goes to `end`, which a file begins at.
    pub fn clear(&mut self) -> Result<()> {
        let end = self.end.next_multiple_of(self.file_size);
        for base in std::mem::take(&mut self.files) {
            let path = self.path(base);
            std::fs::remove_file(&path).map_err(|e| StoreError::io("remove", &path, &e))?;
        }
        self.cut(end)
    }

    /// Appends a unit and returns its position. `write` has to follow.
    pub fn append(&mut self, unit: &Unit) -> Result<u64> {
        if self.unwritten.len() >= MOST_UNWRITTEN {
            self.write()?;
        }
        let rest = (self.file_size - self.end % self.file_size) as usize;
        if self.is_in_file() && !Unit::fits(rest) {
            self.write()?;
            self.unwritten.extend_from_slice(&Unit::end_of_file(rest));
            let written = self.write();
            self.unwritten.clear();
            written?;
            self.end += (rest - Unit::BLANK_SIZE) as u64;
            self.written = self.end;
        }
        if !self.is_in_file() {
            self.write()?;
            self.create()?;
        }
        let position = self.end;
        self.unwritten.extend_from_slice(&unit.encode());
        self.end += Unit::SIZE as u64;
        Ok(position)
    }

    /// Whether the next unit goes to the newest file, or behind it.
    fn is_in_file(&self) -> bool {
        let newest = self.files.last();
        newest.is_some_and(|base| self.end < base + self.file_size)
    }

    fn create(&mut self) -> Result<()> {
        let path = self.path(self.end);
        std::fs::create_dir_all(&self.dir)
            .map_err(|e| StoreError::io("create folder", &self.dir, &e))?;
        let io = |what, e: &std::io::Error| StoreError::io(what, &path, e);
        if let Some(before) = self.newest.take() {
            before.sync_data().map_err(|e| io("flush", &e))?;
        }
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .map_err(|e| io("create", &e))?;
        file.set_len(self.file_size).map_err(|e| io("extend", &e))?;
        sync_dir(&self.dir)?;
        self.files.push(self.end);
        self.newest = Some(file);
        Ok(())
    }

    /// Writes what was appended to its file.
    pub fn write(&mut self) -> Result<()> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let base = self.written - self.written % self.file_size;
        let path = self.path(base);
        let io = |what, e: &std::io::Error| StoreError::io(what, &path, e);
        if self.newest.is_none() {
            let file = OpenOptions::new().write(true).open(&path);
            self.newest = Some(file.map_err(|e| io("open", &e))?);
        }
        let file = self.newest.as_ref().expect("opened above");
        file.write_all_at(&self.unwritten, self.written - base)
            .map_err(|e| io("write", &e))?;
        self.written += self.unwritten.len() as u64;
        self.end = self.written;
        self.unwritten.clear();
        Ok(())
    }

    /// What `flush` writes to the disk: the file that is written, once more.
    pub fn newest(&mut self) -> Result<Option<File>> {
        self.write()?;
        let clone = self.newest.as_ref().map(File::try_clone).transpose();
        clone.map_err(|e| StoreError::io("open", &self.dir, &e))
    }

    /// The unit at a position; None if none stands there. `ahead`: more that follows is read as well.
    pub fn read(&mut self, position: u64, ahead: bool) -> Result<LogEntry> {
        if position < self.min() || position >= self.end {
            return Ok(LogEntry::Nothing);
        }
        if position >= self.written {
            let at = (position - self.written) as usize;
            return Ok(Unit::read(&self.unwritten[at.min(self.unwritten.len())..]));
        }
        let block = &self.block;
        let size = Unit::SIZE as u64;
        let in_block =
            position >= block.from && position + size <= block.from + block.bytes.len() as u64;
        if !in_block {
            self.load(position, ahead)?;
        }
        let at = (position - self.block.from) as usize;
        Ok(Unit::read(self.block.bytes.get(at..).unwrap_or(&[])))
    }

    /// Reads a block that has the unit at `position`: at its beginning, or at its end as who follows a
    /// chain goes back.
    fn load(&mut self, position: u64, ahead: bool) -> Result<()> {
        let base = position - position % self.file_size;
        let path = self.path(base);
        let io = |what, e: &std::io::Error| StoreError::io(what, &path, e);
        if self.block.file.as_ref().is_none_or(|(of, _)| *of != base) {
            let file = File::open(&path).map_err(|e| io("open", &e))?;
            self.block.file = Some((base, file));
        }
        let until = (base + self.file_size).min(self.written);
        let (from, to) = match ahead {
            true => (position, (position + AHEAD as u64).min(until)),
            false => {
                let to = (position + Unit::SIZE as u64).min(until);
                (to.saturating_sub(BLOCK as u64).max(base), to)
            }
        };
        self.block.bytes.resize((to - from) as usize, 0);
        self.block.from = from;
        let Some((_, file)) = &self.block.file else {
            unreachable!("opened above")
        };
        let read = file.read_exact_at(&mut self.block.bytes, from - base);
        if let Err(e) = read {
            self.block.bytes.clear();
            return Err(io("read", &e));
        }
        Ok(())
    }

    /// The position behind the entry at `position`, if it is one.
    pub fn after(&self, position: u64, entry: &LogEntry) -> Option<u64> {
        match entry {
            LogEntry::Unit(_) => Some(position + Unit::SIZE as u64),
            LogEntry::EndOfFile => Some(position - position % self.file_size + self.file_size),
            LogEntry::Nothing => None,
        }
    }

    /// The last position at or before `position` that a unit may begin at.
    pub fn aligned(&self, position: u64) -> u64 {
        position - position % self.file_size % Unit::SIZE as u64
    }

    /// Position of the unit before one, in the log.
    pub fn before(&self, position: u64) -> Option<u64> {
        let position = position.min(self.end);
        let within = position % self.file_size;
        let before = if within >= Unit::SIZE as u64 {
            self.aligned(position) - Unit::SIZE as u64
        } else {
            // The last unit of the file before.
            let rest = (self.file_size - Unit::BLANK_SIZE as u64) / Unit::SIZE as u64;
            position.checked_sub(within + self.file_size)? + (rest - 1) * Unit::SIZE as u64
        };
        (before >= self.min()).then_some(before)
    }

    /// Deletes the oldest files whose last unit is of a message that the commit log has no more: those
    /// before physical offset `min_phys`. Not the newest. Returns how many.
    pub fn delete_before(&mut self, min_phys: u64) -> Result<usize> {
        let mut count = 0;
        while self.files.len() > 1 {
            let Some(last) = self.before(self.files[0] + self.file_size) else {
                break;
            };
            match self.read(last, false)? {
                LogEntry::Unit(unit) if unit.phys.max(0) as u64 >= min_phys => break,
                _ => {}
            }
            let path = self.path(self.files[0]);
            std::fs::remove_file(&path).map_err(|e| StoreError::io("remove", &path, &e))?;
            self.files.remove(0);
            self.block = Block::default();
            count += 1;
        }
        Ok(count)
    }
}

pub fn sync_dir(dir: &Path) -> Result<()> {
    let done = File::open(dir).and_then(|dir| dir.sync_all());
    done.map_err(|e| StoreError::io("flush folder", dir, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 52 * 3 + 16 + 20;

    fn unit(n: i64) -> Unit {
        Unit {
            previous: n - 1,
            magic: 1,
            base: 1000 * n,
            delay: 7,
            phys: 100 * n,
            size: 100,
            topic_hash: 5,
        }
    }

    fn log(dir: &tempfile::TempDir) -> TimerLog {
        TimerLog::open(dir.path().join("timerlog"), SIZE).unwrap()
    }

    fn all(log: &mut TimerLog) -> Vec<(u64, i64)> {
        let mut at = log.min();
        let mut found = Vec::new();
        while at < log.end() {
            let entry = log.read(at, true).unwrap();
            if let LogEntry::Unit(unit) = entry {
                found.push((at, unit.phys));
            }
            match log.after(at, &entry) {
                Some(next) => at = next,
                None => break,
            }
        }
        found
    }

    #[test]
    fn units_come_back_across_files() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log(&dir);
        let mut expected = Vec::new();
        for n in 0..10 {
            let at = log.append(&unit(n)).unwrap();
            expected.push((at, 100 * n));
            // Written or not: it can be read.
            assert_eq!(log.read(at, false).unwrap(), LogEntry::Unit(unit(n)));
            if n % 4 == 0 {
                log.write().unwrap();
            }
        }
        log.write().unwrap();
        assert_eq!(expected[3].0, SIZE, "three in a file");
        assert_eq!(all(&mut log), expected);
        for pair in expected.windows(2) {
            assert_eq!(log.before(pair[1].0), Some(pair[0].0));
        }
        assert_eq!(log.before(0), None);
        assert_eq!(log.before(log.end()), Some(expected[9].0));
        let mut again = super::TimerLog::open(log.dir().into(), SIZE).unwrap();
        assert_eq!(all(&mut again), expected);
        again.cut(expected[5].0).unwrap();
        assert_eq!(all(&mut again), expected[..5]);
        assert_eq!(again.append(&unit(77)).unwrap(), expected[5].0);
        again.write().unwrap();
        assert_eq!(all(&mut again).last(), Some(&(expected[5].0, 7700)));
        assert_eq!(again.delete_before(301).unwrap(), 1);
        assert_eq!(again.min(), SIZE);
        assert_eq!(again.delete_before(1 << 40).unwrap(), 0, "not the newest");
        again.clear().unwrap();
        assert_eq!(again.append(&unit(1)).unwrap(), 2 * SIZE);
    }

    #[test]
    fn a_file_that_was_cut_is_made_whole_and_others_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut first = log(&dir);
        for n in 0..5 {
            first.append(&unit(n)).unwrap();
        }
        first.write().unwrap();
        let path = first.path(SIZE);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(60).unwrap();
        let mut again = log(&dir);
        assert_eq!(all(&mut again).len(), 4);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), SIZE);
        file.set_len(SIZE + 1).unwrap();
        let open = || TimerLog::open(dir.path().join("timerlog"), SIZE);
        assert!(open().is_err());
        file.set_len(SIZE).unwrap();
        assert!(open().is_ok());
        std::fs::rename(&path, first.path(2 * SIZE)).unwrap();
        assert!(open().is_err());
    }
}
