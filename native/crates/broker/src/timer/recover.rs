//! Opening: wheel and timer log as they were, and what to do where they are not.
//!
//! The check point says up to where timer log and wheel belong together. Units behind that are put into the
//! wheel again, which changes nothing where it has them. A wheel that does not fit the log is made
//! again from all of it, and a log that does not is made again from the queue.

use super::check::Check;
use super::log::TimerLog;
use super::prepared::Needed;
use super::rebuild::Rebuild;
use super::restore::Since;
use super::wheel::Wheel;
use super::{HALF_ROUND, Paths, Seen, Settings, Timers, Topics, Work, restore, timer_queue};
use parking_lot::Mutex;
use pyrmq_format::timer::{LogEntry, NOWHERE, Slot, TIMER_TOPIC, Unit};
use pyrmq_store::{Result, Store, StoreError, Stored};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Length of the timer log in a check point, while the log is made again: no log is as long.
const UNFINISHED: i64 = i64::MAX / 2;
/// Units before the check point that the wheel is compared with.
const COMPARED: u64 = 4096;

/// What opening found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Bytes of the commit log that were read.
    pub read: u64,
    /// Messages that were delivered after the check point was kept.
    pub delivered: u64,
    /// Why wheel or timer log were made again; "" if they were not.
    pub why: String,
    /// An Apache broker wrote the check point: before the first delivery there has to be another one.
    pub is_foreign: bool,
}

/// Wheel and timer log as they go on.
struct Found {
    log: TimerLog,
    wheel: Wheel,
    read: i64,
    queue_offset: i64,
}

impl Timers {
    /// Continues with what the store's folder has. `now` is the clock.
    pub fn open(store: Arc<Store>, settings: Settings, now: i64) -> Result<(Self, Restored)> {
        let settings = settings.checked()?;
        let (topic, queue) = timer_queue(&store)?;
        let root = &store.config().root;
        let paths = Paths {
            wheel: root.join("timerwheel"),
            log: root.join("timerlog"),
            check: root.join("config").join("timercheck"),
        };
        let check = Check::load(&paths.check)?.map(|check| check.believed(now));
        let mut restored = Restored::default();
        let has_history = queue.max_offset() > 0;
        let tried = match check {
            _ if !has_history => Err("there is no timer message".into()),
            Some(check)
                if check
                    .ours
                    .is_some_and(|o| o.precision != settings.precision) =>
            {
                Err(format!("timerPrecisionMs is {} now", settings.precision))
            }
            _ => found(
                &store,
                &settings,
                &paths,
                check.as_ref(),
                now,
                &mut restored.why,
            ),
        };
        let mut rebuild = None;
        let found = match tried {
            Ok(found) => found,
            Err(why) => {
                if has_history {
                    restored.why = why;
                    let until = match &check {
                        Some(check) => check.fields.queue_offset.min(queue.max_offset()),
                        None => queue.max_offset(),
                    };
                    let read_ms = check.map_or(0, |check| check.fields.read_ms);
                    rebuild = Some(Rebuild::new(&store, &queue, until, read_ms)?);
                }
                afresh(&paths, &settings, queue.min_offset(), now, check.as_ref())?
            }
        };
        if !restored.why.is_empty() {
            ::log::error!(
                path:% = paths.wheel.display();
                "timers: {} is made again, and what it needs of {}: {}",
                paths.wheel.display(),
                paths.log.display(),
                restored.why
            );
        }
        restored.is_foreign = check.is_some_and(|check| check.ours.is_none());
        let read_ms = check.map_or(0, |check| check.fields.read_ms);
        let ended_ms = check.and_then(|c| c.ours).map_or(0, |ours| ours.ended_ms);
        let ended = settings.slot(ended_ms).max(found.read);
        let from = match &check {
            _ if !has_history => None,
            // Of slots that a clock ahead has delivered some came back with the units of the timer log.
            Some(_) if !restored.why.is_empty() && read_ms < ended_ms => Some(0),
            Some(check) => check.ours.map(|ours| ours.log_end),
            None => Some(0),
        };
        if has_history && check.is_none() && found.queue_offset > queue.min_offset() {
            ::log::warn!("timers: config/timercheck is missing or blank: all of the log is read");
        }
        let delivered = from.map_or_else(Since::default, |from| {
            restore::delivered_since(&store, from)
        });
        restored.read = delivered.read;
        restored.delivered = delivered.messages.len() as u64;
        let rolled = queue.max_offset();
        let followed = store.config().replica.then(|| from.unwrap_or(0));
        let counter = check.map_or(0, |check| check.fields.counter);
        let timers = Timers {
            store,
            settings,
            paths,
            topic,
            queue,
            work: Mutex::new(Work {
                log: found.log,
                read: found.read,
                ended,
                queue_offset: found.queue_offset,
                current: None,
                delivered,
                rebuild,
                rolled,
                failures: 0,
                followed,
                counter,
            }),
            wheel: Mutex::new(found.wheel),
            prepared: Mutex::default(),
            needed: Mutex::new(Needed::ALL),
            topics: Mutex::new(Topics::default()),
            unknown: Mutex::default(),
            seen: Seen::default(),
        };
        timers.seen.read.store(found.read, Ordering::Relaxed);
        timers
            .seen
            .queue_offset
            .store(found.queue_offset, Ordering::Relaxed);
        // Without a rebuild this is what the check point has that was read.
        let needed = timers.needed_now(&mut timers.work.lock())?;
        *timers.needed.lock() = needed;
        Ok((timers, restored))
    }
}

/// An empty wheel and timer log; enqueuing begins at the queue's first entry.
fn afresh(
    paths: &Paths,
    settings: &Settings,
    queue_min: i64,
    now: i64,
    check: Option<&Check>,
) -> Result<Found> {
    let log = match TimerLog::open(paths.log.clone(), settings.log_file_size) {
        Ok(mut log) => {
            log.clear()?;
            log
        }
        Err(StoreError::Damaged { .. }) => {
            remove_files(&paths.log)?;
            TimerLog::open(paths.log.clone(), settings.log_file_size)?
        }
        Err(e) => return Err(e),
    };
    if let Some(check) = check {
        // Until all is made again, no check point may be taken for one of the new log.
        let mut none = *check;
        none.fields.log_flushed = UNFINISHED;
        none.save(&paths.check)?;
    }
    let wheel = blank_wheel(&paths.wheel)?;
    Ok(Found {
        log,
        wheel,
        read: settings.slot(now),
        queue_offset: queue_min,
    })
}

/// A wheel without slots, and without a file until it is flushed.
fn blank_wheel(path: &Path) -> Result<Wheel> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::io("remove", path, &e))
        }
        _ => Ok(Wheel::blank(path.into())),
    }
}

fn remove_files(dir: &Path) -> Result<()> {
    let io = |e: &std::io::Error| StoreError::io("clear folder", dir, e);
    for entry in std::fs::read_dir(dir).map_err(|e| io(&e))? {
        let path = entry.map_err(|e| io(&e))?.path();
        if path.is_file() {
            std::fs::remove_file(&path).map_err(|e| io(&e))?;
        }
    }
    Ok(())
}

/// What the files have. The error says why they cannot be used; what the disk refuses is one too, as all of
/// it can be made again. `why` gets why the wheel was made again.
fn found(
    store: &Store,
    settings: &Settings,
    paths: &Paths,
    check: Option<&Check>,
    now: i64,
    why: &mut String,
) -> std::result::Result<Found, String> {
    let text = |e: StoreError| e.to_string();
    let mut log = TimerLog::open(paths.log.clone(), settings.log_file_size).map_err(text)?;
    if log.files() == 0 {
        return Err("the timer log is missing".into());
    }
    let flushed = check.map_or(0, |check| check.fields.log_flushed as u64);
    let is_ours = check.is_some_and(|check| check.ours.is_some());
    if flushed > log.end() {
        return Err(format!(
            "timercheck speaks of {flushed} bytes of timer log, there are {}",
            log.end()
        ));
    }
    // Apache's brokers write the check point of one second ago: a file before is surely in the wheel.
    let behind = match is_ours {
        true => log.aligned(flushed),
        false => flushed.saturating_sub(log.file_size()) / log.file_size() * log.file_size(),
    };
    let start = behind.max(log.min());
    let end = end_of(store, &mut log, start).map_err(text)?;
    if end < start.min(flushed) {
        return Err(format!(
            "the timer log ends at {end}, timercheck speaks of {flushed} bytes"
        ));
    }
    // Where nothing is known, what is older than half a round cannot wait any more.
    let oldest = settings.slot(now) - HALF_ROUND;
    let read = check.map_or(oldest, |check| settings.slot(check.fields.read_ms));
    let ended_ms = check.and_then(|c| c.ours).map_or(0, |ours| ours.ended_ms);
    let first = settings.slot(now.max(ended_ms)).max(read);
    let mut wheel = match Wheel::open(paths.wheel.clone()) {
        Ok(Some(wheel)) => wheel,
        Ok(None) => {
            *why = "the wheel is missing or blank".into();
            Wheel::blank(paths.wheel.clone())
        }
        Err(e) => {
            *why = e.to_string();
            Wheel::blank(paths.wheel.clone())
        }
    };
    forget_behind(&mut wheel, &mut log, end).map_err(text)?;
    log.cut(end).map_err(text)?;
    if why.is_empty() && !has_all(&wheel, &mut log, settings, start, first).map_err(text)? {
        *why = "the wheel is older than the timer log".into();
    }
    let from = match why.is_empty() {
        true => start,
        false => {
            wheel = blank_wheel(&paths.wheel).map_err(text)?;
            log.min()
        }
    };
    let mut lowest = read;
    let mut position = from;
    while position < end {
        let entry = log.read(position, true).map_err(text)?;
        if let LogEntry::Unit(unit) = &entry {
            let time = settings.slot(unit.time_ms());
            let is_new = is_ours && position >= flushed;
            if time >= read || is_new {
                put_again(&mut wheel, time, position as i64, unit);
            }
            if is_new {
                lowest = lowest.min(time);
            }
        }
        let Some(next) = log.after(position, &entry) else {
            return Err(format!("the timer log is damaged at {position}"));
        };
        position = next;
    }
    check_ends(store, &wheel, &mut log, settings, lowest)?;
    // What Apache's brokers have delivered stays in their wheel.
    let old: Vec<i64> = wheel
        .slots()
        .map(|slot| slot.time)
        .filter(|&time| time < lowest)
        .collect();
    for time in old {
        wheel.clear(time);
    }
    let queue_offset = match last_offset(store, &mut log).map_err(text)? {
        Some(offset) => offset + 1,
        None if !is_ours => return Err("the timer log has nothing".into()),
        None => check.map_or(0, |check| check.fields.queue_offset),
    };
    Ok(Found {
        log,
        wheel,
        read: lowest,
        queue_offset,
    })
}

/// Where the timer log ends: behind its last unit whose message the commit log has.
fn end_of(store: &Store, log: &mut TimerLog, start: u64) -> Result<u64> {
    let max = store.log().max_offset() as i64;
    let mut position = start;
    loop {
        let entry = log.read(position, true)?;
        if let LogEntry::Unit(unit) = &entry
            && unit.phys.saturating_add(unit.size as i64) > max
        {
            break;
        }
        match log.after(position, &entry) {
            Some(next) if next < log.end() => position = next,
            Some(next) => return Ok(next.min(log.end())),
            None => break,
        }
    }
    if position > start {
        return Ok(position);
    }
    // A power cut may have taken the commit log's end, with messages that were enqueued.
    while let Some(before) = log.before(position) {
        match log.read(before, false)? {
            LogEntry::Unit(unit) if unit.phys.saturating_add(unit.size as i64) <= max => break,
            _ => position = before,
        }
    }
    Ok(position)
}

/// Takes units at and behind `end` out of the wheel.
fn forget_behind(wheel: &mut Wheel, log: &mut TimerLog, end: u64) -> Result<()> {
    let behind: Vec<Slot> = wheel
        .slots()
        .filter(|slot| slot.last as u64 >= end)
        .collect();
    for mut slot in behind {
        let mut position = slot.last;
        while position as u64 >= end && position != NOWHERE {
            match log.read(position as u64, false)? {
                LogEntry::Unit(unit) if unit.previous < position => {
                    slot.count -= count_of(&unit);
                    position = unit.previous;
                }
                // What its chain had before stands between its first unit and the end.
                _ if (slot.first as u64) < end => position = end as i64 - 1,
                _ => position = NOWHERE,
            }
        }
        match position {
            NOWHERE => wheel.clear(slot.time),
            last => wheel.set(Slot { last, ..slot }),
        }
    }
    Ok(())
}

/// Whether the wheel has what was enqueued last before `start` and waits still: slots from `first` on
/// are not delivered.
fn has_all(
    wheel: &Wheel,
    log: &mut TimerLog,
    settings: &Settings,
    start: u64,
    first: i64,
) -> Result<bool> {
    let mut position = start;
    for _ in 0..COMPARED {
        let Some(before) = log.before(position) else {
            break;
        };
        position = before;
        let LogEntry::Unit(unit) = log.read(before, false)? else {
            break;
        };
        let time = settings.slot(unit.time_ms());
        if time >= first
            && wheel
                .any(time)
                .is_none_or(|slot| slot.time == time && slot.last < before as i64)
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// An error if the chain of a slot that waits begins or ends where no unit of this slot is: then a file of
/// the timer log is damaged, or missing.
fn check_ends(
    store: &Store,
    wheel: &Wheel,
    log: &mut TimerLog,
    settings: &Settings,
    read: i64,
) -> std::result::Result<(), String> {
    let min = log.min() as i64;
    let mut ends = Vec::new();
    let mut is_cut = false;
    for slot in wheel.slots().filter(|slot| slot.time >= read) {
        is_cut |= slot.first < min;
        ends.extend([slot.first, slot.last].map(|end| (end, slot.time)));
    }
    ends.sort_unstable();
    ends.dedup();
    let text = |e: StoreError| e.to_string();
    for (position, time) in ends {
        if position < min {
            continue;
        }
        match log.read(position as u64, false).map_err(text)? {
            LogEntry::Unit(unit) if settings.slot(unit.time_ms()) == time => {}
            _ => return Err(format!("the timer log is damaged at {position}")),
        }
    }
    // Old files are deleted when the queue has nothing of them any more.
    if is_cut && let LogEntry::Unit(first) = log.read(log.min(), false).map_err(text)? {
        let stored = Stored::read(store, first.phys.max(0) as u64).map_err(text)?;
        let (_, queue) = timer_queue(store).map_err(text)?;
        if stored.is_some_and(|s| s.view().queue_offset > queue.min_offset()) {
            return Err(format!(
                "the timer log begins at {min}: its first files are missing"
            ));
        }
    }
    Ok(())
}

/// Puts a unit of the timer log into the wheel, unless it is there.
fn put_again(wheel: &mut Wheel, time: i64, position: i64, unit: &Unit) {
    let slot = wheel.get(time);
    if slot.is_some_and(|slot| slot.last >= position) {
        return;
    }
    wheel.set(Slot {
        time,
        first: slot.map_or(position, |slot| slot.first),
        last: position,
        count: slot
            .map_or(0, |slot| slot.count)
            .saturating_add(count_of(unit)),
        magic: 0,
    });
}

fn count_of(unit: &Unit) -> i32 {
    match unit.magic & pyrmq_format::timer::MAGIC_DELETE {
        0 => 1,
        _ => -1,
    }
}

/// Queue offset of the message that was enqueued last.
fn last_offset(store: &Store, log: &mut TimerLog) -> Result<Option<i64>> {
    let Some(last) = log.before(log.end()) else {
        return Ok(None);
    };
    let LogEntry::Unit(unit) = log.read(last, false)? else {
        return Ok(None);
    };
    let stored = Stored::read(store, unit.phys.max(0) as u64)?;
    Ok(stored
        .filter(|stored| stored.topic() == TIMER_TOPIC)
        .map(|stored| stored.view().queue_offset))
}
