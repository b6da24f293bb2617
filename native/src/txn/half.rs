//! A half message as it stands in the log, and what its properties say.

use crate::format::host::Host;
use crate::format::record::{self, Found, View};
use crate::format::{java, properties};
use crate::store::{Content, Message, Resident, Result, Segment, Store, Topic, Wait};
use rustc_hash::FxHasher;
use std::hash::Hasher;
use std::ops::Range;
use std::sync::Arc;

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

/// A record of the log, in the mapping of its file.
pub struct Half {
    segment: Arc<Segment>,
    bytes: Range<usize>,
    view: View,
}

/// What a half's properties say, found in one pass.
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
        self.tags.map_or(0, |t| java::hash(t) as i64)
    }
}

fn number<T: std::str::FromStr>(value: &[u8]) -> Option<T> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

impl Half {
    /// The record that starts at a physical offset, also one that is not flushed yet; None if none
    /// does.
    pub fn read(store: &Store, phys: u64) -> Result<Option<Half>> {
        let Some((segment, at)) = store.log().locate(phys) else {
            return Ok(None);
        };
        let bytes = Resident::new(Wait::ForDisk).record(&segment, at)?;
        let Found::Record(view) = record::read(bytes, false) else {
            return Ok(None);
        };
        let bytes = at..at + view.total;
        Ok((view.phys == phys as i64).then_some(Half {
            segment,
            bytes,
            view,
        }))
    }

    /// The same for an offset that a client names: it counts only if the queue of `topic` says that
    /// a record starts there, as bodies may hold what looks like one.
    pub fn find(store: &Store, topic: &[u8], phys: u64) -> Result<Option<Half>> {
        let Some(half) = Half::read(store, phys)?.filter(|half| half.topic() == topic) else {
            return Ok(None);
        };
        let entry = store.topics().entry(topic, 0, half.view.queue_offset)?;
        let leads_here = entry.is_some_and(|e| e.cq.phys == half.view.phys);
        Ok(leads_here.then_some(half))
    }

    pub fn bytes(&self) -> &[u8] {
        let r = &self.bytes;
        self.segment.bytes(r.start, r.len()).unwrap_or(&[])
    }

    fn part(&self, part: &Range<usize>) -> &[u8] {
        self.bytes().get(part.clone()).unwrap_or(&[])
    }

    pub fn view(&self) -> &View {
        &self.view
    }

    pub fn phys(&self) -> u64 {
        self.view.phys as u64
    }

    pub fn topic(&self) -> &[u8] {
        self.part(&self.view.topic)
    }

    pub fn body(&self) -> &[u8] {
        self.part(&self.view.body)
    }

    pub fn props(&self) -> &[u8] {
        self.part(&self.view.props)
    }

    pub fn fields(&self) -> Fields<'_> {
        Fields::read(self.props())
    }

    pub fn born_host(&self) -> Host {
        Host::read(
            &self.bytes()[48..],
            self.view.sys_flag & record::sys_flag::BORN_HOST_V6 != 0,
        )
    }

    /// The same for all copies of one transaction.
    pub fn key(&self) -> u64 {
        transaction_key(self.fields().unique_key, self.view.born_timestamp)
    }

    /// Whether both are copies of one half: one send, asked about more or less often.
    pub fn is_same_transaction(&self, other: &Half) -> bool {
        let (a, b) = (self.fields(), other.fields());
        !a.unique_key.is_empty()
            && a.unique_key == b.unique_key
            && a.group == b.group
            && a.topic == b.topic
            && self.view.born_timestamp == other.view.born_timestamp
    }

    /// This message again, in another topic and queue.
    pub fn again<'a>(
        &'a self,
        topic: &'a Arc<Topic>,
        queue_id: u32,
        sys_flag: i32,
        prepared: i64,
    ) -> Message<'a> {
        Message {
            topic,
            queue_id,
            sys_flag,
            born_timestamp: self.view.born_timestamp,
            born_host: self.born_host(),
            reconsume_times: self.view.reconsume_times,
            prepared_transaction_offset: prepared,
        }
    }

    /// Body and flag again; `props` in two parts.
    pub fn content<'a>(&'a self, props: &'a [u8], more: &'a [u8], tags_code: i64) -> Content<'a> {
        Content {
            flag: self.view.flag,
            body: self.body(),
            props: [props, properties::closing(props), more, b""],
            tags_code,
            count: 1,
        }
    }

    /// The property string without the pairs of these names.
    pub fn props_without(&self, names: &[&[u8]]) -> Vec<u8> {
        properties::without(self.props(), |name| names.contains(&name))
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
