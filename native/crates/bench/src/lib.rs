//! The load generator of `pyrmq bench`: connections of RocketMQ's remoting protocol under load.
//!
//! A run has *roles* (see `config`): groups of connections that do the same, as producers or as
//! consumers. Each worker thread has an epoll and its share of the connections of every role. It
//! shares a machine with the broker it measures, so it has to cost far less: frames are laid out once
//! and patched, and every wake-up reads all answers that arrived and sends all new requests with one
//! system call each. Every answer is checked all the same.
//!
//! `floor` is the other side: the least that a broker can do, for a run to be compared with.
//!
//! All times are nanoseconds of CLOCK_MONOTONIC: a step of the wall clock changes nothing.

mod answer;
mod clock;
pub mod config;
mod conn;
mod consume;
mod credentials;
mod delivery;
mod field;
pub mod floor;
mod frame;
mod hdr_log;
mod ledger;
mod limits;
mod links;
mod names;
mod plan;
mod pop;
mod produce;
pub mod report;
mod run;
mod schedule;
mod slots;
mod stamp;
mod stats;
mod template;
#[cfg(test)]
mod testing;
mod usage;
mod worker;

pub use config::{Config, Kind, Role, Target, Tls};
pub use credentials::Credentials;
pub use report::Report;
pub use run::{Run, Snapshot};
