//! Check points of one revive queue that were read and not judged yet, in the order of the queue.
//!
//! A check point is judged once the queue has been read so far that every acknowledgement which was
//! made in time has been seen: timers are delivered in the order of their times, an acknowledgement
//! at the end of the invisible time, so that holds when something was seen whose time lies `WAIT`
//! behind that end. [PopReviveService.consumeReviveMessage]
//!
//! Memory is bounded: a window takes `MAX_WAITING` check points. Where more lie before the first that
//! can be judged, the queue is read on for acknowledgements alone (`Ahead`), and what was left out is
//! read again afterwards.

use pyrmq_format::pop::{Ack, CheckPoint, Popped};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

/// So much later than the end of an invisible time something must have been seen, ms.
/// [PopAckConstants.ackTimeInterval + SECOND]
pub const WAIT: i64 = 2000;
/// Check points of one queue that are kept in memory: with their places some 100 bytes each.
pub const MAX_WAITING: usize = 1 << 16;

/// A check point that waits.
pub struct Waiting {
    /// Its place in the revive queue.
    pub offset: i64,
    /// Its record in the log.
    pub phys: u64,
    /// When its messages become visible, ms.
    pub time: i64,
    /// Which of its messages need nothing more: acknowledged, or dealt with.
    pub done: u32,
    count: u8,
    key: u128,
    /// Where its messages lie; None: in a row from the start offset on.
    diffs: Option<Box<[i32]>>,
}

impl Waiting {
    pub fn is_done(&self) -> bool {
        let all = ((1u64 << self.count) - 1) as u32;
        self.done & all == all
    }

    fn index_of(&self, diff: i64) -> Option<usize> {
        match &self.diffs {
            None => usize::try_from(diff)
                .ok()
                .filter(|&i| i < self.count as usize),
            Some(diffs) => diffs.iter().position(|&d| d as i64 == diff),
        }
    }
}

/// Reading on for acknowledgements alone.
#[derive(Clone, Copy)]
struct Ahead {
    /// The first place that was not read in this way.
    next: i64,
    /// The latest time that was seen before it.
    end: i64,
}

pub struct Window {
    waiting: VecDeque<Waiting>,
    /// By key, how many check points were added before it.
    by_key: FxHashMap<u128, u64>,
    /// How many were taken out.
    taken: u64,
    /// The first place of the queue that was not read.
    next: i64,
    /// The latest time that was seen before it, ms.
    end: i64,
    ahead: Option<Ahead>,
    most: usize,
    hashers: [RandomState; 2],
}

impl Window {
    pub fn new(next: i64, most: usize) -> Window {
        Window {
            waiting: VecDeque::new(),
            by_key: FxHashMap::default(),
            taken: 0,
            next,
            end: 0,
            ahead: None,
            most,
            hashers: Default::default(),
        }
    }

    /// The place of the queue to read next.
    pub fn place(&self) -> i64 {
        self.ahead.map_or(self.next, |ahead| ahead.next)
    }

    /// The first place of the queue that is not dealt with.
    pub fn settled(&self) -> i64 {
        self.waiting.front().map_or(self.next, |w| w.offset)
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// When the messages of the first check point become visible; None: there is none.
    pub fn first_time(&self) -> Option<i64> {
        self.waiting.front().map(|w| w.time)
    }

    /// Goes on at another place: the queue has none of those before it.
    pub fn skip_to(&mut self, place: i64) {
        match &mut self.ahead {
            Some(ahead) => ahead.next = ahead.next.max(place),
            None => self.next = self.next.max(place),
        }
    }

    /// The record at `place` was read; `time` is when its timer was due.
    pub fn passed(&mut self, time: i64) {
        match &mut self.ahead {
            Some(ahead) => {
                ahead.next += 1;
                ahead.end = ahead.end.max(time);
            }
            None => {
                self.next += 1;
                self.end = self.end.max(time);
            }
        }
    }

    /// The queue was read to its end, and all timers that were due before `time` have been delivered.
    pub fn caught_up(&mut self, time: i64) {
        match &mut self.ahead {
            Some(ahead) => ahead.end = ahead.end.max(time),
            None => self.end = self.end.max(time),
        }
    }

    fn key(&self, popped: &Popped<'_>) -> u128 {
        let [a, b] = &self.hashers;
        (a.hash_one(popped) as u128) << 64 | b.hash_one(popped) as u128
    }

    /// Adds the check point at `place`. One that is there already stays: a record may stand twice.
    pub fn add(&mut self, phys: u64, ck: &CheckPoint<'_>) {
        if self.ahead.is_some() {
            return;
        }
        if ck.is_done() {
            return; // of an orderly group
        }
        let key = self.key(&ck.popped);
        if ck.diffs.is_empty() || self.by_key.contains_key(&key) {
            return;
        }
        if self.waiting.len() >= self.most {
            self.ahead = Some(Ahead {
                next: self.next,
                end: self.end,
            });
            return;
        }
        let in_a_row = ck.diffs.iter().enumerate().all(|(i, &d)| d == i as i32);
        let number = self.taken + self.waiting.len() as u64;
        self.by_key.insert(key, number);
        self.waiting.push_back(Waiting {
            offset: self.next,
            phys,
            time: ck.revive_time(),
            done: ck.bits,
            count: ck.diffs.len() as u8,
            key,
            diffs: (!in_a_row).then(|| ck.diffs.into()),
        });
    }

    /// Notes acknowledgements. Those of no check point that waits are of one that was judged already.
    pub fn acknowledge(&mut self, ack: &Ack<'_>) {
        let Some(number) = self.by_key.get(&self.key(&ack.popped)) else {
            return;
        };
        let Some(w) = self.waiting.get_mut((number - self.taken) as usize) else {
            return;
        };
        for offset in ack.offsets {
            let diff = offset.saturating_sub(ack.popped.start_offset);
            if let Some(i) = w.index_of(diff) {
                w.done |= 1 << i;
            }
        }
    }

    /// The check point number `at` from the front on if it can be judged, and all before it.
    pub fn due(&mut self, at: usize) -> Option<&mut Waiting> {
        let end = self.ahead.map_or(self.end, |ahead| ahead.end);
        let waiting = self.waiting.get_mut(at)?;
        (end.saturating_sub(waiting.time) > WAIT).then_some(waiting)
    }

    /// Notes that a check point that `due` gave needs nothing more for one of its messages.
    pub fn set_done(&mut self, at: usize, message: usize) {
        if let Some(waiting) = self.waiting.get_mut(at) {
            waiting.done |= 1 << message;
        }
    }

    /// Takes those out at the front that can be judged and need nothing more. How many.
    pub fn take_done(&mut self) -> usize {
        let before = self.taken;
        while self.due(0).is_some_and(|waiting| waiting.is_done()) {
            self.take();
        }
        (self.taken - before) as usize
    }

    fn take(&mut self) {
        let Some(w) = self.waiting.pop_front() else {
            return;
        };
        self.by_key.remove(&w.key);
        self.taken += 1;
        if self.waiting.is_empty() {
            // What was read for acknowledgements alone is read again, with the check points there.
            self.ahead = None;
        }
    }
}
