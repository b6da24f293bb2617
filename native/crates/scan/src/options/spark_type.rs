//! Types of Spark as its messages show them, of the JSON in which it keeps them.

use serde_json::Value;

/// As `DataType.simpleString`. `collations`: those of the field, by path; null: none.
pub fn simple(kind: &Value, collations: &Value) -> String {
    if let Some(collation) = collations.as_object().and_then(|all| all.values().next()) {
        let name = collation.as_str().unwrap_or("");
        let name = name.rsplit('.').next().unwrap_or(name);
        return format!("{} collate {name}", simple(kind, &Value::Null));
    }
    if let Value::String(word) = kind {
        return match word.as_str() {
            "integer" => "int",
            "long" => "bigint",
            "short" => "smallint",
            "byte" => "tinyint",
            other => other,
        }
        .to_owned();
    }
    let part = |name: &str| simple(&kind[name], &Value::Null);
    match kind["type"].as_str() {
        Some("array") => format!("array<{}>", part("elementType")),
        Some("map") => format!("map<{},{}>", part("keyType"), part("valueType")),
        Some("struct") => {
            let fields = kind["fields"].as_array().map_or(&[][..], Vec::as_slice);
            let shown: Vec<String> = fields
                .iter()
                .map(|field| {
                    let name = field["name"].as_str().unwrap_or("");
                    format!("{name}:{}", simple(&field["type"], &Value::Null))
                })
                .collect();
            format!("struct<{}>", shown.join(","))
        }
        Some(other) => other.to_owned(),
        None => kind.to_string(),
    }
}
