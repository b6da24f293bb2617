//! The native engine of pyrmq.
//!
//! Layers, each may use only those before it: `format` (what bytes mean), `store` (files and
//! order), `filter` and `wire` (tag scan; remoting frames and the send path), `python` (the only
//! module that knows Python).

pub mod filter;
pub mod format;
pub mod store;
pub mod wire;

#[cfg(feature = "python")]
mod python;
