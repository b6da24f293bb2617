//! Growth: threads that follow the log, and sleep until there is more of it.
//!
//! The writer pays one load while nobody sleeps.

use super::error::{Result, StoreError};
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

#[derive(Default)]
pub struct Growth {
    asleep: AtomicUsize,
    followers: Mutex<Vec<Arc<Follower>>>,
}

/// One thread that follows the log. Its descriptor is readable when it is to look again.
pub struct Follower {
    event: OwnedFd,
    asleep: AtomicBool,
}

impl Growth {
    /// There is more of the log.
    #[inline]
    pub fn grew(&self) {
        // Pairs with the fence in `sleep`: either we see who sleeps, or it sees the log.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) > 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        for follower in self.followers.lock().iter() {
            if follower.asleep.swap(false, Ordering::AcqRel) {
                self.asleep.fetch_sub(1, Ordering::AcqRel);
                follower.wake();
            }
        }
    }

    /// Adds a thread that follows the log, until `leave`.
    pub fn join(&self) -> Result<Arc<Follower>> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
            .map_err(|e| StoreError::io("eventfd", "", &e.into()))?;
        let follower = Arc::new(Follower {
            event,
            asleep: AtomicBool::new(false),
        });
        self.followers.lock().push(follower.clone());
        Ok(follower)
    }

    pub fn leave(&self, follower: &Arc<Follower>) {
        self.awake(follower);
        self.followers.lock().retain(|f| !Arc::ptr_eq(f, follower));
    }

    /// Says that `follower` is about to wait for its descriptor. False if there is `more` already.
    pub fn sleep(&self, follower: &Follower, more: impl Fn() -> bool) -> bool {
        self.asleep.fetch_add(1, Ordering::AcqRel);
        follower.asleep.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        if more() {
            self.awake(follower);
            return false;
        }
        true
    }

    /// Says that `follower` waits no longer.
    pub fn awake(&self, follower: &Follower) {
        if follower.asleep.swap(false, Ordering::AcqRel) {
            self.asleep.fetch_sub(1, Ordering::AcqRel);
        }
        follower.clear();
    }
}

impl Follower {
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Makes the descriptor readable: to look again, or to stop.
    pub fn wake(&self) {
        // A full counter (EAGAIN) means that the follower has not been there yet, which is as good.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    fn clear(&self) {
        // EAGAIN: nobody woke it.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn readable(follower: &Follower) -> bool {
        let mut polled = [PollFd::new(&follower.event, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())) == Ok(1)
    }

    #[test]
    fn who_sleeps_is_woken_once() {
        let growth = Growth::default();
        let follower = growth.join().unwrap();
        growth.grew();
        assert!(!readable(&follower), "nobody slept");
        assert!(growth.sleep(&follower, || false));
        growth.grew();
        assert!(readable(&follower));
        growth.awake(&follower);
        growth.grew();
        assert!(!readable(&follower));
        assert_eq!(growth.asleep.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn nobody_sleeps_where_there_is_more_already_or_leaves_asleep() {
        let growth = Growth::default();
        let follower = growth.join().unwrap();
        assert!(!growth.sleep(&follower, || true));
        assert!(growth.sleep(&follower, || false));
        growth.leave(&follower);
        assert_eq!(growth.asleep.load(Ordering::Relaxed), 0);
        growth.grew();
        assert!(!readable(&follower));
    }
}
