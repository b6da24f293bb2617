//! How long requests took, by what they asked for and how they were answered; and those that took too long.
//! [RemotingMetricsManager]
//!
//! The sessions of a server share one. They add once for all answers that leave together, so this costs
//! nothing for each message. What the engine does not answer, Python adds.

use parking_lot::Mutex;
use pyrmq_format::host::Host;
use pyrmq_store::Histogram;
use rustc_hash::FxHashMap;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

/// µs. Those from 1 ms on are RocketMQ's. [RemotingMetricsConstant]
pub const RPC_BOUNDS: [u64; 13] = [
    50, 100, 200, 500, 1_000, 3_000, 5_000, 7_000, 10_000, 100_000, 1_000_000, 2_000_000, 3_000_000,
];

/// Rows that are kept. Clients choose request codes, so there are more of them than there may be rows.
pub const MOST_ROWS: usize = 1024;
/// The request code of the row for what would be one too many.
pub const OTHER_CODE: i32 = -1;
/// Slow requests that are kept until somebody takes them.
pub const MOST_SLOW: usize = 64;

/// What became of a request. [RemotingMetricsConstant.RESULT_*]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Fate {
    Success,
    Oneway,
    Cancelled,
    ProcessRequestFailed,
    WriteChannelFailed,
}

impl Fate {
    pub const ALL: [Fate; 5] = [
        Fate::Success,
        Fate::Oneway,
        Fate::Cancelled,
        Fate::ProcessRequestFailed,
        Fate::WriteChannelFailed,
    ];

    /// Its name as a label.
    pub fn name(self) -> &'static str {
        match self {
            Fate::Success => "success",
            Fate::Oneway => "oneway",
            Fate::Cancelled => "cancelled",
            Fate::ProcessRequestFailed => "process_request_failed",
            Fate::WriteChannelFailed => "write_channel_failed",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Fate::ALL.into_iter().find(|fate| fate.name() == name)
    }
}

/// What a row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    pub code: i32,
    pub response: i32,
    pub long_polling: bool,
    pub fate: Fate,
}

impl Kind {
    /// A request that was answered with this code at once.
    pub fn answered(code: i32, response: i32) -> Self {
        Kind {
            code,
            response,
            long_polling: false,
            fate: Fate::Success,
        }
    }
}

/// A request that took too long, and where its time went. Times are in µs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    pub code: i32,
    pub response: i32,
    /// Who asked.
    pub peer: Host,
    /// It was ready to be received, and others came first.
    pub queued: u64,
    /// From there to the write of the log, or to the answer if nothing was written.
    pub processed: u64,
    pub written: u64,
    /// Until a flush had carried it (SYNC_FLUSH).
    pub flushed: u64,
    /// Until slaves had it (SYNC_MASTER), and until the answer was sent.
    pub replicated: u64,
    /// Where its record is.
    pub place: Option<Place>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub queue_id: i32,
    pub queue_offset: i64,
    pub physical_offset: u64,
}

impl Slow {
    pub fn total(&self) -> u64 {
        self.queued + self.processed + self.written + self.flushed + self.replicated
    }
}

/// What one takes of the slow requests.
#[derive(Debug, Default)]
pub struct SlowRequests {
    pub requests: Vec<Slow>,
    /// How many more there were.
    pub left_out: u64,
}

/// Requests that have a row of their own without a look-up: those that the engine answers with success.
/// SEND_MESSAGE_V2, PULL_MESSAGE, SEND_MESSAGE, SEND_BATCH_MESSAGE, LITE_PULL_MESSAGE, ACK_MESSAGE,
/// BATCH_ACK_MESSAGE, CHANGE_MESSAGE_INVISIBLETIME, END_TRANSACTION. [RequestCode]
const QUICK: [i32; 9] = [310, 11, 10, 320, 361, 200_051, 200_151, 200_053, 37];

pub struct RpcFigures {
    quick: [Histogram; QUICK.len()],
    rows: Mutex<FxHashMap<Kind, Histogram>>,
    /// A request that takes longer is slow, µs; `i64::MAX`: none is.
    slow_us: AtomicI64,
    slow: Mutex<SlowRequests>,
}

impl Default for RpcFigures {
    fn default() -> Self {
        RpcFigures {
            quick: std::array::from_fn(|_| Histogram::new(&RPC_BOUNDS)),
            rows: Mutex::default(),
            slow_us: AtomicI64::new(i64::MAX),
            slow: Mutex::default(),
        }
    }
}

impl RpcFigures {
    /// `times` requests of this kind took `micros` each.
    #[inline]
    pub fn record(&self, kind: Kind, micros: u64, times: u64) {
        let is_plain = kind.response == 0 && kind.fate == Fate::Success && !kind.long_polling;
        let quick = QUICK.iter().position(|code| *code == kind.code);
        match quick.filter(|_| is_plain) {
            Some(at) => self.quick[at].add(micros, times),
            None => self.record_in_rows(kind, micros, times),
        }
    }

    #[cold]
    fn record_in_rows(&self, kind: Kind, micros: u64, times: u64) {
        let mut rows = self.rows.lock();
        let kind = match rows.len() < MOST_ROWS || rows.contains_key(&kind) {
            true => kind,
            false => Kind::answered(OTHER_CODE, OTHER_CODE),
        };
        let new = || Histogram::new(&RPC_BOUNDS);
        rows.entry(kind).or_insert_with(new).add(micros, times);
    }

    /// All kinds that there were, in order, with the row of their histogram.
    pub fn rows(&self) -> Vec<(Kind, Vec<u64>)> {
        let quick = QUICK.iter().zip(&self.quick);
        let mut all: Vec<_> = quick
            .filter(|(_, histogram)| histogram.count() > 0)
            .map(|(&code, histogram)| (Kind::answered(code, 0), histogram.row()))
            .collect();
        let rows = self.rows.lock();
        all.extend(
            rows.iter()
                .map(|(kind, histogram)| (*kind, histogram.row())),
        );
        drop(rows);
        all.sort();
        all
    }

    /// Requests that take longer than `ms` are kept for `take_slow`; 0: none are.
    pub fn set_slow_ms(&self, ms: u32) {
        let us = match ms {
            0 => i64::MAX,
            ms => i64::from(ms) * 1000,
        };
        self.slow_us.store(us, Relaxed);
    }

    #[inline]
    pub fn is_slow(&self, micros: i64) -> bool {
        micros > self.slow_us.load(Relaxed)
    }

    /// Keeps a slow request, or counts it where there are many.
    pub fn note_slow(&self, slow: impl FnOnce() -> Slow) {
        let mut kept = self.slow.lock();
        match kept.requests.len() < MOST_SLOW {
            true => kept.requests.push(slow()),
            false => kept.left_out += 1,
        }
    }

    /// The slow requests since the last call.
    pub fn take_slow(&self) -> SlowRequests {
        std::mem::take(&mut *self.slow.lock())
    }
}

#[cfg(test)]
#[path = "rpc_figures_tests.rs"]
mod tests;
