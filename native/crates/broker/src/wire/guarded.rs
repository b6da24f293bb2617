//! A session with access control.
//!
//! It answers a request by itself only if its signature is right and its right was granted to who signed
//! it. Everything else is a command, also a request that is to be refused: the broker says so.

use super::super::WireError;
use super::super::access::{self, Guard, Verified};
use super::super::pull::ALIKE;
use super::{Command, Feed, MAX_COMMANDS, Session};
use crate::Grant;
use pyrmq_format::names;
use std::sync::Arc;

impl Session {
    /// The same with access control: the signatures of several frames are verified at once.
    pub(super) fn guarded_frames<'d>(
        &mut self,
        feed: &mut Feed<'_, '_>,
        mut data: &'d [u8],
    ) -> Result<&'d [u8], WireError> {
        let mut ahead = std::mem::take(&mut feed.memory.ahead);
        let mut done = Ok(());
        while let (Some(guard), Ok(())) = (&mut self.guard, &done) {
            if self.commands.len() >= MAX_COMMANDS {
                break;
            }
            done = ahead.read(&mut feed.memory.shapes, guard, data);
            if ahead.len() == 0 {
                break;
            }
            for n in 0..ahead.len() {
                if self.commands.len() >= MAX_COMMANDS {
                    done = Ok(()); // what follows is read again
                    break;
                }
                let parts = ahead.parts(n);
                let signer = ahead.take(n, &mut feed.memory.header);
                if let Some(guard) = &mut self.guard {
                    guard.begin(signer);
                }
                let (frame, rest) = data.split_at(parts.total);
                self.frame(feed, frame, parts);
                data = rest;
            }
        }
        feed.memory.ahead = ahead;
        done.map(|()| data)
    }

    /// Who signed the request at hand.
    pub(super) fn signer(&self) -> Option<&Verified> {
        self.guard.as_ref()?.signer()
    }

    /// From now on pulls with this code and these fields are answered as those of the grant's group from
    /// its queue. With access control: those that `subject` has signed.
    pub fn grant_pull(
        &mut self,
        code: i32,
        alike: &[Option<&[u8]>; ALIKE.len()],
        subject: Option<&str>,
        grant: Arc<Grant>,
    ) {
        let signer = match (&mut self.guard, subject) {
            (None, _) => None,
            (Some(guard), Some(subject)) => match guard.find(subject.as_bytes()) {
                None => return,
                signer => signer,
            },
            (Some(_), None) => return,
        };
        if let Some(context) = &self.context {
            let pulls = context.broker.pulls();
            self.grants.keep(pulls, code, alike, signer, grant);
        }
    }

    /// Until the keyring is changed or revoked, what `subject` has signed may do this to `resource`:
    /// `access::SEND`, `access::END_TRANSACTION`. False without access control.
    pub fn grant_access(&mut self, rights: u8, subject: &str, resource: &str) -> bool {
        let Some(guard) = &mut self.guard else {
            return false;
        };
        guard.grant(rights, subject, resource.as_bytes());
        true
    }

    /// Who signed a command of this session, unless something was revoked since that was verified.
    pub fn subject_of<'c>(&self, command: &'c Command) -> Option<&'c str> {
        let generation = self.guard.as_ref()?.generation();
        let signer = command.signer.as_ref();
        signer
            .filter(|signer| signer.generation == generation)
            .map(|signer| signer.subject.name())
    }
}

impl Guard {
    /// Whether the send at hand may be stored. What goes back to a group is the broker's to decide in any
    /// case.
    #[inline]
    pub(super) fn allows_send(&mut self, topic: &[u8]) -> bool {
        !topic.starts_with(names::RETRY_PREFIX) && self.allows(access::SEND, topic)
    }
}
