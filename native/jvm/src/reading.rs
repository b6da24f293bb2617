//! A task that is read, and the batch of it that Java has.

use super::answers;
use super::failure::{Failure, Result};
use super::handles::Handles;
use super::layout::Layout;
use arrow_array::RecordBatch;
use pyrmq_scan::read::TaskReader;
use pyrmq_scan::{
    Bounds, Kind, LocalPlaces, Notes, ReadOptions, Resume, Tail, TailBatch, TailTask, Task, Totals,
    TotalsReader,
};
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// Those that are open in this process.
pub static TASKS: LazyLock<Handles<Reading>> = LazyLock::new(|| Handles::new("task"));

/// Longest wait of one call: a thread of Java that is in one cannot be interrupted.
const LONGEST: Duration = Duration::from_secs(10);

enum From {
    Task(Box<TaskReader>),
    Totals(Box<TotalsReader>),
    Tail {
        tail: Box<Tail>,
        notes: Arc<Notes>,
        /// What `next_within` gave last.
        last: Option<Box<TailBatch>>,
    },
}

pub struct Reading {
    from: From,
    batch: Option<Layout>,
    /// A panic went through it: what it would give is not known.
    broken: bool,
}

impl Reading {
    /// A task of `plan` or `stream.splits`, which may have `totals` that are asked of it besides, or
    /// `{"tail": …}` for the end of a log that grows.
    pub fn open(task: &[u8]) -> Result<Self> {
        let mut task: Value = serde_json::from_slice(task).map_err(wrong)?;
        let from = if let Some(tail) = task.get_mut("tail").map(Value::take) {
            let tail: TailTask = serde_json::from_value(tail).map_err(wrong)?;
            check(&tail.how)?;
            let notes = Arc::new(Notes::default());
            From::Tail {
                tail: Box::new(Tail::open(tail, &LocalPlaces, notes.clone())?),
                notes,
                last: None,
            }
        } else {
            let totals = task.as_object_mut().and_then(|all| all.remove("totals"));
            let task: Task = serde_json::from_value(task).map_err(wrong)?;
            check(&task.how)?;
            match totals {
                None => From::Task(Box::new(TaskReader::open(task, &LocalPlaces)?)),
                Some(totals) => {
                    let totals: Totals = serde_json::from_value(totals).map_err(wrong)?;
                    From::Totals(Box::new(TotalsReader::open(task, &totals, &LocalPlaces)?))
                }
            }
        };
        Ok(Reading {
            from,
            batch: None,
            broken: false,
        })
    }

    /// Frees the batch before, and gives where the next one is; None at the end.
    pub fn next(&mut self) -> Result<Option<Vec<i64>>> {
        self.give(|from| match from {
            From::Task(reader) => Ok(reader.next()?),
            From::Totals(reader) => Ok(reader.next()?),
            From::Tail { .. } => Err(Failure::misuse("the end of a log has no last batch")),
        })
    }

    /// The same of a log that grows: what is there, or comes within the time; None if nothing does.
    pub fn next_within(&mut self, time: Duration) -> Result<Option<Vec<i64>>> {
        self.give(|from| match from {
            From::Tail { tail, last, .. } => {
                *last = None;
                *last = tail.next(time.min(LONGEST))?.map(Box::new);
                Ok(last.as_ref().map(|found| found.batch.clone()))
            }
            From::Task(_) | From::Totals(_) => {
                Err(Failure::misuse("a task of a batch waits for nothing"))
            }
        })
    }

    fn give(
        &mut self,
        read: impl FnOnce(&mut From) -> Result<Option<RecordBatch>>,
    ) -> Result<Option<Vec<i64>>> {
        self.batch = None;
        if self.broken {
            return Err(Failure::misuse("the task broke off before"));
        }
        self.broken = true;
        let found = read(&mut self.from);
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

    /// Where to go on behind the first `row` rows of what `next_within` gave last.
    pub fn resume(&self, row: usize) -> Result<Resume> {
        match &self.from {
            From::Tail {
                tail,
                last: Some(last),
                ..
            } => Ok(tail.resume(last, row)?),
            From::Tail { tail, .. } => Ok(Resume {
                broker: tail.broker().to_owned(),
                log: tail.position(),
                starts: Bounds::new(),
            }),
            From::Task(_) | From::Totals(_) => {
                Err(Failure::misuse("a task of a batch is read as a whole"))
            }
        }
    }

    pub fn stats(&self) -> Value {
        let (stats, notes) = match &self.from {
            From::Task(reader) => (reader.stats(), reader.notes()),
            From::Totals(reader) => (reader.stats(), reader.notes()),
            From::Tail { tail, notes, .. } => (tail.stats(), notes.take()),
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

fn wrong(error: serde_json::Error) -> Failure {
    Failure::misuse(format!("a task that cannot be read: {error}"))
}

/// A mapped file that somebody cuts short would end the JVM with a signal.
fn check(how: &ReadOptions) -> Result<()> {
    match how.views {
        false => Ok(()),
        true => Err(Failure::new(
            Kind::Option,
            "a JVM gets no views of bodies in mapped files",
            "leave out views",
        )),
    }
}
