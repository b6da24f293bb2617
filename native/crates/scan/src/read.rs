//! One task, read batch by batch.

use super::checks::option;
use super::entries::{positions, read_log_hint};
use super::error::{Kind, Part, Result, SegmentError};
use super::log_ranges::{file_ranges, report_loss};
use super::notes::{Level, Notes};
use super::place::{Local, Place, Places, Shape};
use super::read_options::ReadOptions;
use super::store::{File, file_set};
use super::task::Task;
use super::unseen::check_seen;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use pyrmq_arrow::{Damage, FileSet, Reader, RecordSource, Stats};
use std::io::ErrorKind;
use std::sync::Arc;

/// Damaged parts that a note tells one by one.
const SHOWN: usize = 3;

/// Reads a task. Its batches are those of the task's columns, none empty, in log order.
pub struct TaskReader {
    task: Task,
    place: Arc<dyn Place>,
    schema: SchemaRef,
    /// What is read in one go, and its end: a file at a time where deleted ones are left out.
    parts: std::vec::IntoIter<(u64, u64)>,
    /// Records that entries or places name: looked for once, at the first part.
    positions: Option<Arc<[(u64, u32)]>>,
    reader: Option<Reader>,
    /// Of the parts before.
    stats: Stats,
    /// Rows that may still come; None: all.
    left: Option<u64>,
    notes: Notes,
}

impl TaskReader {
    /// Opens no file yet. SegmentOptionError for options that are wrong.
    pub fn open(task: Task, places: &dyn Places) -> Result<TaskReader> {
        let place: Arc<dyn Place> = match &task.place {
            Some(name) => places.named(name)?,
            None => Arc::new(Local),
        };
        TaskReader::at(task, place)
    }

    /// The same where the place is known.
    pub fn at(task: Task, place: Arc<dyn Place>) -> Result<TaskReader> {
        task.check()?;
        if task.how.views && !place.is_local() {
            return Err(option([
                Part::Name("views"),
                ": bodies can only be viewed in local files".into(),
            ]));
        }
        let parts = match task.fail_on_data_loss {
            true => vec![(task.start, task.end)],
            false => file_ranges(&task.files, task.start, task.end),
        };
        Ok(TaskReader {
            schema: schema(&task.how)?,
            place,
            parts: parts.into_iter(),
            positions: None,
            reader: None,
            stats: Stats::default(),
            left: task.rule.selection.filters.limit,
            notes: Notes::default(),
            task,
        })
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// What was read so far, in figures.
    pub fn stats(&self) -> Stats {
        let mut out = self.stats;
        if let Some(reader) = &self.reader {
            add(&mut out, reader.stats());
        }
        out
    }

    /// What a user should know, since the last call.
    pub fn notes(&self) -> Vec<(Level, String)> {
        self.notes.take()
    }

    /// The next batch; None behind the last one. After an error there is no more.
    ///
    /// SegmentDamagedError and errors of the system name the file; DataLossError if a file was deleted.
    /// SegmentPathError, whatever `fail_on_data_loss` says, if the log cannot be seen from here.
    #[allow(clippy::should_implement_trait)] // an iterator would go on behind an error
    pub fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            match self.step() {
                Ok(Step::Batch(batch)) => return Ok(Some(batch)),
                Ok(Step::Part) => {}
                Ok(Step::End) => return Ok(None),
                Err(error) => {
                    self.finish();
                    match self.passed_over(error) {
                        Ok(()) => {}
                        Err(error) => {
                            self.parts = Vec::new().into_iter();
                            return Err(error);
                        }
                    }
                }
            }
        }
    }

    fn step(&mut self) -> Result<Step> {
        if let Some(reader) = &mut self.reader {
            if let Some(batch) = reader.next_batch()? {
                return Ok(Step::Batch(batch));
            }
            note_damage(&self.task, reader.stats(), reader.damage(), &self.notes);
            self.finish();
        }
        if self.left == Some(0) {
            return Ok(Step::End);
        }
        let Some(part) = self.parts.next() else {
            return Ok(Step::End);
        };
        self.reader = Some(self.reader_of(part)?);
        Ok(Step::Part)
    }

    /// Ends the part that is read; its figures stay.
    fn finish(&mut self) {
        if let Some(reader) = self.reader.take() {
            let own = reader.stats();
            add(&mut self.stats, own);
            self.left = self.left.map(|left| left.saturating_sub(own.rows));
        }
    }

    fn reader_of(&mut self, (start, end): (u64, u64)) -> Result<Reader> {
        let task = &self.task;
        let source = if task.by_entries {
            let all = match &self.positions {
                Some(all) => all.clone(),
                None => self.positions.insert(positions(task)?.into()).clone(),
            };
            let from = all.partition_point(|row| row.0 < start);
            let to = all.partition_point(|row| row.0 < end);
            RecordSource::Places {
                file_set: self.file_set()?,
                places: all[from..to].to_vec(),
            }
        } else {
            let log_end = match task.fail_on_data_loss {
                true => task.log_end,
                false => end,
            };
            range(self.file_set()?, (start, end), log_end)
        };
        let mut selection = task.rule.wanted()?;
        if let Some(left) = self.left {
            let mut filters = task.rule.selection.filters.of_records();
            filters.limit = Some(left);
            selection = selection.filtered(filters);
        }
        let settings = task.how.settings(&task.broker)?;
        Ok(Reader::new(source, selection, settings)?)
    }

    fn file_set(&self) -> Result<FileSet> {
        file_set(&self.task.files, self.place.opener())
    }

    /// Returns if reading goes on behind the part that failed.
    fn passed_over(&self, error: SegmentError) -> Result<()> {
        let task = &self.task;
        match (error.kind, &error.source) {
            (Kind::Damaged, _) => Err(damaged(task, error)),
            (Kind::Io, Some(source)) if source.kind() == ErrorKind::NotFound => {
                let path = error.path.clone().unwrap_or_default();
                self.check_deleted(&path)?;
                let what = format!("{}: {path} was deleted before it was read", task.describe());
                report_loss(what, task.fail_on_data_loss, &self.notes)
            }
            (Kind::Io, _) => Err(error.hint(format!("while reading {}", task.describe()))),
            _ => Err(error),
        }
    }

    /// Returns if a segment was deleted. SegmentPathError if it cannot be seen from here, DataLossError
    /// if it is there and what leads to it was deleted.
    fn check_deleted(&self, path: &str) -> Result<()> {
        let task = &self.task;
        let mut gone: Option<&File> = task.files.iter().find(|file| file.2 == path);
        if gone.is_none() {
            for file in &task.files {
                if self.place.shape(&file.2)? != Shape::File {
                    gone = Some(file);
                    break;
                }
            }
        }
        let what = task.describe();
        match gone {
            Some(file) => {
                let span = task.span.unwrap_or((task.start, task.end));
                check_seen(&*self.place, file, span, &what)
            }
            None => Err(SegmentError::new(
                Kind::DataLoss,
                format!("{what}: {path} was deleted before it was read"),
            )
            .hint(read_log_hint())),
        }
    }
}

enum Step {
    Batch(RecordBatch),
    /// A part begins.
    Part,
    End,
}

fn add(sum: &mut Stats, more: Stats) {
    sum.records += more.records;
    sum.record_bytes += more.record_bytes;
    sum.rows += more.rows;
    sum.damaged_parts += more.damaged_parts;
    sum.skipped_bytes += more.skipped_bytes;
}

/// A part of a log; `start` is a record's start.
pub fn range(file_set: FileSet, range: (u64, u64), log_end: u64) -> RecordSource {
    RecordSource::Range {
        file_set,
        range,
        log_end,
        exact: true,
    }
}

/// The error for a damaged record. It can be skipped where the next one was found.
pub(crate) fn damaged(task: &Task, error: SegmentError) -> SegmentError {
    let mut text: Vec<Part> = vec![format!("{}: ", task.describe()).into()];
    text.extend(error.text);
    let mut out = SegmentError::new(Kind::Damaged, text);
    out.next_record = error.next_record;
    match error.next_record {
        None => out,
        Some(_) => out.hint([
            "restore the file; ".into(),
            Part::Value("on_corruption", "skip"),
            " leaves this out".into(),
        ]),
    }
}

/// Tells what was left out as damaged, in one line.
pub(crate) fn note_damage(task: &Task, stats: Stats, damage: &[Damage], notes: &Notes) {
    if stats.damaged_parts == 0 {
        return;
    }
    let part = |d: &Damage| {
        format!(
            "{}, byte {} (physical offset {}, {} bytes): {}",
            d.path, d.at, d.phys, d.bytes, d.why
        )
    };
    let parts: Vec<_> = damage.iter().take(SHOWN).map(part).collect();
    let more = if stats.damaged_parts > SHOWN as u64 {
        "; …"
    } else {
        ""
    };
    notes.warn(format!(
        "{}: {} damaged parts with {} bytes were skipped: {}{more}",
        task.describe(),
        stats.damaged_parts,
        stats.skipped_bytes,
        parts.join("; ")
    ));
}

/// The Arrow schema of what is read.
pub fn schema(how: &ReadOptions) -> Result<SchemaRef> {
    let files = FileSet::new(Vec::new(), Local.opener())?;
    let nothing = pyrmq_arrow::Selection::new(None);
    let reader = Reader::new(range(files, (0, 0), 0), nothing, how.settings("")?)?;
    Ok(reader.schema())
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
