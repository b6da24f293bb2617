//! Topics and their queues, and who is to be told of new messages.

use super::config::StoreConfig;
use super::consume_queue::ConsumeQueue;
use super::error::{Result, StoreError};
use crate::format::names;
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most queues a topic may have; BenchmarkTest has 1024.
pub const MAX_QUEUES: u32 = 65_536;

/// What the broker configured for a topic, as far as the send path needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicSettings {
    pub read_queues: u32,
    pub write_queues: u32,
    /// topicFilterType MULTI_TAG: sysFlag bit 2 is set on its messages.
    pub multi_tag: bool,
    /// Whether clients may send here on the plain path (not a system topic).
    pub sendable: bool,
}

pub struct Topic {
    name: Box<[u8]>,
    dir: PathBuf,
    file_size: usize,
    settings: RwLock<Option<TopicSettings>>,
    queues: RwLock<Vec<Option<Arc<ConsumeQueue>>>>,
}

impl Topic {
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    pub fn settings(&self) -> Option<TopicSettings> {
        *self.settings.read()
    }

    pub fn set(&self, settings: Option<TopicSettings>) {
        *self.settings.write() = settings;
    }

    pub fn existing_queue(&self, id: u32) -> Option<Arc<ConsumeQueue>> {
        self.queues.read().get(id as usize)?.clone()
    }

    /// The queue `id`, made if it is new; nothing is written before its first message.
    pub fn queue(&self, id: u32) -> Result<Arc<ConsumeQueue>> {
        if let Some(q) = self.existing_queue(id) {
            return Ok(q);
        }
        if id >= MAX_QUEUES {
            return Err(StoreError::Illegal(format!(
                "queueId {id} is not below {MAX_QUEUES}"
            )));
        }
        let mut queues = self.queues.write();
        let index = id as usize;
        if queues.len() <= index {
            queues.resize(index + 1, None);
        }
        if let Some(q) = &queues[index] {
            return Ok(q.clone());
        }
        let q = Arc::new(ConsumeQueue::open(
            self.dir.join(id.to_string()),
            id,
            self.file_size,
        )?);
        queues[index] = Some(q.clone());
        Ok(q)
    }

    pub fn queues(&self) -> Vec<Arc<ConsumeQueue>> {
        self.queues.read().iter().flatten().cloned().collect()
    }
}

/// "Queue `queue_id` of `topic` has a new entry; it may be shown once `end` is confirmed."
pub struct Arrival {
    pub topic: Arc<Topic>,
    pub queue_id: u32,
    pub end: u64,
}

pub struct Topics {
    root: PathBuf,
    file_size: usize,
    table: RwLock<FxHashMap<Box<[u8]>, Arc<Topic>>>,
    arrivals: Mutex<VecDeque<Arrival>>,
    any_arrival: AtomicBool,
}

impl Topics {
    /// Opens every queue folder found below `consumequeue/`; names that no topic can have are
    /// left alone.
    pub fn open(cfg: &StoreConfig) -> Result<Self> {
        let topics = Topics {
            root: cfg.root.join("consumequeue"),
            file_size: cfg.consume_queue_file_size as usize,
            table: RwLock::default(),
            arrivals: Mutex::default(),
            any_arrival: AtomicBool::new(false),
        };
        super::guard::create_dirs(&topics.root)?;
        for topic_dir in folders(&topics.root)? {
            let Some(name) = topic_dir.file_name().and_then(|n| n.to_str()) else {
                continue;
            };
            let Ok(topic) = topics.topic(name.as_bytes()) else {
                log::warn!("consumequeue/{name:?} is not a topic name: left alone");
                continue;
            };
            for queue_dir in folders(&topic_dir)? {
                let id = queue_dir
                    .file_name()
                    .and_then(|n| n.to_str())
                    .and_then(parse_queue_id);
                match id {
                    Some(id) => drop(topic.queue(id)?),
                    None => log::warn!("{} is not a queue folder: left alone", queue_dir.display()),
                }
            }
        }
        Ok(topics)
    }

    pub fn get(&self, name: &[u8]) -> Option<Arc<Topic>> {
        self.table.read().get(name).cloned()
    }

    /// The topic `name`, made if it is new. The name becomes a folder, so it is checked here.
    pub fn topic(&self, name: &[u8]) -> Result<Arc<Topic>> {
        if let Some(t) = self.get(name) {
            return Ok(t);
        }
        if !names::is_topic(name) {
            let shown = String::from_utf8_lossy(&name[..name.len().min(64)]).into_owned();
            return Err(StoreError::Illegal(format!(
                "topic {shown:?} is not allowed: use at most {} of the characters %|a-zA-Z0-9_-",
                names::MAX_TOPIC
            )));
        }
        let mut table = self.table.write();
        let topic = table.entry(name.into()).or_insert_with(|| {
            Arc::new(Topic {
                name: name.into(),
                dir: self
                    .root
                    .join(std::str::from_utf8(name).expect("checked: ASCII")),
                file_size: self.file_size,
                settings: RwLock::new(None),
                queues: RwLock::default(),
            })
        });
        Ok(topic.clone())
    }

    pub fn all(&self) -> Vec<Arc<Topic>> {
        self.table.read().values().cloned().collect()
    }

    pub fn all_queues(&self) -> Vec<Arc<ConsumeQueue>> {
        self.all().iter().flat_map(|t| t.queues()).collect()
    }

    /// Notes that a queue somebody waits on has grown.
    pub fn note_arrival(&self, arrival: Arrival) {
        self.arrivals.lock().push_back(arrival);
        self.any_arrival.store(true, Ordering::Release);
    }

    #[inline]
    pub fn has_arrivals(&self) -> bool {
        self.any_arrival.load(Ordering::Acquire)
    }

    /// Takes the arrivals that consumers may see now.
    pub fn take_arrivals(&self, confirmed: u64) -> Vec<Arrival> {
        let mut all = self.arrivals.lock();
        let ready = all.iter().take_while(|a| a.end <= confirmed).count();
        let out = all.drain(..ready).collect();
        self.any_arrival.store(!all.is_empty(), Ordering::Release);
        out
    }
}

fn parse_queue_id(name: &str) -> Option<u32> {
    let id: u32 = name.parse().ok()?;
    (id < MAX_QUEUES && id.to_string() == name).then_some(id)
}

fn folders(dir: &std::path::Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir).map_err(|e| StoreError::io("list", dir, &e))?;
    Ok(entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.is_dir())
        .collect())
}
