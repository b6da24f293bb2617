//! A queue at start: where its entries end, what of them can be believed, and being set back to be
//! filled anew from the log.
//!
//! A power cut writes pages of a queue that were not flushed, or does not, in any order and over any
//! number of files. What was flushed is a prefix of the queue: the entries of all records that the
//! checkpoint speaks of. So the end is not searched for in "the last files". It is where entries of
//! records before a place of the log end, found by bisection, as each slot behind is either no entry or
//! one of a later record. What stands there says whether that was true (`damage_before`).

use crate::consume_queue::{ConsumeQueue, SCAN};
use crate::error::Result;
use crate::resident;
use pyrmq_format::cq_entry::{BATCH_SIZE, Entry, Layout};
use pyrmq_format::queue_ext;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Recovery reads so many bytes of a queue at first, and `SCAN` at a time if there are more.
const FIRST_SCAN: usize = 4 << 10;
/// So many files before the last one that has entries are read whole.
const FILES_LOOKED_AT: u64 = 2;

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

    /// Finds an end of valid entries behind which no valid ones follow at once. False if what stands
    /// behind is not empty, which a clean stop does not leave; a power cut does.
    pub fn recover(&self, clean: bool) -> Result<bool> {
        self.files.set_end(self.files.files_end());
        let end = self.end_of_valid()?;
        let is_torn = self.files.has_data_behind(end)?;
        // Erased by `finish` only: until then a recovery that is killed can be begun anew.
        self.torn.store(is_torn, Ordering::Relaxed);
        self.files.set_end(end);
        self.read_bounds()?;
        let flushed = if clean { end } else { 0 };
        self.flushed.store(flushed, Ordering::Release);
        Ok(!is_torn)
    }

    /// Byte behind the last valid entry before the first invalid one, looked for from two files before
    /// the last one that begins with an entry: the files behind may have been made ahead of a flush
    /// that never came, however many they are.
    fn end_of_valid(&self) -> Result<u64> {
        let size = self.files.file_size() as u64;
        let end = self.files.end();
        let first = self.files.first().unwrap_or(end);
        if first == end {
            return Ok(end);
        }
        let mut at = self.last_begun(first, end - size)?;
        at = at.saturating_sub(FILES_LOOKED_AT * size).max(first);
        self.first_invalid(self.last_begun(first, at)?, end)
    }

    /// The last file from `first` to `at` that begins with a valid entry; `first` if none does.
    fn last_begun(&self, first: u64, mut at: u64) -> Result<u64> {
        while at > first && !self.has_entry(at / self.unit())? {
            at -= self.files.file_size() as u64;
        }
        Ok(at)
    }

    fn has_entry(&self, position: u64) -> Result<bool> {
        Ok(self.layout.is_valid(&self.read_entry(position)?))
    }

    /// Where the valid entries from byte `at` on end, at `end` at last. Where one is not of a later
    /// record than the one before, either may be wrong: they end before both.
    fn first_invalid(&self, mut at: u64, end: u64) -> Result<u64> {
        let (unit, size) = (self.layout.unit(), self.files.file_size() as u64);
        let mut reader = self.files.reader();
        let mut buffer = vec![0; FIRST_SCAN / unit * unit];
        let mut last: Option<(u64, Entry)> = None;
        while at < end {
            let n = buffer.len().min((size - at % size) as usize);
            reader.read(at, &mut buffer[..n])?;
            for slot in buffer[..n].chunks_exact(unit) {
                let entry = self.layout.read(slot, at / unit as u64);
                if !self.layout.is_valid(&entry) {
                    return Ok(at);
                }
                if !entry.cq.is_blank() {
                    if let Some((place, before)) = last
                        && (entry.cq.phys <= before.cq.phys || entry.base < before.next())
                    {
                        return Ok(place);
                    }
                    last = Some((at, entry));
                }
                at += unit as u64;
            }
            buffer.resize(SCAN / unit * unit, 0);
        }
        Ok(end)
    }

    /// Whether the queue lacks entries of records before `phys`, which all were on disk at the last
    /// stop: then the physical offset up to which it has those that the log, which begins at `log_min`,
    /// still has. `is_real`: whether the record of an entry is the one of its place, None if there is no
    /// whole record. Not seen are entries that are missing inside of a file and whose pages were written.
    pub fn damage_before(
        &self,
        phys: u64,
        log_min: u64,
        mut is_real: impl FnMut(&Entry) -> Result<Option<bool>>,
    ) -> Result<Option<i64>> {
        if phys <= log_min {
            return Ok(None);
        }
        let keep = self.trusted_before(phys, log_min, &mut is_real)?;
        let until = match self.flaw_in(self.end_before(log_min)?..keep)? {
            Some(flaw) => flaw,
            None if self.stands_behind(keep, log_min as i64..phys as i64, is_real)? => keep,
            None => return Ok(None),
        };
        let (first, _) = self.positions();
        let last = self.last_where(first, until, |e| is_told(e).then_some(e.cq.end()))?;
        Ok(Some(last.unwrap_or(-1)))
    }

    /// As `end_before`, also where some of what is no entry looks like an earlier one: a block of another
    /// place, or half of an entry whose other half is blank. The entry in front of the end follows on those
    /// before it, and no record says that it is of another place.
    fn trusted_before(
        &self,
        phys: u64,
        log_min: u64,
        mut is_real: impl FnMut(&Entry) -> Result<Option<bool>>,
    ) -> Result<u64> {
        let (first, mut high) = self.positions();
        loop {
            let keep = self.end_before_in(first..high, phys)?;
            let Some(last) = keep.checked_sub(1).filter(|last| *last >= first) else {
                return Ok(keep);
            };
            let start = last.saturating_sub((FIRST_SCAN / self.layout.unit()) as u64);
            let (start, stop) = (start.max(first) * self.unit(), keep * self.unit());
            let until = self.first_invalid(start, stop)?;
            if until < stop {
                high = until / self.unit();
                continue;
            }
            let entry = self.read_entry(last)?;
            if entry.cq.phys < log_min as i64 || is_real(&entry)? != Some(false) {
                return Ok(keep);
            }
            high = last;
        }
    }

    /// Where the part of the first file starts that has a damaged entry at one of its ends or pages that
    /// were never written.
    fn flaw_in(&self, positions: Range<u64>) -> Result<Option<u64>> {
        let per_file = self.files.file_size() as u64 / self.unit();
        let mut start = positions.start;
        while start < positions.end {
            let stop = (start - start % per_file + per_file).min(positions.end);
            if !self.has_entry(start)? || !self.has_entry(stop - 1)? {
                return Ok(Some(start));
            }
            let (from, to) = (start * self.unit(), stop * self.unit());
            if let Some(hole) = self.files.hole_in(from, to)? {
                // Some file systems call a hole what is not written back yet.
                let inside = hole.div_ceil(self.unit());
                if inside < stop && !self.has_entry(inside)? {
                    return Ok(Some(start));
                }
            }
            start = stop;
        }
        Ok(None)
    }

    /// Whether real entries of records before `phys` stand behind one of a record behind it: then that one
    /// is damage.
    pub fn has_real_behind(
        &self,
        phys: u64,
        log_min: u64,
        is_real: impl FnMut(&Entry) -> Result<Option<bool>>,
    ) -> Result<bool> {
        let position = self.end_before(phys)?;
        self.stands_behind(position, log_min as i64..phys as i64, is_real)
    }

    /// Whether the files have a real entry of a record of this part of the log at or behind a position.
    /// A block of another place, or half of an entry whose other half is blank, only looks like one.
    fn stands_behind(
        &self,
        position: u64,
        part: Range<i64>,
        mut is_real: impl FnMut(&Entry) -> Result<Option<bool>>,
    ) -> Result<bool> {
        let (layout, unit) = (self.layout, self.layout.unit());
        let mut found = Ok(false);
        self.files
            .look_behind(position * self.unit(), unit, |byte, bytes| {
                let start = byte / unit as u64;
                for (n, slot) in (start..).zip(bytes.chunks_exact(unit)) {
                    let entry = layout.read(slot, n);
                    let may_be = layout.is_valid(&entry) && is_told(&entry);
                    if may_be && part.contains(&entry.cq.phys) {
                        found = is_real(&entry).map(|real| real == Some(true));
                        if !matches!(found, Ok(false)) {
                            return false;
                        }
                    }
                }
                true
            })?;
        found
    }

    /// Whether a place of a simple queue before its end has neither an entry nor a blank.
    pub fn is_damaged_at(&self, offset: i64) -> Result<bool> {
        let (first, end) = self.positions();
        match u64::try_from(offset) {
            Ok(at) if self.layout == Layout::Simple && (first..end).contains(&at) => {
                self.has_entry(at).map(|has| !has)
            }
            _ => Ok(false),
        }
    }

    /// Whether the extension file has the unit of the last entry that refers to one.
    pub fn has_units(&self) -> Result<bool> {
        let (first, end) = self.positions();
        let ext = self.ext().filter(|ext| !ext.is_empty());
        // Without units one look is enough: no entry may refer to any.
        let from = if ext.is_none() {
            end.max(first + 1) - 1
        } else {
            first
        };
        match (ext, self.last_address(from, end)?) {
            (_, None) => Ok(true),
            (Some(ext), Some(address)) => ext.has(address),
            (None, Some(_)) => Ok(false),
        }
    }

    /// Drops all entries, to be made anew.
    pub fn discard(&self) -> Result<()> {
        self.files.cut(0)?;
        self.read_bounds()
    }

    /// Ends the extension file behind the unit of the last entry that has one, which is there.
    pub fn cut_ext(&self) -> Result<()> {
        let (first, end) = self.positions();
        match self.ext() {
            Some(ext) => ext.recover(self.last_address(first, end)?),
            None => Ok(()),
        }
    }

    /// The address in the last entry from position `from` to before `to` that has one.
    fn last_address(&self, from: u64, to: u64) -> Result<Option<i64>> {
        self.last_where(from, to, |e| {
            Some(e.cq.tags_code).filter(|&code| queue_ext::is_address(code))
        })
    }

    /// What `pick` says of the last entry from position `from` to before `to` that it says something of.
    fn last_where<T>(
        &self,
        from: u64,
        to: u64,
        mut pick: impl FnMut(&Entry) -> Option<T>,
    ) -> Result<Option<T>> {
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
            for (n, slot) in block.chunks_exact(unit).enumerate().rev() {
                if let Some(found) = pick(&self.layout.read(slot, start + n as u64)) {
                    return Ok(Some(found));
                }
            }
            end = start;
            buffer.resize(SCAN / unit * unit, 0);
        }
        Ok(None)
    }

    /// Reads the bounds from the last entries before the end.
    pub(super) fn read_bounds(&self) -> Result<()> {
        let (first, end) = self.positions();
        let max = match self.layout {
            Layout::Simple => end as i64,
            Layout::Batch if first < end => self.read_entry(end - 1)?.next(),
            Layout::Batch => 0,
        };
        let phys = self.last_where(first, end, |e| is_told(e).then_some(e.cq.end()))?;
        self.max_phys.store(phys.unwrap_or(-1), Ordering::Release);
        self.max.store(max, Ordering::Release);
        Ok(())
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

    /// Sets the queue back to the entries of records before `phys` (see `damage_before` for the rest).
    /// Those that follow stay in the files until they are confirmed or written anew; `finish` erases what
    /// is left of them.
    pub fn rewind(
        &self,
        phys: u64,
        log_min: u64,
        is_real: impl FnMut(&Entry) -> Result<Option<bool>>,
    ) -> Result<()> {
        let (first, end) = self.positions();
        let keep = self.trusted_before(phys, log_min, is_real)?;
        // Blanks at the end are of records that cannot be read.
        if first == end || self.only_blanks(keep..end)? {
            return Ok(());
        }
        self.stale_end
            .fetch_max(end * self.unit(), Ordering::Relaxed);
        self.files.rewind(keep * self.unit());
        self.read_bounds()
    }

    fn only_blanks(&self, part: Range<u64>) -> Result<bool> {
        let mut reader = self.files.reader();
        let other = self.next_where(&mut reader, |cq| !cq.is_blank(), part.start, part.end)?;
        Ok(other.is_none())
    }

    /// Ends recovery: what stands behind the last entry is erased.
    pub fn finish(&self) -> Result<()> {
        let torn = self.torn.swap(false, Ordering::Relaxed);
        if self.stale_end.swap(0, Ordering::Relaxed) > self.files.end() || torn {
            self.erase_behind(self.files.end())?;
        }
        Ok(())
    }

    pub(super) fn erase_behind(&self, end: u64) -> Result<()> {
        self.erased.store(true, Ordering::Relaxed);
        self.files.cut(end)
    }

    /// Whether something behind the end was erased since the last call, which may not be so on disk.
    pub fn take_erased(&self) -> bool {
        self.erased.swap(false, Ordering::Relaxed)
    }

    /// Position behind the entries of records that end before `phys`: behind it are entries of later
    /// records, and what is none.
    pub(super) fn end_before(&self, phys: u64) -> Result<u64> {
        let (first, end) = self.positions();
        self.end_before_in(first..end, phys)
    }

    fn end_before_in(&self, part: Range<u64>, phys: u64) -> Result<u64> {
        let is_before = |e: &Entry| self.layout.is_valid(e) && e.cq.end() <= phys as i64;
        self.partition_where(part, |cq| !cq.is_blank(), is_before)
    }
}

/// Whether an entry says where a record is: a blank does not.
fn is_told(entry: &Entry) -> bool {
    !entry.cq.is_blank()
}
