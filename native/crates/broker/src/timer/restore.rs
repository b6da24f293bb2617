//! What was delivered after the kept check point, at start: the log says so.

use super::fields::Fields;
use pyrmq_format::record::{self, Found, View};
use pyrmq_format::timer::{DEQUEUE_MS, ROLL_TIMES, TIMER_TOPIC};
use pyrmq_format::{parse_i64, properties};
use pyrmq_store::{Resident, Store, Stored, Wait};
use rustc_hash::FxHashSet;

/// Bytes of the log that are read at a time.
const AHEAD: usize = 1 << 20;

/// What was delivered or rolled since a check point was kept.
#[derive(Default)]
pub(super) struct Since {
    /// Physical offsets of the timer messages.
    pub messages: FxHashSet<u64>,
    /// Where the log was read from. As long as there are `messages` no check point may speak of more.
    pub from: u64,
    /// When the last of them was delivered, ms.
    until: i64,
    /// Bytes of the log that were read.
    pub read: u64,
}

impl Since {
    /// All that is due at `now` is delivered: what was delivered earlier is not in the wheel any more.
    pub fn all_is_delivered(&mut self, now: i64) {
        if now >= self.until {
            self.messages = FxHashSet::default();
        }
    }
}

/// Reads the log from `from` on.
pub(super) fn delivered_since(store: &Store, from: u64) -> Since {
    let mut since = Since {
        from,
        ..Since::default()
    };
    let log = store.log();
    let mut at = from.max(log.min_offset());
    let mut heads = Resident::reading_ahead(Wait::ForDisk, AHEAD);
    while at < log.max_offset() {
        let Some((segment, place)) = log.locate(at) else {
            break;
        };
        let found = heads.record(&segment, place);
        let next = match found.map(|bytes| (record::read(bytes, false), bytes)) {
            Ok((Found::Record(v), bytes)) => {
                if let Some((message, at)) = delivered_by(store, bytes, &v) {
                    since.messages.insert(message);
                    since.until = since.until.max(at);
                }
                at + v.total as u64
            }
            Ok((Found::Blank, _)) => log.next_file_start(at),
            // Behind such a place the next file is the first that is sure to begin with a record.
            damaged => {
                let why = match damaged {
                    Err(e) => e.to_string(),
                    Ok((Found::Invalid(why), _)) => why.into(),
                    Ok(_) => "it is no record".into(),
                };
                ::log::error!(
                    "timers: the log at {at} cannot be read ({why}): what was delivered from there to the \
                     end of its file may be delivered again"
                );
                log.next_file_start(at)
            }
        };
        since.read += next - at;
        at = next;
    }
    since
}

/// The timer message that a record delivers or rolls, and when it did.
fn delivered_by(store: &Store, bytes: &[u8], v: &View) -> Option<(u64, i64)> {
    let from = u64::try_from(v.prepared_transaction_offset).ok()?;
    if from >= v.phys as u64 {
        return None;
    }
    let props = &bytes[v.props.clone()];
    let topic = &bytes[v.topic.clone()];
    let fields = Fields::read(props);
    fields.out_ms?;
    let is_roll = topic == TIMER_TOPIC && properties::find(props, ROLL_TIMES).is_some();
    if !is_roll && fields.topic != topic {
        return None;
    }
    let timer = Stored::read(store, from).unwrap_or_else(|e| {
        ::log::error!(path:% = e.path().display(); "timers: {e}: whether the message there was delivered is not known");
        None
    })?;
    // A message that says the same of itself may come from elsewhere.
    let is_it = timer.topic() == TIMER_TOPIC
        && Fields::read(timer.props()).is_same(&fields)
        && timer.view().born_timestamp == v.born_timestamp;
    let dequeued = properties::find(props, DEQUEUE_MS).and_then(parse_i64);
    is_it.then(|| (from, dequeued.unwrap_or(0).max(v.store_timestamp)))
}
