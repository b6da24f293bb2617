//! What one read asks for, as its options say it.

use super::read_options::ReadOptions;
use super::selection::Selection;
use serde::{Deserialize, Serialize};

/// Bytes of log that a task reads, if nobody says another number.
pub const SPLIT_BYTES: u64 = 256 << 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// Store folders, commit-log folders, segment files; URIs where the caller has a place for them.
    pub paths: Vec<String>,
    /// One for each store; none: what the stores say.
    pub broker_names: Vec<String>,
    pub selection: Selection,
    pub how: ReadOptions,
    pub split_bytes: u64,
    pub min_partitions: Option<u64>,
    /// Most messages of a task.
    pub max_records: Option<u64>,
    /// auto, scan, index or file.
    pub plan: String,
    pub fail_on_data_loss: bool,
    /// Only the first rows by a column are wanted: those of each task, sorted again, have them.
    pub top: Option<Top>,
}

/// The n rows with the lowest values of a column, or with the highest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Top {
    pub by: TopBy,
    #[serde(default)]
    pub descending: bool,
    pub n: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TopBy {
    QueueOffset,
    CommitLogOffset,
}

impl Default for Request {
    fn default() -> Self {
        Request {
            paths: Vec::new(),
            broker_names: Vec::new(),
            selection: Selection::default(),
            how: ReadOptions::default(),
            split_bytes: SPLIT_BYTES,
            min_partitions: None,
            max_records: None,
            plan: "auto".to_owned(),
            fail_on_data_loss: true,
            top: None,
        }
    }
}
