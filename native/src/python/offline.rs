//! A store folder that nobody has open: `inspect`, `Verifier`, `Records`.

use parking_lot::Mutex;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use pyrmq_format::checkpoint::Checkpoint;
use pyrmq_format::record::{self, View, store_timestamp_at, sys_flag};
use pyrmq_format::{get_i32, properties};
use pyrmq_offline::{Covered, Found, Group, Severity, TimerFacts, Wanted};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

fn os_error(e: std::io::Error) -> PyErr {
    match e.raw_os_error() {
        Some(errno) => PyOSError::new_err((errno, e.to_string())),
        None => PyOSError::new_err(e.to_string()),
    }
}

fn checkpoint_dict<'py>(py: Python<'py>, p: &Checkpoint) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("physicMsgTimestamp", p.physic_msg_timestamp)?;
    d.set_item("logicsMsgTimestamp", p.logics_msg_timestamp)?;
    d.set_item("indexMsgTimestamp", p.index_msg_timestamp)?;
    d.set_item("masterFlushedOffset", p.master_flushed_offset)?;
    d.set_item("confirmPhyOffset", p.confirm_phy_offset)?;
    if let Some(offset) = p.replicated {
        d.set_item("replicated", offset)?;
    }
    Ok(d)
}

fn group_dict<'py>(py: Python<'py>, g: &Group) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("files", g.files)?;
    d.set_item("bytes", g.bytes)?;
    d.set_item("allocated", g.allocated)?;
    Ok(d)
}

fn timers_dict<'py>(py: Python<'py>, t: &TimerFacts) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    d.set_item("waiting", t.waiting.map(|w| w.messages))?;
    d.set_item("slots", t.waiting.map(|w| w.slots))?;
    d.set_item("firstMs", t.waiting.map(|w| w.first_ms))?;
    d.set_item("lastMs", t.waiting.map(|w| w.last_ms))?;
    d.set_item("precisionMs", t.waiting.and_then(|w| w.precision))?;
    d.set_item("wheelBytes", t.wheel_len)?;
    d.set_item("logFiles", t.log_files)?;
    d.set_item("logMin", t.log_min)?;
    d.set_item("logEnd", t.log_end)?;
    d.set_item("readMs", t.check.map(|c| c.read_ms))?;
    d.set_item("logFlushed", t.check.map(|c| c.log_flushed))?;
    d.set_item("queueOffset", t.check.map(|c| c.queue_offset))?;
    d.set_item("queueEnd", t.queue_end)?;
    d.set_item("faults", &t.faults)?;
    Ok(d)
}

/// Whether somebody has the store open. Takes no lock and creates nothing.
#[pyfunction]
pub fn store_is_locked(root: PathBuf) -> PyResult<bool> {
    pyrmq_offline::is_locked(&root).map_err(os_error)
}

/// What a store folder holds, as one dict; see docs for its fields. OSError if it is no store.
#[pyfunction]
#[pyo3(signature = (root, commit_log_dirs=vec![]))]
pub fn inspect_store<'py>(
    py: Python<'py>,
    root: PathBuf,
    commit_log_dirs: Vec<PathBuf>,
) -> PyResult<Bound<'py, PyDict>> {
    let r = py
        .detach(|| pyrmq_offline::inspect(&root, &commit_log_dirs))
        .map_err(os_error)?;
    let d = PyDict::new(py);
    d.set_item("path", r.inventory.root.to_string_lossy())?;
    let files = PyDict::new(py);
    for (kind, group) in &r.inventory.groups {
        files.set_item(kind, group_dict(py, group)?)?;
    }
    d.set_item("files", files)?;
    d.set_item("unknown", &r.inventory.unknown)?;
    let log = PyDict::new(py);
    log.set_item("minPhyOffset", r.min_phys)?;
    log.set_item("maxPhyOffset", r.end_phys)?;
    log.set_item("fileSize", r.inventory.log.size)?;
    log.set_item("firstStoreTimestamp", r.oldest)?;
    log.set_item("lastStoreTimestamp", r.newest)?;
    d.set_item("commitLog", log)?;
    d.set_item("queueFileSize", r.inventory.queues.file_size)?;
    d.set_item("rocksdb", r.inventory.rocksdb)?;
    let queues = PyList::empty(py);
    for q in &r.queues {
        let one = PyDict::new(py);
        one.set_item("topic", &q.topic)?;
        one.set_item("queueId", q.id)?;
        one.set_item("files", q.files)?;
        one.set_item("minOffset", q.min)?;
        one.set_item("maxOffset", q.max)?;
        queues.append(one)?;
    }
    d.set_item("queues", queues)?;
    let index = PyList::empty(py);
    for f in &r.index {
        let one = PyDict::new(py);
        one.set_item("path", &f.path)?;
        if let Some(h) = f.header {
            one.set_item("entries", (h.count as i64 - 1).max(0))?;
            one.set_item("beginTimestamp", h.begin_time)?;
            one.set_item("endTimestamp", h.end_time)?;
            one.set_item("beginPhyOffset", h.begin_phys)?;
            one.set_item("endPhyOffset", h.end_phys)?;
        }
        one.set_item("slots", f.shape.map(|s| s.slots))?;
        one.set_item("maxEntries", f.shape.map(|s| s.entries))?;
        index.append(one)?;
    }
    d.set_item("index", index)?;
    let point = r.checkpoint.map(|p| checkpoint_dict(py, &p)).transpose()?;
    d.set_item("checkpoint", point)?;
    d.set_item("checkpointFault", r.checkpoint_fault)?;
    let timers = r.timers.as_ref().map(|t| timers_dict(py, t)).transpose()?;
    d.set_item("timers", timers)?;
    d.set_item("cleanStop", !r.inventory.abort)?;
    d.set_item("open", r.locked)?;
    Ok(d)
}

/// Where messages with a key may stand by an index folder: see engine.pyi.
#[pyfunction]
pub fn key_places(
    py: Python<'_>,
    index: PathBuf,
    topic: &str,
    key: &str,
) -> PyResult<(Vec<u64>, Covered)> {
    py.detach(|| pyrmq_offline::key_places(&index, topic, key))
        .map_err(os_error)
}

/// Holds log, queues and index of a store against each other, in steps.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct Verifier(Mutex<pyrmq_offline::Verifier>);

#[pymethods]
impl Verifier {
    /// With `log_only` queues and index are left out. OSError if it is no store.
    #[new]
    #[pyo3(signature = (root, commit_log_dirs=vec![], log_only=false))]
    fn new(
        py: Python<'_>,
        root: PathBuf,
        commit_log_dirs: Vec<PathBuf>,
        log_only: bool,
    ) -> PyResult<Self> {
        py.detach(|| pyrmq_offline::Verifier::new(root, &commit_log_dirs, log_only))
            .map(|v| Verifier(Mutex::new(v)))
            .map_err(os_error)
    }

    /// Works on about `budget` bytes. Returns (bytes done, all bytes, whether that was all).
    fn step(&self, py: Python<'_>, budget: u64) -> (u64, u64, bool) {
        py.detach(|| {
            let mut v = self.0.lock();
            let (done, total) = v.step(budget);
            (done, total, v.is_done())
        })
    }

    /// What was found since the last call: [(severity, kind, path, byte or None, text)].
    #[allow(clippy::type_complexity)]
    fn findings(&self) -> Vec<(&'static str, &'static str, String, Option<u64>, String)> {
        let found = self.0.lock().findings();
        found
            .into_iter()
            .map(|f| (f.severity.name(), f.kind, f.path, f.at, f.text))
            .collect()
    }

    /// Records of each queue that has a folder: [(topic, queue id, records in the log)].
    fn records_by_queue(&self) -> Vec<(String, u32, u64)> {
        self.0.lock().records_by_queue()
    }

    /// What was checked so far, in figures.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let v = self.0.lock();
        let (s, (damage, warnings, notes, left_out)) = (v.summary(), v.counts());
        let d = PyDict::new(py);
        for (name, value) in [
            (Severity::Damage.name(), damage),
            ("warnings", warnings),
            ("notes", notes),
            ("leftOut", left_out),
            ("records", s.records),
            ("recordBytes", s.bytes),
            ("minPhyOffset", s.min_phys),
            ("maxPhyOffset", s.end_phys),
            ("tailBytes", s.tail),
            ("damagedParts", s.damaged_parts),
            ("damagedBytes", s.damaged_bytes),
            ("transactional", s.transactional),
            ("batch", s.batch),
            ("toDispatch", s.to_dispatch),
            ("deletedTopics", s.deleted_topics),
            ("queues", s.queues),
            ("queueEntries", s.entries.entries),
            ("queueEntriesExpired", s.entries.expired),
            ("queueEntriesBehind", s.entries.behind),
            ("queueEntriesLost", s.entries.lost),
            ("queueEntriesShared", s.entries.shared),
            ("indexFiles", s.index.files),
            ("indexEntries", s.index.entries),
            ("indexEntriesExpired", s.index.expired),
            ("indexEntriesLost", s.index.lost),
            ("keysToIndex", s.index.keys_to_come),
            ("keysOutsideIndex", s.index.keys_outside),
            ("timerUnits", s.timers.units),
            ("timersWaiting", s.timers.waiting),
            ("timerSlots", s.timers.slots),
        ] {
            d.set_item(name, value)?;
        }
        d.set_item("firstStoreTimestamp", s.oldest)?;
        d.set_item("lastStoreTimestamp", s.newest)?;
        d.set_item("cleanStop", s.clean)?;
        Ok(d)
    }
}

/// Records of a store, found by place, queue, key or id.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct Records(Mutex<pyrmq_offline::Selection>);

#[pymethods]
impl Records {
    #[new]
    #[pyo3(signature = (root, commit_log_dirs=vec![], *, topic=None, queue=None, offset=None,
        phys=None, key=None, msg_id=None, scan=false))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        root: PathBuf,
        commit_log_dirs: Vec<PathBuf>,
        topic: Option<String>,
        queue: Option<i32>,
        offset: Option<i64>,
        phys: Option<u64>,
        key: Option<String>,
        msg_id: Option<String>,
        scan: bool,
    ) -> PyResult<Self> {
        let wanted = Wanted {
            topic,
            queue,
            offset,
            phys,
            key,
            id: msg_id,
            scan,
        };
        py.detach(|| pyrmq_offline::Selection::new(&root, &commit_log_dirs, wanted))
            .map(|s| Records(Mutex::new(s)))
            .map_err(os_error)
    }

    /// Up to `max` finds, spending about `budget` bytes of reading, and whether that was all. A
    /// find is a dict (a record), a tuple (path, byte or None, text: no record where one should
    /// be), or a str (how the search continues).
    fn next<'py>(
        &self,
        py: Python<'py>,
        max: usize,
        budget: u64,
    ) -> PyResult<(Bound<'py, PyList>, bool)> {
        let (found, done) = py.detach(|| self.0.lock().next(max, budget));
        let list = PyList::empty(py);
        for one in found {
            match one {
                Found::Record(bytes) => list.append(record_dict(py, &bytes)?)?,
                Found::Fault(path, at, text) => list.append((path, at, text))?,
                Found::Note(text) => list.append(text)?,
            }
        }
        Ok((list, done))
    }
}

/// A record under RocketMQ's field names. Texts that are not UTF-8 have replacement characters.
fn record_dict<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyDict>> {
    let d = PyDict::new(py);
    let record::Found::Record(v) = record::read(bytes, false) else {
        return Ok(d); // it was read a moment ago
    };
    let (born, store) = hosts(&v, bytes);
    d.set_item("topic", String::from_utf8_lossy(&bytes[v.topic.clone()]))?;
    d.set_item("queueId", v.queue_id)?;
    d.set_item("queueOffset", v.queue_offset)?;
    d.set_item("commitLogOffset", v.phys)?;
    d.set_item("storeSize", v.total)?;
    d.set_item("sysFlag", v.sys_flag)?;
    d.set_item("flag", v.flag)?;
    d.set_item("bornTimestamp", v.born_timestamp)?;
    d.set_item("bornHost", born.to_string())?;
    d.set_item("storeTimestamp", v.store_timestamp)?;
    d.set_item("storeHost", store.to_string())?;
    d.set_item("reconsumeTimes", v.reconsume_times)?;
    d.set_item("preparedTransactionOffset", v.prepared_transaction_offset)?;
    d.set_item("bodyCRC", get_i32(bytes, 8))?;
    d.set_item("msgId", message_id(&v, bytes))?;
    let props = PyDict::new(py);
    for (name, value) in properties::pairs(&bytes[v.props.clone()]) {
        props.set_item(
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(value),
        )?;
    }
    d.set_item("properties", props)?;
    d.set_item("body", PyBytes::new(py, &bytes[v.body.clone()]))?;
    Ok(d)
}

/// bornHost and storeHost of a record that was read before.
fn hosts(v: &View, bytes: &[u8]) -> (SocketAddr, SocketAddr) {
    let born = host(&bytes[48..], v.sys_flag & sys_flag::BORN_HOST_V6 != 0);
    let at = store_timestamp_at(v.sys_flag) + 8;
    let store = host(&bytes[at..], v.sys_flag & sys_flag::STORE_HOST_V6 != 0);
    (born, store)
}

/// offsetMsgId: host as it is stored and physical offset, in hexadecimal digits.
fn message_id(v: &View, bytes: &[u8]) -> String {
    let at = store_timestamp_at(v.sys_flag) + 8;
    let v6 = v.sys_flag & sys_flag::STORE_HOST_V6 != 0;
    let host = &bytes[at..at + if v6 { 20 } else { 8 }];
    let id = host.iter().chain(&bytes[28..36]);
    id.map(|b| format!("{b:02X}")).collect()
}

/// The stored port has 32 bits, of which an address has 16.
fn host(b: &[u8], v6: bool) -> SocketAddr {
    let (ip, port) = if v6 {
        let raw: [u8; 16] = b[..16].try_into().expect("16 bytes");
        (IpAddr::from(raw), get_i32(b, 16))
    } else {
        let raw: [u8; 4] = b[..4].try_into().expect("4 bytes");
        (IpAddr::from(raw), get_i32(b, 4))
    };
    SocketAddr::new(ip, port as u16)
}
