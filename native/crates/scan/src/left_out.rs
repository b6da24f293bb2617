//! A path is one broker's store: says which stores inside of it are not read.
//!
//! Several broker processes on one machine have the first broker's store at ROOT, and the others in
//! ROOT/brokers, each in a folder with the name of its broker.

use super::error::Result;
use super::notes::Notes;
use super::path::join;
use super::place::{Place, Shape};
use super::store::SegmentStore;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

const FOLDER: &str = "brokers";
/// Warnings that are remembered: a stream looks at its stores again and again.
const MAX_SAID: usize = 256;
static SAID: Mutex<VecDeque<(String, usize)>> = Mutex::new(VecDeque::new());

/// Warns of the stores of further brokers that are inside of these, and none of them; once for each.
pub fn name_left_out(stores: &[SegmentStore], notes: &Notes) {
    let bases: std::collections::HashSet<&str> = stores.iter().map(|s| &*s.base).collect();
    for store in stores.iter().filter(|store| !store.base.is_empty()) {
        // The store itself can be read.
        let Ok(beside) = stores_beside(&store.base, store.place()) else {
            continue;
        };
        let others = beside.iter().filter(|one| !bases.contains(&***one)).count();
        let folder = join(store.root.trim_end_matches('/'), FOLDER);
        if others == 0 || !is_new(&folder, others) {
            continue;
        }
        notes.warn(format!(
            "{}: the store of one broker is read; the stores of {others} further brokers in \
             {folder} are left out: give each as a path",
            store.root
        ));
    }
}

fn is_new(folder: &str, others: usize) -> bool {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said
        .iter()
        .any(|(known, many)| known == folder && *many == others)
    {
        return false;
    }
    if said.len() >= MAX_SAID {
        said.pop_front();
    }
    said.push_back((folder.to_owned(), others));
    true
}

/// The folders of the stores in ROOT/brokers that have a commit log, by name.
fn stores_beside(root: &str, place: &dyn Place) -> Result<Vec<String>> {
    let folder = join(root, FOLDER);
    if place.shape(&folder)? != Shape::Folder {
        return Ok(Vec::new());
    }
    let mut out = Vec::new();
    for found in place.list(&folder)? {
        let store = join(&folder, &found.name);
        if !found.is_file && has_log(&store, place)? {
            out.push(store);
        }
    }
    Ok(out)
}

fn has_log(store: &str, place: &dyn Place) -> Result<bool> {
    let log = join(store, "commitlog");
    if place.shape(&log)? != Shape::Folder {
        return Ok(false);
    }
    let is_segment = |name: &str| name.len() == 20 && name.bytes().all(|b| b.is_ascii_digit());
    Ok(place
        .list(&log)?
        .iter()
        .any(|f| f.is_file && is_segment(&f.name)))
}
