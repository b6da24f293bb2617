//! What a run does.

use crate::credentials::Credentials;
use pyrmq_tls::{ClientConfig, ServerName};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// A queue on a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub topic: String,
    /// Name of the broker, as requests name it.
    pub broker: String,
    pub addr: SocketAddr,
    pub queue: u32,
}

/// What the connections of a role do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SEND_MESSAGE_V2.
    Send,
    /// SEND_BATCH_MESSAGE, so many messages a request.
    Batch { messages: u32 },
    /// SEND_MESSAGE_V2 without an answer.
    Oneway,
    /// A half, and on its answer END_TRANSACTION that commits it. `oneway`: as clients send it, without
    /// an answer; else its answer is waited for.
    Transaction { oneway: bool },
    /// SEND_MESSAGE_V2 with a delay level, whose messages are due after `ms`.
    Delay { level: u32, ms: u64 },
    /// SEND_MESSAGE_V2 with TIMER_DELAY_MS: timer messages, due after `ms`.
    Timer { ms: u64 },
    /// PULL_MESSAGE from the first message of each queue to its end, again and again.
    Pull,
    /// PULL_MESSAGE that waits at the broker, one for each queue, from its end on.
    Push,
    /// POP_MESSAGE that waits at the broker, one for each target, and ACK_MESSAGE for each message that
    /// came. A target stands for all queues of its topic at its broker.
    Pop { invisible_ms: u64 },
}

impl Kind {
    pub fn consumes(self) -> bool {
        matches!(self, Kind::Pull | Kind::Push | Kind::Pop { .. })
    }

    /// How long its messages are delayed on purpose, ms.
    pub fn delay_ms(self) -> Option<u64> {
        match self {
            Kind::Delay { ms, .. } | Kind::Timer { ms } => Some(ms),
            _ => None,
        }
    }

    /// Whether requests without an answer are among its own.
    pub fn unanswered(self) -> bool {
        matches!(self, Kind::Oneway | Kind::Transaction { oneway: true })
    }

    /// Whether it receives messages as they come.
    pub fn follows(self) -> bool {
        matches!(self, Kind::Push | Kind::Pop { .. })
    }
}

#[derive(Clone, Debug)]
pub struct Role {
    pub kind: Kind,
    pub connections: usize,
    /// Requests under way on each connection; of a push consumer one for each of its queues.
    pub in_flight: usize,
    /// Messages a second of all its connections; `None`: as fast as answers come.
    pub rate: Option<f64>,
    /// Bodies, used in turns; at least one for a producer.
    pub payloads: Vec<Vec<u8>>,
    /// Whether `payloads` are compressed with zlib.
    pub compressed: bool,
    /// WAIT: whether the broker answers after the flush (SYNC_FLUSH).
    pub wait: bool,
    /// TAGS and their weights; empty: none.
    pub tags: Vec<(String, f64)>,
    /// KEYS of so many different values in turns; 0: none.
    pub keys: u64,
    /// Further properties of each message.
    pub properties: Vec<(String, String)>,
    pub group: String,
    pub targets: Vec<Target>,
    /// Messages asked for by a pull or a pop.
    pub max_msgs: u32,
    /// What a consumer subscribes to, and in which language: TAG or SQL92.
    pub subscription: String,
    pub expression: String,
    /// A push or pop consumer that begins with the first message of its queues.
    pub from_start: bool,
    /// A push or pop consumer that begins when the producers have ended: it reads back.
    pub held: bool,
}

#[derive(Clone, Debug)]
pub struct Config {
    pub roles: Vec<Role>,
    pub threads: usize,
    /// Seconds of the measured window.
    pub duration: Option<f64>,
    /// Messages to send, or to receive where nobody sends.
    pub count: Option<u64>,
    /// Seconds of load before the window.
    pub warmup: f64,
    /// Seconds until a request without an answer is given up.
    pub timeout: f64,
    /// Seconds without a new message until what is missing is lost.
    pub settle: f64,
    /// Whether the run goes on when a connection is lost.
    pub go_on: bool,
    /// Headers in RocketMQ's binary form; else in JSON.
    pub binary: bool,
    pub verify: bool,
    pub pids: Vec<u32>,
    /// Where the HdrHistogram interval log is written.
    pub hdr: Option<std::path::PathBuf>,
    /// Who signs all requests; None: they are not signed.
    pub credentials: Option<Credentials>,
    /// None: plain connections.
    pub tls: Option<Tls>,
}

/// How brokers are reached with TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    pub config: Arc<ClientConfig>,
    /// Names that brokers have in their certificates; of others that is the IP address.
    pub names: HashMap<SocketAddr, ServerName<'static>>,
}

impl Tls {
    pub fn name_of(&self, addr: SocketAddr) -> ServerName<'static> {
        let known = self.names.get(&addr).cloned();
        known.unwrap_or_else(|| ServerName::IpAddress(addr.ip().into()))
    }
}

/// Producers whose messages can be told apart.
pub const MOST_PRODUCERS: usize = 1 << 16;
const MOST_CONNECTIONS: usize = 60_000;
const MOST_IN_FLIGHT: usize = 65_536;
/// Header templates are kept for each queue and tag.
const MOST_TEMPLATES: usize = 1 << 20;
const MOST_DELAY_MS: u64 = 366 * 24 * 3600 * 1000;

impl Config {
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        let bad = |why: &str| Err(why.to_string());
        if self.roles.is_empty() {
            return bad("nothing to do: no producer and no consumer");
        }
        if !(1..=256).contains(&self.threads) {
            return bad("threads must be 1 to 256");
        }
        if self.duration.is_none() && self.count.is_none() {
            return bad("a duration or a count is needed");
        }
        for (name, seconds) in [
            ("duration", self.duration.unwrap_or(1.0)),
            ("timeout", self.timeout),
            ("settle", self.settle),
        ] {
            if !(seconds > 0.0 && seconds <= 1e7) {
                return Err(format!(
                    "{name} must be more than 0 and at most 10,000,000 s"
                ));
            }
        }
        if !(0.0..=1e7).contains(&self.warmup) {
            return bad("warmup must be 0 to 10,000,000 s");
        }
        if self.count == Some(0) {
            return bad("count must be at least 1");
        }
        let pops = self
            .roles
            .iter()
            .any(|r| matches!(r.kind, Kind::Pop { .. }));
        if pops && self.binary {
            return bad(
                "the code of POP_MESSAGE, 200050, does not fit into a binary header: use headers in JSON",
            );
        }
        let connections: usize = self.roles.iter().map(|r| r.connections).sum();
        if connections > MOST_CONNECTIONS {
            return Err(format!(
                "{connections} connections: {MOST_CONNECTIONS} at most"
            ));
        }
        self.credentials
            .as_ref()
            .map_or(Ok(()), Credentials::check)?;
        self.roles.iter().try_for_each(Role::check)
    }
}

impl Role {
    fn check(&self) -> Result<(), String> {
        let bad = |why: &str| Err(why.to_string());
        if self.connections == 0 {
            return bad("at least one connection is needed");
        }
        if !(1..=MOST_IN_FLIGHT).contains(&self.in_flight) {
            return Err(format!("in_flight must be 1 to {MOST_IN_FLIGHT}"));
        }
        if self.targets.is_empty() {
            return bad("no queue to use");
        }
        if self.targets.len().saturating_mul(self.tags.len().max(1)) > MOST_TEMPLATES {
            return bad("too many queues and tags");
        }
        if self.kind.consumes() {
            let (what, most) = match self.kind {
                Kind::Pop { .. } => ("pop", 32),
                _ => ("pull", 1024),
            };
            if !(1..=most).contains(&self.max_msgs) {
                let n = self.max_msgs;
                return Err(format!("a {what} asks for 1 to {most} messages, not {n}"));
            }
            return Ok(());
        }
        if self.rate.is_some_and(|r| !(r > 0.0 && r <= 1e9)) {
            return bad("a rate must be more than 0 and at most 1,000,000,000 messages/s");
        }
        if self.payloads.is_empty() {
            return bad("a producer needs a body to send");
        }
        if let Kind::Batch { messages: 0 } = self.kind {
            return bad("a batch has at least one message");
        }
        if self.kind.delay_ms().is_some_and(|ms| ms > MOST_DELAY_MS) {
            return bad("a message is delayed for more than a year");
        }
        if self
            .tags
            .iter()
            .any(|(_, weight)| !(*weight > 0.0 && weight.is_finite()))
        {
            return bad("the weight of a tag must be more than 0");
        }
        Ok(())
    }

    /// Whether the role sends messages.
    pub fn produces(&self) -> bool {
        !self.kind.consumes()
    }

    /// The brokers of its targets, each once, in their order.
    pub fn brokers(&self) -> Vec<SocketAddr> {
        let mut found: Vec<SocketAddr> = Vec::new();
        for target in &self.targets {
            if !found.contains(&target.addr) {
                found.push(target.addr);
            }
        }
        found
    }
}
