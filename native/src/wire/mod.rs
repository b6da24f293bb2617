//! Remoting frames: splitting, header codecs, and the send path that never leaves native code.
//!
//! `session` is fed what arrived and says what to send; it knows no sockets. `frame` and `header`
//! read, `reply` writes, `send` turns a send request into log records, `half` one into a half message,
//! `end_transaction` settles it, `json` is the tolerant reader that headers and bodies share.

mod end_transaction;
pub mod frame;
mod half;
pub mod header;
pub mod json;
pub mod reply;
mod send;
pub mod send_fields;
mod session;
pub mod unique_key;

pub use send::SendContext;
pub use session::{Budget, Command, Session};

/// Why a connection cannot go on. The peer gets no answer, as from RocketMQ.
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
