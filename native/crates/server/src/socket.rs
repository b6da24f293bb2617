//! What the loop needs of a socket.

use std::io;

/// A non-blocking stream socket. Somebody else opens and closes it.
pub trait Socket {
    /// Receives once. 0: the stream has ended. `WouldBlock`: nothing is there.
    fn receive(&self, place: &mut [u8]) -> io::Result<usize>;

    /// Sends once, and returns how many bytes it took. `WouldBlock`: it takes none now.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Has mapped bytes in memory, before they are read: an error where the disk cannot read them
    /// (else whoever touches them ends with a SIGBUS).
    fn bring(&self, mapped: &[u8]) -> io::Result<()>;
}

/// The errno of a failure; None if the call is only to be repeated later.
pub(super) fn errno_unless_later(error: &io::Error) -> Option<i32> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => None,
        _ => Some(error.raw_os_error().unwrap_or(libc::EIO)),
    }
}
