//! What happens to a queue beside appending and reading: being brought in line with the log, and
//! losing its oldest files.

use crate::consume_queue::ConsumeQueue;
use crate::error::Result;
use pyrmq_format::cq_entry::{CqEntry, Entry, Layout};
use pyrmq_format::queue_ext;
use std::sync::atomic::Ordering;

impl ConsumeQueue {
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

    pub(super) fn read_entry(&self, position: u64) -> Result<Entry> {
        let mut slot = vec![0; self.layout.unit()];
        let mut reader = self.files.reader();
        reader.read(position * self.unit(), &mut slot)?;
        Ok(self.layout.read(&slot, position))
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
            self.erase_behind(keep * self.unit())?;
            self.flushed
                .store(flushed.min(self.files.end()), Ordering::Release);
            self.cut_ext()?;
        }
        self.read_bounds()
    }

    /// How many entries are of records that do not end before `phys`; `most` or more count as that.
    /// What `is_one` says of an entry decides whether it counts.
    pub fn entries_behind(
        &self,
        phys: u64,
        most: u64,
        is_one: impl Fn(&CqEntry) -> bool,
    ) -> Result<u64> {
        if self.max_phys() <= phys as i64 {
            return Ok(0);
        }
        let end = self.positions().1;
        let (mut at, mut count) = (self.end_before(phys)?, 0);
        while count < most
            && let Some((position, entry)) = self.next_entry(at, end)?
        {
            count += u64::from(entry.cq.phys >= phys as i64 && is_one(&entry.cq));
            at = position + 1;
        }
        Ok(count)
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
