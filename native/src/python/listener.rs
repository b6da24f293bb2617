//! What all sessions of one listener share.

use super::figures::RpcFigures;
use super::keyring::Keyring;
use super::pops::Pops;
use super::pulls::PullGrants;
use super::store::Store;
use super::timers::Timers;
use super::tls::TlsContext;
use super::transactions::Transactions;
use pyo3::prelude::*;
use pyrmq_broker::wire::{Budget, Context};
use pyrmq_broker::{Broker, SlotCount, TimerSends};
use std::sync::Arc;

/// Bytes of the unfinished frames of all connections.
const PARTIAL_LIMIT: usize = 512 << 20;

/// Makes sessions through the C table. Without a store no send is stored: every frame is a
/// command (name server, client); without transactions every half message and END_TRANSACTION, without
/// pops what consumers say of popped messages. With a keyring signatures are verified, and a session answers only what was granted to who signed it. Without
/// TLS every connection is plain, without `timer_precision_ms` (a slot of the wheel) timer messages are
/// refused. `figures` has how long requests took.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct Listener {
    shared: Box<pyrmq_capi::Listener>,
}

#[pymethods]
impl Listener {
    #[new]
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (store=None, *, transactions=None, timers=None, pulls=None, pops=None,
                         keyring=None, tls=None, figures=None,
                        region="DefaultRegion", cluster="DefaultCluster", trace_on=true,
                        broker_name="", timer_precision_ms=None, timer_max_delay_ms=0,
                        timer_congested=i32::MAX as u32, partial_limit=PARTIAL_LIMIT))]
    fn new(
        store: Option<PyRef<'_, Store>>,
        transactions: Option<PyRef<'_, Transactions>>,
        timers: Option<PyRef<'_, Timers>>,
        pulls: Option<PyRef<'_, PullGrants>>,
        pops: Option<PyRef<'_, Pops>>,
        keyring: Option<PyRef<'_, Keyring>>,
        tls: Option<PyRef<'_, TlsContext>>,
        figures: Option<PyRef<'_, RpcFigures>>,
        region: &str,
        cluster: &str,
        trace_on: bool,
        broker_name: &str,
        timer_precision_ms: Option<u32>,
        timer_max_delay_ms: i64,
        timer_congested: u32,
        partial_limit: usize,
    ) -> Self {
        let context = store.map(|s| {
            let store = s.inner().clone();
            let transactions = transactions.map(|t| t.inner().clone());
            let broker = Broker::new(store, transactions, region, cluster, trace_on);
            let broker = match pulls {
                Some(pulls) => broker.with_pulls(pulls.inner().clone()),
                None => broker,
            };
            let broker = match pops {
                Some(pops) => broker.with_pops(pops.inner().clone()),
                None => broker,
            };
            let timers = timers.map(|timers| timers.inner().clone());
            let broker = broker.with_timer_sends(TimerSends {
                broker_name: broker_name.into(),
                enabled: timer_precision_ms.is_some(),
                precision_ms: timer_precision_ms.unwrap_or(1000).max(1).into(),
                max_delay_ms: timer_max_delay_ms,
                congested: timer_congested,
                slot_count: timers.map(|timers| -> SlotCount {
                    Box::new(move |out_ms| timers.slot_count(out_ms).max(0) as u64)
                }),
            });
            let context = Context::new(broker, region, trace_on);
            Arc::new(match figures {
                Some(figures) => context.with_figures(figures.inner().clone()),
                None => context,
            })
        });
        Listener {
            shared: Box::new(pyrmq_capi::Listener {
                context,
                budget: Arc::new(Budget::new(partial_limit)),
                keyring: keyring.map(|k| k.inner().clone()),
                tls: tls.map(|context| context.inner().clone()),
            }),
        }
    }

    /// Address for `session_new`; valid while this object lives.
    fn _ptr(&self) -> usize {
        &raw const *self.shared as usize
    }

    /// Whether unfinished frames hold so much that somebody should give up one of them.
    fn is_short_of_memory(&self) -> bool {
        self.shared.budget.is_short()
    }

    /// Bytes that unfinished frames hold.
    fn partial_bytes(&self) -> usize {
        self.shared.budget.used()
    }
}
