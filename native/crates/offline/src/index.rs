//! Index files against the log. Both are in the order of the log, so one walk checks both ways:
//! that every entry belongs to a record, and that every key of a record has its entry.

use super::files::{IndexPath, shown_path};
use super::findings::{Findings, Severity, shown};
use super::index_layout::find_shape;
use super::source::{SEQUENTIAL, Source};
use pyrmq_format::get_i32;
use pyrmq_format::index::{ENTRY, Entry, HEADER, Header, SLOT, Shape, seconds_since};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, Default)]
pub struct IndexCounts {
    pub files: u64,
    pub entries: u64,
    /// Keys of records behind the index' end: indexed at the next start.
    pub keys_to_come: u64,
    /// Keys of records before the index or between two of its files: found by no query.
    pub keys_outside: u64,
    /// Entries of records that retention removed.
    pub expired: u64,
    /// Entries of records in damaged parts of the log.
    pub lost: u64,
}

pub struct IndexCheck {
    root: PathBuf,
    files: VecDeque<(Header, IndexPath)>,
    open: Option<Open>,
    /// Range of the last file that was read to its end.
    before: (i64, i64),
    log_min: i64,
    pub counts: IndexCounts,
}

struct Open {
    source: Source,
    shown: String,
    shape: Shape,
    header: Header,
    /// Physical offsets that entries may have.
    range: (i64, i64),
    /// Number of the next entry to check.
    number: u32,
    last_phys: i64,
    /// Newest entry of each slot so far.
    heads: Vec<u32>,
}

impl IndexCheck {
    pub fn new(root: &Path, paths: Vec<IndexPath>, log_min: u64, out: &mut Findings) -> Self {
        let mut files = Vec::new();
        for path in paths {
            let name = shown_path(root, &path.path);
            let read = Source::open(&path.path, HEADER).and_then(|mut s| {
                let raw = s.bytes(0, HEADER)?;
                Ok((raw.len() == HEADER).then(|| Header::read(raw)))
            });
            match read {
                Ok(Some(header)) => files.push((header, path)),
                Ok(None) => {
                    let text = format!("{} bytes are no index file", path.len);
                    out.damage("index", &name, 0, text);
                }
                Err(e) => out.damage("index", &name, 0, format!("cannot be read: {e}")),
            }
        }
        // Names are local times, which may jump; what counts is what they hold.
        files.sort_by_key(|(h, _)| h.begin_phys);
        IndexCheck {
            root: root.to_path_buf(),
            counts: IndexCounts {
                files: files.len() as u64,
                ..Default::default()
            },
            files: files.into(),
            open: None,
            before: (-1, -1),
            log_min: log_min as i64,
        }
    }

    /// A record of the log, in its order. `keys`: what it is to be found by, with their hashes.
    pub fn record(
        &mut self,
        phys: u64,
        time: i64,
        keys: &[(i32, &[u8])],
        clean: bool,
        out: &mut Findings,
    ) {
        let phys = phys as i64;
        self.skip(phys, out);
        let mut seen = vec![false; keys.len()];
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_unstable_by_key(|&i| keys[i].0);
        while let Some(entry) = self.peek(out) {
            if entry.phys != phys {
                break;
            }
            let first = order.partition_point(|&i| keys[i].0 < entry.key_hash);
            let mut known = false;
            for &i in order[first..]
                .iter()
                .take_while(|&&i| keys[i].0 == entry.key_hash)
            {
                seen[i] = true;
                known = true;
            }
            let open = self.open.as_ref().expect("peek found an entry in it");
            let at = open.shape.entry_at(open.number) as u64;
            let seconds = seconds_since(open.header.begin_time, time);
            if !known {
                let text = format!(
                    "entry {}: no key of the record at {phys} has the hash {}",
                    open.number, entry.key_hash
                );
                out.damage("index", &open.shown, at, text);
            } else if open.number > 1 && entry.seconds != seconds {
                let text = format!(
                    "entry {} of the record at {phys} says {} s after the file's begin, \
                     the record {seconds}",
                    open.number, entry.seconds
                );
                out.damage("index", &open.shown, at, text);
            }
            self.advance(out);
        }
        if seen.iter().all(|&s| s) {
            return;
        }
        let missing = seen.iter().filter(|&&s| !s).count() as u64;
        let range = self.open.as_ref().map(|o| o.range);
        let inside = |r: (i64, i64)| r.0 <= phys && phys <= r.1;
        let last = self.files.is_empty() && range.is_none_or(|r| phys >= r.1);
        let torn = !clean && last && phys == range.unwrap_or(self.before).1;
        if (inside(self.before) || range.is_some_and(inside)) && !torn {
            for (i, &(hash, key)) in keys.iter().enumerate().filter(|(i, _)| !seen[*i]) {
                if i >= 8 {
                    break;
                }
                let name = self.open.as_ref().map_or("index", |o| &o.shown).to_owned();
                let text = format!(
                    "key {:?} (hash {hash}) of the record at {phys} is not in the index",
                    shown(key)
                );
                out.damage("index", &name, None, text);
            }
        } else if last && phys >= self.before.1 {
            self.counts.keys_to_come += missing;
        } else {
            self.counts.keys_outside += missing;
        }
    }

    /// A part of the log whose records are lost: entries of it are not to blame.
    pub fn lost(&mut self, from: u64, to: u64, out: &mut Findings) {
        self.skip(from as i64, out);
        while let Some(entry) = self.peek(out) {
            if entry.phys >= to as i64 {
                break;
            }
            self.counts.lost += 1;
            self.advance(out);
        }
    }

    /// The log's end: what is left points behind it.
    pub fn finish(&mut self, end: u64, clean: bool, out: &mut Findings) {
        self.skip(end as i64, out);
        let mut behind = 0u64;
        let mut place = None;
        while self.peek(out).is_some() {
            let open = self.open.as_ref().expect("peek found an entry in it");
            place.get_or_insert((open.shown.clone(), open.shape.entry_at(open.number) as u64));
            behind += 1;
            self.advance(out);
        }
        if let Some((name, at)) = place {
            let severity = if clean {
                Severity::Damage
            } else {
                Severity::Note
            };
            let text = format!("{behind} entries from here on are of records behind the log's end");
            out.add(severity, "index", &name, at, text);
        }
    }

    /// Passes entries before `phys`: no record that is there is theirs.
    fn skip(&mut self, phys: i64, out: &mut Findings) {
        while let Some(entry) = self.peek(out) {
            if entry.phys >= phys {
                return;
            }
            if entry.phys < self.log_min {
                self.counts.expired += 1;
            } else {
                self.fault(format!("no record starts at {}", entry.phys), out);
            }
            self.advance(out);
        }
    }

    fn fault(&self, text: String, out: &mut Findings) {
        if let Some(o) = &self.open {
            let at = o.shape.entry_at(o.number) as u64;
            out.damage("index", &o.shown, at, format!("entry {}: {text}", o.number));
        }
    }

    /// The next entry that can be what the log's order asks for; others are reported and passed.
    fn peek(&mut self, out: &mut Findings) -> Option<Entry> {
        loop {
            if self.open.is_none() {
                self.open_next(out)?;
                continue;
            }
            let o = self.open.as_mut()?;
            if o.number >= o.header.count as u32 {
                self.finish_file(out);
                continue;
            }
            let Some(entry) = o.entry(o.number) else {
                self.fault("cannot be read".to_owned(), out);
                self.open = None;
                continue;
            };
            let next = if o.number + 1 < o.header.count as u32 {
                o.entry(o.number + 1)
            } else {
                None
            };
            let follows = next
                .map(|n| n.phys)
                .filter(|&p| o.last_phys <= p && p <= o.range.1);
            let sane = o.range.0 <= entry.phys
                && entry.phys <= o.range.1
                && entry.phys >= o.last_phys
                && follows.is_none_or(|p| entry.phys <= p);
            if sane {
                return Some(entry);
            }
            let text = format!("physical offset {} is out of order", entry.phys);
            self.fault(text, out);
            self.advance(out);
        }
    }

    /// Takes the entry into its chain and goes to the next one.
    fn advance(&mut self, out: &mut Findings) {
        let Some(o) = self.open.as_mut() else { return };
        let Some(entry) = o.entry(o.number) else {
            return;
        };
        self.counts.entries += 1;
        if (o.range.0..=o.range.1).contains(&entry.phys) {
            o.last_phys = o.last_phys.max(entry.phys);
        }
        let mut wrong = None;
        if entry.key_hash < 0 {
            wrong = Some(format!("its hash {} is negative", entry.key_hash));
        } else {
            let slot = entry.key_hash as usize % o.shape.slots as usize;
            if entry.previous as i64 != o.heads[slot] as i64 {
                wrong = Some(format!(
                    "the chain continues at {}, entry {} was expected",
                    entry.previous, o.heads[slot]
                ));
            }
            o.heads[slot] = o.number;
        }
        if let Some(text) = wrong {
            self.fault(text, out);
        }
        if let Some(o) = self.open.as_mut() {
            o.number += 1;
        }
    }

    fn open_next(&mut self, out: &mut Findings) -> Option<()> {
        let (header, path) = self.files.pop_front()?;
        let name = shown_path(&self.root, &path.path);
        let mut source = match Source::open(&path.path, 64 << 10) {
            Ok(source) => source,
            Err(e) => {
                out.damage("index", &name, 0, format!("cannot be read: {e}"));
                return Some(());
            }
        };
        if !header.has_entries() {
            return Some(());
        }
        let Some(shape) = find_shape(&mut source, &header) else {
            let text = format!(
                "header and entries fit no number of slots (next entry {}, {} bytes)",
                header.count, path.len
            );
            out.damage("index", &name, 0, text);
            return Some(());
        };
        if let Some(fault) = header.fault(shape) {
            out.damage("index", &name, 0, fault);
        }
        let mut open = Open {
            source,
            shown: name,
            shape,
            header,
            range: (header.begin_phys, header.end_phys),
            number: 1,
            last_phys: -1,
            heads: vec![0; shape.slots as usize],
        };
        let ends = [1, header.count as u32 - 1].map(|n| open.entry(n).map_or(-1, |e| e.phys));
        if ends != [header.begin_phys, header.end_phys] {
            let text = format!(
                "the header says {} to {}, the first and last entry {} to {}",
                header.begin_phys, header.end_phys, ends[0], ends[1]
            );
            out.damage("index", &open.shown, 16, text);
            open.range = (0, i64::MAX);
        }
        self.open = Some(open);
        Some(())
    }

    /// Compares the slots with the chains that the entries gave.
    fn finish_file(&mut self, out: &mut Findings) {
        let Some(mut o) = self.open.take() else {
            return;
        };
        self.before = (o.range.0, o.last_phys);
        let used = o.heads.iter().filter(|&&h| h != 0).count() as i64;
        if used != o.header.used_slots as i64 {
            let text = format!(
                "the header counts {} used slots, the entries use {used}",
                o.header.used_slots
            );
            out.add(Severity::Warning, "index", &o.shown, 32, text);
        }
        let (mut slot, slots) = (0usize, o.shape.slots as usize);
        while slot < slots {
            let at = (HEADER + slot * SLOT) as u64;
            let want = (slots - slot).min(SEQUENTIAL / SLOT);
            let piece = match o.source.bytes(at, want * SLOT) {
                Ok(piece) if piece.len() == want * SLOT => piece,
                _ => {
                    out.damage("index", &o.shown, at, "slots cannot be read".to_owned());
                    return;
                }
            };
            for (i, raw) in piece.chunks_exact(SLOT).enumerate() {
                let (stored, head) = (get_i32(raw, 0), o.heads[slot + i]);
                if stored as i64 != head as i64 {
                    let text = format!("slot {} has {stored}, {head} was expected", slot + i);
                    out.damage("index", &o.shown, at + (i * SLOT) as u64, text);
                }
            }
            slot += want;
        }
    }
}

impl Open {
    fn entry(&mut self, number: u32) -> Option<Entry> {
        let raw = self
            .source
            .bytes(self.shape.entry_at(number) as u64, ENTRY)
            .ok()?;
        (raw.len() == ENTRY).then(|| Entry::read(raw))
    }
}
