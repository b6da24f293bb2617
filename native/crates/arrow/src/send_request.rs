//! A send request but for its header: which rows it has, and where it goes.

/// Which queue of its topic a message goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Whichever is next.
    Any,
    /// The n-th of the topic's queues, by the sharding key.
    Nth(u32),
    /// The queue with this id, on the named broker if there is a name (an index of `brokers`).
    Queue {
        id: Option<u32>,
        broker: Option<u32>,
    },
}

/// A request but for its header: where it goes and what it carries.
pub struct Request {
    pub topic: u32,
    pub target: Target,
    pub batch: bool,
    /// A single message's; 0 for a batch.
    pub flag: i32,
    /// The property string of the header.
    pub properties: Vec<u8>,
    pub rows: usize,
    pub first_row: usize,
    pub last_row: usize,
    pub body: Vec<u8>,
    /// The unique key of the last message, where keys are repeatable. A log keeps a batch whole or
    /// cuts its end off, so that who finds this one has all of them.
    pub key: Option<Vec<u8>>,
}
