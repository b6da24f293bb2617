//! Files and order: the commit log, its consume queues, flushing, recovery and look-ups.
//!
//! A message on its way: `put` takes it into the `staging`, writes all that came with it into the
//! `commit_log` and appends its entry to its `consume_queue`, under one lock; `log_flusher` makes it durable
//! and moves the `barrier`; `indexer` follows with its keys;
//! `read` and `query` find it again. `prepare` keeps space ready ahead of the writer; `recover`
//! brings all of it back after a stop or a crash; `retention` deletes what is old. Each owns its
//! state; `store_impl` alone knows all of them.

mod arrivals;
mod availability;
mod barrier;
mod checkpointer;
mod clock;
mod commit_log;
#[cfg(test)]
mod concurrency_tests;
mod config;
mod consume_queue;
#[cfg(test)]
mod deletion_tests;
mod disk;
mod dispatch;
mod error;
mod expressions;
mod figures;
mod file_set;
mod gather;
mod growth;
mod guard;
pub mod ha;
mod histogram;
mod index;
mod index_file;
mod indexer;
mod late_writer;
mod left_out;
mod log_dirs;
mod log_flusher;
mod maps;
mod marks;
mod message;
mod needed;
mod prefetch;
mod prepare;
mod put;
mod put_watch;
mod query;
mod queue_ext;
mod queue_files;
mod queue_flusher;
mod read;
mod recover;
mod replay;
mod resident;
mod resync;
mod retention;
mod segment;
mod skip;
mod staging;
mod stalls;
mod stop;
mod store_impl;
mod store_time;
mod stored;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod topic_figures;
mod topics;
mod wanted;

pub use arrivals::Arrival;
pub use barrier::{Barrier, Outcome};
pub use clock::{Span, local_time, monotonic_us, now_ms};
pub use commit_log::CommitLog;
pub use config::{FlushMode, RetentionConfig, StoreConfig};
pub use consume_queue::ConsumeQueue;
pub use error::{Result, StoreError};
pub use expressions::{Expression, Expressions};
pub use figures::{Figures, Opened, SIZE_BOUNDS, TIME_BOUNDS};
pub use gather::{Gather, Wait as GatherWait};
pub use growth::{Follower, Growth};
pub use histogram::Histogram;
pub use index::{Index, IndexConfig};
pub use index_file::IndexFile;
pub use log_flusher::LogFlusher;
pub use message::{Appended, Content, Message};
pub use needed::{Done, DoneTo, NeededFrom};
pub use put::PutGuard;
pub use put_watch::PutWatch;
pub use query::QueryResult;
pub use read::{Chunk, GetResult, GetStatus};
pub use replay::EndedHalf;
pub use resident::{Learnt, Resident, Wait};
pub use retention::Cleaned;
pub use segment::Segment;
pub use stalls::Stalls;
pub use store_impl::Store;
pub use store_impl::calls::Stats;
pub use stored::Stored;
pub use topic_figures::{BOUNDS, Counts, FINISH_BOUNDS, Row, TopicFigures};
pub use topics::{Topic, TopicSettings};
pub use wanted::{BitTest, PropertyTest, TagFilter, Wanted};
