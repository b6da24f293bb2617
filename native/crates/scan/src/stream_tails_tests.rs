//! The tasks of real-time mode, and the position behind them.

use super::super::super::Tail;
use super::*;

#[test]
fn real_time_mode_has_one_task_a_broker() {
    let (made, more) = (small(30), small(60));
    let notes = Notes::default();
    let selection = Selection {
        starting_offsets: from(&[("A", 0, 5), ("A", 1, 2)]),
        start_time: None,
        ..named(&["A"])
    };
    let mut stream = planner(made.dir.path(), selection);
    let start = kept(&stream.initial(&notes).unwrap());
    let tails = stream.tails(&start, &notes).unwrap();
    assert_eq!(tails.len(), 1);
    let mut tail = Tail::open(tails[0].clone(), &LocalPlaces, Arc::default()).unwrap();
    grow(&made, &more);
    let mut rows = 0;
    let mut last = None;
    while let Some(batch) = tail.next(std::time::Duration::ZERO).unwrap() {
        rows += batch.batch.num_rows();
        last = Some(batch);
    }
    assert_eq!(rows, 48 - 7);
    // Stopped in front of the last row, the query goes on with it, by whatever trigger.
    let last = last.unwrap();
    let resume = tail.resume(&last, last.batch.num_rows() - 1).unwrap();
    let end = kept(&stream.reached(&start, &[resume]).unwrap());
    let (rest, end) = next(&mut stream, &end, (None, None));
    let of_a = more.rows.iter().rev().find(|row| row.topic == "A").unwrap();
    assert_eq!(rest, seen(std::slice::from_ref(of_a)));
    let all = tail.resume(&last, last.batch.num_rows()).unwrap();
    assert_eq!(kept(&stream.reached(&start, &[all]).unwrap()), end);
}

#[test]
fn real_time_mode_stops_inside_an_inner_batch() {
    let puts: Vec<Put> = (0..6)
        .map(|_| Put {
            inner: 4,
            ..Put::new("C", 1)
        })
        .collect();
    let made = make(&puts, &Way::default());
    let notes = Notes::default();
    let mut stream = planner(made.dir.path(), Selection::default());
    let start = kept(&stream.initial(&notes).unwrap());
    let tails = stream.tails(&start, &notes).unwrap();
    let mut tail = Tail::open(tails[0].clone(), &LocalPlaces, Arc::default()).unwrap();
    let batch = tail.next(std::time::Duration::ZERO).unwrap().unwrap();
    assert_eq!(batch.batch.num_rows(), 24);
    for row in 0..24 {
        let resume = tail.resume(&batch, row).unwrap();
        let mut at = kept(&stream.reached(&start, &[resume]).unwrap());
        assert_eq!(at.get("from").is_some(), row % 4 != 0);
        // Stopped again at once: the same place.
        let again = Resume {
            broker: "b".to_owned(),
            log: at["log"]["b"].as_u64().unwrap(),
            ..Resume::default()
        };
        assert_eq!(kept(&stream.reached(&at, &[again]).unwrap()), at);
        assert_eq!(
            drained(&mut stream, &mut at, (None, None)),
            seen(&made.rows[row..])
        );
        assert!(at.get("from").is_none());
    }
}

#[test]
fn real_time_mode_reads_nothing_from_before_its_start() {
    let made = small(30);
    let notes = Notes::default();
    let mut stream = planner(made.dir.path(), named(&["A", "B"]));
    let at = json!({"log": {"b": made.log_end}, "topics": ["B"], "version": 1});
    let error = stream.tails(&at, &notes).unwrap_err();
    assert_eq!(error.kind, Kind::Checkpoint);
    assert!(
        error
            .to_string()
            .starts_with("what was added, A, stands before"),
        "{error}"
    );
}
