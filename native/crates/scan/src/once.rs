//! JSON whose objects have each name once.

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// What a text says; a name that is there twice is an error.
pub fn parse(text: &str) -> Result<Value, String> {
    let mut from = serde_json::Deserializer::from_str(text);
    let value = Once.deserialize(&mut from).and_then(|value| {
        from.end()?;
        Ok(value)
    });
    value.map_err(|error| {
        let text = error.to_string();
        match text.split_once(TWICE) {
            Some((name, _)) => format!("{name}{TWICE}"),
            None => text,
        }
    })
}

const TWICE: &str = " is there twice";

struct Once;

impl<'de> DeserializeSeed<'de> for Once {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Once {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        while let Some(value) = all.next_element_seed(Once)? {
            out.push(value);
        }
        Ok(Value::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(name) = all.next_key::<String>()? {
            if out.contains_key(&name) {
                let name = super::repr::text(&name);
                return Err(A::Error::custom(format!("{name}{TWICE}")));
            }
            let value = all.next_value_seed(Once)?;
            out.insert(name, value);
        }
        Ok(Value::Object(out))
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn each_name_once() {
        let text = r#"{"a": [1, -2, 1.5, null, true, {"a": "b"}]}"#;
        assert_eq!(
            parse(text).unwrap().to_string(),
            text.replace(": ", ":").replace(", ", ",")
        );
        assert_eq!(
            parse(r#"[{"a": 1, "a": 2}]"#).unwrap_err(),
            "'a' is there twice"
        );
        assert!(parse("[1] 2").is_err());
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
