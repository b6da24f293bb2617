//! File config/timercheck: how far timers are enqueued and delivered, as RocketMQ keeps it.
//!
//! Behind RocketMQ's fields, which its brokers leave as it is, stands what they do not have: `MARK`, up to
//! where the commit log is spoken of, the precision, and a checksum of all of it. Where the checksum is
//! wrong, an Apache broker wrote the file last. [TimerCheckpoint]

use super::log::sync_dir;
use pyrmq_format::timer::TimerCheck;
use pyrmq_format::{crc31, get_i64};
use pyrmq_store::{Result, StoreError};
use std::fs::File;
use std::io::Write;
use std::path::Path;

const MARK: i64 = i64::from_be_bytes(*b"pyrmqtmr");
/// In the first sector of the file, which a disk writes in one piece.
const OURS_AT: usize = 64;
const OURS_LEN: usize = 32;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Check {
    pub fields: TimerCheck,
    /// None if an Apache broker wrote the file last.
    pub ours: Option<Ours>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ours {
    /// The file says all about deliveries before this physical offset.
    pub log_end: u64,
    /// timerPrecisionMs of wheel and log.
    pub precision: i64,
}

impl Check {
    /// The file; None where there is none, or where it was cut or is blank.
    pub fn load(path: &Path) -> Result<Option<Check>> {
        match std::fs::read(path) {
            Ok(bytes) => Ok(Check::parse(&bytes)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(StoreError::io("read", path, &e)),
        }
    }

    /// What can be believed at `now`. A time to come, without a checksum, is damage: nothing that waits until
    /// then was delivered.
    pub fn believed(mut self, now: i64) -> Check {
        if self.ours.is_none() && self.fields.read_ms > now {
            ::log::error!(
                "timers: config/timercheck says that all before {} ms is delivered, it is {now} now: that \
                 is not believed",
                self.fields.read_ms
            );
            self.fields.read_ms = now;
        }
        self
    }

    fn parse(bytes: &[u8]) -> Option<Check> {
        let fields = TimerCheck::read(bytes)?;
        let numbers = [fields.read_ms, fields.log_flushed, fields.queue_offset];
        if numbers.iter().all(|&n| n == 0) || numbers.iter().any(|&n| n < 0) {
            return None;
        }
        let ours = bytes.get(OURS_AT..OURS_AT + OURS_LEN).and_then(|b| {
            let is_whole = get_i64(b, 0) == MARK && get_i64(b, 24) == checksum(bytes);
            is_whole.then(|| Ours {
                log_end: get_i64(b, 8).max(0) as u64,
                precision: get_i64(b, 16),
            })
        });
        Some(Check { fields, ours })
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; TimerCheck::FILE_SIZE];
        bytes[..TimerCheck::SIZE].copy_from_slice(&self.fields.encode());
        if let Some(ours) = self.ours {
            let fields = [MARK, ours.log_end as i64, ours.precision];
            for (i, field) in fields.iter().enumerate() {
                let at = OURS_AT + i * 8;
                bytes[at..at + 8].copy_from_slice(&field.to_be_bytes());
            }
            let sum = checksum(&bytes);
            let at = OURS_AT + 24;
            bytes[at..at + 8].copy_from_slice(&sum.to_be_bytes());
        }
        bytes
    }

    /// Replaces the file by one that is on disk.
    pub fn save(&self, path: &Path) -> Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|e| StoreError::io("create folder", folder, &e))?;
        let new = path.with_extension("tmp");
        let written = File::create(&new).and_then(|mut file| {
            file.write_all(&self.encode())?;
            file.sync_data()
        });
        written
            .and_then(|()| std::fs::rename(&new, path))
            .map_err(|e| StoreError::io("write", path, &e))?;
        sync_dir(folder)
    }
}

fn checksum(bytes: &[u8]) -> i64 {
    crc31(&bytes[..OURS_AT + 24]) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check() -> Check {
        let fields = TimerCheck {
            read_ms: 1_700_000_000_000,
            log_flushed: 520,
            queue_offset: 10,
            master_queue_offset: 10,
            state_version: 1,
            timestamp: 2,
            counter: 3,
        };
        let ours = Some(Ours {
            log_end: 4096,
            precision: 1000,
        });
        Check { fields, ours }
    }

    #[test]
    fn it_is_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config/timercheck");
        assert_eq!(Check::load(&path).unwrap(), None);
        check().save(&path).unwrap();
        assert_eq!(Check::load(&path).unwrap(), Some(check()));
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 4096);
    }

    #[test]
    fn what_another_broker_changed_is_not_ours_and_what_is_blank_is_nothing() {
        let mut bytes = check().encode();
        bytes[7] ^= 1; // read_ms, as an Apache broker writes it
        let found = Check::parse(&bytes).unwrap();
        assert_eq!((found.ours, found.fields.log_flushed), (None, 520));
        assert_eq!(Check::parse(&[0; 4096]), None);
        assert_eq!(Check::parse(&bytes[..20]), None);
        assert!(Check::parse(&bytes[..56]).unwrap().ours.is_none());
        assert_eq!(found.believed(found.fields.read_ms), found);
        assert_eq!(found.believed(1).fields.read_ms, 1);
        assert_eq!(check().believed(1), check(), "ours: the clock was ahead");
        bytes[0] = 0xff;
        assert_eq!(Check::parse(&bytes), None);
    }
}
