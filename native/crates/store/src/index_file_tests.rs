use super::*;
use pyrmq_format::index::{key_hash, topic_seed};
use std::os::unix::fs::MetadataExt;

const SHAPE: Shape = Shape {
    slots: 4,
    entries: 10,
};
const ALL: (i64, i64) = (0, i64::MAX);

fn create(dir: &tempfile::TempDir, shape: Shape) -> IndexFile {
    IndexFile::create(dir.path().join("20260101000000000"), shape, 0, 0).unwrap()
}

fn hits(file: &IndexFile, hash: i32, (begin, end): (i64, i64)) -> Vec<u64> {
    let mut out = Vec::new();
    file.select(hash, &mut out, 64, begin, end).unwrap();
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The figures were computed by hand and checked with RocketMQ's own writer.
#[test]
fn bytes_of_one_message() {
    let dir = tempfile::tempdir().unwrap();
    let shape = Shape::new(5_000_000, 1000).unwrap();
    let file = create(&dir, shape);
    let seed = topic_seed(b"TopicTest");
    for key in [&b"C0A8010A1F9018B4AAC247B760000000"[..], b"order-42"] {
        assert!(file.put(key_hash(seed, key), 1024, 1700000000005).unwrap());
    }
    file.flush().unwrap();
    let bytes = std::fs::read(file.path()).unwrap();
    assert_eq!(
        hex(&bytes[..40]),
        "0000018bcfe568050000018bcfe56805\
         000000000000040000000000000004000000000200000003"
    );
    assert_eq!(hex(&bytes[16_025_120..][..4]), "00000001");
    assert_eq!(hex(&bytes[1_684_652..][..4]), "00000002");
    assert_eq!(
        hex(&bytes[20_000_060..][..40]),
        "5fe77cbe00000000000004000000000000000000\
         33e192a100000000000004000000000000000000"
    );
    assert_eq!(bytes.iter().filter(|&&b| b != 0).count(), 28);
}

#[test]
fn chains_times_and_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let file = create(&dir, SHAPE);
    // Hashes 1 and 5 share a slot.
    for i in 0..9 {
        let hash = if i % 2 == 0 { 1 } else { 5 };
        assert!(file.put(hash, i * 100, 10_000 + i * 1000).unwrap());
    }
    assert!(file.is_full());
    assert!(!file.put(1, 900, 20_000).unwrap());
    assert_eq!(hits(&file, 1, ALL), [800, 600, 400, 200, 0]);
    assert_eq!(hits(&file, 5, ALL), [700, 500, 300, 100]);
    assert_eq!(hits(&file, 9, ALL), [0u64; 0]);
    assert_eq!(hits(&file, 1, (12_000, 14_000)), [400, 200]);
    let mut two = vec![7];
    file.select(1, &mut two, 2, 0, i64::MAX).unwrap();
    assert_eq!(two, [7, 800]);
    let header = file.header();
    assert_eq!((header.used_slots, header.count), (1, 10));
    let path = file.path().to_owned();
    drop(file);
    let file = IndexFile::open(path, SHAPE).unwrap();
    assert_eq!(file.header(), header);
    assert_eq!(hits(&file, 5, ALL), [700, 500, 300, 100]);
    assert!(!file.is_finished() && file.flush().unwrap() && file.is_finished());
}

/// The first time difference of a rolled file counts from the end of the file before it.
#[test]
fn first_entry_after_a_roll() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("20260101000000000");
    let file = IndexFile::create(path, SHAPE, 10_000, 500).unwrap();
    let empty = file.header();
    assert_eq!((empty.begin_time, empty.end_phys), (10_000, 500));
    file.put(1, 600, 15_500).unwrap();
    file.put(1, 700, 17_500).unwrap();
    let entry = |n| file.entry(n).unwrap().unwrap();
    assert_eq!((entry(1).seconds, entry(2).seconds), (5, 2));
    let header = file.header();
    assert_eq!((header.begin_time, header.begin_phys), (15_500, 600));
    assert_eq!((header.end_time, header.end_phys), (17_500, 700));
}

#[test]
fn damaged_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = create(&dir, SHAPE);
    for i in 1..5 {
        file.put(i, i as i64 * 100, 1000).unwrap();
    }
    let path = file.path().to_owned();
    drop(file);
    let good = std::fs::read(&path).unwrap();
    // Count, begin offset, end offset, offset of the first and of the last entry.
    for at in [39, 23, 31, SHAPE.entry_at(1) + 11, SHAPE.entry_at(4) + 11] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        std::fs::write(&path, &bad).unwrap();
        let opened = IndexFile::open(path.clone(), SHAPE);
        assert!(matches!(opened, Err(StoreError::Damaged { .. })), "{at}");
    }
    std::fs::write(&path, &good[1..]).unwrap();
    let opened = IndexFile::open(path.clone(), SHAPE);
    assert!(matches!(opened, Err(StoreError::Damaged { .. })));
    std::fs::write(&path, &good).unwrap();
    IndexFile::open(path, SHAPE).unwrap();
}

#[test]
fn numbers_that_lead_astray() {
    let dir = tempfile::tempdir().unwrap();
    let file = create(&dir, SHAPE);
    for i in 0..5 {
        file.put(1, i * 100, 1000).unwrap();
    }
    let slot = SHAPE.slot_at(1);
    let previous = SHAPE.entry_at(3) + 16;
    for number in [0, 3, 4, 5, 6, 9, 10, 11, -1, i32::MIN, i32::MAX] {
        file.set_int(previous, number, Ordering::Relaxed);
        assert_eq!(hits(&file, 1, ALL), [400, 300, 200], "{number}");
    }
    file.set_int(previous, 2, Ordering::Relaxed);
    // What an earlier crash may have left behind the end.
    file.set_int(SHAPE.entry_at(7), 1, Ordering::Relaxed);
    for number in [0, 7, 10, 11, -1, i32::MIN, i32::MAX] {
        file.set_int(slot, number, Ordering::Relaxed);
        assert_eq!(hits(&file, 1, ALL), [0u64; 0], "{number}");
    }
    // A full file whose slot names the place behind its end.
    file.set_int(at::COUNT, 10, Ordering::Relaxed);
    file.set_int(slot, 10, Ordering::Relaxed);
    assert_eq!(hits(&file, 1, ALL), [0u64; 0]);
    file.set_int(slot, 5, Ordering::Relaxed);
    file.set_int(SHAPE.entry_at(5) + 12, -1, Ordering::Relaxed);
    assert_eq!(hits(&file, 1, ALL), [0u64; 0], "a negative time ends it");
    file.set_int(SHAPE.entry_at(5) + 12, 0, Ordering::Relaxed);
    file.set_int(SHAPE.entry_at(5) + 4, -1, Ordering::Relaxed);
    assert_eq!(hits(&file, 1, ALL), [300, 200, 100, 0]);
}

/// Bytes of the file that have blocks on disk.
fn stored(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn space_is_reserved_before_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let shape = Shape::new(100_000, 400_000).unwrap();
    let file = create(&dir, shape);
    let slots_end = shape.entry_at(0) as u64;
    let before = stored(file.path());
    assert!(before >= slots_end && before < slots_end + CHUNK as u64);
    file.put(1, 0, 1000).unwrap();
    let after = stored(file.path());
    assert!(after >= file.reserved.load(Ordering::Relaxed) as u64);
    assert!(after < (shape.file_size() / 2) as u64);
    let copy = file.path().with_file_name("20260101000000001");
    drop(file);

    // A file as Java makes it, all holes.
    let sparse = File::create(&copy).unwrap();
    sparse.set_len(shape.file_size() as u64).unwrap();
    let file = IndexFile::open(copy.clone(), shape).unwrap();
    assert!(stored(&copy) >= slots_end);
    assert_eq!(file.header().count, 1);

    // What cannot be reserved is not written.
    std::fs::remove_file(&copy).unwrap();
    assert!(file.put(1, 700, 1000).is_err());
    assert_eq!((file.count(), hits(&file, 1, ALL)), (1, vec![]));
}

#[test]
fn rewriting_keeps_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let content: Vec<u8> = (0..200_000u32).map(|i| i as u8).collect();
    std::fs::write(&path, &content).unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    file.set_len(300_000).unwrap();
    rewrite(&file, 250_000).unwrap();
    let after = std::fs::read(&path).unwrap();
    assert_eq!(after[..200_000], content);
    assert!(after.len() == 300_000 && after[200_000..].iter().all(|&b| b == 0));
}
