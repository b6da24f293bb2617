//! A master's connections on their sockets: each is served by a thread of the caller.
//!
//! The bytes of the log go from the page cache to the socket by sendfile, so a slave that reads what is
//! cold waits for the disk in its own thread, and nothing is copied. Under a cover (`channel`) they are
//! read and sealed instead.

use super::channel::{Channel, Doorman, READ_LITTLE};
use super::frame::HEADER_LEN;
use super::master::{Log, MasterLink, MasterSettings, Step};
use super::replicas::Replicas;
use super::socket::Socket;
use crate::{Follower, Store, now_ms};
use parking_lot::Mutex;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// While nobody waits for slaves, messages gather for so long before they are sent.
const GATHER: Duration = Duration::from_micros(500);
/// Frames that are sent before what has arrived is looked at.
const BEFORE_LOOK: usize = 8;

pub struct Senders {
    store: Arc<Store>,
    replicas: Arc<Replicas>,
    settings: MasterSettings,
    stopped: AtomicBool,
    followers: Mutex<Vec<Arc<Follower>>>,
}

/// A frame that is being sent.
struct Sending {
    header: [u8; HEADER_LEN],
    header_done: usize,
    offset: u64,
    left: usize,
}

/// A connection that is being served.
struct Serving<'s> {
    senders: &'s Senders,
    channel: Channel<'s>,
    follower: Arc<Follower>,
    link: MasterLink,
    id: u64,
    sending: Option<Sending>,
    /// The log's file that is read, and where it begins.
    file: Option<(u64, File)>,
}

impl Senders {
    pub fn new(store: Arc<Store>, replicas: Arc<Replicas>, settings: MasterSettings) -> Self {
        Senders {
            store,
            replicas,
            settings,
            stopped: AtomicBool::new(false),
            followers: Mutex::default(),
        }
    }

    /// Ends all connections, and those that come.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        for follower in self.followers.lock().iter() {
            follower.wake();
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn log(&self) -> Log {
        let log = self.store.log();
        Log {
            min: log.min_offset(),
            end: self.store.barrier().local(),
            file_size: log.file_size() as u64,
        }
    }

    /// Serves one slave until the connection ends; returns why it did, nothing if `stop` ended it.
    /// `doorman` says what a connection gets; without one all are plain.
    pub fn serve(&self, fd: OwnedFd, peer: &str, doorman: Option<&Doorman>) -> Option<String> {
        let growth = self.store.barrier().growth();
        let follower = match growth.join() {
            Ok(follower) => follower,
            Err(e) => return Some(e.to_string()),
        };
        self.followers.lock().push(follower.clone());
        let id = self.replicas.add(peer, now_ms());
        let ended = Socket::new(fd)
            .map_err(|e| e.to_string())
            .and_then(|socket| {
                let mut serving = Serving {
                    senders: self,
                    channel: Channel::answering(socket, doorman),
                    follower: follower.clone(),
                    link: MasterLink::new(self.settings, now_ms()),
                    id,
                    sending: None,
                    file: None,
                };
                let ended = serving.run();
                serving.channel.part(follower.fd());
                ended
            });
        self.replicas.remove(id);
        growth.leave(&follower);
        self.followers
            .lock()
            .retain(|one| !Arc::ptr_eq(one, &follower));
        ended.err()
    }
}

impl Serving<'_> {
    fn run(&mut self) -> Result<(), String> {
        let mut frames = 0;
        while !self.senders.is_stopped() {
            if frames % BEFORE_LOOK == 0 {
                self.read()?;
            }
            frames += 1;
            let blocked = match self.send()? {
                true => None,
                false => Some(true),
            };
            if blocked.is_none() {
                let log = self.senders.log();
                match self.link.step(now_ms(), &log)? {
                    Step::Send {
                        header,
                        offset,
                        len,
                    } => {
                        self.sending = Some(Sending {
                            header,
                            header_done: 0,
                            offset,
                            left: len,
                        });
                        continue;
                    }
                    Step::Wait { until } => {
                        self.tell();
                        self.rest(until, log.end)?;
                    }
                }
            } else {
                self.tell();
                // A peer that reads nothing is given up in the end, as it reports nothing.
                let silent = self.link.step_while_blocked(now_ms())?;
                let ready = self
                    .channel
                    .wait(true, self.follower.fd(), silent - now_ms());
                self.senders.store.barrier().growth().awake(&self.follower);
                ready.map_err(|e| e.to_string())?;
            }
            self.read()?;
            frames = 1;
        }
        Ok(())
    }

    /// Waits for more of the log, or of the slave.
    fn rest(&self, until: i64, seen: u64) -> Result<(), String> {
        let barrier = self.senders.store.barrier();
        let growth = barrier.growth();
        let more = || self.senders.log().end > seen || self.senders.is_stopped();
        if growth.sleep(&self.follower, more) {
            let woken = self
                .channel
                .wait(false, self.follower.fd(), (until - now_ms()).max(1))
                .map_err(|e| e.to_string())?;
            growth.awake(&self.follower);
            if woken && !barrier.policy().replicated && !self.senders.is_stopped() {
                std::thread::sleep(GATHER);
            }
        }
        Ok(())
    }

    /// Takes all that has arrived.
    fn read(&mut self) -> Result<(), String> {
        loop {
            let Some(bytes) = self.channel.read().map_err(|e| e.to_string())? else {
                return Ok(());
            };
            let before = (self.link.acked(), self.link.next().is_some());
            let log = self.senders.log();
            self.link.feed(bytes, now_ms(), &log)?;
            let is_all = bytes.len() < READ_LITTLE;
            if before != (self.link.acked(), self.link.next().is_some()) {
                self.tell();
            }
            if is_all {
                return Ok(());
            }
        }
    }

    fn tell(&self) {
        let (acked, next, sent) = (self.link.acked(), self.link.next(), self.link.sent());
        self.senders
            .replicas
            .update(self.id, acked, next, sent, now_ms());
    }

    /// Sends on. False while the socket takes no more.
    fn send(&mut self) -> Result<bool, String> {
        let Some(sending) = &mut self.sending else {
            return Ok(true);
        };
        while sending.header_done < HEADER_LEN {
            let rest = &sending.header[sending.header_done..];
            match self.channel.write(rest, sending.left > 0) {
                Ok(Some(n)) => sending.header_done += n,
                Ok(None) => return Ok(false),
                Err(e) => return Err(e.to_string()),
            }
        }
        while sending.left > 0 {
            let file_size = self.senders.store.log().file_size() as u64;
            let base = sending.offset - sending.offset % file_size;
            if self.file.as_ref().is_none_or(|(of, _)| *of != base) {
                self.file = Some((base, open(&self.senders.store, base)?));
            }
            let (_, file) = self.file.as_ref().expect("opened just now");
            let at = sending.offset - base;
            match self.channel.send_file(file, at, sending.left) {
                Ok(Some(n)) => {
                    sending.left -= n;
                    sending.offset += n as u64;
                }
                Ok(None) => return Ok(false),
                Err(e) => return Err(e.to_string()),
            }
        }
        self.sending = None;
        Ok(true)
    }
}

/// Opens the file of the log that begins at `base`.
fn open(store: &Store, base: u64) -> Result<File, String> {
    let Some((segment, _)) = store.log().locate(base) else {
        return Err(format!("the log has no file at {base} any more"));
    };
    File::open(segment.path()).map_err(|e| format!("open {}: {e}", segment.path().display()))
}
