//! `version`: of the library. Java compares it with its own.

use crate::failure::Result;
use serde_json::{Value, json};

pub fn answer(_: &Value) -> Result<Value> {
    Ok(json!({"version": env!("CARGO_PKG_VERSION")}))
}
