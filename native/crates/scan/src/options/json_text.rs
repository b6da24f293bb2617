//! JSON in options: objects whose keys are there once, and errors that say where a text is wrong.

use crate::repr;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Value};
use std::fmt;

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
    serde_json::from_str::<Once>(text)
        .map(|once| once.0)
        .map_err(|error| told(&error, text))
}

fn told(error: &serde_json::Error, text: &str) -> String {
    let whole = error.to_string();
    let what = whole
        .rfind(" at line ")
        .map_or(whole.as_str(), |at| &whole[..at]);
    if error.classify() == Category::Data {
        return what.to_owned();
    }
    if what.starts_with("recursion limit") {
        return "is nested too deeply".to_owned();
    }
    let at = place(text, error.line(), error.column());
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

/// The character of a line and its byte, both counted from 1, as serde_json has them.
fn place(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    let end = before + column.saturating_sub(1);
    text.char_indices().take_while(|(at, _)| *at < end).count()
}

/// A value whose objects have no key twice; JSON itself would keep the last.
struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values).map(Once)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        while let Some(Once(item)) = items.next_element()? {
            out.push(item);
        }
        Ok(Value::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some((key, Once(value))) = members.next_entry::<String, Once>()? {
            if out.contains_key(&key) {
                let text = format!("has the key {} twice", repr::text(&key));
                return Err(de::Error::custom(text));
            }
            out.insert(key, value);
        }
        Ok(Value::Object(out))
    }
}
