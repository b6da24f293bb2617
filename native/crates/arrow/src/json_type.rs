//! The types that JSON bodies are read as.

use arrow_schema::{DataType, Field, Fields, TimeUnit};
use std::sync::Arc;

/// Types of a schema within each other.
pub const MAX_DEPTH: usize = 32;
/// Fields of a schema, of all structs in it.
pub const MAX_FIELDS: usize = 2000;

/// A field of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonField {
    pub name: String,
    pub kind: JsonType,
    /// Of strict bodies: one without it, or with null, does not fit.
    pub required: bool,
}

/// Types that JSON is read as. Objects as maps have names of type text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonType {
    Boolean,
    Byte,
    Short,
    Int,
    Long,
    Float,
    Double,
    /// Digits in all (1 to 38), and behind the point.
    Decimal(u8, u8),
    /// Of a value that is no text: as it is written.
    Text,
    /// Any value as it is written, texts with their quotes.
    Written,
    /// Of a text in Base64, with its padding.
    Bytes,
    /// `2026-01-31`
    Date,
    /// ISO 8601, without a zone in UTC; numbers are seconds since 1970.
    Timestamp,
    /// The same of a text that says no zone.
    LocalTimestamp,
    List(Box<JsonType>),
    Map(Box<JsonType>),
    Struct(Vec<JsonField>),
    /// Of strict bodies: one with another field does not fit.
    Closed(Vec<JsonField>),
}

impl JsonType {
    pub fn data_type(&self) -> DataType {
        match self {
            JsonType::Boolean => DataType::Boolean,
            JsonType::Byte => DataType::Int8,
            JsonType::Short => DataType::Int16,
            JsonType::Int => DataType::Int32,
            JsonType::Long => DataType::Int64,
            JsonType::Float => DataType::Float32,
            JsonType::Double => DataType::Float64,
            JsonType::Decimal(digits, scale) => DataType::Decimal128(*digits, *scale as i8),
            JsonType::Text | JsonType::Written => DataType::Utf8,
            JsonType::Bytes => DataType::Binary,
            JsonType::Date => DataType::Date32,
            JsonType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            JsonType::LocalTimestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            JsonType::List(item) => DataType::List(list_field(item)),
            JsonType::Map(value) => {
                let entries = DataType::Struct(entry_fields(value));
                DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
            }
            JsonType::Struct(fields) | JsonType::Closed(fields) => {
                DataType::Struct(struct_fields(fields))
            }
        }
    }
}

pub fn list_field(item: &JsonType) -> Arc<Field> {
    Arc::new(Field::new("element", item.data_type(), true))
}

pub fn entry_fields(value: &JsonType) -> Fields {
    let key = Field::new("key", DataType::Utf8, false);
    vec![key, Field::new("value", value.data_type(), true)].into()
}

pub fn struct_fields(fields: &[JsonField]) -> Fields {
    let field = |f: &JsonField| Field::new(&f.name, f.kind.data_type(), true);
    fields.iter().map(field).collect()
}
