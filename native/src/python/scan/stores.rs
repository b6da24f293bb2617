//! Stores of brokers, found at paths.

use super::error::{run, to_py};
use super::places::{PyPlaces, parsed};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFrozenSet, PyTuple, PyType};
use pyrmq_scan::{SegmentStore as Store, open_stores};

/// One broker's log: see engine.pyi.
#[pyclass(frozen, eq, module = "pyrmq._native")]
pub struct SegmentStore {
    pub store: Store,
    /// The file system of its files; None: they are local.
    pub system: Option<Py<PyAny>>,
}

impl PartialEq for SegmentStore {
    fn eq(&self, other: &Self) -> bool {
        self.store == other.store
    }
}

impl SegmentStore {
    /// What opens the files of several stores.
    pub fn places(py: Python<'_>, stores: &[PyRef<'_, SegmentStore>]) -> PyPlaces {
        let of = stores.iter().map(|s| (s.store.place.as_deref(), &s.system));
        PyPlaces::with(py, of)
    }
}

/// What makes a store or a split anew: its class, its JSON, its file system.
pub type Reduced<'py> = (Bound<'py, PyType>, (Bound<'py, PyBytes>, Option<Py<PyAny>>));

/// The stores at paths: see engine.pyi.
#[pyfunction]
pub fn open_segment_stores(
    py: Python<'_>,
    paths: Vec<String>,
    broker_names: Vec<String>,
    storage_options: Option<Py<PyAny>>,
) -> PyResult<Vec<SegmentStore>> {
    let places = PyPlaces::new(storage_options);
    let stores = run(py, |notes| {
        open_stores(&paths, &broker_names, &places, notes)
    })?;
    let stores = stores.into_iter().map(|store| SegmentStore {
        system: places.system(py, store.place.as_deref()),
        store,
    });
    Ok(stores.collect())
}

#[pymethods]
impl SegmentStore {
    #[new]
    fn new(py: Python<'_>, json: &[u8], filesystem: Option<Py<PyAny>>) -> PyResult<Self> {
        let store: Store = parsed(json, "a store")?;
        let places = PyPlaces::with(py, [(store.place.as_deref(), &filesystem)].into_iter());
        let store = store.placed(&places).map_err(|error| to_py(py, error))?;
        Ok(SegmentStore {
            store,
            system: filesystem,
        })
    }

    fn __reduce__<'py>(own: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let (py, this) = (own.py(), own.get());
        let json = serde_json::to_vec(&this.store).expect("a store is JSON");
        let system = this.system.as_ref().map(|system| system.clone_ref(py));
        Ok((own.get_type(), (PyBytes::new(py, &json), system)))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.store.name
    }

    #[getter]
    fn root(&self) -> &str {
        &self.store.root
    }

    #[getter]
    fn files<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.store.files)
    }

    #[getter]
    fn queues(&self) -> Option<&str> {
        self.store.queues.as_deref()
    }

    #[getter]
    fn index(&self) -> Option<&str> {
        self.store.index.as_deref()
    }

    #[getter]
    fn filesystem(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.system.as_ref().map(|system| system.clone_ref(py))
    }

    #[getter]
    fn folder(&self) -> &str {
        &self.store.folder
    }

    #[getter]
    fn base(&self) -> &str {
        &self.store.base
    }

    #[getter]
    fn no_queues(&self) -> &str {
        &self.store.no_queues
    }

    #[getter]
    fn folder_name(&self) -> &str {
        &self.store.folder_name
    }

    #[getter]
    fn first(&self) -> u64 {
        self.store.first()
    }

    #[getter]
    fn last(&self) -> u64 {
        self.store.last()
    }

    fn holes(&self) -> Vec<(u64, u64)> {
        self.store.holes()
    }

    /// The same place listed again: files come at the end and go at the start.
    fn relisted(&self, py: Python<'_>) -> PyResult<SegmentStore> {
        let store = run(py, |_| self.store.relisted())?;
        let system = self.system.as_ref().map(|system| system.clone_ref(py));
        Ok(SegmentStore { store, system })
    }

    /// Topics that the store knows; None if nothing can be said.
    fn topics<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyFrozenSet>>> {
        let found = run(py, |notes| self.store.topics(notes))?;
        found.map(|topics| PyFrozenSet::new(py, topics)).transpose()
    }
}
