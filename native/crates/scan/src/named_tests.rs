//! Patterns of paths in folders that are there.

use super::*;
use crate::{LocalPlaces, Notes, open_stores};
use std::fs;

struct Root(tempfile::TempDir);

impl Root {
    /// Stores, each with a segment of its own.
    fn of(stores: &[&str]) -> Self {
        let root = Root(tempfile::tempdir().unwrap());
        for store in stores {
            root.file(&format!("{store}/commitlog/{:020}", 0));
        }
        root
    }

    fn file(&self, name: &str) {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, [7; 10]).unwrap();
    }

    fn at(&self, name: &str) -> String {
        format!("{}/{name}", self.0.path().to_str().unwrap())
    }

    fn named(&self, paths: &[&str]) -> Result<Vec<String>> {
        let paths: Vec<String> = paths.iter().map(|path| self.at(path)).collect();
        let all = all_named(&paths, &LocalPlaces)?;
        let root = self.at("");
        let short = |one: Named| one.found.strip_prefix(&root).unwrap().to_owned();
        Ok(all.into_iter().map(short).collect())
    }

    fn fails(&self, pattern: &str) -> String {
        let error = self.named(&[pattern]).unwrap_err();
        assert_eq!(error.kind, Kind::Path);
        error.with_hint().replace(&self.at(""), "")
    }
}

#[test]
fn stores_that_match() {
    let root = Root::of(&[
        "store-b", "store-a", "other", "deep/1/s", "deep/2/s", ".store-h",
    ]);
    root.file("store-file");
    let of = |pattern: &str| root.named(&[pattern]).unwrap();
    assert_eq!(of("store-[ab]"), ["store-a", "store-b"]);
    assert_eq!(of("store-?"), ["store-a", "store-b"]);
    assert_eq!(of("store-*"), ["store-a", "store-b", "store-file"]);
    assert_eq!(of("{store-b,none,other}"), ["other", "store-b"]);
    assert_eq!(
        of("{store-a,store-*}"),
        ["store-a", "store-b", "store-file"]
    );
    assert_eq!(of("deep/*/s"), ["deep/1/s", "deep/2/s"]);
    assert_eq!(
        of("{store-a,deep/[12]/s}"),
        ["deep/1/s", "deep/2/s", "store-a"]
    );
    assert_eq!(of(".store-*"), [".store-h"]);
    // A file has nothing below it.
    assert_eq!(of("*/commitlog").len(), 3);
    assert_eq!(
        root.named(&["other", "store-[b]"]).unwrap(),
        ["other", "store-b"]
    );
    let paths = [root.at("store-[ab]")];
    let opened = |paths: &[String]| open_stores(paths, &[], &LocalPlaces, &Notes::default());
    let stores = opened(&paths).unwrap();
    let names: Vec<&str> = stores.iter().map(|store| &*store.name).collect();
    assert_eq!(names, ["store-a", "store-b"]);
    assert_eq!(stores[0].root, root.at("store-a"));
    let files = opened(&[root.at("store-a/commitlog/0*")]).unwrap();
    assert_eq!((files.len(), files[0].files.len()), (1, 1));
    let uri = format!("file://{}", root.at("store-[b]"));
    assert_eq!(opened(&[uri]).unwrap()[0].root, root.at("store-b"));
}

#[test]
fn a_path_that_is_there_is_itself() {
    let root = Root::of(&["s[1]", "s1", "s*", "sx"]);
    let of = |pattern: &str| root.named(&[pattern]).unwrap();
    assert_eq!(of("s[1]"), ["s[1]"]);
    assert_eq!(of("s*"), ["s*"]);
    assert_eq!(of(r"s\[1]*"), ["s[1]"]);
    assert_eq!(of("s[x1]"), ["s1", "sx"]);
    let paths = [root.at("s[1]"), root.at("s[x1]")];
    let all = expanded(&paths, &LocalPlaces).unwrap();
    assert_eq!(all, [root.at("s[1]"), root.at("s1"), root.at("sx")]);
    assert_eq!(expanded(&all, &LocalPlaces).unwrap(), all);
    let none = [root.at("none")];
    assert_eq!(expanded(&none, &LocalPlaces).unwrap(), none);
}

#[test]
fn a_pattern_without_a_match() {
    let root = Root::of(&["a", "b"]);
    assert_eq!(
        root.fails("store-*")
            .replace(&root.at("")[..root.at("").len() - 1], "ROOT"),
        "store-*: nothing matches this pattern (in ROOT there is a, b)"
    );
    assert!(root.fails("none/*").contains("none is not there"));
    assert!(root.fails("{c,d}").starts_with("{c,d}: nothing matches"));
    assert_eq!(
        root.fails("a/[x"),
        "a/[x: there is no such path, and as a pattern it is wrong: a [ has no ]"
    );
    assert!(root.fails("{x").ends_with("it is wrong: a { has no }"));
    assert!(
        root.fails(&"*".repeat(5000))
            .ends_with("it has more than 4096 bytes")
    );
}

#[test]
fn a_uri_says_its_file_system_first() {
    let error = all_named(&["s3://bucket-*/a".to_owned()], &LocalPlaces)
        .err()
        .unwrap();
    assert!(
        error
            .with_hint()
            .contains("name the host or bucket as it is")
    );
    let error = all_named(&["s3://bucket/a-*".to_owned()], &LocalPlaces)
        .err()
        .unwrap();
    assert!(
        error.with_hint().contains("only local files"),
        "{}",
        error.with_hint()
    );
}

/// A place without end.
struct Endless;

impl Place for Endless {
    fn shape(&self, _: &str) -> Result<Shape> {
        Ok(Shape::Folder)
    }

    fn list(&self, path: &str) -> Result<Vec<crate::Found>> {
        let found = |n: u32| crate::Found {
            path: format!("{path}/{n}"),
            name: n.to_string(),
            is_file: false,
            size: 0,
        };
        Ok((0..200).map(found).collect())
    }

    fn size(&self, _: &str) -> Result<u64> {
        Ok(0)
    }

    fn opener(&self) -> Arc<dyn pyrmq_arrow::Open> {
        Arc::new(pyrmq_arrow::OpenLocal)
    }
}

#[test]
fn what_matches_is_bounded() {
    let matching = |pattern: &str| Matching {
        given: "*",
        place: None,
        at: Arc::new(Endless),
        front: None,
        pattern: pattern.to_owned(),
    };
    let fails = |pattern: &str, names: usize| {
        let found = matching(pattern).all(&mut { names });
        found.err().unwrap().to_string()
    };
    assert_eq!(fails("/*/*", MAX_NAMES), "*: more than 10000 paths match");
    let names = fails("/*/*/none*", 300);
    assert!(names.contains("names are compared"), "{names}");
    assert_eq!(matching("/*").all(&mut { MAX_NAMES }).unwrap().len(), 200);
}
