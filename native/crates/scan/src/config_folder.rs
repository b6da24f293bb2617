//! What the config folder of a store says: its topics, and its broker's name. [ConfigManager]
//!
//! Our broker writes brokerName.json. RocketMQ has no file for it, but registers topics for its own
//! name at every start, which stay in topics.json [TopicConfigManager]: since 5.0 one that is the
//! name behind a prefix, in all versions one that is the name. That of the cluster's name has 16
//! queues.

use super::notes::Notes;
use super::path::join;
use super::place::{Place, Shape};
use super::repr::is_printable;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

const SHOWN: usize = 3;
/// Bytes of a file that are still read: a topics.json of 40,000 topics has some 10 MB.
const MAX_JSON: u64 = 64 << 20;
const NAME_FILE: &str = "brokerName.json";
/// Of topics for the brokers of one name, which know themselves who is the master.
const MEMBER_TOPIC_PREFIX: &str = "rmq_sys_SYNC_BROKER_MEMBER_";
const AUTO_CREATE_TOPIC: &str = "TBW102";
/// Of `perm`: topics that are made by it inherit its queues.
const PERM_INHERIT: i64 = 1;
/// Queues of a topic that is created without a number.
const DEFAULT_QUEUES: i64 = 16;
const MAX_QUEUES: i64 = 65_536;
/// Characters of a broker's name.
const MAX_NAME: usize = 255;

/// Topics of topics.json; None if it cannot be read.
pub fn topics(place: &dyn Place, config: &str, notes: &Notes) -> Option<BTreeSet<String>> {
    Some(
        table(place, config, notes)?
            .into_iter()
            .map(|(k, _)| k)
            .collect(),
    )
}

/// By topic how many queues topics.json says that it has; None if it cannot be read.
pub fn queue_counts(
    place: &dyn Place,
    config: &str,
    notes: &Notes,
) -> Option<BTreeMap<String, i32>> {
    let rows = table(place, config, notes)?.into_iter();
    let count = |(name, row): (String, Value)| {
        let row = row.as_object()?;
        let of = |key: &str| number(row.get(key));
        let most = of("readQueueNums").max(of("writeQueueNums"));
        Some((name, most.clamp(0, MAX_QUEUES) as i32))
    };
    Some(rows.filter_map(count).collect())
}

/// A number, also one that is written as a text.
fn number(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::Number(n)) => match (n.as_i64(), n.as_u64()) {
            (Some(n), _) => n,
            (None, Some(_)) => i64::MAX,
            _ => DEFAULT_QUEUES,
        },
        Some(Value::String(text)) => text.trim().parse().unwrap_or(DEFAULT_QUEUES),
        _ => DEFAULT_QUEUES,
    }
}

/// The broker name that the config folder of the store folder `base` tells; None where it tells
/// none. `root` is the store's name in messages.
pub fn told_name(place: &dyn Place, base: &str, root: &str, notes: &Notes) -> Option<String> {
    if base.is_empty() {
        notes.info(format!(
            "{root}: there is no config folder: its folder names the broker"
        ));
        return None;
    }
    let config = join(base, "config");
    let own = json(place, &join(&config, NAME_FILE), notes);
    let table = table(place, &config, notes).unwrap_or_default();
    let mut names = told(own.as_ref(), &table);
    if names.len() == 1 {
        let name = names.pop_first();
        notes.info(format!(
            "{root}: its config folder says that its broker is {}",
            name.as_deref().unwrap_or_default()
        ));
        return name;
    }
    if names.is_empty() {
        notes.info(format!(
            "{root}: its config folder names no broker: its folder does"
        ));
    } else {
        let shown: Vec<_> = names.iter().take(SHOWN).map(String::as_str).collect();
        let more = if names.len() > SHOWN { ", …" } else { "" };
        notes.warn(format!(
            "{root}: config/topics.json names several brokers, {}{more}: its folder names the broker",
            shown.join(", ")
        ));
    }
    None
}

/// The names that a store may have by the contents of brokerName.json and of the table of
/// topics.json. One is certain.
///
/// A broker that topics.json has and brokerName.json does not know came later: RocketMQ's own has
/// opened the store since.
fn told(own: Option<&Value>, table: &Map<String, Value>) -> BTreeSet<String> {
    let name = own.and_then(|own| own.get("brokerName")?.as_str());
    let Some(name) = name.filter(|name| is_valid(name)) else {
        return names_in_topics(table);
    };
    let others = own.and_then(|own| own.get("others")?.as_array());
    let known = |other: &str| {
        let mut others = others.into_iter().flatten();
        other == name || others.any(|one| one.as_str() == Some(other))
    };
    let later: BTreeSet<_> = members(table).into_iter().filter(|m| !known(m)).collect();
    match later.is_empty() {
        true => BTreeSet::from([name.to_owned()]),
        false => later,
    }
}

/// The broker names that a topicConfigTable tells; several where a broker was renamed.
fn names_in_topics(table: &Map<String, Value>) -> BTreeSet<String> {
    let members = members(table);
    if !members.is_empty() {
        return members;
    }
    let plain = table.iter().filter(|(topic, row)| is_of_broker(topic, row));
    let names = plain.map(|(topic, _)| topic.clone());
    names.filter(|topic| is_valid(topic)).collect()
}

/// Whether only a broker makes such a topic, for its name: inherited, with one queue.
fn is_of_broker(topic: &str, row: &Value) -> bool {
    let of = |key: &str| row.get(key).and_then(Value::as_i64);
    topic != AUTO_CREATE_TOPIC
        && of("perm").is_some_and(|perm| perm & PERM_INHERIT != 0)
        && of("readQueueNums") == Some(1)
        && of("writeQueueNums") == Some(1)
}

fn members(table: &Map<String, Value>) -> BTreeSet<String> {
    let names = table
        .keys()
        .filter_map(|k| k.strip_prefix(MEMBER_TOPIC_PREFIX));
    names.filter(|n| is_valid(n)).map(str::to_owned).collect()
}

/// Whether RocketMQ's broker may have such a name: by default it is that of the host.
fn is_valid(name: &str) -> bool {
    let is_fit = |c: char| c != ' ' && c != '/' && is_printable(c);
    !name.is_empty() && name.chars().all(is_fit) && name.chars().count() <= MAX_NAME
}

fn table(place: &dyn Place, config: &str, notes: &Notes) -> Option<Map<String, Value>> {
    match json(place, &join(config, "topics.json"), notes)? {
        Value::Object(mut found) => match found.remove("topicConfigTable") {
            Some(Value::Object(table)) => Some(table),
            _ => None,
        },
        _ => None,
    }
}

/// A file, or its `.bak` where it is not there, as while a broker replaces it; None if neither can
/// be read.
fn json(place: &dyn Place, path: &str, notes: &Notes) -> Option<Value> {
    for one in [path.to_owned(), format!("{path}.bak")] {
        match read_json(place, &one) {
            Ok(Some(found)) => return Some(found),
            Ok(None) => {}
            Err(why) => notes.warn(format!("{one} cannot be read: {why}")),
        }
    }
    None
}

fn read_json(place: &dyn Place, path: &str) -> Result<Option<Value>, String> {
    let fail = |error: super::SegmentError| error.to_string();
    if place.shape(path).map_err(fail)? != Shape::File {
        return Ok(None);
    }
    let size = place.size(path).map_err(fail)?;
    if size > MAX_JSON {
        return Ok(None);
    }
    let bytes = place.head(path, 0, size as usize).map_err(fail)?;
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    serde_json::from_slice(text)
        .map(Some)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(own: Value, topics: Value) -> Vec<String> {
        let own = (!own.is_null()).then_some(own);
        let table = topics.as_object().unwrap();
        told(own.as_ref(), table).into_iter().collect()
    }

    fn of_broker() -> Value {
        json!({"perm": 7, "readQueueNums": 1, "writeQueueNums": 1})
    }

    #[test]
    fn names_that_the_files_tell() {
        assert_eq!(names(json!({"brokerName": "a"}), json!({})), ["a"]);
        let row = of_broker();
        assert_eq!(names(Value::Null, json!({"b": row, "TBW102": row})), ["b"]);
        let members = json!({"rmq_sys_SYNC_BROKER_MEMBER_c": {}, "b": row});
        assert_eq!(names(Value::Null, members.clone()), ["c"]);
        // A broker that the file does not know has opened the store since.
        assert_eq!(names(json!({"brokerName": "a"}), members.clone()), ["c"]);
        assert_eq!(
            names(json!({"brokerName": "a", "others": ["c"]}), members),
            ["a"]
        );
        assert_eq!(names(json!({"brokerName": "a b"}), json!({})), [""; 0]);
        assert_eq!(names(Value::Null, json!({"b": row, "d": row})), ["b", "d"]);
    }

    #[test]
    fn a_table_as_brokers_write_it_or_not() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().to_str().unwrap().to_owned();
        let place = super::super::place::LOCAL;
        let notes = Notes::default();
        assert_eq!(topics(&place, &config, &notes), None);
        assert_eq!(notes.take(), []);
        std::fs::write(dir.path().join("topics.json"), "{").unwrap();
        let table = json!({"topicConfigTable": {
            "a": {"readQueueNums": 8, "writeQueueNums": "9"},
            "b": {"readQueueNums": -5, "writeQueueNums": -5},
            "c": {"readQueueNums": 1e300, "writeQueueNums": 900_000_000_000_u64},
            "d": 3}});
        std::fs::write(dir.path().join("topics.json.bak"), table.to_string()).unwrap();
        let found = topics(&place, &config, &notes).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert_eq!(notes.take().len(), 1); // of the file that is no JSON
        let counts: Vec<_> = queue_counts(&place, &config, &notes)
            .unwrap()
            .into_iter()
            .collect();
        let expected = [("a", 9), ("b", 0), ("c", 65_536)];
        assert_eq!(
            counts,
            expected.map(|(name, count)| (name.to_owned(), count))
        );
    }
}
