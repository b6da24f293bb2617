//! A half message as it stands in the log, and what its properties say.

use pyrmq_format::{java, properties};
use pyrmq_store::{Result, Store, Stored};
use rustc_hash::FxHasher;
use std::hash::Hasher;
use std::ops::Deref;

/// Longest producer group, bytes.
pub const MAX_GROUP: usize = 255;

/// Properties that the broker keeps its books in: a client cannot set them.
pub fn is_half_only(name: &[u8]) -> bool {
    matches!(
        name,
        b"__transactionId__"
            | b"REAL_TOPIC"
            | b"REAL_QID"
            | b"TRANSACTION_CHECK_TIMES"
            | b"TRAN_PREPARED_QUEUE_OFFSET"
    )
}

/// A record of the half topic, or one that is taken for one.
pub struct Half(Stored);

impl Deref for Half {
    type Target = Stored;

    fn deref(&self) -> &Stored {
        &self.0
    }
}

/// What the properties of a half, or of a delayed message, say, found in one pass.
#[derive(Debug, Default, Clone, Copy)]
pub struct Fields<'a> {
    pub group: &'a [u8],
    pub topic: &'a [u8],
    pub queue_id: Option<u32>,
    pub unique_key: &'a [u8],
    pub tags: Option<&'a [u8]>,
    pub checks: u16,
    /// Seconds in which its producer is not asked.
    pub immunity: Option<i64>,
    /// Queue offset of the half that RocketMQ's immunity copy stands for.
    pub stands_for: Option<i64>,
}

impl<'a> Fields<'a> {
    pub fn read(props: &'a [u8]) -> Self {
        let mut f = Fields::default();
        for (name, value) in properties::pairs(props) {
            match name {
                b"PGROUP" => f.group = value,
                b"REAL_TOPIC" => f.topic = value,
                b"REAL_QID" => f.queue_id = number(value),
                b"UNIQ_KEY" => f.unique_key = value,
                b"TAGS" => f.tags = Some(value),
                b"TRANSACTION_CHECK_TIMES" => f.checks = number(value).unwrap_or(0),
                b"CHECK_IMMUNITY_TIME_IN_SECONDS" => f.immunity = number(value),
                b"TRAN_PREPARED_QUEUE_OFFSET" => f.stands_for = number(value),
                _ => {}
            }
        }
        f
    }

    /// Whether it can be settled: it says who made it and where it belongs.
    pub fn is_complete(&self) -> bool {
        !self.group.is_empty() && !self.topic.is_empty() && self.queue_id.is_some()
    }

    /// The immunity as `Pending` keeps it: negative if there is none.
    pub fn immunity_seconds(&self) -> i32 {
        match self.immunity {
            Some(seconds @ 0..) => i32::try_from(seconds).unwrap_or(i32::MAX),
            _ => -1,
        }
    }

    pub fn tags_code(&self) -> i64 {
        java::tag_code(self.tags)
    }
}

fn number<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

impl Half {
    /// See `Stored::read`.
    pub fn read(store: &Store, phys: u64) -> Result<Option<Half>> {
        Ok(Stored::read(store, phys)?.map(Half))
    }

    /// The same for an offset that a client names: it counts only if the queue of `topic` says that
    /// a record starts there, as bodies may hold what looks like one.
    pub fn find(store: &Store, topic: &[u8], phys: u64) -> Result<Option<Half>> {
        let Some(half) = Half::read(store, phys)?.filter(|half| half.topic() == topic) else {
            return Ok(None);
        };
        let entry = store.topics().entry(topic, 0, half.view().queue_offset)?;
        let leads_here = entry.is_some_and(|e| e.cq.phys == half.view().phys);
        Ok(leads_here.then_some(half))
    }

    pub fn fields(&self) -> Fields<'_> {
        Fields::read(self.props())
    }

    /// The same for all copies of one transaction.
    pub fn key(&self) -> u64 {
        transaction_key(self.fields().unique_key, self.view().born_timestamp)
    }

    /// Whether both are copies of one half: one send, asked about more or less often.
    pub fn is_same_transaction(&self, other: &Half) -> bool {
        let (a, b) = (self.fields(), other.fields());
        !a.unique_key.is_empty()
            && a.unique_key == b.unique_key
            && a.group == b.group
            && a.topic == b.topic
            && self.view().born_timestamp == other.view().born_timestamp
    }
}

/// See `Half::key`.
pub fn transaction_key(unique_key: &[u8], born: i64) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(unique_key);
    hasher.write_i64(born);
    hasher.finish()
}

#[cfg(test)]
#[path = "half_tests.rs"]
mod tests;
