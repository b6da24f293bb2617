//! The native engine of pyrmq.
//!
//! Layers, each may use only those before it: `format` (what bytes mean), `store` (files and
//! order), `ha` (replication of the log), `txn` (halves that wait and how they are settled), `delay` (what is delivered later),
//! `broker` (what a request does to a
//! store), `filter`, `wire` and `arrow` (tag scan; remoting frames; raw segments as Arrow batches),
//! `offline` (a store that nothing has open), `python` (the only module that knows
//! Python). No files import each other in a circle; `scripts/check_layers.py` checks both.

pub mod arrow;
pub mod broker;
pub mod delay;
pub mod filter;
pub mod format;
pub mod ha;
pub mod offline;
pub mod store;
pub mod txn;
pub mod wire;

#[cfg(feature = "python")]
mod python;
