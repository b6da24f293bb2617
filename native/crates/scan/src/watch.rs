//! Waits for something to happen in a folder: by inotify, and for a while at most.
//!
//! What is written through a mapping raises no event, as RocketMQ's broker and ours write. So a wait is
//! never long; an event only ends it sooner.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Events that are read at once; a queue of them that runs over says so.
const BUFFER: usize = 4096;

/// Ends a wait sooner than its time.
pub trait Wait: Send {
    /// Waits for an event, `at_most` this long. Whether files may have come or gone.
    fn wait(&mut self, at_most: Duration) -> bool;
}

pub struct Watch {
    events: Option<OwnedFd>,
}

impl Watch {
    /// Watches a folder; Err has a watch without events, and says why it has none.
    pub fn folder(path: &str) -> Result<Watch, (Watch, String)> {
        let changes = WatchFlags::MODIFY | listing();
        let made = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .and_then(|events| add_watch(&events, path, changes).map(|_| events));
        match made {
            Ok(events) => Ok(Watch {
                events: Some(events),
            }),
            Err(error) => Err((Watch { events: None }, error.to_string())),
        }
    }

    /// Takes all events; whether files may have come or gone.
    fn drain(&self, events: &OwnedFd) -> bool {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut reader = Reader::new(events, &mut buffer);
        let mut listed = false;
        while let Ok(event) = reader.next() {
            let flags = event.events();
            let lost = ReadFlags::QUEUE_OVERFLOW | ReadFlags::IGNORED;
            listed |= flags.intersects(lost | ReadFlags::from_bits_retain(listing().bits()));
        }
        listed
    }
}

/// What changes the list of files.
fn listing() -> WatchFlags {
    WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVE
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
}

impl Wait for Watch {
    fn wait(&mut self, at_most: Duration) -> bool {
        let Some(events) = &self.events else {
            std::thread::sleep(at_most);
            return false;
        };
        let time = Timespec {
            tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        let mut polled = [PollFd::new(events, PollFlags::IN)];
        match poll(&mut polled, Some(&time)) {
            Ok(0) => false,
            Ok(_) if polled[0].revents().contains(PollFlags::IN) => self.drain(events),
            // No event will come from there.
            Ok(_) => {
                self.events = None;
                true
            }
            Err(rustix::io::Errno::INTR) => false,
            Err(_) => {
                self.events = None;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn a_write_ends_the_wait_and_a_new_file_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, b"").unwrap();
        let mut watch = Watch::folder(dir.path().to_str().unwrap()).ok().unwrap();
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap();
        file.write_all(b"x").unwrap();
        assert!(!watch.wait(LONG), "no file has come");
        std::fs::write(dir.path().join("b"), b"").unwrap();
        assert!(watch.wait(LONG));
        std::fs::remove_file(&path).unwrap();
        assert!(watch.wait(LONG));
        drop(file);
        while watch.wait(Duration::ZERO) {}
        std::fs::remove_dir_all(dir.path()).unwrap();
        assert!(watch.wait(LONG));
    }

    #[test]
    fn without_a_folder_it_only_waits() {
        let (mut watch, why) = Watch::folder("/no/such/folder").err().unwrap();
        assert!(why.contains("No such file"), "{why}");
        assert!(!watch.wait(Duration::from_micros(1)));
    }
}
