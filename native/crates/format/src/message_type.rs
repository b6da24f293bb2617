//! Types of messages, and of topics: what `message.type` of a topic says. [TopicMessageType]

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MessageType {
    Unspecified = 1,
    Normal,
    Fifo,
    Delay,
    Transaction,
    Priority,
    Lite,
    /// Of a topic: it takes every type.
    Mixed,
}

use MessageType::*;

impl MessageType {
    pub const ALL: [MessageType; 8] = [
        Unspecified,
        Normal,
        Fifo,
        Delay,
        Transaction,
        Priority,
        Lite,
        Mixed,
    ];

    /// Its name in attributes and texts.
    pub fn name(self) -> &'static str {
        match self {
            Unspecified => "UNSPECIFIED",
            Normal => "NORMAL",
            Fifo => "FIFO",
            Delay => "DELAY",
            Transaction => "TRANSACTION",
            Priority => "PRIORITY",
            Lite => "LITE",
            Mixed => "MIXED",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        MessageType::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    /// The inverse of `as u8`; None for 0 and whatever else stands for no type.
    pub fn from_number(number: u8) -> Option<Self> {
        MessageType::ALL
            .into_iter()
            .find(|&kind| kind as u8 == number)
    }

    /// Whether a topic of this type takes a message of type `sent`. [DefaultTopicMessageTypeValidator]
    pub fn takes(self, sent: MessageType) -> bool {
        sent != Unspecified && (self == Mixed || self == sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_read_back() {
        for kind in MessageType::ALL {
            assert_eq!(MessageType::from_name(kind.name()), Some(kind));
            assert_eq!(MessageType::from_number(kind as u8), Some(kind));
        }
        assert_eq!(MessageType::from_name("normal"), None);
        assert_eq!(MessageType::from_number(0), None);
        assert_eq!(MessageType::from_number(9), None);
    }

    #[test]
    fn a_topic_takes_its_own_type_and_a_mixed_one_all() {
        for topic in MessageType::ALL {
            for sent in MessageType::ALL {
                let wanted = (topic == Mixed || topic == sent) && sent != Unspecified;
                assert_eq!(topic.takes(sent), wanted, "{topic:?} {sent:?}");
            }
        }
    }
}
