//! `topics`: the topics of the stores of a path, for a catalog of SQL; those of the broker itself apart.

use crate::answers::{field, notes};
use crate::failure::Result;
use pyrmq_scan::{LocalPlaces, Notes, is_reserved, open_stores};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// `known` is false where a log alone is given, which has no list of topics.
pub fn answer(request: &Value) -> Result<Value> {
    let path: String = field(request, "path")?;
    let said = Notes::default();
    let mut known = false;
    let mut all = BTreeSet::new();
    for store in open_stores(&[path], &[], &LocalPlaces, &said)? {
        if let Some(topics) = store.topics(&said)? {
            known = true;
            all.extend(topics);
        }
    }
    let (system, topics): (Vec<_>, Vec<_>) = all.into_iter().partition(|name| is_reserved(name));
    let notes = notes(said.take());
    Ok(json!({"known": known, "topics": topics, "system": system, "notes": notes}))
}
