//! `tail.*`: a task of real-time mode that is read.

use crate::answers::field;
use crate::failure::Result;
use crate::handles::lock;
use crate::reading::TASKS;
use serde_json::{Value, json};

/// Where to go on if only the rows before `row` of its last batch were taken.
pub fn resume(request: &Value) -> Result<Value> {
    let (handle, row): (i64, usize) = (field(request, "handle")?, field(request, "row")?);
    let task = TASKS.get(handle)?;
    let resume = lock(&task).resume(row)?;
    Ok(json!({ "resume": resume }))
}
