//! What a run reports: counts, a latency histogram, CPU time.

use crate::args::Args;
use crate::frame::quoted;

/// Latencies in nanoseconds. Exact below 128, then 64 steps for each power of two: 1.6 % wide at
/// most, a fixed table and no division.
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

const TOP: u32 = 42; // 2^42 ns, over an hour

fn step(ns: u64) -> usize {
    if ns < 128 {
        return ns as usize;
    }
    let ns = ns.min((1 << TOP) - 1);
    let power = 63 - ns.leading_zeros();
    128 + (power as usize - 7) * 64 + (ns >> (power - 6)) as usize - 64
}

fn upper(step: usize) -> u64 {
    if step < 128 {
        return step as u64;
    }
    let power = 7 + (step - 128) / 64;
    (((step - 128) as u64 % 64 + 65) << (power - 6)) - 1
}

impl Histogram {
    pub fn new() -> Self {
        Histogram {
            counts: vec![0; step(u64::MAX) + 1],
            total: 0,
            max: 0,
        }
    }

    pub fn add(&mut self, ns: u64) {
        self.counts[step(ns)] += 1;
        self.total += 1;
        self.max = self.max.max(ns);
    }

    /// Microseconds below which the share `p` of all latencies lies; 0 without any.
    pub fn percentile_us(&self, p: f64) -> f64 {
        let rank = (self.total as f64 * p).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (i, n) in self.counts.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return upper(i).min(self.max) as f64 / 1e3;
            }
        }
        0.0
    }

    pub fn max_us(&self) -> f64 {
        self.max as f64 / 1e3
    }
}

/// CPU seconds of this process so far, user and kernel.
pub fn own_cpu() -> f64 {
    // SAFETY: rusage is plain data, filled by the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// CPU seconds of another process, all its threads, user and kernel (proc(5): fields 14 and 15 of
/// `stat`; in clock ticks, so 10 ms coarse on most kernels).
pub fn cpu_of(pid: u32) -> Result<f64, String> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    // The command name may hold blanks and brackets: count from the last bracket.
    let ticks = text.rfind(')').and_then(|at| {
        let mut fields = text[at + 2..].split(' ').skip(11);
        Some(fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?)
    });
    // SAFETY: no memory involved.
    let hertz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    ticks
        .map(|t| t / hertz)
        .ok_or_else(|| format!("{path}: not understood"))
}

pub struct Report {
    pub messages: u64,
    pub requests: u64,
    /// Body bytes of the messages sent, or store records received.
    pub bytes: u64,
    pub refused: u64,
    pub first_refusal: Option<String>,
    pub seconds: f64,
    pub latency: Histogram,
    pub own_cpu: f64,
    pub watched_cpu: Option<f64>,
}

impl Report {
    /// `more`: further fields, each with a comma before it.
    pub fn json(&self, args: &Args, more: &str) -> String {
        let per = |n: u64| n as f64 / self.seconds.max(1e-9);
        format!(
            "{{\"mode\":\"{}\",\"connections\":{},\"in_flight\":{},\"body\":{},\"messages\":{},\
             \"requests\":{},\"bytes\":{},\"refused\":{},\"first_refusal\":{},\"seconds\":{:.4},\
             \"rate\":{:.1},\"request_rate\":{:.1},\"p50_us\":{:.1},\"p99_us\":{:.1},\
             \"p999_us\":{:.1},\"max_us\":{:.1},\"own_cpu_seconds\":{:.4},\
             \"watched_cpu_seconds\":{}{more}}}",
            args.mode.name(),
            args.connections,
            args.in_flight,
            args.body,
            self.messages,
            self.requests,
            self.bytes,
            self.refused,
            self.first_refusal.as_deref().map_or("null".into(), quoted),
            self.seconds,
            per(self.messages),
            per(self.requests),
            self.latency.percentile_us(0.5),
            self.latency.percentile_us(0.99),
            self.latency.percentile_us(0.999),
            self.latency.max_us(),
            self.own_cpu,
            self.watched_cpu
                .map_or("null".into(), |s| format!("{s:.4}")),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_narrow_and_without_gaps() {
        let mut ns = 1u64;
        while ns < 1 << 41 {
            let top = upper(step(ns));
            assert!(
                top >= ns && top as f64 <= ns as f64 * 1.016 + 1.0,
                "{ns} {top}"
            );
            assert_eq!(step(top) + 1, step(top + 1));
            ns += ns / 37 + 1;
        }
        assert_eq!(step(u64::MAX), step((1 << TOP) - 1));
    }

    #[test]
    fn percentiles() {
        let mut h = Histogram::new();
        assert_eq!(h.percentile_us(0.5), 0.0);
        for i in 1..=1000 {
            h.add(i * 1000);
        }
        for (p, us) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let got = h.percentile_us(p);
            assert!((got - us).abs() <= us * 0.016, "{p}: {got}");
        }
        assert_eq!(h.max_us(), 1000.0);
    }

    #[test]
    fn cpu_time_is_readable() {
        assert!(cpu_of(std::process::id()).unwrap() >= 0.0);
        assert!(own_cpu() > 0.0);
        assert!(cpu_of(u32::MAX).is_err());
    }
}
