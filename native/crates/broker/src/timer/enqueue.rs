//! From the queue of rmq_sys_wheel_timer into the wheel.

use super::fields::Fields;
use super::{Timers, Work};
use pyrmq_format::java;
use pyrmq_format::record::{self, Found};
use pyrmq_format::timer::{
    MAGIC_DEFAULT, MAGIC_DELETE, MAGIC_ROLL, NOWHERE, Slot, TIMER_TOPIC, Unit,
};
use pyrmq_store::{Resident, Result, Wait};
use std::sync::atomic::Ordering;

/// Bytes of the log that are read at a time.
const AHEAD: usize = 256 << 10;
/// Entries of the queue that are enqueued at a time.
pub(super) const AT_ONCE: usize = 4096;
/// A record that could not be read so often in a row is given up.
pub(super) const MAX_FAILURES: u32 = 10;

/// A message that gets into the wheel.
struct Incoming<'a> {
    phys: i64,
    size: i32,
    stored_at: i64,
    born: i64,
    fields: Fields<'a>,
}

impl Timers {
    /// Puts at most `most` messages into the wheel, those that are confirmed; `now` is the clock. Returns
    /// how many entries of the queue were dealt with.
    pub fn enqueue(&self, now: i64, most: usize) -> Result<usize> {
        let mut work = self.work.lock();
        // A slave enqueues what its master has enqueued, and when: `follow`.
        if self.store.config().replica || self.settings.stop_enqueue {
            return Ok(0);
        }
        let end = self.store.visible_max(&self.queue)?;
        self.take_in(&mut work, now, end, most)
    }

    /// Puts what is before queue offset `end` into the wheel.
    pub(super) fn take_in(
        &self,
        work: &mut Work,
        now: i64,
        end: i64,
        most: usize,
    ) -> Result<usize> {
        self.stay_in_queue(work);
        let from = work.queue_offset;
        let done = self.take_each(work, now, end, most);
        // What is in the wheel can be read again from memory until it is written.
        let written = work.log.write();
        let (first, now_at) = (from, work.queue_offset);
        self.seen.queue_offset.store(now_at, Ordering::Relaxed);
        let count = (now_at - first).max(0) as usize;
        self.seen
            .enqueued
            .fetch_add(count as u64, Ordering::Relaxed);
        done.and(written)?;
        Ok(count)
    }

    fn take_each(&self, work: &mut Work, now: i64, end: i64, most: usize) -> Result<()> {
        let mut heads = Resident::reading_ahead(Wait::ForDisk, AHEAD);
        let last = end.min(work.queue_offset.saturating_add(most as i64));
        while work.queue_offset < last {
            let offset = work.queue_offset;
            let Some(entry) = self.queue.entry(offset)? else {
                break;
            };
            if entry.cq.is_blank() || !entry.cq.is_valid() {
                self.skip(offset, "its queue entry is none");
                work.queue_offset += 1;
                continue;
            }
            let phys = entry.cq.phys as u64;
            let Some((segment, at)) = self.store.log().locate(phys) else {
                self.skip(offset, "its record is not in the log");
                work.queue_offset += 1;
                continue;
            };
            match heads.record(&segment, at) {
                Ok(bytes) => match record::read(bytes, false) {
                    Found::Record(v)
                        if v.phys == phys as i64 && bytes[v.topic.clone()] == *TIMER_TOPIC =>
                    {
                        let incoming = Incoming {
                            phys: v.phys,
                            size: v.total as i32,
                            stored_at: v.store_timestamp,
                            born: v.born_timestamp,
                            fields: Fields::read(&bytes[v.props.clone()]),
                        };
                        self.take_one(work, now, offset, &incoming)?;
                    }
                    _ => self.skip(
                        offset,
                        "no record of a timer message stands where it should",
                    ),
                },
                Err(e) => {
                    work.failures += 1;
                    if work.failures < MAX_FAILURES {
                        return Err(e);
                    }
                    self.skip(offset, &e.to_string());
                }
            }
            work.failures = 0;
            work.queue_offset += 1;
        }
        if work
            .rebuild
            .as_ref()
            .is_some_and(|r| r.is_over(work.queue_offset))
        {
            work.rebuild = None;
        }
        Ok(())
    }

    /// Continues inside of the queue, which may have lost its beginning.
    fn stay_in_queue(&self, work: &mut Work) {
        let (min, max) = (self.queue.min_offset(), self.queue.max_offset());
        let inside = work.queue_offset.clamp(min.min(max), max);
        if inside != work.queue_offset {
            ::log::warn!(
                topic:% = self.queue.topic_name(), queue = self.queue.queue_id();
                "timers: enqueuing goes on at queue offset {inside} of rmq_sys_wheel_timer, not at {}: \
                 the queue has {min} to {max}",
                work.queue_offset
            );
            work.queue_offset = inside;
        }
    }

    fn take_one(
        &self,
        work: &mut Work,
        now: i64,
        offset: i64,
        incoming: &Incoming<'_>,
    ) -> Result<()> {
        let fields = &incoming.fields;
        let Some(out_ms) = fields.out_ms.filter(|&out| out >= 0) else {
            self.skip(offset, "its TIMER_OUT_MS is no time");
            return Ok(());
        };
        if let Some(rebuild) = &work.rebuild
            && rebuild.leaves_out(offset, fields)
        {
            return Ok(());
        }
        let settings = &self.settings;
        let base = settings.slot(now);
        let base_ms = base * settings.precision;
        let mut magic = MAGIC_DEFAULT;
        let mut time_ms = out_ms;
        let window = settings.roll_window * settings.precision;
        let away = out_ms - base_ms;
        if away >= window {
            magic |= MAGIC_ROLL;
            // Where little is left behind the window, a shorter roll leaves enough for the next one.
            let slots = match away - window < settings.roll_window / 3 * settings.precision {
                true => settings.roll_window / 2,
                false => settings.roll_window,
            };
            time_ms = base_ms + slots * settings.precision;
        }
        if fields.deletes.is_some() {
            magic |= MAGIC_DELETE;
        }
        let mut time = settings.slot(time_ms).max(base - settings.farthest());
        let mut wheel = self.wheel.lock();
        // A clock that was far ahead may have left something at this place, for a time of its own.
        while wheel.any(time).is_some_and(|other| other.time != time) {
            time += 1;
        }
        if time != settings.slot(time_ms) {
            time_ms = time * settings.precision;
        }
        let slot = wheel.get(time);
        let unit = Unit {
            previous: slot.map_or(NOWHERE, |slot| slot.last),
            magic,
            base: base_ms,
            delay: (time_ms - base_ms) as i32,
            phys: incoming.phys,
            size: incoming.size,
            topic_hash: java::hash(fields.topic),
        };
        let position = work.log.append(&unit)? as i64;
        let count = if fields.deletes.is_some() { -1 } else { 1 };
        wheel.set(Slot {
            time,
            first: slot.map_or(position, |slot| slot.first),
            last: position,
            count: slot.map_or(0, |slot| slot.count).saturating_add(count),
            magic: 0,
        });
        drop(wheel);
        if time < work.read {
            self.set_read(work, time);
        }
        // A message is counted with its delay once, however often it is rolled.
        let is_new = fields.deletes.is_none() && fields.roll_times == 0;
        let delay = is_new.then(|| out_ms.saturating_sub(incoming.born));
        let mut topics = self.topics.lock();
        topics.enqueued(fields.topic, count as i64, now, delay);
        drop(topics);
        self.seen
            .stored_at
            .store(incoming.stored_at, Ordering::Relaxed);
        self.seen.enqueued_at.store(now, Ordering::Relaxed);
        Ok(())
    }

    /// A message that cannot be set is counted, and those behind it go on.
    fn skip(&self, offset: i64, why: &str) {
        self.seen.lost.fetch_add(1, Ordering::Relaxed);
        ::log::error!(
            topic:% = self.queue.topic_name(), queue = self.queue.queue_id();
            "timers: the message at queue offset {offset} of rmq_sys_wheel_timer is left out: {why}"
        );
    }
}
