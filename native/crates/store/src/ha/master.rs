//! A master's end of the connection to one slave, without its socket. [DefaultHAConnection]
//!
//! Nothing is sent before the slave's first report, which says where to begin. The later ones say how
//! far its log is. What a slave cannot say ends its connection.

use super::frame::{HEADER_LEN, Header, MAX_BODY, Pieces, REPORT_LEN};

#[derive(Clone, Copy, Debug)]
pub struct MasterSettings {
    /// haTransferBatchSize: bytes of a frame's body, at most
    pub chunk: usize,
    /// haSendHeartbeatInterval, ms
    pub heartbeat: i64,
    /// haHousekeepingInterval, ms: a slave that is silent for longer is given up
    pub silence: i64,
    /// maxHaTransferByteInSecond, if haFlowControlEnable
    pub most_per_second: Option<u64>,
}

/// The master's log, as it is now.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    pub min: u64,
    /// How far it may be sent.
    pub end: u64,
    pub file_size: u64,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send this header, and behind it `len` bytes of the log from `offset` on.
    Send {
        header: [u8; HEADER_LEN],
        offset: u64,
        len: usize,
    },
    /// Nothing before this time (ms), unless the log grows or something arrives.
    Wait { until: i64 },
}

pub struct MasterLink {
    settings: MasterSettings,
    report: Pieces<REPORT_LEN>,
    /// What is sent next; None: the slave has not reported yet.
    next: Option<u64>,
    acked: u64,
    /// When something was sent, or heard, last.
    sent_at: i64,
    heard_at: i64,
    /// A second, and what was sent in it.
    second: (i64, u64),
    sent: u64,
}

impl MasterLink {
    pub fn new(settings: MasterSettings, now: i64) -> Self {
        let chunk = settings.chunk.clamp(1, MAX_BODY);
        MasterLink {
            settings: MasterSettings { chunk, ..settings },
            report: Pieces::default(),
            next: None,
            acked: 0,
            sent_at: now,
            heard_at: now,
            second: (0, 0),
            sent: 0,
        }
    }

    /// The slave's log is there below this physical offset.
    pub fn acked(&self) -> u64 {
        self.acked
    }

    /// What is sent next; None before the first report.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Bytes of the log that were sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Takes what arrived. An error, which says why, ends the connection.
    pub fn feed(&mut self, mut bytes: &[u8], now: i64, log: &Log) -> Result<(), String> {
        while let Some(report) = self.report.take(&mut bytes) {
            self.heard_at = now;
            self.reported(i64::from_be_bytes(report), log)?;
        }
        Ok(())
    }

    fn reported(&mut self, offset: i64, log: &Log) -> Result<(), String> {
        let Ok(offset) = u64::try_from(offset) else {
            return Err(format!("it reports offset {offset}: it is no slave"));
        };
        let Some(next) = self.next else {
            self.next = Some(start(offset, log)?);
            self.acked = offset;
            return Ok(());
        };
        if offset > next {
            return Err(format!(
                "it reports offset {offset}, but was sent {next} only"
            ));
        }
        if offset < self.acked {
            let acked = self.acked;
            return Err(format!("it reports offset {offset} behind {acked}"));
        }
        self.acked = offset;
        Ok(())
    }

    /// What is to be done next; what it says to send counts as sent. An error ends the connection.
    pub fn step(&mut self, now: i64, log: &Log) -> Result<Step, String> {
        let silent_at = self.heard_at + self.settings.silence;
        if now >= silent_at {
            return Err(format!(
                "nothing was heard for {} ms",
                self.settings.silence
            ));
        }
        let Some(next) = self.next else {
            return Ok(Step::Wait { until: silent_at });
        };
        if next < log.min {
            let min = log.min;
            return Err(format!(
                "it wants {next}, but the log begins at {min} by now"
            ));
        }
        let beat_at = self.sent_at + self.settings.heartbeat;
        let len = self.length(next, now, log);
        if len == 0 && now < beat_at {
            let until = silent_at.min(beat_at);
            return Ok(Step::Wait {
                until: match self.limited(next, log) {
                    true => until.min((self.second.0 + 1) * 1000),
                    false => until,
                },
            });
        }
        self.sent_at = now;
        self.second.1 += len as u64;
        self.sent += len as u64;
        self.next = Some(next + len as u64);
        let header = Header {
            offset: next as i64,
            size: len as i32,
        };
        Ok(Step::Send {
            header: header.encode(),
            offset: next,
            len,
        })
    }

    /// Until when (ms) a frame may take to be sent. An error once the slave was silent for too long.
    pub fn step_while_blocked(&self, now: i64) -> Result<i64, String> {
        let silent_at = self.heard_at + self.settings.silence;
        if now >= silent_at {
            return Err(format!(
                "it reads nothing, and nothing was heard for {} ms",
                self.settings.silence
            ));
        }
        Ok(silent_at)
    }

    /// Whether only maxHaTransferByteInSecond is in the way.
    fn limited(&self, next: u64, log: &Log) -> bool {
        next < log.end && self.settings.most_per_second.is_some()
    }

    /// Bytes of the next frame: within one file, one frame, and this second's share.
    fn length(&mut self, next: u64, now: i64, log: &Log) -> usize {
        let in_file = log.file_size - next % log.file_size;
        let mut len = log.end.saturating_sub(next).min(in_file);
        if let Some(most) = self.settings.most_per_second {
            if self.second.0 != now.div_euclid(1000) {
                self.second = (now.div_euclid(1000), 0);
            }
            len = len.min(most.saturating_sub(self.second.1));
        }
        len.min(self.settings.chunk as u64) as usize
    }
}

/// Where a slave begins whose log ends at `offset`; one without a log at the last file.
fn start(offset: u64, log: &Log) -> Result<u64, String> {
    let Log { min, end, .. } = *log;
    if offset == 0 {
        return Ok((end - end % log.file_size).max(min));
    }
    if offset > end {
        return Err(format!(
            "its log ends at {offset}, but this master's at {end}: it has what the master has not. \
             Stop it, and find out which of the two is right; `pyrmq store rejoin` puts what it has \
             too much aside"
        ));
    }
    if offset < min {
        return Err(format!(
            "its log ends at {offset}, but this master's begins at {min} by now: empty its store"
        ));
    }
    Ok(offset)
}
