//! A store folder seen from outside: what is in it, whether it agrees with itself, and what
//! its records say. Works on folders of ours and of RocketMQ, and changes nothing in them.
//!
//! Files are read with positioned reads, not mapped: a sector that the disk cannot give, or a file
//! that somebody cuts meanwhile, is then an error with a place and not a signal. Any file may hold
//! anything: lengths are checked before memory is taken, and every search is bounded.
//!
//! `files` says what is there, `source` reads, `log` is the set of commit-log files, `walk` goes
//! from record to record, `queues` and `index` are the other two, `verify` compares all three with
//! each other, `inspect` sums up, `select` finds records to be shown.

mod entries;
mod file_size;
mod files;
mod findings;
mod index;
mod index_layout;
mod inspect;
mod log;
mod queues;
mod select;
mod settings;
mod source;
mod timers;
mod timers_verify;
mod verify;
mod walk;

pub use files::{Group, Inventory};
pub use findings::{Finding, Findings, Severity};
pub use inspect::{IndexFacts, QueueFacts, Report, inspect};
pub use select::{Covered, Found, Selection, Wanted, key_places};
pub use settings::{is_locked, read_checkpoint};
pub use timers::{TimerFacts, Waiting};
pub use verify::{Summary, Verifier};

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
