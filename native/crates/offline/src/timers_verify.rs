//! Wheel, timer log and check point compared with each other and with the log, in steps.

use super::files::{TIMER_LOG as LOG, TIMER_WHEEL as WHEEL};
use super::findings::{Findings, Severity};
use super::timers::{CHECK, TimerLogFiles, WheelFile, precision_of, read_check};
use pyrmq_format::timer::{
    LogEntry, MAGIC_DELETE, NOWHERE, SLOTS, Slot, TimerCheck, Unit, WHEEL_SIZE, slot_index,
};
use std::io;
use std::path::Path;

const KIND: &str = "timer";
/// What follows from damage.
const MADE_AGAIN: &str = "the next start of pyrmq makes wheel and timer log again from the log";

/// What a check covered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerCounts {
    /// Units of the timer log.
    pub units: u64,
    /// Units of the slots that are not due, deletes among them.
    pub waiting: u64,
    /// Slots that are used and not due.
    pub slots: u64,
}

/// What the rest of the store says.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    pub end_phys: u64,
    /// The last stop was clean.
    pub clean: bool,
    /// Queue offset behind the last timer message; None where its queue is not there or not read.
    pub queue_end: Option<i64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Begin,
    /// A position of the timer log.
    Log(u64),
    /// A slot of the wheel.
    Wheel(usize),
    Done,
}

pub struct TimerCheckRun {
    log: TimerLogFiles,
    wheel: Option<WheelFile>,
    check: Option<TimerCheck>,
    at: At,
    end: u64,
    precision: Option<i64>,
    around: Around,
    pub counts: TimerCounts,
}

impl TimerCheckRun {
    /// None where no file of timers is, or none can be opened.
    pub fn new(root: &Path, around: &Around, out: &mut Findings) -> Option<Self> {
        let log = TimerLogFiles::read(root);
        let log = log.map_err(|e| unreadable(out, LOG, &e)).ok()?;
        let wheel = match WheelFile::open(root) {
            Ok(wheel) => wheel,
            Err(e) => {
                unreadable(out, WHEEL, &e);
                None
            }
        };
        let check = check_point(root, around, out);
        let run = TimerCheckRun {
            log,
            wheel,
            check,
            at: At::Begin,
            end: 0,
            precision: None,
            around: *around,
            counts: TimerCounts::default(),
        };
        if run.wheel.is_none() && run.log.files.is_empty() {
            if run.check.is_some() {
                let text = format!("there is none, although {CHECK} speaks of it: {MADE_AGAIN}");
                out.add(Severity::Warning, KIND, WHEEL, None, text);
            }
            return None;
        }
        run.check_files(out);
        Some(run)
    }

    pub fn is_done(&self) -> bool {
        self.at == At::Done
    }

    /// Works on about `budget` bytes. Returns how many.
    pub fn step(&mut self, budget: u64, out: &mut Findings) -> u64 {
        let mut done = 0;
        while done < budget && self.at != At::Done {
            done += match self.at {
                At::Begin => {
                    self.at = At::Log(self.log.min());
                    0
                }
                At::Log(position) => self.step_log(position, out),
                At::Wheel(index) => self.step_wheel(index, out),
                At::Done => 0,
            };
        }
        done
    }

    fn check_files(&self, out: &mut Findings) {
        for name in &self.log.unknown {
            let text = "not a file of the timer log".to_owned();
            out.add(Severity::Warning, KIND, name, None, text);
        }
        let size = self.log.file_size;
        for (i, &(base, len)) in self.log.files.iter().enumerate() {
            let (path, _) = self.log.place(base);
            if len != size {
                let text = format!("{len} bytes, {size} were expected: {MADE_AGAIN}");
                out.damage(KIND, &path, len, text);
            }
            if i > 0 && base != self.log.files[i - 1].0.saturating_add(size) {
                let text = format!("the file before it is missing: {MADE_AGAIN}");
                out.damage(KIND, &path, None, text);
            }
        }
        match &self.wheel {
            None => {
                let text = format!("there is none: {MADE_AGAIN}");
                out.add(Severity::Warning, KIND, WHEEL, None, text);
            }
            Some(wheel) if !wheel.fits() => {
                let text = format!(
                    "{} bytes, {WHEEL_SIZE} were expected: {MADE_AGAIN}",
                    wheel.len()
                );
                out.damage(KIND, WHEEL, wheel.len().min(WHEEL_SIZE as u64), text);
            }
            Some(_) => {}
        }
    }

    fn step_log(&mut self, position: u64, out: &mut Findings) -> u64 {
        let entry = match self.log.at(position) {
            Ok(entry) => entry,
            Err(e) => {
                let (path, at) = self.log.place(position);
                out.damage(KIND, &path, at, format!("cannot be read: {e}"));
                LogEntry::Nothing
            }
        };
        match entry {
            LogEntry::Unit(unit) => {
                self.counts.units += 1;
                if let Some(why) = fault_of(&unit, position, &self.around) {
                    let (path, at) = self.log.place(position);
                    out.damage(KIND, &path, at, format!("{why}: {MADE_AGAIN}"));
                }
                self.at = At::Log(position + Unit::SIZE as u64);
                Unit::SIZE as u64
            }
            LogEntry::EndOfFile => self.next_file(position, true, out),
            LogEntry::Nothing => self.next_file(position, false, out),
        }
    }

    /// A file has no unit more. Only the last one may just end.
    fn next_file(&mut self, position: u64, marked: bool, out: &mut Findings) -> u64 {
        let next = self.log.files.iter().find(|f| f.0 > position);
        self.end = position;
        match next {
            Some(&(base, _)) => {
                let (path, at) = self.log.place(position);
                if !marked && self.log.at(position).is_ok() {
                    let text = format!(
                        "no unit, and more files follow; lost are the bytes up to {base}: {MADE_AGAIN}"
                    );
                    out.damage(KIND, &path, at, text);
                }
                self.at = At::Log(base);
                base - position
            }
            None => {
                let end = self.log.files.last().map_or(0, |f| f.0 + f.1);
                self.at = At::Wheel(0);
                self.log_ended(out);
                end.saturating_sub(position)
            }
        }
    }

    fn log_ended(&mut self, out: &mut Findings) {
        self.log.read_scattered();
        if let Some(check) = &self.check
            && check.log_flushed > self.end as i64
        {
            let text = format!(
                "the timer log is on disk up to {}, it says, and ends at {}: {MADE_AGAIN}",
                check.log_flushed, self.end
            );
            out.damage(KIND, CHECK, 8, text);
        }
    }

    fn step_wheel(&mut self, index: usize, out: &mut Findings) -> u64 {
        let Some(wheel) = self.wheel.as_mut().filter(|_| index < SLOTS) else {
            self.at = At::Done;
            return 0;
        };
        self.at = At::Wheel(index + 1);
        let at = (index * Slot::SIZE) as u64;
        match wheel.slot(index) {
            Ok(Some(slot)) => {
                let walked = match self.check_slot(index, &slot) {
                    Ok(walked) => walked,
                    Err((severity, why)) => {
                        out.add(severity, KIND, WHEEL, at, format!("{why}: {MADE_AGAIN}"));
                        0
                    }
                };
                (Slot::SIZE + Unit::SIZE * walked as usize) as u64
            }
            Ok(None) => Slot::SIZE as u64,
            Err(e) => {
                out.damage(KIND, WHEEL, at, format!("cannot be read: {e}"));
                self.at = At::Done;
                0
            }
        }
    }

    /// How many units the chain of a slot has; what is wrong with it otherwise.
    fn check_slot(&mut self, index: usize, slot: &Slot) -> Result<u64, (Severity, String)> {
        let damage = |text: String| Err((Severity::Damage, text));
        if slot_index(slot.time) != index || slot.time <= 0 {
            return damage(format!("its time {} belongs into another slot", slot.time));
        }
        let (min, end) = (self.log.min() as i64, self.end as i64);
        // Known once a slot has told it; the shortest one keeps slots that may wait still.
        let length = self.precision.unwrap_or(100);
        let read_ms = self.check.map_or(0, |check| check.read_ms);
        if self.precision.is_some() && slot.time.saturating_mul(length) < read_ms {
            return Ok(0); // delivered
        }
        if slot.last < min && slot.time.saturating_mul(1000) < read_ms {
            return Ok(0); // delivered, and its units were deleted
        }
        if slot.last >= end && !self.around.clean {
            let text = format!("its last unit, at {}, is not in the timer log", slot.last);
            return Err((Severity::Note, text));
        }
        let (mut at, mut units, mut messages) = (slot.last, 0_u64, 0_i64);
        loop {
            let unit = match u64::try_from(at).map(|at| self.log.at(at)) {
                Ok(Ok(LogEntry::Unit(unit))) if at < end => unit,
                _ => return damage(format!("no unit is at {at}, where its chain goes")),
            };
            let Some(precision) = precision_of(slot, &unit) else {
                return damage(format!("the unit at {at} is of another time"));
            };
            if *self.precision.get_or_insert(precision) != precision {
                return damage(format!(
                    "the unit at {at} is of a wheel with slots of {precision} ms"
                ));
            }
            if units == 0 && slot.time.saturating_mul(precision) < read_ms {
                return Ok(0); // delivered
            }
            units += 1;
            messages += if unit.magic & MAGIC_DELETE != 0 {
                -1
            } else {
                1
            };
            if at == slot.first || unit.previous == NOWHERE {
                break;
            }
            if unit.previous >= at {
                return damage(format!("its chain does not go back at {at}"));
            }
            at = unit.previous;
        }
        self.counts.waiting += units;
        self.counts.slots += 1;
        if at != slot.first {
            return damage(format!(
                "its chain begins at {at}, its first unit is at {}",
                slot.first
            ));
        }
        if messages != i64::from(slot.count) {
            let text = format!("its count is {}, its chain has {messages}", slot.count);
            return Err((Severity::Warning, text));
        }
        Ok(units)
    }
}

/// What is wrong with a unit by itself.
fn fault_of(unit: &Unit, position: u64, around: &Around) -> Option<String> {
    if unit.previous != NOWHERE && unit.previous >= position as i64 {
        return Some(format!(
            "the unit before it is said to be at {}",
            unit.previous
        ));
    }
    let end = unit.phys as u64 + unit.size as u64;
    (end > around.end_phys).then(|| {
        format!(
            "its message at {} is behind the end of the log, {}",
            unit.phys, around.end_phys
        )
    })
}

fn unreadable(out: &mut Findings, path: &str, e: &io::Error) {
    out.damage(KIND, path, None, format!("cannot be read: {e}"));
}

fn check_point(root: &Path, around: &Around, out: &mut Findings) -> Option<TimerCheck> {
    let check = match read_check(root) {
        Ok(None) => return None,
        Ok(Some((Some(check), _))) => check,
        Ok(Some((None, len))) => {
            let text = format!("{len} bytes are too short: {MADE_AGAIN}");
            out.damage(KIND, CHECK, None, text);
            return None;
        }
        Err(e) => {
            unreadable(out, CHECK, &e);
            return None;
        }
    };
    for (i, value) in [check.read_ms, check.log_flushed, check.queue_offset]
        .into_iter()
        .enumerate()
    {
        if value < 0 {
            let text = format!("field {i} is negative: {value}");
            out.damage(KIND, CHECK, i as u64 * 8, text);
        }
    }
    if let Some(end) = around.queue_end.filter(|&end| check.queue_offset > end) {
        let text = format!(
            "timer messages up to {} are in the wheel, it says, and the queue ends at {end}: \
             {MADE_AGAIN}",
            check.queue_offset
        );
        out.damage(KIND, CHECK, 16, text);
    }
    Some(check)
}

#[cfg(test)]
#[path = "timers_tests.rs"]
mod tests;
