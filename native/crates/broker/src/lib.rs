//! What a request means, without frames: messages, halves and batches become records, transactions
//! end.
//!
//! `Appender::send` stores one request, `Appender::end_transaction` settles a half. Both answer with data,
//! and `NeedsDecision` says that the broker in Python has to decide first: `wire` reads requests from
//! frames and writes these answers into frames, other callers need neither. `forms` holds the
//! ways in which a request is stored, `facts` what its properties say, `codes` RocketMQ's response
//! codes. [SendMessageProcessor, EndTransactionProcessor]

mod appender;
#[cfg(test)]
mod appender_tests;
pub mod codes;
mod context;
pub mod delay;
pub mod facts;
mod forms;
mod keyring;
mod plan;
pub mod pop;
mod pull;
mod pull_grants;
mod request;
mod room;
pub mod rpc_figures;
#[cfg(test)]
mod send_tests;
#[cfg(test)]
mod testing;
pub mod timer;
mod timer_sends;
pub mod txn;
pub mod wire;

pub use appender::{Appender, Ended};
pub use context::Broker;
pub use keyring::{Keyring, Subject};
pub use pull_grants::{Grant, PullGrants, Pulled};
pub use request::{Decision, Refusal, Scratch, SendRequest, Sent, Stored};
pub use timer_sends::{SlotCount, TimerSends};
