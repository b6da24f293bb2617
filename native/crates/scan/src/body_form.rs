//! The form of the column `body` as a request says it: nothing for bytes, `"utf8"`, or
//! `{"json": schema}` with a struct type in the JSON in which Spark keeps its types.

use super::error::{Kind, Part, Result, SegmentError};
use pyrmq_arrow::{BodyForm, JsonField, JsonType, MAX_DEPTH, MAX_FIELDS};
use serde_json::Value;

const TYPES: &str = "boolean, byte, short, integer, long, float, double, decimal(p,s), string, binary, \
                     date, timestamp, timestamp_ntz, array, map and struct";

/// The form, checked. SegmentError names `body`.
pub fn of(body: Option<&Value>) -> Result<BodyForm> {
    match body {
        None | Some(Value::Null) => Ok(BodyForm::Binary),
        Some(Value::String(word)) if word == "binary" => Ok(BodyForm::Binary),
        Some(Value::String(word)) if word == "utf8" => Ok(BodyForm::Utf8),
        Some(Value::Object(named)) if named.len() == 1 && named.contains_key("json") => {
            match type_of(&named["json"], 0, &mut 0)? {
                JsonType::Struct(fields) | JsonType::Closed(fields) => Ok(BodyForm::Json(fields)),
                _ => Err(wrong("the schema of JSON bodies is a struct")),
            }
        }
        Some(_) => Err(wrong("expected utf8, or json with a schema")),
    }
}

/// The type of bodies that fit it or are left out, of the same JSON and besides: the type `json`,
/// which is any value as it is written; `nullable: false` of a field that is required; `closed: true`
/// of a struct without other fields.
pub fn strict(schema: &Value) -> Result<JsonType> {
    match type_of(schema, 0, &mut 0)? {
        found @ (JsonType::Struct(_) | JsonType::Closed(_)) => Ok(found),
        _ => Err(wrong("the schema of JSON bodies is a struct")),
    }
}

fn wrong(why: impl Into<String>) -> SegmentError {
    let why: String = why.into();
    SegmentError::new(
        Kind::Option,
        [Part::Name("body"), format!(": {why}").into()],
    )
}

fn type_of(schema: &Value, depth: usize, fields: &mut usize) -> Result<JsonType> {
    if depth > MAX_DEPTH {
        return Err(wrong(format!("types are more than {MAX_DEPTH} deep")));
    }
    let inner = |name: &str, fields: &mut usize| type_of(&schema[name], depth + 1, fields);
    match schema {
        Value::String(name) => named(name),
        Value::Object(_) => match schema["type"].as_str() {
            Some("array") => Ok(JsonType::List(Box::new(inner("elementType", fields)?))),
            Some("map") if schema["keyType"] == "string" => {
                Ok(JsonType::Map(Box::new(inner("valueType", fields)?)))
            }
            Some("map") => Err(wrong("names of a map are strings in JSON")),
            Some("struct") => {
                let found = struct_of(&schema["fields"], depth, fields)?;
                Ok(match schema["closed"] == true {
                    true => JsonType::Closed(found),
                    false => JsonType::Struct(found),
                })
            }
            _ => Err(unknown(schema)),
        },
        _ => Err(unknown(schema)),
    }
}

fn struct_of(named: &Value, depth: usize, fields: &mut usize) -> Result<Vec<JsonField>> {
    let Some(named) = named.as_array().filter(|named| !named.is_empty()) else {
        return Err(wrong("a struct has no field"));
    };
    *fields += named.len();
    if *fields > MAX_FIELDS {
        return Err(wrong(format!("there are more than {MAX_FIELDS} fields")));
    }
    let mut out: Vec<JsonField> = Vec::with_capacity(named.len());
    let mut seen = std::collections::BTreeSet::new();
    for field in named {
        let Some(name) = field["name"].as_str() else {
            return Err(wrong("a field has no name"));
        };
        if !seen.insert(name) {
            return Err(wrong(format!("there are two fields {name}")));
        }
        out.push(JsonField {
            name: name.to_owned(),
            kind: type_of(&field["type"], depth + 1, fields)?,
            required: field["nullable"] == false,
        });
    }
    Ok(out)
}

fn named(name: &str) -> Result<JsonType> {
    Ok(match name {
        "boolean" => JsonType::Boolean,
        "byte" => JsonType::Byte,
        "short" => JsonType::Short,
        "integer" => JsonType::Int,
        "long" => JsonType::Long,
        "float" => JsonType::Float,
        "double" => JsonType::Double,
        "string" => JsonType::Text,
        "json" => JsonType::Written,
        "binary" => JsonType::Bytes,
        "date" => JsonType::Date,
        "timestamp" => JsonType::Timestamp,
        "timestamp_ntz" => JsonType::LocalTimestamp,
        "decimal" => JsonType::Decimal(10, 0),
        _ => {
            let inside = name
                .strip_prefix("decimal(")
                .and_then(|rest| rest.strip_suffix(')'));
            let pair = inside.and_then(|inside| inside.split_once(','));
            let parsed = pair.and_then(|(digits, scale)| {
                Some((
                    digits.trim().parse::<u8>().ok()?,
                    scale.trim().parse::<u8>().ok()?,
                ))
            });
            match parsed {
                Some((digits, scale)) if (1..=38).contains(&digits) && scale <= digits => {
                    JsonType::Decimal(digits, scale)
                }
                _ => return Err(unknown(&Value::String(name.to_owned()))),
            }
        }
    })
}

fn unknown(schema: &Value) -> SegmentError {
    let shown: String = schema.to_string().chars().take(100).collect();
    wrong(format!(
        "there is no type {shown} in JSON bodies; the types are {TYPES}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn json_form(kind: Value) -> Result<BodyForm> {
        of(Some(&json!({"json": {"type": "struct", "fields": [
            {"name": "a", "type": kind, "nullable": true, "metadata": {}}
        ]}})))
    }

    #[test]
    fn forms_and_types() {
        assert_eq!(of(None).unwrap(), BodyForm::Binary);
        assert_eq!(of(Some(&json!("utf8"))).unwrap(), BodyForm::Utf8);
        let list = json!({"type": "array", "elementType": "decimal(5,2)", "containsNull": true});
        let BodyForm::Json(fields) = json_form(list).unwrap() else {
            panic!("it is JSON");
        };
        assert_eq!(fields[0].name, "a");
        assert_eq!(
            fields[0].kind,
            JsonType::List(Box::new(JsonType::Decimal(5, 2)))
        );
    }

    #[test]
    fn what_is_none_is_an_error_that_names_it() {
        let mut deep = json!("long");
        for _ in 0..60 {
            deep = json!({"type": "array", "elementType": deep});
        }
        for (kind, said) in [
            (json!("interval"), "there is no type \"interval\""),
            (json!("decimal(39,0)"), "decimal(39,0)"),
            (
                json!({"type": "map", "keyType": "long", "valueType": "long"}),
                "names of a map",
            ),
            (json!({"type": "struct", "fields": []}), "no field"),
            (json!(7), "there is no type 7"),
            (deep, "more than 32 deep"),
        ] {
            let text = json_form(kind).unwrap_err().to_string();
            assert!(text.starts_with("body: ") && text.contains(said), "{text}");
        }
        assert!(of(Some(&json!("utf16"))).is_err());
        assert!(of(Some(&json!({"json": "long"}))).is_err());
    }
}
