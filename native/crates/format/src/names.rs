//! File names and topic names: what may become a path, and how.

use super::delay::SCHEDULE_TOPIC;
use super::timer::TIMER_TOPIC;
use std::path::Path;

/// Longest topic a client may send to; `%RETRY%` and `%DLQ%` topics may have 255.
pub const MAX_TOPIC: usize = 127;
pub const MAX_LONG_TOPIC: usize = 255;
/// The topic of half messages, and that of the op records that end them. [TopicValidator]
pub const HALF_TOPIC: &[u8] = b"RMQ_SYS_TRANS_HALF_TOPIC";
pub const OP_TOPIC: &[u8] = b"RMQ_SYS_TRANS_OP_HALF_TOPIC";
/// Where transactions go that nobody answered for.
pub const CHECK_MAX_TOPIC: &[u8] = b"TRANS_CHECK_MAX_TIME_TOPIC";
pub const RETRY_PREFIX: &[u8] = b"%RETRY%";
pub const DLQ_PREFIX: &[u8] = b"%DLQ%";

/// Topics in which the broker keeps what it has still to decide about or to deliver.
pub fn is_brokers_own(topic: &[u8]) -> bool {
    [
        HALF_TOPIC,
        OP_TOPIC,
        CHECK_MAX_TOPIC,
        SCHEDULE_TOPIC,
        TIMER_TOPIC,
    ]
    .contains(&topic)
}

/// 20-digit zero-padded decimal of a file's first offset.
pub fn file_name(offset: u64) -> String {
    format!("{offset:020}")
}

/// The first offset that a file's name states, or None for a foreign file.
pub fn parse_file_name(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    if name.len() != 20 || !name.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    name.parse().ok().filter(|&n: &u64| n <= i64::MAX as u64)
}

/// Whether every byte is one of RocketMQ's topic characters: `%|-_`, digits, letters.
pub fn is_topic_text(topic: &[u8]) -> bool {
    topic
        .iter()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'%' | b'|' | b'-' | b'_'))
}

/// Whether `topic` is one that may be stored (and so become a folder name). [TopicValidator]
pub fn is_topic(topic: &[u8]) -> bool {
    let long = topic.starts_with(RETRY_PREFIX) || topic.starts_with(DLQ_PREFIX);
    let limit = if long { MAX_LONG_TOPIC } else { MAX_TOPIC };
    !topic.is_empty() && topic.len() <= limit && is_topic_text(topic)
}

/// Whether messages of `topic` may be in a store: any text that can be the name of a folder. Clients
/// send to `is_topic` alone, but older tools made topics with other characters, and RocketMQ 5 makes
/// `%RETRY%group+topic`. [KeyBuilder.buildPopRetryTopicV2]
pub fn is_stored_topic(topic: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(topic) else {
        return false;
    };
    let in_bounds = !topic.is_empty() && topic.len() <= MAX_LONG_TOPIC;
    in_bounds && text != "." && text != ".." && !text.contains(|c: char| c == '/' || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(file_name(1073741824), "00000000001073741824");
        assert_eq!(
            parse_file_name(Path::new("/x/00000000001073741824")),
            Some(1073741824)
        );
        assert_eq!(parse_file_name(Path::new("/x/1073741824")), None);
        assert_eq!(parse_file_name(Path::new("/x/0000000000107374182x")), None);
    }

    #[test]
    fn topics() {
        assert!(is_topic(b"TopicTest") && is_topic(b"%RETRY%g") && is_topic(b"a|b-c_d"));
        for bad in [
            &b""[..],
            b"a/b",
            b"..",
            b"a b",
            b"a\0",
            "\u{e4}".as_bytes(),
            &[b'a'; 128],
        ] {
            assert!(!is_topic(bad), "{bad:?}");
        }
        for stored in [
            "test.test1",
            "%RETRY%g+t",
            "...",
            "a b",
            "\u{e4}",
            "TopicTest",
        ] {
            assert!(is_stored_topic(stored.as_bytes()), "{stored}");
        }
        for bad in [
            &b""[..],
            b".",
            b"..",
            b"a/b",
            b"a\0",
            b"a\n",
            "a\u{85}".as_bytes(),
            b"\xff",
            &[b'a'; 256],
        ] {
            assert!(!is_stored_topic(bad), "{bad:?}");
        }
        let mut retry = RETRY_PREFIX.to_vec();
        retry.resize(255, b'g');
        assert!(is_topic(&retry));
        retry.push(b'g');
        assert!(!is_topic(&retry));
    }
}
