//! TLS without sockets: contexts from PEM files, and streams that open records and seal
//! them.
//!
//! `server_config` reads the files. `Context` has what new connections get, until `replace`. Each
//! connection has a `Stream`. A client's is a `ClientStream`, by a `client_config`.

mod client;
#[cfg(test)]
mod client_tests;
mod clients;
mod context;
mod error;
mod files;
mod self_signed;
mod side;
mod stream;

#[cfg(test)]
mod files_tests;
#[cfg(test)]
mod stream_tests;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use client::{ClientFiles, client_config};
pub use context::{Context, Mode};
pub use error::TlsError;
pub use files::{ClientAuth, Files, server_config};
pub use rustls::ClientConfig;
pub use rustls::pki_types::ServerName;
pub use self_signed::self_signed_config;
pub use side::Side;
pub use stream::{ClientStream, Refusal, Stream};

/// The first byte of a handshake record. No plain frame begins with it: it would be too long.
pub const HELLO: u8 = 0x16;
