//! What is to be kept of timers, taken at one moment, and its writing.

use super::check::Check;
use super::wheel::{Page, write_pages};
use pyrmq_store::{Result, StoreError};
use std::fs::File;
use std::path::PathBuf;

/// Where the files are.
pub struct Paths {
    pub wheel: PathBuf,
    pub log: PathBuf,
    pub check: PathBuf,
}

/// What of the commit log a check point needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needed {
    /// Physical offset of the first record that is in the wheel; u64::MAX: none is.
    pub waiting: u64,
    /// Queue offset of the first message that is not in the wheel.
    pub queue_offset: i64,
}

impl Needed {
    pub const ALL: Needed = Needed {
        waiting: 0,
        queue_offset: 0,
    };
}

pub struct Prepared {
    pub check: Check,
    /// Of the wheel.
    pub pages: Vec<Page>,
    /// The file of the timer log that is written.
    pub log: Option<File>,
    pub needed: Needed,
}

impl Prepared {
    /// Has all of it on disk: the check point last.
    pub fn write(&self, paths: &Paths) -> Result<()> {
        if let Some(file) = &self.log {
            file.sync_data()
                .map_err(|e| StoreError::io("flush", paths.log.as_path(), &e))?;
        }
        write_pages(&paths.wheel, &self.pages)?;
        self.check.save(&paths.check)
    }
}
