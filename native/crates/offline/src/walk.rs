//! From record to record through the log, over damaged places where something valid follows.

use super::log::LogFileSet;
use super::source::{SCATTERED, SEQUENTIAL, Source};
use pyrmq_format::candidate::{self, BLANK_LEN, MAX_RECORD, MagicFinder, Start};
use pyrmq_format::get_i32;
use pyrmq_format::record::{self, Found, View};

/// What the walk met.
#[derive(Debug)]
pub enum Event {
    /// A whole record; `Walker::bytes` has it.
    Record(View),
    /// The blank record at a file's end; `fits` if it states what is left of the file.
    Blank { phys: u64, fits: bool },
    /// What lies in `from..to` is no record, but the log continues at `to`.
    Damage { from: u64, to: u64, why: String },
    /// Nothing valid follows. Bytes that are not zero reach to `data_end`.
    End {
        phys: u64,
        data_end: u64,
        why: String,
    },
}

pub struct Walker {
    file_set: LogFileSet,
    index: usize,
    at: u64,
    source: Option<Source>,
    last: (u64, usize),
    done: bool,
}

impl Walker {
    pub fn new(file_set: LogFileSet) -> Self {
        Walker {
            file_set,
            index: 0,
            at: 0,
            source: None,
            last: (0, 0),
            done: false,
        }
    }

    /// Starts at `phys`, where a record should be.
    pub fn from(file_set: LogFileSet, phys: u64) -> Self {
        let mut walker = Walker::new(file_set);
        match walker.file_set.locate(phys) {
            Some((index, at)) => (walker.index, walker.at) = (index, at),
            None if phys > walker.file_set.min() => walker.index = walker.file_set.files.len(),
            None => {}
        }
        walker
    }

    pub fn phys(&self) -> u64 {
        match self.file_set.files.get(self.index) {
            Some(f) => f.base + self.at,
            None => self
                .file_set
                .files
                .last()
                .map_or(0, |f| f.base + f.len.min(self.file_set.size)),
        }
    }

    /// Bytes of the last record that was met.
    pub fn bytes(&mut self) -> &[u8] {
        let (at, len) = self.last;
        match &mut self.source {
            Some(s) => s.bytes(at, len).unwrap_or(&[]),
            None => &[],
        }
    }

    /// The next event; None after `End`.
    pub fn next(&mut self) -> Option<Event> {
        if self.done {
            return None;
        }
        let why = match self.read_event() {
            Ok(event) => return Some(event),
            Err(why) => why,
        };
        let from = self.phys();
        let mut data_end = from;
        Some(match self.search(&mut data_end) {
            Some((index, at)) => {
                if index != self.index {
                    self.source = None;
                }
                (self.index, self.at) = (index, at);
                let to = self.phys();
                Event::Damage { from, to, why }
            }
            None => {
                self.done = true;
                let phys = from;
                Event::End {
                    phys,
                    data_end,
                    why,
                }
            }
        })
    }

    /// What stands at the current place; why it is nothing otherwise.
    fn read_event(&mut self) -> Result<Event, String> {
        let Some(file) = self.file_set.files.get(self.index) else {
            return Err("the last file is full".to_owned());
        };
        let (base, at) = (file.base, self.at);
        let phys = base + at;
        if self.source.is_none() {
            let opened = Source::open(&file.path, SEQUENTIAL);
            self.source = Some(opened.map_err(|e| e.to_string())?);
        }
        let source = self.source.as_mut().expect("opened above");
        let end = source.len().min(self.file_set.size);
        if let Found::Record(view) = read_at(source, at, base, end)? {
            self.last = (at, view.total);
            self.at += view.total as u64;
            return Ok(Event::Record(view));
        }
        let states = get_i32(source.bytes(at, BLANK_LEN).map_err(|e| e.to_string())?, 0);
        let fits = states as i64 == (self.file_set.size - at) as i64;
        self.index += 1;
        self.at = 0;
        self.source = None;
        Ok(Event::Blank { phys, fits })
    }

    /// The next place where something valid starts, as file and position. Moves `data_end` behind
    /// the last byte that is not zero if there is none.
    fn search(&mut self, data_end: &mut u64) -> Option<(usize, u64)> {
        for index in self.index..self.file_set.files.len() {
            let file = &self.file_set.files[index];
            let from = if index == self.index { self.at + 1 } else { 0 };
            let Ok(mut source) = Source::open(&file.path, SEQUENTIAL) else {
                continue;
            };
            let end = source.len().min(self.file_set.size);
            let found = search_file(&mut source, file.base, from, end, self.file_set.size);
            if let Some(at) = found {
                return Some((index, at));
            }
            let data = source.data_end(from.saturating_sub(1));
            if data > from.saturating_sub(1) {
                *data_end = file.base + data;
            }
        }
        None
    }
}

/// Reads what starts at `at`; Err says why it is neither a record of this place nor a blank.
fn read_at(source: &mut Source, at: u64, base: u64, end: u64) -> Result<Found, String> {
    let left = end.saturating_sub(at);
    if left == 0 {
        return Err("the file ends without a blank record".to_owned());
    }
    let io = |e: std::io::Error| format!("cannot be read: {e}");
    let head = source.bytes(at, BLANK_LEN).map_err(io)?;
    let total = match candidate::start(head, left) {
        Start::Record(total) if total <= MAX_RECORD => total,
        Start::Record(total) => return Err(format!("a record of {total} bytes is not read")),
        Start::Blank(_) => return Ok(Found::Blank),
        Start::Zeros => return Err("zeros".to_owned()),
        Start::NoMagic(magic) => return Err(format!("no record: magic {magic:#010x}")),
        Start::BadLength(total) => {
            return Err(format!("length {total} where {left} bytes are left"));
        }
        Start::Short => return Err("less than 8 bytes left in the file".to_owned()),
    };
    let bytes = source.bytes(at, total).map_err(io)?;
    match record::read(bytes, true) {
        Found::Record(v) if v.phys != (base + at) as i64 => {
            Err(format!("the record states physical offset {}", v.phys))
        }
        Found::Invalid(why) => Err(why.to_owned()),
        found => Ok(found),
    }
}

/// Whole records at scattered places; keeps the last file open.
pub struct RecordReader {
    file_set: LogFileSet,
    open: Option<(usize, Source)>,
}

impl RecordReader {
    pub fn new(file_set: LogFileSet) -> Self {
        RecordReader {
            file_set,
            open: None,
        }
    }

    /// The record that starts at `phys`, or why there is none.
    pub fn read(&mut self, phys: u64) -> Result<(View, &[u8]), String> {
        let (index, at) = self.file_set.locate(phys).ok_or("outside of the log")?;
        let file = &self.file_set.files[index];
        if self.open.as_ref().is_none_or(|(i, _)| *i != index) {
            let source = Source::open(&file.path, 64 << 10).map_err(|e| e.to_string())?;
            self.open = Some((index, source));
        }
        let (_, source) = self.open.as_mut().expect("opened above");
        let end = source.len().min(self.file_set.size);
        match read_at(source, at, file.base, end)? {
            Found::Record(view) => {
                let bytes = source.bytes(at, view.total).map_err(|e| e.to_string())?;
                Ok((view, bytes))
            }
            _ => Err("a blank record".to_owned()),
        }
    }
}

/// Looks for a record or a fitting blank from `from` on. Candidates are only such that state
/// their own place; what is spent on false ones is bounded by the file's length.
fn search_file(source: &mut Source, base: u64, from: u64, end: u64, size: u64) -> Option<u64> {
    let finder = MagicFinder::with_blanks();
    let mut budget = end.saturating_mul(4).saturating_add(1 << 20);
    let mut at = from;
    while at + (BLANK_LEN as u64) <= end {
        at = source.next_data(at)?;
        if at >= end {
            return None;
        }
        let Ok(piece) = source.bytes(at, SEQUENTIAL) else {
            at = (at / SCATTERED as u64 + 1) * SCATTERED as u64;
            continue;
        };
        let len = piece.len() as u64;
        if len < BLANK_LEN as u64 {
            return None;
        }
        // Collected, because checking one reads elsewhere.
        let hits: Vec<u64> = finder
            .positions(piece)
            .filter(|&p| p >= 4)
            .map(|p| at + p as u64 - 4)
            .collect();
        for place in hits {
            let Ok(head) = source.bytes(place, 36) else {
                continue;
            };
            if let Some(total) = candidate::blank_len(head) {
                if total as i64 == size as i64 - place as i64 {
                    return Some(place);
                }
                continue;
            }
            if candidate::stated_phys(head) != Some((base + place) as i64) {
                continue;
            }
            let cost = get_i32(head, 0).max(0) as u64;
            if cost > end - place {
                continue;
            }
            budget = budget.checked_sub(cost + 4096)?;
            if let Ok(Found::Record(_)) = read_at(source, place, base, end) {
                return Some(place);
            }
        }
        // The next window begins so that a magic across the border is seen.
        at += (len - 7).max(1);
    }
    None
}
