//! The planners of streams that are open in this process; each belongs to one query.

use super::failure::Result;
use super::handles::Handles;
use pyrmq_scan::admission::{Limit, Limits, Pace};
use pyrmq_scan::{LocalPlaces, Notes, Position, Request, StreamPlanner};
use serde::Deserialize;
use serde_json::Value;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

pub static STREAMS: LazyLock<Handles<Stream>> = LazyLock::new(|| Handles::new("stream"));

/// The limits of the options, as the op `options` gives them.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StreamLimits {
    max_offsets: Option<u64>,
    max_bytes: Option<u64>,
    min_offsets: Option<u64>,
    max_delay_ms: Option<u64>,
}

/// What Spark asks of one micro-batch, in JSON: "all", "own", {"rows": n} or {"bytes": n}.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Asked {
    All,
    Own,
    Rows(u64),
    Bytes(u64),
}

pub struct Stream {
    pub planner: StreamPlanner,
    pub notes: Notes,
    pace: Pace,
    limits: Limits,
}

impl Stream {
    pub fn open(request: Request, limits: StreamLimits) -> Result<Self> {
        let notes = Notes::default();
        let delay = Duration::from_millis(limits.max_delay_ms.unwrap_or(0));
        Ok(Stream {
            planner: StreamPlanner::new(request, Arc::new(LocalPlaces), &notes)?,
            notes,
            pace: Pace::new(limits.min_offsets, delay),
            limits: Limits {
                max_offsets: limits.max_offsets,
                max_bytes: limits.max_bytes,
            },
        })
    }

    /// How far the next batch goes; None as long as it waits for more messages.
    pub fn latest(&mut self, start: Option<&Value>, asked: Asked) -> Result<Option<Position>> {
        let limit = match asked {
            Asked::All => Limit::All,
            Asked::Own => Limit::Own,
            Asked::Rows(rows) => Limit::Rows(rows),
            Asked::Bytes(bytes) => Limit::Bytes(bytes),
        };
        let (planner, notes) = (&mut self.planner, &self.notes);
        if let (false, Some(start)) = (limit == Limit::All, start) {
            let count = |wanted| planner.count(start, wanted, notes);
            if self.pace.holds(Instant::now(), count)? {
                return Ok(None);
            }
        }
        let (rows, bytes) = match start {
            Some(_) => self.limits.of(limit),
            None => (None, None),
        };
        Ok(Some(self.planner.latest(
            start,
            rows,
            bytes,
            &self.notes,
        )?))
    }

    /// From here on batches stay at or below the end of the logs now, and wait for nothing.
    pub fn pin(&mut self) -> Result<()> {
        self.pace.pin();
        Ok(self.planner.pin(&self.notes)?)
    }
}
