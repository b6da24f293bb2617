//! `HaMaster` and `HaSlave`: replication, on sockets that Python hands over.

use super::error::to_py;
use super::store::Store;
use super::tls::{TlsClient, TlsContext};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use pyrmq_server::{ha_client, ha_server};
use pyrmq_store::ha::{
    Doorman, Ended, MasterSettings, Receiver, Replicas, Rule, Senders, SlaveSettings,
};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;

/// A master's side: serves slaves and knows what they have. Keywords are RocketMQ's keys; times in ms,
/// sizes in bytes. `tls`: which connections speak TLS; without it none may.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct HaMaster {
    senders: Senders,
    replicas: Arc<Replicas>,
    doorman: Option<Box<Doorman>>,
}

#[pymethods]
impl HaMaster {
    #[new]
    #[pyo3(signature = (store, *, in_sync_replicas=1, min_in_sync_replicas=1,
        auto_in_sync_replicas=false, max_gap=1 << 28, transfer_batch_size=32 << 10,
        heartbeat_interval=5000, housekeeping_interval=20_000, most_per_second=None, tls=None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        store: PyRef<'_, Store>,
        in_sync_replicas: usize,
        min_in_sync_replicas: usize,
        auto_in_sync_replicas: bool,
        max_gap: u64,
        transfer_batch_size: usize,
        heartbeat_interval: i64,
        housekeeping_interval: i64,
        most_per_second: Option<u64>,
        tls: Option<PyRef<'_, TlsContext>>,
    ) -> Self {
        let store = store.inner().clone();
        let rule = Rule {
            in_sync: in_sync_replicas,
            least: min_in_sync_replicas,
            auto: auto_in_sync_replicas,
            max_gap,
        };
        let settings = MasterSettings {
            chunk: transfer_batch_size,
            heartbeat: heartbeat_interval,
            silence: housekeeping_interval,
            most_per_second,
        };
        let replicas = Arc::new(Replicas::new(store.clone(), rule));
        let doorman = tls.map(|tls| {
            let context = tls.inner().clone();
            Box::new(move |first| ha_server(&context, first)) as Box<Doorman>
        });
        HaMaster {
            senders: Senders::new(store, replicas.clone(), settings),
            replicas,
            doorman,
        }
    }

    /// Serves the slave at the other end of a connected stream socket until the connection ends. Blocks,
    /// so it has a thread of its own. Takes the descriptor over. Returns why it ended; None after `stop`.
    fn serve(&self, py: Python<'_>, fd: i32, peer: &str) -> Option<String> {
        // SAFETY: the caller has detached the descriptor from its socket: nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        py.detach(|| self.senders.serve(fd, peer, self.doorman.as_deref()))
    }

    /// Ends all connections.
    fn stop(&self) {
        self.senders.stop();
    }

    /// Changes inSyncReplicas and minInSyncReplicas. It counts at once, also for what waits already.
    fn want(&self, in_sync: usize, least: usize) {
        self.replicas.want(in_sync, least);
    }

    /// Looks again at which slaves are in sync: the log grows while one stands still.
    fn look_again(&self) {
        self.replicas.look_again(pyrmq_store::now_ms());
    }

    /// The slaves that are connected, the oldest connection first: dicts of peer, ackOffset,
    /// transferFrom (-1: it has not reported), bytesPerSecond, sent (bytes), connectedAt (ms), inSync,
    /// caughtUpAt (ms): when it had all of the log last.
    fn replicas<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let dict = |row: pyrmq_store::ha::Replica| {
            let d = PyDict::new(py);
            d.set_item("peer", row.peer)?;
            d.set_item("ackOffset", row.acked)?;
            d.set_item("transferFrom", row.next.map_or(-1, |n| n as i64))?;
            d.set_item("bytesPerSecond", row.per_second)?;
            d.set_item("sent", row.sent)?;
            d.set_item("connectedAt", row.connected_at)?;
            d.set_item("inSync", row.in_sync)?;
            d.set_item("caughtUpAt", row.caught_up_at)?;
            Ok(d)
        };
        self.replicas.rows().into_iter().map(dict).collect()
    }
}

/// A slave's side: appends to its store what its master sends.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct HaSlave {
    receiver: Receiver,
}

#[pymethods]
impl HaSlave {
    #[new]
    #[pyo3(signature = (store, *, heartbeat_interval=5000, housekeeping_interval=20_000))]
    fn new(store: PyRef<'_, Store>, heartbeat_interval: i64, housekeeping_interval: i64) -> Self {
        let settings = SlaveSettings {
            heartbeat: heartbeat_interval,
            silence: housekeeping_interval,
        };
        HaSlave {
            receiver: Receiver::new(store.inner().clone(), settings),
        }
    }

    /// Takes what the master at the other end of a connected stream socket sends, until the connection
    /// ends. `tls`: how the connection speaks TLS, with the master at `host`.
    /// Blocks, so it has a thread of its own. Takes the descriptor over. Returns what ended it
    /// ("stopped", "lost", "misfit": the logs do not fit, "store": this store cannot take it) and why.
    #[pyo3(signature = (fd, *, tls=None, host="localhost"))]
    fn receive(
        &self,
        py: Python<'_>,
        fd: i32,
        tls: Option<PyRef<'_, TlsClient>>,
        host: &str,
    ) -> (&'static str, String) {
        // SAFETY: the caller has detached the descriptor from its socket: nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let cover = match tls.map(|tls| tls.stream(host)).transpose() {
            Ok(stream) => stream.map(ha_client),
            Err(why) => return ("lost", why),
        };
        match py.detach(|| self.receiver.receive(fd, cover)) {
            Ended::Stopped => ("stopped", String::new()),
            Ended::Lost(why) => ("lost", why),
            Ended::Misfit(why) => ("misfit", why),
            Ended::Store(why) => ("store", why),
        }
    }

    /// Ends the connection.
    fn stop(&self) {
        self.receiver.stop();
    }

    /// connected; heard (whether the master has sent something on this connection, or on the last
    /// one); received (bytes since the start); masterEnd (how far the master's log is known to
    /// reach); heardAt and reportedAt (ms since 1970, 0: never).
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let status = self.receiver.status();
        let d = PyDict::new(py);
        d.set_item("connected", status.connected)?;
        d.set_item("heard", status.heard)?;
        d.set_item("received", status.received)?;
        d.set_item("masterEnd", status.master_end)?;
        d.set_item("heardAt", status.heard_at)?;
        d.set_item("reportedAt", status.reported_at)?;
        Ok(d)
    }
}

/// The newest record of a store that is in a queue: (physical offset, bytes); None if there is none.
#[pyfunction]
pub fn newest_record<'py>(
    py: Python<'py>,
    store: PyRef<'py, Store>,
) -> PyResult<Option<(u64, Bound<'py, PyBytes>)>> {
    let store = store.inner().clone();
    let chunk = py
        .detach(|| store.newest_record())
        .map_err(|e| to_py(py, e))?;
    Ok(chunk.and_then(|chunk| {
        let bytes = chunk.segment.bytes(chunk.at, chunk.len)?;
        Some((
            chunk.segment.base() + chunk.at as u64,
            PyBytes::new(py, bytes),
        ))
    }))
}
