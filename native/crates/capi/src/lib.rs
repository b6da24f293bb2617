//! The C function table, native/include/pyrmq_capi.h. No Python objects cross it; every entry
//! catches panics, so that a bug here ends a call and not the process.
//!
//! The header is generated from this folder (see `header_tests`): a doc comment here is a comment there.

mod border;
mod layout;
mod ready_loop;
mod selection;
mod session;
mod store;
mod table;
mod used;

#[cfg(test)]
mod header_tests;
#[cfg(test)]
mod loop_tests;

pub use selection::{Bits, Selection};
pub use session::Listener;
pub use table::{NAME, TABLE, Table};
