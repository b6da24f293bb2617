//! The put path: append to the log, dispatch to the queue. One writer under one lock.
//!
//! A record is staged, then written with all that came with it, then its queue entry is appended and
//! whoever waits for it is told. So a queue, the index and a reader know only of what is in the log's
//! file, and a process that is killed leaves a prefix of what it was writing.
//!
//! Blocks are reserved when a record is staged: a full disk refuses that one message. A write that
//! fails all the same leaves the records staged, their answers say so, and the next put writes them
//! first or is refused.

use super::arrivals::{Arrival, Arrivals};
use super::availability::Availability;
use super::barrier::Barrier;
use super::clock::monotonic_us;
use super::commit_log::CommitLog;
use super::config::StoreConfig;
use super::dispatch;
use super::error::{Result, StoreError};
use super::expressions::Expressions;
use super::figures::Figures;
use super::indexer::Indexer;
use super::late_writer::LateWriter;
use super::log_flusher::LogFlusher;
use super::message::{Appended, Content, Message};
use super::prepare::Preparer;
use super::queue_flusher::QueueFlusher;
use super::segment::Segment;
use super::staging::{self, Run, Staging};
use super::stalls::Stalls;
use super::store_time::StoreTime;
use super::topics::Topic;
use parking_lot::{Mutex, MutexGuard};
use pyrmq_format::cq_entry::{CqEntry, Entry, tags_code};
use pyrmq_format::delay::Levels;
use pyrmq_format::host::Host;
use pyrmq_format::record::{self, BLANK_LEN, Head};
use pyrmq_format::{names, properties};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A write that failed is tried again no sooner: every request that comes meanwhile is refused.
const RETRY: Duration = Duration::from_millis(100);

/// How long one waits for the put lock while another thread writes to a slow disk.
const WAIT_FOR_LATE: Duration = Duration::from_millis(100);

/// Who waits for that looks so often.
const LOOK: Duration = Duration::from_millis(1);

/// Who is on the event loop waits so long for the put lock.
const MOMENT: Duration = Duration::from_millis(5);

/// State that only the holder of the put lock sees.
#[derive(Default)]
struct Position {
    /// The file that records go to, and the same opened for writing.
    segment: Option<Arc<Segment>>,
    file: Option<File>,
    staging: Staging,
    /// Of the message that is being staged.
    bitmap: Vec<u8>,
    /// When the last write was tried, if it failed.
    stuck: Option<Instant>,
    last_timestamp: i64,
}

impl Position {
    /// Where the next record goes in the file.
    #[inline]
    fn at(&self) -> usize {
        let written = self.segment.as_ref().map_or(0, |s| s.written());
        written + self.staging.len()
    }
}

/// What the writer changes and whom it informs.
pub struct Links {
    pub availability: Arc<Availability>,
    pub time: Arc<StoreTime>,
    pub barrier: Arc<Barrier>,
    pub log: Arc<CommitLog>,
    pub preparer: Arc<Preparer>,
    pub log_flusher: Arc<LogFlusher>,
    pub queue_flusher: Arc<QueueFlusher>,
    pub arrivals: Arc<Arrivals>,
    pub indexer: Option<Arc<Indexer>>,
    pub stalls: Arc<Stalls>,
    pub late: Arc<LateWriter>,
    pub figures: Arc<Figures>,
}

/// Owner of the put lock.
pub struct Writer {
    links: Links,
    store_host: Host,
    max_message_size: usize,
    max_copied: usize,
    delay_levels: Levels,
    position: Mutex<Position>,
}

/// The right to append. Holding it over all messages of one network read takes the lock and the
/// clock once.
///
/// When it is dropped, what is staged is written, unless it is kept (`keep_staged`).
pub struct PutGuard<'s> {
    writer: &'s Writer,
    position: MutexGuard<'s, Position>,
    now: i64,
    keeps_staged: bool,
}

impl Writer {
    pub fn new(cfg: &StoreConfig, links: Links) -> Self {
        Writer {
            links,
            store_host: Host::new(cfg.store_host),
            max_message_size: cfg.max_message_size,
            max_copied: cfg.max_copied_record(),
            delay_levels: cfg.delay_levels.clone(),
            position: Mutex::default(),
        }
    }

    /// What stands in storeHost of new records.
    pub fn store_host(&self) -> &Host {
        &self.store_host
    }

    pub fn time(&self) -> &StoreTime {
        &self.links.time
    }

    /// Continues at the end of the log, behind a record with this store timestamp.
    pub fn start_after(&self, newest: i64) -> Result<()> {
        let mut position = self.position.lock();
        position.segment = self.links.log.segments().last().cloned();
        if let Some(active) = &position.segment {
            position.file = Some(active.open_for_writing()?);
        }
        position.last_timestamp = newest.min(self.links.time.clock());
        Ok(())
    }

    /// The put lock, unless somebody holds it who writes to a disk that hangs.
    #[inline]
    fn lock(&self) -> Result<MutexGuard<'_, Position>> {
        match self.position.try_lock() {
            Some(position) => Ok(position),
            None => self.wait_for_lock(),
        }
    }

    #[cold]
    fn wait_for_lock(&self) -> Result<MutexGuard<'_, Position>> {
        let stalls = &self.links.stalls;
        stalls.check()?;
        let most = match self.links.late.is_pending() {
            true => stalls.timeout().min(WAIT_FOR_LATE),
            false => stalls.timeout(),
        };
        let begun = monotonic_us();
        let position = self.position.try_lock_for(most);
        let waited = monotonic_us() - begun;
        self.links.figures.lock_waits.add(waited.max(0) as u64, 1);
        position.ok_or_else(|| stalls.busy())
    }

    /// Locks the log for appending; refuses when the store cannot keep promises any more, or a write
    /// takes too long.
    pub fn put(&self) -> Result<PutGuard<'_>> {
        let mut position = self.lock()?;
        // Under the lock, which `close` takes once the store is marked closed.
        self.links.availability.check_writable()?;
        let now = self.links.time.next(position.last_timestamp);
        if now < position.last_timestamp {
            // Before a record of this time comes: nothing may say that it is on disk.
            self.links.log.set_newest_timestamp(now);
        }
        position.last_timestamp = now;
        let mut guard = PutGuard {
            writer: self,
            position,
            now,
            keeps_staged: false,
        };
        if guard.position.stuck.is_some() {
            guard.keeps_staged = true; // the write that failed is tried once, here
            guard.write().map_err(|e| {
                StoreError::NotAvailable(format!("the commit log cannot be written: {e}"))
            })?;
            guard.keeps_staged = false;
        }
        Ok(guard)
    }

    /// Has these expressions evaluated for the messages of a topic that follow. Returns what lies before all
    /// of those: a time that is not before their predecessors', and a physical offset, which `told` gets
    /// before any of them is stored. None where the log is being written for longer than a moment.
    pub fn set_expressions(
        &self,
        topic: &Topic,
        expressions: Option<Expressions>,
        told: impl FnOnce(u64),
    ) -> Option<(i64, u64)> {
        let position = self.position.try_lock_for(MOMENT)?;
        let replaced = topic.set_expressions(expressions);
        let base = position.segment.as_ref().map_or(0, |s| s.base());
        let offset = base + position.at() as u64;
        told(offset);
        let time = self.links.time.clock().max(position.last_timestamp);
        drop(position);
        drop(replaced); // who puts does not wait for that
        Some((time, offset))
    }

    /// Has the next write tried at once, also behind one that failed just now.
    pub fn retry_now(&self) {
        let mut position = self.position.lock();
        position.stuck = position.stuck.and_then(|tried| tried.checked_sub(RETRY));
    }

    /// Writes what is staged, also into a store that takes no more messages. Returns what `during` does
    /// of where the log ends, behind which nothing is staged or dispatched as long as it runs. Refuses
    /// when another write takes too long.
    pub fn write_staged<T>(&self, during: impl FnOnce(u64) -> T) -> Result<T> {
        let _guard = self.written(self.lock()?)?;
        Ok(during(self.links.log.max_offset()))
    }

    /// For who is on the event loop and will need what is staged: on a slow disk the other thread writes
    /// it, and `StoreError::Busy` says that it has not within a moment.
    pub fn await_late(&self) -> Result<()> {
        let Links { stalls, late, .. } = &self.links;
        let end = Instant::now() + WAIT_FOR_LATE;
        while stalls.is_slow() && self.leaves_staged() {
            if Instant::now() >= end {
                return Err(stalls.busy());
            }
            late.ask();
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Whether something is staged, or being written. A write that failed is for the next put to try.
    fn leaves_staged(&self) -> bool {
        let position = self.position.try_lock();
        position.is_none_or(|p| p.stuck.is_none() && !p.staging.is_empty())
    }

    /// Writes what is staged, however long that takes.
    pub fn write_late(&self) -> Result<()> {
        self.written(self.position.lock()).map(drop)
    }

    /// The tag code of an entry of the schedule topic.
    #[cold]
    fn deliver_time(&self, topic: &Topic, c: &Content<'_>, now: i64) -> i64 {
        tags_code(topic.name(), &c.props.concat(), now, &self.delay_levels)
    }

    fn written<'s>(&'s self, position: MutexGuard<'s, Position>) -> Result<PutGuard<'s>> {
        let mut guard = PutGuard {
            writer: self,
            now: position.last_timestamp,
            position,
            keeps_staged: true,
        };
        guard.write()?;
        Ok(guard)
    }
}

impl PutGuard<'_> {
    /// Checks the limits of one message and returns the length of its record.
    /// [MessageExtEncoder]
    pub fn measure(&self, m: &Message<'_>, body: usize, props: usize) -> Result<usize> {
        debug_assert!(names::is_stored_topic(m.topic.name()));
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
        self.begin(m, 1, size)?;
        Ok(self.stage(size, m, c))
    }

    /// Queue offset that the next message of a queue gets.
    pub fn next_offset(&self, m: &Message<'_>) -> Result<i64> {
        Ok(m.topic.queue(m.queue_id)?.next_offset())
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
        self.begin(m, count, total)?;
        for c in contents {
            let size = self.len_of(m, c.body.len(), c.props_len());
            on_stored(&self.stage(size, m, &c));
        }
        Ok(())
    }

    /// Makes sure that `count` records of `total` bytes can be staged: they have their places in a
    /// file of the log and in their queue.
    #[inline]
    fn begin(&mut self, m: &Message<'_>, count: usize, total: usize) -> Result<()> {
        let queue = m.topic.queue(m.queue_id)?;
        self.make_room(total)?;
        // Behind what may have been written just now.
        let places = queue.ready(count)?;
        self.position.staging.begin_run(Run {
            topic: m.topic.clone(),
            queue_id: m.queue_id,
            queue,
            places,
            entries: 0,
            end: 0,
        });
        Ok(())
    }

    #[inline]
    fn len_of(&self, m: &Message<'_>, body: usize, props: usize) -> usize {
        let store_host = &self.writer.store_host;
        record::encoded_len(&m.born_host, store_host, body, m.topic.name().len(), props)
    }

    /// Makes the file one with room for `size` bytes and a blank header; rolls to the next if need
    /// be. The room is reserved on disk here: a full disk refuses the message that needs it.
    #[inline]
    fn make_room(&mut self, size: usize) -> Result<()> {
        let staged = self.position.staging.len();
        // On a slow disk it is left to whoever can wait: see `Stalls`.
        if staged > 0 && staged + size > staging::LIMIT && !self.writer.links.stalls.is_slow() {
            self.write()?;
        }
        let end = self.position.at() + size;
        match &self.position.segment {
            Some(segment) if end + BLANK_LEN <= segment.size() => {
                segment.reserve(end, self.writer.links.log.chunk())
            }
            _ => self.roll(size),
        }
    }

    #[cold]
    fn roll(&mut self, size: usize) -> Result<()> {
        let chunk = self.writer.links.log.chunk();
        self.roll_behind(size, |full, file| end_with_blank(full, file, chunk))
    }

    /// Continues in a new file, once `end` has ended the one that is full.
    fn roll_behind(
        &mut self,
        size: usize,
        end: impl FnOnce(&Segment, &File) -> Result<()>,
    ) -> Result<()> {
        let log = &self.writer.links.log;
        if size + BLANK_LEN > log.file_size() {
            return Err(StoreError::Illegal(format!(
                "a record of {size} bytes does not fit mappedFileSizeCommitLog={}",
                log.file_size()
            )));
        }
        self.write()?;
        let (full, file) = (self.position.segment.as_ref(), self.position.file.as_ref());
        let mut opened = None;
        let fresh = log.roll(|fresh| {
            fresh.reserve(size, log.chunk())?;
            opened = Some(fresh.open_for_writing()?);
            if let (Some(full), Some(file)) = (full, file) {
                end(full, file)?;
            }
            Ok(())
        })?;
        log.set_max_offset(fresh.base());
        self.position.segment = Some(fresh);
        self.position.file = opened;
        self.writer.links.preparer.wake();
        Ok(())
    }

    /// Stages one record, for which `begin` made room.
    #[inline]
    fn stage(&mut self, size: usize, m: &Message<'_>, c: &Content<'_>) -> Appended {
        let position = &mut *self.position;
        let base = position.segment.as_ref().map_or(0, |s| s.base());
        let phys = base + position.at() as u64;
        let staging = &mut position.staging;
        let queued = dispatch::is_queued(m.sys_flag);
        let queue_offset = if queued { staging.next_offset() } else { 0 };
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
        let place = staging.place(size);
        record::encode(place, &head, m.topic.name(), c.body, &c.props);
        position.bitmap.clear();
        if queued && m.topic.has_expressions() {
            let properties = record::props(place).unwrap_or(&[]);
            m.topic.evaluate(properties, &mut position.bitmap);
        }
        let done = Appended {
            phys,
            size,
            queue_offset,
            store_timestamp: self.now,
        };
        let entry = queued.then(|| {
            let tags_code = match m.topic.is_schedule() {
                true => self.writer.deliver_time(m.topic, c, self.now),
                false => c.tags_code,
            };
            Entry {
                cq: CqEntry {
                    phys: phys as i64,
                    size: size as i32,
                    tags_code,
                },
                base: queue_offset,
                count: c.count as i32,
                store_time: self.now,
            }
        });
        staging.push(size, done.end(), entry, &position.bitmap);
        m.topic.count_put(c.count.max(0) as u32, size);
        done
    }

    /// Leaves what is staged to whoever writes next: the end of a round of many connections.
    pub fn keep_staged(&mut self) {
        self.keeps_staged = true;
    }

    /// Writes what is staged; on a slow disk it is left to a thread. Whether it is written.
    pub fn write_or_leave(&mut self) -> Result<bool> {
        let links = &self.writer.links;
        if links.stalls.is_slow() {
            if !self.position.staging.is_empty() {
                links.late.ask();
            }
            return Ok(false);
        }
        self.write().map(|()| true)
    }

    /// Writes what is staged into the log's file and dispatches it.
    pub fn write(&mut self) -> Result<()> {
        let links = &self.writer.links;
        let position = &mut *self.position;
        let (Some(segment), Some(file)) = (&position.segment, &position.file) else {
            return Ok(());
        };
        if position.staging.is_empty() {
            return Ok(());
        }
        if position.stuck.is_some_and(|tried| tried.elapsed() < RETRY)
            && let Some(error) = links.barrier.unwritten()
        {
            return Err(error);
        }
        let at = segment.written();
        let bytes = position.staging.bytes();
        let stalls = &links.stalls;
        let (written, span) = stalls.during_write(|| file.write_all_at(bytes, at as u64));
        if let Err(e) = written {
            let error = StoreError::io("write", segment.path(), &e);
            if position.stuck.replace(Instant::now()).is_none() {
                log::error!(
                    path:% = error.path().display();
                    "{error}: messages are refused (SERVICE_NOT_AVAILABLE) until the commit log can be \
                     written; make room on its disk or mend it. It is tried again with each message"
                );
                links.barrier.set_unwritten(Some(error.clone()));
            }
            return Err(error);
        }
        let was_stuck = position.stuck.take().is_some();
        let end = at + position.staging.len();
        segment.publish(end);
        let log_end = segment.base() + end as u64;
        links.figures.wrote(log_end, span);
        links.log.set_max_offset(log_end);
        position.staging.dispatch(|run| links.tell(run));
        links.log.set_newest_timestamp(position.last_timestamp);
        if was_stuck {
            log::info!(
                "the commit log is written again; messages that were refused are stored too"
            );
            links.barrier.set_unwritten(None);
        }
        links.preparer.advance(end);
        links.barrier.written();
        if links.barrier.policy().flushed {
            links.log_flusher.request(links.log.max_offset());
        }
        if let Some(indexer) = &links.indexer {
            indexer.log_grew();
        }
        Ok(())
    }
}

impl Links {
    /// A queue has new entries: it is to be flushed, and if it is watched that is an arrival.
    #[inline]
    fn tell(&self, run: Run) {
        self.queue_flusher.mark_dirty(&run.queue);
        if run.queue.take_watch() {
            self.arrivals.add(Arrival {
                topic: run.topic,
                queue_id: run.queue_id,
                end: run.end,
            });
        }
    }
}

/// Ends a full file: the rest is blank, of which the first bytes are written.
fn end_with_blank(full: &Segment, file: &File, chunk: usize) -> Result<()> {
    let at = full.written();
    if at == full.size() {
        return Ok(());
    }
    full.reserve(at + BLANK_LEN, chunk)?;
    file.write_all_at(&record::blank(full.size() - at), at as u64)
        .map_err(|e| StoreError::io("write", full.path(), &e))?;
    full.publish(full.size());
    Ok(())
}

impl Drop for PutGuard<'_> {
    fn drop(&mut self) {
        if !self.keeps_staged && !std::thread::panicking() {
            let _ = self.write_or_leave(); // logged; the barrier tells those who wait
        }
    }
}

#[path = "copied.rs"]
mod copied;

#[cfg(test)]
#[path = "put_tests.rs"]
mod tests;
