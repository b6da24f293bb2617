//! Files and order: the commit log, its consume queues, flushing, recovery and look-ups.
//!
//! The way of a message: `put` appends it to the `commit_log` and to its `consume_queue` under one
//! lock; `flush` makes it durable; `read` finds it again. `prepare` keeps space ready ahead of the
//! writer; `recover` brings all of it back after a stop or a crash.

mod commit_log;
mod config;
mod consume_queue;
mod error;
mod flush;
mod guard;
mod prepare;
mod put;
mod read;
mod recover;
mod segment;
mod store_impl;
mod topics;

pub use commit_log::CommitLog;
pub use config::{FlushMode, StoreConfig};
pub use consume_queue::ConsumeQueue;
pub use error::{Result, StoreError};
pub use flush::FlushState;
pub use put::{Appended, Content, Message, PutGuard};
pub use read::{Chunk, GetResult, GetStatus, TagFilter};
pub use segment::Segment;
pub use store_impl::{Stats, Store};
pub use topics::{Arrival, Topic, TopicSettings};
