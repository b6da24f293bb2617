//! The store's configuration: RocketMQ's MessageStoreConfig keys that the engine needs.

use super::clock::now_ms;
use super::error::{Result, StoreError};
use pyrmq_format::cq_entry;
use pyrmq_format::delay::Levels;
use pyrmq_format::queue_ext::{END_LEN, MAX_UNIT, MIN_UNIT};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Bytes: the largest body that brokers take, and room for the rest of its record.
const MAX_COPIED: usize = (16 << 20) + (128 << 10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMode {
    Async,
    Sync,
}

/// RocketMQ's keys of deleting old files; ratios in percent, times in ms.
#[derive(Clone, Debug)]
pub struct RetentionConfig {
    /// fileReservedTime
    pub file_reserved_time: u64,
    /// deleteWhen: hours of the day, local time
    pub delete_when: Vec<u32>,
    /// diskMaxUsedSpaceRatio
    pub max_used_ratio: u32,
    /// diskSpaceCleanForciblyRatio
    pub clean_forcibly_ratio: u32,
    /// diskSpaceWarningLevelRatio
    pub warning_ratio: u32,
    /// cleanFileForciblyEnable
    pub clean_forcibly: bool,
    /// cleanResourceInterval
    pub interval: u64,
    /// deleteCommitLogFilesInterval
    pub delete_interval: u64,
    /// deleteFileBatchMax
    pub batch_max: usize,
}

impl Default for RetentionConfig {
    fn default() -> Self {
        RetentionConfig {
            file_reserved_time: 72 * 3_600_000,
            delete_when: vec![4],
            max_used_ratio: 75,
            clean_forcibly_ratio: 85,
            warning_ratio: 90,
            clean_forcibly: true,
            interval: 10_000,
            delete_interval: 100,
            batch_max: 10,
        }
    }
}

impl RetentionConfig {
    pub fn validate(&self) -> Result<()> {
        if self.delete_when.iter().any(|h| *h > 23) {
            return Err(StoreError::Illegal(
                "deleteWhen names hours from 00 to 23, separated by ';'".into(),
            ));
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// storePathRootDir
    pub root: PathBuf,
    /// storePathCommitLog: one folder or several
    pub commit_log_dirs: Vec<PathBuf>,
    /// readOnlyCommitLogStorePaths: folders that get no new files
    pub read_only_commit_log_dirs: Vec<PathBuf>,
    /// mappedFileSizeCommitLog, bytes
    pub commit_log_file_size: u64,
    /// mappedFileSizeConsumeQueue, bytes, a multiple of 20
    pub consume_queue_file_size: u64,
    /// mapperFileSizeBatchConsumeQueue, bytes, a multiple of 46
    pub batch_queue_file_size: u64,
    /// Topics with `queue.type` BatchCQ, as far as they are known before the store is opened
    pub batch_topics: Vec<String>,
    /// Queue files that may be mapped at a time; 0: as many as the kernel allows
    pub max_mapped_queue_files: usize,
    /// messageIndexEnable, maxHashSlotNum, maxIndexNum
    pub index_enable: bool,
    pub index_slots: u32,
    pub index_entries: u32,
    /// enableConsumeQueueExt, mappedFileSizeConsumeQueueExt
    pub queue_ext: bool,
    pub queue_ext_file_size: u64,
    /// Bytes of the bitmap that an extension may have; 0: none has one
    pub bitmap_len: usize,
    pub flush_mode: FlushMode,
    /// brokerRole is SLAVE: the log grows by what its master sends, and takes no messages
    pub replica: bool,
    /// brokerRole is SYNC_MASTER, and inSyncReplicas wants slaves
    pub replicated: bool,
    /// slaveTimeout, ms
    pub slave_timeout: i64,
    /// flushIntervalCommitLog, ms (ASYNC_FLUSH)
    pub flush_interval_commit_log: u64,
    /// osPageCacheBusyTimeOutMills, ms.
    pub busy_timeout: u64,
    /// messageDelayLevel
    pub delay_levels: Levels,
    /// flushIntervalConsumeQueue, ms
    pub flush_interval_consume_queue: u64,
    /// flushConsumeQueueLeastPages: pages a queue must have to be flushed when many have some
    pub flush_queue_least_pages: u64,
    /// flushConsumeQueueThoroughInterval, ms: how long the others may wait
    pub flush_queue_thorough_interval: u64,
    /// warmMapedFileEnable: keep the log file that is written and the next one in memory (mlock)
    pub warm_mapped_file: bool,
    pub retention: RetentionConfig,
    /// maxMessageSize: largest body, bytes
    pub max_message_size: usize,
    /// What stands in storeHost: brokerIP1 and listenPort.
    pub store_host: SocketAddr,
    pub check_crc_on_recover: bool,
    /// accessMessageInMemoryMaxRatio of the machine's memory, in bytes.
    pub in_memory_bytes: u64,
    /// maxTransferBytes/CountOnMessageInMemory and …InDisk
    pub transfer_memory: (usize, usize),
    pub transfer_disk: (usize, usize),
    /// maxFilterMessageSize: bytes of queue entries one read may scan
    pub max_filter_bytes: usize,
    /// Milliseconds since the epoch: the machine's clock, but for tests.
    pub clock: fn() -> i64,
}

impl StoreConfig {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        StoreConfig {
            commit_log_dirs: vec![root.join("commitlog")],
            read_only_commit_log_dirs: Vec::new(),
            root,
            commit_log_file_size: 1 << 30,
            consume_queue_file_size: 300_000 * cq_entry::SIZE as u64,
            batch_queue_file_size: 300_000 * cq_entry::BATCH_SIZE as u64,
            batch_topics: Vec::new(),
            max_mapped_queue_files: 0,
            index_enable: true,
            index_slots: 5_000_000,
            index_entries: 20_000_000,
            queue_ext: false,
            queue_ext_file_size: 48 << 20,
            bitmap_len: 0,
            flush_mode: FlushMode::Async,
            replica: false,
            replicated: false,
            slave_timeout: 3000,
            flush_interval_commit_log: 500,
            busy_timeout: 1000,
            delay_levels: Levels::default(),
            flush_interval_consume_queue: 1000,
            flush_queue_least_pages: 2,
            flush_queue_thorough_interval: 60_000,
            warm_mapped_file: false,
            retention: RetentionConfig::default(),
            max_message_size: 4 << 20,
            store_host: SocketAddr::from(([127, 0, 0, 1], 10911)),
            check_crc_on_recover: true,
            in_memory_bytes: memory_bytes() / 100 * 40,
            transfer_memory: (256 << 10, 32),
            transfer_disk: (64 << 10, 8),
            max_filter_bytes: 16_000,
            clock: now_ms,
        }
    }

    /// Largest record: body limit plus room for topic and properties.
    pub fn max_record(&self) -> usize {
        self.max_message_size + 64 * 1024
    }

    /// Bytes of the largest record that a master may send: its maxMessageSize is not known here.
    pub fn max_copied_record(&self) -> usize {
        (self.commit_log_file_size as usize).min(MAX_COPIED)
    }

    /// Checks what would make the store unusable later.
    pub fn validate(&self) -> Result<()> {
        let fail = |m: String| Err(StoreError::Illegal(m));
        for (name, size, unit) in [
            (
                "mappedFileSizeConsumeQueue",
                self.consume_queue_file_size,
                cq_entry::SIZE,
            ),
            (
                "mapperFileSizeBatchConsumeQueue",
                self.batch_queue_file_size,
                cq_entry::BATCH_SIZE,
            ),
        ] {
            if size == 0 || !size.is_multiple_of(unit as u64) || size > 1 << 30 {
                return fail(format!(
                    "{name}={size} must be a multiple of {unit} of at most 1 GiB"
                ));
            }
        }
        if self.commit_log_dirs.is_empty() {
            return fail("storePathCommitLog names no folder".into());
        }
        if self.index_slots == 0 || self.index_entries < 2 || self.index_entries > i32::MAX as u32 {
            return fail(format!(
                "maxHashSlotNum={} must be at least 1, maxIndexNum={} at least 2",
                self.index_slots, self.index_entries
            ));
        }
        let unit = MIN_UNIT + self.bitmap_len;
        if unit > MAX_UNIT || 2 * unit + END_LEN > self.queue_ext_file_size as usize {
            return fail(format!(
                "mappedFileSizeConsumeQueueExt={} has no room for bitmaps of {} bytes: lower \
                 expectConsumerNumUseFilter or raise maxErrorRateOfBloomFilter",
                self.queue_ext_file_size, self.bitmap_len
            ));
        }
        self.retention.validate()?;
        if self.commit_log_file_size < 4096 || self.commit_log_file_size > i32::MAX as u64 {
            return fail(format!(
                "mappedFileSizeCommitLog={} must be 4096 to 2147483647",
                self.commit_log_file_size
            ));
        }
        Ok(())
    }
}

fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram as u64 * info.mem_unit as u64
}
