//! Plans, and what their tasks read, compared with the rows of made stores.

use super::*;
use crate::bounds::Limits;
use crate::error::{Kind, SegmentError};
use crate::made::{LOG_FILE, Made, Put, Row, Way, make};
use crate::read::TaskReader;
use crate::selection::{Filters, QueueOffsets, Selection};
use crate::{Level, LocalPlaces};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use std::collections::{BTreeMap, BTreeSet};

type Got = (String, i32, i64, u64);

/// Three topics; one has one message of ten.
fn puts(count: usize) -> Vec<Put> {
    let put = |n: usize| {
        let topic = if n % 10 == 3 {
            "rare"
        } else {
            ["A", "B"][n % 2]
        };
        Put {
            body: n * 7 % 90,
            time: 1000 + n as i64,
            tag: Some(["a", "b", "c"][n % 3]),
            key: Some(if n == 33 { "needle" } else { "k" }),
            ..Put::new(topic, (n % 3) as i32)
        }
    };
    (0..count).map(put).collect()
}

fn request(made: &Made) -> Request {
    let mut out = Request {
        paths: vec![made.store.root.clone()],
        broker_names: vec!["b".to_owned()],
        split_bytes: LOG_FILE as u64,
        ..Request::default()
    };
    out.how.columns = ["topic", "queueId", "queueOffset", "commitLogOffset"]
        .map(str::to_owned)
        .into();
    out
}

/// The rows of tasks after they travelled as JSON.
fn read(tasks: &[Task]) -> Vec<Got> {
    let mut out = Vec::new();
    for task in tasks {
        let text = serde_json::to_string(task).unwrap();
        let task: Task = serde_json::from_str(&text).unwrap();
        let mut reader = TaskReader::open(task, &LocalPlaces).unwrap();
        while let Some(batch) = reader.next().unwrap() {
            let topics = batch.column(0).as_string::<i32>();
            let queues = batch.column(1).as_primitive::<Int32Type>();
            let offsets = batch.column(2).as_primitive::<Int64Type>();
            let places = batch.column(3).as_primitive::<Int64Type>();
            for row in 0..batch.num_rows() {
                out.push((
                    topics.value(row).to_owned(),
                    queues.value(row),
                    offsets.value(row),
                    places.value(row) as u64,
                ));
            }
        }
    }
    out.sort_by_key(|row| (row.3, row.2));
    out
}

fn rows(made: &Made, wanted: impl Fn(&Row) -> bool) -> Vec<Got> {
    let own = made.rows.iter().filter(|row| wanted(row));
    own.map(|row| (row.topic.to_owned(), row.queue, row.offset, row.phys))
        .collect()
}

fn planned(request: &Request) -> Planned {
    plan(request, &LocalPlaces, &Notes::default()).unwrap()
}

fn failed(request: &Request) -> SegmentError {
    plan(request, &LocalPlaces, &Notes::default()).unwrap_err()
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|&name| name.to_owned()).collect()
}

fn offsets(topic: &str, queue: i32, offset: i64) -> Offsets {
    let queues = BTreeMap::from([(queue, offset)]);
    let brokers = BTreeMap::from([("b".to_owned(), queues)]);
    Offsets::Of(QueueOffsets::from([(topic.to_owned(), brokers)]))
}

use crate::selection::Offsets;

#[test]
fn every_way_reads_the_same_rows() {
    let made = make(&puts(200), &Way::default());
    for way in ["auto", "scan", "file", "index"] {
        let mut request = request(&made);
        request.plan = way.to_owned();
        let found = planned(&request);
        assert!(found.tasks.len() > 2, "{way}");
        assert_eq!(read(&found.tasks), rows(&made, |_| true), "{way}");
        request.selection.topics = names(&["rare"]);
        let found = planned(&request);
        assert_eq!(
            read(&found.tasks),
            rows(&made, |row| row.topic == "rare"),
            "{way}"
        );
    }
}

#[test]
fn a_rare_topic_is_read_by_its_queues() {
    let made = make(&puts(200), &Way::default());
    let mut request = request(&made);
    request.selection.topics = names(&["rare"]);
    let found = planned(&request);
    assert!(found.tasks.iter().all(|task| task.by_entries));
    assert_eq!(found.rows, Some(20));
    assert!(found.bytes < made.log_end / 5, "{}", found.bytes);
    request.selection.topics = names(&["A"]);
    let found = planned(&request);
    assert!(found.tasks.iter().all(|task| !task.by_entries));
    assert_eq!((found.rows, found.bytes), (None, made.log_end));
}

#[test]
fn messages_without_entries_are_scanned_too() {
    let way = Way {
        undispatched: 30,
        ..Way::default()
    };
    let made = make(&puts(200), &way);
    let mut request = request(&made);
    request.selection.topics = names(&["rare"]);
    request.plan = "index".to_owned();
    let found = planned(&request);
    assert!(found.tasks.iter().any(|task| !task.by_entries));
    assert_eq!(found.rows, None);
    assert_eq!(read(&found.tasks), rows(&made, |row| row.topic == "rare"));
}

#[test]
fn bounds_by_queue_and_filters() {
    let made = make(&puts(200), &Way::default());
    let mut request = request(&made);
    request.selection.topics = names(&["A"]);
    request.selection.starting_offsets = offsets("A", 0, 10);
    request.selection.ending_offsets = offsets("A", 2, 5);
    let wanted = |row: &Row| {
        row.topic == "A"
            && (row.queue != 0 || row.offset >= 10)
            && (row.queue != 2 || row.offset < 5)
    };
    assert_eq!(read(&planned(&request).tasks), rows(&made, wanted));
    // What a filter leaves out is no error of an offset that names it.
    request.selection.filters = Filters {
        queues: Some(BTreeSet::from([0, 7])),
        store_times: Some((1050, 1100)),
        ..Filters::default()
    };
    let filtered = |row: &Row| wanted(row) && row.queue == 0 && (1050..1100).contains(&row.time);
    let found = planned(&request);
    assert_eq!(read(&found.tasks), rows(&made, filtered));
    request.selection.filters.brokers = Some(BTreeSet::from(["other".to_owned()]));
    assert_eq!(planned(&request), nothing());
    let places = rows(&made, |row| row.phys > 3000 && row.phys < 6000);
    request.selection = Selection::default();
    request.selection.filters.commit_log_offsets = Some((3001, 6000));
    let found = planned(&request);
    assert!(found.bytes <= 3 * LOG_FILE as u64, "{}", found.bytes);
    assert_eq!(read(&found.tasks), places);
}

#[test]
fn a_limit_holds_for_each_task() {
    let made = make(&puts(100), &Way::default());
    let mut request = request(&made);
    request.selection.filters.limit = Some(3);
    request.split_bytes = 1 << 20;
    let found = planned(&request);
    assert_eq!(read(&found.tasks), rows(&made, |_| true)[..3]);
    // Also where a task is read file by file.
    request.fail_on_data_loss = false;
    assert_eq!(read(&planned(&request).tasks).len(), 3);
}

#[test]
fn times() {
    let made = make(&puts(200), &Way::default());
    let mut request = request(&made);
    (request.selection.start_time, request.selection.end_time) = (Some(1100), Some(1150));
    let found = planned(&request);
    assert!(found.bytes < made.log_end, "whole files are left out");
    assert_eq!(
        read(&found.tasks),
        rows(&made, |row| (1100..1150).contains(&row.time))
    );
    (request.selection.start_time, request.selection.end_time) = (Some(5000), None);
    let error = failed(&request);
    assert_eq!(error.kind, Kind::Option);
    assert_eq!(
        error.to_string(),
        "start_time 1970-01-01T00:00:05Z is later than every message"
    );
    request.selection.timestamp_strategy = "latest".to_owned();
    assert_eq!(planned(&request), nothing());
}

#[test]
fn tasks_of_few_messages() {
    let made = make(&puts(200), &Way::default());
    for (way, topics) in [("scan", names(&["A"])), ("index", names(&["rare", "A"]))] {
        let mut request = request(&made);
        (request.plan, request.selection.topics) = (way.to_owned(), topics.clone());
        request.max_records = Some(7);
        let found = planned(&request);
        for task in &found.tasks {
            assert!(read(std::slice::from_ref(task)).len() <= 7, "{way}");
        }
        let wanted = rows(&made, |row| topics.iter().any(|topic| topic == row.topic));
        assert!(found.tasks.len() >= wanted.len().div_ceil(7));
        assert_eq!(read(&found.tasks), wanted, "{way}");
    }
}

#[test]
fn what_is_deleted_before_the_plan() {
    let way = Way {
        deleted: 2,
        ..Way::default()
    };
    let made = make(&puts(200), &way);
    let mut request = request(&made);
    assert_eq!(read(&planned(&request).tasks), rows(&made, |_| true));
    request.selection.starting_offsets = offsets("A", 0, 0);
    let error = failed(&request);
    assert_eq!(error.kind, Kind::DataLoss);
    let text = error.to_string();
    assert!(
        text.starts_with("offset 0 of topic A, broker b, queue 0 is deleted: it holds"),
        "{text}"
    );
    request.fail_on_data_loss = false;
    let notes = Notes::default();
    let found = plan(&request, &LocalPlaces, &notes).unwrap();
    let all = notes.take();
    let is_said = |note: &(Level, String)| {
        note.1
            .ends_with("continuing with the earliest record available")
    };
    assert!(all.iter().any(is_said), "{all:?}");
    assert_eq!(read(&found.tasks), rows(&made, |_| true));
}

#[test]
fn a_hole_is_a_loss() {
    let made = make(&puts(200), &Way::default());
    let gone = &made.store.files[2];
    std::fs::remove_file(&gone.2).unwrap();
    let mut request = request(&made);
    let error = failed(&request);
    assert_eq!(error.kind, Kind::DataLoss);
    let hole = format!(
        "{}: bytes {} to {} of the log of broker b are missing",
        made.store.root,
        gone.0,
        gone.0 + gone.1
    );
    assert_eq!(error.to_string(), hole);
    request.fail_on_data_loss = false;
    let inside = |row: &Row| (gone.0..gone.0 + gone.1).contains(&row.phys);
    assert_eq!(
        read(&planned(&request).tasks),
        rows(&made, |row| !inside(row))
    );
}

#[test]
fn names_that_are_not_there() {
    let made = make(&puts(50), &Way::default());
    let mut request = request(&made);
    request.selection.topics = names(&["rar"]);
    let error = failed(&request);
    assert_eq!(error.kind, Kind::UnknownTopic);
    assert_eq!(error.to_string(), "topic 'rar' is not in the store");
    let hint = SegmentError::rendered(&error.hint.unwrap(), |name, _| name.to_owned());
    assert_eq!(hint, "did you mean rare?");
    request.selection.topics = names(&["A"]);
    request.selection.starting_offsets = offsets("B", 0, 0);
    let error = failed(&request).to_string();
    assert_eq!(
        error,
        "starting_offsets names topic 'B', which is not selected"
    );
    request.selection.starting_offsets = offsets("A", 0, 1000);
    let error = failed(&request);
    assert_eq!(error.kind, Kind::OffsetOutOfRange);
    let text = "starting_offsets: offset 1000 of topic A, broker b, queue 0 is behind its end, 9";
    assert_eq!(error.to_string(), text);
    request.selection = Selection {
        assign: crate::offsets::parse_assign(r#"{"A": {"b": [9]}}"#, "assign").ok(),
        ..Selection::default()
    };
    let error = failed(&request).to_string();
    assert_eq!(error, "assign: there is no queue 9 of topic A on broker b");
    request.selection.assign = crate::offsets::parse_assign(r#"{"A": {"c": [0]}}"#, "assign").ok();
    assert_eq!(
        failed(&request).to_string(),
        "assign: there is no broker 'c'"
    );
    request.selection = Selection {
        starting_offsets: Offsets::Latest,
        ..Selection::default()
    };
    let error = failed(&request).to_string();
    assert_eq!(
        error,
        "starting_offsets: latest is no start for a batch read"
    );
}

#[test]
fn a_filter_of_a_name_that_is_not_there_finds_nothing() {
    let made = make(&puts(50), &Way::default());
    let mut request = request(&made);
    request.selection.filters.topics = Some(BTreeSet::from(["none".to_owned()]));
    let found = planned(&request);
    assert_eq!(read(&found.tasks), []);
    assert_eq!(found.rows, Some(0));
}

#[test]
fn ten_thousand_segments_and_tasks_are_planned_at_once() {
    // Files of a few bytes each: only their names and sizes count.
    let files: Vec<_> = (0..10_000)
        .map(|n| (n * 100, 100, format!("/log/{:020}", n * 100)))
        .collect();
    let store = SegmentStore {
        name: "b".to_owned(),
        files,
        ..SegmentStore::default()
    };
    let topics: Vec<String> = (0..5000).map(|n| format!("topic-{n}")).collect();
    let selection = Selection {
        topics,
        ..Selection::default()
    };
    let part = Part {
        store: &store,
        rule: selection.rule("b", None, None),
        limits: Limits::default(),
        ranges: vec![(0, 1_000_000)],
        log_end: 1_000_000,
        fail_on_data_loss: true,
        by_entries: false,
    };
    let tasks = scans(&part, &part.ranges, 25, &ReadOptions::default(), false).unwrap();
    assert_eq!(tasks.len(), 10_000);
    // The rule is not copied for each.
    assert!(
        tasks
            .iter()
            .all(|task| Arc::ptr_eq(&task.rule, &tasks[0].rule))
    );
    assert!(tasks.iter().all(|task| task.files.len() <= 3));
}
