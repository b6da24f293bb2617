//! Where the segments of a broker's log are: a store folder, a commit-log folder, or single files.

use serde::{Deserialize, Serialize};

/// Physical offset of the first byte, length in bytes, path on its place.
pub type File = (u64, u64, String);

/// One broker's log. Travels with tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SegmentStore {
    /// Name of the broker.
    pub name: String,
    /// Path or URI as it was given, for messages.
    pub root: String,
    /// Sorted; none is empty, no two overlap. There may be holes between them.
    pub files: Vec<File>,
    /// The consumequeue folder; None if there is none that can be read here.
    pub queues: Option<String>,
    /// The index folder, likewise.
    pub index: Option<String>,
    /// What names the place of its files (`Places::named`); None: they are local.
    pub place: Option<String>,
    /// The commit-log folder; "" for single files.
    pub folder: String,
    /// The store folder; "" where the log alone was given.
    pub base: String,
    /// Why there are no queues.
    pub no_queues: String,
    /// Name of its folder, where `name` is what the store itself says.
    pub folder_name: String,
}
