//! `stream.open` and what is asked of a stream that is open: its answer has "stream", which names it in
//! the others. Positions go out as the text that a checkpoint keeps, and come in as its JSON.

use crate::answers::{field, notes};
use crate::failure::Result;
use crate::handles::lock;
use crate::stream::{Asked, STREAMS, Stream, StreamLimits};
use pyrmq_scan::{Position, Request, Resume};
use serde_json::{Value, json};

/// `{"request", "limits"}`: opens the stores.
pub fn open(asked: &Value) -> Result<Value> {
    let request: Request = field(asked, "request")?;
    let limits: Option<StreamLimits> = field(asked, "limits")?;
    let stream = Stream::open(request, limits.unwrap_or_default())?;
    let said = notes(stream.notes.take());
    Ok(json!({"stream": STREAMS.add(stream)?, "notes": said}))
}

/// Where a new query starts.
pub fn initial(asked: &Value) -> Result<Value> {
    with(asked, |stream| {
        let position = stream.planner.initial(&stream.notes)?;
        Ok(json!({"position": position.text()}))
    })
}

/// The end of the logs now.
pub fn end(asked: &Value) -> Result<Value> {
    with(asked, |stream| {
        let position = stream.planner.end(&stream.notes)?;
        Ok(json!({"position": position.text()}))
    })
}

/// `{"start", "limit"}`: how far the next batch goes; null as long as it waits for more messages.
pub fn latest(asked: &Value) -> Result<Value> {
    let limit: Option<Asked> = field(asked, "limit")?;
    let start = asked.get("start").filter(|start| !start.is_null());
    with(asked, |stream| {
        let found = stream.latest(start, limit.unwrap_or(Asked::All))?;
        Ok(json!({"position": found.as_ref().map(Position::text)}))
    })
}

/// `{"start", "end"}`: the tasks of a batch.
pub fn splits(asked: &Value) -> Result<Value> {
    let [start, end]: [Value; 2] = [field(asked, "start")?, field(asked, "end")?];
    with(asked, |stream| {
        let tasks = stream.planner.splits(&start, &end, &stream.notes)?;
        Ok(json!({"tasks": tasks}))
    })
}

/// How far the end of the last batch is behind the ends of the logs.
pub fn behind(asked: &Value) -> Result<Value> {
    with(asked, |stream| {
        Ok(json!({"behind": stream.planner.behind()?.summary()}))
    })
}

/// `{"start", "wanted"}`: messages from there on, counted up to `wanted`.
pub fn count(asked: &Value) -> Result<Value> {
    let (start, wanted): (Value, u64) = (field(asked, "start")?, field(asked, "wanted")?);
    with(asked, |stream| {
        let count = stream.planner.count(&start, wanted, &stream.notes)?;
        Ok(json!({"count": count}))
    })
}

/// From here on no batch goes beyond the end of the logs now.
pub fn pin(asked: &Value) -> Result<Value> {
    with(asked, |stream| {
        stream.pin()?;
        Ok(json!({}))
    })
}

/// `{"start"}`: tasks of real-time mode, which wait for more; one for each broker.
pub fn tails(asked: &Value) -> Result<Value> {
    let start: Value = field(asked, "start")?;
    with(asked, |stream| {
        let tails = stream.planner.tails(&start, &stream.notes)?;
        let tasks: Vec<Value> = tails.iter().map(|tail| json!({"tail": tail})).collect();
        Ok(json!({"tasks": tasks}))
    })
}

/// `{"start", "ends"}`: the position that these tasks got to, each as `tail.resume` said it.
pub fn reached(asked: &Value) -> Result<Value> {
    let (start, ends): (Value, Vec<Resume>) = (field(asked, "start")?, field(asked, "ends")?);
    with(asked, |stream| {
        let position = stream.planner.reached(&start, &ends)?;
        Ok(json!({"position": position.text()}))
    })
}

/// Ends it; again does nothing.
pub fn close(asked: &Value) -> Result<Value> {
    STREAMS.remove(field(asked, "stream")?);
    Ok(json!({}))
}

/// Asks an open stream; what it noted meanwhile is in the answer.
fn with(asked: &Value, f: impl FnOnce(&mut Stream) -> Result<Value>) -> Result<Value> {
    let found = STREAMS.get(field(asked, "stream")?)?;
    let mut stream = lock(&found);
    let mut answer = f(&mut stream)?;
    answer["notes"] = notes(stream.notes.take());
    Ok(answer)
}
