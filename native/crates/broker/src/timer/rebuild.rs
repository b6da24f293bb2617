//! Making wheel and timer log again from the queue of rmq_sys_wheel_timer, where they are damaged.

use super::fields::{self, Fields};
use pyrmq_format::record::{self, Found};
use pyrmq_format::timer::TIMER_TOPIC;
use pyrmq_store::{ConsumeQueue, Resident, Result, Store, Wait};
use rustc_hash::FxHashMap;

const AHEAD: usize = 1 << 20;

/// What is left out of what the queue has.
pub struct Rebuild {
    /// Queue offset of the first message that was not in the wheel, and the time before which all in
    /// it was delivered, ms.
    until: i64,
    read_ms: i64,
    /// By message how often it was rolled: only the record of its last roll waits.
    rolled: FxHashMap<u128, i64>,
}

impl Rebuild {
    pub fn new(store: &Store, queue: &ConsumeQueue, until: i64, read_ms: i64) -> Result<Self> {
        let mut rolled = FxHashMap::default();
        let mut heads = Resident::reading_ahead(Wait::ForDisk, AHEAD);
        for offset in queue.min_offset()..queue.max_offset() {
            let Some(entry) = queue.entry(offset)? else {
                continue;
            };
            if entry.cq.is_blank() || !entry.cq.is_valid() {
                continue;
            }
            let Some((segment, at)) = store.log().locate(entry.cq.phys as u64) else {
                continue;
            };
            let Ok(bytes) = heads.record(&segment, at) else {
                continue; // said when it is enqueued
            };
            let Found::Record(v) = record::read(bytes, false) else {
                continue;
            };
            if bytes[v.topic.clone()] != *TIMER_TOPIC {
                continue;
            }
            let fields = Fields::read(&bytes[v.props.clone()]);
            if fields.roll_times > 0 {
                let times = rolled.entry(key(&fields)).or_insert(0);
                *times = fields.roll_times.max(*times);
            }
        }
        Ok(Rebuild {
            until,
            read_ms,
            rolled,
        })
    }

    /// Whether a message was delivered, or rolled.
    pub fn leaves_out(&self, offset: i64, fields: &Fields<'_>) -> bool {
        let was_delivered = offset < self.until && fields.out_ms.unwrap_or(0) < self.read_ms;
        let newest = self.rolled.get(&key(fields)).copied().unwrap_or(0);
        was_delivered || fields.roll_times < newest
    }

    pub fn is_over(&self, offset: i64) -> bool {
        offset >= self.until
    }
}

/// Tells messages apart that were rolled.
fn key(fields: &Fields<'_>) -> u128 {
    let out = fields.out_ms.unwrap_or(0).to_be_bytes();
    let is_delete = [fields.deletes.is_some() as u8];
    let parts = [&out[..], &is_delete, fields.unique_key, b"+", fields.topic];
    fields::key(&parts.concat())
}
