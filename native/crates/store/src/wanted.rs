//! What a consumer wants of a queue, and what each kind of filter says of a message.

use super::error::Result;
use super::queue_ext::Units;
use super::resident::{Learnt, Wait};
use super::segment::Segment;
use pyrmq_format::cq_entry::CqEntry;
use pyrmq_format::filter::bloom;
use pyrmq_format::queue_ext::{self, Unit};
use pyrmq_format::record;
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// Which tag codes a consumer wants; only the low 32 bits count. [DefaultMessageFilter]
#[derive(Clone, Copy)]
pub struct TagFilter<'a>(pub &'a [i32]);

impl TagFilter<'_> {
    /// An empty set means every message.
    #[inline]
    pub fn matches(&self, tags_code: i64) -> bool {
        self.0.is_empty() || self.0.contains(&(tags_code as i32))
    }
}

/// Whether a property string is wanted.
pub type PropertyTest<'a> = dyn Fn(&[u8]) -> bool + 'a;

/// What the extension of an entry says of a subscription whose expression was evaluated as messages were
/// stored. [ConsumerFilterData]
#[derive(Clone, Copy)]
pub struct BitTest<'a> {
    /// The bits of the subscription, and the bytes of the bitmaps that have them.
    pub bits: &'a [u32],
    pub bitmap_len: usize,
    /// Messages stored up to this time, or below this physical offset, were not evaluated for it.
    pub born_time: i64,
    pub born_offset: i64,
    /// Nor were those from this physical offset on.
    pub until: &'a AtomicI64,
}

impl BitTest<'_> {
    /// Whether an entry's record is not wanted for sure.
    #[inline]
    pub fn rules_out(&self, cq: &CqEntry, unit: &Unit<'_>) -> bool {
        // Whoever sees the entry sees the end that was set before it was made.
        cq.phys >= self.born_offset
            && cq.phys < self.until.load(Ordering::Relaxed)
            && unit.store_time > self.born_time
            && unit.bitmap.len() == self.bitmap_len
            && !bloom::has_all(unit.bitmap, self.bits)
    }
}

/// What a consumer asks a queue for.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// Queue offset of the first message.
    pub offset: i64,
    /// Messages and bytes at most; the first message that matches is given whatever its size.
    pub max_count: usize,
    pub max_bytes: usize,
    pub tags: TagFilter<'a>,
    /// What a message's property string has to satisfy beside its tag; None: nothing.
    pub properties: Option<&'a PropertyTest<'a>>,
    /// What says of most messages that do not satisfy it that they do not, without reading them.
    pub bits: Option<BitTest<'a>>,
    /// With `Never`, what is found before the first place that is not in memory is all that is given;
    /// `StoreError::Cold` if that is nothing.
    pub wait: Wait,
    /// What earlier reads of the same consumer found to be in memory.
    pub learnt: Option<&'a Learnt>,
}

/// Time after which a read examines no more properties: it may be on the thread that serves everybody, and
/// an expression may take long. The next read continues there.
const FILTER_TIME: Duration = Duration::from_millis(5);

impl Wanted<'_> {
    /// Whether an entry does not say that its record is not self. `units` are those of its queue.
    #[inline]
    pub fn may_take(&self, cq: &CqEntry, units: Option<&mut Units<'_>>) -> Result<bool> {
        let Some(units) = units.filter(|_| queue_ext::is_address(cq.tags_code)) else {
            return Ok(self.tags.matches(cq.tags_code));
        };
        if self.tags.0.is_empty() && self.bits.is_none() {
            return Ok(true);
        }
        let Some(unit) = units.get(cq.tags_code)? else {
            return Ok(self.tags.matches(0));
        };
        let is_ruled_out = |test: BitTest<'_>| test.rules_out(cq, &unit);
        Ok(self.tags.matches(unit.tags_code) && !self.bits.is_some_and(is_ruled_out))
    }
}

/// Records between two looks at the clock; a large one is followed by a look.
const FILTERED_AT_ONCE: usize = 4;
const LARGE: usize = 512;

/// Asks for each record whether its properties are wanted.
pub struct PropertyFilter<'a> {
    wanted: &'a PropertyTest<'a>,
    start: Instant,
    /// Records until the next look at the clock.
    unwatched: Cell<usize>,
}

impl<'a> PropertyFilter<'a> {
    pub fn new(wanted: &'a PropertyTest<'a>) -> Self {
        PropertyFilter {
            wanted,
            start: Instant::now(),
            unwatched: Cell::new(FILTERED_AT_ONCE),
        }
    }

    pub fn passes(&self, segment: &Segment, at: usize, size: usize) -> bool {
        let left = self.unwatched.get();
        self.unwatched.set(if size > LARGE {
            0
        } else {
            left.saturating_sub(1)
        });
        let record = segment.bytes(at, size).unwrap_or(&[]);
        record::props(record).is_some_and(self.wanted)
    }

    pub fn is_over(&self) -> bool {
        if self.unwatched.get() > 0 {
            return false;
        }
        self.unwatched.set(FILTERED_AT_ONCE);
        self.start.elapsed() > FILTER_TIME
    }
}

#[cfg(test)]
#[path = "wanted_tests.rs"]
mod tests;
