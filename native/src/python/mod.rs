//! The border to Python: pyo3 classes for rare operations; the crate `pyrmq-capi` has the hot ones.
//! Nothing outside this folder knows Python.

mod arrow;
mod bench;
mod delays;
mod encode;
mod error;
mod figures;
mod ha;
mod json;
mod json_bodies;
mod keyring;
mod listener;
mod log_lines;
mod offline;
mod options;
mod outgoing;
mod pops;
mod pulls;
mod put_watch;
mod read_request;
mod received;
mod reclaim;
mod revivers;
mod scan;
mod sizes;
mod sql;
mod store;
mod timers;
mod tls;
mod transactions;

use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_void;

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    log_lines::install();
    m.add_function(wrap_pyfunction!(log_lines::set_log_level, m)?)?;
    m.add_function(wrap_pyfunction!(log_lines::keep_log_lines, m)?)?;
    m.add_function(wrap_pyfunction!(log_lines::take_log_lines, m)?)?;
    m.add_class::<store::Store>()?;
    m.add_class::<transactions::Transactions>()?;
    m.add_function(wrap_pyfunction!(transactions::half_timing, m)?)?;
    m.add_class::<sql::SqlFilter>()?;
    m.add_function(wrap_pyfunction!(sql::bitmap_bits, m)?)?;
    m.add_function(wrap_pyfunction!(sql::subscription_bits, m)?)?;
    m.add_class::<delays::Delays>()?;
    m.add_class::<delays::Returned>()?;
    m.add_class::<timers::Timers>()?;
    m.add_function(wrap_pyfunction!(delays::delay_levels, m)?)?;
    m.add_class::<ha::HaMaster>()?;
    m.add_class::<ha::HaSlave>()?;
    m.add_function(wrap_pyfunction!(ha::newest_record, m)?)?;
    m.add_class::<listener::Listener>()?;
    m.add_class::<keyring::Keyring>()?;
    m.add("ACCESS_SEND", pyrmq_broker::wire::access::SEND)?;
    m.add("ACCESS_END", pyrmq_broker::wire::access::END_TRANSACTION)?;
    m.add("ACCESS_ACK", pyrmq_broker::wire::access::ACK)?;
    m.add_class::<pops::Pops>()?;
    m.add_class::<revivers::Reviver>()?;
    m.add_class::<revivers::Revived>()?;
    m.add_function(wrap_pyfunction!(revivers::popped_to, m)?)?;
    m.add_class::<pulls::PullGrants>()?;
    m.add_class::<put_watch::PutWatch>()?;
    m.add_function(wrap_pyfunction!(reclaim::needed_from, m)?)?;
    m.add_function(wrap_pyfunction!(reclaim::reclaim_to, m)?)?;
    m.add_function(wrap_pyfunction!(reclaim::timers_needed_from, m)?)?;
    m.add_function(wrap_pyfunction!(reclaim::oldest_popped, m)?)?;
    m.add_function(wrap_pyfunction!(sizes::topic_sizes, m)?)?;
    m.add_function(wrap_pyfunction!(sizes::stored_topics, m)?)?;
    m.add_function(wrap_pyfunction!(sizes::log_files, m)?)?;
    m.add_function(wrap_pyfunction!(sizes::log_bounds, m)?)?;
    figures::add(m)?;
    m.add_class::<tls::TlsClient>()?;
    m.add_class::<tls::TlsContext>()?;
    m.add_class::<bench::BenchFloor>()?;
    m.add_class::<bench::BenchRun>()?;
    m.add("PULL_ALIKE", pulls::alike())?;
    m.add_class::<encode::SendRows>()?;
    m.add_class::<encode::SendRequest>()?;
    m.add_class::<offline::Verifier>()?;
    m.add_class::<offline::Records>()?;
    m.add_function(wrap_pyfunction!(offline::inspect_store, m)?)?;
    m.add_function(wrap_pyfunction!(offline::store_is_locked, m)?)?;
    m.add_function(wrap_pyfunction!(offline::key_places, m)?)?;
    m.add_class::<json_bodies::JsonBodies>()?;
    m.add_class::<arrow::SegmentReader>()?;
    m.add_class::<read_request::LogRange>()?;
    m.add_class::<read_request::LogPlaces>()?;
    m.add_class::<read_request::RecordBytes>()?;
    m.add_function(wrap_pyfunction!(arrow::segment_end, m)?)?;
    m.add_function(wrap_pyfunction!(arrow::segment_advance, m)?)?;
    m.add_function(wrap_pyfunction!(arrow::segment_times, m)?)?;
    let (default, all) = arrow::column_names(m.py())?;
    m.add("DEFAULT_COLUMNS", default)?;
    m.add("ALL_COLUMNS", all)?;
    scan::add(m)?;
    m.add_function(wrap_pyfunction!(json::parse_json, m)?)?;
    m.add_function(wrap_pyfunction!(json::json_members, m)?)?;
    m.add_function(wrap_pyfunction!(received::read_records, m)?)?;
    m.add_class::<outgoing::MessageText>()?;
    m.add_function(wrap_pyfunction!(outgoing::unique_key, m)?)?;
    m.add_function(wrap_pyfunction!(java_hash, m)?)?;
    m.add("_C_API", c_table(m.py())?)?;
    // The profile dev-engine has assertions, the profile of wheels has none.
    m.add("RELEASE_BUILD", !cfg!(debug_assertions))?;
    Ok(())
}

/// Java's `String.hashCode` of a text, an int32.
#[pyfunction]
fn java_hash(text: &str) -> i32 {
    pyrmq_format::java::hash(text.as_bytes())
}

/// The C function table as a PyCapsule.
fn c_table(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let table = (&raw const pyrmq_capi::TABLE).cast::<c_void>().cast_mut();
    // SAFETY: the table and the name are static; the capsule has no destructor; the GIL is held.
    unsafe {
        let capsule = ffi::PyCapsule_New(table, pyrmq_capi::NAME.as_ptr(), None);
        Bound::from_owned_ptr_or_err(py, capsule).map(Bound::unbind)
    }
}
