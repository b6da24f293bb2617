//! The border to Python: pyo3 classes for rare operations and the C function table for hot ones.
//! Nothing outside this folder knows Python.

mod capi;
mod error;
mod json;
mod listener;
mod store;

use pyo3::prelude::*;

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<store::Store>()?;
    m.add_class::<listener::Listener>()?;
    m.add_function(wrap_pyfunction!(json::parse_json, m)?)?;
    m.add_function(wrap_pyfunction!(java_hash, m)?)?;
    m.add("_C_API", capi::capsule(m.py())?)?;
    Ok(())
}

/// Java's `String.hashCode` of a text, an int32.
#[pyfunction]
fn java_hash(text: &str) -> i32 {
    crate::format::java::hash(text.as_bytes())
}
