//! `SqlFilter`: a compiled SQL92 expression.

use crate::filter::sql::Program;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Selects messages by an SQL92 expression over their properties. ValueError if it does not
/// compile: the text says where and why.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct SqlFilter {
    program: Box<Program>,
}

#[pymethods]
impl SqlFilter {
    #[new]
    fn new(expression: &str) -> PyResult<Self> {
        let program = Program::compile(expression);
        let program = program.map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(SqlFilter {
            program: Box::new(program),
        })
    }

    /// Whether a message with this property string is wanted.
    fn matches(&self, properties: &[u8]) -> bool {
        self.program.matches(properties)
    }

    /// Address for the C table; valid while this object lives.
    fn _ptr(&self) -> usize {
        &raw const *self.program as usize
    }
}
