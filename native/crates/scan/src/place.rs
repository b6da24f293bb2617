//! Where files are: the local file system, or one that the caller brings (pyarrow's and fsspec's in
//! Python). A description of the latter travels with tasks as text that only the caller understands.

use super::error::{Kind, Result, SegmentError};
use pyrmq_arrow::{Open, OpenLocal};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
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
            let name = printable(&entry.file_name());
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

/// A name whose bytes that are not UTF-8 are shown as Python shows them.
fn printable(name: &OsStr) -> String {
    let mut out = String::with_capacity(name.len());
    for chunk in name.as_bytes().utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(
            chunk
                .invalid()
                .iter()
                .map(|byte| format!("\\udc{byte:02x}")),
        );
    }
    out
}

/// The system's words for an error, without Rust's "(os error 2)".
pub fn strerror(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// The place of a store. Two stores are equal wherever they are: what tells places apart travels with
/// the store by name.
#[derive(Clone)]
pub struct PlaceRef(pub Arc<dyn Place>);

impl Default for PlaceRef {
    fn default() -> Self {
        PlaceRef(Arc::new(Local))
    }
}

impl PartialEq for PlaceRef {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for PlaceRef {}

impl std::fmt::Debug for PlaceRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_local() { "local" } else { "remote" })
    }
}

/// The local file system alone: paths and `file:` URIs.
pub struct LocalPlaces;

impl Places for LocalPlaces {
    fn place(&self, path: &str) -> Result<(Option<String>, Arc<dyn Place>, String)> {
        match local_path(path)? {
            Some(local) => Ok((None, Arc::new(Local), local)),
            None => Err(remote(path)),
        }
    }

    fn named(&self, name: &str) -> Result<Arc<dyn Place>> {
        Err(remote(name))
    }
}

fn remote(path: &str) -> SegmentError {
    SegmentError::new(
        Kind::Path,
        format!("{path}: only local files and file: URIs are read here"),
    )
    .hint(
        "the reader in Python opens other URIs, through pyarrow or fsspec: use it, or mount the \
         store as a folder",
    )
}

/// The local path of a path or of a `file:` URI; None for another URI.
pub fn local_path(path: &str) -> Result<Option<String>> {
    let scheme = match path.split_once(':') {
        Some((scheme, _)) if path.contains("://") || scheme == "file" => scheme,
        _ => return Ok(Some(path.to_owned())),
    };
    let named = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    if !named {
        return Ok(Some(path.to_owned()));
    }
    if !scheme.eq_ignore_ascii_case("file") {
        return Ok(None);
    }
    // All of it: # and ? are signs as others in the name of a file.
    let rest = &path["file:".len()..];
    let local = match rest.strip_prefix("//") {
        None => rest,
        Some(behind) => {
            let host = behind.split(['/', '?', '#']).next().unwrap_or("");
            if !matches!(host, "" | "localhost") {
                return Err(SegmentError::new(
                    Kind::Path,
                    format!("{path}: file URIs have three slashes: file:///folder"),
                ));
            }
            &behind[host.len()..]
        }
    };
    Ok(Some(unquoted(local)))
}

/// A text with its `%41` as characters. What is no UTF-8 then stays a replacement character.
fn unquoted(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes
            .get(at + 1..at + 3)
            .filter(|code| bytes[at] == b'%' && code.iter().all(u8::is_ascii_hexdigit))
            .and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        out.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_uris() {
        let local = |path: &str| local_path(path).unwrap();
        assert_eq!(local("/a b%41").as_deref(), Some("/a b%41"));
        assert_eq!(local("file:///a%20b?c#d").as_deref(), Some("/a b?c#d"));
        assert_eq!(local("file://localhost/a").as_deref(), Some("/a"));
        assert_eq!(local("file:/a%4").as_deref(), Some("/a%4"));
        assert_eq!(local("rel:ative").as_deref(), Some("rel:ative"));
        assert_eq!(local("s3://bucket/a"), None);
        let error = local_path("file://host/a").unwrap_err();
        assert!(error.to_string().contains("three slashes"), "{error}");
    }

    #[test]
    fn other_uris_name_the_reader_that_opens_them() {
        let error = LocalPlaces.place("s3://bucket/a").err().unwrap();
        assert_eq!(error.kind, Kind::Path);
        assert!(error.to_string().starts_with("s3://bucket/a: only local"));
        let hint = SegmentError::rendered(error.hint.as_deref().unwrap(), |n, _| n.to_owned());
        assert!(hint.contains("reader in Python"), "{hint}");
    }

    #[test]
    fn a_listing_is_sorted_and_has_sizes() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("b"), "123").unwrap();
        std::fs::create_dir(dir.path().join("a")).unwrap();
        let root = dir.path().to_str().unwrap();
        let found = LOCAL.list(root).unwrap();
        let seen: Vec<_> = found
            .iter()
            .map(|f| (&*f.name, f.is_file, f.size))
            .collect();
        assert_eq!(seen, [("a", false, 0), ("b", true, 3)]);
        assert_eq!(found[1].path, format!("{root}/b"));
        let error = LOCAL.list(&format!("{root}/c")).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{root}/c cannot be listed: No such file or directory")
        );
    }
}
