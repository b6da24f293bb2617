//! The queues of a store, read from outside: which there are, how far they reach, their entries.
//!
//! Entries: [ConsumeQueue, BatchConsumeQueue]. A place is an entry's number in its queue: of a simple
//! queue the queue offset, of a batch queue (inner batches) not. Queues are read while a broker may
//! write them: what counts was there when its end was looked for. Files are local, and read with
//! positioned reads: a file that is cut meanwhile gives fewer entries, and no signal.

use super::error::{Kind, Result, SegmentError};
use super::path::{folder_of, join};
use super::place::{LOCAL, Place, Shape};
use super::store::{File, SegmentStore, end_of, segments_of};
use super::task::QueuePart;
use pyrmq_arrow::{Open, OpenLocal, ReadAt};
use pyrmq_format::cq_entry::{BATCH_SIZE, CqEntry, Layout, SIZE};
use std::ops::ControlFlow;

/// Bytes of an entry.
pub const SIMPLE: u64 = SIZE as u64;
pub const BATCH: u64 = BATCH_SIZE as u64;

const LIGHT_PREFIX: &str = "%LMQ%";
/// Entries read at once: first few, as most searches end soon, then more and more.
const FIRST_STEP: u64 = 1 << 7;
const STEP: u64 = 1 << 16;

/// Size in a slot that stands for no message, with physical offset 0.
const BLANK_SIZE: i32 = i32::MAX;

/// Whether a slot stands for no message: [ConsumeQueue.fillPreBlank]
pub fn is_blank(entry: &CqEntry) -> bool {
    entry.size == BLANK_SIZE && entry.phys == 0
}

/// One queue's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    pub topic: String,
    pub id: i32,
    /// SIMPLE or BATCH.
    pub unit: u64,
    /// Byte in the queue at which a file begins, length, path; sorted, none empty, no two overlap.
    pub files: Vec<File>,
}

/// Some entries of one file, in a row.
pub struct Entries<'a> {
    bytes: &'a [u8],
    unit: usize,
}

impl Entries<'_> {
    pub fn count(&self) -> usize {
        self.bytes.len() / self.unit
    }

    pub fn iter(&self) -> impl Iterator<Item = CqEntry> + '_ {
        self.bytes.chunks_exact(self.unit).map(CqEntry::read)
    }
}

impl Queue {
    /// First place that a file holds.
    pub fn first(&self) -> u64 {
        self.files.first().map_or(0, |file| file.0 / self.unit)
    }

    /// Place behind the last entry that a file can hold.
    pub fn files_end(&self) -> u64 {
        self.files.last().map_or(0, |file| end_of(file) / self.unit)
    }

    /// Whether the last file has no place for a next entry behind this one, and no file before it shows
    /// that this is its full size. Brokers make a file in full size, so one that is not there yet is
    /// rare, and a file that is cut short more likely.
    pub fn is_full(&self, end: u64) -> bool {
        let shows = |pair: &[File]| end_of(&pair[1]) - pair[1].0 >= end_of(&pair[0]) - pair[0].0;
        let is_whole = self.files.windows(2).last().is_some_and(shows);
        end > self.first() && end >= self.files_end() && !is_whole
    }

    /// Whether the files have every place from `start` to before `end`.
    pub fn is_whole(&self, start: u64, end: u64) -> bool {
        let mut at = start.saturating_mul(self.unit);
        for file in &self.files {
            if file.0 <= at && at < end_of(file) {
                at = end_of(file);
            }
        }
        at >= end.saturating_mul(self.unit) || start >= end
    }

    /// The places from `start` to before `end`, with only the files that have them.
    pub fn part(&self, start: u64, end: u64) -> QueuePart {
        let low = start.saturating_mul(self.unit);
        let high = end.saturating_mul(self.unit);
        let own = self
            .files
            .iter()
            .filter(|file| file.0 < high && low < end_of(file));
        QueuePart {
            topic: self.topic.clone(),
            id: self.id,
            unit: self.unit,
            files: own.cloned().collect(),
            start,
            end,
        }
    }

    /// Shows the entries from place `start` to before `end`, some at a time with the place of their
    /// first, until `see` breaks.
    pub fn read(
        &self,
        start: u64,
        end: u64,
        mut see: impl FnMut(u64, &Entries<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut buffer = Vec::new();
        let mut step = FIRST_STEP;
        for file in &self.files {
            let mut place = start.max(file.0.div_ceil(self.unit));
            let last = end.min(end_of(file) / self.unit);
            if place >= last {
                continue;
            }
            let mut open = open(file)?;
            while place < last {
                let want = (last - place).min(step);
                step = (step * 2).min(STEP);
                buffer.resize((want * self.unit) as usize, 0);
                let at = place * self.unit - file.0;
                let got = open
                    .read_at(&mut buffer, at)
                    .map_err(|error| SegmentError::io(&file.2, error))?;
                let whole = got / self.unit as usize;
                if whole == 0 {
                    break;
                }
                let entries = Entries {
                    bytes: &buffer[..whole * self.unit as usize],
                    unit: self.unit as usize,
                };
                if see(place, &entries)?.is_break() {
                    return Ok(());
                }
                place += whole as u64;
            }
        }
        Ok(())
    }

    /// Its name in messages.
    pub fn shown(&self) -> String {
        format!("{}-{}", self.topic, self.id)
    }
}

impl From<&QueuePart> for Queue {
    fn from(part: &QueuePart) -> Self {
        Queue {
            topic: part.topic.clone(),
            id: part.id,
            unit: part.unit.max(1),
            files: part.files.clone(),
        }
    }
}

fn open(file: &File) -> Result<Box<dyn ReadAt>> {
    OpenLocal
        .open(&file.2)
        .map_err(|error| SegmentError::io(&file.2, error))
}

/// The queues of the topics that are `wanted`, of both kinds, by topic and number.
///
/// Light queues are left out: their entries lead to messages of other topics.
pub fn list_queues(
    store: &SegmentStore,
    mut wanted: impl FnMut(&str) -> Result<bool>,
) -> Result<Vec<Queue>> {
    let Some(simple) = &store.queues else {
        return Ok(Vec::new());
    };
    let mut out = Vec::new();
    for (folder, unit) in [(simple.clone(), SIMPLE), (batch_folder(simple), BATCH)] {
        if LOCAL.shape(&folder)? != Shape::Folder {
            continue;
        }
        for topic in LOCAL.list(&folder)? {
            let light = topic.name.starts_with(LIGHT_PREFIX);
            if topic.is_file || light || !wanted(&topic.name)? {
                continue;
            }
            for found in LOCAL.list(&topic.path)? {
                let Some(id) = queue_id(&found.name).filter(|_| !found.is_file) else {
                    continue;
                };
                let files = segments_of(LOCAL.list(&found.path)?)?;
                if let Some(file) = files.iter().find(|file| file.0 % unit != 0) {
                    let text = format!("{} begins within an entry", file.2);
                    return Err(SegmentError::new(Kind::Segment, text));
                }
                if !files.is_empty() {
                    out.push(Queue {
                        topic: topic.name.clone(),
                        id,
                        unit,
                        files,
                    });
                }
            }
        }
    }
    out.sort_by(|a, b| (&a.topic, a.id).cmp(&(&b.topic, b.id)));
    Ok(out)
}

/// The folder of the queues of inner batches, beside that of the simple ones.
pub fn batch_folder(simple: &str) -> String {
    join(folder_of(simple), "batchconsumequeue")
}

/// The number that a queue's folder is named by; None for another folder.
pub fn queue_id(name: &str) -> Option<i32> {
    let digits = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    let number = digits.then(|| name.parse::<i32>().ok()).flatten()?;
    (number.to_string() == name).then_some(number)
}

/// How far a queue reaches, of what the log still has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    pub queue: Queue,
    /// Places, the end exclusive.
    pub start: u64,
    pub end: u64,
    /// Queue offsets, the end exclusive.
    pub min_offset: i64,
    pub max_offset: i64,
}

/// Entries of messages that start in the log between the two physical offsets.
pub fn reach(queue: &Queue, log_start: u64, log_end: u64) -> Result<Reach> {
    let end = end_place(queue, log_end)?;
    let mut start = end;
    queue.read(queue.first(), end, |place, entries| {
        let is_there =
            |entry: &CqEntry| !is_blank(entry) && entry.phys >= 0 && entry.phys as u64 >= log_start;
        Ok(match entries.iter().position(|entry| is_there(&entry)) {
            Some(at) => {
                start = place + at as u64;
                ControlFlow::Break(())
            }
            None => ControlFlow::Continue(()),
        })
    })?;
    let (min_offset, max_offset) = if queue.unit == SIMPLE {
        (start as i64, end as i64)
    } else if start < end {
        let last = there(queue, end - 1)?;
        (there(queue, start)?.offset, last.behind)
    } else {
        let edge = match end > queue.first() {
            true => there(queue, end - 1)?.behind,
            false => 0,
        };
        (edge, edge)
    };
    Ok(Reach {
        queue: queue.clone(),
        start,
        end,
        min_offset,
        max_offset,
    })
}

/// Place behind the last entry that leads to a message before `log_end`.
pub fn end_place(queue: &Queue, log_end: u64) -> Result<u64> {
    #[cfg(test)]
    crate::meanwhile::at("end of a queue");
    for file in queue.files.iter().rev() {
        let first = file.0.div_ceil(queue.unit);
        let (mut low, mut high) = (first, end_of(file) / queue.unit);
        let mut open = open(file)?;
        let mut raw = [0; SIZE];
        while low < high {
            let middle = low + (high - low) / 2;
            let got = open
                .read_at(&mut raw, middle * queue.unit - file.0)
                .map_err(|error| SegmentError::io(&file.2, error))?;
            let entry = CqEntry::read(&raw);
            let counts = got == SIZE && entry.is_valid() && (entry.phys as u64) < log_end;
            match counts {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        if low > first {
            return Ok(low);
        }
    }
    Ok(queue.first())
}

/// One entry: the message's place in the log, the first queue offset and the one behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub phys: i64,
    pub size: i32,
    pub offset: i64,
    pub behind: i64,
}

impl Entry {
    pub fn is_blank(&self) -> bool {
        self.size == BLANK_SIZE && self.phys == 0
    }
}

/// The entry of a place; None if no file has it.
pub fn entry_at(queue: &Queue, place: u64) -> Result<Option<Entry>> {
    let Some(at) = place.checked_mul(queue.unit) else {
        return Ok(None);
    };
    let file = queue
        .files
        .iter()
        .find(|file| file.0 <= at && at.saturating_add(queue.unit) <= end_of(file));
    let Some(file) = file else { return Ok(None) };
    let mut raw = [0; BATCH_SIZE];
    let raw = &mut raw[..(queue.unit as usize).min(BATCH_SIZE)];
    let got = open(file)?
        .read_at(raw, at - file.0)
        .map_err(|error| SegmentError::io(&file.2, error))?;
    if got < raw.len() {
        return Ok(None);
    }
    let layout = match queue.unit {
        SIMPLE => Layout::Simple,
        _ => Layout::Batch,
    };
    let entry = layout.read(raw, place);
    Ok(Some(Entry {
        phys: entry.cq.phys,
        size: entry.cq.size,
        offset: entry.base,
        behind: entry.next(),
    }))
}

/// The entry of a place that was there a moment ago.
fn there(queue: &Queue, place: u64) -> Result<Entry> {
    entry_at(queue, place)?.ok_or_else(|| {
        let text = format!("queue {} became shorter", queue.shown());
        SegmentError::new(Kind::Segment, text)
    })
}

/// Physical offset behind the last message before `log_end` that has an entry; 0 without one.
pub fn log_end_of(queue: &Queue, log_end: u64) -> Result<u64> {
    let end = end_place(queue, log_end)?;
    if end <= queue.first() {
        return Ok(0);
    }
    let entry = there(queue, end - 1)?;
    if entry.is_blank() || entry.phys < 0 || entry.size < 0 {
        return Ok(0);
    }
    Ok(entry.phys as u64 + entry.size as u64)
}

/// Physical offset up to which all messages have entries, as far as `wanted` asks; 0: none has.
///
/// While a broker writes this comes before what needs it: queues that are listed, or whose ends are
/// read, after it have every message before it.
pub fn dispatched(store: &SegmentStore, log_end: u64, wanted: u64) -> Result<u64> {
    let mut last = 0;
    for queue in list_queues(store, |_| Ok(true))? {
        last = last.max(log_end_of(&queue, log_end)?);
        if last >= wanted {
            break;
        }
    }
    Ok(last)
}

/// First place whose messages reach to `offset` or behind it.
pub fn place_of(reached: &Reach, offset: i64) -> Result<u64> {
    find_place(reached, offset, |entry| entry.behind > offset)
}

/// First place all of whose messages are at `offset` or behind it.
pub fn place_behind(reached: &Reach, offset: i64) -> Result<u64> {
    find_place(reached, offset, |entry| entry.offset >= offset)
}

fn find_place(reached: &Reach, offset: i64, is_there: impl Fn(&Entry) -> bool) -> Result<u64> {
    if reached.queue.unit == SIMPLE {
        let place = u64::try_from(offset).unwrap_or(0);
        return Ok(place.max(reached.start).min(reached.end));
    }
    let (mut low, mut high) = (reached.start, reached.end);
    while low < high {
        let middle = low + (high - low) / 2;
        match is_there(&there(&reached.queue, middle)?) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Ok(low)
}

/// Physical offset that a place leads to, or the next that does; `log_end` if none does.
pub fn phys_at(reached: &Reach, place: u64, log_end: u64) -> Result<u64> {
    let mut found = log_end;
    reached.queue.read(place, reached.end, |_, entries| {
        let first = entries.iter().find(|entry| !is_blank(entry));
        Ok(match first {
            Some(entry) => {
                found = u64::try_from(entry.phys).unwrap_or(0);
                ControlFlow::Break(())
            }
            None => ControlFlow::Continue(()),
        })
    })?;
    Ok(found)
}

#[cfg(test)]
#[path = "queues_tests.rs"]
pub(crate) mod tests;
