//! One connection: its socket, the requests under way on it, its two buffers; and epoll.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use crate::frame::{self, Answer, Reader, FIRST_OPAQUE};

/// A request under way: its opaque and when it was handed to the socket (ns of the run's clock).
#[derive(Clone, Copy, Default)]
struct Slot {
    opaque: i32,
    sent: u64,
    turn: u32,
    busy: bool,
}

impl Slot {
    /// The same place with its next request.
    fn next(&self, index: usize, places: usize, now: u64) -> Slot {
        let turn = self.turn.wrapping_add(1);
        let low = turn.wrapping_mul(places as u32).wrapping_add(index as u32) & ((1 << 30) - 1);
        Slot {
            opaque: FIRST_OPAQUE + low as i32,
            sent: now,
            turn,
            busy: true,
        }
    }
}

/// An answer's place in the window, and what may be said in return at once.
pub struct Turn<'a> {
    pub slot: usize,
    /// Nanoseconds from handing the request to the socket to here.
    pub took: u64,
    /// Goes out with the connection's next requests.
    pub out: &'a mut Vec<u8>,
    opaque: i32,
    again: bool,
}

impl Turn<'_> {
    /// Keeps the place for one more request, to be written to `out` with this opaque.
    pub fn again(&mut self) -> i32 {
        self.again = true;
        self.opaque
    }
}

pub struct Conn {
    stream: TcpStream,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Received bytes not yet read: `input[start..end]`.
    input: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes the socket has not taken yet: `output[written..]`.
    output: Vec<u8>,
    written: usize,
}

pub fn connect(addr: SocketAddr) -> Result<TcpStream, String> {
    let told = |e: io::Error| format!("connecting to {addr}: {e}");
    let stream = TcpStream::connect_timeout(&addr, Duration::from_secs(5)).map_err(told)?;
    stream.set_nodelay(true).map_err(told)?;
    stream.set_nonblocking(true).map_err(told)?;
    Ok(stream)
}

impl Conn {
    pub fn open(addr: SocketAddr, in_flight: usize, buffer: usize) -> Result<Conn, String> {
        Ok(Conn {
            stream: connect(addr)?,
            slots: vec![Slot::default(); in_flight.next_power_of_two()],
            free: (0..in_flight as u32).rev().collect(),
            input: vec![0; buffer],
            start: 0,
            end: 0,
            output: Vec::new(),
            written: 0,
        })
    }

    pub fn fd(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Takes a free place for a request: (slot, opaque). The opaque's low bits are the slot, the
    /// rest grows with each use, so an answer finds its request whatever order answers come in.
    pub fn take(&mut self, now: u64) -> Option<(usize, i32)> {
        let index = self.free.pop()? as usize;
        let slot = self.slots[index].next(index, self.slots.len(), now);
        self.slots[index] = slot;
        Some((index, slot.opaque))
    }

    /// Where the next request is to be appended.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Sends what is waiting; `true` when the socket would not take all of it.
    pub fn flush(&mut self) -> Result<bool, String> {
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(0) => return Err("the broker closed the connection".into()),
                Ok(n) => self.written += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(format!("sending: {e}")),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(false)
    }

    /// One read from the socket; `true` when there may be more.
    pub fn receive(&mut self) -> Result<bool, String> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.input.len() {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.end * 2 > self.input.len() {
                self.input.resize(self.input.len() * 2, 0); // bounded by the frame limit
            }
        }
        let room = self.input.len() - self.end;
        match self.stream.read(&mut self.input[self.end..]) {
            Ok(0) => Err("the broker closed the connection".into()),
            Ok(n) => {
                self.end += n;
                Ok(n == room)
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(true),
            Err(e) => Err(format!("receiving: {e}")),
        }
    }

    /// Hands every whole frame received to `each(turn, answer)`; there is no turn when nobody
    /// asked for it. Returns how many places became free.
    pub fn answers(
        &mut self,
        reader: &mut Reader,
        now: u64,
        mut each: impl FnMut(Option<&mut Turn>, &Answer) -> Result<(), String>,
    ) -> Result<usize, String> {
        let mut count = 0;
        let places = self.slots.len();
        while let Some(length) = frame::length(&self.input[self.start..self.end])? {
            let Some(frame) = self.input[self.start..self.end].get(..length) else {
                break;
            };
            let answer = reader.read(frame)?;
            let low = answer.opaque.wrapping_sub(FIRST_OPAQUE) as u32 as usize;
            let index = low & (places - 1);
            let slot = &mut self.slots[index];
            self.start += length;
            if !slot.busy || slot.opaque != answer.opaque {
                each(None, &answer)?;
                continue;
            }
            let next = slot.next(index, places, now);
            let mut turn = Turn {
                slot: index,
                took: now.saturating_sub(slot.sent),
                out: &mut self.output,
                opaque: next.opaque,
                again: false,
            };
            each(Some(&mut turn), &answer)?;
            if turn.again {
                *slot = next;
            } else {
                slot.busy = false;
                self.free.push(index as u32);
                count += 1;
            }
        }
        Ok(count)
    }
}

pub const READ: u32 = libc::EPOLLIN as u32;
pub const WRITE: u32 = libc::EPOLLOUT as u32;
pub const CLOSED: u32 = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;

/// A level-triggered epoll; `key` names the connection in events.
pub struct Poll {
    fd: RawFd,
    events: Vec<libc::epoll_event>,
}

impl Poll {
    pub fn new() -> Result<Poll, String> {
        // SAFETY: creates a descriptor, no memory involved.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(format!("epoll_create1: {}", io::Error::last_os_error()));
        }
        Ok(Poll {
            fd,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; 256],
        })
    }

    fn control(&self, op: i32, fd: RawFd, interest: u32, key: usize) -> Result<(), String> {
        let mut event = libc::epoll_event {
            events: interest,
            u64: key as u64,
        };
        // SAFETY: the event lives through the call, which copies it.
        if unsafe { libc::epoll_ctl(self.fd, op, fd, &mut event) } < 0 {
            return Err(format!("epoll_ctl: {}", io::Error::last_os_error()));
        }
        Ok(())
    }

    pub fn add(&self, fd: RawFd, interest: u32, key: usize) -> Result<(), String> {
        self.control(libc::EPOLL_CTL_ADD, fd, interest, key)
    }

    pub fn change(&self, fd: RawFd, interest: u32, key: usize) -> Result<(), String> {
        self.control(libc::EPOLL_CTL_MOD, fd, interest, key)
    }

    pub fn remove(&self, fd: RawFd) -> Result<(), String> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }

    /// How many events are there after at most `ms`; read them with `event`.
    pub fn wait(&mut self, ms: i32) -> Result<usize, String> {
        // SAFETY: the kernel writes at most events.len() entries.
        let n = unsafe {
            libc::epoll_wait(
                self.fd,
                self.events.as_mut_ptr(),
                self.events.len() as i32,
                ms,
            )
        };
        if n < 0 {
            let e = io::Error::last_os_error();
            if e.kind() == ErrorKind::Interrupted {
                return Ok(0);
            }
            return Err(format!("epoll_wait: {e}"));
        }
        Ok(n as usize)
    }

    /// (key, what happened) of event `i` of the last wait.
    pub fn event(&self, i: usize) -> (usize, u32) {
        let e = self.events[i];
        (e.u64 as usize, e.events)
    }
}

impl Drop for Poll {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours and used nowhere else.
        unsafe { libc::close(self.fd) };
    }
}

/// Raises the soft limit of open files to `need`, the hard one too where that is allowed.
pub fn allow_files(need: u64) -> Result<(), String> {
    // SAFETY: rlimit is plain data.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        if limit.rlim_cur >= need {
            return Ok(());
        }
        limit.rlim_cur = need;
        limit.rlim_max = limit.rlim_max.max(need);
        if libc::setrlimit(libc::RLIMIT_NOFILE, &limit) < 0 {
            return Err(format!(
                "{need} open files are not allowed here (ulimit -n)"
            ));
        }
    }
    Ok(())
}
