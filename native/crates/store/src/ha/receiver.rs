//! A slave's connection on its socket, in a thread of the caller.

use super::channel::{Channel, Cover};
use super::slave::{SlaveLink, SlaveSettings};
use super::socket::Socket;
use crate::{Follower, Store, StoreError, now_ms};
use parking_lot::Mutex;
use std::io::{Error, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// `stop` ended it.
    Stopped,
    /// The peer closed it, or was silent, or the network failed.
    Lost(String),
    /// What the master has does not fit this log.
    Misfit(String),
    /// This store cannot take it: its disk is full, say.
    Store(String),
}

/// The slave's side of replication: one connection at a time.
pub struct Receiver {
    store: Arc<Store>,
    settings: SlaveSettings,
    stopped: AtomicBool,
    follower: Mutex<Option<Arc<Follower>>>,
    connected: AtomicBool,
    heard: AtomicBool,
    received: AtomicU64,
    master_end: AtomicU64,
    heard_at: AtomicI64,
    reported_at: AtomicI64,
}

/// How replication stands, for operators. Times in ms since 1970, 0: never.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    pub connected: bool,
    /// Whether the master has sent something on the connection, or on the last one.
    pub heard: bool,
    /// Bytes of the log that were received since the start.
    pub received: u64,
    /// How far the master's log is known to reach.
    pub master_end: u64,
    pub heard_at: i64,
    pub reported_at: i64,
}

impl Receiver {
    pub fn new(store: Arc<Store>, settings: SlaveSettings) -> Self {
        Receiver {
            store,
            settings,
            stopped: AtomicBool::new(false),
            follower: Mutex::default(),
            connected: AtomicBool::new(false),
            heard: AtomicBool::new(false),
            received: AtomicU64::new(0),
            master_end: AtomicU64::new(0),
            heard_at: AtomicI64::new(0),
            reported_at: AtomicI64::new(0),
        }
    }

    pub fn status(&self) -> Status {
        Status {
            connected: self.connected.load(Ordering::Acquire),
            heard: self.heard.load(Ordering::Acquire),
            received: self.received.load(Ordering::Acquire),
            master_end: self.master_end.load(Ordering::Acquire),
            heard_at: self.heard_at.load(Ordering::Acquire),
            reported_at: self.reported_at.load(Ordering::Acquire),
        }
    }

    /// Ends the connection, and those that come.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        if let Some(follower) = &*self.follower.lock() {
            follower.wake();
        }
    }

    /// Appends what a master sends until the connection ends. `cover`: TLS, say.
    pub fn receive(&self, fd: OwnedFd, cover: Option<Box<dyn Cover>>) -> Ended {
        let growth = self.store.barrier().growth();
        let follower = match growth.join() {
            Ok(follower) => follower,
            Err(e) => return Ended::Store(e.to_string()),
        };
        *self.follower.lock() = Some(follower.clone());
        let ended = match Socket::new(fd) {
            Ok(socket) => {
                let mut channel = Channel::calling(socket, cover);
                let ended = self.run(&mut channel, &follower);
                channel.part(follower.fd());
                ended
            }
            Err(e) => Ended::Lost(e.to_string()),
        };
        self.connected.store(false, Ordering::Release);
        *self.follower.lock() = None;
        growth.leave(&follower);
        ended
    }

    fn run(&self, channel: &mut Channel<'_>, follower: &Follower) -> Ended {
        let mut link = match SlaveLink::new(self.store.clone(), self.settings, now_ms()) {
            Ok(link) => link,
            Err(e) => return of_store(&e),
        };
        let before = self.received.load(Ordering::Acquire);
        self.connected.store(true, Ordering::Release);
        let growth = self.store.barrier().growth();
        let mut heard = false;
        self.heard.store(false, Ordering::Release);
        let mut report: Vec<u8> = Vec::new();
        while !self.stopped.load(Ordering::Acquire) {
            if report.is_empty()
                && let Some(bytes) = link.report(now_ms())
            {
                report.extend_from_slice(&bytes);
            }
            if !report.is_empty() {
                match channel.write(&report, false) {
                    Ok(n) => drop(report.drain(..n.unwrap_or(0))),
                    Err(e) => return lost(&e, heard, channel),
                }
            }
            let until = match link.wait(now_ms()) {
                Ok(until) => until,
                Err(why) => return Ended::Lost(why),
            };
            let stopped = || self.stopped.load(Ordering::Acquire);
            let more = || report.is_empty() && link.has_news() || stopped();
            if growth.sleep(follower, more) {
                let ready = channel.wait(!report.is_empty(), follower.fd(), until - now_ms());
                growth.awake(follower);
                if let Err(e) = ready {
                    return lost(&e, heard, channel);
                }
            }
            match channel.read() {
                Err(e) => return lost(&e, heard, channel),
                Ok(None) => {}
                Ok(Some(bytes)) => {
                    heard = true;
                    self.heard.store(true, Ordering::Release);
                    if let Err(e) = link.feed(bytes, now_ms()) {
                        return of_store(&e);
                    }
                }
            }
            self.received
                .store(before + link.received(), Ordering::Release);
            self.master_end
                .fetch_max(link.master_end(), Ordering::AcqRel);
            self.heard_at.store(link.heard_at(), Ordering::Release);
            self.reported_at
                .store(link.reported_at(), Ordering::Release);
        }
        Ended::Stopped
    }
}

/// Why there is no connection any more, and what may be behind it where the master said nothing.
fn lost(e: &Error, heard: bool, channel: &Channel<'_>) -> Ended {
    let silent = matches!(
        e.kind(),
        ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::BrokenPipe
            | ErrorKind::TimedOut
    );
    Ended::Lost(match (heard || !silent, channel.is_covered()) {
        (true, _) => e.to_string(),
        (false, true) => format!(
            "{e}: the master may have tls.server.mode=disabled, or be Apache RocketMQ, which has no \
             TLS here: its log says more"
        ),
        (false, false) => format!(
            "{e} and sent nothing before: its log says why (with tls.server.mode=enforcing it wants \
             tls.enable=true here)"
        ),
    })
}

fn of_store(e: &StoreError) -> Ended {
    match e {
        StoreError::Misfit(why) => Ended::Misfit(why.clone()),
        e => Ended::Store(e.to_string()),
    }
}
