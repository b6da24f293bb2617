//! Dispatch: which records have an entry in a queue, and what it says.
//! [CommitLogDispatcherBuildConsumeQueue]

use crate::format::delay::{Levels, SCHEDULE_TOPIC};
use crate::format::record::sys_flag;
use crate::format::{java, properties};

/// Whether records with this sysFlag stand in a queue: half messages of old brokers and rollbacks
/// do not.
pub fn is_queued(flags: i32) -> bool {
    !matches!(
        flags & sys_flag::TRANSACTION_MASK,
        sys_flag::PREPARED | sys_flag::ROLLBACK
    )
}

/// How many messages an inner batch says it holds.
pub fn inner_count(props: &[u8]) -> i32 {
    properties::find(props, b"INNER_NUM")
        .and_then(|n| std::str::from_utf8(n).ok()?.parse::<i16>().ok())
        .map_or(1, |n| n.max(1) as i32)
}

/// The tag code of a queue entry: the hash of TAGS, or in the schedule topic the time of delivery.
pub fn tags_code(topic: &[u8], props: &[u8], store_timestamp: i64, levels: &Levels) -> i64 {
    if topic == SCHEDULE_TOPIC
        && let Some(time) = properties::find(props, b"DELAY")
            .and_then(|level| levels.deliver_time(level, store_timestamp))
    {
        return time;
    }
    java::tag_code(properties::find(props, b"TAGS"))
}
