//! Times by queue in made stores, compared with the rows.

use super::*;
use crate::made::{Made, Put, Row, Way, make};
use crate::queues::tests::{puts, way};
use crate::{Kind, OnCorruption::Fail};
use proptest::prelude::*;
use serde_json::json;

/// The same messages, whose clock goes by such steps.
fn timed(puts: Vec<Put>, steps: &[i64]) -> Vec<Put> {
    let mut time = 1000;
    let puts = puts.into_iter().enumerate();
    puts.map(|(number, put)| {
        time += steps[number % steps.len()];
        Put { time, ..put }
    })
    .collect()
}

fn first_of(made: &Made, time: i64, from: u64) -> Option<&Row> {
    made.rows
        .iter()
        .find(|row| row.time >= time && row.phys >= from)
}

proptest! {
    #[test]
    fn offsets_are_those_of_the_rows(
        puts in puts(), way in way(), steps in prop::collection::vec(0i64..30, 1..9),
        time in 900i64..4000, until in 900i64..4000, strategy in "error|latest",
    ) {
        let made = make(&timed(puts, &steps), &way);
        let notes = Notes::default();
        let whole = (made.store.first(), made.log_end);
        let part = narrowed(&made.store, whole, Some(time), Some(until)).unwrap();
        for row in &made.rows {
            let inside = part.0 <= row.phys && row.phys < part.1;
            prop_assert!(inside || row.time < time || until <= row.time);
        }
        let found = first_at(&made.store, whole, time, Fail).unwrap();
        let expected = first_of(&made, time, 0).map(|row| row.phys);
        prop_assert_eq!(found, expected);

        let selection = Selection {
            topics: vec!["A".to_owned(), "B".to_owned()],
            starting_times: Some(json!({"A": {"b": {"0": time, "1": until}}, "B": until})),
            ending_times: Some(json!({"A": {"b": until}, "B": {"other": time}})),
            timestamp_strategy: strategy.clone(),
            ..Selection::default()
        };
        let of = |topic: &str, queue: i32, from: Option<u64>| {
            let rows = made.rows.iter().filter(|row| row.topic == topic && row.queue == queue);
            let mut rows = rows.filter(|row| from.is_some_and(|from| row.phys >= from));
            let first = rows.next().map(|row| row.offset);
            (first, rows.next_back().map(|row| row.offset).or(first).map(|last| last + 1))
        };
        let at = |time: i64| first_of(&made, time, 0).map(|row| row.phys);
        let late = |topic: &str, queues: &[i32], time: i64| {
            queues.iter().all(|queue| of(topic, *queue, at(time)).0.is_none())
        };
        let made_of = with_offsets(
            &selection, std::slice::from_ref(&made.store), &[made.log_end], Fail, &notes,
        );
        let is_late =
            late("A", &[0], time) || late("A", &[1], until) || late("B", &[0, 1, 2], until);
        if is_late && strategy == "error" {
            prop_assert_eq!(made_of.unwrap_err().kind, Kind::OffsetOutOfRange);
            return Ok(());
        }
        let found = made_of.unwrap();
        prop_assert!(found.starting_times.is_none() && found.ending_times.is_none());
        let get = |offsets: &Offsets, topic: &str, queue: i32| match offsets {
            Offsets::Of(of) => of.get(topic)?.get("b")?.get(&queue).copied(),
            _ => None,
        };
        for (topic, queue, time) in [
            ("A", 0, Some(time)), ("A", 1, Some(until)), ("A", 2, None),
            ("B", 0, Some(until)), ("B", 1, Some(until)), ("B", 2, Some(until)),
        ] {
            let (first, behind) = of(topic, queue, Some(0));
            if first.is_none() {
                continue; // without messages there is only what its folder says
            }
            let start = get(&found.starting_offsets, topic, queue);
            let expected = time.map(|time| of(topic, queue, at(time)).0.or(behind).unwrap());
            prop_assert_eq!(start, expected, "{} {}", topic, queue);
            let end = get(&found.ending_offsets, topic, queue);
            let expected =
                (topic == "A").then(|| of(topic, queue, at(until)).0.unwrap_or(LATEST));
            prop_assert_eq!(end, expected);
        }
    }
}

#[test]
fn a_step_of_the_clock_keeps_a_segment_of_margin() {
    // Ten files; the clock of the fifth is one file late, that of the seventh one file early.
    let mut puts = Vec::new();
    for file in 0..10 {
        let time = match file {
            4 => 300,
            6 => 700,
            file => file * 100,
        };
        puts.extend(vec![
            Put {
                time,
                body: 1800,
                ..Put::new("T", 0)
            };
            1
        ]);
    }
    let made = make(&puts, &Way::default());
    assert_eq!(made.store.files.len(), 10);
    let part = |from, until| {
        let (start, end) = narrowed(&made.store, (0, made.log_end), from, until).unwrap();
        (start / 2048, end.div_ceil(2048))
    };
    assert_eq!(part(None, None), (0, 10));
    assert_eq!(part(Some(300), None), (1, 10));
    assert_eq!(part(Some(700), None), (4, 10));
    assert_eq!(part(None, Some(300)), (0, 4));
    assert_eq!(part(None, Some(301)), (0, 6));
    assert_eq!(part(Some(5000), None), (8, 10));
    assert_eq!(part(None, Some(0)), (0, 1));
}

#[test]
fn a_start_that_is_later_than_all_names_the_first_such() {
    let made = make(&[Put::new("T", 0), Put::new("U", 0)], &Way::default());
    let selection = Selection {
        starting_times: Some(json!({"U": 1_735_689_600_000i64, "T": {"b": {"0": 99}}})),
        ..Selection::default()
    };
    let stores = [made.store.clone()];
    let notes = Notes::default();
    let error = with_offsets(&selection, &stores, &[made.log_end], Fail, &notes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "starting_times: 1970-01-01T00:00:00.099Z is later than every message of topic T, \
         broker b, queue 0"
    );
}

/// The numbers of the segments, the end exclusive; `times` are their first ones.
fn segments(times: &[Option<i64>], from: Option<i64>, until: Option<i64>) -> (u64, u64) {
    let fronts: Vec<_> = (0..).step_by(1000).zip(times.iter().copied()).collect();
    let whole = (0, times.len() as u64 * 1000);
    let (start, end) = narrowed_by(&fronts, whole, from, until);
    (start / 1000, end / 1000)
}

#[test]
fn a_start_keeps_a_segment_with_records_as_margin() {
    let of = |times: &[Option<i64>], from| segments(times, Some(from), None).0;
    let whole = [100, 200, 300, 400].map(Some);
    assert_eq!(of(&whole, 350), 1);
    assert_eq!(of(&whole, 150), 0);
    assert_eq!(of(&whole, 900), 2);
    // Made ahead.
    assert_eq!(of(&[Some(100), Some(200), None], 250), 0);
    assert_eq!(of(&[Some(100), Some(200), None, None, None], 250), 0);
    // Damaged fronts.
    assert_eq!(of(&[Some(100), None, None, None, Some(400)], 150), 0);
    assert_eq!(
        of(&[Some(100), Some(200), None, Some(400), Some(500)], 450),
        1
    );
    assert_eq!(of(&[None, None, Some(100), Some(200)], 150), 0);
    assert_eq!(of(&[None, None], 150), 0);
}

#[test]
fn an_end_keeps_a_segment_with_records_as_margin() {
    let of = |times: &[Option<i64>], until| segments(times, None, Some(until)).1;
    let whole = [100, 200, 300, 400].map(Some);
    assert_eq!(of(&whole, 150), 2);
    assert_eq!(of(&whole, 50), 1);
    assert_eq!(of(&whole, 350), 4);
    assert_eq!(of(&[Some(100), None, None, None, Some(400)], 300), 5);
    assert_eq!(
        of(&[Some(100), Some(400), None, Some(500), Some(600)], 300),
        3
    );
    assert_eq!(of(&[None, None], 300), 2);
}
