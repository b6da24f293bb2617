//! What lies in a store folder. [StorePathConfigHelper, BrokerPathConfigHelper]

use super::log::{LogFile, LogFileSet};
use super::queues::QueueSet;
use pyrmq_format::names::parse_file_name;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    pub files: u64,
    pub bytes: u64,
    /// Bytes that the file system has reserved: files have holes.
    pub allocated: u64,
}

pub struct IndexPath {
    pub path: PathBuf,
    pub len: u64,
}

/// The files of a store, sorted out by name; contents are not read.
pub struct Inventory {
    pub root: PathBuf,
    pub groups: BTreeMap<String, Group>,
    /// Paths that belong to nothing that is known, at most `MAX_UNKNOWN`.
    pub unknown: Vec<String>,
    pub log: LogFileSet,
    pub queues: QueueSet,
    pub index: Vec<IndexPath>,
    /// Queues are in a RocksDB (storeType=defaultRocksDB): they cannot be read here.
    pub rocksdb: bool,
    /// An `abort` file: the last stop was not clean, or the store is open.
    pub abort: bool,
}

pub const TIMER_WHEEL: &str = "timerwheel";
pub const TIMER_LOG: &str = "timerlog";
const MAX_UNKNOWN: usize = 1000;
const MAX_DEPTH: usize = 16;

/// Names directly below the folder that are RocketMQ's, besides those that are read here.
const KNOWN: [&str; 14] = [
    "checkpoint",
    "config",
    "abort",
    "lock",
    "consumequeue_ext",
    "batchconsumequeue",
    TIMER_LOG,
    TIMER_WHEEL,
    "compaction",
    "epochFileCheckpoint",
    "brokerIdentity",
    "brokerIdentity-temp",
    "abort.bak",
    "consumequeue_rocksdb",
];

impl Inventory {
    /// Lists the folder. `log_dirs`: where commit-log files are if not in `root/commitlog`.
    /// An error if there is nothing that could be a store.
    pub fn read(root: &Path, log_dirs: &[PathBuf]) -> io::Result<Self> {
        let own = [root.join("commitlog")];
        let log_dirs = if log_dirs.is_empty() { &own } else { log_dirs };
        let mut out = Inventory {
            root: root.to_path_buf(),
            groups: BTreeMap::new(),
            unknown: Vec::new(),
            log: LogFileSet::default(),
            queues: QueueSet::default(),
            index: Vec::new(),
            rocksdb: root.join("consumequeue/CURRENT").is_file(),
            abort: root.join("abort").symlink_metadata().is_ok(),
        };
        let top = sorted(root)?;
        let mut log_files = Vec::new();
        for dir in log_dirs {
            if !dir.is_dir() {
                let text = format!(
                    "{} is no folder: this is no store, or its commit log is elsewhere",
                    dir.display()
                );
                return Err(io::Error::new(io::ErrorKind::NotFound, text));
            }
            out.read_log_dir(dir, &mut log_files)?;
        }
        out.log = LogFileSet::new(log_files);
        for path in top {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            match &*name {
                "commitlog" if log_dirs.contains(&path) => {}
                "consumequeue" if !out.rocksdb => out.read_queues(&path)?,
                "index" => out.read_index_dir(&path)?,
                known if KNOWN.contains(&known) || known == "consumequeue" => {
                    out.sum_up(known, &path, 0)
                }
                // Stores of further brokers, which are read by themselves.
                "brokers" if path.is_dir() => out.sum_up("brokers", &path, 0),
                aside if aside.starts_with("repair-") => out.sum_up("repair", &path, 0),
                raft if raft.starts_with("dledger-") => out.sum_up("dledger", &path, 0),
                _ => out.not_known(&path),
            }
        }
        out.queues.sort();
        Ok(out)
    }

    /// Bytes of wheel and timer log.
    pub fn bytes_of_timers(&self) -> u64 {
        [TIMER_WHEEL, TIMER_LOG]
            .iter()
            .filter_map(|name| self.groups.get(*name))
            .map(|group| group.bytes)
            .sum()
    }

    /// A path as it is shown: below the store's folder, or whole.
    pub fn shown(&self, path: &Path) -> String {
        shown_path(&self.root, path)
    }

    fn read_log_dir(&mut self, dir: &Path, files: &mut Vec<LogFile>) -> io::Result<()> {
        for path in sorted(dir)? {
            let Ok(meta) = path.metadata() else {
                self.not_known(&path);
                continue;
            };
            match parse_file_name(&path) {
                Some(base) if meta.is_file() => {
                    self.count("commitlog", &meta);
                    let shown = self.shown(&path);
                    files.push(LogFile {
                        base,
                        len: meta.len(),
                        path,
                        shown,
                    });
                }
                _ => self.not_known(&path),
            }
        }
        Ok(())
    }

    fn read_queues(&mut self, dir: &Path) -> io::Result<()> {
        for topic in sorted(dir)? {
            if !topic.is_dir() {
                self.not_known(&topic);
                continue;
            }
            for queue in sorted(&topic)? {
                let id = queue.file_name().and_then(|n| n.to_str()).and_then(|n| {
                    let id: u32 = n.parse().ok()?;
                    (id <= i32::MAX as u32 && id.to_string() == n).then_some(id)
                });
                let name = topic.file_name().and_then(|n| n.to_str());
                match (name, id) {
                    (Some(name), Some(id)) if queue.is_dir() => {
                        let name = name.to_owned();
                        self.read_queue(&queue, &name, id)?;
                    }
                    _ => self.not_known(&queue),
                }
            }
        }
        Ok(())
    }

    fn read_queue(&mut self, dir: &Path, topic: &str, id: u32) -> io::Result<()> {
        let mut files = Vec::new();
        for path in sorted(dir)? {
            match (parse_file_name(&path), path.metadata()) {
                (Some(base), Ok(meta)) if meta.is_file() => {
                    self.count("consumequeue", &meta);
                    files.push((base, meta.len()));
                }
                _ => self.not_known(&path),
            }
        }
        self.queues.add(topic, id, dir, files);
        Ok(())
    }

    fn read_index_dir(&mut self, dir: &Path) -> io::Result<()> {
        for path in sorted(dir)? {
            match path.metadata() {
                Ok(meta) if is_index_name(&path) && meta.is_file() => {
                    self.count("index", &meta);
                    self.index.push(IndexPath {
                        path,
                        len: meta.len(),
                    });
                }
                _ => self.not_known(&path),
            }
        }
        Ok(())
    }

    fn count(&mut self, kind: &str, meta: &std::fs::Metadata) {
        let group = self.groups.entry(kind.to_owned()).or_default();
        group.files += 1;
        group.bytes = group.bytes.saturating_add(meta.len());
        group.allocated = group
            .allocated
            .saturating_add(meta.blocks().saturating_mul(512));
    }

    /// Counts a file or all files of a folder; links are counted, not followed.
    fn sum_up(&mut self, kind: &str, path: &Path, depth: usize) {
        let Ok(meta) = path.symlink_metadata() else {
            return;
        };
        if !meta.is_dir() {
            self.count(kind, &meta);
        } else if depth < MAX_DEPTH {
            for inner in sorted(path).unwrap_or_default() {
                self.sum_up(kind, &inner, depth + 1);
            }
        }
    }

    fn not_known(&mut self, path: &Path) {
        self.sum_up("unknown", path, 0);
        if self.unknown.len() < MAX_UNKNOWN {
            let shown = self.shown(path);
            self.unknown.push(shown);
        }
    }
}

/// The index files of a folder, oldest first.
pub fn index_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let named = |path: &PathBuf| is_index_name(path) && path.is_file();
    Ok(sorted(dir)?.into_iter().filter(named).collect())
}

/// Index files are named by the time of their making, 17 digits.
fn is_index_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.len() == 17 && name.bytes().all(|b| b.is_ascii_digit())
}

pub fn shown_path(root: &Path, path: &Path) -> String {
    let short = path.strip_prefix(root).unwrap_or(path);
    short
        .to_string_lossy()
        .replace(char::is_control, "\u{fffd}")
}

fn sorted(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", dir.display()));
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(named)? {
        out.push(entry.map_err(named)?.path());
    }
    out.sort();
    Ok(out)
}
