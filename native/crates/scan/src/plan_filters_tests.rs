//! Plans with filters, read, and compared with the rows for which the filters hold.

use crate::made::{Made, Row, make};
use crate::plan::{Planned, plan};
use crate::queues::tests::{puts, way};
use crate::read::TaskReader;
use crate::{Filters, LocalPlaces, Notes, ReadOptions, Request, Selection};
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Topic, queue, queue offset and physical offset.
pub type Id = (String, i32, i64, u64);

pub fn id(row: &Row) -> Id {
    (row.topic.to_owned(), row.queue, row.offset, row.phys)
}

pub fn request(made: &Made, selection: Selection, plan: &str) -> Request {
    let columns = ["topic", "queueId", "queueOffset", "commitLogOffset"];
    Request {
        paths: vec![made.store.root.clone()],
        broker_names: vec!["b".to_owned()],
        selection,
        how: ReadOptions {
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            ..ReadOptions::default()
        },
        plan: plan.to_owned(),
        ..Request::default()
    }
}

/// The rows of each task.
pub fn read(planned: &Planned) -> Vec<Vec<Id>> {
    let mut out = Vec::new();
    for task in &planned.tasks {
        let text = serde_json::to_string(task).unwrap();
        let task = serde_json::from_str(&text).unwrap();
        let mut reader = TaskReader::open(task, &LocalPlaces).unwrap();
        let mut rows = Vec::new();
        while let Some(batch) = reader.next().unwrap() {
            let topics = batch.column(0).as_string::<i32>();
            let queues = batch.column(1).as_primitive::<Int32Type>();
            let offsets = batch.column(2).as_primitive::<Int64Type>();
            let places = batch.column(3).as_primitive::<Int64Type>();
            rows.extend((0..topics.len()).map(|row| {
                let topic = topics.value(row).to_owned();
                (
                    topic,
                    queues.value(row),
                    offsets.value(row),
                    places.value(row) as u64,
                )
            }));
        }
        out.push(rows);
    }
    out
}

pub fn holds(filters: &Filters, row: &Row) -> bool {
    let within = |range: Option<(i64, i64)>, n: i64| {
        range.is_none_or(|(from, before)| from <= n && n < before)
    };
    let among = |set: &Option<BTreeSet<Option<String>>>, value: Option<&str>| {
        set.as_ref()
            .is_none_or(|set| set.contains(&value.map(str::to_owned)))
    };
    filters
        .topics
        .as_ref()
        .is_none_or(|set| set.contains(row.topic))
        && filters.brokers.as_ref().is_none_or(|set| set.contains("b"))
        && filters
            .queues
            .as_ref()
            .is_none_or(|set| set.contains(&row.queue))
        && within(filters.queue_ids, i64::from(row.queue))
        && within(filters.queue_offsets, row.offset)
        && within(filters.commit_log_offsets, row.phys as i64)
        && within(filters.store_times, row.time)
        && within(filters.born_times, row.time - 1)
        && among(&filters.tags, row.tag)
        && among(&filters.keys, row.key)
}

/// Mostly no condition, so that those that are there meet some rows.
fn some<S: Strategy>(strategy: S) -> impl Strategy<Value = Option<S::Value>> {
    prop::option::weighted(0.25, strategy)
}

fn texts(of: &[&'static str], least: usize) -> impl Strategy<Value = BTreeSet<String>> + use<> {
    let all: Vec<String> = of.iter().map(|text| (*text).to_owned()).collect();
    let most = all.len();
    prop::sample::subsequence(all, least..=most).prop_map(|some| some.into_iter().collect())
}

fn columns(of: &[&'static str]) -> impl Strategy<Value = BTreeSet<Option<String>>> + use<> {
    (texts(of, 0), any::<bool>()).prop_map(|(texts, null)| {
        let texts = texts.into_iter().map(Some);
        texts.chain(null.then_some(None)).collect()
    })
}

fn range(low: i64, high: i64) -> impl Strategy<Value = (i64, i64)> {
    (low..high, low..high).prop_map(|(a, b)| (a.min(b), a.max(b)))
}

pub fn filters() -> impl Strategy<Value = Filters> {
    (
        some(texts(&["A", "B", "none"], 0)),
        some(texts(&["b", "c"], 0)),
        (
            some(prop::collection::btree_set(0..4i32, 0..3)),
            some(range(-1, 5)),
        ),
        some(range(-1, 60)),
        some(range(-1, 20_000)),
        some(range(900, 2300)),
        some(range(900, 2300)),
        some(columns(&["a", "b", "Aa", "zz"])),
        some(columns(&["k", "k x", "y", " "])),
        some(0u64..9),
    )
        .prop_map(|parts| Filters {
            topics: parts.0,
            brokers: parts.1,
            queues: parts.2.0,
            queue_ids: parts.2.1,
            queue_offsets: parts.3,
            commit_log_offsets: parts.4,
            store_times: parts.5,
            born_times: parts.6,
            tags: parts.7,
            keys: parts.8,
            limit: parts.9,
        })
}

proptest! {
    #[test]
    fn rows_are_those_for_which_the_filters_hold(
        puts in puts(), way in way(), filters in filters(), mode in "auto|scan|index|file",
        topics in prop::option::of(Just(vec!["A".to_owned()])),
    ) {
        let made = make(&puts, &way);
        let has_topic = made.rows.iter().any(|row| row.topic == "A");
        let selection = Selection {
            topics: topics.filter(|_| has_topic).unwrap_or_default(),
            filters: filters.clone(),
            ..Selection::default()
        };
        let mut expected: Vec<Id> = made
            .rows
            .iter()
            .filter(|row| selection.selects(row.topic).unwrap() && holds(&filters, row))
            .map(id)
            .collect();
        let notes = Notes::default();
        let planned = plan(&request(&made, selection, &mode), &LocalPlaces, &notes).unwrap();
        let found = read(&planned);
        let mut rows: Vec<Id> = found.iter().flatten().cloned().collect();
        rows.sort();
        expected.sort();
        if let Some(limit) = filters.limit {
            prop_assert!(found.iter().all(|rows| rows.len() as u64 <= limit));
            prop_assert!(rows.iter().all(|row| expected.contains(row)));
            prop_assert!(rows.len() as u64 >= limit.min(expected.len() as u64));
        } else {
            prop_assert_eq!(&rows, &expected);
        }
        if let Some(most) = planned.rows {
            prop_assert!(rows.len() as u64 <= most);
        }
    }
}
