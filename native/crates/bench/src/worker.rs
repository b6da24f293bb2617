//! A thread of the generator: an epoll, and connections with what they do.

use crate::answer::Reader;
use crate::clock::{self, SECOND};
use crate::conn::Conn;
use crate::consume::Consumer;
use crate::plan::{Phase, Shared};
use crate::pop::Popper;
use crate::produce::{Desk, GREETING, Next, Producer};
use crate::slots::Slots;
use crate::stats::{Fault, Gauges, Stats};
use parking_lot::Mutex;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Deadlines, reconnects and gauges are looked at so often.
const TICK: u64 = SECOND / 50;
const GREET: u64 = 30 * SECOND;
const CONNECT_LIMIT: u64 = 5 * SECOND;
/// Connections that are being opened at once, because a server's queue of them is short.
const MOST_OPENING: usize = 100;
const FIRST_PAUSE: u64 = SECOND / 10;
const LONGEST_PAUSE: u64 = 2 * SECOND;
const TIMER: u64 = u64::MAX;
/// Reads in a row from one connection, before others have their turn.
const READS: usize = 8;

pub enum Job {
    Produce(Producer),
    Consume(Consumer),
    Pop(Popper),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// To be opened, not before then.
    Closed(u64),
    Opening(u64),
    Open,
}

/// A connection of the load, through all its sockets.
pub struct Link {
    addr: SocketAddr,
    state: State,
    conn: Option<Conn>,
    blocked: bool,
    slots: Slots,
    job: Job,
    was_open: bool,
    pause: u64,
    greet: u64,
    /// When it has an entry in the heap.
    due: u64,
    queued: bool,
}

impl Link {
    pub fn new(addr: SocketAddr, in_flight: usize, job: Job) -> Link {
        let places = match &job {
            Job::Produce(_) => in_flight,
            Job::Consume(consumer) => consumer.places(),
            Job::Pop(popper) => popper.places(),
        };
        Link {
            addr,
            state: State::Closed(0),
            conn: None,
            blocked: false,
            slots: Slots::new(places),
            job,
            was_open: false,
            pause: FIRST_PAUSE,
            greet: 0,
            due: u64::MAX,
            queued: false,
        }
    }
}

pub struct Worker {
    shared: Arc<Shared>,
    stats: Arc<Mutex<Stats>>,
    links: Vec<Link>,
    epoll: OwnedFd,
    timer: OwnedFd,
    armed: u64,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    /// Those that may go on at once.
    turns: VecDeque<usize>,
    opening: usize,
    reader: Reader,
    now: u64,
    next_tick: u64,
    phase: Phase,
    cpu: (u64, bool),
}

fn later(due: Option<u64>) -> Next {
    due.map_or(Next::Answer, Next::Due)
}

fn told(what: &str, e: impl std::fmt::Display) -> String {
    format!("{what}: {e}")
}

impl Worker {
    pub fn new(
        shared: Arc<Shared>,
        stats: Arc<Mutex<Stats>>,
        links: Vec<Link>,
    ) -> Result<Worker, String> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|e| told("epoll", e))?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, flags).map_err(|e| told("timerfd", e))?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)
            .map_err(|e| told("epoll", e))?;
        stats.lock().gauges.unready = links.len() as u64;
        Ok(Worker {
            shared,
            stats,
            links,
            epoll,
            timer,
            armed: u64::MAX,
            heap: BinaryHeap::new(),
            turns: VecDeque::new(),
            opening: 0,
            reader: Reader::default(),
            now: clock::now(),
            next_tick: 0,
            phase: Phase::Connect,
            cpu: (0, false),
        })
    }

    /// Until the run ends.
    pub fn run(mut self) {
        let mut events: Vec<Event> = Vec::with_capacity(256);
        while self.shared.phase() != Phase::End {
            if let Err(why) = self.round(&mut events) {
                self.shared.fail(why);
                return;
            }
        }
        let stats = self.stats.clone();
        self.sample_cpu(&mut stats.lock());
    }

    fn round(&mut self, events: &mut Vec<Event>) -> Result<(), String> {
        self.arm()?;
        events.clear();
        let wait = if self.turns.is_empty() { TICK } else { 0 };
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: wait as i64,
        };
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(told("epoll_wait", e)),
        }
        let stats = self.stats.clone();
        let mut stats = stats.lock();
        self.now = clock::now();
        for event in events.iter() {
            match event.data.u64() {
                TIMER => {
                    let mut place = [0; 8];
                    let _ = rustix::io::read(&self.timer, &mut place);
                    self.armed = u64::MAX;
                }
                index => self.ready(index as usize, event.flags, &mut stats),
            }
        }
        self.now = clock::now();
        while let Some(&Reverse((due, index))) = self.heap.peek() {
            if due > self.now {
                break;
            }
            self.heap.pop();
            if self.links[index].due == due {
                self.links[index].due = u64::MAX;
                self.fill(index, true, &mut stats);
            }
        }
        for _ in 0..self.turns.len() {
            if let Some(index) = self.turns.pop_front() {
                self.links[index].queued = false;
                self.fill(index, false, &mut stats);
            }
        }
        let phase = self.shared.phase();
        if phase != self.phase || self.now >= self.next_tick {
            self.tick(phase, &mut stats);
        }
        Ok(())
    }

    /// Sets the timer to what is due first.
    fn arm(&mut self) -> Result<(), String> {
        let due = self.heap.peek().map_or(u64::MAX, |Reverse((due, _))| *due);
        if due >= self.armed || due >= self.now + TICK {
            return Ok(()); // it wakes up earlier anyway
        }
        self.armed = due;
        let time = Itimerspec {
            it_interval: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: Timespec {
                tv_sec: (due / SECOND) as i64,
                tv_nsec: (due % SECOND).max(1) as i64,
            },
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &time)
            .map(drop)
            .map_err(|e| told("timerfd", e))
    }

    fn sample_cpu(&mut self, stats: &mut Stats) {
        let opens = self.shared.opens();
        if !self.cpu.1 && self.now >= opens {
            self.cpu = (clock::thread_cpu(), true);
        }
        if self.cpu.1 && self.now < self.shared.closes() {
            stats.cpu = clock::thread_cpu() - self.cpu.0;
        }
    }

    fn tick(&mut self, phase: Phase, stats: &mut Stats) {
        let changed = phase != self.phase;
        self.phase = phase;
        self.next_tick = self.now + TICK;
        self.sample_cpu(stats);
        let mut gauges = Gauges::default();
        for index in 0..self.links.len() {
            if let (Job::Produce(producer), true) =
                (&mut self.links[index].job, changed && phase > Phase::Run)
            {
                producer.close(&mut Desk {
                    shared: &self.shared,
                    stats,
                    now: self.now,
                });
            }
            self.look_after(index, stats);
            if changed {
                self.fill(index, false, stats);
            }
            let link = &self.links[index];
            let open = link.state == State::Open;
            gauges.unready += u64::from(!open);
            match &link.job {
                Job::Produce(producer) => {
                    let unwritten = link.conn.as_ref().is_some_and(|c| c.unwritten() > 0);
                    gauges.under_way += link.slots.busy().count() as u64 + u64::from(unwritten);
                    gauges.behind += producer.behind(self.now);
                    gauges.active += u64::from(!producer.done);
                }
                Job::Consume(consumer) => gauges.unready += consumer.unplaced(),
                Job::Pop(popper) => gauges.under_way += popper.unacknowledged(),
            }
        }
        stats.gauges = gauges;
    }

    /// Opens it, gives up what is late, says that it is alive.
    fn look_after(&mut self, index: usize, stats: &mut Stats) {
        let now = self.now;
        let link = &mut self.links[index];
        match link.state {
            State::Closed(not_before) => {
                if now >= not_before && self.opening < MOST_OPENING {
                    self.open(index, stats);
                }
            }
            State::Opening(limit) => {
                if now >= limit {
                    self.not_opened(index, "no answer", stats);
                }
            }
            State::Open => {
                if now >= link.greet {
                    link.greet = now + GREET;
                    if let Some(conn) = &mut link.conn {
                        match &link.job {
                            Job::Produce(p) => p.greeting(&self.shared, &mut conn.output),
                            Job::Consume(c) => c.greeting(&self.shared, &mut conn.output),
                            Job::Pop(p) => p.greeting(&self.shared, &mut conn.output),
                        }
                    }
                    self.fill(index, false, stats);
                }
                let late = self.links[index].slots.expired(now);
                if !late.is_empty() {
                    let why = format!("no answer within {} s", self.shared.config.timeout);
                    for slot in late {
                        self.give_up(index, slot, Fault::Timeout, &why, stats);
                    }
                    self.fill(index, false, stats);
                }
            }
        }
    }

    fn open(&mut self, index: usize, stats: &mut Stats) {
        let link = &mut self.links[index];
        let begun = Conn::begin(link.addr, self.shared.config.tls.as_ref()).and_then(|conn| {
            let interest = EventFlags::IN | EventFlags::OUT;
            epoll::add(
                &self.epoll,
                conn.fd(),
                EventData::new_u64(index as u64),
                interest,
            )?;
            Ok(conn)
        });
        self.opening += 1;
        match begun {
            Ok(conn) => {
                link.conn = Some(conn);
                link.state = State::Opening(self.now + CONNECT_LIMIT);
            }
            Err(e) => self.not_opened(index, &e.to_string(), stats),
        }
    }

    /// Whether the connection is there, and its handshake is done.
    fn opened(&mut self, index: usize) -> Result<bool, String> {
        let link = &mut self.links[index];
        let Some(conn) = &mut link.conn else {
            return Ok(false);
        };
        conn.connected().map_err(|e| e.to_string())?;
        link.blocked = !conn.is_tls(); // until the first flush says something else
        if conn.is_tls() {
            // The socket takes a hello; after that the server has to say something.
            let data = EventData::new_u64(index as u64);
            epoll::modify(&self.epoll, conn.fd(), data, EventFlags::IN)
                .map_err(|e| e.to_string())?;
        }
        let done = conn.shake_hands();
        done.map_err(|why| format!("{why} (in the handshake of TLS)"))
    }

    fn not_opened(&mut self, index: usize, why: &str, stats: &mut Stats) {
        self.opening -= 1;
        let link = &mut self.links[index];
        link.conn = None;
        link.state = State::Closed(self.now + link.pause);
        link.pause = (link.pause * 2).min(LONGEST_PAUSE);
        let why = format!("cannot connect to the broker at {}: {why}", link.addr);
        if self.phase == Phase::Connect || !self.shared.config.go_on {
            self.shared.fail(why.clone());
        }
        if self.shared.phase() <= Phase::Run {
            stats.fault(Fault::ConnectFailed, || why);
        }
    }

    /// Something happened at a connection.
    fn ready(&mut self, index: usize, what: EventFlags, stats: &mut Stats) {
        if let State::Opening(_) = self.links[index].state {
            match self.opened(index) {
                Ok(true) => {}
                Ok(false) => return,
                Err(why) => return self.not_opened(index, &why, stats),
            }
            self.opening -= 1;
            let link = &mut self.links[index];
            link.state = State::Open;
            link.pause = FIRST_PAUSE;
            link.greet = 0;
            stats.whole.reconnected += u64::from(link.was_open);
            link.was_open = true;
            return self.look_after(index, stats);
        }
        if self.links[index].state != State::Open {
            return; // an event of a socket that is closed
        }
        if what.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP)
            && let Err((fault, why)) = self.read(index, stats)
        {
            return self.lost(index, fault, &why, stats);
        }
        self.fill(index, false, stats);
    }

    /// Reads all that arrived.
    fn read(&mut self, index: usize, stats: &mut Stats) -> Result<(), (Fault, String)> {
        let link = &mut self.links[index];
        let Some(conn) = &mut link.conn else {
            return Ok(());
        };
        let mut desk = Desk {
            shared: &self.shared,
            stats,
            now: self.now,
        };
        for _ in 0..READS {
            let more = conn.receive().map_err(|why| (Fault::Lost, why))?;
            desk.now = clock::now();
            while let Some((frame, out)) =
                conn.next_frame().map_err(|why| (Fault::Protocol, why))?
            {
                let answer = self
                    .reader
                    .read(frame)
                    .map_err(|why| (Fault::Protocol, why))?;
                // Others are late, or greetings', or the broker asks something.
                if answer.opaque == GREETING {
                    continue;
                }
                let Some(slot) = link.slots.find(answer.opaque) else {
                    continue;
                };
                if answer.is_request() {
                    continue;
                }
                match &mut link.job {
                    Job::Produce(p) => p.answer(&mut desk, &mut link.slots, slot, &answer, out),
                    Job::Consume(c) => c.answer(&mut desk, &mut link.slots, slot, &answer),
                    Job::Pop(p) => p.answer(&mut desk, &mut link.slots, slot, &answer),
                }
            }
            if !more {
                break;
            }
        }
        self.now = desk.now;
        Ok(())
    }

    fn give_up(&mut self, index: usize, slot: usize, fault: Fault, why: &str, stats: &mut Stats) {
        let link = &mut self.links[index];
        let mut desk = Desk {
            shared: &self.shared,
            stats,
            now: self.now,
        };
        match &mut link.job {
            Job::Produce(p) => p.gave_up(&mut desk, &mut link.slots, slot, fault, why),
            Job::Consume(c) => c.gave_up(&mut desk, &mut link.slots, slot, fault, why),
            Job::Pop(p) => p.gave_up(&mut desk, &mut link.slots, slot, fault, why),
        }
    }

    /// The connection is gone, and with it the answers to what is under way.
    fn lost(&mut self, index: usize, fault: Fault, why: &str, stats: &mut Stats) {
        let link = &mut self.links[index];
        link.conn = None;
        link.state = State::Closed(self.now + link.pause);
        let why = format!("the connection to {} was lost: {why}", link.addr);
        let slots: Vec<usize> = link.slots.busy().collect();
        stats.whole.lost_connections += 1;
        if slots.is_empty() {
            stats.fault(fault, || why.clone());
        }
        for slot in slots {
            self.give_up(index, slot, fault, &why, stats);
        }
        if !self.shared.config.go_on && self.shared.phase() <= Phase::Run {
            self.shared.fail(why);
        }
    }

    /// Sends what may be sent on a connection.
    fn fill(&mut self, index: usize, timer: bool, stats: &mut Stats) {
        let link = &mut self.links[index];
        let Some(conn) = link.conn.as_mut().filter(|_| link.state == State::Open) else {
            return;
        };
        let mut desk = Desk {
            shared: &self.shared,
            stats,
            now: self.now,
        };
        let next = match &mut link.job {
            Job::Produce(p) => p.fill(&mut desk, &mut link.slots, conn, timer),
            Job::Consume(c) => later(c.fill(&mut desk, &mut link.slots, &mut conn.output)),
            Job::Pop(p) => later(p.fill(&mut desk, &mut link.slots, &mut conn.output)),
        };
        let blocked = match conn.flush() {
            Ok(blocked) => blocked,
            Err(why) => return self.lost(index, Fault::Lost, &why, stats),
        };
        if blocked != link.blocked {
            let interest = if blocked {
                EventFlags::IN | EventFlags::OUT
            } else {
                EventFlags::IN
            };
            let data = EventData::new_u64(index as u64);
            if let Err(e) = epoll::modify(&self.epoll, conn.fd(), data, interest) {
                return self.lost(index, Fault::Lost, &e.to_string(), stats);
            }
            link.blocked = blocked;
        }
        match next {
            Next::Due(due) if link.due != due => {
                link.due = due;
                self.heap.push(Reverse((due, index)));
            }
            Next::Turn if !blocked && !link.queued => {
                link.queued = true;
                self.turns.push_back(index);
            }
            _ => {}
        }
    }
}
