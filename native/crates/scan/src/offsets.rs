//! Offsets, queues and times by queue, as a read is asked for them.
//!
//! Errors name the parameter of `pyrmq.scan` that a function is called for.

use super::error::{Kind, Part, Result, SegmentError};
use super::repr::{self, shown};
use super::selection::{Assign, Offsets, QueueOffsets};
use serde_json::Value;
use std::collections::BTreeSet;

pub const EARLIEST: i64 = -2;
pub const LATEST: i64 = -1;
/// Characters of JSON that are still read: a million queues take some 20 million.
const MAX_TEXT: usize = 64 << 20;

const OFFSETS_FORM: &str =
    r#"{"topic": {"broker": {"queue id": offset}}}, -2 is earliest, -1 latest"#;
const ASSIGN_FORM: &str = r#"{"topic": {"broker": [queue ids]}}"#;

/// `earliest`, `latest`, or offsets by queue. SegmentOptionError names `parameter`.
pub fn parse_offsets(text: &str, parameter: &'static str) -> Result<Offsets> {
    match text.trim().to_lowercase().as_str() {
        "earliest" => return Ok(Offsets::Earliest),
        "latest" => return Ok(Offsets::Latest),
        _ => {}
    }
    let form = format!("expected earliest, latest, or JSON like {OFFSETS_FORM}");
    let value = parse_json(text, parameter, &form)?;
    Ok(Offsets::Of(check_offsets(&value, parameter)?))
}

/// Offsets by queue from what JSON, or a caller in Python, gave.
pub fn check_offsets(value: &Value, parameter: &'static str) -> Result<QueueOffsets> {
    let form = format!("expected {OFFSETS_FORM}");
    let mut out = QueueOffsets::new();
    for (topic, broker, queues) in levels(value, parameter, &form)? {
        let Some(queues) = queues.as_object() else {
            let what = has(topic, broker, queues);
            return Err(wrong(parameter, &what, &form));
        };
        let of_topic = out.entry(topic.to_owned()).or_default();
        let of_broker = of_topic.entry(broker.to_owned()).or_default();
        for (queue, offset) in queues {
            let Some(number) = offset.as_i64().filter(|&number| number >= EARLIEST) else {
                let what = format!(
                    "{}, {}, queue {}: {} is no offset",
                    repr::text(topic),
                    repr::text(broker),
                    repr::cut(repr::text(queue)),
                    shown(offset)
                );
                return Err(wrong(parameter, &what, &form));
            };
            let queue = queue_id(&Value::String(queue.clone()), parameter, &form)?;
            of_broker.insert(queue, number);
        }
    }
    Ok(out)
}

/// Queues by topic and broker. SegmentOptionError names `parameter`.
pub fn parse_assign(text: &str, parameter: &'static str) -> Result<Assign> {
    let form = format!("expected {ASSIGN_FORM}");
    check_assign(&parse_json(text, parameter, &form)?, parameter)
}

/// As `parse_assign`, of what JSON gave.
pub fn check_assign(value: &Value, parameter: &'static str) -> Result<Assign> {
    let form = format!("expected {ASSIGN_FORM}");
    let mut out = Assign::new();
    for (topic, broker, queues) in levels(value, parameter, &form)? {
        let Some(named) = queues.as_array().filter(|named| !named.is_empty()) else {
            let what = has(topic, broker, queues);
            return Err(wrong(parameter, &what, &form));
        };
        let ids = named.iter().map(|queue| queue_id(queue, parameter, &form));
        let ids = ids.collect::<Result<BTreeSet<i32>>>()?;
        let of_topic = out.entry(topic.to_owned()).or_default();
        of_topic.insert(broker.to_owned(), ids.into_iter().collect());
    }
    match out.is_empty() {
        true => Err(wrong(parameter, "it names no queue", &form)),
        false => Ok(out),
    }
}

/// JSON whose objects have each name once: others would silently keep the last.
pub fn parse_json(text: &str, parameter: &'static str, form: &str) -> Result<Value> {
    if text.len() > MAX_TEXT {
        let count = text.chars().count();
        if count > MAX_TEXT {
            return Err(wrong(
                parameter,
                &format!("it has {count} characters"),
                form,
            ));
        }
    }
    super::once::parse(text).map_err(|why| {
        let what = format!("{} does not parse: {why}", repr::cut(repr::text(text)));
        wrong(parameter, &what, form)
    })
}

/// (topic, broker, what it has) of the two upper levels.
fn levels<'a>(
    value: &'a Value,
    parameter: &'static str,
    form: &str,
) -> Result<Vec<(&'a str, &'a str, &'a Value)>> {
    let Some(topics) = value.as_object() else {
        let what = format!("{} is no object", shown(value));
        return Err(wrong(parameter, &what, form));
    };
    let mut out = Vec::new();
    for (topic, brokers) in topics {
        let Some(of_topic) = brokers.as_object() else {
            let topic = repr::cut(repr::text(topic));
            let what = format!("{topic} has {}", shown(brokers));
            return Err(wrong(parameter, &what, form));
        };
        let of_topic = of_topic.iter();
        out.extend(of_topic.map(|(broker, queues)| (topic.as_str(), broker.as_str(), queues)));
    }
    Ok(out)
}

fn has(topic: &str, broker: &str, queues: &Value) -> String {
    let (topic, broker) = (repr::text(topic), repr::text(broker));
    format!("{topic} of {broker} has {}", shown(queues))
}

fn queue_id(value: &Value, parameter: &'static str, form: &str) -> Result<i32> {
    let number = match value {
        Value::String(text) => {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            (digits && text.len() <= 10)
                .then(|| text.parse().ok())
                .flatten()
        }
        value => value.as_i64(),
    };
    let id = number.and_then(|number| i32::try_from(number).ok());
    id.filter(|&id| id >= 0).ok_or_else(|| {
        let what = match number {
            Some(number) => format!("{number} is no queue id"),
            None => format!("{} is no queue id", shown(value)),
        };
        wrong(parameter, &what, form)
    })
}

pub fn wrong(parameter: &'static str, what: &str, form: &str) -> SegmentError {
    let text = [Part::Name(parameter), format!(": {what}").into()];
    SegmentError::new(Kind::Option, text).hint(form)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn text(error: SegmentError) -> String {
        let hint = error.hint.unwrap_or_default();
        let hint = SegmentError::rendered(&hint, |name, _| name.to_owned());
        let text = SegmentError::rendered(&error.text, |name, _| format!("<{name}>"));
        format!("{text} ({hint})")
    }

    #[test]
    fn offsets_by_queue() {
        let read = |text| parse_offsets(text, "starting_offsets");
        assert_eq!(read(" Earliest ").unwrap(), Offsets::Earliest);
        assert_eq!(read("latest").unwrap(), Offsets::Latest);
        let found = read(r#"{"T": {"b": {"0": 5, "1": -2}}}"#).unwrap();
        let queues = BTreeMap::from([(0, 5), (1, -2)]);
        let brokers = BTreeMap::from([("b".to_owned(), queues)]);
        let expected = BTreeMap::from([("T".to_owned(), brokers)]);
        assert_eq!(found, Offsets::Of(expected));
    }

    #[test]
    fn what_is_no_offset_is_named() {
        let form = format!("expected {OFFSETS_FORM}");
        for (given, what) in [
            (r#"[1]"#, "[1] is no object"),
            (r#"{"T": 3}"#, "'T' has 3"),
            (r#"{"T": {"b": [1]}}"#, "'T' of 'b' has [1]"),
            (
                r#"{"T": {"b": {"0": -3}}}"#,
                "'T', 'b', queue '0': -3 is no offset",
            ),
            (
                r#"{"T": {"b": {"0": true}}}"#,
                "'T', 'b', queue '0': True is no offset",
            ),
            (
                r#"{"T": {"b": {"0": 9223372036854775808}}}"#,
                "'T', 'b', queue '0': 9223372036854775808 is no offset",
            ),
            (r#"{"T": {"b": {"-1": 3}}}"#, "'-1' is no queue id"),
            (
                r#"{"T": {"b": {"2147483648": 3}}}"#,
                "2147483648 is no queue id",
            ),
        ] {
            let error = parse_offsets(given, "ending_offsets").unwrap_err();
            assert_eq!(error.kind, Kind::Option);
            assert_eq!(text(error), format!("<ending_offsets>: {what} ({form})"));
        }
        let error = text(parse_offsets(r#"{"T": 1, "T": 2}"#, "a").unwrap_err());
        assert!(
            error.contains("does not parse: 'T' is there twice"),
            "{error}"
        );
        let deep = "[".repeat(100_000);
        assert!(parse_offsets(&deep, "a").is_err());
    }

    #[test]
    fn queues_by_broker() {
        let found = parse_assign(r#"{"T": {"b": [2, "1", 2]}}"#, "assign").unwrap();
        assert_eq!(found["T"]["b"], [1, 2]);
        for (given, what) in [
            ("{}", "it names no queue"),
            (r#"{"T": {"b": []}}"#, "'T' of 'b' has []"),
            (r#"{"T": {"b": [1.5]}}"#, "1.5 is no queue id"),
        ] {
            let error = text(parse_assign(given, "assign").unwrap_err());
            assert_eq!(error, format!("<assign>: {what} (expected {ASSIGN_FORM})"));
        }
    }
}
