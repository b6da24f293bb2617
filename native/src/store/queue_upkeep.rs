//! What happens to a queue beside appending and reading: finding its end at start, being brought in
//! line with the log, and losing its oldest files.

use crate::format::cq_entry::{BATCH_SIZE, CqEntry, Entry, Layout};
use crate::format::queue_ext;
use crate::store::consume_queue::{ConsumeQueue, SCAN};
use crate::store::error::{Result, StoreError};
use crate::store::resident;
use std::sync::atomic::Ordering;

/// Recovery reads so many bytes of a queue at first, and `SCAN` at a time if there are more.
const FIRST_SCAN: usize = 4 << 10;

impl ConsumeQueue {
    /// Appends one entry (recovery, tests); its `base` must be `max_offset` in a simple queue.
    /// Where the file says the same already, nothing is written.
    pub fn append(&self, entry: &Entry) -> Result<()> {
        if !self.confirm(entry)? {
            self.write(&mut self.ready(1)?, entry, &[])?;
        }
        Ok(())
    }

    /// What the files seem to have may not be on disk (a flush failed): recovery writes all of it
    /// anew, so that the pages count as changed.
    pub fn distrust(&self) {
        self.distrusted.store(true, Ordering::Relaxed);
    }

    /// Takes over what the file has at the end if it is this entry. Not with an extension file,
    /// where an entry says nothing of its unit.
    fn confirm(&self, entry: &Entry) -> Result<bool> {
        let (byte, unit) = (self.files.end(), self.layout.unit());
        let distrusted = self.distrusted.load(Ordering::Relaxed);
        if distrusted
            || self.ext.is_some()
            || byte + unit as u64 > self.stale_end.load(Ordering::Relaxed)
        {
            return Ok(false);
        }
        let Some(segment) = self.files.map(byte)? else {
            return Ok(false);
        };
        let at = (byte - segment.base()) as usize;
        let mut wanted = [0; BATCH_SIZE];
        self.layout.write(entry, &mut wanted[..unit]);
        resident::bring(segment.mapping(), at, at + unit, segment.path())?;
        // SAFETY: there is a stale end in recovery only, and entries were found up to there.
        if unsafe { segment.stored(at, unit) } != Some(&wanted[..unit]) {
            return Ok(false);
        }
        segment.publish(at + unit);
        self.set_bounds(byte + unit as u64, entry);
        Ok(true)
    }

    /// Leaves the places before `offset` blank: their records are damaged or gone, and those that
    /// follow keep their offsets. Only recovery calls this.
    pub fn skip_to(&self, offset: i64) -> Result<()> {
        while self.layout == Layout::Simple && self.max_offset() < offset {
            let base = self.max_offset();
            let phys = self.max_phys();
            self.append(&Entry {
                cq: CqEntry::PRE_BLANK,
                base,
                count: 1,
                store_time: 0,
            })?;
            self.max_phys.store(phys, Ordering::Release);
        }
        Ok(())
    }

    /// Starts a queue without records at `offset` (a log whose older files are gone).
    pub fn start_at(&self, offset: i64) -> Result<()> {
        self.files.cut(0)?;
        self.stale_end.store(0, Ordering::Relaxed); // nothing is left to be confirmed
        self.cut_ext()?;
        if self.layout == Layout::Simple {
            self.files.set_end(offset as u64 * self.unit());
        }
        self.flushed.store(self.files.end(), Ordering::Release);
        self.min.store(offset, Ordering::Release);
        self.max.store(offset, Ordering::Release);
        Ok(())
    }

    /// Whether the slots before the first record were filled with blanks.
    pub fn starts_blank(&self) -> bool {
        let (first, end) = self.positions();
        first < end && self.read_entry(first).is_ok_and(|e| e.cq.is_blank())
    }

    /// Finds the end of the valid entries. False if what stands behind is not empty, which a
    /// clean stop does not leave.
    pub fn recover(&self, clean: bool) -> Result<bool> {
        self.files.set_end(self.files.files_end());
        let end = self.end_of_valid()?;
        let mut sound = !self.files.has_data_behind(end)?;
        // Erased by `finish` only: until then a recovery that is killed can be begun anew.
        self.torn.store(!sound, Ordering::Relaxed);
        self.files.set_end(end);
        self.settle()?;
        let flushed = if clean { end } else { 0 };
        self.flushed.store(flushed, Ordering::Release);
        match self.cut_ext() {
            Err(e @ StoreError::Damaged { .. }) => {
                log::warn!("{e}");
                self.files.cut(0)?;
                self.settle()?;
                sound = false;
            }
            done => done?,
        }
        Ok(sound)
    }

    /// Byte behind the last valid entry before the first invalid one, looked for from the
    /// third-last file on.
    fn end_of_valid(&self) -> Result<u64> {
        let (unit, size) = (self.layout.unit(), self.files.file_size() as u64);
        let end = self.files.end();
        let first = self.files.first().unwrap_or(end);
        let mut at = end.saturating_sub(3 * size).max(first);
        let mut reader = self.files.reader();
        let mut buffer = vec![0; FIRST_SCAN / unit * unit];
        while at < end {
            let n = buffer.len().min((size - at % size) as usize);
            reader.read(at, &mut buffer[..n])?;
            for slot in buffer[..n].chunks_exact(unit) {
                if !self
                    .layout
                    .is_valid(&self.layout.read(slot, at / unit as u64))
                {
                    return Ok(at);
                }
                at += unit as u64;
            }
            buffer.resize(SCAN / unit * unit, 0);
        }
        Ok(end)
    }

    /// Ends the extension file behind the unit of the last entry that has one. An error if entries
    /// refer to units that are gone.
    fn cut_ext(&self) -> Result<()> {
        let (first, end) = self.positions();
        let ext = self.ext();
        let lost = ext.is_none_or(|ext| ext.is_empty());
        // Without units one pass is enough: no entry may refer to any.
        let from = if lost { end.max(first + 1) - 1 } else { first };
        let last = self.last_address(from, end)?;
        match ext {
            Some(ext) if !lost || last.is_none() => ext.recover(last),
            _ if last.is_none() => Ok(()),
            _ => Err(StoreError::Damaged {
                path: self.files.dir(),
                message: "its entries refer to an extension file that is gone".into(),
            }),
        }
    }

    /// The address in the last entry from `from` to before `to` that has one.
    fn last_address(&self, from: u64, to: u64) -> Result<Option<i64>> {
        let unit = self.layout.unit();
        let per_file = (self.files.file_size() / unit) as u64;
        let mut reader = self.files.reader();
        let mut buffer = vec![0; FIRST_SCAN / unit * unit];
        let mut end = to;
        while end > from {
            let file_start = (end - 1) - (end - 1) % per_file;
            let most = (buffer.len() / unit) as u64;
            let start = end.saturating_sub(most).max(file_start).max(from);
            let block = &mut buffer[..(end - start) as usize * unit];
            reader.read(start * self.unit(), block)?;
            for slot in block.chunks_exact(unit).rev() {
                let code = CqEntry::read(slot).tags_code;
                if queue_ext::is_address(code) {
                    return Ok(Some(code));
                }
            }
            end = start;
            buffer.resize(SCAN / unit * unit, 0);
        }
        Ok(None)
    }

    /// Reads the bounds from the last entry before the end.
    fn settle(&self) -> Result<()> {
        let (first, end) = self.positions();
        let last = if first < end {
            Some(self.read_entry(end - 1)?)
        } else {
            None
        };
        let max = match self.layout {
            Layout::Simple => end as i64,
            Layout::Batch => last.map_or(0, |e| e.next()),
        };
        let mut phys = last.map(|e| e.cq);
        let mut before = end.saturating_sub(1);
        while phys.is_some_and(|e| e.is_blank()) {
            phys = if before > first {
                before -= 1;
                Some(self.read_entry(before)?.cq)
            } else {
                None
            };
        }
        self.max_phys
            .store(phys.map_or(-1, |e| e.end()), Ordering::Release);
        self.max.store(max, Ordering::Release);
        Ok(())
    }

    fn read_entry(&self, position: u64) -> Result<Entry> {
        let mut slot = vec![0; self.layout.unit()];
        let mut reader = self.files.reader();
        reader.read(position * self.unit(), &mut slot)?;
        Ok(self.layout.read(&slot, position))
    }

    /// Physical offset and size in the entry that the files have at a queue offset, also behind what
    /// counts so far. None where the files do not say: batches, extension files, no entry. Only recovery
    /// calls this.
    pub fn found_entry(&self, offset: i64) -> Result<Option<(i64, i32)>> {
        let Ok(position) = u64::try_from(offset) else {
            return Ok(None);
        };
        let byte = position.saturating_mul(self.unit());
        let first = self.files.first().unwrap_or(u64::MAX);
        let there = (first..self.files.files_end()).contains(&byte);
        if self.layout != Layout::Simple || self.ext.is_some() || !there {
            return Ok(None);
        }
        let entry = self.read_entry(position)?.cq;
        Ok((entry.is_valid() && !entry.is_blank()).then_some((entry.phys, entry.size)))
    }

    /// Drops entries of records at or behind `phys`.
    pub fn truncate_phys(&self, phys: u64) -> Result<()> {
        let (first, end) = self.positions();
        if first == end || self.max_phys() <= phys as i64 {
            return Ok(());
        }
        let keep = self.end_before(phys)?;
        if keep < end {
            let flushed = self.flushed.load(Ordering::Acquire);
            self.files.cut(keep * self.unit())?;
            self.flushed
                .store(flushed.min(self.files.end()), Ordering::Release);
            self.cut_ext()?;
        }
        self.settle()
    }

    /// Sets the queue back to the entries of records before `phys`. Those that follow stay in the
    /// files until they are confirmed or written anew; `finish` erases what is left of them.
    pub fn rewind(&self, phys: u64) -> Result<()> {
        if self.ext.is_some() {
            return self.truncate_phys(phys);
        }
        let (first, end) = self.positions();
        if first == end || self.max_phys() <= phys as i64 {
            return Ok(());
        }
        let keep = self.end_before(phys)?;
        self.stale_end
            .fetch_max(end * self.unit(), Ordering::Relaxed);
        self.files.rewind(keep * self.unit());
        self.settle()
    }

    /// Ends recovery: what stands behind the last entry is erased.
    pub fn finish(&self) -> Result<()> {
        let torn = self.torn.swap(false, Ordering::Relaxed);
        if self.stale_end.swap(0, Ordering::Relaxed) > self.files.end() || torn {
            self.files.cut(self.files.end())?;
        }
        Ok(())
    }

    /// Position behind the last entry of a record that ends before `phys`.
    fn end_before(&self, phys: u64) -> Result<u64> {
        self.partition(|e| self.layout.is_valid(e) && e.cq.end() <= phys as i64)
    }

    /// How many entries are of records that do not end before `phys`.
    pub fn entries_behind(&self, phys: u64) -> Result<u64> {
        if self.max_phys() <= phys as i64 {
            return Ok(0);
        }
        Ok(self.positions().1 - self.end_before(phys)?)
    }

    /// Moves `min_offset` to the first entry of a record that the log still has.
    pub fn correct_min(&self, log_min: u64) -> Result<()> {
        // Read before the positions: the writer moves it last, and what it appends from here on is
        // not to be skipped.
        let max = self.max_offset();
        let (first, end) = self.positions();
        let gone = |e: &Entry| e.cq.phys < log_min as i64;
        if first < end && self.max_phys() < 0 {
            // Nothing but blanks.
            self.min.store(max, Ordering::Release);
            return Ok(());
        }
        if first == end {
            return Ok(()); // no entry: the bounds were set when it was begun
        }
        let head = self.read_entry(first)?;
        let position = if !head.cq.is_blank() && !gone(&head) {
            first // nothing was deleted, as mostly
        } else {
            self.partition(gone)?
        };
        let min = match self.next_entry(position, end)? {
            Some((_, entry)) => entry.base,
            None => max,
        };
        self.min.fetch_max(min, Ordering::AcqRel);
        Ok(())
    }

    /// Gives out nothing before `offset` any more: its topic was deleted. The files go with their records.
    pub fn hide_before(&self, offset: i64) {
        self.min
            .fetch_max(offset.min(self.max_offset()), Ordering::AcqRel);
    }

    /// Deletes leading files whose last entry is of a record that the log has no more, never the
    /// last file. Returns how many.
    pub fn trim(&self, log_min: u64) -> Result<usize> {
        let per_file = (self.files.file_size() / self.layout.unit()) as u64;
        let (first, end) = self.positions();
        let mut until = 0;
        let mut position = first - first % per_file + per_file;
        while position <= end {
            // A blank at the end of the file says nothing: the next entry decides.
            match self.next_entry(position - 1, end)? {
                Some((_, entry)) if entry.cq.phys < log_min as i64 => {}
                _ => break,
            }
            until = position * self.unit();
            position += per_file;
        }
        self.correct_min(log_min)?; // before the files go, so that no reader looks there
        let mut removed = self.files.drop_before(until)?;
        if let (Some(ext), true) = (self.ext(), removed > 0) {
            let code = self.read_entry(self.positions().0)?.cq.tags_code;
            if queue_ext::is_address(code) {
                removed += ext.trim(code)?;
            }
        }
        Ok(removed)
    }
}
