//! A slave's end of the connection to its master, without its socket. [DefaultHAClient]
//!
//! Frames need not end where records do. Records are appended as soon as they are complete, so the
//! slave's log always ends behind a whole one; that is the offset which it reports.

use super::frame::{HEADER_LEN, Header, MAX_BODY, Pieces};
use crate::{Store, StoreError};
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub struct SlaveSettings {
    /// haSendHeartbeatInterval, ms
    pub heartbeat: i64,
    /// haHousekeepingInterval, ms: a master that is silent for longer is given up
    pub silence: i64,
}

pub struct SlaveLink {
    store: Arc<Store>,
    settings: SlaveSettings,
    header: Pieces<HEADER_LEN>,
    /// What the frame that is being read still brings.
    body_left: usize,
    /// Where the next byte belongs; None: the log is empty, the master says it.
    next: Option<u64>,
    /// The front of a record that is not complete.
    pending: Vec<u8>,
    reported: Option<u64>,
    reported_at: i64,
    heard_at: i64,
    received: u64,
    /// Where the master's log ended when it sent something last.
    master_end: u64,
}

impl SlaveLink {
    /// Continues where the log ends: the caller has found that the master has all of it. An error if
    /// what is staged cannot be written.
    pub fn new(store: Arc<Store>, settings: SlaveSettings, now: i64) -> Result<Self, StoreError> {
        let end = store.write_staged(|end| end)?;
        store.wait_for_slaves(false); // it is on two machines
        let is_empty = end == 0 || store.log().segments().is_empty();
        let next = (!is_empty).then_some(end);
        Ok(SlaveLink {
            store,
            settings,
            header: Pieces::default(),
            body_left: 0,
            next,
            pending: Vec::new(),
            reported: None,
            reported_at: now,
            heard_at: now,
            received: 0,
            master_end: 0,
        })
    }

    /// Bytes of the log that were received.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// How far the master's log is known to reach.
    pub fn master_end(&self) -> u64 {
        self.master_end
    }

    /// When something was heard last, ms.
    pub fn heard_at(&self) -> i64 {
        self.heard_at
    }

    /// When something was reported last, ms.
    pub fn reported_at(&self) -> i64 {
        self.reported_at
    }

    /// Takes what arrived, and appends the records that are complete. An error ends the connection.
    pub fn feed(&mut self, mut bytes: &[u8], now: i64) -> Result<(), StoreError> {
        if !bytes.is_empty() {
            self.heard_at = now;
        }
        while !bytes.is_empty() {
            if self.body_left == 0 {
                if let Some(header) = self.header.take(&mut bytes) {
                    self.begin(Header::read(&header))?;
                }
                continue;
            }
            let (body, rest) = bytes.split_at(self.body_left.min(bytes.len()));
            self.body(body)?;
            bytes = rest;
        }
        Ok(())
    }

    /// A frame begins.
    fn begin(&mut self, header: Header) -> Result<(), StoreError> {
        let Header { offset, size } = header;
        let misfit = |why: String| Err(StoreError::Misfit(why));
        let (Ok(offset), Ok(size)) = (u64::try_from(offset), usize::try_from(size)) else {
            return misfit(format!(
                "a frame says offset {offset} and size {size}: the peer is no master"
            ));
        };
        if offset > i64::MAX as u64 / 2 {
            return misfit(format!(
                "a frame says offset {offset}, which no log reaches: the peer is no master"
            ));
        }
        if size > MAX_BODY {
            return misfit(format!(
                "a frame of {size} bytes, more than {MAX_BODY}: the peer is no master, or its \
                 haTransferBatchSize is too large"
            ));
        }
        match self.next {
            Some(next) if next != offset => {
                return misfit(format!(
                    "the master sends what stands at {offset}, but this log ends at {next}"
                ));
            }
            Some(_) => {}
            None if size == 0 => return Ok(()),
            None => {
                self.store.begin_copies_at(offset)?;
                self.next = Some(offset);
            }
        }
        self.body_left = size;
        self.master_end = self.master_end.max(offset + size as u64);
        Ok(())
    }

    fn body(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        if self.pending.is_empty() {
            let done = self.store.append_copied(bytes)?;
            self.pending.extend_from_slice(&bytes[done..]);
        } else {
            self.pending.extend_from_slice(bytes);
            let done = self.store.append_copied(&self.pending)?;
            self.pending.drain(..done);
        }
        self.body_left -= bytes.len();
        self.received += bytes.len() as u64;
        self.next = self.next.map(|next| next + bytes.len() as u64);
        Ok(())
    }

    /// What is to be reported now: how far the log is, as this broker keeps its promises (with SYNC_FLUSH
    /// on disk), when that has moved or the time has come. It counts as reported.
    pub fn report(&mut self, now: i64) -> Option<[u8; 8]> {
        let end = self.reportable()?;
        let due = now >= self.reported_at + self.settings.heartbeat;
        if self.reported == Some(end) && !due {
            return None;
        }
        self.reported = Some(end);
        self.reported_at = now;
        Some((end as i64).to_be_bytes())
    }

    /// Whether a report would say more than the last one.
    pub fn has_news(&self) -> bool {
        self.reportable()
            .is_some_and(|end| self.reported != Some(end))
    }

    /// None: not yet. The first report says where to continue, so it has to be all of the log.
    fn reportable(&self) -> Option<u64> {
        let log = self.store.log();
        if log.segments().is_empty() {
            return Some(0);
        }
        let end = self.store.barrier().local();
        (self.reported.is_some() || end == log.max_offset()).then_some(end)
    }

    /// The time (ms) at which to report again. An error once the master was silent for too long.
    pub fn wait(&self, now: i64) -> Result<i64, String> {
        let silent_at = self.heard_at + self.settings.silence;
        if now >= silent_at {
            return Err(format!(
                "nothing was heard for {} ms",
                self.settings.silence
            ));
        }
        Ok(silent_at.min(self.reported_at + self.settings.heartbeat))
    }
}
