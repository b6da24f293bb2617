//! Appending one message to the retry topic of its group, or putting it off where that fails.

use super::Pops;
use super::revive_round::Round;
use pyrmq_format::pop::{CheckPoint, FIRST_POP_TIME, Popped};
use pyrmq_format::record::sys_flag;
use pyrmq_format::{java, properties};
use pyrmq_store::{PutGuard, Result, StoreError, Stored};
use std::borrow::Cow;
use std::sync::Arc;

/// Delays, ms, after which a message that could not be revived is tried again; the last one stays.
/// [ckRewriteIntervalsInSeconds]
const DELAYS: [i64; 17] = [
    10_000, 20_000, 30_000, 60_000, 120_000, 180_000, 240_000, 300_000, 360_000, 420_000, 480_000,
    540_000, 600_000, 1_200_000, 1_800_000, 3_600_000, 7_200_000,
];
/// The property with the group that did not acknowledge it.
const ORIGIN_GROUP: &[u8] = b"ORIGIN_GROUP";

/// A check point, as far as its messages need it.
pub(super) struct Origin {
    popped: Popped<'static>,
    invisible_time: i64,
    put_again: u32,
    suspend: bool,
}

impl Origin {
    pub fn of(ck: &CheckPoint<'_>) -> Origin {
        let p = &ck.popped;
        Origin {
            popped: Popped {
                topic: Cow::Owned(p.topic.to_vec()),
                group: Cow::Owned(p.group.to_vec()),
                broker_name: Cow::Owned(p.broker_name.to_vec()),
                ..*p
            },
            invisible_time: ck.invisible_time,
            put_again: ck.put_again.unwrap_or(0),
            suspend: ck.suspend,
        }
    }
}

/// A message that is to be revived.
pub(super) struct Job {
    /// The number of its check point in the window, and its own number there.
    pub at: usize,
    pub bit: usize,
    /// Its queue offset.
    pub offset: i64,
    /// What its revived record says in its preparedTransactionOffset: the record of the check point, and
    /// the message's number there.
    pub place: u64,
    pub message: Result<Stored>,
    pub target: Box<[u8]>,
    pub of: Arc<Origin>,
}

/// Appends the messages of one revive queue.
pub(super) struct Retries<'a> {
    pub pops: &'a Pops,
    pub revive_queue: u32,
    pub drops_after_last: bool,
}

impl Retries<'_> {
    /// Revives a message. Where it cannot be read or stored it is put off. An error is one of the store,
    /// which concerns all of them.
    pub fn append(
        &self,
        guard: &mut PutGuard<'_>,
        job: &Job,
        now: i64,
        round: &mut Round,
    ) -> Result<()> {
        let why = match &job.message {
            Ok(stored) => match self.append_again(guard, job, stored) {
                Ok(size) => {
                    let known = round.revived.entry(job.target.clone()).or_default();
                    *known = (known.0 + 1, known.1 + size);
                    let p = &job.of.popped;
                    self.pops.totals.revived(&p.topic, &p.group);
                    return Ok(());
                }
                Err(e @ (StoreError::Illegal(_) | StoreError::PropertiesTooLong(_))) => {
                    e.to_string()
                }
                Err(e) => return Err(e),
            },
            Err(e) => e.to_string(),
        };
        round.put_off += 1;
        self.put_off(guard, job, now, &why)
    }

    /// The record in the retry topic; returns its size.
    fn append_again(&self, guard: &mut PutGuard<'_>, job: &Job, stored: &Stored) -> Result<usize> {
        let store = self.pops.store();
        let topic = store.topics().topic(&job.target)?;
        // A committed message is revived as one that was sent: its half is settled already.
        let flags = stored.view().sys_flag & !sys_flag::TRANSACTION_MASK;
        let mut message = stored.again(&topic, 0, flags, job.place as i64);
        message.born_host = *store.store_host();
        let more = !job.of.suspend as i32;
        message.reconsume_times = stored.view().reconsume_times.saturating_add(more);
        let tags_code = java::tag_code(properties::find(stored.props(), b"TAGS"));
        let props = props_of(job, stored);
        match guard.append_again(&message, &stored.content(&props, b"", tags_code)) {
            // What it says of its past has to go.
            Err(StoreError::PropertiesTooLong(_)) => {
                let content = stored.content(stored.props(), b"", tags_code);
                guard.append_again(&message, &content).map(|done| done.size)
            }
            done => done.map(|done| done.size),
        }
    }

    /// Sets a check point for this message alone, which is due after a delay.
    fn put_off(&self, guard: &mut PutGuard<'_>, job: &Job, now: i64, why: &str) -> Result<()> {
        let Origin {
            popped: p,
            invisible_time,
            put_again,
            suspend,
        } = &*job.of;
        let name = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        let (topic, group) = (name(&p.topic), name(&p.group));
        let what = format!(
            "{topic} queue {} offset {} for {group}",
            p.queue_id, job.offset
        );
        if *put_again as usize >= DELAYS.len() && self.drops_after_last {
            log::error!(
                topic:% = topic, group:% = group, queue = p.queue_id;
                "{what} is not revived, nor tried again: {why}");
            return Ok(());
        }
        let delay = DELAYS[(*put_again as usize).min(DELAYS.len() - 1)];
        log::error!(
            topic:% = topic, group:% = group, queue = p.queue_id;
            "{what} is not revived, it is tried again in {} s: {why}",
            delay / 1000
        );
        let passed = now.saturating_sub(p.pop_time).max(*invisible_time);
        let ck = CheckPoint {
            popped: Popped {
                start_offset: job.offset,
                topic: Cow::Borrowed(&p.topic),
                group: Cow::Borrowed(&p.group),
                broker_name: Cow::Borrowed(&p.broker_name),
                ..*p
            },
            invisible_time: passed.saturating_add(delay),
            diffs: &[0],
            bits: 0,
            revive_offset: 0,
            put_again: Some(put_again.saturating_add(1)),
            suspend: *suspend,
        };
        self.pops
            .append_check_point(guard, &ck, self.revive_queue)?;
        Ok(())
    }
}

/// The properties that a message has in the retry topic. [reviveRetry]
fn props_of(job: &Job, stored: &Stored) -> Vec<u8> {
    let keeps_time = stored.view().reconsume_times != 0
        && properties::find(stored.props(), FIRST_POP_TIME).is_some();
    let mut props = properties::without(stored.props(), |name| {
        name == ORIGIN_GROUP || name == FIRST_POP_TIME && !keeps_time
    });
    properties::push(&mut props, ORIGIN_GROUP, &job.of.popped.group);
    if !keeps_time {
        properties::push_number(&mut props, FIRST_POP_TIME, job.of.popped.pop_time);
    }
    props
}
