//! Filters of a reader, compared with the same conditions on all rows.

use super::*;
use crate::testing::{Sent, batches, disk, log, settings};
use crate::{Column, Reader, RecordSource, Selection};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch};
use proptest::prelude::*;

const COLUMNS: [Column; 5] = [
    Column::Tags,
    Column::Keys,
    Column::CommitLogOffset,
    Column::StoreTimestamp,
    Column::BornTimestamp,
];

type Row = (Option<String>, Option<String>, i64, i64, i64);

fn rows(batch: &RecordBatch) -> Vec<Row> {
    let text = |column: usize, row: usize| {
        let values = batch.column(column).as_string::<i32>();
        values.is_valid(row).then(|| values.value(row).to_owned())
    };
    let time = |column: usize, row: usize| {
        let values = batch
            .column(column)
            .as_primitive::<TimestampMicrosecondType>();
        values.value(row) / 1000
    };
    let phys = batch.column(2).as_primitive::<Int64Type>();
    (0..batch.num_rows())
        .map(|row| {
            (
                text(0, row),
                text(1, row),
                phys.value(row),
                time(3, row),
                time(4, row),
            )
        })
        .collect()
}

/// Messages with all kinds of TAGS and KEYS, also several and broken ones.
fn sent(kinds: &[u8]) -> impl Iterator<Item = Sent> + '_ {
    kinds.iter().map(|kind| Sent {
        props: match kind % 8 {
            0 => Vec::new(),
            1 => b"TAGS\x01a\x02".to_vec(),
            2 => b"TAGS\x01b\x02KEYS\x01k x\x02".to_vec(),
            3 => b"KEYS\x01k\x02".to_vec(),
            4 => b"TAGS\x01a\x02TAGS\x01c\x02".to_vec(),
            5 => b"TAGS\x01\xff\x02KEYS\x01\xff\xff\x02".to_vec(),
            6 => b"TAGS\x01\x02KEYS\x01\x02".to_vec(),
            _ => b"KEYS\x01k\x02TAGS\x01d".to_vec(), // the last value has no end
        },
        ..Sent::plain(vec![b'x'; *kind as usize])
    })
}

fn read(kinds: &[u8], filters: Option<Filters>, batch_rows: usize) -> (Vec<Row>, u64) {
    let made = log(4, sent(kinds));
    let disk = disk(&made.bytes);
    let source = RecordSource::Range {
        file_set: disk.file_set.clone(),
        range: (0, made.end as u64),
        log_end: made.end as u64,
        exact: true,
    };
    let selection = Selection::new(None);
    let selection = match filters {
        Some(filters) => selection.filtered(filters),
        None => selection,
    };
    let mut settings = settings(&COLUMNS);
    settings.batch_rows = batch_rows;
    let mut reader = Reader::new(source, selection, settings).unwrap();
    let found = batches(&mut reader);
    assert!(found.iter().all(|batch| batch.num_rows() <= batch_rows));
    (
        found.iter().flat_map(rows).collect(),
        reader.stats().records,
    )
}

fn texts() -> impl Strategy<Value = Option<BTreeSet<Option<String>>>> {
    let value = prop::sample::select(vec![
        None,
        Some("a"),
        Some("b"),
        Some("c"),
        Some("d"),
        Some("k"),
        Some("k x"),
        Some(""),
        Some("\u{fffd}"),
        Some("\u{fffd}\u{fffd}"),
        Some("e"),
        Some("f"),
        Some("g"),
        Some("h"),
    ])
    .prop_map(|value| value.map(str::to_owned));
    prop::option::of(prop::collection::btree_set(value, 0..14))
}

fn range(most: i64) -> impl Strategy<Value = Option<(i64, i64)>> {
    prop::option::of((-1..most, -1..most))
}

fn values(texts: &Option<BTreeSet<Option<String>>>) -> Option<Texts> {
    let texts = texts.as_ref()?;
    Some(Texts::new(texts.iter().map(|text| text.as_deref())))
}

proptest! {
    #[test]
    fn rows_are_those_for_which_all_hold(
        kinds in prop::collection::vec(0u8..60, 0..40),
        tags in texts(),
        keys in texts(),
        commit_log_offsets in range(6000),
        store_times in range(6000),
        born_times in range(4),
        limit in prop::option::of(0u64..20),
        batch_rows in 1usize..9,
    ) {
        let filters = Filters {
            brokers: Some(BTreeSet::from(["b".to_owned()])),
            queue_ids: None,
            commit_log_offsets,
            store_times,
            born_times,
            tags: values(&tags),
            keys: values(&keys),
            limit,
        };
        let (all, _) = read(&kinds, None, batch_rows);
        let among = |set: &Option<BTreeSet<_>>, value: &Option<String>| {
            set.as_ref().is_none_or(|set| set.contains(value))
        };
        let within = |range: Option<(i64, i64)>, n: i64| {
            range.is_none_or(|(from, before)| from <= n && n < before)
        };
        let expected: Vec<Row> = all
            .into_iter()
            .filter(|row| among(&tags, &row.0) && among(&keys, &row.1))
            .filter(|row| within(commit_log_offsets, row.2) && within(store_times, row.3))
            .filter(|row| within(born_times, row.4))
            .take(limit.unwrap_or(u64::MAX) as usize)
            .collect();
        prop_assert_eq!(read(&kinds, Some(filters), batch_rows).0, expected);
    }
}

#[test]
fn a_limit_ends_the_read() {
    let filters = Filters {
        limit: Some(3),
        ..Filters::default()
    };
    let (rows, records) = read(&[1; 30], Some(filters), 2);
    assert_eq!((rows.len(), records), (3, 3));
}

#[test]
fn another_broker_reads_nothing() {
    let filters = Filters {
        brokers: Some(BTreeSet::from(["other".to_owned()])),
        ..Filters::default()
    };
    assert_eq!(read(&[1; 3], Some(filters), 10), (Vec::new(), 0));
}

#[test]
fn ids_of_queues_in_a_range() {
    let ids = |from, before| {
        let filters = Filters {
            queue_ids: Some((from, before)),
            ..Filters::default()
        };
        read(&[1; 3], Some(filters), 10).0.len()
    };
    let own = 3; // [testing::Sent::record]
    assert_eq!(ids(own, i64::MAX), 3);
    assert_eq!(ids(i64::MIN, own + 1), 3);
    assert_eq!(ids(own + 1, i64::MAX), 0);
    assert_eq!(ids(i64::MIN, own), 0);
}
