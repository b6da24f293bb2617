//! Delivering what is due: each record is appended to the topic and queue that it was sent to.

use super::Delays;
use super::level::{self, Level, Target};
use crate::txn::Fields;
use pyrmq_format::delay::SCHEDULE_TOPIC;
use pyrmq_store::{PutGuard, Result, StoreError, Stored};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Records, and bytes of bodies, that are appended under one hold of the put lock: senders wait for
/// no more.
const CHUNK: usize = 256;
const CHUNK_BYTES: usize = 1 << 20;
const CHUNK_TIME: Duration = Duration::from_millis(2);

/// What one call delivered.
#[derive(Clone, Debug, Default)]
pub struct Delivered {
    pub count: usize,
    /// Why it ended before everything that is due was delivered.
    pub error: Option<StoreError>,
    /// How many messages were left out as their topic was deleted, by topic.
    deleted: BTreeMap<Box<[u8]>, usize>,
}

/// What became of one message.
enum Outcome {
    Given,
    /// It can never be delivered.
    Impossible,
    /// Its topic was deleted while it waited.
    Deleted(Box<[u8]>),
}

impl Delays {
    /// Delivers what is due at `now`, `most` messages and those of a chunk begun, the levels in
    /// turns. Reads the disk where messages are not in memory, without the put lock.
    pub fn deliver(&self, now: i64, most: usize) -> Delivered {
        let _alone = self.delivering.lock();
        let start = Instant::now();
        let mut done = Delivered::default();
        let mut busy = true;
        while busy && done.count < most {
            busy = false;
            for (index, level) in self.levels.iter().enumerate() {
                let before = done.count;
                // What comes meanwhile has later times.
                let now = now.saturating_add(start.elapsed().as_millis() as i64);
                // Where one fails the other levels go on: it may be one place of the disk.
                if let Err(e) = self.deliver_chunk(index, level, now, &mut done) {
                    done.error = Some(e);
                }
                busy |= done.count > before;
            }
            if done.error.is_some() {
                break;
            }
        }
        for (topic, count) in &done.deleted {
            log::warn!(
                topic:% = String::from_utf8_lossy(topic);
                "{count} delayed messages are left out: their topic {} was deleted",
                String::from_utf8_lossy(topic)
            );
        }
        done
    }

    /// Topics without configuration that messages were delivered to, since the last call: consumers cannot
    /// read them before they have one.
    pub fn take_unknown(&self) -> Vec<Box<[u8]>> {
        std::mem::take(&mut *self.unknown.lock())
    }

    /// Delivers what is due of one level, at most a chunk of it; adds to `done` what was dealt with.
    fn deliver_chunk(
        &self,
        index: usize,
        level: &Level,
        now: i64,
        done: &mut Delivered,
    ) -> Result<()> {
        let due = self.read_due(index, level, now)?;
        if due.is_empty() {
            return Ok(());
        }
        let mut guard = self.store.put()?;
        let start = Instant::now();
        for (offset, stored) in &due {
            if start.elapsed() > CHUNK_TIME {
                break; // new queues make files: what is left comes in the next chunk
            }
            let outcome = match stored {
                Some(stored) => self.deliver_one(&mut guard, stored)?,
                None => Outcome::Impossible,
            };
            level.go_to(offset + 1);
            done.count += 1;
            match outcome {
                Outcome::Given => {}
                Outcome::Impossible => give_up(index, *offset),
                Outcome::Deleted(topic) => *done.deleted.entry(topic).or_default() += 1,
            }
        }
        Ok(())
    }

    /// The records of a level that are due, from its next offset on, in order; None for one that
    /// cannot be delivered.
    fn read_due(
        &self,
        index: usize,
        level: &Level,
        now: i64,
    ) -> Result<Vec<(i64, Option<Stored>)>> {
        let mut found = Vec::new();
        if !level.has_more() && level.next() <= level.queue.max_offset() {
            return Ok(found);
        }
        let end = self.store.visible_max(&level.queue)?;
        let (min, max) = (level.queue.min_offset(), level.queue.max_offset());
        if !(min..=max).contains(&level.next()) {
            let next = level.next().clamp(min, max);
            log::warn!(
                topic:% = level.queue.topic_name(), queue = level.queue.queue_id();
                "delay level {}: continues at {next}, not at {}: its queue has {min} to {max}",
                index + 1,
                level.next()
            );
            level.go_to(next);
        }
        let mut bytes = 0;
        for offset in level.next()..end {
            if found.len() == CHUNK || bytes >= CHUNK_BYTES {
                break;
            }
            let Some(entry) = level.queue.entry(offset)? else {
                break;
            };
            if entry.cq.is_blank() || !entry.cq.is_valid() {
                found.push((offset, None));
                continue;
            }
            // An entry with an extension has its address there.
            let known = Some(entry.cq.tags_code).filter(|&time| time >= 0);
            if let Some(due) = known.filter(|&due| !level.is_due(due, now)) {
                level.set_due(due);
                break;
            }
            let stored = match Stored::read(&self.store, entry.cq.phys as u64) {
                Ok(stored) => stored.filter(|s| self.is_parked(s, index, offset)),
                Err(e) if found.is_empty() && level.may_retry() => return Err(e),
                // What was read before is delivered first.
                Err(_) if !found.is_empty() => break,
                Err(e) => {
                    log::error!(
                        topic:% = level.queue.topic_name(), queue = index, path:% = e.path().display();
                        "delay level {}: queue offset {offset}: {e}",
                        index + 1
                    );
                    None
                }
            };
            if let (Some(stored), None) = (&stored, known) {
                let due = stored.view().store_timestamp.saturating_add(level.delay);
                if !level.is_due(due, now) {
                    level.set_due(due);
                    break;
                }
            }
            bytes += stored.as_ref().map_or(0, |s| s.body().len());
            found.push((offset, stored));
        }
        Ok(found)
    }

    /// Whether a record is the one of this queue offset.
    fn is_parked(&self, stored: &Stored, index: usize, offset: i64) -> bool {
        let v = stored.view();
        stored.topic() == self.topic.name()
            && (v.queue_id, v.queue_offset) == (index as i32, offset)
    }

    fn deliver_one(&self, guard: &mut PutGuard<'_>, stored: &Stored) -> Result<Outcome> {
        let real = Fields::read(stored.props());
        let topic = match level::target(&self.store, real.topic, real.queue_id) {
            Target::Topic(topic) => topic,
            Target::Deleted => return Ok(Outcome::Deleted(real.topic.into())),
            Target::Nowhere => return Ok(Outcome::Impossible),
        };
        let Some(queue_id) = real.queue_id else {
            return Ok(Outcome::Impossible);
        };
        let flags = stored.view().sys_flag;
        let queue_id = topic.queue_that_is_read(queue_id);
        let message = stored.again(&topic, queue_id, flags, stored.phys() as i64);
        let content = stored.content(stored.props(), b"", real.tags_code());
        match guard.append_again(&message, &content) {
            Ok(_) => {
                if topic.settings().is_none() {
                    self.note_unknown(real.topic);
                }
                Ok(Outcome::Given)
            }
            Err(StoreError::Illegal(_) | StoreError::PropertiesTooLong(_)) => {
                Ok(Outcome::Impossible)
            }
            Err(e) => Err(e),
        }
    }

    fn note_unknown(&self, topic: &[u8]) {
        let mut unknown = self.unknown.lock();
        if !unknown.iter().any(|known| **known == *topic) {
            unknown.push(topic.into());
        }
    }
}

fn give_up(index: usize, offset: i64) {
    log::error!(
        topic:% = String::from_utf8_lossy(SCHEDULE_TOPIC), queue = index;
        "delay level {}: the message at queue offset {offset} of SCHEDULE_TOPIC_XXXX cannot be \
         delivered and is left out: it cannot be read, or its REAL_TOPIC or REAL_QID is wrong",
        index + 1
    );
}
