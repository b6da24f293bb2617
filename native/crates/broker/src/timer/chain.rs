//! What waits in one slot, in the order of arrival, read in parts.
//!
//! The timer log has the chain of a slot from the newest unit back. Here it is followed once to
//! the oldest, and a mark is kept for every `PART` units; then the parts are read from the oldest to the
//! newest. So a slot may have any number of units.

use super::log::TimerLog;
use pyrmq_format::timer::{LogEntry, NOWHERE, Slot, Unit};
use pyrmq_store::Result;

/// Units that are in memory at a time.
const PART: usize = 1 << 15;

pub struct Chain {
    /// The time of its slot, in units of the precision.
    pub time: i64,
    precision: i64,
    /// The newest unit of the chain, and the one before its oldest, which was dealt with before.
    pub newest: i64,
    dealt_with: i64,
    /// The newest unit of each part, the oldest part last.
    marks: Vec<i64>,
    part: Vec<Unit>,
    next: usize,
    /// Units that are not readable any more: positions in damaged places.
    pub broken: bool,
}

impl Chain {
    /// Follows the chain of a slot back to where `dealt_with` stands; `deletes` is called with each
    /// delete in it.
    pub fn open(
        log: &mut TimerLog,
        slot: &Slot,
        precision: i64,
        dealt_with: i64,
        mut deletes: impl FnMut(&Unit) -> Result<()>,
    ) -> Result<Chain> {
        let mut chain = Chain {
            time: slot.time,
            precision,
            newest: slot.last,
            dealt_with,
            marks: Vec::new(),
            part: Vec::new(),
            next: 0,
            broken: false,
        };
        let mut position = slot.last;
        for count in 0.. {
            let Some(unit) = chain.unit(log, position)? else {
                break;
            };
            if count % PART == 0 {
                chain.marks.push(position);
            }
            if unit.deletes() {
                deletes(&unit)?;
            }
            position = unit.previous;
        }
        if chain.broken {
            chain.find_all(log, &mut deletes)?;
        }
        Ok(chain)
    }

    /// The unit of this chain at a position; None where the chain ends.
    fn unit(&mut self, log: &mut TimerLog, position: i64) -> Result<Option<Unit>> {
        // Where the chain ends says nothing of `Slot::first`: after a kill the wheel may have a slot that was
        // delivered since, and got new units that begin a chain of their own.
        if position < NOWHERE {
            self.broken = true;
            return Ok(None);
        }
        if position <= self.dealt_with || position == NOWHERE {
            return Ok(None);
        }
        if position < log.min() as i64 {
            return Ok(None); // deleted with the messages that it was of
        }
        match log.read(position as u64, false)? {
            LogEntry::Unit(unit) if self.is_member(&unit) && unit.previous < position => {
                Ok(Some(unit))
            }
            _ => {
                self.broken = true;
                Ok(None)
            }
        }
    }

    fn is_member(&self, unit: &Unit) -> bool {
        unit.time_ms().div_euclid(self.precision) == self.time
    }

    /// Finds the units of a chain that cannot be followed: all of the log is read for them.
    fn find_all(
        &mut self,
        log: &mut TimerLog,
        deletes: &mut impl FnMut(&Unit) -> Result<()>,
    ) -> Result<()> {
        log::error!(
            path:% = log.dir().display();
            "timers: the chain of slot {} in {} is damaged: what waits in it is looked for in all of \
             the timer log",
            self.time,
            log.dir().display()
        );
        self.marks.clear();
        self.part.clear();
        let mut position = log.aligned(log.min().max((self.dealt_with + 1) as u64));
        while position < log.end() {
            let entry = log.read(position, true)?;
            if let LogEntry::Unit(unit) = &entry
                && position as i64 > self.dealt_with
                && self.is_member(unit)
            {
                if unit.deletes() {
                    deletes(unit)?;
                }
                self.newest = self.newest.max(position as i64);
                self.part.push(*unit);
            }
            // Behind a damaged place units go on where they would.
            position = log.after(position, &entry).unwrap_or_else(|| {
                let next = position + Unit::SIZE as u64;
                let file = position - position % log.file_size() + log.file_size();
                if next + Unit::BLANK_SIZE as u64 > file {
                    file
                } else {
                    next
                }
            });
        }
        Ok(())
    }

    /// Units that follow, in the order of arrival, `most` of them; `taken` has to say how many of
    /// them were dealt with. None is left if there are none.
    pub fn ahead(&mut self, log: &mut TimerLog, most: usize) -> Result<&[Unit]> {
        if self.next == self.part.len()
            && let Some(mark) = self.marks.pop()
        {
            let until = self.marks.len();
            let mut part = Vec::new();
            let mut position = mark;
            while part.len() < PART {
                let unit = match self.unit(log, position) {
                    Ok(unit) => unit,
                    Err(e) => {
                        self.marks.push(mark);
                        debug_assert_eq!(self.marks.len(), until + 1);
                        return Err(e);
                    }
                };
                let Some(unit) = unit else {
                    break;
                };
                part.push(unit);
                position = unit.previous;
            }
            part.reverse();
            self.part = part;
            self.next = 0;
        }
        let rest = &self.part[self.next..];
        Ok(&rest[..rest.len().min(most)])
    }

    /// The next `count` units are dealt with.
    pub fn taken(&mut self, count: usize) {
        self.next += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pyrmq_format::timer::MAGIC_DELETE;

    fn log(dir: &tempfile::TempDir) -> TimerLog {
        TimerLog::open(dir.path().join("timerlog"), 1 << 20).unwrap()
    }

    /// Two slots in turns, and what is read of the first.
    fn slots(log: &mut TimerLog, count: i64) -> Slot {
        let mut last = [NOWHERE; 2];
        for n in 0..2 * count {
            let i = (n % 2) as usize;
            let unit = Unit {
                previous: last[i],
                magic: if n == 4 { 1 | MAGIC_DELETE } else { 1 },
                base: 10_000,
                delay: 1000 * i as i32 + 5,
                phys: n,
                size: 1,
                topic_hash: 0,
            };
            last[i] = log.append(&unit).unwrap() as i64;
        }
        log.write().unwrap();
        Slot {
            time: 10,
            first: 0,
            last: last[0],
            count: count as i32,
            magic: 0,
        }
    }

    fn all(log: &mut TimerLog, slot: &Slot, dealt_with: i64) -> (Vec<i64>, usize) {
        let mut deletes = 0;
        let count = |_: &Unit| {
            deletes += 1;
            Ok(())
        };
        let mut chain = Chain::open(log, slot, 1000, dealt_with, count).unwrap();
        let mut found = Vec::new();
        loop {
            let units = chain.ahead(log, 7).unwrap();
            let count = units.len();
            found.extend(units.iter().map(|unit| unit.phys));
            if count == 0 {
                return (found, deletes);
            }
            chain.taken(count);
        }
    }

    #[test]
    fn units_come_in_the_order_of_arrival_whatever_their_number() {
        for count in [1, 2, 40, PART as i64, 2 * PART as i64 + 1] {
            let dir = tempfile::tempdir().unwrap();
            let mut log = log(&dir);
            let slot = slots(&mut log, count);
            let (found, deletes) = all(&mut log, &slot, NOWHERE);
            assert_eq!(found, (0..count).map(|n| 2 * n).collect::<Vec<_>>());
            assert_eq!(deletes, usize::from(count > 2));
        }
    }

    #[test]
    fn what_was_dealt_with_before_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log(&dir);
        let slot = slots(&mut log, 10);
        assert_eq!(all(&mut log, &slot, 6 * 52).0, [8, 10, 12, 14, 16, 18]);
    }

    #[test]
    fn a_damaged_chain_is_found_in_the_log() {
        use std::os::unix::fs::FileExt;
        let dir = tempfile::tempdir().unwrap();
        let mut log1 = log(&dir);
        let slot = slots(&mut log1, 10);
        let path = dir.path().join("timerlog/00000000000000000000");
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&[9; 52], 52 * 8).unwrap();
        let mut log = log(&dir);
        log.cut(log1.end()).unwrap();
        let (found, _) = all(&mut log, &slot, NOWHERE);
        assert_eq!(found, [0, 2, 4, 6, 10, 12, 14, 16, 18]);
    }

    #[test]
    fn a_chain_that_leads_nowhere_is_found_in_the_log() {
        use std::os::unix::fs::FileExt;
        for previous in [-7, i64::MIN] {
            let dir = tempfile::tempdir().unwrap();
            let mut log1 = log(&dir);
            let slot = slots(&mut log1, 10);
            let path = dir.path().join("timerlog/00000000000000000000");
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            let at = 52 * 8 + 4;
            file.write_all_at(&previous.to_be_bytes(), at).unwrap();
            let mut log = log(&dir);
            log.cut(log1.end()).unwrap();
            let (found, _) = all(&mut log, &slot, NOWHERE);
            let whole: Vec<_> = (0..10).map(|n| 2 * n).collect();
            assert_eq!(found, whole, "{previous}");
        }
    }
}
