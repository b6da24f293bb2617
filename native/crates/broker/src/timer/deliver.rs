//! Delivering what is due: each message is appended to the topic and queue that it was sent to.

use super::chain::Chain;
use super::enqueue::{AT_ONCE, MAX_FAILURES};
use super::fields::{Fields, key};
use super::{Current, Timers, Work};
use crate::delay::{Target, target};
use pyrmq_format::properties;
use pyrmq_format::timer::{DEQUEUE_MS, ENQUEUE_MS, NOWHERE, ROLL_TIMES, TIMER_TOPIC, Unit};
use pyrmq_store::{PutGuard, Result, StoreError, Stored};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Records, and bytes of bodies, that are appended under one hold of the put lock: senders wait for
/// no more.
const CHUNK: usize = 256;
const CHUNK_BYTES: usize = 1 << 20;
const CHUNK_TIME: Duration = Duration::from_millis(2);

/// What one call delivered.
#[derive(Clone, Debug, Default)]
pub struct Delivered {
    /// Units dealt with, deletes and what was taken back among them.
    pub count: usize,
    /// Messages that were appended to their topics.
    pub given: usize,
    /// Why it ended before everything that is due was delivered.
    pub error: Option<StoreError>,
    /// How many messages were left out, by why.
    left_out: BTreeMap<String, usize>,
}

/// What a unit is of.
enum Due {
    Message(Box<Stored>),
    /// It is a delete, or was delivered before.
    Nothing,
    Lost(&'static str),
}

impl Timers {
    /// Delivers what is due at `now`, `most` messages and those of a chunk begun. Enqueues all that
    /// is in the queue first, as deletes may be there. Reads the disk where messages are not in memory,
    /// without the put lock. A slave delivers nothing.
    pub fn deliver(&self, now: i64, most: usize) -> Delivered {
        let mut done = Delivered::default();
        if self.store.config().replica {
            return done;
        }
        let mut work = self.work.lock();
        done.error = self.deliver_due(&mut work, now, most, &mut done).err();
        for (why, count) in &done.left_out {
            ::log::error!("timers: {count} messages are left out: {why}");
        }
        done
    }

    fn deliver_due(
        &self,
        work: &mut Work,
        now: i64,
        most: usize,
        done: &mut Delivered,
    ) -> Result<()> {
        let until = self.settings.slot(now);
        self.take_in_all(work, now)?;
        while done.count < most {
            if work.current.is_none() {
                // What was rolled may belong to the next slot, and be taken back there.
                if work.rolled > work.queue_offset {
                    self.take_in_all(work, now)?;
                }
                if work.rolled > work.queue_offset && !self.settings.stop_enqueue {
                    break; // it is not confirmed yet
                }
                if !self.begin_next(work, until)? {
                    if work.queue_offset >= work.rolled {
                        work.delivered.all_is_delivered(now);
                    }
                    break;
                }
            }
            if !self.deliver_chunk(work, now, done)? {
                self.end_part(work)?;
            }
        }
        Ok(())
    }

    /// Enqueues all that is confirmed.
    fn take_in_all(&self, work: &mut Work, now: i64) -> Result<()> {
        let end = self.store.visible_max(&self.queue)?;
        while work.queue_offset < end && !self.settings.stop_enqueue {
            if self.take_in(work, now, end, AT_ONCE)? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Opens the first slot that something waits in; false if none before `until` is.
    fn begin_next(&self, work: &mut Work, until: i64) -> Result<bool> {
        let wheel = self.wheel.lock();
        let next = wheel.next(work.read);
        let slot = next.and_then(|time| wheel.get(time));
        drop(wheel);
        let Some(slot) = slot.filter(|slot| slot.time < until) else {
            let read = work.read.max(until);
            self.set_read(work, read);
            return Ok(false);
        };
        // As long as deliveries of before the start are still to be met, a check point may not pass them.
        let log_end = match work.delivered.messages.is_empty() {
            true => self.store.log().max_offset(),
            false => work.delivered.from,
        };
        self.open_slot(work, slot.time, NOWHERE, FxHashSet::default(), log_end)?;
        self.set_read(work, slot.time);
        Ok(true)
    }

    /// Opens what a slot has behind the position `dealt_with` of the timer log.
    fn open_slot(
        &self,
        work: &mut Work,
        time: i64,
        dealt_with: i64,
        mut deletes: FxHashSet<u128>,
        log_end: u64,
    ) -> Result<()> {
        let Some(slot) = self.wheel.lock().get(time) else {
            return Ok(());
        };
        let give_up = work.failures + 1 >= MAX_FAILURES;
        let opened = Chain::open(
            &mut work.log,
            &slot,
            self.settings.precision,
            dealt_with,
            |unit| match Stored::read(&self.store, unit.phys.max(0) as u64) {
                Ok(Some(stored)) if stored.topic() == TIMER_TOPIC => {
                    let fields = Fields::read(stored.props());
                    deletes.extend(fields.deletes.map(|wanted| named(fields.topic, wanted)));
                    Ok(())
                }
                Ok(_) => Ok(()),
                Err(_) if give_up => Ok(()),
                Err(e) => Err(e),
            },
        );
        match opened {
            Ok(chain) => {
                work.failures = 0;
                work.current = Some(Current {
                    chain,
                    deletes,
                    log_end,
                });
                Ok(())
            }
            Err(e) => {
                work.failures += 1;
                Err(e)
            }
        }
    }

    /// All units of the current part are dealt with: the slot becomes blank, unless more arrived in it.
    fn end_part(&self, work: &mut Work) -> Result<()> {
        let Some(current) = &work.current else {
            return Ok(());
        };
        let (time, newest, log_end) = (current.chain.time, current.chain.newest, current.log_end);
        let mut wheel = self.wheel.lock();
        if wheel.get(time).is_some_and(|slot| slot.last > newest) {
            drop(wheel);
            let deletes = current.deletes.clone();
            return self.open_slot(work, time, newest, deletes, log_end);
        }
        wheel.clear(time);
        if wheel.is_empty() && work.queue_offset >= self.queue.max_offset() {
            self.topics.lock().nothing_waits();
        }
        drop(wheel);
        work.current = None;
        work.ended = work.ended.max(time + 1);
        // A clock that is set back is before it again: nothing waits in it all the same.
        if work.read == time {
            self.set_read(work, time + 1);
        }
        Ok(())
    }

    /// Delivers a chunk of the current slot; false if it has no more.
    fn deliver_chunk(&self, work: &mut Work, now: i64, done: &mut Delivered) -> Result<bool> {
        let due = self.read_due(work)?;
        if due.is_empty() {
            return Ok(false);
        }
        let mut guard = self.store.put()?;
        let start = Instant::now();
        let mut count = 0;
        let mut failed = Ok(());
        for (unit, due) in &due {
            if start.elapsed() > CHUNK_TIME {
                break; // new queues make files: what is left comes in the next chunk
            }
            failed = self.deliver_one(&mut guard, work, now, unit, due, done);
            if failed.is_err() {
                break;
            }
            count += 1;
        }
        drop(guard);
        if let Some(current) = &mut work.current {
            current.chain.taken(count);
        }
        done.count += count;
        self.seen
            .dequeued
            .fetch_add(count as u64, Ordering::Relaxed);
        failed.map(|()| true)
    }

    /// The units of the current slot that follow, with their records.
    fn read_due(&self, work: &mut Work) -> Result<Vec<(Unit, Due)>> {
        let Some(current) = &mut work.current else {
            return Ok(Vec::new());
        };
        let time = current.chain.time;
        let units = current.chain.ahead(&mut work.log, CHUNK)?;
        let mut due = Vec::with_capacity(units.len());
        let mut bytes = 0;
        for unit in units {
            if bytes >= CHUNK_BYTES {
                break;
            }
            let phys = unit.phys.max(0) as u64;
            if unit.deletes() || work.delivered.messages.contains(&phys) {
                due.push((*unit, Due::Nothing));
                continue;
            }
            match Stored::read(&self.store, phys) {
                Ok(Some(stored)) if stored.topic() == TIMER_TOPIC => {
                    bytes += stored.body().len();
                    due.push((*unit, Due::Message(Box::new(stored))));
                }
                Ok(_) if phys < self.store.log().min_offset() => due.push((
                    *unit,
                    Due::Lost("the commit log has deleted them (fileReservedTime)"),
                )),
                Ok(_) => due.push((*unit, Due::Lost("their records cannot be read"))),
                // What was read before is delivered first.
                Err(_) if !due.is_empty() => break,
                Err(e) => {
                    work.failures += 1;
                    if work.failures < MAX_FAILURES {
                        return Err(e);
                    }
                    ::log::error!(path:% = e.path().display(); "timers: a message of slot {time}: {e}");
                    due.push((*unit, Due::Lost("the disk does not read their records")));
                }
            }
            work.failures = 0;
        }
        Ok(due)
    }

    fn deliver_one(
        &self,
        guard: &mut PutGuard<'_>,
        work: &mut Work,
        now: i64,
        unit: &Unit,
        due: &Due,
        done: &mut Delivered,
    ) -> Result<()> {
        let stored = match due {
            Due::Message(stored) => stored,
            Due::Nothing => {
                work.delivered.messages.remove(&(unit.phys.max(0) as u64));
                return Ok(());
            }
            Due::Lost(why) => {
                self.seen.lost.fetch_add(1, Ordering::Relaxed);
                *done.left_out.entry((*why).into()).or_default() += 1;
                return Ok(());
            }
        };
        let real = Fields::read(stored.props());
        if unit.is_roll() {
            self.topics.lock().add(real.topic, -1, now);
            return match self.roll(guard, now, unit, stored, &real) {
                Ok(offset) => {
                    work.rolled = offset + 1;
                    Ok(())
                }
                Err(e @ (StoreError::Illegal(_) | StoreError::PropertiesTooLong(_))) => {
                    *done.left_out.entry(e.to_string()).or_default() += 1;
                    Ok(())
                }
                Err(e) => Err(e),
            };
        }
        let taken_back = work
            .current
            .as_ref()
            .is_some_and(|c| is_deleted(&c.deletes, &real));
        self.topics
            .lock()
            .add(real.topic, if taken_back { 0 } else { -1 }, now);
        if taken_back || real.deletes.is_some() {
            return Ok(());
        }
        let mut leave_out = |why: String| {
            *done.left_out.entry(why).or_default() += 1;
            Ok(())
        };
        let topic = match target(&self.store, real.topic, real.queue_id) {
            Target::Topic(topic) => topic,
            Target::Deleted => {
                let name = String::from_utf8_lossy(real.topic);
                return leave_out(format!("their topic {name} was deleted"));
            }
            Target::Nowhere => {
                return leave_out("their REAL_TOPIC or REAL_QID is wrong".into());
            }
        };
        let queue_id = topic.queue_that_is_read(real.queue_id.unwrap_or(0));
        let flags = stored.view().sys_flag;
        let message = stored.again(&topic, queue_id, flags, stored.phys() as i64);
        let (props, more) = with_times(stored, unit, now, &[ENQUEUE_MS, DEQUEUE_MS]);
        let props = props.as_deref().unwrap_or(stored.props());
        let content = stored.content(props, &more, real.tags_code());
        let appended = match guard.append_again(&message, &content) {
            Err(StoreError::PropertiesTooLong(_)) => {
                // A message of another broker without room: it does without the times.
                let content = stored.content(stored.props(), b"", real.tags_code());
                guard.append_again(&message, &content)
            }
            other => other,
        };
        match appended {
            Ok(_) => {
                done.given += 1;
                self.topics.lock().dequeued(real.topic);
                if topic.settings().is_none() {
                    self.note_unknown(real.topic);
                }
                Ok(())
            }
            Err(e @ (StoreError::Illegal(_) | StoreError::PropertiesTooLong(_))) => {
                leave_out(e.to_string())
            }
            Err(e) => Err(e),
        }
    }

    /// Appends a message to rmq_sys_wheel_timer again: its time was too far away. Returns its queue offset.
    fn roll(
        &self,
        guard: &mut PutGuard<'_>,
        now: i64,
        unit: &Unit,
        stored: &Stored,
        real: &Fields<'_>,
    ) -> Result<i64> {
        let (props, mut more) =
            with_times(stored, unit, now, &[ENQUEUE_MS, DEQUEUE_MS, ROLL_TIMES]);
        properties::push_number(&mut more, ROLL_TIMES, real.roll_times.saturating_add(1));
        let props = props.as_deref().unwrap_or(stored.props());
        let flags = stored.view().sys_flag;
        let message = stored.again(&self.topic, 0, flags, stored.phys() as i64);
        let content = stored.content(props, &more, real.tags_code());
        let appended = match guard.append_again(&message, &content) {
            Err(StoreError::PropertiesTooLong(_)) => {
                // Without TIMER_ROLL_TIMES it is still rolled.
                let content = stored.content(stored.props(), b"", real.tags_code());
                guard.append_again(&message, &content)
            }
            done => done,
        };
        appended.map(|appended| appended.queue_offset)
    }

    fn note_unknown(&self, topic: &[u8]) {
        let mut unknown = self.unknown.lock();
        if !unknown.iter().any(|known| **known == *topic) {
            unknown.push(topic.into());
        }
    }
}

/// The properties of a message without those of `names` (None: it has none of them), and when it got into
/// the wheel and out of it.
fn with_times(
    stored: &Stored,
    unit: &Unit,
    now: i64,
    names: &[&[u8]],
) -> (Option<Vec<u8>>, Vec<u8>) {
    let has_some = properties::pairs(stored.props()).any(|(name, _)| names.contains(&name));
    let props = has_some.then(|| stored.props_without(names));
    let mut more = Vec::with_capacity(96);
    properties::push_number(&mut more, ENQUEUE_MS, unit.base);
    properties::push_number(&mut more, DEQUEUE_MS, now);
    (props, more)
}

/// Stands for the message of a topic that a delete names: by its unique key, alone or behind the topic.
/// A delete counts for the topic that it was sent to: who may send there takes back nothing of others.
fn named(topic: &[u8], wanted: &[u8]) -> u128 {
    let behind = wanted
        .strip_prefix(topic)
        .and_then(|rest| rest.strip_prefix(b"+"));
    key(&[topic, b"+", behind.unwrap_or(wanted)].concat())
}

/// Whether one of the deletes means this message.
fn is_deleted(deletes: &FxHashSet<u128>, real: &Fields<'_>) -> bool {
    !deletes.is_empty()
        && !real.unique_key.is_empty()
        && deletes.contains(&named(real.topic, real.unique_key))
}
