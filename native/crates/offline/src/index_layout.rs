//! How many slots and entries an index file has, which stands nowhere in it.

use super::source::{SEQUENTIAL, Source};
use pyrmq_format::get_i32;
use pyrmq_format::index::{ENTRY, Entry, HEADER, Header, SLOT, Shape};

const SAMPLES: u32 = 32;

/// Finds the shape under which header, slots and entries fit together. None if there is none, also
/// for a file without entries, which any shape fits.
pub fn find_shape(source: &mut Source, header: &Header) -> Option<Shape> {
    let body = source.len().checked_sub(HEADER as u64)?;
    if !header.has_entries() || source.len() > i32::MAX as u64 {
        return None;
    }
    // RocketMQ's own figures have four entries a slot.
    let usual = shape_of(body, body / (SLOT + 4 * ENTRY) as u64);
    // In a small file several shapes may do; the header says which is right, unless a crash came
    // between it and the entries.
    let by_header = usual
        .filter(|shape| exactly(source, header, *shape))
        .or_else(|| by_end(source, header, exactly));
    by_header
        .or_else(|| usual.filter(|shape| fits(source, header, *shape)))
        .or_else(|| by_end(source, header, fits))
        .or_else(|| by_place(source, header, header.end_phys, header.count as u32 - 1))
        .or_else(|| by_place(source, header, header.begin_phys, 1))
}

type Test = fn(&mut Source, &Header, Shape) -> bool;

fn shape_of(body: u64, slots: u64) -> Option<Shape> {
    let rest = body.checked_sub(slots * SLOT as u64)?;
    if rest % ENTRY as u64 != 0 {
        return None;
    }
    let entries = u32::try_from(rest / ENTRY as u64).ok()?;
    Shape::new(u32::try_from(slots).ok()?, entries)
}

/// Behind the last entry the file is zero, so its last other byte is one of that entry.
fn by_end(source: &mut Source, header: &Header, does: Test) -> Option<Shape> {
    let body = source.len() - HEADER as u64;
    let before = HEADER as u64 + (header.count as u64 - 1) * ENTRY as u64;
    let room = source.data_end(0).checked_sub(before)?;
    let least = room.saturating_sub(ENTRY as u64) / SLOT as u64;
    let candidates = (least..=room / SLOT as u64).filter_map(|slots| shape_of(body, slots));
    candidates
        .collect::<Vec<_>>()
        .into_iter()
        .find(|shape| does(source, header, *shape))
}

/// Searches the file for a place of entry `number` that holds `phys`.
fn by_place(source: &mut Source, header: &Header, phys: i64, number: u32) -> Option<Shape> {
    if phys <= 0 {
        return None; // zeros are everywhere
    }
    let body = source.len() - HEADER as u64;
    let wanted = phys.to_be_bytes();
    let mut other = Source::open(source.path(), ENTRY).ok()?;
    let (mut at, mut tries) = (HEADER as u64, 10_000);
    while let Some(from) = source.next_data(at) {
        let piece = source.bytes(from, SEQUENTIAL).ok()?;
        for hit in memchr::memmem::find_iter(piece, &wanted) {
            let entry_at = from + hit as u64 - 4;
            let slots = entry_at
                .checked_sub(HEADER as u64 + number as u64 * ENTRY as u64)
                .filter(|bytes| bytes % SLOT as u64 == 0)
                .map(|bytes| bytes / SLOT as u64);
            let Some(shape) = slots.and_then(|s| shape_of(body, s)) else {
                continue;
            };
            if fits(&mut other, header, shape) {
                return Some(shape);
            }
            tries -= 1;
            if tries == 0 {
                return None;
            }
        }
        let len = piece.len() as u64;
        if len < 8 || from + len >= source.len() {
            return None;
        }
        at = from + len - 7;
    }
    None
}

/// Whether the first and the last entry are where the header says, and most others fit as well.
fn exactly(source: &mut Source, header: &Header, shape: Shape) -> bool {
    let count = header.count as u32;
    let mut leads_to = |number: u32, phys: i64| {
        let raw = source.bytes(shape.entry_at(number) as u64, ENTRY);
        raw.is_ok_and(|raw| raw.len() == ENTRY && Entry::read(raw).phys == phys)
    };
    count <= shape.entries
        && leads_to(1, header.begin_phys)
        && leads_to(count - 1, header.end_phys)
        && fits(source, header, shape)
}

/// Whether most of some entries are what the shape makes of them.
fn fits(source: &mut Source, header: &Header, shape: Shape) -> bool {
    let count = header.count as u32;
    if count > shape.entries {
        return false;
    }
    let step = (count / SAMPLES).max(1);
    let (mut good, mut all) = (0, 0);
    for number in (1..count).step_by(step as usize) {
        all += 1;
        good += plausible(source, header, shape, number).unwrap_or(false) as u32;
    }
    good * 4 > all * 3
}

fn plausible(source: &mut Source, header: &Header, shape: Shape, number: u32) -> Option<bool> {
    let raw = source.bytes(shape.entry_at(number) as u64, ENTRY).ok()?;
    if raw.len() < ENTRY {
        return None;
    }
    let entry = Entry::read(raw);
    if entry.key_hash < 0
        || entry.phys < 0
        || !(0..number as i64).contains(&(entry.previous as i64))
    {
        return Some(false);
    }
    let slot = source
        .bytes(shape.slot_at(entry.key_hash) as u64, SLOT)
        .ok()?;
    Some(
        slot.len() == SLOT
            && (number as i64..header.count as i64).contains(&(get_i32(slot, 0) as i64)),
    )
}
