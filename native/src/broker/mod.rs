//! What a request means, without frames: messages, halves and batches become records, transactions
//! end.
//!
//! `Round::send` stores one request, `Round::end_transaction` settles a half. Both answer with data,
//! and `NeedsDecision` says that the broker in Python has to look first: `wire` reads requests from
//! frames and writes these answers into frames, other callers need neither. `forms` holds the four
//! ways in which a request is stored, `facts` what its properties say, `codes` RocketMQ's response
//! codes. [SendMessageProcessor, EndTransactionProcessor]

pub mod codes;
pub mod facts;
mod forms;
mod round;
mod send;
#[cfg(test)]
mod send_tests;
pub mod unique_key;

use crate::format::properties;
use crate::store::{Store, StoreError};
use crate::txn::Transactions;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

pub use round::{Ended, Round};
pub use send::{Decision, Scratch, SendRequest, Sent, Stored};

/// One broker's store with what the broker says of every message.
pub struct Broker {
    store: Arc<Store>,
    /// None: half messages are refused by the broker in Python.
    transactions: Option<Arc<Transactions>>,
    /// Properties that every single message gets: MSG_REGION, TRACE_ON, CLUSTER.
    suffix: Vec<u8>,
    /// Counts the requests that leave the queue to the broker.
    spread: AtomicU32,
}

impl Broker {
    pub fn new(
        store: Arc<Store>,
        transactions: Option<Arc<Transactions>>,
        region: &str,
        cluster: &str,
        trace_on: bool,
    ) -> Self {
        let trace_on: &[u8] = if trace_on { b"true" } else { b"false" };
        let mut suffix = Vec::new();
        properties::push(&mut suffix, b"MSG_REGION", region.as_bytes());
        properties::push(&mut suffix, b"TRACE_ON", trace_on);
        properties::push(&mut suffix, b"CLUSTER", cluster.as_bytes());
        Broker {
            store,
            transactions,
            suffix,
            spread: AtomicU32::new(0),
        }
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub fn transactions(&self) -> Option<&Transactions> {
        self.transactions.as_deref()
    }

    /// Begins a round of requests. The put lock is taken by the first that stores something and
    /// given back when the round is dropped.
    pub fn round(&self) -> Round<'_> {
        Round::new(self)
    }
}

/// Why a request is refused: a response code and a text for the client.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: i32,
    pub text: Cow<'static, str>,
}

impl Refusal {
    pub fn new(code: i32, text: impl Into<Cow<'static, str>>) -> Self {
        Refusal {
            code,
            text: text.into(),
        }
    }

    fn illegal(text: impl Into<Cow<'static, str>>) -> Self {
        Refusal::new(codes::MESSAGE_ILLEGAL, text)
    }
}

impl From<StoreError> for Refusal {
    fn from(e: StoreError) -> Self {
        let code = match e {
            StoreError::Illegal(_) | StoreError::PropertiesTooLong(_) => codes::MESSAGE_ILLEGAL,
            _ => codes::SERVICE_NOT_AVAILABLE,
        };
        Refusal::new(code, e.to_string())
    }
}
