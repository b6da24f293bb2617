//! Remoting frames: bytes in, typed requests out; typed answers in, bytes out.
//!
//! `session` is fed what arrived and says what to send; it knows no sockets. `frame` and `header`
//! split and read, `shape` reads headers that are like earlier ones, `send_fields` and `end_transaction`
//! make requests for `broker`, `pull` finds pulls that were granted, `reply` writes answers, `unconfirmed`
//! keeps those that have to wait, `book` enters how long all of them took. With access control `ahead` verifies signatures, in the `order` of a
//! header's fields, and `access` knows what was granted to whom.

pub mod access;
mod ack;
mod ahead;
mod book;
mod end_transaction;
pub mod frame;
pub mod header;
mod order;
pub mod pull;
pub mod reply;
pub mod send_fields;
mod session;
pub mod shape;
mod unconfirmed;

pub use book::Asked;
pub use session::{Budget, Command, Context, Session};

/// Why a connection is closed. The peer gets no answer, as from RocketMQ.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("frame of {0} bytes: the limit is 16777216, the least 8")]
    FrameLength(i64),
    #[error("header of {header} bytes in a frame of {total}")]
    HeaderLength { header: usize, total: usize },
    #[error("serialize type {0} is neither 0 (JSON) nor 1 (ROCKETMQ)")]
    SerializeType(u8),
    #[error("header cannot be read: {0}")]
    Header(String),
    #[error("unfinished frames of all connections hold too much memory")]
    Overload,
}
