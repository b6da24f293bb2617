//! `SqlFilter`: a compiled SQL92 expression.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyrmq_capi::{Bits, Selection};
use pyrmq_format::filter::bloom::Shape;
use pyrmq_format::filter::sql::Program;
use pyrmq_store::Expression;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

/// Selects messages by an SQL92 expression over their properties. ValueError if it does not
/// compile: the text says where and why.
#[pyclass(frozen, module = "pyrmq._native")]
pub struct SqlFilter {
    selection: Box<Selection>,
}

impl SqlFilter {
    fn of(program: Arc<Program>, bits: Option<Bits>) -> Self {
        SqlFilter {
            selection: Box::new(Selection::new(program, bits)),
        }
    }

    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Its bits say nothing of messages from a physical offset on.
    pub fn end_bits(&self, offset: u64) {
        self.selection.end_bits(offset);
    }

    /// To be evaluated as messages are stored.
    pub fn expression(&self, bits: Vec<u32>) -> Expression {
        self.selection.expression(bits)
    }
}

#[pymethods]
impl SqlFilter {
    #[new]
    fn new(expression: &str) -> PyResult<Self> {
        let program = Program::compile(expression);
        let program = program.map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(SqlFilter::of(Arc::new(program), None))
    }

    /// Whether a message with this property string is wanted.
    fn matches(&self, properties: &[u8]) -> bool {
        self.selection.matches(properties)
    }

    /// The same filter, which does not read messages whose bitmaps of `bitmap_len` bytes lack one of
    /// `bits`, if they were stored later than `born_time` and not below the physical offset `born_offset`.
    fn with_bits(
        &self,
        bits: Vec<u32>,
        bitmap_len: usize,
        born_time: i64,
        born_offset: i64,
    ) -> Self {
        let bits = Bits {
            bits,
            bitmap_len,
            born_time,
            born_offset,
            until: AtomicI64::new(i64::MAX),
        };
        SqlFilter::of(self.selection.program().clone(), Some(bits))
    }

    /// Address for the C table; valid while this object lives.
    fn _ptr(&self) -> usize {
        &raw const *self.selection as usize
    }
}

/// How many bits the bitmaps of a broker have that is set so. [BloomFilter]
#[pyfunction]
pub fn bitmap_bits(error_percent: u8, consumers: u32) -> u32 {
    Shape::new(error_percent, consumers).bits
}

/// The bits of them that stand for a subscription.
#[pyfunction]
pub fn subscription_bits(group: &str, topic: &str, error_percent: u8, consumers: u32) -> Vec<u32> {
    Shape::new(error_percent, consumers).positions(group.as_bytes(), topic.as_bytes())
}
