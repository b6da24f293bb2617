//! `stream.*`: the planner of a streaming query, which lives from `open` to `close`. A position goes out
//! as the text that a checkpoint has, and comes in as its JSON.

use crate::answers::{field, notes};
use crate::failure::Result;
use crate::handles::{Handles, lock};
use pyrmq_scan::admission::{Limit, Limits, Pace};
use pyrmq_scan::{LocalPlaces, Notes, Position, Request, Resume, StreamPlanner};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// The queries of this process.
pub static STREAMS: LazyLock<Handles<Stream>> = LazyLock::new(|| Handles::new("stream"));

pub struct Stream {
    planner: StreamPlanner,
    limits: Limits,
    pace: Pace,
}

/// As the op `options` gives them, in its part `stream`.
#[derive(Deserialize)]
struct OfOptions {
    max_offsets: Option<u64>,
    max_bytes: Option<u64>,
    min_offsets: Option<u64>,
    max_delay_ms: u64,
}

/// Spark's limit of one micro-batch.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum OfSpark {
    All,
    Rows(u64),
    Bytes(u64),
}

pub fn open(request: &Value) -> Result<Value> {
    let asked: Request = field(request, "request")?;
    let limits: OfOptions = field(request, "limits")?;
    let said = Notes::default();
    let stream = STREAMS.add(Stream {
        planner: StreamPlanner::new(asked, Arc::new(LocalPlaces), &said)?,
        limits: Limits {
            max_offsets: limits.max_offsets,
            max_bytes: limits.max_bytes,
        },
        pace: Pace::new(
            limits.min_offsets,
            Duration::from_millis(limits.max_delay_ms),
        ),
    })?;
    Ok(json!({"stream": stream, "notes": notes(said.take())}))
}

/// Again does nothing.
pub fn close(request: &Value) -> Result<Value> {
    STREAMS.remove(field(request, "stream")?);
    Ok(json!({}))
}

pub fn initial(request: &Value) -> Result<Value> {
    positioned(request, |stream, said| stream.planner.initial(said))
}

pub fn end(request: &Value) -> Result<Value> {
    positioned(request, |stream, said| stream.planner.end(said))
}

/// Where the next micro-batch ends. No position: it waits for more.
pub fn latest(request: &Value) -> Result<Value> {
    let start: Value = field(request, "start")?;
    let limit = match field(request, "limit")? {
        OfSpark::All => Limit::All,
        OfSpark::Rows(rows) => Limit::Rows(rows),
        OfSpark::Bytes(bytes) => Limit::Bytes(bytes),
    };
    asked(request, |stream, said| {
        let Stream {
            planner,
            limits,
            pace,
        } = stream;
        let holds = limit != Limit::All
            && pace.holds(Instant::now(), |wanted| planner.count(&start, wanted, said))?;
        if holds {
            return Ok(json!({ "position": null }));
        }
        let (rows, bytes) = limits.of(limit);
        let position = planner.latest(Some(&start), rows, bytes, said)?;
        Ok(json!({"position": position.text()}))
    })
}

pub fn splits(request: &Value) -> Result<Value> {
    let (start, end): (Value, Value) = (field(request, "start")?, field(request, "end")?);
    asked(request, |stream, said| {
        let tasks = stream.planner.splits(&start, &end, said)?;
        Ok(json!({ "tasks": tasks }))
    })
}

pub fn behind(request: &Value) -> Result<Value> {
    asked(request, |stream, _| {
        Ok(json!({"behind": stream.planner.behind()?.summary()}))
    })
}

pub fn pin(request: &Value) -> Result<Value> {
    asked(request, |stream, said| {
        stream.pace.pin();
        stream.planner.pin(said)?;
        Ok(json!({}))
    })
}

/// Real-time mode: one task a broker, which waits for more.
pub fn tails(request: &Value) -> Result<Value> {
    let start: Value = field(request, "start")?;
    asked(request, |stream, said| {
        let tails = stream.planner.tails(&start, said)?;
        let tasks: Vec<Value> = tails.iter().map(|tail| json!({ "tail": tail })).collect();
        Ok(json!({ "tasks": tasks }))
    })
}

/// Real-time mode: the position that tasks got to.
pub fn reached(request: &Value) -> Result<Value> {
    let start: Value = field(request, "start")?;
    let ends: Vec<Resume> = field(request, "ends")?;
    positioned(request, |stream, _| stream.planner.reached(&start, &ends))
}

fn positioned(
    request: &Value,
    find: impl FnOnce(&mut Stream, &Notes) -> pyrmq_scan::Result<Position>,
) -> Result<Value> {
    asked(request, |stream, said| {
        Ok(json!({"position": find(stream, said)?.text()}))
    })
}

/// Asks the stream that the request names, and adds what it noted.
fn asked(request: &Value, ask: impl FnOnce(&mut Stream, &Notes) -> Result<Value>) -> Result<Value> {
    let stream = STREAMS.get(field(request, "stream")?)?;
    let said = Notes::default();
    let mut answer = ask(&mut lock(&stream), &said)?;
    answer["notes"] = notes(said.take());
    Ok(answer)
}
