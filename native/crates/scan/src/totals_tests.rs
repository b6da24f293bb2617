//! Totals beside those of the rows that the same task gives.

use super::*;
use crate::LocalPlaces;
use crate::made::{LOG_FILE, Made, mixed, task};
use std::collections::BTreeMap;
use std::fs;

fn made(rows: usize) -> Made {
    mixed(rows, 4)
}

fn asked(by: &[&str], of: &[(Function, &str)]) -> Totals {
    Totals {
        by: by.iter().map(|&name| name.to_owned()).collect(),
        of: of
            .iter()
            .map(|&(function, column)| Total {
                function,
                column: (!column.is_empty()).then(|| column.to_owned()),
            })
            .collect(),
    }
}

fn all(task: Task, totals: &Totals) -> Vec<RecordBatch> {
    let mut reader = TotalsReader::open(task, totals, &LocalPlaces).unwrap();
    let mut out = Vec::new();
    while let Some(batch) = reader.next().unwrap() {
        assert_eq!(batch.schema(), reader.schema());
        out.push(batch);
    }
    out
}

const FOUR: &[(Function, &str)] = &[
    (Function::Count, ""),
    (Function::Sum, "bodyLength"),
    (Function::Min, "queueOffset"),
    (Function::Max, "storeTimestamp"),
];

#[test]
fn by_topic_and_queue() {
    let made = made(500);
    let mut expected: BTreeMap<(String, i32), [i64; 4]> = BTreeMap::new();
    let columns = [
        "topic",
        "queueId",
        "bodyLength",
        "queueOffset",
        "storeTimestamp",
    ];
    let mut rows = TaskReader::open(
        task(&made, |request| {
            request.how.columns = columns.iter().map(|&name| name.to_owned()).collect();
        }),
        &LocalPlaces,
    )
    .unwrap();
    while let Some(batch) = rows.next().unwrap() {
        for row in 0..batch.num_rows() {
            let topic = batch.column(0).as_string::<i32>().value(row).to_owned();
            let queue = batch.column(1).as_primitive::<Int32Type>().value(row);
            let body = batch.column(2).as_primitive::<Int32Type>().value(row);
            let offset = batch.column(3).as_primitive::<Int64Type>().value(row);
            let time = batch
                .column(4)
                .as_primitive::<TimestampMicrosecondType>()
                .value(row);
            let group = expected
                .entry((topic, queue))
                .or_insert([0, 0, i64::MAX, i64::MIN]);
            group[0] += 1;
            group[1] += i64::from(body);
            group[2] = group[2].min(offset);
            group[3] = group[3].max(time);
        }
    }
    assert!(expected.len() > 4);
    let found = all(task(&made, |_| ()), &asked(&["topic", "queueId"], FOUR));
    let mut groups = BTreeMap::new();
    for batch in &found {
        for row in 0..batch.num_rows() {
            let topic = batch.column(0).as_string::<i32>().value(row).to_owned();
            let queue = batch.column(1).as_primitive::<Int32Type>().value(row);
            let long = |at: usize| batch.column(at).as_primitive::<Int64Type>().value(row);
            let time = batch
                .column(5)
                .as_primitive::<TimestampMicrosecondType>()
                .value(row);
            let before = groups.insert((topic, queue), [long(2), long(3), long(4), time]);
            assert_eq!(before, None);
        }
    }
    assert_eq!(groups, expected);
}

#[test]
fn without_keys_there_is_one_row_even_of_nothing() {
    let made = made(20);
    for (rows, topic) in [(18, "A"), (0, "absent")] {
        let mut one = task(&made, |_| ());
        let rule = Arc::make_mut(&mut one.rule);
        rule.selection.filters.topics = Some([topic.to_owned()].into());
        let found = all(one, &asked(&[], FOUR));
        assert_eq!(found.len(), 1);
        let [batch] = found.as_slice() else {
            unreachable!()
        };
        assert_eq!(batch.num_rows(), 1);
        assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), rows);
        for column in &batch.columns()[1..] {
            assert_eq!(column.is_null(0), rows == 0);
        }
    }
}

#[test]
fn nulls_are_a_group_and_are_not_counted() {
    let made = made(20);
    let of = [(Function::Count, ""), (Function::Count, "keys")];
    let found = all(task(&made, |_| ()), &asked(&["keys"], &of));
    let batch = &found[0];
    assert_eq!(batch.num_rows(), 1);
    assert!(batch.column(0).is_null(0));
    assert_eq!(batch.column(1).as_primitive::<Int64Type>().value(0), 20);
    assert_eq!(batch.column(2).as_primitive::<Int64Type>().value(0), 0);
}

#[test]
fn many_groups_come_in_parts() {
    let made = made(MAX_GROUPS * 2 + 100);
    let by = asked(
        &["bodyLength", "queueId", "msgId"],
        &[(Function::Count, "")],
    );
    let found = all(task(&made, |_| ()), &by);
    assert!(found.len() > 1);
    let mut rows = 0;
    for batch in &found {
        assert!(batch.num_rows() < MAX_GROUPS + 20, "a batch more at most");
        rows += batch
            .column(3)
            .as_primitive::<Int64Type>()
            .values()
            .iter()
            .sum::<i64>();
    }
    assert_eq!(rows as usize, MAX_GROUPS * 2 + 100);
}

#[test]
fn an_error_of_the_log_ends_it() {
    let made = made(200);
    let path = &made.store.files[0].2;
    let mut bytes = fs::read(path).unwrap();
    let at = made.rows[100].phys as usize % LOG_FILE;
    bytes[at..at + 4].fill(0xff);
    fs::write(path, bytes).unwrap();
    let task = task(&made, |_| ());
    let mut reader = TotalsReader::open(task, &asked(&[], FOUR), &LocalPlaces).unwrap();
    assert_eq!(reader.next().unwrap_err().kind, Kind::Damaged);
    assert!(
        reader.next().unwrap().is_none(),
        "no row of what was read before"
    );
}

#[test]
fn what_has_no_total() {
    let made = made(20);
    for (by, of, text) in [
        (&["body"][..], &[][..], "totals by body are not kept"),
        (&["absent"], &[], "there is no column 'absent'"),
        (
            &[],
            &[(Function::Sum, "queueOffset")],
            "there is no Sum of queueOffset",
        ),
        (&[], &[(Function::Min, "topic")], "there is no Min of topic"),
        (
            &[],
            &[(Function::Max, "")],
            "there is no Max of all columns",
        ),
    ] {
        let error = TotalsReader::open(task(&made, |_| ()), &asked(by, of), &LocalPlaces);
        let error = error.err().unwrap();
        let shown = |name: &str, value: Option<&str>| format!("{name}={}", value.unwrap_or(""));
        let said = SegmentError::rendered(&error.text, shown);
        assert!(said.contains(text), "{said}");
    }
}
