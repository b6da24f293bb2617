//! From record to record through a part of the log.
//!
//! A part `[start, stop)` owns the records that start in it. Unless `start` is known to be the start of
//! a record, the first one is found by what it states: a record states its physical offset, which no copy
//! of it elsewhere does. Damage belongs to the part whose record stands in front of it, also where it
//! reaches over the part's end, so that over all parts of a log every damaged byte is met once.

use super::error::{Result, ScanError};
use super::files::{FileSet, Window};
use pyrmq_format::candidate::{
    self, BLANK_LEN, HEAD_LEN, Layout, MAX_RECORD, MIN_LEN, MagicFinder, Start,
};
use pyrmq_format::get_i32;
use pyrmq_format::record::{self, View};

/// So many zeros in the file that is being written, more than a usual message has, mean that nothing was
/// written behind them.
const EMPTY: u64 = 8 << 20;
const SHORTER: &str = "the file became shorter while it was read";
/// Bytes read at once where a search reads places far apart.
const PROBE_STEP: usize = 4096;

pub enum Step {
    /// A whole record; `Walk::view` and `Walk::record` have it.
    Record,
    /// What lies in `from..to` is no record.
    Damage {
        from: u64,
        to: u64,
        why: String,
    },
    End,
}

/// What stands at a place of the log.
enum Content {
    Record,
    /// A blank record, up to this place.
    Blank(u64),
    /// Nothing was begun here.
    Zeros,
    Invalid(String),
}

impl Content {
    fn why(self) -> String {
        match self {
            Content::Invalid(why) => why,
            _ => "zeros where a record should be".to_owned(),
        }
    }
}

pub struct Walk {
    window: Window,
    probe: Window,
    at: u64,
    stop: u64,
    log_end: u64,
    /// Whether `at` is the start of a record, or should be.
    anchored: bool,
    done: bool,
    /// File, position and length of the last record.
    last: (usize, u64, usize),
    view: View,
    /// The file that was read last: its index, first physical offset and length.
    file: (usize, u64, u64),
    /// The file in which zeros are the log's end.
    open_file: Option<usize>,
}

impl Walk {
    /// Records that start in `start..stop`; `exact` if `start` is a record's start.
    pub fn new(window: Window, (start, stop): (u64, u64), log_end: u64, exact: bool) -> Self {
        let file_set = window.file_set().clone();
        // At the front of a file stands a record, or damage that this part reports.
        let anchored = exact || file_set.files.iter().any(|f| f.base == start);
        Walk {
            window,
            probe: Window::new(file_set, PROBE_STEP),
            at: start,
            stop,
            log_end: log_end.max(stop),
            anchored,
            done: start >= stop,
            last: (0, 0, 0),
            view: View::default(),
            file: (0, 0, 0),
            open_file: None,
        }
    }

    /// Zeros in this file, the one that is being written, are the log's end; nothing behind them is
    /// looked for.
    pub fn zeros_end(mut self, index: usize) -> Self {
        self.open_file = Some(index);
        self
    }

    pub fn file_set(&self) -> &FileSet {
        self.window.file_set()
    }

    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Where the next record should start.
    pub fn phys(&self) -> u64 {
        self.at
    }

    /// The last record: its parts, its bytes, and its position in its file.
    #[inline]
    pub fn record(&mut self) -> Result<(&View, &[u8], u64)> {
        let (index, at, len) = self.last;
        Ok((&self.view, self.window.bytes(index, at, len)?, at))
    }

    pub fn next(&mut self) -> Result<Step> {
        if self.done {
            return Ok(Step::End);
        }
        if !self.anchored {
            self.go_to_file()?; // it must be in a file
            match self.search(self.at, self.stop)? {
                Some(found) => (self.at, self.anchored) = (found, true),
                None => {
                    self.done = true;
                    return Ok(Step::End);
                }
            }
        }
        loop {
            if self.at >= self.log_end {
                self.done = true;
                return Ok(Step::End);
            }
            let owned = self.at < self.stop;
            match self.content()? {
                // Whoever owns this place finds it as well.
                Content::Record | Content::Blank(_) if !owned => {
                    self.done = true;
                    return Ok(Step::End);
                }
                Content::Record => {
                    self.at += self.view.total as u64;
                    return Ok(Step::Record);
                }
                Content::Blank(to) => self.at = to,
                Content::Zeros if self.is_open(self.file.0) => {
                    self.done = true;
                    return Ok(Step::End);
                }
                // What is wrong at the front of a file is reported by the part that has the front.
                Content::Zeros | Content::Invalid(_) if !owned && self.is_front(self.at) => {
                    self.done = true;
                    return Ok(Step::End);
                }
                found @ (Content::Zeros | Content::Invalid(_)) => {
                    let from = self.at;
                    let why = found.why();
                    // While the log is being written it may have been finished by now.
                    if self.open_file.is_some() && self.is_sound_now()? {
                        continue;
                    }
                    let found = self.search(from + 1, self.log_end)?;
                    if self.open_file.is_some() && self.is_sound_now()? {
                        continue;
                    }
                    self.at = found.unwrap_or(self.log_end);
                    self.done = self.at >= self.stop;
                    let to = self.at;
                    return Ok(Step::Damage { from, to, why });
                }
            }
        }
    }

    /// Whether a file begins there.
    fn is_front(&self, phys: u64) -> bool {
        self.file_set().locate(phys).is_some_and(|(_, at)| at == 0)
    }

    /// Tries again, with bytes that are read again.
    fn is_sound_now(&mut self) -> Result<bool> {
        self.window.forget();
        self.probe.forget();
        Ok(matches!(
            self.content()?,
            Content::Record | Content::Blank(_)
        ))
    }

    /// Whether this file, or one before it, is being written.
    fn is_open(&self, index: usize) -> bool {
        self.open_file.is_some_and(|open| index >= open)
    }

    /// What stands here.
    fn content(&mut self) -> Result<Content> {
        let (mut index, mut base, mut len) = self.file;
        if self.at < base || self.at - base >= len {
            (index, base, len) = self.go_to_file()?;
        }
        let at = self.at - base;
        let left = len - at;
        let head = self.window.bytes(index, at, BLANK_LEN)?;
        let total = match candidate::start(head, left) {
            Start::Record(total) if total <= MAX_RECORD => total,
            Start::Record(_) | Start::BadLength(_) => {
                let total = get_i32(head, 0);
                let text = format!("a record of {total} bytes where {left} are left");
                return Ok(Content::Invalid(text));
            }
            Start::Blank(total) if is_filler(self.file_set(), index, at, total) => {
                return Ok(Content::Blank(self.at + total as u64));
            }
            Start::Blank(total) => {
                let text = format!("a blank record of {total} bytes, {left} are left");
                return Ok(Content::Invalid(text));
            }
            Start::Zeros => return Ok(Content::Zeros),
            Start::NoMagic(magic) => {
                return Ok(Content::Invalid(format!("no record: magic {magic:#010x}")));
            }
            Start::Short if left >= BLANK_LEN as u64 => {
                return Ok(Content::Invalid(SHORTER.to_owned()));
            }
            Start::Short => {
                let text = "less than 8 bytes left in the file";
                return Ok(Content::Invalid(text.to_owned()));
            }
        };
        let bytes = self.window.bytes(index, at, total)?;
        if bytes.len() < total {
            return Ok(Content::Invalid(SHORTER.to_owned()));
        }
        if !record::parse_to(bytes, &mut self.view) {
            let text = "the parts of the record do not add up to its length";
            return Ok(Content::Invalid(text.to_owned()));
        }
        if self.view.phys != self.at as i64 {
            let text = format!("the record states physical offset {}", self.view.phys);
            return Ok(Content::Invalid(text));
        }
        self.last = (index, at, total);
        Ok(Content::Record)
    }

    /// The file that holds the current place.
    #[cold]
    fn go_to_file(&mut self) -> Result<(usize, u64, u64)> {
        let file_set = self.window.file_set();
        let Some((index, _)) = file_set.locate(self.at) else {
            let next = file_set.next_from(self.at);
            let why = match file_set.files.get(next) {
                Some(f) => format!(
                    "a segment is missing: nothing is here from {} to {}, where {} begins",
                    self.at, f.base, f.path
                ),
                None => format!("the log ends before {}", self.log_end),
            };
            return Err(file_set.damaged(self.at.saturating_sub(1), why));
        };
        let file = &file_set.files[index];
        self.file = (index, file.base, file.len);
        Ok(self.file)
    }

    /// First place in `from..to` where a record or a blank one starts, or a file begins, at whose front a
    /// record has to be.
    pub fn search(&mut self, from: u64, to: u64) -> Result<Option<u64>> {
        let file_set = self.window.file_set().clone();
        let first = file_set.files.partition_point(|f| f.base + f.len <= from);
        for (index, file) in file_set.files.iter().enumerate().skip(first) {
            if file.base >= to {
                break;
            }
            if file.base > from && self.open_file.is_none_or(|open| index <= open) {
                return Ok(Some(file.base));
            }
            let start = from.saturating_sub(file.base);
            let stop = (to - file.base).min(file.len);
            if let Some(at) = self.search_file(index, start, stop)? {
                return Ok(Some(file.base + at));
            }
        }
        Ok(None)
    }

    /// First position in `start..stop` of a file where a record, or a blank one, starts.
    fn search_file(&mut self, index: usize, start: u64, stop: u64) -> Result<Option<u64>> {
        let finder = MagicFinder::with_blanks();
        let file = &self.window.file_set().files[index];
        let (base, len) = (file.base, file.len);
        let open = self.is_open(index);
        let (mut at, mut zeros) = (start, 0);
        // The magic stands behind the length.
        while at < stop && at + 8 <= len {
            if self.window.bytes(index, at + 4, 4)?.len() < 4 {
                return Err(self.file_set().damaged(base + at, SHORTER));
            }
            let piece = self.window.rest(index, at + 4)?;
            let size = piece.len() as u64;
            if open {
                zeros = if piece.iter().all(|&b| b == 0) {
                    zeros + size
                } else {
                    0
                };
                if zeros >= EMPTY {
                    return Ok(None);
                }
            }
            for hit in finder.positions(piece) {
                let place = at + hit as u64;
                if place >= stop {
                    return Ok(None);
                }
                if starts(&mut self.probe, index, place)? {
                    return Ok(Some(place));
                }
            }
            at += size - 3;
        }
        Ok(None)
    }

    /// Continues at `phys`, where a record should start.
    pub fn go_to(&mut self, phys: u64) {
        (self.at, self.anchored, self.done) = (phys, true, false);
    }
}

/// Whether a record, or a blank one, starts at this position of a file. Reads its body's
/// surroundings only: false ones cost the same however long they claim to be.
fn starts(probe: &mut Window, index: usize, at: u64) -> Result<bool> {
    let file = &probe.file_set().files[index];
    let (phys, left) = (file.base + at, file.len - at);
    let b = probe.bytes(index, at, HEAD_LEN)?;
    let total = match candidate::start(b, left) {
        Start::Record(total) if total <= MAX_RECORD && b.len() >= MIN_LEN => total,
        Start::Blank(total) => return Ok(is_filler(probe.file_set(), index, at, total)),
        _ => return Ok(false),
    };
    if candidate::stated_phys(b) != Some(phys as i64) {
        return Ok(false);
    }
    let parts = Layout::of(b).parts_by(total, |place, width| {
        let field = probe.bytes(index, at + place as u64, width)?;
        Ok((field.len() == width).then(|| candidate::length(field)))
    })?;
    Ok(parts.is_some())
}

/// Whether a blank record of this length, at this position of a file, leads to the next one.
fn is_filler(file_set: &FileSet, index: usize, at: u64, total: i32) -> bool {
    let file = &file_set.files[index];
    let to = file.base + at + total.max(0) as u64;
    let next = file_set.files.get(index + 1).is_some_and(|f| f.base == to);
    total >= BLANK_LEN as i32 && (next || to == file.base + file.len)
}

/// Whether the body fits the CRC that the record states; an empty one always does, as for RocketMQ.
pub fn crc_fits(view: &View, bytes: &[u8]) -> bool {
    view.body.is_empty() || pyrmq_format::crc31(&bytes[view.body.clone()]) == get_i32(bytes, 8)
}

/// The damage of a step as the error that it is where nothing may be skipped.
pub fn damage_error(file_set: &FileSet, from: u64, to: u64, why: &str) -> ScanError {
    let text = format!("{why}; the next record starts {} bytes later", to - from);
    match file_set.damaged(from, text) {
        ScanError::Damaged {
            path,
            at,
            phys,
            why,
            ..
        } => ScanError::Damaged {
            path,
            at,
            phys,
            why,
            next: Some(to),
        },
        other => other,
    }
}
