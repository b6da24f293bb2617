//! Topics and their queues.

use super::config::StoreConfig;
use super::consume_queue::ConsumeQueue;
use super::error::{Result, StoreError};
use super::expressions::{Expressions, Share};
use super::guard::create_dirs;
use super::left_out::LeftOut;
use super::maps::Maps;
use super::queue_ext::QueueExt;
use super::queue_files::QueueFiles;
use super::topic_figures::TopicFigures;
use parking_lot::{Mutex, RwLock};
use pyrmq_format::cq_entry::{Entry, Layout};
use pyrmq_format::message_type::MessageType;
use pyrmq_format::{delay, names};
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

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

/// What the queues of all topics share.
struct Shared {
    /// Folders of simple and of batch queues, below which each topic has its own.
    simple_root: PathBuf,
    batch_root: PathBuf,
    simple_file: usize,
    batch_file: usize,
    /// Extension files: their folder, their size, whether there are any, and whether new entries
    /// go there.
    ext_root: PathBuf,
    ext_file: usize,
    ext_exists: bool,
    ext_writing: bool,
    bitmap_len: usize,
    share: Share,
    maps: Arc<Maps>,
}

impl Shared {
    /// Folder and file size of one kind of queues.
    fn of(&self, layout: Layout) -> (&Path, usize) {
        match layout {
            Layout::Simple => (&self.simple_root, self.simple_file),
            Layout::Batch => (&self.batch_root, self.batch_file),
        }
    }
}

pub struct Topic {
    name: Box<[u8]>,
    dir: Arc<Path>,
    layout: Layout,
    shared: Arc<Shared>,
    settings: RwLock<Option<TopicSettings>>,
    /// The type of its messages, where sends are checked for it; 0: they are not.
    message_type: AtomicU8,
    /// It was deleted, and was not made again.
    deleted: AtomicBool,
    /// The log says already that messages go to other queues than they were sent to.
    told_of_shrinking: AtomicBool,
    /// Evaluated for each of its messages. The holder of the put lock alone uses it.
    expressions: RwLock<Option<Expressions>>,
    has_expressions: AtomicBool,
    queues: RwLock<Vec<Option<Arc<ConsumeQueue>>>>,
    /// Messages and bytes of records that were appended since the store was opened. The holder of the
    /// put lock alone writes.
    puts: AtomicU64,
    put_bytes: AtomicU64,
    figures: TopicFigures,
}

impl Topic {
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    pub fn settings(&self) -> Option<TopicSettings> {
        *self.settings.read()
    }

    pub fn set(&self, settings: Option<TopicSettings>) {
        self.told_of_shrinking.store(false, Relaxed);
        if settings.is_some() {
            self.deleted.store(false, Relaxed);
        }
        *self.settings.write() = settings;
    }

    /// Has sends checked for this type of messages; None: they may have any.
    pub fn set_message_type(&self, message_type: Option<MessageType>) {
        let number = message_type.map_or(0, |kind| kind as u8);
        self.message_type.store(number, Relaxed);
    }

    #[inline]
    pub fn message_type(&self) -> Option<MessageType> {
        match self.message_type.load(Relaxed) {
            0 => None,
            number => MessageType::from_number(number),
        }
    }

    /// It is deleted: what was delayed for it is delivered no more, until it is made again.
    pub fn set_deleted(&self) {
        self.set(None);
        self.deleted.store(true, Relaxed);
    }

    pub fn is_deleted(&self) -> bool {
        self.deleted.load(Relaxed)
    }

    /// The queue for a message that was sent to queue `id` a while ago: that one, or another where the
    /// topic has shrunk since and consumers read that one no more. Messages of one queue stay together.
    pub fn queue_that_is_read(&self, id: u32) -> u32 {
        let read = self.settings().map_or(0, |settings| settings.read_queues);
        if read == 0 || id < read {
            return id;
        }
        if !self.told_of_shrinking.swap(true, Relaxed) {
            log::warn!(
                topic:% = String::from_utf8_lossy(&self.name), queue = id;
                "topic {} has {read} queues that are read: what was sent to queue {id} is delivered to \
                 queue {}, and so on",
                String::from_utf8_lossy(&self.name),
                id % read
            );
        }
        id % read
    }

    /// What is evaluated for the messages that follow, instead of what is returned; the caller holds the put
    /// lock.
    pub fn set_expressions(&self, expressions: Option<Expressions>) -> Option<Expressions> {
        let are_used = expressions.is_some() && !self.is_batch(); // a batch queue has no extension
        self.has_expressions.store(are_used, Relaxed);
        std::mem::replace(&mut *self.expressions.write(), expressions)
    }

    #[inline]
    pub fn has_expressions(&self) -> bool {
        self.has_expressions.load(Relaxed)
    }

    /// Makes `bitmap` that of a message with these properties; empty: it says nothing.
    pub fn evaluate(&self, properties: &[u8], bitmap: &mut Vec<u8>) {
        if let Some(expressions) = &*self.expressions.read() {
            let shared = &self.shared;
            expressions.evaluate(&shared.share, properties, shared.bitmap_len, bitmap);
        }
    }

    /// Counts what was appended; the caller holds the put lock.
    #[inline]
    pub fn count_put(&self, messages: u32, bytes: usize) {
        let add = |to: &AtomicU64, n: u64| to.store(to.load(Relaxed) + n, Relaxed);
        add(&self.puts, messages as u64);
        add(&self.put_bytes, bytes as u64);
    }

    /// More of that. The holder of the put lock alone may count.
    pub fn figures(&self) -> &TopicFigures {
        &self.figures
    }

    /// Messages, and bytes of records, that were appended since the store was opened.
    pub fn puts(&self) -> (u64, u64) {
        (self.puts.load(Relaxed), self.put_bytes.load(Relaxed))
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
        let (_, size) = self.shared.of(self.layout);
        let files = QueueFiles::open(self.dir.clone(), id, size, self.shared.maps.clone())?;
        let ext = self.ext(id)?;
        let q = Arc::new(ConsumeQueue::new(id, self.layout, files, ext));
        queues[index] = Some(q.clone());
        Ok(q)
    }

    /// The extension file of a queue: where new entries get units, or old ones have them.
    fn ext(&self, id: u32) -> Result<Option<QueueExt>> {
        let Some(name) = self.dir.file_name().filter(|_| !self.is_batch()) else {
            return Ok(None);
        };
        let shared = &self.shared;
        let dir = shared.ext_root.join(name);
        let writing = shared.ext_writing;
        if !(writing || shared.ext_exists && exists(&dir.join(id.to_string()))?) {
            return Ok(None);
        }
        let files = QueueFiles::open(dir.into(), id, shared.ext_file, shared.maps.clone())?;
        Ok(Some(QueueExt::new(files, writing, shared.bitmap_len)))
    }

    /// Whether its entries carry times of delivery.
    #[inline]
    pub fn is_schedule(&self) -> bool {
        *self.name == *delay::SCHEDULE_TOPIC
    }

    /// Whether its queues are of the kind that holds inner batches (`queue.type` BatchCQ).
    pub fn is_batch(&self) -> bool {
        self.layout == Layout::Batch
    }

    pub fn queues(&self) -> Vec<Arc<ConsumeQueue>> {
        self.queues.read().iter().flatten().cloned().collect()
    }
}

pub struct Topics {
    shared: Arc<Shared>,
    /// Topics that are known to be of the batch kind before they have a folder.
    batch: Mutex<FxHashSet<Box<[u8]>>>,
    table: RwLock<FxHashMap<Box<[u8]>, Arc<Topic>>>,
    /// All queues lie on the disk of `consumequeue/`.
    on_one_disk: bool,
    left_out: LeftOut,
}

impl Topics {
    /// Lists every queue folder found below `consumequeue/` and `batchconsumequeue/`; names that
    /// no topic can have are left alone.
    pub fn open(cfg: &StoreConfig) -> Result<Self> {
        let mut topics = Topics {
            shared: Arc::new(Shared {
                simple_root: cfg.root.join("consumequeue"),
                batch_root: cfg.root.join("batchconsumequeue"),
                simple_file: cfg.consume_queue_file_size as usize,
                batch_file: cfg.batch_queue_file_size as usize,
                ext_exists: exists(&cfg.root.join("consumequeue_ext"))?,
                ext_root: cfg.root.join("consumequeue_ext"),
                ext_file: cfg.queue_ext_file_size as usize,
                ext_writing: cfg.queue_ext,
                bitmap_len: cfg.bitmap_len,
                share: Share::default(),
                maps: Arc::new(Maps::new(cfg.max_mapped_queue_files)),
            }),
            batch: Mutex::default(),
            table: RwLock::default(),
            on_one_disk: true,
            left_out: LeftOut::default(),
        };
        for name in &cfg.batch_topics {
            topics.batch.lock().insert(name.as_bytes().into());
        }
        create_dirs(&topics.shared.simple_root)?;
        for layout in [Layout::Batch, Layout::Simple] {
            topics.on_one_disk &= topics.open_folder(layout)?;
        }
        let (shared, mut on_one_disk) = (&topics.shared, true);
        for other in [&shared.batch_root, &shared.ext_root] {
            let apart = exists(other)? && device(other)? != device(&shared.simple_root)?;
            on_one_disk &= !apart;
        }
        topics.on_one_disk &= on_one_disk;
        Ok(topics)
    }

    /// Lists the queues of one kind. Whether none of them lies behind a link.
    fn open_folder(&self, layout: Layout) -> Result<bool> {
        let (root, _) = self.shared.of(layout);
        let mut in_place = true;
        for topic_dir in folders(root)? {
            let Some(name) = topic_dir.file_name().and_then(|n| n.to_str()) else {
                continue;
            };
            if layout == Layout::Batch {
                self.batch.lock().insert(name.as_bytes().into());
            }
            let Ok(topic) = self.topic(name.as_bytes()) else {
                log::warn!(path:% = topic_dir.display(); "{} is not a topic name: left alone", topic_dir.display());
                continue;
            };
            if topic.layout != layout {
                log::warn!(
                    topic:% = String::from_utf8_lossy(topic.name()), path:% = topic_dir.display();
                    "{} is left alone: the topic has batch queues",
                    topic_dir.display()
                );
                continue;
            }
            in_place &= !is_link(&topic_dir)?;
            for queue_dir in folders(&topic_dir)? {
                let id = queue_dir
                    .file_name()
                    .and_then(|n| n.to_str())
                    .and_then(parse_queue_id);
                match id {
                    Some(id) => drop(topic.queue(id)?),
                    None => log::warn!(
                        topic:% = String::from_utf8_lossy(topic.name()), path:% = queue_dir.display();
                        "{} is not a queue folder: left alone",
                        queue_dir.display()
                    ),
                }
            }
        }
        Ok(in_place)
    }

    /// Declares that a topic that is not known yet will have batch queues.
    pub fn declare_batch(&self, name: &[u8]) {
        self.batch.lock().insert(name.into());
    }

    /// Records of no queue.
    pub fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    pub fn maps(&self) -> &Maps {
        &self.shared.maps
    }

    /// Whether all queues lie on the disk of `consumequeue/`, so that one sync reaches them.
    pub fn on_one_disk(&self) -> bool {
        self.on_one_disk
    }

    pub fn get(&self, name: &[u8]) -> Option<Arc<Topic>> {
        self.table.read().get(name).cloned()
    }

    /// The entry of a queue offset; None if there is no such topic, queue or entry.
    pub fn entry(&self, topic: &[u8], queue_id: i32, offset: i64) -> Result<Option<Entry>> {
        let topic = self.get(topic);
        match topic.and_then(|t| t.existing_queue(u32::try_from(queue_id).ok()?)) {
            Some(queue) => queue.entry(offset),
            None => Ok(None),
        }
    }

    /// The topic `name`, made if it is new. The name becomes a folder, so it is checked here.
    pub fn topic(&self, name: &[u8]) -> Result<Arc<Topic>> {
        if let Some(t) = self.get(name) {
            return Ok(t);
        }
        if !names::is_stored_topic(name) {
            let shown = String::from_utf8_lossy(&name[..name.len().min(64)]).into_owned();
            return Err(StoreError::Illegal(format!(
                "topic {shown:?} cannot be the name of a folder"
            )));
        }
        let layout = if self.batch.lock().contains(name) {
            Layout::Batch
        } else {
            Layout::Simple
        };
        let (root, _) = self.shared.of(layout);
        let mut table = self.table.write();
        let topic = table.entry(name.into()).or_insert_with(|| {
            let folder = std::str::from_utf8(name).expect("checked: UTF-8");
            Arc::new(Topic {
                name: name.into(),
                dir: root.join(folder).into(),
                layout,
                shared: self.shared.clone(),
                settings: RwLock::new(None),
                deleted: AtomicBool::new(false),
                message_type: AtomicU8::new(0),
                told_of_shrinking: AtomicBool::new(false),
                expressions: RwLock::new(None),
                has_expressions: AtomicBool::new(false),
                queues: RwLock::default(),
                puts: AtomicU64::new(0),
                put_bytes: AtomicU64::new(0),
                figures: TopicFigures::default(),
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
}

fn parse_queue_id(name: &str) -> Option<u32> {
    let id: u32 = name.parse().ok()?;
    (id < MAX_QUEUES && id.to_string() == name).then_some(id)
}

fn device(path: &Path) -> Result<u64> {
    let found = std::fs::metadata(path).map_err(|e| StoreError::io("stat", path, &e))?;
    Ok(std::os::unix::fs::MetadataExt::dev(&found))
}

fn is_link(path: &Path) -> Result<bool> {
    let found = std::fs::symlink_metadata(path).map_err(|e| StoreError::io("stat", path, &e))?;
    Ok(found.file_type().is_symlink())
}

fn exists(path: &Path) -> Result<bool> {
    path.try_exists()
        .map_err(|e| StoreError::io("stat", path, &e))
}

/// The sub-folders of `dir`; none if it does not exist.
fn folders(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(StoreError::io("list", dir, &e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| StoreError::io("list", dir, &e))?;
        let path = entry.path();
        let is_dir = match entry.file_type() {
            Ok(kind) if kind.is_symlink() => std::fs::metadata(&path).map(|m| m.is_dir()),
            Ok(kind) => Ok(kind.is_dir()),
            Err(e) => Err(e),
        };
        let is_dir = is_dir.map_err(|e| StoreError::io("stat", &path, &e))?;
        if is_dir {
            found.push(path);
        }
    }
    Ok(found)
}
