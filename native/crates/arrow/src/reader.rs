//! A part of a log, batch by batch.

use super::build::{Builder, Message};
use super::columns::{Column, PropertiesForm};
use super::error::{Result, ScanError};
use super::files::{FileSet, Window};
use super::inflate::{Children, children, inflate, is_compressed};
use super::select::{Selection, Wanted};
use super::walk::{Step, Walk, crc_fits, damage_error};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use memmap2::Mmap;
use pyrmq_format::candidate::{self, MAX_RECORD, MIN_LEN, Start};
use pyrmq_format::record::{self, View, sys_flag};
use std::sync::Arc;

/// Damaged parts that are remembered one by one.
const MAX_DAMAGE: usize = 1000;
/// Most bytes that are read in one go for records that are near to each other.
const TOGETHER: u64 = 1 << 20;

/// Which bodies are compared with their CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    Nothing,
    /// That of the log's last record.
    Tail,
    All,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub columns: Vec<Column>,
    pub form: PropertiesForm,
    pub broker: String,
    pub decompress: bool,
    pub verify: Verify,
    /// Damage is left out and counted; else it is an error.
    pub skip: bool,
    /// A batch ends with whichever comes first.
    pub batch_rows: usize,
    pub batch_bytes: usize,
    pub views: bool,
}

/// Where the records come from.
pub enum RecordSource {
    /// Those that start in `start..end`.
    Range {
        file_set: FileSet,
        range: (u64, u64),
        log_end: u64,
        exact: bool,
    },
    /// Those at these places: physical offset and size (0 if it is not known), ascending.
    Places {
        file_set: FileSet,
        places: Vec<(u64, u32)>,
    },
    /// Back to back, as in the answer to a pull.
    Records(Vec<u8>),
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Records that were examined, and their bytes.
    pub records: u64,
    pub record_bytes: u64,
    pub rows: u64,
    pub damaged_parts: u64,
    pub skipped_bytes: u64,
}

#[derive(Clone, Debug)]
pub struct Damage {
    pub path: String,
    pub at: u64,
    pub phys: u64,
    pub bytes: u64,
    pub why: String,
}

enum Source {
    Walk(Walk),
    Places {
        window: Window,
        places: Vec<(u64, u32)>,
        next: usize,
        /// Physical offset up to which the last read went.
        read_to: u64,
        view: View,
    },
    Records {
        bytes: Vec<u8>,
        at: usize,
        /// Where the record before `at` starts.
        last: usize,
        view: View,
    },
}

/// Something that has no place in the batch.
struct Fault {
    from: u64,
    to: u64,
    why: String,
}

enum Next {
    Record,
    Fault(Fault),
    End,
}

pub struct Reader {
    source: Source,
    file_set: Option<FileSet>,
    sink: Sink,
    verify: Verify,
    log_end: u64,
    skip: bool,
    limits: (usize, usize),
    stats: Stats,
    damage: Vec<Damage>,
    done: bool,
}

/// What turns records into rows.
struct Sink {
    selection: Selection,
    builder: Builder,
    /// Bodies are asked for, or their lengths after unpacking.
    bodies: bool,
    decompress: bool,
    unpacked: Vec<u8>,
    /// An inner batch of which only a part has found room.
    open: Option<OpenBatch>,
}

/// How far an inner batch was taken apart.
struct OpenBatch {
    wanted: Wanted,
    unpacked: bool,
    /// Number of the next message, and its place in the batch.
    number: i64,
    at: usize,
}

impl Reader {
    pub fn new(from: RecordSource, selection: Selection, settings: Settings) -> Result<Self> {
        let file_set = match &from {
            RecordSource::Range { file_set, .. } | RecordSource::Places { file_set, .. } => {
                Some(file_set.clone())
            }
            RecordSource::Records(_) => None,
        };
        let window = |file_set: FileSet, step: usize| match settings.views {
            true => Window::mapped(file_set),
            false => Window::new(file_set, step),
        };
        let mut end = u64::MAX;
        let source = match from {
            RecordSource::Range {
                file_set,
                range,
                log_end,
                exact,
            } => {
                end = log_end.max(range.1);
                Source::Walk(Walk::new(window(file_set, 0), range, log_end, exact))
            }
            RecordSource::Places { file_set, places } => {
                if places.windows(2).any(|p| p[0].0 >= p[1].0) {
                    let text = "positions must ascend".to_owned();
                    return Err(ScanError::Illegal(text));
                }
                let window = window(file_set, 1);
                Source::Places {
                    window,
                    places,
                    next: 0,
                    read_to: 0,
                    view: View::default(),
                }
            }
            RecordSource::Records(_) if settings.views => {
                let text = "views need files that can be mapped".to_owned();
                return Err(ScanError::Illegal(text));
            }
            RecordSource::Records(bytes) => Source::Records {
                bytes,
                at: 0,
                last: 0,
                view: View::default(),
            },
        };
        let builder = Builder::new(
            &settings.columns,
            settings.form,
            &settings.broker,
            settings.views,
        );
        Ok(Reader {
            source,
            file_set,
            sink: Sink {
                selection,
                builder,
                bodies: settings.columns.contains(&Column::Body),
                decompress: settings.decompress,
                unpacked: Vec::new(),
                open: None,
            },
            verify: settings.verify,
            log_end: end,
            skip: settings.skip,
            limits: (settings.batch_rows.max(1), settings.batch_bytes.max(1)),
            stats: Stats::default(),
            damage: Vec::new(),
            done: false,
        })
    }

    pub fn schema(&self) -> SchemaRef {
        self.sink.builder.schema().clone()
    }

    pub fn stats(&self) -> Stats {
        self.stats
    }

    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// The next batch, never an empty one; None behind the last. After an error there is no more.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.done {
            return Ok(None);
        }
        let filled = self.fill();
        if filled.is_err() {
            self.done = true;
        }
        self.done |= filled?;
        let rows = self.sink.builder.rows();
        self.stats.rows += rows as u64;
        Ok((rows > 0).then(|| self.sink.builder.take()))
    }

    /// Fills a batch; whether that was all.
    fn fill(&mut self) -> Result<bool> {
        let (rows, bytes) = self.limits;
        while self.sink.builder.rows() < rows && self.sink.builder.bytes() < bytes {
            let next = match self.sink.open {
                Some(_) => Next::Record,
                None => self.next()?,
            };
            let fault = match next {
                Next::End => return Ok(true),
                Next::Fault(fault) => fault,
                Next::Record => match self.take()? {
                    Some(fault) => fault,
                    None => continue,
                },
            };
            self.report(fault)?;
        }
        Ok(false)
    }

    fn next(&mut self) -> Result<Next> {
        match &mut self.source {
            Source::Walk(walk) => Ok(match walk.next()? {
                Step::Record => Next::Record,
                Step::Damage { from, to, why } => Next::Fault(Fault { from, to, why }),
                Step::End => Next::End,
            }),
            Source::Places {
                window,
                places,
                next,
                read_to,
                view,
            } => {
                let Some(&(phys, size)) = places.get(*next) else {
                    return Ok(Next::End);
                };
                let need = (size as u64).clamp(MIN_LEN as u64, TOGETHER);
                let ahead = match phys + need > *read_to {
                    true => {
                        let place = window.file_set().locate(phys);
                        let file = place.map(|(index, _)| &window.file_set().files[index]);
                        let end = file.map_or(u64::MAX, |f| f.base + f.len);
                        together(&places[*next..], window.file_set().open.near(), end).max(need)
                    }
                    false => need,
                };
                *read_to = (*read_to).max(phys + ahead);
                *next += 1;
                Ok(match place(window, phys, size as usize, ahead as usize)? {
                    Ok(found) => {
                        *view = found;
                        Next::Record
                    }
                    Err(why) => {
                        let next = places.get(*next).map_or(u64::MAX, |p| p.0);
                        let to = (phys + size.max(1) as u64)
                            .min(next)
                            .min(window.file_set().end());
                        let from = phys;
                        Next::Fault(Fault { from, to, why })
                    }
                })
            }
            Source::Records {
                bytes,
                at,
                last,
                view,
            } => {
                *last = *at;
                Ok(match back_to_back(bytes, at) {
                    Some(Ok(found)) => {
                        *view = found;
                        Next::Record
                    }
                    Some(Err(fault)) => Next::Fault(fault),
                    None => Next::End,
                })
            }
        }
    }

    /// Makes the record that was met last into rows; says what is wrong with it otherwise.
    #[inline]
    fn take(&mut self) -> Result<Option<Fault>> {
        let (view, record, map) = match &mut self.source {
            Source::Walk(walk) => {
                let map = walk.window().map().cloned();
                let (view, bytes, at) = walk.record()?;
                (view, bytes, map.map(|m| (m, at as usize)))
            }
            Source::Places { window, view, .. } => {
                let place = window.file_set().locate(view.phys as u64);
                let (index, at) = place.expect("it was read a moment ago");
                let map = window.map().cloned();
                let bytes = window.bytes(index, at, view.total)?;
                (&*view, bytes, map.map(|m| (m, at as usize)))
            }
            Source::Records {
                bytes,
                at,
                last,
                view,
            } => (&*view, &bytes[*last..*at], None),
        };
        let limits = self.limits;
        if let Some(open) = self.sink.open.take() {
            self.sink
                .take_children(view, record, open, map.as_ref(), limits);
            return Ok(None);
        }
        self.stats.records += 1;
        self.stats.record_bytes += view.total as u64;
        let at_end = (view.phys as u64).wrapping_add(view.total as u64) == self.log_end;
        let check = self.verify == Verify::All || (self.verify == Verify::Tail && at_end);
        let Some(wanted) = self.sink.selection.wants(view, record)? else {
            return Ok(None);
        };
        let why = match check && !crc_fits(view, record) {
            true => Err("the body does not fit its CRC".to_owned()),
            false => self.sink.take(view, record, wanted, map.as_ref(), limits),
        };
        let from = view.phys.max(0) as u64;
        let to = from + view.total as u64;
        Ok(why.err().map(|why| Fault { from, to, why }))
    }

    /// Where the record that was met last starts.
    fn place_in_answer(&self) -> u64 {
        match &self.source {
            Source::Records { last, .. } => *last as u64,
            _ => 0,
        }
    }

    fn report(&mut self, fault: Fault) -> Result<()> {
        let error = match &self.file_set {
            Some(file_set) => damage_error(file_set, fault.from, fault.to, &fault.why),
            None => ScanError::Damaged {
                path: "answer to a pull".to_owned(),
                at: self.place_in_answer(),
                phys: fault.from,
                why: fault.why.clone(),
                next: None,
            },
        };
        let ScanError::Damaged { path, at, phys, .. } = &error else {
            return Err(error);
        };
        if !self.skip {
            return Err(error);
        }
        let bytes = fault.to - fault.from;
        self.stats.damaged_parts += 1;
        self.stats.skipped_bytes += bytes;
        if self.damage.len() < MAX_DAMAGE {
            self.damage.push(Damage {
                path: path.clone(),
                at: *at,
                phys: *phys,
                bytes,
                why: fault.why,
            });
        }
        Ok(())
    }
}

impl Sink {
    /// Appends the rows of a record; of an inner batch as many as there is room for.
    #[inline]
    fn take(
        &mut self,
        view: &View,
        record: &[u8],
        wanted: Wanted,
        map: Option<&(Arc<Mmap>, usize)>,
        limits: (usize, usize),
    ) -> std::result::Result<(), String> {
        let stored = &record[view.body.clone()];
        let inner = view.sys_flag & sys_flag::INNER_BATCH != 0;
        let packed = is_compressed(view.sys_flag);
        if !inner
            && self.selection.by_properties()
            && !self.selection.wants_properties(&record[view.props.clone()])
        {
            return Ok(());
        }
        let unpack = packed && (inner || (self.decompress && self.bodies));
        if unpack {
            inflate(stored, view.sys_flag, &mut self.unpacked)?;
        }
        let body = if unpack { &self.unpacked[..] } else { stored };
        if inner {
            // A batch is taken as a whole or not at all.
            if !is_whole(children(body)) {
                return Err("the inner batch cannot be taken apart".to_owned());
            }
            let open = OpenBatch {
                wanted,
                unpacked: unpack,
                number: 0,
                at: 0,
            };
            self.take_children(view, record, open, map, limits);
            return Ok(());
        }
        let mapped = map
            .filter(|_| !unpack)
            .map(|(map, at)| (map, at + view.body.start));
        self.builder.push(&Message {
            view,
            record,
            topic: self.selection.topic_name(wanted.topic),
            flag: view.flag,
            queue_offset: view.queue_offset,
            sys_flag: view.sys_flag,
            body,
            mapped,
            body_length: stored.len(),
            props: &record[view.props.clone()],
        });
        Ok(())
    }

    /// Appends messages of an inner batch until the batch of rows is full or all are in.
    fn take_children(
        &mut self,
        view: &View,
        record: &[u8],
        mut open: OpenBatch,
        map: Option<&(Arc<Mmap>, usize)>,
        (rows, bytes): (usize, usize),
    ) {
        let Sink {
            selection,
            builder,
            unpacked,
            ..
        } = self;
        let body = if open.unpacked {
            &unpacked[..]
        } else {
            &record[view.body.clone()]
        };
        let mut messages = children(body);
        messages.at = open.at;
        while builder.rows() < rows && builder.bytes() < bytes {
            let Some(child) = messages.next() else {
                return;
            };
            let queue_offset = view.queue_offset.saturating_add(open.number);
            (open.number, open.at) = (open.number + 1, messages.at);
            let props = &body[child.props];
            if !open.wanted.has(queue_offset)
                || (selection.by_properties() && !selection.wants_properties(props))
            {
                continue;
            }
            let place = view.body.start + child.body.start;
            builder.push(&Message {
                view,
                record,
                topic: selection.topic_name(open.wanted.topic),
                flag: child.flag,
                queue_offset,
                sys_flag: view.sys_flag,
                body_length: child.body.len(),
                body: &body[child.body],
                mapped: map
                    .filter(|_| !open.unpacked)
                    .map(|(map, at)| (map, at + place)),
                props,
            });
        }
        self.open = Some(open);
    }
}

fn is_whole(mut children: Children<'_>) -> bool {
    children.by_ref().for_each(drop);
    !children.broken
}

/// Bytes from the first of these places on that are worth reading in one go: of one file, at most
/// TOGETHER.
fn together(places: &[(u64, u32)], near: u64, file_end: u64) -> u64 {
    let start = places[0].0;
    let mut end = start + (places[0].1 as u64).min(TOGETHER);
    for &(phys, size) in &places[1..] {
        let far = phys > end + near || phys >= file_end;
        if far || phys + size as u64 > start + TOGETHER {
            break;
        }
        end = end.max(phys + size as u64);
    }
    end - start
}

/// The record at a place that an index named; Err says why there is none.
fn place(
    window: &mut Window,
    phys: u64,
    size: usize,
    ahead: usize,
) -> Result<std::result::Result<View, String>> {
    let Some((index, at)) = window.file_set().locate(phys) else {
        return Err(window
            .file_set()
            .damaged(phys, "the index leads to where no segment is"));
    };
    let left = window.file_set().files[index].len - at;
    let head = window.bytes(index, at, ahead)?;
    if head.len() < MIN_LEN {
        return Ok(Err("the index leads to the end of a file".to_owned()));
    }
    let sound = |total: &usize| *total <= MAX_RECORD && (size == 0 || size == *total);
    let total = match candidate::start(head, left) {
        Start::Record(total) => Some(total).filter(sound),
        _ => None,
    };
    let Some(total) = total else {
        return Ok(Err("the index leads to what is no record".to_owned()));
    };
    let bytes = window.bytes(index, at, total)?;
    let view = match bytes.len() == total {
        true => record::parse(bytes).filter(|v| v.phys == phys as i64),
        false => None,
    };
    Ok(view.ok_or_else(|| "the index leads to what is no record".to_owned()))
}

fn back_to_back(bytes: &[u8], at: &mut usize) -> Option<std::result::Result<View, Fault>> {
    let rest = &bytes[*at..];
    if rest.is_empty() {
        return None;
    }
    // What is no record is left out by the length that it states, if that can be one.
    let left = rest.len().min(MAX_RECORD) as u64;
    let stated = candidate::stated_len(rest, left);
    let len = stated.unwrap_or(rest.len());
    *at += len;
    let view = match candidate::start(rest, left) {
        Start::Record(total) => record::parse(&rest[..total]),
        _ => None,
    };
    Some(view.ok_or_else(|| {
        let from = candidate::stated_phys(rest).map_or(0, |phys| phys.max(0) as u64);
        Fault {
            from,
            to: from.saturating_add(len as u64),
            why: "what the broker sent is no record".to_owned(),
        }
    }))
}
