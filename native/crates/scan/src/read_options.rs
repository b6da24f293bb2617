//! How messages are read: columns, their forms, checks, size of batches; and how tasks are cut.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnCorruption {
    #[default]
    Fail,
    Skip,
}

/// Parameters of `pyrmq.scan` that do not select messages; its JSON has their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadOptions {
    /// In the order in which they come; empty: the default ones.
    pub columns: Vec<String>,
    /// map, json, raw or none.
    pub properties: String,
    pub decompress: bool,
    /// none, tail or all.
    pub verify_crc: String,
    pub on_corruption: OnCorruption,
    pub batch_rows: u64,
    pub batch_bytes: u64,
    pub views: bool,
    /// bytes, utf8, or json with a schema: the form of the column `body`.
    pub body: Option<serde_json::Value>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            columns: Vec::new(),
            properties: "map".to_owned(),
            decompress: true,
            verify_crc: "tail".to_owned(),
            on_corruption: OnCorruption::Fail,
            batch_rows: 10_000,
            batch_bytes: 1 << 20,
            views: false,
            body: None,
        }
    }
}
