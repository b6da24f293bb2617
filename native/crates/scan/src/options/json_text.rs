//! JSON in options: objects whose keys are there once, and errors that say where a text is wrong.

use crate::once;
use crate::repr;
use serde_json::{Map, Value};

/// Most characters of an option that holds JSON.
const MAX_CHARACTERS: usize = 4 << 20;
/// Characters that are shown in front of a fault and behind it.
const NEAR: usize = 12;

/// A JSON object. An error continues "option NAME".
pub fn object(text: &str) -> Result<Map<String, Value>, String> {
    match parsed(text)? {
        Value::Object(object) => Ok(object),
        _ => Err("must be a JSON object, in braces: {\"name\": ...}".to_owned()),
    }
}

/// Any JSON value.
pub fn parsed(text: &str) -> Result<Value, String> {
    let characters = text.chars().count();
    if characters > MAX_CHARACTERS {
        return Err(format!(
            "has {characters} characters, the most is {MAX_CHARACTERS}"
        ));
    }
    once::parse(text).map_err(|error| told(&error, text))
}

/// `error` is what `once` says: a name, or serde_json's words with a line and a column.
fn told(error: &str, text: &str) -> String {
    if let Some(name) = error.strip_suffix(" is there twice") {
        return format!("has the key {name} twice");
    }
    if error.starts_with("recursion limit") {
        return "is nested too deeply".to_owned();
    }
    let Some((what, place)) = error.rsplit_once(" at line ") else {
        return format!("is not valid JSON: {error}");
    };
    let number = |text: &str| text.parse().unwrap_or(1);
    let (line, column) = place.split_once(" column ").unwrap_or((place, "1"));
    let at = character(text, number(line), number(column));
    let near: String = text
        .chars()
        .skip(at.saturating_sub(NEAR))
        .take(at.min(NEAR) + NEAR)
        .collect();
    format!(
        "is not valid JSON: {what} at character {at}, near {}",
        repr::text(&near)
    )
}

/// The place of a line and its byte, both counted from 1.
fn character(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    let end = before + column.saturating_sub(1);
    text.char_indices().take_while(|(at, _)| *at < end).count()
}
