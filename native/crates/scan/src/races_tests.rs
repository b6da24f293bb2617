//! A broker enters messages into its queues while a read is planned: nothing falls in between.

use crate::made::{Made, Put, Way, make};
use crate::meanwhile;
use crate::plan::plan;
use crate::queues::SIMPLE;
use crate::read::TaskReader;
use crate::selection::{Offsets, QueueOffsets};
use crate::{LocalPlaces, Notes, Request, StreamPlanner, Task};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn puts() -> Vec<Put> {
    (0..120)
        .map(|n| Put::new(["A", "A", "B", "C"][n % 4], (n % 3) as i32))
        .collect()
}

fn request(made: &Made) -> Request {
    let mut out = Request {
        paths: vec![made.store.root.clone()],
        broker_names: vec!["b".to_owned()],
        ..Request::default()
    };
    out.how.columns = vec!["commitLogOffset".to_owned()];
    out
}

/// Physical offsets of what tasks read.
fn read(tasks: Vec<Task>) -> Vec<u64> {
    let mut out = Vec::new();
    for task in tasks {
        let mut reader = TaskReader::open(task, &LocalPlaces).unwrap();
        while let Some(batch) = reader.next().unwrap() {
            let places = batch.column(0).as_primitive::<Int64Type>();
            out.extend(places.values().iter().map(|&place| place as u64));
        }
    }
    out.sort_unstable();
    out
}

/// The files below a folder and what is in them.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(files(&path));
        } else {
            let content = std::fs::read(&path).unwrap();
            out.push((path, content));
        }
    }
    out
}

fn write(files: &[(PathBuf, Vec<u8>)]) {
    for (path, content) in files {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
}

#[test]
fn a_queue_that_comes_while_the_ends_of_others_are_read() {
    let made = make(&puts(), &Way::default());
    let folder = made.dir.path().join("consumequeue").join("C");
    let later = files(&folder);
    std::fs::remove_dir_all(&folder).unwrap();
    meanwhile::when("end of a queue", move || write(&later));
    let mut asked = request(&made);
    asked.selection.pattern = Some("C".to_owned());
    asked.plan = "index".to_owned();
    let planned = plan(&asked, &LocalPlaces, &Notes::default()).unwrap();
    let expected = made.rows.iter().filter(|row| row.topic == "C");
    let expected: Vec<u64> = expected.map(|row| row.phys).collect();
    assert_eq!(read(planned.tasks), expected);
}

/// A store that enters everything after its queues were looked at; offsets by which it is asked for
/// topic A from where its queues reached then, and what that is.
fn behind() -> (Made, Offsets, Vec<u64>) {
    let made = make(&puts(), &Way::default());
    let cut = made.rows[made.rows.len() / 2].phys;
    let all = files(&made.dir.path().join("consumequeue"));
    for (path, content) in &all {
        let mut content = content.clone();
        for entry in content.chunks_mut(SIMPLE as usize) {
            if u64::from_be_bytes(entry[..8].try_into().unwrap()) >= cut {
                entry.fill(0);
            }
        }
        std::fs::write(path, content).unwrap();
    }
    meanwhile::when("extents are known", move || write(&all));
    let mut reached: BTreeMap<i32, i64> = BTreeMap::new();
    let mut expected = Vec::new();
    for row in made
        .rows
        .iter()
        .filter(|row| row.topic == "A" && row.phys >= cut)
    {
        reached.entry(row.queue).or_insert(row.offset);
        expected.push(row.phys);
    }
    let of_broker = BTreeMap::from([("b".to_owned(), reached)]);
    let offsets = Offsets::Of(QueueOffsets::from([("A".to_owned(), of_broker)]));
    (made, offsets, expected)
}

#[test]
fn offsets_of_a_batch() {
    let (made, offsets, expected) = behind();
    let mut asked = request(&made);
    asked.selection.topics = vec!["A".to_owned()];
    asked.selection.starting_offsets = offsets;
    asked.plan = "scan".to_owned();
    let planned = plan(&asked, &LocalPlaces, &Notes::default()).unwrap();
    assert_eq!(read(planned.tasks), expected);
}

#[test]
fn offsets_of_a_stream() {
    let (made, offsets, expected) = behind();
    let notes = Notes::default();
    let mut asked = request(&made);
    asked.selection.topics = vec!["A".to_owned()];
    asked.selection.starting_offsets = offsets;
    let mut stream = StreamPlanner::new(asked, Arc::new(LocalPlaces), &notes).unwrap();
    let json = |text: String| serde_json::from_str(&text).unwrap();
    let start: serde_json::Value = json(stream.initial(&notes).unwrap().text());
    let end = json(
        stream
            .latest(Some(&start), None, None, &notes)
            .unwrap()
            .text(),
    );
    assert_eq!(read(stream.splits(&start, &end, &notes).unwrap()), expected);
}
