use super::*;
use proptest::prelude::*;
use pyrmq_format::index::{Entry, key_hash, message_keys, topic_seed};
use pyrmq_format::record::{Found, read, sys_flag};
use std::sync::atomic::AtomicU64;

const SLOTS: u32 = 4;
const ENTRIES: u32 = 8;
const ALL: (i64, i64) = (0, i64::MAX);

fn open(dir: &Path) -> Index {
    Index::open(IndexConfig {
        dir: dir.to_owned(),
        slots: SLOTS,
        entries: ENTRIES,
    })
    .unwrap()
}

fn paths(index: &Index) -> Vec<PathBuf> {
    let files = index.files.load_full();
    files.iter().map(|f| f.path().to_owned()).collect()
}

/// Puts `n` messages: offset i * 100, time (i + 1) seconds, key hash 1.
fn filled(dir: &Path, n: u64) -> Index {
    let index = open(dir);
    assert_eq!(index.recover(true, 0).unwrap(), None);
    for i in 0..n {
        index.put(1, i * 100, (i as i64 + 1) * 1000).unwrap();
    }
    index
}

#[test]
fn rolls_finds_and_says_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("index");
    let index = open(&path);
    assert!(index.is_empty() && index.query(1, 9, 0, i64::MAX).unwrap().is_empty());
    assert!(!path.exists());
    assert_eq!(index.last_update().unwrap(), (0, 0));
    drop(index);
    let index = filled(&path, 20);
    assert_eq!(index.len(), 3);
    let names = paths(&index);
    assert!(names.is_sorted() && names.iter().all(|p| p.exists()));
    assert_eq!(index.last_update().unwrap(), (20_000, 1900));
    let newest_first: Vec<u64> = (0..20).rev().map(|i| i * 100).collect();
    assert_eq!(index.query(1, 64, ALL.0, ALL.1).unwrap(), newest_first);
    assert_eq!(index.query(1, 9, ALL.0, ALL.1).unwrap(), newest_first[..9]);
    assert_eq!(index.query(1, 9, 5000, 6000).unwrap(), [500, 400]);
    drop(index);
    let index = open(&path);
    assert_eq!(index.recover(true, 0).unwrap(), Some(1900));
    assert_eq!(index.query(1, 64, ALL.0, ALL.1).unwrap(), newest_first);
    drop(index);
    let index = filled_more(&path, 20..100);
    assert_eq!(index.query(1, 1000, ALL.0, ALL.1).unwrap().len(), 100);
}

fn filled_more(path: &Path, range: std::ops::Range<u64>) -> Index {
    let index = open(path);
    index.recover(true, 0).unwrap();
    for i in range {
        index.put(1, i * 100, (i as i64 + 1) * 1000).unwrap();
    }
    index
}

#[test]
fn a_file_that_begins_before_the_range_is_the_last_one_asked() {
    let dir = tempfile::tempdir().unwrap();
    let index = filled(dir.path(), 7);
    // The clock was set back: the second file begins before the first one ends.
    index.put(1, 700, 3000).unwrap();
    index.put(1, 800, 6000).unwrap();
    assert_eq!(index.query(1, 9, 3000, 7000).unwrap()[..3], [800, 700, 600]);
    assert_eq!(index.query(1, 9, 3001, 7000).unwrap(), [800]);
}

#[test]
fn flush_reports_full_files_only() {
    let dir = tempfile::tempdir().unwrap();
    let index = filled(dir.path(), 6);
    assert_eq!(index.flush(false).unwrap(), None);
    assert_eq!(index.flush(true).unwrap(), None);
    index.put(1, 600, 7000).unwrap();
    assert_eq!(index.flush(false).unwrap(), Some(7000));
    assert_eq!(index.flush(false).unwrap(), None);
    for i in 7..22 {
        index.put(1, i * 100, (i as i64 + 1) * 1000).unwrap();
    }
    assert_eq!(index.flush(false).unwrap(), Some(21_000));
    assert_eq!(index.finished_time(), 21_000);
}

#[test]
fn after_a_crash_only_finished_files_count() {
    let dir = tempfile::tempdir().unwrap();
    // Files end at 7, 14 and 20 seconds.
    drop(filled(dir.path(), 20));
    let index = open(dir.path());
    assert_eq!(index.recover(false, 14_000).unwrap(), Some(1300));
    assert_eq!((index.len(), index.finished_time()), (2, 14_000));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    drop(index);
    let index = open(dir.path());
    assert_eq!(index.recover(false, 13_999).unwrap(), Some(600));
    assert_eq!((index.len(), index.finished_time()), (1, 7000));
    drop(index);
    let index = open(dir.path());
    assert_eq!(index.recover(false, 0).unwrap(), None);
    assert_eq!((index.len(), index.finished_time()), (0, 0));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn nothing_is_kept_behind_a_damaged_file() {
    let dir = tempfile::tempdir().unwrap();
    let index = filled(dir.path(), 20);
    let names = paths(&index);
    drop(index);
    std::fs::write(&names[1], b"short").unwrap();
    std::fs::write(dir.path().join("notes.txt"), b"mine").unwrap();
    std::fs::create_dir(dir.path().join("20260101000000000")).unwrap();
    let index = open(dir.path());
    assert_eq!(index.recover(true, 14_000).unwrap(), Some(600));
    assert_eq!(paths(&index), names[..1]);
    assert_eq!(index.finished_time(), 7000);
    assert!(!names[1].exists() && !names[2].exists());
    assert_eq!(
        std::fs::read(dir.path().join("notes.txt")).unwrap(),
        b"mine"
    );
    // A name that was taken once is not taken again.
    index.put(1, 700, 8000).unwrap();
    assert!(paths(&index)[1] > names[2]);
    assert_eq!(index.query(1, 9, 0, i64::MAX).unwrap()[..2], [700, 600]);
}

#[test]
fn nothing_is_known_of_messages_that_the_log_lost() {
    let dir = tempfile::tempdir().unwrap();
    let index = filled(dir.path(), 20);
    index.flush(true).unwrap();
    assert_eq!(index.truncate_phys(1901).unwrap(), Some(1900));
    assert_eq!(index.len(), 3);
    assert_eq!(index.truncate_phys(1900).unwrap(), Some(1300));
    assert_eq!((index.len(), index.finished_time()), (2, 14_000));
    assert_eq!(index.truncate_phys(700).unwrap(), Some(600));
    assert_eq!((index.len(), index.finished_time()), (1, 7000));
    assert_eq!(index.truncate_phys(0).unwrap(), None);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn trim_keeps_the_last_and_what_may_be_needed() {
    let dir = tempfile::tempdir().unwrap();
    let index = filled(dir.path(), 20);
    assert_eq!(index.trim(600).unwrap(), 0);
    assert_eq!(index.trim(601).unwrap(), 1);
    assert_eq!(index.query(1, 64, 0, i64::MAX).unwrap().len(), 13);
    let kept = index.files.load_full();
    assert_eq!(index.trim(u64::MAX).unwrap(), 1);
    assert_eq!(index.len(), 1);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(kept[0].end_phys(), 1300, "a file in use stays readable");
    assert_eq!(index.trim(u64::MAX).unwrap(), 0);
}

#[test]
fn impossible_shapes() {
    for (slots, entries) in [(0, 8), (8, 1), (1, u32::MAX)] {
        let dir = PathBuf::from("/nonexistent");
        let cfg = IndexConfig {
            dir,
            slots,
            entries,
        };
        assert!(matches!(Index::open(cfg), Err(StoreError::Illegal(_))));
    }
}

#[test]
fn readers_see_whole_entries_while_one_writes() {
    const KEYS: u64 = 23;
    let dir = tempfile::tempdir().unwrap();
    let index = Index::open(IndexConfig {
        dir: dir.path().to_owned(),
        slots: 5,
        entries: 3000,
    })
    .unwrap();
    let done = AtomicU64::new(0);
    const TOTAL: u64 = 20_000;
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (index, done) = (&index, &done);
            scope.spawn(move || {
                let mut key = reader;
                while done.load(Ordering::Acquire) < TOTAL {
                    key = (key + 7) % KEYS;
                    let put = done.load(Ordering::Acquire);
                    let hits = index.query(key as i32, 3, 0, i64::MAX).unwrap();
                    assert!(hits.is_sorted_by(|a, b| a > b), "{hits:?}");
                    assert!(hits.iter().all(|phys| phys % KEYS == key), "{hits:?}");
                    let newest = (0..put).rev().find(|phys| phys % KEYS == key);
                    assert!(hits.first().copied() >= newest, "{put} {hits:?}");
                }
            });
        }
        for phys in 0..TOTAL {
            let time = 1_700_000_000_000 + phys as i64;
            index.put((phys % KEYS) as i32, phys, time).unwrap();
            done.store(phys + 1, Ordering::Release);
        }
    });
    assert_eq!(index.len(), 7);
}

/// What the files must answer, written without chains: entries of the same slot, newest first.
#[derive(Default)]
struct Model {
    files: Vec<ModelFile>,
}

#[derive(Default)]
struct ModelFile {
    begin: i64,
    end: i64,
    end_phys: u64,
    /// Hash, offset, seconds.
    entries: Vec<(i32, u64, i64)>,
}

impl Model {
    fn put(&mut self, hash: i32, phys: u64, time: i64) {
        if (self.files.last()).is_none_or(|f| f.entries.len() as u32 == ENTRIES - 1) {
            let end = self.files.last().map_or(0, |f| f.end);
            self.files.push(ModelFile {
                begin: end,
                ..ModelFile::default()
            });
        }
        let file = self.files.last_mut().unwrap();
        let since = if file.begin > 0 { file.begin } else { time };
        file.entries
            .push((hash, phys, ((time - since) / 1000).max(0)));
        if file.entries.len() == 1 {
            file.begin = time;
        }
        (file.end, file.end_phys) = (time, phys);
    }

    fn query(&self, hash: i32, max: usize, begin: i64, end: i64) -> Vec<u64> {
        let mut hits = Vec::new();
        for file in self.files.iter().rev() {
            let overlap = begin.max(file.begin) <= end.min(file.end);
            let same_slot =
                |e: &&(i32, u64, i64)| overlap && e.0 % SLOTS as i32 == hash % SLOTS as i32;
            for (h, phys, seconds) in file.entries.iter().rev().filter(same_slot) {
                let time = file.begin + seconds * 1000;
                if *h == hash && time >= begin && time <= end {
                    hits.push(*phys);
                }
                if time < begin {
                    break;
                }
            }
            if file.begin < begin {
                break;
            }
        }
        hits.truncate(max.min(64));
        hits
    }
}

#[derive(Clone, Debug)]
enum Op {
    Put(i32, i64),
    Query(i32, usize, i64, i64),
    Trim(u64),
    Reopen,
    Crash,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => (0..9i32, 0..3000i64).prop_map(|(h, t)| Op::Put(h, t)),
        5 => (0..9i32, 0..70usize, 0..90_000i64, 0..90_000i64).prop_map(|(h, n, b, e)| Op::Query(h, n, b, e)),
        1 => (0..8000u64).prop_map(Op::Trim),
        1 => Just(Op::Reopen),
        1 => Just(Op::Crash),
    ]
}

fn check(index: &Index, model: &Model) {
    for hash in 0..9 {
        let all = model.query(hash, 64, 0, i64::MAX);
        assert_eq!(index.query(hash, 64, 0, i64::MAX).unwrap(), all);
    }
    let newest = model.files.last();
    let last = newest.map_or((0, 0), |f| (f.end, f.end_phys as i64));
    assert_eq!(
        (index.len(), index.last_update().unwrap()),
        (model.files.len(), last)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn answers_as_the_model(ops in prop::collection::vec(op(), 1..150)) {
        let dir = tempfile::tempdir().unwrap();
        let mut index = open(dir.path());
        let (mut model, mut phys, mut time, mut saved) = (Model::default(), 0, 1, 0);
        for op in ops {
            match op {
                Op::Put(hash, later) => {
                    time += later;
                    phys += 50;
                    index.put(hash, phys, time).unwrap();
                    model.put(hash, phys, time);
                }
                Op::Query(hash, max, begin, end) => {
                    let want = model.query(hash, max, begin, end);
                    prop_assert_eq!(index.query(hash, max, begin, end).unwrap(), want);
                }
                Op::Trim(min) => {
                    let n = index.trim(min).unwrap();
                    let keep = model.files.iter().take_while(|f| f.end_phys < min).count();
                    prop_assert_eq!(n, keep.min(model.files.len().saturating_sub(1)));
                    model.files.drain(..n);
                }
                Op::Reopen => {
                    saved = index.flush(true).unwrap().unwrap_or(saved);
                    drop(index);
                    index = open(dir.path());
                    let end = index.recover(true, saved).unwrap();
                    prop_assert_eq!(end, model.files.last().map(|f| f.end_phys));
                    saved = index.finished_time();
                }
                Op::Crash => {
                    saved = index.flush(false).unwrap().unwrap_or(saved);
                    drop(index);
                    index = open(dir.path());
                    let end = index.recover(false, saved).unwrap();
                    let full = |f: &ModelFile| f.entries.len() as u32 == ENTRIES - 1;
                    model.files.retain(|f| full(f) && f.end <= saved);
                    prop_assert_eq!(end, model.files.last().map(|f| f.end_phys));
                    saved = index.finished_time();
                }
            }
        }
        check(&index, &model);
    }

    #[test]
    fn damage_neither_stops_nor_traps(
        puts in 0..30u64,
        spots in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..40),
        under_way in any::<bool>(),
        clean in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut index = filled(dir.path(), puts);
        let names = paths(&index);
        for (which, at, value) in spots.iter().filter(|_| !names.is_empty()) {
            use std::os::unix::fs::FileExt;
            let path = &names[which.index(names.len())];
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            let at = at.index(file.metadata().unwrap().len() as usize);
            file.write_all_at(&[*value], at as u64).unwrap();
        }
        if !under_way {
            drop(index);
            index = open(dir.path());
            index.recover(clean, i64::MAX).unwrap();
        }
        for i in 0..30 {
            let hits = index.query(i % 9, 64, 0, i64::MAX).unwrap();
            prop_assert!(hits.len() <= 64);
            index.put(i % 9, 100_000 + i as u64, 200_000).unwrap();
        }
        index.trim(50_000).unwrap();
        index.flush(true).unwrap();
        // Whatever came before, new entries in a new file are found again.
        for _ in 0..2 * ENTRIES {
            index.put(3, 200_000, 300_000).unwrap();
        }
        prop_assert!(index.query(3, 4, 0, i64::MAX).unwrap().contains(&200_000));
    }
}

/// The index of a store that Apache RocketMQ wrote: read it, and make the same bytes again.
#[test]
fn same_bytes_as_java() {
    let archive =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/store/data/store-5.3.3.tar.gz");
    if !archive.exists() {
        return; // a source package without the tests' data
    }
    let dir = tempfile::tempdir().unwrap();
    let mut tar = std::process::Command::new("tar");
    let status = tar
        .arg("-C")
        .arg(dir.path())
        .arg("-xzf")
        .arg(&archive)
        .status();
    assert!(status.unwrap().success());
    let cfg = |name: &str| IndexConfig {
        dir: dir.path().join(name),
        slots: 500,
        entries: 1000,
    };
    let java = Index::open(cfg("store/index")).unwrap();
    let ours = Index::open(cfg("again")).unwrap();
    assert_eq!(java.recover(true, 0).unwrap(), Some(206_810));
    let mut logs: Vec<_> = std::fs::read_dir(dir.path().join("store/commitlog"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    logs.sort();
    let mut keys = 0;
    for log in logs.iter().map(|path| std::fs::read(path).unwrap()) {
        let mut at = 0;
        while let Found::Record(view) = read(&log[at..], true) {
            let record = &log[at..at + view.total];
            at += view.total;
            if view.sys_flag & sys_flag::TRANSACTION_MASK == sys_flag::ROLLBACK {
                continue;
            }
            let seed = topic_seed(&record[view.topic.clone()]);
            for key in message_keys(&record[view.props.clone()]) {
                let hash = key_hash(seed, key);
                let phys = view.phys as u64;
                let time = view.store_timestamp;
                ours.put(hash, phys, time).unwrap();
                let hits = java.query(hash, 64, time - 1000, time + 1000).unwrap();
                assert!(hits.contains(&phys), "{}", String::from_utf8_lossy(key));
                keys += 1;
            }
        }
    }
    assert_eq!(keys, 462);
    let bytes = |index: &Index| std::fs::read(&paths(index)[0]).unwrap();
    assert!(bytes(&java) == bytes(&ours), "the index files differ");
    assert_eq!(Entry::read(&bytes(&java)[2060..]).key_hash, 442_749_884);
}
