//! What the store is told: RocketMQ's MessageStoreConfig keys that the engine needs.

use super::error::{Result, StoreError};
use crate::format::cq_entry;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushMode {
    Async,
    Sync,
}

#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// storePathRootDir
    pub root: PathBuf,
    /// storePathCommitLog
    pub commit_log_dir: PathBuf,
    /// mappedFileSizeCommitLog, bytes
    pub commit_log_file_size: u64,
    /// mappedFileSizeConsumeQueue, bytes, a multiple of 20
    pub consume_queue_file_size: u64,
    pub flush_mode: FlushMode,
    /// flushIntervalCommitLog, ms (ASYNC_FLUSH)
    pub flush_interval_commit_log: u64,
    /// flushIntervalConsumeQueue, ms
    pub flush_interval_consume_queue: u64,
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
}

impl StoreConfig {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        StoreConfig {
            commit_log_dir: root.join("commitlog"),
            root,
            commit_log_file_size: 1 << 30,
            consume_queue_file_size: 300_000 * cq_entry::SIZE as u64,
            flush_mode: FlushMode::Async,
            flush_interval_commit_log: 500,
            flush_interval_consume_queue: 1000,
            max_message_size: 4 << 20,
            store_host: SocketAddr::from(([127, 0, 0, 1], 10911)),
            check_crc_on_recover: true,
            in_memory_bytes: memory_bytes() / 100 * 40,
            transfer_memory: (256 << 10, 32),
            transfer_disk: (64 << 10, 8),
            max_filter_bytes: 16_000,
        }
    }

    /// Largest record: body limit plus room for topic and properties.
    pub fn max_record(&self) -> usize {
        self.max_message_size + 64 * 1024
    }

    /// Checks what would make the store unusable later.
    pub fn validate(&self) -> Result<()> {
        let entry = cq_entry::SIZE as u64;
        let fail = |m: String| Err(StoreError::Illegal(m));
        if self.consume_queue_file_size == 0
            || !self.consume_queue_file_size.is_multiple_of(entry)
            || self.consume_queue_file_size > 1 << 30
        {
            return fail(format!(
                "mappedFileSizeConsumeQueue={} must be a multiple of 20 of at most 1 GiB",
                self.consume_queue_file_size
            ));
        }
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
    // SAFETY: sysconf reads two system constants and touches no memory of ours.
    let (pages, size) = unsafe {
        (
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    if pages > 0 && size > 0 {
        pages as u64 * size as u64
    } else {
        4 << 30
    }
}
