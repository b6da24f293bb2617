//! A log that is read as it grows, for real-time mode.

use super::failure::{Failure, Result};
use arrow_array::RecordBatch;
use pyrmq_arrow::Stats;
use pyrmq_scan::{Level, LocalPlaces, Notes, Resume, Tail, TailBatch, TailTask};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait of one call: Java asks again, so that a killed task ends.
const LONGEST: Duration = Duration::from_secs(10);

pub struct Tailing {
    tail: Tail,
    notes: Arc<Notes>,
    /// What was given last; None: nothing came.
    batch: Option<TailBatch>,
}

impl Tailing {
    pub fn open(task: TailTask) -> Result<Self> {
        let notes = Arc::new(Notes::default());
        Ok(Tailing {
            tail: Tail::open(task, &LocalPlaces, notes.clone())?,
            notes,
            batch: None,
        })
    }

    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<RecordBatch>> {
        self.batch = None;
        self.batch = self.tail.next(timeout.min(LONGEST))?;
        Ok(self.batch.as_ref().map(|found| found.batch.clone()))
    }

    /// Where to go on if only the rows before `row` of the last batch were taken.
    pub fn resume(&self, row: usize) -> Result<Resume> {
        match &self.batch {
            Some(batch) => Ok(self.tail.resume(batch, row)?),
            None if row == 0 => Ok(Resume {
                broker: self.tail.broker().to_owned(),
                log: self.tail.position(),
                ..Resume::default()
            }),
            None => Err(Failure::misuse(format!("row {row} of no batch"))),
        }
    }

    pub fn stats(&self) -> Stats {
        self.tail.stats()
    }

    /// Since the last call.
    pub fn notes(&self) -> Vec<(Level, String)> {
        self.notes.take()
    }
}
