//! What is known of the transactions of a store, under one lock.

use super::decided::Decided;
use super::ops::Ops;
use super::pending::Table;

#[derive(Default)]
pub(super) struct State {
    pub table: Table,
    pub ops: Ops,
    /// Halves that are dealt with and named by no op record yet.
    pub owed: Vec<i64>,
    pub decided: Decided,
}
