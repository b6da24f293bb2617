//! The keywords of `Store(root, …)`: RocketMQ's configuration keys in snake_case.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyrmq_format::delay::Levels;
use pyrmq_store::{FlushMode, StoreConfig};
use std::net::SocketAddr;
use std::path::PathBuf;

pub fn address(text: &str) -> PyResult<SocketAddr> {
    text.parse()
        .map_err(|_| PyValueError::new_err(format!("{text:?} is not IP:PORT")))
}

/// `messageDelayLevel`.
fn levels(text: &str) -> PyResult<Levels> {
    Levels::parse(text).map_err(|e| PyValueError::new_err(format!("messageDelayLevel {e}")))
}

/// Reads the keywords; TypeError for one that does not exist.
pub fn read(root: PathBuf, options: Option<&Bound<'_, PyDict>>) -> PyResult<StoreConfig> {
    let mut cfg = StoreConfig::new(root);
    // Nothing is deleted by itself unless an interval is given.
    cfg.retention.interval = 0;
    for (key, value) in options.into_iter().flatten() {
        let key: String = key.extract()?;
        set(&mut cfg, &key, &value)?;
    }
    Ok(cfg)
}

fn set(cfg: &mut StoreConfig, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let keep = &mut cfg.retention;
    match key {
        "commit_log_dirs" => cfg.commit_log_dirs = value.extract()?,
        "read_only_commit_log_dirs" => cfg.read_only_commit_log_dirs = value.extract()?,
        "commit_log_file_size" => cfg.commit_log_file_size = value.extract()?,
        "consume_queue_file_size" => cfg.consume_queue_file_size = value.extract()?,
        "batch_queue_file_size" => cfg.batch_queue_file_size = value.extract()?,
        "batch_topics" => cfg.batch_topics = value.extract()?,
        "max_mapped_queue_files" => cfg.max_mapped_queue_files = value.extract()?,
        "index_enable" => cfg.index_enable = value.extract()?,
        "index_slots" => cfg.index_slots = value.extract()?,
        "index_entries" => cfg.index_entries = value.extract()?,
        "queue_ext" => cfg.queue_ext = value.extract()?,
        "queue_ext_file_size" => cfg.queue_ext_file_size = value.extract()?,
        "bitmap_len" => cfg.bitmap_len = value.extract()?,
        "sync_flush" => {
            let sync: bool = value.extract()?;
            cfg.flush_mode = if sync {
                FlushMode::Sync
            } else {
                FlushMode::Async
            };
        }
        "replica" => cfg.replica = value.extract()?,
        "replicated" => cfg.replicated = value.extract()?,
        "slave_timeout" => cfg.slave_timeout = value.extract()?,
        "busy_timeout" => cfg.busy_timeout = value.extract()?,
        "flush_interval_commit_log" => cfg.flush_interval_commit_log = value.extract()?,
        "flush_interval_consume_queue" => cfg.flush_interval_consume_queue = value.extract()?,
        "flush_queue_least_pages" => cfg.flush_queue_least_pages = value.extract()?,
        "flush_queue_thorough_interval" => cfg.flush_queue_thorough_interval = value.extract()?,
        "warm_mapped_file" => cfg.warm_mapped_file = value.extract()?,
        "message_delay_level" => cfg.delay_levels = levels(&value.extract::<String>()?)?,
        "max_message_size" => cfg.max_message_size = value.extract()?,
        "store_host" => cfg.store_host = address(&value.extract::<String>()?)?,
        "check_crc_on_recover" => cfg.check_crc_on_recover = value.extract()?,
        "in_memory_ratio" => {
            let percent: u64 = value.extract()?;
            cfg.in_memory_bytes = cfg.in_memory_bytes / 40 * percent.min(100);
        }
        "transfer_memory" => cfg.transfer_memory = value.extract()?,
        "transfer_disk" => cfg.transfer_disk = value.extract()?,
        "max_filter_bytes" => cfg.max_filter_bytes = value.extract()?,
        "file_reserved_time" => keep.file_reserved_time = value.extract()?,
        "delete_when" => keep.delete_when = value.extract()?,
        "disk_max_used_space_ratio" => keep.max_used_ratio = value.extract()?,
        "disk_space_clean_forcibly_ratio" => keep.clean_forcibly_ratio = value.extract()?,
        "disk_space_warning_level_ratio" => keep.warning_ratio = value.extract()?,
        "clean_file_forcibly" => keep.clean_forcibly = value.extract()?,
        "clean_resource_interval" => keep.interval = value.extract()?,
        "delete_commit_log_files_interval" => keep.delete_interval = value.extract()?,
        "delete_file_batch_max" => keep.batch_max = value.extract()?,
        _ => {
            let text = format!("Store() got an unexpected keyword argument '{key}'");
            return Err(PyTypeError::new_err(text));
        }
    }
    Ok(())
}
