//! Conditions on single columns, all of which have to hold; compared as the columns say it.

use pyrmq_format::record::View;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;

/// Values up to here are compared one by one, which is faster than to hash the value of each row.
const FEW: usize = 8;

/// None: no condition. Ranges are from and before.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    pub brokers: Option<BTreeSet<String>>,
    pub queue_ids: Option<(i64, i64)>,
    pub commit_log_offsets: Option<(i64, i64)>,
    /// ms.
    pub store_times: Option<(i64, i64)>,
    pub born_times: Option<(i64, i64)>,
    pub tags: Option<Texts>,
    pub keys: Option<Texts>,
    /// Most rows that are wanted in all.
    pub limit: Option<u64>,
}

impl Filters {
    /// Whether no row of this broker can be wanted.
    pub fn excludes(&self, broker: &str) -> bool {
        let other = |brokers: &BTreeSet<String>| !brokers.contains(broker);
        self.limit == Some(0) || self.brokers.as_ref().is_some_and(other)
    }

    /// Whether the head of a record decides anything.
    pub(super) fn by_head(&self) -> bool {
        let ranges = [
            self.queue_ids,
            self.commit_log_offsets,
            self.store_times,
            self.born_times,
        ];
        ranges.iter().any(Option::is_some)
    }

    /// Whether properties have to be compared.
    pub(super) fn by_properties(&self) -> bool {
        self.tags.is_some() || self.keys.is_some()
    }

    /// Whether the head of a record lets it through.
    pub(super) fn has_head(&self, view: &View) -> bool {
        let holds = |range: Option<(i64, i64)>, n: i64| {
            range.is_none_or(|(from, before)| n >= from && n < before)
        };
        holds(self.queue_ids, i64::from(view.queue_id))
            && holds(self.commit_log_offsets, view.phys)
            && holds(self.store_times, view.store_timestamp)
            && holds(self.born_times, view.born_timestamp)
    }

    /// Whether the values of TAGS and KEYS let a message through.
    #[inline]
    pub(super) fn has_properties(&self, tags: Option<&[u8]>, keys: Option<&[u8]>) -> bool {
        self.tags.as_ref().is_none_or(|wanted| wanted.has(tags))
            && self.keys.as_ref().is_none_or(|wanted| wanted.has(keys))
    }
}

/// Values of a text column.
#[derive(Clone, Debug)]
pub struct Texts {
    null: bool,
    few: Vec<Box<[u8]>>,
    /// All of them, where they are many.
    many: FxHashSet<Box<[u8]>>,
}

impl Texts {
    /// `null` among them: no value.
    pub fn new<'a>(values: impl IntoIterator<Item = Option<&'a str>>) -> Self {
        let mut out = Texts {
            null: false,
            few: Vec::new(),
            many: FxHashSet::default(),
        };
        let mut texts: Vec<Box<[u8]>> = Vec::new();
        for value in values {
            match value {
                Some(text) => texts.push(text.as_bytes().into()),
                None => out.null = true,
            }
        }
        match texts.len() <= FEW {
            true => out.few = texts,
            false => out.many = texts.into_iter().collect(),
        }
        out
    }

    #[inline]
    fn has(&self, value: Option<&[u8]>) -> bool {
        let Some(value) = value else {
            return self.null;
        };
        // What is no UTF-8 has replacement characters in its column.
        match std::str::from_utf8(value) {
            Ok(_) => self.has_text(value),
            Err(_) => self.has_text(String::from_utf8_lossy(value).as_bytes()),
        }
    }

    fn has_text(&self, value: &[u8]) -> bool {
        self.few.iter().any(|text| **text == *value) || self.many.contains(value)
    }
}

#[cfg(test)]
#[path = "filters_tests.rs"]
mod tests;
