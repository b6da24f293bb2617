//! A task that is read, and the batch of it that Java has.

use super::answers;
use super::failure::{Failure, Result};
use super::handles::Handles;
use super::layout::Layout;
use pyrmq_scan::read::TaskReader;
use pyrmq_scan::{Kind, LocalPlaces, Task};
use serde_json::{Value, json};
use std::sync::LazyLock;

/// Those that are open in this process.
pub static TASKS: LazyLock<Handles<Reading>> = LazyLock::new(|| Handles::new("task"));

pub struct Reading {
    reader: TaskReader,
    batch: Option<Layout>,
    /// A panic went through it: what it would give is not known.
    broken: bool,
}

impl Reading {
    pub fn open(task: &[u8]) -> Result<Self> {
        let task: Task = serde_json::from_slice(task)
            .map_err(|error| Failure::misuse(format!("a task that cannot be read: {error}")))?;
        if task.how.views {
            // A mapped file that somebody cuts short would end the JVM with a signal.
            return Err(Failure::new(
                Kind::Option,
                "bodies are not viewed in mapped files by a JVM",
                "leave out views",
            ));
        }
        Ok(Reading {
            reader: TaskReader::open(task, &LocalPlaces)?,
            batch: None,
            broken: false,
        })
    }

    /// Frees the batch before, and gives where the next one is; None at the end.
    pub fn next(&mut self) -> Result<Option<Vec<i64>>> {
        self.batch = None;
        if self.broken {
            return Err(Failure::misuse("the task broke off before"));
        }
        self.broken = true;
        let found = self.reader.next();
        self.broken = false;
        self.batch = match found? {
            Some(batch) => Some(Layout::of(&batch)?),
            None => None,
        };
        Ok(self.batch.as_ref().map(|batch| batch.numbers.clone()))
    }

    pub fn release(&mut self) {
        self.batch = None;
    }

    pub fn stats(&self) -> Value {
        let stats = self.reader.stats();
        json!({
            "records": stats.records,
            "recordBytes": stats.record_bytes,
            "rows": stats.rows,
            "damagedParts": stats.damaged_parts,
            "skippedBytes": stats.skipped_bytes,
            "notes": answers::notes(self.reader.notes()),
        })
    }
}
