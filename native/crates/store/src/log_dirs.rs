//! Where commit-log files lie: one folder, or several on different disks.
//! [MultiPathMappedFileQueue]

use super::config::StoreConfig;
use super::disk;
use super::error::{Result, StoreError};
use super::file_set::list_files;
use super::guard::create_dirs;

use std::path::{Path, PathBuf};

pub struct LogDirs {
    /// Sorted; a new file goes to one of these.
    writable: Vec<PathBuf>,
    read_only: Vec<PathBuf>,
    /// A folder whose disk is fuller than this gets no new files, in percent.
    full: u32,
}

impl LogDirs {
    pub fn open(cfg: &StoreConfig) -> Result<Self> {
        let read_only = cfg.read_only_commit_log_dirs.clone();
        let mut writable: Vec<_> = cfg.commit_log_dirs.clone();
        writable.retain(|dir| !read_only.contains(dir));
        if writable.is_empty() {
            return Err(StoreError::Illegal(
                "storePathCommitLog names only folders that are in readOnlyCommitLogStorePaths"
                    .into(),
            ));
        }
        writable.sort();
        writable.dedup();
        let used = cfg.root.join("checkpoint");
        let used = used
            .try_exists()
            .map_err(|e| StoreError::io("stat", &used, &e))?;
        for dir in writable.iter().chain(&read_only) {
            let there = dir
                .try_exists()
                .map_err(|e| StoreError::io("stat", dir, &e))?;
            if !there && used {
                return Err(StoreError::Damaged {
                    path: dir.clone(),
                    message: "the store is not new, but this folder of its commit log does not \
                              exist: mount it, or create it if it is to be added"
                        .into(),
                });
            }
            if !there && !read_only.contains(dir) {
                create_dirs(dir)?;
            }
        }
        Ok(LogDirs {
            writable,
            read_only,
            full: cfg.retention.clean_forcibly_ratio,
        })
    }

    pub fn all(&self) -> impl Iterator<Item = &Path> {
        let all = self.writable.iter().chain(&self.read_only);
        all.map(PathBuf::as_path)
    }

    /// Every file that is named after an offset, in any order.
    pub fn list(&self) -> Result<Vec<(u64, PathBuf)>> {
        let mut found = Vec::new();
        for dir in self.all() {
            match list_files(dir) {
                // Of a new store; `open` refused a folder that is gone.
                Err(StoreError::Io { errno, .. }) if errno == libc::ENOENT => {}
                files => found.extend(files?),
            }
        }
        Ok(found)
    }

    /// The folder for the log's file number `index`: they take turns, without those that are too
    /// full, unless all are.
    pub fn for_file(&self, index: u64) -> &Path {
        if self.writable.len() == 1 {
            return &self.writable[0];
        }
        let has_room =
            |dir: &&PathBuf| disk::used_percent(dir).is_none_or(|used| used <= self.full);
        let open: Vec<_> = self.writable.iter().filter(has_room).collect();
        let choice = if open.is_empty() {
            self.writable.iter().collect()
        } else {
            open
        };
        choice[(index % choice.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_take_turns_and_read_only_folders_get_none() {
        let root = tempfile::tempdir().unwrap();
        let dir = |n: &str| root.path().join(n);
        let mut cfg = StoreConfig::new(root.path());
        cfg.commit_log_dirs = vec![dir("c"), dir("a"), dir("b")];
        cfg.read_only_commit_log_dirs = vec![dir("b"), dir("old")];
        cfg.retention.clean_forcibly_ratio = 100;
        let dirs = LogDirs::open(&cfg).unwrap();
        let chosen: Vec<_> = (0..4).map(|n| dirs.for_file(n).to_path_buf()).collect();
        assert_eq!(chosen, [dir("a"), dir("c"), dir("a"), dir("c")]);
        assert_eq!(dirs.all().count(), 4);
        cfg.commit_log_dirs = vec![dir("b")];
        assert!(LogDirs::open(&cfg).is_err());
    }
}
