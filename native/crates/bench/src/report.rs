//! What a run found, for whoever shows it. Latencies are µs, times s.

use crate::ledger::Totals;
pub use crate::stats::Counts;
use crate::stats::Faults;
use crate::usage::Watched;
use hdrhistogram::Histogram;

#[derive(Clone, Debug, Default)]
pub struct Latency {
    /// `request`, `end_to_end`, `commit`, `late`, `refused` or `ack`.
    pub kind: &'static str,
    pub count: u64,
    pub min: f64,
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub p9999: f64,
    pub max: f64,
    /// Percentile and µs, rising.
    pub curve: Vec<(f64, f64)>,
}

const CURVE: [f64; 22] = [
    0.0, 1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 95.0, 98.0,
    99.0, 99.5, 99.9, 99.99, 99.999, 100.0,
];

impl Latency {
    pub fn of(kind: &'static str, histogram: &Histogram<u64>) -> Latency {
        if histogram.is_empty() {
            return Latency {
                kind,
                ..Latency::default()
            };
        }
        let us = |ns: u64| ns as f64 / 1e3;
        let at = |percentile: f64| {
            us(histogram
                .value_at_percentile(percentile)
                .min(histogram.max()))
        };
        Latency {
            kind,
            count: histogram.len(),
            min: us(histogram.min()),
            mean: histogram.mean() / 1e3,
            p50: at(50.0),
            p90: at(90.0),
            p99: at(99.0),
            p999: at(99.9),
            p9999: at(99.99),
            max: us(histogram.max()),
            curve: CURVE.iter().map(|p| (*p, at(*p))).collect(),
        }
    }
}

/// Errors of a kind.
#[derive(Clone, Debug)]
pub struct ErrorRow {
    pub kind: &'static str,
    pub code: Option<i32>,
    pub name: String,
    pub count: u64,
    pub first: String,
}

/// The most frequent first.
pub fn error_rows(faults: &Faults) -> Vec<ErrorRow> {
    let mut rows: Vec<ErrorRow> = faults
        .0
        .iter()
        .map(|(fault, (count, first))| {
            let (kind, code, name) = fault.names();
            ErrorRow {
                kind,
                code,
                name,
                count: *count,
                first: first.clone(),
            }
        })
        .collect();
    rows.sort_by(|a, b| b.count.cmp(&a.count).then(a.name.cmp(&b.name)));
    rows
}

#[derive(Clone, Debug)]
pub struct Server {
    pub pid: u32,
    pub name: String,
    pub cpu_seconds: f64,
    pub rss: u64,
    pub max_rss: u64,
    pub read: Option<u64>,
    pub written: Option<u64>,
    pub ended: bool,
}

impl Server {
    /// What it used between its first look and its last.
    pub fn of(watched: &Watched) -> Server {
        let (first, last) = (&watched.first, &watched.last);
        let grown = |last: Option<u64>, first: Option<u64>| {
            last.zip(first)
                .map(|(last, first)| last.saturating_sub(first))
        };
        Server {
            pid: watched.pid,
            name: watched.name.clone(),
            cpu_seconds: last.cpu_seconds - first.cpu_seconds,
            rss: last.rss,
            max_rss: watched.max_rss,
            read: grown(last.read, first.read),
            written: grown(last.written, first.written),
            ended: watched.ended,
        }
    }
}

#[derive(Clone, Debug)]
pub struct IntervalRow {
    pub at: f64,
    pub seconds: f64,
    pub produced: u64,
    pub consumed: u64,
    pub errors: u64,
    /// p50, p99 and maximum by kind of latency.
    pub latency: Vec<(&'static str, [f64; 3])>,
    pub measured: bool,
    /// Requests that are due and not sent.
    pub behind: u64,
    /// Messages acknowledged and not yet received, where they are.
    pub unreceived: u64,
}

#[derive(Clone, Debug)]
pub struct Verified {
    pub totals: Totals,
    pub out_of_order: u64,
    pub foreign: u64,
    pub consumed: bool,
}

#[derive(Clone, Debug)]
pub struct Report {
    /// `duration`, `count`, `interrupted` or `error`.
    pub ended: &'static str,
    pub why: String,
    pub seconds: f64,
    pub produced: Counts,
    pub consumed: Counts,
    pub latency: Vec<Latency>,
    pub errors: Vec<ErrorRow>,
    pub verify: Option<Verified>,
    pub cpu_seconds: f64,
    /// The CPU share of the busiest thread.
    pub busy: f64,
    pub late_p99: f64,
    pub servers: Vec<Server>,
    pub connections: u64,
    pub lost: u64,
    pub reconnected: u64,
    pub intervals: Vec<IntervalRow>,
    /// Requests that were due when the window closed, and not sent.
    pub behind: u64,
    /// Messages of the whole run.
    pub sent: u64,
    pub failed: u64,
    pub received: u64,
    /// Messages that came before their delay had passed.
    pub early: u64,
    /// Messages that were acknowledged, and that consumers did not receive.
    pub unreceived: u64,
    /// Whether somebody ended the wait for what was on its way.
    pub cut: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Fault, histogram};

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut h = histogram();
        (1..=10_000u64).for_each(|i| h.saturating_record(i * 1000));
        let l = Latency::of("request", &h);
        for (got, want) in [
            (l.p50, 5000.0),
            (l.p99, 9900.0),
            (l.p999, 9990.0),
            (l.max, 10_000.0),
        ] {
            assert!((got - want).abs() <= want * 0.001, "{got} {want}");
        }
        assert_eq!((l.count, l.min), (10_000, 1.0));
        assert!(l.curve.is_sorted());
        assert_eq!(Latency::of("late", &histogram()).count, 0);
    }

    #[test]
    fn the_most_frequent_error_is_first() {
        let mut faults = Faults::default();
        faults.add(Fault::Timeout, || "late".into());
        (0..3).for_each(|n| faults.add(Fault::Code(2), || format!("busy {n}")));
        let rows = error_rows(&faults);
        assert_eq!(
            (rows[0].name.as_str(), rows[0].code, rows[0].count),
            ("SYSTEM_BUSY", Some(2), 3)
        );
        assert_eq!(
            (rows[0].first.as_str(), rows[1].kind),
            ("busy 0", "timeout")
        );
    }
}
