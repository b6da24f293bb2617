//! Staging: records that were appended but are not in the log's file yet, with their queue entries.
//!
//! All that a round brought leaves by one write. Until then nobody sees any of it: the log ends
//! before it, and its entries are in no queue. A write that fails leaves it staged; the next one
//! tries again.

use super::consume_queue::{ConsumeQueue, Places};
use super::topics::Topic;
use pyrmq_format::cq_entry::Entry;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Bytes of records after which they are written whoever waits: what fits a processor's cache.
pub const LIMIT: usize = 256 << 10;

/// Entries in a row that go to one queue.
pub struct Run {
    pub topic: Arc<Topic>,
    pub queue_id: u32,
    pub queue: Arc<ConsumeQueue>,
    pub places: Places,
    /// How many.
    pub entries: usize,
    /// Physical offset behind the last of their records.
    pub end: u64,
}

#[derive(Default)]
pub struct Staging {
    /// `LIMIT` bytes, more for as long as one record needs it.
    bytes: Vec<u8>,
    used: usize,
    runs: Vec<Run>,
    entries: Vec<Entry>,
    /// The bitmaps of those entries whose messages have one, one behind the other; which entries of
    /// `entries`, and how many bytes each.
    bitmaps: Vec<u8>,
    bitmap_of: Vec<(usize, usize)>,
}

impl Staging {
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Bytes of the staged records.
    #[inline]
    pub fn len(&self) -> usize {
        self.used
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// The place of the next record, all of whose `len` bytes are to be written. It counts once
    /// `push` says so: what a panic leaves half done does not.
    #[inline]
    pub fn place(&mut self, len: usize) -> &mut [u8] {
        let (start, end) = (self.used, self.used + len);
        if end > self.bytes.len() {
            self.grow(end);
        }
        &mut self.bytes[start..end]
    }

    #[cold]
    fn grow(&mut self, end: usize) {
        self.bytes.resize(end.max(LIMIT), 0);
    }

    /// Begins a run, which has no entry so far.
    pub fn begin_run(&mut self, run: Run) {
        self.runs.push(run);
    }

    /// Queue offset of the next message of the last run's queue.
    #[inline]
    pub fn next_offset(&self) -> i64 {
        self.runs.last().map_or(0, |run| run.queue.next_offset())
    }

    /// The record of `len` bytes in the next place is complete. It ends at `end` of the log and has
    /// this entry, if any, in the last run's queue, with a bitmap unless that is empty.
    #[inline]
    pub fn push(&mut self, len: usize, end: u64, entry: Option<Entry>, bitmap: &[u8]) {
        self.used += len;
        let Some(entry) = entry else { return };
        let run = self.runs.last_mut().expect("a run was begun");
        run.entries += 1;
        run.end = end;
        run.queue.stage(entry.next());
        if !bitmap.is_empty() {
            self.bitmap_of.push((self.entries.len(), bitmap.len()));
            self.bitmaps.extend_from_slice(bitmap);
        }
        self.entries.push(entry);
    }

    /// What is staged is in the log's file: its entries are appended to their queues, then `tell`
    /// gets every run.
    pub fn dispatch(&mut self, mut tell: impl FnMut(Run)) {
        // Taken first: what is in the file is not to be written again, whatever happens here.
        self.used = 0;
        let mut runs = std::mem::take(&mut self.runs);
        let mut rest = self.entries.iter().enumerate();
        let mut bitmaps = &self.bitmaps[..];
        let mut bitmap_of = self.bitmap_of.iter().peekable();
        for run in &mut runs {
            for (n, entry) in rest.by_ref().take(run.entries) {
                let len = bitmap_of
                    .next_if(|(of, _)| *of == n)
                    .map_or(0, |(_, len)| *len);
                let (bitmap, more) = bitmaps.split_at(len);
                bitmaps = more;
                if let Err(e) = run.queue.append_staged(&mut run.places, entry, bitmap) {
                    // `ready` left nothing that could fail.
                    log::error!(
                        topic:% = run.queue.topic_name(), queue = run.queue.queue_id();
                        "a record is in no queue until the next start: {e}"
                    );
                }
            }
        }
        // Pairs with the swap in `ConsumeQueue::watch` and the fence behind `clear_dirty`: either who
        // is told sees the flags as they are now, or the one who changed them sees the entries.
        fence(Ordering::SeqCst);
        runs.drain(..)
            .filter(|run| run.entries > 0)
            .for_each(&mut tell);
        self.runs = runs;
        self.entries.clear();
        self.bitmaps.clear();
        self.bitmap_of.clear();
        if self.bitmaps.capacity() > LIMIT {
            self.bitmaps = Vec::new();
        }
        if self.bytes.len() > LIMIT {
            self.bytes.truncate(LIMIT);
            self.bytes.shrink_to_fit();
        }
    }
}
