//! The columns of a record batch that is to be sent: which there may be, and their cells as bytes.
//!
//! Names are compared without case, as Spark does. Types are those that Spark gives: binary or string
//! for the body, string for texts, int or bigint for numbers, map<string,string> for properties.

use super::error::EncodeError;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, BinaryArray, Int32Array, Int64Array, LargeBinaryArray, MapArray, RecordBatch,
};
use arrow_schema::DataType;

/// Every column there may be, with its types as errors name them.
pub const COLUMNS: [(&str, &str); 10] = [
    ("body", "binary or string"),
    ("topic", "string"),
    ("tags", "string"),
    ("keys", "string"),
    ("properties", "map<string,string>"),
    ("shardingKey", "string"),
    ("brokerName", "string"),
    ("queueId", "int"),
    ("delayTimeLevel", "int"),
    ("flag", "int"),
];

/// A column of texts or bytes.
pub enum Texts {
    Small(BinaryArray),
    Large(LargeBinaryArray),
}

impl Texts {
    fn of(array: &dyn Array) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Binary => Texts::Small(array.as_binary::<i32>().clone()),
            DataType::LargeBinary => Texts::Large(array.as_binary::<i64>().clone()),
            DataType::Utf8 => Texts::Small(array.as_string::<i32>().clone().into()),
            DataType::LargeUtf8 => Texts::Large(array.as_string::<i64>().clone().into()),
            _ => return None,
        })
    }

    #[inline]
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Texts::Small(a) => a.is_valid(row).then(|| a.value(row)),
            Texts::Large(a) => a.is_valid(row).then(|| a.value(row)),
        }
    }
}

enum Numbers {
    Int(Int32Array),
    Long(Int64Array),
}

impl Numbers {
    fn of(array: &dyn Array) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Int32 => Numbers::Int(array.as_primitive::<Int32Type>().clone()),
            DataType::Int64 => Numbers::Long(array.as_primitive::<Int64Type>().clone()),
            _ => return None,
        })
    }

    fn get(&self, row: usize) -> Option<i64> {
        match self {
            Numbers::Int(a) => a.is_valid(row).then(|| a.value(row) as i64),
            Numbers::Long(a) => a.is_valid(row).then(|| a.value(row)),
        }
    }
}

/// A column of maps from text to text.
struct Maps {
    entries: MapArray,
    names: Texts,
    values: Texts,
}

impl Maps {
    fn of(array: &dyn Array) -> Option<Self> {
        let entries = array.as_map_opt()?.clone();
        let text = |a: &dyn Array| match a.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => Texts::of(a),
            _ => None,
        };
        Some(Maps {
            names: text(entries.keys())?,
            values: text(entries.values())?,
            entries,
        })
    }
}

/// The columns of one batch.
pub struct Columns {
    pub rows: usize,
    body: Texts,
    topic: Option<Texts>,
    tags: Option<Texts>,
    keys: Option<Texts>,
    sharding_key: Option<Texts>,
    broker_name: Option<Texts>,
    properties: Option<Maps>,
    queue_id: Option<Numbers>,
    delay: Option<Numbers>,
    flag: Option<Numbers>,
}

/// One row's cells. `None`: null, or there is no such column.
pub struct Cells<'a> {
    pub body: Option<&'a [u8]>,
    pub topic: Option<&'a [u8]>,
    pub tags: Option<&'a [u8]>,
    pub keys: Option<&'a [u8]>,
    pub sharding_key: Option<&'a [u8]>,
    pub broker_name: Option<&'a [u8]>,
    pub queue_id: Option<i64>,
    pub delay: Option<i64>,
    pub flag: Option<i64>,
}

impl Columns {
    /// Fails for a column that is unknown, there twice or of another type, and without a body.
    pub fn new(batch: &RecordBatch) -> Result<Self, EncodeError> {
        let schema = batch.schema();
        let mut found: [Option<&dyn Array>; COLUMNS.len()] = [None; COLUMNS.len()];
        for (field, array) in schema.fields().iter().zip(batch.columns()) {
            let known = COLUMNS
                .iter()
                .position(|(name, _)| name.eq_ignore_ascii_case(field.name()));
            let Some(at) = known else {
                let text = format!("unknown column {:?}; {}", field.name(), known_columns());
                return Err(EncodeError::Column(text));
            };
            if found[at].replace(array.as_ref()).is_some() {
                let text = format!("column {:?} is there twice", COLUMNS[at].0);
                return Err(EncodeError::Column(text));
            }
        }
        let texts = |at: usize| cells(at, found[at], |a| Texts::of(a).filter(|_| is_text(a)));
        let numbers = |at: usize| cells(at, found[at], Numbers::of);
        Ok(Columns {
            rows: batch.num_rows(),
            body: cells(0, found[0], Texts::of)?.ok_or_else(|| {
                EncodeError::Column(format!("there is no column body; {}", known_columns()))
            })?,
            topic: texts(1)?,
            tags: texts(2)?,
            keys: texts(3)?,
            properties: cells(4, found[4], Maps::of)?,
            sharding_key: texts(5)?,
            broker_name: texts(6)?,
            queue_id: numbers(7)?,
            delay: numbers(8)?,
            flag: numbers(9)?,
        })
    }

    pub fn cells(&self, row: usize) -> Cells<'_> {
        Cells {
            body: self.body.get(row),
            topic: text(&self.topic, row),
            tags: text(&self.tags, row),
            keys: text(&self.keys, row),
            sharding_key: text(&self.sharding_key, row),
            broker_name: text(&self.broker_name, row),
            queue_id: self.queue_id.as_ref().and_then(|n| n.get(row)),
            delay: self.delay.as_ref().and_then(|n| n.get(row)),
            flag: self.flag.as_ref().and_then(|n| n.get(row)),
        }
    }

    pub fn body_len(&self, row: usize) -> usize {
        self.body.get(row).map_or(0, <[u8]>::len)
    }

    /// The row's properties; a null value stands for none.
    pub fn properties(&self, row: usize) -> impl Iterator<Item = (&[u8], &[u8])> {
        let maps = self.properties.as_ref().filter(|m| m.entries.is_valid(row));
        let range = maps.map_or(0..0, |m| {
            let ends = m.entries.value_offsets();
            ends[row] as usize..ends[row + 1] as usize
        });
        range.filter_map(move |i| {
            let m = maps?;
            Some((m.names.get(i).unwrap_or_default(), m.values.get(i)?))
        })
    }
}

/// The cell of a text column; an empty text counts as none, as an empty property does not exist.
fn text(column: &Option<Texts>, row: usize) -> Option<&[u8]> {
    column
        .as_ref()
        .and_then(|t| t.get(row))
        .filter(|t| !t.is_empty())
}

fn is_text(array: &dyn Array) -> bool {
    matches!(array.data_type(), DataType::Utf8 | DataType::LargeUtf8)
}

fn cells<T>(
    at: usize,
    array: Option<&dyn Array>,
    read: impl Fn(&dyn Array) -> Option<T>,
) -> Result<Option<T>, EncodeError> {
    let Some(array) = array else { return Ok(None) };
    read(array).map(Some).ok_or_else(|| {
        let (name, wanted) = COLUMNS[at];
        let kind = array.data_type();
        EncodeError::Column(format!("column {name} is {kind}, it has to be {wanted}"))
    })
}

fn known_columns() -> String {
    let each: Vec<_> = COLUMNS.iter().map(|(n, t)| format!("{n} ({t})")).collect();
    format!("the columns there may be are {}", each.join(", "))
}
