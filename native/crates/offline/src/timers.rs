//! The files of timers: the wheel (`timerwheel`), the timer log (`timerlog/`) and their check point
//! (`config/timercheck`). [TimerWheel, TimerLog, TimerCheckpoint]
//!
//! What waits is in the commit log as well, so a broker of ours makes these files again where they are
//! damaged; RocketMQ's loses what the wheel does not have.

use super::files::{TIMER_LOG as LOG, TIMER_WHEEL as WHEEL, shown_path};
use super::settings::read_small;
use super::source::{SCATTERED, SEQUENTIAL, Source};
use pyrmq_format::names::{file_name, parse_file_name};
use pyrmq_format::timer::{LogEntry, SLOTS, Slot, TimerCheck, Unit, WHEEL_SIZE, slot_index};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

pub const CHECK: &str = "config/timercheck";
/// Lengths of a slot in ms that RocketMQ knows.
const PRECISIONS: [i64; 4] = [1000, 500, 200, 100];
/// Files of the timer log that are open at once while chains are followed.
const MAX_OPEN: usize = 16;

/// The timer log: files of one length that follow one another.
pub struct TimerLogFiles {
    dir: PathBuf,
    /// (position of its first byte, length), sorted.
    pub files: Vec<(u64, u64)>,
    pub file_size: u64,
    /// Names that are no position, below the folder.
    pub unknown: Vec<String>,
    open: VecDeque<(u64, Source)>,
    /// Bytes that are read at once.
    step: usize,
}

impl TimerLogFiles {
    pub fn read(root: &Path) -> io::Result<Self> {
        let dir = root.join(LOG);
        let (mut files, mut unknown) = (Vec::new(), Vec::new());
        match std::fs::read_dir(&dir) {
            Ok(entries) => {
                for entry in entries {
                    let path = entry?.path();
                    match (parse_file_name(&path), path.metadata()) {
                        (Some(base), Ok(meta)) if meta.is_file() => files.push((base, meta.len())),
                        _ => unknown.push(shown_path(root, &path)),
                    }
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        files.sort_unstable();
        unknown.sort();
        Ok(TimerLogFiles {
            file_size: files.first().map_or(0, |f| f.1),
            dir,
            files,
            unknown,
            open: VecDeque::new(),
            step: SEQUENTIAL,
        })
    }

    pub fn min(&self) -> u64 {
        self.files.first().map_or(0, |f| f.0)
    }

    /// Path below the store's folder, and byte, of a position.
    pub fn place(&self, position: u64) -> (String, u64) {
        let base = self.base_of(position).unwrap_or_else(|| self.min());
        (
            format!("{LOG}/{}", file_name(base)),
            position.saturating_sub(base),
        )
    }

    /// From here on single units are read, far apart.
    pub fn read_scattered(&mut self) {
        self.step = SCATTERED;
        self.open.clear();
    }

    fn base_of(&self, position: u64) -> Option<u64> {
        let behind = self.files.partition_point(|f| f.0 <= position);
        let (base, len) = *self.files.get(behind.checked_sub(1)?)?;
        (position - base < len).then_some(base)
    }

    /// What stands at a position; `Nothing` also where no file is.
    pub fn at(&mut self, position: u64) -> io::Result<LogEntry> {
        let Some(base) = self.base_of(position) else {
            return Ok(LogEntry::Nothing);
        };
        let source = self.source(base)?;
        Ok(Unit::read(source.bytes(position - base, Unit::SIZE)?))
    }

    fn source(&mut self, base: u64) -> io::Result<&mut Source> {
        if let Some(i) = self.open.iter().position(|(b, _)| *b == base) {
            return Ok(&mut self.open[i].1);
        }
        if self.open.len() >= MAX_OPEN {
            self.open.pop_front();
        }
        let source = Source::open(&self.dir.join(file_name(base)), self.step)?;
        self.open.push_back((base, source));
        Ok(&mut self.open.back_mut().expect("pushed above").1)
    }

    /// Position behind the last unit, which is found by reading the last file.
    pub fn end(&mut self) -> io::Result<u64> {
        let Some(&(base, len)) = self.files.last() else {
            return Ok(0);
        };
        let mut at = base;
        while at < base + len {
            match self.at(at)? {
                LogEntry::Unit(_) => at += Unit::SIZE as u64,
                LogEntry::EndOfFile => return Ok(base + len),
                LogEntry::Nothing => break,
            }
        }
        Ok(at)
    }
}

/// The check point; None where no file is. The length that the file has comes with it.
pub fn read_check(root: &Path) -> io::Result<Option<(Option<TimerCheck>, u64)>> {
    match read_small(&root.join(CHECK), TimerCheck::FILE_SIZE as u64 + 1) {
        Ok(bytes) => Ok(Some((TimerCheck::read(&bytes), bytes.len() as u64))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// The wheel, slot by slot.
pub struct WheelFile {
    source: Source,
}

impl WheelFile {
    pub fn open(root: &Path) -> io::Result<Option<Self>> {
        match Source::open(&root.join(WHEEL), SEQUENTIAL) {
            Ok(source) => Ok(Some(WheelFile { source })),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    pub fn len(&self) -> u64 {
        self.source.len()
    }

    pub fn fits(&self) -> bool {
        self.len() == WHEEL_SIZE as u64
    }

    /// A slot that is used, None for a blank one and behind the end.
    pub fn slot(&mut self, index: usize) -> io::Result<Option<Slot>> {
        let bytes = self.source.bytes((index * Slot::SIZE) as u64, Slot::SIZE)?;
        let Ok(bytes) = <&[u8; Slot::SIZE]>::try_from(bytes) else {
            return Ok(None);
        };
        Ok((*bytes != Slot::BLANK).then(|| Slot::read(bytes)))
    }
}

/// The length of a slot, as a unit of it says it; None if the two do not belong together.
pub fn precision_of(slot: &Slot, unit: &Unit) -> Option<i64> {
    PRECISIONS
        .into_iter()
        .find(|p| slot.time == unit.time_ms().div_euclid(*p))
}

/// What the files of timers hold, in figures; None where there are none of them.
#[derive(Clone, Debug, Default)]
pub struct TimerFacts {
    /// None where no wheel is, or it has another length.
    pub waiting: Option<Waiting>,
    pub wheel_len: Option<u64>,
    pub log_min: u64,
    pub log_end: u64,
    pub log_files: usize,
    pub check: Option<TimerCheck>,
    /// Queue offset behind the last timer message, None where the queue is not there.
    pub queue_end: Option<i64>,
    /// Why a file is not told about.
    pub faults: Vec<String>,
}

/// What waits in the wheel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Messages less deletes, as the slots count them.
    pub messages: i64,
    pub slots: u64,
    /// ms: the slot that is due first, and the last one; -1 without any.
    pub first_ms: i64,
    pub last_ms: i64,
    /// Length of a slot, ms; None where no slot has a unit that says it.
    pub precision: Option<i64>,
}

/// `queue_end`: of the timer topic's queue.
pub fn inspect(root: &Path, queue_end: Option<i64>) -> Option<TimerFacts> {
    let mut facts = TimerFacts {
        queue_end,
        ..TimerFacts::default()
    };
    let note = |name: &str, e: io::Error| format!("{name} cannot be read: {e}");
    let check = read_check(root);
    match &check {
        Ok(Some((Some(check), _))) => facts.check = Some(*check),
        Ok(Some((None, len))) => facts.faults.push(format!("{CHECK} has only {len} bytes")),
        Ok(None) => {}
        Err(e) => facts.faults.push(format!("{CHECK} cannot be read: {e}")),
    }
    let mut log = match TimerLogFiles::read(root) {
        Ok(log) => log,
        Err(e) => {
            facts.faults.push(note(LOG, e));
            return Some(facts);
        }
    };
    (facts.log_min, facts.log_files) = (log.min(), log.files.len());
    match log.end() {
        Ok(end) => facts.log_end = end,
        Err(e) => facts.faults.push(note(LOG, e)),
    }
    match WheelFile::open(root) {
        Ok(Some(mut wheel)) => {
            facts.wheel_len = Some(wheel.len());
            if wheel.fits() {
                let read_ms = facts.check.map_or(0, |c| c.read_ms);
                match count_waiting(&mut wheel, &mut log, read_ms) {
                    Ok(waiting) => facts.waiting = Some(waiting),
                    Err(e) => facts.faults.push(note(WHEEL, e)),
                }
            }
        }
        Ok(None) if facts.log_files == 0 && matches!(check, Ok(None)) => return None,
        Ok(None) => {}
        Err(e) => facts.faults.push(note(WHEEL, e)),
    }
    Some(facts)
}

fn count_waiting(
    wheel: &mut WheelFile,
    log: &mut TimerLogFiles,
    read_ms: i64,
) -> io::Result<Waiting> {
    log.read_scattered();
    let mut used = Vec::new();
    let mut precision = None;
    for index in 0..SLOTS {
        let Some(slot) = wheel.slot(index)? else {
            continue;
        };
        if slot_index(slot.time) != index {
            continue;
        }
        if precision.is_none()
            && let Ok(last) = u64::try_from(slot.last)
            && let LogEntry::Unit(unit) = log.at(last)?
        {
            precision = precision_of(&slot, &unit);
        }
        used.push((slot.time, slot.count));
    }
    let length = precision.unwrap_or(1000);
    let mut waiting = Waiting {
        precision,
        first_ms: -1,
        last_ms: -1,
        ..Waiting::default()
    };
    for (time, count) in used {
        let ms = time.saturating_mul(length);
        if ms < read_ms {
            continue; // delivered: its place is used again one day
        }
        waiting.messages += i64::from(count);
        waiting.slots += 1;
        waiting.last_ms = waiting.last_ms.max(ms);
        if waiting.first_ms < 0 || ms < waiting.first_ms {
            waiting.first_ms = ms;
        }
    }
    Ok(waiting)
}
