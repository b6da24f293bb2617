//! Books the answers of a session: when they leave, how long their requests took.
//!
//! Answers that leave together and were fed together are one entry, however many they are.

use super::frame;
use super::header::Header;
use crate::rpc_figures::{Kind, Place, RpcFigures, Slow};
use pyrmq_format::host::Host;
use pyrmq_format::parse_i64;
use pyrmq_store::{Span, Store};

/// A request, as far as its answer needs it: two words, as there is one for each answer that waits. Times are
/// in µs, of the caller's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When it was fed.
    fed: i64,
    /// Its code and `LONG_POLLING`, and below that how long it was ready before it was fed.
    what: u64,
}

/// It has waited for messages.
const LONG_POLLING: u32 = 1 << 31;

impl Asked {
    pub fn new(fed: i64, waited: u32) -> Self {
        Asked {
            fed,
            what: waited.into(),
        }
    }

    /// The same of a request with this code, which is not negative.
    #[inline]
    pub fn of(self, code: i32) -> Self {
        let code = code as u32 & !LONG_POLLING;
        Asked {
            what: u64::from(code) << 32 | u64::from(self.waited()),
            ..self
        }
    }

    /// The same of one that has waited for messages.
    pub fn parked(self) -> Self {
        Asked {
            what: self.what | u64::from(LONG_POLLING) << 32,
            ..self
        }
    }

    #[inline]
    pub fn fed(self) -> i64 {
        self.fed
    }

    #[inline]
    pub fn waited(self) -> u32 {
        self.what as u32
    }

    /// When it was ready to be received.
    pub fn since(self) -> i64 {
        self.fed - i64::from(self.waited())
    }

    fn code(self) -> i32 {
        ((self.what >> 32) as u32 & !LONG_POLLING) as i32
    }

    /// What it counts as, if it was answered with this code.
    pub fn kind(self, response: i32) -> Kind {
        Kind {
            long_polling: self.is_parked(),
            ..Kind::answered(self.code(), response)
        }
    }

    fn is_parked(self) -> bool {
        (self.what >> 32) as u32 & LONG_POLLING != 0
    }
}

/// Requests of one feed that were answered alike, at once.
pub struct Answered {
    pub asked: Asked,
    pub response: i32,
    pub is_oneway: bool,
    pub count: u64,
}

/// What the caller has said of the time, µs.
#[derive(Default)]
pub struct Clock {
    pub now: i64,
    /// How long what is fed next was ready before.
    pub waited: u32,
}

/// An answer that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    pub asked: Asked,
    /// The code that it says.
    pub response: i32,
    /// What it acknowledges lies below; 0: nothing that was written.
    pub log_end: u64,
}

/// Who is told of answers that leave.
pub trait Witness {
    /// Whether the request was slow.
    fn leaves(&mut self, answer: Leaving) -> bool;

    /// It was slow; `bytes` are the answer.
    fn was_slow(&mut self, answer: Leaving, bytes: &[u8]);
}

/// Answers that leave together.
struct Entry {
    last: Leaving,
    count: u64,
    is_slow: bool,
}

/// Books what leaves at one time.
pub struct Book<'s> {
    store: &'s Store,
    figures: &'s RpcFigures,
    peer: Host,
    now: i64,
    entry: Option<Entry>,
}

impl<'s> Book<'s> {
    /// `now`: when answers leave, µs. Those behind a write leave when it has ended, at the earliest.
    pub fn new(store: &'s Store, figures: &'s RpcFigures, peer: Host, now: i64) -> Self {
        let last_write = store.figures().last_write();
        Book {
            store,
            figures,
            peer,
            now: now.max(last_write),
            entry: None,
        }
    }

    /// Requests of this kind were answered, which acknowledge nothing that was written.
    pub fn enter(&mut self, asked: Asked, kind: Kind, count: u64) {
        let took = self.now - asked.since();
        self.figures.record(kind, took.max(0) as u64, count);
        if self.figures.is_slow(took) && !asked.is_parked() {
            let answer = Leaving {
                asked,
                response: kind.response,
                log_end: 0,
            };
            self.was_slow(answer, &[]);
        }
    }

    #[inline(never)]
    fn begin(&mut self, answer: Leaving) -> bool {
        self.finish();
        let asked = answer.asked;
        // What waited for messages was not slow meanwhile.
        let since = match asked.is_parked() {
            true => asked.fed,
            false => asked.since(),
        };
        let is_slow = self.figures.is_slow(self.now - since);
        self.entry = Some(Entry {
            last: answer,
            count: 1,
            is_slow,
        });
        is_slow
    }

    /// Enters what has left so far.
    pub fn finish(&mut self) {
        let Some(Entry { last, count, .. }) = self.entry.take() else {
            return;
        };
        let asked = last.asked;
        let code = asked.code();
        let took = (self.now - asked.since()).max(0) as u64;
        self.figures.record(asked.kind(last.response), took, count);
        if last.log_end == 0 {
            return;
        }
        let figures = self.store.figures();
        if is_send(code) {
            figures.puts.add(took, count);
        }
        if !self.store.barrier().policy().is_written_enough()
            && let Some(written) = figures.written_at(last.log_end)
        {
            let waited = (self.now - written.ended).max(0) as u64;
            figures.barrier_waits.add(waited, count);
        }
    }

    /// Where the time of a slow request went.
    fn slow(&self, answer: Leaving, bytes: &[u8]) -> Slow {
        let asked = answer.asked;
        let figures = self.store.figures();
        let written = match answer.log_end {
            0 => None,
            end => figures.written_at(end),
        };
        let flushed = match self.store.barrier().policy().flushed {
            true => Some(figures.flushed_at(answer.log_end).map(|span| span.ended)),
            false => None,
        };
        let [processed, written, flushed, replicated] =
            parts(asked.fed, written, flushed, self.now);
        Slow {
            code: asked.code(),
            response: answer.response,
            peer: self.peer,
            queued: match asked.is_parked() {
                true => 0,
                false => asked.waited().into(),
            },
            processed,
            written,
            flushed,
            replicated,
            place: place(bytes),
        }
    }
}

/// The time from `fed` to `now` in parts: until its write began, the write, until its flush ended, and what
/// came behind that. `flushed`: None if it waits for no flush; Some(None): for one that has not ended.
fn parts(fed: i64, written: Option<Span>, flushed: Option<Option<i64>>, now: i64) -> [u64; 4] {
    let mut at = fed;
    let mut part = |end: i64| {
        let end = end.clamp(at, now.max(at));
        (end - std::mem::replace(&mut at, end)) as u64
    };
    let Some(written) = written else {
        return [part(now), 0, 0, 0];
    };
    [
        part(written.begun),
        part(written.ended),
        part(flushed.map_or(written.ended, |end| end.unwrap_or(now))),
        part(now),
    ]
}

impl Witness for Book<'_> {
    #[inline]
    fn leaves(&mut self, answer: Leaving) -> bool {
        match &mut self.entry {
            Some(Entry {
                last,
                count,
                is_slow,
            }) if last.asked == answer.asked && last.response == answer.response => {
                *count += 1;
                last.log_end = answer.log_end;
                *is_slow
            }
            _ => self.begin(answer),
        }
    }

    #[cold]
    fn was_slow(&mut self, answer: Leaving, bytes: &[u8]) {
        self.figures.note_slow(|| self.slow(answer, bytes));
    }
}

impl Drop for Book<'_> {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The requests that store messages.
fn is_send(code: i32) -> bool {
    use super::send_fields::{SEND_BATCH_MESSAGE, SEND_MESSAGE, SEND_MESSAGE_V2};
    matches!(code, SEND_MESSAGE | SEND_MESSAGE_V2 | SEND_BATCH_MESSAGE)
}

/// Where the message is that an answer to a send names: its id ends in the physical offset.
fn place(answer: &[u8]) -> Option<Place> {
    let parts = frame::split(answer).ok()??;
    let mut header = Header::default();
    header.read(parts.codec, answer, parts.header_end).ok()?;
    let field = |wanted: &[u8]| {
        let mut fields = header.ext.iter();
        let found = fields.find(|(name, _)| name.bytes(answer) == wanted);
        found.map(|(_, value)| value.bytes(answer))
    };
    let id = field(b"msgId")?.split(|b| *b == b',').next()?;
    let offset = std::str::from_utf8(id.get(id.len().checked_sub(16)?..)?).ok()?;
    Some(Place {
        queue_id: parse_i64(field(b"queueId")?)?.try_into().ok()?,
        queue_offset: parse_i64(field(b"queueOffset")?)?,
        physical_offset: u64::from_str_radix(offset, 16).ok()?,
    })
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
