//! The functions behind `Native.call`, one file each: `{"op": "plan", …}` is answered by `plan`.

mod held;
mod plan;
mod version;

use super::failure::{Failure, Result};
use pyrmq_scan::{Level, Notes};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

type Op = fn(&Value) -> Result<Value>;

const OPS: &[(&str, Op)] = &[
    ("version", version::answer),
    ("held", held::answer),
    ("plan", plan::answer),
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

/// A field of a request that has to be there.
fn field<T: DeserializeOwned>(request: &Value, name: &str) -> Result<T> {
    let value = request.get(name).unwrap_or(&Value::Null);
    T::deserialize(value)
        .map_err(|error| Failure::misuse(format!("the field {name} of a request: {error}")))
}

/// `[[level, text], …]` of all that was noted since the last call.
pub fn notes(notes: &Notes) -> Value {
    let all = notes.take().into_iter().map(|(level, text)| {
        let level = match level {
            Level::Info => "info",
            Level::Warning => "warning",
        };
        json!([level, text])
    });
    Value::Array(all.collect())
}
