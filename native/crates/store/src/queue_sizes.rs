//! How much of the log the records of a queue take, by the sizes in its entries.

use crate::consume_queue::ConsumeQueue;
use crate::error::Result;
use pyrmq_format::cq_entry::Layout;

/// Entries that are read at a time.
const RUN: u64 = 512;

/// What a part of a queue takes of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Queue offset of the first message, and the one behind the last.
    pub first: i64,
    pub next: i64,
    pub messages: u64,
    /// Of the records.
    pub bytes: u64,
    /// Every entry was read; otherwise `messages` and `bytes` are estimated by some of them.
    pub exact: bool,
}

#[derive(Default)]
struct Sum {
    /// Places that were read, with and without an entry.
    places: u64,
    messages: u64,
    bytes: u64,
}

impl ConsumeQueue {
    /// What the records take that begin at `from` or behind it, and before `to` (physical offsets). If
    /// there are more than `most` entries, runs of them are read that are spread evenly, about `most`
    /// entries altogether, one run at least. Maps nothing.
    pub fn sizes(&self, from: u64, to: u64, most: u64) -> Result<Sizes> {
        let (first, end) = self.positions();
        let begin = match first < end && !self.begins_behind(first, from)? {
            true => self.partition(|e| e.cq.phys < from as i64)?,
            false => first,
        };
        let stop = match self.max_phys() > to as i64 {
            true => self.partition(|e| e.cq.phys < to as i64)?.max(begin),
            false => end,
        };
        let mut sizes = self.offsets(begin, stop)?;
        let count = stop - begin;
        let mut sum = Sum::default();
        if count <= most {
            self.add_sizes(begin, stop, from, to, &mut sum)?;
            sizes.exact = true;
            (sizes.messages, sizes.bytes) = (sum.messages, sum.bytes);
            return Ok(sizes);
        }
        let runs = (most / RUN).clamp(1, count.div_ceil(RUN));
        for run in 0..runs {
            // The middle of each part.
            let middle = begin + (2 * run + 1) * count / (2 * runs);
            let at = middle.saturating_sub(RUN / 2).max(begin);
            self.add_sizes(at, (at + RUN).min(stop), from, to, &mut sum)?;
        }
        let of_all = |part: u64| {
            let whole = u128::from(part) * u128::from(count) / u128::from(sum.places.max(1));
            whole as u64
        };
        (sizes.messages, sizes.bytes) = (of_all(sum.messages), of_all(sum.bytes));
        Ok(sizes)
    }

    fn begins_behind(&self, position: u64, phys: u64) -> Result<bool> {
        let cq = self.read_entry(position)?.cq;
        Ok(cq.is_valid() && !cq.is_blank() && cq.phys >= phys as i64)
    }

    /// The queue offsets of a part of the positions.
    fn offsets(&self, begin: u64, stop: u64) -> Result<Sizes> {
        let (first, next) = match self.layout {
            Layout::Simple => (begin as i64, stop as i64),
            Layout::Batch if begin == stop => (self.max_offset(), self.max_offset()),
            Layout::Batch => (
                self.read_entry(begin)?.base,
                self.read_entry(stop - 1)?.next(),
            ),
        };
        Ok(Sizes {
            first,
            next,
            ..Sizes::default()
        })
    }

    fn add_sizes(&self, begin: u64, stop: u64, from: u64, to: u64, sum: &mut Sum) -> Result<()> {
        let unit = self.layout.unit();
        let per_file = (self.files.file_size() / unit) as u64;
        let mut reader = self.files.reader();
        let mut buffer = vec![0; RUN.min(stop - begin) as usize * unit];
        let mut position = begin;
        while position < stop {
            let left = (stop - position).min(per_file - position % per_file);
            let n = left.min(RUN) as usize * unit;
            reader.read(position * self.unit(), &mut buffer[..n])?;
            for slot in buffer[..n].chunks_exact(unit) {
                let entry = self.layout.read(slot, position);
                let cq = entry.cq;
                let phys = u64::try_from(cq.phys).unwrap_or(u64::MAX);
                if cq.is_valid() && !cq.is_blank() && (from..to).contains(&phys) {
                    sum.messages += entry.count.max(1) as u64;
                    sum.bytes += cq.size as u64;
                }
                sum.places += 1;
                position += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::FlushMode;
    use crate::{Store, StoreConfig, testing};
    use std::sync::Arc;

    /// A store with files of the log of 64 KiB and files of queues of 64 entries.
    fn open(dir: &std::path::Path) -> Arc<Store> {
        let mut config = StoreConfig::new(dir);
        config.commit_log_file_size = 1 << 16;
        config.max_message_size = 1 << 12;
        config.consume_queue_file_size = 20 * 64;
        (config.index_slots, config.index_entries) = (50, 500);
        config.flush_mode = FlushMode::Async;
        Store::open(config).unwrap()
    }

    /// Appends messages of these lengths; returns where their records begin, and their sizes.
    fn add(store: &Store, lengths: impl Iterator<Item = usize>) -> Vec<(u64, u64)> {
        let topic = store.topics().topic(b"T").unwrap();
        let mut guard = store.put().unwrap();
        let append = |n| testing::append(&mut guard, &topic, b"", &vec![b'x'; n]).unwrap();
        lengths
            .map(append)
            .map(|done| (done.phys, done.size as u64))
            .collect()
    }

    fn queue(store: &Store) -> Arc<ConsumeQueue> {
        let topic = store.topics().get(b"T").unwrap();
        topic.existing_queue(0).unwrap()
    }

    #[test]
    fn exact_sums_of_all_and_of_a_part_of_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let records = add(&store, (0..1000).map(|n| n * 7 % 501));
        let queue = queue(&store);
        let end = store.log().max_offset();
        for (from, to) in [
            (0, end),
            (0, u64::MAX >> 1),
            (1, end),
            (1 << 16, 2 << 16),
            (records[300].0, records[700].0),
            (records[300].0 + 1, records[700].0 + 1),
            (records[5].0, records[5].0),
            (end, end),
        ] {
            let range = from..to;
            let inside = |record: &&(u64, u64)| range.contains(&record.0);
            let before = records.iter().filter(|r| r.0 < from).count() as i64;
            let chosen: Vec<_> = records.iter().filter(inside).collect();
            let expected = Sizes {
                first: before,
                next: before + chosen.len() as i64,
                messages: chosen.len() as u64,
                bytes: chosen.iter().map(|r| r.1).sum(),
                exact: true,
            };
            assert_eq!(
                queue.sizes(from, to, 1000).unwrap(),
                expected,
                "{from} {to}"
            );
        }
        store.close().unwrap();
    }

    #[test]
    fn many_entries_are_estimated_by_some() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let records = add(&store, (0..8000).map(|n| if n < 4000 { 100 } else { 300 }));
        let bytes: u64 = records.iter().map(|r| r.1).sum();
        let sizes = queue(&store).sizes(0, u64::MAX >> 1, 2000).unwrap();
        assert!(!sizes.exact);
        assert_eq!((sizes.first, sizes.next, sizes.messages), (0, 8000, 8000));
        // Three runs: the one in the middle has as many of either kind.
        assert_eq!(sizes.bytes, bytes);
        let few = queue(&store).sizes(0, u64::MAX >> 1, 0).unwrap();
        assert!(
            (bytes * 7 / 10..bytes * 14 / 10).contains(&few.bytes),
            "{few:?}"
        );
        store.close().unwrap();
    }

    #[test]
    fn what_the_log_has_no_more_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let records = add(&store, (0..2000).map(|_| 200));
        store.log_flusher().flush();
        store.log().remove_first().unwrap();
        store.clean_queues(0).unwrap();
        let min = store.log().min_offset();
        assert_eq!(min, 1 << 16);
        let left: Vec<_> = records.iter().filter(|r| r.0 >= min).collect();
        let sizes = queue(&store).sizes(min, u64::MAX >> 1, 5000).unwrap();
        assert_eq!(sizes.bytes, left.iter().map(|r| r.1).sum::<u64>());
        assert_eq!(sizes.first, (records.len() - left.len()) as i64);
        store.close().unwrap();
    }
}
