//! `options`: what Spark's options ask for, and the columns of a query.

use crate::failure::Result;
use serde_json::Value;

pub fn answer(request: &Value) -> Result<Value> {
    Ok(pyrmq_scan::options::answer(request)?)
}
