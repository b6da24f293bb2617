//! The put path: append to the log, dispatch to the queue. One writer under one lock.

use super::arrivals::{Arrival, Arrivals};
use super::availability::Availability;
use super::barrier::Barrier;
use super::clock::now_ms;
use super::commit_log::CommitLog;
use super::config::StoreConfig;
use super::consume_queue::{ConsumeQueue, QueueWriter};
use super::dispatch;
use super::error::{Result, StoreError};
use super::indexer::Indexer;
use super::log_flusher::LogFlusher;
use super::prepare::Preparer;
use super::queue_flusher::QueueFlusher;
use super::segment::{PAGE, Segment};
use super::topics::Topic;
use crate::format::cq_entry::{CqEntry, Entry};
use crate::format::host::Host;
use crate::format::record::{self, BLANK_LEN, Head};
use crate::format::{names, properties};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Where the preparing thread is behind, the writer faults in this many bytes of the log itself.
const AHEAD: usize = 256 << 10;

/// What a client sent, as far as all messages of one request share it.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    pub topic: &'a Arc<Topic>,
    pub queue_id: u32,
    pub sys_flag: i32,
    pub born_timestamp: i64,
    pub born_host: Host,
    pub reconsume_times: i32,
    pub prepared_transaction_offset: i64,
}

/// The part that each message has for itself; properties come in parts, stored one behind the other.
#[derive(Clone, Copy)]
pub struct Content<'a> {
    pub flag: i32,
    pub body: &'a [u8],
    pub props: [&'a [u8]; 4],
    pub tags_code: i64,
    /// How many messages the body holds: 1, or those of an inner batch.
    pub count: i16,
}

impl Content<'_> {
    fn props_len(&self) -> usize {
        self.props.iter().map(|p| p.len()).sum()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    /// Physical offset and size of the record.
    pub phys: u64,
    pub size: usize,
    pub queue_offset: i64,
    pub store_timestamp: i64,
}

impl Appended {
    /// What must be confirmed before this is acknowledged.
    pub fn end(&self) -> u64 {
        self.phys + self.size as u64
    }
}

/// State that only the holder of the put lock sees.
#[derive(Default)]
struct Position {
    /// The file that records go to.
    segment: Option<Arc<Segment>>,
    last_timestamp: i64,
}

/// What the writer changes and whom it informs.
pub struct Links {
    pub availability: Arc<Availability>,
    pub barrier: Arc<Barrier>,
    pub log: Arc<CommitLog>,
    pub preparer: Arc<Preparer>,
    pub log_flusher: Arc<LogFlusher>,
    pub queue_flusher: Arc<QueueFlusher>,
    pub arrivals: Arc<Arrivals>,
    pub indexer: Option<Arc<Indexer>>,
}

/// Owner of the put lock.
pub struct Writer {
    links: Links,
    store_host: Host,
    max_message_size: usize,
    position: Mutex<Position>,
}

/// The right to append. Holding it over all messages of one network read takes the lock and the
/// clock once.
pub struct PutGuard<'s> {
    writer: &'s Writer,
    position: MutexGuard<'s, Position>,
    now: i64,
}

impl Writer {
    pub fn new(cfg: &StoreConfig, links: Links) -> Self {
        Writer {
            links,
            store_host: Host::new(cfg.store_host),
            max_message_size: cfg.max_message_size,
            position: Mutex::default(),
        }
    }

    /// What stands in storeHost of new records.
    pub fn store_host(&self) -> &Host {
        &self.store_host
    }

    /// Continues at the end of the log, behind a record with this store timestamp.
    pub fn start_after(&self, newest: i64) {
        let mut position = self.position.lock();
        position.segment = self.links.log.segments().last().cloned();
        if let Some(active) = &position.segment {
            active.expect_writing(true);
        }
        position.last_timestamp = newest.min(now_ms());
    }

    /// Waits until the put lock is free.
    pub fn wait_for_guard(&self) {
        drop(self.position.lock());
    }

    /// Locks the log for appending; refuses when the store cannot keep promises any more.
    pub fn put(&self) -> Result<PutGuard<'_>> {
        let mut position = self.position.lock();
        // Under the lock, which `close` takes once the store is marked closed.
        self.links.availability.check_writable()?;
        let now = now_ms().max(position.last_timestamp);
        position.last_timestamp = now;
        Ok(PutGuard {
            writer: self,
            position,
            now,
        })
    }
}

impl PutGuard<'_> {
    /// Checks the limits of one message and returns the length of its record.
    /// [MessageExtEncoder]
    pub fn measure(&self, m: &Message<'_>, body: usize, props: usize) -> Result<usize> {
        debug_assert!(names::is_topic(m.topic.name()));
        let limit = self.writer.max_message_size;
        if body > limit {
            return Err(StoreError::Illegal(format!(
                "message body size {body} over max value, maxMessageSize: {limit}"
            )));
        }
        if props > properties::MAX_LEN {
            return Err(StoreError::PropertiesTooLong(format!(
                "message properties length {props} over max value {}",
                properties::MAX_LEN
            )));
        }
        Ok(self.len_of(m, body, props))
    }

    /// Appends one message to the log and its entry to its queue.
    pub fn append(&mut self, m: &Message<'_>, c: &Content<'_>) -> Result<Appended> {
        let size = self.measure(m, c.body.len(), c.props_len())?;
        self.append_measured(size, m, c)
    }

    /// The same for what stood in the log before: maxMessageSize may have been larger then.
    pub fn append_again(&mut self, m: &Message<'_>, c: &Content<'_>) -> Result<Appended> {
        let size = self.measure(m, 0, c.props_len())? + c.body.len();
        self.append_measured(size, m, c)
    }

    fn append_measured(
        &mut self,
        size: usize,
        m: &Message<'_>,
        c: &Content<'_>,
    ) -> Result<Appended> {
        let queue = m.topic.queue(m.queue_id)?;
        let mut entries = queue.ready(1)?;
        let segment = self.place_for(size)?;
        let done = self.write(&segment, size, m, c, &mut entries)?;
        self.dispatched(m, &queue, done.end());
        Ok(done)
    }

    /// Queue offset that the next message of a queue gets.
    pub fn next_offset(&self, m: &Message<'_>) -> Result<i64> {
        Ok(m.topic.queue(m.queue_id)?.max_offset())
    }

    /// Appends all messages of a batch: consecutive, in one file, one store time. `count` and
    /// `total` are their number and the sum of what `measure` said of each; nothing is stored
    /// when the batch cannot be placed.
    pub fn append_batch<'c>(
        &mut self,
        m: &Message<'_>,
        count: usize,
        total: usize,
        contents: impl Iterator<Item = Content<'c>>,
        mut on_stored: impl FnMut(&Appended),
    ) -> Result<()> {
        let queue = m.topic.queue(m.queue_id)?;
        let mut entries = queue.ready(count)?;
        let segment = self.place_for(total)?;
        let mut end = 0;
        for c in contents {
            let size = self.len_of(m, c.body.len(), c.props_len());
            let done = self.write(&segment, size, m, &c, &mut entries)?;
            end = done.end();
            on_stored(&done);
        }
        self.dispatched(m, &queue, end);
        Ok(())
    }

    #[inline]
    fn len_of(&self, m: &Message<'_>, body: usize, props: usize) -> usize {
        let store_host = &self.writer.store_host;
        record::encoded_len(&m.born_host, store_host, body, m.topic.name().len(), props)
    }

    /// The file with room for `size` bytes and a blank header; rolls to the next if need be. The
    /// room is reserved on disk here, so that writing into it cannot fail.
    #[inline]
    fn place_for(&mut self, size: usize) -> Result<Arc<Segment>> {
        if let Some(segment) = &self.position.segment
            && segment.written() + size + BLANK_LEN <= segment.size()
        {
            let end = segment.written() + size;
            segment.ready(end, self.writer.links.log.chunk(), AHEAD)?;
            return Ok(segment.clone());
        }
        self.roll(size)
    }

    #[cold]
    fn roll(&mut self, size: usize) -> Result<Arc<Segment>> {
        let log = &self.writer.links.log;
        if size + BLANK_LEN > log.file_size() {
            return Err(StoreError::Illegal(format!(
                "a record of {size} bytes does not fit mappedFileSizeCommitLog={}",
                log.file_size()
            )));
        }
        let full = self.position.segment.as_ref();
        let fresh = log.roll(|fresh| {
            fresh.ready(size, log.chunk(), AHEAD)?;
            let Some(full) = full else { return Ok(()) };
            let at = full.written();
            if at < full.size() {
                full.ready(at + BLANK_LEN, log.chunk(), PAGE)?;
                // SAFETY: this guard is the one writer; the slice ends before `publish`. Only the
                // first eight bytes are touched, and those are reserved.
                let rest = unsafe { full.tail_unreserved(at) };
                record::encode_blank(rest);
                full.publish(full.size());
                full.expect_writing(false);
            }
            Ok(())
        })?;
        log.set_max_offset(fresh.base());
        self.position.segment = Some(fresh.clone());
        self.writer.links.preparer.wake();
        Ok(fresh)
    }

    #[inline]
    fn write(
        &mut self,
        segment: &Arc<Segment>,
        size: usize,
        m: &Message<'_>,
        c: &Content<'_>,
        queue: &mut QueueWriter<'_>,
    ) -> Result<Appended> {
        let at = segment.written();
        let phys = segment.base() + at as u64;
        let queued = dispatch::is_queued(m.sys_flag);
        let queue_offset = if queued { queue.next_offset() } else { 0 };
        let head = Head {
            queue_id: m.queue_id as i32,
            flag: c.flag,
            queue_offset,
            phys,
            sys_flag: m.sys_flag,
            born_timestamp: m.born_timestamp,
            born_host: m.born_host,
            store_timestamp: self.now,
            store_host: self.writer.store_host,
            reconsume_times: m.reconsume_times,
            prepared_transaction_offset: m.prepared_transaction_offset,
        };
        // SAFETY: this guard is the one writer; the slice ends before `publish`.
        let dst = unsafe { segment.tail(at, size, self.writer.links.log.chunk()) }?;
        record::encode(dst, &head, m.topic.name(), c.body, &c.props);
        segment.publish(at + size);
        self.writer.links.log.set_max_offset(phys + size as u64);
        if queued {
            let tags_code = if m.topic.is_schedule() {
                dispatch::tags_code(m.topic.name(), c.props[0], self.now)
            } else {
                c.tags_code
            };
            queue.append(&Entry {
                cq: CqEntry {
                    phys: phys as i64,
                    size: size as i32,
                    tags_code,
                },
                base: queue_offset,
                count: c.count as i32,
                store_time: self.now,
            })?;
        }
        self.writer.links.preparer.advance(at + size);
        Ok(Appended {
            phys,
            size,
            queue_offset,
            store_timestamp: self.now,
        })
    }

    /// The queue has new entries: it is to be flushed, and if it is watched that is an arrival.
    #[inline]
    fn dispatched(&self, m: &Message<'_>, queue: &Arc<ConsumeQueue>, end: u64) {
        // Pairs with the swap in `ConsumeQueue::watch` and the fence behind `clear_dirty`: either we
        // see the flag as it is now, or the one who changed it sees the entry.
        fence(Ordering::SeqCst);
        self.writer.links.queue_flusher.mark_dirty(queue);
        if queue.take_watch() {
            self.writer.links.arrivals.add(Arrival {
                topic: m.topic.clone(),
                queue_id: m.queue_id,
                end,
            });
        }
    }
}

impl Drop for PutGuard<'_> {
    /// What was stored is to be flushed at once if that confirms it, whoever waits for it.
    fn drop(&mut self) {
        let links = &self.writer.links;
        if self.position.segment.is_none() {
            return; // not even the first file could be made: the checkpoint must not tell of messages
        }
        links.log.set_newest_timestamp(self.now);
        if links.barrier.policy().flushed {
            links.log_flusher.request(links.log.max_offset());
        }
        if let Some(indexer) = &links.indexer {
            indexer.log_grew();
        }
    }
}
