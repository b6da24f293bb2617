//! What can go wrong while segments are read, and while rows are made into requests.

pub type Result<T> = std::result::Result<T, ScanError>;

#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// What stands in the file cannot be what should be there.
    #[error("{path}, byte {at} (physical offset {phys}): {why}")]
    Damaged {
        path: String,
        at: u64,
        phys: u64,
        why: String,
        /// Physical offset of the next record, where one was found.
        next: Option<u64>,
    },
    #[error("{path}: {error}")]
    Io {
        path: String,
        #[source]
        error: std::io::Error,
    },
    #[error("{0}")]
    Illegal(String),
    /// `TopicRules` failed.
    #[error("{0}")]
    TopicRules(Box<dyn std::error::Error + Send + Sync>),
}

/// Why rows cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    #[error("{0}")]
    Column(String),
    /// A row that cannot be a message; counted from the batch's first.
    #[error("row {row}: {why}")]
    Row { row: usize, why: String },
    #[error("{0}")]
    Usage(String),
}
