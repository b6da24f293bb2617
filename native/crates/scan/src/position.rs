//! The position of a stream, as a checkpoint keeps it.
//!
//! It is one physical offset a broker, so queues and topics that appear later need no rule. Topics that
//! are named are written down beside it: what a query names later is new to it.
//!
//! Spark's source in Python and the reader in the JVM write the same text, so that either continues
//! the other's checkpoints.

use super::error::{Kind, Result, SegmentError};
use super::repr::repr_json;
use super::selection::{Bounds, Selection};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::ser::Formatter;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

const VERSION: u64 = 1;

/// topic -> broker -> queue ids.
pub type Assign = BTreeMap<String, BTreeMap<String, Vec<i32>>>;

/// The position of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// By broker: physical offset of the next record.
    pub log: BTreeMap<String, u64>,
    /// broker -> topic -> queue id -> first queue offset.
    pub starts: BTreeMap<String, Bounds>,
    /// By broker: from here on `starts` says nothing any more.
    pub until: BTreeMap<String, u64>,
    /// The topics that were read up to here, where they are named one by one, sorted; None: not known.
    pub topics: Option<Vec<String>>,
    /// The queues, where they are named.
    pub assign: Option<Assign>,
}

impl Position {
    pub fn at(log: BTreeMap<String, u64>) -> Self {
        Position {
            log,
            ..Position::default()
        }
    }

    /// From what a checkpoint had. CheckpointError if that is none of ours.
    pub fn of(value: &Value) -> Result<Position> {
        let none = || {
            let text = format!("the checkpoint has no position: {}", repr_json(value));
            SegmentError::new(Kind::Checkpoint, text)
        };
        let value = value.as_object().ok_or_else(none)?;
        let version = value.get("version").ok_or_else(none)?;
        if version.as_f64() != Some(VERSION as f64) {
            let text = format!(
                "the checkpoint has version {}, this reads {VERSION}",
                repr_json(version)
            );
            return Err(SegmentError::new(Kind::Checkpoint, text));
        }
        read(value).ok_or_else(none)
    }

    /// As Spark's source in Python writes it into a checkpoint: Spark compares positions as text.
    pub fn text(&self) -> String {
        let mut out = Vec::new();
        let mut serializer = serde_json::Serializer::with_formatter(&mut out, AsPython);
        match self.serialize(&mut serializer) {
            Ok(()) => String::from_utf8_lossy(&out).into_owned(),
            Err(error) => unreachable!("maps of strings and numbers, into memory: {error}"),
        }
    }

    /// The same position moved on; starts that the log has passed are left out.
    #[must_use]
    pub fn moved(&self, to: BTreeMap<String, u64>) -> Position {
        let left = |broker: &String| {
            let until = self.until.get(broker);
            until.is_some_and(|until| to.get(broker).is_none_or(|at| at < until))
        };
        Position {
            starts: filtered(&self.starts, left),
            until: filtered(&self.until, left),
            topics: self.topics.clone(),
            assign: self.assign.clone(),
            log: to,
        }
    }

    /// The same with what the selection names: what is named later is new then.
    #[must_use]
    pub fn of_selection(mut self, selection: &Selection) -> Position {
        self.assign = selection.assign.clone().map(sorted);
        self.topics = match self.assign {
            Some(_) => None,
            None => selection.named_topics().map(|names| {
                let mut names: Vec<String> = names.into_iter().map(str::to_owned).collect();
                names.sort();
                names
            }),
        };
        self
    }

    /// The topics that are named, one by one or with their queues; None: they are not.
    fn named(&self) -> Option<Vec<&str>> {
        match (&self.topics, &self.assign) {
            (Some(topics), _) if !topics.is_empty() => {
                Some(topics.iter().map(String::as_str).collect())
            }
            (_, Some(assign)) => Some(assign.keys().map(String::as_str).collect()),
            _ => None,
        }
    }
}

fn filtered<T: Clone>(
    all: &BTreeMap<String, T>,
    kept: impl Fn(&String) -> bool,
) -> BTreeMap<String, T> {
    let kept = all.iter().filter(|(name, _)| kept(name));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn sorted(mut assign: Assign) -> Assign {
    for queues in assign.values_mut().flat_map(BTreeMap::values_mut) {
        queues.sort_unstable();
    }
    assign
}

fn read(value: &Map<String, Value>) -> Option<Position> {
    let mut out = Position::default();
    if let Some(from) = value.get("from") {
        for (topic, brokers) in from.as_object()? {
            for (broker, queues) in brokers.as_object()? {
                let of_broker = out.starts.entry(broker.clone()).or_default();
                let of_topic = of_broker.entry(topic.clone()).or_default();
                for (queue, offset) in queues.as_object()? {
                    of_topic.insert(queue.parse().ok()?, whole(offset)? as i64);
                }
            }
        }
    }
    out.log = places(value.get("log")?)?;
    if let Some(until) = value.get("until") {
        out.until = places(until)?;
    }
    if let Some(topics) = value.get("topics").filter(|topics| !topics.is_null()) {
        let names = topics
            .as_array()?
            .iter()
            .map(|name| name.as_str().map(str::to_owned));
        let mut names = names.collect::<Option<Vec<String>>>()?;
        names.sort();
        out.topics = Some(names);
    }
    if let Some(assign) = value.get("assign").filter(|assign| !assign.is_null()) {
        out.assign = Some(assigned(assign)?);
    }
    Some(out)
}

fn places(value: &Value) -> Option<BTreeMap<String, u64>> {
    let found = value.as_object()?.iter();
    found
        .map(|(broker, phys)| Some((broker.clone(), whole(phys)?)))
        .collect()
}

fn whole(value: &Value) -> Option<u64> {
    value.as_u64().filter(|&number| number <= i64::MAX as u64)
}

fn assigned(value: &Value) -> Option<Assign> {
    let mut out = Assign::new();
    for (topic, brokers) in value.as_object()? {
        for (broker, queues) in brokers.as_object()? {
            let ids = queues.as_array()?.iter().map(queue_id);
            let ids = ids.collect::<Option<BTreeSet<i32>>>()?;
            if ids.is_empty() {
                return None;
            }
            let of_topic = out.entry(topic.clone()).or_default();
            of_topic.insert(broker.clone(), ids.into_iter().collect());
        }
    }
    (!out.is_empty()).then_some(out)
}

fn queue_id(value: &Value) -> Option<i32> {
    match value {
        Value::String(text) if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        value => i32::try_from(value.as_u64()?).ok(),
    }
}

impl Serialize for Position {
    /// In the order in which Python writes it.
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut from: BTreeMap<&str, BTreeMap<&str, &BTreeMap<i32, i64>>> = BTreeMap::new();
        for (broker, topics) in &self.starts {
            for (topic, queues) in topics {
                from.entry(topic).or_default().insert(broker, queues);
            }
        }
        let mut out = serializer.serialize_map(None)?;
        if !from.is_empty() {
            out.serialize_entry("from", &from)?;
        }
        out.serialize_entry("log", &self.log)?;
        if let Some(topics) = &self.topics {
            out.serialize_entry("topics", topics)?;
        }
        if let Some(assign) = &self.assign {
            out.serialize_entry("assign", assign)?;
        }
        if !self.until.is_empty() {
            out.serialize_entry("until", &self.until)?;
        }
        out.serialize_entry("version", &VERSION)?;
        out.end()
    }
}

/// The form that `json.dumps` has without options.
struct AsPython;

impl Formatter for AsPython {
    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for c in fragment.chars() {
            match c.is_ascii() && c != '\x7f' {
                true => writer.write_all(&[c as u8])?,
                false => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        write!(writer, "\\u{unit:04x}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// What a query selects that it did not up to `low`, and does up to `high`; None: nothing.
pub fn added(selection: &Selection, low: &Position, high: &Position) -> Result<Option<Selection>> {
    let Some(before) = low.named() else {
        return Ok(None);
    };
    if (&low.topics, &low.assign) == (&high.topics, &high.assign) {
        return Ok(None);
    }
    if let (Some(before), Some(now), Some(_)) = (&low.assign, &high.assign, &selection.assign) {
        let more = added_queues(before, now);
        return Ok((!more.is_empty()).then(|| Selection {
            assign: Some(more),
            ..selection.clone()
        }));
    }
    let known: BTreeSet<&str> = before.into_iter().collect();
    let Some(now) = high.named() else {
        return Ok(Some(Selection {
            without: known.into_iter().map(str::to_owned).collect(),
            ..selection.clone()
        }));
    };
    let new: Vec<&str> = now
        .into_iter()
        .filter(|topic| !known.contains(topic))
        .collect();
    of_topics(selection, &new)
}

/// What of a selection belongs to a batch up to `high`; None: nothing. A batch that is run again
/// reads what it read before, also where more is selected meanwhile: the next one reads that.
pub fn within(selection: &Selection, high: &Position) -> Result<Option<Selection>> {
    if let Some(named) = &high.assign {
        let mut kept = Assign::new();
        for (topic, of) in named {
            if selection.selects(topic)? {
                kept.insert(topic.clone(), of.clone());
            }
        }
        if let Some(own) = &selection.assign {
            kept = both(&kept, own);
        }
        return Ok((!kept.is_empty()).then(|| Selection {
            topics: Vec::new(),
            pattern: None,
            assign: Some(kept),
            ..selection.clone()
        }));
    }
    match &high.topics {
        None => Ok(Some(selection.clone())),
        Some(topics) => of_topics(
            selection,
            &topics.iter().map(String::as_str).collect::<Vec<_>>(),
        ),
    }
}

/// The part of a selection that is of these topics.
fn of_topics(selection: &Selection, topics: &[&str]) -> Result<Option<Selection>> {
    let mut kept = Vec::new();
    for &topic in topics {
        if selection.selects(topic)? {
            kept.push(topic.to_owned());
        }
    }
    if kept.is_empty() {
        return Ok(None);
    }
    Ok(Some(match &selection.assign {
        Some(assign) => Selection {
            assign: Some(filtered(assign, |topic| kept.contains(topic))),
            ..selection.clone()
        },
        None => Selection {
            topics: kept,
            pattern: None,
            ..selection.clone()
        },
    }))
}

fn added_queues(before: &Assign, now: &Assign) -> Assign {
    of_queues(now, |topic, broker, queue| {
        !names(before, topic, broker, queue)
    })
}

/// The queues that both name.
fn both(one: &Assign, other: &Assign) -> Assign {
    of_queues(one, |topic, broker, queue| {
        names(other, topic, broker, queue)
    })
}

fn names(assign: &Assign, topic: &str, broker: &str, queue: i32) -> bool {
    let named = assign.get(topic).and_then(|brokers| brokers.get(broker));
    named.is_some_and(|queues| queues.contains(&queue))
}

fn of_queues(all: &Assign, kept: impl Fn(&str, &str, i32) -> bool) -> Assign {
    let mut out = Assign::new();
    for (topic, brokers) in all {
        for (broker, queues) in brokers {
            let queues = queues.iter().copied();
            let queues: Vec<i32> = queues.filter(|&queue| kept(topic, broker, queue)).collect();
            if !queues.is_empty() {
                let of_topic = out.entry(topic.clone()).or_default();
                of_topic.insert(broker.clone(), queues);
            }
        }
    }
    out
}

#[cfg(test)]
#[path = "position_tests.rs"]
mod tests;
