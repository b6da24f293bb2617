//! What the paths of a read name: files and folders that are there, also by a pattern (`glob`).
//!
//! A path that exists is itself, also if it has signs of a pattern. A pattern that matches nothing is
//! an error.

use super::error::{Kind, Result, SegmentError};
use super::folder_names::nearby;
use super::glob::{self, Part};
use super::path::{absolute, join};
use super::place::{Place, PlaceRef, Places, Shape};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Files and folders that all patterns of a read match.
const MAX_MATCHES: usize = 10_000;
/// Names that are compared for them.
const MAX_NAMES: usize = 1_000_000;

/// One file or folder, or the path of none.
pub(crate) struct Named {
    /// As it was given, or could have been without a pattern.
    pub given: String,
    pub place: Option<String>,
    pub at: PlaceRef,
    /// The path on its place.
    pub found: String,
    pub shape: Shape,
}

/// What the paths name, in their order; what a pattern matches is sorted.
pub(crate) fn all_named(paths: &[String], places: &dyn Places) -> Result<Vec<Named>> {
    let mut names = MAX_NAMES;
    let mut out = Vec::new();
    for path in paths {
        let has_signs = glob::has_signs(without_query(path).0);
        match itself(path, places) {
            Ok(one) if one.shape != Shape::Nothing || !has_signs => out.push(one),
            // Signs of a pattern may be wrong in a URI.
            Err(error) if !has_signs || !is_uri(path) || front_of(path).is_none() => {
                return Err(error);
            }
            _ => {
                let matched = Matching::new(path, places)?.all(&mut names)?;
                if out.len() + matched.len() > MAX_MATCHES {
                    return Err(too_many(path, MAX_MATCHES, "paths"));
                }
                out.extend(matched);
            }
        }
    }
    Ok(out)
}

/// The paths without patterns, so that a later read is of the same stores.
pub fn expanded(paths: &[String], places: &dyn Places) -> Result<Vec<String>> {
    if !paths.iter().any(|path| glob::has_signs(path)) {
        return Ok(paths.to_vec());
    }
    let all = all_named(paths, places)?;
    Ok(all.into_iter().map(|one| one.given).collect())
}

fn is_uri(path: &str) -> bool {
    path.contains("://") && !path.starts_with("file:")
}

/// A URI and its query, such as `?region=eu-1`, which says how the file system is opened.
fn without_query(given: &str) -> (&str, &str) {
    let is_query = |at: &usize| {
        let name = given[at + 1..].split_once('=').map_or("", |pair| pair.0);
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let mut marks = given.match_indices('?').map(|found| found.0);
    match marks.find(is_query).filter(|_| is_uri(given)) {
        Some(at) => given.split_at(at),
        None => (given, ""),
    }
}

/// Of a URI with a pattern what is before that; None if the pattern is in the host or bucket.
fn front_of(given: &str) -> Option<(&str, &str)> {
    let parts = glob::at_first_sign(without_query(given).0);
    (!parts.0.ends_with("://")).then_some(parts)
}

fn itself(given: &str, places: &dyn Places) -> Result<Named> {
    let (place, at, mut found) = places.place(given)?;
    if place.is_none() {
        found = absolute(&found).map_err(|error| SegmentError::io(given, error))?;
    }
    Ok(Named {
        shape: at.shape(&found)?,
        given: given.to_owned(),
        place,
        at: PlaceRef(at),
        found,
    })
}

fn too_many(given: &str, most: usize, what: &str) -> SegmentError {
    let text = format!("{given}: more than {most} {what} match");
    SegmentError::new(Kind::Path, text).hint("name fewer folders by a pattern")
}

/// A pattern on a place.
struct Matching<'a> {
    given: &'a str,
    place: Option<String>,
    at: Arc<dyn Place>,
    /// Of a URI what says which file system it is.
    front: Option<Front<'a>>,
    pattern: String,
}

struct Front<'a> {
    /// What is before the pattern, and where that is on the place.
    uri: &'a str,
    folder: String,
    query: &'a str,
}

impl<'a> Matching<'a> {
    fn new(given: &'a str, places: &dyn Places) -> Result<Self> {
        if !is_uri(given) {
            let (place, at, pattern) = places.place(given)?;
            return Ok(Matching {
                given,
                place,
                at,
                front: None,
                pattern,
            });
        }
        let Some((uri, pattern)) = front_of(given) else {
            let text = format!("{given}: a pattern cannot say which file system it is on");
            return Err(SegmentError::new(Kind::Path, text)
                .hint("name the host or bucket as it is, and what is behind it by a pattern"));
        };
        let query = without_query(given).1;
        let (place, at, folder) = places.place(&format!("{uri}{query}"))?;
        Ok(Matching {
            given,
            place,
            at,
            front: Some(Front { uri, folder, query }),
            pattern: pattern.to_owned(),
        })
    }

    fn all(&self, names: &mut usize) -> Result<Vec<Named>> {
        let wrong = |why: String| {
            let text = format!("{}: there is no such path, and as a pattern", self.given);
            SegmentError::new(Kind::Path, format!("{text} it is wrong: {why}"))
        };
        let mut out = BTreeMap::new();
        let mut above = None;
        for one in glob::alternatives(&self.pattern).map_err(wrong)? {
            let (folder, parts) = glob::parts(&one).map_err(wrong)?;
            let folder = match &self.front {
                Some(front) => join(&front.folder, folder.trim_start_matches('/')),
                None => absolute(&folder).map_err(|error| SegmentError::io(self.given, error))?,
            };
            self.walk(folder.clone(), &parts, names, &mut out)?;
            above.get_or_insert(match parts.is_empty() {
                true => folder,
                false => join(&folder, "*"),
            });
        }
        if out.is_empty() {
            let text = format!("{}: nothing matches this pattern", self.given);
            return Err(SegmentError::new(Kind::Path, text)
                .hint(nearby(&*self.at, &above.unwrap_or_default())));
        }
        Ok(out.into_iter().map(|of| self.named(of)).collect())
    }

    fn named(&self, (found, shape): (String, Shape)) -> Named {
        let given = match &self.front {
            Some(front) => {
                let rest = found.strip_prefix(&*front.folder).unwrap_or(&found);
                join(front.uri, rest.trim_start_matches('/')) + front.query
            }
            None => found.clone(),
        };
        Named {
            given,
            place: self.place.clone(),
            at: PlaceRef(self.at.clone()),
            found,
            shape,
        }
    }

    /// Adds what is in a folder under names like these.
    fn walk(
        &self,
        folder: String,
        parts: &[Part],
        names: &mut usize,
        out: &mut BTreeMap<String, Shape>,
    ) -> Result<()> {
        let Some((part, rest)) = parts.split_first() else {
            let shape = self.at.shape(&folder)?;
            if shape != Shape::Nothing {
                out.insert(folder, shape);
            }
            return match out.len() > MAX_MATCHES {
                true => Err(too_many(self.given, MAX_MATCHES, "paths")),
                false => Ok(()),
            };
        };
        let like = match part {
            Part::Name(name) => return self.walk(join(&folder, name), rest, names, out),
            Part::Like(like) => like,
        };
        if self.at.shape(&folder)? != Shape::Folder {
            return Ok(());
        }
        for one in self.at.list(&folder)? {
            *names = names.checked_sub(1).ok_or_else(|| {
                too_many(self.given, MAX_NAMES, "names are compared to see which")
            })?;
            if like.matches(&one.name) && (rest.is_empty() || !one.is_file) {
                self.walk(one.path, rest, names, out)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "named_tests.rs"]
mod tests;
