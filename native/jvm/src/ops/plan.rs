//! `plan`: the tasks of a read.

use crate::answers::{field, notes};
use crate::failure::Result;
use pyrmq_scan::{LocalPlaces, Notes, Request, plan};
use serde_json::{Value, json};

pub fn answer(request: &Value) -> Result<Value> {
    let request: Request = field(request, "request")?;
    let said = Notes::default();
    let planned = plan::plan(&request, &LocalPlaces, &said)?;
    Ok(json!({
        "tasks": planned.tasks,
        "bytes": planned.bytes,
        "rows": planned.rows,
        "notes": notes(said.take()),
    }))
}
