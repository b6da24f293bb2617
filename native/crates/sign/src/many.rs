//! Signatures of several messages at once.
//!
//! SHA-1 is one long chain, so a processor mostly waits within one message. Sixteen messages side by
//! side take a fraction of the time, also of that with the processor's own instructions for SHA-1.

use crate::job::{Job, MOST};
use crate::state::MAC;

/// The signatures of up to `MOST` jobs, in their order; of more jobs the first ones.
pub fn macs(jobs: &[Job<'_>]) -> [[u8; MAC]; MOST] {
    let jobs = &jobs[..jobs.len().min(MOST)];
    #[cfg(target_arch = "x86_64")]
    if let Some(done) = crate::lanes::macs(jobs) {
        return done;
    }
    one_by_one(jobs)
}

/// The same on processors without AVX-512, and where there are few.
fn one_by_one(jobs: &[Job<'_>]) -> [[u8; MAC]; MOST] {
    let mut out = [[0; MAC]; MOST];
    for (place, job) in out.iter_mut().zip(jobs) {
        *place = job.key.mac(job.head, job.body);
    }
    out
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
