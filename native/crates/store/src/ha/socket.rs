//! System calls of a stream socket that does not block.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, sendfile};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt};
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{BorrowedFd, OwnedFd};

/// A connected stream socket.
pub struct Socket {
    fd: OwnedFd,
}

impl Socket {
    /// Takes over a connected socket.
    pub fn new(fd: OwnedFd) -> Result<Self> {
        fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
        // That it cannot be set (a socket of another family) does not matter.
        let _ = sockopt::set_tcp_nodelay(&fd, true);
        Ok(Socket { fd })
    }

    /// Reads into `buffer`. None: there is nothing now. An error, too, where the peer has closed.
    pub fn read(&self, buffer: &mut [u8]) -> Result<Option<usize>> {
        let n = recv(&self.fd, buffer, RecvFlags::empty()).map(|(n, _)| n);
        match done(n)? {
            Some(0) => Err(Error::new(ErrorKind::UnexpectedEof, "the peer closed it")),
            n => Ok(n),
        }
    }

    /// Sends what it takes of `bytes`; `more`: something follows. None: nothing now.
    pub fn write(&self, bytes: &[u8], more: bool) -> Result<Option<usize>> {
        let mut flags = SendFlags::NOSIGNAL;
        flags.set(SendFlags::MORE, more);
        done(send(&self.fd, bytes, flags))
    }

    /// Sends what it takes of `len` bytes of a file, from `at` on. None: nothing now.
    pub fn send_file(&self, file: &File, at: u64, len: usize) -> Result<Option<usize>> {
        let mut offset = at;
        match done(sendfile(&self.fd, file, Some(&mut offset), len))? {
            Some(0) => Err(Error::new(ErrorKind::UnexpectedEof, "the file is short")),
            n => Ok(n),
        }
    }

    /// The peer reads an end behind what was sent.
    pub fn end_sending(&self) {
        // It fails where the peer has gone: then there is nothing to say.
        let _ = shutdown(&self.fd, Shutdown::Write);
    }

    /// Waits until the socket can be read, or written if `write` says so, or `event` can be read; no
    /// longer than `timeout` ms. Whether `event` can be read.
    pub fn wait(&self, write: bool, event: BorrowedFd<'_>, timeout: i64) -> Result<bool> {
        let mut events = PollFlags::IN;
        events.set(PollFlags::OUT, write);
        let mut polled = [
            PollFd::new(&self.fd, events),
            PollFd::new(&event, PollFlags::IN),
        ];
        let timeout = timeout.clamp(0, 60_000);
        let timeout = Timespec {
            tv_sec: timeout / 1000,
            tv_nsec: timeout % 1000 * 1_000_000,
        };
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) => Ok(!polled[1].revents().is_empty()),
            Err(Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

fn done(n: rustix::io::Result<usize>) -> Result<Option<usize>> {
    match n {
        Ok(n) => Ok(Some(n)),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
        Err(e) => Err(e.into()),
    }
}
