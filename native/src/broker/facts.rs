//! What the send path must know of a message's property string, found in one pass.

use crate::format::{parse_i64, properties};
use crate::txn::is_half_only;

#[derive(Debug, Default)]
pub struct Facts<'a> {
    pub tags: Option<&'a [u8]>,
    pub unique_key: Option<&'a [u8]>,
    /// WAIT=false: the sender does not wait for the disk.
    pub no_wait: bool,
    /// It has a delay level or a timer.
    pub delayed: bool,
    /// TRAN_MSG: a half message.
    pub half: bool,
    /// It has properties that only the broker gives a half message.
    pub half_only: bool,
    /// INNER_NUM: it says that its body is a batch.
    pub inner_batch: bool,
    /// It has properties that the broker sets itself or drops.
    pub rewrite: bool,
}

impl<'a> Facts<'a> {
    pub fn read(props: &'a [u8]) -> Self {
        let mut facts = Facts::default();
        for (name, value) in properties::pairs(props) {
            match name {
                b"TAGS" => facts.tags = Some(value),
                b"UNIQ_KEY" => facts.unique_key = Some(value),
                b"WAIT" => facts.no_wait = value.eq_ignore_ascii_case(b"false"),
                b"TRAN_MSG" => facts.half |= value.eq_ignore_ascii_case(b"true"),
                b"DELAY" => facts.delayed |= parse_i64(value) != Some(0),
                b"TIMER_DELAY_SEC" | b"TIMER_DELAY_MS" | b"TIMER_DELIVER_MS"
                | b"TIMER_DEL_UNIQKEY" => facts.delayed = true,
                b"INNER_NUM" => facts.inner_batch = true,
                name if is_half_only(name) => facts.half_only = true,
                name if is_brokers(name) => facts.rewrite = true,
                _ => {}
            }
        }
        facts
    }
}

/// Properties that a client cannot set: the broker adds its own, or drops them.
pub(super) fn is_brokers(name: &[u8]) -> bool {
    matches!(name, b"MSG_REGION" | b"TRACE_ON" | b"CLUSTER" | b"POP_CK")
}
