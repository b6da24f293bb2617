//! A connection without its socket: fed what arrived, it says what to send.
//!
//! `feed` splits frames, stores plain sends and collects everything else as commands for the
//! broker. Answers to sends that must be durable first are held back until `release`.

use super::WireError;
use super::end_transaction::{self, END_TRANSACTION};
use super::frame::{self, Codec, Parts};
use super::header::{FLAG_RESPONSE, Header};
use super::reply::{self, To, code};
use super::send::{Request, Scratch, SendContext, Sent};
use super::send_fields::{SEND_BATCH_MESSAGE, SEND_MESSAGE, SEND_MESSAGE_V2};
use crate::format::host::Host;
use crate::format::push_int;
use crate::store::{Outcome, PutGuard, StoreError, Topic};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Commands that one feed hands over at most; what follows waits for the next feed.
pub const MAX_COMMANDS: usize = 64;
/// A frame with more than this still to come is received straight into the session.
const LARGE: usize = 64 << 10;

/// Bound on the bytes of unfinished frames of all sessions that share it.
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
}

impl Budget {
    pub fn new(limit: usize) -> Self {
        Budget {
            limit,
            used: AtomicUsize::new(0),
        }
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

/// A command for the broker: a copy of its frame and where the parts lie.
pub struct Command {
    pub header: Header,
    pub frame: Vec<u8>,
    pub parts: Parts,
}

impl Command {
    pub fn body(&self) -> &[u8] {
        &self.frame[self.parts.header_end..self.parts.total]
    }
}

/// An answer that waits for the log to be durable.
struct Held {
    end: u64,
    since_ms: i64,
    to: To,
    len: usize,
}

pub struct Session {
    context: Option<Arc<SendContext>>,
    budget: Arc<Budget>,
    born_host: Host,
    partial: Vec<u8>,
    counted: usize,
    commands: VecDeque<Command>,
    held: VecDeque<Held>,
    held_bytes: VecDeque<u8>,
    last_topic: Option<Arc<Topic>>,
}

thread_local! {
    static SCRATCH: RefCell<(Header, Scratch)> = RefCell::default();
}

impl Session {
    /// Without a context no send is stored: every frame becomes a command (name server, client).
    pub fn new(context: Option<Arc<SendContext>>, budget: Arc<Budget>, born_host: Host) -> Self {
        Session {
            context,
            budget,
            born_host,
            partial: Vec::new(),
            counted: 0,
            commands: VecDeque::new(),
            held: VecDeque::new(),
            held_bytes: VecDeque::new(),
            last_topic: None,
        }
    }

    /// Takes `data`, appends what can be answered at once to `out`. After an error the connection
    /// is to be closed once `out` is sent.
    pub fn feed(&mut self, data: &[u8], now_ms: i64, out: &mut Vec<u8>) -> Result<(), WireError> {
        let context = self.context.clone();
        let mut guard = None;
        let result = SCRATCH.with_borrow_mut(|(header, scratch)| {
            let mut feed = Feed {
                context: context.as_deref(),
                guard: &mut guard,
                header,
                scratch,
                now_ms,
                out,
                owes_ops: false,
            };
            let fed = self.feed_with(&mut feed, data);
            let _ = feed.write_ops(); // told; nobody waits for it
            fed
        });
        drop(guard);
        self.count_partial()?;
        result
    }

    fn feed_with(&mut self, feed: &mut Feed<'_, '_>, mut data: &[u8]) -> Result<(), WireError> {
        if !self.partial.is_empty() {
            // Finish the frame that was begun; what follows is read in place.
            while let Some(missing) = self.missing()? {
                let n = missing.min(data.len());
                if n == 0 {
                    return Ok(());
                }
                self.partial.extend_from_slice(&data[..n]);
                data = &data[n..];
            }
            if !data.is_empty() && frame::total_len(&self.partial)? != Some(self.partial.len()) {
                self.partial.extend_from_slice(data);
                data = &[];
            }
            let begun = std::mem::take(&mut self.partial);
            let rest = self.frames(feed, &begun)?;
            if !rest.is_empty() {
                self.partial.extend_from_slice(rest);
                self.partial.extend_from_slice(data);
                return Ok(());
            }
        }
        let rest = self.frames(feed, data)?;
        self.partial.extend_from_slice(rest);
        Ok(())
    }

    /// Bytes that the begun frame still needs (or its first eight), None if it is complete.
    fn missing(&self) -> Result<Option<usize>, WireError> {
        let have = self.partial.len();
        if have < 8 {
            frame::split(&self.partial)?;
            return Ok(Some(8 - have));
        }
        frame::split(&self.partial)?;
        let total = frame::total_len(&self.partial)?.unwrap_or(8);
        Ok((have < total).then(|| total - have))
    }

    /// Handles complete frames and returns what is left over.
    fn frames<'d>(
        &mut self,
        feed: &mut Feed<'_, '_>,
        mut data: &'d [u8],
    ) -> Result<&'d [u8], WireError> {
        while self.commands.len() < MAX_COMMANDS {
            let Some(parts) = frame::split(data)? else {
                break;
            };
            let (frame, rest) = data.split_at(parts.total);
            self.frame(feed, frame, parts)?;
            data = rest;
        }
        Ok(data)
    }

    fn frame(
        &mut self,
        feed: &mut Feed<'_, '_>,
        frame: &[u8],
        parts: Parts,
    ) -> Result<(), WireError> {
        feed.header.read(parts.codec, frame, parts.header_end)?;
        let settled = match feed.header.code {
            _ if feed.header.flag & FLAG_RESPONSE != 0 => false,
            SEND_MESSAGE | SEND_MESSAGE_V2 | SEND_BATCH_MESSAGE => {
                self.send(feed, frame, parts, false)
            }
            END_TRANSACTION => self.end_transaction(feed, frame, parts),
            _ => false,
        };
        if settled {
            return Ok(());
        }
        self.commands.push_back(Command {
            header: feed.header.clone(),
            frame: frame.to_vec(),
            parts,
        });
        Ok(())
    }

    /// Whether the send was settled; otherwise the broker has to look at it.
    fn send(&mut self, feed: &mut Feed<'_, '_>, frame: &[u8], parts: Parts, asked: bool) -> bool {
        let Some(context) = feed.context else {
            return false;
        };
        let to = To {
            codec: parts.codec,
            opaque: feed.header.opaque,
        };
        let rq = Request {
            header: feed.header,
            frame,
            body: &frame[parts.header_end..parts.total],
            to,
            born_host: self.born_host,
            asked,
        };
        let start = feed.out.len();
        let sent = context.send(
            &rq,
            feed.guard,
            &mut self.last_topic,
            feed.scratch,
            feed.out,
        );
        match sent {
            Sent::Ask => return false,
            Sent::Refused if rq.header.is_oneway() => feed.out.truncate(start),
            Sent::Refused => {}
            Sent::Stored { end } => self.hold(feed, to, start, end),
        }
        true
    }

    /// Holds the answer that begins at `start` of the output until `end` is durable.
    fn hold(&mut self, feed: &mut Feed<'_, '_>, to: To, start: usize, end: u64) {
        let sync = feed.context.is_some_and(|c| c.store.is_sync());
        if sync && end > 0 && feed.out.len() > start {
            let len = feed.out.len() - start;
            self.held_bytes.extend(feed.out.drain(start..));
            self.held.push_back(Held {
                end,
                since_ms: feed.now_ms,
                to,
                len,
            });
        }
    }

    /// Whether the transaction was settled; otherwise the broker has to look at it. The op record of
    /// one-way requests, which is what clients send, is written once for all of a feed.
    fn end_transaction(&mut self, feed: &mut Feed<'_, '_>, frame: &[u8], parts: Parts) -> bool {
        let Some(transactions) = feed.context.and_then(|c| c.transactions.as_deref()) else {
            return false;
        };
        let settled = end_transaction::settle(transactions, feed.header, frame, feed.guard);
        let Some(end) = settled else {
            return false;
        };
        feed.owes_ops = true;
        if feed.header.is_oneway() {
            return true;
        }
        let to = To {
            codec: parts.codec,
            opaque: feed.header.opaque,
        };
        let start = feed.out.len();
        match feed.write_ops() {
            Ok(ops) => {
                reply::push(feed.out, to, code::SUCCESS, None, &[]);
                self.hold(feed, to, start, end.max(ops));
            }
            Err(e) => {
                let why = Some(&*e.to_string());
                reply::push(feed.out, to, code::SERVICE_NOT_AVAILABLE, why, &[]);
            }
        }
        true
    }

    /// Handles a send again after the broker made its topic; refuses it if that is still unknown.
    pub fn resend(
        &mut self,
        frame: &[u8],
        now_ms: i64,
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        let Some(parts) = frame::split(frame)? else {
            return Ok(());
        };
        let context = self.context.clone();
        let mut guard = None;
        SCRATCH.with_borrow_mut(|(header, scratch)| {
            header.read(parts.codec, frame, parts.header_end)?;
            let mut feed = Feed {
                context: context.as_deref(),
                guard: &mut guard,
                header,
                scratch,
                now_ms,
                out,
                owes_ops: false,
            };
            self.send(&mut feed, frame, parts, true);
            Ok(())
        })?;
        drop(guard);
        Ok(())
    }

    /// Appends the held answers that are settled now: durable ones, those older than
    /// `timeout_ms` as FLUSH_DISK_TIMEOUT, and after a failed flush all of them as
    /// SERVICE_NOT_AVAILABLE.
    pub fn release(&mut self, now_ms: i64, timeout_ms: i64, out: &mut Vec<u8>) {
        let Some(context) = self.context.clone() else {
            return;
        };
        let barrier = context.store.barrier();
        while let Some(held) = self.held.front() {
            let code = match barrier.outcome(held.end, now_ms - held.since_ms, timeout_ms) {
                Outcome::Pending => break,
                Outcome::Confirmed => code::SUCCESS,
                Outcome::FlushTimedOut => code::FLUSH_DISK_TIMEOUT,
                Outcome::ReplicationTimedOut => code::FLUSH_SLAVE_TIMEOUT,
                Outcome::NoReplica => code::SLAVE_NOT_AVAILABLE,
                Outcome::Failed => code::SERVICE_NOT_AVAILABLE,
            };
            let Held { to, len, .. } = self.held.pop_front().expect("looked at");
            let answer = self.held_bytes.drain(..len);
            match code {
                code::SUCCESS => out.extend(answer),
                code::SERVICE_NOT_AVAILABLE => {
                    drop(answer);
                    let why = barrier.failure();
                    let why = why.map_or_else(String::new, |e| e.to_string());
                    let why = format!("not stored durably: {why}");
                    reply::push(out, to, code, Some(&why), &[]);
                }
                _ => {
                    let answer: Vec<u8> = answer.collect();
                    push_with_code(out, to, &answer, code);
                }
            }
        }
        self.shrink_held();
    }

    /// Gives back what a long wait for the disk has taken.
    fn shrink_held(&mut self) {
        if self.held.is_empty() && self.held_bytes.capacity() > LARGE {
            self.held_bytes = VecDeque::new();
            self.held = VecDeque::new();
        }
    }

    pub fn held(&self) -> usize {
        self.held.len()
    }

    pub fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    pub fn commands(&self) -> usize {
        self.commands.len()
    }

    /// Whether a whole frame, or one that can be none, is waiting for the next feed (the command
    /// bound was met).
    pub fn has_more(&self) -> bool {
        !matches!(frame::split(&self.partial), Ok(None))
    }

    /// Bytes that a large frame still needs, None if none is under way.
    fn large(&self) -> Option<usize> {
        match self.missing() {
            Ok(Some(n)) if self.partial.len() >= 8 && n > LARGE => Some(n),
            _ => None,
        }
    }

    pub fn wants_space(&self) -> bool {
        !self.partial.is_empty() && self.large().is_some()
    }

    /// A place for the rest of a large frame, to be received into directly and then told with
    /// `filled`. It grows with what has arrived, not with what a peer claims.
    pub fn space(&mut self) -> Option<&mut [u8]> {
        let missing = self.large()?;
        let room = missing.min(self.partial.len().max(4 * LARGE));
        self.partial.reserve(room);
        let start = self.partial.len();
        self.partial.resize(start + room, 0);
        let (_, place) = self.partial.split_at_mut(start);
        Some(place)
    }

    /// `n` of the `room` bytes that `space` gave were received.
    pub fn filled(&mut self, room: usize, n: usize) {
        let start = self.partial.len().saturating_sub(room);
        self.partial.truncate(start + n.min(room));
    }

    fn count_partial(&mut self) -> Result<(), WireError> {
        if self.partial.is_empty() && self.partial.capacity() > 0 {
            self.partial = Vec::new(); // an idle connection keeps no buffer
        }
        let now = self.partial.capacity();
        if now == self.counted {
            return Ok(());
        }
        let used = &self.budget.used;
        used.fetch_add(now, Ordering::Relaxed);
        let total = used.fetch_sub(self.counted, Ordering::Relaxed) - self.counted;
        self.counted = now;
        if total > self.budget.limit && now > LARGE {
            Err(WireError::Overload)
        } else {
            Ok(())
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

/// What one feed carries along.
struct Feed<'f, 's> {
    context: Option<&'s SendContext>,
    guard: &'f mut Option<PutGuard<'s>>,
    header: &'f mut Header,
    scratch: &'f mut Scratch,
    now_ms: i64,
    out: &'f mut Vec<u8>,
    /// Transactions were settled whose op record is still to be written.
    owes_ops: bool,
}

impl Feed<'_, '_> {
    /// Writes the op records that are owed; what cannot be written now is tried again by the broker.
    fn write_ops(&mut self) -> Result<u64, StoreError> {
        let transactions = self.context.and_then(|c| c.transactions.as_deref());
        let (Some(transactions), Some(guard)) = (transactions, self.guard.as_mut()) else {
            return Ok(0);
        };
        if !std::mem::take(&mut self.owes_ops) {
            return Ok(0);
        }
        transactions
            .write_ops(guard)
            .inspect_err(|e| log::error!("op record not written, it follows: {e}"))
    }
}

/// Appends an answer that was encoded with code 0 under another code.
fn push_with_code(out: &mut Vec<u8>, to: To, answer: &[u8], code: i32) {
    let start = out.len();
    match to.codec {
        Codec::RocketMq => {
            out.extend_from_slice(answer);
            out[start + 8..start + 10].copy_from_slice(&(code as i16).to_be_bytes());
        }
        Codec::Json => {
            const ZERO: &[u8] = b"{\"code\":0";
            out.extend_from_slice(&answer[..8 + ZERO.len() - 1]);
            push_int(out, code as i64);
            out.extend_from_slice(&answer[8 + ZERO.len()..]);
            let len = (out.len() - start) as u32;
            out[start..start + 4].copy_from_slice(&(len - 4).to_be_bytes());
            out[start + 4..start + 8].copy_from_slice(&(len - 8).to_be_bytes());
        }
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
