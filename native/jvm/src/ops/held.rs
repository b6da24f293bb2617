//! `held`: what this process holds for Java, to find leaks.

use super::Result;
use crate::{border, layout};
use serde_json::{Value, json};

pub fn answer(_: &Value) -> Result<Value> {
    let (batches, bytes) = layout::held();
    Ok(json!({"tasks": border::open_tasks(), "batches": batches, "bytes": bytes}))
}
