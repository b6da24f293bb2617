//! Columns of a schema, filled from JSON. What does not fit its type is null, and what a body lacks.

use super::json::{Bad, Json, Kind, Read};
use super::values;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, ListArray, MapArray, StringArray,
    StructArray, TimestampMicrosecondArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields, TimeUnit};
use serde_json::Value;
use std::sync::Arc;

/// Most columns, also nested ones, and deepest nesting of their types.
const MAX_FIELDS: usize = 2000;
const MAX_DEPTH: usize = 40;
const MAX_DIGITS: u8 = 38;

/// A column and its values so far.
pub struct Column {
    valid: Vec<bool>,
    values: Values,
}

enum Values {
    Bools(Vec<bool>),
    Bytes(Vec<i8>),
    Shorts(Vec<i16>),
    Ints(Vec<i32>),
    Longs(Vec<i64>),
    Floats(Vec<f32>),
    Doubles(Vec<f64>),
    Dates(Vec<i32>),
    /// Whether they have a zone.
    Times(Vec<i64>, bool),
    /// Precision and scale.
    Decimals(Vec<i128>, u8, u8),
    Texts(Texts),
    Binaries(Texts),
    /// Places in the items.
    List(Vec<i32>, Box<Column>),
    Map(Vec<i32>, Texts, Box<Column>),
    Struct(Vec<(String, Column)>),
}

struct Texts {
    offsets: Vec<i32>,
    bytes: Vec<u8>,
}

impl Texts {
    fn new() -> Self {
        Texts {
            offsets: vec![0],
            bytes: Vec::new(),
        }
    }

    /// What was appended to the bytes is a value.
    fn close(&mut self) -> Read<()> {
        // Bodies of a batch have less, and so have their parts.
        self.offsets
            .push(i32::try_from(self.bytes.len()).map_err(|_| Bad)?);
        Ok(())
    }

    fn push(&mut self, value: &[u8]) -> Read<()> {
        self.bytes.extend_from_slice(value);
        self.close()
    }

    /// Nothing, for a null.
    fn skip(&mut self) {
        self.offsets.push(self.offsets.last().copied().unwrap_or(0));
    }

    fn truncate(&mut self, count: usize) {
        self.offsets.truncate(count + 1);
        let end = self.offsets.last().copied().unwrap_or(0);
        self.bytes.truncate(end as usize);
    }

    fn take(&mut self) -> (OffsetBuffer<i32>, Buffer) {
        let taken = std::mem::replace(self, Texts::new());
        let offsets = OffsetBuffer::new(ScalarBuffer::from(taken.offsets));
        (offsets, Buffer::from_vec(taken.bytes))
    }
}

impl Column {
    /// An empty column of a type in Spark's JSON. Err says what is wrong with it.
    pub fn of(kind: &Value) -> Result<Column, String> {
        Column::at(kind, 0, &mut 0)
    }

    fn at(kind: &Value, depth: usize, fields: &mut usize) -> Result<Column, String> {
        if depth > MAX_DEPTH {
            return Err("its types are nested too deeply".to_owned());
        }
        let mut inner = |kind: &Value| Column::at(kind, depth + 1, fields).map(Box::new);
        let values = match (kind.as_str(), kind["type"].as_str()) {
            (Some(word), _) => simple(word)?,
            (_, Some("array")) => Values::List(vec![0], inner(&kind["elementType"])?),
            (_, Some("map")) if kind["keyType"] == "string" => {
                Values::Map(vec![0], Texts::new(), inner(&kind["valueType"])?)
            }
            (_, Some("struct")) => {
                let mut out = Vec::new();
                for field in kind["fields"].as_array().into_iter().flatten() {
                    *fields += 1;
                    if *fields > MAX_FIELDS {
                        return Err(format!("it has more than {MAX_FIELDS} columns"));
                    }
                    let name = field["name"].as_str().ok_or("a column has no name")?;
                    let column = Column::at(&field["type"], depth + 1, fields)?;
                    out.push((name.to_owned(), column));
                }
                if out.is_empty() {
                    return Err("a struct has no column".to_owned());
                }
                Values::Struct(out)
            }
            _ => return Err(format!("{kind} is no type of JSON")),
        };
        Ok(Column {
            valid: Vec::new(),
            values,
        })
    }

    pub fn len(&self) -> usize {
        self.valid.len()
    }

    /// Leaves the first values alone.
    pub fn truncate(&mut self, count: usize) {
        self.valid.truncate(count);
        match &mut self.values {
            Values::Bools(v) => v.truncate(count),
            Values::Bytes(v) => v.truncate(count),
            Values::Shorts(v) => v.truncate(count),
            Values::Ints(v) | Values::Dates(v) => v.truncate(count),
            Values::Longs(v) | Values::Times(v, _) => v.truncate(count),
            Values::Floats(v) => v.truncate(count),
            Values::Doubles(v) => v.truncate(count),
            Values::Decimals(v, ..) => v.truncate(count),
            Values::Texts(v) | Values::Binaries(v) => v.truncate(count),
            Values::List(offsets, items) => items.truncate(cut(offsets, count)),
            Values::Map(offsets, keys, items) => {
                let items_left = cut(offsets, count);
                keys.truncate(items_left);
                items.truncate(items_left);
            }
            Values::Struct(fields) => fields.iter_mut().for_each(|(_, f)| f.truncate(count)),
        }
    }

    pub fn push_null(&mut self) {
        self.push_nothing(false);
    }

    /// A struct whose columns are all null.
    pub fn push_empty(&mut self) {
        self.push_nothing(true);
    }

    fn push_nothing(&mut self, valid: bool) {
        self.valid.push(valid);
        match &mut self.values {
            Values::Bools(v) => v.push(false),
            Values::Bytes(v) => v.push(0),
            Values::Shorts(v) => v.push(0),
            Values::Ints(v) | Values::Dates(v) => v.push(0),
            Values::Longs(v) | Values::Times(v, _) => v.push(0),
            Values::Floats(v) => v.push(0.0),
            Values::Doubles(v) => v.push(0.0),
            Values::Decimals(v, ..) => v.push(0),
            Values::Texts(v) | Values::Binaries(v) => v.skip(),
            Values::List(offsets, _) | Values::Map(offsets, ..) => {
                offsets.push(offsets.last().copied().unwrap_or(0));
            }
            Values::Struct(fields) => fields.iter_mut().for_each(|(_, f)| f.push_null()),
        }
    }

    /// Appends the value that comes next. After an error the column has to be truncated.
    pub fn read(&mut self, json: &mut Json<'_>) -> Read<()> {
        let kind = json.kind()?;
        if kind == Kind::Null {
            json.word("null")?;
            self.push_null();
            return Ok(());
        }
        let row = self.valid.len();
        let fits = match &mut self.values {
            Values::Struct(fields) if kind == Kind::Object => {
                read_struct(fields, row, json)?;
                true
            }
            Values::List(offsets, items) if kind == Kind::Array => {
                json.array(|json| items.read(json))?;
                close(offsets, items.len())?;
                true
            }
            Values::Map(offsets, keys, items) if kind == Kind::Object => {
                json.object(|json, name| {
                    keys.push(name.as_bytes())?;
                    items.read(json)
                })?;
                close(offsets, items.len())?;
                true
            }
            Values::Texts(texts) => {
                match kind {
                    Kind::Text => texts.push(json.string()?.as_bytes())?,
                    _ => {
                        json.compact(&mut texts.bytes)?;
                        texts.close()?;
                    }
                }
                true
            }
            values => read_simple(values, kind, json)?,
        };
        match fits {
            true => self.valid.push(true),
            false => self.push_null(),
        }
        Ok(())
    }

    pub fn data_type(&self) -> DataType {
        let field = |name: &str, column: &Column| Field::new(name, column.data_type(), true);
        match &self.values {
            Values::Bools(_) => DataType::Boolean,
            Values::Bytes(_) => DataType::Int8,
            Values::Shorts(_) => DataType::Int16,
            Values::Ints(_) => DataType::Int32,
            Values::Longs(_) => DataType::Int64,
            Values::Floats(_) => DataType::Float32,
            Values::Doubles(_) => DataType::Float64,
            Values::Dates(_) => DataType::Date32,
            Values::Times(_, true) => {
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
            }
            Values::Times(_, false) => DataType::Timestamp(TimeUnit::Microsecond, None),
            Values::Decimals(_, precision, scale) => DataType::Decimal128(*precision, *scale as i8),
            Values::Texts(_) => DataType::Utf8,
            Values::Binaries(_) => DataType::Binary,
            Values::List(_, items) => DataType::List(Arc::new(field("element", items))),
            Values::Map(_, _, items) => {
                let entries = DataType::Struct(entries(items));
                DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
            }
            Values::Struct(fields) => {
                let fields = fields.iter().map(|(name, column)| field(name, column));
                DataType::Struct(fields.collect())
            }
        }
    }

    /// The values so far; begins again.
    pub fn take(&mut self) -> Result<ArrayRef, ArrowError> {
        let kind = self.data_type();
        let valid = std::mem::take(&mut self.valid);
        let rows = valid.len();
        let nulls = valid.contains(&false).then(|| NullBuffer::from(valid));
        Ok(match &mut self.values {
            Values::Bools(v) => Arc::new(BooleanArray::new(std::mem::take(v).into(), nulls)),
            Values::Bytes(v) => Arc::new(Int8Array::new(std::mem::take(v).into(), nulls)),
            Values::Shorts(v) => Arc::new(Int16Array::new(std::mem::take(v).into(), nulls)),
            Values::Ints(v) => Arc::new(Int32Array::new(std::mem::take(v).into(), nulls)),
            Values::Longs(v) => Arc::new(Int64Array::new(std::mem::take(v).into(), nulls)),
            Values::Floats(v) => Arc::new(Float32Array::new(std::mem::take(v).into(), nulls)),
            Values::Doubles(v) => Arc::new(Float64Array::new(std::mem::take(v).into(), nulls)),
            Values::Dates(v) => Arc::new(Date32Array::new(std::mem::take(v).into(), nulls)),
            Values::Times(v, _) => {
                let times = TimestampMicrosecondArray::new(std::mem::take(v).into(), nulls);
                Arc::new(times.with_data_type(kind))
            }
            Values::Decimals(v, ..) => {
                let decimals = Decimal128Array::new(std::mem::take(v).into(), nulls);
                Arc::new(decimals.with_data_type(kind))
            }
            Values::Texts(v) => {
                let (offsets, bytes) = v.take();
                Arc::new(StringArray::try_new(offsets, bytes, nulls)?)
            }
            Values::Binaries(v) => {
                let (offsets, bytes) = v.take();
                Arc::new(BinaryArray::try_new(offsets, bytes, nulls)?)
            }
            Values::List(offsets, items) => {
                let field = Arc::new(Field::new("element", items.data_type(), true));
                let items = items.take()?;
                Arc::new(ListArray::try_new(field, take(offsets), items, nulls)?)
            }
            Values::Map(offsets, keys, items) => {
                let fields = entries(items);
                let (ends, bytes) = keys.take();
                let keys: ArrayRef = Arc::new(StringArray::try_new(ends, bytes, None)?);
                let pairs = StructArray::try_new(fields, vec![keys, items.take()?], None)?;
                let field = Arc::new(Field::new("entries", pairs.data_type().clone(), false));
                Arc::new(MapArray::try_new(
                    field,
                    take(offsets),
                    pairs,
                    nulls,
                    false,
                )?)
            }
            Values::Struct(fields) => {
                let arrays = fields.iter_mut().map(|(_, column)| column.take());
                let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
                let DataType::Struct(fields) = kind else {
                    unreachable!("of these values");
                };
                Arc::new(StructArray::try_new_with_length(
                    fields, arrays, nulls, rows,
                )?)
            }
        })
    }
}

fn simple(word: &str) -> Result<Values, String> {
    Ok(match word {
        "boolean" => Values::Bools(Vec::new()),
        "byte" => Values::Bytes(Vec::new()),
        "short" => Values::Shorts(Vec::new()),
        "integer" => Values::Ints(Vec::new()),
        "long" => Values::Longs(Vec::new()),
        "float" => Values::Floats(Vec::new()),
        "double" => Values::Doubles(Vec::new()),
        "date" => Values::Dates(Vec::new()),
        "timestamp" => Values::Times(Vec::new(), true),
        "timestamp_ntz" => Values::Times(Vec::new(), false),
        "string" => Values::Texts(Texts::new()),
        "binary" => Values::Binaries(Texts::new()),
        word => {
            let inner = word
                .strip_prefix("decimal(")
                .and_then(|rest| rest.strip_suffix(')'));
            let parts = inner.and_then(|inner| inner.split_once(','));
            let numbers = parts.and_then(|(precision, scale)| {
                Some((
                    precision.trim().parse::<u8>().ok()?,
                    scale.trim().parse::<u8>().ok()?,
                ))
            });
            let fits = |(p, s): &(u8, u8)| (1..=MAX_DIGITS).contains(p) && s <= p;
            match numbers.filter(fits) {
                Some((precision, scale)) => Values::Decimals(Vec::new(), precision, scale),
                None => return Err(format!("{word} is no type of JSON")),
            }
        }
    })
}

/// The pair of a map's entries.
fn entries(items: &Column) -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", items.data_type(), true),
    ])
}

fn take(offsets: &mut Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(offsets, vec![0])))
}

fn close(offsets: &mut Vec<i32>, items: usize) -> Read<()> {
    offsets.push(i32::try_from(items).map_err(|_| Bad)?);
    Ok(())
}

/// Leaves the first lists alone; how many items they have.
fn cut(offsets: &mut Vec<i32>, count: usize) -> usize {
    offsets.truncate(count + 1);
    offsets.last().copied().unwrap_or(0) as usize
}

fn read_struct(fields: &mut [(String, Column)], row: usize, json: &mut Json<'_>) -> Read<()> {
    // Writers mostly keep an order: the column behind the one before is looked at first.
    let mut next = 0;
    json.object(|json, name| {
        let found = match fields.get(next) {
            Some((own, _)) if own == name => Some(next),
            _ => fields.iter().position(|(own, _)| own == name),
        };
        let Some(index) = found else {
            return json.skip();
        };
        next = index + 1;
        let column = &mut fields[index].1;
        column.truncate(row); // of equal names the last counts
        column.read(json)
    })?;
    for (_, column) in fields {
        if column.len() == row {
            column.push_null();
        }
    }
    Ok(())
}

/// Appends a value that is no list, map or struct; whether it fits. It is taken in any case.
fn read_simple(values: &mut Values, kind: Kind, json: &mut Json<'_>) -> Read<bool> {
    let number = match kind {
        Kind::Number => json.number()?,
        Kind::Text => return Ok(read_text(values, &json.string()?)),
        Kind::True | Kind::False => {
            json.word(if kind == Kind::True { "true" } else { "false" })?;
            let Values::Bools(v) = values else {
                return Ok(false);
            };
            v.push(kind == Kind::True);
            return Ok(true);
        }
        Kind::Object | Kind::Array | Kind::Null => {
            json.skip()?;
            return Ok(false);
        }
    };
    Ok(match values {
        Values::Bytes(v) => push(v, number.parse().ok()),
        Values::Shorts(v) => push(v, number.parse().ok()),
        Values::Ints(v) => push(v, number.parse().ok()),
        Values::Longs(v) => push(v, number.parse().ok()),
        Values::Floats(v) => push(v, number.parse().ok()),
        Values::Doubles(v) => push(v, number.parse().ok()),
        Values::Decimals(v, precision, scale) => {
            push(v, values::decimal(number, *precision, *scale))
        }
        // Seconds since 1970.
        Values::Times(v, true) => {
            let seconds = number.parse::<i64>().ok();
            push(
                v,
                seconds.and_then(|seconds| seconds.checked_mul(1_000_000)),
            )
        }
        _ => false,
    })
}

fn push<T>(to: &mut Vec<T>, value: Option<T>) -> bool {
    let fits = value.is_some();
    to.extend(value);
    fits
}

/// Appends what a text says; whether it fits.
fn read_text(values: &mut Values, text: &str) -> bool {
    match values {
        Values::Dates(v) => push(v, values::date(text)),
        Values::Times(v, zoned) => push(v, values::time(text, *zoned)),
        Values::Decimals(v, precision, scale) => push(v, values::decimal(text, *precision, *scale)),
        Values::Floats(v) => push(v, special(text).map(|number| number as f32)),
        Values::Doubles(v) => push(v, special(text)),
        Values::Binaries(v) => {
            let bytes = values::base64(text);
            bytes.is_some_and(|bytes| v.push(&bytes).is_ok())
        }
        _ => false,
    }
}

/// Numbers that JSON has no other form for.
fn special(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" | "+Infinity" | "+INF" => Some(f64::INFINITY),
        "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}
