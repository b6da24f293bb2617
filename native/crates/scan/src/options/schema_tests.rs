use super::tests::{given, parsed, value};
use super::*;
use serde_json::{Value as Json, json};

#[test]
fn a_schema_of_bodies() {
    let field = |name: &str, kind: Json| json!({"name": name, "type": kind, "nullable": true, "metadata": {}});
    let ddl = "id BIGINT, `a``b`: array<decimal(5, 2)> comment 'it''s', m MAP<STRING, struct<x: Double, y date>>";
    let inner = json!({"type": "struct", "fields": [field("x", json!("double")), field("y", json!("date"))]});
    let list = json!({"type": "array", "elementType": "decimal(5,2)", "containsNull": true});
    let map =
        json!({"type": "map", "keyType": "string", "valueType": inner, "valueContainsNull": true});
    let schema = json!({"type": "struct", "fields": [
        field("id", json!("long")), field("a`b", list), field("m", map),
    ]});
    assert_eq!(value("bodySchema", ddl), Ok(Value::Schema(schema.clone())));
    let found = parsed(Query::Batch, &[("body", "JSON"), ("bodySchema", ddl)]);
    assert_eq!(found.request.how.body, Some(json!({"json": schema})));
    assert_eq!(found.schema["fields"][2]["type"], schema);
    for (text, told) in [
        ("", "is empty"),
        ("a", "has no type behind a"),
        ("a INT,", "ends behind a comma"),
        ("a INT, A STRING", "names the column A twice"),
        (
            "a VARCHAR(5)",
            "has the type 'varchar' for a; the types are BOOLEAN",
        ),
        ("a INT b", "has 'b' where it is not expected"),
        ("a ARRAY<INT", "ends where > is expected"),
        ("a MAP<INT, INT>", "has a map a whose keys are no STRING"),
        (
            "a DECIMAL(39)",
            "has a DECIMAL for a whose digits are not 1 to 38",
        ),
        (
            "a DECIMAL(5,6)",
            "has a DECIMAL for a whose digits are not 0 to 5",
        ),
        ("a INT NOT NULL", "says NOT NULL of a"),
        ("`a INT", "has ` without a second one"),
        ("a; INT", "has ';' in it"),
        (
            "a INT COMMENT b",
            "has no text in quotes behind COMMENT of a",
        ),
    ] {
        let error = value("bodySchema", text).unwrap_err();
        assert!(error.starts_with(told), "{text}: {error}");
    }
    let deep = format!("a {}INT{}", "ARRAY<".repeat(5000), ">".repeat(5000));
    assert_eq!(
        value("bodySchema", &deep).unwrap_err(),
        "is nested too deeply"
    );
}

fn with_schema(options: &[(&str, &str)], fields: Json) -> Result<Columns, String> {
    let checked = check(&given(options), Some(Query::Batch)).unwrap();
    let schema = json!({"type": "struct", "fields": fields});
    columns(&checked, Some(&schema)).map_err(|error| error.to_string())
}

#[test]
fn a_schema_of_the_user() {
    let map = |nulls: bool| json!({"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": nulls});
    let one = |name: &str, kind: Json| json!([{"name": name, "type": kind, "nullable": true, "metadata": {}}]);
    let found = with_schema(&[], one("QUEUEID", json!("integer"))).unwrap();
    assert_eq!(found.names, ["queueId"]);
    assert_eq!(found.schema["fields"][0]["name"], "QUEUEID");
    assert!(with_schema(&[], one("properties", map(true))).is_ok());
    assert!(with_schema(&[("properties", "raw")], one("properties", json!("string"))).is_ok());
    assert!(with_schema(&[("body", "utf8")], one("body", json!("string"))).is_ok());
    let mut collated = one("topic", json!("string"));
    collated[0]["metadata"] = json!({"__COLLATIONS": {"topic": "icu.UNICODE"}});
    let mut never_null = one("topic", json!("string"));
    never_null[0]["nullable"] = json!(false);
    for (fields, told) in [
        (
            json!([]),
            "the schema has no column; the columns are: topic string",
        ),
        (
            one("queue", json!("integer")),
            "the schema names the unknown column 'queue' (did you mean queueId?)",
        ),
        (
            one("queueId", json!("long")),
            "column queueId is bigint in the schema, but must be int; the",
        ),
        (
            one("body", json!("string")),
            "column body is string in the schema, but must be binary (or set option body to utf8)",
        ),
        (
            one("properties", json!("string")),
            "must be map<string,string> (or set option properties to json or raw)",
        ),
        (one("properties", map(false)), "(its values may be null)"),
        (
            one(
                "topic",
                json!({"type": "array", "elementType": {"type": "struct", "fields": [
            {"name": "a", "type": "short"}]}}),
            ),
            "column topic is array<struct<a:smallint>> in the schema",
        ),
        (
            collated,
            "column topic is string collate UNICODE in the schema, but must be string",
        ),
        (never_null, "column topic is NOT NULL in the schema"),
    ] {
        let error = with_schema(&[], fields).unwrap_err();
        assert!(error.contains(told), "{error}");
    }
    let error =
        with_schema(&[("columns", "body,topic")], one("topic", json!("string"))).unwrap_err();
    assert_eq!(
        error,
        "option columns (body, topic) differs from the schema (topic): give one of the two"
    );
    let checked = check(&given(&[]), None).unwrap();
    assert!(columns(&checked, Some(&json!("struct"))).is_err());
}

#[test]
fn columns_are_those_of_the_engine() {
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let engine: Vec<&str> = pyrmq_arrow::ALL
        .iter()
        .map(|column| column.name())
        .collect();
    assert_eq!(names, engine);
    assert_eq!(WITH_PROPERTIES, pyrmq_arrow::DEFAULT);
}
