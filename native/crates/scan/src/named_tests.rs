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
    let fails = |path: &str| {
        let all = all_named(&[path.to_owned()], &LocalPlaces);
        all.err().unwrap().with_hint()
    };
    for path in ["s3://bucket-*/a", "s3://bucket/a-*"] {
        assert!(fails(path).contains("only local files"), "{}", fails(path));
    }
    let error = Matching::new("s3://bucket-*/a", &LocalPlaces)
        .err()
        .unwrap();
    assert!(
        error
            .with_hint()
            .contains("name the host or bucket as it is")
    );
}

/// The local files as those of a bucket.
struct Far(String);

impl Places for Far {
    fn place(&self, path: &str) -> Result<(Option<String>, Arc<dyn Place>, String)> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let Some(inner) = path
            .strip_prefix("far://bucket/")
            .filter(|p| !p.contains('*'))
        else {
            return Err(SegmentError::new(Kind::Path, format!("{path}: no URI")));
        };
        let found = format!("{}{}", self.0, inner.trim_end_matches('/'));
        Ok((Some(format!("far {query}")), Arc::new(crate::Local), found))
    }

    fn named(&self, _: &str) -> Result<Arc<dyn Place>> {
        Ok(Arc::new(crate::Local))
    }
}

#[test]
fn patterns_of_uris() {
    let root = Root::of(&["d/store-a", "d/store-b"]);
    let far = Far(root.at(""));
    let of = |path: &str| {
        let all = all_named(&[path.to_owned()], &far)?;
        let shown = |one: Named| (one.given, one.place.unwrap());
        Ok::<_, SegmentError>(all.into_iter().map(shown).collect::<Vec<_>>())
    };
    let own = |given: &str, place: &str| (given.to_owned(), place.to_owned());
    assert_eq!(
        of("far://bucket/d/store-*").unwrap(),
        [
            own("far://bucket/d/store-a", "far "),
            own("far://bucket/d/store-b", "far ")
        ]
    );
    assert_eq!(
        of("far://bucket/d/{store-[b],none}?region=x").unwrap(),
        [own("far://bucket/d/store-b?region=x", "far region=x")]
    );
    // A query alone is no pattern.
    let gone = all_named(&["far://bucket/none?region=x".to_owned()], &far).unwrap();
    assert!(gone[0].shape == Shape::Nothing);
    let error = of("far://bucket/d/x-*").unwrap_err().with_hint();
    assert!(error.ends_with("there is store-a, store-b)"), "{error}");
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
