//! Books the answers of a session: when they leave, how long their requests took.
//!
//! Answers that leave together and were fed together are one entry, however many they are.

use super::frame;
use super::header::Header;
use crate::rpc_figures::{Kind, Place, RpcFigures, Slow};
use pyrmq_format::host::Host;
use pyrmq_format::parse_i64;
use pyrmq_store::Store;

/// A request, as far as its answer needs it. Times are in µs, of the caller's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    pub code: i32,
    /// How long it was ready before it was fed.
    pub waited: u32,
    /// When it was fed.
    pub fed: i64,
    pub long_polling: bool,
}

impl Asked {
    /// The same of a request with this code.
    #[inline]
    pub fn of(self, code: i32) -> Self {
        Asked { code, ..self }
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
#[derive(Clone, Copy)]
pub struct Leaving<'a> {
    pub asked: Asked,
    /// The code that it says.
    pub response: i32,
    /// What it acknowledges lies below; 0: nothing that was written.
    pub log_end: u64,
    pub bytes: &'a [u8],
}

struct Entry {
    asked: Asked,
    response: i32,
    log_end: u64,
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

    /// An answer leaves.
    #[inline]
    pub fn leaves(&mut self, answer: &Leaving<'_>) {
        let is_slow = match &mut self.entry {
            Some(entry) if entry.asked == answer.asked && entry.response == answer.response => {
                entry.count += 1;
                entry.log_end = answer.log_end;
                entry.is_slow
            }
            _ => self.begin(answer),
        };
        if is_slow {
            let figures = self.figures;
            figures.note_slow(|| self.slow(answer));
        }
    }

    /// Requests of this kind were answered, which acknowledge nothing that was written.
    pub fn enter(&mut self, asked: Asked, kind: Kind, count: u64) {
        let took = self.now - asked.fed + i64::from(asked.waited);
        let figures = self.figures;
        figures.record(kind, took.max(0) as u64, count);
        if figures.is_slow(took) && !asked.long_polling {
            let answer = Leaving {
                asked,
                response: kind.response,
                log_end: 0,
                bytes: &[],
            };
            figures.note_slow(|| self.slow(&answer));
        }
    }

    fn begin(&mut self, answer: &Leaving<'_>) -> bool {
        self.finish();
        let Asked {
            fed,
            waited,
            long_polling,
            ..
        } = answer.asked;
        // What waited for messages was not slow meanwhile.
        let took = self.now - fed + if long_polling { 0 } else { i64::from(waited) };
        let is_slow = self.figures.is_slow(took);
        self.entry = Some(Entry {
            asked: answer.asked,
            response: answer.response,
            log_end: answer.log_end,
            count: 1,
            is_slow,
        });
        is_slow
    }

    /// Enters what has left so far.
    pub fn finish(&mut self) {
        let Some(entry) = self.entry.take() else {
            return;
        };
        let Asked {
            code,
            waited,
            fed,
            long_polling,
        } = entry.asked;
        let took = (self.now - fed).max(0) as u64 + u64::from(waited);
        let kind = Kind {
            long_polling,
            ..Kind::answered(code, entry.response)
        };
        self.figures.record(kind, took, entry.count);
        if entry.log_end == 0 {
            return;
        }
        let store = self.store;
        let figures = store.figures();
        if is_send(code) {
            figures.puts.add(took, entry.count);
        }
        if !store.barrier().policy().is_written_enough()
            && let Some(written) = figures.written_at(entry.log_end)
        {
            let waited = (self.now - written.ended).max(0) as u64;
            figures.barrier_waits.add(waited, entry.count);
        }
    }

    /// Where the time of a slow request went.
    #[cold]
    fn slow(&self, answer: &Leaving<'_>) -> Slow {
        let asked = answer.asked;
        let store = self.store;
        let figures = store.figures();
        let policy = store.barrier().policy();
        // Each part ends at its mark, or where the one before did.
        let mut at = asked.fed;
        let mut part = |end: Option<i64>| {
            let end = end.unwrap_or(at).clamp(at, self.now.max(at));
            (end - std::mem::replace(&mut at, end)) as u64
        };
        let span = (answer.log_end > 0).then(|| figures.written_at(answer.log_end));
        let span = span.flatten();
        let flush = span.and_then(|_| figures.flushed_at(answer.log_end));
        let flush = flush.filter(|_| policy.flushed);
        let processed = match span {
            Some(span) => part(Some(span.begun)),
            None => part(Some(self.now)),
        };
        let written = part(span.map(|span| span.ended));
        let flushed = match policy.flushed && span.is_some() && flush.is_none() {
            true => part(Some(self.now)), // it waits for a flush still
            false => part(flush.map(|flush| flush.ended)),
        };
        let replicated = part(Some(self.now));
        Slow {
            code: asked.code,
            response: answer.response,
            peer: self.peer,
            queued: match asked.long_polling {
                true => 0,
                false => asked.waited.into(),
            },
            processed,
            written,
            flushed,
            replicated,
            place: place(answer.bytes),
        }
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
