//! Batches of growing stores: nothing twice, nothing left out, whatever the limits, starts and
//! restarts.

use super::super::made::{LOG_FILE, Made, Put, Row, Way, make};
use super::super::place::LocalPlaces;
use super::super::read::TaskReader;
use super::super::read_options::ReadOptions;
use super::super::selection::QueueOffsets;
use super::super::{Filters, Level};
use super::*;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use pyrmq_format::names::file_name;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Topic, queue, queue offset.
type Seen = (String, i32, i64);

fn request(root: &Path, selection: Selection) -> Request {
    let columns = ["topic", "queueId", "queueOffset"];
    Request {
        paths: vec![root.to_string_lossy().into_owned()],
        broker_names: vec!["b".to_owned()],
        selection,
        how: ReadOptions {
            columns: columns.map(str::to_owned).to_vec(),
            ..ReadOptions::default()
        },
        ..Request::default()
    }
}

fn opened(request: Request) -> Result<StreamPlanner> {
    StreamPlanner::new(request, Arc::new(LocalPlaces), &Notes::default())
}

fn planner(root: &Path, selection: Selection) -> StreamPlanner {
    opened(request(root, selection)).unwrap()
}

/// As Spark keeps it: JSON text.
fn kept(position: &Position) -> Value {
    serde_json::from_str(&position.text()).unwrap()
}

fn read(tasks: Vec<Task>) -> Vec<Seen> {
    let mut out = Vec::new();
    for task in tasks {
        let text = serde_json::to_string(&task).unwrap();
        let task = serde_json::from_str(&text).unwrap();
        let mut reader = TaskReader::open(task, &LocalPlaces).unwrap();
        while let Some(batch) = reader.next().unwrap() {
            let topics = batch.column(0).as_string::<i32>();
            let queues = batch.column(1).as_primitive::<Int32Type>();
            let offsets = batch.column(2).as_primitive::<Int64Type>();
            let row = |n: usize| {
                (
                    topics.value(n).to_owned(),
                    queues.value(n),
                    offsets.value(n),
                )
            };
            out.extend((0..batch.num_rows()).map(row));
        }
    }
    out
}

type Bounds = (Option<u64>, Option<u64>);

/// The next batch: its rows and its end.
fn next(stream: &mut StreamPlanner, start: &Value, (rows, bytes): Bounds) -> (Vec<Seen>, Value) {
    let notes = Notes::default();
    let end = kept(&stream.latest(Some(start), rows, bytes, &notes).unwrap());
    (read(stream.splits(start, &end, &notes).unwrap()), end)
}

/// All batches up to the end of the logs.
fn drained(stream: &mut StreamPlanner, start: &mut Value, bounds: Bounds) -> Vec<Seen> {
    let mut out = Vec::new();
    loop {
        let (rows, end) = next(stream, start, bounds);
        if end == *start {
            assert_eq!(rows, []);
            return out;
        }
        out.extend(rows);
        *start = end;
    }
}

fn seen(rows: &[Row]) -> Vec<Seen> {
    let of = |row: &Row| (row.topic.to_owned(), row.queue, row.offset);
    rows.iter().map(of).collect()
}

/// Topics A and B, three queues of each; times grow.
fn puts(count: usize) -> Vec<Put> {
    let put = |n: usize| Put {
        body: n * 37 % 190,
        time: 1000 + n as i64 * 10,
        ..Put::new(if n % 5 == 4 { "B" } else { "A" }, (n % 3) as i32)
    };
    (0..count).map(put).collect()
}

fn small(count: usize) -> Made {
    make(&puts(count), &Way::default())
}

/// The store gets the files of another one that is longer.
fn grow(store: &Made, longer: &Made) {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap() {
            let (path, to) = {
                let entry = entry.unwrap();
                (entry.path(), to.join(entry.file_name()))
            };
            match path.is_dir() {
                true => copy(&path, &to),
                false => drop(std::fs::copy(&path, &to).unwrap()),
            }
        }
    }
    copy(longer.dir.path(), store.dir.path());
}

fn segment(store: &Made, number: usize) -> PathBuf {
    let name = file_name((number * LOG_FILE) as u64);
    store.dir.path().join("commitlog").join(name)
}

fn named(topics: &[&str]) -> Selection {
    Selection {
        topics: topics.iter().map(|&topic| topic.to_owned()).collect(),
        ..Selection::default()
    }
}

fn from(queues: &[(&str, i32, i64)]) -> Offsets {
    let mut out = QueueOffsets::new();
    for &(topic, queue, offset) in queues {
        let of_topic = out.entry(topic.to_owned()).or_default();
        of_topic
            .entry("b".to_owned())
            .or_default()
            .insert(queue, offset);
    }
    Offsets::Of(out)
}

#[test]
fn every_message_once_in_order() {
    let made = small(60);
    for bounds in [
        (None, None),
        (Some(1), None),
        (Some(7), None),
        (None, Some(1)),
        (None, Some(900)),
        (Some(5), Some(700)),
    ] {
        let mut request = request(made.dir.path(), Selection::default());
        request.split_bytes = 1024;
        let mut stream = opened(request).unwrap();
        let mut at = kept(&stream.initial(&Notes::default()).unwrap());
        assert_eq!(at, json!({"log": {"b": 0}, "version": 1}));
        let rows = drained(&mut stream, &mut at, bounds);
        assert_eq!(rows, seen(&made.rows), "{bounds:?}");
    }
}

#[test]
fn limits_hold() {
    let made = small(60);
    let notes = Notes::default();
    let mut stream = planner(made.dir.path(), named(&["A"]));
    let start = kept(&stream.initial(&notes).unwrap());
    let (rows, _) = next(&mut stream, &start, (Some(7), None));
    assert_eq!(rows.len(), 7);
    let end = stream
        .latest(Some(&start), None, Some(700), &notes)
        .unwrap();
    assert!((1..=700).contains(&end.log["b"]));
    for (rows, bytes) in [(Some(0), None), (None, Some(0))] {
        let error = stream
            .latest(Some(&start), rows, bytes, &notes)
            .unwrap_err();
        assert!(error.to_string().ends_with(": 0"));
    }
    let error = stream.latest(None, None, Some(5), &notes).unwrap_err();
    assert_eq!(error.to_string(), "max_bytes needs the start of the batch");
    let mut request = request(made.dir.path(), Selection::default());
    request.max_records = Some(4);
    let mut stream = opened(request).unwrap();
    let end = kept(&stream.latest(None, None, None, &notes).unwrap());
    let tasks = stream.splits(&start, &end, &notes).unwrap();
    assert_eq!(tasks.len(), 15);
    assert!(tasks.into_iter().all(|task| read(vec![task]).len() == 4));
}

#[test]
fn a_new_query_starts_where_it_first_saw_the_end() {
    let (made, more) = (small(30), small(40));
    let latest = Selection {
        starting_offsets: Offsets::Latest,
        ..Selection::default()
    };
    let notes = Notes::default();
    let mut stream = planner(made.dir.path(), latest);
    let mut at = kept(&stream.initial(&notes).unwrap());
    grow(&made, &more);
    // The first batch is empty: Spark keeps its end.
    assert_eq!(next(&mut stream, &at, (None, None)), (vec![], at.clone()));
    assert_eq!(kept(&stream.initial(&notes).unwrap()), at);
    let rows = drained(&mut stream, &mut at, (None, None));
    assert_eq!(rows, seen(&more.rows)[30..]);
}

#[test]
fn a_pinned_end_stays() {
    let (made, more) = (small(30), small(40));
    let notes = Notes::default();
    let mut stream = planner(made.dir.path(), Selection::default());
    let mut at = kept(&stream.initial(&notes).unwrap());
    stream.pin(&notes).unwrap();
    grow(&made, &more);
    assert_eq!(
        drained(&mut stream, &mut at, (Some(9), None)),
        seen(&made.rows)
    );
    assert!(stream.end(&notes).unwrap().log["b"] > stream.stands["b"]);
}

#[test]
fn topics_that_are_named_later_are_read_from_their_beginning() {
    let made = small(60);
    let notes = Notes::default();
    let mut stream = planner(made.dir.path(), named(&["B"]));
    let mut at = kept(&stream.initial(&notes).unwrap());
    let of_b = drained(&mut stream, &mut at, (None, None));
    let mut stream = planner(made.dir.path(), named(&["B", "A", "C"]));
    assert_eq!(stream.count(&at, 5, &notes).unwrap(), 5);
    let end = kept(&stream.latest(Some(&at), None, None, &notes).unwrap());
    notes.take();
    let mut all = read(stream.splits(&at, &end, &notes).unwrap());
    let told = "b: what was added, A, C, is read from its beginning".to_owned();
    assert_eq!(notes.take(), [(Level::Warning, told)]);
    assert!(all.iter().all(|row| row.0 == "A"));
    all.extend(of_b);
    all.sort();
    let mut expected = seen(&made.rows);
    expected.sort();
    assert_eq!(all, expected);
    // A batch of before the change has what it had.
    let start = json!({"log": {"b": 0}, "topics": ["B"], "version": 1});
    let rows = read(stream.splits(&start, &at, &notes).unwrap());
    assert!(!rows.is_empty() && rows.iter().all(|row| row.0 == "B"));
}

#[test]
fn a_topic_that_is_not_there_may_come() {
    let made = small(10);
    let notes = Notes::default();
    let mut stream = planner(made.dir.path(), named(&["a"]));
    let mut at = kept(&stream.initial(&notes).unwrap());
    assert_eq!(drained(&mut stream, &mut at, (None, None)), []);
    let text = "topic 'a' is not in the store (did you mean A?): nothing is read of it until it is \
                there";
    assert_eq!(notes.take(), [(Level::Warning, text.to_owned())]);
    stream.end(&notes).unwrap();
    assert_eq!(notes.take(), [], "it is said once");
}

#[test]
fn segments_that_go_are_a_loss() {
    let made = small(60);
    let notes = Notes::default();
    let mut stream = planner(made.dir.path(), Selection::default());
    let start = kept(&stream.initial(&notes).unwrap());
    let end = kept(&stream.latest(Some(&start), Some(5), None, &notes).unwrap());
    std::fs::remove_file(segment(&made, 0)).unwrap();
    let root = made.dir.path().display();
    let missing = |from: u64| {
        format!("{root}: bytes {from} to {LOG_FILE} of the log of broker b are missing")
    };
    let error = stream
        .latest(Some(&end), Some(5), None, &notes)
        .unwrap_err();
    let at = end["log"]["b"].as_u64().unwrap();
    assert_eq!(
        (error.kind, error.to_string()),
        (Kind::DataLoss, missing(at))
    );
    let error = stream.splits(&start, &end, &notes).unwrap_err();
    let all = format!(
        "{}, and with them all that is to be read, 0 to {at}",
        missing(0)
    );
    assert_eq!((error.kind, error.to_string()), (Kind::DataLoss, all));
    let left: Vec<Row> = made
        .rows
        .iter()
        .filter(|r| r.phys >= LOG_FILE as u64)
        .cloned()
        .collect();
    for bounds in [(Some(7), None), (None, None), (None, Some(500))] {
        let mut lax = request(made.dir.path(), Selection::default());
        lax.fail_on_data_loss = false;
        let mut at = end.clone();
        assert_eq!(
            drained(&mut opened(lax).unwrap(), &mut at, bounds),
            seen(&left)
        );
    }
}

#[test]
fn a_log_that_was_cut_is_told() {
    let made = small(60);
    let notes = Notes::default();
    let mut stream = planner(made.dir.path(), Selection::default());
    let end = kept(&stream.latest(None, None, None, &notes).unwrap());
    let last = made.log_end as usize / LOG_FILE;
    for number in 2..=last {
        std::fs::remove_file(segment(&made, number)).unwrap();
    }
    let error = stream.latest(Some(&end), None, None, &notes).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("of broker b ends at ")
            && text.ends_with(&format!(", the stream is at {}", made.log_end)),
        "{text}"
    );
    let error = stream.latest(None, None, None, &notes).unwrap_err();
    assert_eq!(error.kind, Kind::DataLoss);
    let start = json!({"log": {"b": 0}, "version": 1});
    let error = stream.splits(&start, &end, &notes).unwrap_err();
    assert!(
        error
            .with_hint()
            .contains("it is another log, or it was cut")
    );
    let mut lax = request(made.dir.path(), Selection::default());
    lax.fail_on_data_loss = false;
    let same = opened(lax)
        .unwrap()
        .latest(Some(&end), None, None, &notes)
        .unwrap();
    assert_eq!(kept(&same), end);
}

#[test]
fn what_belongs_to_a_batch_is_refused() {
    let made = small(5);
    let refused = |change: &dyn Fn(&mut Request)| {
        let mut request = request(made.dir.path(), Selection::default());
        change(&mut request);
        opened(request).err().unwrap().with_hint()
    };
    let no_end = "ending_offsets and end_time belong to a batch read (a stream has no end)";
    assert_eq!(refused(&|r| r.selection.end_time = Some(5)), no_end);
    assert_eq!(
        refused(&|r| r.selection.ending_times = Some(json!({"A": 5}))),
        no_end
    );
    assert_eq!(
        refused(&|r| r.selection.ending_offsets = from(&[("A", 0, 1)])),
        no_end
    );
    let index = refused(&|r| r.plan = "index".to_owned());
    assert_eq!(
        index,
        "plan=index reads a batch, not a stream (leave plan out)"
    );
}

#[test]
fn other_brokers_than_the_checkpoint_has() {
    let made = small(5);
    let position = |broker: &str| json!({"log": {broker: 0}, "version": 1});
    let stream = planner(made.dir.path(), Selection::default());
    let error = stream.splits(&position("x"), &position("x"), &Notes::default());
    let error = error.unwrap_err();
    assert_eq!(error.kind, Kind::Checkpoint);
    assert_eq!(
        error.to_string(),
        "the checkpoint is of broker x, the stores are of b"
    );
    let mut stores = stream.stores.clone();
    stores[0].folder_name = "x".to_owned();
    let error = of_stores(&position("x"), &stores).unwrap_err();
    let text = "the checkpoint is of broker x, the stores are of b: it has the names of their \
                folders (broker_names=x continues with those)";
    assert_eq!(error.with_hint(), text);
}

#[test]
fn a_time_that_is_later_than_all() {
    let made = small(5);
    let late = |strategy: &str| Selection {
        start_time: Some(2_000_000_000_000),
        timestamp_strategy: strategy.to_owned(),
        ..Selection::default()
    };
    let notes = Notes::default();
    let error = planner(made.dir.path(), late("error"))
        .initial(&notes)
        .unwrap_err();
    let text = "start_time 2033-05-18T03:33:20Z is later than every message \
                (timestamp_strategy=latest starts at the end in this case)";
    assert_eq!(error.with_hint(), text);
    let mut stream = planner(made.dir.path(), late("latest"));
    assert_eq!(stream.initial(&notes).unwrap().log["b"], made.log_end);
}

#[test]
fn how_far_it_is_behind() {
    let made = small(60);
    let notes = Notes::default();
    let mut stream = planner(made.dir.path(), named(&["A"]));
    let start = kept(&stream.initial(&notes).unwrap());
    for rows in [5, 48] {
        let end = stream
            .latest(Some(&start), Some(rows), None, &notes)
            .unwrap();
        let behind = stream.behind().unwrap();
        assert_eq!(behind.bytes["b"], made.log_end - end.log["b"]);
        for queue in behind.messages.as_ref().unwrap() {
            let left = made.rows.iter().filter(|row| {
                (row.topic, row.queue) == (&queue.topic, queue.queue) && row.phys >= end.log["b"]
            });
            assert_eq!((&*queue.broker, queue.messages), ("b", left.count() as u64));
        }
        assert_eq!(behind.summary().messages, Some(48 - rows));
    }
    let mut log = request(&made.dir.path().join("commitlog"), Selection::default());
    log.broker_names = vec!["b".to_owned()];
    let mut log = opened(log).unwrap();
    log.latest(Some(&start), None, None, &notes).unwrap();
    assert_eq!(log.behind().unwrap().messages, None);
}

#[test]
fn messages_are_counted_as_far_as_they_are_wanted() {
    let (made, more) = (small(30), small(60));
    let notes = Notes::default();
    let mut stream = planner(made.dir.path(), named(&["A"]));
    let start = kept(&stream.initial(&notes).unwrap());
    assert_eq!(stream.count(&start, 3, &notes).unwrap(), 3);
    assert_eq!(stream.count(&start, 100, &notes).unwrap(), 24);
    grow(&made, &more);
    assert_eq!(stream.count(&start, 100, &notes).unwrap(), 48);
    let (_, end) = next(&mut stream, &start, (Some(10), None));
    assert_eq!(stream.count(&end, 100, &notes).unwrap(), 38);
}

#[test]
fn a_broker_that_a_filter_leaves_out_has_no_tasks() {
    let made = small(30);
    let other = Selection {
        filters: Filters {
            brokers: Some(BTreeSet::from(["c".to_owned()])),
            ..Filters::default()
        },
        ..Selection::default()
    };
    let stream = planner(made.dir.path(), other);
    let position = |at: u64| json!({"log": {"b": at}, "version": 1});
    let tasks = stream.splits(&position(0), &position(made.log_end), &Notes::default());
    assert_eq!(tasks.unwrap(), []);
}

#[path = "stream_model_tests.rs"]
mod model;
#[path = "stream_tails_tests.rs"]
mod tails;
