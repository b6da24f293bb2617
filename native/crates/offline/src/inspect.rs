//! What a store holds, in figures. Only ends are read, so that it takes seconds at most.

use super::files::{Inventory, shown_path};
use super::index_layout::find_shape;
use super::log::HeadReader;
use super::settings::{is_locked, read_checkpoint};
use super::source::{SCATTERED, Source};
use super::timers::{self, TimerFacts};
use super::walk::{Event, Walker};
use pyrmq_format::checkpoint::Checkpoint;
use pyrmq_format::index::{HEADER, Header, Shape};
use pyrmq_format::timer::TIMER_TOPIC;
use std::io;
use std::path::{Path, PathBuf};

pub struct QueueFacts {
    pub topic: String,
    pub id: u32,
    pub files: usize,
    pub min: i64,
    pub max: i64,
}

pub struct IndexFacts {
    pub path: String,
    /// None if the file has no whole header.
    pub header: Option<Header>,
    /// None if it is not known, as for a file without entries.
    pub shape: Option<Shape>,
}

pub struct Report {
    pub inventory: Inventory,
    pub min_phys: u64,
    /// Where the valid part of the log ends, as found from the newest queue entry on.
    pub end_phys: u64,
    /// Store times of the first and the newest record, -1 without one.
    pub oldest: i64,
    pub newest: i64,
    pub queues: Vec<QueueFacts>,
    pub index: Vec<IndexFacts>,
    pub checkpoint: Option<Checkpoint>,
    /// Why there is no checkpoint, if the file is there.
    pub checkpoint_fault: Option<String>,
    /// None without files of timers.
    pub timers: Option<TimerFacts>,
    /// Whether somebody has the store open; None if that cannot be asked.
    pub locked: Option<bool>,
}

/// `log_dirs` as in `Inventory::read`.
pub fn inspect(root: &Path, log_dirs: &[PathBuf]) -> io::Result<Report> {
    let mut inventory = Inventory::read(root, log_dirs)?;
    let mut heads = HeadReader::new(inventory.log.clone());
    let min_phys = inventory.log.min();
    let mut newest_entry = None;
    let mut queues = Vec::new();
    for queue in &mut inventory.queues.queues {
        let max = queue.end();
        let min = queue.min(min_phys, max);
        if max > min
            && let Some(entry) = queue.entry(max - 1)
        {
            newest_entry = newest_entry.max(Some(entry.phys));
        }
        queues.push(QueueFacts {
            topic: queue.topic.clone(),
            id: queue.id,
            files: queue.files.len(),
            min,
            max,
        });
    }
    let from = start_of_walk(&inventory, &mut heads, newest_entry);
    let (end_phys, newest) = walk_to_end(&inventory, from);
    let index = std::mem::take(&mut inventory.index);
    let index = index.iter().map(|f| index_facts(root, &f.path)).collect();
    let (checkpoint, checkpoint_fault) = match read_checkpoint(root) {
        Ok((Some(point), _)) => (Some(point), None),
        Ok((None, len)) => (None, Some(format!("{len} bytes are too short"))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => (None, None),
        Err(e) => (None, Some(e.to_string())),
    };
    let timer_queue = queues.iter().find(|q| is_timer_queue(&q.topic, q.id));
    let timers = timers::inspect(root, timer_queue.map(|q| q.max));
    Ok(Report {
        timers,
        oldest: heads.first_time(0).unwrap_or(-1),
        min_phys,
        end_phys,
        newest,
        queues,
        index,
        checkpoint,
        checkpoint_fault,
        locked: is_locked(root).ok(),
        inventory,
    })
}

/// Whether timer messages wait in this queue.
pub fn is_timer_queue(topic: &str, id: u32) -> bool {
    topic.as_bytes() == TIMER_TOPIC && id == 0
}

/// A record near the log's end.
fn start_of_walk(inv: &Inventory, heads: &mut HeadReader, newest_entry: Option<i64>) -> u64 {
    if let Some(phys) = newest_entry.and_then(|p| u64::try_from(p).ok())
        && heads.head(phys).is_some()
    {
        return phys;
    }
    let files = &inv.log.files;
    let last = (0..files.len())
        .rev()
        .find(|&i| heads.first_time(i).is_some());
    last.map_or(inv.log.min(), |i| files[i].base)
}

fn walk_to_end(inv: &Inventory, from: u64) -> (u64, i64) {
    let mut walker = Walker::from(inv.log.clone(), from);
    let mut newest = -1;
    while let Some(event) = walker.next() {
        match event {
            Event::Record(view) => newest = newest.max(view.store_timestamp),
            Event::End { phys, .. } => return (phys, newest),
            _ => {}
        }
    }
    (walker.phys(), newest)
}

fn index_facts(root: &Path, path: &Path) -> IndexFacts {
    let mut facts = IndexFacts {
        path: shown_path(root, path),
        header: None,
        shape: None,
    };
    let Ok(mut source) = Source::open(path, SCATTERED) else {
        return facts;
    };
    if let Ok(raw) = source.bytes(0, HEADER)
        && raw.len() == HEADER
    {
        let header = Header::read(raw);
        facts.header = Some(header);
        facts.shape = find_shape(&mut source, &header);
    }
    facts
}
