//! Records one after the other: of a part of a log, at places that an index named, or of an answer.

use super::error::{Result, ScanError};
use super::files::{FileSet, InMap, Window};
use super::walk::{Step, Walk};
use pyrmq_format::candidate::{self, MAX_RECORD, MIN_LEN, Start};
use pyrmq_format::record::{self, View};

/// Most bytes that are read in one go for records that are near to each other.
const TOGETHER: u64 = 1 << 20;

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

impl RecordSource {
    pub(super) fn file_set(&self) -> Option<&FileSet> {
        match self {
            RecordSource::Range { file_set, .. } | RecordSource::Places { file_set, .. } => {
                Some(file_set)
            }
            RecordSource::Records(_) => None,
        }
    }

    /// Where the log ends, if it is known.
    pub(super) fn log_end(&self) -> u64 {
        match self {
            RecordSource::Range { range, log_end, .. } => (*log_end).max(range.1),
            _ => u64::MAX,
        }
    }
}

/// The records of one source, one after the other.
pub enum Source {
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
pub struct Fault {
    pub from: u64,
    pub to: u64,
    pub why: String,
}

pub enum Next {
    Record,
    Fault(Fault),
    End,
}

impl Source {
    /// Continues in `from`; with `views` its files are mapped.
    pub fn new(from: RecordSource, views: bool) -> Result<Self> {
        let window = |file_set: FileSet, step: usize| match views {
            true => Window::mapped(file_set),
            false => Window::new(file_set, step),
        };
        Ok(match from {
            RecordSource::Range {
                file_set,
                range,
                log_end,
                exact,
            } => Source::Walk(Walk::new(window(file_set, 0), range, log_end, exact)),
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
            RecordSource::Records(_) if views => {
                let text = "views need files that can be mapped".to_owned();
                return Err(ScanError::Illegal(text));
            }
            RecordSource::Records(bytes) => Source::Records {
                bytes,
                at: 0,
                last: 0,
                view: View::default(),
            },
        })
    }

    /// Goes to the next record.
    pub fn next(&mut self) -> Result<Next> {
        match self {
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

    /// The record that was met last, its bytes, and where these lie in a map.
    #[inline]
    pub fn record(&mut self) -> Result<(&View, &[u8], Option<InMap>)> {
        Ok(match self {
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
        })
    }

    /// Where the record that was met last starts in an answer.
    pub fn place_in_answer(&self) -> u64 {
        match self {
            Source::Records { last, .. } => *last as u64,
            _ => 0,
        }
    }
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
