//! Where the segments of a broker's log are: a store folder, a commit-log folder, or single files.

use super::config_folder;
use super::error::{Kind, Result, SegmentError};
use super::path::{base_name, join};
use super::place::{Found, Place, PlaceRef, Places, Shape};
use pyrmq_arrow::{FileSet, LogFile, Open};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Physical offset of the first byte, length in bytes, path on its place.
pub type File = (u64, u64, String);

const NAME_DIGITS: usize = 20;

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
    /// The place that `place` names; see `placed`.
    #[serde(skip)]
    pub at: PlaceRef,
}

impl SegmentStore {
    /// Physical offset of the first byte that is there.
    pub fn first(&self) -> u64 {
        self.files.first().map_or(0, |file| file.0)
    }

    /// Physical offset behind the last file, which may be room not yet written.
    pub fn last(&self) -> u64 {
        self.files.last().map_or(0, end_of)
    }

    pub fn place(&self) -> &dyn Place {
        &*self.at.0
    }

    /// The same after it travelled: with the place that it names.
    pub fn placed(mut self, places: &dyn Places) -> Result<Self> {
        if let Some(name) = &self.place {
            self.at = PlaceRef(places.named(name)?);
        }
        Ok(self)
    }

    /// How its files are opened.
    pub fn opener(&self) -> Arc<dyn Open> {
        self.place().opener()
    }

    /// Some of its files as the readers take them.
    pub fn file_set(&self, files: &[File]) -> Result<FileSet> {
        file_set(files, self.opener())
    }

    /// Ranges of physical offsets between the files that no file holds.
    pub fn holes(&self) -> Vec<(u64, u64)> {
        let pairs = self.files.windows(2);
        let gaps = pairs.map(|pair| (end_of(&pair[0]), pair[1].0));
        gaps.filter(|(end, next)| end < next).collect()
    }

    /// The same place listed again: files come at the end and go at the start.
    pub fn relisted(&self) -> Result<Self> {
        let files = if self.folder.is_empty() {
            let mut there = Vec::with_capacity(self.files.len());
            for (_, _, path) in &self.files {
                if self.place().shape(path)? == Shape::File {
                    there.push(path.clone());
                }
            }
            single_files(self.place(), &there)?
        } else {
            segments(self.place().list(&self.folder)?).0
        };
        if files.is_empty() {
            return Err(SegmentError::new(
                Kind::Path,
                format!("{}: all of its segments are deleted", self.root),
            ));
        }
        Ok(SegmentStore {
            files: in_order(files)?,
            ..self.clone()
        })
    }

    /// Topics that the store knows, by its queue folders and config/topics.json.
    ///
    /// None if it has neither, so that nothing can be said.
    pub fn topics(&self, notes: &super::Notes) -> Result<Option<BTreeSet<String>>> {
        if self.base.is_empty() {
            return Ok(None);
        }
        let mut names = BTreeSet::new();
        let mut has_queues = false;
        for folder in ["consumequeue", "batchconsumequeue"] {
            let path = join(&self.base, folder);
            let in_database = self.place().shape(&join(&path, "CURRENT"))? == Shape::File;
            if self.place().shape(&path)? == Shape::Folder && !in_database {
                has_queues = true;
                let found = self.place().list(&path)?.into_iter();
                names.extend(found.filter(|f| !f.is_file).map(|f| f.name));
            }
        }
        let configured = self.configured_topics(notes);
        if configured.is_none() && !has_queues {
            return Ok(None);
        }
        names.extend(configured.unwrap_or_default());
        Ok(Some(names))
    }

    /// Topics of config/topics.json; None if it cannot be read.
    pub fn configured_topics(&self, notes: &super::Notes) -> Option<BTreeSet<String>> {
        match self.base.is_empty() {
            true => None,
            false => config_folder::topics(self.place(), &join(&self.base, "config"), notes),
        }
    }
}

/// Physical offset behind a file.
pub fn end_of(file: &File) -> u64 {
    file.0.saturating_add(file.1)
}

/// Files as the readers take them.
pub fn file_set(files: &[File], opener: Arc<dyn Open>) -> Result<FileSet> {
    let files = files.iter().map(|(base, len, path)| LogFile {
        base: *base,
        len: *len,
        path: path.clone(),
    });
    Ok(FileSet::new(files.collect(), opener)?)
}

/// The files of a folder that are named by an offset, in order; others are passed over.
pub fn segments_of(found: Vec<Found>) -> Result<Vec<File>> {
    in_order(segments(found).0)
}

/// The segments of a folder, and the names of what is none. Empty files are neither: a broker makes
/// a file before it gives it its size.
pub(crate) fn segments(found: Vec<Found>) -> (Vec<File>, Vec<String>) {
    let (mut files, mut foreign) = (Vec::new(), Vec::new());
    for one in found {
        match base_of(&one.name) {
            Some(base) if one.is_file => {
                if one.size > 0 {
                    files.push((base, one.size, one.path));
                }
            }
            _ => foreign.push(one.name),
        }
    }
    (files, foreign)
}

/// The physical offset that names a segment.
pub(crate) fn base_of(name: &str) -> Option<u64> {
    if name.len() != NAME_DIGITS || !name.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    name.parse().ok().filter(|&base| base <= i64::MAX as u64)
}

pub(crate) fn single_files(place: &dyn Place, paths: &[String]) -> Result<Vec<File>> {
    let mut seen = rustc_hash::FxHashSet::default();
    let mut out = Vec::with_capacity(paths.len());
    for path in paths {
        if !seen.insert(path) {
            continue;
        }
        let Some(base) = base_of(base_name(path)) else {
            return Err(SegmentError::new(
                Kind::Path,
                format!("{path} is not named as a segment is"),
            )
            .hint("the name is the physical offset of its first byte in 20 digits"));
        };
        let size = place.size(path)?;
        if size > 0 {
            out.push((base, size, path.clone()));
        }
    }
    Ok(out)
}

/// Refuses files that lie over each other.
pub(crate) fn in_order(mut files: Vec<File>) -> Result<Vec<File>> {
    files.sort();
    for pair in files.windows(2) {
        if end_of(&pair[0]) > pair[1].0 {
            return Err(SegmentError::new(
                Kind::Path,
                format!(
                    "{} has {} bytes, but {} begins before its end",
                    pair[0].2, pair[0].1, pair[1].2
                ),
            )
            .hint("these are not the segments of one log"));
        }
    }
    Ok(files)
}
