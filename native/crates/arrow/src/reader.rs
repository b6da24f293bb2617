//! A part of a log, batch by batch.

use super::build::Builder;
use super::columns::{BodyForm, Column, PropertiesForm};
use super::error::{Result, ScanError};
use super::files::FileSet;
use super::select::Selection;
use super::sink::Sink;
use super::source::{Fault, Next, RecordSource, Source};
use super::walk::{crc_fits, damage_error};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

/// Damaged parts that are remembered one by one.
const MAX_DAMAGE: usize = 1000;
/// Which bodies are compared with their CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    Nothing,
    /// That of the log's last record.
    Tail,
    All,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub columns: Vec<Column>,
    pub form: PropertiesForm,
    pub body: BodyForm,
    pub broker: String,
    pub decompress: bool,
    pub verify: Verify,
    /// Damage is left out and counted; else it is an error.
    pub skip: bool,
    /// A batch ends with whichever comes first.
    pub batch_rows: usize,
    pub batch_bytes: usize,
    pub views: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Records that were examined, and their bytes.
    pub records: u64,
    pub record_bytes: u64,
    pub rows: u64,
    pub damaged_parts: u64,
    pub skipped_bytes: u64,
}

#[derive(Clone, Debug)]
pub struct Damage {
    pub path: String,
    pub at: u64,
    pub phys: u64,
    pub bytes: u64,
    pub why: String,
}

pub struct Reader {
    source: Source,
    file_set: Option<FileSet>,
    sink: Sink,
    verify: Verify,
    log_end: u64,
    skip: bool,
    limits: (usize, usize),
    /// Rows that may still come.
    left: u64,
    stats: Stats,
    damage: Vec<Damage>,
    done: bool,
    /// Filters leave nothing of this broker.
    excluded: bool,
    /// Inner batches are never spread over two batches.
    whole: bool,
    /// Physical offset of the record that was met last.
    last: Option<u64>,
}

impl Reader {
    pub fn new(from: RecordSource, selection: Selection, settings: Settings) -> Result<Self> {
        if settings.views && settings.body != BodyForm::Binary {
            let text = "bodies can be viewed where they lie only as they are stored";
            return Err(ScanError::Illegal(text.to_owned()));
        }
        let file_set = from.file_set().cloned();
        let log_end = from.log_end();
        let source = Source::new(from, settings.views)?;
        let builder = Builder::new(
            &settings.columns,
            settings.form,
            &settings.body,
            &settings.broker,
            settings.views,
        );
        let bodies = settings.columns.contains(&Column::Body);
        let filters = selection.filters();
        let left = filters.and_then(|f| f.limit).unwrap_or(u64::MAX);
        let excluded = filters.is_some_and(|f| f.excludes(&settings.broker));
        Ok(Reader {
            source,
            file_set,
            sink: Sink::new(selection, builder, bodies, settings.decompress),
            verify: settings.verify,
            log_end,
            skip: settings.skip,
            limits: (settings.batch_rows.max(1), settings.batch_bytes.max(1)),
            left,
            stats: Stats::default(),
            damage: Vec::new(),
            done: excluded,
            excluded,
            whole: false,
            last: None,
        })
    }

    /// From now on the messages of one record come in one batch, however big it gets: `place` is
    /// always known then.
    #[must_use]
    pub fn whole_records(mut self) -> Self {
        self.whole = true;
        self
    }

    /// Goes on with other records, as where a log has grown; what was selected stays.
    pub fn go_on(&mut self, from: RecordSource, views: bool) -> Result<()> {
        self.file_set = from.file_set().cloned();
        self.log_end = from.log_end();
        self.source = Source::new(from, views)?;
        self.done = self.excluded || self.left == 0;
        Ok(())
    }

    /// Physical offset from which on nothing was read yet; None: inside a record, or of no log.
    pub fn place(&self) -> Option<u64> {
        match &self.source {
            Source::Walk(walk) if !self.sink.has_open() => Some(walk.phys()),
            _ => None,
        }
    }

    /// Physical offset of the record that was met last.
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    pub fn schema(&self) -> SchemaRef {
        self.sink.builder.schema().clone()
    }

    pub fn stats(&self) -> Stats {
        self.stats
    }

    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// The next batch, never an empty one; None behind the last. After an error there is no more.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.done {
            return Ok(None);
        }
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        self.limits.0 = self.limits.0.min(left);
        let filled = self.fill();
        if filled.is_err() {
            self.done = true;
        }
        self.done |= filled?;
        let rows = self.sink.builder.rows();
        self.stats.rows += rows as u64;
        self.left = self.left.saturating_sub(rows as u64);
        self.done |= self.left == 0;
        Ok((rows > 0).then(|| self.sink.builder.take()))
    }

    /// Fills a batch; whether that was all.
    fn fill(&mut self) -> Result<bool> {
        let (rows, bytes) = self.limits;
        while self.sink.builder.rows() < rows && self.sink.builder.bytes() < bytes {
            let next = match self.sink.has_open() {
                true => Next::Record,
                false => self.source.next()?,
            };
            let fault = match next {
                Next::End => return Ok(true),
                Next::Fault(fault) => fault,
                Next::Record => match self.take()? {
                    Some(fault) => fault,
                    None => continue,
                },
            };
            self.report(fault)?;
        }
        Ok(false)
    }

    /// Makes the record that was met last into rows; says what is wrong with it otherwise.
    #[inline]
    fn take(&mut self) -> Result<Option<Fault>> {
        let (view, record, map) = self.source.record()?;
        let limits = match self.whole {
            true => (usize::MAX, usize::MAX),
            false => self.limits,
        };
        if self.sink.go_on(view, record, map.as_ref(), limits) {
            return Ok(None);
        }
        self.stats.records += 1;
        self.stats.record_bytes += view.total as u64;
        self.last = u64::try_from(view.phys).ok();
        let at_end = (view.phys as u64).wrapping_add(view.total as u64) == self.log_end;
        let check = self.verify == Verify::All || (self.verify == Verify::Tail && at_end);
        let Some(wanted) = self.sink.wants(view, record)? else {
            return Ok(None);
        };
        let why = match check && !crc_fits(view, record) {
            true => Err("the body does not fit its CRC".to_owned()),
            false => self.sink.take(view, record, wanted, map.as_ref(), limits),
        };
        let from = view.phys.max(0) as u64;
        let to = from + view.total as u64;
        Ok(why.err().map(|why| Fault { from, to, why }))
    }

    fn report(&mut self, fault: Fault) -> Result<()> {
        let error = match &self.file_set {
            Some(file_set) => damage_error(file_set, fault.from, fault.to, &fault.why),
            None => ScanError::Damaged {
                path: "answer to a pull".to_owned(),
                at: self.source.place_in_answer(),
                phys: fault.from,
                why: fault.why.clone(),
                next: None,
            },
        };
        let ScanError::Damaged { path, at, phys, .. } = &error else {
            return Err(error);
        };
        if !self.skip {
            return Err(error);
        }
        let bytes = fault.to - fault.from;
        self.stats.damaged_parts += 1;
        self.stats.skipped_bytes += bytes;
        if self.damage.len() < MAX_DAMAGE {
            self.damage.push(Damage {
                path: path.clone(),
                at: *at,
                phys: *phys,
                bytes,
                why: fault.why,
            });
        }
        Ok(())
    }
}
