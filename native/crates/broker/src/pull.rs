//! A pull that was granted, answered.

use super::Broker;
use super::pull_grants::Grant;
use pyrmq_store::{GetResult, GetStatus, Learnt, TagFilter, Wait, Wanted};
use std::sync::Arc;

/// Messages of an answer at most.
const MAX_COUNT: usize = 256;

impl Broker {
    /// The records from `offset` on that a pull is answered with, and `commit` taken as the group's
    /// offset. `grant` is good. None: the broker in Python answers, and nothing has happened. That is for
    /// a pull that finds no message, or more than `max_bytes` of them, or that would have to wait for the
    /// disk. `learnt`: by earlier pulls of this grant.
    pub fn pull(
        &self,
        grant: &Arc<Grant>,
        offset: i64,
        max_count: i32,
        max_bytes: usize,
        commit: Option<i64>,
        learnt: &Learnt,
    ) -> Option<GetResult> {
        let topic = self.store.topics().get(grant.topic.as_bytes())?;
        let queue = topic.existing_queue(grant.queue_id);
        let wanted = Wanted {
            offset,
            max_count: usize::try_from(max_count).unwrap_or(1).clamp(1, MAX_COUNT),
            max_bytes: usize::MAX,
            tags: TagFilter(&grant.tags),
            properties: None,
            bits: None,
            wait: Wait::Never,
            learnt: Some(learnt),
        };
        // An error is met again by the broker in Python, which reports it.
        let got = self.store.get(queue.as_deref(), &wanted).ok()?;
        if got.status != GetStatus::Found || got.bytes > max_bytes {
            return None;
        }
        self.pulls.count(grant, &got, commit);
        Some(got)
    }
}
