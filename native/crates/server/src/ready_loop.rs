//! The ready loop: serves all connections that one poll reports, round after round.
//!
//! A round receives once from each of them and feeds their sessions, writes what all of them stored
//! into the log with one call (group commit), and then sends the answers that waited for the write
//! only. The loop ends as soon as there is something that it does not do itself.
//!
//! Fair: a round takes at most as many connections as the loop has room for, and at most one buffer
//! from each. Bounded: `Until::end_ns`, and no second round on a slow disk. A connection whose socket
//! does not take its answers, or that has a large frame under way, is left to others, who decide
//! whether the loop watches it on (back-pressure).

use super::connection::{Connection, Status};
use super::poll::{Poll, Ready};
use super::socket::Socket;
use super::visit::Visit;
use pyrmq_store::{Store, StoreError};
use std::os::fd::RawFd;
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
    /// How many rounds it served.
    pub rounds: u32,
    pub written: Written,
}

impl Served {
    fn new() -> Self {
        Served {
            idle: false,
            arrivals: false,
            rounds: 0,
            written: Written::Done,
        }
    }
}

struct Watched<S> {
    /// Of this watch, as a descriptor is used again when its socket is closed.
    number: u64,
    connection: Arc<Connection>,
    socket: S,
}

/// One connection of a round.
struct Place {
    number: u64,
    visit: Visit,
}

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
        ReadyLoop {
            poll,
            log,
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
        });
        true
    }

    /// Does not serve a descriptor any more, and does not finish a round for it.
    pub fn forget(&mut self, fd: RawFd) {
        if let Some(one) = usize::try_from(fd)
            .ok()
            .and_then(|at| self.watched.get_mut(at))
        {
            *one = None;
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
    /// others are ready (`others`) the round waits for `finish`. `active` is noted for the connections.
    pub fn serve(&mut self, until: Until, active: f64) -> Served {
        let mut served = Served::new();
        let mut linger_ns = if until.hold { 0 } else { until.linger_ns };
        self.others.clear();
        loop {
            let wait_ns = match linger_ns {
                1.. => linger_ns.min(until.end_ns - self.poll.now_ns()),
                _ => 0,
            };
            match self.poll.poll(wait_ns, &mut self.found) {
                Err(_) if wait_ns > 0 => {
                    linger_ns = 0; // this system cannot wait for less than a millisecond
                    continue;
                }
                Ok(()) if !self.found.is_empty() => {}
                _ => {
                    self.places.clear();
                    served.idle = true;
                    return served;
                }
            }
            self.sort();
            if until.hold || !self.others.is_empty() {
                return served;
            }
            served.rounds += 1;
            if self.round(false, active, &mut served) {
                return served;
            }
            let slow = self.log.as_ref().is_some_and(L::is_slow);
            if slow || self.poll.now_ns() >= until.end_ns {
                self.places.clear();
                return served;
            }
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
        self.round(true, active, &mut served);
        served
    }

    /// Parts what was found into the places of a round and others.
    fn sort(&mut self) {
        self.places.clear();
        self.others.clear();
        for ready in &self.found {
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

    /// Serves the places. `others_stored`: others have staged something that is not written yet.
    /// Returns whether somebody else has something to do now.
    fn round(&mut self, others_stored: bool, active: f64, served: &mut Served) -> bool {
        let now_ms = self.poll.now_ns() / 1_000_000;
        let group = others_stored || self.places.len() > 1;
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
                now_ms,
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
        let mut left = false;
        for Place { visit, .. } in &mut self.places {
            let Some(Watched {
                connection, socket, ..
            }) = watched_at(&self.watched, visit.key)
            else {
                continue;
            };
            let keeps = visit.called && connection.report().unconfirmed() != 0;
            if answers && keeps && visit.status == Status::Ok {
                visit.release(connection, socket, now_ms, self.timeout_ms, &mut self.out);
            }
            left |= visit.is_left(connection);
        }
        served.arrivals |= arrivals;
        left || served.arrivals || served.written != Written::Done
    }
}

fn watched_at<S>(watched: &[Option<Watched<S>>], fd: RawFd) -> Option<&Watched<S>> {
    watched.get(usize::try_from(fd).ok()?)?.as_ref()
}

fn write(log: &impl Log) -> Written {
    match catch_unwind(AssertUnwindSafe(|| log.write_staged())) {
        Ok(Ok(())) => Written::Done,
        Ok(Err(e)) => Written::Failed(e.to_string()),
        Err(_) => Written::Panicked,
    }
}
