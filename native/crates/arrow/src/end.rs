//! How far a log reaches, and where one micro-batch of a stream ends.

use super::error::{Result, ScanError};
use super::files::{FileSet, Window};
use super::select::Selection;
use super::walk::{Step, Walk, crc_fits, damage_error};
use pyrmq_format::get_i32;
use pyrmq_format::record::{BLANK_LEN, View, peek_store_timestamp};
use std::io::ErrorKind;

/// A log is walked to its end from at most this far away.
const WALK: u64 = 16 << 20;
/// How far a search for some record goes before the place counts as empty.
const SEARCHED: u64 = 8 << 20;

/// Physical offset behind the last whole record, and why the log ends there; no reason if what follows
/// is empty. `start`: a known record's start to continue from.
///
/// A writer may be half-way through the last record: it counts only if its body fits its CRC and its text
/// reaches to its last byte. What is no record, with nothing valid behind it, is a torn tail.
///
/// A broker that stops removes the file that it had made ahead: if the last file has gone since it was
/// listed, the log ends in the files before it.
pub fn find_end(file_set: &FileSet, start: Option<u64>) -> Result<(u64, String)> {
    match end_in(file_set, start) {
        Err(ScanError::Io { path, error }) if error.kind() == ErrorKind::NotFound => {
            match file_set.files.split_last() {
                Some((last, fewer)) if last.path == path && !fewer.is_empty() => {
                    let fewer = FileSet::new(fewer.to_vec(), file_set.open.clone())?;
                    end_in(&fewer, start)
                }
                _ => Err(ScanError::Io { path, error }),
            }
        }
        found => found,
    }
}

fn end_in(file_set: &FileSet, start: Option<u64>) -> Result<(u64, String)> {
    let end = file_set.end();
    let Some(file) = last_begun(file_set)? else {
        return Ok((
            start.unwrap_or_else(|| file_set.files.first().map_or(0, |f| f.base)),
            String::new(),
        ));
    };
    let (base, full) = (file_set.files[file].base, file_set.files[file].len);
    let window = Window::new(file_set.clone(), 0);
    let mut walk = Walk::new(window, (base, end), end, true).zeros_end(file);
    let mut low = start.unwrap_or(base).max(base);
    let near = start == Some(low) && is_empty(file_set, low.saturating_add(WALK), 4096)?;
    let mut high = base + full;
    while !near && high.saturating_sub(low) > WALK {
        let middle = low + (high - low) / 2;
        match walk.search(middle, high.min(middle + SEARCHED))? {
            Some(found) => low = found,
            None => high = middle,
        }
    }
    walk.go_to(low);
    let mut torn: Option<(u64, u64)> = None; // the last record, if it is not complete
    loop {
        match walk.next()? {
            Step::Record => {
                let (view, bytes, _) = walk.record()?;
                let half_way = is_half_written(view, bytes);
                let start = view.phys as u64;
                torn = half_way.then_some((start, start + view.total as u64));
            }
            Step::Damage { to, .. } if to < end => torn = None,
            // Nothing follows: the log ends in front of it.
            Step::Damage { from, why, .. } => {
                let empty = is_empty(file_set, from, 4)?; // nothing was begun there
                let why = if empty { String::new() } else { why };
                return Ok(cut_torn(torn, from, why));
            }
            Step::End => return Ok(cut_torn(torn, walk.phys().min(end), String::new())),
        }
    }
}

/// Whether the end of a record is missing. Writers copy from front to back, so that zeros stand where
/// they have not come to.
pub fn is_half_written(view: &View, bytes: &[u8]) -> bool {
    !crc_fits(view, bytes) || view.text_ends_in_zero(bytes)
}

/// The end, without a last record that is not complete. Where anything follows the writer has gone on.
fn cut_torn(torn: Option<(u64, u64)>, end: u64, why: String) -> (u64, String) {
    match torn {
        Some((start, to)) if to == end => (start, "the last record is not complete".to_owned()),
        _ => (end, why),
    }
}

/// The last file that something was written to; files are made ahead of their use.
fn last_begun(file_set: &FileSet) -> Result<Option<usize>> {
    for index in (0..file_set.files.len()).rev() {
        let mut window = Window::new(file_set.clone(), BLANK_LEN);
        let head = window.bytes(index, 0, BLANK_LEN)?;
        if head.iter().any(|&b| b != 0) {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// Whether `len` bytes from `phys` on are zeros.
fn is_empty(file_set: &FileSet, phys: u64, len: usize) -> Result<bool> {
    let Some((index, at)) = file_set.locate(phys) else {
        return Ok(true);
    };
    let mut window = Window::new(file_set.clone(), len);
    Ok(window.bytes(index, at, len)?.iter().all(|&b| b == 0))
}

/// Bounds of one micro-batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Advance {
    pub max_rows: Option<u64>,
    pub max_bytes: Option<u64>,
    pub skip: bool,
}

/// Where a micro-batch ends that begins at `start` and may go up to `end`: the start of a record, and
/// how many messages are selected before it. It has at least one record.
pub fn advance(
    file_set: &FileSet,
    (start, end): (u64, u64),
    selection: &mut Selection,
    bounds: Advance,
) -> Result<(u64, u64)> {
    if start > end {
        let text = format!("a micro-batch from {start} cannot end at {end}");
        return Err(ScanError::Illegal(text));
    }
    let mut walk = Walk::new(Window::new(file_set.clone(), 0), (start, end), end, true);
    let mut rows = 0;
    loop {
        match walk.next()? {
            Step::Record => {
                let (view, bytes, _) = walk.record()?;
                let (place, more) = (view.phys as u64, selection.count(view, bytes)?);
                let over = bounds
                    .max_rows
                    .is_some_and(|max| more > 0 && rows + more > max)
                    || bounds
                        .max_bytes
                        .is_some_and(|max| walk.phys() - start > max);
                if over && place > start {
                    return Ok((place, rows));
                }
                rows += more;
            }
            Step::Damage { from, to, why } if !bounds.skip => {
                return Err(damage_error(file_set, from, to, &why));
            }
            Step::Damage { .. } => {}
            Step::End => return Ok((walk.phys().min(end), rows)),
        }
    }
}

/// Of each file the store time and the physical offset of its first record.
pub fn first_times(file_set: &FileSet) -> Result<Vec<Option<(i64, u64)>>> {
    let mut window = Window::new(file_set.clone(), 4096);
    let mut out = Vec::with_capacity(file_set.files.len());
    for (index, file) in file_set.files.iter().enumerate() {
        let head = window.bytes(index, 0, 128)?;
        let sound = head.len() >= 36
            && pyrmq_format::get_i64(head, 28) == file.base as i64
            && get_i32(head, 0) > 0;
        let time = if sound {
            peek_store_timestamp(head)
        } else {
            None
        };
        out.push(time.map(|t| (t, file.base)));
    }
    Ok(out)
}
