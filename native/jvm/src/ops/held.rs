//! `held`: what this process holds for Java, to find leaks.

use crate::failure::Result;
use crate::{layout, reading, stream};
use serde_json::{Value, json};

pub fn answer(_: &Value) -> Result<Value> {
    let (batches, bytes) = layout::held();
    Ok(json!({
        "tasks": reading::TASKS.len(),
        "streams": stream::STREAMS.len(),
        "batches": batches,
        "bytes": bytes,
    }))
}
