//! Dispatch: which records have an entry in a queue, and what it says.
//! [CommitLogDispatcherBuildConsumeQueue]

use pyrmq_format::properties;
use pyrmq_format::record::sys_flag;

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
