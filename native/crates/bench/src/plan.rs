//! What all workers of a run share: what to send, the phase, the window, and the budget.

use crate::config::{Config, Kind, Role};
use crate::credentials::Credentials;
use crate::ledger::Ledger;
use crate::stamp;
use crate::template::{Entry, SendHeader};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

/// The phases, in their order; a run that fails goes to END at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Connections are opened, consumers ask where their queues end.
    Connect = 0,
    Run = 1,
    /// Producers send nothing new and wait for their answers; consumers go on.
    Drain = 2,
    /// Consumers that were held back read what was sent.
    ReadBack = 3,
    End = 4,
}

const PHASES: [Phase; 5] = [
    Phase::Connect,
    Phase::Run,
    Phase::Drain,
    Phase::ReadBack,
    Phase::End,
];

/// A role with what its messages look like.
pub struct RolePlan {
    pub role: Role,
    /// By target, then by tag.
    headers: Vec<SendHeader>,
    /// Of a batch: by tag.
    entries: Vec<Entry>,
    /// The weights of the tags, added up to 1.
    tags: Vec<f64>,
}

/// 2^64 / the golden ratio: its multiples spread evenly.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl RolePlan {
    fn new(role: &Role, binary: bool, signer: Option<&Credentials>) -> RolePlan {
        let names: Vec<Option<&str>> = if role.tags.is_empty() {
            vec![None]
        } else {
            role.tags
                .iter()
                .map(|(name, _)| Some(name.as_str()))
                .collect()
        };
        let (mut headers, mut entries) = (Vec::new(), Vec::new());
        if role.produces() {
            for target in &role.targets {
                headers.extend(
                    names
                        .iter()
                        .map(|tag| SendHeader::new(role, binary, signer, target, *tag)),
                );
            }
            if matches!(role.kind, Kind::Batch { .. }) {
                entries.extend(names.iter().map(|tag| Entry::new(role, *tag)));
            }
        }
        let all: f64 = role.tags.iter().map(|(_, weight)| weight).sum();
        let mut sum = 0.0;
        let tags = role.tags.iter().map(|(_, weight)| {
            sum += weight / all;
            sum
        });
        RolePlan {
            tags: tags.collect(),
            headers,
            entries,
            role: role.clone(),
        }
    }

    /// The tag of the n-th message: in any row of them by their weights.
    pub fn tag(&self, n: u64) -> usize {
        if self.tags.len() < 2 {
            return 0;
        }
        let place = n.wrapping_mul(SPREAD) as f64 / 2f64.powi(64);
        let last = self.tags.len() - 1;
        self.tags
            .iter()
            .position(|end| place < *end)
            .unwrap_or(last)
    }

    pub fn header(&self, target: u32, tag: usize) -> &SendHeader {
        &self.headers[target as usize * self.tags.len().max(1) + tag]
    }

    pub fn entry(&self, tag: usize) -> &Entry {
        &self.entries[tag]
    }
}

/// Whether all that is sent is received, once: each topic by one consumer that selects nothing.
fn followed(roles: &[Role]) -> bool {
    let topics = |role: &'_ Role| -> FxHashSet<String> {
        role.targets.iter().map(|t| t.topic.clone()).collect()
    };
    let mut received: FxHashMap<String, usize> = FxHashMap::default();
    for role in roles.iter().filter(|role| role.kind.follows()) {
        for topic in topics(role) {
            *received.entry(topic).or_default() += if role.subscription == "*" { 1 } else { 2 };
        }
    }
    let mut sent = roles.iter().filter(|role| role.produces()).map(topics);
    sent.all(|topics| topics.iter().all(|topic| received.get(topic) == Some(&1)))
}

pub struct Shared {
    pub config: Config,
    pub roles: Vec<RolePlan>,
    pub run: stamp::Run,
    pub ledger: Option<Ledger>,
    /// How long messages are delayed on purpose, ns.
    pub delay: Option<u64>,
    pub produces: bool,
    /// Whether all that is sent is received, once.
    pub followed: bool,
    phase: AtomicU8,
    start: AtomicU64,
    window: [AtomicU64; 2],
    budget: AtomicI64,
    fatal: Mutex<Option<String>>,
}

impl Shared {
    /// `oneway`: of each producer, whether it is.
    pub fn new(config: Config, oneway: Vec<bool>) -> Shared {
        let roles = config.roles.iter();
        let delays = roles.clone().find_map(|role| role.kind.delay_ms());
        let consumed = roles.clone().any(|role| role.kind.follows());
        let produces = roles.clone().any(Role::produces);
        Shared {
            roles: roles
                .map(|role| RolePlan::new(role, config.binary, config.credentials.as_ref()))
                .collect(),
            run: stamp::Run::new(),
            ledger: config.verify.then(|| Ledger::new(oneway, consumed)),
            delay: delays.map(|ms| ms.saturating_mul(1_000_000)),
            produces,
            followed: followed(&config.roles),
            phase: AtomicU8::new(Phase::Connect as u8),
            start: AtomicU64::new(u64::MAX),
            window: [AtomicU64::new(u64::MAX), AtomicU64::new(u64::MAX)],
            budget: AtomicI64::new(match config.count {
                Some(count) => i64::try_from(count).unwrap_or(i64::MAX),
                None => i64::MAX,
            }),
            fatal: Mutex::new(None),
            config,
        }
    }

    pub fn phase(&self) -> Phase {
        PHASES[self.phase.load(Ordering::Acquire) as usize]
    }

    /// Never back.
    pub fn enter(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
    }

    /// When producers begin.
    pub fn start(&self) -> u64 {
        self.start.load(Ordering::Acquire)
    }

    pub fn set_times(&self, start: u64, opens: u64, closes: u64) {
        self.window[0].store(opens, Ordering::Release);
        self.window[1].store(closes, Ordering::Release);
        self.start.store(start, Ordering::Release);
    }

    pub fn close_window(&self, at: u64) {
        self.window[1].fetch_min(at, Ordering::AcqRel);
    }

    pub fn opens(&self) -> u64 {
        self.window[0].load(Ordering::Acquire)
    }

    pub fn closes(&self) -> u64 {
        self.window[1].load(Ordering::Acquire)
    }

    pub fn measured(&self, at: u64) -> bool {
        at >= self.opens() && at < self.closes()
    }

    /// Takes `messages` of those that may be sent, or received where nobody sends; `false` when there
    /// are none left.
    pub fn take(&self, messages: u32) -> bool {
        if self.budget.load(Ordering::Relaxed) == i64::MAX {
            return true;
        }
        self.budget.fetch_sub(messages.into(), Ordering::Relaxed) > 0
    }

    /// The run cannot go on.
    pub fn fail(&self, why: String) {
        self.fatal.lock().get_or_insert(why);
    }

    pub fn failure(&self) -> Option<String> {
        self.fatal.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::role;

    #[test]
    fn what_is_followed_is_received_once() {
        let (sends, mut reads) = (role(Kind::Send), role(Kind::Push));
        let of = |roles: &[&Role]| followed(&roles.iter().copied().cloned().collect::<Vec<_>>());
        assert!(of(&[&sends, &reads]));
        assert!(!of(&[&sends]) && !of(&[&sends, &reads, &reads]));
        let mut others = sends.clone();
        others.targets[0].topic = "U".into();
        assert!(!of(&[&sends, &others, &reads]));
        assert!(!of(&[&sends, &role(Kind::Pull)]));
        reads.subscription = "A".into();
        assert!(!of(&[&sends, &reads]));
    }

    #[test]
    fn tags_come_by_their_weights() {
        let mut role = role(Kind::Send);
        role.tags = vec![("A".into(), 6.0), ("B".into(), 3.0), ("C".into(), 1.0)];
        let plan = RolePlan::new(&role, false, None);
        let mut counts = [0; 3];
        (0..1000).for_each(|n| counts[plan.tag(n)] += 1);
        for (count, want) in counts.into_iter().zip([600i32, 300, 100]) {
            assert!((count - want).abs() <= 5, "{counts:?}");
        }
    }
}
