//! What a selection and options of reading may say by themselves.

use super::error::{Kind, Part, Result, SegmentError};
use super::near::close_matches;
use super::offsets::EARLIEST;
use super::pattern::Pattern;
use super::read_options::ReadOptions;
use super::repr;
use super::selection::{Offsets, Selection};
use pyrmq_arrow::ALL;
use std::collections::BTreeSet;

pub const MAX_TAGS: usize = 1000;
/// ms.
const MAX_TIME: i64 = 1 << 53;
/// Characters of a topic's name.
const MAX_TOPIC: usize = 255;
const MAX_ROWS: u64 = 10_000_000;
/// Of a batch: string and binary columns have 32-bit places, and a batch may pass by one record.
const MAX_BYTES: u64 = 1 << 30;
const MIN_SPLIT: u64 = 1 << 10;
const PLANS: [&str; 4] = ["auto", "scan", "index", "file"];
const STRATEGIES: [&str; 2] = ["error", "latest"];
const PROPERTIES: [&str; 4] = ["map", "json", "raw", "none"];
const VERIFY_CRC: [&str; 3] = ["none", "tail", "all"];

pub(crate) fn option(text: impl Into<Vec<Part>>) -> SegmentError {
    SegmentError::new(Kind::Option, text.into())
}

fn of(name: &'static str, text: String) -> SegmentError {
    option([Part::Name(name), text.into()])
}

fn both(first: &'static str, second: &'static str, text: &str) -> SegmentError {
    option([
        Part::Name(first),
        " and ".into(),
        Part::Name(second),
        text.into(),
    ])
    .hint("give one of them")
}

/// The topics of a comma list.
pub fn parse_topics(text: &str) -> Result<Vec<String>> {
    let topics = unique(text.split(','));
    match topics.iter().any(String::is_empty) {
        true => {
            let what = format!(": {} names an empty topic", repr::text(text));
            Err(of("topics", what).hint("expected A,B"))
        }
        false => Ok(topics),
    }
}

/// The tags of an expression: `*` is None, all; else tags joined by two bars.
pub fn parse_tags(expression: &str) -> Result<Option<Vec<String>>> {
    const HINT: &str = "expected * or tags joined by two bars, like A || B";
    let text = expression.trim();
    if text == "*" {
        return Ok(None);
    }
    let tags = unique(text.split("||"));
    if tags.iter().any(String::is_empty) {
        let what = format!(": {} has an empty tag", repr::text(expression));
        return Err(of("tags", what).hint(HINT));
    }
    if tags.len() > MAX_TAGS {
        return Err(of("tags", format!(": there are more than {MAX_TAGS}")).hint(HINT));
    }
    let is_sign = |c: char| c.is_whitespace() || "|=<>'*".contains(c);
    if let Some(tag) = tags.iter().find(|tag| tag.contains(is_sign)) {
        let what = format!(": {} is no tag", repr::text(tag));
        return Err(of("tags", what).hint(format!(
            "{HINT}; SQL92 expressions are not supported: filter the rows that are read"
        )));
    }
    Ok(Some(tags))
}

/// Parts without blanks around them, each once.
fn unique<'a>(parts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let parts = parts.map(str::trim).filter(|part| seen.insert(*part));
    parts.map(str::to_owned).collect()
}

impl Selection {
    /// SegmentOptionError for parameters that are wrong, or contradict each other.
    pub fn check(&self) -> Result<()> {
        self.check_topics()?;
        if !self.queues.is_empty() && self.assign.is_some() {
            return Err(both("queues", "assign", " both name queues"));
        }
        if self.queues.iter().any(|&queue| queue < 0) {
            let shown: Vec<_> = self.queues.iter().map(i32::to_string).collect();
            let comma = if shown.len() == 1 { "," } else { "" };
            let what = format!(": ({}{comma}) are no queue ids", shown.join(", "));
            return Err(of("queues", what));
        }
        let tags = self.tags.as_deref();
        if tags.is_some_and(|tags| tags.is_empty() || tags.iter().any(String::is_empty)) {
            return Err(of("tags", ": a tag is empty".to_owned()).hint("expected * or A || B"));
        }
        if self.key.as_deref().is_some_and(|key| key.trim().is_empty()) {
            return Err(
                of("key", " is empty".to_owned()).hint("give a word of KEYS, or a UNIQ_KEY")
            );
        }
        self.check_range()
    }

    fn check_topics(&self) -> Result<()> {
        let given = [
            ("topics", !self.topics.is_empty()),
            ("pattern", self.pattern.is_some()),
            ("assign", self.assign.is_some()),
        ];
        let names: Vec<_> = given.iter().filter(|one| one.1).map(|one| one.0).collect();
        if let [first, second, ..] = names[..] {
            return Err(both(first, second, " are given"));
        }
        if let Some(pattern) = &self.pattern {
            Pattern::of(pattern)?;
        }
        if let Some(assign) = &self.assign {
            let value = serde_json::to_value(assign).expect("maps of texts and numbers");
            super::offsets::check_assign(&value, "assign")?;
        }
        let is_name = |topic: &&str| !topic.is_empty() && topic.chars().count() <= MAX_TOPIC;
        let named = self.named_topics().unwrap_or_default();
        match named.iter().find(|topic| !is_name(topic)) {
            Some(topic) => {
                let shown: String = topic.chars().take(64).collect();
                let what = format!(": {} is no topic name", repr::text(&shown));
                Err(of("topics", what))
            }
            None => Ok(()),
        }
    }

    fn check_range(&self) -> Result<()> {
        for (name, offsets) in [
            ("starting_offsets", &self.starting_offsets),
            ("ending_offsets", &self.ending_offsets),
        ] {
            if let Offsets::Of(named) = offsets {
                let value = serde_json::to_value(named).expect("maps of texts and numbers");
                super::offsets::check_offsets(&value, name)?;
            }
        }
        if self.ending_offsets == Offsets::Earliest || self.ending_offsets.names(EARLIEST) {
            let error = of("ending_offsets", ": earliest is no end".to_owned());
            return Err(error.hint("expected latest (-1) or an offset"));
        }
        for (name, time) in [("start_time", self.start_time), ("end_time", self.end_time)] {
            if let Some(time) = time.filter(|time| !(0..=MAX_TIME).contains(time)) {
                return Err(of(name, format!(": {time} is no time"))
                    .hint("expected milliseconds since 1970"));
            }
        }
        if let (Some(start), Some(end)) = (self.start_time, self.end_time)
            && end < start
        {
            return Err(option([
                Part::Name("end_time"),
                format!(" {end} is before ").into(),
                Part::Name("start_time"),
                format!(" {start}").into(),
            ]));
        }
        if !STRATEGIES.contains(&self.timestamp_strategy.as_str()) {
            let what = format!(": {}", repr::text(&self.timestamp_strategy));
            return Err(of("timestamp_strategy", what)
                .hint(format!("expected {}", STRATEGIES.join(" or "))));
        }
        Ok(())
    }
}

impl Offsets {
    /// Whether an offset, EARLIEST or LATEST say, stands anywhere in offsets by queue.
    pub fn names(&self, wanted: i64) -> bool {
        let Offsets::Of(topics) = self else {
            return false;
        };
        let queues = topics.values().flat_map(|brokers| brokers.values());
        queues
            .flat_map(|queues| queues.values())
            .any(|&offset| offset == wanted)
    }
}

impl ReadOptions {
    /// SegmentOptionError for a wrong value.
    pub fn check(&self) -> Result<()> {
        for (name, value, allowed) in [
            ("properties", &self.properties, &PROPERTIES[..]),
            ("verify_crc", &self.verify_crc, &VERIFY_CRC[..]),
        ] {
            if !allowed.contains(&value.as_str()) {
                let (last, others) = allowed.split_last().expect("there are some");
                return Err(of(name, format!(": {}", repr::text(value)))
                    .hint(format!("expected {} or {last}", others.join(", "))));
            }
        }
        for (name, number, limit) in [
            ("batch_rows", self.batch_rows, MAX_ROWS),
            ("batch_bytes", self.batch_bytes, MAX_BYTES),
        ] {
            if !(1..=limit).contains(&number) {
                return Err(of(name, format!(": {number}")).hint(format!("expected 1 to {limit}")));
            }
        }
        let known: Vec<&str> = ALL.iter().map(|column| column.name()).collect();
        let mut seen = BTreeSet::new();
        let mut twice = false;
        for column in &self.columns {
            if !known.contains(&column.as_str()) {
                let near = close_matches(column, known.iter().copied(), 1, 0.5);
                let guess = match near.first() {
                    Some(near) => format!("did you mean {near}? "),
                    None => String::new(),
                };
                let what = format!(": there is no column {}", repr::text(column));
                return Err(
                    of("columns", what).hint(format!("{guess}there are {}", known.join(", ")))
                );
            }
            twice |= !seen.insert(column);
        }
        if twice {
            return Err(of("columns", " names a column twice".to_owned()));
        }
        if self.properties == "none" && self.columns.iter().any(|c| c == "properties") {
            return Err(option([
                Part::Value("properties", "none"),
                ", but ".into(),
                Part::Name("columns"),
                " names properties".into(),
            ])
            .hint("leave out one of them"));
        }
        Ok(())
    }
}

/// SegmentOptionError for a wrong value.
pub fn check_plan_options(split_bytes: u64, min_partitions: Option<u64>, plan: &str) -> Result<()> {
    if !PLANS.contains(&plan) {
        return Err(of("plan", format!(": {}", repr::text(plan)))
            .hint(format!("expected {}", PLANS.join(", "))));
    }
    if split_bytes < MIN_SPLIT {
        return Err(of("split_bytes", format!(": {split_bytes}"))
            .hint(format!("expected at least {MIN_SPLIT}")));
    }
    if min_partitions == Some(0) {
        return Err(of("min_partitions", ": 0".to_owned()).hint("expected at least 1"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(error: SegmentError) -> String {
        assert_eq!(error.kind, Kind::Option);
        let show = |name: &str, value: Option<&str>| match value {
            Some(value) => format!("<{name}={value}>"),
            None => format!("<{name}>"),
        };
        let text = SegmentError::rendered(&error.text, show);
        match error.hint {
            Some(hint) => format!("{text} ({})", SegmentError::rendered(&hint, show)),
            None => text,
        }
    }

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|&text| text.to_owned()).collect()
    }

    #[test]
    fn topics_and_tags() {
        assert_eq!(parse_topics("b, a,b").unwrap(), ["b", "a"]);
        let error = shown(parse_topics("a,,b").unwrap_err());
        assert_eq!(
            error,
            "<topics>: 'a,,b' names an empty topic (expected A,B)"
        );
        assert_eq!(parse_tags(" * ").unwrap(), None);
        assert_eq!(parse_tags("A || B||A").unwrap(), Some(texts(&["A", "B"])));
        let hint = "expected * or tags joined by two bars, like A || B";
        let error = shown(parse_tags("A ||").unwrap_err());
        assert_eq!(error, format!("<tags>: 'A ||' has an empty tag ({hint})"));
        let error = shown(parse_tags("a = 1").unwrap_err());
        assert!(error.starts_with("<tags>: 'a = 1' is no tag ("), "{error}");
        let many: Vec<_> = (0..=MAX_TAGS).map(|n| n.to_string()).collect();
        assert!(parse_tags(&many[1..].join("||")).is_ok());
        assert!(parse_tags(&many.join("||")).is_err());
    }

    #[test]
    fn selections_that_contradict_themselves() {
        let assign = || super::super::offsets::parse_assign(r#"{"T":{"b":[0]}}"#, "assign").ok();
        let plain = Selection::default;
        let named = texts(&["T"]);
        for (selection, text) in [
            (
                Selection {
                    topics: named.clone(),
                    pattern: Some("x".to_owned()),
                    ..plain()
                },
                "<topics> and <pattern> are given (give one of them)",
            ),
            (
                Selection {
                    queues: vec![1],
                    assign: assign(),
                    ..plain()
                },
                "<queues> and <assign> both name queues (give one of them)",
            ),
            (
                Selection {
                    queues: vec![-1],
                    ..plain()
                },
                "<queues>: (-1,) are no queue ids",
            ),
            (
                Selection {
                    tags: Some(vec![]),
                    ..plain()
                },
                "<tags>: a tag is empty (expected * or A || B)",
            ),
            (
                Selection {
                    key: Some(" ".to_owned()),
                    ..plain()
                },
                "<key> is empty (give a word of KEYS, or a UNIQ_KEY)",
            ),
            (
                Selection {
                    topics: texts(&[""]),
                    ..plain()
                },
                "<topics>: '' is no topic name",
            ),
            (
                Selection {
                    ending_offsets: Offsets::Earliest,
                    ..plain()
                },
                "<ending_offsets>: earliest is no end (expected latest (-1) or an offset)",
            ),
            (
                Selection {
                    start_time: Some(-1),
                    ..plain()
                },
                "<start_time>: -1 is no time (expected milliseconds since 1970)",
            ),
            (
                Selection {
                    start_time: Some(5),
                    end_time: Some(4),
                    ..plain()
                },
                "<end_time> 4 is before <start_time> 5",
            ),
            (
                Selection {
                    timestamp_strategy: "x".to_owned(),
                    ..plain()
                },
                "<timestamp_strategy>: 'x' (expected error or latest)",
            ),
        ] {
            assert_eq!(shown(selection.check().unwrap_err()), text);
        }
        Selection {
            topics: named,
            ..plain()
        }
        .check()
        .unwrap();
    }

    #[test]
    fn options_of_reading() {
        let plain = ReadOptions::default;
        plain().check().unwrap();
        for (how, text) in [
            (
                ReadOptions {
                    properties: "xml".to_owned(),
                    ..plain()
                },
                "<properties>: 'xml' (expected map, json, raw or none)",
            ),
            (
                ReadOptions {
                    batch_rows: 0,
                    ..plain()
                },
                "<batch_rows>: 0 (expected 1 to 10000000)",
            ),
            (
                ReadOptions {
                    columns: texts(&["topic", "topic"]),
                    ..plain()
                },
                "<columns> names a column twice",
            ),
            (
                ReadOptions {
                    columns: texts(&["properties"]),
                    properties: "none".to_owned(),
                    ..plain()
                },
                "<properties=none>, but <columns> names properties (leave out one of them)",
            ),
        ] {
            assert_eq!(shown(how.check().unwrap_err()), text);
        }
        let how = ReadOptions {
            columns: texts(&["queueid"]),
            ..plain()
        };
        let error = shown(how.check().unwrap_err());
        let start =
            "<columns>: there is no column 'queueid' (did you mean queueId? there are topic, ";
        assert!(error.starts_with(start), "{error}");
    }

    #[test]
    fn options_of_planning() {
        check_plan_options(1024, None, "auto").unwrap();
        let wrong = |split, most, plan| shown(check_plan_options(split, most, plan).unwrap_err());
        assert_eq!(
            wrong(1 << 20, None, "fast"),
            "<plan>: 'fast' (expected auto, scan, index, file)"
        );
        assert_eq!(
            wrong(9, None, "scan"),
            "<split_bytes>: 9 (expected at least 1024)"
        );
        assert_eq!(
            wrong(1024, Some(0), "scan"),
            "<min_partitions>: 0 (expected at least 1)"
        );
    }
}
