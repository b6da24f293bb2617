//! From the options of a query to what a read takes: paths, a selection, how to build.

use super::checked::{Checked, check, wrong};
use super::columns::{Columns, columns};
use super::row::Query;
use super::values::Value;
use crate::error::Result;
use crate::read_options::{OnCorruption, ReadOptions};
use crate::request::{Request, SPLIT_BYTES};
use crate::selection::{Offsets, Selection};
use serde::Serialize;
use serde_json::{Value as Json, json};

/// Limits of micro-batches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamLimits {
    pub max_offsets: Option<u64>,
    pub max_bytes: Option<u64>,
    pub min_offsets: Option<u64>,
    pub max_delay_ms: Option<u64>,
}

/// The options of a read of files.
#[derive(Clone, Debug, Serialize)]
pub struct Parsed {
    pub request: Request,
    pub stream: StreamLimits,
    /// Our names of the columns, in order.
    pub columns: Vec<String>,
    /// The form of the column `properties`: map, json, raw or none.
    pub properties: String,
    /// The columns as Spark's JSON of a struct type.
    pub schema: Json,
}

/// What a query reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The files of `path`.
    Files,
    /// Through the brokers of `nameServer`.
    Brokers,
}

/// Whether a read is one of files or one through brokers, by the names of its options.
pub fn route<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Route> {
    let (mut files, mut brokers) = (false, false);
    for name in names {
        match name.to_lowercase().as_str() {
            "path" | "paths" | "location" => files = true,
            "nameserver" => brokers = true,
            _ => (),
        }
    }
    match (files, brokers) {
        (true, false) => Ok(Route::Files),
        (false, true) => Ok(Route::Brokers),
        (true, true) => Err(wrong(
            "both path and nameServer are given: path reads segment files, nameServer reads through \
             brokers; take one",
        )),
        (false, false) => Err(wrong(
            "nothing to read is named: give a path, load('/data/store'), or option nameServer to read \
             through brokers. (A table of the catalog with a list of columns loses its options in \
             Spark: create it without, option columns names them)",
        )),
    }
}

/// The options of a read of files. `query`: None while Spark asks for the schema alone. `schema`: the
/// user's, as Spark's JSON of a struct type.
pub fn parse(
    given: &[(String, String)],
    query: Option<Query>,
    schema: Option<&Json>,
) -> Result<Parsed> {
    route(given.iter().map(|(name, _)| name.as_str()))?;
    let checked = check(given, query)?;
    let columns = columns(&checked, schema)?;
    let request = request(&checked, &columns);
    request.selection.check()?;
    Ok(Parsed {
        request,
        stream: StreamLimits {
            max_offsets: checked.count("maxOffsetsPerTrigger"),
            max_bytes: checked.count("maxBytesPerTrigger"),
            min_offsets: checked.count("minOffsetsPerTrigger"),
            max_delay_ms: checked.count("maxTriggerDelay"),
        },
        columns: columns.names,
        properties: columns.properties,
        schema: columns.schema,
    })
}

fn request(checked: &Checked, columns: &Columns) -> Request {
    let paths = match (checked.names("paths"), checked.text("path")) {
        (Some(paths), _) => paths.to_vec(),
        (None, path) => path.into_iter().map(str::to_owned).collect(),
    };
    Request {
        paths,
        broker_names: checked.names("brokerName").unwrap_or(&[]).to_vec(),
        selection: selection(checked),
        how: read_options(checked, columns),
        split_bytes: checked.count("splitBytes").unwrap_or(SPLIT_BYTES),
        min_partitions: checked.count("minPartitions"),
        max_records: checked.count("maxRecordsPerPartition"),
        plan: checked.text("plan").unwrap_or("auto").to_owned(),
        fail_on_data_loss: checked.is_true("failOnDataLoss"),
        top: None,
    }
}

fn selection(checked: &Checked) -> Selection {
    let offsets = |name, otherwise| match checked.value(name) {
        Some(Value::Offsets(offsets)) => offsets.clone(),
        _ => otherwise,
    };
    let times = |name| match checked.value(name) {
        Some(Value::Times(times)) => Some(times.clone()),
        _ => None,
    };
    let text = |name| checked.text(name).map(str::to_owned);
    Selection {
        topics: match checked.text("topic") {
            Some(topic) => vec![topic.to_owned()],
            None => checked.names("subscribe").unwrap_or(&[]).to_vec(),
        },
        pattern: text("subscribePattern"),
        assign: match checked.value("assign") {
            Some(Value::Assign(queues)) => Some(queues.clone()),
            _ => None,
        },
        include_system_topics: checked.is_true("includeSystemTopics"),
        tags: match checked.value("subExpression") {
            Some(Value::Tags(tags)) => tags.clone(),
            _ => None,
        },
        key: text("key"),
        starting_offsets: offsets("startingOffsets", Offsets::Earliest),
        ending_offsets: offsets("endingOffsets", Offsets::Latest),
        start_time: checked.int("startingTimestamp"),
        end_time: checked.int("endingTimestamp"),
        starting_times: times("startingOffsetsByTimestamp"),
        ending_times: times("endingOffsetsByTimestamp"),
        timestamp_strategy: text("startingOffsetsByTimestampStrategy")
            .unwrap_or_else(|| "error".to_owned()),
        ..Selection::default()
    }
}

fn read_options(checked: &Checked, columns: &Columns) -> ReadOptions {
    let usual = ReadOptions::default();
    ReadOptions {
        columns: columns.names.clone(),
        properties: columns.properties.clone(),
        decompress: checked.is_true("decompress"),
        verify_crc: checked.text("verifyCrc").unwrap_or("tail").to_owned(),
        on_corruption: match checked.text("onCorruption") {
            Some("skip") => OnCorruption::Skip,
            _ => OnCorruption::Fail,
        },
        batch_rows: checked.count("batchRows").unwrap_or(usual.batch_rows),
        batch_bytes: checked.count("batchBytes").unwrap_or(usual.batch_bytes),
        body: match (checked.text("body"), checked.value("bodySchema")) {
            (Some("utf8"), _) => Some(json!("utf8")),
            (Some("json"), Some(Value::Schema(schema))) => Some(json!({"json": schema})),
            _ => None,
        },
        ..usual
    }
}

/// The operation `options` of a border: options, query and schema in JSON, and what they parse to.
pub fn answer(asked: &Json) -> Result<Json> {
    let Some(options) = asked["options"].as_object() else {
        return Err(wrong("there are no options to parse"));
    };
    let pair = |(name, value): (&String, &Json)| match value {
        Json::String(text) => Ok((name.clone(), text.clone())),
        _ => Err(wrong(format!("option {name} is no text"))),
    };
    let given = options.iter().map(pair).collect::<Result<Vec<_>>>()?;
    let query = match &asked["query"] {
        Json::Null => None,
        Json::String(name) if Query::named(name).is_some() => Query::named(name),
        other => return Err(wrong(format!("there is no query {other}"))),
    };
    let schema = Some(&asked["schema"]).filter(|schema| !schema.is_null());
    serde_json::to_value(parse(&given, query, schema)?)
        .map_err(|error| wrong(format!("options cannot be shown: {error}")))
}
