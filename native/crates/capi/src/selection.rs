//! What a read selects by: a compiled SQL92 expression, and the bits that tell of messages early.

use pyrmq_format::filter::sql::Program;
use pyrmq_store::{BitTest, Expression};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// What `store_get` takes as its `sql`.
pub struct Selection {
    program: Arc<Program>,
    bits: Option<Bits>,
}

/// Messages whose bitmaps of `bitmap_len` bytes lack one of `bits` do not match, if they were stored
/// later than `born_time`, not below the physical offset `born_offset`, and below `until`.
pub struct Bits {
    pub bits: Vec<u32>,
    pub bitmap_len: usize,
    pub born_time: i64,
    pub born_offset: i64,
    pub until: AtomicI64,
}

impl Selection {
    pub fn new(program: Arc<Program>, bits: Option<Bits>) -> Self {
        Selection { program, bits }
    }

    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    pub fn matches(&self, properties: &[u8]) -> bool {
        self.program.matches(properties)
    }

    /// What tells of messages that they do not match, if anything does.
    pub fn bit_test(&self) -> Option<BitTest<'_>> {
        self.bits.as_ref().map(|b| BitTest {
            bits: &b.bits,
            bitmap_len: b.bitmap_len,
            born_time: b.born_time,
            born_offset: b.born_offset,
            until: &b.until,
        })
    }

    /// Its bits say nothing of messages from a physical offset on.
    pub fn end_bits(&self, offset: u64) {
        if let Some(bits) = &self.bits {
            bits.until.fetch_min(offset as i64, Ordering::Relaxed);
        }
    }

    /// To be evaluated as messages are stored.
    pub fn expression(&self, bits: Vec<u32>) -> Expression {
        Expression {
            program: self.program.clone(),
            bits,
        }
    }
}
