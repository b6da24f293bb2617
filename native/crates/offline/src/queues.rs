//! The queue folders: which files, how far they reach, and their entries.

use super::file_size::common_size;
use super::source::Source;
use pyrmq_format::cq_entry::{CqEntry, SIZE};
use pyrmq_format::names::file_name;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Entries that a queue keeps at hand: 40,000 queues must fit in memory.
const WINDOW: usize = 51;
/// An entry that was never written.
pub const EMPTY: CqEntry = CqEntry {
    phys: 0,
    size: 0,
    tags_code: 0,
};

/// One file: the byte that its name states, and its length.
pub type QueueFile = (u64, u64);

pub struct Queue {
    pub topic: String,
    pub id: u32,
    dir: PathBuf,
    /// Sorted.
    pub files: Vec<QueueFile>,
    /// There is a `consumequeue_ext` folder, so tag codes may be places in its files.
    pub has_ext: bool,
    window: Vec<u8>,
    /// Byte of the queue at which the window starts.
    start: u64,
}

#[derive(Default)]
pub struct QueueSet {
    pub queues: Vec<Queue>,
    /// What a file should have (mappedFileSizeConsumeQueue), found out from lengths and names.
    pub file_size: u64,
    places: BTreeMap<(String, u32), usize>,
}

impl QueueSet {
    /// `dir`: the queue's folder.
    pub fn add(&mut self, topic: &str, id: u32, dir: &Path, mut files: Vec<QueueFile>) {
        files.sort_unstable();
        let root = dir.ancestors().nth(3).unwrap_or(dir);
        let ext = root
            .join("consumequeue_ext")
            .join(topic)
            .join(id.to_string());
        self.queues.push(Queue {
            topic: topic.to_owned(),
            id,
            dir: dir.to_path_buf(),
            files,
            has_ext: ext.is_dir(),
            window: Vec::new(),
            start: 0,
        });
    }

    /// Orders by topic and queue id; after the last `add`.
    pub fn sort(&mut self) {
        self.queues
            .sort_by(|a, b| (&a.topic, a.id).cmp(&(&b.topic, b.id)));
        let sizes = self.queues.iter().flat_map(|q| {
            let gaps = q.files.windows(2).map(|w| w[1].0 - w[0].0);
            q.files.iter().map(|f| f.1).chain(gaps)
        });
        self.file_size = common_size(sizes.filter(|s| s % SIZE as u64 == 0));
        self.places = self
            .queues
            .iter()
            .enumerate()
            .map(|(i, q)| ((q.topic.clone(), q.id), i))
            .collect();
    }

    pub fn find(&self, topic: &str, id: u32) -> Option<usize> {
        self.places.get(&(topic.to_owned(), id)).copied()
    }

    pub fn has_topic(&self, topic: &str) -> bool {
        let from = (topic.to_owned(), 0);
        let next = self.places.range(from..).next();
        next.is_some_and(|((t, _), _)| t == topic)
    }
}

impl Queue {
    /// The queue offsets that the files can hold: the first, and the one behind the last.
    pub fn files_span(&self) -> (i64, i64) {
        let first = self.files.first().map_or(0, |f| f.0 / SIZE as u64);
        let last = self.files.last().map_or(0, |f| (f.0 + f.1) / SIZE as u64);
        (first as i64, last as i64)
    }

    /// The file that holds a byte of the queue.
    fn file_of(&self, byte: u64) -> Option<QueueFile> {
        let index = self.files.partition_point(|f| f.0 <= byte).checked_sub(1)?;
        let (base, len) = self.files[index];
        (byte - base + SIZE as u64 <= len).then_some((base, len))
    }

    /// Path (below the store's folder) and byte of an entry, to be shown.
    pub fn place(&self, offset: i64) -> (String, Option<u64>) {
        let dir = format!("consumequeue/{}/{}", self.topic, self.id);
        let byte = offset.max(0) as u64 * SIZE as u64;
        match self.files.partition_point(|f| f.0 <= byte).checked_sub(1) {
            Some(i) => {
                let base = self.files[i].0;
                (format!("{dir}/{}", file_name(base)), Some(byte - base))
            }
            None => (dir, None),
        }
    }

    fn open(&self, base: u64) -> io::Result<Source> {
        Source::open(&self.dir.join(file_name(base)), SIZE)
    }

    /// The entry of a queue offset; None where no file is or the file cannot be read.
    pub fn entry(&mut self, offset: i64) -> Option<CqEntry> {
        let byte = u64::try_from(offset).ok()?.checked_mul(SIZE as u64)?;
        let end = byte + SIZE as u64;
        if byte < self.start || end > self.start + self.window.len() as u64 {
            let (base, _) = self.file_of(byte)?;
            let mut source = self.open(base).ok()?;
            let piece = source.bytes(byte - base, WINDOW * SIZE).ok()?;
            let whole = piece.len() - piece.len() % SIZE;
            self.window.clear();
            self.window.extend_from_slice(&piece[..whole]);
            self.start = byte;
        }
        let at = (byte - self.start) as usize;
        self.window.get(at..at + SIZE).map(CqEntry::read)
    }

    /// First offset at or after `offset` whose entry may be something other than a hole.
    pub fn skip_hole(&self, offset: i64) -> i64 {
        let byte = offset.max(0) as u64 * SIZE as u64;
        for &(base, len) in &self.files {
            if base + len <= byte {
                continue;
            }
            let from = byte.saturating_sub(base);
            let found = match self.open(base) {
                Ok(source) => source.next_data(from),
                Err(_) => Some(from),
            };
            if let Some(at) = found {
                return ((base + at.max(from)) / SIZE as u64) as i64;
            }
        }
        self.files_span().1
    }

    /// Offset behind the last entry: where the first invalid one of the last file that begins with
    /// a valid one stands.
    pub fn end(&self) -> i64 {
        for &(base, len) in self.files.iter().rev() {
            let Ok(mut source) = self.open(base) else {
                continue;
            };
            let mut valid = |n: u64| match source.bytes(n * SIZE as u64, SIZE) {
                Ok(raw) if raw.len() == SIZE => CqEntry::read(raw).is_valid(),
                _ => false,
            };
            if !valid(0) {
                continue;
            }
            let (mut low, mut high) = (1, len / SIZE as u64);
            while low < high {
                let mid = low + (high - low) / 2;
                if valid(mid) {
                    low = mid + 1;
                } else {
                    high = mid;
                }
            }
            return (base / SIZE as u64 + low) as i64;
        }
        self.files_span().0
    }

    /// First offset whose record the log, which starts at `log_min`, still has.
    pub fn min(&mut self, log_min: u64, end: i64) -> i64 {
        let (mut low, mut high) = (self.files_span().0, end);
        while low < high {
            let mid = low + (high - low) / 2;
            match self.entry(mid) {
                Some(e) if e != CqEntry::PRE_BLANK && e.phys >= log_min as i64 => high = mid,
                _ => low = mid + 1,
            }
        }
        low
    }

    /// Physical offset behind the last entry's record; -1 without one.
    pub fn max_phys(&mut self) -> i64 {
        let end = self.end();
        match self.entry(end - 1) {
            Some(e) if e.is_valid() && e != CqEntry::PRE_BLANK => e.end(),
            _ => -1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_holes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("T/0");
        std::fs::create_dir_all(&path).unwrap();
        let mut bytes = vec![0; 200];
        for n in 0..13 {
            let entry = CqEntry {
                phys: 1000 + n * 100,
                size: 100,
                tags_code: 7,
            };
            let at = (n as usize % 10) * SIZE;
            entry.write(&mut bytes[at..]);
            if n == 9 {
                std::fs::write(path.join(file_name(0)), &bytes).unwrap();
                bytes.fill(0);
            }
        }
        std::fs::write(path.join(file_name(200)), &bytes).unwrap();
        let mut set = QueueSet::default();
        set.add("T", 0, &path, vec![(200, 200), (0, 200)]);
        set.sort();
        assert_eq!(set.file_size, 200);
        assert!(set.has_topic("T") && !set.has_topic("S"));
        let q = &mut set.queues[0];
        assert_eq!((q.files_span(), q.end(), q.max_phys()), ((0, 20), 13, 2300));
        assert_eq!((q.min(0, 13), q.min(1250, 13), q.min(9999, 13)), (0, 3, 13));
        assert_eq!(q.entry(13), Some(EMPTY));
        assert_eq!(q.entry(20), None);
        assert_eq!(q.place(12).1, Some(40));
    }
}
