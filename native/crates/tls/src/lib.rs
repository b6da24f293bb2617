//! TLS for a server, without sockets: contexts from PEM files, and streams that open records and seal
//! them.
//!
//! `server_config` reads the files. `Context` has what new connections get, until `replace`. Each
//! connection has a `Stream`.

mod clients;
mod context;
mod error;
mod files;
mod self_signed;
mod stream;

#[cfg(test)]
mod files_tests;
#[cfg(test)]
mod stream_tests;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use context::{Context, Mode};
pub use error::TlsError;
pub use files::{ClientAuth, Files, server_config};
pub use self_signed::self_signed_config;
pub use stream::{Refusal, Stream};

/// The first byte of a handshake record. No plain frame begins with it: it would be too long.
pub const HELLO: u8 = 0x16;
