//! Positions and tasks of a stream.

use super::error::run;
use super::places::{PyPlaces, parsed};
use super::selection::{SegmentForm, SegmentSelection};
use super::split::{Split, at_least};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyrmq_scan::{Notes, Position, Request, Result, StreamPlanner};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes by broker; messages by broker, topic and queue id, None where they are not known.
type Behind = (
    BTreeMap<String, u64>,
    Option<Vec<(String, String, i32, u64)>>,
);

/// The stream of a query: see `pyrmq.segments.stream`. Positions are JSON.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct SegmentStream {
    planner: Mutex<StreamPlanner>,
    places: Arc<PyPlaces>,
}

impl SegmentStream {
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut StreamPlanner, &Notes) -> Result<T> + Send,
    ) -> PyResult<T> {
        run(py, |notes| work(&mut self.planner.lock(), notes))
    }

    fn position(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut StreamPlanner, &Notes) -> Result<Position> + Send,
    ) -> PyResult<String> {
        Ok(self.run(py, work)?.text())
    }
}

#[pymethods]
impl SegmentStream {
    #[new]
    #[pyo3(signature = (paths, selection, how, *, broker_names, storage_options, split_bytes,
        min_partitions, mode, fail_on_data_loss))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        paths: Vec<String>,
        selection: &SegmentSelection,
        how: &SegmentForm,
        broker_names: Vec<String>,
        storage_options: Option<Py<PyAny>>,
        split_bytes: i64,
        min_partitions: Option<i64>,
        mode: String,
        fail_on_data_loss: bool,
    ) -> PyResult<Self> {
        let request = Request {
            top: None,
            paths,
            broker_names,
            selection: (*selection.chosen).clone(),
            how: how.form.clone(),
            split_bytes: at_least(py, "split_bytes", split_bytes, 0)?,
            min_partitions: min_partitions
                .map(|n| at_least(py, "min_partitions", n, 1))
                .transpose()?,
            max_records: None,
            plan: mode,
            fail_on_data_loss,
        };
        let places = Arc::new(PyPlaces::new(storage_options));
        let own = places.clone();
        let planner = run(py, |notes| StreamPlanner::new(request, own, notes))?;
        Ok(SegmentStream {
            planner: Mutex::new(planner),
            places,
        })
    }

    fn initial(&self, py: Python<'_>) -> PyResult<String> {
        self.position(py, |planner, notes| planner.initial(notes))
    }

    fn end(&self, py: Python<'_>) -> PyResult<String> {
        self.position(py, |planner, notes| planner.end(notes))
    }

    fn latest(
        &self,
        py: Python<'_>,
        start: Option<&[u8]>,
        max_offsets: Option<i64>,
        max_bytes: Option<i64>,
    ) -> PyResult<String> {
        let start: Option<Value> = start.map(|start| parsed(start, "a position")).transpose()?;
        let rows = max_offsets
            .map(|n| at_least(py, "max_offsets", n, 1))
            .transpose()?;
        let bytes = max_bytes
            .map(|n| at_least(py, "max_bytes", n, 1))
            .transpose()?;
        self.position(py, |planner, notes| {
            planner.latest(start.as_ref(), rows, bytes, notes)
        })
    }

    fn splits(&self, py: Python<'_>, start: &[u8], end: &[u8]) -> PyResult<Vec<Split>> {
        let start: Value = parsed(start, "a position")?;
        let end: Value = parsed(end, "a position")?;
        let tasks = self.run(py, |planner, notes| planner.splits(&start, &end, notes))?;
        Ok(Split::of_all(py, tasks, &self.places))
    }

    fn count(&self, py: Python<'_>, start: &[u8], wanted: u64) -> PyResult<u64> {
        let start: Value = parsed(start, "a position")?;
        self.run(py, |planner, notes| planner.count(&start, wanted, notes))
    }

    fn pin(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |planner, notes| planner.pin(notes))
    }

    fn behind(&self, py: Python<'_>) -> PyResult<Behind> {
        let found = self.run(py, |planner, _| planner.behind())?;
        let queues = found.messages.map(|queues| {
            let queues = queues.into_iter();
            queues
                .map(|one| (one.broker, one.topic, one.queue, one.messages))
                .collect()
        });
        Ok((found.bytes, queues))
    }
}
