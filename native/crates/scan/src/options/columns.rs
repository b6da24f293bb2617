//! Columns and Spark's types for them, and the check of a user's schema.
//!
//! Spark wants each batch to have exactly the schema of the query, field by field and in its order. So
//! a schema is either exactly one of ours or an error; only the case of its names is the user's.
//! Types are in the JSON in which Spark keeps them (`DataType.json`).

use super::checked::{Checked, wrong};
use super::spark_type::simple;
use super::values::Value;
use crate::error::Result;
use crate::near::close_matches;
use crate::repr;
use serde_json::{Value as Json, json};

/// All columns and their types, in the words of Spark's DDL.
pub const COLUMNS: &[(&str, &str)] = &[
    ("topic", "string"),
    ("flag", "int"),
    ("body", "binary"),
    ("properties", "map<string,string>"),
    ("brokerName", "string"),
    ("queueId", "int"),
    ("queueOffset", "bigint"),
    ("bornTimestamp", "timestamp"),
    ("storeTimestamp", "timestamp"),
    ("tags", "string"),
    ("keys", "string"),
    ("commitLogOffset", "bigint"),
    ("bodyLength", "int"),
    ("sysFlag", "int"),
    ("storeSize", "int"),
    ("bodyCRC", "int"),
    ("reconsumeTimes", "int"),
    ("preparedTransactionOffset", "bigint"),
    ("msgId", "string"),
    ("transactionId", "string"),
    ("bornHost", "string"),
    ("storeHost", "string"),
    ("propertiesRaw", "string"),
];

/// How many of them are those of a query that names none, but a form of properties.
pub const WITH_PROPERTIES: usize = 12;
/// The word for all columns in option `columns`.
const EVERY: &str = "*";

/// The columns of a query: what it builds, in order, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// By our names.
    pub names: Vec<String>,
    /// The form of the column `properties`: map, json, raw or none.
    pub properties: String,
    /// Their struct type, with the names that the user's schema has, if there is one.
    pub schema: Json,
}

/// The columns of a query. `schema`: the user's, as Spark's JSON of a struct type.
pub fn columns(checked: &Checked, schema: Option<&Json>) -> Result<Columns> {
    let form = form_of(checked);
    let (names, schema) = match schema {
        Some(schema) => (check(checked, &form, schema)?, schema.clone()),
        None => {
            let names = named(checked, &form)?.unwrap_or_else(|| default(checked));
            let fields: Vec<Json> = names
                .iter()
                .map(|name| field(name, &type_of(checked, &form, name)))
                .collect();
            (names, json!({"type": "struct", "fields": fields}))
        }
    };
    Ok(Columns {
        names,
        properties: form,
        schema,
    })
}

/// Columns of a query that names none.
fn default(checked: &Checked) -> Vec<String> {
    let without = checked.text("properties") == Some("none");
    let names = COLUMNS[..WITH_PROPERTIES].iter().map(|(name, _)| *name);
    names
        .filter(|name| !(without && *name == "properties"))
        .map(str::to_owned)
        .collect()
}

fn field(name: &str, kind: &Json) -> Json {
    json!({"name": name, "type": kind, "nullable": true, "metadata": {}})
}

/// The form of the column `properties`. Where no option says one, its name alone asks for a map, and
/// without its name it is not built.
fn form_of(checked: &Checked) -> String {
    let said = checked.is_given("properties") || checked.is_given("includeHeaders");
    let form = checked.text("properties").filter(|_| said);
    form.unwrap_or("map").to_owned()
}

fn type_of(checked: &Checked, form: &str, name: &str) -> Json {
    if name == "properties" && matches!(form, "json" | "raw") {
        return json!("string");
    }
    if name == "body" {
        match (checked.text("body"), checked.value("bodySchema")) {
            (Some("utf8"), _) => return json!("string"),
            (Some("json"), Some(Value::Schema(schema))) => return schema.clone(),
            _ => (),
        }
    }
    let word = COLUMNS.iter().find(|(known, _)| *known == name);
    match word.map_or("string", |(_, word)| *word) {
        "int" => json!("integer"),
        "bigint" => json!("long"),
        "map<string,string>" => json!({
            "type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": true
        }),
        other => json!(other),
    }
}

/// Our names for the columns of a schema, which must have exactly our types.
fn check(checked: &Checked, form: &str, schema: &Json) -> Result<Vec<String>> {
    let fields = match schema["fields"].as_array() {
        Some(fields) if schema["type"] == "struct" => fields,
        _ => return Err(wrong("the schema is no struct type in Spark's JSON")),
    };
    if fields.is_empty() {
        return Err(wrong(format!("the schema has no column; {}", known())));
    }
    let given: Vec<&str> = fields
        .iter()
        .map(|field| field["name"].as_str().unwrap_or(""))
        .collect();
    let wanted = own_names(&given, "the schema", form)?;
    for (name, field) in wanted.iter().zip(fields) {
        if field["nullable"] == false {
            return Err(wrong(format!(
                "column {name} is NOT NULL in the schema: leave that out"
            )));
        }
        let right = type_of(checked, form, name);
        let collation = &field["metadata"]["__COLLATIONS"];
        if field["type"] != right || !collation.is_null() {
            return Err(wrong(format!(
                "column {name} is {} in the schema, but must be {}{}; {}",
                simple(&field["type"], collation),
                simple(&right, &Json::Null),
                advice(name, &field["type"]),
                known()
            )));
        }
    }
    if let Some(named) = named(checked, form)?
        && named != wanted
    {
        return Err(wrong(format!(
            "option columns ({}) differs from the schema ({}): give one of the two",
            named.join(", "),
            wanted.join(", ")
        )));
    }
    Ok(wanted)
}

/// The columns that option `columns` names; None without it.
fn named(checked: &Checked, form: &str) -> Result<Option<Vec<String>>> {
    let Some(given) = checked.names("columns") else {
        return Ok(None);
    };
    if given == [EVERY] {
        let every = COLUMNS.iter().map(|(name, _)| *name);
        let every = every.filter(|name| *name != "properties" || form != "none");
        return Ok(Some(every.map(str::to_owned).collect()));
    }
    if given.iter().any(|name| name == EVERY) {
        return Err(wrong(format!(
            "option columns has {EVERY} beside names: it means all, give it alone"
        )));
    }
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    own_names(&given, "option columns", form).map(Some)
}

/// Our names for those given, which may be in any case. `place` is where they are, for errors.
fn own_names(given: &[&str], place: &str, form: &str) -> Result<Vec<String>> {
    let mut out: Vec<String> = Vec::new();
    for word in given {
        let found = COLUMNS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(word));
        let Some((name, _)) = found else {
            return Err(wrong(format!(
                "{place} names the unknown column {}{}; {}",
                repr::text(word),
                meant(word),
                known()
            )));
        };
        if out.iter().any(|known| known == name) {
            return Err(wrong(format!("{place} names the column {name} twice")));
        }
        out.push((*name).to_owned());
    }
    if form == "none" && out.iter().any(|name| name == "properties") {
        return Err(wrong(format!(
            "{place} names the column properties, but option properties (or includeHeaders) leaves \
             it out: take map, json or raw"
        )));
    }
    Ok(out)
}

fn meant(word: &str) -> String {
    let lower: Vec<String> = COLUMNS
        .iter()
        .map(|(name, _)| name.to_lowercase())
        .collect();
    let near = close_matches(
        &word.to_lowercase(),
        lower.iter().map(String::as_str),
        1,
        0.6,
    );
    let name = near.first().and_then(|near| {
        COLUMNS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(near))
    });
    name.map_or_else(String::new, |(name, _)| format!(" (did you mean {name}?)"))
}

fn advice(name: &str, given: &Json) -> &'static str {
    match (name, given) {
        ("properties", Json::String(kind)) if kind == "string" => {
            " (or set option properties to json or raw)"
        }
        ("properties", given)
            if given["type"] == "map"
                && given["keyType"] == "string"
                && given["valueType"] == "string" =>
        {
            " (its values may be null)"
        }
        ("body", Json::String(kind)) if kind == "string" => " (or set option body to utf8)",
        _ => "",
    }
}

fn known() -> String {
    let listed: Vec<String> = COLUMNS
        .iter()
        .map(|(name, word)| format!("{name} {word}"))
        .collect();
    format!("the columns are: {}", listed.join(", "))
}
