//! Pulls that are answered without the broker in Python.
//!
//! The broker in Python checks a pull: permissions, subscription, offsets that an operator moved. It
//! then grants that pulls like it are answered as that one was. A grant is good until something is
//! revoked: whatever a check depends on has then changed, and the next pull is checked again. What was
//! answered, and the offsets that were committed with it, are told to the broker when it asks (`drain`).

use crate::store::GetResult;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What pulls of one queue by one group did since the broker asked last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pulled {
    pub pulls: u64,
    pub messages: u64,
    pub bytes: u64,
    /// The queue offset that the next pull is expected from.
    pub next: i64,
    /// The offset that was committed last.
    pub commit: Option<i64>,
}

/// That the pulls of a group from one queue may be answered.
pub struct Grant {
    pub topic: String,
    pub group: String,
    pub queue_id: u32,
    /// Tag codes to select by; none: all messages.
    pub tags: Box<[i32]>,
    generation: u64,
    done: Mutex<Pulled>,
}

impl Grant {
    fn done(&self) -> MutexGuard<'_, Pulled> {
        // The guarded code only assigns numbers: a panic leaves them whole.
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What all grants of a broker share.
#[derive(Default)]
pub struct PullGrants {
    /// Grants of an earlier generation are revoked.
    generation: AtomicU64,
    /// Grants with something to tell.
    answered: Mutex<Vec<Arc<Grant>>>,
    any: AtomicBool,
}

impl PullGrants {
    pub fn grant(&self, topic: &str, group: &str, queue_id: u32, tags: &[i32]) -> Arc<Grant> {
        Arc::new(Grant {
            topic: topic.into(),
            group: group.into(),
            queue_id,
            tags: tags.into(),
            generation: self.generation.load(Ordering::Acquire),
            done: Mutex::default(),
        })
    }

    /// Every pull is checked again.
    pub fn revoke(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    pub fn is_good(&self, grant: &Grant) -> bool {
        grant.generation == self.generation.load(Ordering::Acquire)
    }

    /// What was done since this was called last, in the order in which it began for each grant.
    pub fn drain(&self) -> Vec<(Arc<Grant>, Pulled)> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut answered = self.answered();
        self.any.store(false, Ordering::Release);
        answered
            .drain(..)
            .map(|grant| {
                let done = std::mem::take(&mut *grant.done());
                (grant, done)
            })
            .collect()
    }

    fn answered(&self) -> MutexGuard<'_, Vec<Arc<Grant>>> {
        // A push or a drain that panics leaves a list.
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an answer to a pull of `grant`, and takes `commit` as the group's offset.
    pub(super) fn count(&self, grant: &Arc<Grant>, got: &GetResult, commit: Option<i64>) {
        // The list first, as `drain` does: what is counted is in it.
        let mut answered = self.answered();
        let mut done = grant.done();
        if done.pulls == 0 {
            answered.push(grant.clone());
            self.any.store(true, Ordering::Release);
        }
        done.pulls += 1;
        done.messages += got.count as u64;
        done.bytes += got.bytes as u64;
        done.next = got.next;
        done.commit = commit.or(done.commit);
    }
}
