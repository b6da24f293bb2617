//! A record of the log, read to be stored once more: a half, a delayed message, one that comes back.

use super::error::Result;
use super::message::{Content, Message};
use super::resident::{Resident, Wait};
use super::segment::Segment;
use super::store_impl::Store;
use super::topics::Topic;
use pyrmq_format::host::Host;
use pyrmq_format::properties;
use pyrmq_format::record::{self, Found, View, sys_flag};
use std::ops::Range;
use std::sync::Arc;

/// A record in the mapping of its file.
pub struct Stored {
    segment: Arc<Segment>,
    bytes: Range<usize>,
    view: View,
}

impl Stored {
    /// The record that starts at a physical offset, also one that is not flushed yet; None if none
    /// does.
    pub fn read(store: &Store, phys: u64) -> Result<Option<Stored>> {
        Stored::read_if(store, phys, Wait::ForDisk)
    }

    /// The same; `StoreError::Cold` where the disk would have to be waited for and `wait` forbids it.
    pub fn read_if(store: &Store, phys: u64, wait: Wait) -> Result<Option<Stored>> {
        let Some((segment, at)) = store.log().locate(phys) else {
            return Ok(None);
        };
        let bytes = Resident::new(wait).record(&segment, at)?;
        let Found::Record(view) = record::read(bytes, false) else {
            return Ok(None);
        };
        let bytes = at..at + view.total;
        Ok((view.phys == phys as i64).then_some(Stored {
            segment,
            bytes,
            view,
        }))
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

    pub fn born_host(&self) -> Host {
        let v6 = self.view.sys_flag & sys_flag::BORN_HOST_V6 != 0;
        Host::read(&self.bytes()[48..], v6)
    }

    /// Where it was stored: the address of its broker at that time.
    pub fn store_host(&self) -> Host {
        let flags = self.view.sys_flag;
        let born = if flags & sys_flag::BORN_HOST_V6 != 0 {
            20
        } else {
            8
        };
        let at = 48 + born + 8; // behind the host that it was born at, and its store time
        Host::read(&self.bytes()[at..], flags & sys_flag::STORE_HOST_V6 != 0)
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
