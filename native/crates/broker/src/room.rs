//! Room for what later steps add to a message, checked when it is sent: what is acknowledged can be
//! pulled by every client, come back to its group, and become a dead letter.
//!
//! A record's properties have 32767 bytes at most, and a frame 16 MiB. A message that fills either to the
//! brim could be stored, and then neither returned nor read.

use super::request::Refusal;
use pyrmq_format::MAX_FRAME;
use pyrmq_format::properties;

/// Bytes of properties that are kept for later steps. The longest of each, with names and separators:
/// RETRY_TOPIC, ORIGIN_MESSAGE_ID, DELAY, REAL_TOPIC, REAL_QID and RECONSUME_TIME of a retry,
/// DLQ_ORIGIN_TOPIC and DLQ_ORIGIN_MESSAGE_ID of Apache's dead letters, a half's
/// TRANSACTION_CHECK_TIMES and TRAN_PREPARED_QUEUE_OFFSET, and TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS and
/// TIMER_ROLL_TIMES of a timer message.
pub const FOR_LATER_STEPS: usize = 1024;

/// Most bytes of properties of a message that is sent, with those that the broker adds at once.
pub const MAX_PROPERTIES: usize = properties::MAX_LEN - FOR_LATER_STEPS;

/// Most bytes of a message's record. An answer that holds it has to fit into a frame with its own header,
/// and so does its retry, whose topic and properties are longer.
pub const MAX_RECORD: usize = MAX_FRAME - (64 << 10);

/// A record's bytes beside body and properties are fewer: fixed fields, addresses, topic.
const FRAME_OF_RECORD: usize = 512;

/// Refuses a message for which some later step would have no room. `properties`: bytes as they are
/// stored.
#[inline]
pub(super) fn check(body: usize, properties: usize) -> Result<(), Refusal> {
    if properties > MAX_PROPERTIES {
        return Err(too_many_properties(properties));
    }
    if body + properties + FRAME_OF_RECORD > MAX_RECORD {
        return Err(too_large(body, properties));
    }
    Ok(())
}

#[cold]
fn too_many_properties(properties: usize) -> Refusal {
    Refusal::illegal(format!(
        "message properties length {properties} over max value {MAX_PROPERTIES}: a record holds {}, of \
         which {FOR_LATER_STEPS} are kept for what retries, dead letters and transactions add",
        properties::MAX_LEN
    ))
}

#[cold]
fn too_large(body: usize, properties: usize) -> Refusal {
    Refusal::illegal(format!(
        "a message with a body of {body} bytes and properties of {properties} bytes cannot be pulled: \
         together they may have {} bytes, as an answer must fit into a frame of {MAX_FRAME} bytes",
        MAX_RECORD - FRAME_OF_RECORD
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pyrmq_format::names;

    /// Length of a property whose value has `len` bytes.
    fn pair(name: &str, len: usize) -> usize {
        name.len() + 1 + len + 1
    }

    #[test]
    fn the_longest_of_what_later_steps_add_fits() {
        let (topic, number, id) = (names::MAX_TOPIC, 11, 2 * (16 + 4 + 8));
        let retry = [
            pair("RETRY_TOPIC", topic),
            pair("ORIGIN_MESSAGE_ID", id),
            pair("DELAY", number),
            pair("REAL_TOPIC", 255), // %RETRY% and a group
            pair("REAL_QID", number),
            pair("RECONSUME_TIME", number),
            pair("MAX_RECONSUME_TIMES", number),
        ];
        let dead = [
            pair("DLQ_ORIGIN_TOPIC", topic),
            pair("DLQ_ORIGIN_MESSAGE_ID", id),
        ];
        let half = [
            pair("TRANSACTION_CHECK_TIMES", 5),
            pair("TRAN_PREPARED_QUEUE_OFFSET", 20),
        ];
        let timer = [
            pair("TIMER_ENQUEUE_MS", 20),
            pair("TIMER_DEQUEUE_MS", 20),
            pair("TIMER_ROLL_TIMES", number),
        ];
        let all = retry.iter().chain(&dead).chain(&half).chain(&timer);
        let added: usize = all.sum();
        assert!(added <= FOR_LATER_STEPS, "{added}");
        let head = 91 + 2 * 12; // fixed fields, and what two IPv6 addresses have more
        assert!(head + 255 <= FRAME_OF_RECORD);
    }

    #[test]
    fn the_limits_are_in_the_texts() {
        check(4 << 20, MAX_PROPERTIES).unwrap();
        let text = check(1, MAX_PROPERTIES + 1).unwrap_err().text;
        assert!(text.contains("31744 over max value 31743"), "{text}");
        check(MAX_RECORD - FRAME_OF_RECORD - 10, 10).unwrap();
        let text = check(MAX_RECORD, 10).unwrap_err().text;
        assert!(text.contains("may have 16711168 bytes"), "{text}");
    }
}
