//! Bodies in their forms, and what Spark's `from_json` makes of the same ones.

use super::*;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Decimal128Array, TimestampMicrosecondArray};
use proptest::prelude::*;
use serde_json::json;

fn how(body: Value) -> ReadOptions {
    ReadOptions {
        columns: vec!["queueId".to_owned(), "body".to_owned()],
        body: Some(body),
        ..ReadOptions::default()
    }
}

fn field(name: &str, kind: Value) -> Value {
    json!({"name": name, "type": kind, "nullable": true, "metadata": {}})
}

fn schema(fields: &[(&str, Value)]) -> Value {
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, kind)| field(name, kind.clone()))
        .collect();
    json!({"type": "struct", "fields": fields})
}

fn converted(body: Value, bodies: &[&[u8]]) -> ArrayRef {
    let how = how(body);
    let plain = Arc::new(Schema::new(vec![
        Field::new("queueId", DataType::Int32, true),
        Field::new("body", DataType::Binary, true),
    ]));
    let mut out = Bodies::new(&how, &plain).unwrap().unwrap();
    assert_eq!(crate::read::schema(&how).unwrap(), out.schema());
    let ids: ArrayRef = Arc::new(arrow_array::Int32Array::from(vec![1; bodies.len()]));
    let bodies: ArrayRef = Arc::new(BinaryArray::from_iter_values(bodies));
    let batch = RecordBatch::try_new(plain, vec![ids, bodies]).unwrap();
    let batch = out.convert(batch).unwrap();
    assert_eq!(batch.schema(), out.schema());
    batch.column(1).to_data().validate_full().unwrap();
    batch.column(1).clone()
}

/// Values of one column of JSON.
fn column(kind: Value, values: &[&str]) -> ArrayRef {
    let bodies: Vec<String> = values
        .iter()
        .map(|value| format!("{{\"a\": {value}}}"))
        .collect();
    let bodies: Vec<&[u8]> = bodies.iter().map(|body| body.as_bytes()).collect();
    let all = converted(json!({"json": schema(&[("a", kind)])}), &bodies);
    all.as_struct().column(0).clone()
}

#[test]
fn bodies_as_text() {
    let all = converted(json!("utf8"), &[b"a", b"", "\u{e9}".as_bytes()]);
    assert_eq!(
        all.as_string::<i32>().iter().flatten().collect::<Vec<_>>(),
        ["a", "", "é"]
    );
    let all = converted(json!("utf8"), &[b"a\xff", b"b", b"\xc3"]);
    let texts: Vec<_> = all.as_string::<i32>().iter().flatten().collect();
    assert_eq!(texts, ["a\u{fffd}", "b", "\u{fffd}"]);
    // A character that two bodies share is none.
    let all = converted(json!("utf8"), &[b"\xc3", b"\xa9"]);
    let texts: Vec<_> = all.as_string::<i32>().iter().flatten().collect();
    assert_eq!(texts, ["\u{fffd}", "\u{fffd}"]);
}

#[test]
fn numbers() {
    let all = column(
        json!("integer"),
        &["1", "-2", "1.0", "\"3\"", "2147483648", "null", "[1]"],
    );
    let ints: Vec<_> = all.as_primitive::<Int32Type>().iter().collect();
    assert_eq!(ints, [Some(1), Some(-2), None, None, None, None, None]);
    let all = column(
        json!("double"),
        &["1", "-2.5e3", "\"NaN\"", "\"-INF\"", "true"],
    );
    let doubles: Vec<_> = all.as_primitive::<Float64Type>().iter().collect();
    assert_eq!(doubles[..2], [Some(1.0), Some(-2500.0)]);
    assert!(doubles[2].unwrap().is_nan());
    assert_eq!(doubles[3..], [Some(f64::NEG_INFINITY), None]);
    let all = column(
        json!("decimal(5,2)"),
        &["1.005", "\"-1.5\"", "1000", "\"x\""],
    );
    let decimals = all.as_any().downcast_ref::<Decimal128Array>().unwrap();
    let values: Vec<_> = decimals.iter().collect();
    assert_eq!(values, [Some(101), Some(-150), None, None]);
    assert_eq!(decimals.data_type(), &DataType::Decimal128(5, 2));
    let all = column(json!("byte"), &["127", "128"]);
    assert_eq!((all.is_null(0), all.is_null(1)), (false, true));
}

#[test]
fn texts_and_other_values_as_texts() {
    let values = [
        "\"a\\n\\u00e9\"",
        "1.50",
        "{\"b\": [1, 'x']}",
        "true",
        "null",
    ];
    let all = column(json!("string"), &values);
    let texts: Vec<_> = all.as_string::<i32>().iter().collect();
    let expected = [
        Some("a\né"),
        Some("1.50"),
        Some("{\"b\":[1,'x']}"),
        Some("true"),
        None,
    ];
    assert_eq!(texts, expected);
    let all = column(json!("binary"), &["\"aGk=\"", "\"?\"", "1"]);
    let bytes: Vec<_> = all.as_binary::<i32>().iter().collect();
    assert_eq!(bytes, [Some(&b"hi"[..]), None, None]);
    let all = column(json!("boolean"), &["true", "false", "\"true\"", "1"]);
    let bools: Vec<_> = all.as_boolean().iter().collect();
    assert_eq!(bools, [Some(true), Some(false), None, None]);
}

#[test]
fn times() {
    let all = column(
        json!("timestamp"),
        &["\"1970-01-02\"", "3", "\"1970-01-01T01:00+01:00\"", "\"x\""],
    );
    let times = all
        .as_any()
        .downcast_ref::<TimestampMicrosecondArray>()
        .unwrap();
    let values: Vec<_> = times.iter().collect();
    assert_eq!(
        values,
        [Some(86_400_000_000), Some(3_000_000), Some(0), None]
    );
    assert_eq!(times.timezone(), Some("UTC"));
    let all = column(
        json!("timestamp_ntz"),
        &["\"1970-01-01T00:00:01\"", "\"1970-01-01T00:00:01Z\"", "3"],
    );
    assert_eq!(
        (all.is_null(0), all.is_null(1), all.is_null(2)),
        (false, true, true)
    );
    let all = column(json!("date"), &["\"1970-01-03\"", "5"]);
    assert_eq!((all.is_null(0), all.is_null(1)), (false, true));
}

#[test]
fn nested_values() {
    let list = json!({"type": "array", "elementType": "integer", "containsNull": true});
    let all = column(
        list.clone(),
        &["[1, null, \"x\"]", "[]", "null", "{}", "[4]"],
    );
    let lists = all.as_list::<i32>();
    let nulls: Vec<_> = (0..5).map(|row| lists.is_null(row)).collect();
    assert_eq!(nulls, [false, false, true, true, false]);
    assert_eq!(lists.offsets()[..], [0, 3, 3, 3, 3, 4]);
    let items: Vec<_> = lists.values().as_primitive::<Int32Type>().iter().collect();
    assert_eq!(items, [Some(1), None, None, Some(4)]);
    let map =
        json!({"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": true});
    let all = column(map, &["{\"b\": 1, \"a\": null}", "3", "{}"]);
    let maps = all.as_map();
    assert_eq!(maps.offsets()[..], [0, 2, 2, 2]);
    assert!(maps.is_null(1));
    let keys: Vec<_> = maps.keys().as_string::<i32>().iter().flatten().collect();
    assert_eq!(keys, ["b", "a"]);
    let inner = schema(&[("x", list), ("y", json!("string"))]);
    let all = column(
        inner,
        &[
            "{\"y\": \"s\", \"z\": [{}], \"x\": [7]}",
            "[]",
            "{\"x\": 1}",
        ],
    );
    let inner = all.as_struct();
    let nulls: Vec<_> = (0..3).map(|row| inner.is_null(row)).collect();
    assert_eq!(nulls, [false, true, false]);
    assert_eq!(inner.column(1).as_string::<i32>().value(0), "s");
    assert_eq!(inner.column(0).as_list::<i32>().offsets()[..], [0, 1, 1, 1]);
}

#[test]
fn bodies_that_are_no_objects() {
    let own = json!({"json": schema(&[("a", json!("long")), ("b", json!("string"))])});
    let bodies: [&[u8]; 9] = [
        b"{\"a\": 1, \"b\": \"x\"}",
        b"",
        b" \n",
        b"[{\"a\": 1}]",
        b"{\"a\": 1, \"b\": ",
        b"null",
        b"\xff\xfe",
        b"{\"a\": 1, \"a\": 2, \"b\": \"y\"} and more",
        b"{'b': '\xff'}",
    ];
    let all = converted(own, &bodies);
    let all = all.as_struct();
    let nulls: Vec<_> = (0..9).filter(|&row| all.is_null(row)).collect();
    assert_eq!(nulls, [1, 2]);
    let longs: Vec<_> = all.column(0).as_primitive::<Int64Type>().iter().collect();
    assert_eq!(
        longs,
        [Some(1), None, None, None, None, None, None, Some(2), None]
    );
    let texts = all.column(1).as_string::<i32>();
    let texts: Vec<_> = texts.iter().flatten().collect();
    assert_eq!(texts, ["x", "y", "\u{fffd}"]);
}

#[test]
fn forms_that_there_are_not() {
    let deep = (0..100).fold(
        json!("long"),
        |kind, _| json!({"type": "array", "elementType": kind, "containsNull": true}),
    );
    for (body, text) in [
        (json!("xml"), "body: 'xml'"),
        (
            json!({"json": "string"}),
            "body: the schema of JSON is no struct",
        ),
        (
            json!({"json": schema(&[("a", json!("interval"))])}),
            "body: the schema of JSON cannot be read: interval is no type of JSON",
        ),
        (
            json!({"json": schema(&[("a", json!("decimal(39,1)"))])}),
            "body: the schema of JSON cannot be read: decimal(39,1) is no type of JSON",
        ),
        (
            json!({"json": schema(&[])}),
            "body: the schema of JSON cannot be read: a struct has no column",
        ),
        (
            json!({"json": schema(&[("a", deep)])}),
            "body: the schema of JSON cannot be read: its types are nested too deeply",
        ),
    ] {
        let error = how(body).check().unwrap_err();
        assert_eq!(
            (error.kind, error.to_string()),
            (Kind::Option, text.to_owned())
        );
    }
    how(json!("binary")).check().unwrap();
    let mut views = how(json!("utf8"));
    views.views = true;
    let error = crate::read::schema(&views).unwrap_err().to_string();
    assert_eq!(error, "body in another form than bytes cannot be views");
}

proptest! {
    /// Whatever bodies hold, columns have a value for each, and sound ones are as serde reads them.
    #[test]
    fn any_bodies(bodies in prop::collection::vec("[\\[\\]{}\",:0-9ab. \\\\null-]{0,30}", 0..20)) {
        let list = json!({"type": "array", "elementType": "long", "containsNull": true});
        let map = json!({"type": "map", "keyType": "string", "valueType": list, "valueContainsNull": true});
        let own = schema(&[("a", json!("long")), ("b", list), ("", map)]);
        let bytes: Vec<&[u8]> = bodies.iter().map(|body| body.as_bytes()).collect();
        let all = converted(json!({"json": own}), &bytes);
        prop_assert_eq!(all.len(), bodies.len());
        let longs = all.as_struct().column(0).as_primitive::<Int64Type>().clone();
        for (row, body) in bodies.iter().enumerate() {
            if let Ok(Value::Object(object)) = serde_json::from_str::<Value>(body) {
                let expected = object.get("a").and_then(Value::as_i64);
                let have = longs.is_valid(row).then(|| longs.value(row));
                prop_assert_eq!(have, expected, "{}", body);
            }
        }
    }
}
