//! What the send path must know of a message's property string, found in one pass.

use crate::txn::is_half_only;
use pyrmq_format::message_type::MessageType;
use pyrmq_format::{parse_i64, properties};

/// Properties that make the type of a message: DELAY and those of timers, the sharding key, the priority, the
/// lite topic.
const DELAYED: u8 = 1;
const SHARDED: u8 = 2;
const PRIORITIZED: u8 = 4;
const LITE: u8 = 8;

#[derive(Debug, Default)]
pub struct Facts<'a> {
    pub tags: Option<&'a [u8]>,
    pub unique_key: Option<&'a [u8]>,
    /// WAIT=false: the sender does not wait for the disk.
    pub no_wait: bool,
    /// DELAY, if it asks for a delay or is no number.
    pub delay: Option<&'a [u8]>,
    /// The property that says when it is to be delivered, whether or not that counts: see `timer`.
    asked: Option<Asked<'a>>,
    /// TIMER_OUT_MS: it was a timer message before, and is none any more.
    timer_is_over: bool,
    /// TIMER_DEL_UNIQKEY: it ends a timer.
    pub ends_timer: bool,
    /// It has properties that only the broker gives a timer message.
    pub timer_only: bool,
    /// TRAN_MSG: a half message.
    pub half: bool,
    /// It has properties that only the broker gives a half message.
    pub half_only: bool,
    /// INNER_NUM: it says that its body is a batch.
    pub inner_batch: bool,
    /// Its priority, if that is a number from 0 on.
    pub priority: Option<u32>,
    /// It has properties that the broker sets itself or drops.
    pub rewrite: bool,
    /// Which properties it has that make its type, whatever they say: `DELAYED` and the others.
    kinds: u8,
}

/// A property that asks for a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    pub unit: Unit,
    pub value: &'a [u8],
}

/// What it counts, the one first that counts where there are several. [HookUtils.transformTimerMessage]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// TIMER_DELAY_SEC: seconds from now.
    DelaySeconds,
    /// TIMER_DELAY_MS: ms from now.
    DelayMs,
    /// TIMER_DELIVER_MS: a time.
    DeliverMs,
}

impl<'a> Facts<'a> {
    /// When it is to be delivered, if it is a timer message: a delay level is stronger, and whatever was
    /// a timer message once is none again. [HookUtils.checkIfTimerMessage]
    #[inline]
    pub fn timer(&self) -> Option<Asked<'a>> {
        self.asked
            .filter(|_| self.delay.is_none() && !self.timer_is_over)
    }

    /// It is to be delivered later.
    pub fn is_delayed(&self) -> bool {
        self.delay.is_some() || self.timer().is_some()
    }

    /// Its type. [TopicMessageType.parseFromMessageProperty]
    #[inline]
    pub fn message_type(&self) -> MessageType {
        if self.kinds == 0 && !self.half {
            return MessageType::Normal; // as most are
        }
        match self {
            f if f.half => MessageType::Transaction,
            f if f.kinds & DELAYED != 0 => MessageType::Delay,
            f if f.kinds & SHARDED != 0 => MessageType::Fifo,
            f if f.kinds & PRIORITIZED != 0 => MessageType::Priority,
            f if f.kinds & LITE != 0 => MessageType::Lite,
            _ => MessageType::Normal,
        }
    }

    /// Its priority counts: nothing else says where and when it is delivered.
    pub fn counting_priority(&self) -> Option<u32> {
        self.priority
            .filter(|_| self.message_type() == MessageType::Priority)
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
                b"DELAY" => {
                    facts.kinds |= DELAYED;
                    facts.delay = asks_for_delay(value).then_some(value);
                }
                b"INNER_NUM" => facts.inner_batch = true,
                b"__SHARDINGKEY" => facts.kinds |= SHARDED,
                b"__LITE_TOPIC" => facts.kinds |= LITE,
                b"_SYS_MSG_PRIORITY_" => {
                    facts.kinds |= PRIORITIZED;
                    facts.priority = priority(value);
                }
                name if name.starts_with(b"TIMER_") => facts.read_timer(name, value),
                name if is_half_only(name) => facts.half_only = true,
                name if is_brokers(name) => facts.rewrite = true,
                _ => {}
            }
        }
        facts
    }

    fn read_timer(&mut self, name: &[u8], value: &'a [u8]) {
        let unit = match name {
            b"TIMER_DELAY_SEC" => Unit::DelaySeconds,
            b"TIMER_DELAY_MS" => Unit::DelayMs,
            b"TIMER_DELIVER_MS" => Unit::DeliverMs,
            b"TIMER_DEL_UNIQKEY" => return self.ends_timer = true,
            b"TIMER_OUT_MS" => return self.timer_is_over = true,
            name => return self.timer_only |= is_timer_only(name),
        };
        if self.asked.is_none_or(|asked| unit <= asked.unit) {
            self.asked = Some(Asked { unit, value });
        }
        self.kinds |= DELAYED;
    }
}

/// Whether a DELAY property is anything but a number that asks for no delay.
fn asks_for_delay(value: &[u8]) -> bool {
    parse_i64(value.trim_ascii()).is_none_or(|level| level > 0)
}

/// A priority as Java reads it: other values are none. [Message.getPriority]
fn priority(value: &[u8]) -> Option<u32> {
    let number = i32::try_from(parse_i64(value)?).ok()?;
    u32::try_from(number).ok()
}

/// Properties that a client cannot set: the broker adds its own, or drops them.
pub(super) fn is_brokers(name: &[u8]) -> bool {
    matches!(name, b"MSG_REGION" | b"TRACE_ON" | b"CLUSTER" | b"POP_CK")
}

/// Properties in which the broker says what became of a timer message: none that is set has them.
pub(super) fn is_timer_only(name: &[u8]) -> bool {
    matches!(
        name,
        b"TIMER_ENQUEUE_MS" | b"TIMER_DEQUEUE_MS" | b"TIMER_ROLL_TIMES"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> Facts<'static> {
        Facts::read(text.as_bytes())
    }

    #[test]
    fn of_several_properties_of_one_name_the_last_counts_as_in_javas_map() {
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
        let twice = read("TIMER_DELAY_MS\u{1}5\u{2}TIMER_DELAY_MS\u{1}6\u{2}");
        assert_eq!(twice.timer().unwrap().value, b"6");
    }

    #[test]
    fn seconds_count_before_ms_and_those_before_a_time_in_any_order() {
        let (sec, ms, at) = (
            "TIMER_DELAY_SEC\u{1}1\u{2}",
            "TIMER_DELAY_MS\u{1}2\u{2}",
            "TIMER_DELIVER_MS\u{1}3\u{2}",
        );
        for (texts, unit, value) in [
            ([sec, ms, at], Unit::DelaySeconds, b"1"),
            ([at, ms, sec], Unit::DelaySeconds, b"1"),
            ([at, ms, ""], Unit::DelayMs, b"2"),
            ([ms, at, ""], Unit::DelayMs, b"2"),
            ([at, "", ""], Unit::DeliverMs, b"3"),
        ] {
            let all = texts.concat();
            let timer = Facts::read(all.as_bytes()).timer();
            assert_eq!(timer, Some(Asked { unit, value }), "{all:?}");
        }
    }

    #[test]
    fn what_is_no_timer_message() {
        for text in [
            "TIMER_DELAY_MS\u{1}5\u{2}DELAY\u{1}1\u{2}",
            "TIMER_DELAY_MS\u{1}5\u{2}TIMER_OUT_MS\u{1}1\u{2}",
            "TIMER_DEL_UNIQKEY\u{1}k\u{2}",
            "TIMER_DELAY_MS\u{1}\u{2}",
            "TIMER_ROLL_TIMES\u{1}1\u{2}",
        ] {
            assert_eq!(read(text).timer(), None, "{text:?}");
        }
    }

    #[test]
    fn types_in_rocketmqs_order() {
        let all = [
            ("TRAN_MSG\u{1}true\u{2}", MessageType::Transaction),
            ("DELAY\u{1}0\u{2}", MessageType::Delay),
            ("TIMER_DELAY_SEC\u{1}x\u{2}", MessageType::Delay),
            ("__SHARDINGKEY\u{1}k\u{2}", MessageType::Fifo),
            ("_SYS_MSG_PRIORITY_\u{1}x\u{2}", MessageType::Priority),
            ("__LITE_TOPIC\u{1}l\u{2}", MessageType::Lite),
            ("TRAN_MSG\u{1}false\u{2}", MessageType::Normal),
        ];
        for (i, (_, kind)) in all.iter().enumerate() {
            // All that follow are there as well, and come first.
            let text: String = all[i..].iter().rev().map(|(text, _)| *text).collect();
            assert_eq!(Facts::read(text.as_bytes()).message_type(), *kind);
        }
    }

    #[test]
    fn a_priority_is_a_number_from_0_on() {
        let of = |value: &str| {
            let text = format!("_SYS_MSG_PRIORITY_\u{1}{value}\u{2}");
            Facts::read(text.as_bytes()).counting_priority()
        };
        assert_eq!((of("0"), of("+7")), (Some(0), Some(7)));
        assert_eq!(of("2147483647"), Some(i32::MAX as u32));
        for none in ["-1", "x", "1.5", "2147483648", " 1"] {
            assert_eq!(of(none), None, "{none:?}");
        }
        let fifo = read("_SYS_MSG_PRIORITY_\u{1}1\u{2}__SHARDINGKEY\u{1}k\u{2}");
        assert_eq!((fifo.priority, fifo.counting_priority()), (Some(1), None));
    }
}
