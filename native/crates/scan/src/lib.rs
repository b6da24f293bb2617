//! Reads of raw segments, planned: which stores and files there are, where their logs end, which
//! part of them is asked for, and in which tasks it is read. Python (`pyrmq.scan`, Spark's source in
//! Python) and Spark's reader in the JVM ask here; neither decides anything by itself.
//!
//! The way of a read: `store` finds the files, `selection` says what is asked for, `plan` makes
//! tasks, `task` reads one. A stream goes by positions: `stream`.

pub mod admission;
pub mod against;
pub mod at_times;
mod backlog;
pub mod body_form;
pub mod bounds;
pub mod checks;
mod config_folder;
pub mod counts;
mod coverage;
pub mod entries;
mod error;
mod folder_names;
mod glob;
pub mod index_plan;
mod kept;
mod left_out;
pub mod log_ranges;
#[cfg(test)]
mod made;
#[cfg(test)]
mod meanwhile;
pub mod most;
mod named;
pub mod near;
mod notes;
pub mod offsets;
mod once;
pub mod options;
mod parts;
pub mod path;
mod pattern;
mod place;
pub mod plan;
#[cfg(test)]
mod plan_filters_tests;
mod position;
pub mod queue_times;
pub mod queues;
#[cfg(test)]
mod races_tests;
pub mod read;
mod read_options;
pub mod repr;
mod request;
pub mod reserved;
pub mod rule;
mod selection;
mod store;
mod stores;
mod stream;
mod stream_start;
mod tail;
mod tail_task;
mod task;
mod top;
mod totals;
pub mod unseen;
pub mod walk_log;
mod watch;

pub use against::unknown_topic;
pub use backlog::{Backlog, Behind, QueueBehind};
pub use checks::{parse_tags, parse_topics};
pub use error::{Kind, Part, Parts, Result, SegmentError};
pub use most::at_most;
pub use named::expanded;
pub use notes::{Level, Notes};
pub use offsets::{parse_assign, parse_offsets};
pub use place::{Found, LOCAL, Local, LocalPlaces, Place, PlaceRef, Places, Shape};
pub use position::Position;
pub use read_options::{OnCorruption, ReadOptions};
pub use request::{Request, SPLIT_BYTES, Top, TopBy};
pub use reserved::is_reserved;
pub use rule::Chooser;
pub use selection::{
    ANY_QUEUE, Bounds, Filters, Offsets, QueueOffsets, QueueTimes, Rule, Selection,
};
pub use store::{File, SegmentStore};
pub use stores::open_stores;
pub use stream::StreamPlanner;
pub use tail::{Tail, TailBatch};
pub use tail_task::{Resume, TailTask};
pub use task::{QueuePart, Task};
pub use totals::{Function, Total, Totals, TotalsReader};
