//! A file set: consecutive files of one size, each named after the offset that it starts at. The
//! commit log is one, and every queue has one.

use super::error::{Result, StoreError};
use pyrmq_format::names::{file_name, parse_file_name};
use std::path::{Path, PathBuf};

/// The starts of a folder's files in order. A last file of length 0 is deleted; any other whose
/// length is not `size`, or a gap in the set, is an error. [MappedFileQueue.doLoad]
pub fn list_file_set(dir: &Path, size: usize) -> Result<Vec<u64>> {
    let paths = list_files(dir)?;
    let bases = check_file_set(paths, size)?;
    Ok(bases.into_iter().map(|(base, _)| base).collect())
}

/// The error of a file that has another length than all others.
pub(super) fn wrong_size(path: &Path, len: u64, size: usize) -> String {
    let mut text = format!("file has {len} bytes, the configured size is {size}");
    if len < size as u64 {
        text.push_str(&format!(
            ". If the configuration is right it was cut: `truncate -s {size} {}` makes it whole, and what \
             it has lost is left out as damage",
            path.display()
        ));
    }
    text
}

/// Every file of a folder that is named after an offset.
pub fn list_files(dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let mut paths = Vec::new();
    let entries = std::fs::read_dir(dir).map_err(|e| StoreError::io("list", dir, &e))?;
    for entry in entries {
        let entry = entry.map_err(|e| StoreError::io("list", dir, &e))?;
        let path = entry.path();
        let Some(base) = parse_file_name(&path) else {
            continue;
        };
        let kind = entry
            .file_type()
            .map_err(|e| StoreError::io("stat", &path, &e))?;
        if !kind.is_dir() {
            paths.push((base, path));
        }
    }
    Ok(paths)
}

/// Sorts the files of one set and checks it (see `list_file_set`).
pub fn check_file_set(mut paths: Vec<(u64, PathBuf)>, size: usize) -> Result<Vec<(u64, PathBuf)>> {
    paths.sort();
    let length = |path: &Path| {
        std::fs::metadata(path)
            .map(|m| m.len())
            .map_err(|e| StoreError::io("stat", path, &e))
    };
    if let Some((_, path)) = paths.last()
        && length(path)? == 0
    {
        std::fs::remove_file(path).map_err(|e| StoreError::io("remove", path, &e))?;
        paths.pop();
    }
    let mut expected = None;
    for (base, path) in &paths {
        let damaged = |message: String| StoreError::Damaged {
            path: path.clone(),
            message,
        };
        if expected.is_some_and(|e| e != *base) {
            let e = expected.unwrap_or(0);
            return Err(damaged(format!(
                "the file before this one is missing: restore {}",
                file_name(e)
            )));
        }
        if base % size as u64 != 0 {
            return Err(damaged(format!(
                "name is no multiple of the configured file size {size}"
            )));
        }
        let len = length(path)?;
        if len != size as u64 {
            return Err(damaged(wrong_size(path, len, size)));
        }
        expected = Some(base + size as u64);
    }
    Ok(paths)
}
