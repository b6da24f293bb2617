//! A run: its threads, its phases, and what they found.

use crate::clock::{self, SECOND};
use crate::config::Config;
use crate::hdr_log::{Log, Second};
use crate::limits::allow_files;
use crate::links::links;
use crate::plan::{Phase, Shared};
use crate::report::{IntervalRow, Latency, Report, Server, Verified, error_rows};
use crate::stats::{Counts, Faults, Gauges, Interval, KINDS, Stats, Whole, histogram};
use crate::usage::Watched;
use crate::worker::Worker;
use hdrhistogram::Histogram;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// The coordinator looks so often.
const LOOK: Duration = Duration::from_millis(10);
/// More seconds than this are not kept one by one.
const MOST_INTERVALS: usize = 100_000;
/// A run that did not become ready gives up when nothing more became so for this long, and the time
/// of two requests.
const PATIENCE: u64 = 5 * SECOND;
/// Producers begin so long after all is ready.
const LEAD: u64 = SECOND / 1000;
/// The error of a run that was stopped before its producers began.
pub const STOPPED: &str = "stopped before it began";

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
    /// How often it was asked to stop: the first time ends the window, the next the wait behind it.
    stop: Mutex<u32>,
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
        let hdr = config.hdr.as_deref().map(Log::create).transpose()?;
        let signal = Arc::new(Signal {
            stop: Mutex::new(0),
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
            hdr,
            cut: false,
            stats,
            servers,
            connections,
            intervals: Vec::new(),
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

    /// Ends the window now; `finish` returns what there is so far. The second time it also ends the
    /// wait for what is on its way.
    pub fn stop(&self) {
        *self.signal.stop.lock() += 1;
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
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Coordinator {
    shared: Arc<Shared>,
    signal: Arc<Signal>,
    stats: Vec<Arc<Mutex<Stats>>>,
    servers: Vec<Watched>,
    connections: u64,
    intervals: Vec<IntervalRow>,
    hdr: Option<Log>,
    /// Whether the wait for what was on its way was ended by somebody.
    cut: bool,
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
        Ok(self.report(close, at))
    }

    /// Waits a moment; `true` when somebody wanted the run to stop so often.
    fn wait(&self, times: u32) -> bool {
        let mut stop = self.signal.stop.lock();
        if *stop < times {
            self.signal.changed.wait_for(&mut stop, LOOK);
        }
        *stop >= times
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
            w.early += s.whole.early;
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
        self.ready()?;
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
        self.shared.enter(Phase::Drain);
        self.cut = self.settle(&close);
        // What was answered behind the window is a part of its latencies.
        let now = clock::now();
        let all = self.taken();
        self.log(now, all.latency);
        Ok((close, at))
    }

    /// Waits until all connections are open and all consumers know where to begin.
    fn ready(&self) -> Result<(), String> {
        let limit = PATIENCE.saturating_add(clock::ns(self.shared.config.timeout * 2.0));
        let (mut least, mut since) = (u64::MAX, clock::now());
        loop {
            let unready = self.sum().gauges.unready;
            if unready == 0 {
                return Ok(());
            }
            if unready < least {
                (least, since) = (unready, clock::now());
            }
            if let Some(why) = self.shared.failure() {
                return Err(why);
            }
            if self.wait(1) {
                return Err(STOPPED.into());
            }
            if clock::now() > since.saturating_add(limit) {
                return Err(self.not_ready(unready));
            }
        }
    }

    fn not_ready(&self, unready: u64) -> String {
        let mut faults = Faults::default();
        for stats in &self.stats {
            faults.merge(&stats.lock().faults);
        }
        let rows = error_rows(&faults);
        let said = rows
            .first()
            .map(|row| format!(": {}, {}", row.name, row.first));
        format!(
            "the load did not begin: {unready} connections are not open, or queues of consumers \
             have no offset{}",
            said.unwrap_or_default()
        )
    }

    fn measure(&mut self, opens: u64, closes: u64) -> (Close, u64) {
        let mut open = false;
        let mut progress = (0, 0, self.began);
        loop {
            let stop = self.wait(1);
            let now = clock::now();
            let sum = self.sum();
            if !open && now >= opens {
                open = true;
                self.servers.iter_mut().for_each(Watched::begin);
                if opens > self.began {
                    self.interval(now, &sum); // so that a second is of the warm-up or of the window
                }
            }
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
                let sent = sum.gauges.active == 0 && sum.gauges.under_way == 0;
                if sent {
                    let moved = (self.arrived(&sum), sum.whole.acknowledged);
                    if moved != (progress.0, progress.1) {
                        progress = (moved.0, moved.1, now);
                    }
                }
                let patient = now < progress.2 + clock::ns(self.shared.config.settle);
                let done = if self.shared.produces {
                    sent && (self.delays() || !self.missing(&sum, false) || !patient)
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
        let consumers = (roles.iter()).any(|r| r.kind.follows() && (held || !r.held));
        if !consumers || !self.shared.produces || !self.shared.followed {
            return false;
        }
        match &self.shared.ledger {
            Some(ledger) => ledger.totals().lost > 0,
            None => sum.whole.received < sum.whole.acknowledged,
        }
    }

    /// Deliveries of this run's messages: what comes again is none, as far as that is known, so that a broker
    /// which repeats itself is not waited for.
    fn arrived(&self, sum: &Sum) -> u64 {
        let ledger = self.shared.ledger.as_ref();
        ledger.map_or(sum.whole.received, |ledger| ledger.totals().received)
    }

    /// Messages that were acknowledged, and that consumers have not received.
    fn unreceived(&self, sum: &Sum) -> u64 {
        let many = sum.whole.acknowledged.saturating_sub(sum.whole.received);
        if self.missing(sum, false) { many } else { 0 }
    }

    /// Waits until nothing is under way; not for ever. `true`: somebody wanted no more of that.
    fn calm(&mut self, times: u32) -> bool {
        let limit = clock::now() + clock::ns(self.shared.config.timeout) + SECOND;
        // Gauges are as old as a tick.
        let mut calm = 0;
        while calm < 5 && clock::now() < limit {
            if self.wait(times) {
                return true;
            }
            let sum = self.sum();
            calm = if sum.gauges.under_way == 0 && sum.gauges.active == 0 {
                calm + 1
            } else {
                0
            };
        }
        false
    }

    /// Waits for the last answers, and for what is on its way to consumers. `true`: somebody wanted
    /// no more of that.
    fn settle(&mut self, close: &Close) -> bool {
        let times = 1 + u32::from(matches!(close, Close::Interrupted));
        let settle = clock::ns(self.shared.config.settle);
        if self.calm(times) {
            return true;
        }
        // Consumers have not had all yet: what comes late is a part of the latencies.
        let late = self.delays() || self.missing(&self.sum(), false);
        if matches!(close, Close::Error(_)) && !self.shared.config.go_on
            || !(self.shared.ledger.is_some() || late)
        {
            return false;
        }
        let roles = &self.shared.config.roles;
        let waited = matches!(close, Close::Count) && !self.delays();
        if waited && !roles.iter().any(|r| r.held) {
            return false;
        }
        self.shared.enter(Phase::ReadBack);
        let (mut seen, mut since) = (0, clock::now());
        let delay = self.shared.delay.unwrap_or(0);
        loop {
            if self.wait(times) {
                return true;
            }
            let (sum, now) = (self.sum(), clock::now());
            if !self.missing(&sum, true) {
                // What came last is acknowledged as well.
                return self.calm(times);
            }
            let arrived = self.arrived(&sum);
            if arrived != seen {
                (seen, since) = (arrived, now);
            }
            if now > since + settle + delay {
                return false;
            }
        }
    }

    fn delays(&self) -> bool {
        self.shared.delay.is_some()
    }

    /// What the workers counted since the last look.
    fn taken(&self) -> Interval {
        let mut all = Interval::default();
        for stats in &self.stats {
            stats.lock().now.take(&mut all);
        }
        all
    }

    /// Writes the latencies since `last` to the interval log. A log that cannot be written ends the
    /// run at once: the window is longer than anybody wants to wait for a file that is not there.
    fn log(&mut self, now: u64, latency: Vec<Histogram<u64>>) {
        let Some(hdr) = &mut self.hdr else {
            return;
        };
        let second = Second {
            began: self.wall,
            start: Duration::from_nanos(self.last.saturating_sub(self.began)),
            length: Duration::from_nanos(now.saturating_sub(self.last)),
            latency,
        };
        if !hdr.add(second)
            && let Err(why) = hdr.finish()
        {
            self.shared.fail(why);
        }
    }

    /// The second ends now.
    fn interval(&mut self, now: u64, sum: &Sum) {
        let all = self.taken();
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
        let unreceived = self.unreceived(sum);
        let measured = self.last >= self.shared.opens();
        {
            let mut snapshot = self.signal.snapshot.lock();
            // With the last second at once: who looks for each second looks no more behind it.
            snapshot.state = match measured {
                _ if now >= self.shared.closes() => "ending",
                true => "measuring",
                false => "warm-up",
            };
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
        }
        self.log(now, all.latency);
        self.last = now;
    }

    fn report(mut self, mut close: Close, at: u64) -> Report {
        let logged = self.hdr.as_mut().map_or(Ok(()), Log::finish);
        if let Err(why) = logged.and_then(|()| self.shared.failure().map_or(Ok(()), Err))
            && !matches!(close, Close::Error(_))
        {
            close = Close::Error(why);
        }
        let sum = self.sum();
        let unreceived = self.unreceived(&sum);
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
        Report {
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
            servers: self.servers.iter().map(Server::of).collect(),
            connections: self.connections,
            lost: sum.whole.lost_connections,
            reconnected: sum.whole.reconnected,
            behind: self.intervals.last().map_or(0, |i| i.behind),
            intervals: self.intervals,
            sent: sum.whole.sent,
            failed: sum.whole.failed,
            received: sum.whole.received,
            early: sum.whole.early,
            unreceived,
            cut: self.cut,
        }
    }
}
