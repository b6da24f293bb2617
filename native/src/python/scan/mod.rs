//! The border of `pyrmq-scan`: stores, plans, tasks and streams over raw segments. Everything is
//! decided in that crate; here its words become Python's objects, errors and log lines.

pub mod error;
mod options;
mod places;
mod reader;
mod selection;
mod split;
mod stores;
mod stream;

use pyo3::prelude::*;

/// Adds the classes and functions to the module.
pub fn add(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<stores::SegmentStore>()?;
    m.add_class::<selection::SegmentSelection>()?;
    m.add_class::<selection::SegmentForm>()?;
    m.add_class::<split::Split>()?;
    m.add_class::<stream::SegmentStream>()?;
    m.add_class::<reader::SplitReader>()?;
    m.add_class::<reader::SplitBatches>()?;
    m.add_function(wrap_pyfunction!(split::plan_segments, m)?)?;
    m.add_function(wrap_pyfunction!(split::splits_of_at_most, m)?)?;
    m.add_function(wrap_pyfunction!(split::joined_splits, m)?)?;
    m.add_function(wrap_pyfunction!(selection::parse_offsets, m)?)?;
    m.add_function(wrap_pyfunction!(selection::parse_assign, m)?)?;
    m.add_function(wrap_pyfunction!(selection::parse_tags, m)?)?;
    m.add_function(wrap_pyfunction!(selection::parse_topics, m)?)?;
    m.add_function(wrap_pyfunction!(selection::unknown_topic, m)?)?;
    m.add_function(wrap_pyfunction!(stores::open_segment_stores, m)?)?;
    m.add_function(wrap_pyfunction!(options::scan_option_rows, m)?)?;
    m.add_function(wrap_pyfunction!(options::scan_options, m)?)?;
    m.add_function(wrap_pyfunction!(options::scan_option_value, m)?)?;
    m.add_function(wrap_pyfunction!(options::scan_check_cases, m)?)?;
    m.add_function(wrap_pyfunction!(options::scan_through_brokers, m)?)?;
    m.add_function(wrap_pyfunction!(options::scan_columns, m)?)?;
    m.add_function(wrap_pyfunction!(options::scan_schema, m)?)?;
    Ok(())
}
