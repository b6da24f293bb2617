//! Stores of files that are there, are missing, or are something else.

use super::*;
use crate::LocalPlaces;
use crate::notes::Level;
use std::fs;
use std::path::Path;

struct Root(tempfile::TempDir);

impl Root {
    fn new() -> Self {
        Root(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.path())
    }

    fn file(&self, name: &str, bytes: usize) -> String {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, vec![7; bytes]).unwrap();
        self.at(name)
    }

    /// A segment of a store.
    fn segment(&self, store: &str, base: u64, bytes: usize) -> String {
        self.file(&format!("{store}/commitlog/{base:020}"), bytes)
    }
}

fn open(paths: &[&str], names: &[&str]) -> Result<Vec<SegmentStore>> {
    let own = |all: &[&str]| all.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    open_stores(&own(paths), &own(names), &LocalPlaces, &Notes::default())
}

fn fails(paths: &[&str], names: &[&str]) -> (Kind, String) {
    let error = open(paths, names).unwrap_err();
    let shown = |name: &str, _: Option<&str>| format!("<{name}>");
    let text = SegmentError::rendered(&error.text, shown);
    let hint = error.hint.map(|hint| SegmentError::rendered(&hint, shown));
    (error.kind, format!("{text} ({})", hint.unwrap_or_default()))
}

#[test]
fn a_store_folder() {
    let root = Root::new();
    let second = root.segment("s", 100, 50);
    let first = root.segment("s", 0, 100);
    root.segment("s", 150, 0); // made ahead
    fs::create_dir_all(root.at("s/consumequeue/T")).unwrap();
    fs::create_dir_all(root.at("s/index")).unwrap();
    let path = root.at("s");
    let store = open(&[&path], &[]).unwrap().remove(0);
    assert_eq!(store.files, [(0, 100, first), (100, 50, second)]);
    assert_eq!(
        (store.name.as_str(), store.root.as_str()),
        ("s", path.as_str())
    );
    assert_eq!(store.queues, Some(root.at("s/consumequeue")));
    assert_eq!(store.index, Some(root.at("s/index")));
    assert_eq!((store.first(), store.last()), (0, 150));
    let topics = store.topics(&Notes::default()).unwrap().unwrap();
    assert_eq!(topics.into_iter().collect::<Vec<_>>(), ["T"]);
    let text = serde_json::to_string(&store).unwrap();
    assert_eq!(serde_json::from_str::<SegmentStore>(&text).unwrap(), store);
    fs::remove_file(&store.files[0].2).unwrap();
    let third = root.segment("s", 150, 9);
    let again = store.relisted().unwrap();
    assert_eq!(again.files, [store.files[1].clone(), (150, 9, third)]);
    fs::remove_dir_all(root.at("s/commitlog")).unwrap();
    fs::create_dir(root.at("s/commitlog")).unwrap();
    let gone = store.relisted().unwrap_err().to_string();
    assert_eq!(gone, format!("{path}: all of its segments are deleted"));
}

#[test]
fn a_log_folder_and_single_files() {
    let root = Root::new();
    let first = root.segment("s", 0, 100);
    let second = root.segment("s", 100, 100);
    root.file("s/config/brokerName.json", 0);
    fs::write(
        root.at("s/config/brokerName.json"),
        r#"{"brokerName": "own"}"#,
    )
    .unwrap();
    let log = root.at("s/commitlog");
    for paths in [vec![log.as_str()], vec![&second, &first, &second]] {
        let stores = open(&paths, &[]).unwrap();
        let [store] = &stores[..] else {
            panic!("{stores:?}");
        };
        assert_eq!(
            (store.name.as_str(), store.folder_name.as_str()),
            ("own", "s")
        );
        assert_eq!(store.files.len(), 2);
        assert_eq!(store.queues, None);
        assert!(
            store.no_queues.ends_with("not a store"),
            "{}",
            store.no_queues
        );
        assert_eq!(store.relisted().unwrap().files, store.files);
        assert_eq!(store.topics(&Notes::default()).unwrap(), None);
    }
    let named = open(&[&log], &["given"]).unwrap().remove(0);
    assert_eq!(
        (named.name.as_str(), named.folder_name.as_str()),
        ("given", "")
    );
}

#[test]
fn what_is_no_store() {
    let root = Root::new();
    let path = root.path();
    fs::create_dir_all(root.at("empty")).unwrap();
    root.segment("in/s", 0, 10);
    root.file("queue/consumequeue/T/0/00000000000000000000", 20);
    root.file("other/x", 3);
    root.file("lap/commitlog/00000000000000000000", 100);
    root.file("lap/commitlog/00000000000000000050", 100);
    root.file("raft/dledger-n0/data/00000000000000000000", 9);
    for (given, kind, text) in [
        (
            "gone",
            Kind::Path,
            format!(
                "{path}/gone: there is no such file or folder (in {path} there is empty, in, lap, …)"
            ),
        ),
        (
            "gone/deep",
            Kind::Path,
            format!(
                "{path}/gone/deep: there is no such file or folder ({path}/gone is not there either)"
            ),
        ),
        (
            "empty",
            Kind::Path,
            format!(
                "{path}/empty: there are no segments in it (a store has a folder commitlog, with \
                 files named by 20 digits)"
            ),
        ),
        (
            "in",
            Kind::Path,
            format!("{path}/in: there are no segments in it ({path}/in/s is a store)"),
        ),
        (
            "queue",
            Kind::Path,
            format!(
                "{path}/queue: this is a store without a commitlog folder (storePathCommitLog lies \
                 elsewhere: give that folder)"
            ),
        ),
        (
            "queue/consumequeue/T/0",
            Kind::Path,
            format!(
                "{path}/queue/consumequeue/T/0: these are files of queues, not of the log (give the \
                 store folder or its commitlog folder)"
            ),
        ),
        (
            "other/x",
            Kind::Path,
            format!(
                "{path}/other/x is not named as a segment is (the name is the physical offset of its \
                 first byte in 20 digits)"
            ),
        ),
        (
            "lap",
            Kind::Path,
            format!(
                "{path}/lap/commitlog/00000000000000000000 has 100 bytes, but \
                 {path}/lap/commitlog/00000000000000000050 begins before its end (these are not the \
                 segments of one log)"
            ),
        ),
        (
            "raft",
            Kind::Layout,
            format!(
                "{path}/raft: dledger-n0: a DLedger log wraps each record in an entry of its own, \
                 which is not read here (read it through its broker, or give the commitlog folder of \
                 a plain broker)"
            ),
        ),
    ] {
        assert_eq!(fails(&[&root.at(given)], &[]), (kind, text));
    }
    assert_eq!(
        fails(&[], &[]).1,
        "no path is given (name a store, a commitlog folder or segments)"
    );
}

#[test]
fn a_log_of_another_kind() {
    let root = Root::new();
    let path = root.segment("s", 0, 64);
    let mut head = vec![0; 64];
    head[3] = 1;
    fs::write(path, head).unwrap();
    assert_eq!(fails(&[&root.at("s")], &[]).0, Kind::Layout);
}

#[test]
fn names_of_brokers() {
    let root = Root::new();
    root.segment("a/s", 0, 10);
    root.segment("b/s", 0, 10);
    let paths = [root.at("a/s"), root.at("b/s")];
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let twice = format!(
        "{} and {} would both be broker 's' (give <broker_names>, one for each path)",
        paths[0], paths[1]
    );
    assert_eq!(fails(&paths, &[]), (Kind::Option, twice));
    let few = format!(
        "<broker_names> has 1 names for 2 stores: {}, {} (give one for each, in the order of the paths)",
        paths[0], paths[1]
    );
    assert_eq!(fails(&paths, &["x"]).1, few);
    assert_eq!(
        fails(&paths, &["x", " "]).1,
        "<broker_names> has an empty name ()"
    );
    let stores = open(&paths, &["x", " y "]).unwrap();
    assert_eq!([&stores[0].name, &stores[1].name], ["x", "y"]);
}

#[test]
fn foreign_files_and_stores_beside_are_named_once() {
    let root = Root::new();
    root.segment("s", 0, 10);
    for name in ["a", "b", "c", "d"] {
        root.file(&format!("s/commitlog/{name}"), 1);
    }
    root.segment("s/brokers/other", 0, 10);
    fs::create_dir_all(root.at("s/brokers/none")).unwrap();
    let path = root.at("s");
    let warnings = || {
        let notes = Notes::default();
        open_stores(
            std::slice::from_ref(&path),
            &["b".to_owned()],
            &LocalPlaces,
            &notes,
        )
        .unwrap();
        let all = notes.take().into_iter();
        all.filter(|note| note.0 == Level::Warning)
            .map(|note| note.1)
            .collect::<Vec<_>>()
    };
    let foreign = format!("{path}/commitlog: 4 foreign files are left out: a, b, c, …");
    let beside = format!(
        "{path}: the store of one broker is read; the stores of 1 further brokers in {path}/brokers \
         are left out: give each as a path"
    );
    assert_eq!(warnings(), [foreign.clone(), beside]);
    assert_eq!(warnings(), [foreign]);
}

#[test]
fn relative_paths_are_those_of_this_process() {
    let root = Root::new();
    root.segment("s", 0, 10);
    let uri = format!("file://{}", root.at("s/../s/"));
    let store = open(&[&uri], &["b"]).unwrap().remove(0);
    assert_eq!(store.root, uri);
    assert_eq!(store.folder, root.at("s/commitlog"));
    assert!(Path::new(&store.files[0].2).is_absolute());
}
