//! Logs that are cut, or replaced, while they are read.

use super::*;

#[test]
fn a_log_that_ends_before_the_stream_was_cut() {
    let log = Growing::new(&puts(20));
    log.write(0, log.start(10));
    let at = log.start(12) as u64;
    let text = format!(
        "{}: the log of broker b ends at {}, the stream is at {at}",
        log.dir.path().display(),
        log.start(10)
    );
    let notes = Arc::new(Notes::default());
    let error = Tail::open(log.task(at), &LocalPlaces, notes.clone())
        .err()
        .unwrap();
    assert_eq!(
        (error.kind, error.to_string()),
        (Kind::DataLoss, text.clone())
    );
    assert!(
        error
            .with_hint()
            .contains("it is another log, or it was cut")
    );
    let task = TailTask {
        fail_on_data_loss: false,
        ..log.task(at)
    };
    let mut tail = Tail::open(task, &LocalPlaces, notes.clone()).unwrap();
    assert!(notes.take()[0].1.starts_with(&text));
    log.write(log.start(10), log.log_end);
    assert_eq!(all(&mut tail), seen(&log.rows[10..]));
}

/// Reads ten rows; then the log changes.
fn read_ten(log: &Arc<Growing>, fail: bool) -> Opened {
    log.write(0, log.start(10));
    let task = TailTask {
        fail_on_data_loss: fail,
        ..log.task(0)
    };
    let mut opened = open(task, vec![]);
    assert_eq!(all(&mut opened.tail), seen(&log.rows[..10]));
    opened
}

#[test]
fn a_log_that_is_cut_and_written_anew_is_an_error() {
    let other = Growing::new(&puts(40).into_iter().rev().collect::<Vec<_>>());
    let cut: [&dyn Fn(&Growing); 4] = [
        // Other records in their place, so that the log goes on.
        &|log| {
            let file = File::options().write(true).open(log.path(0)).unwrap();
            file.write_all_at(&other.files[0].1, 0).unwrap();
        },
        // Zeros from some record on.
        &|log| {
            let file = File::options().write(true).open(log.path(0)).unwrap();
            let from = log.start(5);
            file.write_all_at(&vec![0; LOG_FILE - from], from as u64)
                .unwrap();
        },
        // A shorter file.
        &|log| {
            let file = File::options().write(true).open(log.path(0)).unwrap();
            file.set_len(log.start(5) as u64).unwrap();
        },
        // Another file of the same name, with the same bytes.
        &|log| {
            let copy = log.dir.path().join("copy");
            std::fs::copy(log.path(0), &copy).unwrap();
            std::fs::rename(copy, log.path(0)).unwrap();
        },
    ];
    for (number, cut) in cut.into_iter().enumerate() {
        for fail in [true, false] {
            let log = Arc::new(Growing::new(&puts(40)));
            let mut opened = read_ten(&log, fail);
            cut(&log);
            opened.tail.relist = true;
            if fail {
                let error = opened.tail.next(NOW).unwrap_err();
                assert_eq!(error.kind, Kind::DataLoss, "{number}: {error}");
                assert!(error.with_hint().contains("another log"), "{number}");
                continue;
            }
            all(&mut opened.tail);
            assert_eq!(opened.notes.take()[0].0, Level::Warning, "{number}");
        }
    }
}

#[test]
fn it_tells_a_cut_log_by_its_records_at_once() {
    let log = Arc::new(Growing::new(&puts(40)));
    let mut opened = read_ten(&log, true);
    // Written anew up to behind the stream, which no look at the files shows.
    let other = Growing::new(&puts(40).into_iter().rev().collect::<Vec<_>>());
    let file = File::options().write(true).open(log.path(0)).unwrap();
    file.write_all_at(&other.files[0].1, 0).unwrap();
    file.write_all_at(&[1; 8], opened.tail.position()).unwrap();
    opened.tail.looked = Instant::now() + LONG;
    let error = opened.tail.next(NOW).unwrap_err();
    assert!(
        error.to_string().contains("was cut at or before"),
        "{error}"
    );
}

#[test]
fn it_continues_with_what_a_new_log_gets() {
    let log = Arc::new(Growing::new(&puts(40)));
    let mut opened = read_ten(&log, false);
    let file = File::options().write(true).open(log.path(0)).unwrap();
    let from = log.start(5);
    file.write_all_at(&vec![0; LOG_FILE - from], from as u64)
        .unwrap();
    opened.tail.relist = true;
    assert_eq!(all(&mut opened.tail), []);
    assert_eq!(opened.tail.position(), from as u64);
    log.write(from, log.log_end);
    assert_eq!(all(&mut opened.tail), seen(&log.rows[5..]));
}
