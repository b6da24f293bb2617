//! What to say of a name that is no option: which one is meant, by the names that Kafka's source and
//! RocketMQ's clients have for it, or by the nearest one.

use super::row::{Query, Row};
use super::table;
use crate::near::close_matches;
use crate::repr;

const NAME_SERVERS: &str = "nameServer (name servers, host:9876;host:9876)";
const NOT_BROKERS: &str = "nameServer (name servers, host:9876;host:9876), not brokers";
const NO_GROUP: &str = "reads have no group: they commit no offsets, and Spark's checkpoint keeps the \
     position; leave it out";
const AT_START: &str = "startingOffsets (earliest or latest)";
const POLL_RECORDS: &str = "pullBatchSize, or maxOffsetsPerTrigger for a stream";

/// By name without case and separators.
const MEANT: &[(&str, &str)] = &[
    ("kafkabootstrapservers", NOT_BROKERS),
    ("bootstrapservers", NOT_BROKERS),
    ("brokers", NOT_BROKERS),
    ("namesrvaddr", NAME_SERVERS),
    ("namesrv", NAME_SERVERS),
    ("namesrvaddress", NAME_SERVERS),
    ("namesrvaddrs", NAME_SERVERS),
    ("nameserveraddr", NAME_SERVERS),
    ("nameserveraddress", NAME_SERVERS),
    ("nameserveraddresses", NAME_SERVERS),
    ("rocketmqnameserver", NAME_SERVERS),
    ("rocketmqnamesrvaddr", NAME_SERVERS),
    ("rocketmqconfignamesrvaddr", NAME_SERVERS),
    ("endpoints", NAME_SERVERS),
    ("topics", "subscribe"),
    ("topicpattern", "subscribePattern"),
    ("topicspattern", "subscribePattern"),
    ("tag", "subExpression"),
    ("tags", "subExpression"),
    ("filterexpression", "subExpression"),
    ("queues", "assign"),
    (
        "consumefromwhere",
        "startingOffsets (earliest or latest) or startingTimestamp",
    ),
    ("autooffsetreset", AT_START),
    ("kafkaautooffsetreset", AT_START),
    ("consumetimestamp", "startingTimestamp"),
    ("starttime", "startingTimestamp"),
    ("endtime", "endingTimestamp"),
    ("starttimestamp", "startingTimestamp"),
    ("endtimestamp", "endingTimestamp"),
    ("offsets", "startingOffsets"),
    ("maxpollrecords", POLL_RECORDS),
    ("kafkamaxpollrecords", POLL_RECORDS),
    ("kafkaconsumerpolltimeoutms", "pullTimeoutMs"),
    ("consumerpulltimeoutmillis", "pullTimeoutMs"),
    (
        "maxfilespertrigger",
        "maxOffsetsPerTrigger or maxBytesPerTrigger",
    ),
    (
        "timeout",
        "pullTimeoutMs for reads, sendMsgTimeout for writes",
    ),
];

const SAID: &[(&str, &str)] = &[
    ("group", NO_GROUP),
    ("groupid", NO_GROUP),
    ("groupidprefix", NO_GROUP),
    ("kafkagroupid", NO_GROUP),
    ("consumergroup", NO_GROUP),
    ("groupname", NO_GROUP),
    (
        "checkpointlocation",
        "it belongs to writeStream, not to the source: .writeStream.option('checkpointLocation', ...)",
    ),
    (
        "maxrecordsperbatch",
        "batchRows bounds Arrow batches, maxOffsetsPerTrigger micro-batches",
    ),
];

/// The text of the error for a name that is no option of any query.
pub fn unknown(key: &str, query: Option<Query>) -> String {
    let shown = repr::text(key);
    if let Some(hint) = hint(key, query) {
        return format!("unknown option {shown}: {hint}");
    }
    let mut usable: Vec<&str> = of_query(query).map(|row| row.name).collect();
    usable.sort_unstable();
    let kind = query.map_or("this format", Query::text);
    format!(
        "unknown option {shown}; options of {kind}: {}",
        usable.join(", ")
    )
}

fn hint(key: &str, query: Option<Query>) -> Option<String> {
    let key = bare(key);
    let listed = |list: &'static [(&str, &str)]| list.iter().find(|(name, _)| *name == key);
    if let Some((_, said)) = listed(SAID) {
        return Some((*said).to_owned());
    }
    if let Some((_, meant)) = listed(MEANT) {
        return Some(format!("did you mean {meant}?"));
    }
    if key.starts_with("kafka") {
        return Some("options of Kafka's client are not known here".to_owned());
    }
    // First among those that this query takes.
    let near = nearest(&key, of_query(query)).or_else(|| nearest(&key, table::rows()));
    near.map(|name| format!("did you mean {name}?"))
}

fn nearest(key: &str, rows: impl Iterator<Item = &'static Row>) -> Option<&'static str> {
    let names: Vec<(String, &str)> = rows.map(|row| (bare(row.name), row.name)).collect();
    let bare_names = names.iter().map(|(bare, _)| bare.as_str());
    let near = *close_matches(key, bare_names, 1, 0.6).first()?;
    let found = names.iter().find(|(bare, _)| bare == near);
    found.map(|(_, name)| *name)
}

fn of_query(query: Option<Query>) -> impl Iterator<Item = &'static Row> {
    table::rows().filter(move |row| row.is_for(query))
}

fn bare(name: &str) -> String {
    let mut name = name.to_lowercase();
    name.retain(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    name
}
