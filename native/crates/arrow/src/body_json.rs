//! Bodies that are JSON objects as a column of structs, so that Spark needs no from_json.
//!
//! As Spark's from_json in its mode PERMISSIVE: fields that the schema does not name are passed over,
//! a field that is missing or of another type is null, of equal names the last counts, and a body that
//! is no JSON object gives a struct whose fields are all null. An empty body is null.

use super::bytes::Bytes;
use super::json_type::{JsonType, entry_fields, list_field, struct_fields};
use super::json_values::{base64, date, decimal, local, timestamp};
use arrow_array::builder::NullBufferBuilder;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, ListArray, MapArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields};
use jiter::{Jiter, Peek};
use std::sync::Arc;

/// Why a body is no object of the schema; only that it is not counts.
enum Bad {
    /// The text is no JSON: nothing of the body counts.
    Text,
    /// The value is of another type: it is null.
    Type,
}

impl From<jiter::JiterError> for Bad {
    fn from(_: jiter::JiterError) -> Self {
        Bad::Text
    }
}

/// A column being filled. Rows that were begun can be taken back.
pub struct Node {
    valid: Vec<bool>,
    values: Values,
    rule: Rule,
}

/// What makes a whole body unfit. All false: nothing does, and what is of another type is null.
#[derive(Clone, Copy, Default)]
struct Rule {
    /// A value of another type, or one that loses something.
    strict: bool,
    /// Null, or nothing.
    required: bool,
    /// A field without a name in the schema.
    closed: bool,
}

/// Values that a body may still have.
struct Room(usize);

impl Room {
    fn take(&mut self, count: usize) -> Result<(), Bad> {
        self.0 = self.0.checked_sub(count).ok_or(Bad::Text)?;
        Ok(())
    }
}

enum Values {
    Boolean(Vec<bool>),
    Byte(Vec<i8>),
    Short(Vec<i16>),
    Int(Vec<i32>),
    Long(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Decimal(Vec<i128>, u8, u8),
    Text(Bytes),
    Written(Bytes),
    Bytes(Bytes),
    Date(Vec<i32>),
    Timestamp(Vec<i64>),
    LocalTimestamp(Vec<i64>),
    List(Vec<i32>, Box<Node>, JsonType),
    Map(Vec<i32>, Bytes, Box<Node>, JsonType),
    Struct(Vec<(String, Node)>, Fields),
}

impl Node {
    pub fn new(kind: &JsonType) -> Self {
        Node::with(kind, false, false)
    }

    /// A column of bodies of which each fits the schema, or is left out: `push_fit` fills it.
    pub fn strict(kind: &JsonType) -> Self {
        Node::with(kind, true, true)
    }

    fn with(kind: &JsonType, strict: bool, required: bool) -> Self {
        let inner = |kind: &JsonType| Box::new(Node::with(kind, strict, false));
        let values = match kind {
            JsonType::Boolean => Values::Boolean(Vec::new()),
            JsonType::Byte => Values::Byte(Vec::new()),
            JsonType::Short => Values::Short(Vec::new()),
            JsonType::Int => Values::Int(Vec::new()),
            JsonType::Long => Values::Long(Vec::new()),
            JsonType::Float => Values::Float(Vec::new()),
            JsonType::Double => Values::Double(Vec::new()),
            JsonType::Decimal(digits, scale) => Values::Decimal(Vec::new(), *digits, *scale),
            JsonType::Text => Values::Text(Bytes::new(false)),
            JsonType::Written => Values::Written(Bytes::new(false)),
            JsonType::Bytes => Values::Bytes(Bytes::new(false)),
            JsonType::Date => Values::Date(Vec::new()),
            JsonType::Timestamp => Values::Timestamp(Vec::new()),
            JsonType::LocalTimestamp => Values::LocalTimestamp(Vec::new()),
            JsonType::List(item) => Values::List(vec![0], inner(item), *item.clone()),
            JsonType::Map(value) => {
                Values::Map(vec![0], Bytes::new(false), inner(value), *value.clone())
            }
            JsonType::Struct(fields) | JsonType::Closed(fields) => {
                let nodes = fields.iter().map(|f| {
                    let node = Node::with(&f.kind, strict, strict && f.required);
                    (f.name.clone(), node)
                });
                Values::Struct(nodes.collect(), struct_fields(fields))
            }
        };
        let closed = strict && matches!(kind, JsonType::Closed(_));
        Node {
            valid: Vec::new(),
            values,
            rule: Rule {
                strict,
                required,
                closed,
            },
        }
    }

    /// Appends the row of a body.
    pub fn push(&mut self, body: &[u8]) {
        if body.iter().all(u8::is_ascii_whitespace) {
            return self.push_null();
        }
        let row = self.valid.len();
        if self.read(body, &mut Room(usize::MAX)).is_err() {
            self.truncate(row);
            self.push_nothing();
        }
    }

    /// Appends the row of a body that fits the schema and has at most so many values, nulls of missing
    /// fields included; otherwise null. How many it has, None if it does not fit.
    pub fn push_fit(&mut self, body: &[u8], most: usize) -> Option<usize> {
        let row = self.valid.len();
        let mut room = Room(most);
        if self.read(body, &mut room).is_err() {
            self.truncate(row);
            self.push_null();
            return None;
        }
        Some(most - room.0)
    }

    fn read(&mut self, body: &[u8], room: &mut Room) -> Result<(), Bad> {
        let mut json = Jiter::new(body);
        let peek = json.peek()?;
        self.take(&mut json, peek, room)?;
        Ok(json.finish()?)
    }

    /// Bytes that the column has so far, about.
    pub fn bytes(&self) -> usize {
        let rows = self.valid.len();
        rows + match &self.values {
            Values::Boolean(_) | Values::Byte(_) => rows,
            Values::Short(_) => 2 * rows,
            Values::Int(_) | Values::Float(_) | Values::Date(_) => 4 * rows,
            Values::Long(_) | Values::Double(_) => 8 * rows,
            Values::Timestamp(_) | Values::LocalTimestamp(_) => 8 * rows,
            Values::Decimal(..) => 16 * rows,
            Values::Text(v) | Values::Written(v) | Values::Bytes(v) => 4 * rows + v.len_of_values(),
            Values::List(_, item, _) => 4 * rows + item.bytes(),
            Values::Map(_, keys, value, _) => 4 * rows + keys.len_of_values() + value.bytes(),
            Values::Struct(fields, _) => fields.iter().map(|(_, node)| node.bytes()).sum(),
        }
    }

    /// A struct that is there, with nothing in it.
    fn push_nothing(&mut self) {
        let Values::Struct(fields, _) = &mut self.values else {
            return self.push_null();
        };
        fields.iter_mut().for_each(|(_, node)| node.push_null());
        self.valid.push(true);
    }

    fn push_null(&mut self) {
        match &mut self.values {
            Values::Boolean(v) => v.push(false),
            Values::Byte(v) => v.push(0),
            Values::Short(v) => v.push(0),
            Values::Int(v) | Values::Date(v) => v.push(0),
            Values::Long(v) | Values::Timestamp(v) | Values::LocalTimestamp(v) => v.push(0),
            Values::Float(v) => v.push(0.0),
            Values::Double(v) => v.push(0.0),
            Values::Decimal(v, ..) => v.push(0),
            Values::Text(v) | Values::Written(v) | Values::Bytes(v) => v.push(b""),
            Values::List(offsets, item, _) => offsets.push(item.valid.len() as i32),
            Values::Map(offsets, _, value, _) => offsets.push(value.valid.len() as i32),
            Values::Struct(fields, _) => fields.iter_mut().for_each(|(_, n)| n.push_null()),
        }
        self.valid.push(false);
    }

    /// Takes all rows from this one on back.
    fn truncate(&mut self, rows: usize) {
        self.valid.truncate(rows);
        match &mut self.values {
            Values::Boolean(v) => v.truncate(rows),
            Values::Byte(v) => v.truncate(rows),
            Values::Short(v) => v.truncate(rows),
            Values::Int(v) | Values::Date(v) => v.truncate(rows),
            Values::Long(v) | Values::Timestamp(v) | Values::LocalTimestamp(v) => v.truncate(rows),
            Values::Float(v) => v.truncate(rows),
            Values::Double(v) => v.truncate(rows),
            Values::Decimal(v, ..) => v.truncate(rows),
            Values::Text(v) | Values::Written(v) | Values::Bytes(v) => v.truncate(rows),
            Values::List(offsets, item, _) => {
                offsets.truncate(rows + 1);
                item.truncate(offsets[rows] as usize);
            }
            Values::Map(offsets, keys, value, _) => {
                offsets.truncate(rows + 1);
                keys.truncate(offsets[rows] as usize);
                value.truncate(offsets[rows] as usize);
            }
            Values::Struct(fields, _) => fields.iter_mut().for_each(|(_, n)| n.truncate(rows)),
        }
    }

    /// Appends the value that begins with `peek`; null if it is of another type.
    fn value(&mut self, json: &mut Jiter<'_>, peek: Peek, room: &mut Room) -> Result<(), Bad> {
        let row = self.valid.len();
        match self.take(json, peek, room) {
            Err(Bad::Type) if !self.rule.strict => {
                self.truncate(row);
                self.push_null();
                Ok(())
            }
            other => other,
        }
    }

    /// Bad::Type: the value was passed over, and some of it may be appended.
    fn take(&mut self, json: &mut Jiter<'_>, peek: Peek, room: &mut Room) -> Result<(), Bad> {
        let Rule {
            strict,
            required,
            closed,
        } = self.rule;
        if peek == Peek::Null {
            json.known_null()?;
            self.push_null();
            return if required { Err(Bad::Type) } else { Ok(()) };
        }
        match &mut self.values {
            Values::Boolean(v) => match peek {
                Peek::True | Peek::False => v.push(json.known_bool(peek)?),
                _ => return skip(json, peek),
            },
            Values::Byte(v) => v.push(whole(json, peek)?.try_into().map_err(|_| Bad::Type)?),
            Values::Short(v) => v.push(whole(json, peek)?.try_into().map_err(|_| Bad::Type)?),
            Values::Int(v) => v.push(whole(json, peek)?.try_into().map_err(|_| Bad::Type)?),
            Values::Long(v) => v.push(whole(json, peek)?),
            Values::Float(v) => v.push(finite(number(json, peek)? as f32, strict)?),
            Values::Double(v) => v.push(finite(number(json, peek)?, strict)?),
            Values::Decimal(v, digits, scale) => {
                let text = match peek {
                    Peek::String => json.known_bytes()?,
                    _ => written(json, peek, true)?,
                };
                v.push(decimal(text, *digits, *scale, strict).ok_or(Bad::Type)?);
            }
            Values::Text(v) => match peek {
                Peek::String => v.push(json.known_str()?.as_bytes()),
                _ if strict => return skip(json, peek),
                _ => v.push(written_text(json, peek)?),
            },
            Values::Written(v) => v.push(written_text(json, peek)?),
            Values::Bytes(v) => match peek {
                Peek::String => v.push(&base64(json.known_bytes()?).ok_or(Bad::Type)?),
                _ => return skip(json, peek),
            },
            Values::LocalTimestamp(v) => match peek {
                Peek::String => v.push(local(json.known_bytes()?).ok_or(Bad::Type)?),
                _ => return skip(json, peek),
            },
            Values::Date(v) => match peek {
                Peek::String => v.push(date(json.known_bytes()?).ok_or(Bad::Type)?),
                _ => return skip(json, peek),
            },
            Values::Timestamp(v) => match peek {
                Peek::String => v.push(timestamp(json.known_bytes()?).ok_or(Bad::Type)?),
                _ if strict => return skip(json, peek),
                _ => v.push(whole(json, peek)?.checked_mul(1_000_000).ok_or(Bad::Type)?),
            },
            Values::List(offsets, item, _) => {
                if peek != Peek::Array {
                    return skip(json, peek);
                }
                let mut next = json.known_array()?;
                while let Some(peek) = next {
                    room.take(1)?;
                    item.value(json, peek, room)?;
                    next = json.array_step()?;
                }
                offsets.push(place(item.valid.len())?);
            }
            Values::Map(offsets, keys, value, _) => {
                if peek != Peek::Object {
                    return skip(json, peek);
                }
                let start = value.valid.len();
                let mut more = push_key(keys, json.known_object()?);
                while more {
                    let peek = json.peek()?;
                    room.take(1)?;
                    value.value(json, peek, room)?;
                    more = push_key(keys, json.next_key()?);
                }
                drop_twins(keys, value, start);
                offsets.push(place(value.valid.len())?);
            }
            Values::Struct(fields, _) => {
                if peek != Peek::Object {
                    return skip(json, peek);
                }
                room.take(fields.len())?;
                let row = self.valid.len();
                let mut near = 0;
                let mut name = json.known_object()?.map(|key| find(fields, key, near));
                while let Some(index) = name {
                    let peek = json.peek()?;
                    match index {
                        Some(index) => {
                            let node = &mut fields[index].1;
                            node.truncate(row); // of an equal name before
                            node.value(json, peek, room)?;
                            near = index + 1;
                        }
                        None if closed => return skip(json, peek),
                        None => json.known_skip(peek)?,
                    }
                    name = json.next_key()?.map(|key| find(fields, key, near));
                }
                for (_, node) in fields.iter_mut() {
                    if node.valid.len() == row {
                        if node.rule.required {
                            return Err(Bad::Type);
                        }
                        node.push_null();
                    }
                }
            }
        }
        self.valid.push(true);
        Ok(())
    }

    /// The column so far; begins the next one.
    pub fn finish(&mut self) -> ArrayRef {
        let nulls = nulls(&std::mem::take(&mut self.valid));
        match &mut self.values {
            Values::Boolean(v) => Arc::new(BooleanArray::new(std::mem::take(v).into(), nulls)),
            Values::Byte(v) => Arc::new(Int8Array::new(std::mem::take(v).into(), nulls)),
            Values::Short(v) => Arc::new(Int16Array::new(std::mem::take(v).into(), nulls)),
            Values::Int(v) => Arc::new(Int32Array::new(std::mem::take(v).into(), nulls)),
            Values::Long(v) => Arc::new(Int64Array::new(std::mem::take(v).into(), nulls)),
            Values::Float(v) => Arc::new(Float32Array::new(std::mem::take(v).into(), nulls)),
            Values::Double(v) => Arc::new(Float64Array::new(std::mem::take(v).into(), nulls)),
            Values::Decimal(v, digits, scale) => {
                let array = Decimal128Array::new(std::mem::take(v).into(), nulls);
                let sized = array.with_precision_and_scale(*digits, *scale as i8);
                Arc::new(sized.expect("digits and scale were checked with the schema"))
            }
            Values::Text(v) | Values::Written(v) => Arc::new(v.strings_with(nulls)),
            Values::Bytes(v) => {
                let (offsets, values, _) = v.binaries().into_parts();
                Arc::new(BinaryArray::new(offsets, values, nulls))
            }
            Values::LocalTimestamp(v) => {
                let times = TimestampMicrosecondArray::new(std::mem::take(v).into(), nulls);
                Arc::new(times)
            }
            Values::Date(v) => Arc::new(Date32Array::new(std::mem::take(v).into(), nulls)),
            Values::Timestamp(v) => {
                let times = TimestampMicrosecondArray::new(std::mem::take(v).into(), nulls);
                Arc::new(times.with_timezone("UTC"))
            }
            Values::List(offsets, item, kind) => {
                let offsets = OffsetBuffer::new(std::mem::replace(offsets, vec![0]).into());
                Arc::new(ListArray::new(
                    list_field(kind),
                    offsets,
                    item.finish(),
                    nulls,
                ))
            }
            Values::Map(offsets, keys, value, kind) => {
                let offsets = OffsetBuffer::new(std::mem::replace(offsets, vec![0]).into());
                let columns: Vec<ArrayRef> = vec![Arc::new(keys.strings()), value.finish()];
                let entries = StructArray::new(entry_fields(kind), columns, None);
                let of = DataType::Struct(entry_fields(kind));
                let field = Arc::new(Field::new("entries", of, false));
                Arc::new(MapArray::new(field, offsets, entries, nulls, false))
            }
            Values::Struct(nodes, fields) => {
                let rows = nulls.as_ref().map(NullBuffer::len);
                let columns: Vec<ArrayRef> = nodes.iter_mut().map(|(_, n)| n.finish()).collect();
                debug_assert!(rows.is_none_or(|rows| columns.iter().all(|c| c.len() == rows)));
                Arc::new(StructArray::new(fields.clone(), columns, nulls))
            }
        }
    }
}

fn nulls(valid: &[bool]) -> Option<NullBuffer> {
    if valid.iter().all(|&is| is) {
        return None;
    }
    let mut builder = NullBufferBuilder::new(valid.len());
    builder.append_slice(valid);
    builder.finish()
}

/// The field of a name; fields mostly come in the order of the schema, so it is looked for from
/// `near` on first.
#[inline]
fn find(fields: &[(String, Node)], key: &str, near: usize) -> Option<usize> {
    let is = |i: &usize| fields[*i].0 == key;
    let (first, rest) = (near..fields.len(), 0..near);
    first
        .into_iter()
        .find(is)
        .or_else(|| rest.into_iter().find(is))
}

fn push_key(keys: &mut Bytes, key: Option<&str>) -> bool {
    if let Some(key) = key {
        keys.push(key.as_bytes());
    }
    key.is_some()
}

/// Of equal names the last stays, at the place of the first: what is before it is null for Spark's
/// maps, which take no name twice.
fn drop_twins(keys: &mut Bytes, values: &mut Node, start: usize) {
    let end = values.valid.len();
    let mut seen = rustc_hash::FxHashSet::default();
    if (start..end).all(|i| seen.insert(keys.get(i).to_vec())) {
        return;
    }
    // Rare, and the values may be anything: the names that come again are made unlike.
    let mut last = rustc_hash::FxHashMap::default();
    for i in start..end {
        last.insert(keys.get(i).to_vec(), i);
    }
    let names: Vec<Vec<u8>> = (start..end).map(|i| keys.get(i).to_vec()).collect();
    let kept: Vec<usize> = (start..end)
        .filter(|&i| last[&names[i - start]] == i)
        .collect();
    keys.truncate(start);
    for &i in &kept {
        keys.push(&names[i - start]);
    }
    values.keep(start, &kept);
}

impl Node {
    /// Of the rows from `start` on only these stay.
    fn keep(&mut self, start: usize, rows: &[usize]) {
        fn pick<T: Copy>(v: &mut Vec<T>, start: usize, rows: &[usize]) {
            let kept: Vec<T> = rows.iter().map(|&i| v[i]).collect();
            v.truncate(start);
            v.extend(kept);
        }
        pick(&mut self.valid, start, rows);
        match &mut self.values {
            Values::Boolean(v) => pick(v, start, rows),
            Values::Byte(v) => pick(v, start, rows),
            Values::Short(v) => pick(v, start, rows),
            Values::Int(v) | Values::Date(v) => pick(v, start, rows),
            Values::Long(v) | Values::Timestamp(v) | Values::LocalTimestamp(v) => {
                pick(v, start, rows);
            }
            Values::Float(v) => pick(v, start, rows),
            Values::Double(v) => pick(v, start, rows),
            Values::Decimal(v, ..) => pick(v, start, rows),
            Values::Text(v) | Values::Written(v) | Values::Bytes(v) => {
                let kept: Vec<Vec<u8>> = rows.iter().map(|&i| v.get(i).to_vec()).collect();
                v.truncate(start);
                kept.iter().for_each(|text| v.push(text));
            }
            Values::List(offsets, item, _) => {
                let (kept, ends) = spans(offsets, start, rows);
                item.keep(offsets[start] as usize, &kept);
                offsets.truncate(start + 1);
                offsets.extend(ends);
            }
            Values::Map(offsets, keys, value, _) => {
                let (kept, ends) = spans(offsets, start, rows);
                let first = offsets[start] as usize;
                let names: Vec<Vec<u8>> = kept.iter().map(|&i| keys.get(i).to_vec()).collect();
                keys.truncate(first);
                names.iter().for_each(|name| keys.push(name));
                value.keep(first, &kept);
                offsets.truncate(start + 1);
                offsets.extend(ends);
            }
            Values::Struct(fields, _) => {
                fields
                    .iter_mut()
                    .for_each(|(_, node)| node.keep(start, rows));
            }
        }
    }
}

/// What lists at these rows hold, and where each ends then.
fn spans(offsets: &[i32], start: usize, rows: &[usize]) -> (Vec<usize>, Vec<i32>) {
    let (mut kept, mut ends, mut end) = (Vec::new(), Vec::new(), offsets[start]);
    for &i in rows {
        kept.extend(offsets[i] as usize..offsets[i + 1] as usize);
        end += offsets[i + 1] - offsets[i];
        ends.push(end);
    }
    (kept, ends)
}

fn place(len: usize) -> Result<i32, Bad> {
    i32::try_from(len).map_err(|_| Bad::Text)
}

/// Passes over a value of another type.
fn skip<T>(json: &mut Jiter<'_>, peek: Peek) -> Result<T, Bad> {
    json.known_skip(peek)?;
    Err(Bad::Type)
}

fn is_number(peek: Peek) -> bool {
    peek.is_num() && peek != Peek::NaN && peek != Peek::Infinity
}

/// The value as it is written.
fn written<'j>(json: &mut Jiter<'j>, peek: Peek, numbers: bool) -> Result<&'j [u8], Bad> {
    if numbers && !is_number(peek) {
        return skip(json, peek);
    }
    let start = json.current_index();
    json.known_skip(peek)?;
    Ok(json.slice_to_current(start))
}

fn written_text<'j>(json: &mut Jiter<'j>, peek: Peek) -> Result<&'j [u8], Bad> {
    let text = written(json, peek, false)?;
    std::str::from_utf8(text).map_err(|_| Bad::Text)?;
    Ok(text)
}

/// A number that is infinite was too large, which only counts if `strict`.
fn finite<T: Copy + Into<f64>>(number: T, strict: bool) -> Result<T, Bad> {
    match strict && !number.into().is_finite() {
        true => Err(Bad::Type),
        false => Ok(number),
    }
}

fn whole(json: &mut Jiter<'_>, peek: Peek) -> Result<i64, Bad> {
    parsed(written(json, peek, true)?)
}

fn number(json: &mut Jiter<'_>, peek: Peek) -> Result<f64, Bad> {
    parsed(written(json, peek, true)?)
}

fn parsed<T: std::str::FromStr>(text: &[u8]) -> Result<T, Bad> {
    let text = std::str::from_utf8(text).map_err(|_| Bad::Text)?;
    text.parse().map_err(|_| Bad::Type)
}
