//! System calls of a stream socket that does not block.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// A connected stream socket.
pub struct Socket {
    fd: OwnedFd,
}

impl Socket {
    /// Takes over a connected socket.
    pub fn new(fd: OwnedFd) -> Result<Self> {
        let on: libc::c_int = 1;
        // SAFETY: plain system calls on our own descriptor, with a live option value of the stated length.
        // That TCP_NODELAY cannot be set (a socket of another family) does not matter.
        unsafe {
            let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
            if flags < 0 || libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) < 0
            {
                return Err(Error::last_os_error());
            }
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_NODELAY,
                (&raw const on).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            );
        }
        Ok(Socket { fd })
    }

    /// Reads into `buffer`. None: there is nothing now. An error, too, where the peer has closed.
    pub fn read(&self, buffer: &mut [u8]) -> Result<Option<usize>> {
        // SAFETY: the buffer is live and as long as stated.
        let n = unsafe {
            libc::recv(
                self.fd.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                0,
            )
        };
        match done(n)? {
            Some(0) => Err(Error::new(ErrorKind::UnexpectedEof, "the peer closed it")),
            n => Ok(n),
        }
    }

    /// Sends what it takes of `bytes`; `more`: something follows. None: nothing now.
    pub fn write(&self, bytes: &[u8], more: bool) -> Result<Option<usize>> {
        let flags = libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
        // SAFETY: the bytes are live and as many as stated.
        let n = unsafe {
            libc::send(
                self.fd.as_raw_fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                flags,
            )
        };
        done(n)
    }

    /// Sends what it takes of `len` bytes of a file, from `at` on. None: nothing now.
    pub fn send_file(&self, file: &File, at: u64, len: usize) -> Result<Option<usize>> {
        let mut offset = at as libc::off_t;
        // SAFETY: both descriptors are open, and the offset is live.
        let n =
            unsafe { libc::sendfile(self.fd.as_raw_fd(), file.as_raw_fd(), &raw mut offset, len) };
        match done(n)? {
            Some(0) => Err(Error::new(ErrorKind::UnexpectedEof, "the file is short")),
            n => Ok(n),
        }
    }

    /// Waits until the socket can be read, or written if `write` says so, or `event` can be read; no
    /// longer than `timeout` ms. Whether `event` can be read.
    pub fn wait(&self, write: bool, event: RawFd, timeout: i64) -> Result<bool> {
        let events = libc::POLLIN | if write { libc::POLLOUT } else { 0 };
        let mut polled = [
            libc::pollfd {
                fd: self.fd.as_raw_fd(),
                events,
                revents: 0,
            },
            libc::pollfd {
                fd: event,
                events: libc::POLLIN,
                revents: 0,
            },
        ];
        let timeout = timeout.clamp(0, 60_000) as libc::c_int;
        // SAFETY: two live entries.
        let n = unsafe { libc::poll(polled.as_mut_ptr(), 2, timeout) };
        if n < 0 {
            let error = Error::last_os_error();
            return match error.kind() {
                ErrorKind::Interrupted => Ok(false),
                _ => Err(error),
            };
        }
        Ok(polled[1].revents != 0)
    }
}

fn done(n: isize) -> Result<Option<usize>> {
    if n >= 0 {
        return Ok(Some(n as usize));
    }
    let error = Error::last_os_error();
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(None),
        _ => Err(error),
    }
}
