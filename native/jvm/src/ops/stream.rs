//! `stream.*`: the planner of a streaming query, which lives from `open` to `close`. A position goes out
//! as the text that a checkpoint has, and comes in as its JSON.

use crate::answers::{field, notes};
use crate::failure::Result;
use crate::handles::{Handles, lock};
use pyrmq_scan::stream::StreamPlanner;
use pyrmq_scan::{LocalPlaces, Notes, Position, Request};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

/// The queries of this process.
pub static STREAMS: LazyLock<Handles<StreamPlanner>> = LazyLock::new(|| Handles::new("stream"));

pub fn open(request: &Value) -> Result<Value> {
    let asked: Request = field(request, "request")?;
    let said = Notes::default();
    let planner = StreamPlanner::new(asked, Arc::new(LocalPlaces), &said)?;
    Ok(json!({"stream": STREAMS.add(planner)?, "notes": notes(&said)}))
}

/// Again does nothing.
pub fn close(request: &Value) -> Result<Value> {
    STREAMS.remove(field(request, "stream")?);
    Ok(json!({}))
}

pub fn initial(request: &Value) -> Result<Value> {
    positioned(request, |planner, said| planner.initial(said))
}

pub fn end(request: &Value) -> Result<Value> {
    positioned(request, |planner, said| planner.end(said))
}

pub fn latest(request: &Value) -> Result<Value> {
    let start = request.get("start").filter(|start| !start.is_null());
    let most: Option<u64> = field(request, "max_offsets")?;
    let bytes: Option<u64> = field(request, "max_bytes")?;
    positioned(request, |planner, said| {
        planner.latest(start, most, bytes, said)
    })
}

pub fn splits(request: &Value) -> Result<Value> {
    let (start, end): (Value, Value) = (field(request, "start")?, field(request, "end")?);
    asked(request, |planner, said| {
        let tasks = planner.splits(&start, &end, said)?;
        Ok(json!({ "tasks": tasks }))
    })
}

pub fn count(request: &Value) -> Result<Value> {
    let start: Value = field(request, "start")?;
    let wanted: u64 = field(request, "wanted")?;
    asked(request, |planner, said| {
        Ok(json!({"count": planner.count(&start, wanted, said)?}))
    })
}

pub fn behind(request: &Value) -> Result<Value> {
    asked(request, |planner, _| {
        Ok(json!({"behind": planner.behind()?.summary()}))
    })
}

pub fn pin(request: &Value) -> Result<Value> {
    asked(request, |planner, said| {
        planner.pin(said)?;
        Ok(json!({}))
    })
}

fn positioned(
    request: &Value,
    find: impl FnOnce(&mut StreamPlanner, &Notes) -> pyrmq_scan::Result<Position>,
) -> Result<Value> {
    asked(request, |planner, said| {
        Ok(json!({"position": find(planner, said)?.text()}))
    })
}

/// Asks the planner that the request names, and adds what it noted.
fn asked(
    request: &Value,
    ask: impl FnOnce(&mut StreamPlanner, &Notes) -> Result<Value>,
) -> Result<Value> {
    let stream = STREAMS.get(field(request, "stream")?)?;
    let said = Notes::default();
    let mut answer = ask(&mut lock(&stream), &said)?;
    answer["notes"] = notes(&said);
    Ok(answer)
}
