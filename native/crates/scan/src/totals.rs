//! What a query sums up of its rows: numbers of rows, sums, least and greatest values, by columns with
//! few values. Each task gives totals of its own part; who asked adds them up.

use super::error::{Kind, Result, SegmentError};
use super::notes;
use super::place::Places;
use super::read::TaskReader;
use super::task::Task;
use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{
    Array, ArrayRef, Int32Array, Int64Array, RecordBatch, TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pyrmq_arrow::Stats;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Groups that are kept; with more, what there is is given and counting begins anew.
const MAX_GROUPS: usize = 4096;
/// Bytes of records after which what there is is given: the caller can stop there.
const PAUSE_BYTES: u64 = 64 << 20;
/// Columns of a key, and totals.
const MAX_COLUMNS: usize = 64;
/// Texts of a column that are found without a hash; a topic's name often ends in a digit.
const LATELY: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Function {
    /// Rows, or those where a column is not null.
    Count,
    /// Of a column of 32 bits: a sum of the rows of one log has room in 64.
    Sum,
    Min,
    Max,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Total {
    pub function: Function,
    /// None: rows are counted.
    #[serde(default)]
    pub column: Option<String>,
}

/// What is asked for; its JSON goes with a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Columns of text or of 32 bits; none: all rows are one group.
    pub by: Vec<String>,
    pub of: Vec<Total>,
}

/// Reads a task and gives its totals: rows of `by`, then of `of`. A group may come more than once.
pub struct TotalsReader {
    reader: TaskReader,
    groups: Groups,
    schema: SchemaRef,
    /// Bytes of records that were read before the last batch.
    given_at: u64,
    given: bool,
    done: bool,
}

impl TotalsReader {
    /// SegmentOptionError for a column that cannot be a key, or has no such total.
    pub fn open(mut task: Task, totals: &Totals, places: &dyn Places) -> Result<Self> {
        if totals.by.len() > MAX_COLUMNS || totals.of.len() > MAX_COLUMNS {
            return Err(wrong(format!("totals have at most {MAX_COLUMNS} columns")));
        }
        let mut names: Vec<String> = Vec::new();
        let of = totals.of.iter().filter_map(|total| total.column.as_ref());
        for name in totals.by.iter().chain(of) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        if names.is_empty() {
            names.push("flag".to_owned());
        }
        task.how.columns = names;
        let reader = TaskReader::open(task, places)?;
        let (groups, schema) = Groups::new(totals, &reader.schema())?;
        Ok(TotalsReader {
            reader,
            groups,
            schema,
            given_at: 0,
            given: false,
            done: false,
        })
    }

    /// The next totals; None behind the last ones. Errors are those of `TaskReader::next`.
    #[allow(clippy::should_implement_trait)] // an iterator would go on behind an error
    pub fn next(&mut self) -> Result<Option<RecordBatch>> {
        while !self.done {
            match self.reader.next() {
                Ok(Some(batch)) => self.groups.add(&batch),
                Ok(None) => self.done = true,
                Err(error) => {
                    self.done = true;
                    self.given = true;
                    self.groups.clear();
                    return Err(error);
                }
            }
            let read = self.reader.stats().record_bytes;
            if self.groups.len() >= MAX_GROUPS || read - self.given_at >= PAUSE_BYTES {
                self.given_at = read;
                break;
            }
        }
        if self.done && !self.given && self.groups.of_all() {
            self.groups.one();
        }
        if self.groups.len() == 0 {
            return Ok(None);
        }
        self.given = true;
        Ok(Some(self.groups.take(&self.schema)))
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// What was read so far: `rows` are those that were summed up.
    pub fn stats(&self) -> Stats {
        self.reader.stats()
    }

    pub fn notes(&self) -> Vec<(notes::Level, String)> {
        self.reader.notes()
    }
}

/// What is known of a group for one total.
#[derive(Clone, Copy)]
struct Cell {
    value: i64,
    /// A value was there; a count needs none.
    any: bool,
}

struct Groups {
    /// Places of the key's columns in a batch.
    by: Vec<usize>,
    of: Vec<(Function, Option<usize>, DataType)>,
    /// Of each column of the key.
    levels: Vec<Level>,
    /// The keys in order, as `encode` wrote them.
    keys: Vec<Box<[u8]>>,
    /// Of each total, the cells of the groups.
    cells: Vec<Vec<Cell>>,
    /// Of each row of a batch.
    ids: Vec<u32>,
}

/// A column of the key.
struct Level {
    /// The number of a value behind the number of those before it.
    found: FxHashMap<(u32, u64), u32>,
    texts: FxHashMap<Box<[u8]>, u32>,
    /// The texts by their numbers, the first of which is 1.
    names: Vec<Box<[u8]>>,
    /// Numbers of texts that were met lately, by their last bytes.
    lately: [u32; LATELY],
}

impl Default for Level {
    fn default() -> Self {
        Level {
            found: FxHashMap::default(),
            texts: FxHashMap::default(),
            names: vec![Box::default()],
            lately: [0; LATELY],
        }
    }
}

impl Level {
    /// The number of a text.
    #[inline]
    fn text(&mut self, text: &[u8]) -> u32 {
        let ending = text.last().map_or(0, |&last| last as usize) % LATELY;
        let number = self.lately[ending];
        if number > 0 && *self.names[number as usize] == *text {
            return number;
        }
        let number = self.find(text);
        self.lately[ending] = number;
        number
    }

    fn find(&mut self, text: &[u8]) -> u32 {
        if let Some(number) = self.texts.get(text) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.texts.insert(text.into(), number);
        self.names.push(text.into());
        number
    }
}

impl Groups {
    fn new(totals: &Totals, read: &SchemaRef) -> Result<(Groups, SchemaRef)> {
        let place = |name: &String| {
            let found = read.index_of(name);
            found.map_err(|_| wrong(format!("there is no column {name}")))
        };
        let mut fields = Vec::new();
        let mut by = Vec::new();
        for name in &totals.by {
            let at = place(name)?;
            let data = read.field(at).data_type();
            if !matches!(data, DataType::Utf8 | DataType::Int32) {
                return Err(wrong(format!("totals by {name} are not kept")));
            }
            by.push(at);
            fields.push(Field::new(name, data.clone(), true));
        }
        let mut of = Vec::new();
        for (number, total) in totals.of.iter().enumerate() {
            let at = total.column.as_ref().map(place).transpose()?;
            let data = match (total.function, at.map(|at| read.field(at).data_type())) {
                (Function::Count, _) | (Function::Sum, Some(DataType::Int32)) => DataType::Int64,
                (
                    Function::Min | Function::Max,
                    Some(data @ (DataType::Int32 | DataType::Int64 | DataType::Timestamp(..))),
                ) => data.clone(),
                _ => {
                    let name = total.column.as_deref().unwrap_or("all columns");
                    return Err(wrong(format!("there is no {:?} of {name}", total.function)));
                }
            };
            fields.push(Field::new(format!("total{number}"), data.clone(), true));
            of.push((total.function, at, data));
        }
        let groups = Groups {
            levels: by.iter().map(|_| Level::default()).collect(),
            by,
            cells: vec![Vec::new(); of.len()],
            of,
            keys: Vec::new(),
            ids: Vec::new(),
        };
        Ok((groups, Arc::new(Schema::new(fields))))
    }

    fn len(&self) -> usize {
        self.keys.len()
    }

    fn of_all(&self) -> bool {
        self.by.is_empty()
    }

    /// The only group there is without keys, with no row yet.
    fn one(&mut self) {
        if self.keys.is_empty() {
            self.group(Box::default());
        }
    }

    fn clear(&mut self) {
        self.levels.fill_with(Level::default);
        self.keys.clear();
        for cells in &mut self.cells {
            cells.clear();
        }
    }

    fn add(&mut self, batch: &RecordBatch) {
        self.identify(batch);
        for number in 0..self.of.len() {
            let (function, at, _) = &self.of[number];
            let (cells, ids) = (&mut self.cells[number], &self.ids);
            match (function, at.map(|at| batch.column(at))) {
                (Function::Count, column) => {
                    let nulls = column.and_then(|c| c.logical_nulls());
                    for (row, id) in ids.iter().enumerate() {
                        let there = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                        cells[*id as usize].value += i64::from(there);
                    }
                }
                (function, Some(column)) => match column.data_type() {
                    DataType::Int32 => {
                        let values = column.as_primitive::<Int32Type>();
                        fold(*function, cells, ids, &**column, |row| {
                            i64::from(values.value(row))
                        });
                    }
                    DataType::Int64 => {
                        let values = column.as_primitive::<Int64Type>();
                        fold(*function, cells, ids, &**column, |row| values.value(row));
                    }
                    _ => {
                        let values = column.as_primitive::<TimestampMicrosecondType>();
                        fold(*function, cells, ids, &**column, |row| values.value(row));
                    }
                },
                (_, None) => {}
            }
        }
    }

    /// Finds the group of each row, a column of the key after the other.
    fn identify(&mut self, batch: &RecordBatch) {
        let mut ids = std::mem::take(&mut self.ids);
        let mut levels = std::mem::take(&mut self.levels);
        ids.clear();
        ids.resize(batch.num_rows(), 0);
        if self.of_all() {
            self.one();
        }
        let columns: Vec<Part<'_>> = self
            .by
            .iter()
            .map(|at| Part::of(batch.column(*at)))
            .collect();
        for (depth, level) in levels.iter_mut().enumerate() {
            let last = depth + 1 == columns.len();
            for (row, id) in ids.iter_mut().enumerate() {
                let pair = (*id, columns[depth].number(row, level));
                *id = match level.found.get(&pair) {
                    Some(known) => *known,
                    None => {
                        let new = level.found.len() as u32;
                        level.found.insert(pair, new);
                        if last {
                            let mut key = Vec::new();
                            columns
                                .iter()
                                .for_each(|column| column.encode(row, &mut key));
                            self.group(key.into());
                        }
                        new
                    }
                };
            }
        }
        (self.ids, self.levels) = (ids, levels);
    }

    /// A new group: its number is that of its key.
    fn group(&mut self, key: Box<[u8]>) {
        self.keys.push(key);
        for (cells, (function, ..)) in self.cells.iter_mut().zip(&self.of) {
            cells.push(Cell {
                value: match function {
                    Function::Min => i64::MAX,
                    Function::Max => i64::MIN,
                    Function::Count | Function::Sum => 0,
                },
                any: *function == Function::Count,
            });
        }
    }

    /// The groups as rows; they begin anew.
    fn take(&mut self, schema: &SchemaRef) -> RecordBatch {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
        let mut rest: Vec<&[u8]> = self.keys.iter().map(|key| &**key).collect();
        for field in &schema.fields()[..self.by.len()] {
            columns.push(match field.data_type() {
                DataType::Int32 => Arc::new(rest.iter_mut().map(integer).collect::<Int32Array>()),
                _ => {
                    let mut texts = StringBuilder::new();
                    for key in &mut rest {
                        texts.append_option(text(key));
                    }
                    Arc::new(texts.finish())
                }
            });
        }
        for (cells, (.., data)) in self.cells.iter().zip(&self.of) {
            let values = cells.iter().map(|cell| cell.any.then_some(cell.value));
            columns.push(match data {
                DataType::Int32 => {
                    Arc::new(values.map(|v| v.map(|v| v as i32)).collect::<Int32Array>())
                }
                DataType::Timestamp(_, zone) => Arc::new(
                    values
                        .collect::<TimestampMicrosecondArray>()
                        .with_timezone_opt(zone.clone()),
                ),
                _ => Arc::new(values.collect::<Int64Array>()),
            });
        }
        self.clear();
        RecordBatch::try_new(schema.clone(), columns).expect("columns are as the schema says")
    }
}

fn fold(
    function: Function,
    cells: &mut [Cell],
    ids: &[u32],
    column: &dyn Array,
    value: impl Fn(usize) -> i64,
) {
    for (row, id) in ids.iter().enumerate() {
        if column.is_null(row) {
            continue;
        }
        let (cell, value) = (&mut cells[*id as usize], value(row));
        cell.any = true;
        cell.value = match function {
            Function::Min => cell.value.min(value),
            Function::Max => cell.value.max(value),
            Function::Count | Function::Sum => cell.value + value,
        };
    }
}

/// A column of a key. A null is one byte 0; a value is 1, for text its length, and its bytes.
enum Part<'a> {
    Text(&'a arrow_array::StringArray),
    Integer(&'a Int32Array),
}

impl<'a> Part<'a> {
    fn of(column: &'a ArrayRef) -> Self {
        match column.data_type() {
            DataType::Int32 => Part::Integer(column.as_primitive::<Int32Type>()),
            _ => Part::Text(column.as_string::<i32>()),
        }
    }

    /// A number that no other value of the column has; 0 is null.
    #[inline]
    fn number(&self, row: usize, level: &mut Level) -> u64 {
        match self {
            Part::Text(values) if values.is_valid(row) => {
                u64::from(level.text(values.value(row).as_bytes()))
            }
            Part::Integer(values) if values.is_valid(row) => {
                1 << 32 | u64::from(values.value(row) as u32)
            }
            _ => 0,
        }
    }

    fn encode(&self, row: usize, key: &mut Vec<u8>) {
        match self {
            Part::Text(values) if values.is_valid(row) => {
                let value = values.value(row).as_bytes();
                key.push(1);
                key.extend_from_slice(&(value.len() as u32).to_le_bytes());
                key.extend_from_slice(value);
            }
            Part::Integer(values) if values.is_valid(row) => {
                key.push(1);
                key.extend_from_slice(&values.value(row).to_le_bytes());
            }
            _ => key.push(0),
        }
    }
}

/// Takes an integer off the front of a key.
fn integer(key: &mut &[u8]) -> Option<i32> {
    let (there, rest) = key.split_first().expect("a key has all its columns");
    *key = rest;
    (*there == 1).then(|| {
        let (value, rest) = key.split_first_chunk().expect("an integer has four bytes");
        *key = rest;
        i32::from_le_bytes(*value)
    })
}

/// Takes a text off the front of a key.
fn text<'a>(key: &mut &'a [u8]) -> Option<&'a str> {
    let (there, rest) = key.split_first().expect("a key has all its columns");
    *key = rest;
    (*there == 1).then(|| {
        let (length, rest) = key.split_first_chunk().expect("a text has a length");
        let (value, rest) = rest.split_at(u32::from_le_bytes(*length) as usize);
        *key = rest;
        std::str::from_utf8(value).expect("it was text")
    })
}

fn wrong(text: String) -> SegmentError {
    SegmentError::new(Kind::Option, text)
}

#[cfg(test)]
#[path = "totals_tests.rs"]
mod tests;
