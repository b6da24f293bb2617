//! A task of real-time mode, and where it stopped; both travel as JSON.

use super::error::{Kind, Result, SegmentError};
use super::read_options::ReadOptions;
use super::selection::{Bounds, Rule};
use super::store::SegmentStore;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What is read of one broker's log from a place on. Its JSON can be sent to another process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TailTask {
    pub store: SegmentStore,
    pub rule: Arc<Rule>,
    pub how: ReadOptions,
    /// Physical offset of the next record.
    pub from: u64,
    pub fail_on_data_loss: bool,
}

impl TailTask {
    /// SegmentError for what no planner makes: a task comes from elsewhere.
    pub fn check(&self) -> Result<()> {
        self.how.check()?;
        if self.store.files.is_empty() || self.from > i64::MAX as u64 {
            let text = "this is no task: it has no files, or begins behind all offsets";
            return Err(SegmentError::new(Kind::Segment, text));
        }
        Ok(())
    }
}

/// A place between two rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    pub broker: String,
    /// Physical offset of the next record.
    pub log: u64,
    /// Of an inner batch some messages were taken: the queue offset of the next one.
    #[serde(default)]
    pub starts: Bounds,
}
