//! Growth: threads that follow the log, and sleep until there is more of it.
//!
//! The writer pays one load while nobody sleeps.

use super::error::{Result, StoreError};
use parking_lot::Mutex;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
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
        // SAFETY: a plain system call; the result is checked before it is owned.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            let error = std::io::Error::last_os_error();
            return Err(StoreError::io("eventfd", "", &error));
        }
        let follower = Arc::new(Follower {
            // SAFETY: `fd` is a fresh descriptor that nobody else owns.
            event: unsafe { OwnedFd::from_raw_fd(fd) },
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
    pub fn fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }

    /// Makes the descriptor readable: to look again, or to stop.
    pub fn wake(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight bytes of a live array are written to our own descriptor. A full counter
        // (EAGAIN) means that the follower has not been there yet, which is as good.
        unsafe { libc::write(self.event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    fn clear(&self) {
        let mut count = [0u8; 8];
        // SAFETY: eight bytes of a live array are read from our own descriptor, which does not block.
        unsafe {
            libc::read(
                self.event.as_raw_fd(),
                count.as_mut_ptr().cast(),
                count.len(),
            )
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readable(follower: &Follower) -> bool {
        let mut poll = libc::pollfd {
            fd: follower.fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one live pollfd, no waiting.
        unsafe { libc::poll(&mut poll, 1, 0) == 1 }
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
