//! What is put, and where it was stored.

use super::topics::Topic;
use pyrmq_format::host::Host;
use std::sync::Arc;

/// What a client sent, as far as all messages of one request share it.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    pub topic: &'a Arc<Topic>,
    pub queue_id: u32,
    pub sys_flag: i32,
    pub born_timestamp: i64,
    pub born_host: Host,
    pub reconsume_times: i32,
    pub prepared_transaction_offset: i64,
}

/// The part that each message has for itself; properties come in parts, stored one behind the other.
#[derive(Clone, Copy)]
pub struct Content<'a> {
    pub flag: i32,
    pub body: &'a [u8],
    pub props: [&'a [u8]; 4],
    pub tags_code: i64,
    /// How many messages the body holds: 1, or those of an inner batch.
    pub count: i16,
}

impl Content<'_> {
    /// Bytes of the properties as they are stored.
    #[inline]
    pub fn props_len(&self) -> usize {
        self.props.iter().map(|p| p.len()).sum()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Appended {
    /// Physical offset and size of the record.
    pub phys: u64,
    pub size: usize,
    pub queue_offset: i64,
    pub store_timestamp: i64,
}

impl Appended {
    /// What must be confirmed before this is acknowledged.
    pub fn end(&self) -> u64 {
        self.phys + self.size as u64
    }
}
