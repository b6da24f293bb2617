//! The extension file of a queue: what an entry of 20 bytes has no room for. [ConsumeQueueExt]

use super::error::{Result, StoreError};
use super::queue_files::QueueFiles;
use super::resident::{Resident, Wait};
use super::segment::Segment;
use pyrmq_format::queue_ext::{self as format, END_LEN, MIN_UNIT, Unit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const CHUNK: usize = 64 << 10;

pub struct QueueExt {
    files: Arc<QueueFiles>,
    /// enableConsumeQueueExt: new entries get a unit. Otherwise old ones are read only.
    writing: bool,
    /// Bytes that a new unit has at most.
    unit: usize,
    flushed: AtomicU64,
}

impl QueueExt {
    pub fn new(files: Arc<QueueFiles>, writing: bool, bitmap_len: usize) -> Self {
        QueueExt {
            files,
            writing,
            unit: MIN_UNIT + bitmap_len,
            flushed: AtomicU64::new(0),
        }
    }

    /// Whether there is no unit.
    pub fn is_empty(&self) -> bool {
        self.files.first().is_none()
    }

    pub fn is_writing(&self) -> bool {
        self.writing
    }

    fn start_of_file(&self, byte: u64) -> u64 {
        byte - byte % self.files.file_size() as u64
    }

    /// Makes room for `more` units, so that adding them cannot fail.
    pub fn ready(&self, more: usize) -> Result<()> {
        let (size, unit) = (self.files.file_size() as u64, self.unit as u64);
        let mut byte = self.files.end();
        // At the end of each file less than a unit and `END_LEN` stay free.
        let (in_a_file, free) = ((size - END_LEN as u64) / unit, unit + END_LEN as u64);
        let need = more as u64 * unit + (more as u64 / in_a_file.max(1) + 2) * free;
        let end = byte + need;
        while byte < end {
            let base = self.start_of_file(byte);
            let segment = match self.files.map(byte)? {
                Some(s) => s,
                None => self.files.add(base, |_| Ok(()))?,
            };
            let to = (end.min(segment.end()) - base) as usize;
            segment.ready(to, CHUNK)?;
            byte = segment.end();
        }
        Ok(())
    }

    /// Appends a unit and returns its address. Only the holder of the put lock (or recovery, which
    /// runs alone) calls this, after `ready`.
    pub fn add(&self, unit: &Unit<'_>) -> Result<i64> {
        let size = self.files.file_size();
        let mut byte = self.files.end();
        let at = (byte % size as u64) as usize;
        if at + unit.size() + END_LEN > size {
            let full = self.segment(byte)?;
            // SAFETY: see `ready`: there is one writer, and the slice ends before `publish`.
            unsafe { full.tail(at, END_LEN, CHUNK) }?[..2].copy_from_slice(&[0xFF; 2]);
            full.publish(size);
            byte = self.start_of_file(byte) + size as u64;
            self.files.set_end(byte);
        }
        let segment = self.segment(byte)?;
        let at = (byte - segment.base()) as usize;
        // SAFETY: as above.
        unit.write(unsafe { segment.tail(at, unit.size(), CHUNK) }?);
        segment.publish(at + unit.size());
        self.files.set_end(byte + unit.size() as u64);
        Ok(format::address(byte))
    }

    fn segment(&self, byte: u64) -> Result<Arc<Segment>> {
        match self.files.map(byte)? {
            Some(s) => Ok(s),
            None => self.files.add(self.start_of_file(byte), |_| Ok(())),
        }
    }

    /// Whether there is a unit at an address.
    pub fn has(&self, address: i64) -> Result<bool> {
        Ok(Units::new(self, Wait::ForDisk).get(address)?.is_some())
    }

    /// Ends the file behind the unit of the last address that the queue has.
    pub fn recover(&self, last: Option<i64>) -> Result<()> {
        self.files.set_end(self.files.files_end());
        let end = match last {
            None => 0,
            Some(address) => match Units::new(self, Wait::ForDisk).get(address)? {
                Some(unit) => format::offset(address) + unit.size() as u64,
                None => {
                    return Err(StoreError::Damaged {
                        path: self.files.dir(),
                        message: format!(
                            "there is no unit at {}, which the queue refers to; delete the \
                             folders consumequeue and consumequeue_ext to have them rebuilt",
                            format::offset(address)
                        ),
                    });
                }
            },
        };
        self.flushed.fetch_min(end, Ordering::AcqRel);
        self.files.cut(end)
    }

    /// Deletes files before the unit of `address`.
    pub fn trim(&self, address: i64) -> Result<usize> {
        self.files
            .drop_before(self.start_of_file(format::offset(address)))
    }

    pub fn flush(&self) -> Result<()> {
        let to = self.files.end();
        let from = self.flushed.load(Ordering::Acquire);
        if from < to {
            self.files.sync(from, to)?;
            self.flushed.store(to, Ordering::Release);
        }
        Ok(())
    }
}

/// Reads units, which are next to each other as a rule.
pub struct Units<'q> {
    ext: &'q QueueExt,
    resident: Resident,
    file: Option<Arc<Segment>>,
    /// Bytes of the last one: the next has as many, as a rule.
    size: usize,
}

impl<'q> Units<'q> {
    pub fn new(ext: &'q QueueExt, wait: Wait) -> Self {
        Units {
            ext,
            resident: Resident::new(wait),
            file: None,
            size: MIN_UNIT,
        }
    }

    /// The unit of an address; None if there is none (any more).
    #[inline]
    pub fn get(&mut self, address: i64) -> Result<Option<Unit<'_>>> {
        let byte = format::offset(address);
        let has = |s: &Arc<Segment>| (s.base()..s.end()).contains(&byte);
        if !self.file.as_ref().is_some_and(has) {
            self.file = self.ext.files.map(byte)?;
        }
        let Some(file) = &self.file else {
            return Ok(None);
        };
        let at = (byte - file.base()) as usize;
        let mut unit = self.resident.bytes(file, at, self.size)?;
        if unit.is_none_or(|bytes| format::size_of(bytes) != self.size) {
            let head = self.resident.bytes(file, at, MIN_UNIT)?;
            self.size = head.map_or(MIN_UNIT, format::size_of);
            unit = self.resident.bytes(file, at, self.size)?;
        }
        Ok(unit.and_then(Unit::read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::Maps;

    fn open(dir: &std::path::Path) -> QueueExt {
        let maps = Arc::new(Maps::new(0));
        QueueExt::new(QueueFiles::open(dir.into(), 3, 100, maps).unwrap(), true, 0)
    }

    fn tags_code(ext: &QueueExt, address: i64) -> Option<i64> {
        let mut units = Units::new(ext, Wait::ForDisk);
        units.get(address).unwrap().map(|unit| unit.tags_code)
    }

    #[test]
    fn units_roll_over_and_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let ext = open(dir.path());
        let mut addresses = Vec::new();
        for n in 0..10 {
            ext.ready(1).unwrap();
            let unit = Unit {
                tags_code: n,
                store_time: 100 + n,
                bitmap: &[],
            };
            addresses.push(ext.add(&unit).unwrap());
        }
        // Four of 20 bytes and the mark fit into 100.
        let offsets: Vec<_> = addresses.iter().map(|a| format::offset(*a)).collect();
        assert_eq!(offsets, [0, 20, 40, 60, 100, 120, 140, 160, 200, 220]);
        let first = std::fs::read(dir.path().join("3/00000000000000000000")).unwrap();
        assert_eq!(first[80..84], [0xFF, 0xFF, 0, 0]);
        drop(ext);
        let ext = open(dir.path());
        ext.recover(Some(addresses[8])).unwrap();
        for (n, a) in addresses[..9].iter().enumerate() {
            assert_eq!(tags_code(&ext, *a), Some(n as i64));
        }
        assert_eq!(tags_code(&ext, addresses[9]), None);
        assert_eq!(ext.trim(addresses[4]).unwrap(), 1);
        assert_eq!(tags_code(&ext, addresses[3]), None);
        assert!(ext.recover(Some(addresses[0])).is_err());
    }
}
