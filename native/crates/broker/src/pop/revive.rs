//! Reviving: messages that were popped and not acknowledged in time go to the retry topic of their
//! group. [PopReviveService]
//!
//! Check points and acknowledgements come to the revive topic as their timers are due. `Reviver` reads
//! its queues (`revive_window`), judges each check point, and appends what is missing
//! (`revive_append`). `Progress` moves behind a check point once its messages are in the log, never
//! before. After a kill the kept progress is older than the log: a revived record says in its
//! preparedTransactionOffset which message of which check point it is, so that nothing is revived
//! twice (`revive_before`).

use super::Pops;
use super::revive_append::{Job, Origin, Retries};
use super::revive_before::Before;
use super::revive_round::{Name, Round, Target, Targets, record_of};
use super::revive_window::{MAX_WAITING, Window};
use parking_lot::Mutex;
use pyrmq_format::pop::{Ack, CheckPoint, Kind, Popped};
use pyrmq_format::{parse_i64, properties, timer};
use pyrmq_store::{ConsumeQueue, Result, Stored};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is done at a time.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Check points of a queue in memory.
    pub waiting: usize,
    /// Records of a queue that are read in a row.
    pub read: usize,
}

const LIMITS: Limits = Limits {
    waiting: MAX_WAITING,
    read: 4096,
};
/// Records that one call reads, about: whoever waits for the lock gets it in between.
const READ_IN_CALL: usize = 1 << 17;
/// Messages, and bytes of their bodies, that are appended under one hold of the put lock.
const CHUNK: usize = 256;
const CHUNK_BYTES: usize = 1 << 20;
const CHUNK_TIME: Duration = Duration::from_millis(2);
/// Pairs of topic and group without a target that one call names.
const MAX_UNKNOWN: usize = 256;

/// How far all queues are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// By queue: the first place that is not dealt with.
    pub next: Vec<i64>,
    /// It holds once the log is on disk up to here.
    pub log_end: u64,
}

/// How far behind one queue is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Records that are not dealt with.
    pub records: i64,
    /// How long the first message has been visible that is not revived, ms.
    pub ms: i64,
    /// Check points in memory.
    pub waiting: usize,
}

struct Lane {
    id: u32,
    queue: Arc<ConsumeQueue>,
    window: Window,
}

struct Lanes {
    all: Vec<Lane>,
    before: Before,
}

/// The reviver of one store.
pub struct Reviver {
    pops: Arc<Pops>,
    /// Held while messages are revived.
    lanes: Mutex<Lanes>,
    /// By queue, for figures: see `Lag`.
    lags: Mutex<Vec<Lag>>,
    /// A message that could not be stored so often is dropped. [skipWhenCKRePutReachMaxTimes]
    drops_after_last: bool,
    limits: Limits,
}

impl Reviver {
    /// Goes on at the first places of the queues that are not dealt with; 0 for a queue without one.
    pub fn open(pops: Arc<Pops>, next: &[i64], drops_after_last: bool) -> Result<Reviver> {
        Reviver::with_limits(pops, next, drops_after_last, LIMITS)
    }

    pub(super) fn with_limits(
        pops: Arc<Pops>,
        next: &[i64],
        drops_after_last: bool,
        limits: Limits,
    ) -> Result<Reviver> {
        let store = pops.store();
        let topic = store.topics().topic(pops.revive_topic())?;
        let mut all = Vec::new();
        for id in 0..pops.settings().revive_queues {
            let queue = topic.queue(id)?;
            let (min, max) = (queue.min_offset(), queue.max_offset());
            let kept = next.get(id as usize).copied().unwrap_or(0);
            let place = kept.clamp(min.min(max), max);
            if kept > max {
                log::warn!(
                    topic:% = queue.topic_name(), queue = id;
                    "revive queue {id}: reviving goes on at {place}, not at {kept}: the queue has {min} \
                     to {max}"
                );
            }
            let window = Window::new(place, limits.waiting);
            all.push(Lane { id, queue, window });
        }
        let ends = all.iter().map(|lane| (&*lane.queue, lane.window.place()));
        let before = Before::new(ends)?;
        Ok(Reviver {
            lags: Mutex::new(vec![Lag::default(); all.len()]),
            lanes: Mutex::new(Lanes { all, before }),
            pops,
            drops_after_last,
            limits,
        })
    }

    pub fn pops(&self) -> &Arc<Pops> {
        &self.pops
    }

    /// Reads what has come and revives about `most` messages. `timers`: all timers that were due before
    /// this time, ms, are in the revive topic; None: not known. Whoever calls it gives targets for what
    /// the last call named as unknown.
    pub fn revive(&self, now: i64, timers: Option<i64>, most: usize, targets: &Targets) -> Round {
        let mut lanes = self.lanes.lock();
        let Lanes { all, before } = &mut *lanes;
        let mut round = Round::default();
        // On a slow disk what timers have delivered may not be in its queue yet.
        if timers.is_some()
            && let Err(e) = self.pops.store().write_staged(|_| ())
        {
            round.error = Some(e);
            return round;
        }
        let clock = Clock { now, timers };
        round.more = true;
        while round.more && round.count() < most && round.read < READ_IN_CALL {
            round.more = false;
            for lane in all.iter_mut() {
                let step = self.step(lane, before, clock, targets, &mut round);
                self.lags.lock()[lane.id as usize] = lane.lag(now);
                match step {
                    Ok(more) => round.more |= more,
                    // The other queues go on.
                    Err(e) => round.error = Some(e),
                }
            }
            if round.error.is_some() {
                round.more = false;
            }
        }
        before.forget(all.iter().map(|lane| lane.window.settled()));
        round
    }

    /// How far all queues are, at one moment at which the log ends where `Progress` says.
    pub fn progress(&self) -> Result<Progress> {
        let lanes = self.lanes.lock();
        self.pops.store().write_staged(|log_end| Progress {
            next: lanes.all.iter().map(|lane| lane.window.settled()).collect(),
            log_end,
        })
    }

    /// By queue, as of the last call of `revive`.
    pub fn lags(&self) -> Vec<Lag> {
        self.lags.lock().clone()
    }

    /// Reads some records of one queue, and deals with some of its check points. Whether there is more to
    /// do at once.
    fn step(
        &self,
        lane: &mut Lane,
        before: &mut Before,
        clock: Clock,
        targets: &Targets,
        round: &mut Round,
    ) -> Result<bool> {
        let read = self.read(lane, round)?;
        if let (Read::All, Some(timers)) = (read, clock.timers) {
            lane.window.caught_up(timers);
        }
        let mut jobs = Vec::new();
        let looked = self.look(lane, before, targets, round, &mut jobs);
        // What was read before something could not be is dealt with.
        let appended = self.append_all(lane, &jobs, clock, round);
        let judged = lane.window.take_done();
        round.judged += judged;
        looked.and(appended)?;
        Ok(judged > 0 || !jobs.is_empty() || read == Read::Some)
    }

    /// Reads records of one queue.
    fn read(&self, lane: &mut Lane, round: &mut Round) -> Result<Read> {
        let store = self.pops.store();
        let end = store.visible_max(&lane.queue)?;
        lane.window.skip_to(lane.queue.min_offset().min(end));
        let mut scratch = Scratch::default();
        for _ in 0..self.limits.read {
            let place = lane.window.place();
            if place >= end {
                // What is not confirmed may be an acknowledgement.
                return Ok(match end >= lane.queue.max_offset() {
                    true => Read::All,
                    false => Read::Confirmed,
                });
            }
            let stored = record_of(store, &lane.queue, place)?;
            round.read += 1;
            let mut time = 0;
            let read = match &stored {
                Some(stored) => {
                    time = due_time(stored);
                    self.take_record(lane, stored, &mut scratch)
                }
                None => Err("it cannot be read".into()),
            };
            if let Err(why) = read {
                log::warn!(
                    topic:% = lane.queue.topic_name(), queue = lane.id;
                    "revive queue {}: what stands at {place} is left out: {why}",
                    lane.id
                );
            }
            lane.window.passed(time);
        }
        Ok(Read::Some)
    }

    /// Takes a record of the revive topic into the window.
    fn take_record(
        &self,
        lane: &mut Lane,
        stored: &Stored,
        scratch: &mut Scratch,
    ) -> std::result::Result<(), String> {
        let tag = properties::find(stored.props(), b"TAGS").unwrap_or(b"");
        let kind = Kind::of_tag(tag).ok_or("its tag is none of the revive topic")?;
        let count = |p: &Popped<'_>, is_ack: bool| {
            let totals = &self.pops.totals;
            totals.read(&p.topic, &p.group, lane.id, is_ack);
        };
        match kind {
            Kind::CheckPoint => {
                let ck = CheckPoint::read(stored.body(), &mut scratch.diffs)?;
                count(&ck.popped, false);
                lane.window.add(stored.phys(), &ck);
            }
            Kind::Ack | Kind::BatchAck => {
                let ack = Ack::read(stored.body(), &mut scratch.offsets)?;
                count(&ack.popped, true);
                lane.window.acknowledge(&ack);
            }
        }
        Ok(())
    }

    /// Reads the messages that are to be revived of check points that can be judged, about as many as are
    /// appended at a time.
    fn look(
        &self,
        lane: &mut Lane,
        before: &mut Before,
        targets: &Targets,
        round: &mut Round,
        jobs: &mut Vec<Job>,
    ) -> Result<()> {
        let store = self.pops.store();
        let mut diffs = Vec::new();
        let mut bytes = 0;
        for at in 0.. {
            if jobs.len() >= CHUNK || bytes >= CHUNK_BYTES {
                break;
            }
            let Some(w) = lane.window.due(at) else {
                break;
            };
            if w.is_done() {
                continue;
            }
            let record = Stored::read(store, w.phys)?;
            let read = record
                .as_ref()
                .map(|record| CheckPoint::read(record.body(), &mut diffs));
            let Some(Ok(ck)) = read else {
                log::error!(
                    topic:% = lane.queue.topic_name(), queue = lane.id;
                    "revive queue {}: the check point at {} is gone",
                    lane.id,
                    w.offset
                );
                w.done = u32::MAX;
                continue;
            };
            let pair = (Name::from(&*ck.popped.topic), Name::from(&*ck.popped.group));
            let target = match targets.get(&pair) {
                Some(Target::Topic(target)) => target,
                Some(Target::Gone) => {
                    round.gone += ck.offsets().filter(|(_, acked)| !acked).count();
                    w.done = u32::MAX;
                    continue;
                }
                None => {
                    if round.unknown.len() < MAX_UNKNOWN && !round.unknown.contains(&pair) {
                        round.unknown.push(pair);
                    }
                    break;
                }
            };
            let of = Arc::new(Origin::of(&ck));
            let topic = store.topics().get(&ck.popped.topic);
            let queue = topic.and_then(|topic| topic.existing_queue(ck.popped.queue_id as u32));
            for (bit, (offset, _)) in ck.offsets().enumerate() {
                if w.done >> bit & 1 == 1 {
                    continue;
                }
                let place = w.phys + bit as u64;
                if before.has(store, lane.id, w.offset, target, place)? {
                    round.known += 1;
                    w.done |= 1 << bit;
                    continue;
                }
                let message = match &queue {
                    Some(queue) => record_of(store, queue, offset),
                    None => Ok(None),
                };
                let message = match message {
                    Ok(Some(stored)) => Ok(stored),
                    Ok(None) => {
                        round.missing += 1;
                        w.done |= 1 << bit;
                        continue;
                    }
                    Err(e) => Err(e),
                };
                bytes += message.as_ref().map_or(0, |m| m.body().len());
                jobs.push(Job {
                    at,
                    bit,
                    offset,
                    place,
                    message,
                    target: target.clone(),
                    of: of.clone(),
                });
            }
        }
        Ok(())
    }

    /// Appends what is to be revived, as much as the put lock may be held for.
    fn append_all(
        &self,
        lane: &mut Lane,
        jobs: &[Job],
        clock: Clock,
        round: &mut Round,
    ) -> Result<()> {
        if jobs.is_empty() {
            return Ok(());
        }
        let mut guard = self.pops.store().put()?;
        let retries = Retries {
            pops: &self.pops,
            revive_queue: lane.id,
            drops_after_last: self.drops_after_last,
        };
        let start = Instant::now();
        for job in jobs {
            if start.elapsed() > CHUNK_TIME {
                break; // what is left comes with the next step
            }
            retries.append(&mut guard, job, clock.now, round)?;
            lane.window.set_done(job.at, job.bit);
        }
        Ok(())
    }
}

/// How much of a queue was read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    Some,
    /// All that is confirmed; there is more.
    Confirmed,
    All,
}

#[derive(Clone, Copy)]
struct Clock {
    now: i64,
    timers: Option<i64>,
}

#[derive(Default)]
struct Scratch {
    diffs: Vec<i32>,
    offsets: Vec<i64>,
}

impl Lane {
    fn lag(&self, now: i64) -> Lag {
        let window = &self.window;
        Lag {
            records: (self.queue.max_offset() - window.settled()).max(0),
            ms: window.first_time().map_or(0, |time| (now - time).max(0)),
            waiting: window.len(),
        }
    }
}

/// When the timer of a record was due, ms; 0: it says nothing. Apache's broker leaves the time in it that
/// was asked for; what every timer message has is the beginning of its unit of time.
fn due_time(stored: &Stored) -> i64 {
    let number = |name| properties::find(stored.props(), name).and_then(parse_i64);
    let time = number(timer::DELIVER_MS).or_else(|| number(timer::OUT_MS));
    time.unwrap_or(0).max(0)
}

#[cfg(test)]
#[path = "revive_tests.rs"]
mod tests;
