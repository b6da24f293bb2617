//! Popping from one queue: its next messages are read as for a pull, and the check point is set.

use super::{Pops, recode};
use pyrmq_format::pop::{CheckPoint, Handle, MAX_MESSAGES, Popped, Retry};
use pyrmq_format::{get_i32, get_i64};
use pyrmq_store::{
    BitTest, ConsumeQueue, GetResult, GetStatus, PropertyTest, Result, StoreError, TagFilter, Wait,
    Wanted,
};
use std::borrow::Cow;

/// Times that a pop starts again where the store says that the queue goes on.
const STARTS: usize = 3;

/// Bytes of records that are copied where they lie in several places of the log: the answer to a pop waits
/// for its check point and is copied anyway, and one piece costs less there than one for each record.
const MAX_COPY: usize = 64 << 10;

/// What is asked of a queue.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    pub topic: &'a [u8],
    pub queue_id: u32,
    pub offset: i64,
    pub max_count: usize,
    pub max_bytes: usize,
    pub tags: &'a [i32],
    pub properties: Option<&'a PropertyTest<'a>>,
    pub bits: Option<BitTest<'a>>,
    pub wait: Wait,
}

/// For whom messages become invisible, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct CheckPointOf<'a> {
    pub group: &'a [u8],
    /// Now, ms.
    pub pop_time: i64,
    /// ms
    pub invisible_time: i64,
    pub revive_queue: i32,
    /// Messages of a retry topic are given as messages of this one; None: as they are.
    pub original_topic: Option<&'a [u8]>,
}

/// What was taken from a queue.
pub struct Taken {
    /// `next` is where the queue goes on for the group, whatever the status. Its chunks are the records,
    /// unless they are in `recoded`.
    pub got: GetResult,
    /// Queue offset from which was read, which is that of the check point.
    pub start: i64,
    /// Queue offset of each record.
    pub offsets: Vec<i64>,
    /// A copy of the records, under their original topic if one was given.
    pub recoded: Option<Vec<u8>>,
    /// What has to be confirmed before it counts; 0: nothing was appended.
    pub log_end: u64,
}

impl Taken {
    /// Messages of the queue behind those that were taken.
    pub fn rest(&self) -> i64 {
        (self.got.max - self.got.next).max(0)
    }
}

impl Pops {
    /// Takes messages and sets their check point. Nothing is appended where no message is found: then
    /// nothing lies between the offset and `next` that the group wants. `StoreError::Cold` if the disk
    /// would have to be waited for and must not be.
    pub fn take(&self, ask: &Ask<'_>, of: &CheckPointOf<'_>) -> Result<Taken> {
        self.settings.check_invisible_time(of.invisible_time)?;
        let revive_queue = self.settings.check_revive_queue(of.revive_queue)?;
        let mut taken = self.read(ask)?;
        if taken.offsets.is_empty() {
            return Ok(taken);
        }
        let mut diffs = [0; MAX_MESSAGES];
        for (diff, offset) in diffs.iter_mut().zip(&taken.offsets) {
            *diff = i32::try_from(offset - taken.start).map_err(|_| too_far(ask))?;
        }
        let ck = CheckPoint {
            popped: Popped {
                topic: Cow::Borrowed(ask.topic),
                group: Cow::Borrowed(of.group),
                broker_name: Cow::Borrowed(self.settings.broker_name.as_bytes()),
                queue_id: ask.queue_id as i32,
                start_offset: taken.start,
                pop_time: of.pop_time,
            },
            invisible_time: of.invisible_time,
            diffs: &diffs[..taken.offsets.len()],
            bits: 0,
            revive_offset: 0,
            put_again: None,
            suspend: false,
        };
        if let Some(topic) = of.original_topic {
            taken.recoded = Some(self.recode(ask, of, topic, &taken));
        } else if taken.got.chunks.len() > 1 && taken.got.bytes <= MAX_COPY {
            taken.recoded = Some(copied(&taken.got));
        }
        let mut guard = self.store.put()?;
        let done = self.append_check_point(&mut guard, &ck, revive_queue)?;
        taken.log_end = done.end();
        Ok(taken)
    }

    /// The same without a check point: others get these messages too.
    pub fn read(&self, ask: &Ask<'_>) -> Result<Taken> {
        let topic = self.store.topics().get(ask.topic);
        let queue = topic.and_then(|t| t.existing_queue(ask.queue_id));
        let mut wanted = Wanted {
            offset: ask.offset,
            max_count: ask.max_count.clamp(1, MAX_MESSAGES),
            max_bytes: ask.max_bytes,
            tags: TagFilter(ask.tags),
            properties: ask.properties,
            bits: ask.bits,
            wait: ask.wait,
            learnt: None,
        };
        let mut starts = 1;
        let mut got = loop {
            let got = self.store.get(queue.as_deref(), &wanted)?;
            let moved = matches!(
                got.status,
                GetStatus::OffsetTooSmall
                    | GetStatus::OffsetOverflowBadly
                    | GetStatus::OffsetFoundNull
            );
            if !moved || got.next == wanted.offset || starts == STARTS {
                break got;
            }
            wanted.offset = got.next;
            starts += 1;
        };
        if matches!(
            got.status,
            GetStatus::NoMessageInQueue | GetStatus::NoMatchedLogicQueue
        ) {
            got.next = wanted.offset; // nobody is sent back where nothing is
        }
        let offsets = match &queue {
            Some(queue) => offsets_of(queue, wanted.offset, &got)?,
            None => Vec::new(),
        };
        Ok(Taken {
            got,
            start: wanted.offset,
            offsets,
            recoded: None,
            log_end: 0,
        })
    }

    fn recode(&self, ask: &Ask<'_>, of: &CheckPointOf<'_>, topic: &[u8], taken: &Taken) -> Vec<u8> {
        let mut handle = Handle {
            start_offset: taken.start,
            pop_time: of.pop_time,
            invisible_time: of.invisible_time,
            revive_queue: of.revive_queue,
            retry: Retry::of(ask.topic),
            broker_name: self.settings.broker_name.as_bytes(),
            queue_id: ask.queue_id as i32,
            offset: None,
        };
        let mut out = Vec::with_capacity(taken.got.bytes + 128 * taken.offsets.len());
        let mut scratch = Vec::new();
        let mut offsets = taken.offsets.iter();
        for_each_record(&taken.got, |r| {
            handle.offset = offsets.next().copied();
            recode::push(&mut out, r, topic, &handle, &mut scratch);
        });
        out
    }
}

fn copied(got: &GetResult) -> Vec<u8> {
    let mut out = Vec::with_capacity(got.bytes);
    for_each_record(got, |r| out.extend_from_slice(r));
    out
}

/// Calls for each record of a read, which checked them.
fn for_each_record(got: &GetResult, mut each: impl FnMut(&[u8])) {
    for chunk in &got.chunks {
        let mut rest = chunk.segment.bytes(chunk.at, chunk.len).unwrap_or(&[]);
        while rest.len() >= 28 {
            let total = (get_i32(rest, 0).max(0) as usize).clamp(28, rest.len());
            let (r, behind) = rest.split_at(total);
            each(r);
            rest = behind;
        }
    }
}

/// The queue offset of each record that was read from `start` on.
fn offsets_of(queue: &ConsumeQueue, start: i64, got: &GetResult) -> Result<Vec<i64>> {
    let mut offsets = Vec::with_capacity(got.count.min(MAX_MESSAGES));
    let mut last = start - 1;
    let (mut all_are_here, id) = (true, queue.queue_id() as i32);
    for_each_record(got, |r| {
        let offset = get_i64(r, 20);
        all_are_here &= get_i32(r, 12) == id && last < offset && offset < got.next;
        last = offset;
        offsets.push(offset);
    });
    match all_are_here {
        true => Ok(offsets),
        false => offsets_by_entry(queue, start, got),
    }
}

/// The same for records that are in several queues, and say where they are in another one.
#[cold]
fn offsets_by_entry(queue: &ConsumeQueue, start: i64, got: &GetResult) -> Result<Vec<i64>> {
    let mut places = Vec::new();
    for_each_record(got, |r| places.push(get_i64(r, 28)));
    let mut offsets = Vec::with_capacity(places.len());
    let mut at = start;
    for phys in places {
        loop {
            let entry = queue.entry(at)?.filter(|e| at < got.next && e.base >= at);
            let Some(entry) = entry else {
                let text = format!("the record at {phys} has no entry in its queue");
                return Err(StoreError::NotAvailable(text));
            };
            at = entry.next();
            if entry.cq.phys == phys {
                offsets.push(entry.base);
                break;
            }
        }
    }
    Ok(offsets)
}

#[cold]
fn too_far(ask: &Ask<'_>) -> StoreError {
    StoreError::Illegal(format!(
        "messages of queue {} lie too far apart for one check point",
        ask.queue_id
    ))
}
