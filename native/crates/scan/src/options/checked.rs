//! The options of one query, checked against the table.

use super::hints;
use super::row::{Query, Row};
use super::table;
use super::values::{self, Value, Wrong};
use crate::error::{Kind, Result, SegmentError};
use crate::offsets::{EARLIEST, LATEST};
use crate::selection::Offsets;
use std::collections::{BTreeMap, BTreeSet};

/// Values by name, defaults filled in.
#[derive(Clone, Debug)]
pub struct Checked {
    /// None while Spark does not say what the query will be.
    pub query: Option<Query>,
    /// Of all options that this query takes; None: not set and without a default.
    pub values: BTreeMap<&'static str, Option<Value>>,
    /// Options that the user gave.
    pub given: BTreeSet<&'static str>,
}

/// An error of ours about options.
pub(super) fn wrong(text: impl Into<String>) -> SegmentError {
    SegmentError::new(Kind::Config, text.into())
}

/// Errors name the option and the allowed values.
///
/// `query`: None while Spark does not say what the query will be (it asks for the schema first). Then
/// names and values are checked, but not the rules of one kind of query.
pub fn check(given: &[(String, String)], query: Option<Query>) -> Result<Checked> {
    check_cases(given)?;
    let mut out = Checked {
        query,
        values: BTreeMap::new(),
        given: BTreeSet::new(),
    };
    for (key, text) in given {
        if is_sparks_own(key, query) {
            continue;
        }
        let row = table::row(key).ok_or_else(|| wrong(hints::unknown(key, query)))?;
        if !row.is_for(query) {
            return Err(misplaced(row, query));
        }
        out.given.insert(row.name);
        out.values.insert(row.name, Some(parse(row, text)?));
    }
    out.check_groups()?;
    out.add_defaults()?;
    out.check_ends()?;
    out.check_pace()?;
    out.check_body()?;
    out.check_txn()?;
    if let Some(Value::Bool(headers)) = out.value("includeHeaders") {
        let form = if *headers { "map" } else { "none" };
        let form = Value::Text(form.to_owned());
        out.values.insert("properties", Some(form));
    }
    Ok(out)
}

/// The value of a text for one option. An error continues "option NAME", or is a whole text.
pub fn value_of(row: &'static Row, text: &str) -> std::result::Result<Value, Wrong> {
    values::parse(row.form, row.parameter.unwrap_or(row.name), text)
}

fn parse(row: &'static Row, text: &str) -> Result<Value> {
    value_of(row, text).map_err(|error| match error {
        Wrong::Told(told) => wrong(format!("option {} {told}", row.name)),
        Wrong::Whole(error) => error,
    })
}

/// Refuses an option that is there twice, in different case or as `location`, and with other values.
/// Spark itself keeps the last one of them, so only what comes past it can be checked.
pub fn check_cases(given: &[(String, String)]) -> Result<()> {
    let mut seen: BTreeMap<String, (&str, &str)> = BTreeMap::new();
    for (key, text) in given {
        let (first, before) = *seen.entry(table::plain(key)).or_insert((key, text));
        if before != text {
            return Err(wrong(format!(
                "option {first} is given twice, once as {key} and with another value: both names \
                 mean the same; leave one out"
            )));
        }
    }
    Ok(())
}

/// Keys that Spark itself puts among the options of a query.
fn is_sparks_own(key: &str, query: Option<Query>) -> bool {
    let key = key.to_lowercase();
    query == Some(Query::WriteStream)
        && ["checkpointlocation", "queryname", "path"].contains(&key.as_str())
}

fn misplaced(row: &Row, query: Option<Query>) -> SegmentError {
    let mut places: Vec<&str> = row.queries.all().map(Query::text).collect();
    places.sort_unstable();
    let kind = query.map_or("this format", Query::text);
    wrong(format!(
        "option {} does not belong to {kind}; it is for {}",
        row.name,
        places.join(" and ")
    ))
}

impl Checked {
    /// The value of an option; None where it has none.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name)?.as_ref()
    }

    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(name)
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        match self.value(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub fn int(&self, name: &str) -> Option<i64> {
        match self.value(name) {
            Some(Value::Int(number)) => Some(*number),
            _ => None,
        }
    }

    /// A number that cannot be negative.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.int(name).and_then(|number| u64::try_from(number).ok())
    }

    pub fn is_true(&self, name: &str) -> bool {
        self.value(name) == Some(&Value::Bool(true))
    }

    pub fn names(&self, name: &str) -> Option<&[String]> {
        match self.value(name) {
            Some(Value::Names(names)) => Some(names),
            _ => None,
        }
    }

    fn check_groups(&self) -> Result<()> {
        for (_, group) in table::groups() {
            let both: Vec<&str> = group
                .iter()
                .copied()
                .filter(|name| self.is_given(name))
                .collect();
            if both.len() > 1 {
                return Err(wrong(format!(
                    "options {} exclude each other: give one of {}",
                    both.join(" and "),
                    group.join(", ")
                )));
            }
        }
        Ok(())
    }

    fn add_defaults(&mut self) -> Result<()> {
        for row in table::rows() {
            if self.is_given(row.name) {
                continue;
            }
            if let Some(query) = self.query.filter(|query| row.required.has(*query)) {
                return Err(wrong(format!(
                    "{} needs option {}: {}",
                    query.text(),
                    row.name,
                    row.doc
                )));
            }
            if row.is_for(self.query) {
                let default = row.default_for(self.query);
                let value = default.map(|text| parse(row, text)).transpose()?;
                self.values.insert(row.name, value);
            }
        }
        Ok(())
    }

    fn check_ends(&self) -> Result<()> {
        if !self.query.is_some_and(Query::is_batch_read) {
            return Ok(());
        }
        if let Some(Value::Offsets(starts)) = self.value("startingOffsets")
            && (*starts == Offsets::Latest || names_offset(starts, LATEST))
        {
            return Err(wrong(
                "option startingOffsets cannot be latest (-1) in a batch read: nothing would be \
                 read; give earliest or offsets",
            ));
        }
        if let Some(Value::Offsets(ends)) = self.value("endingOffsets")
            && (*ends == Offsets::Earliest || names_offset(ends, EARLIEST))
        {
            return Err(wrong(
                "option endingOffsets cannot be earliest (-2): give latest or offsets",
            ));
        }
        Ok(())
    }

    fn check_pace(&self) -> Result<()> {
        let streams = self.query.is_some_and(Query::is_stream_read);
        let limit = |name| self.int(name).filter(|_| streams);
        let (least, most) = (limit("minOffsetsPerTrigger"), limit("maxOffsetsPerTrigger"));
        if let (Some(least), Some(most)) = (least, most)
            && least > most
        {
            return Err(wrong(format!(
                "option minOffsetsPerTrigger is {least}, but maxOffsetsPerTrigger {most}: a \
                 micro-batch cannot have both"
            )));
        }
        if self.is_given("maxTriggerDelay") && least.is_none() && self.query.is_some() {
            return Err(wrong(
                "option maxTriggerDelay bounds how long minOffsetsPerTrigger waits: give that too",
            ));
        }
        Ok(())
    }

    fn check_body(&self) -> Result<()> {
        let is_json = self.text("body") == Some("json");
        if is_json && !self.is_given("bodySchema") {
            return Err(wrong(
                "option body=json needs option bodySchema: the columns of the JSON objects, such as \
                 'id BIGINT, name STRING'",
            ));
        }
        if !is_json && self.is_given("bodySchema") {
            return Err(wrong(
                "option bodySchema says what is in bodies of JSON: give body=json too",
            ));
        }
        Ok(())
    }

    fn check_txn(&self) -> Result<()> {
        let (app, version) = (self.is_given("txnAppId"), self.is_given("txnVersion"));
        if app == version {
            return Ok(());
        }
        let (there, missing) = match app {
            true => ("txnAppId", "txnVersion"),
            false => ("txnVersion", "txnAppId"),
        };
        Err(wrong(format!(
            "option {there} needs option {missing}: the name of the program and the number of its \
             write make a write idempotent together"
        )))
    }
}

/// Whether an offset stands anywhere in offsets by queue.
fn names_offset(offsets: &Offsets, wanted: i64) -> bool {
    let Offsets::Of(offsets) = offsets else {
        return false;
    };
    let queues = offsets.values().flat_map(BTreeMap::values);
    let mut each = queues.flat_map(BTreeMap::values);
    each.any(|offset| *offset == wanted)
}
