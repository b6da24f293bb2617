//! Offsets and queues by topic and broker, and tags: until `offsets` has them.

use super::json_text;
use crate::error::{Kind, Part, Result, SegmentError};
use crate::repr;
use crate::selection::{Offsets, QueueOffsets};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

pub type Assign = BTreeMap<String, BTreeMap<String, Vec<i32>>>;

const OFFSETS_FORM: &str =
    "{\"topic\": {\"broker\": {\"queue id\": offset}}}, -2 is earliest, -1 latest";
const ASSIGN_FORM: &str = "{\"topic\": {\"broker\": [queue ids]}}";
const MAX_TAGS: usize = 1000;

pub fn parse_offsets(text: &str, parameter: &'static str) -> Result<Offsets> {
    match text.trim().to_lowercase().as_str() {
        "earliest" => return Ok(Offsets::Earliest),
        "latest" => return Ok(Offsets::Latest),
        _ => (),
    }
    let form = format!("expected earliest, latest, or JSON like {OFFSETS_FORM}");
    let value = json(text, parameter, &form)?;
    let form = format!("expected {OFFSETS_FORM}");
    let mut out = QueueOffsets::new();
    for (topic, broker, queues) in levels(&value, parameter, &form)? {
        let Value::Object(queues) = queues else {
            let told = format!(
                "{} of {} has {}",
                repr::text(topic),
                repr::text(broker),
                repr::shown(queues)
            );
            return Err(wrong(parameter, &told, &form));
        };
        let of_broker = out
            .entry(topic.clone())
            .or_default()
            .entry(broker.clone())
            .or_default();
        for (queue, offset) in queues {
            let Some(number) = offset.as_i64().filter(|number| *number >= -2) else {
                let told = format!(
                    "{}, {}, queue {}: {} is no offset",
                    repr::text(topic),
                    repr::text(broker),
                    repr::text(queue),
                    repr::shown(offset)
                );
                return Err(wrong(parameter, &told, &form));
            };
            of_broker.insert(
                queue_id(&Value::from(queue.as_str()), parameter, &form)?,
                number,
            );
        }
    }
    Ok(Offsets::Of(out))
}

pub fn parse_assign(text: &str, parameter: &'static str) -> Result<Assign> {
    let form = format!("expected {ASSIGN_FORM}");
    let value = json(text, parameter, &form)?;
    let mut out = Assign::new();
    for (topic, broker, queues) in levels(&value, parameter, &form)? {
        let queues = match queues {
            Value::Array(queues) if !queues.is_empty() => queues,
            other => {
                let told = format!(
                    "{} of {} has {}",
                    repr::text(topic),
                    repr::text(broker),
                    repr::shown(other)
                );
                return Err(wrong(parameter, &told, &form));
            }
        };
        let ids: Result<Vec<i32>> = queues
            .iter()
            .map(|queue| queue_id(queue, parameter, &form))
            .collect();
        let mut ids = ids?;
        ids.sort_unstable();
        ids.dedup();
        out.entry(topic.clone())
            .or_default()
            .insert(broker.clone(), ids);
    }
    if out.is_empty() {
        return Err(wrong(parameter, "it names no queue", &form));
    }
    Ok(out)
}

pub fn parse_tags(expression: &str) -> Result<Option<Vec<String>>> {
    let text = expression.trim();
    if text == "*" {
        return Ok(None);
    }
    let hint = "expected * or tags joined by two bars, like A || B";
    let mut tags: Vec<String> = Vec::new();
    for tag in text.split("||").map(str::trim) {
        if !tags.iter().any(|known| known == tag) {
            tags.push(tag.to_owned());
        }
    }
    if tags.iter().any(String::is_empty) {
        return Err(wrong(
            "tags",
            &format!("{} has an empty tag", repr::text(expression)),
            hint,
        ));
    }
    if tags.len() > MAX_TAGS {
        return Err(wrong(
            "tags",
            &format!("there are more than {MAX_TAGS}"),
            hint,
        ));
    }
    let odd = |c: char| c.is_whitespace() || "|=<>'*".contains(c);
    if let Some(tag) = tags.iter().find(|tag| tag.contains(odd)) {
        let hint =
            format!("{hint}; SQL92 expressions are not supported: filter the rows that are read");
        return Err(wrong(
            "tags",
            &format!("{} is no tag", repr::text(tag)),
            &hint,
        ));
    }
    Ok(Some(tags))
}

fn json(text: &str, parameter: &'static str, form: &str) -> Result<Value> {
    json_text::parsed(text).map_err(|error| {
        let told = format!("{} does not parse: it {error}", repr::cut(repr::text(text)));
        wrong(parameter, &told, form)
    })
}

fn levels<'a>(
    value: &'a Value,
    parameter: &'static str,
    form: &str,
) -> Result<Vec<(&'a String, &'a String, &'a Value)>> {
    let Value::Object(topics) = value else {
        return Err(wrong(
            parameter,
            &format!("{} is no object", repr::shown(value)),
            form,
        ));
    };
    let mut out = Vec::new();
    for (topic, brokers) in topics {
        let Value::Object(brokers) = brokers else {
            let told = format!("{} has {}", repr::text(topic), repr::shown(brokers));
            return Err(wrong(parameter, &told, form));
        };
        out.extend(members(brokers).map(|(broker, queues)| (topic, broker, queues)));
    }
    Ok(out)
}

fn members(object: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    object.iter()
}

fn queue_id(value: &Value, parameter: &'static str, form: &str) -> Result<i32> {
    let number = match value {
        Value::String(text) if text.len() <= 10 && text.bytes().all(|b| b.is_ascii_digit()) => {
            text.parse().ok()
        }
        Value::Number(number) => number.as_i64(),
        _ => None,
    };
    let id = number
        .and_then(|number| i32::try_from(number).ok())
        .filter(|id| *id >= 0);
    id.ok_or_else(|| {
        wrong(
            parameter,
            &format!("{} is no queue id", repr::shown(value)),
            form,
        )
    })
}

fn wrong(parameter: &'static str, text: &str, form: &str) -> SegmentError {
    SegmentError::new(
        Kind::Option,
        [Part::Name(parameter), format!(": {text}").into()],
    )
    .hint(form)
}
