use super::*;
use crate::maps::Maps;
use pyrmq_format::cq_entry::{BATCH_SIZE, SIZE};
use std::path::Path;

fn simple(n: i64) -> Entry {
    Entry {
        cq: CqEntry {
            phys: n * 100,
            size: 100,
            tags_code: n,
        },
        base: n,
        count: 1,
        store_time: 0,
    }
}

fn open(dir: &Path, layout: Layout, maps: &Arc<Maps>) -> ConsumeQueue {
    let files = QueueFiles::open(dir.into(), 0, 10 * layout.unit(), maps.clone()).unwrap();
    ConsumeQueue::new(0, layout, files, None)
}

fn maps() -> Arc<Maps> {
    Arc::new(Maps::new(0))
}

#[test]
fn append_roll_reopen_truncate() {
    let dir = tempfile::tempdir().unwrap();
    let q = open(dir.path(), Layout::Simple, &maps());
    for n in 0..25 {
        q.append(&simple(n)).unwrap();
    }
    assert_eq!(q.files().len(), 3);
    assert_eq!(q.entry(17).unwrap(), Some(simple(17)));
    assert_eq!(q.entry(25).unwrap(), None);
    q.flush().unwrap();
    drop(q);
    let q = open(dir.path(), Layout::Simple, &maps());
    assert!(q.recover(true).unwrap());
    assert_eq!((q.max_offset(), q.max_phys()), (25, 2500));
    q.truncate_phys(950).unwrap();
    assert_eq!((q.max_offset(), q.max_phys()), (9, 900));
    q.append(&simple(9)).unwrap();
    q.append(&simple(10)).unwrap();
    q.correct_min(450).unwrap();
    assert_eq!(q.min_offset(), 5);
    q.correct_min(5000).unwrap();
    assert_eq!(q.min_offset(), 11);
}

#[test]
fn a_queue_that_starts_late_has_blanks_before() {
    let dir = tempfile::tempdir().unwrap();
    let q = open(dir.path(), Layout::Simple, &maps());
    q.start_at(13).unwrap();
    q.append(&simple(13)).unwrap();
    assert_eq!(q.files().first(), Some(10 * SIZE as u64));
    assert!(q.entry(12).unwrap().unwrap().cq.is_blank());
    drop(q);
    let q = open(dir.path(), Layout::Simple, &maps());
    assert!(q.recover(true).unwrap());
    q.correct_min(0).unwrap();
    assert_eq!((q.min_offset(), q.max_offset()), (13, 14));
    assert!(q.starts_blank());
}

#[test]
fn trimming_deletes_whole_files_but_the_last() {
    let dir = tempfile::tempdir().unwrap();
    let q = open(dir.path(), Layout::Simple, &maps());
    for n in 0..35 {
        q.append(&simple(n)).unwrap();
    }
    assert_eq!(q.trim(1900).unwrap(), 1);
    assert_eq!((q.min_offset(), q.files().len()), (19, 3));
    assert_eq!(q.entry(9).unwrap(), None);
    assert_eq!(q.trim(1_000_000).unwrap(), 2);
    assert_eq!((q.min_offset(), q.max_offset()), (35, 35));
    q.append(&simple(35)).unwrap();
    assert_eq!(q.entry(35).unwrap(), Some(simple(35)));
    drop(q);
    let q = open(dir.path(), Layout::Simple, &maps());
    q.recover(true).unwrap();
    q.correct_min(1_000_000).unwrap();
    assert_eq!((q.min_offset(), q.max_offset()), (36, 36));
}

#[test]
fn what_stands_behind_the_end_is_reported_and_erased() {
    let dir = tempfile::tempdir().unwrap();
    let q = open(dir.path(), Layout::Simple, &maps());
    for n in 0..6 {
        q.append(&simple(n)).unwrap();
    }
    drop(q);
    let path = dir.path().join("0/00000000000000000000");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[5 * SIZE + 8] |= 0x80; // a negative size
    std::fs::write(&path, &bytes).unwrap();
    let q = open(dir.path(), Layout::Simple, &maps());
    assert!(!q.recover(true).unwrap());
    assert_eq!(q.max_offset(), 5);
    q.finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert!(bytes[5 * SIZE..].iter().all(|&b| b == 0));
}

#[test]
fn few_mappings_serve_many_queues() {
    let dir = tempfile::tempdir().unwrap();
    let maps = Arc::new(Maps::new(4));
    let queues: Vec<_> = (0..20)
        .map(|n| open(&dir.path().join(n.to_string()), Layout::Simple, &maps))
        .collect();
    for n in 0..15 {
        for q in &queues {
            q.append(&simple(n)).unwrap();
        }
    }
    assert!(maps.mapped() <= 4);
    let (kept, at, _) = queues[0].file_from(3, Wait::ForDisk).unwrap().unwrap();
    for q in &queues {
        for n in 0..15 {
            assert_eq!(q.entry(n).unwrap(), Some(simple(n)));
        }
        q.flush().unwrap();
        assert_eq!(q.unflushed(), 0);
    }
    assert!(maps.mapped() <= 4);
    assert_eq!(CqEntry::read(kept.bytes(at, SIZE).unwrap()), simple(3).cq);
}

#[test]
fn a_mapping_in_use_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let maps = Arc::new(Maps::new(1));
    let a = open(&dir.path().join("a"), Layout::Simple, &maps);
    let b = open(&dir.path().join("b"), Layout::Simple, &maps);
    a.append(&simple(0)).unwrap();
    let (kept, ..) = a.file_from(0, Wait::ForDisk).unwrap().unwrap();
    for n in 0..3 {
        b.append(&simple(n)).unwrap();
    }
    a.append(&simple(1)).unwrap();
    assert_eq!(kept.written(), 2 * SIZE);
}

#[test]
fn batch_entries_are_found_by_any_of_their_offsets() {
    let dir = tempfile::tempdir().unwrap();
    let q = open(dir.path(), Layout::Batch, &maps());
    let mut base = 0;
    for n in 0..25i64 {
        let count = (n % 4 + 1) as i32;
        let cq = simple(n).cq;
        let entry = Entry {
            cq,
            base,
            count,
            store_time: 1000 + n,
        };
        q.append(&entry).unwrap();
        base += count as i64;
    }
    assert_eq!(q.max_offset(), base);
    let e = q.entry(2).unwrap().unwrap();
    assert_eq!((e.base, e.count, e.cq.phys), (1, 2, 100));
    assert_eq!(q.entry(base).unwrap(), None);
    assert_eq!(q.files().end(), 25 * BATCH_SIZE as u64);
    drop(q);
    let q = open(dir.path(), Layout::Batch, &maps());
    assert!(q.recover(true).unwrap());
    assert_eq!((q.max_offset(), q.max_phys()), (base, 2500));
    q.truncate_phys(250).unwrap();
    assert_eq!(q.max_offset(), 3);
    q.correct_min(100).unwrap();
    assert_eq!(q.min_offset(), 1);
    assert_eq!(q.trim(100).unwrap(), 0);
}

#[test]
fn entries_in_a_later_file_are_seen_behind_an_empty_end() {
    let dir = tempfile::tempdir().unwrap();
    let q = open(dir.path(), Layout::Simple, &maps());
    for n in 0..15 {
        q.append(&simple(n)).unwrap();
    }
    drop(q);
    let path = dir.path().join("0/00000000000000000000");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[6 * SIZE..].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    let q = open(dir.path(), Layout::Simple, &maps());
    assert!(!q.recover(true).unwrap());
    q.finish().unwrap();
    assert_eq!((q.max_offset(), q.files().len()), (6, 1));
}

#[test]
fn a_batch_queue_with_a_hole_goes_on_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let q = open(dir.path(), Layout::Batch, &maps());
    for base in [0, 3, 9] {
        q.append(&Entry {
            base,
            count: 3,
            ..simple(base)
        })
        .unwrap();
    }
    let (_, at, position) = q.file_from(7, Wait::ForDisk).unwrap().unwrap();
    assert_eq!((at, position), (2 * BATCH_SIZE, 2));
    assert!(q.file_from(12, Wait::ForDisk).unwrap().is_none());
}

/// A queue with 80 entries in eight files, of which the bytes from `from` on read as `bytes`.
fn harmed(dir: &Path, layout: Layout, from: usize, bytes: &[u8]) -> ConsumeQueue {
    let q = open(dir, layout, &maps());
    for n in 0..80 {
        q.append(&simple(n)).unwrap();
    }
    drop(q);
    let size = 10 * layout.unit();
    for file in 0..8 {
        let path = dir.join(format!("0/{:020}", file * size));
        let mut content = std::fs::read(&path).unwrap();
        for (at, byte) in (file * size..).zip(&mut content) {
            if let Some(new) = at.checked_sub(from).and_then(|at| bytes.get(at)) {
                *byte = *new;
            }
        }
        std::fs::write(&path, content).unwrap();
    }
    open(dir, layout, &maps())
}

#[test]
fn any_number_of_files_may_be_blank_at_the_end() {
    for layout in [Layout::Simple, Layout::Batch] {
        let unit = layout.unit();
        for left in 0..=80 {
            let dir = tempfile::tempdir().unwrap();
            let blank = vec![0; (80 - left) * unit];
            let q = harmed(dir.path(), layout, left * unit, &blank);
            assert!(q.recover(left == 80).unwrap(), "nothing stands behind");
            let phys = if left == 0 { -1 } else { left as i64 * 100 };
            assert_eq!((q.max_offset(), q.max_phys()), (left as i64, phys));
            for flushed in [0, left as u64 / 2 * 100, left as u64 * 100] {
                assert_eq!(q.damage_before(flushed, 0, |_| Ok(None)).unwrap(), None);
                q.rewind(flushed, 0, |_| Ok(None)).unwrap();
                assert_eq!(q.max_offset(), flushed as i64 / 100);
                q.recover(false).unwrap();
            }
        }
    }
}

#[test]
fn a_hole_in_front_of_what_was_flushed_is_damage() {
    let real = |e: &Entry| Ok(Some(e.cq.phys == e.base * 100));
    for (from, len) in [(0, 10), (10, 10), (30, 20), (55, 1), (50, 30), (19, 1)] {
        let dir = tempfile::tempdir().unwrap();
        let blank = vec![0; len * SIZE];
        let q = harmed(dir.path(), Layout::Simple, from * SIZE, &blank);
        q.recover(false).unwrap();
        assert_eq!(q.damage_before(from as u64 * 100, 0, real).unwrap(), None);
        let found = q.damage_before(8000, 0, real).unwrap();
        let end = from as i64 / 10 * 10 * 100;
        match from + len {
            80 => assert_eq!(found, None, "nothing tells of what was there"),
            _ => assert!((end..=from as i64 * 100).contains(&found.unwrap().max(0))),
        }
        let had = found.unwrap_or(0).max(0) as u64;
        q.rewind(had, 0, real).unwrap();
        assert_eq!(q.max_offset(), had as i64 / 100);
    }
}

/// Half of an entry whose other half is blank, and entries of another place.
#[test]
fn what_only_looks_like_an_earlier_entry_is_none() {
    let real = |e: &Entry| Ok(Some(e.cq.phys == e.base * 100));
    let dir = tempfile::tempdir().unwrap();
    let mut behind = vec![0; 40 * SIZE];
    behind[5 * SIZE + 8..6 * SIZE].fill(1); // no place, but a size
    for (n, slot) in behind[20 * SIZE..30 * SIZE]
        .chunks_exact_mut(SIZE)
        .enumerate()
    {
        simple(n as i64).cq.write(slot);
    }
    let q = harmed(dir.path(), Layout::Simple, 40 * SIZE, &behind);
    q.recover(false).unwrap();
    for flushed in (100..=4000).step_by(100) {
        assert_eq!(q.damage_before(flushed, 0, real).unwrap(), None);
    }
    q.rewind(4000, 0, real).unwrap();
    assert_eq!((q.max_offset(), q.max_phys()), (40, 4000));
}
