//! The 4096-byte checkpoint file: five i64, the rest zero. [StoreCheckpoint]
//!
//! A master that waits for slaves also writes how far they have its log: `MARK`, the offset, and the
//! offset's complement, at `REPLICATED_AT`. RocketMQ's brokers neither read nor change that place.

use super::get_i64;

pub const SIZE: usize = 4096;
/// In the file's last sector, which has nothing else.
pub const REPLICATED_AT: usize = SIZE - 24;
const MARK: i64 = i64::from_be_bytes(*b"replicas");
/// The year 2248, in ms: later times are damage.
const LATEST: i64 = 1 << 43;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Store time of the last flushed commit-log data.
    pub physic_msg_timestamp: i64,
    /// Store time of the last message put in a consume queue.
    pub logics_msg_timestamp: i64,
    /// End time of the last full and flushed index file.
    pub index_msg_timestamp: i64,
    pub master_flushed_offset: i64,
    /// Physical offset below which the log is on disk.
    pub confirm_phy_offset: i64,
    /// Physical offset below which as many slaves have the log as were waited for; None: nobody was
    /// waited for.
    pub replicated: Option<i64>,
}

impl Checkpoint {
    /// None when the file is shorter than its five fields.
    pub fn read(b: &[u8]) -> Option<Self> {
        (b.len() >= 40).then(|| Checkpoint {
            physic_msg_timestamp: get_i64(b, 0),
            logics_msg_timestamp: get_i64(b, 8),
            index_msg_timestamp: get_i64(b, 16),
            master_flushed_offset: get_i64(b, 24),
            confirm_phy_offset: get_i64(b, 32),
            replicated: replicated(b),
        })
    }

    pub fn encode(&self) -> [u8; SIZE] {
        let mut b = [0u8; SIZE];
        let fields = [
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_phy_offset,
        ];
        for (i, f) in fields.iter().enumerate() {
            b[i * 8..i * 8 + 8].copy_from_slice(&f.to_be_bytes());
        }
        if let Some(offset) = self.replicated {
            for (i, f) in [MARK, offset, !offset].into_iter().enumerate() {
                let at = REPLICATED_AT + i * 8;
                b[at..at + 8].copy_from_slice(&f.to_be_bytes());
            }
        }
        b
    }

    /// Whether its times are times. No checksum covers the file: after a power
    /// cut it may have the content of another one.
    pub fn is_possible(&self) -> bool {
        let times = [
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
        ];
        times.iter().all(|time| (0..=LATEST).contains(time))
    }

    /// Everything stored up to this time is known to be on disk, log and queues.
    pub fn min_timestamp(&self) -> i64 {
        let low = self.physic_msg_timestamp.min(self.logics_msg_timestamp);
        low.saturating_sub(3000).max(0)
    }
}

/// Anything but a whole entry counts as none: so the file was before there were such entries.
fn replicated(b: &[u8]) -> Option<i64> {
    let b = b.get(REPLICATED_AT..SIZE)?;
    let offset = get_i64(b, 8);
    (get_i64(b, 0) == MARK && get_i64(b, 16) == !offset && offset >= 0).then_some(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_file_has_is_no_checkpoint() {
        let real = Checkpoint {
            physic_msg_timestamp: 1_700_000_000_000,
            logics_msg_timestamp: 1_700_000_000_001,
            ..Checkpoint::default()
        };
        assert!(Checkpoint::default().is_possible() && real.is_possible());
        let mut record = [7; 40];
        record[..4].copy_from_slice(&180i32.to_be_bytes());
        assert!(!Checkpoint::read(&record).unwrap().is_possible());
    }

    #[test]
    fn round_trip_and_min() {
        let c = Checkpoint {
            physic_msg_timestamp: 1_700_000_000_000,
            logics_msg_timestamp: 1_700_000_000_500,
            ..Default::default()
        };
        assert_eq!(Checkpoint::read(&c.encode()), Some(c));
        assert_eq!(c.min_timestamp(), 1_699_999_997_000);
        for offset in [0, 1, i64::MAX] {
            let replicated = Some(offset);
            let c = Checkpoint { replicated, ..c };
            assert_eq!(Checkpoint::read(&c.encode()), Some(c));
            // RocketMQ's own fields stand where they stood, and a damaged entry is none.
            let mut bytes = c.encode();
            assert_eq!(Checkpoint::read(&bytes[..40]).unwrap().replicated, None);
            bytes[SIZE - 1] ^= 1;
            assert_eq!(Checkpoint::read(&bytes).unwrap().replicated, None);
        }
        assert_eq!(Checkpoint::read(&[0; 39]), None);
        assert_eq!(Checkpoint::default().min_timestamp(), 0);
    }
}
