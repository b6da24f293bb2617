//! Index files that hold any bytes. Input: two bytes for the shape, a byte of flags (1: the size is
//! right, 2: the header is made to fit), then the file.
//!
//! - Opening refuses a file or maps it; a query ends, whatever the chains look like, gives no more
//!   than it may and only what stands in the file under that hash and time.
//! - Entries are put up to the end of the file and not beyond, and are found again, newest first.
//! - What is read as a header or an entry is what is written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrmq_format::index::{ENTRY, Entry, HEADER, Header, Shape, message_keys, name_after};
use pyrmq_format::index::{is_file_name, key_hash, topic_seed};
use pyrmq_fuzz::naive_pairs;
use pyrmq_store::{IndexFile, StoreError};
use std::cell::OnceCell;
use std::fs;

thread_local! {
    static DIR: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
}

fuzz_target!(|data: &[u8]| {
    texts(data);
    let [slots, entries, flags, bytes @ ..] = data else {
        return;
    };
    let shape = Shape::new(1 + *slots as u32 % 16, 2 + *entries as u32 % 40).unwrap();
    let mut file = bytes.to_vec();
    if flags & 1 != 0 {
        file.resize(shape.file_size(), 0);
        if flags & 2 != 0 {
            fit_header(&mut file, shape);
        }
    }
    DIR.with(|dir| {
        let dir = dir.get_or_init(|| tempfile::tempdir().unwrap());
        let path = dir.path().join("20261120201450885");
        fs::write(&path, &file).unwrap();
        match IndexFile::open(path.clone(), shape) {
            Ok(index) => {
                assert_eq!(file.len(), shape.file_size());
                query(&index, shape, &file);
                put(&index, shape);
            }
            Err(StoreError::Damaged { .. }) => {}
            Err(e) => panic!("{e}"),
        }
        fs::remove_file(&path).unwrap();
    });
});

/// Makes the header one that its first and last entry do not contradict.
fn fit_header(file: &mut [u8], shape: Shape) {
    let mut h = Header::read(file);
    h.count = 1 + h.count.rem_euclid(shape.entries as i32);
    h.begin_time &= i64::MAX;
    h.end_time &= i64::MAX;
    if h.has_entries() {
        let entry = |number: u32| Entry::read(&file[shape.entry_at(number)..]);
        h.begin_phys = entry(1).phys;
        h.end_phys = entry(h.count as u32 - 1).phys;
    } else {
        (h.begin_phys, h.end_phys) = (0, 0);
    }
    let mut bytes = [0; HEADER];
    h.write(&mut bytes);
    assert_eq!(Header::read(&bytes), h);
    file[..HEADER].copy_from_slice(&bytes);
}

/// Hashes that stand in the file, and others.
fn hashes(shape: Shape, file: &[u8]) -> Vec<i32> {
    let mut hashes: Vec<i32> = (1..shape.entries)
        .map(|n| Entry::read(&file[shape.entry_at(n)..][..ENTRY]).key_hash)
        .collect();
    hashes.extend([0, 1, i32::MAX, i32::MIN, -1]);
    hashes
}

fn query(index: &IndexFile, shape: Shape, file: &[u8]) {
    let header = Header::read(file);
    assert_eq!(header.fault(shape), None);
    assert!((1..=shape.entries).contains(&index.count()));
    for hash in hashes(shape, file) {
        for (begin, end) in [
            (0, i64::MAX),
            (i64::MIN, i64::MAX),
            (header.begin_time, header.end_time),
        ] {
            for max in [0, 3, 1000] {
                let mut hits = vec![7];
                index.select(hash, &mut hits, max, begin, end).unwrap();
                assert!(hits.len() <= max.max(1) && hits[0] == 7);
                assert!(hits.len() <= shape.entries as usize);
                for hit in &hits[1..] {
                    let stands = (1..shape.entries)
                        .map(|n| Entry::read(&file[shape.entry_at(n)..]))
                        .any(|e| {
                            e.phys as u64 == *hit
                                && e.key_hash == hash
                                && (begin..=end).contains(&e.time(header.begin_time))
                        });
                    assert!(stands, "{hit} does not stand under {hash}");
                }
            }
        }
    }
}

/// Fills the file and finds what was put.
fn put(index: &IndexFile, shape: Shape) {
    let time = index.end_time().max(1_700_000_000_000);
    let mut expected = Vec::new();
    let free = shape.entries - index.count();
    for n in 0..=free as u64 {
        let phys = (1 << 50) + n;
        let fits = index.put(0x1234_5678, phys as i64, time).unwrap();
        assert_eq!(fits, n < free as u64);
        if fits {
            expected.insert(0, phys);
        }
    }
    assert!(index.is_full());
    let mut hits = Vec::new();
    index
        .select(0x1234_5678, &mut hits, usize::MAX, i64::MIN, i64::MAX)
        .unwrap();
    // What stood in the chain before may be anything.
    assert_eq!(hits[..expected.len()], expected);
}

fn texts(data: &[u8]) {
    // The unique key, then the words of KEYS; of several the last one counts.
    let pairs = naive_pairs(data);
    let last = |name: &[u8]| pairs.iter().rev().find(|p| p.0 == name).map(|p| p.1);
    let words = last(b"KEYS").unwrap_or(b"");
    let mut expected: Vec<&[u8]> = last(b"UNIQ_KEY").into_iter().collect();
    expected.extend(words.split(|&b| b == b' ').filter(|w| !w.is_empty()));
    assert!(message_keys(data).eq(expected));

    // A key goes on where the topic ended (a character that is cut in two apart).
    let (topic, key) = data.split_at(data.len() / 2);
    let hash = key_hash(topic_seed(topic), key);
    assert!(hash >= 0);
    let text = [topic, b"#", key].concat();
    if text.is_ascii() {
        let whole = text
            .iter()
            .fold(0i32, |h, &b| h.wrapping_mul(31).wrapping_add(b as i32));
        assert_eq!(hash, whole.checked_abs().unwrap_or(0));
    }
    if let (Ok(now), Ok(last)) = (std::str::from_utf8(topic), std::str::from_utf8(key))
        && is_file_name(now)
        && let Some(name) = name_after(now.to_owned(), last)
    {
        assert!(is_file_name(&name) && name.as_str() > last);
    }
}
