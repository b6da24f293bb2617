//! RocketMQ's response codes, as far as the engine answers by itself. [ResponseCode, RemotingSysResponseCode]

use pyrmq_store::Outcome;

pub const SUCCESS: i32 = 0;
pub const SYSTEM_ERROR: i32 = 1;
pub const SYSTEM_BUSY: i32 = 2;
pub const FLUSH_DISK_TIMEOUT: i32 = 10;
pub const SLAVE_NOT_AVAILABLE: i32 = 11;
pub const FLUSH_SLAVE_TIMEOUT: i32 = 12;
pub const MESSAGE_ILLEGAL: i32 = 13;
pub const SERVICE_NOT_AVAILABLE: i32 = 14;
pub const TOPIC_NOT_EXIST: i32 = 17;
pub const INVALID_PARAMETER: i32 = 29;

/// What a sender is answered, by what became of its record: the one place that says so.
/// None: the answer still waits. [SendMessageProcessor.handlePutMessageResult]
pub fn of_outcome(outcome: Outcome) -> Option<i32> {
    match outcome {
        Outcome::Pending => None,
        Outcome::Confirmed => Some(SUCCESS),
        Outcome::FlushTimedOut => Some(FLUSH_DISK_TIMEOUT),
        Outcome::ReplicationTimedOut => Some(FLUSH_SLAVE_TIMEOUT),
        Outcome::NoReplica => Some(SLAVE_NOT_AVAILABLE),
        Outcome::NotWritten | Outcome::Failed => Some(SERVICE_NOT_AVAILABLE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_code() {
        let table = [
            (Outcome::Pending, None),
            (Outcome::Confirmed, Some(0)),
            (Outcome::FlushTimedOut, Some(10)),
            (Outcome::NoReplica, Some(11)),
            (Outcome::ReplicationTimedOut, Some(12)),
            (Outcome::NotWritten, Some(14)),
            (Outcome::Failed, Some(14)),
        ];
        for (outcome, code) in table {
            assert_eq!(of_outcome(outcome), code, "{outcome:?}");
        }
    }
}
