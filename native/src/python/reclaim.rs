//! What the log still needs, and up to where files may be deleted before their time (reclaimAfter).

use super::error::to_py;
use super::pops::Pops;
use super::store::Store;
use super::timers::Timers;
use pyo3::prelude::*;
use pyrmq_store::Done;

/// A physical offset, and topic and queue id of the record there.
type Needed = (u64, Option<(String, u32)>);

/// Where the first record of the log stands that is needed: see engine.pyi.
#[pyfunction]
pub fn needed_from(
    py: Python<'_>,
    store: PyRef<'_, Store>,
    done: Vec<(String, Option<u32>, i64)>,
) -> PyResult<Needed> {
    let store = store.inner().clone();
    let found = py.detach(|| {
        let mut by_topic = Done::default();
        for (topic, id, offset) in done {
            let of_topic = by_topic.entry(topic.into_bytes().into()).or_default();
            match id {
                Some(id) => {
                    of_topic.queues.insert(id, offset);
                }
                None => of_topic.others = offset,
            }
        }
        store.needed_from(&by_topic)
    });
    let found = found.map_err(|e| to_py(py, e))?;
    let name = |topic: Box<[u8]>| String::from_utf8_lossy(&topic).into_owned();
    Ok((found.phys, found.by.map(|(topic, id)| (name(topic), id))))
}

/// Log files that end at this physical offset or before count as expired from now on.
#[pyfunction]
pub fn reclaim_to(store: PyRef<'_, Store>, offset: u64) {
    store.inner().reclaim_to(offset);
}

/// Where the first timer message stands that is still to be delivered: see engine.pyi.
#[pyfunction]
pub fn timers_needed_from(py: Python<'_>, timers: PyRef<'_, Timers>) -> PyResult<Option<u64>> {
    let timers = timers.inner().clone();
    let found = py
        .detach(|| timers.needed_from())
        .map_err(|e| to_py(py, e))?;
    Ok((found < u64::MAX).then_some(found))
}

/// Where the first message stands that is popped and not settled: see engine.pyi.
#[pyfunction]
pub fn oldest_popped(
    py: Python<'_>,
    pops: PyRef<'_, Pops>,
    waiting: u64,
    revived: Vec<i64>,
    most: usize,
) -> PyResult<Option<u64>> {
    let pops = pops.inner().clone();
    let found = py
        .detach(|| pops.oldest_popped(waiting, &revived, most))
        .map_err(|e| to_py(py, e))?;
    let found = found.unwrap_or(0); // too many to look at: all is needed
    Ok((found < u64::MAX).then_some(found))
}
