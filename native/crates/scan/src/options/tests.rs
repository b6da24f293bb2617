use super::*;
use crate::error::{Kind, Part, SegmentError};
use crate::selection::Offsets;
use serde_json::json;

const NOON: i64 = 1_769_860_800_000;

pub(super) fn given(options: &[(&str, &str)]) -> Vec<(String, String)> {
    let pair = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
    options.iter().map(pair).collect()
}

pub(super) fn parsed(query: Query, options: &[(&str, &str)]) -> Parsed {
    let mut all = given(&[("path", "/store")]);
    all.extend(given(options));
    parse(&all, Some(query), None).unwrap_or_else(|error| panic!("{}", shown(&error).text()))
}

fn told(query: Query, options: &[(&str, &str)]) -> String {
    let mut all = given(&[("path", "/store")]);
    all.extend(given(options));
    shown(&parse(&all, Some(query), None).unwrap_err()).text()
}

pub(super) fn value(name: &str, text: &str) -> Result<Value, String> {
    value_of(row(name).unwrap(), text).map_err(|wrong| match wrong {
        Wrong::Told(told) => told,
        Wrong::Whole(error) => shown(&error).text(),
    })
}

#[test]
fn what_is_not_given_has_the_defaults_of_the_documentation() {
    let batch = parsed(Query::Batch, &[]);
    let request = &batch.request;
    assert_eq!(request.paths, ["/store"]);
    assert_eq!(request.selection, crate::Selection::default());
    assert_eq!(request.split_bytes, 256 << 20);
    assert_eq!(
        (request.how.batch_rows, request.how.batch_bytes),
        (10_000, 1 << 20)
    );
    assert!(request.fail_on_data_loss && request.how.decompress);
    assert_eq!(
        batch.stream,
        StreamLimits {
            max_delay_ms: None,
            ..StreamLimits::default()
        }
    );
    assert_eq!(batch.columns.len(), WITH_PROPERTIES - 1);
    assert_eq!(batch.reader, "auto");
    let stream = parsed(Query::Stream, &[]);
    assert_eq!(stream.request.selection.starting_offsets, Offsets::Latest);
    assert_eq!(stream.stream.max_bytes, Some(1 << 30));
    assert_eq!(stream.stream.max_delay_ms, Some(900_000));
}

#[test]
fn every_option_of_a_read_of_files_reaches_the_request() {
    let options = [
        ("BROKERNAME", "a, b"),
        ("subscribe", "T, U"),
        ("includeSystemTopics", "true"),
        ("subExpression", "A || B"),
        ("key", "k"),
        ("startingOffsets", r#"{"T":{"a":{"0":-2,"7":5}}}"#),
        ("endingOffsets", r#"{"T":{"a":{"0":-1}}}"#),
        ("startingTimestamp", "2026-01-31T13:00+01:00"),
        ("endingTimestamp", "1769860800001"),
        (
            "startingOffsetsByTimestamp",
            r#"{"T":{"a":{"0":"2026-01-31"}}}"#,
        ),
        ("endingOffsetsByTimestamp", r#"{"T":1769860800000}"#),
        ("startingOffsetsByTimestampStrategy", "LATEST"),
        ("splitBytes", "64m"),
        ("minPartitions", "3"),
        ("maxRecordsPerPartition", "4"),
        ("plan", "Index"),
        ("batchRows", "5"),
        ("batchBytes", "2k"),
        ("columns", "QUEUEID,properties,body"),
        ("properties", "json"),
        ("decompress", "false"),
        ("verifyCrc", "all"),
        ("failOnDataLoss", "false"),
        ("onCorruption", "skip"),
        ("body", "utf8"),
        ("reader", "jvm"),
        ("storageOptions", r#"{"key":"v"}"#),
    ];
    let found = parsed(Query::Batch, &options);
    assert_eq!(
        serde_json::to_value(&found.request).unwrap(),
        json!({
            "paths": ["/store"],
            "broker_names": ["a", "b"],
            "selection": {
                "topics": ["T", "U"], "pattern": null, "assign": null, "queues": [],
                "include_system_topics": true, "tags": ["A", "B"], "key": "k",
                "starting_offsets": {"T": {"a": {"0": -2, "7": 5}}},
                "ending_offsets": {"T": {"a": {"0": -1}}},
                "start_time": NOON, "end_time": NOON + 1,
                "starting_times": {"T": {"a": {"0": NOON - 12 * 3_600_000}}},
                "ending_times": {"T": NOON},
                "timestamp_strategy": "latest", "without": [],
                "filters": serde_json::to_value(crate::Filters::default()).unwrap(),
            },
            "how": {
                "columns": ["queueId", "properties", "body"], "properties": "json",
                "decompress": false, "verify_crc": "all", "on_corruption": "skip",
                "batch_rows": 5, "batch_bytes": 2048, "views": false, "body": "utf8",
            },
            "split_bytes": 64 << 20,
            "min_partitions": 3,
            "max_records": 4,
            "plan": "index",
            "fail_on_data_loss": false,
            "top": null,
        })
    );
    assert_eq!(found.reader, "jvm");
    assert_eq!(found.storage_options.unwrap()["key"], "v");
    let type_of = |at: usize| found.schema["fields"][at]["type"].clone();
    assert_eq!(
        [type_of(0), type_of(1), type_of(2)],
        ["integer", "string", "string"]
    );
}

#[test]
fn other_ways_to_name_topics_and_paths() {
    let request = |options: &[(&str, &str)]| {
        let found = parse(&given(options), Some(Query::Batch), None);
        found
            .unwrap_or_else(|error| panic!("{}", shown(&error).text()))
            .request
    };
    let found = request(&[("location", "/a"), ("topic", "T")]);
    assert_eq!(
        (found.paths[0].as_str(), found.selection.topics[0].as_str()),
        ("/a", "T")
    );
    let found = request(&[("paths", r#"["/a", "/b"]"#), ("subscribePattern", "o.*")]);
    assert_eq!(found.paths, ["/a", "/b"]);
    assert_eq!(found.selection.pattern.as_deref(), Some("o.*"));
    let found = request(&[("path", "/a"), ("assign", r#"{"T":{"b":[1,"0",1]}}"#)]);
    assert_eq!(found.selection.assign.unwrap()["T"]["b"], [0, 1]);
}

#[test]
fn what_is_wrong_is_told_with_the_names_of_options() {
    for (options, text) in [
        (
            &[("subcribe", "t")][..],
            "unknown option 'subcribe': did you mean subscribe?",
        ),
        (
            &[("maxOffsetPerTrigger", "5")],
            "did you mean maxOffsetsPerTrigger?",
        ),
        (
            &[("kafka.bootstrap.servers", "h")],
            "nameServer (name servers, host:9876;host:9876), not brokers",
        ),
        (
            &[("kafka.security.protocol", "x")],
            "options of Kafka's client are not known here",
        ),
        (&[("consumerGroup", "g")], "reads have no group"),
        (
            &[("zzzzzzz", "5")],
            "options of a batch read of segments: assign, batchBytes",
        ),
        (
            &[("maxOffsetsPerTrigger", "5")],
            "does not belong to a batch read of segments; it is for a streaming read of segments and \
          a streaming read through a broker",
        ),
        (
            &[("splitBytes", "1g"), ("SPLITBYTES", "2g")],
            "option splitBytes is given twice, once as SPLITBYTES and with another value",
        ),
        (
            &[("location", "/b")],
            "option path is given twice, once as location",
        ),
        (
            &[("failOnDataLoss", "yes")],
            "option failOnDataLoss must be true or false, not 'yes'",
        ),
        (
            &[("splitBytes", "64x")],
            "option splitBytes must be a size such as 67108864, 64m or 1g, not '64x'",
        ),
        (
            &[("splitBytes", "1")],
            "option splitBytes must be 65536 to 1125899906842624 bytes, not 1",
        ),
        (
            &[("minPartitions", "0")],
            "option minPartitions must be 1 to 100000, not 0",
        ),
        (
            &[("maxRecordsPerPartition", "0")],
            "must be 1 or more, not 0",
        ),
        (
            &[("maxRecordsPerPartition", "9999999999999999999")],
            "must be 1 or more, not 9999999999999999999",
        ),
        (
            &[("minPartitions", "many")],
            "must be a whole number, not 'many'",
        ),
        (
            &[("plan", "fast")],
            "option plan must be auto, scan, index or file, not 'fast'",
        ),
        (
            &[("subscribe", "a,,b")],
            "must be names with commas between them, not 'a,,b'",
        ),
        (
            &[("subscribe", "b,a,b,a")],
            "option subscribe names a twice",
        ),
        (
            &[("subscribe", "a"), ("topic", "b")],
            "options subscribe and topic exclude each other: give one of subscribe, subscribePattern, assign, topic",
        ),
        (
            &[("subscribePattern", "(")],
            "option subscribePattern is not a regular expression: ",
        ),
        (
            &[("paths", r#"["/b"]"#)],
            "options path and paths exclude each other",
        ),
        (
            &[("startingOffsets", "latest")],
            "startingOffsets cannot be latest (-1) in a batch read",
        ),
        (
            &[("startingOffsets", r#"{"t":{"b":{"0":-1}}}"#)],
            "cannot be latest (-1)",
        ),
        (
            &[("endingOffsets", "earliest")],
            "endingOffsets cannot be earliest (-2)",
        ),
        (
            &[("startingOffsets", r#"{"t":{"b":{"x":1}}}"#)],
            "startingOffsets: 'x' is no queue id (expected {\"topic\": {\"broker\": {\"queue id\": offset}}}, \
          -2 is earliest, -1 latest)",
        ),
        (
            &[("subExpression", "A |")],
            "subExpression: 'A |' is no tag (expected * or tags",
        ),
        (
            &[("startingTimestamp", "1769860800")],
            "1769860800 ms is 1970-01-21T11:37:40.800Z; seconds would be 2026-01-31T12:00:00Z: give 1769860800000",
        ),
        (
            &[
                ("startingTimestamp", "1769860800001"),
                ("endingTimestamp", "1769860800000"),
            ],
            "endingTimestamp 1769860800000 is before startingTimestamp 1769860800001",
        ),
        (
            &[("storageOptions", r#"{"secret": "hidden"#)],
            "option storageOptions must be a JSON object",
        ),
        (
            &[("body", "json")],
            "option body=json needs option bodySchema",
        ),
        (&[("bodySchema", "a INT")], "give body=json too"),
        (
            &[("columns", "zz")],
            "option columns names the unknown column 'zz'; the columns are: topic string, flag int",
        ),
        (&[("columns", "queue")], "(did you mean queueId?)"),
        (
            &[("columns", "*,topic")],
            "option columns has * beside names",
        ),
        (
            &[("columns", "topic,TOPIC")],
            "option columns names the column topic twice",
        ),
        (
            &[("columns", "properties"), ("properties", "none")],
            "leaves it out: take map, json or raw",
        ),
        (
            &[("nameServer", "h:9876")],
            "both path and nameServer are given",
        ),
    ] {
        let error = told(Query::Batch, options);
        assert!(error.contains(text), "{options:?}: {error}");
    }
    let stream = told(
        Query::Stream,
        &[
            ("minOffsetsPerTrigger", "11"),
            ("maxOffsetsPerTrigger", "10"),
        ],
    );
    assert!(stream.starts_with("option minOffsetsPerTrigger is 11, but maxOffsetsPerTrigger 10"));
    let stream = told(Query::Stream, &[("maxTriggerDelay", "5s")]);
    assert!(stream.contains("bounds how long minOffsetsPerTrigger waits"));
    let nothing = parse(&[], Some(Query::Batch), None).unwrap_err();
    assert!(nothing.to_string().starts_with("nothing to read is named"));
    assert_eq!(nothing.kind, Kind::Config);
}

#[test]
fn secrets_are_in_no_error() {
    for row in rows().filter(|row| row.secret) {
        let told = value(row.name, "").unwrap_err();
        assert_eq!(told, "is empty");
    }
    let told = value("storageOptions", r#"{"secret": "hidden", "secret": 1}"#).unwrap_err();
    assert_eq!(told, "must be a JSON object");
}

#[test]
fn times() {
    for (text, ms) in [
        ("1769860800000", NOON),
        (" 0 ", 0),
        ("2026-01-31T12:00:00Z", NOON),
        ("2026-01-31T13:00+01", NOON),
        ("2026-01-31 06:30:00-05:30", NOON),
        ("20260131T120000", NOON),
        ("2026-01-31", NOON - 12 * 3_600_000),
        ("2026-01-31T12:00:00.0001Z", NOON + 1),
        ("2026-01-31 13:00 Europe/Berlin", NOON),
        ("2026-01-31T13:00+01:00[Europe/Berlin]", NOON),
        ("2026-01-31T12:00Z[UTC]", NOON),
        // The hour that is there twice: the first one.
        ("2025-10-26T02:30 Europe/Berlin", 1_761_438_600_000),
    ] {
        assert_eq!(
            value("startingTimestamp", text),
            Ok(Value::Int(ms)),
            "{text}"
        );
    }
    for (text, told) in [
        (
            "1769860800000000",
            "as microseconds that would be 2026-01-31T12:00:00Z: give 1769860800000",
        ),
        (
            "1769860800000000000",
            "as nanoseconds that would be 2026-01-31T12:00:00Z: give 1769860800000",
        ),
        ("yesterday", "not 'yesterday'"),
        ("2026-02-30", "not '2026-02-30'"),
        ("2026-W05-6", "not '2026-W05-6'"),
        ("2026-01-31T", "not '2026-01-31T'"),
        ("2026-01-31T24:00Z", "must be"),
        (
            "1969-12-31T23:59Z",
            "not '1969-12-31T23:59Z', which is before 1970",
        ),
        (
            "2026-01-31T12:00+02:00 Europe/Berlin",
            "has two zones that do not agree",
        ),
        (
            "2026-01-31T12:00 Europe/Atlantis",
            "there is no time zone 'Europe/Atlantis'",
        ),
        (
            "2026-03-29T02:30 Europe/Berlin",
            "does not exist in Europe/Berlin, where clocks were put forward",
        ),
        ("2026-01-31T12:00 ../../etc/passwd", "must be"),
        ("2026-01-31T12:0é", "must be"),
        ("", "must be"),
    ] {
        let error = value("startingTimestamp", text).unwrap_err();
        assert!(error.contains(told), "{text}: {error}");
    }
    let delays =
        ["15m", "30s", "500", "2h", "1 d", "1500us"].map(|text| value("maxTriggerDelay", text));
    let expected = [900_000, 30_000, 500, 7_200_000, 86_400_000, 2];
    assert_eq!(delays, expected.map(|ms| Ok(Value::Int(ms))));
    for text in ["0", "-5s", "5 weeks", "1.5s", "999999999999999d", ""] {
        assert!(
            value("maxTriggerDelay", text)
                .unwrap_err()
                .starts_with("must be")
        );
    }
}

#[test]
fn json_says_where_it_is_wrong() {
    for (text, told) in [
        (
            "{\"t\":\n {\"é\": x}}",
            "is not valid JSON: expected value at character 13, near '\"t\":\\n {\"é\": x}}'",
        ),
        (r#"{"A": 0, "A": 0}"#, "has the key 'A' twice"),
        ("[]", "must be a JSON object, in braces"),
        (r#"{"A": {}}"#, "has an empty object or name in it"),
        (r#"{"A": 1.5}"#, "has '1.5' for 'A'; expected"),
        (r#"{"A": true}"#, "has 'True' for 'A'; expected"),
        (
            r#"{"A": {"b": {"0": 1769860800}}}"#,
            "for 'A', 'b', queue 0 must be",
        ),
        (
            r#"{"A": {"b": {"2147483648": 0}}}"#,
            "has '2147483648' for 'A', 'b', which is no queue id",
        ),
    ] {
        let error = value("startingOffsetsByTimestamp", text).unwrap_err();
        assert!(error.starts_with(told), "{error}");
    }
    let deep = format!("{}1{}", "{\"a\":".repeat(50_000), "}".repeat(50_000));
    assert_eq!(
        value("startingOffsetsByTimestamp", &deep).unwrap_err(),
        "is nested too deeply"
    );
}

#[test]
fn the_table_is_sound() {
    for (index, row) in rows().enumerate() {
        assert!(!row.doc.is_empty());
        let twice = rows().skip(index + 1).any(|other| {
            other.name.eq_ignore_ascii_case(row.name)
                || (other.parameter.is_some() && other.parameter == row.parameter)
        });
        assert!(!twice, "{}", row.name);
        for default in [row.default, row.stream_default].into_iter().flatten() {
            assert!(value(row.name, default).is_ok(), "{}", row.name);
        }
    }
}

#[test]
fn errors_name_options() {
    let error = SegmentError::new(
        Kind::Layout,
        [Part::Name("pattern"), " of ".into(), Part::Name("views")],
    )
    .hint([Part::Value("fail_on_data_loss", "False")]);
    let shown_error = shown(&error);
    assert_eq!(shown_error.message, "subscribePattern of views");
    assert_eq!(
        shown_error.hint,
        "failOnDataLoss=false; option nameServer reads through brokers"
    );
    let error = SegmentError::new(Kind::DataLoss, "gone");
    assert_eq!(
        shown(&error).text(),
        "gone (failOnDataLoss=false continues with the earliest record available)"
    );
}

#[test]
fn the_operation_of_a_border() {
    let asked = json!({"options": {"path": "/a", "columns": "topic"}, "query": "stream"});
    let found = answer(&asked).unwrap();
    assert_eq!(found["columns"], json!(["topic"]));
    assert_eq!(found["stream"]["max_bytes"], json!(1 << 30));
    assert_eq!(found["request"]["paths"], json!(["/a"]));
    assert!(answer(&json!({"options": {"path": "/a"}})).is_ok());
    for wrong in [
        json!({}),
        json!({"options": {"path": 5}}),
        json!({"options": {"path": "/a"}, "query": "other"}),
        json!({"options": {"path": "/a"}, "schema": 5}),
    ] {
        assert_eq!(answer(&wrong).unwrap_err().kind, Kind::Config);
    }
}
