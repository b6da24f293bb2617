//! What a session knows of access control: who signed its requests, and what they may do.
//!
//! The broker in Python decides and grants (`Guard::grant`). A request is then answered here if it is
//! signed and its right is granted; otherwise the broker gets it.

use crate::keyring::{Keyring, Subject};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The right to send to a topic.
pub const SEND: u8 = 1;
/// The right to end transactions whose messages go to a topic.
pub const END_TRANSACTION: u8 = 2;
/// The right to acknowledge messages, and to change their invisible time: of a topic and a group, with
/// `TOPIC_AND_GROUP` between their names.
pub const ACK: u8 = 4;
/// Between the names of a topic and a group in what is granted together.
pub const TOPIC_AND_GROUP: u8 = b'\n';

/// Rights that a session keeps: those of one more take the place of all.
const MAX_GRANTS: usize = 1024;
/// Bytes of the name of what is granted.
const MAX_RESOURCE: usize = 1 << 10;

struct Grant {
    /// Access key and resource.
    key: Box<[u8]>,
    subject_len: usize,
    rights: u8,
}

impl Grant {
    fn is_of(&self, subject: &Subject, resource: &[u8]) -> bool {
        let (name, of) = self.key.split_at(self.subject_len);
        of == resource && name == subject.name().as_bytes()
    }
}

/// The rights that a session was granted.
#[derive(Default)]
struct Grants {
    /// Of the keyring, when they were granted.
    generation: u64,
    by_key: FxHashMap<(usize, Box<[u8]>), Arc<Grant>>,
    /// The one that was asked for last.
    last: Option<Arc<Grant>>,
}

impl Grants {
    fn key(subject: &str, resource: &[u8]) -> (usize, Box<[u8]>) {
        let key = [subject.as_bytes(), resource].concat();
        (subject.len(), key.into())
    }

    fn rights(&mut self, subject: &Subject, resource: &[u8]) -> u8 {
        if let Some(last) = self.last.as_ref().filter(|g| g.is_of(subject, resource)) {
            return last.rights;
        }
        let found = self.by_key.get(&Self::key(subject.name(), resource));
        let rights = found.map_or(0, |grant| grant.rights);
        self.last = found.cloned();
        rights
    }

    fn grant(&mut self, rights: u8, subject: &str, resource: &[u8]) {
        if resource.len() > MAX_RESOURCE {
            return; // no topic is called so
        }
        let key = Self::key(subject, resource);
        let before = self.by_key.get(&key).map_or(0, |grant| grant.rights);
        if self.by_key.len() >= MAX_GRANTS && before == 0 {
            self.by_key.clear();
        }
        self.last = None;
        let grant = Grant {
            key: key.1.clone(),
            subject_len: key.0,
            rights: rights | before,
        };
        self.by_key.insert(key, Arc::new(grant));
    }
}

/// A subject, and the generation of the keyring in which it was verified.
#[derive(Clone, Debug)]
pub struct Verified {
    pub subject: Arc<Subject>,
    pub generation: u64,
}

impl Verified {
    /// What stands for who is not in the keyring. It never counts as verified.
    pub(super) fn nobody() -> Verified {
        Verified {
            subject: Subject::nobody(),
            generation: 0,
        }
    }
}

/// The access control of one session.
pub struct Guard {
    keyring: Arc<Keyring>,
    grants: Grants,
    /// Whose access key came last: mostly all of a connection are one's.
    known: Option<Verified>,
    /// Who signed the request that is handled now.
    signer: Option<Verified>,
}

impl Guard {
    pub fn new(keyring: Arc<Keyring>) -> Guard {
        Guard {
            keyring,
            grants: Grants::default(),
            known: None,
            signer: None,
        }
    }

    pub fn generation(&self) -> u64 {
        self.keyring.generation()
    }

    /// Who has this access key.
    pub fn find(&mut self, access_key: &[u8]) -> Option<&Verified> {
        let generation = self.keyring.generation();
        let is_it = |known: &Verified| {
            known.generation == generation && known.subject.name().as_bytes() == access_key
        };
        if !self.known.as_ref().is_some_and(is_it) {
            let (subject, generation) = self.keyring.find(access_key)?;
            self.known = Some(Verified {
                subject,
                generation,
            });
        }
        self.known.as_ref()
    }

    /// The request that is handled next was signed by `signer`, or by nobody.
    pub fn begin(&mut self, signer: Option<&Verified>) {
        match (&mut self.signer, signer) {
            // Mostly it is who signed the one before.
            (Some(now), Some(next)) if Arc::ptr_eq(&now.subject, &next.subject) => {
                now.generation = next.generation;
            }
            (now, next) => *now = next.cloned(),
        }
    }

    /// Who signed the request that is handled now, if nothing was revoked since that was verified.
    pub fn signer(&self) -> Option<&Verified> {
        let generation = self.generation();
        self.signer.as_ref().filter(|s| s.generation == generation)
    }

    /// Whether the request that is handled now may do this.
    pub fn allows(&mut self, right: u8, resource: &[u8]) -> bool {
        let generation = self.generation();
        let Some(signer) = &self.signer else {
            return false;
        };
        signer.generation == generation
            && self.grants.generation == generation
            && self.grants.rights(&signer.subject, resource) & right != 0
    }

    /// Until something is revoked, `subject` has these rights to `resource`.
    pub fn grant(&mut self, rights: u8, subject: &str, resource: &[u8]) {
        let generation = self.generation();
        if self.grants.generation != generation {
            self.grants = Grants {
                generation,
                ..Grants::default()
            };
        }
        self.grants.grant(rights, subject, resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> (Arc<Keyring>, Guard) {
        let ring = Arc::new(Keyring::default());
        ring.replace([("alice", "secret1"), ("bob", "secret2"), ("ali", "secret3")])
            .unwrap();
        (ring.clone(), Guard::new(ring))
    }

    fn signed_by(guard: &mut Guard, name: &str) {
        let signer = guard.find(name.as_bytes()).cloned();
        guard.begin(signer.as_ref());
    }

    #[test]
    fn a_right_is_one_subjects_to_one_resource() {
        let (_, mut guard) = guard();
        guard.grant(SEND, "alice", b"A");
        guard.grant(END_TRANSACTION, "bob", b"A");
        signed_by(&mut guard, "alice");
        assert!(guard.allows(SEND, b"A"));
        assert!(guard.allows(SEND, b"A"));
        assert!(!guard.allows(SEND, b"B"));
        assert!(!guard.allows(SEND, b""));
        assert!(!guard.allows(END_TRANSACTION, b"A"));
        signed_by(&mut guard, "bob");
        assert!(!guard.allows(SEND, b"A"));
        assert!(guard.allows(END_TRANSACTION, b"A"));
        // The end of one name is no part of the other.
        signed_by(&mut guard, "ali");
        assert!(!guard.allows(SEND, b"ceA"));
        guard.begin(None);
        assert!(!guard.allows(SEND, b"A"));
        signed_by(&mut guard, "nobody");
        assert!(guard.signer().is_none() && !guard.allows(SEND, b"A"));
    }

    #[test]
    fn rights_to_a_resource_add_up() {
        let (_, mut guard) = guard();
        signed_by(&mut guard, "alice");
        guard.grant(SEND, "alice", b"A");
        assert!(!guard.allows(END_TRANSACTION, b"A"));
        guard.grant(END_TRANSACTION, "alice", b"A");
        assert!(guard.allows(SEND, b"A") && guard.allows(END_TRANSACTION, b"A"));
    }

    #[test]
    fn what_is_revoked_is_gone_at_once() {
        let (ring, mut guard) = guard();
        signed_by(&mut guard, "alice");
        guard.grant(SEND, "alice", b"A");
        assert!(guard.allows(SEND, b"A"));
        ring.revoke();
        // Also of a request that was verified before.
        assert!(!guard.allows(SEND, b"A") && guard.signer().is_none());
        signed_by(&mut guard, "alice");
        assert!(!guard.allows(SEND, b"A"));
        // A new grant does not bring the old ones back.
        guard.grant(SEND, "alice", b"B");
        assert!(guard.allows(SEND, b"B") && !guard.allows(SEND, b"A"));
        ring.replace([("bob", "secret2")]).unwrap();
        signed_by(&mut guard, "alice");
        assert!(guard.signer().is_none());
    }

    #[test]
    fn so_many_rights_are_kept() {
        let (_, mut guard) = guard();
        signed_by(&mut guard, "alice");
        for n in 0..5 * MAX_GRANTS {
            guard.grant(SEND, "alice", n.to_string().as_bytes());
            assert!(guard.allows(SEND, n.to_string().as_bytes()));
            assert!(guard.grants.by_key.len() <= MAX_GRANTS);
        }
        assert!(!guard.allows(SEND, b"0"));
    }
}
