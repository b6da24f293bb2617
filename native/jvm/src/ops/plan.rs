//! `plan`: the tasks of a read, and its paths without patterns.

use crate::answers::{field, notes};
use crate::failure::Result;
use pyrmq_scan::{LocalPlaces, Notes, Request, expanded, plan};
use serde_json::{Value, json};

pub fn answer(request: &Value) -> Result<Value> {
    let mut request: Request = field(request, "request")?;
    request.paths = expanded(&request.paths, &LocalPlaces)?;
    let said = Notes::default();
    let planned = plan::plan(&request, &LocalPlaces, &said)?;
    Ok(json!({
        "paths": request.paths,
        "tasks": planned.tasks,
        "bytes": planned.bytes,
        "rows": planned.rows,
        "notes": notes(said.take()),
    }))
}
