//! Queues by the log itself, where no queue files say what they hold. Headers are read only.

use super::error::Result;
use super::log_ranges::{overlapping, present_ranges};
use super::notes::Notes;
use super::rule::Asker;
use super::selection::Rule;
use super::store::SegmentStore;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use pyrmq_arrow::{BodyForm, Column, PropertiesForm, Reader, RecordSource, Settings, Verify};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Topic and queue id.
pub type Key = (String, i32);

const ROWS: usize = 1 << 16;
const BYTES: usize = 16 << 20;
const COLUMNS: [Column; 4] = [
    Column::Topic,
    Column::QueueId,
    Column::QueueOffset,
    Column::CommitLogOffset,
];

/// What the log has of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// First queue offset, and the one behind the last.
    pub low: i64,
    pub high: i64,
    /// First physical offset.
    pub phys: u64,
}

/// Of each queue that `rule` asks for what `start..end` of the log has.
pub fn walk_log(
    store: &SegmentStore,
    rule: &Rule,
    start: u64,
    end: u64,
    notes: &Notes,
) -> Result<BTreeMap<Key, Seen>> {
    let rule = Arc::new(rule.clone());
    let mut out: FxHashMap<Key, Seen> = FxHashMap::default();
    // Around what is missing: whether that is an error is decided where it is read.
    for (low, high) in present_ranges(store, start, end, false, notes)? {
        let source = RecordSource::Range {
            file_set: store.file_set(overlapping(&store.files, low, high))?,
            range: (low, high),
            log_end: high,
            exact: true,
        };
        let asker = Asker::new(rule.clone())?;
        let selection = pyrmq_arrow::Selection::new(Some(Box::new(asker)));
        let mut reader = Reader::new(source, selection, settings(&COLUMNS, ROWS))?;
        while let Some(batch) = reader.next_batch()? {
            add(&mut out, &batch);
        }
    }
    Ok(out.into_iter().collect())
}

/// Settings of a reader that looks at a log, and passes over damage.
pub fn settings(columns: &[Column], rows: usize) -> Settings {
    Settings {
        columns: columns.to_vec(),
        form: PropertiesForm::Map,
        body: BodyForm::Binary,
        broker: String::new(),
        decompress: false,
        verify: Verify::Nothing,
        skip: true,
        batch_rows: rows,
        batch_bytes: BYTES,
        views: false,
    }
}

fn add(out: &mut FxHashMap<Key, Seen>, batch: &RecordBatch) {
    let topics = batch.column(0).as_string::<i32>();
    let queues = batch.column(1).as_primitive::<Int32Type>();
    let offsets = batch.column(2).as_primitive::<Int64Type>();
    let places = batch.column(3).as_primitive::<Int64Type>();
    // Summed up by what stands in the batch, before names are copied.
    let mut own: FxHashMap<(&str, i32), Seen> = FxHashMap::default();
    for row in 0..batch.num_rows() {
        let topic = if topics.is_null(row) {
            ""
        } else {
            topics.value(row)
        };
        let (low, phys) = (offsets.value(row), places.value(row).max(0) as u64);
        let high = low.saturating_add(1);
        let seen = Seen { low, high, phys };
        own.entry((topic, queues.value(row)))
            .and_modify(|known| known.add(&seen))
            .or_insert(seen);
    }
    for ((topic, queue), seen) in own {
        out.entry((topic.to_owned(), queue))
            .and_modify(|known| known.add(&seen))
            .or_insert(seen);
    }
}

impl Seen {
    fn add(&mut self, other: &Seen) {
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
        self.phys = self.phys.min(other.phys);
    }
}
