//! The loop: keeps every connection's window full, times every answer, measures between two
//! moments in the middle of a steady load.

use std::time::Instant;

use crate::args::Args;
use crate::conn::{allow_files, Conn, Poll, Turn, CLOSED, READ, WRITE};
use crate::frame::{Answer, Reader};
use crate::measure::{cpu_of, own_cpu, Histogram, Report};

/// What one answer was worth.
pub enum Worth {
    Messages {
        count: u64,
        bytes: u64,
    },
    Refused,
    /// It is the load's own affair: neither counted nor timed here.
    Aside,
}

/// What is asked and what the answers must look like.
pub trait Load {
    /// Appends the next request of this place in the window to `out`.
    fn write(&mut self, conn: usize, slot: usize, opaque: i32, out: &mut Vec<u8>);
    /// Judges an answer; an error ends the run.
    fn judge(&mut self, conn: usize, turn: &mut Turn, answer: &Answer) -> Result<Worth, String>;
    /// A frame that is no answer to what `write` asked.
    fn unasked(&mut self, answer: &Answer) -> Result<(), String> {
        if answer.is_request() {
            return Err("the broker sent a request where an answer was due".into());
        }
        Err(format!("nobody asked for opaque {}", answer.opaque))
    }
    /// Appends what a connection says first, and again every GREET_NS.
    fn greet(&mut self, _conn: usize, _out: &mut Vec<u8>) {}
    /// The measured window opens, or closes.
    fn opens(&mut self) -> Result<(), String> {
        Ok(())
    }
    fn closes(&mut self) -> Result<(), String> {
        Ok(())
    }
    /// Whether all that was asked for has come about; asked after the last answer.
    fn settled(&mut self) -> Result<bool, String> {
        Ok(true)
    }
    /// Bytes to read at once.
    fn buffer(&self) -> usize;
    /// Requests that make up `messages`, where that is known beforehand.
    fn requests_for(&self, messages: u64) -> Option<u64>;
}

/// How long the run waits for the last answers when the window has closed.
const DRAIN_NS: u64 = 5_000_000_000;
/// Between two looks at what has come about since.
const SETTLE_MS: i32 = 50;
/// Clients send heartbeats so often.
const GREET_NS: u64 = 30_000_000_000;

struct Run<'a, L: Load> {
    load: &'a mut L,
    conns: Vec<Conn>,
    blocked: Vec<bool>,
    poll: Poll,
    reader: Reader,
    clock: Instant,
    under_way: u64,
    /// Requests that may still be issued.
    budget: u64,
    report: Report,
}

impl<L: Load> Run<'_, L> {
    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// Fills the connection's window and sends.
    fn fill(&mut self, index: usize, now: u64) -> Result<(), String> {
        let conn = &mut self.conns[index];
        while self.budget > 0 {
            let Some((slot, opaque)) = conn.take(now) else {
                break;
            };
            self.load.write(index, slot, opaque, conn.output());
            self.budget -= 1;
            self.under_way += 1;
        }
        let blocked = conn.flush()?;
        if blocked != self.blocked[index] {
            self.blocked[index] = blocked;
            let interest = if blocked { READ | WRITE } else { READ };
            self.poll.change(conn.fd(), interest, index)?;
        }
        Ok(())
    }

    /// Reads and judges all that arrived on a connection. Returns the number of answers.
    fn read(&mut self, index: usize, now: u64) -> Result<usize, String> {
        let (mut freed, mut seen) = (0, 0);
        for _ in 0..8 {
            let more = self.conns[index].receive()?;
            let (load, report) = (&mut *self.load, &mut self.report);
            freed += self.conns[index].answers(&mut self.reader, now, |turn, answer| {
                let Some(turn) = turn else {
                    return load.unasked(answer);
                };
                seen += 1;
                match load.judge(index, turn, answer)? {
                    Worth::Messages { count, bytes } => {
                        report.messages += count;
                        report.bytes += bytes;
                    }
                    Worth::Refused => {
                        report.refused += 1;
                        report
                            .first_refusal
                            .get_or_insert_with(|| answer.complaint());
                    }
                    Worth::Aside => return Ok(()),
                }
                report.requests += 1;
                report.latency.add(turn.took);
                Ok(())
            })?;
            if !more {
                break;
            }
        }
        self.under_way -= freed as u64;
        Ok(seen)
    }

    /// Has every connection say what it says from time to time; the next `fill` sends it.
    fn greet(&mut self) {
        for (index, conn) in self.conns.iter_mut().enumerate() {
            self.load.greet(index, conn.output());
        }
    }

    /// One round: waits at most `ms`, answers what there is. Returns the number of answers.
    fn round(&mut self, ms: i32) -> Result<usize, String> {
        let mut total = 0;
        for i in 0..self.poll.wait(ms)? {
            let (index, what) = self.poll.event(i);
            let now = self.now();
            if what & (READ | CLOSED) != 0 {
                total += self.read(index, now)?;
            }
            self.fill(index, now)?;
        }
        Ok(total)
    }
}

fn empty() -> Report {
    Report {
        messages: 0,
        requests: 0,
        bytes: 0,
        refused: 0,
        first_refusal: None,
        seconds: 0.0,
        latency: Histogram::new(),
        own_cpu: 0.0,
        watched_cpu: None,
    }
}

pub fn drive<L: Load>(args: &Args, load: &mut L) -> Result<Report, String> {
    allow_files(args.connections as u64 + 64)?;
    let buffer = load.buffer();
    let conns = (0..args.connections)
        .map(|_| Conn::open(args.addr, args.in_flight, buffer))
        .collect::<Result<Vec<_>, _>>()?;
    let poll = Poll::new()?;
    for (index, conn) in conns.iter().enumerate() {
        poll.add(conn.fd(), READ, index)?;
    }
    // Without a warm-up exactly --count messages are asked for; with one, the window closes when
    // that many have been answered in it.
    let budget = match (args.count, args.warmup > 0.0) {
        (Some(n), false) => load.requests_for(n).unwrap_or(u64::MAX),
        _ => u64::MAX,
    };
    let mut run = Run {
        load,
        blocked: vec![false; conns.len()],
        conns,
        poll,
        reader: Reader::default(),
        clock: Instant::now(),
        under_way: 0,
        budget,
        report: empty(),
    };
    let to_ns = |s: f64| (s * 1e9) as u64;
    let mut phase = if args.warmup > 0.0 {
        Phase::Warming
    } else {
        Phase::Open
    };
    let mut marks = Marks::take(args, run.now())?;
    let mut closes = args
        .seconds
        .map_or(u64::MAX, to_ns)
        .saturating_add(to_ns(args.warmup));
    let mut last_answer = run.now();
    let mut greeted = run.now();
    run.greet();
    if phase == Phase::Open {
        run.load.opens()?;
    }
    for index in 0..run.conns.len() {
        let now = run.now();
        run.fill(index, now)?;
    }
    loop {
        let now = run.now();
        if phase == Phase::Warming && now >= to_ns(args.warmup) {
            let refused = run.report.refused;
            if refused > 0 {
                let why = run.report.first_refusal.unwrap_or_default();
                eprintln!("loadgen: {refused} requests were refused while warming up: {why}");
            }
            run.report = empty();
            run.load.opens()?;
            let now = run.now();
            marks = Marks::take(args, now)?;
            closes = args.seconds.map_or(u64::MAX, |s| now + to_ns(s));
            phase = Phase::Open;
        }
        if phase == Phase::Open {
            let enough = args.count.is_some_and(|n| run.report.messages >= n);
            let nothing_left = run.budget == 0 && run.under_way == 0;
            if now >= closes || enough || nothing_left {
                marks.close(args, now, &mut run.report)?;
                run.load.closes()?;
                break;
            }
        }
        if now - greeted > GREET_NS {
            greeted = now;
            run.greet();
        }
        let until = closes.min(now + 100_000_000);
        let ms = (until.saturating_sub(now) / 1_000_000).max(1) as i32;
        if run.round(ms)? > 0 {
            last_answer = now;
        } else if now - last_answer > to_ns(args.stall) {
            return Err(format!("nothing was answered for {} s", args.stall));
        }
    }
    let report = std::mem::replace(&mut run.report, empty());
    drain(&mut run)?;
    let end = run.now() + to_ns(args.settle);
    while !run.load.settled()? && run.now() < end {
        run.round(SETTLE_MS)?;
    }
    if run.report.refused > 0 {
        eprintln!(
            "loadgen: {} of the last answers were refusals",
            run.report.refused
        );
    }
    Ok(report)
}

/// Waits for what is still under way, so that the broker is not left talking to a closed socket.
fn drain<L: Load>(run: &mut Run<L>) -> Result<(), String> {
    run.budget = 0;
    let end = run.now() + DRAIN_NS;
    while run.under_way > 0 && run.now() < end {
        run.round(100)?;
    }
    match run.under_way {
        0 => Ok(()),
        n => Err(format!("{n} requests were never answered")),
    }
}

#[derive(PartialEq)]
enum Phase {
    Warming,
    Open,
}

/// The moment the measured window opened.
struct Marks {
    at: u64,
    own: f64,
    watched: Option<f64>,
}

impl Marks {
    fn take(args: &Args, at: u64) -> Result<Marks, String> {
        let watched = args.watch_pid.map(cpu_of).transpose()?;
        Ok(Marks {
            at,
            own: own_cpu(),
            watched,
        })
    }

    fn close(&self, args: &Args, now: u64, report: &mut Report) -> Result<(), String> {
        let end = Marks::take(args, now)?;
        report.seconds = (end.at - self.at) as f64 / 1e9;
        report.own_cpu = end.own - self.own;
        report.watched_cpu = end.watched.zip(self.watched).map(|(b, a)| b - a);
        Ok(())
    }
}
