//! Files and order: the commit log, its consume queues, flushing, recovery and look-ups.
//!
//! The way of a message: `put` appends it to the `commit_log` and to its `consume_queue` under one
//! lock; `flush` makes it durable; `indexing` follows with its keys; `read` finds it again.
//! `prepare` keeps space ready ahead of the writer; `recover` brings all of it back after a stop or
//! a crash; `retention` deletes what is old.

mod commit_log;
#[cfg(test)]
mod concurrency_tests;
mod config;
mod consume_queue;
mod disk;
mod error;
mod flush;
mod guard;
mod index;
mod index_file;
mod indexing;
mod log_dirs;
mod maps;
mod prepare;
mod put;
mod queue_ext;
mod queue_files;
mod read;
mod recover;
mod replay;
mod resync;
mod retention;
mod segment;
mod store_impl;
mod topics;

pub use commit_log::CommitLog;
pub use config::{FlushMode, StoreConfig};
pub use consume_queue::ConsumeQueue;
pub use error::{Result, StoreError};
pub use flush::{FlushState, Outcome};
pub use index::{Index, IndexConfig};
pub use index_file::IndexFile;
pub use indexing::QueryResult;
pub use put::{Appended, Content, Message, PutGuard};
pub use read::{Chunk, GetResult, GetStatus, TagFilter};
pub use replay::{EndedHalf, tags_code};
pub use retention::{Cleaned, RetentionConfig};
pub use segment::Segment;
pub use store_impl::{Stats, Store, now_ms};
pub use topics::{Arrival, Topic, TopicSettings};
