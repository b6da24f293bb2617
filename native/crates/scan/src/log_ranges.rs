//! Ranges of a log: those that are present around holes, and those that tasks read.
//!
//! Queues say where records start, and so where a log can be cut. What stands in the log is not asked
//! for that: a body may hold bytes that say to be a record of their place. An entry of a queue was
//! written by the broker for a record, and the record agrees with it.

use super::error::{Kind, Result, SegmentError};
use super::notes::Notes;
use super::queues::{Entry, Queue, end_place, entry_at, list_queues};
use super::store::{File, SegmentStore, end_of};
use pyrmq_arrow::find_end;
use pyrmq_format::sys_flag::{BORN_HOST_V6, STORE_HOST_V6};
use std::cell::OnceCell;

/// Queues that are asked, the longest ones: the search costs some reads in each.
const QUEUES: usize = 8;
/// Entries of one queue that are looked at behind a place.
const TRIES: u64 = 8;
/// Bytes of a range that `min_partitions` does not go below.
const SMALLEST: u64 = 16 << 20;
const MAGIC_V1: u32 = 0xDAA3_20A7;
const MAGIC_V2: u32 = 0xDAA3_20AB;
const BLANK_MAGIC: u32 = 0xCBD4_3194;
/// Bytes of a blank record: length and magic.
const BLANK: u64 = 8;
/// Length, magic, CRC, queue id, flag, queue offset, physical offset, system flags.
const HEAD: usize = 40;
/// Files behind a range that its reader gets too, to find the next record behind damage.
const BEHIND: usize = 2;

/// Record starts of a store's log; none where it has no queues that can be read.
pub struct RecordStarts<'a> {
    store: &'a SegmentStore,
    queues: OnceCell<Vec<Queue>>,
}

impl<'a> RecordStarts<'a> {
    pub fn new(store: &'a SegmentStore) -> Self {
        RecordStarts {
            store,
            queues: OnceCell::new(),
        }
    }

    /// The first start at or behind a physical offset and before `limit` that a queue knows.
    pub fn behind(&self, at: u64, limit: u64) -> Result<Option<u64>> {
        let mut found = None;
        for queue in self.longest()? {
            let limit = found.unwrap_or(limit);
            found = self.first_of(queue, at, limit)?.or(found);
        }
        Ok(found)
    }

    fn longest(&self) -> Result<&[Queue]> {
        if let Some(queues) = self.queues.get() {
            return Ok(queues);
        }
        let mut queues = list_queues(self.store, |_| Ok(true))?;
        queues.sort_by_key(|queue| std::cmp::Reverse(queue.files_end() - queue.first()));
        queues.truncate(QUEUES);
        Ok(self.queues.get_or_init(|| queues))
    }

    fn first_of(&self, queue: &Queue, at: u64, limit: u64) -> Result<Option<u64>> {
        let place = end_place(queue, at)?;
        for next in place..(place + TRIES).min(queue.files_end()) {
            // A file that is deleted meanwhile says nothing.
            let Ok(Some(entry)) = entry_at(queue, next) else {
                return Ok(None);
            };
            let Ok(phys) = u64::try_from(entry.phys) else {
                continue;
            };
            if phys >= limit {
                return Ok(None);
            }
            if phys >= at && !entry.is_blank() && self.agrees(queue, &entry, phys)? {
                return Ok(Some(phys));
            }
        }
        Ok(None)
    }

    /// Whether the entry of a place leads to a message of another queue, or of another place in it.
    /// What is no record, or cannot be read, is met when it is read.
    pub(crate) fn is_of_another(&self, queue: &Queue, place: u64) -> bool {
        let Ok(Some(entry)) = entry_at(queue, place) else {
            return false;
        };
        let Ok(phys) = u64::try_from(entry.phys) else {
            return false;
        };
        let Ok(Some((head, topic))) = self.head_at(phys) else {
            return false;
        };
        let is_there = head.phys == entry.phys && head.size == entry.size;
        is_there && !(head.is_of(queue, &entry) && topic == queue.topic.as_bytes())
    }

    /// The head of a record and its topic; None where there is none.
    fn head_at(&self, phys: u64) -> Result<Option<(Stated, Vec<u8>)>> {
        let Some(file) = file_at(&self.store.files, phys) else {
            return Ok(None);
        };
        let place = self.store.place();
        let at = phys - file.0;
        let bytes = place.head(&file.2, at, HEAD)?;
        let Some(head) = Stated::read(&bytes) else {
            return Ok(None);
        };
        let Ok(size) = u64::try_from(head.size) else {
            return Ok(None);
        };
        if phys.saturating_add(size) > end_of(file) {
            return Ok(None);
        }
        // Two times and hosts; then times of redelivery, transaction's offset, length of the body.
        let behind = HEAD + 8 + host(head.sys, BORN_HOST_V6) + 8 + host(head.sys, STORE_HOST_V6);
        let length = place.head(&file.2, at + (behind + 12) as u64, 4)?;
        let Ok(length) = <[u8; 4]>::try_from(length).map(u32::from_be_bytes) else {
            return Ok(None);
        };
        let topic = behind as u64 + 16 + u64::from(length);
        if topic >= size {
            return Ok(None);
        }
        let width = if head.is_v2 { 2 } else { 1 };
        let length = place.head(&file.2, at + topic, width)?;
        let length = length
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let topic = place.head(&file.2, at + topic + width as u64, length)?;
        Ok((topic.len() == length).then_some((head, topic)))
    }

    /// Whether the record that an entry leads to has the entry's place.
    pub(crate) fn agrees(&self, queue: &Queue, entry: &Entry, phys: u64) -> Result<bool> {
        let found = self.head_at(phys)?;
        Ok(found.is_some_and(|(head, topic)| {
            head.size == entry.size && head.is_of(queue, entry) && topic == queue.topic.as_bytes()
        }))
    }
}

/// What a record says of itself in front.
struct Stated {
    size: i32,
    is_v2: bool,
    queue: i32,
    offset: i64,
    phys: i64,
    sys: i32,
}

impl Stated {
    /// None for what does not begin as a record.
    fn read(bytes: &[u8]) -> Option<Stated> {
        let bytes = <&[u8; HEAD]>::try_from(bytes).ok()?;
        let int = |at: usize| {
            i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |at: usize| i64::from(int(at)) << 32 | i64::from(int(at + 4) as u32);
        let magic = int(4) as u32;
        matches!(magic, MAGIC_V1 | MAGIC_V2).then(|| Stated {
            size: int(0),
            is_v2: magic == MAGIC_V2,
            queue: int(12),
            offset: long(20),
            phys: long(28),
            sys: int(36),
        })
    }

    /// Whether it is that queue's message of the entry's place.
    fn is_of(&self, queue: &Queue, entry: &Entry) -> bool {
        (self.queue, self.offset, self.phys) == (queue.id, entry.offset, entry.phys)
    }
}

/// Bytes of a host, with its port.
fn host(sys: i32, is_v6: i32) -> usize {
    if sys & is_v6 == 0 { 8 } else { 20 }
}

/// The ranges of physical offsets of `start..end` that files hold, without those missing.
///
/// DataLossError where something is missing, with `fail` false a warning.
pub fn present_ranges(
    store: &SegmentStore,
    mut start: u64,
    end: u64,
    fail: bool,
    notes: &Notes,
) -> Result<Vec<(u64, u64)>> {
    let mut out = Vec::new();
    for hole in missing(store, start, end)? {
        let what = format!(
            "{}: bytes {} to {} of the log of broker {} are missing",
            store.root, hole.0, hole.1, store.name
        );
        report_loss(what, fail, notes)?;
        if start < hole.0 && hole.0 > store.first() {
            out.push((start, end_before(store, start, hole.0)?));
        }
        start = start.max(hole.1);
    }
    out.push((start, end));
    out.retain(|(low, high)| low < high);
    Ok(out)
}

/// The ranges around and in `start..end` that no file holds and that had records.
fn missing(store: &SegmentStore, start: u64, end: u64) -> Result<Vec<(u64, u64)>> {
    let first = store.first();
    let mut lost = Vec::new();
    if start < first {
        lost.push((start, first));
    }
    for hole in store.holes() {
        let touches = start < hole.1 && hole.0 < end;
        if touches && (hole.0 < first || !is_blank(store, hole.0, hole.1)?) {
            lost.push(hole);
        }
    }
    Ok(lost)
}

/// DataLossError if nothing of `start..end` is there, whatever `fail_on_data_loss` says.
pub fn check_any_present(store: &SegmentStore, start: u64, end: u64) -> Result<()> {
    let missing = missing(store, start, end)?;
    let (Some(first), Some(last)) = (missing.first(), missing.last()) else {
        return Ok(());
    };
    if !overlapping(&store.files, start, end).is_empty() {
        return Ok(());
    }
    let text = format!(
        "{}: bytes {} to {} of the log of broker {} are missing, and with them all that is to be \
         read, {start} to {end}",
        store.root, first.0, last.1, store.name
    );
    Err(SegmentError::new(Kind::DataLoss, text)
        .hint("restore the segments, or start with a new checkpoint"))
}

/// DataLossError if `fail`, else one warning that reading continues with what is present.
pub fn report_loss(text: String, fail: bool, notes: &Notes) -> Result<()> {
    if fail {
        return Err(SegmentError::new(Kind::DataLoss, text));
    }
    notes.warn(format!(
        "{text}; continuing with the earliest record available"
    ));
    Ok(())
}

/// Where the last whole record before a hole ends.
fn end_before(store: &SegmentStore, start: u64, hole: u64) -> Result<u64> {
    let files = store.file_set(overlapping(&store.files, start, hole))?;
    Ok(find_end(&files, None)?.0)
}

/// Whether a hole is only the rest of a blank record, as where filled segments were cut.
fn is_blank(store: &SegmentStore, start: u64, end: u64) -> Result<bool> {
    let before = store.files.partition_point(|file| file.0 < start);
    let Some(index) = before.checked_sub(1) else {
        return Ok(false);
    };
    let file = store.file_set(&store.files[index..before])?;
    let last = find_end(&file, None)?.0;
    Ok(next_record(store, last)? == end)
}

/// Where the next record will start, behind a log that ends at `end`: at the front of the next
/// segment if a blank record says that there is no room in this one.
pub fn next_record(store: &SegmentStore, end: u64) -> Result<u64> {
    let Some((base, length, path)) = file_at(&store.files, end) else {
        return Ok(end);
    };
    if length.saturating_sub(BLANK) < end - base {
        return Ok(end);
    }
    let head = store.place().head(path, end - base, BLANK as usize)?;
    let Ok([a, b, c, d, magic @ ..]) = <[u8; 8]>::try_from(head) else {
        return Ok(end);
    };
    let total = i32::from_be_bytes([a, b, c, d]);
    match u32::from_be_bytes(magic) == BLANK_MAGIC && total >= BLANK as i32 {
        true => Ok(end.saturating_add(total as u64)),
        false => Ok(end),
    }
}

/// The file that holds a physical offset.
fn file_at(files: &[File], phys: u64) -> Option<&File> {
    let index = files
        .partition_point(|file| file.0 <= phys)
        .checked_sub(1)?;
    files.get(index).filter(|file| phys < end_of(file))
}

/// The files that have bytes of `start..end`.
pub fn overlapping(files: &[File], start: u64, end: u64) -> &[File] {
    let from = files.partition_point(|file| end_of(file) <= start);
    let to = files.partition_point(|file| file.0 < end);
    files.get(from..to).unwrap_or_default()
}

/// The files that a reader of a range gets, and how far it may read behind it.
pub fn files_of(store: &SegmentStore, start: u64, end: u64, log_end: u64) -> (&[File], u64) {
    let files = &store.files;
    let from = files.partition_point(|file| end_of(file) <= start);
    let to = files.partition_point(|file| file.0 < end);
    if from >= to {
        return (&[], end);
    }
    let last = files.partition_point(|file| file.0 < log_end);
    let own = &files[from..last.clamp(to, to + BEHIND)];
    let reach = own.last().map_or(end, end_of);
    (own, end.max(log_end.min(reach)))
}

/// Bytes of a range: `split_bytes`, or less to have so many of them.
pub fn split_size(total: u64, split_bytes: u64, min_partitions: Option<u64>) -> u64 {
    match min_partitions {
        Some(count) if count >= 1 => split_bytes.min(SMALLEST.max(total.div_ceil(count))),
        _ => split_bytes,
    }
}

/// Ranges of about `size` bytes from `start` to `end`, both the ends of records.
///
/// A cut is made where something else than the log's content says that a record starts: at the front
/// of a segment if one is near, else where a queue knows of one. Where neither is, ranges are longer.
pub fn even_ranges(
    files: &[File],
    start: u64,
    end: u64,
    size: u64,
    starts: &RecordStarts<'_>,
) -> Result<Vec<(u64, u64)>> {
    let length = end.saturating_sub(start);
    let count = length.div_ceil(size.max(1)).max(1);
    let step = length as f64 / count as f64;
    let inner = |file: &&File| start < file.0 && file.0 < end;
    let bases: Vec<u64> = files.iter().filter(inner).map(|file| file.0).collect();
    let mut edges = vec![start];
    for number in 1..count {
        let at = start + (length as u128 * number as u128 / count as u128) as u64;
        let mut near = nearest(&bases, at).unwrap_or(end);
        let far = near.abs_diff(at) as f64;
        if far > step / 8.0 {
            let found = starts.behind(at, end.min(at.saturating_add(step as u64)))?;
            if found.is_none() && far > step / 2.0 {
                continue;
            }
            near = found.unwrap_or(near);
        }
        if edges.last().is_some_and(|&last| last < near) && near < end {
            edges.push(near);
        }
    }
    edges.push(end);
    Ok(edges.windows(2).map(|pair| (pair[0], pair[1])).collect())
}

/// The number that is nearest to another one; of two the lower.
fn nearest(sorted: &[u64], at: u64) -> Option<u64> {
    let index = sorted.partition_point(|&base| base < at);
    let below = index.checked_sub(1).map(|below| sorted[below]);
    let above = sorted.get(index).copied();
    below
        .into_iter()
        .chain(above)
        .min_by_key(|base| base.abs_diff(at))
}

/// As `even_ranges`, one range a segment.
pub fn file_ranges(files: &[File], start: u64, end: u64) -> Vec<(u64, u64)> {
    let own = overlapping(files, start, end).iter();
    own.map(|file| (start.max(file.0), end.min(end_of(file))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{Put, Way, make};

    fn files(of: &[(u64, u64)]) -> Vec<File> {
        of.iter()
            .map(|&(base, length)| (base, length, format!("{base}")))
            .collect()
    }

    #[test]
    fn files_of_a_range() {
        let store = SegmentStore {
            files: files(&[(0, 10), (10, 10), (25, 5), (30, 10), (40, 10)]),
            ..SegmentStore::default()
        };
        let bases = |own: &[File]| own.iter().map(|file| file.0).collect::<Vec<_>>();
        assert_eq!(bases(overlapping(&store.files, 5, 11)), [0, 10]);
        assert_eq!(bases(overlapping(&store.files, 20, 25)), [0; 0]);
        assert_eq!(bases(overlapping(&store.files, 10, 10)), [0; 0]);
        let (own, log_end) = files_of(&store, 5, 8, 45);
        assert_eq!((bases(own), log_end), (vec![0, 10, 25], 30));
        let (own, log_end) = files_of(&store, 31, 35, 45);
        assert_eq!((bases(own), log_end), (vec![30, 40], 45));
        assert_eq!(files_of(&store, 20, 25, 45), (&[][..], 25));
        assert_eq!(store.holes(), [(20, 25)]);
        assert_eq!(
            file_ranges(&store.files, 5, 27),
            [(5, 10), (10, 20), (25, 27)]
        );
    }

    #[test]
    fn ranges_are_cut_at_the_fronts_of_files() {
        let own = files(&[(0, 100), (100, 100), (200, 100)]);
        let store = SegmentStore::default();
        let starts = RecordStarts::new(&store);
        let cut = |size| even_ranges(&own, 0, 300, size, &starts).unwrap();
        assert_eq!(cut(100), [(0, 100), (100, 200), (200, 300)]);
        assert_eq!(cut(1000), [(0, 300)]);
        // In the middle of a file nothing says where a record starts.
        assert_eq!(cut(50), [(0, 100), (100, 200), (200, 300)]);
        assert_eq!(
            even_ranges(&own, 250, 280, 10, &starts).unwrap(),
            [(250, 280)]
        );
    }

    #[test]
    fn entries_that_lead_elsewhere_are_no_starts() {
        let puts: Vec<Put> = (0..40).map(|n| Put::new("A", n % 2)).collect();
        let made = make(&puts, &Way::default());
        let starts = RecordStarts::new(&made.store);
        let first = starts.behind(1, 1 << 40).unwrap().unwrap();
        assert_eq!(first, made.rows[1].phys);
        assert_eq!(starts.behind(first, 1 << 40).unwrap(), Some(first));
        assert_eq!(starts.behind(first + 1, first + 2).unwrap(), None);
        for queue in list_queues(&made.store, |_| Ok(true)).unwrap() {
            for file in &queue.files {
                let mut content = std::fs::read(&file.2).unwrap();
                for entry in content.chunks_mut(queue.unit as usize) {
                    let phys = u64::from_be_bytes(entry[..8].try_into().unwrap());
                    entry[..8].copy_from_slice(&(phys + 5).to_be_bytes());
                }
                std::fs::write(&file.2, content).unwrap();
            }
        }
        let starts = RecordStarts::new(&made.store);
        assert_eq!(starts.behind(first, 1 << 40).unwrap(), None);
    }

    #[test]
    fn sizes_of_ranges() {
        assert_eq!(split_size(1 << 30, 256 << 20, None), 256 << 20);
        assert_eq!(split_size(1 << 30, 256 << 20, Some(8)), 128 << 20);
        assert_eq!(split_size(1 << 30, 256 << 20, Some(1 << 20)), SMALLEST);
    }
}
