//! Counts of made stores, compared with their rows.

use super::*;
use crate::made::{Made, Put, Row, Way, make};
use crate::plan_filters_tests::{filters, request};
use crate::queues::tests::{puts, way};
use crate::{Filters, LocalPlaces, Selection};
use proptest::prelude::*;
use pyrmq_format::cq_entry::CqEntry;

fn count(made: &Made, selection: Selection) -> Counts {
    let request = request(made, selection, "auto");
    counts(&request, &LocalPlaces, &Notes::default()).unwrap()
}

fn expected<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<QueueCount> {
    let mut out: BTreeMap<(&str, i32), QueueCount> = BTreeMap::new();
    for row in rows {
        let one = out.entry((row.topic, row.queue)).or_insert(QueueCount {
            topic: row.topic.to_owned(),
            broker: "b".to_owned(),
            queue: row.queue,
            count: 0,
            min_offset: row.offset,
            max_offset: row.offset,
        });
        one.count += 1;
        one.min_offset = one.min_offset.min(row.offset);
        one.max_offset = one.max_offset.max(row.offset);
    }
    out.into_values().collect()
}

fn topics(names: &[&str]) -> Selection {
    Selection {
        topics: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Selection::default()
    }
}

fn why(counts: Counts) -> String {
    match counts {
        Counts::Unknown(why) => why,
        Counts::Exact(all) => panic!("counted {all:?}"),
    }
}

proptest! {
    #[test]
    fn counts_are_those_of_the_rows(
        puts in puts(), way in way(), named in any::<bool>(), system in any::<bool>(),
        filters in filters(),
    ) {
        let made = make(&puts, &way);
        // What each row decides is refused, see below.
        let filters = Filters {
            store_times: None,
            born_times: None,
            tags: None,
            keys: None,
            limit: None,
            ..filters
        };
        let has_topic = made.rows.iter().any(|row| row.topic == "A");
        let selection = Selection {
            include_system_topics: system,
            filters: filters.clone(),
            ..topics(if named && has_topic { &["A"] } else { &[] })
        };
        let within = |range: Option<(i64, i64)>, n: i64| {
            range.is_none_or(|(from, before)| from <= n && n < before)
        };
        let chosen = made.rows.iter().filter(|row| {
            selection.selects(row.topic).unwrap()
                && filters.topics.as_ref().is_none_or(|set| set.contains(row.topic))
                && filters.brokers.as_ref().is_none_or(|set| set.contains("b"))
                && filters.queues.as_ref().is_none_or(|set| set.contains(&row.queue))
                && within(filters.queue_ids, i64::from(row.queue))
                && within(filters.queue_offsets, row.offset)
                && within(filters.commit_log_offsets, row.phys as i64)
        });
        match count(&made, selection.clone()) {
            Counts::Exact(found) => prop_assert_eq!(found, expected(chosen)),
            Counts::Unknown(why) => prop_assert_eq!(why, "queue B-2 has inner batches"),
        }
    }
}

#[test]
fn what_is_not_dispatched_is_walked() {
    let way = Way {
        undispatched: 7,
        ..Way::default()
    };
    let puts: Vec<Put> = (0..20)
        .map(|n| Put::new(["A", "B"][n % 2], (n % 3) as i32))
        .collect();
    let made = make(&puts, &way);
    assert_eq!(
        count(&made, topics(&[])),
        Counts::Exact(expected(made.rows.iter()))
    );
}

#[test]
fn blank_places_do_not_count() {
    let made = make(&vec![Put::new("T", 0); 20], &Way::default());
    let path = made
        .dir
        .path()
        .join("consumequeue/T/0")
        .join("0".repeat(20));
    let mut bytes = std::fs::read(&path).unwrap();
    for place in [2, 3, 6] {
        CqEntry::PRE_BLANK.write(&mut bytes[place * 20..][..20]);
    }
    std::fs::write(&path, &bytes).unwrap();
    let Counts::Exact(found) = count(&made, topics(&["T"])) else {
        panic!("it is exact");
    };
    assert_eq!(
        (found[0].count, found[0].min_offset, found[0].max_offset),
        (17, 0, 19)
    );
    // Of all topics together the records of these places are missed.
    let why = why(count(&made, topics(&[])));
    assert!(
        why.starts_with("the log has records without queue entries"),
        "{why}"
    );
}

#[test]
fn messages_of_a_topic_that_was_deleted_make_all_topics_unknown() {
    let puts: Vec<Put> = (0..20).map(|n| Put::new(["A", "B"][n % 2], 0)).collect();
    let made = make(&puts, &Way::default());
    std::fs::remove_dir_all(made.dir.path().join("consumequeue/B")).unwrap();
    let why = why(count(&made, topics(&[])));
    assert!(
        why.starts_with("the log has records without queue entries"),
        "{why}"
    );
    let a = made.rows.iter().filter(|row| row.topic == "A");
    assert_eq!(count(&made, topics(&["A"])), Counts::Exact(expected(a)));
}

#[test]
fn a_queue_that_begins_late_has_to_be_covered() {
    for first_offset in [3, 16] {
        let way = Way {
            first_offset,
            ..Way::default()
        };
        // Whole: the log's first message is the queue's.
        let puts = vec![Put::new("T", 0); 20];
        let made = make(&puts, &way);
        assert_eq!(
            count(&made, topics(&["T"])),
            Counts::Exact(expected(made.rows.iter()))
        );
        // The topic was deleted and made again: its first messages have no entries.
        let path = made.dir.path().join("consumequeue/T/0");
        let mut files: Vec<_> = std::fs::read_dir(&path)
            .unwrap()
            .map(|f| f.unwrap().path())
            .collect();
        files.sort();
        std::fs::remove_file(&files[0]).unwrap();
        let why = why(count(&made, topics(&["T"])));
        assert!(
            why.starts_with("the log has records without queue entries"),
            "{why}"
        );
    }
}

#[test]
fn entries_of_another_log_are_noticed() {
    let made = make(&vec![Put::new("T", 0); 20], &Way::default());
    let path = made
        .dir
        .path()
        .join("consumequeue/T/0")
        .join("0".repeat(20));
    let good = std::fs::read(&path).unwrap();
    // The first message is missing: all others are one place too early.
    let mut bytes = good.clone();
    bytes.copy_within(20.., 0);
    let end = bytes.len() - 20;
    let next = std::fs::read(path.with_file_name("00000000000000000160")).unwrap();
    bytes[end..].copy_from_slice(&next[..20]);
    std::fs::write(&path, &bytes).unwrap();
    let reason = why(count(&made, topics(&["T"])));
    assert_eq!(reason, "queue T-0 is damaged");
    std::fs::remove_file(path.with_file_name("00000000000000000320")).unwrap();
    std::fs::remove_file(path.with_file_name("00000000000000000160")).unwrap();
    let reason = why(count(&made, topics(&["T"])));
    assert_eq!(reason, "entry 0 of queue T-0 leads to another record");
    // A place in the middle leads back.
    let mut bytes = good;
    bytes.copy_within(0..20, 80);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(why(count(&made, topics(&["T"]))), "queue T-0 is damaged");
}

#[test]
fn what_each_message_decides_is_refused() {
    let made = make(&[Put::new("T", 0)], &Way::default());
    let with = |filters: Filters| Selection {
        filters,
        ..topics(&["T"])
    };
    let texts = Some([Some("a".to_owned())].into());
    for (selection, what) in [
        (
            Selection {
                tags: Some(vec!["a".to_owned()]),
                ..topics(&["T"])
            },
            "tags",
        ),
        (
            Selection {
                key: Some("a".to_owned()),
                ..topics(&["T"])
            },
            "keys",
        ),
        (
            Selection {
                end_time: Some(5),
                ..topics(&["T"])
            },
            "store times",
        ),
        (
            with(Filters {
                tags: texts.clone(),
                ..Filters::default()
            }),
            "tags",
        ),
        (
            with(Filters {
                keys: texts,
                ..Filters::default()
            }),
            "keys",
        ),
        (
            with(Filters {
                born_times: Some((0, 9)),
                ..Filters::default()
            }),
            "born times",
        ),
        (
            with(Filters {
                store_times: Some((0, 9)),
                ..Filters::default()
            }),
            "store times",
        ),
    ] {
        let expected = format!("{what} are compared with those of each message");
        assert_eq!(why(count(&made, selection)), expected);
    }
    let mut request = request(&made, topics(&["T"]), "scan");
    let of = |request: &Request| counts(request, &LocalPlaces, &Notes::default()).unwrap();
    assert_eq!(why(of(&request)), "the plan is to read the log");
    request.plan = "index".to_owned();
    assert_eq!(of(&request), Counts::Exact(expected(made.rows.iter())));
    request.how.on_corruption = OnCorruption::Skip;
    assert_eq!(
        why(of(&request)),
        "what is damaged is known only after it is read"
    );
    std::fs::write(made.dir.path().join("abort"), "1").unwrap();
    request.how.on_corruption = OnCorruption::Fail;
    assert_eq!(why(of(&request)), "the last stop of its broker was a crash");
    std::fs::remove_dir_all(made.dir.path().join("consumequeue")).unwrap();
    std::fs::remove_file(made.dir.path().join("abort")).unwrap();
    assert_eq!(why(of(&request)), "it has no consumequeue folder");
}

#[test]
fn groups_by_some_columns() {
    let one = |topic: &str, broker: &str, queue, count, min_offset, max_offset| QueueCount {
        topic: topic.to_owned(),
        broker: broker.to_owned(),
        queue,
        count,
        min_offset,
        max_offset,
    };
    let counts = Counts::Exact(vec![
        one("A", "b", 0, 5, 2, 9),
        one("A", "b", 1, 1, 1, 1),
        one("B", "b", 0, 2, 0, 3),
        one("A", "c", 0, 7, 4, 20),
    ]);
    let by = |columns: &[&str]| {
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        counts.by(&columns)
    };
    let group = |key: Value, count: u64, min: i64, max: i64| serde_json::json!({"key": key, "count": count, "min_offset": min, "max_offset": max});
    assert_eq!(
        by(&["topic"]).unwrap(),
        serde_json::json!({"exact": true, "groups": [
            group(serde_json::json!(["A"]), 13, 1, 20), group(serde_json::json!(["B"]), 2, 0, 3),
        ]})
    );
    assert_eq!(
        by(&["queueId", "brokerName"]).unwrap()["groups"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert_eq!(
        by(&[]).unwrap()["groups"],
        serde_json::json!([group(serde_json::json!([]), 15, 0, 20)])
    );
    let error = by(&["tags"]).unwrap_err();
    assert_eq!(error.to_string(), "messages are not counted by \"tags\"");
    let unknown = Counts::Unknown("x".to_owned()).by(&[]).unwrap();
    assert_eq!(unknown, serde_json::json!({"exact": false, "why": "x"}));
}

/// The queue of A has the entries of B, or lacks some of its own.
#[test]
fn forged_and_cut_queues_are_not_counted() {
    let turns = ["A", "B"].into_iter().cycle().take(10);
    let puts: Vec<Put> = turns.map(|topic| Put::new(topic, 0)).collect();
    let made = make(&puts, &Way::default());
    let file = |topic: &str| {
        let folder = made.dir.path().join("consumequeue").join(topic);
        folder.join("0").join("0".repeat(20))
    };
    let own = std::fs::read(file("A")).unwrap();
    std::fs::copy(file("B"), file("A")).unwrap();
    let said = why(count(&made, topics(&["A"])));
    assert!(said.ends_with("leads to another record"), "{said}");
    std::fs::write(file("A"), &own[..60]).unwrap();
    why(count(&made, topics(&["A"])));
    std::fs::write(file("A"), own).unwrap();
    assert!(matches!(count(&made, topics(&["A"])), Counts::Exact(_)));
}
