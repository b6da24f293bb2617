use super::*;
use arrow_array::builder::{MapBuilder, StringBuilder};
use arrow_array::{ArrayRef, BinaryArray, Int32Array, Int64Array, RecordBatch, StringArray};
use proptest::prelude::*;
use pyrmq_format::host::Host;
use pyrmq_format::properties;
use std::sync::Arc;

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn bodies(values: &[&str]) -> ArrayRef {
    Arc::new(BinaryArray::from_iter_values(values))
}

fn maps(rows: &[&[(&str, Option<&str>)]]) -> ArrayRef {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for row in rows {
        for (name, value) in *row {
            builder.keys().append_value(name);
            builder.values().append_option(*value);
        }
        builder.append(true).unwrap();
    }
    Arc::new(builder.finish())
}

fn settings() -> Settings {
    Settings {
        topic: None,
        wait: true,
        drop_special: false,
        max_message_size: 4 << 20,
        batch_bytes: 1 << 20,
    }
}

fn rows_of(columns: Vec<(&str, ArrayRef)>, settings: Settings) -> Result<SendRows, EncodeError> {
    rows_with(columns, settings, None)
}

fn rows_with(
    columns: Vec<(&str, ArrayRef)>,
    settings: Settings,
    txn: Option<Txn>,
) -> Result<SendRows, EncodeError> {
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)));
    let columns = Columns::new(&batch.unwrap())?;
    let host = Host::new("192.168.1.10:0".parse().unwrap());
    let keys = match txn {
        None => Keys::Fresh(KeyRun::new(&host, 1_700_000_000_000, columns.rows as u32)),
        Some(txn) => Keys::Repeatable(txn),
    };
    SendRows::new(columns, settings, keys)
}

fn requests(mut rows: SendRows, queues: &[u32]) -> Vec<Request> {
    rows.group(queues).unwrap();
    std::iter::from_fn(|| rows.next_request()).collect()
}

fn why(columns: Vec<(&str, ArrayRef)>, settings: Settings) -> String {
    rows_of(columns, settings)
        .err()
        .expect("an error")
        .to_string()
}

/// (flag, body, properties) of the entries of a batch body, read by the rules of MessageDecoder.
fn entries(mut body: &[u8]) -> Vec<(i32, Vec<u8>, Vec<u8>)> {
    let int = |b: &[u8], at: usize| i32::from_be_bytes(b[at..at + 4].try_into().unwrap());
    let mut out = Vec::new();
    while !body.is_empty() {
        let size = int(body, 0) as usize;
        assert_eq!((int(body, 4), int(body, 8)), (0, 0));
        let n = int(body, 16) as usize;
        let p = i16::from_be_bytes(body[20 + n..22 + n].try_into().unwrap()) as usize;
        assert_eq!(size, 22 + n + p);
        out.push((
            int(body, 12),
            body[20..20 + n].to_vec(),
            body[22 + n..size].to_vec(),
        ));
        body = &body[size..];
    }
    out
}

fn find<'a>(text: &'a [u8], name: &str) -> Option<&'a str> {
    properties::find(text, name.as_bytes()).map(|v| std::str::from_utf8(v).unwrap())
}

#[test]
fn rows_of_a_topic_become_one_batch() {
    let rows = rows_of(
        vec![
            ("Body", bodies(&["one", "two", "three"])),
            ("topic", texts(&[Some("A"), Some("B"), Some("A")])),
            ("tags", texts(&[Some("t1"), None, Some("")])),
            ("keys", texts(&[Some("k1 k2"), None, None])),
            (
                "flag",
                Arc::new(Int32Array::from(vec![Some(7), None, Some(-1)])),
            ),
            (
                "properties",
                maps(&[
                    &[("x", Some("1")), ("TAGS", Some("no"))],
                    &[],
                    &[("TAGS", Some("yes")), ("e", Some("")), ("n", None)],
                ]),
            ),
        ],
        settings(),
    )
    .unwrap();
    assert_eq!(rows.topics(), [b"A".to_vec(), b"B".to_vec()]);
    let all = requests(rows, &[4, 4]);
    assert_eq!(all.len(), 2);
    let (first, second) = (&all[0], &all[1]);
    assert!(first.batch && first.rows == 2 && (first.first_row, first.last_row) == (0, 2));
    assert_eq!(first.properties, b"WAIT\x01true\x02");
    let got = entries(&first.body);
    assert_eq!((got[0].0, &got[0].1[..]), (7, &b"one"[..]));
    assert_eq!((got[1].0, &got[1].1[..]), (-1, &b"three"[..]));
    assert_eq!(find(&got[0].2, "TAGS"), Some("t1"));
    assert_eq!(find(&got[1].2, "TAGS"), Some("yes"));
    assert_eq!(find(&got[0].2, "KEYS"), Some("k1 k2"));
    assert_eq!(find(&got[0].2, "x"), Some("1"));
    assert_eq!(find(&got[0].2, "WAIT"), Some("true"));
    assert_eq!(properties::pairs(&got[1].2).count(), 3);
    let keys: Vec<_> = got
        .iter()
        .map(|e| find(&e.2, "UNIQ_KEY").unwrap())
        .collect();
    assert!(
        keys[0] != keys[1]
            && keys
                .iter()
                .all(|k| k.len() == 32 && k.starts_with("C0A8010A"))
    );
    // A lone message is no batch.
    assert!(!second.batch && second.body == b"two" && second.rows == 1);
    assert!(find(&second.properties, "UNIQ_KEY").is_some());
}

#[test]
fn a_row_keeps_its_own_unique_key() {
    let columns = vec![
        ("body", bodies(&["x"])),
        (
            "properties",
            maps(&[&[
                ("UNIQ_KEY", Some("MINE")),
                ("MSG_REGION", Some("r")),
                ("WAIT", Some("false")),
            ]]),
        ),
    ];
    let all = requests(
        rows_of(
            columns,
            Settings {
                topic: Some(b"T".to_vec()),
                ..settings()
            },
        )
        .unwrap(),
        &[1],
    );
    assert_eq!(find(&all[0].properties, "UNIQ_KEY"), Some("MINE"));
    assert_eq!(find(&all[0].properties, "WAIT"), Some("true"));
    assert_eq!(find(&all[0].properties, "MSG_REGION"), None);
}

#[test]
fn queues_by_sharding_key_and_by_name() {
    let all = requests(
        rows_of(
            vec![
                ("body", bodies(&["0", "1", "2", "3", "4", "5"])),
                ("topic", texts(&[Some("T"); 6])),
                (
                    "shardingKey",
                    texts(&[
                        Some("order-1"),
                        Some("user-42"),
                        Some("order-1"),
                        None,
                        None,
                        None,
                    ]),
                ),
                (
                    "queueId",
                    Arc::new(Int64Array::from(vec![
                        None,
                        None,
                        None,
                        Some(3),
                        None,
                        None,
                    ])),
                ),
                (
                    "brokerName",
                    texts(&[None, None, None, None, Some("b"), None]),
                ),
            ],
            settings(),
        )
        .unwrap(),
        &[8],
    );
    let targets: Vec<_> = all.iter().map(|r| (r.target, r.rows)).collect();
    assert_eq!(
        targets,
        [
            (Target::Nth(6), 2),
            (Target::Nth(0), 1),
            (
                Target::Queue {
                    id: Some(3),
                    broker: None
                },
                1
            ),
            (
                Target::Queue {
                    id: None,
                    broker: Some(0)
                },
                1
            ),
            (Target::Any, 1),
        ]
    );
    assert_eq!(
        find(&entries(&all[0].body)[0].2, "__SHARDINGKEY"),
        Some("order-1")
    );
    assert_eq!(nth_by_hash(b"a", 8), 1);
}

#[test]
fn a_key_and_a_broker_without_a_queue_contradict() {
    let columns = vec![
        ("body", bodies(&["0"])),
        ("topic", texts(&[Some("T")])),
        ("shardingKey", texts(&[Some("order-1")])),
        ("brokerName", texts(&[Some("b")])),
    ];
    let mut rows = rows_of(columns, settings()).unwrap();
    let refused = rows.group(&[8]).unwrap_err();
    assert!(
        matches!(refused, EncodeError::Row { row: 0, .. }),
        "{refused:?}"
    );
}

#[test]
fn what_no_batch_takes_goes_alone() {
    let all = requests(
        rows_of(
            vec![
                ("body", bodies(&["0", "1", "2", "3"])),
                (
                    "topic",
                    texts(&[Some("T"), Some("T"), Some("%RETRY%g"), Some("%RETRY%g")]),
                ),
                (
                    "delayTimeLevel",
                    Arc::new(Int32Array::from(vec![Some(3), Some(0), None, None])),
                ),
            ],
            settings(),
        )
        .unwrap(),
        &[4, 1],
    );
    assert_eq!(all.len(), 4);
    assert!(all.iter().all(|r| !r.batch));
    assert_eq!(find(&all[0].properties, "DELAY"), Some("3"));
    assert_eq!(find(&all[1].properties, "DELAY"), None);
}

#[test]
fn batches_keep_to_their_size() {
    let body = "x".repeat(1000);
    let rows: Vec<&str> = (0..100).map(|_| body.as_str()).collect();
    let small = Settings {
        topic: Some(b"T".to_vec()),
        batch_bytes: 10_000,
        ..settings()
    };
    let all = requests(rows_of(vec![("body", bodies(&rows))], small).unwrap(), &[1]);
    assert!(all.len() > 10 && all.iter().all(|r| r.body.len() <= 10_000));
    assert_eq!(all.iter().map(|r| r.rows).sum::<usize>(), 100);
    let tiny = Settings {
        topic: Some(b"T".to_vec()),
        batch_bytes: 1,
        ..settings()
    };
    let all = requests(
        rows_of(vec![("body", bodies(&rows[..3]))], tiny).unwrap(),
        &[1],
    );
    assert!(all.len() == 3 && all.iter().all(|r| !r.batch));
    let many = vec!["x"; 3 * MAX_ENTRIES];
    let fixed = Settings {
        topic: Some(b"T".to_vec()),
        ..settings()
    };
    let all = requests(rows_of(vec![("body", bodies(&many))], fixed).unwrap(), &[1]);
    assert!(all.iter().all(|r| r.rows == MAX_ENTRIES) && all.len() == 3);
}

#[test]
fn what_cannot_be_sent_is_reported_with_its_row() {
    let fixed = || Settings {
        topic: Some(b"T".to_vec()),
        ..settings()
    };
    let body = || ("body", bodies(&["x", "y"]));
    let null: ArrayRef = Arc::new(BinaryArray::from(vec![Some(&b"x"[..]), None]));
    assert_eq!(
        why(vec![("body", null)], fixed()),
        "row 1: the body is null: a message needs one"
    );
    assert!(
        why(vec![("body", bodies(&["x", ""]))], fixed()).starts_with("row 1: the body is empty")
    );
    assert!(why(vec![body()], settings()).starts_with("row 0: it has no topic"));
    let topics = |t| vec![body(), ("topic", texts(&[Some("T"), t]))];
    assert!(why(topics(None), settings()).starts_with("row 1: it has no topic"));
    assert!(why(topics(Some("a b")), settings()).contains("row 1: topic \"a b\" is illegal"));
    assert!(why(topics(Some("SCHEDULE_TOPIC_XXXX")), settings()).contains("broker's own"));
    let map = |name, value| vec![body(), ("properties", maps(&[&[], &[(name, Some(value))]]))];
    assert!(why(map("DELAY", "3"), fixed()).contains("row 1: property DELAY is reserved"));
    assert!(why(map("", "3"), fixed()).contains("empty name"));
    assert!(why(map("a", "\x02"), fixed()).contains("value of property a holds"));
    assert!(why(map("a\x01", "v"), fixed()).contains("0x01"));
    let long = "v".repeat(32_720);
    assert!(why(map("a", &long), fixed()).contains("the limit is 32767"));
    let drop = Settings {
        drop_special: true,
        ..fixed()
    };
    assert!(rows_of(map("DELAY", "3"), drop).is_ok());
    let tags = vec![body(), ("tags", texts(&[None, Some("a\x01")]))];
    assert!(why(tags, fixed()).contains("row 1: TAGS"));
    let small = Settings {
        max_message_size: 2,
        ..fixed()
    };
    assert!(why(vec![("body", bodies(&["xxx"]))], small).contains("maxMessageSize"));
    let number = |name, value| {
        vec![
            body(),
            (name, Arc::new(Int64Array::from(vec![0, value])) as ArrayRef),
        ]
    };
    assert!(why(number("queueId", -1), fixed()).contains("queueId -1"));
    assert!(why(number("delayTimeLevel", -1), fixed()).contains("delayTimeLevel -1"));
    assert!(why(number("flag", 1 << 40), fixed()).contains("32 bits"));
}

#[test]
fn columns_that_may_not_be_there() {
    let body = || ("body", bodies(&["x"]));
    assert!(
        why(vec![("value", bodies(&["x"]))], settings())
            .contains("unknown column \"value\"; the columns")
    );
    assert!(why(vec![("topic", texts(&[Some("T")]))], settings()).contains("no column body"));
    assert!(why(vec![body(), ("BODY", bodies(&["x"]))], settings()).contains("twice"));
    assert!(why(vec![body(), ("topic", bodies(&["T"]))], settings()).contains("has to be string"));
    assert!(
        why(vec![body(), ("queueId", texts(&[Some("1")]))], settings()).contains("has to be int")
    );
    assert!(
        why(vec![body(), ("properties", texts(&[None]))], settings())
            .contains("map<string,string>")
    );
}

proptest! {
    /// Every row is in exactly one request, whole, and rows of one group stay in order.
    #[test]
    fn nothing_is_lost(
        rows in prop::collection::vec((0usize..3, 0usize..300, prop::option::of(0i32..3), 0usize..4), 1..200),
        batch_bytes in 1usize..3000,
    ) {
        let names = ["A", "B", "%RETRY%g"];
        let body: Vec<String> = rows.iter().enumerate().map(|(i, r)| format!("{i}:{}", "b".repeat(r.1))).collect();
        let topics: Vec<_> = rows.iter().map(|r| Some(names[r.0])).collect();
        let keys: Vec<String> = rows.iter().map(|r| "k".repeat(r.3)).collect();
        let columns = vec![
            ("body", bodies(&body.iter().map(String::as_str).collect::<Vec<_>>())),
            ("topic", texts(&topics)),
            ("queueId", Arc::new(Int32Array::from_iter(rows.iter().map(|r| r.2))) as ArrayRef),
            ("shardingKey", texts(&keys.iter().map(|k| Some(k.as_str())).collect::<Vec<_>>())),
        ];
        let rows_to_send = rows_of(columns, Settings { batch_bytes, ..settings() }).unwrap();
        let topics: Vec<_> = rows_to_send.topics().to_vec();
        let counts = vec![5; topics.len()];
        let mut seen = vec![false; rows.len()];
        for r in requests(rows_to_send, &counts) {
            let messages: Vec<Vec<u8>> = if r.batch {
                prop_assert!(r.body.len() <= batch_bytes);
                entries(&r.body).into_iter().map(|e| e.1).collect()
            } else {
                vec![r.body.clone()]
            };
            prop_assert_eq!(messages.len(), r.rows);
            let mut last = None;
            for m in messages {
                let text = String::from_utf8(m).unwrap();
                let row: usize = text.split(':').next().unwrap().parse().unwrap();
                prop_assert_eq!(&text, &body[row]);
                prop_assert_eq!(&topics[r.topic as usize][..], names[rows[row].0].as_bytes());
                prop_assert!(!std::mem::replace(&mut seen[row], true));
                prop_assert!(last < Some(row) && (r.first_row..=r.last_row).contains(&row));
                last = Some(row);
            }
        }
        prop_assert!(seen.iter().all(|&s| s));
    }
}

fn txn() -> Txn {
    Txn {
        app: "orders".into(),
        version: 7,
        partition: 3,
        first_row: 1000,
    }
}

/// The unique key of the last message of each request.
fn last_keys(columns: Vec<(&str, ArrayRef)>, settings: Settings, txn: Txn) -> Vec<String> {
    let rows = rows_with(columns, settings, Some(txn)).unwrap();
    let key = |r: Request| String::from_utf8(r.key.unwrap()).unwrap();
    requests(rows, &[4]).into_iter().map(key).collect()
}

fn in_t(mut settings: Settings) -> Settings {
    settings.topic = Some(b"T".to_vec());
    settings
}

#[test]
fn repeatable_keys_are_of_the_same_rows_in_the_same_place() {
    let small = || {
        let mut settings = in_t(settings());
        settings.batch_bytes = 250;
        settings
    };
    let columns = |third: &str| vec![("body", bodies(&["a", "b", third, "d", "e", "f", "g"]))];
    let keys = last_keys(columns("c"), small(), txn());
    assert!(keys.len() > 2, "several requests");
    assert_eq!(keys, last_keys(columns("c"), small(), txn()));
    let distinct: std::collections::HashSet<_> = keys.iter().collect();
    assert_eq!(distinct.len(), keys.len());

    // Another row: only the keys of its request are others.
    let other = last_keys(columns("C"), small(), txn());
    let same: Vec<bool> = keys.iter().zip(&other).map(|(a, b)| a == b).collect();
    assert_eq!(same.iter().filter(|same| !**same).count(), 1, "{same:?}");

    let all = |txn: Txn| last_keys(columns("c"), small(), txn);
    for another in [
        Txn {
            app: "order".into(),
            ..txn()
        },
        Txn {
            version: 8,
            ..txn()
        },
        Txn {
            partition: 4,
            ..txn()
        },
        Txn {
            first_row: 1001,
            ..txn()
        },
    ] {
        let others = all(another.clone());
        assert!(keys.iter().all(|k| !others.contains(k)), "{another:?}");
    }
}

#[test]
fn repeatable_keys_hold_all_that_is_sent() {
    let key = |columns: Vec<(&str, ArrayRef)>| {
        let mut all = vec![("body", bodies(&["a"]))];
        all.extend(columns);
        last_keys(all, in_t(settings()), txn()).remove(0)
    };
    let text = |t: &str| texts(&[Some(t)]);
    let number = |n: i32| -> ArrayRef { Arc::new(Int32Array::from(vec![n])) };
    let all = [
        key(vec![]),
        key(vec![("tags", text("x"))]),
        key(vec![("keys", text("x"))]),
        key(vec![("shardingKey", text("x"))]),
        key(vec![("properties", maps(&[&[("x", Some("y"))]]))]),
        key(vec![("flag", number(1))]),
        key(vec![("delayTimeLevel", number(1))]),
        key(vec![("queueId", number(1))]),
        key(vec![("queueId", number(1)), ("brokerName", text("b"))]),
        key(vec![("brokerName", text("b"))]),
    ];
    let distinct: std::collections::HashSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());
}

#[test]
fn messages_of_a_repeatable_request_have_keys_in_a_row_and_the_label() {
    let columns = vec![
        ("body", bodies(&["a", "b"])),
        (
            "properties",
            maps(&[&[("SPARK_BATCH", Some("old/1"))], &[]]),
        ),
    ];
    let rows = rows_with(columns, in_t(settings()), Some(txn())).unwrap();
    let request = requests(rows, &[4]).remove(0);
    let entries = entries(&request.body);
    let keys: Vec<&str> = entries
        .iter()
        .map(|e| find(&e.2, "UNIQ_KEY").unwrap())
        .collect();
    assert_eq!(keys[0][..28], keys[1][..28]);
    assert_eq!(
        (&keys[0][20..], &keys[1][20..]),
        ("000000000000", "000000000001")
    );
    assert_eq!(request.key.as_deref(), Some(keys[1].as_bytes()));
    for entry in &entries {
        assert_eq!(find(&entry.2, "SPARK_BATCH"), Some("orders/7"));
        assert_eq!(
            String::from_utf8_lossy(&entry.2)
                .matches("SPARK_BATCH")
                .count(),
            1
        );
    }
}

#[test]
fn rows_of_a_repeatable_request_bring_no_key_of_their_own() {
    let columns = || {
        vec![
            ("body", bodies(&["a"])),
            ("properties", maps(&[&[("UNIQ_KEY", Some("mine"))]])),
        ]
    };
    let refused = rows_with(columns(), in_t(settings()), Some(txn()))
        .err()
        .unwrap();
    assert!(
        refused.to_string().contains("the row brings a UNIQ_KEY"),
        "{refused}"
    );
    let mut dropped = in_t(settings());
    dropped.drop_special = true;
    let rows = rows_with(columns(), dropped, Some(txn())).unwrap();
    let request = requests(rows, &[4]).remove(0);
    assert_eq!(
        find(&request.properties, "UNIQ_KEY").map(str::len),
        Some(32)
    );
}
