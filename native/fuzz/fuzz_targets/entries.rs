//! Consume-queue entries and the tag scan. Input: a byte h, a byte for the room, h % 8 tag codes
//! of four bytes, then queue entries, the last of which may be cut short.
//!
//! - An entry is written back as the bytes it was read from: simple ones, those of a batch queue
//!   (their two fixed fields apart) and the units of an extension file.
//! - The scan finds what a plain loop finds, in order, and never more than there is room for.
//! - The valid entries are counted up to the first that recovery would refuse.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrmq_format::cq_entry::{BATCH_SIZE, CqEntry, Layout, SIZE};
use pyrmq_format::filter::{count_valid, scan_tags};
use pyrmq_format::queue_ext::{self, MIN_UNIT, Unit};

fuzz_target!(|data: &[u8]| {
    let [h, room, rest @ ..] = data else { return };
    let count = (*h as usize % 8).min(rest.len() / 4);
    let (codes, entries) = rest.split_at(4 * count);
    let hashes: Vec<i32> = codes
        .chunks_exact(4)
        .map(|c| i32::from_be_bytes(c.try_into().unwrap()))
        .collect();

    let mut valid = None;
    let mut matches = Vec::new();
    for (i, slot) in entries.chunks_exact(SIZE).enumerate() {
        let e = CqEntry::read(slot);
        let mut again = [0; SIZE];
        e.write(&mut again);
        assert_eq!(again, *slot);
        if e.is_valid() {
            assert!(e.end() > e.phys || e.phys > i64::MAX - e.size as i64);
        } else {
            valid.get_or_insert(i);
        }
        if hashes.contains(&(e.tags_code as i32)) {
            matches.push(i as u32);
        }
    }
    assert_eq!(count_valid(entries), valid.unwrap_or(entries.len() / SIZE));

    let mut out = vec![u32::MAX; *room as usize];
    let n = scan_tags(entries, &hashes, &mut out);
    assert_eq!(n, matches.len().min(out.len()));
    assert_eq!(out[..n], matches[..n]);
    entries.chunks_exact(BATCH_SIZE).for_each(batch_entry);
    unit(entries);
    unit(rest);
});

fn batch_entry(slot: &[u8]) {
    let e = Layout::Batch.read(slot, 7);
    let mut again = [0xAA; BATCH_SIZE];
    Layout::Batch.write(&e, &mut again);
    assert_eq!(again[..38], slot[..38]);
    assert_eq!(again[38..], [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0]);
    if Layout::Batch.is_valid(&e) {
        assert!(e.cq.is_valid() && e.base >= 0);
        assert!(e.next() > e.base || e.base == i64::MAX);
    }
}

fn unit(bytes: &[u8]) {
    let Some(unit) = Unit::read(bytes) else {
        return;
    };
    assert_eq!(unit.size(), MIN_UNIT + unit.bitmap.len());
    let mut again = vec![0; unit.size()];
    unit.write(&mut again);
    assert_eq!(again, bytes[..unit.size()]);
    assert_eq!(Unit::read(&again), Some(unit));
    // An address is no tag hash, and the other way round.
    let offset = unit.store_time as u64 >> 8;
    let address = queue_ext::address(offset);
    assert!(queue_ext::is_address(address));
    assert_eq!(queue_ext::offset(address), offset);
    assert!(!queue_ext::is_address(unit.tags_code as i32 as i64));
}
