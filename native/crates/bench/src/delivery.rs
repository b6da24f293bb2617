//! Records that a broker delivered: counted, checked against the ledger, and timed.

use crate::config::Role;
use crate::ledger::Delivery;
use crate::produce::Desk;
use crate::stamp::Stamp;
use crate::stats::{Fault, Of};
use pyrmq_format::properties;
use pyrmq_format::record::{self, Found, View};
use rustc_hash::FxHashMap;

/// A delayed message that comes earlier than that before its time was not delayed: brokers count in
/// ms, by a clock that is set right now and then.
const EARLY: u64 = 20_000_000;

/// What one connection received.
#[derive(Default)]
pub struct Deliveries {
    /// The highest sequence number from a queue and producer.
    order: FxHashMap<(u64, u16), u64>,
}

impl Deliveries {
    /// Counts the records of an answer; whether they are of the window: behind the last of a count they are
    /// not. `queue` says for a record which queue its order counts in, or
    /// `None` where there is no order.
    pub fn records(
        &mut self,
        desk: &mut Desk,
        role: &Role,
        body: &[u8],
        mut queue: impl FnMut(&[u8], &View) -> Option<u64>,
    ) -> bool {
        let check = desk.shared.config.verify;
        // Where the run sends, only what it sent counts: others may use the topic.
        let all = !desk.shared.produces;
        let (mut rest, mut messages, mut bytes) = (body, 0, 0);
        while !rest.is_empty() {
            let Found::Record(view) = record::read(rest, check) else {
                let text = || "an answer brought a record that is damaged".into();
                desk.stats.fault(Fault::Protocol, text);
                break;
            };
            let (one, others) = rest.split_at(view.total);
            rest = others;
            let queue = queue(one, &view);
            let bytes_of_body = view.body.len() as u64;
            let stamp = stamp_of(&one[view.props]).filter(|s| s.run.boot == desk.shared.run.boot);
            let own = stamp.as_ref().is_some_and(|s| s.run == desk.shared.run);
            if own || all {
                messages += 1;
                bytes += bytes_of_body;
            }
            desk.stats.whole.foreign += u64::from(!own);
            if let Some(stamp) = stamp.filter(|_| own || all) {
                self.stamped(desk, role, queue, &stamp, own);
            }
        }
        desk.stats.now.consumed += messages;
        let shared = desk.shared;
        let counted = shared.measured(desk.now) && (!all || shared.take(messages as u32));
        if counted {
            desk.stats.consumed.add(messages, bytes);
            desk.stats.last = desk.now;
        }
        counted
    }

    /// `own`: it is of this run.
    fn stamped(
        &mut self,
        desk: &mut Desk,
        role: &Role,
        queue: Option<u64>,
        stamp: &Stamp,
        own: bool,
    ) {
        let mut first = true;
        if own {
            desk.stats.whole.received += 1;
            if let Some(ledger) = &desk.shared.ledger {
                match ledger.received(stamp.producer, stamp.sequence) {
                    Delivery::First => {
                        if let Some(queue) = queue {
                            let last = self
                                .order
                                .entry((queue, stamp.producer))
                                .or_insert(stamp.sequence);
                            if *last > stamp.sequence {
                                desk.stats.whole.out_of_order += 1;
                            }
                            *last = stamp.sequence.max(*last);
                        }
                    }
                    Delivery::Again => first = false,
                    Delivery::NeverSent => {
                        desk.stats.whole.foreign += 1;
                        return;
                    }
                }
            }
        }
        if !role.kind.follows() || role.held || !first {
            return; // read later than it came
        }
        // A stamp has whole µs: rounded up again, so that the first message of a window is in it.
        if let Some(age) = stamp.age(desk.now) {
            let measured = desk.shared.measured(desk.now.saturating_sub(age) + 999);
            match desk.shared.delay {
                Some(delay) => {
                    desk.stats.whole.early += u64::from(age + EARLY < delay);
                    desk.stats
                        .latency(Of::Late, age.saturating_sub(delay), measured);
                }
                None => desk.stats.latency(Of::EndToEnd, age, measured),
            }
        }
    }
}

/// Who sent a message, by its properties. Of a batch Apache RocketMQ's broker appends the properties of
/// the batch to those of each message, a UNIQ_KEY among them: the first is the message's own.
fn stamp_of(text: &[u8]) -> Option<Stamp> {
    let mut pairs = properties::pairs(text);
    let (_, key) = pairs.find(|(name, _)| *name == b"UNIQ_KEY")?;
    Stamp::read(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Run;

    #[test]
    fn the_key_of_a_message_stands_before_that_of_its_batch() {
        let run = Run::new();
        let (own, batch) = (Stamp::new(run, 1, 2, 3_000), Stamp::new(run, 1, 0, 3_000));
        let mut text = Vec::new();
        properties::push(&mut text, b"TAGS", b"A");
        properties::push(&mut text, b"UNIQ_KEY", &own.text());
        properties::push(&mut text, b"WAIT", b"true");
        properties::push(&mut text, b"UNIQ_KEY", &batch.text());
        assert_eq!(stamp_of(&text), Some(own));
        assert_eq!(stamp_of(b"UNIQ_KEY\x01AC11\x02"), None);
        assert_eq!(stamp_of(b""), None);
    }
}
