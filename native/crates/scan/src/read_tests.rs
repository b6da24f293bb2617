//! Tasks whose files change, are damaged or cannot be seen.

use super::*;
use crate::LocalPlaces;
use crate::made::{LOG_FILE, Made, mixed, task};
use std::fs;

fn made() -> Made {
    mixed(200, 1)
}

/// Rows, and the error at which reading ended.
fn read(reader: &mut TaskReader) -> (usize, Option<SegmentError>) {
    let mut rows = 0;
    loop {
        match reader.next() {
            Ok(Some(batch)) => {
                assert_eq!(batch.schema(), reader.schema());
                rows += batch.num_rows();
            }
            Ok(None) => return (rows, None),
            Err(error) => {
                assert!(
                    reader.next().unwrap().is_none(),
                    "after an error there is no more"
                );
                return (rows, Some(error));
            }
        }
    }
}

fn open(task: Task) -> TaskReader {
    TaskReader::open(task, &LocalPlaces).unwrap()
}

fn inside(made: &Made, file: usize) -> usize {
    let (base, length, _) = &made.store.files[file];
    let range = *base..base + length;
    made.rows
        .iter()
        .filter(|row| range.contains(&row.phys))
        .count()
}

fn hint(error: &SegmentError) -> String {
    let shown = |name: &str, value: Option<&str>| format!("<{name}={}>", value.unwrap_or(""));
    SegmentError::rendered(error.hint.as_deref().unwrap_or_default(), shown)
}

#[test]
fn figures_and_columns() {
    let made = made();
    let mut reader = open(task(&made, |request| {
        request.how.columns = vec!["queueId".to_owned(), "topic".to_owned()];
    }));
    let names: Vec<_> = reader
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    assert_eq!(names, ["queueId", "topic"]);
    assert_eq!(read(&mut reader).0, 200);
    let stats = reader.stats();
    assert_eq!((stats.records, stats.rows), (200, 200));
    assert_eq!(
        stats.record_bytes,
        made.rows.iter().map(|row| row.size).sum::<u64>()
    );
    assert_eq!(reader.notes(), []);
}

#[test]
fn a_deleted_file_is_a_loss_or_left_out() {
    let made = made();
    let all = task(&made, |_| {});
    let lenient = task(&made, |request| request.fail_on_data_loss = false);
    let path = made.store.files[0].2.clone();
    fs::remove_file(&path).unwrap();
    let what = format!("{}: {path} was deleted before it was read", all.describe());
    let (rows, error) = read(&mut open(all));
    let error = error.unwrap();
    assert_eq!((rows, error.kind), (0, Kind::DataLoss));
    assert_eq!(error.to_string(), what);
    let mut reader = open(lenient);
    let (rows, error) = read(&mut reader);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(rows, 200 - inside(&made, 0));
    let note = format!("{what}; continuing with the earliest record available");
    assert_eq!(reader.notes(), [(Level::Warning, note)]);
    assert_eq!(reader.stats().rows as usize, rows);
}

#[test]
fn a_store_that_is_not_seen_is_never_passed_over() {
    let made = made();
    let lenient = task(&made, |request| request.fail_on_data_loss = false);
    fs::rename(
        made.dir.path().join("commitlog"),
        made.dir.path().join("elsewhere"),
    )
    .unwrap();
    let (rows, error) = read(&mut open(lenient));
    let error = error.unwrap();
    assert_eq!((rows, error.kind), (0, Kind::Path));
    let folder = format!("there is no folder {}/commitlog", made.store.root);
    assert!(error.to_string().ends_with(&folder), "{error}");
    assert!(
        hint(&error).starts_with("mount the store under the same path"),
        "{error:?}"
    );
}

#[test]
fn deleted_queue_files_are_a_loss_in_any_case() {
    let made = made();
    let rare = task(&made, |request| {
        request.selection.topics = vec!["rare".to_owned()];
        request.fail_on_data_loss = false;
    });
    assert!(rare.by_entries);
    fs::remove_file(&rare.queues[0].files[0].2).unwrap();
    let (rows, error) = read(&mut open(rare));
    let error = error.unwrap();
    assert_eq!((rows, error.kind), (0, Kind::DataLoss));
    assert_eq!(hint(&error), "<plan=scan> reads the log itself");
}

#[test]
fn damage_ends_a_read_or_is_told() {
    let made = made();
    let strict = task(&made, |_| {});
    let lenient = task(&made, |request| {
        request.how.on_corruption = crate::OnCorruption::Skip
    });
    let row = &made.rows[25];
    let (_, _, path) = &made.store.files[row.phys as usize / LOG_FILE];
    let mut bytes = fs::read(path).unwrap();
    let at = row.phys as usize % LOG_FILE;
    bytes[at + 4] ^= 0xff; // of the magic
    fs::write(path, bytes).unwrap();
    let start = format!(
        "{}: {path}, byte {at} (physical offset {}): ",
        strict.describe(),
        row.phys
    );
    let (rows, error) = read(&mut open(strict));
    let error = error.unwrap();
    assert_eq!((rows, error.kind), (20, Kind::Damaged));
    assert!(error.to_string().starts_with(&start), "{error}");
    assert_eq!(error.next_record, Some(row.phys + row.size));
    assert_eq!(
        hint(&error),
        "restore the file; <on_corruption=skip> leaves this out"
    );
    let mut reader = open(lenient);
    assert_eq!(read(&mut reader).0, 199);
    let notes = reader.notes();
    let [(Level::Warning, note)] = &notes[..] else {
        panic!("{notes:?}");
    };
    let size = row.size;
    assert!(
        note.contains(&format!(
            ": 1 damaged parts with {size} bytes were skipped: "
        )),
        "{note}"
    );
    assert_eq!(reader.stats().damaged_parts, 1);
}

#[test]
fn a_file_that_is_no_file_names_the_task() {
    let made = made();
    let all = task(&made, |_| {});
    let path = &made.store.files[1].2;
    fs::remove_file(path).unwrap();
    fs::create_dir(path).unwrap();
    let what = format!("while reading {}", all.describe());
    let error = read(&mut open(all)).1.unwrap();
    assert_eq!(error.kind, Kind::Io);
    assert_eq!(error.path.as_ref(), Some(path));
    assert_eq!(hint(&error), what);
}

#[test]
fn a_task_from_elsewhere_is_checked() {
    let made = made();
    let all = task(&made, |_| {});
    let mut columns = all.clone();
    columns.how.columns = vec!["nothing".to_owned()];
    let error = TaskReader::open(columns, &LocalPlaces).err().unwrap();
    assert_eq!(error.kind, Kind::Option);
    let mut place = all.clone();
    place.place = Some("s3://bucket".to_owned());
    assert_eq!(
        TaskReader::open(place, &LocalPlaces).err().unwrap().kind,
        Kind::Path
    );
    let rare = task(&made, |request| {
        request.selection.topics = vec!["rare".to_owned()]
    });
    let mut unit = rare.clone();
    unit.queues[0].unit = 1;
    let mut scanned = rare;
    scanned.by_entries = false;
    let mut turned = all.clone();
    (turned.start, turned.end) = (turned.end, turned.start);
    for task in [unit, scanned, turned] {
        let error = TaskReader::open(task, &LocalPlaces).err().unwrap();
        assert!(
            error.to_string().starts_with("this is no task: "),
            "{error}"
        );
    }
    // Files that lie over each other, or end behind all offsets.
    for file in [
        (10, 100, "x".to_owned()),
        (u64::MAX - 5, 10, "y".to_owned()),
    ] {
        let mut files = all.clone();
        files.files.push(file.clone());
        let error = read(&mut open(files)).1;
        assert_eq!(error.map(|e| e.kind), Some(Kind::Segment), "{file:?}");
    }
}
