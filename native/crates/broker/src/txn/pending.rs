//! The halves that wait, by their queue offset.

use super::due::{DueRule, Timing};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Who made halves, and for which topic: shared by all that agree in both.
#[derive(Debug)]
pub struct Origin {
    pub group: Box<[u8]>,
    pub topic: Box<[u8]>,
    waiting: AtomicU64,
}

#[derive(Clone, Debug)]
pub struct Pending {
    pub phys: u64,
    pub born: i64,
    /// Store time of the first copy, or of the last one that somebody was asked about, ms.
    pub since: i64,
    /// The same for all copies of one transaction.
    pub key: u64,
    /// Seconds in which its producer is not asked; negative: not said.
    pub immunity: i32,
    /// How often its producer was asked.
    pub checks: u16,
    /// It is not the record that the client's answer named.
    pub is_copy: bool,
    pub origin: Arc<Origin>,
}

#[derive(Default)]
pub(super) struct Table {
    waiting: BTreeMap<i64, Pending>,
    /// Copies among them, by the key that all copies of a transaction share.
    copies: BTreeSet<(u64, i64)>,
    /// By group and topic.
    origins: FxHashMap<[Box<[u8]>; 2], Arc<Origin>>,
    /// The origin asked for last: neighbours mostly share it.
    last: Option<Arc<Origin>>,
    /// Number of origins at which those out of use are thrown out.
    most_origins: usize,
}

/// Origins that nothing uses are thrown out when there are more than this, and twice as many as were
/// in use the last time.
const MIN_ORIGINS: usize = 1024;
/// Copies of one transaction that are compared; a client library has one waiting at a time.
const MAX_COPIES: usize = 64;

impl Table {
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn get(&self, offset: i64) -> Option<&Pending> {
        self.waiting.get(&offset)
    }

    pub fn origin(&mut self, group: &[u8], topic: &[u8]) -> Arc<Origin> {
        if let Some(last) = &self.last
            && *last.group == *group
            && *last.topic == *topic
        {
            return last.clone();
        }
        let key = [Box::from(group), Box::from(topic)];
        if self.origins.len() >= self.most_origins.max(MIN_ORIGINS) {
            self.origins.retain(|_, o| Arc::strong_count(o) > 1);
            self.most_origins = 2 * self.origins.len();
        }
        let origin = self.origins.entry(key).or_insert_with(|| {
            Arc::new(Origin {
                group: group.into(),
                topic: topic.into(),
                waiting: AtomicU64::new(0),
            })
        });
        self.last = Some(origin.clone());
        origin.clone()
    }

    pub fn insert(&mut self, offset: i64, pending: Pending) {
        pending.origin.waiting.fetch_add(1, Ordering::Relaxed);
        if pending.is_copy {
            self.copies.insert((pending.key, offset));
        }
        self.waiting.insert(offset, pending);
    }

    pub fn remove(&mut self, offset: i64) -> Option<Pending> {
        let pending = self.waiting.remove(&offset)?;
        pending.origin.waiting.fetch_sub(1, Ordering::Relaxed);
        if pending.is_copy {
            self.copies.remove(&(pending.key, offset));
        }
        Some(pending)
    }

    /// Copies that wait of the transaction with this key, the newest first.
    pub fn copies(&self, key: u64) -> impl Iterator<Item = i64> {
        let all = self.copies.range((key, i64::MIN)..=(key, i64::MAX));
        all.rev().take(MAX_COPIES).map(|&(_, offset)| offset)
    }

    pub fn least(&self) -> Option<i64> {
        self.waiting.first_key_value().map(|(&offset, _)| offset)
    }

    pub fn oldest_born(&self) -> i64 {
        self.waiting.values().map(|p| p.born).min().unwrap_or(0)
    }

    /// Halves of the queue offsets `range` that are not young by `rule`: at most `limit` of them, and of
    /// those that are among the next `most`; and where to continue.
    pub fn due(
        &self,
        rule: &DueRule,
        range: Range<i64>,
        limit: usize,
        most: usize,
    ) -> (Vec<(i64, Pending)>, i64) {
        let mut found = Vec::new();
        let waiting = self.waiting.range(range.start..range.end.max(range.start));
        for (seen, (&offset, p)) in waiting.enumerate() {
            if found.len() >= limit || seen >= most {
                return (found, offset);
            }
            if rule.timing(p.born, p.since, p.immunity, p.checks) != Timing::Young {
                found.push((offset, p.clone()));
            }
        }
        (found, range.end)
    }

    /// Waiting halves below an offset.
    pub fn before(&self, offset: i64, limit: usize) -> Vec<i64> {
        let below = self.waiting.range(..offset);
        below.map(|(&offset, _)| offset).take(limit).collect()
    }

    pub fn by_topic(&self) -> Vec<(Box<[u8]>, u64)> {
        let mut sums: FxHashMap<&[u8], u64> = FxHashMap::default();
        for origin in self.origins.values() {
            *sums.entry(&origin.topic).or_default() += origin.waiting.load(Ordering::Relaxed);
        }
        sums.into_iter()
            .map(|(topic, n)| (topic.into(), n))
            .collect()
    }
}

#[cfg(test)]
#[path = "pending_tests.rs"]
mod tests;
