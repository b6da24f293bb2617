//! Parts of requests and answers that several ops have.

use super::failure::{Failure, Result};
use pyrmq_scan::Level;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A field of a request that has to be there.
pub fn field<T: DeserializeOwned>(request: &Value, name: &str) -> Result<T> {
    let value = request.get(name).unwrap_or(&Value::Null);
    T::deserialize(value)
        .map_err(|error| Failure::misuse(format!("the field {name} of a request: {error}")))
}

/// `[[level, text], …]`
pub fn notes(all: Vec<(Level, String)>) -> Value {
    let all = all.into_iter().map(|(level, text)| {
        let level = match level {
            Level::Info => "info",
            Level::Warning => "warning",
        };
        json!([level, text])
    });
    Value::Array(all.collect())
}
