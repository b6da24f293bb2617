//! What is to be kept of timers, taken at one moment, and its writing.

use super::check::Check;
use super::needed::Needed;
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
