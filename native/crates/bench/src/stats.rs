//! What a worker counts. The coordinator looks at it now and then.

use crate::names;
use hdrhistogram::Histogram;
use rustc_hash::FxHashMap;

/// What a latency is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// A request, to its answer.
    Request = 0,
    /// A message, to its consumer.
    EndToEnd = 1,
    /// END_TRANSACTION, to its answer.
    Commit = 2,
    /// A delayed message, behind the time it was due at its consumer.
    Late = 3,
    /// A request, to an answer that refuses it: quick refusals would flatter the others.
    Refused = 4,
    /// ACK_MESSAGE, to its answer.
    Ack = 5,
}

pub const KINDS: [(Of, &str); 6] = [
    (Of::Request, "request"),
    (Of::EndToEnd, "end_to_end"),
    (Of::Commit, "commit"),
    (Of::Late, "late"),
    (Of::Refused, "refused"),
    (Of::Ack, "ack"),
];

/// An hour: what takes longer counts as that.
const LONGEST: u64 = 3_600_000_000_000;

/// An empty histogram of ns, exact to three digits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LONGEST, 3).expect("bounds that are fixed")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The broker's answer has this code.
    Code(i32),
    /// Codes behind the first `MOST_KINDS` faults.
    FurtherCodes,
    Lost,
    Timeout,
    ConnectFailed,
    Protocol,
}

impl Fault {
    /// Kind, code and name.
    pub fn names(self) -> (&'static str, Option<i32>, String) {
        match self {
            Fault::Code(code) => ("code", Some(code), names::of(code)),
            Fault::FurtherCodes => ("code", None, "further codes".into()),
            Fault::Lost => ("connection-lost", None, "connection lost".into()),
            Fault::Timeout => ("timeout", None, "timed out".into()),
            Fault::ConnectFailed => ("connect-failed", None, "cannot connect".into()),
            Fault::Protocol => ("protocol", None, "not understood".into()),
        }
    }
}

/// Kinds of faults that are told apart: a broker may answer with any number as its code.
const MOST_KINDS: usize = 64;

/// Faults by kind: how many, and what the first one said.
#[derive(Default)]
pub struct Faults(pub FxHashMap<Fault, (u64, String)>);

impl Faults {
    pub fn add(&mut self, fault: Fault, first: impl FnOnce() -> String) {
        self.add_many(fault, 1, first);
    }

    pub fn add_many(&mut self, fault: Fault, many: u64, first: impl FnOnce() -> String) {
        let is_new = |fault| !self.0.contains_key(fault);
        let fault = match fault {
            Fault::Code(_) if self.0.len() >= MOST_KINDS && is_new(&fault) => Fault::FurtherCodes,
            fault => fault,
        };
        if many > 0 {
            self.0.entry(fault).or_insert_with(|| (0, first())).0 += many;
        }
    }

    pub fn merge(&mut self, other: &Faults) {
        for (fault, (many, first)) in &other.0 {
            self.add_many(*fault, *many, || first.clone());
        }
    }

    pub fn total(&self) -> u64 {
        self.0.values().map(|(many, _)| many).sum()
    }
}

/// Messages, requests and bytes of bodies.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub messages: u64,
    pub requests: u64,
    pub bytes: u64,
}

impl Counts {
    pub fn add(&mut self, messages: u64, bytes: u64) {
        self.messages += messages;
        self.requests += 1;
        self.bytes += bytes;
    }

    pub fn merge(&mut self, other: &Counts) {
        self.messages += other.messages;
        self.requests += other.requests;
        self.bytes += other.bytes;
    }
}

pub struct Stats {
    /// Of the measured window: what producers sent and consumers received.
    pub produced: Counts,
    pub consumed: Counts,
    pub latency: Vec<Histogram<u64>>,
    /// How late a timer of an open loop came.
    pub lateness: Histogram<u64>,
    /// Since the coordinator looked last.
    pub now: Interval,
    /// Of the whole run.
    pub faults: Faults,
    pub whole: Whole,
    pub gauges: Gauges,
    /// CPU time of the worker in the window, ns.
    pub cpu: u64,
    /// When the last message of the window was counted.
    pub last: u64,
}

/// Counts of the whole run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Whole {
    pub sent: u64,
    pub acknowledged: u64,
    /// Messages whose request ended in another way.
    pub failed: u64,
    /// Deliveries of this run's messages, and of others.
    pub received: u64,
    pub foreign: u64,
    pub out_of_order: u64,
    /// Messages that came before their delay had passed.
    pub early: u64,
    pub lost_connections: u64,
    pub reconnected: u64,
}

/// How it stands now.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauges {
    /// Connections that are not open yet, and queues of consumers whose start is not known yet.
    pub unready: u64,
    /// Requests of producers and acknowledgements of pops under way, and bytes not yet written.
    pub under_way: u64,
    /// Requests that are due and not sent.
    pub behind: u64,
    /// Producers that may still send.
    pub active: u64,
}

pub struct Interval {
    pub produced: u64,
    pub consumed: u64,
    pub faults: u64,
    pub latency: Vec<Histogram<u64>>,
}

impl Interval {
    fn new() -> Interval {
        Interval {
            produced: 0,
            consumed: 0,
            faults: 0,
            latency: KINDS.iter().map(|_| histogram()).collect(),
        }
    }

    /// Moves what is there to `other`.
    pub fn take(&mut self, other: &mut Interval) {
        other.produced += std::mem::take(&mut self.produced);
        other.consumed += std::mem::take(&mut self.consumed);
        other.faults += std::mem::take(&mut self.faults);
        for (own, other) in self.latency.iter_mut().zip(&mut other.latency) {
            if !own.is_empty() {
                // Of the same bounds.
                let _ = other.add(&*own);
                own.reset();
            }
        }
    }
}

impl Default for Interval {
    fn default() -> Self {
        Interval::new()
    }
}

impl Stats {
    pub fn new() -> Stats {
        Stats {
            produced: Counts::default(),
            consumed: Counts::default(),
            latency: KINDS.iter().map(|_| histogram()).collect(),
            lateness: histogram(),
            now: Interval::new(),
            faults: Faults::default(),
            whole: Whole::default(),
            gauges: Gauges::default(),
            cpu: 0,
            last: 0,
        }
    }

    /// A latency of now, and of the window if it is `measured`.
    #[inline]
    pub fn latency(&mut self, of: Of, ns: u64, measured: bool) {
        self.now.latency[of as usize].saturating_record(ns);
        if measured {
            self.latency[of as usize].saturating_record(ns);
        }
    }

    /// The same latency of several messages.
    pub fn latencies(&mut self, of: Of, ns: u64, many: u64, measured: bool) {
        self.now.latency[of as usize].saturating_record_n(ns, many);
        if measured {
            self.latency[of as usize].saturating_record_n(ns, many);
        }
    }

    pub fn fault(&mut self, fault: Fault, first: impl FnOnce() -> String) {
        self.now.faults += 1;
        self.faults.add(fault, first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_answers_with_ever_new_codes_needs_no_memory() {
        let (mut some, mut all) = (Faults::default(), Faults::default());
        some.add(Fault::Lost, || "gone".into());
        for code in 1..=100_000 {
            some.add(Fault::Code(code), || format!("told {code}"));
        }
        all.merge(&some);
        all.merge(&some);
        for (faults, times) in [(&some, 1), (&all, 2)] {
            assert!(faults.0.len() <= MOST_KINDS + 1);
            assert_eq!(faults.total(), 100_001 * times);
            assert_eq!(faults.0[&Fault::Lost], (times, "gone".into()));
        }
        assert_eq!(some.0[&Fault::Code(1)], (1, "told 1".into()));
        let (many, first) = &some.0[&Fault::FurtherCodes];
        assert_eq!(
            (*many, &first[..]),
            (100_001 - MOST_KINDS as u64, "told 64")
        );
        // Those that are known are still told apart, and so is what is no code.
        some.add(Fault::Code(1), String::new);
        some.add(Fault::Timeout, || "late".into());
        assert_eq!(
            (some.0[&Fault::Code(1)].0, some.0[&Fault::Timeout].0),
            (2, 1)
        );
    }
}
