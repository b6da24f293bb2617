//! The border between pyrmq's engine and Python: the module `pyrmq._native`.
//!
//! The engine is the crates in `native/crates`, each may use only those before it: `format` (what bytes
//! mean; with `filter`, which selects messages), `store` (files and order; with `ha`, replication of the
//! log), `broker` (what a request does to a store; with `txn`, `delay` and `wire`), and beside `store` and
//! `broker` `arrow` (raw segments as Arrow batches) and `offline` (a store that nothing has open). None of
//! them knows Python. On top of `broker` stand `server` (connections: the ready loop) and `capi` (the C
//! function table, which has no Python either).

#[cfg(feature = "python")]
mod python;
