//! The ready loop: serves all connections that one poll reports, round after round.
//!
//! A round receives once from each of them and feeds their sessions, writes what all of them stored
//! into the log with one call (group commit), and then sends the answers that waited for the write
//! only. The loop ends as soon as there is something that it does not do itself.
//!
//! Where answers wait for more than the write (SYNC_FLUSH, SYNC_MASTER), the log's event says that some
//! may leave. The loop knows which of its connections keep answers, and sends those between two rounds.
//! Where nothing else is ready it flushes the log by itself (`HeldFlush`), or waits a moment for that event:
//! going back to the caller and returning costs more than a small request, and the event comes as soon as
//! the disk has written (`Patience`).
//! Once the log has failed, the event and the answers are for others.
//!
//! Fair: a round takes at most as many connections as the loop has room for, and at most one buffer
//! from each. Bounded: `Until::end_ns`, and no second round on a slow disk. A connection whose socket
//! does not take its answers, or that has a large frame under way, is left to others, who decide
//! whether the loop watches it on (back-pressure).

use super::connection::{Connection, Moment, Status};
use super::held_flush::{HeldFlush, Next};
use super::patience::Patience;
use super::poll::{Poll, Ready};
use super::socket::Socket;
use super::visit::Visit;
use pyrmq_store::{Store, StoreError};
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What sessions store to.
pub trait Log {
    /// Writes what is staged.
    fn write_staged(&self) -> Result<(), StoreError>;

    /// Whether queues have grown that somebody watches.
    fn has_arrivals(&self) -> bool;

    /// Whether the next write may take long.
    fn is_slow(&self) -> bool;

    /// Whether what is written is confirmed (ASYNC_FLUSH).
    fn confirms_writes(&self) -> bool;

    /// Readable when more may be confirmed, or something failed.
    fn event(&self) -> RawFd;

    /// Makes `event` not readable until something happens again.
    fn take_event(&self);

    /// Whether nothing has failed that answers wait for.
    fn is_well(&self) -> bool;

    /// What is written from now on is not flushed by others before `let_flush`.
    fn hold_flush(&self);

    /// What is to be flushed, as physical offsets.
    fn flush_asked(&self) -> Range<u64>;

    /// Flushes. False if others do.
    fn flush_here(&self) -> bool;

    /// Has others flush what was written since `hold_flush`.
    fn let_flush(&self);
}

impl Log for Arc<Store> {
    fn write_staged(&self) -> Result<(), StoreError> {
        Store::write_staged(self, |_| ())
    }

    fn has_arrivals(&self) -> bool {
        Store::has_arrivals(self)
    }

    fn is_slow(&self) -> bool {
        self.stalls().is_busy() || self.stalls().is_slow()
    }

    fn confirms_writes(&self) -> bool {
        !self.is_sync()
    }

    fn event(&self) -> RawFd {
        self.barrier().event_fd().as_raw_fd()
    }

    fn take_event(&self) {
        self.barrier().take_event();
    }

    fn is_well(&self) -> bool {
        self.barrier().is_well()
    }

    fn hold_flush(&self) {
        self.log_flusher().hold();
    }

    fn flush_asked(&self) -> Range<u64> {
        self.log_flusher().asked()
    }

    fn flush_here(&self) -> bool {
        self.log_flusher().flush_here()
    }

    fn let_flush(&self) {
        self.log_flusher().let_go();
    }
}

/// How long one call of `ReadyLoop::serve` goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Until {
    /// No round begins later than this, of the poll's clock.
    pub end_ns: i64,
    /// Where nothing is ready it waits this long for something, but not beyond `end_ns`.
    pub linger_ns: i64,
    /// Does not begin a round: what is ready waits for `finish`.
    pub hold: bool,
    /// Others keep answers as well: ends when more may be confirmed.
    pub others_keep: bool,
}

/// What became of the group commit of the last round.
#[derive(Debug, PartialEq, Eq)]
pub enum Written {
    /// Written, or there was none.
    Done,
    /// The log refused it; the text says why.
    Failed(String),
    /// A bug in the store.
    Panicked,
}

/// What one call did.
#[derive(Debug, PartialEq, Eq)]
pub struct Served {
    /// It ended because nothing was ready.
    pub idle: bool,
    /// Queues may have grown that somebody watches.
    pub arrivals: bool,
    /// How many rounds it served. Sending what is confirmed counts as one.
    pub rounds: u32,
    /// What is ready waits for `finish`.
    pub held: bool,
    /// More may be confirmed: others who keep answers are to look.
    pub confirmed: bool,
    pub written: Written,
}

impl Served {
    fn new() -> Self {
        Served {
            idle: false,
            arrivals: false,
            rounds: 0,
            held: false,
            confirmed: false,
            written: Written::Done,
        }
    }
}

struct Watched<S> {
    /// Of this watch, as a descriptor is used again when its socket is closed.
    number: u64,
    connection: Arc<Connection>,
    socket: S,
    /// It is in `ReadyLoop::keeping`.
    keeps: bool,
}

/// One connection of a round.
struct Place {
    number: u64,
    visit: Visit,
}

/// Longest wait for the log's event, ns.
const WAIT: i64 = 200_000;

/// Descriptors are below this: there is a place for each up to the highest one that is watched.
const MOST_DESCRIPTORS: usize = 1 << 22;

/// Watches connections and serves those that are ready.
pub struct ReadyLoop<S, P, L> {
    poll: P,
    log: Option<L>,
    /// Milliseconds after which an answer does not wait for its record any longer.
    timeout_ms: i64,
    /// By descriptor.
    watched: Vec<Option<Watched<S>>>,
    watches: u64,
    /// The log's event, if answers wait for more than the write.
    event: Option<RawFd>,
    /// The log's event is ready.
    has_event: bool,
    /// Watched descriptors whose sessions keep answers.
    keeping: Vec<RawFd>,
    patience: Patience,
    held_flush: HeldFlush,
    /// The loop has flushed since the last poll.
    has_flushed: bool,
    /// When the round that waits for `finish` was found ready, µs.
    held_since: i64,
    found: Vec<Ready>,
    /// What is ready and not watched, of the last call.
    others: Vec<Ready>,
    /// The connections of this round.
    places: Vec<Place>,
    buffer: Vec<u8>,
    out: Vec<u8>,
}

impl<S: Socket, P: Poll, L: Log> ReadyLoop<S, P, L> {
    /// `receive`: bytes that are received from a connection in one round at most; `log`: None if the
    /// sessions store nothing.
    pub fn new(poll: P, receive: usize, log: Option<L>, timeout_ms: i64) -> Self {
        let event = log
            .as_ref()
            .filter(|log| !log.confirms_writes())
            .map(L::event);
        ReadyLoop {
            poll,
            log,
            event,
            has_event: false,
            keeping: Vec::new(),
            patience: Patience::default(),
            held_flush: HeldFlush::default(),
            has_flushed: false,
            held_since: 0,
            timeout_ms,
            watched: Vec::new(),
            watches: 0,
            found: Vec::new(),
            others: Vec::new(),
            places: Vec::new(),
            buffer: vec![0; receive.max(1)],
            out: Vec::new(),
        }
    }

    /// Serves a connection from now on whenever it is ready to be read and nothing else is said of it.
    /// False if `fd` cannot be watched, or is watched already.
    pub fn watch(&mut self, fd: RawFd, socket: S, connection: Arc<Connection>) -> bool {
        let Some(at) = usize::try_from(fd).ok().filter(|at| *at < MOST_DESCRIPTORS) else {
            return false;
        };
        if self.watched.len() <= at {
            self.watched.resize_with(at + 1, || None);
        }
        if self.watched[at].is_some() {
            return false;
        }
        self.watches += 1;
        self.watched[at] = Some(Watched {
            number: self.watches,
            connection,
            socket,
            keeps: false,
        });
        true
    }

    /// Does not serve a descriptor any more, and does not finish a round for it.
    pub fn forget(&mut self, fd: RawFd) {
        let Some(one) = place_of(&mut self.watched, fd) else {
            return;
        };
        if one.take().is_some_and(|w| w.keeps)
            && let Some(at) = self.keeping.iter().position(|kept| *kept == fd)
        {
            self.keeping.swap_remove(at);
        }
    }

    /// Sends the answers that the session of `fd` keeps once they are confirmed. False if that is left
    /// to others, as with ASYNC_FLUSH.
    pub fn keep(&mut self, fd: RawFd) -> bool {
        match place_of(&mut self.watched, fd) {
            Some(Some(watched)) if self.event.is_some() => {
                keep(watched, &mut self.keeping, fd);
                true
            }
            _ => false,
        }
    }

    /// What the last call found ready that is not watched, or for others to receive.
    pub fn others(&self) -> &[Ready] {
        &self.others
    }

    /// Connections that are ready and wait for `finish`.
    pub fn waiting(&self) -> usize {
        self.places.len()
    }

    /// Puts what is left to do for the connections of the last round into `left`, and forgets the
    /// round.
    pub fn take_left(&mut self, left: &mut Vec<Visit>) {
        let watched = &self.watched;
        left.extend(
            self.places
                .drain(..)
                .map(|place| place.visit)
                .filter(|visit| {
                    watched_at(watched, visit.key).is_some_and(|w| visit.is_left(&w.connection))
                }),
        );
    }

    /// Serves round after round, until something is left to do, others are ready, or `until`. Where
    /// others are ready (`others`) the round waits for `finish` (`Served::held`). `active` is noted for
    /// the connections.
    pub fn serve(&mut self, until: Until, active: f64) -> Served {
        let served = self.serve_rounds(until, active);
        self.let_flush();
        served
    }

    fn serve_rounds(&mut self, until: Until, active: f64) -> Served {
        let mut served = Served::new();
        let mut linger_ns = if until.hold { 0 } else { until.linger_ns };
        self.others.clear();
        let mut waits = !until.hold;
        let mut released = false; // by the step before: what is ready comes first now
        loop {
            if !self.is_flush_held_on() {
                let flush_ns = match self.keeping.is_empty() || !waits || !self.patience.tries() {
                    true => 0,
                    false => WAIT,
                };
                let wait_ns = match linger_ns.max(flush_ns) {
                    0 => 0,
                    longest => longest.min(until.end_ns - self.poll.now_ns()),
                };
                match self.poll.poll(wait_ns, &mut self.found) {
                    Err(_) if wait_ns > 0 => {
                        (linger_ns, waits) = (0, false); // this system cannot wait for less than a millisecond
                        continue;
                    }
                    Ok(()) if !self.found.is_empty() => {}
                    _ => {
                        if flush_ns > 0 && wait_ns >= flush_ns {
                            self.patience.missed();
                        }
                        self.places.clear();
                        self.others.clear();
                        served.idle = true;
                        return served;
                    }
                }
            }
            self.sort();
            if std::mem::take(&mut self.has_flushed) {
                let more = !(self.places.is_empty() && self.others.is_empty());
                self.held_flush.note_behind(more);
            }
            released = self.has_event && !(released && self.found.len() > 1);
            if released {
                served.rounds += 1;
                if self.release(&mut served) || until.others_keep {
                    return served;
                }
            } else if until.hold || !self.others.is_empty() {
                served.held = true;
                self.held_since = self.now_us();
                return served;
            } else {
                served.rounds += 1;
                if let (Some(log), Some(_)) = (&self.log, self.event) {
                    log.hold_flush();
                    self.held_flush.hold(self.poll.now_ns());
                }
                if self.round(None, active, &mut served) {
                    self.settle(self.now_us());
                    return served;
                }
            }
            let slow = self.log.as_ref().is_some_and(L::is_slow);
            let now_ns = self.poll.now_ns();
            self.settle(now_ns / 1000);
            if slow || now_ns >= until.end_ns {
                self.places.clear();
                return served;
            }
        }
    }

    /// Flushes what was written, or leaves that to others; true if `found` comes first. What was flushed
    /// makes the event ready.
    fn is_flush_held_on(&mut self) -> bool {
        let Some(log) = self.log.as_ref().filter(|_| self.held_flush.is_held()) else {
            return false;
        };
        let mut wait_ns = 0;
        loop {
            let asked = log.flush_asked();
            let is_ready =
                self.poll.poll(wait_ns, &mut self.found).is_ok() && !self.found.is_empty();
            let now = self.poll.now_ns();
            if asked.is_empty() || is_ready {
                if is_ready && self.held_flush.gathers(now) {
                    return true;
                }
                break;
            }
            match self.held_flush.next(&asked, now) {
                Next::Wait(ns) => wait_ns = ns,
                Next::Own if log.flush_here() => {
                    let took = self.poll.now_ns() - now;
                    self.held_flush.flushed(asked.end - asked.start, took);
                    self.has_flushed = true;
                    break;
                }
                Next::Own | Next::Others => break,
            }
        }
        self.let_flush();
        false
    }

    /// Holds no flush back any longer.
    fn let_flush(&mut self) {
        if let (true, Some(log)) = (self.held_flush.end(), &self.log) {
            log.let_flush();
        }
    }

    /// Serves the round that `serve` left, without connections that are not watched any more. Also
    /// writes what others have staged meanwhile.
    pub fn finish(&mut self, active: f64) -> Served {
        let watched = &self.watched;
        self.places.retain(|place| {
            watched_at(watched, place.visit.key).is_some_and(|w| w.number == place.number)
        });
        let mut served = Served::new();
        self.round(Some(self.held_since), active, &mut served);
        self.settle(self.now_us());
        served
    }

    /// Microseconds of the poll's clock.
    fn now_us(&self) -> i64 {
        self.poll.now_ns() / 1000
    }

    /// Enters what the round has answered at once; `now` is the time, µs.
    fn settle(&mut self, now: i64) {
        for Place { visit, .. } in &mut self.places {
            if std::mem::take(&mut visit.is_to_settle)
                && let Some(watched) = watched_at(&self.watched, visit.key)
            {
                watched.connection.settle_at(now);
            }
        }
    }

    /// Parts what was found into the places of a round and others.
    fn sort(&mut self) {
        self.places.clear();
        self.others.clear();
        self.has_event = false;
        for ready in &self.found {
            if self.event == Some(ready.fd) && self.log.as_ref().is_some_and(L::is_well) {
                self.has_event = true;
                continue;
            }
            let plain = (ready.events == libc::EPOLLIN as u32)
                .then(|| watched_at(&self.watched, ready.fd))
                .flatten()
                .filter(|w| !w.connection.report().is_large_or_heavy());
            match plain {
                Some(watched) => self.places.push(Place {
                    number: watched.number,
                    visit: Visit::new(ready.fd),
                }),
                None => self.others.push(*ready),
            }
        }
    }

    /// Sends the answers that the watched sessions keep and that wait no longer. What is ready is found
    /// again by the next poll. Returns whether somebody else has something to do now.
    fn release(&mut self, served: &mut Served) -> bool {
        self.places.clear();
        self.others.clear();
        let now = self.now_us();
        if let Some(log) = &self.log {
            log.take_event(); // first: what is confirmed from here on makes it ready again
            served.arrivals |= log.has_arrivals();
        }
        served.confirmed = true;
        self.patience.came();
        let (watched, places) = (&mut self.watched, &mut self.places);
        let (out, timeout_ms) = (&mut self.out, self.timeout_ms);
        self.keeping.retain(|&fd| {
            let Some(Some(one)) = place_of(watched, fd) else {
                return false;
            };
            let connection = &one.connection;
            if connection.report().unconfirmed() != 0 {
                let mut visit = Visit::new(fd);
                visit.kept = true;
                visit.release_at(connection, &one.socket, now, timeout_ms, out);
                if visit.has_failed_or_rest() {
                    let number = one.number;
                    places.push(Place { number, visit });
                }
            }
            one.keeps = connection.report().unconfirmed() != 0;
            one.keeps
        });
        served.arrivals || !self.places.is_empty()
    }

    /// Serves the places. `held_since`: they were found ready then, µs, and others may have staged
    /// something meanwhile that is not written yet. Returns whether somebody else has something to do now.
    fn round(&mut self, held_since: Option<i64>, active: f64, served: &mut Served) -> bool {
        let now = self.now_us();
        let at = Moment {
            now,
            waited: held_since.map_or(0, |since| now - since),
        };
        let group = held_since.is_some() || self.places.len() > 1;
        let mut arrivals = false;
        for Place { visit, .. } in &mut self.places {
            let Some(Watched {
                connection, socket, ..
            }) = watched_at(&self.watched, visit.key)
            else {
                continue;
            };
            connection.note_active(active);
            visit.receive(
                connection,
                socket,
                &mut self.buffer,
                at,
                group,
                &mut self.out,
            );
            arrivals |= visit.called && connection.report().has_arrivals();
        }
        if let (Some(log), true) = (&self.log, group) {
            served.written = write(log);
            arrivals = log.has_arrivals();
        }
        let answers = self.log.as_ref().is_some_and(L::confirms_writes);
        let keeps = self.event.is_some()
            && served.written == Written::Done
            && self.log.as_ref().is_some_and(L::is_well);
        let mut left = false;
        for Place { visit, .. } in &mut self.places {
            let Some(Some(watched)) = place_of(&mut self.watched, visit.key) else {
                continue;
            };
            let has_kept = visit.called && watched.connection.report().unconfirmed() != 0;
            if has_kept && visit.status == Status::Ok {
                if answers {
                    let (connection, socket) = (&watched.connection, &watched.socket);
                    let (timeout_ms, out) = (self.timeout_ms, &mut self.out);
                    visit.release_at(connection, socket, now, timeout_ms, out);
                } else if keeps {
                    visit.kept = true;
                    keep(watched, &mut self.keeping, visit.key);
                }
            }
            left |= visit.is_left(&watched.connection);
        }
        served.arrivals |= arrivals;
        left || served.arrivals || served.written != Written::Done
    }
}

fn watched_at<S>(watched: &[Option<Watched<S>>], fd: RawFd) -> Option<&Watched<S>> {
    watched.get(usize::try_from(fd).ok()?)?.as_ref()
}

fn place_of<S>(watched: &mut [Option<Watched<S>>], fd: RawFd) -> Option<&mut Option<Watched<S>>> {
    watched.get_mut(usize::try_from(fd).ok()?)
}

fn keep<S>(watched: &mut Watched<S>, keeping: &mut Vec<RawFd>, fd: RawFd) {
    if !watched.keeps {
        watched.keeps = true;
        keeping.push(fd);
    }
}

fn write(log: &impl Log) -> Written {
    match catch_unwind(AssertUnwindSafe(|| log.write_staged())) {
        Ok(Ok(())) => Written::Done,
        Ok(Err(e)) => Written::Failed(e.to_string()),
        Err(_) => Written::Panicked,
    }
}
