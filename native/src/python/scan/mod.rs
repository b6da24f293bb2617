//! The border of `pyrmq-scan`: stores, plans, tasks and streams over raw segments. Everything is
//! decided in that crate; here its words become Python's objects, errors and log lines.

mod error;
mod places;
mod stores;

use pyo3::prelude::*;

/// Adds the classes and functions to the module.
pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<stores::SegmentStore>()?;
    m.add_function(wrap_pyfunction!(stores::open_segment_stores, m)?)?;
    Ok(())
}
