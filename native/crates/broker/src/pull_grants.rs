//! Pulls that are answered without the broker in Python.
//!
//! The broker in Python checks a pull: permissions, subscription, offsets that an operator moved. It
//! then grants that pulls like it are answered as that one was. A grant is good until something is
//! revoked: whatever a check depends on has then changed, and the next pull is checked again. What was
//! answered, and the offsets that were committed with it, are told to the broker when it asks (`drain`).

use pyrmq_store::GetResult;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tag codes that a granted pull selects by, at most.
const MAX_TAGS: usize = 256;
/// Bytes that the grants of all connections may take.
const MAX_BYTES: usize = 128 << 20;

/// What pulls of one queue by one group did since the broker asked last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pulled {
    pub pulls: u64,
    pub messages: u64,
    pub bytes: u64,
    /// The queue offset that the next pull is expected from.
    pub next: i64,
    /// The offset that was committed last, and its number among all that were committed.
    pub commit: Option<i64>,
    commit_number: u64,
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
    /// Bytes that it takes, about.
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.topic.len() + self.group.len() + size_of_val(&*self.tags)
    }

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
    /// How many offsets were committed.
    commits: AtomicU64,
    /// Bytes that the grants of all connections take.
    bytes: AtomicUsize,
    /// Grants with something to tell.
    answered: Mutex<Vec<Arc<Grant>>>,
    any: AtomicBool,
    /// What was taken of them, and not told yet.
    untold: Mutex<VecDeque<(Arc<Grant>, Pulled)>>,
}

impl PullGrants {
    /// None for pulls with so many tags that a grant would take much memory.
    pub fn grant(
        &self,
        topic: &str,
        group: &str,
        queue_id: u32,
        tags: &[i32],
    ) -> Option<Arc<Grant>> {
        (tags.len() <= MAX_TAGS).then(|| {
            Arc::new(Grant {
                topic: topic.into(),
                group: group.into(),
                queue_id,
                tags: tags.into(),
                generation: self.generation(),
                done: Mutex::default(),
            })
        })
    }

    /// Takes memory for a grant that is kept; false if all of them have so much already.
    pub fn reserve(&self, bytes: usize) -> bool {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > MAX_BYTES {
            self.give_back(bytes);
            return false;
        }
        true
    }

    /// Gives back what `reserve` took.
    pub fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Every pull is checked again.
    pub fn revoke(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// It is another one whenever something was revoked.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub fn is_good(&self, grant: &Grant) -> bool {
        grant.generation == self.generation()
    }

    /// What was done and not told yet, in the order in which offsets were committed last. At most
    /// `most` of it: the next call has the rest first.
    pub fn drain(&self, most: usize) -> Vec<(Arc<Grant>, Pulled)> {
        // The guarded code moves whole rows.
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        let count = untold.len().min(most);
        let mut told: Vec<_> = untold.drain(..count).collect();
        // Only then: so no grant is there more than twice, however slow the broker is.
        if told.len() < most && self.any.load(Ordering::Acquire) {
            let mut new = self.take();
            untold.extend(new.split_off(new.len().min(most - told.len())));
            told.append(&mut new);
        }
        told
    }

    fn take(&self) -> Vec<(Arc<Grant>, Pulled)> {
        let mut answered = self.answered();
        self.any.store(false, Ordering::Release);
        let take = |grant: Arc<Grant>| {
            let done = std::mem::take(&mut *grant.done());
            (grant, done)
        };
        let mut all: Vec<_> = answered.drain(..).map(take).collect();
        // Several grants may be of one queue and group: connections, kinds of pulls.
        all.sort_by_key(|(_, done)| done.commit_number);
        all
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
        if commit.is_some() {
            done.commit = commit;
            done.commit_number = 1 + self.commits.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pyrmq_store::GetStatus;

    #[test]
    fn so_much_memory_is_kept() {
        let grants = PullGrants::default();
        assert!(grants.reserve(MAX_BYTES - 1));
        assert!(!grants.reserve(2));
        assert!(grants.reserve(1));
        grants.give_back(1);
        assert!(grants.reserve(1));
    }

    fn pull(grants: &PullGrants, grant: &Arc<Grant>, commit: i64) {
        let got = GetResult {
            status: GetStatus::Found,
            next: commit + 1,
            min: 0,
            max: 100,
            count: 1,
            bytes: 100,
            last_phys: 0,
            chunks: Vec::new(),
        };
        grants.count(grant, &got, Some(commit));
    }

    #[test]
    fn what_is_told_in_parts_comes_once_and_in_order() {
        let grants = PullGrants::default();
        let made: Vec<_> = (0..5)
            .map(|queue| grants.grant("T", "G", queue, &[]).unwrap())
            .collect();
        for (n, grant) in made.iter().enumerate().rev() {
            pull(&grants, grant, n as i64);
        }
        let told = |most| -> Vec<(u32, i64)> {
            let rows = grants.drain(most);
            let row = |(g, p): &(Arc<Grant>, Pulled)| (g.queue_id, p.commit.unwrap());
            rows.iter().map(row).collect()
        };
        assert_eq!(told(2), [(4, 4), (3, 3)]);
        pull(&grants, &made[4], 40);
        pull(&grants, &made[4], 41);
        assert_eq!(
            told(4),
            [(2, 2), (1, 1), (0, 0), (4, 41)],
            "the rest comes first"
        );
        assert_eq!(told(usize::MAX), []);
        pull(&grants, &made[0], 7);
        pull(&grants, &made[1], 8);
        assert_eq!(told(1), [(0, 7)]);
        assert_eq!(told(usize::MAX), [(1, 8)]);
    }
}
