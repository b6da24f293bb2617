//! JSON bodies as structs: types, what does not fit, and rows that are taken back.

use super::body_json::Node;
use super::json_type::{JsonField, JsonType};
use super::testing::*;
use super::*;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, StructArray};
use proptest::prelude::*;

fn field(name: &str, kind: JsonType) -> JsonField {
    JsonField {
        name: name.to_owned(),
        kind,
        required: false,
    }
}

fn column(kind: JsonType, bodies: &[&str]) -> ArrayRef {
    let mut node = Node::new(&JsonType::Struct(vec![field("a", kind)]));
    bodies.iter().for_each(|body| node.push(body.as_bytes()));
    node.finish().as_struct().column(0).clone()
}

#[test]
fn whole_numbers_fit_or_are_null() {
    let bodies = [
        r#"{"a":1}"#,
        r#"{"a":-2147483648}"#,
        r#"{"a":2147483648}"#,
        r#"{"a":1.0}"#,
        r#"{"a":"1"}"#,
        r#"{"a":null}"#,
        r#"{"a":[1]}"#,
        r#"{"b":1}"#,
    ];
    let ints = column(JsonType::Int, &bodies);
    let ints: Vec<Option<i32>> = ints.as_primitive::<Int32Type>().iter().collect();
    assert_eq!(ints[..2], [Some(1), Some(-2_147_483_648)]);
    assert!(ints[2..].iter().all(Option::is_none));
    let longs = column(
        JsonType::Long,
        &[
            r#"{"a":9223372036854775807}"#,
            r#"{"a":9223372036854775808}"#,
        ],
    );
    let longs: Vec<Option<i64>> = longs.as_primitive::<Int64Type>().iter().collect();
    assert_eq!(longs, [Some(i64::MAX), None]);
}

#[test]
fn broken_numbers_of_all_kinds() {
    let bodies = [
        r#"{"a":1.5}"#,
        r#"{"a":-2e3}"#,
        r#"{"a":123456789012345678901}"#,
        r#"{"a":"x"}"#,
    ];
    let doubles = column(JsonType::Double, &bodies);
    let doubles: Vec<Option<f64>> = doubles.as_primitive::<Float64Type>().iter().collect();
    assert_eq!(
        doubles,
        [
            Some(1.5),
            Some(-2000.0),
            Some(123456789012345678901.0),
            None
        ]
    );
    let floats = column(JsonType::Float, &bodies[..2]);
    assert_eq!(
        floats.as_primitive::<Float32Type>().values()[..],
        [1.5, -2000.0]
    );
}

#[test]
fn decimals_are_rounded_or_null() {
    let bodies = [
        r#"{"a":12.345}"#,
        r#"{"a":-12.344}"#,
        r#"{"a":1e2}"#,
        r#"{"a":1234.5}"#,
        r#"{"a":0.004}"#,
        r#"{"a":999.995}"#,
        r#"{"a":125e-2}"#,
        r#"{"a":1e999999999}"#,
        r#"{"a":1e-999999999}"#,
    ];
    let found = column(JsonType::Decimal(5, 2), &bodies);
    let found: Vec<Option<i128>> = found.as_primitive::<Decimal128Type>().iter().collect();
    assert_eq!(
        found,
        [
            Some(1235),
            Some(-1234),
            Some(10000),
            None,
            Some(0),
            None,
            Some(125),
            None,
            Some(0)
        ]
    );
}

#[test]
fn texts_are_unescaped_and_others_as_written() {
    let bodies = [
        r#"{"a":"x\n\u00e9"}"#,
        r#"{"a": 1.50 }"#,
        r#"{"a":{"b": [1, 2]}}"#,
        r#"{"a":true}"#,
        r#"{"a":null}"#,
    ];
    let texts = column(JsonType::Text, &bodies);
    let texts: Vec<Option<&str>> = texts.as_string::<i32>().iter().collect();
    assert_eq!(
        texts,
        [
            Some("x\né"),
            Some("1.50"),
            Some(r#"{"b": [1, 2]}"#),
            Some("true"),
            None
        ]
    );
}

#[test]
fn dates_and_times() {
    let bodies = [
        r#"{"a":"2026-01-31"}"#,
        r#"{"a":"2026-01-31T12:00:00.123456+01:00"}"#,
        r#"{"a":"1969-12-31T23:59:59.5Z"}"#,
        r#"{"a":1700000000}"#,
        r#"{"a":"yesterday"}"#,
    ];
    let dates = column(
        JsonType::Date,
        &[bodies[0], bodies[4], r#"{"a":"1969-12-31"}"#],
    );
    let dates: Vec<Option<i32>> = dates.as_primitive::<Date32Type>().iter().collect();
    assert_eq!(dates, [Some(20_484), None, Some(-1)]);
    let times = column(JsonType::Timestamp, &bodies);
    let times: Vec<Option<i64>> = times
        .as_primitive::<TimestampMicrosecondType>()
        .iter()
        .collect();
    assert_eq!(
        times,
        [
            Some(1_769_817_600_000_000),
            Some(1_769_857_200_123_456),
            Some(-500_000),
            Some(1_700_000_000_000_000),
            None
        ]
    );
}

#[test]
fn lists_maps_and_structs_within_each_other() {
    let kind = JsonType::Struct(vec![
        field("list", JsonType::List(Box::new(JsonType::Int))),
        field(
            "map",
            JsonType::Map(Box::new(JsonType::List(Box::new(JsonType::Text)))),
        ),
    ]);
    let bodies = [
        r#"{"a":{"list":[1,"x",3],"map":{"k":["p"],"l":[],"k":["q","r"]}}}"#,
        r#"{"a":{"list":{},"map":[]}}"#,
        r#"{"a":[]}"#,
        r#"{"a":{"list":[]}}"#,
    ];
    let found = column(kind, &bodies);
    let found = found.as_struct();
    let lists = found.column(0).as_list::<i32>();
    let first: Vec<Option<i32>> = lists.value(0).as_primitive::<Int32Type>().iter().collect();
    assert_eq!(first, [Some(1), None, Some(3)]);
    assert!(found.is_null(2) && lists.is_null(1) && lists.is_valid(3));
    assert_eq!(lists.value(3).len(), 0);
    let maps = found.column(1).as_map();
    let pairs = maps.value(0);
    let names: Vec<Option<&str>> = pairs.column(0).as_string::<i32>().iter().collect();
    assert_eq!(names, [Some("l"), Some("k")]);
    let of_k = pairs.column(1).as_list::<i32>().value(1);
    assert_eq!(
        of_k.as_string::<i32>().iter().collect::<Vec<_>>(),
        [Some("q"), Some("r")]
    );
    assert!(maps.is_null(1) && maps.is_null(3));
}

#[test]
fn what_is_no_object_gives_nulls_and_takes_back_what_was_read() {
    let kind = JsonType::List(Box::new(JsonType::Map(Box::new(JsonType::Text))));
    let mut node = Node::new(&JsonType::Struct(vec![
        field("a", kind),
        field("b", JsonType::Int),
    ]));
    let deep = "[".repeat(100_000);
    let bodies = [
        r#"{"a":[{"k":"v"},{"k":1}],"b":7}"#,
        r#"{"b":7,"a":[{"k":"v"},{"k":"#,
        r#"{"b":7,"a":[{"k":"v"}]} x"#,
        "[]",
        "7",
        "",
        " \n",
        deep.as_str(),
        r#"{"b":1,"b":8}"#,
    ];
    bodies.iter().for_each(|body| node.push(body.as_bytes()));
    node.push(b"{\"b\":7,\"a\":[{\"k\":\"\xff\"}]}");
    let found = node.finish();
    let found: &StructArray = found.as_struct();
    assert_eq!(found.len(), bodies.len() + 1);
    let b: Vec<Option<i32>> = found.column(1).as_primitive::<Int32Type>().iter().collect();
    let mut expected = vec![None; bodies.len() + 1];
    (expected[0], expected[8]) = (Some(7), Some(8));
    assert_eq!(b, expected);
    let lists = found.column(0).as_list::<i32>();
    assert_eq!(lists.values().len(), 2);
    let null: Vec<usize> = (0..found.len()).filter(|&i| found.is_null(i)).collect();
    assert_eq!(null, [5, 6]);
}

#[test]
fn a_reader_gives_bodies_as_text_and_as_json() {
    let log = log(
        1,
        [b"plain".to_vec(), b"\xff{".to_vec(), br#"{"a":5}"#.to_vec()]
            .into_iter()
            .map(Sent::plain),
    );
    let disk = disk(&log.bytes);
    let end = log.end as u64;
    let read = |body: BodyForm| {
        let mut settings = settings(&[Column::QueueId, Column::Body]);
        settings.body = body;
        let mut all = batches(&mut reader(&disk.file_set, (0, end), end, settings));
        assert_eq!(all.len(), 1);
        all.remove(0)
    };
    let texts = read(BodyForm::Utf8);
    let texts: Vec<Option<&str>> = texts.column(1).as_string::<i32>().iter().collect();
    assert_eq!(
        texts,
        [Some("plain"), Some("\u{fffd}{"), Some(r#"{"a":5}"#)]
    );
    let json = read(BodyForm::Json(vec![field("a", JsonType::Long)]));
    let numbers = json.column(1).as_struct().column(0).clone();
    let numbers: Vec<Option<i64>> = numbers.as_primitive::<Int64Type>().iter().collect();
    assert_eq!(numbers, [None, None, Some(5)]);
}

fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        "[ab\\\\\"n]{0,4}".prop_map(|s| format!("{s:?}")),
        "[\\[\\]{},:\"a1. -]{0,6}",
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|v| format!("[{}]", v.join(","))),
            prop::collection::vec(("[ab]", inner), 0..4).prop_map(|v| {
                let pairs: Vec<String> = v.iter().map(|(k, v)| format!("{k:?}:{v}")).collect();
                format!("{{{}}}", pairs.join(","))
            }),
        ]
    })
}

fn any_type() -> impl Strategy<Value = JsonType> {
    let leaf = prop_oneof![
        Just(JsonType::Boolean),
        Just(JsonType::Int),
        Just(JsonType::Double),
        Just(JsonType::Text),
        Just(JsonType::Timestamp),
        Just(JsonType::Decimal(7, 3)),
    ];
    leaf.prop_recursive(3, 10, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|t| JsonType::List(Box::new(t))),
            inner.clone().prop_map(|t| JsonType::Map(Box::new(t))),
            (inner.clone(), inner)
                .prop_map(|(a, b)| JsonType::Struct(vec![field("a", a), field("b", b)])),
        ]
    })
}

proptest! {
    /// Whatever stands in a body, each row is what it is alone, and the arrays are valid.
    #[test]
    fn rows_do_not_change_each_other(kind in any_type(), bodies in prop::collection::vec(any_json(), 1..8)) {
        let root = JsonType::Struct(vec![field("a", kind.clone()), field("b", kind)]);
        let mut node = Node::new(&root);
        bodies.iter().for_each(|body| node.push(body.as_bytes()));
        let all = node.finish();
        all.to_data().validate_full().unwrap();
        prop_assert_eq!(all.len(), bodies.len());
        for (i, body) in bodies.iter().enumerate() {
            let mut alone = Node::new(&root);
            alone.push(body.as_bytes());
            let alone = alone.finish();
            prop_assert_eq!(&all.slice(i, 1), &alone);
        }
    }
}

#[test]
fn small_numbers_bytes_and_local_times() {
    let bytes = column(JsonType::Byte, &[r#"{"a":-128}"#, r#"{"a":128}"#]);
    let bytes: Vec<Option<i8>> = bytes.as_primitive::<Int8Type>().iter().collect();
    assert_eq!(bytes, [Some(-128), None]);
    let shorts = column(JsonType::Short, &[r#"{"a":32767}"#, r#"{"a":32768}"#]);
    let shorts: Vec<Option<i16>> = shorts.as_primitive::<Int16Type>().iter().collect();
    assert_eq!(shorts, [Some(32_767), None]);
    let texts = [
        r#"{"a":"aGVsbG8="}"#,
        r#"{"a":"aGVsbG8"}"#,
        r#"{"a":"a=VsbG8="}"#,
        r#"{"a":1}"#,
        r#"{"a":""}"#,
        r#"{"a":"aGk="}"#,
    ];
    let binaries = column(JsonType::Bytes, &texts);
    let binaries: Vec<Option<&[u8]>> = binaries.as_binary::<i32>().iter().collect();
    let expected = [
        Some(&b"hello"[..]),
        None,
        None,
        None,
        Some(b""),
        Some(b"hi"),
    ];
    assert_eq!(binaries, expected);
    let times = [
        r#"{"a":"1970-01-01T00:00:01.5"}"#,
        r#"{"a":"1970-01-02"}"#,
        r#"{"a":"1970-01-01T00:00:01Z"}"#,
        r#"{"a":1}"#,
    ];
    let times = column(JsonType::LocalTimestamp, &times);
    let times: Vec<Option<i64>> = times
        .as_primitive::<TimestampMicrosecondType>()
        .iter()
        .collect();
    assert_eq!(times, [Some(1_500_000), Some(86_400_000_000), None, None]);
}

#[test]
fn decimals_in_texts() {
    let texts = [
        r#"{"a":"1.5"}"#,
        r#"{"a":"-0.005"}"#,
        r#"{"a":"1e1"}"#,
        r#"{"a":"x"}"#,
        r#"{"a":"1.é"}"#,
        r#"{"a":""}"#,
        r#"{"a":"+1"}"#,
    ];
    let decimals = column(JsonType::Decimal(6, 2), &texts);
    let decimals: Vec<Option<i128>> = decimals.as_primitive::<Decimal128Type>().iter().collect();
    assert_eq!(
        decimals,
        [Some(150), Some(-1), Some(1000), None, None, None, None]
    );
}
