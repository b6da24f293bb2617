//! Values of options, of the text that Spark hands over.

use super::row::Form;
use super::{body, json_text, times};
use crate::checks::parse_tags;
use crate::error::SegmentError;
use crate::offsets::{parse_assign, parse_offsets};
use crate::pattern::Pattern;

use crate::repr;
use crate::selection::{Assign, Offsets, QueueTimes};
use serde_json::{Map, Value as Json};
use std::collections::BTreeSet;

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Bool(bool),
    Int(i64),
    Text(String),
    Names(Vec<String>),
    /// None: every tag.
    Tags(Option<Vec<String>>),
    Offsets(Offsets),
    Assign(Assign),
    Times(QueueTimes),
    Storage(Map<String, Json>),
    /// A struct type of Spark, as its JSON.
    Schema(Json),
}

/// Why a text is no value.
#[derive(Debug)]
pub enum Wrong {
    /// Continues "option NAME".
    Told(String),
    /// A whole text, which names the parameter.
    Whole(SegmentError),
}

impl From<String> for Wrong {
    fn from(text: String) -> Self {
        Wrong::Told(text)
    }
}

impl From<SegmentError> for Wrong {
    fn from(error: SegmentError) -> Self {
        Wrong::Whole(error)
    }
}

/// `parameter` is the one that the option sets, for errors.
pub fn parse(form: Form, parameter: &'static str, text: &str) -> Result<Value, Wrong> {
    Ok(match form {
        Form::Text => Value::Text(not_empty(text)?),
        Form::AsGiven => Value::Text(text.to_owned()),
        Form::Secret if text.is_empty() => return Err(empty().into()),
        Form::Secret => Value::Text(text.to_owned()),
        Form::Boolean => Value::Bool(boolean(text)?),
        Form::Integer(low, high) => Value::Int(integer(text, low, high)?),
        Form::Size(low, high) => Value::Int(size(text, low, high)?),
        Form::Choice(words) => Value::Text(choice(text, words)?.to_owned()),
        Form::Names => Value::Names(names(text)?),
        Form::Paths => Value::Names(paths(text)?),
        Form::Pattern => Value::Text(pattern(text)?),
        // Errors never quote it, because it may contain secrets.
        Form::Storage => {
            Value::Storage(json_text::object(text).map_err(|_| "must be a JSON object".to_owned())?)
        }
        Form::Group => Value::Text(group(text)?),
        Form::App => Value::Text(app(text)?),
        Form::Tags => Value::Tags(parse_tags(text)?),
        Form::Assign => Value::Assign(parse_assign(text, parameter)?),
        Form::Offsets => Value::Offsets(parse_offsets(text, parameter)?),
        Form::Moment => Value::Int(times::moment(text)?),
        Form::QueueTimes => Value::Times(times::by_queue(text)?),
        Form::Duration => Value::Int(times::duration(text)?),
        Form::Ddl => Value::Schema(body::schema(text)?),
    })
}

fn empty() -> String {
    "is empty".to_owned()
}

fn not_empty(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err(empty()),
        text => Ok(text.to_owned()),
    }
}

/// `true` or `false`, in any case.
fn boolean(text: &str) -> Result<bool, String> {
    match text.trim().to_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("must be true or false, not {}", repr::text(text))),
    }
}

fn integer(text: &str, low: i64, high: i64) -> Result<i64, String> {
    let number = times::whole_number(text.trim())
        .ok_or_else(|| format!("must be a whole number, not {}", repr::text(text)))?;
    match i64::try_from(number) {
        Ok(number) if (low..=high).contains(&number) => Ok(number),
        _ if high == i64::MAX => Err(format!("must be {low} or more, not {number}")),
        _ => Err(format!("must be {low} to {high}, not {number}")),
    }
}

/// Bytes, with k, m, g or t behind the number (1024 each).
fn size(text: &str, low: i64, high: i64) -> Result<i64, String> {
    let wrong = || {
        format!(
            "must be a size such as 67108864, 64m or 1g, not {}",
            repr::text(text)
        )
    };
    let lower = text.trim().to_lowercase();
    let digits = lower.bytes().take_while(u8::is_ascii_digit).count();
    if !(1..=19).contains(&digits) {
        return Err(wrong());
    }
    let unit = lower[digits..].trim_start();
    let shift = match unit.trim_end_matches("ib").trim_end_matches('b') {
        _ if unit.matches('b').count() > 1 => return Err(wrong()),
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wrong()),
    };
    let number = lower[..digits].parse::<u128>().unwrap_or(u128::MAX >> 64) << shift;
    match i64::try_from(number) {
        Ok(number) if (low..=high).contains(&number) => Ok(number),
        _ => Err(format!("must be {low} to {high} bytes, not {number}")),
    }
}

/// One of some words, in any case.
fn choice(text: &str, words: &'static [&'static str]) -> Result<&'static str, String> {
    let word = text.trim().to_lowercase();
    let found = words.iter().find(|known| **known == word).copied();
    found.ok_or_else(|| {
        let (last, rest) = words.split_last().expect("a choice has words");
        format!(
            "must be {} or {last}, not {}",
            rest.join(", "),
            repr::text(text)
        )
    })
}

/// Names separated by commas, none empty, none twice.
fn names(text: &str) -> Result<Vec<String>, String> {
    let out: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    if out.iter().any(String::is_empty) {
        return Err(format!(
            "must be names with commas between them, not {}",
            repr::text(text)
        ));
    }
    let mut seen = BTreeSet::new();
    let twice = out.iter().filter(|name| !seen.insert(*name)).min();
    match twice {
        Some(name) => Err(format!("names {name} twice")),
        None => Ok(out),
    }
}

/// Spark passes `load([a, b])` as a JSON list.
fn paths(text: &str) -> Result<Vec<String>, String> {
    let wrong = || "must be a JSON list of paths: [\"/a\", \"/b\"]".to_owned();
    let Json::Array(found) = json_text::parsed(text)? else {
        return Err(wrong());
    };
    if found.is_empty() {
        return Err(wrong());
    }
    let path = |path: &Json| path.as_str().ok_or_else(wrong).and_then(not_empty);
    found.iter().map(path).collect()
}

fn pattern(text: &str) -> Result<String, String> {
    let Err(error) = Pattern::of(text) else {
        return not_empty(text);
    };
    let told = error.to_string();
    let why = told.split_once("is no regular expression: ");
    let why = why.map_or(told.as_str(), |(_, why)| why);
    Err(format!("is not a regular expression: {why}"))
}

/// Longest name of a program, in bytes: it is a property of every message.
const MAX_APP: usize = 128;

fn app(text: &str) -> Result<String, String> {
    let app = text.trim();
    if (1..=MAX_APP).contains(&app.len()) && !app.chars().any(char::is_control) {
        return Ok(app.to_owned());
    }
    Err(format!(
        "must be a name of 1 to {MAX_APP} bytes without control characters, not {}",
        repr::text(text)
    ))
}

fn group(text: &str) -> Result<String, String> {
    let group = text.trim();
    let allowed = |c: char| c.is_ascii_alphanumeric() || "%|_-".contains(c);
    if (1..=255).contains(&group.len()) && group.chars().all(allowed) {
        return Ok(group.to_owned());
    }
    Err(format!(
        "is no group name: {}; 1 to 255 of the characters %|a-zA-Z0-9_-",
        repr::text(text)
    ))
}
