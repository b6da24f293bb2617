//! Opens what the paths of a read name.

use super::config_folder;
use super::error::{Kind, Part, Result, SegmentError};
use super::folder_names::{nearby, some};
use super::left_out::name_left_out;
use super::named::all_named;
use super::notes::Notes;
use super::path::{base_name, folder_of, join};
use super::place::{Place, PlaceRef, Places, Shape, strerror};
use super::repr;
use super::store::{SegmentStore, in_order, segments, single_files};
use std::collections::BTreeMap;
use std::collections::BTreeSet;

const QUEUE_FOLDERS: [&str; 4] = [
    "consumequeue",
    "batchconsumequeue",
    "consumequeue_ext",
    "timerlog",
];
/// Bytes of an entry's head in a DLedger log.
const DLEDGER_HEAD: usize = 32;
const GIVE_NAMES: [&str; 2] = ["give ", ", one for each path"];

/// The stores at `paths`, one a broker; single files of one folder are one broker's. A path may be a
/// pattern (`glob`).
///
/// `broker_names`: one for each store, in their order; without them what the config folders of the
/// stores say, and the names of the folders where they say nothing.
pub fn open_stores(
    paths: &[String],
    broker_names: &[String],
    places: &dyn Places,
    notes: &Notes,
) -> Result<Vec<SegmentStore>> {
    if paths.is_empty() {
        return Err(wrong("no path is given").hint("name a store, a commitlog folder or segments"));
    }
    let mut stores: Vec<SegmentStore> = Vec::new();
    let mut loose: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in all_named(paths, places)? {
        let (given, place, at, found) = (path.given, path.place, path.at, path.found);
        match path.shape {
            Shape::Folder => stores.push(folder_store(&given, &found, place, at, notes)?),
            Shape::File => {
                let file = match place.is_none() {
                    true => &found,
                    false => given.trim_end_matches('/'),
                };
                let folder = folder_of(file).to_owned();
                if !loose.contains_key(&folder) {
                    stores.push(SegmentStore {
                        root: folder.clone(),
                        place,
                        at,
                        ..SegmentStore::default()
                    });
                }
                loose.entry(folder).or_default().push(found);
            }
            Shape::Nothing => {
                return Err(wrong(format!("{given}: there is no such file or folder"))
                    .hint(nearby(&*at.0, &found)));
            }
        }
    }
    for store in stores.iter_mut().filter(|store| store.files.is_empty()) {
        *store = of_files(store, &loose[&store.root])?;
    }
    name_left_out(&stores, notes);
    if broker_names.is_empty() {
        for store in &mut stores {
            by_its_files(store, notes);
        }
    }
    named(stores, broker_names)
}

fn wrong(text: impl Into<String>) -> SegmentError {
    SegmentError::new(Kind::Path, text.into())
}

/// The store gets the name that it says itself; else that of its folder stays.
fn by_its_files(store: &mut SegmentStore, notes: &Notes) {
    let base = match store.base.is_empty() {
        true => above(store),
        false => store.base.clone(),
    };
    if let Some(name) = config_folder::told_name(store.place(), &base, &store.root, notes) {
        store.folder_name = std::mem::replace(&mut store.name, name);
    }
}

/// The store folder that a commit-log folder, or the folder of single files, is in; "" where it is
/// not named as those in a store are.
fn above(store: &SegmentStore) -> String {
    let folder = match store.folder.is_empty() {
        true => folder_of(&store.files[0].2),
        false => &store.folder,
    };
    let folder = folder.trim_end_matches('/');
    match base_name(folder) {
        "commitlog" => folder_of(folder).to_owned(),
        _ => String::new(),
    }
}

fn folder_store(
    path: &str,
    at_path: &str,
    place: Option<String>,
    at: PlaceRef,
    notes: &Notes,
) -> Result<SegmentStore> {
    let found = at.0.list(at_path)?;
    let folders = found.iter().filter(|f| !f.is_file);
    let names: BTreeSet<String> = folders.map(|f| f.name.clone()).collect();
    if let Some(raft) = names.iter().find(|name| name.starts_with("dledger-")) {
        return Err(dledger(&format!("{path}: {raft}")));
    }
    let trimmed = at_path.trim_end_matches('/');
    let mut name = match base_name(trimmed) {
        "" => "store",
        name => name,
    };
    let mut store = SegmentStore {
        root: path.to_owned(),
        place,
        at,
        ..SegmentStore::default()
    };
    let (files, foreign) = if names.contains("commitlog") {
        store.folder = join(at_path, "commitlog");
        store.base = trimmed.to_owned();
        let listed = segments(store.place().list(&store.folder)?);
        add_queues(&mut store, &names)?;
        listed
    } else {
        if name == "commitlog" {
            name = match base_name(folder_of(at_path)) {
                "" => name,
                above => above,
            };
        }
        let listed = segments(found);
        if listed.0.is_empty() && (names.contains("consumequeue") || names.contains("config")) {
            return Err(wrong(format!(
                "{path}: this is a store without a commitlog folder"
            ))
            .hint("storePathCommitLog lies elsewhere: give that folder"));
        }
        store.folder = at_path.to_owned();
        store.no_queues = "a commit-log folder was given, not a store".to_owned();
        listed
    };
    store.name = name.to_owned();
    if !foreign.is_empty() {
        notes.warn(format!(
            "{}: {} foreign files are left out: {}",
            store.folder,
            foreign.len(),
            some(&foreign)
        ));
    }
    if files.is_empty() {
        return Err(
            wrong(format!("{path}: there are no segments in it")).hint(within(
                store.place(),
                at_path,
                &names,
            )?),
        );
    }
    store.files = in_order(files)?;
    check(&store)?;
    Ok(store)
}

/// Adds queues and index of a store folder; they are read where they are local.
fn add_queues(store: &mut SegmentStore, names: &BTreeSet<String>) -> Result<()> {
    let queues = join(&store.base, "consumequeue");
    let in_database = names.contains("consumequeue_rocksdb")
        || store.place().shape(&join(&queues, "CURRENT"))? == Shape::File;
    let why = if in_database {
        "its queues are in RocksDB, which is not read here"
    } else if store.place.is_some() {
        "its queues are not local files"
    } else {
        if names.contains("index") {
            store.index = Some(join(&store.base, "index"));
        }
        if names.contains("consumequeue") {
            store.queues = Some(queues);
            return Ok(());
        }
        "it has no consumequeue folder"
    };
    store.no_queues = why.to_owned();
    Ok(())
}

fn of_files(store: &SegmentStore, paths: &[String]) -> Result<SegmentStore> {
    let files = in_order(single_files(store.place(), paths)?)?;
    let Some(first) = files.first() else {
        let text = format!("{}: the files named there are empty", store.root);
        return Err(wrong(text));
    };
    let folder = folder_of(&first.2);
    let mut name = base_name(folder);
    if name == "commitlog" {
        let above = base_name(folder_of(folder));
        name = if above.is_empty() { name } else { above };
    }
    let store = SegmentStore {
        name: if name.is_empty() { "store" } else { name }.to_owned(),
        no_queues: "single segments were given, not a store".to_owned(),
        files,
        ..store.clone()
    };
    check(&store)?;
    Ok(store)
}

/// Refuses what can be seen at once to be no commit log.
fn check(store: &SegmentStore) -> Result<()> {
    let path = &store.files[0].2;
    if path.split('/').any(|part| QUEUE_FOLDERS.contains(&part)) {
        let text = format!("{}: these are files of queues, not of the log", store.root);
        return Err(wrong(text).hint("give the store folder or its commitlog folder"));
    }
    if path.split('/').any(|part| part.starts_with("dledger-")) {
        return Err(dledger(&store.root));
    }
    if store.place.is_none() {
        for (_, _, path) in &store.files {
            check_readable(path)?;
        }
    }
    let head = store.place().head(path, 0, DLEDGER_HEAD).map_err(|error| {
        let why = match &error.source {
            Some(source) => strerror(source),
            None => error.to_string(),
        };
        wrong(format!("{path} cannot be read: {why}"))
    })?;
    // [DLedgerEntryCoder: magic 1, size, index, term, pos]
    if head.starts_with(&[0, 0, 0, 1]) && head.get(24..) == Some(&store.first().to_be_bytes()) {
        return Err(dledger(&store.root));
    }
    Ok(())
}

fn check_readable(path: &str) -> Result<()> {
    match std::fs::File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Err(wrong(format!("{path} cannot be read")).hint("its permissions forbid it"))
        }
        _ => Ok(()),
    }
}

fn dledger(place: &str) -> SegmentError {
    SegmentError::new(
        Kind::Layout,
        format!(
            "{place}: a DLedger log wraps each record in an entry of its own, which is not read here"
        ),
    )
    .hint("read it through its broker, or give the commitlog folder of a plain broker")
}

fn named(mut stores: Vec<SegmentStore>, broker_names: &[String]) -> Result<Vec<SegmentStore>> {
    let option = |parts: Vec<Part>| SegmentError::new(Kind::Option, parts);
    let names: Vec<&str> = broker_names.iter().map(|name| name.trim()).collect();
    if !names.is_empty() && names.len() != stores.len() {
        let roots: Vec<_> = stores.iter().map(|s| &*s.root).collect();
        return Err(option(vec![
            Part::Name("broker_names"),
            format!(" has {} names for {} stores: ", names.len(), stores.len()).into(),
            roots.join(", ").into(),
        ])
        .hint("give one for each, in the order of the paths"));
    }
    if names.iter().any(|name| name.is_empty()) {
        let parts = vec![Part::Name("broker_names"), " has an empty name".into()];
        return Err(option(parts));
    }
    for (store, name) in stores.iter_mut().zip(&names) {
        store.name = (*name).to_owned();
    }
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for store in &stores {
        if let Some(before) = seen.insert(&store.name, &store.root) {
            let text = format!(
                "{before} and {} would both be broker {}",
                store.root,
                repr::text(&store.name)
            );
            let [give, one] = GIVE_NAMES.map(Part::from);
            return Err(option(vec![text.into()]).hint([give, Part::Name("broker_names"), one]));
        }
    }
    Ok(stores)
}

/// What to do about a folder that has no segments: a store below it.
fn within(place: &dyn Place, path: &str, names: &BTreeSet<String>) -> Result<String> {
    for name in names.iter().take(100) {
        let store = join(path, name);
        if place.shape(&join(&store, "commitlog"))? == Shape::Folder {
            return Ok(format!("{store} is a store"));
        }
    }
    Ok("a store has a folder commitlog, with files named by 20 digits".to_owned())
}

#[cfg(test)]
#[path = "stores_tests.rs"]
mod tests;
