//! The property string of a message that is made from a row.
//!
//! First the row's own pairs, then KEYS, TAGS, `__SHARDINGKEY`, DELAY, WAIT and UNIQ_KEY, each once:
//! a column wins over a pair of its name. [Message, MessageConst, MessageDecoder]

use super::send_rows::{Cells, Columns};
use pyrmq_format::properties::{self, MAX_LEN, NAME_END, VALUE_END};

/// Properties that say how a message was stored or delivered before. This send sets its own, so what
/// a row brings is left out: rows that were read from a log have them all.
const REPLACED: [&[u8]; 12] = [
    b"WAIT",
    b"MSG_REGION",
    b"TRACE_ON",
    b"CLUSTER",
    b"POP_CK",
    b"1ST_POP_TIME",
    b"MIN_OFFSET",
    b"MAX_OFFSET",
    b"CONSUME_START_TIME",
    b"ARRIVE_TIME",
    b"INNER_NUM",
    b"INNER_BASE",
];

/// Properties that brokers and clients act on: a row that sets one by itself would become another
/// kind of message. [MessageConst.STRING_HASH_SET]
const SPECIAL: [&[u8]; 32] = [
    b"DELAY",
    b"TIMER_DELAY_SEC",
    b"TIMER_DELAY_MS",
    b"TIMER_DELIVER_MS",
    b"TIMER_DEL_UNIQKEY",
    b"TIMER_DEL_FLAG",
    b"TIMER_OUT_MS",
    b"TIMER_ENQUEUE_MS",
    b"TIMER_DEQUEUE_MS",
    b"TIMER_ROLL_TIMES",
    b"TRAN_MSG",
    b"PGROUP",
    b"REAL_TOPIC",
    b"REAL_QID",
    b"TRANSACTION_CHECK_TIMES",
    b"TRAN_PREPARED_QUEUE_OFFSET",
    b"RETRY_TOPIC",
    b"ORIGIN_MESSAGE_ID",
    b"RECONSUME_TIME",
    b"MAX_RECONSUME_TIMES",
    b"DLQ_ORIGIN_TOPIC",
    b"DLQ_ORIGIN_MESSAGE_ID",
    b"CORRELATION_ID",
    b"REPLY_TO_CLIENT",
    b"TTL",
    b"MSG_TYPE",
    b"PUSH_REPLY_TIME",
    b"INSTANCE_ID",
    b"BUYER_ID",
    b"TRANSFER_FLAG",
    b"CORRECTION_FLAG",
    b"_SYS_MSG_PRIORITY_",
];

const SHARDING_KEY: &[u8] = b"__SHARDINGKEY";
const UNIQ_KEY: &[u8] = b"UNIQ_KEY";
/// Which version of which application's rows a message belongs to.
const SPARK_BATCH: &[u8] = b"SPARK_BATCH";

/// What the property string of a row needs, as found by `measure`.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub len: u16,
    /// The row brings a UNIQ_KEY of its own.
    pub has_key: bool,
}

/// How one encoder treats properties.
#[derive(Clone, Debug)]
pub struct Rules {
    pub wait: bool,
    /// Special ones are left out; otherwise they are an error.
    pub drop_special: bool,
    /// Length of a UNIQ_KEY.
    pub key_len: usize,
    /// The property SPARK_BATCH. Where there is one, rows bring no UNIQ_KEY.
    pub label: Option<Vec<u8>>,
}

impl Rules {
    fn wait_text(&self) -> &'static [u8] {
        if self.wait { b"true" } else { b"false" }
    }
}

/// Whether a pair of the row's map goes into the message; an error for one that may not.
fn keep(name: &[u8], value: &[u8], cells: &Cells<'_>, rules: &Rules) -> Result<bool, String> {
    if name.is_empty() {
        return Err("a property has an empty name".into());
    }
    check_text(name, "the name of a property")?;
    if value.is_empty() || REPLACED.contains(&name) {
        return Ok(false);
    }
    match name {
        b"TAGS" if cells.tags.is_some() => return Ok(false),
        b"KEYS" if cells.keys.is_some() => return Ok(false),
        SHARDING_KEY if cells.sharding_key.is_some() => return Ok(false),
        SPARK_BATCH if rules.label.is_some() => return Ok(false),
        UNIQ_KEY if rules.label.is_some() && rules.drop_special => return Ok(false),
        UNIQ_KEY if rules.label.is_some() => {
            return Err(
                "the row brings a UNIQ_KEY, but an idempotent write makes the unique keys: leave \
                 UNIQ_KEY out of the map (systemProperties=drop leaves it out)"
                    .into(),
            );
        }
        _ => {}
    }
    if SPECIAL.contains(&name) {
        if rules.drop_special {
            return Ok(false);
        }
        let name = String::from_utf8_lossy(name);
        let instead = if name == "DELAY" {
            "use column delayTimeLevel, or "
        } else {
            ""
        };
        return Err(format!(
            "property {name} is reserved for brokers and clients: {instead}leave it out of the map \
             (systemProperties=drop leaves out all such)"
        ));
    }
    if value.iter().any(is_separator) {
        let name = String::from_utf8_lossy(name);
        return Err(format!("the value of property {name} holds 0x01 or 0x02"));
    }
    Ok(true)
}

fn is_separator(byte: &u8) -> bool {
    matches!(*byte, NAME_END | VALUE_END)
}

pub fn check_text(text: &[u8], what: &str) -> Result<(), String> {
    match text.iter().find(|b| is_separator(b)) {
        Some(b) => Err(format!(
            "{what} holds 0x0{b}, which RocketMQ's properties cannot"
        )),
        None => Ok(()),
    }
}

/// The pairs that come from columns.
fn of_columns<'a>(cells: &Cells<'a>) -> [(&'static [u8], Option<&'a [u8]>); 3] {
    [
        (b"KEYS", cells.keys),
        (b"TAGS", cells.tags),
        (SHARDING_KEY, cells.sharding_key),
    ]
}

fn delay_text(cells: &Cells<'_>) -> Option<String> {
    cells
        .delay
        .filter(|&level| level > 0)
        .map(|l| l.to_string())
}

/// Checks a row's properties and says how long their text will be.
pub fn measure(
    columns: &Columns,
    row: usize,
    cells: &Cells<'_>,
    rules: &Rules,
) -> Result<Measured, String> {
    let (mut len, mut has_key) = (0, false);
    for (name, value) in columns.properties(row) {
        if keep(name, value, cells, rules)? {
            len += name.len() + value.len() + 2;
            has_key |= name == UNIQ_KEY;
        }
    }
    for (name, value) in of_columns(cells) {
        if let Some(value) = value {
            check_text(
                value,
                if name == SHARDING_KEY {
                    "column shardingKey"
                } else {
                    "a text"
                },
            )
            .map_err(|e| format!("{}: {e}", String::from_utf8_lossy(name)))?;
            len += name.len() + value.len() + 2;
        }
    }
    len += delay_text(cells).map_or(0, |t| b"DELAY".len() + t.len() + 2);
    len += b"WAIT".len() + rules.wait_text().len() + 2;
    if let Some(label) = &rules.label {
        len += SPARK_BATCH.len() + label.len() + 2;
    }
    if !has_key {
        len += UNIQ_KEY.len() + rules.key_len + 2;
    }
    if len > MAX_LEN {
        return Err(format!(
            "the properties have {len} bytes with those that the sink adds, the limit is {MAX_LEN}"
        ));
    }
    Ok(Measured {
        len: len as u16,
        has_key,
    })
}

/// Writes what `measure` measured. `key`: the UNIQ_KEY for a row that brings none.
pub fn write(
    columns: &Columns,
    row: usize,
    cells: &Cells<'_>,
    rules: &Rules,
    key: impl FnOnce(&mut Vec<u8>),
    has_key: bool,
    out: &mut Vec<u8>,
) {
    for (name, value) in columns.properties(row) {
        if keep(name, value, cells, rules).unwrap_or(false) {
            properties::push(out, name, value);
        }
    }
    for (name, value) in of_columns(cells) {
        if let Some(value) = value {
            properties::push(out, name, value);
        }
    }
    if let Some(level) = delay_text(cells) {
        properties::push(out, b"DELAY", level.as_bytes());
    }
    properties::push(out, b"WAIT", rules.wait_text());
    if let Some(label) = &rules.label {
        properties::push(out, SPARK_BATCH, label);
    }
    if !has_key {
        out.extend_from_slice(b"UNIQ_KEY\x01");
        key(out);
        out.push(VALUE_END);
    }
}

/// The key that ordered sends go by: the column's, else the property's.
pub fn sharding_key<'a>(columns: &'a Columns, row: usize, cells: &Cells<'a>) -> Option<&'a [u8]> {
    cells.sharding_key.or_else(|| {
        columns
            .properties(row)
            .filter(|(name, value)| *name == SHARDING_KEY && !value.is_empty())
            .map(|(_, value)| value)
            .last()
    })
}
