//! Reads of raw segments, planned: which stores and files there are, where their logs end, which
//! part of them is asked for, and in which tasks it is read. Python (`pyrmq.scan`, Spark's source in
//! Python) and Spark's reader in the JVM ask here; neither decides anything by itself.
//!
//! The way of a read: `store` finds the files, `selection` says what is asked for, `plan` makes
//! tasks, `task` reads one. A stream goes by positions: `stream`.

mod config_folder;
mod error;
mod left_out;
mod near;
mod notes;
pub mod options;
mod path;
mod place;
mod read_options;
mod repr;
mod request;
mod selection;
mod store;
mod stores;
mod task;

pub use error::{Kind, Part, Parts, Result, SegmentError};
pub use notes::{Level, Notes};
pub use place::{Found, LOCAL, Local, LocalPlaces, Place, PlaceRef, Places, Shape};
pub use read_options::{OnCorruption, ReadOptions};
pub use request::{Request, SPLIT_BYTES};
pub use selection::{
    ANY_QUEUE, Bounds, Filters, Offsets, QueueOffsets, QueueTimes, Rule, Selection,
};
pub use store::{File, SegmentStore};
pub use stores::open_stores;
pub use task::{QueuePart, Task};
