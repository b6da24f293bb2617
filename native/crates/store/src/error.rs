//! The one error type of the store.

use std::path::{Path, PathBuf};

pub type Result<T> = std::result::Result<T, StoreError>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    #[error("{what} {path}: {message}")]
    Io {
        what: &'static str,
        path: PathBuf,
        message: String,
        /// errno, 0 if the system gave none.
        errno: i32,
    },
    #[error("{path}: {message}")]
    Damaged { path: PathBuf, message: String },
    /// The size or the name of a file does not fit the configured size of its kind: it is damaged, or
    /// the configuration is another one.
    #[error("{path}: {message}")]
    FileSize {
        path: PathBuf,
        message: String,
        configured: usize,
    },
    #[error("store {0} is in use by another process: stop it or choose another storePathRootDir")]
    Locked(PathBuf),
    #[error("{0}")]
    Illegal(String),
    #[error("{0}")]
    PropertiesTooLong(String),
    #[error("store is not available: {0}")]
    NotAvailable(String),
    /// A message for a slave's store.
    #[error("message store is slave mode, so putMessage is forbidden: send to the master")]
    Replica,
    #[error("in-sync replicas not enough: {in_sync} with this broker, minInSyncReplicas={least}")]
    InSyncReplicasNotEnough { in_sync: usize, least: usize },
    /// What a master sent does not fit the log; nothing of it was appended.
    #[error("{0}")]
    Misfit(String),
    /// A write takes too long: `stalls`.
    #[error("{0}")]
    Busy(String),
    /// A read that must not wait for the disk would have to (`Wait::Never`).
    #[error("what is to be read is not in memory")]
    Cold,
}

impl StoreError {
    /// Whether a file could not be opened because the process, or the machine, has no descriptor
    /// left. Nothing was done to the file: it is tried again.
    pub fn is_out_of_descriptors(&self) -> bool {
        matches!(self, StoreError::Io { errno, .. } if [libc::EMFILE, libc::ENFILE].contains(errno))
    }

    /// The file that it is about; empty if it is about none.
    pub fn path(&self) -> &Path {
        match self {
            StoreError::Io { path, .. }
            | StoreError::Damaged { path, .. }
            | StoreError::FileSize { path, .. }
            | StoreError::Locked(path) => path,
            _ => Path::new(""),
        }
    }

    pub fn io(what: &'static str, path: impl Into<PathBuf>, err: &std::io::Error) -> Self {
        StoreError::Io {
            what,
            path: path.into(),
            message: err.to_string(),
            errno: err.raw_os_error().unwrap_or(0),
        }
    }
}
