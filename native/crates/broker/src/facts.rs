//! What the send path must know of a message's property string, found in one pass.

use crate::txn::is_half_only;
use pyrmq_format::delay::is_timer;
use pyrmq_format::{parse_i64, properties};

#[derive(Debug, Default)]
pub struct Facts<'a> {
    pub tags: Option<&'a [u8]>,
    pub unique_key: Option<&'a [u8]>,
    /// WAIT=false: the sender does not wait for the disk.
    pub no_wait: bool,
    /// DELAY, if it asks for a delay or is no number.
    pub delay: Option<&'a [u8]>,
    /// It has a timer, or ends one.
    pub timer: bool,
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
    /// It is to be delivered later.
    pub fn is_delayed(&self) -> bool {
        self.delay.is_some() || self.timer
    }

    pub fn read(props: &'a [u8]) -> Self {
        let mut facts = Facts::default();
        for (name, value) in properties::pairs(props) {
            match name {
                b"KEYS" => {} // it is in nearly all messages
                b"TAGS" => facts.tags = Some(value),
                b"UNIQ_KEY" => facts.unique_key = Some(value),
                b"WAIT" => facts.no_wait = value.eq_ignore_ascii_case(b"false"),
                b"TRAN_MSG" => facts.half = value.eq_ignore_ascii_case(b"true"),
                b"DELAY" => facts.delay = asks_for_delay(value).then_some(value),
                name if is_timer(name) => facts.timer = true,
                b"INNER_NUM" => facts.inner_batch = true,
                name if is_half_only(name) => facts.half_only = true,
                name if is_brokers(name) => facts.rewrite = true,
                _ => {}
            }
        }
        facts
    }
}

/// Whether a DELAY property is anything but a number that asks for no delay.
fn asks_for_delay(value: &[u8]) -> bool {
    parse_i64(value.trim_ascii()).is_none_or(|level| level > 0)
}

/// Properties that a client cannot set: the broker adds its own, or drops them.
pub(super) fn is_brokers(name: &[u8]) -> bool {
    matches!(name, b"MSG_REGION" | b"TRACE_ON" | b"CLUSTER" | b"POP_CK")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_properties_of_one_name_the_last_counts_as_in_javas_map() {
        let read = |text: &'static str| Facts::read(text.as_bytes());
        assert!(!read("TRAN_MSG\u{1}true\u{2}TRAN_MSG\u{1}false\u{2}").half);
        assert!(read("TRAN_MSG\u{1}false\u{2}TRAN_MSG\u{1}TRUE\u{2}").half);
        let two = read(
            "DELAY\u{1}3\u{2}WAIT\u{1}false\u{2}TAGS\u{1}a\u{2}DELAY\u{1}0\u{2}WAIT\u{1}true\u{2}TAGS\u{1}b\u{2}",
        );
        assert_eq!(
            (two.delay, two.no_wait, two.tags),
            (None, false, Some(&b"b"[..]))
        );
        // A name without a value is no property: the one before it counts.
        assert!(read("TRAN_MSG\u{1}true\u{2}TRAN_MSG\u{1}\u{2}").half);
    }
}
