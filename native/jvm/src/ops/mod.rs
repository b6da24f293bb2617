//! The functions behind `Native.call`, one file each: `{"op": "plan", …}` is answered by `plan`.

mod counts;
mod held;
mod options;
mod plan;
mod stream;
mod tail;
mod topics;
mod version;

use super::failure::{Failure, Result};
use serde_json::Value;

type Op = fn(&Value) -> Result<Value>;

const OPS: &[(&str, Op)] = &[
    ("version", version::answer),
    ("held", held::answer),
    ("options", options::answer),
    ("plan", plan::answer),
    ("counts", counts::answer),
    ("topics", topics::answer),
    ("stream.open", stream::open),
    ("stream.initial", stream::initial),
    ("stream.end", stream::end),
    ("stream.latest", stream::latest),
    ("stream.splits", stream::splits),
    ("stream.behind", stream::behind),
    ("stream.count", stream::count),
    ("stream.pin", stream::pin),
    ("stream.tails", stream::tails),
    ("stream.reached", stream::reached),
    ("stream.close", stream::close),
    ("tail.resume", tail::resume),
];

pub fn answer(request: &Value) -> Result<Value> {
    let name = request.get("op").and_then(Value::as_str).unwrap_or("");
    match OPS.iter().find(|(known, _)| *known == name) {
        Some((_, op)) => op(request),
        None => {
            let known: Vec<&str> = OPS.iter().map(|(known, _)| *known).collect();
            Err(Failure::misuse(format!(
                "there is no op {name:?}; there are {}",
                known.join(", ")
            )))
        }
    }
}
