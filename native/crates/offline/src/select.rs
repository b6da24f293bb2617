//! Records to be shown: by place, by queue, by key, by id, or all of them.

use super::files::{Inventory, index_files};
use super::index_layout::find_shape;
use super::source::{SCATTERED, Source};
use super::walk::{Event, RecordReader, Walker};
use pyrmq_format::get_i32;
use pyrmq_format::index::{self as index_format, ENTRY, Entry, HEADER, Header, SLOT};
use pyrmq_format::properties;
use pyrmq_format::record::{View, store_timestamp_at, sys_flag};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

/// What is asked for; fields that are None do not select.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub topic: Option<String>,
    pub queue: Option<i32>,
    /// First queue offset.
    pub offset: Option<i64>,
    /// Physical offset to start at.
    pub phys: Option<u64>,
    /// A word of KEYS, or UNIQ_KEY.
    pub key: Option<String>,
    /// offsetMsgId, or UNIQ_KEY.
    pub id: Option<String>,
    /// Walk the log also where queues or index would say where to look.
    pub scan: bool,
}

#[derive(Debug)]
pub enum Found {
    Record(Vec<u8>),
    /// Something that should be a record is none: path, byte, what.
    Fault(String, Option<u64>, String),
    /// How the search continues.
    Note(String),
}

/// How the records are found.
enum Search {
    /// From record to record.
    Log(Box<Walker>),
    /// Queues by index, and the next offset of the first.
    Queues(VecDeque<usize>, i64),
    /// Places that the index named, then the log behind the index.
    Places(VecDeque<u64>, u64),
    Done,
}

pub struct Selection {
    inv: Inventory,
    wanted: Wanted,
    reader: RecordReader,
    search: Search,
    notes: Vec<Found>,
}

impl Selection {
    /// `log_dirs` as in `Inventory::read`.
    pub fn new(root: &Path, log_dirs: &[PathBuf], wanted: Wanted) -> io::Result<Self> {
        let inv = Inventory::read(root, log_dirs)?;
        let mut selection = Selection {
            reader: RecordReader::new(inv.log.clone()),
            inv,
            search: Search::Done,
            wanted,
            notes: Vec::new(),
        };
        selection.search = selection.choose();
        Ok(selection)
    }

    fn choose(&mut self) -> Search {
        let file_set = self.inv.log.clone();
        if let Some(id) = self.wanted.id.clone() {
            if let Some(phys) = self.place_of_id(&id) {
                return Search::Places([phys].into(), u64::MAX);
            }
            self.wanted.key = Some(id); // the other kind of id looks the same
        }
        if let Some(phys) = self.wanted.phys {
            return match self.reader.read(phys) {
                Ok(_) => Search::Log(Box::new(Walker::from(file_set, phys))),
                Err(why) => {
                    let (path, at) = file_set.place(phys);
                    self.notes.push(Found::Fault(path, at, why));
                    Search::Done
                }
            };
        }
        let all = Search::Log(Box::new(Walker::new(file_set)));
        if self.wanted.scan {
            return all;
        }
        match (&self.wanted.topic, &self.wanted.key) {
            (Some(topic), Some(key)) if !self.inv.index.is_empty() => {
                let (topic, key) = (topic.clone(), key.clone());
                self.ask_index(&topic, &key)
            }
            (Some(topic), None) => {
                let queues = self.inv.queues.queues.iter().enumerate();
                let wanted = |id: u32| self.wanted.queue.is_none_or(|q| q as i64 == id as i64);
                let found: VecDeque<usize> = queues
                    .filter(|(_, q)| q.topic == *topic && wanted(q.id))
                    .map(|(i, _)| i)
                    .collect();
                if found.is_empty() {
                    let text = "the topic has no such queue here: walking through the log";
                    self.notes.push(Found::Note(text.to_owned()));
                    return all;
                }
                Search::Queues(found, -1)
            }
            _ => all,
        }
    }

    /// The record that an offsetMsgId means: host and place must agree.
    fn place_of_id(&mut self, id: &str) -> Option<u64> {
        if !matches!(id.len(), 32 | 56) {
            return None;
        }
        let raw: Vec<u8> = (0..id.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(id.get(i..i + 2)?, 16).ok())
            .collect::<Option<_>>()?;
        let (host, phys) = raw.split_last_chunk::<8>()?;
        let phys = u64::from_be_bytes(*phys);
        let (view, bytes) = self.reader.read(phys).ok()?;
        let at = store_timestamp_at(view.sys_flag) + 8;
        let v6 = view.sys_flag & sys_flag::STORE_HOST_V6 != 0;
        let stored = &bytes[at..at + if v6 { 20 } else { 8 }];
        (stored == host).then_some(phys)
    }

    /// Up to `max` finds, spending about `budget` bytes of reading; and whether that was all.
    pub fn next(&mut self, max: usize, budget: u64) -> (Vec<Found>, bool) {
        let mut out = std::mem::take(&mut self.notes);
        let mut spent = 0;
        while out.len() < max && spent < budget {
            spent += match &mut self.search {
                Search::Done => return (out, true),
                Search::Log(_) => self.next_of_log(&mut out),
                Search::Queues(..) => self.next_of_queues(&mut out),
                Search::Places(..) => self.next_of_places(&mut out),
            };
        }
        (out, false)
    }

    fn next_of_log(&mut self, out: &mut Vec<Found>) -> u64 {
        let Search::Log(walker) = &mut self.search else {
            return 0;
        };
        match walker.next() {
            Some(Event::Record(view)) => {
                let bytes = walker.bytes();
                if bytes.len() == view.total && matches(&self.wanted, &view, bytes) {
                    out.push(Found::Record(bytes.to_vec()));
                }
                view.total as u64
            }
            Some(Event::Damage { from, to, why }) => {
                let (path, at) = self.inv.log.place(from);
                let text = format!("{why}; continuing {} bytes later, at {to}", to - from);
                out.push(Found::Fault(path, at, text));
                to - from
            }
            Some(Event::End {
                phys,
                data_end,
                why,
            }) => {
                if data_end > phys {
                    let (path, at) = self.inv.log.place(phys);
                    let text = format!("{why}; {} bytes are no records", data_end - phys);
                    out.push(Found::Fault(path, at, text));
                }
                self.search = Search::Done;
                1
            }
            Some(Event::Blank { .. }) => 1,
            None => {
                self.search = Search::Done;
                1
            }
        }
    }

    fn next_of_queues(&mut self, out: &mut Vec<Found>) -> u64 {
        let Search::Queues(queues, next) = &mut self.search else {
            return 0;
        };
        let Some(&index) = queues.front() else {
            self.search = Search::Done;
            return 1;
        };
        let queue = &mut self.inv.queues.queues[index];
        if *next < 0 {
            let end = queue.end();
            let min = queue.min(self.inv.log.min(), end);
            *next = self.wanted.offset.unwrap_or(0).max(min);
        }
        let offset = *next;
        let entry = queue.entry(offset).filter(|e| e.is_valid());
        let Some(entry) = entry else {
            queues.pop_front();
            *next = -1;
            return 1;
        };
        *next += 1;
        let fault = match self.reader.read(entry.phys as u64) {
            Ok((view, bytes)) => {
                let of = &bytes[view.topic.clone()] == queue.topic.as_bytes();
                let size = view.total as u64;
                if of && view.queue_offset == offset && view.queue_id as i64 == queue.id as i64 {
                    out.push(Found::Record(bytes.to_vec()));
                    return size;
                }
                "another record".to_owned()
            }
            Err(why) => why,
        };
        let (path, at) = queue.place(offset);
        let text = format!("entry {offset} leads to {}: {fault}", entry.phys);
        out.push(Found::Fault(path, at, text));
        SCATTERED as u64
    }

    fn next_of_places(&mut self, out: &mut Vec<Found>) -> u64 {
        let Search::Places(places, behind) = &mut self.search else {
            return 0;
        };
        let Some(phys) = places.pop_front() else {
            let from = *behind;
            self.search = match from {
                u64::MAX => Search::Done,
                _ => Search::Log(Box::new(Walker::from(self.inv.log.clone(), from))),
            };
            return 1;
        };
        let unsure = *behind != u64::MAX; // the index knows hashes only
        match self.reader.read(phys) {
            Ok((view, bytes)) => {
                if !unsure || matches(&self.wanted, &view, bytes) {
                    out.push(Found::Record(bytes.to_vec()));
                }
                view.total as u64
            }
            Err(why) => {
                if phys >= self.inv.log.min() {
                    let (path, at) = self.inv.log.place(phys);
                    let text = format!("the index leads to {phys}: {why}");
                    out.push(Found::Fault(path, at, text));
                }
                SCATTERED as u64
            }
        }
    }

    /// Places that the index files name for a key, ascending.
    fn ask_index(&mut self, topic: &str, key: &str) -> Search {
        let hash =
            index_format::key_hash(index_format::topic_seed(topic.as_bytes()), key.as_bytes());
        let mut places = Vec::new();
        let mut behind = 0;
        for file in &self.inv.index {
            match places_in(&file.path, hash) {
                Ok((found, range)) => {
                    places.extend(found);
                    behind = behind.max(range.map_or(0, |(_, end)| end));
                }
                Err(why) => {
                    let name = self.inv.shown(&file.path);
                    self.notes.push(Found::Fault(name, None, why));
                }
            }
        }
        if self.inv.log.locate(behind).is_none() {
            let text = "the index is of no use here: walking through the log";
            self.notes.push(Found::Note(text.to_owned()));
            return Search::Log(Box::new(Walker::new(self.inv.log.clone())));
        }
        places.sort_unstable();
        places.dedup();
        // What the last place holds is read again by the walk behind it.
        places.retain(|&p| p < behind);
        Search::Places(places.into(), behind)
    }
}

/// First and last physical offset that an index, or a file of it, leads to; None without entries.
pub type Covered = Option<(u64, u64)>;

/// Where the messages of a topic with a key may stand by the index files of a folder, ascending, and
/// what these cover. Only hashes are compared. An error names the file that cannot be read.
pub fn key_places(dir: &Path, topic: &str, key: &str) -> io::Result<(Vec<u64>, Covered)> {
    let hash = index_format::key_hash(index_format::topic_seed(topic.as_bytes()), key.as_bytes());
    let (mut places, mut covered): (Vec<u64>, Covered) = (Vec::new(), None);
    for path in index_files(dir)? {
        let (found, range) = places_in(&path, hash)
            .map_err(|why| io::Error::other(format!("{}: {why}", path.display())))?;
        places.extend(found);
        if let Some((first, last)) = range {
            covered = Some(covered.map_or((first, last), |(a, b)| (a.min(first), b.max(last))));
        }
    }
    places.sort_unstable();
    places.dedup();
    Ok((places, covered))
}

/// Physical offsets under a hash in one file, and its first and last one.
fn places_in(path: &Path, hash: i32) -> Result<(Vec<u64>, Covered), String> {
    let io = |e: io::Error| e.to_string();
    let mut source = Source::open(path, SCATTERED).map_err(io)?;
    let raw = source.bytes(0, HEADER).map_err(io)?;
    if raw.len() < HEADER {
        return Err("no header".to_owned());
    }
    let header = Header::read(raw);
    if !header.has_entries() {
        return Ok((Vec::new(), None));
    }
    let shape = find_shape(&mut source, &header).ok_or("header and entries do not fit")?;
    let raw = source.bytes(shape.slot_at(hash) as u64, SLOT).map_err(io)?;
    let newest = if raw.len() == SLOT {
        get_i32(raw, 0)
    } else {
        0
    };
    // A broker may have indexed keys since the header was read, so a slot may be ahead of it.
    let room = shape.entries as i32;
    let mut next = (0 < newest && newest < room).then_some(newest as u32);
    let mut out = Vec::new();
    while let Some(number) = next {
        let raw = source
            .bytes(shape.entry_at(number) as u64, ENTRY)
            .map_err(io)?;
        if raw.len() < ENTRY {
            break;
        }
        let entry = Entry::read(raw);
        if entry.key_hash == hash
            && let Ok(phys) = u64::try_from(entry.phys)
        {
            out.push(phys);
        }
        next = entry.next(number, 0, 0);
    }
    let place = |phys: i64| u64::try_from(phys).unwrap_or(0);
    let range = (place(header.begin_phys), place(header.end_phys));
    Ok((out, Some(range)))
}

fn matches(wanted: &Wanted, view: &View, bytes: &[u8]) -> bool {
    let topic = &bytes[view.topic.clone()];
    let props = &bytes[view.props.clone()];
    wanted.topic.as_ref().is_none_or(|t| t.as_bytes() == topic)
        && wanted.queue.is_none_or(|q| q == view.queue_id)
        && wanted.offset.is_none_or(|o| view.queue_offset >= o)
        && wanted.key.as_ref().is_none_or(|key| {
            if wanted.id.is_some() {
                return properties::find(props, b"UNIQ_KEY") == Some(key.as_bytes());
            }
            index_format::message_keys(props).any(|k| k == key.as_bytes())
        })
}
