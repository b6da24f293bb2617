//! `counts`: the number of messages and their queue offsets, by the entries of queues.

use crate::answers::{field, notes};
use crate::failure::Result;
use pyrmq_scan::{LocalPlaces, Notes, Request, counts};
use serde_json::Value;

pub fn answer(request: &Value) -> Result<Value> {
    let asked: Request = field(request, "request")?;
    let by: Vec<String> = field(request, "by")?;
    let said = Notes::default();
    let mut found = counts::counts(&asked, &LocalPlaces, &said)?.by(&by)?;
    found["notes"] = notes(said.take());
    Ok(found)
}
