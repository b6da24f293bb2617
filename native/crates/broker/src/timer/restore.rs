//! What was delivered after the kept check point, at start: the log says so.

use super::fields::Fields;
use pyrmq_format::properties;
use pyrmq_format::record::{self, Found, View};
use pyrmq_format::timer::{ROLL_TIMES, TIMER_TOPIC};
use pyrmq_store::{Resident, Store, Stored, Wait};
use rustc_hash::FxHashSet;

/// Bytes of the log that are read at a time.
const AHEAD: usize = 1 << 20;

/// The physical offsets of the timer messages that the log from `from` on has delivered or rolled, and
/// how many bytes were read.
pub(super) fn delivered_since(store: &Store, from: u64) -> (FxHashSet<u64>, u64) {
    let mut delivered = FxHashSet::default();
    let log = store.log();
    let mut at = from.max(log.min_offset());
    let mut read = 0;
    let mut heads = Resident::reading_ahead(Wait::ForDisk, AHEAD);
    while at < log.max_offset() {
        let Some((segment, place)) = log.locate(at) else {
            break;
        };
        let found = heads.record(&segment, place);
        let next = match found.map(|bytes| (record::read(bytes, false), bytes)) {
            Ok((Found::Record(v), bytes)) => {
                delivered.extend(delivered_by(store, bytes, &v));
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
        read += next - at;
        at = next;
    }
    (delivered, read)
}

/// The timer message that a record delivers or rolls.
fn delivered_by(store: &Store, bytes: &[u8], v: &View) -> Option<u64> {
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
        ::log::error!("timers: {e}: whether the message there was delivered is not known");
        None
    })?;
    // A message that says the same of itself may come from elsewhere.
    let is_it = timer.topic() == TIMER_TOPIC
        && Fields::read(timer.props()).is_same(&fields)
        && timer.view().born_timestamp == v.born_timestamp;
    is_it.then_some(from)
}
