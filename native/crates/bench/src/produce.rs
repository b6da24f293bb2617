//! A producer: one connection that sends, in an open or a closed loop.

use crate::answer::Answer;
use crate::clock;
use crate::config::{Kind, Role};
use crate::conn::Conn;
use crate::credentials::Unsigned;
use crate::frame::Value::{Int, Text};
use crate::frame::{END_TRANSACTION, FIRST_OPAQUE, HEART_BEAT, ONEWAY, Request};
use crate::plan::{Phase, Shared};
use crate::schedule::Schedule;
use crate::slots::{Slot, Slots};
use crate::stamp::Stamp;
use crate::stats::{Fault, Of, Stats};
use crate::template::Own;
use pyrmq_format::push_int;

/// Stages of a request.
const SENT: u8 = 0;
/// END_TRANSACTION is under way.
const ENDING: u8 = 1;
/// A request behind one-way ones: its answer says that the broker has read them all.
const BARRIER: u8 = 2;

/// Opaque of heartbeats that nobody waits for; below those of windows.
pub const GREETING: i32 = FIRST_OPAQUE - 1;
/// One-way requests at once, before other connections have their turn.
const BURST: usize = 64;
/// Requests that were never sent are counted in so many groups at most.
const MOST_GROUPS: u64 = 4096;

/// What a producer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// An answer, or that the socket takes more.
    Answer,
    /// The next request is due then.
    Due(u64),
    /// Nothing: it may go on once others had their turn.
    Turn,
    /// It has sent all it will.
    Done,
}

/// Which of a role's connections one is.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Of all of the role.
    pub index: usize,
    /// Its part of the role's rate.
    pub share: f64,
    /// When its first request is due: this part of the time between two of its own.
    pub shift: f64,
}

impl Place {
    /// As clients go round all queues, a broker gets its part of the rate by its queues, however
    /// connections divide. Brokers, and the connections to each, take turns. `brokers`: how many,
    /// and which of the connections to its broker this is, of how many; `queues`: the broker's, and
    /// those of all.
    pub fn of(index: usize, brokers: (usize, usize, usize), queues: (usize, usize)) -> Place {
        let (brokers, own, many) = brokers;
        let turn = (index % brokers) as f64 / brokers as f64;
        Place {
            index,
            share: queues.0 as f64 / queues.1 as f64 / many as f64,
            shift: (own as f64 + turn) / many as f64,
        }
    }
}

pub struct Producer {
    id: u16,
    role: usize,
    schedule: Option<Schedule>,
    place: Place,
    sequence: u64,
    turn: u64,
    /// Queues on its broker, as indexes of the role's targets.
    targets: Vec<u32>,
    barrier: bool,
    pub done: bool,
    /// Of the requests that are being made.
    unsigned: Unsigned,
}

/// What the handling of a connection needs besides it.
pub struct Desk<'a> {
    pub shared: &'a Shared,
    pub stats: &'a mut Stats,
    pub now: u64,
}

fn messages_of(role: &Role) -> u32 {
    match role.kind {
        Kind::Batch { messages } => messages,
        _ => 1,
    }
}

impl Producer {
    pub fn new(id: u16, role: usize, place: Place, targets: Vec<u32>) -> Producer {
        Producer {
            id,
            role,
            schedule: None,
            place,
            sequence: 0,
            // So that connections do not all begin with the same queue.
            turn: place.index as u64,
            targets,
            barrier: false,
            done: false,
            unsigned: Unsigned::default(),
        }
    }

    /// Requests that are due and not sent.
    pub fn behind(&self, now: u64) -> u64 {
        let behind = self.schedule.as_ref().map_or(0, |s| s.behind(now));
        if self.done { 0 } else { behind }
    }

    /// What a client says to a broker first, and then every 30 s.
    pub fn greeting(&self, shared: &Shared, out: &mut Vec<u8>) {
        greeting(
            shared,
            Some(&shared.roles[self.role].role.group),
            self.id.into(),
            GREETING,
            out,
        );
    }

    /// Sends what may be sent. `timer`: the time has come, and no answer.
    pub fn fill(
        &mut self,
        desk: &mut Desk,
        slots: &mut Slots,
        conn: &mut Conn,
        timer: bool,
    ) -> Next {
        let next = self.make(desk, slots, conn, timer);
        if let Some(signer) = &desk.shared.config.credentials {
            self.unsigned.sign(signer, &mut conn.output);
        }
        next
    }

    /// The same, but for signatures.
    fn make(&mut self, desk: &mut Desk, slots: &mut Slots, conn: &mut Conn, timer: bool) -> Next {
        let shared = desk.shared;
        let plan = &shared.roles[self.role];
        let oneway = plan.role.kind == Kind::Oneway;
        match shared.phase() {
            Phase::Connect => return Next::Answer,
            Phase::Run if !self.done => {}
            _ => {
                self.close(desk);
                if plan.role.kind.unanswered() && !self.barrier && self.sequence > 0 {
                    self.set_barrier(desk, slots, conn);
                }
                return Next::Done;
            }
        }
        if let (Some(rate), None) = (plan.role.rate, &self.schedule) {
            let requests = rate / f64::from(messages_of(&plan.role));
            let Place { share, shift, .. } = self.place;
            self.schedule = Some(Schedule::new(shared.start(), requests * share, shift));
        }
        for _ in 0..BURST {
            let due = self.schedule.as_ref().map(Schedule::due);
            // A closed loop begins when the run does, not when this thread hears of it: what it sent
            // before would be of no window and of no count.
            let from = due.unwrap_or(desk.now.max(shared.start()));
            if from >= shared.closes() {
                return self.end(desk, slots, conn);
            }
            if from > desk.now {
                return Next::Due(from);
            }
            if !conn.has_room() || !(oneway || slots.any_free()) {
                return Next::Answer;
            }
            let messages = messages_of(&plan.role);
            if from >= shared.opens() && !shared.take(messages) {
                return self.end(desk, slots, conn);
            }
            if let Some(schedule) = &mut self.schedule {
                schedule.advance();
                if timer && shared.measured(from) {
                    let late = clock::now().saturating_sub(from);
                    desk.stats.lateness.saturating_record(late);
                }
            }
            self.send(desk, slots, conn, from, messages);
        }
        Next::Turn
    }

    /// The window has closed. What was due in it and never sent counts with the time it waited until
    /// then: without it the percentiles would lack the slowest. A connection that is not open has it
    /// too.
    pub fn close(&mut self, desk: &mut Desk) {
        if std::mem::replace(&mut self.done, true) {
            return;
        }
        let oneway = desk.shared.roles[self.role].role.kind == Kind::Oneway;
        if let (Some(schedule), false) = (&self.schedule, oneway) {
            let (opens, closes) = (desk.shared.opens(), desk.shared.closes());
            for (waited, many) in schedule.unsent(opens, closes, MOST_GROUPS) {
                desk.stats.latencies(Of::Request, waited, many, true);
            }
        }
    }

    fn end(&mut self, desk: &mut Desk, slots: &mut Slots, conn: &mut Conn) -> Next {
        self.done = true;
        if desk.shared.roles[self.role].role.kind.unanswered() {
            self.set_barrier(desk, slots, conn);
        }
        Next::Done
    }

    fn set_barrier(&mut self, desk: &mut Desk, slots: &mut Slots, conn: &mut Conn) {
        self.barrier = true;
        if let Some((index, opaque)) = slots.take() {
            self.barrier_in(desk, slots, (index, opaque), &mut conn.output);
        }
    }

    fn barrier_in(
        &self,
        desk: &Desk,
        slots: &mut Slots,
        (index, opaque): (usize, i32),
        out: &mut Vec<u8>,
    ) {
        let slot = slots.get(index);
        (slot.stage, slot.messages, slot.bytes) = (BARRIER, 0, 0);
        (slot.from, slot.sent) = (desk.now, desk.now);
        slot.deadline = desk.now + clock::ns(desk.shared.config.timeout);
        let group = &desk.shared.roles[self.role].role.group;
        greeting(desk.shared, Some(group), self.id.into(), opaque, out);
    }

    fn own(&self, desk: &Desk, role: &Role, sequence: u64, from: u64) -> Own {
        Own {
            stamp: Stamp::new(desk.shared.run, self.id, sequence, from),
            keys: if role.keys > 0 {
                sequence % role.keys
            } else {
                0
            },
        }
    }

    fn send(&mut self, desk: &mut Desk, slots: &mut Slots, conn: &mut Conn, from: u64, many: u32) {
        let plan = &desk.shared.roles[self.role];
        let role = &plan.role;
        let turn = self.turn;
        self.turn += 1;
        let target = self.targets[(turn % self.targets.len() as u64) as usize];
        let (mut index, mut opaque) = (usize::MAX, FIRST_OPAQUE);
        if role.kind != Kind::Oneway {
            match slots.take() {
                Some(taken) => (index, opaque) = taken,
                None => return,
            }
        }
        let first = self.sequence;
        let own = self.own(desk, role, first, from);
        let born = clock::wall_ms();
        let payload = |n: u64| &role.payloads[(n % role.payloads.len() as u64) as usize];
        let out = &mut conn.output;
        let mut bytes = 0;
        let begin = out.len();
        let header;
        if let Kind::Batch { messages } = role.kind {
            // A batch is of one topic; each of its messages may have a tag of its own.
            let places = (first..first + u64::from(messages))
                .map(|n| (n, plan.entry(plan.tag(n)), payload(n)));
            let length = places
                .clone()
                .map(|(_, entry, body)| entry.len(body.len()))
                .sum();
            header = plan.header(target, 0);
            header.write(opaque, &own, born, length, out);
            for (n, entry, body) in places {
                entry.write(&self.own(desk, role, n, from), body, out);
                bytes += body.len();
            }
        } else {
            let body = payload(turn);
            bytes = body.len();
            header = plan.header(target, plan.tag(first));
            header.write(opaque, &own, born, bytes, out);
            out.extend_from_slice(body);
        }
        header.sign(&own, born, (begin, out.len()), &mut self.unsigned);
        self.sequence += u64::from(many);
        if let Some(ledger) = &desk.shared.ledger {
            (first..self.sequence).for_each(|n| ledger.sent(self.id, n));
        }
        desk.stats.whole.sent += u64::from(many);
        if index == usize::MAX {
            self.counted(desk, from, many.into(), bytes as u64);
            return;
        }
        let slot = slots.get(index);
        (slot.stage, slot.from, slot.sent) = (SENT, from, desk.now);
        slot.deadline = desk.now + clock::ns(desk.shared.config.timeout);
        (slot.first, slot.messages) = (first, many);
        (slot.bytes, slot.target) = (bytes as u32, target);
    }

    /// These messages are done.
    fn counted(&self, desk: &mut Desk, from: u64, messages: u64, bytes: u64) {
        desk.stats.whole.acknowledged += messages;
        desk.stats.now.produced += messages;
        // A closed loop is as fast as its answers come: those in the window count, whenever their
        // requests were sent. Otherwise a slow broker would lose all that is under way.
        let shared = desk.shared;
        let closed = self.schedule.is_none() && shared.config.count.is_none();
        let since = if closed { desk.now } else { from };
        if shared.measured(since) && desk.now < shared.closes() {
            desk.stats.produced.add(messages, bytes);
            desk.stats.last = desk.now;
        }
    }

    /// The answer to the request in this slot.
    pub fn answer(
        &mut self,
        desk: &mut Desk,
        slots: &mut Slots,
        index: usize,
        answer: &Answer,
        out: &mut Vec<u8>,
    ) {
        let shared = desk.shared;
        let slot = *slots.get(index);
        if slot.stage == BARRIER {
            slots.release(index);
            return;
        }
        let measured = shared.measured(slot.from);
        let stage = slot.stage;
        let since = if stage == ENDING {
            slot.sent
        } else {
            slot.from
        };
        let of = match stage {
            _ if answer.code != 0 && !stored(answer.code) => Of::Refused,
            ENDING => Of::Commit,
            _ => Of::Request,
        };
        let took = desk.now.saturating_sub(since);
        desk.stats.latency(of, took, measured);
        if answer.code != 0 {
            slots.release(index);
            self.refused(desk, slot.first, slot.messages, answer, stage);
            return;
        }
        let kind = shared.roles[self.role].role.kind;
        if let (Kind::Transaction { oneway }, SENT) = (kind, stage) {
            let Some(half) = Half::read(answer) else {
                slots.release(index);
                desk.stats.whole.failed += 1;
                let text = || "a half was answered without msgId or queueOffset".into();
                desk.stats.fault(Fault::Protocol, text);
                return;
            };
            let opaque = slots.use_again(index);
            let slot = slots.get(index);
            (slot.stage, slot.sent) = (ENDING, desk.now);
            slot.deadline = desk.now + clock::ns(shared.config.timeout);
            let slot = *slot;
            let stamp = Stamp::new(shared.run, self.id, slot.first, slot.from);
            self.commit(desk, &half, slot.target, &stamp, opaque, out);
            if oneway {
                self.acknowledged(desk, &slot);
                if self.done {
                    // The one that was set is before this end.
                    let opaque = slots.use_again(index);
                    self.barrier_in(desk, slots, (index, opaque), out);
                } else {
                    slots.release(index);
                }
            }
            return;
        }
        slots.release(index);
        self.acknowledged(desk, &slot);
    }

    fn acknowledged(&self, desk: &mut Desk, slot: &Slot) {
        if let Some(ledger) = &desk.shared.ledger {
            let end = slot.first + u64::from(slot.messages);
            (slot.first..end).for_each(|n| ledger.acknowledged(self.id, n));
        }
        self.counted(desk, slot.from, slot.messages.into(), slot.bytes.into());
    }

    fn refused(&self, desk: &mut Desk, first: u64, messages: u32, answer: &Answer, stage: u8) {
        desk.stats.whole.failed += u64::from(messages);
        desk.stats
            .fault(Fault::Code(answer.code), || answer.remark());
        let stored = stored(answer.code) || stage == ENDING;
        if let (Some(ledger), false) = (&desk.shared.ledger, stored) {
            let end = first + u64::from(messages);
            (first..end).for_each(|n| ledger.refused(self.id, n));
        }
    }

    fn commit(
        &self,
        desk: &Desk,
        half: &Half,
        target: u32,
        stamp: &Stamp,
        opaque: i32,
        out: &mut Vec<u8>,
    ) {
        const COMMIT: i64 = 8;
        let role = &desk.shared.roles[self.role].role;
        let target = &role.targets[target as usize];
        let key = stamp.text();
        let key = std::str::from_utf8(&key).unwrap_or_default();
        let fields = [
            ("topic", Text(&target.topic)),
            ("producerGroup", Text(&role.group)),
            ("tranStateTableOffset", Int(half.queue_offset)),
            ("commitLogOffset", Int(half.log_offset)),
            ("commitOrRollback", Int(COMMIT)),
            ("fromTransactionCheck", Text("false")),
            ("msgId", Text(key)),
            ("transactionId", Text(key)),
            ("bname", Text(&target.broker)),
        ];
        let request = Request {
            binary: desk.shared.config.binary,
            code: END_TRANSACTION,
            flag: if role.kind.unanswered() { ONEWAY } else { 0 },
            fields: &fields,
            signer: desk.shared.config.credentials.as_ref(),
        };
        request.write(opaque, b"", out);
    }

    /// The request in this slot has no answer any more: its messages may be stored or not.
    pub fn gave_up(
        &mut self,
        desk: &mut Desk,
        slots: &mut Slots,
        index: usize,
        fault: Fault,
        why: &str,
    ) {
        let slot = *slots.get(index);
        slots.release(index);
        if fault == Fault::Timeout && slot.stage != BARRIER {
            // It took at least so long: without it the percentiles would lack the slowest.
            let (since, of) = match slot.stage {
                ENDING => (slot.sent, Of::Commit),
                _ => (slot.from, Of::Request),
            };
            let measured = desk.shared.measured(slot.from);
            let took = desk.now.saturating_sub(since);
            desk.stats.latency(of, took, measured);
        }
        desk.stats.whole.failed += u64::from(slot.messages);
        desk.stats.fault(fault, || why.to_string());
    }
}

/// FLUSH_DISK_TIMEOUT, SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT: stored, and perhaps not safe.
fn stored(code: i32) -> bool {
    matches!(code, 10..=12)
}

/// A half that was acknowledged.
struct Half {
    queue_offset: i64,
    log_offset: i64,
}

impl Half {
    /// msgId is host and physical offset, in hex digits.
    fn read(answer: &Answer) -> Option<Half> {
        let id = answer.text("msgId")?;
        let digits = std::str::from_utf8(id.get(id.len().checked_sub(16)?..)?).ok()?;
        Some(Half {
            queue_offset: answer.field("queueOffset")?,
            log_offset: i64::from_str_radix(digits, 16).ok()?,
        })
    }
}

/// A HEART_BEAT of a client with this producer group, or with none.
pub fn greeting(shared: &Shared, group: Option<&str>, id: u64, opaque: i32, out: &mut Vec<u8>) {
    let mut body = b"{\"clientID\":\"127.0.0.1@pyrmq-bench-".to_vec();
    push_int(&mut body, shared.run.run.into());
    body.push(b'-');
    push_int(&mut body, id as i64);
    body.extend_from_slice(
        b"\",\"consumerDataSet\":[],\"heartbeatFingerprint\":0,\"producerDataSet\":[",
    );
    if let Some(group) = group {
        body.extend_from_slice(b"{\"groupName\":");
        crate::frame::quote(group, &mut body);
        body.push(b'}');
    }
    body.extend_from_slice(b"],\"withoutSub\":false}");
    let request = Request {
        binary: shared.config.binary,
        code: HEART_BEAT,
        flag: 0,
        fields: &[],
        signer: shared.config.credentials.as_ref(),
    };
    request.write(opaque, &body, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{role, shared};

    #[test]
    fn nothing_is_sent_before_the_run_begins() {
        let shared = shared(role(Kind::Send), 3);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut conn = Conn::begin(listener.local_addr().unwrap(), None).unwrap();
        let place = Place::of(0, (1, 0, 1), (1, 1));
        let mut producer = Producer::new(0, 0, place, vec![0]);
        let (mut slots, mut stats) = (Slots::new(8), Stats::new());
        let mut fill = |now| {
            let mut desk = Desk {
                shared: &shared,
                stats: &mut stats,
                now,
            };
            let next = producer.fill(&mut desk, &mut slots, &mut conn, false);
            (next, stats.whole.sent)
        };
        // This thread has heard that the run begins, and an answer to a greeting wakes it up.
        shared.set_times(1_000, 1_000, u64::MAX);
        shared.enter(Phase::Run);
        assert_eq!(fill(999), (Next::Due(1_000), 0));
        assert_eq!(fill(1_000), (Next::Done, 3));
    }

    #[test]
    fn brokers_get_the_rate_by_their_queues() {
        // Three connections to two brokers: 0 and 2 to the first, which has 6 of 8 queues.
        let places = [(0, (2, 0, 2)), (1, (2, 0, 1)), (2, (2, 1, 2))];
        let queues = [(6, 8), (2, 8), (6, 8)];
        let all: Vec<Place> = (places.into_iter().zip(queues))
            .map(|((index, brokers), queues)| Place::of(index, brokers, queues))
            .collect();
        assert_eq!(all[0].share + all[2].share, 0.75);
        assert_eq!(all[1].share, 0.25);
        let shifts: Vec<f64> = all.iter().map(|p| p.shift).collect();
        assert_eq!(shifts, [0.0, 0.5, 0.5]);
    }
}
