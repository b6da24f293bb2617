//! Logs that grow while they are read: byte by byte, over files, with what goes wrong meanwhile.

use super::super::made::{LOG_FILE, Made, Put, Row, Way, make};
use super::super::place::LocalPlaces;
use super::super::read_options::ReadOptions;
use super::super::selection::Selection;
use super::super::{Level, OnCorruption};
use super::*;
use arrow_array::types::Int32Type;
use pyrmq_format::names::file_name;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::mpsc;

/// Topic, queue, queue offset.
type Seen = (String, i32, i64);

const NOW: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(3600);

/// What happens at each wait, one after the other; whether files may have come or gone then.
type Step = Box<dyn FnMut() -> bool + Send>;

struct Script {
    steps: std::vec::IntoIter<Step>,
    waits: mpsc::Sender<Duration>,
    idle: usize,
}

impl Wait for Script {
    fn wait(&mut self, at_most: Duration) -> bool {
        self.waits.send(at_most).unwrap();
        match self.steps.next() {
            Some(mut step) => step(),
            None => {
                self.idle += 1;
                assert!(self.idle < 10_000_000, "it waits for more than there is");
                false
            }
        }
    }
}

/// The log of a made store that appears bit by bit in a folder.
struct Growing {
    files: Vec<(String, Vec<u8>)>,
    log_end: usize,
    rows: Vec<Row>,
    dir: tempfile::TempDir,
}

impl Growing {
    /// Nothing of it is there yet but the first file, with nothing in it.
    fn new(puts: &[Put]) -> Self {
        let made = make(puts, &Way::default());
        let mut files = Vec::new();
        for (base, _, path) in &made.store.files {
            files.push((file_name(*base), std::fs::read(path).unwrap()));
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("commitlog")).unwrap();
        let out = Growing {
            files,
            log_end: made.log_end as usize,
            rows: made.rows,
            dir,
        };
        out.write(0, 0);
        out
    }

    fn path(&self, file: usize) -> PathBuf {
        self.dir.path().join("commitlog").join(&self.files[file].0)
    }

    /// Where the record of a row starts.
    fn start(&self, row: usize) -> usize {
        self.rows[row].phys as usize
    }

    /// Writes some bytes of the log where they belong; their file is made in full size.
    fn write(&self, from: usize, to: usize) {
        for (number, (_, bytes)) in self.files.iter().enumerate() {
            let base = number * LOG_FILE;
            let (low, high) = (from.max(base), to.min(base + LOG_FILE));
            if low < high || (number == 0 && to == 0) {
                let path = self.path(number);
                let file = File::options()
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .open(path);
                let file = file.unwrap();
                file.set_len(LOG_FILE as u64).unwrap();
                if low < high {
                    let piece = &bytes[low - base..high - base];
                    file.write_all_at(piece, (low - base) as u64).unwrap();
                }
            }
        }
    }

    fn task(&self, from: u64) -> TailTask {
        task(self.dir.path().to_str().unwrap(), from)
    }
}

fn task(root: &str, from: u64) -> TailTask {
    let names = ["b".to_owned()];
    let stores =
        super::super::open_stores(&[root.to_owned()], &names, &LocalPlaces, &Notes::default());
    let store = stores.unwrap().remove(0);
    let columns = ["topic", "queueId", "queueOffset"];
    TailTask {
        rule: Arc::new(Selection::default().rule("b", None, None)),
        how: ReadOptions {
            columns: columns.map(str::to_owned).to_vec(),
            ..ReadOptions::default()
        },
        store,
        from,
        fail_on_data_loss: true,
    }
}

struct Opened {
    tail: Tail,
    waits: mpsc::Receiver<Duration>,
    notes: Arc<Notes>,
}

fn open(task: TailTask, steps: Vec<Step>) -> Opened {
    let (sender, waits) = mpsc::channel();
    let script = Script {
        steps: steps.into_iter(),
        waits: sender,
        idle: 0,
    };
    let notes = Arc::new(Notes::default());
    let text = serde_json::to_string(&task).unwrap();
    let task = serde_json::from_str(&text).unwrap();
    let tail = Tail::waiting(task, &LocalPlaces, notes.clone(), Box::new(script)).unwrap();
    Opened { tail, waits, notes }
}

fn rows_of(batch: &TailBatch) -> Vec<Seen> {
    let batch = &batch.batch;
    assert_eq!(batch.num_columns(), 3);
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
    (0..batch.num_rows()).map(row).collect()
}

fn seen(rows: &[Row]) -> Vec<Seen> {
    let of = |row: &Row| (row.topic.to_owned(), row.queue, row.offset);
    rows.iter().map(of).collect()
}

/// All that is there.
fn all(tail: &mut Tail) -> Vec<Seen> {
    let mut out = Vec::new();
    while let Some(batch) = tail.next(NOW).unwrap() {
        out.extend(rows_of(&batch));
    }
    out
}

fn puts(count: usize) -> Vec<Put> {
    let put = |n: usize| Put {
        body: 20 + n * 37 % 190,
        time: 1000 + n as i64,
        ..Put::new(if n % 5 == 4 { "B" } else { "A" }, (n % 3) as i32)
    };
    (0..count).map(put).collect()
}

fn step(mut work: impl FnMut() + Send + 'static) -> Step {
    Box::new(move || {
        work();
        false
    })
}

fn writing(log: &Arc<Growing>, from: usize, to: usize) -> Step {
    let log = log.clone();
    step(move || log.write(from, to))
}

#[test]
fn what_is_there_comes_first_and_then_what_is_appended() {
    let log = Arc::new(Growing::new(&puts(40)));
    let (one, two) = (log.start(10), log.start(11));
    log.write(0, one);
    let steps = vec![
        step(|| {}),
        writing(&log, one, two),
        writing(&log, two, log.log_end),
    ];
    let mut opened = open(log.task(0), steps);
    let tail = &mut opened.tail;
    let first = tail.next(LONG).unwrap().unwrap();
    assert_eq!(rows_of(&first), seen(&log.rows[..10]));
    assert_eq!(tail.position(), one as u64);
    let second = tail.next(LONG).unwrap().unwrap();
    assert_eq!(rows_of(&second), seen(&log.rows[10..11]));
    assert_eq!(tail.position(), two as u64);
    let mut rest = rows_of(&tail.next(LONG).unwrap().unwrap());
    rest.extend(all(tail));
    assert_eq!(rest, seen(&log.rows[11..]));
    assert_eq!(tail.position(), log.log_end as u64);
    assert_eq!(tail.stats().rows, 40);
}

#[test]
fn it_goes_on_from_any_place() {
    let log = Growing::new(&puts(40));
    log.write(0, log.log_end);
    for row in [1, 7, 39] {
        let mut opened = open(log.task(log.rows[row].phys), vec![]);
        assert_eq!(all(&mut opened.tail), seen(&log.rows[row..]));
    }
    let mut opened = open(log.task(log.log_end as u64), vec![]);
    assert_eq!(all(&mut opened.tail), []);
}

#[test]
fn without_anything_new_it_waits_and_looks_once_each_time() {
    let log = Arc::new(Growing::new(&puts(3)));
    let mut steps: Vec<Step> = (0..50).map(|_| step(|| {})).collect();
    steps.push(writing(&log, 0, log.log_end));
    let mut opened = open(log.task(0), steps);
    let batch = opened.tail.next(LONG).unwrap().unwrap();
    assert_eq!(rows_of(&batch), seen(&log.rows));
    let waits: Vec<Duration> = opened.waits.try_iter().collect();
    assert_eq!(waits, vec![POLL; 51]);
    // A timeout is kept, and what has grown a moment ago is looked at sooner.
    assert!(opened.tail.next(NOW).unwrap().is_none());
    assert_eq!(opened.waits.try_iter().count(), 0);
}

#[test]
fn half_a_record_is_no_row() {
    let log = Arc::new(Growing::new(&puts(2)));
    let (start, end) = (log.start(1), log.log_end);
    log.write(0, start);
    // Places in its length, its head, its body, and before its last byte that is not zero.
    for at in [2, 30, 100, end - start - 3] {
        let mut opened = open(log.task(0), vec![]);
        assert_eq!(all(&mut opened.tail), seen(&log.rows[..1]));
        log.write(start, start + at);
        assert_eq!(all(&mut opened.tail), []);
        assert_eq!(opened.tail.position(), start as u64);
        // Looked for again after a moment, without an event.
        let writing = vec![writing(&log, start, end)];
        let more = open(log.task(0), writing);
        let mut tail = more.tail;
        assert_eq!(
            rows_of(&tail.next(LONG).unwrap().unwrap()),
            seen(&log.rows[..1])
        );
        let zeros = vec![0; end - start];
        let rest = tail.next(LONG).unwrap().unwrap();
        assert_eq!(rows_of(&rest), seen(&log.rows[1..]));
        let file = File::options().write(true).open(log.path(0)).unwrap();
        file.write_all_at(&zeros, start as u64).unwrap();
    }
}

#[test]
fn files_are_made_ahead_or_when_they_are_needed() {
    for ahead in [false, true] {
        let log = Arc::new(Growing::new(&puts(60)));
        assert!(log.files.len() > 3);
        let make = log.clone();
        let mut steps: Vec<Step> = Vec::new();
        for row in 0..log.rows.len() {
            let end = log
                .rows
                .get(row + 1)
                .map_or(log.log_end, |next| next.phys as usize);
            steps.push(writing(&log, log.start(row), end));
        }
        if ahead {
            for number in 1..log.files.len() {
                let file = File::create(make.path(number)).unwrap();
                file.set_len(LOG_FILE as u64).unwrap();
            }
        }
        let mut opened = open(log.task(0), steps);
        for row in 0..log.rows.len() {
            let batch = opened.tail.next(LONG).unwrap().unwrap();
            assert_eq!(rows_of(&batch), seen(&log.rows[row..=row]));
        }
        assert_eq!(opened.tail.position(), log.log_end as u64);
    }
}

#[test]
fn a_segment_that_was_read_may_go() {
    let log = Arc::new(Growing::new(&puts(60)));
    let second = LOG_FILE;
    log.write(0, second + 1);
    let mut opened = open(log.task(0), vec![]);
    let mut rows = all(&mut opened.tail);
    assert_eq!(opened.tail.position(), second as u64);
    std::fs::remove_file(log.path(0)).unwrap();
    opened.tail.relist = true;
    log.write(second, log.log_end);
    rows.extend(all(&mut opened.tail));
    assert_eq!(rows, seen(&log.rows));
}

#[test]
fn a_segment_that_goes_before_it_is_read_is_a_loss() {
    let log = Growing::new(&puts(60));
    log.write(0, log.log_end);
    for fail in [true, false] {
        let task = TailTask {
            fail_on_data_loss: fail,
            ..log.task(log.rows[1].phys)
        };
        log.write(0, LOG_FILE);
        let mut opened = open(task, vec![]);
        std::fs::remove_file(log.path(0)).unwrap();
        opened.tail.relist = true;
        let missing = format!(
            "{}: bytes {} to {LOG_FILE} of the log of broker b are missing",
            log.dir.path().display(),
            log.rows[1].phys
        );
        if fail {
            let error = opened.tail.next(NOW).unwrap_err();
            assert_eq!((error.kind, error.to_string()), (Kind::DataLoss, missing));
            assert!(opened.tail.next(NOW).unwrap().is_none(), "there is no more");
            continue;
        }
        let left: Vec<Row> = log
            .rows
            .iter()
            .filter(|r| r.phys >= LOG_FILE as u64)
            .cloned()
            .collect();
        assert_eq!(all(&mut opened.tail), seen(&left));
        let notes = opened.notes.take();
        assert!(
            notes
                .iter()
                .any(|(level, text)| { *level == Level::Warning && text.starts_with(&missing) }),
            "{notes:?}"
        );
    }
}

#[test]
fn damage_in_what_is_appended() {
    for skip in [false, true] {
        let log = Growing::new(&puts(40));
        log.write(0, log.log_end);
        let file = File::options().write(true).open(log.path(0)).unwrap();
        file.write_all_at(&[0xff; 8], log.start(3) as u64).unwrap();
        let mut task = log.task(0);
        if skip {
            task.how.on_corruption = OnCorruption::Skip;
        }
        let mut opened = open(task, vec![]);
        if skip {
            let mut expected = seen(&log.rows);
            expected.remove(3);
            assert_eq!(all(&mut opened.tail), expected);
            let notes = opened.notes.take();
            assert_eq!(notes.len(), 1);
            assert!(notes[0].1.contains("1 damaged parts with"), "{notes:?}");
            assert_eq!(opened.tail.stats().damaged_parts, 1);
            continue;
        }
        let error = opened.tail.next(NOW).unwrap_err();
        assert_eq!(
            (error.kind, error.next_record),
            (Kind::Damaged, Some(log.rows[4].phys))
        );
        assert!(
            error
                .to_string()
                .starts_with("broker b, its topics, log 0 to "),
            "{error}"
        );
    }
}

#[test]
fn a_batch_can_be_left_between_any_two_rows() {
    let inner = |n: usize| Put {
        inner: if n % 3 == 1 { 7 } else { 1 },
        ..Put::new("C", (n % 2) as i32)
    };
    let mut all_puts: Vec<Put> = (0..9).map(inner).collect();
    all_puts.extend(puts(5));
    let log = Growing::new(&all_puts);
    log.write(0, log.log_end);
    let mut opened = open(log.task(0), vec![]);
    let mut batches = Vec::new();
    while let Some(batch) = opened.tail.next(NOW).unwrap() {
        batches.push(batch);
    }
    let mut before = 0;
    for batch in &batches {
        for row in 0..=batch.batch.num_rows() {
            let resume = opened.tail.resume(batch, row).unwrap();
            assert_eq!(resume.broker, "b");
            let mut task = log.task(resume.log);
            task.rule = Arc::new(Selection::default().rule("b", Some(resume.starts), None));
            let rest = all(&mut open(task, vec![]).tail);
            assert_eq!(rest, seen(&log.rows[before + row..]), "row {row}");
        }
        before += batch.batch.num_rows();
    }
    assert_eq!(before, log.rows.len());
}

#[test]
fn only_what_is_asked_for_becomes_rows() {
    let log = Growing::new(&puts(40));
    log.write(0, log.log_end);
    let mut task = log.task(0);
    let topics = Selection {
        topics: vec!["B".to_owned()],
        ..Selection::default()
    };
    task.rule = Arc::new(topics.rule("b", None, None));
    let mut opened = open(task, vec![]);
    let of_b: Vec<Row> = log
        .rows
        .iter()
        .filter(|row| row.topic == "B")
        .cloned()
        .collect();
    assert_eq!(all(&mut opened.tail), seen(&of_b));
    assert_eq!(opened.tail.position(), log.log_end as u64);
}

#[test]
fn remote_files_are_refused() {
    let made: Made = make(&puts(1), &Way::default());
    let mut task = task(made.dir.path().to_str().unwrap(), 0);
    task.store.place = Some("s3".to_owned());
    let error = Tail::open(task, &LocalPlaces, Arc::default())
        .err()
        .unwrap();
    assert_eq!(error.kind, Kind::Option);
    assert!(error.with_hint().contains("micro-batches"));
}

#[test]
fn a_store_that_is_not_seen_here_is_named_with_the_host() {
    let log = Growing::new(&puts(40));
    log.write(0, log.log_end);
    let refused = |task: &TailTask| {
        let error = Tail::open(task.clone(), &LocalPlaces, Arc::default());
        let error = error.err().unwrap();
        assert_eq!(error.kind, Kind::Path);
        assert!(
            error.with_hint().contains("mount the store"),
            "{}",
            error.with_hint()
        );
        error.to_string()
    };
    let task = TailTask {
        fail_on_data_loss: false,
        ..log.task(log.log_end as u64)
    };
    // Another copy, which ends earlier.
    for number in 1..log.files.len() {
        std::fs::remove_file(log.path(number)).unwrap();
    }
    let text = refused(&task);
    assert!(
        text.contains("is not there on host ") && text.contains("the newest segment of"),
        "{text}"
    );
    std::fs::remove_dir_all(log.dir.path().join("commitlog")).unwrap();
    assert!(refused(&task).contains("there is no folder"));
}

#[test]
fn a_task_that_is_none_is_refused() {
    let log = Growing::new(&puts(2));
    let mut empty = log.task(0);
    empty.store.files.clear();
    let mut unread = log.task(0);
    unread.how.columns = vec!["nothing".to_owned()];
    for task in [log.task(u64::MAX), empty, unread] {
        assert!(Tail::open(task, &LocalPlaces, Arc::default()).is_err());
    }
}

#[test]
fn a_writer_in_another_thread_is_followed() {
    let log = Arc::new(Growing::new(&puts(400)));
    let mut tail = Tail::open(log.task(0), &LocalPlaces, Arc::default()).unwrap();
    let writer = {
        let log = log.clone();
        std::thread::spawn(move || {
            for row in 0..log.rows.len() {
                let end = log
                    .rows
                    .get(row + 1)
                    .map_or(log.log_end, |next| next.phys as usize);
                let (start, middle) = (log.start(row), (log.start(row) + end) / 2);
                log.write(start, middle);
                log.write(middle, end);
            }
        })
    };
    let mut rows = Vec::new();
    while rows.len() < log.rows.len() {
        rows.extend(rows_of(&tail.next(LONG).unwrap().unwrap()));
    }
    writer.join().unwrap();
    assert_eq!(rows, seen(&log.rows));
}

#[path = "tail_cut_tests.rs"]
mod cut;
#[path = "tail_model_tests.rs"]
mod model;
