//! What all requests to one broker have in common.

use super::pull_grants::PullGrants;
use super::timer_sends::TimerSends;
use crate::pop::Pops;
use crate::txn::Transactions;
use pyrmq_format::properties;
use pyrmq_store::Store;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

/// One broker's store with what the broker says of every message.
pub struct Broker {
    pub(super) store: Arc<Store>,
    /// None: half messages are refused by the broker in Python.
    pub(super) transactions: Option<Arc<Transactions>>,
    /// None: timer messages are refused.
    pub(super) timer_sends: Option<TimerSends>,
    /// Properties that every single message gets: MSG_REGION, TRACE_ON, CLUSTER.
    pub(super) suffix: Vec<u8>,
    /// Counts the requests that leave the queue to the broker.
    pub(super) spread: AtomicU32,
    pub(super) pulls: Arc<PullGrants>,
    /// None: what consumers say of popped messages is the broker's in Python.
    pops: Option<Arc<Pops>>,
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
            timer_sends: None,
            suffix,
            spread: AtomicU32::new(0),
            pulls: Arc::default(),
            pops: None,
        }
    }

    /// Answers the pulls that are granted by `pulls`.
    pub fn with_pulls(mut self, pulls: Arc<PullGrants>) -> Self {
        self.pulls = pulls;
        self
    }

    /// Stores what consumers say of popped messages as `pops` does.
    pub fn with_pops(mut self, pops: Arc<Pops>) -> Self {
        self.pops = Some(pops);
        self
    }

    pub fn pops(&self) -> Option<&Pops> {
        self.pops.as_deref()
    }

    /// Takes timer messages as `sends` says.
    pub fn with_timer_sends(mut self, sends: TimerSends) -> Self {
        self.timer_sends = Some(sends);
        self
    }

    pub fn pulls(&self) -> &Arc<PullGrants> {
        &self.pulls
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub fn transactions(&self) -> Option<&Transactions> {
        self.transactions.as_deref()
    }
}
