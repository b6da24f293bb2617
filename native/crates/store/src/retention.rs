//! Deleting what is old: which files go, and when. [CleanCommitLogService]
//!
//! `decide` is the table of conditions, free of clocks and disks. A pass deletes whole commit-log
//! files, oldest first and never the last one, then lets queues and index follow. Exported slices
//! stay valid: the file's name goes, its mapping stays until they are gone.

use super::availability::Availability;
use super::barrier::Barrier;
use super::clock;
use super::commit_log::CommitLog;
use super::config::{RetentionConfig, StoreConfig};
use super::disk;
use super::error::Result;
use super::indexer::Indexer;
use super::stop::StopSignal;
use super::topics::Topics;
use parking_lot::Mutex;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How full the disks are, in percent; None where the system does not say.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Of the folders of the commit log the one with the most room.
    pub log: Option<u32>,
    pub queues: Option<u32>,
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |used: Option<u32>| used.map_or("unknown".into(), |used| format!("{used} %"));
        let (log, queues) = (text(self.log), text(self.queues));
        write!(
            f,
            "in use: {log} of the commit log's, {queues} of the queues'"
        )
    }
}

/// What one pass does.
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

/// What a pass deleted: files of the log, of queues and of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    pub log_files: usize,
    pub queue_files: usize,
    pub index_files: usize,
}

/// What retention measures and what it deletes from.
pub struct Links {
    pub availability: Arc<Availability>,
    pub barrier: Arc<Barrier>,
    pub log: Arc<CommitLog>,
    pub topics: Arc<Topics>,
    pub indexer: Option<Arc<Indexer>>,
    pub stop: Arc<StopSignal>,
}

pub struct Retention {
    cfg: RetentionConfig,
    root: PathBuf,
    links: Links,
    /// One pass at a time.
    pass: Mutex<()>,
    /// Queues and index have been brought in line with a log that starts here.
    trimmed_to: AtomicU64,
    /// fileReservedTime, ms: it may change while the store is open.
    reserved: AtomicU64,
    /// Log files that end here or before count as expired (reclaimAfter).
    reclaimable_to: AtomicU64,
}

impl Retention {
    pub fn new(cfg: &StoreConfig, links: Links) -> Self {
        Retention {
            cfg: cfg.retention.clone(),
            root: cfg.root.clone(),
            links,
            pass: Mutex::new(()),
            trimmed_to: AtomicU64::new(0),
            reserved: AtomicU64::new(cfg.retention.file_reserved_time),
            reclaimable_to: AtomicU64::new(0),
        }
    }

    /// From the next pass on log files are kept for so long, ms.
    pub fn set_file_reserved_time(&self, ms: u64) {
        self.reserved.store(ms, Ordering::Relaxed);
    }

    /// From now on log files that end at this physical offset or before count as expired; 0: none does.
    pub fn reclaim_to(&self, offset: u64) {
        self.reclaimable_to.store(offset, Ordering::Release);
    }

    /// One pass at `now` (ms since the epoch). `manual`: expired files go whatever the hour.
    pub fn clean(&self, now: i64, manual: bool) -> Result<Cleaned> {
        self.clean_pass(now, manual, true)
    }

    /// Brings queues and index in line with the log; deletes nothing of the log.
    pub fn clean_queues(&self, now: i64) -> Result<Cleaned> {
        self.trimmed_to.store(0, Ordering::Release);
        self.clean_pass(now, false, false)
    }

    /// Waits until no pass is under way.
    pub fn wait_for_pass(&self) {
        drop(self.pass.lock());
    }

    fn clean_pass(&self, now: i64, manual: bool, log_too: bool) -> Result<Cleaned> {
        let _one = self.pass.lock();
        let links = &self.links;
        links.availability.check_readable()?;
        let usage = Usage {
            log: links.log.dirs().all().filter_map(disk::used_percent).min(),
            queues: disk::used_percent(&self.root),
        };
        let decision = decide(&self.cfg, clock::local_hour(now), usage, manual);
        if let Some(full) = decision.disk_full
            && links.availability.set_disk_full(full) != full
        {
            if full {
                log::error!("the disk is too full ({usage}): no messages are taken");
            } else {
                log::info!("the disk has room again ({usage}): messages are taken");
            }
        }
        let mut done = Cleaned::default();
        let mut deleted = Ok(0);
        if log_too && (decision.delete_expired || decision.forcibly) {
            deleted = self.delete_log_files(now, decision.forcibly);
        }
        let min = links.log.min_offset();
        if self.trimmed_to.load(Ordering::Acquire) < min {
            for queue in links.topics.all_queues() {
                done.queue_files += queue.trim(min)?;
            }
            if let Some(indexer) = &links.indexer {
                done.index_files = indexer.index().trim(min)?;
            }
            self.trimmed_to.store(min, Ordering::Release);
        }
        done.log_files = deleted?;
        Ok(done)
    }

    fn delete_log_files(&self, now: i64, forcibly: bool) -> Result<usize> {
        let (cfg, links) = (&self.cfg, &self.links);
        let reserved = self.reserved.load(Ordering::Relaxed) as i64;
        let mut deleted = 0;
        while deleted < cfg.batch_max {
            let segments = links.log.segments();
            let (Some(first), true) = (segments.first(), segments.len() > 1) else {
                break;
            };
            // What is not on disk yet is still needed, and so is what the index has not read yet,
            // unless the disk is nearly full: then an index that cannot be written must not keep it
            // so, and of messages that are gone it need not know.
            let indexed = links.indexer.as_ref().map_or(u64::MAX, |i| i.indexed());
            if first.end() > links.barrier.flushed() || (!forcibly && first.end() > indexed) {
                break;
            }
            let age = std::fs::metadata(first.path())
                .and_then(|m| m.modified())
                .ok()
                .and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok())
                .map(|t| now.saturating_sub(t.as_millis() as i64));
            let gone = !first.path().exists(); // somebody deleted it by hand
            let expired = gone || age.is_some_and(|age| age > reserved);
            // Asked for each file: what was reclaimable a moment ago may be needed again.
            let reclaimed = first.end() <= self.reclaimable_to.load(Ordering::Acquire);
            if !expired && !reclaimed && !forcibly {
                break;
            }
            let why = match (expired, reclaimed) {
                (true, _) => "fileReservedTime is over",
                (false, true) => "all that is needed of it is in tables (reclaimAfter)",
                (false, false) => "the disk is nearly full",
            };
            log::info!(
                path:% = first.path().display();
                "{} is deleted: {why}",
                first.path().display()
            );
            drop(segments);
            links.log.remove_first()?;
            deleted += 1;
            if links.stop.wait(Duration::from_millis(cfg.delete_interval)) {
                break;
            }
        }
        Ok(deleted)
    }

    /// The thread's work, until the store stops.
    pub fn run(&self) {
        let interval = Duration::from_millis(self.cfg.interval.max(1));
        // The first pass is early: a store that was full is found full.
        let mut pause = interval.min(Duration::from_secs(1));
        while !self.links.stop.wait(pause) {
            if let Err(e) = self.clean(clock::now_ms(), false) {
                log::error!(path:% = e.path().display(); "old files not deleted, the next pass tries again: {e}");
            }
            pause = interval;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_full_the_disks_are_in_words() {
        let usage = Usage {
            log: Some(91),
            queues: None,
        };
        let text = "in use: 91 % of the commit log's, unknown of the queues'";
        assert_eq!(usage.to_string(), text);
    }

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
        let steps = |d: Decision| (d.delete_expired, d.forcibly, d.disk_full);
        assert_eq!(steps(at(75, 10)), (false, false, Some(false)));
        assert_eq!(steps(at(76, 10)), (true, false, Some(false)));
        assert_eq!(steps(at(10, 76)), (true, false, Some(false)));
        assert_eq!(steps(at(85, 85)), (true, false, Some(false)));
        assert_eq!(steps(at(86, 10)), (true, true, None));
        assert_eq!(steps(at(91, 10)), (true, true, Some(true)));
        assert_eq!(steps(at(10, 91)), (true, true, Some(true)));
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
