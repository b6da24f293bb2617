//! A consumer: one connection that pulls, from the start of its queues or from what comes.

use crate::answer::Answer;
use crate::clock;
use crate::config::{Kind, Role};
use crate::delivery::Deliveries;
use crate::frame::Value::{Int, Text};
use crate::frame::{GET_MAX_OFFSET, PULL_MESSAGE, Request};
use crate::plan::{Phase, Shared};
use crate::produce::{Desk, GREETING, greeting};
use crate::slots::Slots;
use crate::stats::{Fault, Of};

const FOUND: i32 = 0;
const NOT_FOUND: i32 = 19;
const RETRY_IMMEDIATELY: i32 = 20;
const OFFSET_MOVED: i32 = 21;

/// Stages of a request.
const ASKING: u8 = 0;
const PULLING: u8 = 1;

/// How long a pull waits at the broker, as clients have it.
const SUSPEND_MS: i64 = 15_000;
/// Before a pull that failed, or found nothing at once, is sent again.
const PAUSE: u64 = 100_000_000;
const SHORT_PAUSE: u64 = 10_000_000;

/// Where a pull goes on.
#[derive(Clone, Copy)]
struct Walk {
    /// Index of `targets`.
    queue: usize,
    offset: i64,
    /// Whether the offset is known.
    placed: bool,
    not_before: u64,
    /// Pulls in a row that brought nothing.
    barren: usize,
}

pub struct Consumer {
    id: u64,
    role: usize,
    /// Queues on its broker, as indexes of the role's targets.
    targets: Vec<u32>,
    walks: Vec<Walk>,
    /// Walks without a request under way.
    idle: Vec<usize>,
    deliveries: Deliveries,
}

impl Consumer {
    /// `targets`: a push consumer's own queues; those of a pull consumer may be others' as well.
    pub fn new(id: u64, role_index: usize, role: &Role, targets: Vec<u32>) -> Consumer {
        let many = match role.kind {
            Kind::Push => targets.len(),
            _ => role.in_flight,
        };
        let placed = role.kind == Kind::Pull || role.from_start;
        let walks: Vec<Walk> = (0..many)
            .map(|i| Walk {
                queue: (i + if role.kind == Kind::Pull {
                    id as usize
                } else {
                    0
                }) % targets.len().max(1),
                offset: 0,
                placed,
                not_before: 0,
                barren: 0,
            })
            .collect();
        Consumer {
            id,
            role: role_index,
            targets,
            idle: (0..walks.len()).collect(),
            walks,
            deliveries: Deliveries::default(),
        }
    }

    pub fn places(&self) -> usize {
        self.walks.len()
    }

    /// Queues whose offset is not known yet.
    pub fn unplaced(&self) -> u64 {
        self.walks.iter().filter(|w| !w.placed).count() as u64
    }

    pub fn greeting(&self, shared: &Shared, out: &mut Vec<u8>) {
        greeting(shared, None, 1 << 16 | self.id, GREETING, out);
    }

    /// Sends what may be sent; returns when the next is, if that is known.
    pub fn fill(&mut self, desk: &mut Desk, slots: &mut Slots, out: &mut Vec<u8>) -> Option<u64> {
        let role = &desk.shared.roles[self.role].role;
        let may_pull = match desk.shared.phase() {
            Phase::Connect | Phase::End => false,
            Phase::Run => !role.held,
            Phase::Drain => !role.held && role.kind == Kind::Push,
            Phase::ReadBack => role.kind == Kind::Push,
        };
        // Pulls are counted as sends are: none before the run begins.
        let begins = match (desk.shared.phase(), role.kind) {
            (Phase::Run, Kind::Pull) => desk.shared.start(),
            _ => 0,
        };
        let mut next = None;
        let mut rest = Vec::new();
        for index in std::mem::take(&mut self.idle) {
            let walk = self.walks[index];
            let not_before = walk.not_before.max(begins);
            if not_before > desk.now {
                next = Some(next.map_or(not_before, |n: u64| n.min(not_before)));
                rest.push(index);
            } else if !walk.placed {
                self.request(desk, slots, index, ASKING, out);
            } else if may_pull {
                self.request(desk, slots, index, PULLING, out);
            } else {
                rest.push(index);
            }
        }
        self.idle = rest;
        next
    }

    fn request(&self, desk: &Desk, slots: &mut Slots, index: usize, stage: u8, out: &mut Vec<u8>) {
        let shared = desk.shared;
        let role = &shared.roles[self.role].role;
        let walk = &self.walks[index];
        let target = &role.targets[self.targets[walk.queue] as usize];
        let opaque = slots.use_again(index);
        let slot = slots.get(index);
        let push = role.kind == Kind::Push;
        let mut timeout = clock::ns(shared.config.timeout);
        if push && stage == PULLING {
            timeout += SUSPEND_MS as u64 * 1_000_000;
        }
        (slot.stage, slot.from, slot.sent) = (stage, desk.now, desk.now);
        slot.deadline = desk.now.saturating_add(timeout);
        let binary = shared.config.binary;
        let signer = shared.config.credentials.as_ref();
        let (topic, queue) = (Text(&target.topic), Int(target.queue.into()));
        if stage == ASKING {
            let fields = [
                ("topic", topic),
                ("queueId", queue),
                ("committed", Text("true")),
            ];
            let (code, fields) = (GET_MAX_OFFSET, &fields);
            let flag = 0;
            Request {
                binary,
                code,
                flag,
                fields,
                signer,
            }
            .write(opaque, b"", out);
            return;
        }
        // 4: the subscription comes along, so no heartbeat is needed. 2: it may wait there.
        let (sys, suspend) = if push { (6, SUSPEND_MS) } else { (4, 0) };
        let fields = [
            ("consumerGroup", Text(&role.group)),
            ("topic", topic),
            ("queueId", queue),
            ("queueOffset", Int(walk.offset)),
            ("maxMsgNums", Int(role.max_msgs.into())),
            ("sysFlag", Int(sys)),
            ("commitOffset", Int(0)),
            ("suspendTimeoutMillis", Int(suspend)),
            ("subscription", Text(&role.subscription)),
            ("subVersion", Int(0)),
            ("expressionType", Text(&role.expression)),
            ("bname", Text(&target.broker)),
        ];
        let (code, fields) = (PULL_MESSAGE, &fields);
        let flag = 0;
        Request {
            binary,
            code,
            flag,
            fields,
            signer,
        }
        .write(opaque, b"", out);
    }

    /// The answer to the request in this slot.
    pub fn answer(&mut self, desk: &mut Desk, slots: &mut Slots, index: usize, answer: &Answer) {
        let slot = *slots.get(index);
        slots.end(index);
        self.idle.push(index);
        if slot.stage == ASKING {
            match (answer.code, answer.field("offset")) {
                (0, Some(offset)) => {
                    (self.walks[index].offset, self.walks[index].placed) = (offset, true);
                }
                _ => self.fault(desk, index, answer),
            }
            return;
        }
        let role = &desk.shared.roles[self.role].role;
        let push = role.kind == Kind::Push;
        let took = desk.now.saturating_sub(slot.sent);
        let walk = &mut self.walks[index];
        let next = answer.field("nextBeginOffset");
        match answer.code {
            FOUND => {
                let Some(next) = next.filter(|next| *next > walk.offset) else {
                    let text = || "a pull was answered without a next offset behind its own".into();
                    desk.stats.fault(Fault::Protocol, text);
                    walk.not_before = desk.now + PAUSE;
                    return;
                };
                let queue = self.targets[walk.queue];
                walk.offset = next;
                walk.barren = 0;
                if !push && answer.field("maxOffset").is_some_and(|end| next >= end) {
                    (walk.queue, walk.offset) = ((walk.queue + 1) % self.targets.len(), 0);
                }
                let counted =
                    (self.deliveries).records(desk, role, answer.body, |_, _| Some(queue.into()));
                if !push {
                    let measured = counted && desk.shared.measured(slot.from);
                    desk.stats.latency(Of::Request, took, measured);
                }
            }
            NOT_FOUND | RETRY_IMMEDIATELY | OFFSET_MOVED => {
                // 20 and 21 say where the queue goes on: the messages before were deleted, or not wanted.
                let moved =
                    answer.code != NOT_FOUND && next.is_some_and(|next| next != walk.offset);
                if moved {
                    walk.offset = next.unwrap_or(walk.offset);
                } else if push {
                    if took < SHORT_PAUSE {
                        walk.not_before = desk.now + SHORT_PAUSE;
                    }
                } else {
                    (walk.queue, walk.offset) = ((walk.queue + 1) % self.targets.len(), 0);
                    walk.barren += 1;
                    if walk.barren > 2 * self.targets.len() {
                        if !desk.shared.produces {
                            desk.shared.fail(
                                "the topics have no messages to pull: send some first".into(),
                            );
                        }
                        walk.not_before = desk.now + SHORT_PAUSE;
                    }
                }
            }
            _ => self.fault(desk, index, answer),
        }
    }

    fn fault(&mut self, desk: &mut Desk, index: usize, answer: &Answer) {
        self.walks[index].not_before = desk.now + PAUSE;
        if answer.code == 0 {
            desk.stats
                .fault(Fault::Protocol, || "no offset came".into());
        } else {
            desk.stats
                .fault(Fault::Code(answer.code), || answer.remark());
        }
    }

    /// The request in this slot has no answer any more.
    pub fn gave_up(
        &mut self,
        desk: &mut Desk,
        slots: &mut Slots,
        index: usize,
        fault: Fault,
        why: &str,
    ) {
        slots.end(index);
        self.idle.push(index);
        desk.stats.fault(fault, || why.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Stats;
    use crate::testing::{role, shared};

    #[test]
    fn nothing_is_pulled_before_the_run_begins() {
        let role = role(Kind::Pull);
        let mut consumer = Consumer::new(0, 0, &role, vec![0]);
        let shared = shared(role, 100);
        let (mut slots, mut stats) = (Slots::new(1), Stats::new());
        let mut fill = |now| {
            let mut desk = Desk {
                shared: &shared,
                stats: &mut stats,
                now,
            };
            let mut out = Vec::new();
            let next = consumer.fill(&mut desk, &mut slots, &mut out);
            (next, out.is_empty())
        };
        shared.set_times(1_000, 1_000, u64::MAX);
        shared.enter(Phase::Run);
        assert_eq!(fill(999), (Some(1_000), true));
        assert_eq!(fill(1_000), (None, false));
    }
}
