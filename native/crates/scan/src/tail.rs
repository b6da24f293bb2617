//! The end of a log, read as it grows: for real-time mode, which has no batches to plan.
//!
//! One task reads all of a broker's log once. A broker has one log for all its queues, and a position of
//! a stream is one place in it. Tasks for single queues would each wait for the broker to write queue
//! entries, read records in no order, and hold a slot of Spark each.
//!
//! A batch has only records that are whole, as `find_end` knows them.

use super::error::{Kind, Part, Result, SegmentError};
use super::kept::Kept;
use super::log_ranges;
use super::notes::Notes;
use super::path::{folder_of, join};
use super::place::{Places, Shape};
use super::read::{damaged, note_damage};
use super::selection::Bounds;
use super::store::{end_of, file_set};
use super::tail_task::{Resume, TailTask};
use super::task::Task;
use super::unseen::check_seen;
use super::watch::{Wait, Watch};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Int64Array, RecordBatch};
use pyrmq_arrow::{Column, FileSet, Reader, RecordSource, ScanError, Settings, Stats, find_end};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Waits are no longer than this, and shorter while a log grows.
const POLL: Duration = Duration::from_millis(5);
const POLL_BUSY: Duration = Duration::from_millis(1);
/// A log that did not grow for so long is not busy.
const BUSY: Duration = Duration::from_secs(1);
/// Between two batches at least: records that come one by one share batches.
const LINGER: Duration = Duration::from_millis(1);
/// Between two looks whether the log is still the same one.
const IDENTITY: Duration = Duration::from_millis(100);
/// Between two lists of the files, where no event asks for one.
const LISTED: Duration = Duration::from_secs(2);
/// Bytes of a record's head that tell it from any other.
const ANCHOR: usize = 64;
/// Bytes read at once where little is new.
const SMALL_STEP: usize = 64 << 10;
const STEP: usize = 512 << 10;

/// Rows, and where the records of each of them start.
#[derive(Clone, Debug)]
pub struct TailBatch {
    pub batch: RecordBatch,
    places: Int64Array,
    offsets: Int64Array,
    /// Physical offset behind all records of the batch.
    next: u64,
}

pub struct Tail {
    task: TailTask,
    open: Arc<Kept>,
    reader: Reader,
    /// Columns of the reader that were not asked for are behind these.
    columns: usize,
    /// What is to be read next, and whether it begins with a record.
    ranges: VecDeque<(u64, u64, bool)>,
    /// End of the range that is being read.
    reading: Option<u64>,
    /// Physical offset behind all that was given.
    at: u64,
    /// Whether a record starts there.
    exact: bool,
    /// The last record that was met: where it starts, the bytes there.
    anchor: Option<(u64, Vec<u8>)>,
    wait: Box<dyn Wait>,
    relist: bool,
    looked: Instant,
    listed: Instant,
    grew: Option<Instant>,
    gave: Option<Instant>,
    /// Something was begun that is no record yet, so often; when to look again.
    begun: (u32, Option<Instant>),
    notes: Arc<Notes>,
    /// Damaged parts, and their bytes, that were told.
    told: (u64, u64),
    failed: bool,
}

impl Tail {
    /// Opens the log. What stands from `task.from` on comes first.
    pub fn open(task: TailTask, places: &dyn Places, notes: Arc<Notes>) -> Result<Self> {
        if task.store.place.is_some() {
            let text = format!(
                "{}: real-time mode waits for local files to grow, and these are not local",
                task.store.root
            );
            return Err(SegmentError::new(Kind::Option, text)
                .hint("read them in micro-batches, without the real-time trigger"));
        }
        let folder = match (task.store.folder.as_str(), task.store.files.first()) {
            ("", Some(file)) => folder_of(&file.2).to_owned(),
            (folder, _) => folder.to_owned(),
        };
        let wait = Watch::folder(&folder).unwrap_or_else(|(watch, why)| {
            notes.info(format!("{folder}: no events of it are known: {why}"));
            watch
        });
        Self::waiting(task, places, notes, Box::new(wait))
    }

    fn waiting(
        task: TailTask,
        places: &dyn Places,
        notes: Arc<Notes>,
        wait: Box<dyn Wait>,
    ) -> Result<Self> {
        task.check()?;
        let store = task.store.placed(places)?;
        let task = TailTask { store, ..task };
        let mut settings = task.how.settings(&task.store.name)?;
        let columns = settings.columns.len();
        add_places(&mut settings);
        let open = Arc::new(Kept::default());
        let nothing = RecordSource::Range {
            file_set: file_set(&[], open.clone())?,
            range: (0, 0),
            log_end: 0,
            exact: true,
        };
        let reader = Reader::new(nothing, task.rule.wanted()?, settings)?.whole_records();
        let mut tail = Tail {
            at: task.from,
            task,
            open,
            reader,
            columns,
            ranges: VecDeque::new(),
            reading: None,
            exact: true,
            anchor: None,
            wait,
            relist: true,
            looked: Instant::now(),
            listed: Instant::now(),
            grew: None,
            gave: None,
            begun: (0, None),
            notes,
            told: (0, 0),
            failed: false,
        };
        tail.start()?;
        Ok(tail)
    }

    /// A log that ends before where the stream is was cut, or is another one.
    fn start(&mut self) -> Result<()> {
        let store = &self.task.store;
        let known = self.file_at(self.at).unwrap_or(store.files.len() - 1);
        let file = &store.files[known];
        if store.place().shape(&file.2)? != Shape::File {
            let span = (self.at, i64::MAX as u64);
            check_seen(store.place(), file, span, &self.as_task(self.at).describe())?;
        }
        self.task.store = self.task.store.relisted()?;
        let (end, _) = find_end(&self.task.store.file_set(&self.task.store.files)?, None)?;
        let end = log_ranges::next_record(&self.task.store, end)?;
        if end < self.at {
            self.lost(self.cut(end))?;
            self.at = end;
        }
        Ok(())
    }

    /// The next rows, at once if there are any, else as soon as the log has them; None: not within
    /// the time. After an error there is no more.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<TailBatch>> {
        if self.failed {
            return Ok(None);
        }
        let found = self.next_of(timeout);
        self.failed = found.is_err();
        found
    }

    fn next_of(&mut self, timeout: Duration) -> Result<Option<TailBatch>> {
        let until = Instant::now().checked_add(timeout);
        loop {
            if let Some(batch) = self.read()? {
                self.gave = Some(Instant::now());
                return Ok(Some(batch));
            }
            if let Some(gave) = self.gave.take() {
                std::thread::sleep(LINGER.saturating_sub(gave.elapsed()));
            }
            if self.has_grown()? {
                self.grew = Some(Instant::now());
                continue;
            }
            let left = match until {
                Some(until) => until.saturating_duration_since(Instant::now()),
                None => POLL,
            };
            if left.is_zero() {
                return Ok(None);
            }
            let busy = self.grew.is_some_and(|grew| grew.elapsed() < BUSY);
            let poll = if busy { POLL_BUSY } else { POLL };
            self.relist |= self.wait.wait(left.min(poll));
        }
    }

    /// Physical offset behind all that `next` gave.
    pub fn position(&self) -> u64 {
        self.at
    }

    pub fn broker(&self) -> &str {
        &self.task.store.name
    }

    pub fn stats(&self) -> Stats {
        self.reader.stats()
    }

    /// Where to go on if only the rows before `row` of a batch were taken.
    pub fn resume(&self, batch: &TailBatch, row: usize) -> Result<Resume> {
        let mut out = Resume {
            broker: self.broker().to_owned(),
            log: batch.next,
            starts: Bounds::new(),
        };
        if row >= batch.places.len() {
            return Ok(out);
        }
        let place = batch.places.value(row);
        out.log = place as u64;
        if row > 0 && batch.places.value(row - 1) == place {
            let (topic, queue) = self.queue_at(out.log)?;
            let offset = batch.offsets.value(row);
            out.starts.entry(topic).or_default().insert(queue, offset);
        }
        Ok(out)
    }

    /// Topic and queue of the record at a place.
    fn queue_at(&self, phys: u64) -> Result<(String, i32)> {
        let settings = Settings {
            columns: vec![Column::Topic, Column::QueueId],
            batch_rows: 1,
            ..self.task.how.settings("")?
        };
        let source = RecordSource::Places {
            file_set: self.files(phys, phys + 1)?,
            places: vec![(phys, 0)],
        };
        let mut reader = Reader::new(source, pyrmq_arrow::Selection::new(None), settings)?;
        match reader.next_batch()? {
            Some(batch) => Ok((
                batch.column(0).as_string::<i32>().value(0).to_owned(),
                batch
                    .column(1)
                    .as_primitive::<arrow_array::types::Int32Type>()
                    .value(0),
            )),
            None => Err(SegmentError::new(Kind::DataLoss, self.cut(phys))),
        }
    }

    /// Rows of the ranges that are known to be there.
    fn read(&mut self) -> Result<Option<TailBatch>> {
        loop {
            let end = match self.reading {
                Some(end) => end,
                None => {
                    let Some((low, high, exact)) = self.ranges.pop_front() else {
                        return Ok(None);
                    };
                    let source = RecordSource::Range {
                        file_set: self.files(low, high)?,
                        range: (low, high),
                        log_end: high,
                        exact,
                    };
                    self.reader.go_on(source, false)?;
                    (self.at, self.reading) = (low, Some(high));
                    high
                }
            };
            let found = self.reader.next_batch();
            let found = found.map_err(|error| self.damaged(error, end))?;
            if self.reader.stats().damaged_parts > self.told.0 {
                self.note_damage(end);
            }
            self.at = match &found {
                Some(_) => self.reader.place().unwrap_or(end).max(self.at),
                None => end,
            };
            self.keep_anchor()?;
            match found {
                Some(batch) => return Ok(Some(self.batch(batch)?)),
                None => self.reading = None,
            }
        }
    }

    fn batch(&self, batch: RecordBatch) -> Result<TailBatch> {
        let column = |back: usize| {
            let column = batch.column(batch.num_columns() - back);
            column.as_primitive::<Int64Type>().clone()
        };
        let asked: Vec<usize> = (0..self.columns).collect();
        let of = |error: arrow_schema::ArrowError| {
            SegmentError::new(Kind::Internal, format!("columns of a batch: {error}"))
        };
        Ok(TailBatch {
            places: column(2),
            offsets: column(1),
            batch: batch.project(&asked).map_err(of)?,
            next: self.at,
        })
    }

    /// Whether there is more to read, which is in `ranges` then.
    fn has_grown(&mut self) -> Result<bool> {
        if self.relist || self.looked.elapsed() >= IDENTITY {
            self.look()?;
        }
        if self.begun.1.is_some_and(|again| Instant::now() < again) {
            return Ok(false);
        }
        if self.at >= self.task.store.last() && !self.next_is_there() {
            return Ok(false);
        }
        let store = &self.task.store;
        let Some(index) = self.file_at(self.at) else {
            // A hole, or in front of what is left: that is said where it is read.
            return self.take_to_end(0);
        };
        let (base, _, path) = &store.files[index];
        let mut head = [0; 8];
        let read = self.open.read(path, &mut head, self.at - base);
        let read = read.map_err(|error| SegmentError::io(path, error))?;
        if read == 0 || head.iter().all(|&byte| byte == 0) {
            // A file behind may have been begun all the same.
            return Ok(false);
        }
        self.check_anchor()?;
        self.take_to_end(index)
    }

    /// Whether a file that begins at the end of the known ones, or a longer last one, is there; it is
    /// listed then.
    fn next_is_there(&mut self) -> bool {
        let store = &self.task.store;
        let size = |path: &str| std::fs::metadata(path).map_or(0, |data| data.len());
        let longer = store
            .files
            .last()
            .is_some_and(|last| size(&last.2) > last.1);
        let next = join(&store.folder, &format!("{:020}", store.last()));
        let there = longer || (!store.folder.is_empty() && size(&next) > 0);
        if there {
            match store.relisted() {
                Ok(listed) => self.task.store = listed,
                Err(_) => self.relist = true,
            }
        }
        there && self.at < self.task.store.last()
    }

    /// Looks for the end of the log in the files from `index` on.
    fn take_to_end(&mut self, index: usize) -> Result<bool> {
        let store = &self.task.store;
        self.open.step.store(SMALL_STEP, Ordering::Relaxed);
        let files = file_set(&store.files[index..], self.open.clone())?;
        let start = (self.exact && store.first() <= self.at).then_some(self.at);
        let (end, why) = find_end(&files, start)?;
        let end = log_ranges::next_record(store, end)?;
        if end <= self.at {
            if !why.is_empty() {
                // The writer is half-way through a record, or died there.
                let wait = POLL_BUSY * (1 << self.begun.0.min(6));
                self.begun = (self.begun.0 + 1, Some(Instant::now() + wait.min(IDENTITY)));
            }
            return Ok(false);
        }
        self.begun = (0, None);
        let fail = self.task.fail_on_data_loss;
        let found = log_ranges::present_ranges(store, self.at, end, fail, &self.notes)?;
        for (low, high) in found {
            self.ranges
                .push_back((low, high, self.exact || low > self.at));
        }
        self.exact = true;
        Ok(!self.ranges.is_empty())
    }

    /// Whether the log is still the one that was read.
    fn look(&mut self) -> Result<()> {
        self.looked = Instant::now();
        if self.relist || self.listed.elapsed() >= LISTED || self.has_changed() {
            (self.listed, self.relist) = (self.looked, false);
            self.task.store = self.task.store.relisted()?;
        }
        let store = &self.task.store;
        if let Some(index) = self.file_at(self.at.saturating_sub(1)) {
            let (base, len, path) = &store.files[index];
            if self.at > *base && self.open.is_other(path) {
                self.open.forget(path);
                let text = format!("{path} was replaced while it was read");
                return self.another(text);
            }
            if base + len < self.at {
                return self.another(self.cut(base + len));
            }
        } else if store.last() < self.at {
            return self.another(self.cut(store.last()));
        }
        self.open.keep_only(&store.files);
        self.check_anchor()
    }

    /// Whether the file that is read has another length, or is not there.
    fn has_changed(&self) -> bool {
        let Some(index) = self.file_at(self.at.saturating_sub(1)) else {
            return true;
        };
        let (_, len, path) = &self.task.store.files[index];
        std::fs::metadata(path).map_or(true, |data| data.len() != *len)
    }

    fn check_anchor(&mut self) -> Result<()> {
        let Some((phys, bytes)) = &self.anchor else {
            return Ok(());
        };
        let Some(index) = self.file_at(*phys) else {
            self.anchor = None; // deleted, as old files are
            return Ok(());
        };
        let (base, _, path) = &self.task.store.files[index];
        let mut now = vec![0; bytes.len()];
        let read = self.open.read(path, &mut now, phys - base);
        read.map_err(|error| SegmentError::io(path, error))?;
        if now == *bytes {
            return Ok(());
        }
        let text = format!(
            "{}: the log of broker {} was cut at or before {phys}, the stream is at {}",
            self.task.store.root,
            self.broker(),
            self.at
        );
        self.another(text)
    }

    fn keep_anchor(&mut self) -> Result<()> {
        let Some(phys) = self.reader.last() else {
            return Ok(());
        };
        if self.anchor.as_ref().is_some_and(|anchor| anchor.0 == phys) {
            return Ok(());
        }
        let Some(index) = self.file_at(phys) else {
            return Ok(());
        };
        let (base, _, path) = &self.task.store.files[index];
        let mut bytes = vec![0; ANCHOR];
        let read = self.open.read(path, &mut bytes, phys - base);
        bytes.truncate(read.map_err(|error| SegmentError::io(path, error))?);
        self.anchor = Some((phys, bytes));
        Ok(())
    }

    /// The log is not the one that was read. Goes on with what it has from here on, if that may be.
    fn another(&mut self, text: String) -> Result<()> {
        self.lost(text)?;
        let (end, _) = find_end(&self.task.store.file_set(&self.task.store.files)?, None)?;
        let end = log_ranges::next_record(&self.task.store, end)?;
        self.at = self.at.min(end);
        (self.anchor, self.exact) = (None, self.at == end);
        self.ranges.clear();
        self.reading = None;
        Ok(())
    }

    fn lost(&self, text: String) -> Result<()> {
        let found = log_ranges::report_loss(text, self.task.fail_on_data_loss, &self.notes);
        found.map_err(|error| {
            error.hint([
                "it is another log, or it was cut; start with a new checkpoint, or ".into(),
                Part::Value("fail_on_data_loss", "False"),
                " continues with what is there".into(),
            ])
        })
    }

    fn cut(&self, end: u64) -> String {
        format!(
            "{}: the log of broker {} ends at {end}, the stream is at {}",
            self.task.store.root,
            self.broker(),
            self.at
        )
    }

    fn damaged(&self, error: ScanError, end: u64) -> SegmentError {
        match SegmentError::from(error) {
            error if error.kind == Kind::Damaged => damaged(&self.as_task(end), error),
            error => error,
        }
    }

    /// Tells of what was left out as damaged since the last time.
    fn note_damage(&mut self, end: u64) {
        let (stats, told) = (self.reader.stats(), self.told);
        self.told = (stats.damaged_parts, stats.skipped_bytes);
        let new = Stats {
            damaged_parts: stats.damaged_parts - told.0,
            skipped_bytes: stats.skipped_bytes - told.1,
            ..stats
        };
        let all = self.reader.damage();
        let new_parts = all.get(told.0 as usize..).unwrap_or_default();
        note_damage(&self.as_task(end), new, new_parts, &self.notes);
    }

    /// What is read, for messages.
    fn as_task(&self, end: u64) -> Task {
        let TailTask {
            store, rule, how, ..
        } = &self.task;
        Task {
            broker: store.name.clone(),
            root: store.root.clone(),
            files: Vec::new(),
            place: None,
            start: self.at,
            end,
            log_end: end,
            rule: rule.clone(),
            how: how.clone(),
            fail_on_data_loss: self.task.fail_on_data_loss,
            span: None,
            by_entries: false,
            queues: Vec::new(),
            places: Vec::new(),
        }
    }

    fn file_at(&self, phys: u64) -> Option<usize> {
        let files = &self.task.store.files;
        let index = files
            .partition_point(|file| file.0 <= phys)
            .checked_sub(1)?;
        (phys < end_of(&files[index])).then_some(index)
    }

    fn files(&self, low: u64, high: u64) -> Result<FileSet> {
        let small = high - low <= SMALL_STEP as u64;
        let step = if small { SMALL_STEP } else { STEP };
        self.open.step.store(step, Ordering::Relaxed);
        let own = log_ranges::overlapping(&self.task.store.files, low, high);
        file_set(own, self.open.clone())
    }
}

/// Adds the columns that say where rows come from, behind those that are asked for.
fn add_places(settings: &mut Settings) {
    settings.columns.push(Column::CommitLogOffset);
    settings.columns.push(Column::QueueOffset);
}

#[cfg(test)]
#[path = "tail_tests.rs"]
mod tests;
