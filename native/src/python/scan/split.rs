//! Plans and their tasks.

use super::error::{run, to_py};
use super::places::{PyPlaces, parsed};
use super::reader::{SplitBatches, SplitReader};
use super::selection::{SegmentForm, SegmentSelection};
use super::stores::{Reduced, SegmentStore};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use pyrmq_scan::plan::plan_stores;
use pyrmq_scan::read::TaskReader;
use pyrmq_scan::{Kind, Part, PlaceRef, Places, Request, SegmentError, Task, at_most};
use std::sync::Arc;

/// One task of a read: see engine.pyi.
#[pyclass(frozen, eq, module = "pyrmq._native")]
pub struct Split {
    pub task: Arc<Task>,
    /// The file system of its files; None: they are local.
    pub system: Option<Py<PyAny>>,
}

impl PartialEq for Split {
    fn eq(&self, other: &Self) -> bool {
        self.task == other.task
    }
}

impl Split {
    /// Tasks with the file systems that they name.
    pub fn of_all(py: Python<'_>, tasks: Vec<Task>, places: &PyPlaces) -> Vec<Split> {
        let made = tasks.into_iter().map(|task| Split {
            system: places.system(py, task.place.as_deref()),
            task: Arc::new(task),
        });
        made.collect()
    }

    fn places(&self, py: Python<'_>) -> PyPlaces {
        PyPlaces::with(py, [(self.task.place.as_deref(), &self.system)].into_iter())
    }

    fn opened(&self, py: Python<'_>) -> PyResult<SplitReader> {
        let places = self.places(py);
        let task = (*self.task).clone();
        let reader = run(py, |_| TaskReader::open(task, &places))?;
        Ok(SplitReader::new(reader))
    }
}

/// A number of a parameter; SegmentOptionError for less.
pub fn at_least(py: Python<'_>, name: &'static str, number: i64, least: i64) -> PyResult<u64> {
    match u64::try_from(number) {
        Ok(given) if number >= least => Ok(given),
        _ => {
            let text = [Part::Name(name), format!(": {number}").into()];
            let error = SegmentError::new(Kind::Option, text);
            Err(to_py(
                py,
                error.hint(format!("expected at least {}", least.max(1))),
            ))
        }
    }
}

/// The tasks of a batch read: see engine.pyi.
#[pyfunction]
#[pyo3(signature = (stores, selection, how, *, split_bytes, min_partitions, mode, fail_on_data_loss))]
#[allow(clippy::too_many_arguments)]
pub fn plan_segments(
    py: Python<'_>,
    stores: Vec<PyRef<'_, SegmentStore>>,
    selection: &SegmentSelection,
    how: &SegmentForm,
    split_bytes: i64,
    min_partitions: Option<i64>,
    mode: String,
    fail_on_data_loss: bool,
) -> PyResult<Vec<Split>> {
    let places = SegmentStore::places(py, &stores);
    let split_bytes = at_least(py, "split_bytes", split_bytes, 0)?;
    let min_partitions = min_partitions
        .map(|n| at_least(py, "min_partitions", n, 1))
        .transpose()?;
    let stores: Vec<_> = stores.iter().map(|one| one.store.clone()).collect();
    let request = Request {
        selection: (*selection.chosen).clone(),
        how: how.form.clone(),
        split_bytes,
        min_partitions,
        plan: mode,
        fail_on_data_loss,
        ..Request::default()
    };
    let planned = run(py, |notes| plan_stores(&stores, &request, notes))?;
    Ok(Split::of_all(py, planned.tasks, &places))
}

/// The same messages in tasks of at most so many: see engine.pyi.
#[pyfunction]
pub fn splits_of_at_most(
    py: Python<'_>,
    splits: Vec<PyRef<'_, Split>>,
    count: u64,
) -> PyResult<Vec<Split>> {
    let mut out = Vec::new();
    for split in splits {
        let places = split.places(py);
        let task = (*split.task).clone();
        let place = match &task.place {
            Some(name) => PlaceRef(places.named(name).map_err(|error| to_py(py, error))?),
            None => PlaceRef::default(),
        };
        let tasks = run(py, |_| at_most(vec![task], count, |_| place.clone()))?;
        out.extend(Split::of_all(py, tasks, &places));
    }
    Ok(out)
}

/// The same with adjacent ranges of a log joined: see engine.pyi.
#[pyfunction]
pub fn joined_splits(py: Python<'_>, splits: Vec<PyRef<'_, Split>>) -> Vec<Split> {
    let mut out: Vec<Split> = Vec::new();
    for split in splits {
        let task = &split.task;
        if let Some(before) = out.last_mut()
            && !before.task.by_entries
            && !task.by_entries
            && before.task.end == task.start
            && before.task.broker == task.broker
        {
            let joined = Arc::make_mut(&mut before.task);
            joined.files.extend(task.files.iter().cloned());
            joined.files.sort();
            joined.files.dedup();
            (joined.end, joined.log_end) = (task.end, task.log_end);
            continue;
        }
        out.push(Split {
            task: task.clone(),
            system: split.system.as_ref().map(|system| system.clone_ref(py)),
        });
    }
    out
}

#[pymethods]
impl Split {
    #[new]
    fn new(json: &[u8], filesystem: Option<Py<PyAny>>) -> PyResult<Self> {
        Ok(Split {
            task: Arc::new(parsed(json, "a task")?),
            system: filesystem,
        })
    }

    fn __reduce__<'py>(own: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let (py, this) = (own.py(), own.get());
        let json = serde_json::to_vec(&*this.task).expect("a task is JSON");
        let system = this.system.as_ref().map(|system| system.clone_ref(py));
        Ok((own.get_type(), (PyBytes::new(py, &json), system)))
    }

    #[getter]
    fn broker(&self) -> &str {
        &self.task.broker
    }

    #[getter]
    fn root(&self) -> &str {
        &self.task.root
    }

    #[getter]
    fn files<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.task.files)
    }

    #[getter]
    fn start(&self) -> u64 {
        self.task.start
    }

    #[getter]
    fn end(&self) -> u64 {
        self.task.end
    }

    #[getter]
    fn by_entries(&self) -> bool {
        self.task.by_entries
    }

    fn describe(&self) -> String {
        self.task.describe()
    }

    fn reader(&self, py: Python<'_>) -> PyResult<SplitReader> {
        self.opened(py)
    }

    fn read(&self, py: Python<'_>) -> PyResult<SplitBatches> {
        SplitBatches::new(py, self.opened(py)?)
    }

    fn __repr__(&self) -> String {
        format!("<Split {}>", self.describe())
    }
}
