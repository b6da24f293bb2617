//! TLS for a server, and where a server connects to another one, without sockets: contexts from PEM
//! files, and streams that open records and seal them.
//!
//! `server_config` and `client_config` read the files. `Context` has what new connections of a server
//! get, until `replace`. Each connection has a `Stream`, or at the other end a `ClientStream`.

mod client;
mod clients;
mod context;
mod end;
mod error;
mod files;
mod pem;
mod self_signed;
mod servers;
mod stream;

#[cfg(test)]
mod client_tests;
#[cfg(test)]
mod files_tests;
#[cfg(test)]
mod stream_tests;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use client::{ClientFiles, Trust, client_config};
pub use context::{Context, Mode};
pub use end::End;
pub use error::{Side, TlsError};
pub use files::{ClientAuth, Files, server_config};
pub use self_signed::self_signed_config;
pub use stream::{ClientStream, Refusal, Stream, StreamOf};

/// The first byte of a handshake record. No plain frame begins with it: it would be too long.
pub const HELLO: u8 = 0x16;

// What callers hand over, as rustls has it.
pub use rustls::ClientConfig;
pub use rustls::pki_types::ServerName;
