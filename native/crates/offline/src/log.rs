//! The set of commit-log files.

use super::file_size::common_size;
use super::source::{SCATTERED, Source};
use pyrmq_format::candidate::{self, HEAD_LEN, Layout, Start};
use pyrmq_format::{get_i32, get_i64};
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
pub struct LogFileSet {
    /// Sorted by `base`.
    pub files: Vec<LogFile>,
    /// What a file should have (mappedFileSizeCommitLog), found out from lengths and names.
    pub size: u64,
}

impl LogFileSet {
    pub fn new(mut files: Vec<LogFile>) -> Self {
        files.sort_by_key(|f| f.base);
        let gaps = files.windows(2).map(|w| w[1].base - w[0].base);
        let size = common_size(files.iter().map(|f| f.len).chain(gaps));
        LogFileSet { files, size }
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
    pub sys_flag: i32,
    pub store_timestamp: i64,
    pub topic: Vec<u8>,
    pub props: Vec<u8>,
}

/// Reads heads at scattered places; keeps the last file open.
pub struct HeadReader {
    file_set: LogFileSet,
    open: Option<(usize, Source)>,
}

impl HeadReader {
    pub fn new(file_set: LogFileSet) -> Self {
        HeadReader {
            file_set,
            open: None,
        }
    }

    fn source(&mut self, index: usize) -> Option<&mut Source> {
        if self.open.as_ref().is_none_or(|(i, _)| *i != index) {
            let source = Source::open(&self.file_set.files[index].path, SCATTERED).ok()?;
            self.open = Some((index, source));
        }
        self.open.as_mut().map(|(_, s)| s)
    }

    /// The head of the record that starts at `phys`; None if none does. The CRC is not checked.
    pub fn head(&mut self, phys: u64) -> Option<Head> {
        let (index, at) = self.file_set.locate(phys)?;
        let left = self.file_set.files[index].len.min(self.file_set.size) - at;
        let source = self.source(index)?;
        let b = source.bytes(at, HEAD_LEN).ok()?;
        let Start::Record(total) = candidate::start(b, left) else {
            return None;
        };
        if candidate::stated_phys(b) != Some(phys as i64) {
            return None;
        }
        let layout = Layout::of(b);
        let body = candidate::length(b.get(layout.body_len..layout.body_len + 4)?);
        let mut head = Head {
            total,
            queue_id: get_i32(b, 12),
            queue_offset: get_i64(b, 20),
            sys_flag: get_i32(b, 36),
            store_timestamp: get_i64(b, layout.store_timestamp),
            topic: Vec::new(),
            props: Vec::new(),
        };
        let tail_at = layout.body_len + 4 + usize::try_from(body).ok()?;
        let tail_len = total.checked_sub(tail_at)?;
        if tail_len > 2 * (2 + i16::MAX as usize) {
            return None;
        }
        let tail = source.bytes(at + tail_at as u64, tail_len).ok()?;
        let in_tail = |at: usize, width: usize| tail.get(at - tail_at..at - tail_at + width);
        let parts = layout.parts_by::<std::convert::Infallible>(total, |at, width| {
            Ok(match at == layout.body_len {
                true => Some(body),
                false => in_tail(at, width).map(candidate::length),
            })
        });
        let Ok(parts) = parts;
        let parts = parts?;
        head.topic = in_tail(parts.topic.start, parts.topic.len())?.to_vec();
        head.props = in_tail(parts.props.start, parts.props.len())?.to_vec();
        Some(head)
    }

    /// Store time of a file's first record; None if none starts there.
    pub fn first_time(&mut self, index: usize) -> Option<i64> {
        let base = self.file_set.files.get(index)?.base;
        self.head(base).map(|h| h.store_timestamp)
    }
}
