//! Keeping what is in memory: the timer log, the wheel and the check point, in this order.
//!
//! `prepare` takes all of it at one moment. Once the commit log is on disk up to the end that it names,
//! `flush` writes it: a check point never says of a delivery that a power cut may take back.

use super::check::{Check, Ours};
use super::prepared::{Needed, Prepared};
use super::{Timers, enqueue};
use pyrmq_format::timer::TimerCheck;
use pyrmq_store::{Result, now_ms};

/// How far timers are, for slaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub fields: TimerCheck,
    /// `fields` says all about deliveries before this physical offset.
    pub log_end: u64,
}

impl Timers {
    /// How far enqueuing and delivering are, at one moment.
    pub fn progress(&self) -> Result<Progress> {
        let (prepared, _) = self.at_once(false)?;
        Ok(Progress {
            fields: prepared.check.fields,
            log_end: prepared.check.ours.map_or(0, |ours| ours.log_end),
        })
    }

    /// Takes what `flush` is to keep. Returns the physical offset up to which the commit log has to be on
    /// disk before.
    pub fn prepare(&self) -> Result<u64> {
        let mut prepared = self.prepared.lock();
        if let Some(before) = prepared.take() {
            self.wheel.lock().keep_dirty(&before.pages);
        }
        if self.work.lock().rebuild.is_some() {
            // A start in between makes all of it again.
            return Ok(0);
        }
        let (now, log_end) = self.at_once(true)?;
        *prepared = Some(now);
        Ok(log_end)
    }

    fn at_once(&self, with_files: bool) -> Result<(Prepared, u64)> {
        let mut work = self.work.lock();
        let log = match with_files {
            true => work.log.newest()?,
            false => None,
        };
        let read = match &work.current {
            Some(current) => work.read.min(current.chain.time),
            None if work.followed.is_some() => work.read,
            // Nothing waits before the next slot, so nothing before it is to be looked for again.
            None => {
                let now = self.settings.slot(self.store.now_ms());
                let next = self.wheel.lock().next(work.read);
                next.map_or(work.read, |next| next.min(now)).max(work.read)
            }
        };
        let log_end = self.store.write_staged(|log_end| log_end)?;
        let speaks_of = match (work.followed, &work.current) {
            (Some(followed), _) => followed,
            // What was delivered since then has not been met in the wheel yet.
            _ if !work.delivered.messages.is_empty() => work.delivered.from,
            // Of the slot that is being delivered a part is delivered behind where the log ended then.
            (None, Some(current)) => current.log_end,
            (None, None) => log_end,
        };
        if with_files {
            work.counter += 1;
        }
        let fields = TimerCheck {
            read_ms: read * self.settings.precision,
            log_flushed: work.log.end() as i64,
            queue_offset: work.queue_offset,
            master_queue_offset: work.queue_offset,
            state_version: 0,
            timestamp: now_ms(),
            counter: work.counter,
        };
        let ours = Some(Ours {
            log_end: speaks_of,
            precision: self.settings.precision,
            ended_ms: work.ended * self.settings.precision,
        });
        let pages = match with_files {
            true => self.wheel.lock().take_dirty(),
            false => Vec::new(),
        };
        let needed = match with_files {
            true => self.needed_now(&mut work)?,
            false => Needed::ALL,
        };
        let prepared = Prepared {
            check: Check { fields, ours },
            pages,
            log,
            needed,
        };
        Ok((prepared, log_end))
    }

    /// Keeps what `prepare` took, on disk. What fails is kept by the next `prepare`.
    pub fn flush(&self) -> Result<()> {
        let mut slot = self.prepared.lock();
        let Some(prepared) = slot.take() else {
            return Ok(());
        };
        let done = prepared.write(&self.paths);
        match done {
            Ok(()) => *self.needed.lock() = prepared.needed,
            Err(_) => self.wheel.lock().keep_dirty(&prepared.pages),
        }
        done
    }

    /// Deletes files of the timer log that are of messages only which the commit log has no more. Returns
    /// how many.
    pub fn clean(&self) -> Result<usize> {
        let min = self.store.log().min_offset();
        let count = self.work.lock().log.delete_before(min)?;
        if count > 0 {
            ::log::info!("timers: {count} files of the timer log are deleted");
        }
        Ok(count)
    }

    /// A slave's wheel follows its master's: everything before `queue_offset` is enqueued, and slots before
    /// `read_ms` are delivered, as the log says that ends at `log_end`. False while the log here does
    /// not have all of that; then nothing changes.
    pub fn follow(&self, now: i64, read_ms: i64, queue_offset: i64, log_end: u64) -> Result<bool> {
        let mut work = self.work.lock();
        if !self.store.config().replica
            || self.store.barrier().confirmed() < log_end
            || self.store.visible_max(&self.queue)? < queue_offset
        {
            return Ok(false);
        }
        while work.queue_offset < queue_offset {
            if self.take_in(&mut work, now, queue_offset, enqueue::AT_ONCE)? == 0 {
                return Ok(false);
            }
        }
        let read = self.settings.slot(read_ms);
        let mut wheel = self.wheel.lock();
        let mut at = work.read;
        while let Some(time) = wheel.next(at).filter(|&time| time < read) {
            wheel.clear(time);
            at = time + 1;
        }
        drop(wheel);
        self.set_read(&mut work, read);
        work.ended = work.ended.max(read);
        work.followed = Some(log_end);
        work.delivered.messages.clear();
        Ok(true)
    }
}
