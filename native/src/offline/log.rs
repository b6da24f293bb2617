//! The row of commit-log files.

use super::files::common_size;
use super::source::{SCATTERED, Source};
use crate::format::record::{self, BLANK_LEN, MAGIC_V1, MAGIC_V2, MIN_LEN, sys_flag};
use crate::format::{get_i16, get_i32, get_i64};
use std::path::PathBuf;

#[derive(Clone, Debug)]
pub struct LogFile {
    /// Physical offset of its first byte, which is its name.
    pub base: u64,
    pub len: u64,
    pub path: PathBuf,
    pub shown: String,
}

#[derive(Clone, Debug, Default)]
pub struct LogRow {
    /// Sorted by `base`.
    pub files: Vec<LogFile>,
    /// What a file should have (mappedFileSizeCommitLog), found out from lengths and names.
    pub size: u64,
}

impl LogRow {
    pub fn new(mut files: Vec<LogFile>) -> Self {
        files.sort_by_key(|f| f.base);
        let gaps = files.windows(2).map(|w| w[1].base - w[0].base);
        let size = common_size(files.iter().map(|f| f.len).chain(gaps));
        LogRow { files, size }
    }

    pub fn min(&self) -> u64 {
        self.files.first().map_or(0, |f| f.base)
    }

    /// Index of the file that holds `phys`, and the position in it.
    pub fn locate(&self, phys: u64) -> Option<(usize, u64)> {
        let index = self
            .files
            .partition_point(|f| f.base <= phys)
            .checked_sub(1)?;
        let at = phys - self.files[index].base;
        (at < self.files[index].len.min(self.size)).then_some((index, at))
    }

    /// The file and byte that a physical offset means, to be shown.
    pub fn place(&self, phys: u64) -> (String, Option<u64>) {
        let index = self.files.partition_point(|f| f.base <= phys);
        match index.checked_sub(1) {
            Some(i) => (self.files[i].shown.clone(), Some(phys - self.files[i].base)),
            None => ("commitlog".to_owned(), None),
        }
    }
}

/// The part of a record that says where it belongs, read without its body.
#[derive(Clone, Debug)]
pub struct Head {
    pub total: usize,
    pub queue_id: i32,
    pub queue_offset: i64,
    pub phys: i64,
    pub sys_flag: i32,
    pub store_timestamp: i64,
    pub topic: Vec<u8>,
    pub props: Vec<u8>,
}

/// Reads heads at scattered places; keeps the last file open.
pub struct HeadReader {
    row: LogRow,
    open: Option<(usize, Source)>,
}

impl HeadReader {
    pub fn new(row: LogRow) -> Self {
        HeadReader { row, open: None }
    }

    fn source(&mut self, index: usize) -> Option<&mut Source> {
        if self.open.as_ref().is_none_or(|(i, _)| *i != index) {
            let source = Source::open(&self.row.files[index].path, SCATTERED).ok()?;
            self.open = Some((index, source));
        }
        self.open.as_mut().map(|(_, s)| s)
    }

    /// The head of the record that starts at `phys`; None if none does. The CRC is not looked at.
    pub fn head(&mut self, phys: u64) -> Option<Head> {
        let (index, at) = self.row.locate(phys)?;
        let left = self.row.files[index].len.min(self.row.size) - at;
        let source = self.source(index)?;
        let b = source.bytes(at, 128).ok()?;
        if b.len() < MIN_LEN || !matches!(get_i32(b, 4), MAGIC_V1 | MAGIC_V2) {
            return None;
        }
        let total = usize::try_from(get_i32(b, 0)).ok()?;
        let sys = get_i32(b, 36);
        let mut pos = record::store_timestamp_at(sys);
        let mut head = Head {
            total,
            queue_id: get_i32(b, 12),
            queue_offset: get_i64(b, 20),
            phys: get_i64(b, 28),
            sys_flag: sys,
            store_timestamp: get_i64(b, pos),
            topic: Vec::new(),
            props: Vec::new(),
        };
        pos += if sys & sys_flag::STORE_HOST_V6 != 0 {
            28
        } else {
            16
        };
        let v2 = get_i32(b, 4) == MAGIC_V2;
        if head.phys != phys as i64 || (total as u64) > left || pos + 16 > b.len() {
            return None;
        }
        let body = usize::try_from(get_i32(b, pos + 12)).ok()?;
        let tail_at = pos + 16 + body;
        let tail_len = total.checked_sub(tail_at)?;
        if tail_len > 2 * (2 + i16::MAX as usize) {
            return None;
        }
        let tail = source.bytes(at + tail_at as u64, tail_len).ok()?;
        let (topic, rest) = split(tail, if v2 { 2 } else { 1 })?;
        let (props, rest) = split(rest, 2)?;
        if !rest.is_empty() {
            return None;
        }
        head.topic = topic.to_vec();
        head.props = props.to_vec();
        Some(head)
    }

    /// Store time of a file's first record; None if none starts there.
    pub fn first_time(&mut self, index: usize) -> Option<i64> {
        let base = self.row.files.get(index)?.base;
        self.head(base).map(|h| h.store_timestamp)
    }
}

/// A part that is led by its length in `width` bytes, and what follows it.
fn split(b: &[u8], width: usize) -> Option<(&[u8], &[u8])> {
    let len = match width {
        1 => *b.first()? as i8 as i64,
        _ if b.len() < 2 => return None,
        _ => get_i16(b, 0) as i64,
    };
    let end = width.checked_add(usize::try_from(len).ok()?)?;
    (end <= b.len()).then(|| (&b[width..end], &b[end..]))
}

/// Whether eight bytes are the head of a blank record.
pub fn is_blank(b: &[u8]) -> bool {
    b.len() >= BLANK_LEN && get_i32(b, 4) == record::MAGIC_BLANK
}
