//! Logs read in any parts: every record once, all damage once, and where they end.

use super::testing::*;
use super::*;
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use proptest::prelude::*;
use pyrmq_format::get_i32;
use pyrmq_format::record;
use std::sync::Arc;

/// Physical offsets of the rows, and the bytes that were skipped.
fn places(file_set: &FileSet, range: (u64, u64), log_end: u64) -> (Vec<usize>, u64) {
    let mut reader = reader(
        file_set,
        range,
        log_end,
        settings(&[Column::CommitLogOffset]),
    );
    let rows = batches(&mut reader);
    let column = |b: &RecordBatch| b.column(0).as_primitive::<Int64Type>().values().to_vec();
    let found = rows.iter().flat_map(column).map(|p| p as usize).collect();
    (found, reader.stats().skipped_bytes)
}

/// Places where a whole record still stands.
fn sound(log: &Log, bytes: &[u8]) -> Vec<usize> {
    let is_sound = |&&at: &&usize| match record::read(&bytes[at..], true) {
        record::Found::Record(v) => v.phys == at as i64,
        _ => false,
    };
    log.starts.iter().filter(is_sound).copied().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_record_once_and_all_damage_once_whatever_the_cuts(
        cuts in prop::collection::vec(0usize..3 * FILE, 0..40),
        harm in prop::collection::vec((0usize..3 * FILE, 1usize..400, any::<bool>()), 0..4),
        by_file in any::<bool>(),
    ) {
        let log = log(3, tricky());
        let mut bytes = log.bytes.clone();
        for (at, len, zeros) in harm {
            let to = (at + len).min(log.end);
            for (i, b) in bytes[at.min(to)..to].iter_mut().enumerate() {
                *b = if zeros { 0 } else { (i * 7 + len) as u8 | 1 };
            }
        }
        let disk = disk(&bytes);
        let end = log.end as u64;
        let whole = places(&disk.file_set, (0, end), end);
        prop_assert_eq!(&whole.0, &sound(&log, &bytes));
        let mut edges: Vec<u64> = cuts.into_iter().map(|c| (c as u64).min(end)).collect();
        edges.extend([0, end]);
        if by_file {
            edges.extend([FILE as u64, 2 * FILE as u64].map(|e| e.min(end)));
        }
        edges.sort_unstable();
        edges.dedup();
        let (mut rows, mut skipped) = (Vec::new(), 0);
        for pair in edges.windows(2) {
            let (found, lost) = places(&disk.file_set, (pair[0], pair[1]), end);
            rows.extend(found);
            skipped += lost;
        }
        prop_assert_eq!((rows, skipped), whole);
    }

    #[test]
    fn the_end_is_behind_the_last_whole_record(
        cut in 0usize..3 * FILE, rubbish in any::<bool>(), from in any::<prop::sample::Index>(),
    ) {
        let log = log(3, tricky());
        let mut bytes = log.bytes.clone();
        let cut = cut.min(log.end);
        bytes[cut..].fill(0);
        if rubbish && cut + 4 < bytes.len() {
            bytes[cut..cut + 4].copy_from_slice(b"\xff\xee\xdd\xcc");
        }
        let expected = plain_end(&bytes);
        let disk = disk(&bytes);
        prop_assert_eq!(find_end(&disk.file_set, None).unwrap().0 as usize, expected);
        let whole: Vec<usize> = log.starts.iter().copied().filter(|&s| s < expected).collect();
        if !whole.is_empty() {
            let start = *from.get(&whole) as u64;
            prop_assert_eq!(find_end(&disk.file_set, Some(start)).unwrap().0 as usize, expected);
        }
    }
}

/// A broker that stops removes the file that it had made ahead, perhaps right behind the listing.
#[test]
fn a_last_file_that_has_gone_was_empty() {
    let log = log(2, tricky());
    let mut bytes = log.bytes.clone();
    bytes.resize(3 * FILE, 0);
    let disk = disk(&bytes);
    let files = &disk.file_set.files;
    let found = find_end(&disk.file_set, None).unwrap();
    let last = *log.starts.last().unwrap() as u64;
    std::fs::remove_file(&files[2].path).unwrap();
    assert_eq!(find_end(&disk.file_set, None).unwrap(), found);
    assert_eq!(find_end(&disk.file_set, Some(last)).unwrap(), found);
    // One that is missing further ahead is an error, and so is the only one.
    std::fs::remove_file(&files[1].path).unwrap();
    assert!(find_end(&disk.file_set, None).is_err());
    let only = FileSet::new(files[2..].to_vec(), disk.file_set.open.clone()).unwrap();
    assert!(find_end(&only, None).is_err());
}

/// Where a log without damage ends, said plainly.
fn plain_end(bytes: &[u8]) -> usize {
    let (mut at, mut last) = (0, None);
    while at < bytes.len() {
        let file_end = (at / FILE + 1) * FILE;
        match record::read(&bytes[at..file_end], false) {
            record::Found::Record(v) if v.phys == at as i64 => {
                last = Some((at, v.clone()));
                at += v.total;
            }
            record::Found::Blank if file_end - at == get_i32(bytes, at) as usize => at = file_end,
            _ => break,
        }
    }
    match last {
        Some((start, v)) if start + v.total == at => {
            let r = &bytes[start..at];
            let zero = r[v.topic.clone()].contains(&0) || r[v.props.clone()].contains(&0);
            if zero || !walk::crc_fits(&v, r) {
                start
            } else {
                at
            }
        }
        _ => at,
    }
}

#[test]
fn turns_stop_where_they_must() {
    let log = log(3, tricky());
    let disk = disk(&log.bytes);
    let end = log.end as u64;
    for rows in [1u64, 3, 10] {
        let mut at = 0;
        let mut seen = 0;
        while at < end {
            let bounds = Advance {
                max_rows: Some(rows),
                ..Advance::default()
            };
            let mut selection = Selection::new(None);
            let (to, n) = advance(&disk.file_set, (at, end), &mut selection, bounds).unwrap();
            assert!(to > at && n <= rows);
            seen += n as usize;
            at = to;
        }
        assert_eq!(seen, log.starts.len());
    }
    let bounds = Advance {
        max_bytes: Some(1),
        ..Advance::default()
    };
    let first = advance(&disk.file_set, (0, end), &mut Selection::new(None), bounds).unwrap();
    assert_eq!(first, (log.starts[1] as u64, 1));
}

#[test]
fn files_that_are_cut_or_gone_are_errors_with_a_place() {
    let log = log(3, tricky());
    let disk = disk(&log.bytes);
    let end = log.end as u64;
    let second = disk.file_set.files[1].path.clone();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&second)
        .unwrap();
    file.set_len(500).unwrap();
    let strict = || Settings {
        skip: false,
        ..settings(&[Column::Topic])
    };
    let mut cut = reader(&disk.file_set, (0, end), end, strict());
    let error = std::iter::repeat_with(|| cut.next_batch())
        .find_map(|b| b.err())
        .unwrap();
    assert!(error.to_string().contains(&second), "{error}");
    // Whoever begins behind the cut says so as well.
    let mut behind = reader(
        &disk.file_set,
        (FILE as u64 + 900, FILE as u64 + 1100),
        end,
        strict(),
    );
    assert!(matches!(
        behind.next_batch(),
        Err(ScanError::Damaged { .. })
    ));
    std::fs::remove_file(&second).unwrap();
    let mut gone = reader(&disk.file_set, (0, end), end, strict());
    let error = std::iter::repeat_with(|| gone.next_batch())
        .find_map(|b| b.err())
        .unwrap();
    assert!(matches!(error, ScanError::Io { .. }), "{error}");
    let holes = [
        disk.file_set.files[0].clone(),
        disk.file_set.files[2].clone(),
    ];
    let file_set = FileSet::new(holes.to_vec(), Arc::new(OpenLocal)).unwrap();
    let mut hole = reader(&file_set, (0, end), end, strict());
    let error = std::iter::repeat_with(|| hole.next_batch())
        .find_map(|b| b.err())
        .unwrap();
    assert!(
        error.to_string().contains("a segment is missing"),
        "{error}"
    );
    let twice = vec![
        disk.file_set.files[0].clone(),
        disk.file_set.files[0].clone(),
    ];
    assert!(FileSet::new(twice, Arc::new(OpenLocal)).is_err());
}
