//! The first and last rows of made stores.

use super::*;
use crate::made::{Made, Put, Way, make};
use crate::plan::plan;
use crate::plan_filters_tests::{Id, filters, holds, id, read, request};
use crate::queues::tests::{puts, way};
use crate::{Filters, LocalPlaces, Selection};
use proptest::prelude::*;

fn found(made: &Made, selection: Selection, mode: &str, top: &Top) -> Vec<Id> {
    let request = Request {
        top: Some(top.clone()),
        ..request(made, selection, mode)
    };
    let planned = plan(&request, &LocalPlaces, &Notes::default()).unwrap();
    read(&planned).into_iter().flatten().collect()
}

/// What rows are ordered by, from the first one wanted on.
fn keys(rows: &[Id], top: &Top) -> Vec<i64> {
    let mut keys: Vec<i64> = rows
        .iter()
        .map(|row| match top.by {
            TopBy::QueueOffset => row.2,
            TopBy::CommitLogOffset => row.3 as i64,
        })
        .collect();
    keys.sort_unstable();
    if top.descending {
        keys.reverse();
    }
    keys.truncate(top.n as usize);
    keys
}

proptest! {
    #[test]
    fn none_of_the_first_rows_is_missed(
        puts in puts(), way in way(), filters in filters(), mode in "auto|scan|index",
        named in any::<bool>(), by_queue in any::<bool>(), descending in any::<bool>(),
        n in 0u64..12,
    ) {
        let made = make(&puts, &way);
        let filters = Filters { limit: None, ..filters };
        let has_topic = made.rows.iter().any(|row| row.topic == "A");
        let selection = Selection {
            topics: if named && has_topic { vec!["A".to_owned()] } else { Vec::new() },
            filters: filters.clone(),
            ..Selection::default()
        };
        let by = if by_queue { TopBy::QueueOffset } else { TopBy::CommitLogOffset };
        let top = Top { by, descending, n };
        let expected: Vec<Id> = made
            .rows
            .iter()
            .filter(|row| selection.selects(row.topic).unwrap() && holds(&filters, row))
            .map(id)
            .collect();
        let rows = found(&made, selection, &mode, &top);
        prop_assert!(rows.iter().all(|row| expected.contains(row)));
        prop_assert_eq!(keys(&rows, &top), keys(&expected, &top));
    }
}

fn top(by: TopBy, descending: bool, n: u64) -> Top {
    Top { by, descending, n }
}

fn topic(name: &str) -> Selection {
    Selection {
        topics: vec![name.to_owned()],
        ..Selection::default()
    }
}

#[test]
fn few_rows_are_read() {
    let puts: Vec<Put> = (0..3000).map(|n| Put::new("T", n % 3)).collect();
    let made = make(&puts, &Way::default());
    let all = made.log_end as i64;
    // As an action of a frame asks, whose first action has fixed the end.
    let spanned = |range| Selection {
        filters: Filters {
            commit_log_offsets: Some(range),
            ..Filters::default()
        },
        ..topic("T")
    };
    for selection in [topic("T"), Selection::default(), spanned((0, all))] {
        for descending in [false, true] {
            let by_queue = top(TopBy::QueueOffset, descending, 9);
            assert_eq!(found(&made, selection.clone(), "auto", &by_queue).len(), 9);
            let by_log = top(TopBy::CommitLogOffset, descending, 9);
            let rows = found(&made, selection.clone(), "auto", &by_log).len();
            let most = if descending { 2800 } else { 9 };
            assert!((9..=most).contains(&rows), "{rows}");
        }
    }
}

#[test]
fn places_behind_the_end_of_a_frame_do_not_count() {
    let puts: Vec<Put> = (0..3000).map(|n| Put::new("T", n % 3)).collect();
    let made = make(&puts, &Way::default());
    let end = made.rows[1501].phys as i64;
    let from = made.rows[12].phys as i64;
    let selection = Selection {
        filters: Filters {
            commit_log_offsets: Some((from, end)),
            queue_ids: Some((1, i64::MAX)),
            ..Filters::default()
        },
        ..topic("T")
    };
    let offsets = |descending| {
        let top = top(TopBy::QueueOffset, descending, 4);
        let rows = found(&made, selection.clone(), "auto", &top);
        assert_eq!(rows.len(), 4);
        keys(&rows, &top)
    };
    assert_eq!(offsets(false), [4, 4, 5, 5]);
    assert_eq!(offsets(true), [499, 499, 498, 498]);
}

#[test]
fn blank_places_are_no_rows() {
    let made = make(&vec![Put::new("T", 0); 20], &Way::default());
    let path = made
        .dir
        .path()
        .join("consumequeue/T/0")
        .join("0".repeat(20));
    let mut bytes = std::fs::read(&path).unwrap();
    pyrmq_format::cq_entry::CqEntry::PRE_BLANK.write(&mut bytes[20..40]);
    std::fs::write(&path, &bytes).unwrap();
    let rows = found(
        &made,
        topic("T"),
        "index",
        &top(TopBy::QueueOffset, false, 4),
    );
    assert!(
        keys(&rows, &top(TopBy::QueueOffset, false, 4)) == [0, 2, 3, 4],
        "{rows:?}"
    );
}

#[test]
fn offsets_that_enough_places_are_before_or_behind() {
    let queue = Queue {
        topic: "T".to_owned(),
        id: 0,
        unit: 20,
        files: Vec::new(),
    };
    let of = |ranges: &[(u64, u64)], descending, n| {
        let queues: Vec<_> = ranges.iter().map(|r| (queue.clone(), r.0, r.1)).collect();
        bound(&queues, &top(TopBy::QueueOffset, descending, n))
    };
    let ranges = [(0, 10), (5, 30), (28, 40)];
    assert_eq!(of(&ranges, false, 5), Some(5));
    assert_eq!(of(&ranges, false, 6), Some(6));
    assert_eq!(of(&ranges, false, 7), Some(6));
    assert_eq!(of(&ranges, true, 10), Some(30));
    assert_eq!(of(&ranges, true, 12), Some(29));
    assert_eq!(of(&ranges, true, 14), Some(28));
    assert_eq!(of(&ranges, true, 47), None);
    assert_eq!(of(&[], true, 1), None);
    assert_eq!(of(&ranges, false, 0), Some(0));
}
