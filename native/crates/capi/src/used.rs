//! What connections use, as the C side reads it.

use super::border::Bytes;
use pyrmq_broker::wire::used::Used;

/// What a producer group has stored by a connection: requests, messages, bytes of their records.
#[repr(C)]
pub struct GroupUsed {
    pub name: Bytes,
    pub sends: u64,
    pub messages: u64,
    pub bytes: u64,
}

/// What a connection has used since this was taken last: requests by kind, messages and bytes of their
/// records. Valid until the next `session_take_used` of the same session.
#[repr(C)]
pub struct UsedOut {
    pub sends: u64,
    pub pulls: u64,
    pub acks: u64,
    pub ends: u64,
    pub others: u64,
    pub messages_in: u64,
    pub bytes_in: u64,
    pub messages_out: u64,
    pub bytes_out: u64,
    pub groups: *const GroupUsed,
    pub n_groups: usize,
}

/// What was taken last: the rows point to its names.
#[derive(Default)]
pub struct Taken {
    used: Used,
    rows: Box<[GroupUsed]>,
}

impl Taken {
    /// Takes the place of what was taken before.
    pub fn replace(&mut self, used: Used) -> UsedOut {
        self.used = used;
        let groups = &self.used.groups;
        // Mostly there are none: an idle connection keeps no buffer.
        let rows = groups.iter().map(|g| GroupUsed {
            name: Bytes::of(&g.name),
            sends: g.sends,
            messages: g.messages,
            bytes: g.bytes,
        });
        self.rows = rows.collect();
        let (used, rows) = (&self.used, &self.rows);
        let requests = &used.requests;
        let (messages_in, bytes_in) = used.stored_in_all();
        UsedOut {
            sends: requests.sends,
            pulls: requests.pulls,
            acks: requests.acks,
            ends: requests.ends,
            others: requests.others,
            messages_in,
            bytes_in,
            messages_out: used.messages_out,
            bytes_out: used.bytes_out,
            groups: rows.as_ptr(),
            n_groups: rows.len(),
        }
    }
}
