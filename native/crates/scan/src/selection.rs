//! Which messages are asked for: topics, queues, offsets, times, tags, key; and what Spark adds by
//! WHERE.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// topic -> broker -> queue ids.
pub type Assign = BTreeMap<String, BTreeMap<String, Vec<i32>>>;
/// topic -> broker -> queue id -> queue offset; -2 is earliest, -1 latest.
pub type QueueOffsets = BTreeMap<String, BTreeMap<String, BTreeMap<i32, i64>>>;
/// The same with times in ms; for all queues of a topic or broker: see `at_times`.
pub type QueueTimes = serde_json::Value;
/// topic -> queue id -> queue offset, of one broker.
pub type Bounds = BTreeMap<String, BTreeMap<i32, i64>>;

/// The queue that stands for every queue that is not named.
pub const ANY_QUEUE: i32 = -1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Offsets {
    Earliest,
    Latest,
    #[serde(untagged)]
    Of(QueueOffsets),
}

impl<'de> Deserialize<'de> for Offsets {
    /// A word, or offsets by queue. Serde itself takes no numbers as names of a map in such a choice.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(from)?;
        match value.as_str() {
            Some("earliest") => Ok(Offsets::Earliest),
            Some("latest") => Ok(Offsets::Latest),
            _ => serde_json::from_value(value)
                .map(Offsets::Of)
                .map_err(D::Error::custom),
        }
    }
}

/// Which messages to read, by the parameters of `pyrmq.scan`; its JSON has their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Selection {
    /// At most one of topics, pattern and assign; none of them: all topics of users.
    pub topics: Vec<String>,
    pub pattern: Option<String>,
    /// topic -> broker -> queue ids.
    pub assign: Option<Assign>,
    /// Queue ids of every chosen topic; empty: all.
    pub queues: Vec<i32>,
    pub include_system_topics: bool,
    pub tags: Option<Vec<String>>,
    pub key: Option<String>,
    pub starting_offsets: Offsets,
    pub ending_offsets: Offsets,
    /// Store time in ms, from this on.
    pub start_time: Option<i64>,
    /// Store time in ms, before this.
    pub end_time: Option<i64>,
    pub starting_times: Option<QueueTimes>,
    pub ending_times: Option<QueueTimes>,
    /// If a starting time is later than all messages: `error`, or `latest`.
    pub timestamp_strategy: String,
    /// Topics that are left out.
    pub without: BTreeSet<String>,
    /// What Spark's WHERE adds; it never makes an error of a name that is not there.
    pub filters: Filters,
}

impl Default for Selection {
    fn default() -> Self {
        Selection {
            topics: Vec::new(),
            pattern: None,
            assign: None,
            queues: Vec::new(),
            include_system_topics: false,
            tags: None,
            key: None,
            starting_offsets: Offsets::Earliest,
            ending_offsets: Offsets::Latest,
            start_time: None,
            end_time: None,
            starting_times: None,
            ending_times: None,
            timestamp_strategy: "error".to_owned(),
            without: BTreeSet::new(),
            filters: Filters::default(),
        }
    }
}

/// Conditions that all have to hold; each is compared exactly. None: no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filters {
    pub topics: Option<BTreeSet<String>>,
    pub brokers: Option<BTreeSet<String>>,
    pub queues: Option<BTreeSet<i32>>,
    /// Ranges are from and before.
    pub queue_ids: Option<(i64, i64)>,
    pub queue_offsets: Option<(i64, i64)>,
    pub commit_log_offsets: Option<(i64, i64)>,
    /// ms.
    pub store_times: Option<(i64, i64)>,
    pub born_times: Option<(i64, i64)>,
    /// The column as a whole is one of these; None among them: IS NULL.
    pub tags: Option<BTreeSet<Option<String>>>,
    pub keys: Option<BTreeSet<Option<String>>>,
    /// At most so many rows of each task.
    pub limit: Option<u64>,
}

/// What one broker's reader asks about each topic, once; travels with tasks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    pub selection: Selection,
    /// Of `assign`: the queues of a topic; topics that are not in it are not read.
    pub queues: Option<BTreeMap<String, Vec<i32>>>,
    pub starts: Bounds,
    pub ends: Bounds,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_travels_as_json() {
        let queues = BTreeMap::from([(0, 5), (7, -2)]);
        let brokers = BTreeMap::from([("b".to_owned(), queues)]);
        let selection = Selection {
            starting_offsets: Offsets::Of(BTreeMap::from([("T".to_owned(), brokers)])),
            tags: Some(vec!["a".to_owned()]),
            filters: Filters {
                tags: Some(BTreeSet::from([None, Some("x".to_owned())])),
                ..Filters::default()
            },
            ..Selection::default()
        };
        let rule = Rule {
            selection,
            starts: BTreeMap::from([("T".to_owned(), BTreeMap::from([(3, 4)]))]),
            ..Rule::default()
        };
        let text = serde_json::to_string(&rule).unwrap();
        assert_eq!(serde_json::from_str::<Rule>(&text).unwrap(), rule);
    }

    #[test]
    fn other_offsets_are_refused() {
        for text in [r#""first""#, "3", r#"{"T": {"b": {"x": 1}}}"#] {
            assert!(serde_json::from_str::<Offsets>(text).is_err(), "{text}");
        }
        assert_eq!(
            serde_json::from_str::<Offsets>(r#""latest""#).unwrap(),
            Offsets::Latest
        );
    }
}
