//! Places of Python's: the file systems of `pyrmq.segments.filesystem`.

use super::error::from_py;
use crate::python::read_request::PyFile;
use parking_lot::Mutex;
use pyo3::exceptions::{PyFileNotFoundError, PyValueError};
use pyo3::prelude::*;
use pyrmq_arrow::{Open, ReadAt};
use pyrmq_scan::{Found, Kind, Local, LocalPlaces, Place, Places, Result, SegmentError, Shape};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// What opens a path or URI. A file system is named by its URI in stores and tasks; the object of
/// Python's, with options that may hold credentials, goes beside them.
#[derive(Default)]
pub struct PyPlaces {
    options: Option<Py<PyAny>>,
    known: Mutex<HashMap<String, Arc<PyPlace>>>,
}

impl PyPlaces {
    /// `options` go to fsspec.
    pub fn new(options: Option<Py<PyAny>>) -> Self {
        PyPlaces {
            options,
            ..PyPlaces::default()
        }
    }

    /// With the file systems of stores or tasks: what names them there, and the object.
    pub fn with<'a>(
        py: Python<'_>,
        systems: impl Iterator<Item = (Option<&'a str>, &'a Option<Py<PyAny>>)>,
    ) -> Self {
        let out = PyPlaces::default();
        for (name, system) in systems {
            if let (Some(name), Some(system)) = (name, system) {
                out.add(name, system.clone_ref(py));
            }
        }
        out
    }

    fn add(&self, name: &str, system: Py<PyAny>) {
        let place = Arc::new(PyPlace(system));
        self.known.lock().entry(name.to_owned()).or_insert(place);
    }

    /// The object behind a name.
    pub fn system(&self, py: Python<'_>, name: Option<&str>) -> Option<Py<PyAny>> {
        let known = self.known.lock();
        Some(known.get(name?)?.0.clone_ref(py))
    }
}

impl Places for PyPlaces {
    fn place(&self, path: &str) -> Result<(Option<String>, Arc<dyn Place>, String)> {
        if !path.contains("://") || path.starts_with("file:") {
            return LocalPlaces.place(path);
        }
        let found = Python::attach(|py| {
            let found = || -> PyResult<(Option<Py<PyAny>>, String)> {
                let options = match &self.options {
                    Some(options) => options.clone_ref(py),
                    None => pyo3::types::PyDict::new(py).into_any().unbind(),
                };
                let module = py.import("pyrmq.segments.filesystem")?;
                module.call_method1("place", (path, options))?.extract()
            };
            found().map_err(|raised| from_py(py, raised))
        });
        Ok(match found? {
            (None, path) => (None, Arc::new(Local), path),
            (Some(system), on_it) => {
                self.add(path, system);
                (Some(path.to_owned()), self.named(path)?, on_it)
            }
        })
    }

    fn named(&self, name: &str) -> Result<Arc<dyn Place>> {
        match self.known.lock().get(name) {
            Some(place) => Ok(place.clone()),
            None => Err(SegmentError::new(
                Kind::Path,
                format!("{name}: its file system is not known here"),
            )),
        }
    }
}

/// A `FileSystem` of Python's.
struct PyPlace(Py<PyAny>);

impl PyPlace {
    fn ask<T>(&self, ask: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Result<T> {
        Python::attach(|py| ask(self.0.bind(py)).map_err(|raised| from_py(py, raised)))
    }
}

impl Place for PyPlace {
    fn shape(&self, path: &str) -> Result<Shape> {
        self.ask(|system| {
            let kind: String = system.call_method1("kind", (path,))?.extract()?;
            Ok(match kind.as_str() {
                "file" => Shape::File,
                "folder" => Shape::Folder,
                _ => Shape::Nothing,
            })
        })
    }

    fn list(&self, path: &str) -> Result<Vec<Found>> {
        self.ask(|system| {
            let mut out = Vec::new();
            for one in system.call_method1("list", (path,))?.try_iter()? {
                let (path, name, is_file, size) = one?.extract()?;
                out.push(Found {
                    path,
                    name,
                    is_file,
                    size,
                });
            }
            Ok(out)
        })
    }

    fn size(&self, path: &str) -> Result<u64> {
        self.ask(|system| system.call_method1("size", (path,))?.extract())
    }

    fn opener(&self) -> Arc<dyn Open> {
        Python::attach(|py| Arc::new(Opener(self.0.clone_ref(py))) as Arc<dyn Open>)
    }
}

/// Opens files of a `FileSystem`.
struct Opener(Py<PyAny>);

impl Open for Opener {
    fn open(&self, path: &str) -> io::Result<Box<dyn ReadAt>> {
        Python::attach(|py| match self.0.call_method1(py, "open", (path,)) {
            Ok(file) => Ok(Box::new(PyFile(file)) as Box<dyn ReadAt>),
            Err(raised) => {
                let gone = raised.is_instance_of::<PyFileNotFoundError>(py);
                let kind = match gone {
                    true => io::ErrorKind::NotFound,
                    false => io::ErrorKind::Other,
                };
                Err(io::Error::new(kind, raised))
            }
        })
    }
}

/// What a JSON text of Python's says; ValueError with what is wrong with it.
pub fn parsed<T: serde::de::DeserializeOwned>(json: &[u8], what: &str) -> PyResult<T> {
    serde_json::from_slice(json).map_err(|e| PyValueError::new_err(format!("{what}: {e}")))
}
