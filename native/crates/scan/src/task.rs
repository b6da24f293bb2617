//! One task of a read: where it reads, and how. Its JSON can be sent to another process or machine.

use super::error::{Kind, Result, SegmentError};
use super::read_options::ReadOptions;
use super::selection::Rule;
use super::store::File;
use pyrmq_format::cq_entry;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Entries of a queue from a place to before another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueuePart {
    pub topic: String,
    pub id: i32,
    /// Bytes of an entry: 20, or 46 of a queue of inner batches.
    pub unit: u64,
    /// Byte in the queue at which a file begins, length, path.
    pub files: Vec<File>,
    pub start: u64,
    pub end: u64,
}

/// Records of one log between two physical offsets; those that queue entries or places name, if
/// there are any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    pub broker: String,
    /// As it was given, for messages.
    pub root: String,
    pub files: Vec<File>,
    /// What names the place of the files; None: they are local.
    pub place: Option<String>,
    pub start: u64,
    pub end: u64,
    /// Physical offset at which the planned part of the log ends. Behind damage the next record is
    /// looked for up to there.
    pub log_end: u64,
    pub rule: Arc<Rule>,
    pub how: ReadOptions,
    /// Whether a file that is deleted before it is opened is an error.
    pub fail_on_data_loss: bool,
    /// Physical offsets of all that is read of this log; None: of this task.
    pub span: Option<(u64, u64)>,
    /// Only records that these entries or places name.
    pub by_entries: bool,
    pub queues: Vec<QueuePart>,
    /// Physical offsets of records, ascending.
    pub places: Vec<u64>,
}

/// Topics that a description names.
const SHOWN: usize = 3;

impl Task {
    /// An error for what no plan says: a task may come from elsewhere.
    pub fn check(&self) -> Result<()> {
        self.how.check()?;
        let is_unit = |part: &QueuePart| {
            [cq_entry::SIZE, cq_entry::BATCH_SIZE].contains(&(part.unit as usize))
        };
        let why = if self.start > self.end || self.end > i64::MAX as u64 {
            "its range ends before it begins, or behind all offsets"
        } else if !self.queues.iter().all(is_unit) {
            "entries of its queues have a size that no queue has"
        } else if !self.by_entries && (!self.queues.is_empty() || !self.places.is_empty()) {
            "it names entries, but is not read by them"
        } else {
            return Ok(());
        };
        let text = format!("this is no task: {why}");
        Err(SegmentError::new(Kind::Segment, text))
    }

    /// What this is, for messages.
    pub fn describe(&self) -> String {
        let topics = match self.rule.selection.named_topics() {
            None => "its topics".to_owned(),
            Some(names) => {
                let more = if names.len() > SHOWN { ", …" } else { "" };
                format!(
                    "topics {}{more}",
                    names[..names.len().min(SHOWN)].join(", ")
                )
            }
        };
        let (broker, start, end) = (&self.broker, self.start, self.end);
        format!("broker {broker}, {topics}, log {start} to {end}")
    }
}
