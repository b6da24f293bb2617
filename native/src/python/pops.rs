//! `Pops`: popping from one queue, acknowledging, changing how long messages are invisible.

use super::error::to_py;
use super::sql::SqlFilter;
use super::store::{Exported, Store, export};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyrmq_broker::pop::{self, Ask, Change, CheckPointOf, Claim, MAX_INVISIBLE_TIME, Taken};
use pyrmq_format::pop::Popped;
use pyrmq_store::{PropertyTest, PutGuard, Result, StoreError};
use std::borrow::Cow;
use std::sync::Arc;

/// The pops of a store: see engine.pyi.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct Pops {
    inner: Arc<pop::Pops>,
}

/// What engine.pyx makes a `Popped` of: status, start offset, next offset, min, max, rest, messages,
/// bytes, exported records or their copies, offsets, log end.
type Row<'py> = (
    (i32, i64, i64, i64, i64, i64),
    (usize, usize),
    Vec<Exported>,
    Option<Bound<'py, PyBytes>>,
    Vec<i64>,
    u64,
);

/// What is asked of a queue, with what it borrows.
struct Query<'a> {
    topic: &'a str,
    queue_id: u32,
    offset: i64,
    max_count: usize,
    max_bytes: usize,
    tags: Vec<i32>,
    sql: Option<&'a SqlFilter>,
    wait: bool,
}

impl Query<'_> {
    /// Reads without the GIL. None: the disk would have to be waited for.
    fn run<'py>(
        &self,
        py: Python<'py>,
        take: impl FnOnce(&Ask<'_>) -> Result<Taken> + Send,
    ) -> PyResult<Option<Row<'py>>> {
        let taken = py.detach(|| {
            let selection = self.sql.map(SqlFilter::selection);
            let properties = selection.map(|s| |props: &[u8]| s.matches(props));
            take(&Ask {
                topic: self.topic.as_bytes(),
                queue_id: self.queue_id,
                offset: self.offset,
                max_count: self.max_count,
                max_bytes: self.max_bytes,
                tags: &self.tags,
                properties: properties.as_ref().map(|wanted| wanted as &PropertyTest),
                bits: selection.and_then(|s| s.bit_test()),
                wait: self.wait.into(),
            })
        });
        match taken {
            Ok(taken) => Ok(Some(row(py, taken))),
            Err(StoreError::Cold) => Ok(None),
            Err(e) => Err(to_py(py, e)),
        }
    }
}

fn row<'py>(py: Python<'py>, taken: Taken) -> Row<'py> {
    let rest = taken.rest();
    let copies = taken.recoded.map(|bytes| PyBytes::new(py, &bytes));
    let got = taken.got;
    let nbytes = match &copies {
        Some(copies) => copies.as_bytes().len(),
        None => got.bytes,
    };
    let chunks = match copies {
        Some(_) => Vec::new(),
        None => got.chunks,
    };
    (
        (
            got.status as i32,
            taken.start,
            got.next,
            got.min,
            got.max,
            rest,
        ),
        (got.count, nbytes),
        chunks.into_iter().map(export).collect(),
        copies,
        taken.offsets,
        taken.log_end,
    )
}

fn tags_of(py: Python<'_>, tags: Option<PyBuffer<i32>>) -> PyResult<Vec<i32>> {
    tags.map_or(Ok(Vec::new()), |tags| tags.to_vec(py))
}

impl Pops {
    pub fn inner(&self) -> &Arc<pop::Pops> {
        &self.inner
    }

    fn append<T: Send>(
        &self,
        py: Python<'_>,
        append: impl FnOnce(&pop::Pops, &mut PutGuard<'_>) -> Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| append(&self.inner, &mut self.inner.store().put()?))
            .map_err(|e| to_py(py, e))
    }

    #[allow(clippy::too_many_arguments)]
    fn claim<'a>(
        &'a self,
        topic: &'a str,
        queue_id: i32,
        group: &'a str,
        start_offset: i64,
        pop_time: i64,
        invisible_time: i64,
        revive_queue: i32,
        broker_name: Option<&'a str>,
    ) -> Claim<'a> {
        let own = &self.inner.settings().broker_name;
        Claim {
            popped: Popped {
                topic: Cow::Borrowed(topic.as_bytes()),
                group: Cow::Borrowed(group.as_bytes()),
                broker_name: Cow::Borrowed(broker_name.unwrap_or(own).as_bytes()),
                queue_id,
                start_offset,
                pop_time,
            },
            invisible_time,
            revive_queue,
        }
    }
}

#[pymethods]
impl Pops {
    #[new]
    #[pyo3(signature = (store, *, cluster, broker_name, revive_queues=8, precision=1000,
                        max_invisible_time=MAX_INVISIBLE_TIME))]
    fn new(
        py: Python<'_>,
        store: PyRef<'_, Store>,
        cluster: String,
        broker_name: String,
        revive_queues: u32,
        precision: i64,
        max_invisible_time: i64,
    ) -> PyResult<Self> {
        let settings = pop::Settings {
            cluster,
            broker_name,
            revive_queues,
            precision,
            max_invisible_time,
        };
        let inner = pop::Pops::new(store.inner().clone(), settings).map_err(|e| to_py(py, e))?;
        Ok(Pops {
            inner: Arc::new(inner),
        })
    }

    #[getter]
    fn revive_topic(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.inner.revive_topic())
    }

    fn answer_acks(&self, answers: bool) {
        self.inner.set_direct(answers);
    }

    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (topic, queue_id, group, offset, max_count=32, *, pop_time, invisible_time,
                        revive_queue, max_bytes=usize::MAX, tags=None, sql=None,
                        original_topic=None, wait=true))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        topic: &str,
        queue_id: u32,
        group: &str,
        offset: i64,
        max_count: usize,
        pop_time: i64,
        invisible_time: i64,
        revive_queue: i32,
        max_bytes: usize,
        tags: Option<PyBuffer<i32>>,
        sql: Option<&Bound<'py, SqlFilter>>,
        original_topic: Option<&str>,
        wait: bool,
    ) -> PyResult<Option<Row<'py>>> {
        let query = Query {
            topic,
            queue_id,
            offset,
            max_count,
            max_bytes,
            tags: tags_of(py, tags)?,
            sql: sql.map(Bound::get),
            wait,
        };
        let of = CheckPointOf {
            group: group.as_bytes(),
            pop_time,
            invisible_time,
            revive_queue,
            original_topic: original_topic.map(str::as_bytes),
        };
        query.run(py, |ask| self.inner.take(ask, &of))
    }

    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (topic, queue_id, offset, max_count=32, *, max_bytes=usize::MAX, tags=None,
                        sql=None, wait=true))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        topic: &str,
        queue_id: u32,
        offset: i64,
        max_count: usize,
        max_bytes: usize,
        tags: Option<PyBuffer<i32>>,
        sql: Option<&Bound<'py, SqlFilter>>,
        wait: bool,
    ) -> PyResult<Option<Row<'py>>> {
        let query = Query {
            topic,
            queue_id,
            offset,
            max_count,
            max_bytes,
            tags: tags_of(py, tags)?,
            sql: sql.map(Bound::get),
            wait,
        };
        query.run(py, |ask| self.inner.read(ask))
    }

    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (topic, queue_id, group, offsets, *, start_offset, pop_time, invisible_time,
                        revive_queue, broker_name=None))]
    fn ack(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        group: &str,
        offsets: Vec<i64>,
        start_offset: i64,
        pop_time: i64,
        invisible_time: i64,
        revive_queue: i32,
        broker_name: Option<&str>,
    ) -> PyResult<u64> {
        let claim = self.claim(
            topic,
            queue_id,
            group,
            start_offset,
            pop_time,
            invisible_time,
            revive_queue,
            broker_name,
        );
        self.append(py, |pops, guard| {
            pops.ack(guard, &claim, &offsets, pops.store().now_ms())
        })
    }

    fn done_in_order(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: u32,
        group: &str,
        next: i64,
        now: i64,
    ) -> PyResult<u64> {
        let (topic, group) = (topic.as_bytes(), group.as_bytes());
        self.append(py, |pops, guard| {
            pops.done_in_order(guard, topic, group, queue_id, next, now)
        })
    }

    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (topic, queue_id, group, offset, *, start_offset, pop_time, invisible_time,
                        revive_queue, now, new_invisible_time, suspend=false, broker_name=None))]
    fn change_invisible_time(
        &self,
        py: Python<'_>,
        topic: &str,
        queue_id: i32,
        group: &str,
        offset: i64,
        start_offset: i64,
        pop_time: i64,
        invisible_time: i64,
        revive_queue: i32,
        now: i64,
        new_invisible_time: i64,
        suspend: bool,
        broker_name: Option<&str>,
    ) -> PyResult<(u64, i64)> {
        let claim = self.claim(
            topic,
            queue_id,
            group,
            start_offset,
            pop_time,
            invisible_time,
            revive_queue,
            broker_name,
        );
        let to = Change {
            offset,
            now,
            invisible_time: new_invisible_time,
            suspend,
        };
        let done = self.append(py, |pops, guard| pops.change(guard, &claim, to))?;
        Ok((done.log_end, done.pop_time))
    }
}
