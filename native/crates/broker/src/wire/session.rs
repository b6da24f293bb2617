//! A connection without its socket: fed what arrived, it says what to send.
//!
//! `feed` splits frames, has sends and ends of transactions carried out, and collects everything else
//! as commands for the broker in Python. Answers that must be confirmed first, its own and those of
//! the broker (`answer`), wait in one queue until `release`.

use super::WireError;
use super::access::{self, Guard, Verified};
use super::ack::{ACK_MESSAGE, Acks, BATCH_ACK_MESSAGE, CHANGE_INVISIBLE_TIME};
use super::ahead::Ahead;
use super::book::{Answered, Asked, Clock};
use super::budget::Budget;
use super::end_transaction::{self, END_TRANSACTION};
use super::frame::{self, Parts};
use super::header::Header;
use super::pull::{Grants, LITE_PULL_MESSAGE, PULL_MESSAGE, PullMemory};
use super::reply::{self, SendAnswer, To};
use super::send_fields::{
    SEND_BATCH_MESSAGE, SEND_MESSAGE, SEND_MESSAGE_V2, Texts, producer_group, send_request,
};
use super::shape::Shapes;
use super::unconfirmed::Unconfirmed;
use super::used::{POP_MESSAGE, Used};
use crate::rpc_figures::RpcFigures;
use crate::{Appender, Broker, Decision, Ended, Keyring, Refusal, Scratch, Sent, codes};
use pyrmq_format::host::Host;
use pyrmq_store::{PutGuard, Topic};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[path = "answering.rs"]
mod answering;
#[path = "guarded.rs"]
mod guarded;
#[path = "popped.rs"]
mod popped;

/// Commands that one feed hands over at most; what follows waits for the next feed.
pub const MAX_COMMANDS: usize = 64;
/// A frame with more than this still to come is received straight into the session.
const LARGE: usize = 64 << 10;

/// What the sessions of a broker share.
pub struct Context {
    pub broker: Broker,
    answer: SendAnswer,
    pub figures: Arc<RpcFigures>,
}

impl Context {
    /// `region` and `trace_on` are in every answer to a send.
    pub fn new(broker: Broker, region: &str, trace_on: bool) -> Self {
        Context {
            broker,
            answer: SendAnswer::new(region, trace_on),
            figures: Arc::default(),
        }
    }

    /// Enters how long requests took there.
    pub fn with_figures(mut self, figures: Arc<RpcFigures>) -> Self {
        self.figures = figures;
        self
    }
}

/// A command for the broker: a copy of its frame and where the parts lie.
pub struct Command {
    pub header: Header,
    pub frame: Vec<u8>,
    pub parts: Parts,
    /// When it was ready to be received, µs of the caller's monotonic clock.
    pub since: i64,
    /// Who signed it, as far as the session could verify that.
    signer: Option<Verified>,
}

impl Command {
    pub fn body(&self) -> &[u8] {
        &self.frame[self.parts.header_end..self.parts.total]
    }
}

pub struct Session {
    context: Option<Arc<Context>>,
    budget: Arc<Budget>,
    born_host: Host,
    partial: Vec<u8>,
    counted: usize,
    commands: VecDeque<Command>,
    unconfirmed: Unconfirmed,
    /// What was answered and not entered yet: see `settle`.
    answered: Vec<Answered>,
    clock: Clock,
    last_topic: Option<Arc<Topic>>,
    grants: Grants,
    pub used: Used,
    /// None: no access control.
    guard: Option<Box<Guard>>,
}

/// Memory that one frame after the other uses, on all connections.
#[derive(Default)]
struct Memory {
    header: Header,
    shapes: Shapes,
    texts: Texts,
    scratch: Scratch,
    pull: PullMemory,
    ahead: Ahead,
    acks: Acks,
}

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::default();
}

impl Session {
    /// Without a context no send is stored: every frame becomes a command (name server, client).
    pub fn new(context: Option<Arc<Context>>, budget: Arc<Budget>, born_host: Host) -> Self {
        Session {
            context,
            budget,
            born_host,
            partial: Vec::new(),
            counted: 0,
            commands: VecDeque::new(),
            unconfirmed: Unconfirmed::default(),
            answered: Vec::new(),
            clock: Clock::default(),
            last_topic: None,
            grants: Grants::default(),
            used: Used::default(),
            guard: None,
        }
    }

    /// Verifies signatures from now on, and answers only what was granted to who signed it.
    pub fn with_keyring(mut self, keyring: Arc<Keyring>) -> Self {
        self.guard = Some(Box::new(Guard::new(keyring)));
        self
    }

    /// Takes `data`, appends what can be answered now to `out`. After an error the connection is to be
    /// closed once `out` is sent.
    pub fn feed(&mut self, data: &[u8], now_ms: i64, out: &mut Vec<u8>) -> Result<(), WireError> {
        self.feed_one_of(data, now_ms, false, out)
    }

    /// The same for one of several connections that are fed in a row. With `defer_write` what is stored
    /// stays staged, and its answers are kept until somebody has called `Store::write_staged` and
    /// then `release`.
    pub fn feed_one_of(
        &mut self,
        data: &[u8],
        now_ms: i64,
        defer_write: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        let context = self.context.clone();
        let asked = self.begin(now_ms);
        let result = MEMORY.with_borrow_mut(|memory| {
            let mut feed = Feed::new(context.as_deref(), memory, asked, out);
            if let (Some(appender), true) = (&mut feed.appender, defer_write) {
                appender.keep_staged();
            }
            let fed = self.feed_with(&mut feed, data);
            self.flush_acks(&mut feed, ACK_MESSAGE);
            fed
        });
        if !defer_write {
            self.release_written(now_ms, out);
        }
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
        if self.guard.is_some() {
            return self.guarded_frames(feed, data);
        }
        while self.commands.len() < MAX_COMMANDS {
            let Some(parts) = frame::split(data)? else {
                break;
            };
            let (frame, rest) = data.split_at(parts.total);
            let Memory { header, shapes, .. } = &mut *feed.memory;
            shapes.read_header(header, parts.codec, frame, parts.header_end)?;
            self.frame(feed, frame, parts);
            data = rest;
        }
        Ok(data)
    }

    /// Handles the frame whose header is in memory.
    #[inline(always)]
    fn frame(&mut self, feed: &mut Feed<'_, '_>, frame: &[u8], parts: Parts) {
        if feed.memory.header.code != ACK_MESSAGE {
            self.flush_acks(feed, ACK_MESSAGE);
        }
        let header = &feed.memory.header;
        let requests = &mut self.used.requests;
        let handled = match header.code {
            _ if header.is_response() => false,
            SEND_MESSAGE | SEND_MESSAGE_V2 | SEND_BATCH_MESSAGE => {
                requests.sends += 1;
                self.send(feed, frame, parts, None)
            }
            END_TRANSACTION => {
                requests.ends += 1;
                self.end_transaction(feed, frame, parts)
            }
            PULL_MESSAGE | LITE_PULL_MESSAGE => {
                requests.pulls += 1;
                self.pull(feed, frame, parts)
            }
            ACK_MESSAGE => {
                requests.acks += 1;
                self.ack(feed, frame, parts)
            }
            BATCH_ACK_MESSAGE => {
                requests.acks += 1;
                self.batch_ack(feed, frame, parts)
            }
            CHANGE_INVISIBLE_TIME => {
                requests.acks += 1;
                self.change(feed, frame, parts)
            }
            POP_MESSAGE => {
                requests.pulls += 1;
                false
            }
            _ => {
                requests.others += 1;
                false
            }
        };
        if !handled {
            self.commands.push_back(Command {
                header: feed.memory.header.clone(),
                frame: frame.to_vec(),
                parts,
                since: feed.asked.since(),
                signer: self.signer().cloned(),
            });
        }
    }

    /// Whether the send was stored or refused; otherwise the broker has to decide.
    fn send(
        &mut self,
        feed: &mut Feed<'_, '_>,
        frame: &[u8],
        parts: Parts,
        decision: Option<Decision<'_>>,
    ) -> bool {
        let (Some(context), Some(appender)) = (feed.context, &mut feed.appender) else {
            return false;
        };
        let Memory {
            header,
            texts,
            scratch,
            ..
        } = &mut *feed.memory;
        let to = To {
            codec: parts.codec,
            opaque: header.opaque,
        };
        let host = self.born_host;
        // What the broker has decided about was allowed.
        let mut guard = self.guard.as_mut().filter(|_| decision.is_none());
        let sent = match send_request(header, frame, &parts, host, decision, texts) {
            Ok(request) => {
                if guard
                    .as_mut()
                    .is_some_and(|g| !g.allows_send(request.topic))
                {
                    return false;
                }
                let sent = appender.send(&request, &mut self.last_topic, scratch);
                if let Sent::Stored(stored) = &sent {
                    let group = producer_group(header, frame, &mut self.used.field);
                    self.used.stored(group, stored.messages, stored.bytes);
                }
                sent
            }
            Err(_) if guard.is_some() => return false,
            Err(refusal) => Sent::Refused(refusal),
        };
        let start = feed.out.len();
        let asked = feed.asked.of(header.code);
        match sent {
            Sent::NeedsDecision => return false,
            sent if header.is_oneway() => {
                let response = match sent {
                    Sent::Refused(refusal) => refusal.code,
                    _ => codes::SUCCESS,
                };
                self.answered(asked, response, true);
            }
            Sent::Refused(Refusal { code, text }) => {
                let region = context.answer.region_fields();
                reply::push(feed.out, to, code, Some(&text), &region);
                self.keep_order(feed, to, asked, code, start);
            }
            Sent::Stored(stored) => {
                let log_end = stored.log_end;
                context.answer.push(feed.out, to, &stored);
                self.keep_unconfirmed(feed, to, asked, start, log_end);
            }
        }
        true
    }

    /// Whether the transaction was settled or refused; otherwise the broker has to decide.
    fn end_transaction(&mut self, feed: &mut Feed<'_, '_>, frame: &[u8], parts: Parts) -> bool {
        let header = &feed.memory.header;
        let (Some(mut end), Some(appender)) =
            (end_transaction::read(header, frame), &mut feed.appender)
        else {
            return false;
        };
        if let Some(guard) = &mut self.guard {
            end.topic = end_transaction::topic(header, frame);
            let may = |topic| guard.allows(access::END_TRANSACTION, topic);
            if !end.topic.is_some_and(may) {
                return false;
            }
        }
        let to = To {
            codec: parts.codec,
            opaque: header.opaque,
        };
        let start = feed.out.len();
        let asked = feed.asked.of(header.code);
        match appender.end_transaction(&end, !header.is_oneway()) {
            Ended::NeedsDecision => return false,
            ended if header.is_oneway() => {
                let response = match ended {
                    Ended::Refused(refusal) => refusal.code,
                    _ => codes::SUCCESS,
                };
                self.answered(asked, response, true);
            }
            Ended::Settled { log_end } => {
                reply::push(feed.out, to, codes::SUCCESS, None, &[]);
                self.keep_unconfirmed(feed, to, asked, start, log_end);
            }
            Ended::Refused(Refusal { code, text }) => {
                reply::push(feed.out, to, code, Some(&text), &[]);
                self.keep_order(feed, to, asked, code, start);
            }
        }
        true
    }

    /// Whether the pull was granted and is answered; otherwise the broker has to answer.
    fn pull(&mut self, feed: &mut Feed<'_, '_>, frame: &[u8], parts: Parts) -> bool {
        let Some(context) = feed.context else {
            return false;
        };
        // What came before it may change what it gets, or commit an offset: the broker keeps the order.
        if !self.commands.is_empty() {
            return false;
        }
        let signer = match &self.guard {
            Some(guard) => match guard.signer() {
                None => return false,
                signed => signed,
            },
            None => None,
        };
        let Memory { header, pull, .. } = &mut *feed.memory;
        let grants = &mut self.grants;
        let broker = &context.broker;
        let answered = grants.answer(broker, header, frame, &parts, signer, pull, feed.out);
        if let Some((messages, bytes)) = answered {
            self.used.pulled(messages, bytes);
            let asked = feed.asked.of(feed.memory.header.code);
            self.answered(asked, codes::SUCCESS, false);
        }
        answered.is_some()
    }

    /// What all sessions of the broker share; None: this is no broker's session.
    pub fn context(&self) -> Option<&Context> {
        self.context.as_deref()
    }

    /// Handles a send again with what the broker decided; what still needs a decision is refused.
    pub fn resend(
        &mut self,
        frame: &[u8],
        decision: Decision<'_>,
        now_ms: i64,
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        let Some(parts) = frame::split(frame)? else {
            return Ok(());
        };
        let context = self.context.clone();
        let asked = self.begin(now_ms);
        MEMORY.with_borrow_mut(|memory| {
            let header = &mut memory.header;
            header.read(parts.codec, frame, parts.header_end)?;
            let mut feed = Feed::new(context.as_deref(), memory, asked, out);
            self.send(&mut feed, frame, parts, Some(decision));
            Ok::<(), WireError>(())
        })?;
        self.release_written(now_ms, out);
        Ok(())
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

    /// Whether an unfinished frame takes much memory: giving up the connection is worth it.
    pub fn is_heavy(&self) -> bool {
        self.counted > LARGE
    }

    pub fn wants_space(&self) -> bool {
        !self.partial.is_empty() && self.large().is_some()
    }

    /// A place for the rest of a large frame, to be received into directly and then reported
    /// with `filled`. It grows with what has arrived, not with what a peer claims.
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

    /// Gives back the memory of an unfinished frame; the connection is of no use then.
    pub fn give_up(&mut self) {
        self.partial = Vec::new();
        let _ = self.count_partial(); // it has none now
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
struct Feed<'f, 'b> {
    context: Option<&'b Context>,
    appender: Option<Appender<'b>>,
    memory: &'f mut Memory,
    /// What its requests are entered with.
    asked: Asked,
    out: &'f mut Vec<u8>,
}

impl<'f, 'b> Feed<'f, 'b> {
    fn new(
        context: Option<&'b Context>,
        memory: &'f mut Memory,
        asked: Asked,
        out: &'f mut Vec<u8>,
    ) -> Self {
        memory.pull.answered = 0;
        memory.acks.clear(); // a panic may have left some
        Feed {
            context,
            appender: context.map(|c| c.broker.appender()),
            memory,
            asked,
            out,
        }
    }

    /// The right to append; None where whoever decides meets the reason.
    fn guard(&mut self) -> Option<&mut PutGuard<'b>> {
        self.appender.as_mut()?.guard().ok()
    }
}
