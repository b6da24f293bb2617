//! Timer messages as they are sent: when they are due, and which are refused.
//! [HookUtils.transformTimerMessage]

use super::codes;
use super::facts::{Asked, Unit};
use super::request::Refusal;
use pyrmq_format::names::RETRY_PREFIX;
use pyrmq_format::timer::out_time;
use pyrmq_format::{parse_i64, recall};
use std::sync::atomic::{AtomicU32, Ordering};

/// What a broker says of the timer messages that are sent to it.
pub struct TimerSends {
    /// Stands in the handles of recalls.
    pub broker_name: String,
    /// timerWheelEnable: else all of them are refused.
    pub enabled: bool,
    /// ms of a slot of the wheel, from 1 on.
    pub precision_ms: i64,
    /// Longest delay, ms.
    pub max_delay_ms: i64,
    /// Messages of one slot above which some are refused (timerCongestNumEachSlot).
    pub congested: u32,
    /// How many messages the slot of a time has.
    pub slot_count: Option<SlotCount>,
}

pub type SlotCount = Box<dyn Fn(i64) -> u64 + Send + Sync>;

/// `timerCongestNumEachSlot` that no slot reaches: RocketMQ's default.
const NEVER: u32 = i32::MAX as u32;

/// For a broker that takes no timer messages.
#[cold]
pub(super) fn not_enabled() -> Refusal {
    let text = "accurate timer message is not enabled, timerWheelEnable is false";
    Refusal::new(codes::SYSTEM_ERROR, text)
}

impl TimerSends {
    /// TIMER_OUT_MS of a message that asks for a timer. None: its time is past, so it is an ordinary
    /// message; one that `ends_timer` has to come in time.
    pub(super) fn out_ms(
        &self,
        asked: Asked<'_>,
        ends_timer: bool,
        now: i64,
    ) -> Result<Option<i64>, Refusal> {
        let Some(deliver_ms) = deliver_time(asked, now) else {
            return Err(not_a_number(asked));
        };
        if deliver_ms <= now {
            return match ends_timer {
                true => Err(self.illegal()),
                false => Ok(None),
            };
        }
        if deliver_ms - now > self.max_delay_ms {
            return Err(self.illegal());
        }
        let out_ms = out_time(deliver_ms, self.precision_ms);
        self.check_congestion(out_ms)?;
        Ok(Some(out_ms))
    }

    /// Appends the handle with which a timer message can be recalled. There is none for a retry.
    /// [SendMessageProcessor.attachRecallHandle]
    pub(super) fn push_recall_handle(
        &self,
        out: &mut Vec<u8>,
        topic: &[u8],
        out_ms: i64,
        key: &[u8],
    ) {
        if !topic.starts_with(RETRY_PREFIX) {
            recall::push_handle(out, topic, self.broker_name.as_bytes(), out_ms, key);
        }
    }

    #[cold]
    fn illegal(&self) -> Refusal {
        Refusal::illegal(format!(
            "timer message illegal, the delay time should not be bigger than the max delay {}ms; or if \
             set del msg, the delay time should be bigger than the current time",
            self.max_delay_ms
        ))
    }

    /// Refuses messages for a slot that is full: all above twice the limit, below that some, the more
    /// the fuller it is. [TimerMessageStore.isReject]
    fn check_congestion(&self, out_ms: i64) -> Result<(), Refusal> {
        if self.congested >= NEVER {
            return Ok(());
        }
        let count = self.slot_count.as_ref().map_or(0, |count| count(out_ms));
        let most = self.congested as u64;
        if count <= most || count < 2 * most && (count - most) * 1000 <= most * chance_of_1000() {
            return Ok(());
        }
        let text = format!(
            "timer message is under flow control, max num limit is {} or the current value is greater \
             than {most} and less than {}, trigger random flow control",
            2 * most,
            2 * most
        );
        Err(Refusal::new(codes::SYSTEM_ERROR, text))
    }
}

#[cold]
fn not_a_number(asked: Asked<'_>) -> Refusal {
    let name = match asked.unit {
        Unit::DelaySeconds => "TIMER_DELAY_SEC",
        Unit::DelayMs => "TIMER_DELAY_MS",
        Unit::DeliverMs => "TIMER_DELIVER_MS",
    };
    let shown = String::from_utf8_lossy(&asked.value[..asked.value.len().min(32)]);
    Refusal::illegal(format!(
        "timer message illegal, property {name}={shown:?} is no number"
    ))
}

/// A number below 1000, each as often as the others.
fn chance_of_1000() -> u64 {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let n = COUNTER.fetch_add(1, Ordering::Relaxed);
    (((n.wrapping_mul(0x9E37_79B9) >> 16) as u64) * 1000) >> 16
}

/// When a message asks to be delivered. None: that is no number.
fn deliver_time(asked: Asked<'_>, now: i64) -> Option<i64> {
    let number = parse_i64(asked.value)?;
    Some(match asked.unit {
        Unit::DelaySeconds => number.saturating_mul(1000).saturating_add(now),
        Unit::DelayMs => number.saturating_add(now),
        Unit::DeliverMs => number,
    })
}

#[cfg(test)]
#[path = "timer_sends_tests.rs"]
mod tests;
