//! The timer wheel: a slot for each unit of time, in memory, and the file `timerwheel` that it is kept in.
//!
//! A slot is blank once all of it is delivered, so every slot that is not waits. The memory is that of
//! pages with such slots: pages of zeros are never touched. The file is written by `Timers::flush`, page
//! by page, only where something changed. [TimerWheel]

use pyrmq_format::timer::{SLOTS, Slot, WHEEL_SIZE, slot_index};
use pyrmq_store::{Result, StoreError};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const PAGE: usize = 4096;
const PAGES: usize = WHEEL_SIZE / PAGE;
const WORDS: usize = SLOTS / 64;
const _: () = assert!(SLOTS.is_multiple_of(64));

pub struct Wheel {
    path: PathBuf,
    bytes: Vec<u8>,
    /// Which slots are not blank, a bit each.
    used: Vec<u64>,
    /// Pages that differ from the file.
    dirty: Vec<bool>,
    /// Messages that wait, deletes taken off: the sum of all counts.
    waiting: i64,
}

/// A page of the wheel as it is to be written.
pub struct Page {
    index: usize,
    bytes: Vec<u8>,
}

impl Wheel {
    /// A wheel without slots.
    pub fn blank(path: PathBuf) -> Self {
        Wheel {
            path,
            bytes: vec![0; WHEEL_SIZE],
            used: vec![0; WORDS],
            dirty: vec![false; PAGES],
            waiting: 0,
        }
    }

    /// Reads the file. An error where it is no wheel; None where there is none.
    pub fn open(path: PathBuf) -> Result<Option<Self>> {
        let io = |what, e: &std::io::Error| StoreError::io(what, &path, e);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(io("open", &e)),
        };
        let len = file.metadata().map_err(|e| io("stat", &e))?.len();
        if len == 0 {
            return Ok(None);
        }
        if len != WHEEL_SIZE as u64 {
            return Err(damaged(
                &path,
                format!("{len} bytes, a timer wheel has {WHEEL_SIZE}"),
            ));
        }
        let mut wheel = Wheel::blank(path.clone());
        let mut chunk = vec![0; 256 * PAGE];
        for start in (0..WHEEL_SIZE).step_by(chunk.len()) {
            let chunk = &mut chunk[..(WHEEL_SIZE - start).min(256 * PAGE)];
            file.read_exact(chunk).map_err(|e| io("read", &e))?;
            for (i, page) in chunk.chunks(PAGE).enumerate() {
                // What is zero stays untouched, and takes no memory.
                if page.iter().any(|&b| b != 0) {
                    let at = start + i * PAGE;
                    wheel.bytes[at..at + page.len()].copy_from_slice(page);
                    wheel.find_used(at, page.len())?;
                }
            }
        }
        Ok(Some(wheel))
    }

    fn find_used(&mut self, at: usize, len: usize) -> Result<()> {
        for index in at / Slot::SIZE..(at + len) / Slot::SIZE {
            let slot = self.at(index);
            if slot == Slot::read(&Slot::BLANK) {
                continue;
            }
            if slot.time < 0
                || slot_index(slot.time) != index
                || slot.first < 0
                || slot.last < slot.first
            {
                let text = format!("slot {index} is impossible: {slot:?}");
                return Err(damaged(&self.path, text));
            }
            self.used[index / 64] |= 1 << (index % 64);
            self.waiting += slot.count as i64;
        }
        Ok(())
    }

    fn at(&self, index: usize) -> Slot {
        let at = index * Slot::SIZE;
        Slot::read(self.bytes[at..at + Slot::SIZE].try_into().unwrap())
    }

    fn is_used(&self, index: usize) -> bool {
        self.used[index / 64] & (1 << (index % 64)) != 0
    }

    /// What waits at the place of a time, of this time or of another.
    pub fn any(&self, time: i64) -> Option<Slot> {
        let index = slot_index(time);
        self.is_used(index).then(|| self.at(index))
    }

    /// What waits for a time.
    pub fn get(&self, time: i64) -> Option<Slot> {
        self.any(time).filter(|slot| slot.time == time)
    }

    /// Sets the slot of its time.
    pub fn set(&mut self, slot: Slot) {
        let index = slot_index(slot.time);
        if let Some(before) = self.any(slot.time) {
            self.waiting -= before.count as i64;
        }
        self.waiting += slot.count as i64;
        self.write(index, &slot.encode());
        self.used[index / 64] |= 1 << (index % 64);
    }

    /// Makes the slot of a time blank.
    pub fn clear(&mut self, time: i64) {
        let index = slot_index(time);
        if let Some(before) = self.any(time) {
            self.waiting -= before.count as i64;
            self.write(index, &Slot::BLANK);
            self.used[index / 64] &= !(1 << (index % 64));
        }
    }

    fn write(&mut self, index: usize, bytes: &[u8; Slot::SIZE]) {
        let at = index * Slot::SIZE;
        self.bytes[at..at + Slot::SIZE].copy_from_slice(bytes);
        self.dirty[at / PAGE] = true;
    }

    /// The first time from `from` on that something waits for.
    pub fn next(&self, from: i64) -> Option<i64> {
        let mut offset = 0;
        let mut later: Option<i64> = None;
        while offset < SLOTS {
            let index = slot_index(from + offset as i64);
            let word = self.used[index / 64] >> (index % 64);
            if word == 0 {
                offset += 64 - index % 64;
                continue;
            }
            offset += word.trailing_zeros() as usize;
            if offset >= SLOTS {
                break;
            }
            let time = from + offset as i64;
            let slot = self.at(slot_index(time));
            if slot.time == time {
                return Some(time);
            }
            // A clock that was far ahead left it: its time is rounds away.
            if slot.time > from {
                later = Some(later.map_or(slot.time, |other| other.min(slot.time)));
            }
            offset += 1;
        }
        later
    }

    /// All slots that wait, in the order of their places.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        let words = self.used.iter().enumerate().filter(|(_, word)| **word != 0);
        let indexes = words.flat_map(|(w, &word)| {
            (0..64)
                .filter(move |bit| word & (1 << bit) != 0)
                .map(move |bit| w * 64 + bit)
        });
        indexes.map(|index| self.at(index))
    }

    pub fn is_empty(&self) -> bool {
        self.used.iter().all(|&word| word == 0)
    }

    pub fn waiting(&self) -> i64 {
        self.waiting
    }

    /// The pages that changed since the last call; they count as written.
    pub fn take_dirty(&mut self) -> Vec<Page> {
        let mut pages = Vec::new();
        for index in 0..PAGES {
            if std::mem::take(&mut self.dirty[index]) {
                let bytes = self.bytes[index * PAGE..(index + 1) * PAGE].to_vec();
                pages.push(Page { index, bytes });
            }
        }
        pages
    }

    /// Pages whose writing failed.
    pub fn keep_dirty(&mut self, pages: &[Page]) {
        for page in pages {
            self.dirty[page.index] = true;
        }
    }
}

/// Writes pages to the file and waits for the disk; makes the file where there is none.
pub fn write_pages(path: &Path, pages: &[Page]) -> Result<()> {
    if pages.is_empty() {
        return Ok(());
    }
    let io = |what, e: &std::io::Error| StoreError::io(what, path, e);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(|e| io("open", &e))?;
    file.set_len(WHEEL_SIZE as u64)
        .map_err(|e| io("extend", &e))?;
    for page in pages {
        file.write_all_at(&page.bytes, (page.index * PAGE) as u64)
            .map_err(|e| io("write", &e))?;
    }
    file.sync_data().map_err(|e| io("flush", &e))
}

fn damaged(path: &Path, message: String) -> StoreError {
    StoreError::Damaged {
        path: path.into(),
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn slot(time: i64, count: i32) -> Slot {
        Slot {
            time,
            first: 52,
            last: 104,
            count,
            magic: 0,
        }
    }

    fn wheel() -> (tempfile::TempDir, Wheel) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("timerwheel");
        (dir, Wheel::blank(path))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_next_slot_is_the_earliest(
            start in 0i64..4 * SLOTS as i64,
            times in prop::collection::btree_map(0i64..SLOTS as i64, 1i32..9, 0..20),
            gone in prop::collection::vec(0usize..20, 0..10),
        ) {
            let (_dir, mut wheel) = wheel();
            let mut model: BTreeMap<i64, i32> = BTreeMap::new();
            for (at, count) in times {
                model.insert(start + at, count);
                wheel.set(slot(start + at, count));
            }
            for n in gone {
                if let Some(&time) = model.keys().nth(n) {
                    model.remove(&time);
                    wheel.clear(time);
                }
            }
            prop_assert_eq!(wheel.waiting(), model.values().map(|&n| n as i64).sum::<i64>());
            prop_assert_eq!(wheel.is_empty(), model.is_empty());
            let mut from = start;
            let mut met = Vec::new();
            while let Some(time) = wheel.next(from) {
                met.push(time);
                from = time + 1;
            }
            prop_assert_eq!(met, model.into_keys().collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_a_clock_far_ahead_left_is_not_in_the_way() {
        let (_dir, mut wheel) = wheel();
        let round = SLOTS as i64;
        wheel.set(slot(10 + 3 * round, 1));
        wheel.set(slot(20, 1));
        assert_eq!(wheel.next(0), Some(20));
        assert_eq!(wheel.next(21), Some(10 + 3 * round));
        assert_eq!(wheel.get(10), None);
        assert!(wheel.any(10).is_some());
    }

    #[test]
    fn the_file_has_what_was_flushed() {
        let (dir, mut wheel) = wheel();
        let path = dir.path().join("timerwheel");
        assert!(Wheel::open(path.clone()).unwrap().is_none());
        for time in [5, 1_700_000_000, 1_700_000_001] {
            wheel.set(slot(time, 2));
        }
        wheel.clear(5);
        write_pages(&path, &wheel.take_dirty()).unwrap();
        assert!(wheel.take_dirty().is_empty());
        let again = Wheel::open(path.clone()).unwrap().unwrap();
        assert_eq!(again.waiting(), 4);
        let slots: Vec<_> = again.slots().map(|slot| slot.time).collect();
        assert_eq!(slots, [1_700_000_000, 1_700_000_001]);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        // A slot at another's place.
        file.write_all_at(&slot(8, 1).encode(), 9 * 32).unwrap();
        assert!(Wheel::open(path.clone()).is_err());
        file.set_len(77).unwrap();
        assert!(Wheel::open(path.clone()).is_err());
        file.set_len(0).unwrap();
        assert!(Wheel::open(path).unwrap().is_none());
    }
}
