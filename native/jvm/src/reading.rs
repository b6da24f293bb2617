//! A task that is read, and the batch of it that Java has. A tail waits for more.

use super::answers;
use super::failure::{Failure, Result};
use super::handles::Handles;
use super::layout::Layout;
use super::tailing::Tailing;
use arrow_array::RecordBatch;
use pyrmq_scan::read::TaskReader;
use pyrmq_scan::{Kind, LocalPlaces, ReadOptions, Resume, TailTask, Task};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::LazyLock;
use std::time::Duration;

/// Those that are open in this process.
pub static TASKS: LazyLock<Handles<Reading>> = LazyLock::new(|| Handles::new("task"));

pub struct Reading {
    source: Source,
    batch: Option<Layout>,
    /// A panic went through it: what it would give is not known.
    broken: bool,
}

enum Source {
    Task(TaskReader),
    Tail(Box<Tailing>),
}

/// A task of `stream.tails`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfTail {
    tail: TailTask,
}

/// How one begins. (An untagged enum would not read numbers that are keys.)
const TAIL: &[u8] = b"{\"tail\":";

impl Reading {
    pub fn open(task: &[u8]) -> Result<Self> {
        let source = if task.starts_with(TAIL) {
            let OfTail { tail } = parsed(task)?;
            without_views(&tail.how)?;
            Source::Tail(Box::new(Tailing::open(tail)?))
        } else {
            let task: Task = parsed(task)?;
            without_views(&task.how)?;
            Source::Task(TaskReader::open(task, &LocalPlaces)?)
        };
        Ok(Reading {
            source,
            batch: None,
            broken: false,
        })
    }

    /// Frees the batch before, and gives where the next one is; None at the end.
    pub fn next(&mut self) -> Result<Option<Vec<i64>>> {
        self.taken(|source| match source {
            Source::Task(reader) => Ok(reader.next()?),
            Source::Tail(_) => Err(Failure::misuse("a tail has no end: it waits for its next")),
        })
    }

    /// The same of a tail: what is there, or comes within the time.
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<Vec<i64>>> {
        self.taken(|source| source.tail()?.next_within(timeout))
    }

    fn taken(
        &mut self,
        next: impl FnOnce(&mut Source) -> Result<Option<RecordBatch>>,
    ) -> Result<Option<Vec<i64>>> {
        self.batch = None;
        if self.broken {
            return Err(Failure::misuse("the task broke off before"));
        }
        self.broken = true;
        let found = next(&mut self.source);
        self.broken = false;
        self.batch = match found? {
            Some(batch) => Some(Layout::of(&batch)?),
            None => None,
        };
        Ok(self.batch.as_ref().map(|batch| batch.numbers.clone()))
    }

    /// Of a tail: where to go on if only the rows before `row` of the last batch were taken.
    pub fn resume(&mut self, row: usize) -> Result<Resume> {
        self.source.tail()?.resume(row)
    }

    pub fn release(&mut self) {
        self.batch = None;
    }

    pub fn stats(&self) -> Value {
        let (stats, notes) = match &self.source {
            Source::Task(reader) => (reader.stats(), reader.notes()),
            Source::Tail(tail) => (tail.stats(), tail.notes()),
        };
        json!({
            "records": stats.records,
            "recordBytes": stats.record_bytes,
            "rows": stats.rows,
            "damagedParts": stats.damaged_parts,
            "skippedBytes": stats.skipped_bytes,
            "notes": answers::notes(notes),
        })
    }
}

impl Source {
    fn tail(&mut self) -> Result<&mut Tailing> {
        match self {
            Source::Tail(tail) => Ok(tail),
            Source::Task(_) => Err(Failure::misuse("a task that has an end waits for nothing")),
        }
    }
}

fn parsed<T: DeserializeOwned>(task: &[u8]) -> Result<T> {
    serde_json::from_slice(task)
        .map_err(|error| Failure::misuse(format!("a task that cannot be read: {error}")))
}

fn without_views(how: &ReadOptions) -> Result<()> {
    match how.views {
        false => Ok(()),
        // A mapped file that somebody cuts short would end the JVM with a signal.
        true => Err(Failure::new(
            Kind::Option,
            "bodies are not viewed in mapped files by a JVM",
            "leave out views",
        )),
    }
}
