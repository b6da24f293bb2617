//! What a query sums up of its rows: numbers of rows, sums, least and greatest values, by columns with
//! few values. Each task gives totals of its own part; who asked adds them up.

use super::error::{Kind, Result, SegmentError};
use super::notes;
use super::place::Places;
use super::read::TaskReader;
use super::task::Task;
use arrow_array::builder::{Int32Builder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{
    Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pyrmq_arrow::{Names, Stats};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Groups that are kept; with more, what there is is given and counting begins anew.
const MAX_GROUPS: usize = 4096;
/// Bytes of records after which what there is is given: the caller can stop there.
const PAUSE_BYTES: u64 = 64 << 20;
/// Columns of a key, and totals.
const MAX_COLUMNS: usize = 64;

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
                    self.groups.take(&self.schema);
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

/// A column of the key.
struct Level {
    /// The number of a value behind the number of those before it.
    found: FxHashMap<(u32, u64), u32>,
    texts: Names,
    /// The value of each group.
    values: Values,
}

enum Values {
    Text(StringBuilder),
    Integer(Int32Builder),
}

impl Level {
    fn of(data: &DataType) -> Self {
        Level {
            found: FxHashMap::default(),
            texts: Names::default(),
            values: match data {
                DataType::Int32 => Values::Integer(Int32Builder::new()),
                _ => Values::Text(StringBuilder::new()),
            },
        }
    }

    /// A number that no other value of the column has; 0 is null.
    #[inline]
    fn number(&mut self, column: &Part<'_>, row: usize) -> u64 {
        match column {
            Part::Text(values) if values.is_valid(row) => {
                let text = values.value(row).as_bytes();
                let number = match self.texts.find(text) {
                    Some(number) => number,
                    None => self.texts.add(text),
                };
                u64::from(number) + 1
            }
            Part::Integer(values) if values.is_valid(row) => {
                1 << 32 | u64::from(values.value(row) as u32)
            }
            _ => 0,
        }
    }

    /// Keeps the value of a new group.
    fn keep(&mut self, column: &Part<'_>, row: usize) {
        match (&mut self.values, column) {
            (Values::Text(to), Part::Text(of)) => {
                to.append_option(of.is_valid(row).then(|| of.value(row)));
            }
            (Values::Integer(to), Part::Integer(of)) => {
                to.append_option(of.is_valid(row).then(|| of.value(row)));
            }
            _ => unreachable!("a column keeps its type"),
        }
    }

    /// The values of all groups; it begins anew.
    fn take(&mut self) -> ArrayRef {
        self.found.clear();
        self.texts = Names::default();
        match &mut self.values {
            Values::Text(values) => Arc::new(values.finish()),
            Values::Integer(values) => Arc::new(values.finish()),
        }
    }
}

struct Groups {
    /// Places of the key's columns in a batch.
    by: Vec<usize>,
    of: Vec<(Function, Option<usize>, DataType)>,
    /// Of each column of the key.
    levels: Vec<Level>,
    count: usize,
    /// Of each total, the cells of the groups.
    cells: Vec<Vec<Cell>>,
    /// Of each row of a batch.
    ids: Vec<u32>,
}

impl Groups {
    fn new(totals: &Totals, read: &SchemaRef) -> Result<(Groups, SchemaRef)> {
        let place = |name: &String| {
            let found = read.index_of(name);
            found.map_err(|_| wrong(format!("there is no column {name}")))
        };
        let mut fields = Vec::new();
        let (mut by, mut levels) = (Vec::new(), Vec::new());
        for name in &totals.by {
            let at = place(name)?;
            let data = read.field(at).data_type();
            if !matches!(data, DataType::Utf8 | DataType::Int32) {
                return Err(wrong(format!("totals by {name} are not kept")));
            }
            by.push(at);
            levels.push(Level::of(data));
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
            levels,
            by,
            cells: vec![Vec::new(); of.len()],
            of,
            count: 0,
            ids: Vec::new(),
        };
        Ok((groups, Arc::new(Schema::new(fields))))
    }

    fn len(&self) -> usize {
        self.count
    }

    fn of_all(&self) -> bool {
        self.by.is_empty()
    }

    /// The only group there is without keys, with no row yet.
    fn one(&mut self) {
        if self.count == 0 {
            self.group();
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
        let mut new = Vec::new();
        for (depth, (level, column)) in levels.iter_mut().zip(&columns).enumerate() {
            let last = depth + 1 == columns.len();
            for (row, id) in ids.iter_mut().enumerate() {
                let pair = (*id, level.number(column, row));
                let next = level.found.len() as u32;
                *id = *level.found.entry(pair).or_insert(next);
                if last && *id == next {
                    new.push(row);
                }
            }
        }
        for row in new {
            for (level, column) in levels.iter_mut().zip(&columns) {
                level.keep(column, row);
            }
            self.group();
        }
        (self.ids, self.levels) = (ids, levels);
    }

    /// A new group: its number is the count before.
    fn group(&mut self) {
        self.count += 1;
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
        let mut columns: Vec<ArrayRef> = self.levels.iter_mut().map(Level::take).collect();
        for (cells, (.., data)) in self.cells.iter_mut().zip(&self.of) {
            let values = cells.drain(..).map(|cell| cell.any.then_some(cell.value));
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
        self.count = 0;
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

/// A column of a key, of one batch.
enum Part<'a> {
    Text(&'a StringArray),
    Integer(&'a Int32Array),
}

impl<'a> Part<'a> {
    fn of(column: &'a ArrayRef) -> Self {
        match column.data_type() {
            DataType::Int32 => Part::Integer(column.as_primitive::<Int32Type>()),
            _ => Part::Text(column.as_string::<i32>()),
        }
    }
}

fn wrong(text: String) -> SegmentError {
    SegmentError::new(Kind::Option, text)
}

#[cfg(test)]
#[path = "totals_tests.rs"]
mod tests;
