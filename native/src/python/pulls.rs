//! `PullGrants`: what the broker grants sessions to answer, and what they did with it.

use pyo3::prelude::*;
use pyrmq_broker::wire::pull::ALIKE;
use std::sync::Arc;

/// One queue of a group since the last `drain`: (topic, group, queue, offset that the next pull is
/// expected from, offset committed last or None, pulls, messages, bytes).
type Row = (String, String, u32, i64, Option<i64>, u64, u64, u64);

/// The grants of a broker; give it to its Listener. `Session.grant_pull` grants.
#[pyclass(frozen, module = "pyrmq._native")]
#[derive(Default)]
pub struct PullGrants {
    inner: Arc<pyrmq_broker::PullGrants>,
}

/// Names of the ext fields by which pulls are told apart, in the C table's order.
pub fn alike() -> Vec<&'static str> {
    ALIKE
        .iter()
        .filter_map(|name| std::str::from_utf8(name).ok())
        .collect()
}

impl PullGrants {
    pub fn inner(&self) -> &Arc<pyrmq_broker::PullGrants> {
        &self.inner
    }
}

#[pymethods]
impl PullGrants {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Every pull is checked again: something has changed that a check depends on.
    fn revoke(&self) {
        self.inner.revoke();
    }

    /// Another number whenever something was revoked: what was checked before has to be checked again.
    fn generation(&self) -> u64 {
        self.inner.generation()
    }

    /// What was answered and not told yet; at most `most` rows, the next call has the rest.
    #[pyo3(signature = (most = usize::MAX))]
    fn drain(&self, most: usize) -> Vec<Row> {
        let done = self.inner.drain(most);
        let row = |(grant, done): (Arc<pyrmq_broker::Grant>, pyrmq_broker::Pulled)| {
            (
                grant.topic.clone(),
                grant.group.clone(),
                grant.queue_id,
                done.next,
                done.commit,
                done.pulls,
                done.messages,
                done.bytes,
            )
        };
        done.into_iter().map(row).collect()
    }
}
