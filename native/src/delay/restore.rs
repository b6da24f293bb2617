//! How far each level was delivered, at start: kept progress, and what the log says beyond it.

use super::level::Level;
use crate::format::delay::SCHEDULE_TOPIC;
use crate::format::properties;
use crate::format::record::{self, Found, View};
use crate::store::{Resident, Store, Stored, Wait};

/// Bytes of the log that are read at a time.
const AHEAD: usize = 1 << 20;

/// What the log said beyond kept progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Bytes of the log that were read.
    pub read: u64,
    /// Messages that were delivered after progress was kept.
    pub delivered: u64,
}

/// Moves levels to where they were: inside of their queues, and behind everything that the log from
/// `log_end` on has delivered.
pub(super) fn restore(store: &Store, levels: &[Level], log_end: Option<u64>) -> Restored {
    for level in levels {
        let (min, max) = (level.queue.min_offset(), level.queue.max_offset());
        level.go_to(level.next().clamp(min.min(max), max));
    }
    let mut restored = Restored::default();
    let log = store.log();
    let unused = levels.iter().all(|level| level.queue.max_offset() == 0);
    let Some(from) = log_end.filter(|_| !unused) else {
        return restored;
    };
    let mut at = from.max(log.min_offset());
    let mut heads = Resident::reading_ahead(Wait::ForDisk, AHEAD);
    while at < log.max_offset() {
        let Some((segment, place)) = log.locate(at) else {
            break;
        };
        let found = heads.record(&segment, place);
        let next = match found.map(|bytes| (record::read(bytes, false), bytes)) {
            Ok((Found::Record(v), bytes)) => {
                restored.delivered += note(store, levels, bytes, &v) as u64;
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
                log::error!(
                    "delayed messages: the log at {at} cannot be read ({why}): what was delivered from \
                     there to the end of its file may be delivered again"
                );
                log.next_file_start(at)
            }
        };
        restored.read += next - at;
        at = next;
    }
    restored
}

/// A property string without its last separator, which a delivered record always has.
fn text(props: &[u8]) -> &[u8] {
    props
        .strip_suffix(&[properties::VALUE_END])
        .unwrap_or(props)
}

/// Notes a record if it is a delivered one that was not known; whether it is.
fn note(store: &Store, levels: &[Level], bytes: &[u8], v: &View) -> bool {
    let props = &bytes[v.props.clone()];
    let topic = &bytes[v.topic.clone()];
    let Ok(from) = u64::try_from(v.prepared_transaction_offset) else {
        return false;
    };
    if properties::find(props, b"DELAY").is_none()
        || properties::find(props, b"REAL_TOPIC") != Some(topic)
    {
        return false;
    }
    // The same text: a message that says the same of itself may come from elsewhere.
    let is_it = |s: &Stored| s.topic() == SCHEDULE_TOPIC && text(s.props()) == text(props);
    let parked = Stored::read(store, from).unwrap_or_else(|e| {
        log::error!("delayed messages: {e}: whether the message there was delivered is not known");
        None
    });
    let Some(parked) = parked.filter(is_it) else {
        return false;
    };
    let index = usize::try_from(parked.view().queue_id).unwrap_or(usize::MAX);
    let Some(level) = levels.get(index) else {
        return false;
    };
    let offset = parked.view().queue_offset;
    let is_new = offset >= level.next();
    if is_new {
        level.go_to(offset + 1);
    }
    is_new
}
