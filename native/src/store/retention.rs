//! Deleting what is old: which files go, and when. [CleanCommitLogService]
//!
//! `decide` is the table of conditions, free of clocks and disks. A round deletes whole commit-log
//! files, oldest first and never the last one, then lets queues and index follow. Buffers that
//! somebody holds stay valid: the file's name goes, its mapping stays until they are gone.

use super::disk;
use super::error::{Result, StoreError};
use super::store_impl::Store;
use super::store_impl::now_ms;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// RocketMQ's keys; ratios in percent, times in ms.
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

/// How full the disks are, in percent; None where the system does not say.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Of the folders of the commit log the one with the most room.
    pub log: Option<u32>,
    pub queues: Option<u32>,
}

/// What one round does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Files whose time is over go.
    pub delete_expired: bool,
    /// The oldest go whether their time is over or not.
    pub forcibly: bool,
    /// The store takes no messages (Some(true)), takes them again (Some(false)), or stays as it is.
    pub disk_full: Option<bool>,
}

/// The rules, first to last. A ratio counts when it is strictly above its limit.
pub fn decide(cfg: &RetentionConfig, hour: u32, usage: Usage, manual: bool) -> Decision {
    let over = |limit: u32| {
        usage.log.is_some_and(|u| u > limit) || usage.queues.is_some_and(|u| u > limit)
    };
    let unknown = usage.log.is_none() || usage.queues.is_none();
    let max_used = cfg.max_used_ratio.clamp(10, 95);
    let forcibly = cfg.clean_forcibly_ratio.clamp(30, 85);
    let warning = cfg.warning_ratio.clamp(35, 90);
    let force = over(forcibly);
    let full = if over(warning) {
        Some(true)
    } else if usage.log.is_none_or(|u| u <= forcibly) {
        Some(false)
    } else {
        None
    };
    Decision {
        delete_expired: manual
            || cfg.delete_when.contains(&hour)
            || over(max_used)
            || unknown
            || force,
        forcibly: force && cfg.clean_forcibly,
        disk_full: full,
    }
}

/// What a round deleted: files of the log, of queues and of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    pub log_files: usize,
    pub queue_files: usize,
    pub index_files: usize,
}

impl Store {
    /// One round at `now` (ms since the epoch). `manual`: expired files go whatever the hour.
    pub fn clean(&self, now: i64, manual: bool) -> Result<Cleaned> {
        self.clean_round(now, manual, true)
    }

    /// Brings queues and index in line with the log; deletes nothing of the log.
    pub fn clean_queues(&self, now: i64) -> Result<Cleaned> {
        self.trimmed_to.store(0, Ordering::Release);
        self.clean_round(now, false, false)
    }

    fn clean_round(&self, now: i64, manual: bool, log_too: bool) -> Result<Cleaned> {
        let _one = self.cleaning.lock();
        self.check_readable()?;
        let cfg = &self.config().retention;
        let usage = Usage {
            log: self.log.dirs().all().filter_map(disk::used_percent).min(),
            queues: disk::used_percent(&self.config().root),
        };
        let decision = decide(cfg, disk::local_hour(now), usage, manual);
        if let Some(full) = decision.disk_full
            && self.disk_full.swap(full, Ordering::AcqRel) != full
        {
            if full {
                log::error!("the disk is {usage:?} % full: no messages are taken");
            } else {
                log::info!("the disk has room again ({usage:?}): messages are taken");
            }
        }
        let mut done = Cleaned::default();
        let mut deleted = Ok(0);
        if log_too && (decision.delete_expired || decision.forcibly) {
            deleted = self.delete_log_files(now, decision.forcibly);
        }
        let min = self.log.min_offset();
        if self.trimmed_to.load(Ordering::Acquire) < min {
            for queue in self.topics.all_queues() {
                done.queue_files += queue.trim(min)?;
            }
            done.index_files = self.trim_index(min)?;
            self.trimmed_to.store(min, Ordering::Release);
        }
        done.log_files = deleted?;
        Ok(done)
    }

    fn delete_log_files(&self, now: i64, forcibly: bool) -> Result<usize> {
        let cfg = &self.config().retention;
        let mut deleted = 0;
        while deleted < cfg.batch_max {
            let row = self.log.segments();
            let (Some(first), true) = (row.first(), row.len() > 1) else {
                break;
            };
            // What is not on disk yet is still needed, and so is what the index has not read yet,
            // unless the disk is nearly full: then an index that cannot be written must not keep it
            // so, and of messages that are gone it need not know.
            if first.end() > self.flush.flushed() || (!forcibly && first.end() > self.indexed()) {
                break;
            }
            let age = std::fs::metadata(first.path())
                .and_then(|m| m.modified())
                .ok()
                .and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok())
                .map(|t| now.saturating_sub(t.as_millis() as i64));
            let gone = !first.path().exists(); // somebody deleted it by hand
            let expired = gone || age.is_some_and(|age| age > cfg.file_reserved_time as i64);
            if !expired && !forcibly {
                break;
            }
            log::info!(
                "{} is deleted: {}",
                first.path().display(),
                if expired {
                    "fileReservedTime is over"
                } else {
                    "the disk is nearly full"
                }
            );
            drop(row);
            self.log.remove_first()?;
            deleted += 1;
            if self
                .flush
                .wait_for_stop(Duration::from_millis(cfg.delete_interval))
            {
                break;
            }
        }
        Ok(deleted)
    }

    /// The thread's work, until the store stops.
    pub(super) fn run_cleaner(&self) {
        let interval = Duration::from_millis(self.config().retention.interval.max(1));
        // The first look is early: a store that was full is found full.
        let mut pause = interval.min(Duration::from_secs(1));
        while !self.flush.wait_for_stop(pause) {
            if let Err(e) = self.clean(now_ms(), false) {
                log::error!("old files not deleted, the next round tries again: {e}");
            }
            pause = interval;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(log: u32, queues: u32) -> Usage {
        Usage {
            log: Some(log),
            queues: Some(queues),
        }
    }

    #[test]
    fn the_steps_of_disk_usage() {
        let cfg = RetentionConfig::default();
        let at = |log, queues| decide(&cfg, 12, usage(log, queues), false);
        let row = |d: Decision| (d.delete_expired, d.forcibly, d.disk_full);
        assert_eq!(row(at(75, 10)), (false, false, Some(false)));
        assert_eq!(row(at(76, 10)), (true, false, Some(false)));
        assert_eq!(row(at(10, 76)), (true, false, Some(false)));
        assert_eq!(row(at(85, 85)), (true, false, Some(false)));
        assert_eq!(row(at(86, 10)), (true, true, None));
        assert_eq!(row(at(91, 10)), (true, true, Some(true)));
        assert_eq!(row(at(10, 91)), (true, true, Some(true)));
    }

    #[test]
    fn the_hour_the_command_and_the_switch() {
        let mut cfg = RetentionConfig::default();
        assert!(decide(&cfg, 4, usage(1, 1), false).delete_expired);
        assert!(!decide(&cfg, 5, usage(1, 1), false).delete_expired);
        assert!(decide(&cfg, 5, usage(1, 1), true).delete_expired);
        let unknown = Usage {
            log: None,
            queues: Some(1),
        };
        assert!(decide(&cfg, 5, unknown, false).delete_expired);
        cfg.clean_forcibly = false;
        assert!(!decide(&cfg, 5, usage(95, 1), false).forcibly);
        cfg.delete_when = vec![24];
        assert!(cfg.validate().is_err());
    }
}
