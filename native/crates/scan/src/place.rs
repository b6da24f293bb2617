//! Where files are: the local file system, or one that the caller brings (pyarrow's and fsspec's in
//! Python). A description of the latter travels with tasks as text that only the caller understands.

use super::error::{Kind, Result, SegmentError};
use pyrmq_arrow::{Open, OpenLocal};
use std::io;
use std::path::Path;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    File,
    Folder,
    Nothing,
}

/// A file or folder of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub path: String,
    pub name: String,
    pub is_file: bool,
    pub size: u64,
}

pub trait Place: Send + Sync {
    fn shape(&self, path: &str) -> Result<Shape>;
    /// What is in a folder, sorted by name.
    fn list(&self, path: &str) -> Result<Vec<Found>>;
    fn size(&self, path: &str) -> Result<u64>;
    /// How its files are opened.
    fn opener(&self) -> Arc<dyn Open>;
    fn is_local(&self) -> bool {
        false
    }
    /// The first bytes of a file from `at` on, at most `count`.
    fn head(&self, path: &str, at: u64, count: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        let read = self
            .opener()
            .open(path)
            .and_then(|mut file| file.read_at(&mut bytes, at));
        bytes.truncate(read.map_err(|error| SegmentError::io(path, error))?);
        Ok(bytes)
    }
}

/// Finds the place of a path or URI: (None for a local one, or what names the place in a task; the
/// place; the path on it).
pub trait Places: Send + Sync {
    fn place(&self, path: &str) -> Result<(Option<String>, Arc<dyn Place>, String)>;
    /// The place that a task names.
    fn named(&self, name: &str) -> Result<Arc<dyn Place>>;
}

pub struct Local;

pub const LOCAL: Local = Local;

impl Place for Local {
    fn shape(&self, path: &str) -> Result<Shape> {
        match std::fs::metadata(Path::new(path)) {
            Ok(data) if data.is_dir() => Ok(Shape::Folder),
            Ok(data) if data.is_file() => Ok(Shape::File),
            Ok(_) => Ok(Shape::Nothing),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(SegmentError::new(
                    Kind::Path,
                    format!("{path} cannot be examined: {}", strerror(&error)),
                ))
            }
            Err(_) => Ok(Shape::Nothing), // a name that is too long, a zero byte in it
        }
    }

    fn list(&self, path: &str) -> Result<Vec<Found>> {
        let failed = |error: io::Error| {
            SegmentError::new(
                Kind::Path,
                format!("{path} cannot be listed: {}", strerror(&error)),
            )
        };
        let mut out = Vec::new();
        for entry in std::fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let data = match std::fs::metadata(entry.path()) {
                Ok(data) => data,
                Err(_) => continue, // deleted meanwhile, or a link to nothing
            };
            // Names that are not UTF-8 are of no segment and no topic.
            let name = entry.file_name().to_string_lossy().into_owned();
            out.push(Found {
                path: format!("{}/{name}", path.trim_end_matches('/')),
                name,
                is_file: data.is_file(),
                size: if data.is_file() { data.len() } else { 0 },
            });
        }
        out.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(out)
    }

    fn size(&self, path: &str) -> Result<u64> {
        let data = std::fs::metadata(path).map_err(|error| SegmentError::io(path, error))?;
        Ok(data.len())
    }

    fn opener(&self) -> Arc<dyn Open> {
        Arc::new(OpenLocal)
    }

    fn is_local(&self) -> bool {
        true
    }
}

/// The system's words for an error, without Rust's "(os error 2)".
pub fn strerror(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}
