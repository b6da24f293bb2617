//! Records of raw segments as Arrow record batches.
//!
//! `files` is the set of segments and how their bytes are read, `walk` goes from record to record,
//! `end` finds how far the log reaches, `select` says which messages are wanted, by `filters` too (`names` numbers topics), `inflate`
//! unpacks bodies, `columns` are the columns there are, `build` fills them (`body_json` the one of JSON bodies, which `json_bodies` also makes of a batch that was read before),
//! `source` says which records come next and
//! `sink` makes rows of them, `reader` ties these into batches.
//!
//! The other way round, `encode` makes send requests of a batch's rows: `send_rows` are their columns,
//! `send_props` their properties, `send_request` is what becomes of them, `repeatable` makes unique keys
//! that are the same when rows are sent again.
//!
//! Files are read with positioned reads into a window: a file that somebody cuts meanwhile is an error
//! with a place, and not a signal. Only the form with views maps them.

mod body_json;
#[cfg(test)]
mod body_json_tests;
mod build;
mod bytes;
mod columns;
pub mod encode;
mod end;
mod error;
mod files;
mod filters;
mod inflate;
pub mod json_bodies;
mod json_type;
mod json_values;
mod names;
mod reader;
#[cfg(test)]
mod reader_tests;
pub mod repeatable;
mod select;
mod send_props;
mod send_request;
pub mod send_rows;
mod sink;
mod source;
#[cfg(test)]
mod testing;
mod walk;
#[cfg(test)]
mod walk_tests;

pub use columns::{ALL, BodyForm, Column, DEFAULT, PropertiesForm};
pub use end::{Advance, advance, find_end, first_times};
pub use error::{EncodeError, Result, ScanError};
pub use files::{FileSet, LogFile, Open, OpenLocal, ReadAt, open_regular};
pub use filters::{Filters, Texts};
pub use json_type::{JsonField, JsonType, MAX_DEPTH, MAX_FIELDS};
pub use names::Names;
pub use reader::{Damage, Reader, Settings, Stats, Verify};
pub use select::{Selection, TopicRule, TopicRules};
pub use source::RecordSource;
