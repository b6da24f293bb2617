//! The column `body` in another form than bytes: as text, or as the columns of JSON.
//!
//! JSON is read as Spark's `from_json` reads it: a column that is missing or does not fit is null, a
//! body that is no JSON object has only nulls, and an empty one is null. Times without a zone are UTC.

mod columns;
mod json;
mod values;

use super::error::{Kind, Part, Result, SegmentError};
use super::read_options::ReadOptions;
use super::repr;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use columns::Column;
use json::Json;
use serde_json::Value;
use std::sync::Arc;

/// Turns the column `body` of batches into its form.
pub struct Bodies {
    /// Of the column.
    index: usize,
    schema: SchemaRef,
    form: Form,
}

enum Form {
    Text,
    Json(Column),
}

impl Bodies {
    /// None: bodies are not asked for, or stay bytes. `schema` is that with bytes. SegmentOptionError
    /// for a form that there is not.
    pub fn new(how: &ReadOptions, schema: &SchemaRef) -> Result<Option<Bodies>> {
        let Some(form) = form_of(how)? else {
            return Ok(None);
        };
        if how.views {
            return Err(wrong(" in another form than bytes cannot be views")
                .hint(["leave out ".into(), Part::Name("views")]));
        }
        let Ok(index) = schema.index_of("body") else {
            return Ok(None);
        };
        let kind = match &form {
            Form::Text => DataType::Utf8,
            Form::Json(column) => column.data_type(),
        };
        let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
        fields[index] = Arc::new(Field::new("body", kind, true));
        Ok(Some(Bodies {
            index,
            schema: Arc::new(Schema::new(fields)),
            form,
        }))
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    pub fn convert(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let (_, mut columns, _) = batch.into_parts();
        let bodies = columns[self.index].as_binary::<i32>();
        let converted = match &mut self.form {
            Form::Text => texts(bodies),
            Form::Json(column) => objects(column, bodies),
        };
        columns[self.index] = converted.map_err(failed)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(failed)
    }
}

fn wrong(what: impl Into<String>) -> SegmentError {
    let text = [Part::Name("body"), Part::Text(what.into())];
    SegmentError::new(Kind::Option, text)
}

fn failed(error: ArrowError) -> SegmentError {
    SegmentError::new(
        Kind::Segment,
        format!("the bodies of a batch have no place in a column: {error}"),
    )
    .hint(["set a lower ".into(), Part::Name("batch_bytes")])
}

/// None: bytes.
fn form_of(how: &ReadOptions) -> Result<Option<Form>> {
    match &how.body {
        None => Ok(None),
        Some(Value::String(word)) if word == "binary" => Ok(None),
        Some(Value::String(word)) if word == "utf8" => Ok(Some(Form::Text)),
        Some(Value::Object(form)) if form.len() == 1 && form.contains_key("json") => {
            let schema = &form["json"];
            if schema["type"] != "struct" {
                return Err(wrong(": the schema of JSON is no struct"));
            }
            let column = Column::of(schema)
                .map_err(|why| wrong(format!(": the schema of JSON cannot be read: {why}")))?;
            Ok(Some(Form::Json(column)))
        }
        Some(other) => Err(wrong(format!(": {}", repr::shown(other)))
            .hint("expected binary, utf8, or json with a schema")),
    }
}

/// SegmentOptionError for a form that there is not.
pub fn check(how: &ReadOptions) -> Result<()> {
    form_of(how).map(drop)
}

/// What is no UTF-8 gets replacement characters.
fn texts(bodies: &BinaryArray) -> std::result::Result<ArrayRef, ArrowError> {
    let (offsets, values, nulls) = bodies.clone().into_parts();
    if let Ok(texts) = StringArray::try_new(offsets, values, nulls) {
        return Ok(Arc::new(texts));
    }
    let mut offsets = vec![0i32];
    let mut out = Vec::with_capacity(bodies.value_data().len());
    for row in 0..bodies.len() {
        out.extend_from_slice(String::from_utf8_lossy(bodies.value(row)).as_bytes());
        let end = i32::try_from(out.len());
        offsets.push(end.map_err(|_| ArrowError::OffsetOverflowError(out.len()))?);
    }
    let offsets = arrow_buffer::OffsetBuffer::new(offsets.into());
    let nulls = bodies.nulls().cloned();
    Ok(Arc::new(StringArray::try_new(offsets, out.into(), nulls)?))
}

fn objects(column: &mut Column, bodies: &BinaryArray) -> std::result::Result<ArrayRef, ArrowError> {
    for row in 0..bodies.len() {
        let text = String::from_utf8_lossy(bodies.value(row));
        let mut json = Json::new(&text);
        let before = column.len();
        if json.is_at_end() {
            column.push_null();
            continue;
        }
        let is_object = json.kind() == Ok(json::Kind::Object);
        if !is_object || column.read(&mut json).is_err() {
            column.truncate(before);
            column.push_empty();
        }
    }
    column.take()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
