//! Delivering what is due: each record is appended to the topic and queue that it was sent to.

use super::Delays;
use super::level::Level;
use crate::format::names;
use crate::store::{PutGuard, Result, StoreError, Stored};
use crate::txn::Fields;
use std::time::{Duration, Instant};

/// Records, and bytes of bodies, that are appended under one hold of the put lock: senders wait for
/// no more.
const ROUND: usize = 256;
const ROUND_BYTES: usize = 1 << 20;
const ROUND_TIME: Duration = Duration::from_millis(2);

/// What one call delivered.
#[derive(Clone, Debug, Default)]
pub struct Delivered {
    pub count: usize,
    /// Why it ended before everything that is due was delivered.
    pub error: Option<StoreError>,
}

impl Delays {
    /// Delivers what is due at `now`, `most` messages and those of a round begun, the levels in
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
                if let Err(e) = self.deliver_round(index, level, now, &mut done.count) {
                    done.error = Some(e);
                }
                busy |= done.count > before;
            }
            if done.error.is_some() {
                break;
            }
        }
        done
    }

    /// Delivers what is due of one level, at most a round of it; adds to `count` how many were dealt
    /// with.
    fn deliver_round(
        &self,
        index: usize,
        level: &Level,
        now: i64,
        count: &mut usize,
    ) -> Result<()> {
        let due = self.read_due(index, level, now)?;
        if due.is_empty() {
            return Ok(());
        }
        let mut guard = self.store.put()?;
        let start = Instant::now();
        for (offset, stored) in &due {
            if start.elapsed() > ROUND_TIME {
                break; // new queues make files: what is left comes in the next round
            }
            let given = match stored {
                Some(stored) => self.deliver_one(&mut guard, stored)?,
                None => false,
            };
            level.go_to(offset + 1);
            *count += 1;
            if !given {
                give_up(index, *offset);
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
                "delay level {}: continues at {next}, not at {}: its queue has {min} to {max}",
                index + 1,
                level.next()
            );
            level.go_to(next);
        }
        let mut bytes = 0;
        for offset in level.next()..end {
            if found.len() == ROUND || bytes >= ROUND_BYTES {
                break;
            }
            let Some(entry) = level.queue.entry(offset)? else {
                break;
            };
            if entry.cq.is_blank() {
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
                    log::error!("delay level {}: queue offset {offset}: {e}", index + 1);
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

    /// False: it can never be delivered.
    fn deliver_one(&self, guard: &mut PutGuard<'_>, stored: &Stored) -> Result<bool> {
        let real = Fields::read(stored.props());
        // Not to the broker's own books. Other brokers took messages for names that this one takes
        // none for.
        let is_one = names::is_topic(real.topic) || self.store.topics().get(real.topic).is_some();
        let possible = is_one && !names::is_brokers_own(real.topic);
        let Some(queue_id) = real.queue_id.filter(|_| possible) else {
            return Ok(false);
        };
        let appended = self.store.topics().topic(real.topic).and_then(|topic| {
            let flags = stored.view().sys_flag;
            let message = stored.again(&topic, queue_id, flags, stored.phys() as i64);
            let content = stored.content(stored.props(), b"", real.tags_code());
            guard.append_again(&message, &content)
        });
        match appended {
            Ok(_) => Ok(true),
            Err(StoreError::Illegal(_) | StoreError::PropertiesTooLong(_)) => Ok(false),
            Err(e) => Err(e),
        }
    }
}

fn give_up(index: usize, offset: i64) {
    log::error!(
        "delay level {}: the message at queue offset {offset} of SCHEDULE_TOPIC_XXXX cannot be \
         delivered and is left out: it cannot be read, or its REAL_TOPIC or REAL_QID is wrong",
        index + 1
    );
}
