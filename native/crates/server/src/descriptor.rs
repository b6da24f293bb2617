//! The system calls: sockets by their descriptors, and epoll with the monotonic clock.
//!
//! They are libc's where rustix asks for an open descriptor (here one may be closed: EBADF is an answer
//! like others), and for waits in nanoseconds, which rustix has for Linux 5.11 and later only.

use super::poll::{Poll, Ready};
use super::socket::Socket;
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::os::fd::RawFd;

/// A socket that somebody else keeps open. Calls on one that is closed fail with EBADF.
pub struct Descriptor(pub RawFd);

impl Socket for Descriptor {
    fn receive(&self, place: &mut [u8]) -> io::Result<usize> {
        // SAFETY: `place` is writable memory of that length for as long as the call takes.
        let n = unsafe { libc::recv(self.0, place.as_mut_ptr().cast(), place.len(), 0) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let (data, flags) = (bytes.as_ptr().cast(), libc::MSG_NOSIGNAL);
        // SAFETY: `bytes` is readable memory of that length for as long as the call takes.
        let n = unsafe { libc::send(self.0, data, bytes.len(), flags) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    fn bring(&self, mapped: &[u8]) -> io::Result<()> {
        let page = rustix::param::page_size();
        let from = mapped.as_ptr() as usize & !(page - 1);
        let len = (mapped.as_ptr() as usize + mapped.len()).next_multiple_of(page) - from;
        let place = std::ptr::without_provenance_mut(from);
        // SAFETY: the call reads pages of a mapping that is there, and changes nothing of what they
        // hold; addresses that are not mapped are an error.
        match unsafe { libc::madvise(place, len, libc::MADV_POPULATE_READ) } {
            0 => Ok(()),
            _ => match io::Error::last_os_error() {
                // Before Linux 5.14 there is no such call, and no protection.
                e if e.raw_os_error() == Some(libc::EINVAL) => Ok(()),
                _ => Err(io::Error::from_raw_os_error(libc::EFAULT)),
            },
        }
    }
}

/// An epoll that somebody else keeps open. The data of what is registered is its descriptor.
pub struct Epoll {
    fd: RawFd,
    events: Vec<libc::epoll_event>,
}

impl Epoll {
    /// Reports at most `most` descriptors at a time.
    pub fn new(fd: RawFd, most: usize) -> Self {
        let none = libc::epoll_event { events: 0, u64: 0 };
        Epoll {
            fd,
            events: vec![none; most.max(1)],
        }
    }
}

impl Poll for Epoll {
    fn poll(&mut self, wait_ns: i64, found: &mut Vec<Ready>) -> io::Result<()> {
        found.clear();
        let (place, most) = (self.events.as_mut_ptr(), self.events.len() as i32);
        let n = if wait_ns <= 0 {
            // SAFETY: `place` has room for `most` events.
            unsafe { libc::epoll_wait(self.fd, place, most, 0).into() }
        } else {
            let wait = libc::timespec {
                tv_sec: wait_ns / 1_000_000_000,
                tv_nsec: wait_ns % 1_000_000_000,
            };
            let no_mask = std::ptr::null::<libc::sigset_t>();
            // SAFETY: `place` has room for `most` events, `wait` is a valid time; a mask that is null
            // needs no length. Linux before 5.11 has no such call and says ENOSYS.
            unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    self.fd,
                    place,
                    most,
                    &wait,
                    no_mask,
                    0,
                )
            }
        };
        let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
        found.extend(self.events[..n].iter().map(|event| Ready {
            fd: event.u64 as RawFd,
            events: event.events,
        }));
        Ok(())
    }

    fn now_ns(&self) -> i64 {
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    }
}
