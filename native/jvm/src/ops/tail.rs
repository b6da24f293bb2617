//! `tail.resume`: `{"handle", "row"}`, where to go on if only the rows before `row` of the batch that
//! `nextWithin` gave last were taken.

use crate::answers::field;
use crate::failure::Result;
use crate::handles::lock;
use crate::reading::TASKS;
use serde_json::{Value, json};

pub fn resume(asked: &Value) -> Result<Value> {
    let (handle, row): (i64, u64) = (field(asked, "handle")?, field(asked, "row")?);
    let task = TASKS.get(handle)?;
    let resume = lock(&task).resume(row as usize)?;
    Ok(json!({"resume": resume}))
}
