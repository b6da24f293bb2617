//! A run: its threads, its phases, and what they found.

use crate::clock::{self, SECOND};
use crate::config::{Config, Kind, MOST_PRODUCERS};
use crate::consume::Consumer;
use crate::hdr_log::{self, Second};
use crate::limits::allow_files;
use crate::plan::{Phase, Shared};
use crate::pop::Popper;
use crate::produce::Producer;
use crate::report::{IntervalRow, Latency, Report, Server, Verified, error_rows};
use crate::stats::{Counts, Faults, Gauges, Interval, KINDS, Stats, Whole, histogram};
use crate::usage::Watched;
use crate::worker::{Job, Link, Worker};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// The coordinator looks so often.
const LOOK: Duration = Duration::from_millis(10);
/// More seconds than this are not kept one by one.
const MOST_INTERVALS: usize = 100_000;
/// Producers begin so long after all is ready.
const LEAD: u64 = SECOND / 1000;

/// How a run stands.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// `connecting`, `warm-up`, `measuring`, `ending` or `ended`.
    pub state: &'static str,
    /// Since it began.
    pub seconds: f64,
    /// Of the last whole second: messages a second.
    pub produced_rate: f64,
    pub consumed_rate: f64,
    /// By kind, of the last second: p50 and p99, µs.
    pub latency: Vec<(&'static str, [f64; 3])>,
    pub produced: u64,
    pub consumed: u64,
    pub errors: u64,
    pub behind: u64,
    pub unreceived: u64,
}

struct Signal {
    stop: Mutex<bool>,
    changed: Condvar,
    snapshot: Mutex<Snapshot>,
}

/// A run that has begun. Dropping it stops it.
pub struct Run {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<Result<Report, String>>>,
}

impl Run {
    /// Begins to connect. An error if the configuration is wrong.
    pub fn start(config: Config) -> Result<Run, String> {
        config.check()?;
        let servers = config
            .pids
            .iter()
            .map(|pid| Watched::new(*pid))
            .collect::<Result<Vec<_>, _>>()?;
        let connections = config.roles.iter().map(|r| r.connections as u64);
        allow_files(connections.sum::<u64>() + 256)?;
        let (oneway, links) = links(&config)?;
        let signal = Arc::new(Signal {
            stop: Mutex::new(false),
            changed: Condvar::new(),
            snapshot: Mutex::new(Snapshot {
                state: "connecting",
                ..Snapshot::default()
            }),
        });
        let connections = links.iter().map(|l| l.len() as u64).sum();
        let shared = Arc::new(Shared::new(config, oneway));
        let mut stats = Vec::new();
        let mut workers = Vec::new();
        for links in links {
            stats.push(Arc::new(Mutex::new(Stats::new())));
            workers.push(Worker::new(
                shared.clone(),
                stats[stats.len() - 1].clone(),
                links,
            )?);
        }
        let coordinator = Coordinator {
            shared,
            signal: signal.clone(),
            stats,
            servers,
            connections,
            intervals: Vec::new(),
            seconds: Vec::new(),
            began: clock::now(),
            wall: SystemTime::now(),
            last: clock::now(),
        };
        let thread = std::thread::Builder::new()
            .name("bench".into())
            .spawn(move || coordinator.run(workers))
            .map_err(|e| format!("a thread: {e}"))?;
        Ok(Run {
            signal,
            thread: Some(thread),
        })
    }

    /// Ends the window now; `finish` returns what there is so far.
    pub fn stop(&self) {
        *self.signal.stop.lock() = true;
        self.signal.changed.notify_all();
    }

    pub fn ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    pub fn snapshot(&self) -> Snapshot {
        self.signal.snapshot.lock().clone()
    }

    /// Waits for the end. An error if it never began.
    pub fn finish(mut self) -> Result<Report, String> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            _ => Err("the load generator failed: please report this".into()),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The connections of each thread, and of each producer whether it is one-way.
fn links(config: &Config) -> Result<(Vec<bool>, Vec<Vec<Link>>), String> {
    let mut threads: Vec<Vec<Link>> = (0..config.threads).map(|_| Vec::new()).collect();
    let mut oneway = Vec::new();
    let mut at = 0;
    for (role_index, role) in config.roles.iter().enumerate() {
        let brokers = role.brokers();
        let of = role.connections.max(brokers.len());
        for index in 0..of {
            let addr = brokers[index % brokers.len()];
            let all =
                (0..role.targets.len() as u32).filter(|t| role.targets[*t as usize].addr == addr);
            // Connections to the same broker: this one's place among them.
            let (own, many) = (
                index / brokers.len(),
                (of - index % brokers.len()).div_ceil(brokers.len()),
            );
            let targets: Vec<u32> = match role.kind {
                Kind::Push => all.skip(own).step_by(many).collect(),
                _ => all.collect(),
            };
            if targets.is_empty() {
                continue; // more consumers than queues
            }
            let job = if let Kind::Pop { .. } = role.kind {
                Job::Pop(Popper::new(index as u64, role_index, targets))
            } else if role.kind.consumes() {
                Job::Consume(Consumer::new(index as u64, role_index, role, targets))
            } else {
                let id = u16::try_from(oneway.len())
                    .map_err(|_| format!("{MOST_PRODUCERS} producers at most"))?;
                oneway.push(role.kind == Kind::Oneway);
                Job::Produce(Producer::new(id, role_index, (index, of), targets))
            };
            threads[at % config.threads].push(Link::new(addr, role.in_flight, job));
            at += 1;
        }
    }
    threads.retain(|links| !links.is_empty());
    Ok((oneway, threads))
}

struct Coordinator {
    shared: Arc<Shared>,
    signal: Arc<Signal>,
    stats: Vec<Arc<Mutex<Stats>>>,
    servers: Vec<Watched>,
    connections: u64,
    intervals: Vec<IntervalRow>,
    seconds: Vec<Second>,
    began: u64,
    wall: SystemTime,
    last: u64,
}

/// Sums over the workers.
#[derive(Default)]
struct Sum {
    whole: Whole,
    gauges: Gauges,
    consumed: u64,
    last: u64,
}

/// Why the window closed.
enum Close {
    Duration,
    Count,
    Interrupted,
    Error(String),
}

impl Coordinator {
    fn run(mut self, workers: Vec<Worker>) -> Result<Report, String> {
        let spawn = |worker: Worker| {
            let builder = std::thread::Builder::new().name("bench-load".into());
            builder.spawn(move || worker.run())
        };
        let mut threads = Vec::new();
        let mut failure = None;
        for worker in workers {
            match spawn(worker) {
                Ok(thread) => threads.push(thread),
                Err(e) => failure = Some(format!("a thread: {e}")),
            }
        }
        let outcome = match failure {
            Some(why) => Err(why),
            None => self.drive(),
        };
        self.shared.enter(Phase::End);
        for thread in threads {
            let _ = thread.join();
        }
        self.signal.snapshot.lock().state = "ended";
        let (close, at) = outcome?;
        self.report(close, at)
    }

    /// Waits a moment; `true` when somebody wants the run to stop.
    fn wait(&self) -> bool {
        let mut stop = self.signal.stop.lock();
        if !*stop {
            self.signal.changed.wait_for(&mut stop, LOOK);
        }
        *stop
    }

    fn sum(&self) -> Sum {
        let mut sum = Sum::default();
        for stats in &self.stats {
            let s = stats.lock();
            let (w, g) = (&mut sum.whole, &mut sum.gauges);
            w.sent += s.whole.sent;
            w.acknowledged += s.whole.acknowledged;
            w.failed += s.whole.failed;
            w.received += s.whole.received;
            w.foreign += s.whole.foreign;
            w.out_of_order += s.whole.out_of_order;
            w.lost_connections += s.whole.lost_connections;
            w.reconnected += s.whole.reconnected;
            g.unready += s.gauges.unready;
            g.under_way += s.gauges.under_way;
            g.behind += s.gauges.behind;
            g.active += s.gauges.active;
            sum.consumed += s.consumed.messages;
            sum.last = sum.last.max(s.last);
        }
        sum
    }

    /// All phases: why and when the window closed. An error if it never opened.
    fn drive(&mut self) -> Result<(Close, u64), String> {
        while self.sum().gauges.unready > 0 {
            if let Some(why) = self.shared.failure() {
                return Err(why);
            }
            if self.wait() {
                return Err("stopped before it began".into());
            }
        }
        let config = &self.shared.config;
        let start = clock::now() + LEAD;
        let opens = start + clock::ns(config.warmup);
        let closes = config
            .duration
            .map_or(u64::MAX, |d| opens.saturating_add(clock::ns(d)));
        (self.began, self.last) = (start, start);
        self.wall = SystemTime::now();
        self.shared.set_times(start, opens, closes);
        self.shared.enter(Phase::Run);
        let (close, at) = self.measure(opens, closes);
        self.shared.close_window(at);
        self.servers.iter_mut().for_each(Watched::look);
        self.interval(at, &self.sum());
        self.signal.snapshot.lock().state = "ending";
        self.shared.enter(Phase::Drain);
        self.settle(&close);
        Ok((close, at))
    }

    fn measure(&mut self, opens: u64, closes: u64) -> (Close, u64) {
        let mut open = false;
        let mut progress = (0, 0, self.began);
        loop {
            let stop = self.wait();
            let now = clock::now();
            if !open && now >= opens {
                open = true;
                self.servers.iter_mut().for_each(Watched::begin);
            }
            let sum = self.sum();
            // The last second of the window is not cut into one and a rest.
            if now >= self.last + SECOND && closes.saturating_sub(now) > SECOND / 10 {
                self.servers.iter_mut().for_each(Watched::look);
                self.interval(now, &sum);
            }
            if let Some(why) = self.shared.failure() {
                return (Close::Error(why), now.min(closes));
            }
            if stop {
                return (Close::Interrupted, now.min(closes));
            }
            if now >= closes {
                return (Close::Duration, closes);
            }
            if let Some(count) = self.shared.config.count
                && now >= opens
            {
                let moved = (sum.whole.received, sum.whole.acknowledged);
                if moved != (progress.0, progress.1) {
                    progress = (moved.0, moved.1, now);
                }
                let patient = now < progress.2 + clock::ns(self.shared.config.settle);
                let done = if self.shared.produces {
                    sum.gauges.active == 0
                        && sum.gauges.under_way == 0
                        && (self.delays() || !self.missing(&sum, false) || !patient)
                } else {
                    sum.consumed >= count
                };
                if done {
                    // The look that finds it comes later than what it finds.
                    return (
                        Close::Count,
                        if sum.last > opens { sum.last + 1 } else { now },
                    );
                }
            }
        }
    }

    /// Whether messages of this run may still come; `held`: also to consumers that begin late.
    fn missing(&self, sum: &Sum, held: bool) -> bool {
        let roles = &self.shared.config.roles;
        let consumers = roles.iter().any(|r| {
            // One that selects receives fewer than are sent.
            r.kind.follows() && (held || !r.held) && r.subscription == "*"
        });
        if !consumers || !self.shared.produces {
            return false;
        }
        match &self.shared.ledger {
            Some(ledger) => ledger.totals().lost > 0,
            None => sum.whole.received < sum.whole.acknowledged,
        }
    }

    /// Waits until nothing is under way; not for ever.
    fn calm(&self) {
        let limit = clock::now() + clock::ns(self.shared.config.timeout) + SECOND;
        // Gauges are as old as a tick.
        let mut calm = 0;
        while calm < 5 && clock::now() < limit {
            self.wait_on();
            let sum = self.sum();
            calm = if sum.gauges.under_way == 0 && sum.gauges.active == 0 {
                calm + 1
            } else {
                0
            };
        }
    }

    /// Waits for the last answers, and for what is on its way to consumers.
    fn settle(&mut self, close: &Close) {
        let settle = clock::ns(self.shared.config.settle);
        self.calm();
        let verify = self.shared.ledger.is_some();
        if matches!(close, Close::Error(_)) || !(verify || self.delays()) {
            return;
        }
        let roles = &self.shared.config.roles;
        let waited = matches!(close, Close::Count) && !self.delays();
        if waited && !roles.iter().any(|r| r.held) {
            return;
        }
        self.shared.enter(Phase::ReadBack);
        let (mut seen, mut since) = (0, clock::now());
        let delay = self.shared.delay.unwrap_or(0);
        loop {
            self.wait_on();
            let (sum, now) = (self.sum(), clock::now());
            if !self.missing(&sum, true) {
                // What came last is acknowledged as well.
                return self.calm();
            }
            if sum.whole.received != seen {
                (seen, since) = (sum.whole.received, now);
            }
            if now > since + settle + delay {
                return;
            }
        }
    }

    fn delays(&self) -> bool {
        self.shared.delay.is_some()
    }

    /// Waits a moment, whoever wants to stop.
    fn wait_on(&self) {
        std::thread::sleep(LOOK);
    }

    /// The second ends now.
    fn interval(&mut self, now: u64, sum: &Sum) {
        let mut all = Interval::default();
        for stats in &self.stats {
            stats.lock().now.take(&mut all);
        }
        let since = |t: u64| t.saturating_sub(self.began) as f64 / 1e9;
        let seconds = now.saturating_sub(self.last) as f64 / 1e9;
        let us = |ns: u64| ns as f64 / 1e3;
        let mut latency = Vec::new();
        for ((_, name), h) in KINDS.iter().zip(&all.latency) {
            if !h.is_empty() {
                let row = [
                    h.value_at_percentile(50.0),
                    h.value_at_percentile(99.0),
                    h.max(),
                ];
                latency.push((*name, row.map(us)));
            }
        }
        let unreceived = if self.missing(sum, false) {
            sum.whole.acknowledged.saturating_sub(sum.whole.received)
        } else {
            0
        };
        let measured = self.last >= self.shared.opens();
        {
            let mut snapshot = self.signal.snapshot.lock();
            snapshot.state = if measured { "measuring" } else { "warm-up" };
            snapshot.seconds = since(now);
            snapshot.produced_rate = all.produced as f64 / seconds.max(1e-9);
            snapshot.consumed_rate = all.consumed as f64 / seconds.max(1e-9);
            snapshot.latency.clone_from(&latency);
            snapshot.produced += all.produced;
            snapshot.consumed += all.consumed;
            snapshot.errors += all.faults;
            snapshot.behind = sum.gauges.behind;
            snapshot.unreceived = unreceived;
        }
        if self.intervals.len() < MOST_INTERVALS {
            self.intervals.push(IntervalRow {
                at: since(now),
                seconds,
                produced: all.produced,
                consumed: all.consumed,
                errors: all.faults,
                latency,
                measured,
                behind: sum.gauges.behind,
                unreceived,
            });
            if self.shared.config.hdr.is_some() {
                self.seconds.push(Second {
                    start: Duration::from_nanos(self.last.saturating_sub(self.began)),
                    length: Duration::from_nanos(now.saturating_sub(self.last)),
                    latency: all.latency,
                });
            }
        }
        self.last = now;
    }

    fn report(self, close: Close, at: u64) -> Result<Report, String> {
        if let Some(path) = &self.shared.config.hdr {
            hdr_log::write(path, self.wall, &self.seconds)?;
        }
        let sum = self.sum();
        let seconds = at.saturating_sub(self.shared.opens()) as f64 / 1e9;
        let mut faults = Faults::default();
        let mut latency: Vec<_> = KINDS.iter().map(|_| histogram()).collect();
        let mut lateness = histogram();
        let (mut produced, mut consumed) = (Counts::default(), Counts::default());
        let (mut cpu, mut busiest) = (0, 0);
        for stats in &self.stats {
            let s = stats.lock();
            faults.merge(&s.faults);
            produced.merge(&s.produced);
            consumed.merge(&s.consumed);
            for (all, one) in latency.iter_mut().zip(&s.latency) {
                let _ = all.add(one); // of the same bounds
            }
            let _ = lateness.add(&s.lateness);
            cpu += s.cpu;
            busiest = busiest.max(s.cpu);
        }
        let (ended, why) = match close {
            Close::Duration => ("duration", String::new()),
            Close::Count => ("count", String::new()),
            Close::Interrupted => ("interrupted", String::new()),
            Close::Error(why) => ("error", why),
        };
        let roles = &self.shared.config.roles;
        let verify = self.shared.ledger.as_ref().map(|ledger| Verified {
            totals: ledger.totals(),
            out_of_order: sum.whole.out_of_order,
            foreign: sum.whole.foreign,
            consumed: roles.iter().any(|r| r.kind.follows()),
        });
        let rows = KINDS.iter().zip(&latency).filter(|(_, h)| !h.is_empty());
        let server = |w: &Watched| Server {
            pid: w.pid,
            name: w.name.clone(),
            cpu_seconds: w.last.cpu_seconds - w.first.cpu_seconds,
            rss: w.last.rss,
            max_rss: w.max_rss,
            read: w
                .last
                .read
                .zip(w.first.read)
                .map(|(b, a)| b.saturating_sub(a)),
            written: w
                .last
                .written
                .zip(w.first.written)
                .map(|(b, a)| b.saturating_sub(a)),
            ended: w.ended,
        };
        Ok(Report {
            ended,
            why,
            seconds,
            produced,
            consumed,
            latency: rows.map(|((_, name), h)| Latency::of(name, h)).collect(),
            errors: error_rows(&faults),
            verify,
            cpu_seconds: cpu as f64 / 1e9,
            busy: busiest as f64 / 1e9 / seconds.max(1e-9),
            late_p99: lateness.value_at_percentile(99.0) as f64 / 1e3,
            servers: self.servers.iter().map(server).collect(),
            connections: self.connections,
            lost: sum.whole.lost_connections,
            reconnected: sum.whole.reconnected,
            behind: self.intervals.last().map_or(0, |i| i.behind),
            intervals: self.intervals,
            sent: sum.whole.sent,
            failed: sum.whole.failed,
            received: sum.whole.received,
        })
    }
}
